/**
 * The stack: all layers of one host, joined.
 *
 * ```text
 *   inputDatagram ─ tunnel ─┐                    ┌─ tcp ─┐
 *   input ──────────────────┴─ impair (in) ─ ip ─┼─ udp ─┤      replies and what connections have to say:
 *                               ▲     │  │       └─ icmp ┘      written by timeout()
 *                               │     │  └────────────┘
 *                               │     ▼ forward   ▼ output
 *                               │   ┌───────────────┐
 *                 loopback ◀────┼───┤ qdisc         │
 *                               │   └──────┬────────┘
 *                               │          ▼
 *                               │     impair (out) ─▶ pull
 * ```
 *
 * Six entries: {@linkcode Stack.input} (or `inputDatagram`), {@linkcode Stack.timeout}, the calls of `tcp`, `udp` and
 * `icmp`, {@linkcode Stack.pull}, {@linkcode Stack.nextAt}, {@linkcode Stack.pollEvent}. Nothing here waits, reads a
 * clock or calls back. Whoever drives it calls `input` for what came, then `timeout`, then `pull` until that gives
 * `null` or there is no room below, then `pollEvent`, and sleeps until `nextAt`. Early and needless calls do no harm.
 *
 * What always holds: no packet is pulled before its departure time; every packet is in one place, or freed and counted;
 * an interface without packets costs nothing.
 *
 * Packets to an own address go through a fair queue of their own, which keeps departure times like the one to the
 * outside, and come in again; a share of them in each `timeout`, so that a host that talks to itself still hears
 * others.
 *
 * @module
 */

import { DropCounters, DropReason, type DropSink } from "../base/drop.ts";
import { EventQueue, type EventSource } from "../base/event_queue.ts";
import { type Packet, PacketPool } from "../base/packet.ts";
import { Rng } from "../base/rng.ts";
import { type Duration, type Instant, NEVER } from "../base/time.ts";
import { Icmp } from "../icmp/icmp.ts";
import type { IcmpError } from "../icmp/network.ts";
import { type NetemConfig, netemConfig } from "../impair/config.ts";
import { NetemStage } from "../impair/netem_stage.ts";
import { AddressKind, addressKind, isWireKind } from "../ip/address_kind.ts";
import { IpLayer } from "../ip/ip_layer.ts";
import { LOOPBACK_IFINDEX } from "../ip/network.ts";
import { RouteKind } from "../ip/route_table.ts";
import { Fq } from "../qdisc/fq.ts";
import { Pfifo } from "../qdisc/pfifo.ts";
import type { Qdisc } from "../qdisc/qdisc.ts";
import { packetTooBig } from "../tcp/pmtud.ts";
import { Tcp } from "../tcp/tcp.ts";
import { makeEncapsulation } from "../tunnel/make_encapsulation.ts";
import { Keepalives } from "../tunnel/keepalive.ts";
import { emitKeepalive, isKeepalive } from "../tunnel/keepalive_packet.ts";
import type { LearnedBy, Peer } from "../tunnel/peer_table.ts";
import { Tunnel } from "../tunnel/tunnel.ts";
import { Udp } from "../udp/udp.ts";
import { Icmpv4Type, Icmpv6Type } from "../wire/icmp.ts";
import type { IpAddr } from "../wire/ip_addr.ts";
import { type IpHeader, ipHeaderBytes, IpProtocol } from "../wire/ip_header.ts";
import { IPV4_MTU_MIN } from "../wire/ipv4.ts";
import { UDP_HEADER_BYTES } from "../wire/udp.ts";
import { DeviceInterface } from "./device_interface.ts";
import { inspectStack, type StackSnapshot } from "./inspect.ts";
import { InterfaceStages } from "./interface_stages.ts";
import {
  ALLOWED_METRIC,
  type EncapsulationConfig,
  type ImpairConfig,
  type QdiscConfig,
  type RouteType,
  type StackOptions,
} from "./options.ts";
import { type PacketTap, TapPoint } from "./packet_tap.ts";
import { PeerEvents } from "./peer_events.ts";
import { StackNetwork } from "./stack_network.ts";

/**
 * Packets that one `timeout` lets out of the incoming impairments: after a late turn many are due at once, and their
 * acknowledgments must not all be queued before one may leave.
 */
const INGRESS_BUDGET = 64;

/** Looped packets that one `timeout` takes. */
const LOOPBACK_BUDGET = 64;

/** The flow of all keepalives: odd, as it is no local connection. */
const KEEPALIVE_FLOW = 1;

const V4_PROTOCOL_UNREACHABLE = 2;
const V4_PORT_UNREACHABLE = 3;
const V6_PORT_UNREACHABLE = 4;
const V6_UNKNOWN_NEXT_HEADER = 1;

const ROUTE_KINDS: Readonly<Record<RouteType, RouteKind>> = {
  unicast: RouteKind.Unicast,
  blackhole: RouteKind.Blackhole,
  unreachable: RouteKind.Unreachable,
  prohibit: RouteKind.Prohibit,
};

/** All layers of one host. */
export class Stack {
  /** What it was made of. */
  readonly options: StackOptions;
  /** Packets; those given to `input` must come from here, and those got from `pull` go back here. */
  readonly pool: PacketPool;
  /** Drops by reason, of all layers. */
  readonly drops: DropCounters = new DropCounters();
  /** IP: addresses, interfaces and routes. */
  readonly ip: IpLayer;
  /** ICMP: ping. */
  readonly icmp: Icmp;
  /** UDP. */
  readonly udp: Udp;
  /** TCP. */
  readonly tcp: Tcp;
  /** The peers on the underlay, or `null` without encapsulation. */
  readonly tunnel: Tunnel | null;
  /** Keepalives to and from the peers, or `null` without any. */
  readonly keepalives: Keepalives | null;
  /** What happened to the peers. */
  readonly peerEvents: PeerEvents;
  /** The interface to the kernel of this machine, or `null`. */
  readonly device: DeviceInterface | null;
  /** The queueing discipline in front of the outside. */
  readonly qdisc: Qdisc;
  /** Impairments of what comes in. */
  readonly ingress: InterfaceStages = new InterfaceStages();
  /** Impairments of what goes out. */
  readonly egress: InterfaceStages = new InterfaceStages();
  readonly #network: StackNetwork;
  readonly #events = new EventQueue();
  readonly #loopback: Qdisc;
  /** Takes what layers drop, ingress impairments, and everything on the way out. */
  readonly #sink: CountingSink;
  readonly #inSink: CountingSink;
  readonly #outSink: CountingSink;
  readonly #impairRng: Rng;
  #tap: PacketTap | null = null;

  /**
   * Makes a stack at rest.
   *
   * @param options checked already; see `parseHostConfig`
   * @param rng the host's random stream (default that of `options.seed`); it is only forked
   * @param secret four words that nobody can guess, the key of initial sequence numbers and SYN cookies (default drawn
   * from the random stream, which is enough where nobody attacks)
   * @throws {TypeError} if there is neither a stream nor a seed, or no congestion control of the name asked for
   * @throws {RangeError} if the options contradict each other
   */
  constructor(options: StackOptions, rng?: Rng, secret?: Int32Array) {
    if (rng === undefined && options.seed === null) throw new TypeError("a stack needs a seed or a random stream");
    const root = rng ?? new Rng(options.seed!);
    const hashSeed = root.fork("hash").u32() | 0;
    this.options = options;
    this.pool = new PacketPool(options.poolPackets);
    this.#sink = new CountingSink(this.pool, this.drops, TapPoint.In, false);
    this.#inSink = new CountingSink(this.pool, this.drops, TapPoint.In, true);
    this.#outSink = new CountingSink(this.pool, this.drops, TapPoint.Out, true);
    this.qdisc = makeQdisc(options.qdisc, this.#outSink);
    this.#loopback = new Fq({}, this.#outSink);
    this.ip = new IpLayer({
      pool: this.pool,
      sink: this.#sink,
      upper: { input: (p, ip, now) => this.#demux(p, ip, now) },
      lower: { send: (p, now) => this.#send(p, now) },
      hashSeed,
      forward: options.forward,
      clampMss: options.clampMss ?? false,
    });
    const network = this.#network = new StackNetwork({
      pool: this.pool,
      drops: this.drops,
      sink: this.#sink,
      events: this.#events,
      ip: this.ip,
      qdisc: this.qdisc,
      loopback: this.#loopback,
      tcpRng: root.fork("tcp"),
      tcpSecret: secret,
    });
    this.icmp = new Icmp(network, { icmpError: (e, now) => this.#icmpError(e, now) }, root.fork("icmp"));
    this.udp = new Udp(network, root.fork("udp"), options.udp);
    this.tcp = new Tcp(network, options.tcp);
    this.tunnel = makeTunnel(options.encapsulation, hashSeed);
    for (const own of options.addresses) this.ip.addAddress(own);
    this.#impairRng = root.fork("impair");
    this.#addPeers();
    this.device = this.#addDevice();
    this.#addRoutes();
    this.peerEvents = new PeerEvents(this.#events);
    this.keepalives = this.tunnel !== null && options.keepalive ? new Keepalives(options.keepalive) : null;
    if (this.tunnel !== null) this.tunnel.refuse = (peer, address) => this.#refuseEndpoint(peer, address);
    for (const { ifindex } of this.tunnel?.peers ?? []) {
      if (options.peers[ifindex - 1]!.keepalive !== false) this.keepalives?.add(ifindex, 0);
    }
  }

  /** Looks on at every packet, if set. */
  get tap(): PacketTap | null {
    return this.#tap;
  }

  set tap(tap: PacketTap | null) {
    this.#tap = tap;
    for (const sink of [this.#sink, this.#inSink, this.#outSink]) sink.tap = tap;
  }

  /** Takes a packet that came in by interface `ifindex`, its IP header at `p.start`. */
  input(ifindex: number, p: Packet, now: Instant): void {
    p.ifindex = ifindex;
    const isImpaired = this.ingress.has(ifindex);
    if (this.#tap !== null) this.#tap.packet(isImpaired ? TapPoint.InWire : TapPoint.In, p, now);
    if (!isImpaired) return this.#arrived(p, now);
    const reason = this.ingress.push(p, now);
    if (reason !== DropReason.None) this.#inSink.drop(p, reason, now);
  }

  /** Takes a datagram of the underlay that came from the address of these words and from `port`. */
  inputDatagram(p: Packet, w0: number, w1: number, w2: number, w3: number, port: number, now: Instant): void {
    const { tunnel } = this;
    const reason = tunnel === null ? DropReason.UnknownPeer : tunnel.input(p, w0, w1, w2, w3, port, now);
    if (tunnel !== null && tunnel.moved !== null) this.#tellMoved(tunnel, now);
    if (reason !== DropReason.None) return this.#sink.drop(p, reason, now);
    this.input(p.ifindex, p, now);
  }

  /** Lets impaired and looped packets come in, runs due timers, and writes out what connections have to say. */
  timeout(now: Instant): void {
    for (let n = 0; n < INGRESS_BUDGET; n++) {
      const p = this.ingress.pull(now);
      if (p === null) break;
      if (this.#tap !== null) this.#tap.packet(TapPoint.In, p, now);
      this.#arrived(p, now);
    }
    for (let n = 0; n < LOOPBACK_BUDGET; n++) {
      const p = this.#loopback.pull(now);
      if (p === null) break;
      this.#departed(p);
      this.input(LOOPBACK_IFINDEX, p, now);
    }
    this.ip.timeout(now);
    if (this.keepalives !== null) this.#runKeepalives(this.keepalives, now);
    this.icmp.timeout(now);
    this.tcp.timeout(now);
  }

  /**
   * The next packet that leaves now, by interface `p.ifindex`; `null` if none does.
   *
   * @returns an IP packet, which the caller frees into `pool` when it is sent
   */
  pull(now: Instant): Packet | null {
    const { keepalives } = this;
    if (keepalives === null) return this.#pullQueued(now);
    // Before what is queued, which need not ever come to an end; a keepalive is due once an interval at most.
    const keepalive = this.#pullKeepalive(keepalives, now);
    if (keepalive !== null) return keepalive;
    const p = this.#pullQueued(now);
    if (p !== null) keepalives.onSent(p.ifindex, now);
    return p;
  }

  #pullQueued(now: Instant): Packet | null {
    for (;;) {
      const impaired = this.egress.pull(now);
      if (impaired !== null) {
        if (this.#tap !== null) this.#tap.packet(TapPoint.OutWire, impaired, now);
        return impaired;
      }
      const p = this.qdisc.pull(now);
      if (p === null) return null;
      if (this.#tap !== null) this.#tap.packet(TapPoint.Out, p, now);
      this.#departed(p);
      if (!this.egress.has(p.ifindex)) return p;
      const reason = this.egress.push(p, now);
      if (reason !== DropReason.None) this.#outSink.drop(p, reason, now);
    }
  }

  /** When `timeout` or `pull` is next useful; a time that has passed means "now". `NEVER` if nothing is to be done. */
  nextAt(): Instant {
    return Math.min(
      this.qdisc.nextAt(),
      this.egress.nextAt(),
      this.ingress.nextAt(),
      this.#loopback.nextAt(),
      this.tcp.nextAt(),
      this.icmp.nextAt(),
      this.ip.nextAt(),
      this.keepalives === null ? NEVER : this.keepalives.nextAt(),
    );
  }

  /**
   * Impairs one direction of a peer otherwise from `now` on. What is held is neither lost nor overtaken, unless that is
   * what the impairment is to do; random streams go on.
   *
   * @param ifindex the peer's
   * @param direction `"in"` for what comes from the peer, `"out"` for what goes to it
   * @param config what it is to be; `null` for none
   * @throws {RangeError} if there is no such peer, or a field of `config` is out of range
   */
  setImpairment(ifindex: number, direction: keyof ImpairConfig, config: NetemConfig | null, now: Instant): void {
    const peer = this.options.peers[ifindex - 1];
    if (peer === undefined) throw new RangeError(`there is no peer with interface ${ifindex}`);
    const checked = config === null ? null : netemConfig(config);
    const rng = this.#impairRng.fork(peer.name).fork(direction);
    const [stages, sink] = direction === "in" ? [this.ingress, this.#inSink] : [this.egress, this.#outSink];
    stages.change(ifindex, checked, (first) => new NetemStage(first, rng, this.pool, sink, now), now);
  }

  /**
   * Gives a peer another endpoint. Nothing that is queued for it is lost; it goes there.
   *
   * @param by where that is known from
   * @returns `""`, or why the peer stays where it is
   * @throws {RangeError} if there is no such peer
   */
  movePeer(ifindex: number, address: IpAddr, port: number, by: LearnedBy, now: Instant): string {
    const { tunnel } = this;
    const peer = tunnel?.peers.byIfindex(ifindex) ?? null;
    if (tunnel === null || peer === null) throw new RangeError(`there is no peer with interface ${ifindex}`);
    if (peer.port === port && peer.address.equals(address)) {
      peer.learnedBy = by;
      return "";
    }
    const why = tunnel.move(peer, address, port, by, now);
    this.#tellMoved(tunnel, now);
    return why;
  }

  /**
   * Says how large a packet the underlay carries to a peer: the MTU of the interface is what the headers leave of that, but no
   * more than was configured. TCP connections that go by it heed it at once.
   *
   * @returns the MTU of the interface in bytes
   * @throws {RangeError} if there is no such peer
   */
  setUnderlayMtu(ifindex: number, underlayMtu: number, now: Instant): number {
    const peer = this.tunnel?.peers.byIfindex(ifindex) ?? null;
    if (peer === null) throw new RangeError(`there is no peer with interface ${ifindex}`);
    const headers = ipHeaderBytes(peer.address.version) + UDP_HEADER_BYTES +
      this.tunnel!.encapsulation.headerBytes(peer.networkId);
    const most = this.options.peers[ifindex - 1]!.mtu;
    const mtu = Math.max(IPV4_MTU_MIN, Math.min(most, underlayMtu - headers));
    const before = this.ip.mtuOf(ifindex);
    if (mtu === before) return mtu;
    this.ip.setMtu(ifindex, mtu);
    if (mtu > before) return mtu;
    for (const t of this.tcp.connections()) {
      const link = this.ip.mtuTo(t.remoteAddress);
      if (link > 0 && link < t.path.mtu) packetTooBig(t, link, now);
    }
    return mtu;
  }

  /**
   * Tells the stack how late it is at departures: TCP then keeps so much more below it that the late ones are made up for.
   *
   * @param lateness 99th percentile (default 0, as under a virtual clock)
   */
  setLateness(lateness: Duration): void {
    this.#network.departureLateness = lateness;
  }

  /** The next socket that has something to tell, or `null`: read its `events`, clear them, act. */
  pollEvent(): EventSource | null {
    return this.#events.poll();
  }

  /** A snapshot of everything, as plain values for JSON; not for every packet. */
  inspect(now: Instant): StackSnapshot {
    return inspectStack(this, now);
  }

  /** Drops every packet that is queued; connections and sockets stay as they are. */
  close(now: Instant): void {
    this.qdisc.close(now);
    this.#loopback.close(now);
    this.ingress.close(now);
    this.egress.close(now);
    this.ip.close(now);
  }

  /** A packet has come to the end of its wire. */
  #arrived(p: Packet, now: Instant): void {
    if (this.keepalives !== null) this.keepalives.onHeard(p.ifindex, now);
    if (isKeepalive(p)) this.#sink.drop(p, DropReason.Keepalive, now);
    else this.ip.input(p, now);
  }

  /** Keeps away from peers that are dead, and comes back to those that are not any more. */
  #runKeepalives(keepalives: Keepalives, now: Instant): void {
    keepalives.timeout(now);
    for (let i = keepalives.pollChange(); i >= 0; i = keepalives.pollChange()) {
      const isDead = keepalives.isDead(i);
      this.ip.routes.setDown(i, isDead);
      this.peerEvents.add(this.tunnel!.peers.byIfindex(i)!, isDead ? "dead" : "alive", now);
    }
  }

  /** The next keepalive that leaves now: past the queueing discipline, through the impairment. */
  #pullKeepalive(keepalives: Keepalives, now: Instant): Packet | null {
    for (let ifindex = keepalives.pollSend(); ifindex >= 0; ifindex = keepalives.pollSend()) {
      const p = this.pool.acquire();
      if (p === null) {
        this.drops.count(DropReason.PoolExhausted);
        return null;
      }
      const { allowed } = this.options.peers[ifindex - 1]!;
      p.ifindex = ifindex;
      p.flow = KEEPALIVE_FLOW;
      emitKeepalive(p, this.ip.sourceFor(allowed[0]!.address) ?? this.ip.addresses[0]!.address);
      if (this.#tap !== null) this.#tap.packet(TapPoint.Out, p, now);
      if (!this.egress.has(ifindex)) return p;
      const reason = this.egress.push(p, now);
      if (reason !== DropReason.None) this.#outSink.drop(p, reason, now);
    }
    return null;
  }

  #tellMoved(tunnel: Tunnel, now: Instant): void {
    const peer = tunnel.moved;
    if (peer === null) return;
    tunnel.moved = null;
    this.keepalives?.sendNow(peer.ifindex, now);
    this.peerEvents.add(peer, "moved", now);
  }

  /**
   * Why a peer may not be at this address of the underlay: because no host can be, or a route leads there through the tunnel,
   * be it one that is down just now, or the kernel does so by its device. A default route of ours is let pass, since the underlay
   * is not reached by these routes; nor are addresses behind the kernel inside the tunnel.
   */
  #refuseEndpoint(peer: Peer, address: IpAddr): string {
    const { w0, w1, w2, w3 } = address;
    const kind = addressKind(address.version, w0, w1, w2, w3);
    if (!isWireKind(kind) && kind !== AddressKind.Loopback) {
      return `${address} is no address of a host: it is ${AddressKind[kind]!.toLowerCase()}`;
    }
    // Which link it is on is not known: nothing could be sent there.
    if (address.version === 6 && kind === AddressKind.LinkLocal) return `${address} is link-local, and needs a zone`;
    if (this.ip.isLocal(w0, w1, w2, w3)) return `${address} is this host's own, inside the tunnel`;
    const route = this.ip.routes.lookup(w0, w1, w2, w3);
    const routed = this.options.tun?.routes.find((prefix) => prefix.contains(address)) ??
      this.options.tun?.addresses.find(({ prefix }) => prefix.contains(address))?.prefix;
    if (routed !== undefined) return `${address} is what the kernel routes to the tunnel: ${routed}`;
    const isInside = route !== null && route.kind === RouteKind.Unicast && route.ifindex !== this.device?.ifindex;
    const inside = isInside ? route.prefix : peer.allowed.find((prefix) => prefix.contains(address));
    return inside === undefined || inside.length === 0 ? "" : `${address} is behind the tunnel itself: ${inside}`;
  }

  /** TCP small queues: a local connection may have more to send once a packet of its own has left. */
  #departed(p: Packet): void {
    if ((p.flow & 1) === 0 && p.flow !== 0) this.tcp.departed(p.flow);
  }

  #send(p: Packet, now: Instant): void {
    const reason = p.ifindex === LOOPBACK_IFINDEX ? this.#loopback.push(p, now) : this.qdisc.push(p, now);
    if (reason !== DropReason.None) this.#outSink.drop(p, reason, now);
  }

  /** Gives a packet for this host to its transport. */
  #demux(p: Packet, ip: IpHeader, now: Instant): void {
    const v4 = ip.version === 4;
    switch (ip.protocol) {
      case IpProtocol.Tcp:
        return this.tcp.input(p, ip, now);
      case IpProtocol.Udp: {
        const reason = this.udp.input(p, ip, now);
        if (reason === DropReason.NoSocket) {
          const type = v4 ? Icmpv4Type.Unreachable : Icmpv6Type.Unreachable;
          this.ip.sendError(p, ip, type, v4 ? V4_PORT_UNREACHABLE : V6_PORT_UNREACHABLE, 0, now);
        }
        if (reason !== DropReason.None) this.#sink.drop(p, reason, now);
        return;
      }
      case IpProtocol.Icmp:
        if (v4) return this.icmp.input(p, ip, now);
        break;
      case IpProtocol.Icmpv6:
        if (!v4) return this.icmp.input(p, ip, now);
        break;
    }
    if (v4) this.ip.sendError(p, ip, Icmpv4Type.Unreachable, V4_PROTOCOL_UNREACHABLE, 0, now);
    else this.ip.sendError(p, ip, Icmpv6Type.ParameterProblem, V6_UNKNOWN_NEXT_HEADER, ip.protocolAt, now);
    this.#sink.drop(p, DropReason.UnknownProtocol, now);
  }

  #icmpError(e: IcmpError, now: Instant): void {
    if (e.protocol === IpProtocol.Udp) this.udp.icmpError(e, now);
    else if (e.protocol === IpProtocol.Tcp) this.tcp.icmpError(e, now);
  }

  #addPeers(): void {
    this.options.peers.forEach((peer, i) => {
      const ifindex = i + 1;
      this.ip.addInterface({ ifindex, name: peer.name, mtu: peer.mtu, reversePath: peer.reversePath ?? null });
      if (this.tunnel !== null && peer.endpoint !== null) {
        const { address, port } = peer.endpoint;
        const { name, vni: networkId } = peer;
        const allowed = peer.accept === undefined ? peer.allowed : [...peer.allowed, ...peer.accept];
        const isEcnNormal = peer.ecn === "normal";
        const roamsBy = peer.roaming ? peer.allowed : [];
        const { learnedBy = "config" } = peer;
        this.tunnel.addPeer({ name, ifindex, address, port, allowed, networkId, isEcnNormal, roamsBy, learnedBy });
      }
      const { in: ingress, out: egress } = peer.impair;
      if (ingress !== null) this.setImpairment(ifindex, "in", ingress, 0);
      if (egress !== null) this.setImpairment(ifindex, "out", egress, 0);
    });
  }

  #addDevice(): DeviceInterface | null {
    const { tun = null, peers } = this.options;
    if (tun === null) return null;
    const ifindex = peers.length + 1;
    this.ip.addInterface({ ifindex, name: tun.name, mtu: tun.mtu, reversePath: tun.reversePath });
    for (const prefix of tun.allowed) this.ip.routes.add(prefix, ifindex, ALLOWED_METRIC);
    return new DeviceInterface(ifindex, tun);
  }

  #addRoutes(): void {
    const { peers, routes } = this.options;
    const byName = new Map(peers.map((peer, i) => [peer.name, i + 1]));
    for (const { to, via, metric, kind = "unicast", weight = 1 } of routes) {
      const ifindex = via === null ? 0 : byName.get(via);
      if (ifindex === undefined) throw new RangeError(`the route to ${to} leads to "${via}", which is no peer`);
      this.ip.routes.add(to, ifindex, { metric, weight, kind: ROUTE_KINDS[kind] });
    }
    peers.forEach((peer, i) => {
      for (const prefix of peer.allowed) this.ip.routes.add(prefix, i + 1, ALLOWED_METRIC);
    });
  }
}

/** Counts and frees what is dropped on one way. */
class CountingSink implements DropSink {
  tap: PacketTap | null = null;
  readonly #pool: PacketPool;
  readonly #drops: DropCounters;
  readonly #point: TapPoint;
  readonly #isIp: boolean;

  /** @param isIp true if everything dropped here is an IP packet; else that is told by a transport header behind it */
  constructor(pool: PacketPool, drops: DropCounters, point: TapPoint, isIp: boolean) {
    this.#pool = pool;
    this.#drops = drops;
    this.#point = point;
    this.#isIp = isIp;
  }

  drop(p: Packet, reason: DropReason, now: Instant): void {
    this.#drops.count(reason);
    if (this.tap !== null && (this.#isIp || p.l4 > p.start)) this.tap.drop(this.#point, p, reason, now);
    this.#pool.release(p);
  }
}

function makeQdisc(config: QdiscConfig, sink: DropSink): Qdisc {
  return config.kind === "fq" ? new Fq(config.options, sink) : new Pfifo(config.options, sink);
}

function makeTunnel({ kind }: EncapsulationConfig, hashSeed: number): Tunnel | null {
  return kind === "none" ? null : new Tunnel(makeEncapsulation(kind), hashSeed);
}
