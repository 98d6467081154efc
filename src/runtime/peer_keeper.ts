/**
 * What is done about a host's peers while it is open: their names are looked up again, the MTUs of their interfaces follow
 * the underlay, and what happens to them is told.
 *
 * @module
 */

import { type Instant, NEVER } from "../base/time.ts";
import { formatEndpoint, isSamePlace } from "../stack/options.ts";
import type { PeerEvent } from "../stack/peer_events.ts";
import type { Stack } from "../stack/stack.ts";
import type { IpAddr } from "../wire/ip_addr.ts";
import type { Driver } from "./driver.ts";
import { EndpointLookups, type LookupInspection, type NamedPeer } from "./endpoint_lookups.ts";
import { isNetGranted } from "./errors.ts";
import { EventStream } from "./event_stream.ts";
import type { ResolveName } from "./lookup.ts";
import type { UdpPort } from "./udp_port.ts";
import { type RouteSource, UnderlayMtu } from "./underlay_mtu.ts";

/** What peers are kept by. */
export interface PeerKeeperParts {
  /** The stack. */
  readonly stack: Stack;
  /** What drives it. */
  readonly driver: Driver;
  /** Its UDP ports. */
  readonly ports: readonly UdpPort[];
  /** Peers that have names. */
  readonly names: readonly NamedPeer[];
  /** What these names were found to be. */
  readonly answers: ReadonlyMap<string, readonly IpAddr[]>;
  /** Looks names up. */
  readonly resolve: ResolveName;
  /** How often names are looked up, in ns. */
  readonly interval: number;
  /** The system's ways, or `null` if they are not known. */
  readonly routes: RouteSource | null;
  /** Told of a fault of the program. */
  fault(error: unknown): void;
}

/** Looks after the peers of one host. */
export class PeerKeeper {
  /** What happens to the peers. */
  readonly events: EventStream<PeerEvent> = new EventStream<PeerEvent>();
  readonly #parts: PeerKeeperParts;
  readonly #lookups: EndpointLookups;
  readonly #mtu: UnderlayMtu | null;
  readonly #ifindexes: ReadonlyMap<string, number>;
  #mtuAt: Instant = NEVER;

  /** Begins. */
  constructor(parts: PeerKeeperParts) {
    const { stack, driver, ports, routes } = parts;
    this.#parts = parts;
    this.#ifindexes = new Map(stack.options.peers.map(({ name }, i) => [name, i + 1]));
    this.#mtu = routes === null ? null : new UnderlayMtu(stack, routes);
    this.#lookups = new EndpointLookups(parts.names, parts.answers, {
      resolve: parts.resolve,
      interval: parts.interval,
      now: () => driver.now(),
      sleepUntil: (at) => driver.sleepUntil(at),
      isOver: () => driver.isStopped,
      random: Math.random,
      addressOf: (ifindex) => stack.tunnel!.peers.byIfindex(ifindex)!.address,
      isDead: (ifindex) => stack.keepalives?.isDead(ifindex) ?? false,
      move: (ifindex, address, port) => this.#move(ifindex, address, port),
      fault: (error) => parts.fault(error),
    });
    stack.peerEvents.user = { onEvents: () => this.#onEvents() };
    if (this.#mtu === null) return;
    this.#mtu.start(driver.now());
    this.#armMtu();
    for (const port of ports) {
      port.onTooBig = (to) => {
        this.#mtu!.tooBig(to);
        this.#armMtu();
      };
    }
  }

  /** What became of the look-ups of names. */
  inspect(): LookupInspection[] {
    return this.#lookups.inspect();
  }

  #onEvents(): void {
    const { stack, driver } = this.#parts;
    for (const event of stack.peerEvents.take()) {
      const ifindex = this.#ifindexes.get(event.peer)!;
      if (event.kind === "dead") this.#lookups.peerDied(ifindex);
      if (event.kind === "moved" && this.#mtu !== null) {
        this.#mtu.peerMoved(stack.tunnel!.peers.byIfindex(ifindex)!, driver.now());
        this.#armMtu();
      }
      this.events.emit(event);
    }
  }

  #move(ifindex: number, address: IpAddr, port: number): string {
    const { stack, driver, ports, routes } = this.#parts;
    if (!ports.some(({ address: own }) => own.version === address.version)) {
      return `this host has no endpoint of IPv${address.version}`;
    }
    if (ports.some((own) => isSamePlace(own, { address, port }))) return "this host itself is there";
    const endpoint = formatEndpoint(address, port);
    if (!isNetGranted(endpoint)) return `it needs --allow-net=${endpoint}`;
    const why = loopTo(stack, address, routes) || stack.movePeer(ifindex, address, port, "dns", driver.now());
    driver.wake();
    return why;
  }

  #armMtu(): void {
    const at = this.#mtu!.nextAt();
    if (at >= this.#mtuAt) return;
    this.#mtuAt = at;
    this.#parts.driver.sleepUntil(at).then(() => {
      if (this.#mtuAt === at) this.#mtuAt = NEVER;
      this.#mtu!.timeout(this.#parts.driver.now());
      this.#armMtu();
    }).catch((error) => {
      if (!this.#parts.driver.isStopped) this.#parts.fault(error);
    });
  }
}

/** Says that the system's way to an address of the underlay leads into the host's own TUN device, if it does; else `""`. */
export function loopTo(stack: Stack, address: IpAddr, routes: RouteSource | null): string {
  const { tun } = stack.options;
  if (!tun || routes === null) return "";
  const source = routes.route(address)?.source;
  if (source === undefined || !tun.addresses.some((own) => own.address.equals(source))) return "";
  return `the system's way to ${address} leads into the tunnel itself: it would send from ${source}, by ${tun.name}`;
}
