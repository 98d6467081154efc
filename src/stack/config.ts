/**
 * The configuration of a host as a user writes it, and how it becomes a {@linkcode HostConfig}.
 *
 * It is checked once and whole: one error names every field that is wrong, with what was found and what was expected.
 * Beyond the form of each field these have to hold: names, addresses, endpoints, allowed prefixes and routes occur once;
 * own addresses are neither those of a network nor behind a peer; no peer is where the host itself listens; routes lead to
 * peers that there are; an interface that carries IPv6 has an MTU of at least 1,280; and no endpoint of a peer lies in a
 * prefix that is itself routed into the tunnel, which almost always means that inner and outer addresses were mixed up
 * (a default route is let through: the underlay is not reached by these routes).
 *
 * @module
 */

import { type Duration, SECOND } from "../base/time.ts";
import type { NetemConfig } from "../impair/config.ts";
import { formatTime } from "../impair/units.ts";
import { AddressKind, addressKind, isWireKind } from "../ip/address_kind.ts";
import { makeEncapsulation } from "../tunnel/make_encapsulation.ts";
import { DEFAULT_TCP_OPTIONS, type TcpOptions } from "../tcp/options.ts";
import { DEFAULT_UDP_OPTIONS, type UdpOptions } from "../udp/udp.ts";
import { type IpAddr, type IpInterface, IpPrefix } from "../wire/ip_addr.ts";
import { ipHeaderBytes } from "../wire/ip_header.ts";
import { IPV6_MTU_MIN } from "../wire/ipv6.ts";
import { PrefixMap } from "../wire/prefix_map.ts";
import { UDP_HEADER_BYTES } from "../wire/udp.ts";
import { ConfigFaults, nearest, type PathStep } from "./config_faults.ts";
import {
  type EndpointName,
  FQ_RATES,
  MTU_MAX,
  parseNames,
  parseShape,
  type ShapedHost,
  type ShapedImpair,
  type ShapedPeer,
  type ShapedTun,
} from "./config_schema.ts";
import {
  ALLOWED_METRIC,
  type EcnMode,
  type EncapsulationConfig,
  type Endpoint,
  formatEndpoint,
  type HostConfig,
  type ImpairConfig,
  isSamePlace,
  type LinuxPortConfig,
  type PeerConfig,
  type QdiscConfig,
  type RouteType,
  type SleeperConfig,
  type TunConfig,
} from "./options.ts";

/** MTU of the underlay, from which the MTU of the tunnel follows if none is given. */
const UNDERLAY_MTU = 1500;

/** How often names of peers are looked up again, if not said otherwise. */
const LOOKUP_INTERVAL: Duration = 300 * SECOND;

/** The name of a TUN device, if not said otherwise. */
const TUN_NAME = "culv%d";

/** The most packets in use, if not said otherwise. */
const POOL_PACKETS = 16_384;

/** An impairment as a user writes it: netem's text, or its fields. */
export type NetemOption = string | Partial<NetemConfig>;

/** Impairments of both directions; text alone is meant for what goes out. */
export type ImpairOption = string | { in?: NetemOption; out?: NetemOption };

/** A peer as a user writes it. */
export interface HostPeerOptions {
  /** Its name (default its endpoint, with `" vni N"` behind it if it has a `vni` of its own). */
  name?: string;
  /**
   * Where it is on the underlay: `"192.0.2.7:4790"`, `"[2001:db8::7]:4790"`, for `openHost` also `"router.example:4790"`:
   * a name is looked up when the host is opened, and again from time to time and when the peer is dead. Left out without
   * encapsulation only.
   */
  endpoint?: string;
  /**
   * The inner prefixes behind it: what it may send from, and what is routed to it. At least one; none that another peer
   * has, and no address of this host.
   */
  allowed: string | string[];
  /** The largest inner packet in bytes, 576 to 1,900 (default that of the host). */
  mtu?: number;
  /**
   * Inner prefixes that it may send from beside `allowed`, though nothing is routed to it for them: where several peers share
   * the traffic to a prefix, each may send from it.
   */
  accept?: string | string[];
  /** Its VXLAN network identifier (default that of the encapsulation). */
  vni?: number;
  /** Its GRE key, 0 for none (default that of the encapsulation). */
  key?: number;
  /** Whether the routes have to know a way back to the source of what comes from it (default that of the host). */
  rpFilter?: "none" | "loose" | "strict";
  /**
   * Whether the ECN field is shown outside the tunnel, where congestion can be marked in it: `"normal"`, or
   * `"compatibility"` (default) unless it is known that the peer carries a mark back in, as Linux does, and this host
   * with the port `"linux"` (RFC 6040). Needs the port `"linux"`.
   */
  ecn?: EcnMode;
  /**
   * Follow the peer when it sends from another endpoint (default false): it is known by an inner source in `allowed`. Nothing of
   * that is authenticated: whoever can send such a datagram takes the peer's traffic over.
   */
  roaming?: boolean;
  /** Whether it gets keepalives, if the host sends any (default true): not for a peer that sends none, as a kernel. */
  keepalive?: boolean;
  /**
   * Impairments. Each direction that is left out has the host's: with `impair: "loss 1%"` in the host, `{ in: "delay
   * 5ms" }` here means that and the loss of what goes out. `{ out: {} }` is for no impairment in that direction.
   */
  impair?: ImpairOption;
}

/** A TUN device as a user writes it. */
export interface HostTunOptions {
  /** Its name, at most 15 characters; `%d` stands for the first free number (default `"culv%d"`). */
  name?: string;
  /**
   * The kernel's addresses on the device, with their prefix lengths: `"10.9.0.2/24"`. They are routed to the kernel; of their
   * networks nothing else is.
   */
  addresses: string | string[];
  /** Prefixes behind the kernel beside its addresses: routed to it, and what it may send from (default none). */
  allowed?: string | string[];
  /**
   * What the kernel routes to the device beside the networks of its addresses (default nothing). No endpoint of a peer may
   * be among it.
   */
  routes?: string | string[];
  /** The largest packet in bytes, 576 to 1,900 (default the least that a peer carries). */
  mtu?: number;
  /**
   * Whether the routes have to know a way back to the source of what comes from the kernel: `"strict"` (default), by the
   * device; `"loose"`, by any interface; `"none"`.
   */
  rpFilter?: "none" | "loose" | "strict";
}

/** The configuration of a host as a user writes it. */
export interface HostOptions {
  /**
   * The host's own inner addresses with their prefix lengths: `"10.7.0.1/24"`. The first and the last address of an IPv4
   * prefix are the network's and the broadcast address, unless it is a /31 or /32.
   */
  address: string | string[];
  /** Endpoints to bind, at most one of each family (default any port, for each family that a peer needs). */
  listen?: string | string[];
  /**
   * What sends and receives the datagrams: `"linux"` (the system's calls by FFI), `"deno"` (`Deno.listenDatagram`),
   * `"dgram"` (`node:dgram`), or `"auto"` (default): the first of these that there is, `"linux"` only if FFI is granted.
   */
  port?: "auto" | "linux" | "deno" | "dgram" | ({ kind: "linux" } & LinuxPortConfig);
  /**
   * How to wait for a deadline: `"timeout"` (a timer), `"hop"` (a timer, then turns of the event loop), `"ppoll"` (in the
   * kernel, by FFI), `"spin"` (as `"hop"`, at last without a pause). Default: what suits the port.
   */
  sleeper?: SleeperConfig;
  /** The peers (default none). */
  peers?: HostPeerOptions[];
  /**
   * Routes beside those to what the peers are allowed: to a prefix, by the name of a peer; or of another `type`, without a peer:
   * `"blackhole"` drops packets in silence, `"unreachable"` and `"prohibit"` answer them. The lowest `metric` (default 0)
   * goes first; routes of one prefix and metric share the flows in proportion to their `weight` (1 to 256, default 1).
   */
  routes?: { to: string; via?: string; metric?: number; type?: RouteType; weight?: number }[];
  /**
   * A TUN device of the system: the kernel of this machine becomes a neighbour, and with `forward` it reaches what is behind
   * the peers. Linux only; needs root, and `--allow-ffi` for the C library. The device is gone when the host is closed.
   */
  tun?: HostTunOptions;
  /** Forward packets that are for others (default false). */
  forward?: boolean;
  /**
   * Whether the routes have to know a way back to the source of a packet that comes in: `"strict"`, by the peer that it came
   * from; `"loose"`, by any; `"none"` (default). Beside it a peer's sources are always held against `allowed`.
   */
  rpFilter?: "none" | "loose" | "strict";
  /** Lower the MSS option of SYNs that are forwarded to what the links carry (default false). */
  clampMss?: boolean;
  /** The largest inner packet in bytes, 576 to 1,900 (default what the underlay leaves). */
  mtu?: number;
  /** The largest packet of the underlay in bytes, at least 576 (default 1,500). */
  underlayMtu?: number;
  /** How packets travel between peers (default `"raw"`). */
  encapsulation?:
    | "raw"
    | "vxlan-gpe"
    | "gue"
    | "gre"
    | "none"
    | { kind: "raw" | "gue" | "none" }
    | { kind: "vxlan-gpe"; vni?: number }
    | { kind: "gre"; key?: number };
  /**
   * Send a peer to whom nothing was sent for so long a keepalive (default never): a time in ns, or text with a unit, of at
   * least 10 ms. It passes the impairments like any packet. Other implementations drop it, and send none.
   */
  keepalive?: Duration | string;
  /**
   * Pass over the routes by a peer of whom nothing was heard for so long, until something is heard again (default never).
   * Longer than `keepalive`, which both sides need for it.
   */
  deadAfter?: Duration | string;
  /**
   * How often names in peers' endpoints are looked up again: a time in ns, or text with a unit, of at least 1 s (default 300 s).
   * While a peer is dead, or its name cannot be looked up, that is done more often: after 1 s, then 2 s, 4 s, and so on.
   */
  lookupInterval?: Duration | string;
  /** The queueing discipline, with options by tc's names (default `"fq"`). */
  qdisc?: "fq" | "pfifo" | { kind: "fq" | "pfifo"; [option: string]: unknown };
  /** Impairments of all peers, each direction for those peers that have none of their own in that direction. */
  impair?: ImpairOption;
  /** Congestion control of TCP by name (default `"cubic"`). */
  congestion?: string;
  /**
   * Settings of TCP; times in ns or as text with a unit. Timeouts of retransmission are at least 1 ms, `maxRto` is not
   * below the two others, and `delayedAck` is below 500 ms.
   */
  tcp?: { [Option in keyof TcpOptions]?: TcpOptions[Option] | (Duration extends TcpOptions[Option] ? string : never) };
  /** Settings of UDP. */
  udp?: Partial<UdpOptions>;
  /** The most packets in use at once (default 16,384). */
  poolPackets?: number;
  /** Seed of all randomness but that of initial sequence numbers, ports and the like (default drawn). */
  seed?: number;
}

/**
 * Checks the form of a configuration in which peers may have names in their endpoints, and gives these names: `null` for
 * a peer that has none. They have to be looked up before {@linkcode parseHostConfig}. Where there are no names at all,
 * nothing is checked.
 *
 * @param input what a user wrote; see {@linkcode HostOptions}
 * @throws {TypeError} if the form of anything is wrong, as {@linkcode parseHostConfig}
 */
export function parseEndpointNames(input: unknown): readonly (EndpointName | null)[] {
  const faults = new ConfigFaults(input);
  const names = parseNames(input, faults);
  faults.throwIfAny();
  return names;
}

/**
 * Checks and completes a configuration.
 *
 * @param input what a user wrote; see {@linkcode HostOptions}
 * @throws {TypeError} if anything is wrong: a message with one line for each fault, which says the field's path, what was
 * found and what was expected
 */
export function parseHostConfig(input: unknown): HostConfig {
  const faults = new ConfigFaults(input);
  const shaped = parseShape(input, faults);
  faults.throwIfAny();
  const config = complete(shaped!);
  checkAddresses(config, faults);
  checkPeers(config, shaped!, faults);
  checkEndpoints(config, faults);
  checkTun(config, shaped!, faults);
  checkRoutes(config, faults);
  checkTcp(config, faults);
  checkKeepalive(config, shaped!, faults);
  faults.throwIfAny();
  return config;
}

function complete(shaped: ShapedHost): HostConfig {
  const encapsulation = completeEncapsulation(shaped);
  const peers = (shaped.peers ?? []).map((peer, i) => completePeer(peer, i, shaped, encapsulation));
  return {
    addresses: shaped.address,
    listen: shaped.listen ?? [],
    lookupInterval: shaped.lookupInterval ?? LOOKUP_INTERVAL,
    port: shaped.port ?? { kind: "auto" },
    sleeper: shaped.sleeper ?? null,
    peers,
    tun: shaped.tun === undefined ? null : completeTun(shaped.tun, shaped, peers),
    routes: (shaped.routes ?? []).map(({ to, via, metric, type, weight }) => ({
      to,
      via: via ?? null,
      metric: metric ?? 0,
      kind: type ?? "unicast",
      weight: weight ?? 1,
    })),
    forward: shaped.forward ?? false,
    clampMss: shaped.clampMss ?? false,
    encapsulation,
    keepalive: shaped.keepalive === undefined
      ? null
      : { interval: shaped.keepalive, deadAfter: shaped.deadAfter ?? Infinity },
    qdisc: completeQdisc(shaped),
    tcp: shaped.congestion === undefined ? shaped.tcp ?? {} : { ...shaped.tcp, congestion: shaped.congestion },
    udp: shaped.udp ?? DEFAULT_UDP_OPTIONS,
    poolPackets: shaped.poolPackets ?? POOL_PACKETS,
    seed: shaped.seed ?? null,
  };
}

function completeEncapsulation(shaped: ShapedHost): EncapsulationConfig {
  const { kind, vni, key } = shaped.encapsulation ?? { kind: "raw" };
  if (kind === "vxlan-gpe") return { kind, vni: vni ?? 0 };
  return kind === "gre" ? { kind, key: key ?? 0 } : { kind };
}

function completeQdisc(shaped: ShapedHost): QdiscConfig {
  const { kind, maxrate, rate, lowRateThreshold, ...options } = shaped.qdisc ?? { kind: "fq" };
  const rates = { maxrate, rate, lowRateThreshold };
  const named = Object.entries(rates).flatMap(([name, value]) =>
    value === undefined ? [] : [[FQ_RATES[name as keyof typeof rates], value]]
  );
  return { kind, options: { ...options, ...Object.fromEntries(named) } };
}

function completePeer(peer: ShapedPeer, i: number, host: ShapedHost, encapsulation: EncapsulationConfig): PeerConfig {
  const endpoint = peer.endpoint ?? null;
  const { kind } = encapsulation;
  const vni = kind === "gre" ? peer.key ?? encapsulation.key : kind === "vxlan-gpe" ? peer.vni ?? encapsulation.vni : 0;
  const rpFilter = peer.rpFilter ?? host.rpFilter ?? "none";
  return {
    name: peer.name ?? defaultName(peer, i),
    endpoint,
    allowed: peer.allowed,
    accept: peer.accept ?? [],
    mtu: peer.mtu ?? host.mtu ?? Math.min(MTU_MAX, tunnelMtu(endpoint, encapsulation.kind, vni, host.underlayMtu)),
    vni,
    reversePath: rpFilter === "none" ? null : rpFilter,
    ecn: peer.ecn ?? "compatibility",
    roaming: peer.roaming ?? false,
    keepalive: peer.keepalive ?? true,
    impair: completeImpair(peer.impair, host.impair),
  };
}

function completeTun(tun: ShapedTun, host: ShapedHost, peers: readonly PeerConfig[]): TunConfig {
  const rpFilter = tun.rpFilter ?? "strict";
  const own = tun.addresses.map(({ address }) => hostPrefix(address));
  return {
    name: tun.name ?? TUN_NAME,
    addresses: tun.addresses,
    allowed: [...own, ...(tun.allowed ?? [])],
    routes: tun.routes ?? [],
    mtu: tun.mtu ?? host.mtu ?? peers.reduce((least, { mtu }) => Math.min(least, mtu), UNDERLAY_MTU),
    reversePath: rpFilter === "none" ? null : rpFilter,
  };
}

/** The prefix that has one address in it. */
function hostPrefix(address: IpAddr): IpPrefix {
  return new IpPrefix(address, address.isV4 ? 32 : 128);
}

/** A name that no other peer has, but one with the same endpoint and VNI, which is refused for that. */
function defaultName({ endpoint, vni, key }: ShapedPeer, i: number): string {
  if (endpoint === undefined) return `peer${i + 1}`;
  const name = formatEndpoint(endpoint.address, endpoint.port);
  return vni !== undefined ? `${name} vni ${vni}` : key !== undefined ? `${name} key ${key}` : name;
}

function completeImpair(own: ShapedImpair | undefined, host: ShapedImpair | undefined): ImpairConfig {
  return { in: own?.in ?? host?.in ?? null, out: own?.out ?? host?.out ?? null };
}

/** The inner MTU that an underlay leaves: nothing is fragmented outside. */
function tunnelMtu(
  endpoint: Endpoint | null,
  kind: EncapsulationConfig["kind"],
  networkId: number,
  underlayMtu: number = UNDERLAY_MTU,
): number {
  if (endpoint === null || kind === "none") return underlayMtu;
  const header = makeEncapsulation(kind).headerBytes(networkId);
  return underlayMtu - ipHeaderBytes(endpoint.address.version) - UDP_HEADER_BYTES - header;
}

function checkAddresses(config: HostConfig, faults: ConfigFaults): void {
  const seen = new Set<string>();
  config.addresses.forEach((own, i) => {
    const { address: a } = own;
    checkHostAddress(own, ["address", i], true, faults);
    if (seen.has(`${a}`)) faults.add(["address", i], "an address that is not in the list already");
    seen.add(`${a}`);
  });
}

/** An address that a host can have in its network. */
function checkHostAddress(own: IpInterface, path: PathStep[], mayLoop: boolean, faults: ConfigFaults): void {
  const { address: a } = own;
  const kind = addressKind(a.version, a.w0, a.w1, a.w2, a.w3);
  if (!isWireKind(kind) && !(mayLoop && kind === AddressKind.Loopback)) {
    faults.add(path, `an address that a host can have, not one that is ${AddressKind[kind]!.toLowerCase()}`);
  }
  const reserved = reservedFor(own);
  if (reserved !== null) faults.add(path, `the address of a host in ${own.prefix}, not ${reserved}`);
}

/** What the first or the last address of an IPv4 network is for (RFC 1122 section 3.2.1.3); a /31 has none (RFC 3021). */
function reservedFor({ address, prefix }: IpInterface): string | null {
  if (!address.isV4 || prefix.length >= 31) return null;
  const hostBits = 0xffffffff >>> prefix.length;
  const host = (address.w3 & hostBits) >>> 0;
  return host === 0 ? "that of the network itself" : host === hostBits ? "its broadcast address" : null;
}

function checkPeers(config: HostConfig, shaped: ShapedHost, faults: ConfigFaults): void {
  const names = new Map<string, number>();
  const hasV6 = config.addresses.some(({ address }) => !address.isV4);
  const ownHosts = new Map(
    config.addresses.map(({ address }, i) => [hostPrefix(address).key, i]),
  );
  const holders = new Map<string, number>();
  const hasName = (i: number): boolean => shaped.peers![i]!.name !== undefined;
  config.peers.forEach((peer, i) => {
    const other = names.get(peer.name);
    // Two default names are the same only with the same endpoint, which is a fault by itself.
    if (other !== undefined && (hasName(i) || hasName(other))) {
      faults.add(["peers", i, "name"], `a name of its own: peers[${other}] has that one`);
    }
    names.set(peer.name, i);
    if (config.encapsulation.kind !== "vxlan-gpe" && shaped.peers![i]!.vni !== undefined) {
      faults.add(["peers", i, "vni"], `nothing: "${config.encapsulation.kind}" has no network identifier`);
    }
    if (config.encapsulation.kind !== "gre" && shaped.peers![i]!.key !== undefined) {
      faults.add(["peers", i, "key"], `nothing: "${config.encapsulation.kind}" has no key`);
    }
    if (peer.mtu < IPV6_MTU_MIN && (hasV6 || peer.allowed.some((prefix) => !prefix.address.isV4))) {
      const path: PathStep[] = shaped.peers![i]!.mtu !== undefined
        ? ["peers", i, "mtu"]
        : shaped.mtu === undefined && shaped.underlayMtu !== undefined
        ? ["underlayMtu"]
        : ["mtu"];
      if (path[0] === "underlayMtu") {
        faults.add(path, `at least ${IPV6_MTU_MIN} and the headers of the tunnel, since IPv6 is used`);
        return;
      }
      faults.add(path, `at least ${IPV6_MTU_MIN}, since IPv6 is used`);
    }
    peer.allowed.forEach((prefix, j) => {
      const path: PathStep[] = ["peers", i, "allowed", j];
      const { key } = prefix;
      const holder = holders.get(key);
      if (holder === i) faults.add(path, "a prefix that is not in the list already");
      else if (holder !== undefined) {
        faults.add(path, `a prefix of its own: peers[${holder}].allowed has ${prefix} too`);
      }
      holders.set(key, i);
      const own = ownHosts.get(key);
      if (own !== undefined) {
        const where = config.addresses.length === 1 ? "address" : `address[${own}]`;
        faults.add(path, `what is behind the peer, not this host's own ${config.addresses[own]} of ${where}`);
      }
    });
  });
}

function checkEndpoints(config: HostConfig, faults: ConfigFaults): void {
  const { kind } = config.encapsulation;
  const families = new Map<number, number>();
  config.listen.forEach(({ address }, i) => {
    if (kind === "none") faults.add(["listen", i], 'nothing, since the encapsulation is "none"');
    const other = families.get(address.version);
    if (other !== undefined) faults.add(["listen", i], `at most one endpoint of IPv${address.version}`);
    families.set(address.version, i);
  });
  const inside = prefixesIntoTunnel(config);
  const seen = new Map<string, number>();
  config.peers.forEach(({ endpoint, vni }, i) => {
    const path: PathStep[] = ["peers", i, "endpoint"];
    if (endpoint === null) {
      if (kind !== "none") faults.add(path, 'an endpoint like "192.0.2.7:4790" or "[2001:db8::7]:4790"');
      return;
    }
    if (kind === "none") return faults.add(path, 'nothing, since the encapsulation is "none"');
    const { address: a, port } = endpoint;
    const addressIs = addressKind(a.version, a.w0, a.w1, a.w2, a.w3);
    if (port === 0) faults.add(path, "a port from 1 to 65535");
    if (!isWireKind(addressIs) && addressIs !== AddressKind.Loopback) {
      faults.add(path, `the address of one host, not one that is ${AddressKind[addressIs]!.toLowerCase()}`);
    }
    if (a.version === 6 && addressIs === AddressKind.LinkLocal) {
      faults.add(path, "an address without a zone: a link-local one needs it, and there is none here");
    }
    if (families.size > 0 && !families.has(a.version)) {
      faults.add(path, `an endpoint of a family that is listened on: "listen" has none of IPv${a.version}`);
    }
    if (config.listen.some((own) => isSamePlace(own, endpoint))) {
      faults.add(path, "the endpoint of another host: this one listens there");
    }
    const key = kind === "raw" ? `${a.key} ${port}` : `${a.key} ${vni}`;
    const other = seen.get(key);
    if (other !== undefined) {
      const what = kind === "raw" ? "address and port" : `address and ${kind === "gre" ? "key" : "vni"}`;
      faults.add(path, `an ${what} of its own: peers[${other}] has the same`);
    }
    seen.set(key, i);
    const place = inside.find(a.w0, a.w1, a.w2, a.w3);
    if (place !== null) {
      const [where, prefixes] = place < 0
        ? [`routes[${-1 - place}]`, [config.routes[-1 - place]!.to]]
        : [`peers[${place}].allowed`, config.peers[place]!.allowed];
      const prefix = prefixes.find((prefix) => prefix.length > 0 && prefix.contains(a));
      faults.add(path, `an address outside the tunnel: ${prefix} of ${where} leads into the tunnel itself`);
    }
  });
}

/** All prefixes that lead into the tunnel, but for default routes: the peer by its index, a route by −1 less its index. */
function prefixesIntoTunnel(config: HostConfig): PrefixMap<number> {
  const map = new PrefixMap<number>(0);
  const add = (prefix: IpPrefix, place: number): void => {
    if (prefix.length > 0) map.add(prefix, place);
  };
  config.peers.forEach(({ allowed }, i) => allowed.forEach((prefix) => add(prefix, i)));
  config.routes.forEach(({ to, via }, i) => {
    if (via !== null) add(to, -1 - i);
  });
  return map;
}

/**
 * What a TUN device leads to is neither here nor behind a peer, and the kernel may not send to it what is meant for the
 * peers' endpoints: that would go round for ever.
 */
function checkTun(config: HostConfig, shaped: ShapedHost, faults: ConfigFaults): void {
  const { tun } = config;
  if (!tun) return;
  tun.addresses.forEach((own, i) => checkHostAddress(own, ["tun", "addresses", i], false, faults));
  const hosts = tun.addresses.length;
  const pathOf = (i: number): PathStep[] => i < hosts ? ["tun", "addresses", i] : ["tun", "allowed", i - hosts];
  const ours = new Set(config.addresses.map(({ address }) => `${hostPrefix(address)}`));
  const peers = new Map(config.peers.flatMap(({ allowed }, i) => allowed.map((prefix) => [`${prefix}`, i])));
  const seen = new Set<string>();
  tun.allowed.forEach((prefix, i) => {
    const text = `${prefix}`;
    if (ours.has(text)) faults.add(pathOf(i), "what is the kernel's: this host itself has that address");
    if (peers.has(text)) faults.add(pathOf(i), `what is the kernel's: peers[${peers.get(text)}].allowed has ${text}`);
    if (seen.has(text)) faults.add(pathOf(i), "what is not in the list already");
    seen.add(text);
  });
  if (tun.mtu < IPV6_MTU_MIN && [...tun.allowed, ...tun.routes].some(({ address }) => !address.isV4)) {
    const path: PathStep[] = shaped.tun!.mtu === undefined && shaped.mtu !== undefined ? ["mtu"] : ["tun", "mtu"];
    faults.add(path, `at least ${IPV6_MTU_MIN}, since IPv6 is used`);
  }
  const routed = [
    ...tun.routes.map((prefix, i) => ({ prefix, path: ["tun", "routes", i] })),
    ...tun.addresses.map(({ prefix }, i) => ({ prefix, path: ["tun", "addresses", i] })),
  ];
  const routes = new Set<string>();
  for (const { prefix, path } of routed) {
    const caught = config.peers.findIndex(({ endpoint }) => endpoint !== null && prefix.contains(endpoint.address));
    if (caught >= 0) {
      const { address } = config.peers[caught]!.endpoint!;
      faults.add(
        path,
        `what leaves out ${address}, the endpoint of peers[${caught}]: the tunnel would lead into itself`,
      );
    }
    const text = `${prefix}`;
    if (path[1] === "routes" && routes.has(text)) faults.add(path, "a prefix that is not in the list already");
    routes.add(text);
  }
}

function checkRoutes(config: HostConfig, faults: ConfigFaults): void {
  const peers = new Map(config.peers.map((peer) => [peer.name, peer]));
  const seen = new Set<string>();
  config.routes.forEach(({ to, via, metric, kind = "unicast" }, i) => {
    const peer = via === null ? undefined : peers.get(via);
    if (kind !== "unicast") {
      if (via !== null) faults.add(["routes", i, "via"], `nothing: a route of type "${kind}" leads to no peer`);
    } else if (via === null) {
      faults.add(["routes", i], 'the name of a peer in "via", or a type other than unicast');
    } else if (peer === undefined) {
      const near = nearest(via, [...peers.keys()]);
      faults.add(["routes", i, "via"], `the name of a peer${near === null ? "" : `; did you mean "${near}"?`}`);
    }
    const key = `${to} ${via} ${metric}`;
    if (seen.has(key)) faults.add(["routes", i], "a route that is not in the list already");
    seen.add(key);
    if (metric === ALLOWED_METRIC && peer?.allowed.some((prefix) => `${prefix}` === `${to}`)) {
      faults.add(["routes", i, "metric"], `another metric: the peer's allowed prefixes have ${ALLOWED_METRIC}`);
    }
  });
}

function checkKeepalive({ encapsulation, keepalive }: HostConfig, shaped: ShapedHost, faults: ConfigFaults): void {
  if (encapsulation.kind === "none") {
    const why = 'nothing, since the encapsulation is "none"';
    if (shaped.keepalive !== undefined) faults.add(["keepalive"], why);
    (shaped.peers ?? []).forEach(({ roaming }, i) => {
      if (roaming === true) faults.add(["peers", i, "roaming"], why);
    });
  }
  if (shaped.deadAfter === undefined) return;
  if (shaped.keepalive === undefined) faults.add(["deadAfter"], 'nothing without "keepalive"');
  else if (keepalive!.interval >= keepalive!.deadAfter) {
    faults.add(["deadAfter"], `more than the interval of keepalives, ${formatTime(shaped.keepalive)}`);
  }
}

/** `maxRto` bounds both the first timeout and the least one; what is left out counts with its default. */
function checkTcp({ tcp }: HostConfig, faults: ConfigFaults): void {
  const { maxRto, ...others } = { ...DEFAULT_TCP_OPTIONS, ...tcp };
  for (const name of ["initialRto", "minRto"] as const) {
    if (others[name] <= maxRto) continue;
    if (tcp.maxRto === undefined) faults.add(["tcp", name], `at most maxRto (${formatTime(maxRto)} by default)`);
    else {
      const byDefault = tcp[name] === undefined ? " by default" : "";
      faults.add(["tcp", "maxRto"], `at least ${name} (${formatTime(others[name])}${byDefault})`);
    }
  }
}
