/**
 * An open host: one complete IP stack in this process, and the sockets on it.
 *
 * The host is the engine of its sockets. It keeps the process alive, as a listener of Deno does, until it is closed or
 * unref'd. Closing it first closes all sockets in good order and gives them a while to hand over what was written. A
 * fault of the program in the driver closes it at once: every call is then rejected with that error, and so is
 * {@linkcode Host.closed}'s answer.
 *
 * @module
 */

import { SocketErrorKind } from "../base/errors.ts";
import { type Duration, type Instant, SECOND, toMilliseconds } from "../base/time.ts";
import { type NetAddr, parseHostname } from "../socket/address.ts";
import type { Engine, OpenSocket } from "../socket/engine.ts";
import { ping, type PingAnswer, type PingOptions } from "../socket/ping.ts";
import { requireUserTimeout, type TcpConn } from "../socket/tcp_conn.ts";
import { connectTcp, listenTcp } from "../socket/tcp_connect.ts";
import type { TcpListener } from "../socket/tcp_listener.ts";
import { bindUdp, type UdpConn } from "../socket/udp_conn.ts";
import { StackCapture } from "../stack/capture.ts";
import type { NetemOption } from "../stack/config.ts";
import type { StackSnapshot } from "../stack/inspect.ts";
import type { PeerEvent } from "../stack/peer_events.ts";
import { formatEndpoint } from "../stack/options.ts";
import type { Stack } from "../stack/stack.ts";
import { PACING_MODES, type PacingMode } from "../tcp/pacing.ts";
import type { TcpConnectOptions } from "../tcp/tcp.ts";
import { PATH_MTU_DISCOVERIES, type PathMtuDiscovery } from "../udp/udp_socket.ts";
import { IpAddr } from "../wire/ip_addr.ts";
import type { CaptureFile } from "./capture_file.ts";
import type { Driver, DriverStats } from "./driver.ts";
import type { LookupInspection } from "./endpoint_lookups.ts";
import { denoError } from "./errors.ts";
import { readNetem } from "./impair_files.ts";
import type { DeviceStats, PacketDevice } from "./packet_device.ts";
import type { PeerKeeper } from "./peer_keeper.ts";
import type { UdpPort, UdpPortStats } from "./udp_port.ts";
import type { Underlay, UnderlayChoice } from "./underlay.ts";

/** How to connect. */
export interface ConnectOptions {
  /** IP address of the peer; IPv6 may stand in brackets. */
  hostname: string;
  /** Port of the peer. */
  port: number;
  /** Gives up the attempt, with the signal's reason. */
  signal?: AbortSignal;
  /** Own address to connect from. Default: the one that the route suggests. */
  localAddress?: string;
  /** Own port to connect from. Default: a free one. */
  localPort?: number;
  /** Switch Nagle's algorithm off. Default: as the host is configured. */
  noDelay?: boolean;
  /** Name of the congestion control. Default: as the host is configured. */
  congestion?: string;
  /**
   * How departures are spaced: `edt` stamps them in TCP, `qdisc` has the queueing discipline space them, `internal` waits
   * in TCP, `off` does not. Default: as the host is configured.
   */
  pacing?: PacingMode;
  /** The most that data departs at, in bytes per second, as SO_MAX_PACING_RATE; `Infinity`, the default, for no limit. */
  maxPacingRateBytesPerSec?: number;
  /** Probe the peer when nothing comes, as SO_KEEPALIVE. Default: as the host is configured, which is off by default. */
  keepAlive?: boolean;
  /**
   * How long data may stay unacknowledged before the connection is given up, in ns, as TCP_USER_TIMEOUT; 0 to count
   * retransmissions instead. Default: as the host is configured.
   */
  userTimeout?: number;
}

/** How to listen. */
export interface ListenOptions {
  /** The port. Default 0: any free one. */
  port?: number;
  /** The own address to listen on, `0.0.0.0` or `::` for all of a family. Default: all addresses of the host. */
  hostname?: string;
  /** The most connections that wait to be accepted. Default 511. */
  tcpBacklog?: number;
}

/** Where a datagram socket is bound. */
export interface ListenDatagramOptions {
  /** The port. Default 0: any free one. */
  port?: number;
  /** The own address, `0.0.0.0` or `::` for all of a family. Default: all addresses of the host. */
  hostname?: string;
  /**
   * What becomes of datagrams that are larger than the path carries, as IP_MTU_DISCOVER: `"do"` (default) refuses them, `"want"` and
   * `"dont"` have them fragmented, `"probe"` sends what the link takes whatever is known of the path.
   */
  pathMtuDiscovery?: PathMtuDiscovery;
}

/** How to close a host. */
export interface CloseOptions {
  /**
   * How long to wait, in ns, while a connection makes no progress, be it that its data is not acknowledged or that the
   * peer does not end its own side; then it is reset. Default 1 s.
   */
  patience?: Duration;
}

/** A snapshot of a host: what the stack tells, and what the runtime under it saw. */
export interface HostInspection extends StackSnapshot {
  /** What the driver saw. */
  runtime: DriverStats;
  /** What waits for deadlines, and why. */
  sleeper: UnderlayChoice;
  /** The UDP ports: which implementation and why, and their counters. */
  ports: (UnderlayChoice & { address: string } & UdpPortStats)[];
  /** The TUN device, or `null`; its packets are counted by its interface. */
  tun: TunInspection | null;
  /** The names of peers that are looked up. */
  lookups: LookupInspection[];
  /** Sockets that are open. */
  sockets: number;
}

/** A TUN device. */
export interface TunInspection extends DeviceStats {
  /** Its name. */
  name: string;
  /** The kernel's addresses on it, with their prefix lengths. */
  addresses: string[];
  /** What the kernel routes to it beside their networks. */
  routes: string[];
  /** Largest packet in bytes. */
  mtu: number;
}

/** What a host is made of. */
export interface HostParts {
  /** Its stack. */
  stack: Stack;
  /** What drives the stack. */
  driver: Driver;
  /** Its UDP ports. */
  ports: readonly UdpPort[];
  /** Its TUN device, or `null`. */
  device: PacketDevice | null;
  /** Where its ports and its sleeper come from. */
  underlay: Underlay;
  /** What looks after its peers. */
  keeper: PeerKeeper;
}

const PATIENCE: Duration = SECOND;

/** The longest that packets in the host's own queues are waited for at the end. */
const DRAIN: Duration = SECOND;

/** The engine of a host's sockets. */
class HostEngine implements Engine {
  readonly stack: Stack;
  readonly driver: Driver;
  readonly error = denoError;
  readonly sockets = new Set<OpenSocket>();
  closedBy: Error | null = null;

  constructor(parts: HostParts) {
    this.stack = parts.stack;
    this.driver = parts.driver;
  }

  now(): Instant {
    return this.driver.now();
  }

  wake(): void {
    this.driver.wake();
  }

  sleepUntil(at: Instant, signal?: AbortSignal): Promise<void> {
    return this.driver.sleepUntil(at, signal);
  }

  add(socket: OpenSocket): void {
    this.sockets.add(socket);
  }

  remove(socket: OpenSocket): void {
    this.sockets.delete(socket);
  }

  hold(): void {
    this.driver.hold();
  }

  letGo(): void {
    this.driver.letGo();
  }
}

/** An open host. */
export class Host implements AsyncDisposable {
  /** Its own addresses, each with the length of its network's prefix: `10.7.0.1/24`. */
  readonly addresses: readonly string[];
  /** Where it listens for its peers, one for each address family. */
  readonly endpoints: readonly NetAddr[];
  readonly #engine: HostEngine;
  readonly #ports: readonly UdpPort[];
  readonly #device: PacketDevice | null;
  readonly #underlay: Underlay;
  readonly #keeper: PeerKeeper;
  readonly #closed: PromiseWithResolvers<Error | null> = Promise.withResolvers();
  #closing: Promise<void> | null = null;
  #failedBy: Error | null = null;
  #referenced = false;

  /**
   * Made by `openHost`.
   *
   * @internal
   */
  constructor(parts: HostParts) {
    this.#engine = new HostEngine(parts);
    this.#ports = parts.ports;
    this.#device = parts.device;
    this.#underlay = parts.underlay;
    this.#keeper = parts.keeper;
    this.closed.then(() => this.#keeper.events.end());
    this.addresses = parts.stack.ip.addresses.map(String);
    this.endpoints = parts.ports.map(({ address, port }) => ({
      transport: "udp",
      hostname: address.toString(),
      port,
    }));
    this.ref();
  }

  /**
   * Opens a TCP connection.
   *
   * @throws {Deno.errors.ConnectionRefused} or `TimedOut`, `NetworkUnreachable`, …, saying the cause
   * @throws {TypeError} for an address, a congestion control or a kind of pacing that does not exist
   * @throws {RangeError} for a port, a rate or a timeout out of range
   */
  async connect(options: ConnectOptions): Promise<TcpConn> {
    const { hostname, port, signal, localAddress, localPort, noDelay, congestion, pacing } = options;
    const remote = parseHostname(hostname);
    requirePort("port", port, 1);
    const chosen: TcpConnectOptions = {};
    if (localAddress !== undefined) chosen.localAddress = parseHostname(localAddress);
    if (localPort !== undefined) chosen.localPort = requirePort("local port", localPort, 0);
    if (noDelay !== undefined) chosen.noDelay = noDelay;
    if (congestion !== undefined) chosen.congestion = congestion;
    if (pacing !== undefined) chosen.pacing = requirePacing(pacing);
    const rate = options.maxPacingRateBytesPerSec;
    if (rate !== undefined) chosen.maxPacingRateBytesPerSec = requireRate("maxPacingRateBytesPerSec", rate);
    if (options.keepAlive !== undefined) chosen.keepAlive = options.keepAlive;
    if (options.userTimeout !== undefined) chosen.userTimeout = requireUserTimeout(options.userTimeout);
    return await connectTcp(this.#engine, remote, port, chosen, signal);
  }

  /**
   * Listens for TCP connections.
   *
   * @throws {Deno.errors.AddrInUse} or `AddrNotAvailable`, saying the cause
   */
  listen(options: ListenOptions = {}): TcpListener {
    const { port = 0, hostname, tcpBacklog = 511 } = options;
    requirePort("port", port, 0);
    if (!Number.isInteger(tcpBacklog) || tcpBacklog < 1) {
      throw new RangeError(`tcpBacklog must be an integer of at least 1, got ${tcpBacklog}`);
    }
    return listenTcp(this.#engine, this.#localAddresses(hostname), port, tcpBacklog);
  }

  /**
   * Opens a UDP socket.
   *
   * @throws {Deno.errors.AddrInUse} or `AddrNotAvailable`, saying the cause
   */
  listenDatagram(options: ListenDatagramOptions = {}): UdpConn {
    const { port = 0, hostname, pathMtuDiscovery = "do" } = options;
    requirePort("port", port, 0);
    if (!PATH_MTU_DISCOVERIES.includes(pathMtuDiscovery)) {
      const found = JSON.stringify(pathMtuDiscovery);
      throw new TypeError(`pathMtuDiscovery must be one of ${PATH_MTU_DISCOVERIES.join(", ")}, got ${found}`);
    }
    return bindUdp(this.#engine, this.#localAddresses(hostname), port, pathMtuDiscovery);
  }

  /**
   * Pings an address: an iteration of how each request ended.
   *
   * ```ts ignore
   * for await (const answer of host.ping("10.7.0.2", { count: 3 })) {
   *   if (answer.kind === "reply") console.log(answer.seq, answer.rtt / 1e6, "ms");
   * }
   * ```
   */
  ping(hostname: string, options: PingOptions = {}): AsyncGenerator<PingAnswer, void> {
    return ping(this.#engine, parseHostname(hostname), options);
  }

  /**
   * What happens to the peers from now on: an iteration that ends when the host is closed. Peers that get keepalives are
   * `"alive"` and `"dead"`; those that roam or have names in their endpoints, `"moved"`.
   *
   * ```ts ignore
   * for await (const { peer, kind, endpoint } of host.peerEvents()) console.log(peer, kind, endpoint);
   * ```
   *
   * @param options `signal` ends the iteration, with its reason
   */
  peerEvents(options: { signal?: AbortSignal } = {}): AsyncGenerator<PeerEvent, void> {
    return this.#keeper.events.read(options.signal);
  }

  /** A snapshot as plain data, good for JSON. */
  inspect(): HostInspection {
    const { stack, driver, sockets } = this.#engine;
    return {
      ...stack.inspect(this.#engine.now()),
      runtime: driver.stats(),
      sleeper: this.#underlay.sleeper(),
      ports: this.#ports.map((port) => ({
        kind: port.kind,
        why: this.#underlay.whyPort(port),
        address: formatEndpoint(port.address, port.port),
        ...port.stats(),
      })),
      tun: this.#inspectTun(),
      lookups: this.#keeper.inspect(),
      sockets: sockets.size,
    };
  }

  /**
   * Impairs one direction of a peer otherwise from now on. What is on its way is neither lost nor overtaken, unless that
   * is what the impairment is to do.
   *
   * ```ts ignore
   * host.setImpairment("b", "out", "delay 50ms loss gemodel 1% 25%");
   * host.setImpairment("b", "in", null);
   * ```
   *
   * @param peer name of the peer
   * @param direction `"in"` for what comes from the peer, `"out"` for what goes to it
   * @param impairment netem's text, whose files are read now, or its fields; `null` for none
   * @throws {TypeError} if there is no such peer, or the text cannot be read
   * @throws {RangeError} if a field is out of range
   */
  setImpairment(peer: string, direction: "in" | "out", impairment: NetemOption | null): void {
    const { stack } = this.#engine;
    const names = stack.options.peers.map(({ name }) => name);
    const place = names.indexOf(peer);
    if (place < 0) {
      throw new TypeError(`there is no peer "${peer}": expected ${names.length === 0 ? "none" : names.join(", ")}`);
    }
    if (direction !== "in" && direction !== "out") {
      throw new TypeError(`the direction must be "in" or "out", got ${JSON.stringify(direction)}`);
    }
    const config = impairment === null ? null : readNetem(impairment);
    stack.setImpairment(place + 1, direction, config, this.#engine.now());
    this.#engine.wake();
  }

  /**
   * Records every inner packet into `file` from now on; `null` ends that. The interfaces of the capture are `PEER:out`
   * and `PEER:in`; with an impairment also `PEER:out:wire` behind it, `PEER:in:wire` before it, and `PEER:out:drop` and
   * `PEER:in:drop` for what was dropped, with the reason as the packet's comment.
   */
  capture(file: CaptureFile | null): void {
    const { stack } = this.#engine;
    // Wall time at the stack's instant 0.
    const origin = performance.timeOrigin + performance.now() - toMilliseconds(this.#engine.now());
    stack.tap = file === null ? null : new StackCapture(file.capture, stack.ip.interfaces, origin);
  }

  /** Has the open host keep the process alive, as it does from the start. */
  ref(): void {
    if (this.#referenced || this.#closing !== null) return;
    this.#referenced = true;
    this.#engine.hold();
  }

  /** Has the open host not keep the process alive. Pending calls of its sockets still do. */
  unref(): void {
    if (!this.#referenced) return;
    this.#referenced = false;
    this.#engine.letGo();
  }

  /** Resolves, and never rejects, when the host is closed: with `null`, or with the fault that closed it. */
  get closed(): Promise<Error | null> {
    return this.#closed.promise;
  }

  /**
   * Closes all sockets and the host. What was written is still sent, and waited for while it makes progress, as is the
   * end of each peer's own side. Connections that are left then are reset.
   *
   * @throws {RangeError} if the patience is not a time of at least 0
   */
  close(options: CloseOptions = {}): Promise<void> {
    const { patience = PATIENCE } = options;
    if (!(typeof patience === "number" && patience >= 0)) {
      throw new RangeError(`the patience must be a time of at least 0 ns, got ${patience}`);
    }
    return this.#closing ??= this.#close(patience);
  }

  /**
   * Ends the host at once because of a fault; every pending and later call is rejected with `reason`.
   *
   * @internal
   */
  fail(reason: Error): void {
    if (this.#failedBy !== null) return;
    this.#failedBy = reason;
    this.#engine.closedBy = reason;
    for (const socket of [...this.#engine.sockets]) {
      try {
        socket.fail(reason);
      } catch { /* the fault that is being reported may have broken this, too */ }
    }
    const ended = this.#engine.driver.stop(reason).catch(() => {}).then(() => this.#end()).catch(() => {}).then(() =>
      this.#closed.resolve(reason)
    );
    this.#closing ??= ended;
  }

  /** Closes the host as {@linkcode Host.close} does. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(patience: Duration): Promise<void> {
    const engine = this.#engine;
    engine.hold();
    const reason = engine.error(SocketErrorKind.BadResource, "the host was closed");
    engine.closedBy = reason;
    const sockets = [...engine.sockets];
    await Promise.all(sockets.map((socket) => socket.finish(patience)));
    for (const socket of [...engine.sockets]) socket.fail(reason);
    await engine.driver.drain(engine.now() + Math.min(DRAIN, patience));
    this.unref();
    engine.letGo();
    let problem: unknown = null;
    try {
      await engine.driver.stop(reason);
    } catch (error) {
      problem = error;
      this.#failedBy ??= error instanceof Error ? error : new Error(String(error));
    }
    this.#end();
    this.#closed.resolve(this.#failedBy);
    if (problem !== null) throw problem;
  }

  /** Drops what is still queued, as behind an impairment of seconds. */
  #end(): void {
    this.#engine.stack.close(this.#engine.now());
  }

  #inspectTun(): TunInspection | null {
    const device = this.#device;
    const { tun } = this.#engine.stack.options;
    if (device === null || !tun) return null;
    const { addresses, routes, mtu } = tun;
    return {
      name: device.name,
      addresses: addresses.map(String),
      routes: routes.map(String),
      mtu,
      ...device.stats(),
    };
  }

  #localAddresses(hostname: string | undefined): IpAddr[] {
    if (hostname !== undefined) return [parseHostname(hostname)];
    const own = this.#engine.stack.ip.addresses;
    const any: IpAddr[] = [];
    if (own.some(({ address }) => address.isV4)) any.push(IpAddr.ANY_V4);
    if (own.some(({ address }) => !address.isV4)) any.push(IpAddr.ANY_V6);
    return any;
  }
}

function requirePacing(pacing: PacingMode): PacingMode {
  if (PACING_MODES.includes(pacing)) return pacing;
  throw new TypeError(`pacing must be one of ${PACING_MODES.join(", ")}, got ${JSON.stringify(pacing)}`);
}

function requireRate(what: string, bytesPerSec: number): number {
  if (typeof bytesPerSec === "number" && bytesPerSec > 0) return bytesPerSec;
  throw new RangeError(`${what} must be a number of bytes per second above 0, got ${bytesPerSec}`);
}

function requirePort(what: string, port: number, least: number): number {
  if (!Number.isInteger(port) || port < least || port > 65535) {
    throw new RangeError(`the ${what} must be an integer from ${least} to 65535, got ${port}`);
  }
  return port;
}
