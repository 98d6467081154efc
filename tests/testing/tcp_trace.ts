/**
 * Packet traces of TCP at virtual times: a TCP alone, whose segments are caught, and to which segments are fed.
 *
 * Sequence numbers in a trace count from each side's initial sequence number (0 is the SYN). The initial sequence
 * numbers themselves lie close below 2^32, so that every trace crosses the wrap. Times are in milliseconds.
 *
 * @module
 */

import { assertEquals, fail } from "@std/assert";
import { DropCounters, DropReason } from "../../src/base/drop.ts";
import { EventQueue, SocketEvent } from "../../src/base/event_queue.ts";
import { type Packet, PacketPool } from "../../src/base/packet.ts";
import { Rng } from "../../src/base/rng.ts";
import { type Instant, MILLISECOND, NEVER } from "../../src/base/time.ts";
import type { TcpNetwork } from "../../src/tcp/network.ts";
import type { TcpOptions } from "../../src/tcp/options.ts";
import { SocketErrorKind } from "../../src/base/errors.ts";
import { Tcb } from "../../src/tcp/tcb.ts";
import { Tcp, type TcpConnectOptions } from "../../src/tcp/tcp.ts";
import { PathMtus } from "../../src/ip/path_mtu.ts";
import { TcpListener } from "../../src/tcp/listener.ts";
import { checksumFinish, checksumSum } from "../../src/wire/checksum.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { IpHeader, ipHeaderBytes, IpProtocol } from "../../src/wire/ip_header.ts";
import { seqDiff } from "../../src/wire/seq.ts";
import {
  ACK,
  CWR,
  ECE,
  emitTcp,
  FIN,
  parseTcp,
  PSH,
  RST,
  SYN,
  TcpHeader,
  tcpHeaderLength,
  URG,
} from "../../src/wire/tcp.ts";
import { checkInvariants } from "./tcp_invariants.ts";

const FLAG_LETTERS: readonly (readonly [string, number])[] = [
  ["F", FIN],
  ["S", SYN],
  ["R", RST],
  ["P", PSH],
  [".", ACK],
  ["U", URG],
  ["E", ECE],
  ["W", CWR],
];

/** A segment of a trace. Flags as tcpdump writes them: `S`, `S.`, `.`, `P.`, `F.`, `R`, `R.`. */
export interface Segment {
  flags: string;
  seq?: number;
  ack?: number;
  len?: number;
  win?: number;
  mss?: number;
  wscale?: number;
  sackOk?: boolean;
  ts?: [val: number, ecr: number] | boolean;
  sack?: [number, number][];
  /** Data as text; sets `len`. */
  data?: string;
  /** Urgent pointer. */
  urgent?: number;
  /** ECN field of the IP header: 0 not capable, 2 ECT(0), 3 CE. */
  ecn?: number;
  /** Expected time in ms, when it is to be checked. */
  at?: number;
}

/** A TCP whose initial sequence number is fixed just below 2^32. */
class TraceTcp extends Tcp {
  protected override generateSequence(): number {
    return TRACE_ISS;
  }
}

/**
 * Traces are of single segments, of windows that are halved: the control is Reno, and what makes the number or time of
 * segments depend on others is off, unless it is what is tested.
 */
const TRACE_OPTIONS: Partial<TcpOptions> = {
  pacing: "off",
  congestion: "reno",
  delayedAck: 40 * MILLISECOND,
  quickAcks: 0,
  sendBufferBytes: 1 << 20,
  receiveBufferBytes: 1 << 20,
  synCookies: false,
};

/** Our initial sequence number in traces. */
export const TRACE_ISS = -5;
/** The peer's initial sequence number in traces. */
export const PEER_ISS = -9;

interface Caught {
  ports: string;
  at: Instant;
  segment: Segment;
  text: string;
}

/** A TCP under test, alone. */
export class TcpTrace implements TcpNetwork {
  readonly events = new EventQueue();
  readonly rng = new Rng(1).fork("tcp");
  readonly drops = new DropCounters();
  readonly pool = new PacketPool(4096);
  readonly local: IpAddr;
  readonly remote: IpAddr;
  readonly tcp: Tcp;
  /** What is known of paths: IP's memory of them, as in a stack. */
  readonly pathMtus = new PathMtus(7);
  now: Instant = 0;
  mtu = 1500;
  /** How late departures are said to be. */
  latency = 0;
  /** Backlog that the queueing discipline claims. */
  backlog = 0;
  /** Packets that may be taken from the pool before it says that there are none. */
  packetsLeft = Infinity;
  /** What the layers below say to each packet. */
  outputReason: DropReason = DropReason.None;
  readonly #caught: Caught[] = [];
  readonly #ip = new IpHeader();
  readonly #header = new TcpHeader();
  #written = 0;
  #read = 0;
  #peerTimestamps = false;
  #lastTsVal = 0;
  localPort = 80;
  remotePort = 40000;

  constructor(options: Partial<TcpOptions> = {}, family: 4 | 6 = 4) {
    this.local = IpAddr.parse(family === 4 ? "10.7.0.1" : "fd07:1:2:3:4:5:6:1");
    this.remote = IpAddr.parse(family === 4 ? "10.7.0.2" : "fd07:a:b:c:d:e:f:2");
    this.tcp = new TraceTcp(this, { ...TRACE_OPTIONS, ...options });
  }

  acquire(): Packet | null {
    if (this.packetsLeft <= 0) return null;
    this.packetsLeft--;
    return this.pool.acquire();
  }
  release(p: Packet): void {
    this.pool.release(p);
  }
  drop(p: Packet, reason: DropReason): void {
    this.drops.count(reason);
    this.pool.release(p);
  }
  sourceFor(): IpAddr {
    return this.local;
  }
  isLocal(address: IpAddr): boolean {
    return address.equals(this.local);
  }
  mtuTo(): number {
    return this.mtu;
  }
  pathMtuTo({ w0, w1, w2, w3 }: IpAddr, now: Instant): number {
    return this.pathMtus.get(w0, w1, w2, w3, this.mtu, now);
  }
  learnPathMtu(w0: number, w1: number, w2: number, w3: number, mtu: number, bytes: number, now: Instant): void {
    this.pathMtus.learn(w0, w1, w2, w3, mtu, bytes, now);
  }
  setFlowRate(): void {}
  resetFlow(): void {}
  lateness(): number {
    return this.latency;
  }
  flowBacklog(): number {
    return this.backlog;
  }

  output(p: Packet, ip: IpHeader, now: Instant): DropReason {
    if (this.outputReason !== DropReason.None) return this.outputReason;
    assertEquals(p.end - p.start + ipHeaderBytes(ip.version) <= this.mtu, true, "packet larger than the MTU");
    const h = this.#header;
    assertEquals(parseTcp(p.view, p.start, p.end, ip, h), DropReason.None);
    const addressed = this.local.equalsWords(ip.src0, ip.src1, ip.src2, ip.src3) &&
      this.remote.equalsWords(ip.dst0, ip.dst1, ip.dst2, ip.dst3);
    assertEquals([addressed, ip.version, h.urgent], [true, this.local.version, 0], "wrong IP header or urgent pointer");
    for (const t of this.tcp.connections()) {
      if (t.localPort !== h.srcPort || t.remotePort !== h.dstPort || (h.flags & RST) !== 0) continue;
      assertEquals(p.flow, t.flow, "wrong flow");
    }
    const segment: Segment = {
      flags: FLAG_LETTERS.filter(([, bit]) => (h.flags & bit) !== 0).map(([letter]) => letter).join(""),
      seq: seqDiff(h.seq, TRACE_ISS),
      len: h.payloadLength,
      win: h.window,
      sackOk: h.sackPermitted,
      ts: h.hasTimestamps ? [h.tsVal, h.tsEcr] : false,
      ecn: ip.trafficClass & 3,
    };
    this.#lastTsVal = h.tsVal;
    if ((h.flags & ACK) !== 0) segment.ack = seqDiff(h.ack, PEER_ISS);
    if (h.mss >= 0) segment.mss = h.mss;
    if (h.windowScale >= 0) segment.wscale = h.windowScale;
    segment.sack = [];
    for (let i = 0; i < h.sackCount; i++) {
      segment.sack.push([seqDiff(h.sackEdges[2 * i]!, PEER_ISS), seqDiff(h.sackEdges[2 * i + 1]!, PEER_ISS)]);
    }
    const bytes = p.bytes.subarray(p.start + h.headerLength, p.end);
    if (this.#written > 0) {
      assertEquals(bytes, pattern(segment.seq! - 1, bytes.length), "wrong bytes sent");
    }
    segment.data = new TextDecoder().decode(bytes);
    const { data: _, ...rest } = segment;
    const ports = `${h.srcPort} ${h.dstPort}`;
    this.#caught.push({ ports, at: Math.max(now, p.departAt), segment, text: JSON.stringify(rest) });
    this.pool.release(p);
    return DropReason.None;
  }

  /** Listens on port 80. */
  listen(backlog = 5): TcpListener {
    const listener = this.tcp.listen(this.local, this.localPort, backlog);
    if (!(listener instanceof TcpListener)) fail(`listen: ${SocketErrorKind[listener]}`);
    return listener;
  }

  /** Connects from port 80 to the peer. */
  connect(options: TcpConnectOptions = {}): Tcb {
    const t = this.tcp.connect(this.remote, this.remotePort, { localPort: this.localPort, ...options }, this.now);
    if (!(t instanceof Tcb)) fail(`connect: ${SocketErrorKind[t]}`);
    return t;
  }

  /**
   * Feeds a segment now and lets the TCP answer.
   *
   * @param flush false to feed further segments before it has its turn
   * @param mutate may spoil the packet
   */
  in(segment: Segment, flush = true, mutate?: (p: Packet) => void): void {
    if (flush) this.flush();
    const p = this.pool.acquire()!;
    const h = this.#header;
    h.srcPort = this.remotePort;
    h.dstPort = this.localPort;
    h.seq = (PEER_ISS + (segment.seq ?? 0)) | 0;
    h.ack = segment.ack === undefined ? 0 : (TRACE_ISS + segment.ack) | 0;
    h.flags = FLAG_LETTERS.filter(([letter]) => segment.flags.includes(letter)).reduce((sum, [, bit]) => sum | bit, 0);
    h.window = segment.win ?? 65535;
    h.urgent = segment.urgent ?? 0;
    h.clearOptions();
    if (segment.mss !== undefined) h.mss = segment.mss;
    if (segment.wscale !== undefined) h.windowScale = segment.wscale;
    h.sackPermitted = segment.sackOk ?? false;
    const ts = segment.ts ?? this.#peerTimestamps;
    if (ts !== false) {
      h.hasTimestamps = true;
      [h.tsVal, h.tsEcr] = ts === true ? [this.peerTsVal, this.#lastTsVal] : ts;
    }
    for (const edge of (segment.sack ?? []).flat()) h.sackEdges[h.sackCount++] = (TRACE_ISS + edge) | 0;
    h.sackCount >>= 1;
    const data = segment.data === undefined
      ? pattern((segment.seq ?? 0) + (segment.flags.includes("S") ? 1 : 0), segment.len ?? 0)
      : new TextEncoder().encode(segment.data);
    p.end = p.start + tcpHeaderLength(h) + data.length;
    p.bytes.set(data, p.end - data.length);
    this.#ip.setAddresses(this.remote, this.local);
    this.#ip.setDefaults(IpProtocol.Tcp, p.length);
    this.#ip.trafficClass = segment.ecn ?? 0;
    emitTcp(p.view, p.start, p.end, this.#ip, h);
    mutate?.(p);
    p.l4 = p.start;
    this.tcp.input(p, this.#ip, this.now);
    if (flush) this.flush();
  }

  /** Makes the TCP checksum of a spoiled packet right again. */
  fixChecksum(p: Packet): void {
    if (p.length < 18) return;
    p.view.setUint16(p.start + 16, 0);
    const sum = checksumSum(p.view, p.start, p.end, this.#ip.pseudoHeaderSum(IpProtocol.Tcp, p.length));
    p.view.setUint16(p.start + 16, checksumFinish(sum));
  }

  /** Lets the TCP send what it has to say now. */
  flush(): void {
    for (let turns = 0; this.tcp.nextAt() <= this.now; turns++) {
      if (turns > 1000) fail("TCP does not come to rest");
      this.tcp.timeout(this.now);
    }
    for (const t of this.tcp.connections()) checkInvariants(t);
  }

  /** Goes on to `ms` milliseconds, running timers at their times. */
  until(ms: number): void {
    const end = ms * MILLISECOND;
    this.flush();
    for (let at = this.tcp.nextAt(); at <= end && at !== NEVER; at = this.tcp.nextAt()) {
      this.now = Math.max(this.now, at);
      this.flush();
    }
    this.now = Math.max(this.now, end);
  }

  /** Goes on by `ms` milliseconds. */
  pass(ms: number): void {
    this.until(this.now / MILLISECOND + ms);
  }

  /** The next segment sent must match: every field that is given is compared, and the ports of the trace. */
  out(expected: Segment): Segment {
    this.flush();
    const caught = this.#caught.shift();
    if (caught === undefined) fail(`expected ${JSON.stringify(expected)}, but nothing was sent`);
    const got: Record<string, unknown> = { ...caught.segment };
    const gotFlags = caught.segment.flags.replace("P", "");
    const problems: string[] = [];
    for (const [key, value] of Object.entries(expected)) {
      if (key === "at") {
        const at = caught.at / MILLISECOND;
        if (Math.abs(at - (value as number)) > 1e-6) problems.push(`time ${at} ms, expected ${value} ms`);
      } else if (key === "flags") {
        if (gotFlags !== (value as string).replace("P", "")) problems.push(`flags ${gotFlags}, expected ${value}`);
      } else if (JSON.stringify(got[key]) !== JSON.stringify(value) && !(key === "ts" && value === true && got.ts)) {
        problems.push(`${key} ${JSON.stringify(got[key])}, expected ${JSON.stringify(value)}`);
      }
    }
    if (caught.ports !== `${this.localPort} ${this.remotePort}`) problems.push(`ports ${caught.ports}`);
    if (problems.length > 0) fail(`${problems.join("; ")} in ${caught.text}`);
    return caught.segment;
  }

  /** Nothing further was sent. */
  quiet(): void {
    this.flush();
    if (this.#caught.length > 0) fail(`unexpected: ${this.#caught.map((c) => c.text).join("\n")}`);
  }

  /** Goes on to `ms` milliseconds, during which nothing may be sent. */
  quietUntil(ms: number): void {
    this.until(ms);
    this.quiet();
  }

  /** Takes everything sent so far. */
  all(): Segment[] {
    this.flush();
    return this.#caught.splice(0).map((c) => c.segment);
  }

  /** The same with the times at which they depart. */
  allCaught(): { at: Instant; segment: Segment }[] {
    this.flush();
    return this.#caught.splice(0);
  }

  /** The packets in use besides those the trace holds (it holds none) must be none. */
  noLeak(): void {
    assertEquals(this.pool.inUse, 0, "packets leaked");
  }

  /** The peer's clock for timestamps: 1 ms a tick, its sign bit about to turn. */
  get peerTsVal(): number {
    return (0x7fffffff - 100 + Math.floor(this.now / MILLISECOND)) | 0;
  }

  /**
   * Opens a connection passively.
   *
   * @param syn options that the peer offers and its window; after `ts: true` all its segments carry timestamps
   * @param rtt round-trip time of the handshake in ms
   */
  established(syn: Partial<Segment> = {}, rtt = 0): Tcb {
    const listener = this.listen();
    this.#peerTimestamps = syn.ts === true;
    this.in({ flags: "S", seq: 0, mss: 1460, ...syn });
    this.out({ flags: "S.", seq: 0, ack: 1 });
    this.pass(rtt);
    this.in({ flags: ".", seq: 1, ack: 1, win: syn.win ?? 65535 });
    this.quiet();
    const t = listener.accept();
    if (t === null) fail("nothing to accept");
    return t;
  }

  /** From now on the peer's segments carry timestamps, each of which echoes the latest of ours. */
  peerSendsTimestamps(): void {
    this.#peerTimestamps = true;
  }

  /** The same actively. */
  opened(syn: Partial<Segment> = {}, rtt = 0): Tcb {
    const t = this.connect();
    this.out({ flags: "S", seq: 0 });
    this.pass(rtt);
    this.#peerTimestamps = syn.ts === true;
    this.in({ flags: "S.", seq: 0, ack: 1, mss: 1460, ...syn });
    this.out({ flags: ".", seq: 1, ack: 1, len: 0 });
    this.quiet();
    return t;
  }

  /** TSval of the latest segment that was sent. */
  get lastTsVal(): number {
    return this.#lastTsVal;
  }

  /** Writes `length` further bytes of {@linkcode pattern}; all that is sent from then on is compared with it. */
  write(t: Tcb, length: number): void {
    assertEquals(t.write(pattern(this.#written, length), 0, length), length);
    this.#written += length;
  }

  /** Writes as much of {@linkcode pattern} as there is room for. */
  fill(t: Tcb): void {
    this.write(t, t.writableBytes);
  }

  /** Reads up to `length` bytes (by default all there is), which must go on with {@linkcode pattern}. */
  read(t: Tcb, length: number = t.readableBytes): number {
    const out = new Uint8Array(length);
    const n = t.read(out);
    // Data fed by `in` begins at its sequence number, and that is 1 for the first byte.
    assertEquals(out.subarray(0, n), pattern(1 + this.#read, n), "wrong bytes read");
    this.#read += n;
    return n;
  }

  /** Bits of events raised on `t` since the last call. */
  eventsOf(t: Tcb): number {
    const bits = t.events;
    t.events = 0;
    return bits;
  }
}

/** The byte at stream offset `i` in generated data: tells any shift apart. */
export function pattern(from: number, length: number): Uint8Array<ArrayBuffer> {
  const data = new Uint8Array(length);
  for (let i = 0; i < length; i++) data[i] = patternByte(from + i);
  return data;
}

/** One byte of {@linkcode pattern}. */
export function patternByte(i: number): number {
  return (Math.imul(i, 0x9e3779b1) >>> 24) & 0xff;
}

/** Reads all that `t` has. */
export function readAll(t: Tcb): Uint8Array {
  const out = new Uint8Array(t.readableBytes);
  t.read(out);
  return out;
}

export { SocketEvent };
