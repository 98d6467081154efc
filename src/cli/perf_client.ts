/**
 * The asking end of `perf`: sets a test up, moves the data, samples the counters, and puts the results together.
 *
 * @module
 */

import { type Duration, type Instant, SECOND, toMilliseconds } from "../base/time.ts";
import type { Host } from "../runtime/host.ts";
import type { NetAddr } from "../socket/address.ts";
import type { TcpConn } from "../socket/tcp_conn.ts";
import { Failure } from "./command.ts";
import { connectSoon, within, writeAll } from "./conn_io.ts";
import type { Interrupt } from "./interrupt.ts";
import { JsonLineWriter, readJsonLines } from "./json_lines.ts";
import { Pacer } from "./pacer.ts";
import {
  datagramStream,
  emitPreface,
  nextStop,
  PerfConnKind,
  type PerfMessage,
  type PerfTest,
  type StreamResult,
  STREAMS_MAX,
} from "./perf_protocol.ts";
import {
  clock,
  DatagramDemux,
  type PerfSender,
  type PerfStream,
  type StreamCounters,
  TcpReceiver,
  TcpSender,
  UdpReceiver,
  UdpSender,
} from "./perf_streams.ts";

/** How long the server may take for an answer. */
const ANSWER_MILLISECONDS = 15_000;

/** What would be left at the end and is shorter than this share of an interval belongs to the interval before. */
const SHORTEST_INTERVAL = 0.1;

/** A stretch of time, and what each stream counted in it. */
export interface PerfInterval {
  /** Seconds from the start. */
  from: number;
  /** Seconds from the start. */
  to: number;
  /** What changed, stream by stream; the jitter and the window are those at the end. */
  streams: StreamCounters[];
}

/** The two ends of a stream by address and port. */
export interface StreamEnds {
  /** Own address and port. */
  local: { hostname: string; port: number };
  /** The server's. */
  remote: { hostname: string; port: number };
}

/** What came out of a test. */
export interface PerfReport {
  /** What was done. */
  test: PerfTest;
  /** The ends of the streams. */
  ends: StreamEnds[];
  /** What was seen while it went on. */
  intervals: PerfInterval[];
  /** What the sending ends counted. */
  sent: StreamResult[];
  /** What the receiving ends counted. */
  received: StreamResult[];
  /** True if a signal ended it early. */
  interrupted: boolean;
}

/** What is told while a test goes on. */
export interface PerfClientEvents {
  /** The streams are connected. */
  onConnected?(ends: readonly StreamEnds[]): void;
  /** An interval has passed. */
  onInterval?(interval: PerfInterval): void;
}

/** What a client is to do. */
export interface PerfClientOptions extends PerfClientEvents {
  /** Where the server is. */
  hostname: string;
  /** Its port. */
  port: number;
  /** The test; the port of UDP is filled in, and a length of 0 becomes what fits the path. */
  test: PerfTest;
  /** Length of the intervals. */
  interval: Duration;
  /** Ends the test early. */
  interrupt: Interrupt;
}

/** The two directions of an agreed test. */
interface Streams {
  readonly local: readonly PerfStream[];
  /** The local senders, if this end sends. */
  readonly senders: readonly PerfSender[];
  readonly ends: StreamEnds[];
  /** Receives to the end, if this end receives. */
  receive(start: Instant, sent: Promise<StreamResult[]>): Promise<void>;
}

/**
 * Runs one test.
 *
 * @throws {Failure} if the server refuses, or does not do its part
 */
export async function runPerf(host: Host, options: PerfClientOptions): Promise<PerfReport> {
  const { hostname, port, interrupt } = options;
  const id = crypto.getRandomValues(new Uint32Array(1))[0]! & ~(STREAMS_MAX - 1);
  const open = async (kind: PerfConnKind, index: number): Promise<TcpConn> => {
    const conn = await connectSoon(host, { hostname, port, signal: interrupt.signal });
    await writeAll(conn, emitPreface({ kind, id: id >>> 0, index }));
    return conn;
  };
  const control = await open(PerfConnKind.Control, 0);
  const udp = options.test.protocol === "udp" ? host.listenDatagram() : null;
  const conns: TcpConn[] = [];
  try {
    const { test: asked } = options;
    const lengthBytes = asked.lengthBytes === 0 ? control.info().mss : asked.lengthBytes;
    const test = { ...asked, lengthBytes, udpPort: udp?.addr.port ?? 0 };
    const messages = readJsonLines(control.readable);
    const writer = new JsonLineWriter(control.writable);
    const say = (message: PerfMessage) => writer.write(message);
    await say({ type: "test", test });
    const { udpPort } = await next(messages, "accepted");
    const streams = udp === null
      ? tcpStreams(test, await openAll(test.streams, (i) => open(PerfConnKind.Stream, i), conns))
      : udpStreams(test, udp, id >>> 0, { transport: "udp", hostname, port: udpPort }, control.localAddr.hostname);
    await next(messages, "start");
    options.onConnected?.(streams.ends);
    return await run(options, test, streams, messages, say);
  } finally {
    udp?.close();
    for (const conn of conns) conn.close();
    control.close();
  }
}

/** Opens streams one after the other, remembering each. */
async function openAll(n: number, open: (i: number) => Promise<TcpConn>, conns: TcpConn[]): Promise<TcpConn[]> {
  for (let i = 0; i < n; i++) conns.push(await open(i));
  return conns;
}

async function run(
  options: PerfClientOptions,
  test: PerfTest,
  streams: Streams,
  messages: AsyncGenerator<unknown>,
  say: (message: PerfMessage) => Promise<void>,
): Promise<PerfReport> {
  const { interrupt } = options;
  const start = clock.now();
  const end = start + test.seconds * SECOND;
  const sampler = new Sampler(streams.local, start, end, options);
  const limit = test.seconds * 1000 + ANSWER_MILLISECONDS;
  const interrupted = interrupt.wait().then(() => streams.senders.forEach((sender) => sender.stop()));
  interrupted.catch(() => {});
  let sent: StreamResult[];
  let received: StreamResult[];
  try {
    if (test.reverse) {
      const stopped = nextStop(messages);
      stopped.catch(() => {});
      const done = streams.receive(start, stopped);
      done.catch(() => {});
      const isEarly = await within(limit, "the server does not stop sending", firstOf(done, interrupt));
      if (isEarly) await say({ type: "stop", streams: streams.local.map((stream) => stream.result()) });
      await within(ANSWER_MILLISECONDS, "the server does not stop sending", done);
      sampler.finish();
      sent = await within(ANSWER_MILLISECONDS, "the server does not say what it sent", stopped);
      received = streams.local.map((stream) => stream.result());
      if (!isEarly) await say({ type: "stop", streams: received });
    } else {
      await within(
        limit,
        "the server does not take the data",
        Promise.all(streams.senders.map((s) => s.run(start, end))),
      );
      sampler.finish();
      sent = streams.local.map((stream) => stream.result());
      await say({ type: "stop", streams: sent });
      received = await within(ANSWER_MILLISECONDS, "the server does not say what it received", nextStop(messages));
      // Retransmissions after the end belong to the data, too.
      sent = streams.local.map((stream) => stream.result());
    }
  } finally {
    sampler.stop();
    for (const sender of streams.senders) sender.stop();
  }
  return { test, ends: streams.ends, intervals: sampler.intervals, sent, received, interrupted: interrupt.raised };
}

/** True if a signal came before the work was done. */
async function firstOf(done: Promise<void>, interrupt: Interrupt): Promise<boolean> {
  return await Promise.race([done.then(() => false), interrupt.wait().then(() => true)]);
}

function tcpStreams(test: PerfTest, conns: readonly TcpConn[]): Streams {
  const ends = conns.map(({ localAddr, remoteAddr }) => ({ local: localAddr, remote: remoteAddr }));
  if (!test.reverse) {
    const senders = conns.map((conn) => new TcpSender(conn, test));
    return { local: senders, senders, ends, receive: () => Promise.resolve() };
  }
  const receivers = conns.map((conn) => new TcpReceiver(conn));
  return {
    local: receivers,
    senders: [],
    ends,
    receive: async (start) => void await Promise.all(receivers.map((receiver) => receiver.run(start))),
  };
}

function udpStreams(
  test: PerfTest,
  conn: ReturnType<Host["listenDatagram"]>,
  id: number,
  to: NetAddr,
  localHostname: string,
): Streams {
  const indices = Array.from({ length: test.streams }, (_, i) => i);
  const ends = indices.map(() => ({ local: { hostname: localHostname, port: conn.addr.port }, remote: to }));
  if (!test.reverse) {
    const senders = indices.map((i) => new UdpSender(conn, to, test, id, i));
    return { local: senders, senders, ends, receive: () => Promise.resolve() };
  }
  const demux = new DatagramDemux(conn);
  const receivers = indices.map((i) => {
    const receiver = new UdpReceiver();
    demux.add(datagramStream(id, i), receiver);
    return receiver;
  });
  return {
    local: receivers,
    senders: [],
    ends,
    receive: async (start, stopped) => {
      for (const receiver of receivers) receiver.begin(start);
      const sent = await stopped;
      await Promise.all(receivers.map((receiver, i) => receiver.finish(sent[i]?.packets ?? 0)));
    },
  };
}

/** Reads the counters at intervals. */
class Sampler {
  readonly intervals: PerfInterval[] = [];
  readonly #streams: readonly PerfStream[];
  readonly #start: Instant;
  readonly #options: PerfClientOptions;
  readonly #pacer = new Pacer(clock);
  #last: StreamCounters[];
  #lastAt: Instant;
  #finished = false;

  constructor(streams: readonly PerfStream[], start: Instant, end: Instant, options: PerfClientOptions) {
    this.#streams = streams;
    this.#start = start;
    this.#options = options;
    this.#last = streams.map((stream) => stream.counters());
    this.#lastAt = start;
    this.#run(end);
  }

  /** Takes the last interval. */
  finish(): void {
    this.stop();
    this.#take();
  }

  /** Takes no more. */
  stop(): void {
    this.#finished = true;
    this.#pacer.wake();
  }

  async #run(end: Instant): Promise<void> {
    const { interval } = this.#options;
    for (let n = 1; this.#start + n * interval <= end - interval * SHORTEST_INTERVAL; n++) {
      await this.#pacer.waitUntil(this.#start + n * interval);
      if (this.#finished) return;
      this.#take();
    }
  }

  #take(): void {
    const now = clock.now();
    const counters = this.#streams.map((stream) => stream.counters());
    const streams = counters.map((c, i): StreamCounters => {
      const before = this.#last[i]!;
      return {
        bytes: c.bytes - before.bytes,
        packets: c.packets - before.packets,
        lost: Math.max(0, c.lost - before.lost),
        outOfOrder: c.outOfOrder - before.outOfOrder,
        retransmits: c.retransmits - before.retransmits,
        jitter: c.jitter,
        cwndBytes: c.cwndBytes,
      };
    });
    const interval = { from: seconds(this.#lastAt - this.#start), to: seconds(now - this.#start), streams };
    this.#last = counters;
    this.#lastAt = now;
    this.intervals.push(interval);
    this.#options.onInterval?.(interval);
  }
}

function seconds(duration: Duration): number {
  return toMilliseconds(duration) / 1000;
}

/** The next message, which has to be of one type. */
async function next<T extends PerfMessage["type"]>(
  messages: AsyncGenerator<unknown>,
  type: T,
): Promise<Extract<PerfMessage, { type: T }>> {
  const { value, done } = await within(ANSWER_MILLISECONDS, "the server does not answer", messages.next());
  const message = value as PerfMessage | undefined;
  if (!done && message?.type === type) return message as Extract<PerfMessage, { type: T }>;
  if (message?.type === "refused") throw new Failure(`perf: the server refuses: ${message.why}`);
  throw new Failure("perf: what answers there is no perf server");
}
