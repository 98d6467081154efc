/**
 * The experiment `edt`: what stamping departures in TCP changes, against spacing them in the queueing discipline.
 *
 * ```text
 *   part 1:  one bulk flow, paced at 24 Mbit/s of payload ───── 0.05 ms each way
 *   part 2:  eight paced bulk flows of 10 Mbit/s + requests ─── FQ at 100 Mbit/s, 0.05 ms each way
 * ```
 *
 * With `qdisc` the round-trip time counts from the hand-over to the queueing discipline, which lets a quantum through and
 * then holds the flow for as long as that takes at its rate; with `edt` it counts from the departure. Part 1 shows srtt,
 * rttvar, the smallest round-trip time and the delivery rate. Part 2 shows how long one-byte answers and answers of
 * 20 kB take that come from the same host as the bulk.
 *
 * Both modes carry the same load. A stamp counts payload, and the queueing discipline counts packets with their headers;
 * so the limit that it is given is larger by these, else its flows would leave more of the link to the requests.
 *
 * All of it is in virtual time: the same seed gives the same figures.
 *
 * @module
 */

import { type EventSource, SocketEvent } from "../base/event_queue.ts";
import { type Duration, type Instant, MICROSECOND, MILLISECOND, NEVER, SECOND } from "../base/time.ts";
import { Simulator } from "../netsim/simulator.ts";
import type { SimApp } from "../netsim/topology.ts";
import type { Stack } from "../stack/stack.ts";
import { formatTcpInfo, type TcpInfo } from "../tcp/info.ts";
import type { PacingMode } from "../tcp/pacing.ts";
import { TcpListener } from "../tcp/listener.ts";
import { Tcb } from "../tcp/tcb.ts";
import { IpAddr } from "../wire/ip_addr.ts";

/** Payload rate of the flow in part 1, in bytes per second: 24 Mbit/s. */
export const EDT_RATE_BYTES_PER_SEC = 3_000_000;

/** One-way delay of the path. */
const ONE_WAY: Duration = 50 * MICROSECOND;

/** The MTU of the path, which is what the simulator gives a link by default. */
const MTU = 1500;

const BULK_PORT = 5001;
const REQUEST_PORT = 7;

/** What is sent, in virtual time and between processes alike. */
export const EDT_PARTS = {
  /** Part 1. */
  bulk: { flows: 1, rateBytesPerSec: EDT_RATE_BYTES_PER_SEC },
  /** Part 2: flows, and the rate of the sending host's link, which is the bottleneck that FQ shares. */
  requests: { flows: 8, rateBytesPerSec: 1_250_000, linkRate: "100mbit" },
  /** Bytes of a large answer. */
  largeAnswerBytes: 20_000,
  /** A request follows the answer to the one before it after a random time of at most this. */
  requestGapMax: 20 * MILLISECOND,
} as const;

/** Bytes of IPv4 and TCP headers, timestamps among them, in a packet of data. */
const HEADER_BYTES = 52;

/** What a flow on a path of that MTU is limited to, so that its payload has the rate `payloadBytesPerSec`. */
export function limitFor(pacing: PacingMode, payloadBytesPerSec: number, mtu: number): number {
  return pacing === "qdisc" ? payloadBytesPerSec * mtu / (mtu - HEADER_BYTES) : payloadBytesPerSec;
}

/** Round-trip times of requests in milliseconds, and what went beside them. */
export interface RequestTimes {
  /** Requests answered. */
  count: number;
  /** Median. */
  p50: number;
  /** 99th percentile. */
  p99: number;
  /** Its standard error: half of how far apart the times are that stand a standard deviation of its rank around it. */
  p99Error: number;
  /** 99.9th percentile. */
  p999: number;
  /** Goodput of all bulk flows in Mbit/s. */
  bulkMbitPerSec: number;
}

/** What one mode gave. */
export interface EdtResult {
  /** How departures were spaced. */
  pacing: PacingMode;
  /** The flow of part 1 at its end. */
  info: TcpInfo;
  /** The same in the line form of `ss -ti`. */
  line: string;
  /** Round-trip time of the bare path in milliseconds. */
  baseRtt: number;
  /** Goodput of the flow in Mbit/s. */
  goodputMbitPerSec: number;
  /** Requests with one-byte answers, beside the bulk flows. */
  small: RequestTimes;
  /** Requests with answers of 20 kB. */
  large: RequestTimes;
}

/** Settings of {@linkcode runEdt}. */
export interface EdtOptions {
  /** Seed of all randomness. Default 1. */
  seed?: number;
  /** Virtual seconds of each part. Default 10. */
  seconds?: number;
}

/** Runs both parts with one kind of pacing. */
export function runEdt(pacing: PacingMode, options: EdtOptions = {}): EdtResult {
  const { seed = 1, seconds = 10 } = options;
  const { info, bytes } = bulkFlow(pacing, seed, seconds);
  return {
    pacing,
    info,
    line: formatTcpInfo(info),
    baseRtt: 2 * ONE_WAY / MILLISECOND,
    goodputMbitPerSec: bytes * 8 / seconds / 1e6,
    small: requestTimes(pacing, seed, seconds, 1),
    large: requestTimes(pacing, seed, seconds, EDT_PARTS.largeAnswerBytes),
  };
}

/** Two joined stacks; b takes connections from a. */
function pair(seed: number, impair: string, onA: SimApp, onB: SimApp): { sim: Simulator; a: Stack; b: Stack } {
  const sim = new Simulator({ seed });
  const a = sim.addStack("a", { address: "10.0.0.1/24", peers: [{ name: "b", allowed: "10.0.0.2" }] }, onA);
  const b = sim.addStack("b", { address: "10.0.0.2/24", peers: [{ name: "a", allowed: "10.0.0.1" }] }, onB);
  const way = impair === "" ? { delay: ONE_WAY } : { delay: ONE_WAY, impair };
  sim.link(["a", 1], ["b", 1], way, way);
  return { sim, a, b };
}

const scratch = new Uint8Array(65536);

/** Keeps the send buffer of every connection filled. */
function fill(source: EventSource): void {
  if (source instanceof Tcb) { while (source.write(scratch, 0, scratch.length) > 0); }
}

/** Reads and forgets. */
class Sink implements SimApp {
  bytes = 0;

  onEvent(source: EventSource): void {
    if (source instanceof TcpListener) source.accept();
    if (source instanceof Tcb) { for (let n = source.read(scratch); n > 0; n = source.read(scratch)) this.bytes += n; }
  }
}

function connect(from: Stack, to: string, port: number, pacing: PacingMode, rate: number, now: Instant): Tcb {
  const maxPacingRateBytesPerSec = limitFor(pacing, rate, MTU);
  const t = from.tcp.connect(IpAddr.parse(to), port, { pacing, maxPacingRateBytesPerSec, noDelay: true }, now);
  if (!(t instanceof Tcb)) throw new Error("the connection was refused");
  return t;
}

function bulkFlow(pacing: PacingMode, seed: number, seconds: number): { info: TcpInfo; bytes: number } {
  const sink = new Sink();
  const { sim, a, b } = pair(seed, "", { onEvent: fill }, sink);
  b.tcp.listen(IpAddr.parse("10.0.0.2"), BULK_PORT);
  const t = connect(a, "10.0.0.2", BULK_PORT, pacing, EDT_RATE_BYTES_PER_SEC, sim.now);
  sim.run(SECOND); // past slow start
  const before = sink.bytes;
  sim.run((1 + seconds) * SECOND);
  return { info: t.info(), bytes: sink.bytes - before };
}

/** Sends a byte at random times, two a 20 ms on average, and times the answers; at most one at a time. */
class Requester implements SimApp {
  readonly times: Duration[] = [];
  conn: Tcb | null = null;
  readonly #answerBytes: number;
  readonly #next: () => Duration;
  readonly #byte = new Uint8Array(1);
  #due: Instant = NEVER;
  #sentAt: Instant = NEVER;
  #missing = 0;

  constructor(answerBytes: number, next: () => Duration) {
    this.#answerBytes = answerBytes;
    this.#next = next;
  }

  start(at: Instant): void {
    this.#due = at;
  }

  onEvent(source: EventSource, _events: number, now: Instant): void {
    if (!(source instanceof Tcb)) return;
    for (let n = source.read(scratch); n > 0; n = source.read(scratch)) {
      if (source !== this.conn) continue;
      this.#missing -= n;
      if (this.#missing > 0) continue;
      this.times.push(now - this.#sentAt);
      this.#due = now + this.#next();
    }
  }

  timeout(now: Instant): void {
    this.#due = NEVER;
    this.#sentAt = now;
    this.#missing = this.#answerBytes;
    this.conn?.write(this.#byte, 0, 1);
  }

  nextAt(): Instant {
    return this.#due;
  }
}

/** The host of the bulk: sends on its own connections, and answers each byte that comes in. */
class Server implements SimApp {
  readonly bulk: Set<EventSource> = new Set();
  readonly #answer: Uint8Array<ArrayBuffer>;

  constructor(answerBytes: number) {
    this.#answer = new Uint8Array(answerBytes);
  }

  onEvent(source: EventSource, events: number): void {
    if (this.bulk.has(source)) return fill(source);
    if (source instanceof TcpListener) {
      const conn = source.accept();
      if (conn !== null) conn.noDelay = true;
    }
    if (source instanceof Tcb && (events & SocketEvent.Readable) !== 0) {
      while (source.read(scratch) > 0) source.write(this.#answer, 0, this.#answer.length);
    }
  }
}

function requestTimes(pacing: PacingMode, seed: number, seconds: number, answerBytes: number): RequestTimes {
  const { flows, rateBytesPerSec, linkRate } = EDT_PARTS.requests;
  const server = new Server(answerBytes);
  const sim = new Simulator({ seed });
  const rng = sim.rng.fork("requests");
  const requester = new Requester(answerBytes, () => Math.round(rng.unit() * EDT_PARTS.requestGapMax));
  const sink = new Sink();
  // a sends the bulk and answers; b reads the bulk and asks.
  const onB: SimApp = {
    onEvent(source, events, now) {
      if (source === requester.conn) requester.onEvent(source, events, now);
      else sink.onEvent(source);
    },
    timeout: (now) => requester.timeout(now),
    nextAt: () => requester.nextAt(),
  };
  const tcp = { pacing };
  const qdisc = { kind: "fq" as const, rate: linkRate };
  const a = sim.addStack("a", {
    address: "10.0.0.1/24",
    peers: [{ name: "b", allowed: "10.0.0.2" }],
    tcp,
    qdisc,
  }, server);
  const b = sim.addStack("b", { address: "10.0.0.2/24", peers: [{ name: "a", allowed: "10.0.0.1" }], tcp }, onB);
  sim.link(["a", 1], ["b", 1], { delay: ONE_WAY });
  b.tcp.listen(IpAddr.parse("10.0.0.2"), BULK_PORT);
  a.tcp.listen(IpAddr.parse("10.0.0.1"), REQUEST_PORT);
  for (let i = 0; i < flows; i++) {
    server.bulk.add(connect(a, "10.0.0.2", BULK_PORT, pacing, rateBytesPerSec, sim.now));
  }
  requester.conn = connect(b, "10.0.0.1", REQUEST_PORT, pacing, Infinity, sim.now);
  sim.run(SECOND);
  requester.start(sim.now);
  const before = sink.bytes;
  sim.run((1 + seconds * 4) * SECOND);
  return summarizeRequests(requester.times, (sink.bytes - before) * 8 / (seconds * 4) / 1e6);
}

/** Times of requests, in nanoseconds, by their exact quantiles, and the goodput of the bulk beside them in Mbit/s. */
export function summarizeRequests(times: readonly Duration[], bulkMbitPerSec: number): RequestTimes {
  const sorted = [...times].sort((x, y) => x - y);
  const n = sorted.length;
  const at = (rank: number): number =>
    n === 0 ? 0 : sorted[Math.min(n, Math.max(1, Math.ceil(rank))) - 1]! / MILLISECOND;
  const spread = Math.sqrt(n * 0.99 * 0.01);
  return {
    count: n,
    p50: at(0.5 * n),
    p99: at(0.99 * n),
    p99Error: (at(0.99 * n + spread) - at(0.99 * n - spread)) / 2,
    p999: at(0.999 * n),
    bulkMbitPerSec,
  };
}
