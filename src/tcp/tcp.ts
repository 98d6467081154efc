/**
 * TCP: the table of connections and listeners, and the entries by which segments, time and the application come in.
 *
 * `input` takes a segment, `timeout` runs due timers and lets every connection on the ready list send. A connection
 * gets on that list when a segment, a timer, the application or a departed packet gave it something to do; several
 * reasons in one batch make one turn. `nextAt` is "at once" while the list is not empty.
 *
 * @module
 */

import { DeadlineHeap } from "../base/deadline_heap.ts";
import { DropReason } from "../base/drop.ts";
import { SocketErrorKind } from "../base/errors.ts";
import { hashFinish, hashMix, hashTuple } from "../base/hash.ts";
import { HashTable } from "../base/hash_table.ts";
import type { Packet } from "../base/packet.ts";
import { type Duration, type Instant, SECOND } from "../base/time.ts";
import { IpAddr } from "../wire/ip_addr.ts";
import { IpHeader, IpProtocol } from "../wire/ip_header.ts";
import { seqAdd, seqDiff, seqGe, seqGt } from "../wire/seq.ts";
import { ACK, FIN, parseTcp, RST, SYN, TcpHeader } from "../wire/tcp.ts";
import { AckFacts } from "./ack_facts.ts";
import { destroyConnection } from "./close.ts";
import { AckSample, type CongestionControl, LossSample } from "./congestion/control.ts";
import { makeCongestionControl } from "./congestion/registry.ts";
import { listenInput, openByCookie, startConnect, synSentInput } from "./handshake.ts";
import { dataInput, segmentInput } from "./input.ts";
import { type SegmentError, segmentError } from "./icmp_errors.ts";
import { TcpListener } from "./listener.ts";
import type { TcpNetwork } from "./network.ts";
import { DEFAULT_TCP_OPTIONS, type TcpOptions } from "./options.ts";
import { output, sendResetFor } from "./output.ts";
import type { PacingMode } from "./pacing.ts";
import { HashUse, TcpSecrets } from "./secrets.ts";
import { isSynchronized, TcpState } from "./state.ts";
import { mayHaveCookie, sendCookie, SynCookieCounters, takeCookie } from "./syn_cookies.ts";
import { Tcb } from "./tcb.ts";
import { nextDeadline, runTimers } from "./timers.ts";

/** First port of the dynamic range (RFC 6335 section 6). */
const FIRST_EPHEMERAL_PORT = 49152;
const EPHEMERAL_PORTS = 65536 - FIRST_EPHEMERAL_PORT;

/** So many that are gone are kept among those in TIME-WAIT, besides as many as are there, before they are taken out. */
const TIME_WAITS_OVER = 64;

/** A connection in TIME-WAIT whose peer sent its last timestamp so long ago may be followed by another from the same port. */
const REUSE_AFTER: Duration = SECOND;

/** What may be chosen for one connection. */
export interface TcpConnectOptions {
  /** Address to send from; by default the one that the route suggests. */
  localAddress?: IpAddr;
  /** Port to send from; by default a free one of the dynamic range. */
  localPort?: number;
  /** Switch Nagle's algorithm off. */
  noDelay?: boolean;
  /** Congestion control by name. */
  congestion?: string;
  /** How departures are spaced. */
  pacing?: PacingMode;
  /** The most that the connection is paced at, in bytes per second. */
  maxPacingRateBytesPerSec?: number;
  /** Probe the connection when nothing comes. */
  keepAlive?: boolean;
  /** How long nothing has come before the first probe. */
  keepAliveIdle?: Duration;
  /** Time between probes that are not answered. */
  keepAliveInterval?: Duration;
  /** Probes without an answer before the connection is given up. */
  keepAliveProbes?: number;
  /** How long data may make no progress before the connection is given up; 0 for the number of retransmissions. */
  userTimeout?: Duration;
}

/** The TCP of one host. */
export class Tcp {
  /** Settings. */
  readonly options: TcpOptions;
  /** What lies below. */
  readonly network: TcpNetwork;
  /** The segment being taken. */
  readonly segment: TcpHeader = new TcpHeader();
  /** The IP header of the segment being taken. */
  segmentIp: IpHeader = new IpHeader();
  /** Scratch for the segment being sent. */
  readonly header: TcpHeader = new TcpHeader();
  /** Scratch for the IP header being sent. */
  readonly ipHeader: IpHeader = new IpHeader();
  /** Scratch for the SYN that a cookie stands for. */
  readonly cookieSyn: TcpHeader = new TcpHeader();
  /** Keyed hashes. */
  readonly secrets: TcpSecrets;
  /** Counters of SYN cookies. */
  readonly synCookies: SynCookieCounters = new SynCookieCounters();
  /** Scratch for what congestion controls are told. */
  readonly sample: AckSample = new AckSample();
  /** Scratch for what they are told of a segment that is lost. */
  readonly loss: LossSample = new LossSample();
  /** Scratch for what an acknowledgment says. */
  readonly facts: AckFacts = new AckFacts();

  /** Why the IP layer refused the segment sent last, or `None`. */
  refusal: DropReason = DropReason.None;
  /** When TCP last had its turn. */
  now: Instant = 0;
  /** Connections in TIME-WAIT. */
  timeWaitCount = 0;

  readonly #connections: HashTable<Tcb>;
  readonly #listeners: HashTable<TcpListener> = new HashTable(65536);
  readonly #byId: (Tcb | null)[] = [];
  readonly #freeIds: number[] = [];
  readonly #timers = new DeadlineHeap(64);
  /** The numbers of the connections that are ready, and how many they are: the arrays are never cut, since that frees them. */
  #ready: number[] = [];
  #readyCount = 0;
  #readySpare: number[] = [];
  /** Connections in the order in which they entered TIME-WAIT, from the head on; some are gone. */
  #timeWaits: Tcb[] = [];
  #timeWaitHead = 0;
  #issFloor = 0;
  readonly #hashSeed: number;
  #portSearches = 0;

  /** Makes a TCP without connections. */
  constructor(network: TcpNetwork, options: Partial<TcpOptions> = {}) {
    this.network = network;
    this.options = { ...DEFAULT_TCP_OPTIONS, ...options };
    this.#connections = new HashTable(this.options.connectionLimit);
    this.#hashSeed = network.rng.u32() | 0;
    const draws = network.rng.fork("secret");
    this.secrets = new TcpSecrets(network.secret ?? Int32Array.from({ length: 4 }, () => draws.u32()));
    this.#makeControl(this.options.congestion);
  }

  /** Takes a segment: `p.l4` is its TCP header, `ip` the header before it. */
  input(p: Packet, ip: IpHeader, now: Instant): void {
    this.now = now;
    const s = this.segment;
    const malformed = parseTcp(p.view, p.l4, p.end, ip, s);
    if (malformed !== DropReason.None) return this.network.drop(p, malformed, now);
    this.segmentIp = ip;
    const reason = this.#dispatch(p, ip, now);
    if (reason === DropReason.None) this.network.release(p);
    else this.network.drop(p, reason, now);
  }

  #dispatch(p: Packet, ip: IpHeader, now: Instant): DropReason {
    const s = this.segment;
    const { dst0, dst1, dst2, dst3, src0, src1, src2, src3 } = ip;
    const t = this.#find(dst0, dst1, dst2, dst3, s.dstPort, src0, src1, src2, src3, s.srcPort);
    if (t !== null && t.state === TcpState.TimeWait && this.#mayReopen(t)) {
      // RFC 9293 section 3.10.7.4, RFC 6191: a new incarnation, which begins beyond the old sequence numbers.
      return this.#listen(p, ip, this.#endTimeWait(t, now), now);
    }
    if (t === null) return this.#listen(p, ip, 0, now);
    t.counters.segmentsIn++;
    if (s.payloadLength > 0) t.counters.dataSegmentsIn++;
    let reason: DropReason;
    if (t.state === TcpState.SynSent) {
      reason = synSentInput(t, now);
      if (reason === DropReason.None && isSynchronized(t.state)) {
        // Data and FIN in the SYN-ACK are taken like any other.
        s.seq = seqAdd(s.seq, 1);
        reason = dataInput(t, p, now);
      }
    } else if (t.state === TcpState.SynReceived && this.#bringsCookie(t, ip, now)) {
      const listener = t.listener!;
      destroyConnection(t, now, SocketErrorKind.None, "");
      return this.#openByCookie(listener, p, ip, now);
    } else {
      reason = segmentInput(t, p, now);
    }
    if (this.#byId[t.id] === t) this.schedule(t);
    return reason;
  }

  /** A SYN that may open a connection which is in TIME-WAIT again. */
  #mayReopen(t: Tcb): boolean {
    const s = this.segment;
    if ((s.flags & (SYN | ACK | RST)) !== SYN) return false;
    const listener = this.#findListener(this.segmentIp, s.dstPort);
    if (listener === null || listener.isFull) return false;
    if (this.options.timestamps && s.hasTimestamps) {
      // Old segments have no timestamps, or older ones, and PAWS refuses them.
      if (!t.timestampsOn) return true;
      const newer = seqDiff(s.tsVal, t.tsRecent);
      if (newer !== 0) return newer > 0;
    }
    return seqGe(s.seq, t.rcvNxt);
  }

  /** Gives a connection in TIME-WAIT up for a new incarnation; its sequence numbers begin where this returns. */
  #endTimeWait(t: Tcb, now: Instant): number {
    const floor = seqAdd(t.sndNxt, 65537);
    destroyConnection(t, now, SocketErrorKind.None, "");
    return floor;
  }

  /** True if a new connection may take the place of `t`: timestamps tell the segments of both apart. */
  #mayReuse(t: Tcb, now: Instant): boolean {
    const { timeWaitReuse, timestamps } = this.options;
    return t.state === TcpState.TimeWait && timeWaitReuse && timestamps && t.timestampsOn &&
      now - t.tsRecentAt >= REUSE_AFTER;
  }

  #listen(p: Packet, ip: IpHeader, issFloor: number, now: Instant): DropReason {
    const s = this.segment;
    const listener = this.#findListener(ip, s.dstPort);
    if (listener === null) {
      sendResetFor(this, now);
      return DropReason.TcpNoConnection;
    }
    const kind = s.flags & (SYN | ACK | RST);
    if (kind === ACK && mayHaveCookie(this, listener, now)) {
      if (listener.isOverfull) return DropReason.TcpBacklog;
      if (takeCookie(this, ip, now)) return this.#openByCookie(listener, p, ip, now);
      // What has overtaken the first acknowledgment or data cannot tell the SYN's sequence number: it will come again.
      if (s.payloadLength > 0 || (s.flags & FIN) !== 0) return DropReason.TcpBadAck;
    }
    if (kind === SYN && listener.isFull && !listener.isQueueFull && this.options.synCookies) {
      return sendCookie(this, listener, ip, now);
    }
    if (kind !== SYN || listener.isFull) return listenInput(this, null, listener.isFull, now);
    const local = new IpAddr(ip.dst0, ip.dst1, ip.dst2, ip.dst3);
    const remote = new IpAddr(ip.src0, ip.src1, ip.src2, ip.src3);
    if (this.network.mtuTo(remote) === 0) return DropReason.NoRoute;
    const t = this.#make(local, s.dstPort, remote, s.srcPort, this.options.congestion, now);
    if (t === null) return DropReason.TcpBacklog;
    this.#issFloor = issFloor;
    listener.onOpening(t);
    const reason = listenInput(this, t, false, now);
    this.#issFloor = 0;
    this.schedule(t);
    return reason;
  }

  /**
   * True if the segment for `t`, in SYN-RECEIVED, brings back a cookie: that answered a copy of the SYN when there was no room,
   * and the peer knows nothing of our second answer.
   */
  #bringsCookie(t: Tcb, ip: IpHeader, now: Instant): boolean {
    const { listener } = t;
    const s = this.segment;
    if (listener === null || (s.flags & (SYN | ACK | RST)) !== ACK || s.ack === t.sndNxt) return false;
    return mayHaveCookie(this, listener, now) && takeCookie(this, ip, now);
  }

  /** The acknowledgment of a cookie opens a connection, and its data is taken. */
  #openByCookie(listener: TcpListener, p: Packet, ip: IpHeader, now: Instant): DropReason {
    const s = this.segment;
    const local = new IpAddr(ip.dst0, ip.dst1, ip.dst2, ip.dst3);
    const remote = new IpAddr(ip.src0, ip.src1, ip.src2, ip.src3);
    if (this.network.mtuTo(remote) === 0) return DropReason.NoRoute;
    const t = this.#make(local, s.dstPort, remote, s.srcPort, this.options.congestion, now);
    if (t === null) return DropReason.TcpBacklog;
    t.counters.segmentsIn++;
    listener.onOpening(t);
    openByCookie(t, now);
    const reason = segmentInput(t, p, now);
    if (this.#byId[t.id] === t) this.schedule(t);
    return reason;
  }

  /** Runs due timers and lets every ready connection send. */
  timeout(now: Instant): void {
    this.now = now;
    for (let id = this.#timers.popDue(now); id >= 0; id = this.#timers.popDue(now)) {
      const t = this.#byId[id];
      if (t === null || t === undefined) continue;
      runTimers(t, now);
      if (this.#byId[id] === t) this.schedule(t);
    }
    // One turn for those ready now; what becomes ready meanwhile has its turn in the next call.
    const turn = this.#ready;
    const n = this.#readyCount;
    if (n === 0) return;
    this.#ready = this.#readySpare;
    this.#readyCount = 0;
    this.#readySpare = turn;
    for (let i = 0; i < n; i++) {
      // A number may be another connection's by now, whose turn this is then if it is ready, too.
      const t = this.#byId[turn[i]!];
      if (t === null || t === undefined || !t.ready) continue;
      t.ready = false;
      output(t, now);
      this.schedule(t);
    }
  }

  /** When `timeout` is next useful; 0 ("at once") while a connection is ready. */
  nextAt(): Instant {
    return this.#readyCount > 0 ? 0 : this.#timers.nextAt();
  }

  /** ICMP reports an error about a segment of ours; false if no connection was concerned. */
  icmpError(e: SegmentError, now: Instant): boolean {
    const { src0, src1, src2, src3, dst0, dst1, dst2, dst3 } = e;
    const t = this.#find(src0, src1, src2, src3, e.srcPort, dst0, dst1, dst2, dst3, e.dstPort);
    return t !== null && segmentError(t, e, now);
  }

  /** A packet of this flow has left the queueing discipline. */
  departed(flow: number): void {
    const t = this.#byId[flow >>> 1];
    if (t === null || t === undefined || !t.heldBack) return;
    if (this.network.flowBacklog(flow) < this.options.smallQueueBytes) this.makeReady(t);
  }

  /**
   * Listens on a port.
   *
   * @param local an own address, or the unspecified address of a family for all of them
   * @param port 0 for a free port of the dynamic range
   * @param backlog connections being opened or waiting to be accepted
   */
  listen(local: IpAddr, port: number, backlog = 511): TcpListener | SocketErrorKind {
    if (!local.isUnspecified && !this.network.isLocal(local)) return SocketErrorKind.AddrNotAvailable;
    let chosen = port;
    if (port === 0) {
      chosen = this.#freePort((candidate) => this.#listenerConflict(local, candidate) === null);
      if (chosen < 0) return SocketErrorKind.AddrNotAvailable;
    } else if (this.#listenerConflict(local, port) !== null) {
      return SocketErrorKind.AddrInUse;
    }
    const listener = new TcpListener(this, local, chosen, backlog);
    if (!this.#listeners.insert(this.#portHash(chosen), listener)) return SocketErrorKind.NoBufferSpace;
    return listener;
  }

  /** Forgets a listener; used by `TcpListener.close`. */
  unlisten(listener: TcpListener): void {
    this.#listeners.remove(this.#portHash(listener.localPort), listener);
  }

  /** Begins an active open. The outcome is an event: `Connected`, or `Closed` with `error` saying why. */
  connect(
    remote: IpAddr,
    remotePort: number,
    options: TcpConnectOptions,
    now: Instant,
  ): Tcb | SocketErrorKind {
    if (this.network.mtuTo(remote) === 0) return SocketErrorKind.HostUnreachable;
    const local = options.localAddress ?? this.network.sourceFor(remote);
    if (local === null) return SocketErrorKind.HostUnreachable;
    if (local.isV4 !== remote.isV4 || !this.network.isLocal(local)) return SocketErrorKind.AddrNotAvailable;
    const holder = (port: number): Tcb | null =>
      this.#find(
        local.w0,
        local.w1,
        local.w2,
        local.w3,
        port,
        remote.w0,
        remote.w1,
        remote.w2,
        remote.w3,
        remotePort,
      );
    const mayTake = (port: number): boolean => {
      const old = holder(port);
      return old === null || this.#mayReuse(old, now);
    };
    let port = options.localPort ?? 0;
    if (port === 0) {
      const isOurs = (candidate: number): boolean => this.#listenerConflict(local, candidate) === null;
      port = this.#freePort((candidate) => holder(candidate) === null && isOurs(candidate));
      if (port < 0) port = this.#freePort((candidate) => mayTake(candidate) && isOurs(candidate));
      if (port < 0) return SocketErrorKind.AddrNotAvailable;
    } else if (!mayTake(port)) {
      return SocketErrorKind.AddrInUse;
    }
    const old = holder(port);
    const issFloor = old === null ? 0 : this.#endTimeWait(old, now);
    const t = this.#make(local, port, remote, remotePort, options.congestion ?? this.options.congestion, now);
    if (t === null) return SocketErrorKind.NoBufferSpace;
    if (options.noDelay !== undefined) t.noDelay = options.noDelay;
    if (options.pacing !== undefined) t.pacing = options.pacing;
    if (options.maxPacingRateBytesPerSec !== undefined) t.maxPacingRateBytesPerSec = options.maxPacingRateBytesPerSec;
    if (options.keepAlive !== undefined) t.keepAlive = options.keepAlive;
    if (options.keepAliveIdle !== undefined) t.keepAliveIdle = options.keepAliveIdle;
    if (options.keepAliveInterval !== undefined) t.keepAliveInterval = options.keepAliveInterval;
    if (options.keepAliveProbes !== undefined) t.keepAliveProbes = options.keepAliveProbes;
    if (options.userTimeout !== undefined) t.userTimeout = options.userTimeout;
    this.#issFloor = issFloor;
    startConnect(t, now);
    this.#issFloor = 0;
    if (this.refusal === DropReason.Martian || this.refusal === DropReason.NoRoute) {
      // Our own IP layer will never send it: a broadcast address, say.
      destroyConnection(t, now, SocketErrorKind.HostUnreachable, "");
      return SocketErrorKind.HostUnreachable;
    }
    this.schedule(t);
    return t;
  }

  /** All connections, for inspection. */
  *connections(): IterableIterator<Tcb> {
    for (const t of this.#byId) if (t !== null) yield t;
  }

  /** Number of connections, those in TIME-WAIT included. */
  get connectionCount(): number {
    return this.#connections.size;
  }

  /** Puts the connection on the ready list. */
  makeReady(t: Tcb): void {
    if (t.ready) return;
    t.ready = true;
    this.#ready[this.#readyCount++] = t.id;
  }

  /** Makes sure that the connection's earliest deadline is kept. */
  schedule(t: Tcb): void {
    const deadline = nextDeadline(t);
    if (deadline < this.#timers.get(t.id)) this.#timers.set(t.id, deadline);
  }

  /** Takes the connection out of all tables; used by `destroyConnection`. */
  forget(t: Tcb): void {
    this.#connections.remove(t.hash, t);
    this.#timers.clear(t.id);
    this.#byId[t.id] = null;
    this.#freeIds.push(t.id);
  }

  /** The initial sequence number of a connection, beyond those of the incarnation that it follows, if any. */
  initialSequence(t: Tcb, now: Instant): number {
    const iss = this.generateSequence(t, now);
    return this.#issFloor !== 0 && !seqGt(iss, this.#issFloor) ? this.#issFloor : iss;
  }

  /** A clock of 64 ns plus a keyed hash of the addresses and ports (RFC 6528). */
  protected generateSequence(t: Tcb, now: Instant): number {
    const ports = (t.localPort << 16) | t.remotePort;
    return seqAdd(this.#keyed(HashUse.Sequence, t, ports), Math.floor(now / 64) % 2 ** 32);
  }

  /**
   * Added to the clock for TSval: the same for all connections between two addresses, so that time never goes back for a
   * peer in TIME-WAIT (RFC 7323 section 7.1, RFC 6191).
   */
  timestampOffset(t: Tcb): number {
    return this.#keyed(HashUse.TimestampOffset, t, 0);
  }

  #keyed(use: HashUse, t: Tcb, ports: number): number {
    const { localAddress: l, remoteAddress: r } = t;
    return this.secrets.hash(use, l.w0, l.w1, l.w2, l.w3, r.w0, r.w1, r.w2, r.w3, ports, 0);
  }

  /** `t` has entered TIME-WAIT; used by `enterTimeWait`. */
  noteTimeWait(t: Tcb): void {
    this.timeWaitCount++;
    this.#timeWaits.push(t);
    this.#trimTimeWaits();
  }

  /** A connection was in TIME-WAIT and is gone; used by `destroyConnection`. */
  noteTimeWaitOver(): void {
    this.timeWaitCount--;
    this.#trimTimeWaits();
  }

  #trimTimeWaits(): void {
    if (this.#timeWaits.length <= 2 * this.timeWaitCount + TIME_WAITS_OVER) return;
    this.#timeWaits = this.#timeWaits.filter((waiting) => waiting.state === TcpState.TimeWait);
    this.#timeWaitHead = 0;
  }

  /** Makes room for a connection by ending the one that has been in TIME-WAIT longest; false if there is none. */
  #endOldestTimeWait(now: Instant): boolean {
    while (this.#timeWaitHead < this.#timeWaits.length) {
      const t = this.#timeWaits[this.#timeWaitHead++]!;
      if (t.state !== TcpState.TimeWait) continue;
      destroyConnection(t, now, SocketErrorKind.None, "");
      return true;
    }
    return false;
  }

  #make(
    local: IpAddr,
    localPort: number,
    remote: IpAddr,
    remotePort: number,
    congestion: string,
    now: Instant,
  ): Tcb | null {
    const control = this.#makeControl(congestion);
    if (this.#connections.size >= this.#connections.limit && !this.#endOldestTimeWait(now)) return null;
    const hash = this.#hash(local, localPort, remote, remotePort);
    // Id 0 is not used: flow 0 means "no flow".
    const id = this.#freeIds.pop() ?? Math.max(1, this.#byId.length);
    const t = new Tcb(this, id, local, localPort, remote, remotePort, hash, control);
    if (id === 1 && this.#byId.length === 0) this.#byId.push(null);
    this.#byId[id] = t;
    this.#connections.insert(hash, t);
    this.network.resetFlow(t.flow);
    return t;
  }

  #makeControl(name: string): CongestionControl {
    const { initialCwndSegments, slowStartExit, slowStartGrowth } = this.options;
    return makeCongestionControl(name, {
      mssBytes: 1460,
      initialCwndSegments,
      slowStartExit,
      slowStartGrowth,
      rng: this.network.rng,
    });
  }

  #hash(local: IpAddr, localPort: number, remote: IpAddr, remotePort: number): number {
    return hashTuple(
      this.#hashSeed,
      local.w0,
      local.w1,
      local.w2,
      local.w3,
      remote.w0,
      remote.w1,
      remote.w2,
      remote.w3,
      (localPort << 16) | remotePort,
      IpProtocol.Tcp,
    );
  }

  /** The connection between these addresses (four words each) and ports. */
  #find(
    l0: number,
    l1: number,
    l2: number,
    l3: number,
    localPort: number,
    r0: number,
    r1: number,
    r2: number,
    r3: number,
    remotePort: number,
  ): Tcb | null {
    const ports = (localPort << 16) | remotePort;
    const hash = hashTuple(this.#hashSeed, l0, l1, l2, l3, r0, r1, r2, r3, ports, IpProtocol.Tcp);
    for (let i = this.#connections.first(hash); i >= 0; i = this.#connections.following(i)) {
      const t = this.#connections.at(i);
      if (
        t.localPort === localPort && t.remotePort === remotePort && t.localAddress.equalsWords(l0, l1, l2, l3) &&
        t.remoteAddress.equalsWords(r0, r1, r2, r3)
      ) return t;
    }
    return null;
  }

  #portHash(port: number): number {
    return hashFinish(hashMix(this.#hashSeed, port));
  }

  /** The listener for an incoming SYN: one on exactly this address before one on any. */
  #findListener(ip: IpHeader, port: number): TcpListener | null {
    let any: TcpListener | null = null;
    for (let i = this.#listeners.first(this.#portHash(port)); i >= 0; i = this.#listeners.following(i)) {
      const l = this.#listeners.at(i);
      if (l.localPort !== port) continue;
      if (l.localAddress.equalsWords(ip.dst0, ip.dst1, ip.dst2, ip.dst3)) return l;
      if (l.localAddress.isUnspecified && l.localAddress.version === ip.version) any = l;
    }
    return any;
  }

  /** A listener that stands in the way of one on `local` and `port`. */
  #listenerConflict(local: IpAddr, port: number): TcpListener | null {
    for (let i = this.#listeners.first(this.#portHash(port)); i >= 0; i = this.#listeners.following(i)) {
      const l = this.#listeners.at(i);
      if (l.localPort !== port || l.localAddress.isV4 !== local.isV4) continue;
      if (l.localAddress.equals(local) || l.localAddress.isUnspecified || local.isUnspecified) return l;
    }
    return null;
  }

  /** A free port of the dynamic range, from a random one on (RFC 6056 section 3.3.1), or −1. */
  #freePort(isFree: (port: number) => boolean): number {
    const start = this.secrets.hash(HashUse.Port, 0, 0, 0, 0, 0, 0, 0, 0, 0, this.#portSearches++) >>> 0;
    for (let i = 0; i < EPHEMERAL_PORTS; i++) {
      const port = FIRST_EPHEMERAL_PORT + (start + i) % EPHEMERAL_PORTS;
      if (isFree(port)) return port;
    }
    return -1;
  }
}
