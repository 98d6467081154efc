/**
 * The streams of `perf`: what moves the data at either end, and counts it.
 *
 * A sender goes on until its time is over or it is stopped; a receiver until the stream ends, or, for datagrams, until
 * it has them all or none has come for a while. Counters can be read at any time.
 *
 * @module
 */

import { type Duration, type Instant, MILLISECOND, SECOND } from "../base/time.ts";
import { DatagramHeader, DatagramReceiver } from "../lab/workload/datagram_stream.ts";
import { MonotonicClock } from "../runtime/clock.ts";
import type { NetAddr } from "../socket/address.ts";
import type { TcpConn } from "../socket/tcp_conn.ts";
import type { UdpConn } from "../socket/udp_conn.ts";
import type { TcpInfo } from "../tcp/info.ts";
import { BulkPattern } from "./bulk_pattern.ts";
import { Pacer } from "./pacer.ts";
import { datagramStream, type PerfTest, type StreamResult } from "./perf_protocol.ts";

/** The clock of all streams of this process. */
export const clock: MonotonicClock = new MonotonicClock();

/** Datagrams that are sent in one turn of the event loop. */
const BURST = 32;

/** How long a receiver of datagrams waits for the next one after the sender has stopped. */
const QUIET: Duration = 500 * MILLISECOND;

/** A paced sender of a byte stream writes for so long at once. */
const WRITE_TIME: Duration = 10 * MILLISECOND;

/** What a stream counts while it goes on. */
export interface StreamCounters {
  /** Data bytes sent, or received. */
  bytes: number;
  /** Datagrams sent, or received; 0 for TCP. */
  packets: number;
  /** Datagrams missing so far; 0 at the sender. */
  lost: number;
  /** Datagrams out of order so far. */
  outOfOrder: number;
  /** Jitter in milliseconds. */
  jitter: number;
  /** Segments sent again. */
  retransmits: number;
  /** Congestion window in bytes; 0 but for a TCP sender. */
  cwndBytes: number;
}

/** One end of a stream. */
export interface PerfStream {
  /** The counters now. */
  counters(): StreamCounters;
  /** What is told in the end. */
  result(): StreamResult;
}

/** One end of a stream that sends. */
export interface PerfSender extends PerfStream {
  /** Sends until `end`, or until `stop` is called; resolves when everything was handed over. */
  run(start: Instant, end: Instant): Promise<void>;
  /** Has it come to an end. */
  stop(): void;
}

function countersOf(part: Partial<StreamCounters>): StreamCounters {
  return { bytes: 0, packets: 0, lost: 0, outOfOrder: 0, jitter: 0, retransmits: 0, cwndBytes: 0, ...part };
}

function resultOf(part: Partial<StreamResult>): StreamResult {
  return {
    bytes: 0,
    seconds: 0,
    packets: 0,
    lost: 0,
    outOfOrder: 0,
    duplicates: 0,
    jitter: 0,
    retransmits: 0,
    tcp: null,
    ...part,
  };
}

/** Segments that a connection has sent again. */
export function retransmitsOf(info: TcpInfo): number {
  return Object.values(info.retransmits).reduce((sum, n) => sum + n, 0);
}

/** Sends bytes over TCP. */
export class TcpSender implements PerfSender {
  readonly #conn: TcpConn;
  readonly #bitsPerSec: number;
  readonly #chunk: Uint8Array;
  readonly #pacer = new Pacer(clock);
  #bytes = 0;
  #stopped = false;
  #start: Instant = 0;
  #end: Instant = 0;
  #info: TcpInfo;

  /** Sends over `conn`. */
  constructor(conn: TcpConn, test: PerfTest) {
    this.#conn = conn;
    this.#bitsPerSec = test.bitsPerSec;
    const bytes = test.bitsPerSec === 0
      ? test.lengthBytes
      : Math.min(test.lengthBytes, Math.max(1400, Math.ceil(test.bitsPerSec / 8 * WRITE_TIME / SECOND)));
    this.#chunk = filled(bytes);
    this.#info = conn.info();
  }

  async run(start: Instant, end: Instant): Promise<void> {
    this.#start = start;
    for (let now = clock.now(); !this.#stopped && now < end; now = clock.now()) {
      const next = this.#bitsPerSec === 0 ? now : start + this.#bytes * 8 * SECOND / this.#bitsPerSec;
      if (next > now) await this.#pacer.waitUntil(Math.min(end, next));
      else this.#bytes += await this.#conn.write(this.#chunk);
    }
    this.#end = clock.now();
    this.#info = this.#conn.info();
    await this.#conn.closeWrite();
  }

  stop(): void {
    this.#stopped = true;
    this.#pacer.wake();
  }

  counters(): StreamCounters {
    const info = this.#conn.info();
    return countersOf({ bytes: this.#bytes, retransmits: retransmitsOf(info), cwndBytes: info.cwnd * info.mss });
  }

  result(): StreamResult {
    return resultOf({
      bytes: this.#bytes,
      seconds: (this.#end - this.#start) / SECOND,
      retransmits: retransmitsOf(this.#conn.info()),
      tcp: this.#info,
    });
  }
}

/** Receives bytes over TCP. */
export class TcpReceiver implements PerfStream {
  readonly #conn: TcpConn;
  #bytes = 0;
  #start: Instant = 0;
  #end: Instant = 0;

  /** Receives from `conn`. */
  constructor(conn: TcpConn) {
    this.#conn = conn;
  }

  /** Receives to the end of the stream. */
  async run(start: Instant): Promise<void> {
    this.#start = start;
    const buffer = new Uint8Array(1 << 18);
    for (let n = await this.#conn.read(buffer); n !== null; n = await this.#conn.read(buffer)) this.#bytes += n;
    this.#end = clock.now();
  }

  counters(): StreamCounters {
    return countersOf({ bytes: this.#bytes });
  }

  result(): StreamResult {
    return resultOf({ bytes: this.#bytes, seconds: (this.#end - this.#start) / SECOND });
  }
}

/** Sends datagrams. */
export class UdpSender implements PerfSender {
  readonly #conn: UdpConn;
  readonly #to: NetAddr;
  readonly #datagram: Uint8Array;
  readonly #view: DataView;
  readonly #header = new DatagramHeader();
  readonly #interval: Duration;
  readonly #pacer = new Pacer(clock);
  #packets = 0;
  #stopped = false;
  #start: Instant = 0;
  #end: Instant = 0;

  /** Sends stream `index` of a test to `to`. */
  constructor(conn: UdpConn, to: NetAddr, test: PerfTest, id: number, index: number) {
    this.#conn = conn;
    this.#to = to;
    this.#datagram = filled(test.lengthBytes);
    this.#view = new DataView(this.#datagram.buffer);
    this.#header.stream = datagramStream(id, index);
    this.#interval = test.bitsPerSec === 0 ? 0 : test.lengthBytes * 8 * SECOND / test.bitsPerSec;
  }

  async run(start: Instant, end: Instant): Promise<void> {
    this.#start = start;
    // Those that were due before the end are sent, even if that is late; without a rate, the end is the end.
    for (let now = clock.now(); !this.#stopped && (now < end || this.#nextAt() < end); now = clock.now()) {
      if (this.#interval === 0 && now >= end) break;
      for (let n = 0; n < BURST && this.#nextAt() <= now && this.#nextAt() < end; n++) await this.#send(now);
      await this.#pacer.waitUntil(Math.min(end, this.#nextAt()));
    }
    this.#end = clock.now();
  }

  stop(): void {
    this.#stopped = true;
    this.#pacer.wake();
  }

  counters(): StreamCounters {
    return countersOf({ bytes: this.#packets * this.#datagram.length, packets: this.#packets });
  }

  result(): StreamResult {
    const { bytes, packets } = this.counters();
    return resultOf({ bytes, packets, seconds: (this.#end - this.#start) / SECOND });
  }

  /** When the next datagram is due. */
  #nextAt(): Instant {
    return this.#start + this.#packets * this.#interval;
  }

  async #send(now: Instant): Promise<void> {
    this.#header.seq = this.#packets;
    this.#header.sentAt = now;
    this.#header.emit(this.#view);
    try {
      await this.#conn.send(this.#datagram, this.#to);
    } catch (error) {
      // No free packet now is a loss like any other.
      if (!(error instanceof Deno.errors.Busy)) throw error;
    }
    this.#packets++;
  }
}

/** Receives the datagrams of one stream. */
export class UdpReceiver implements PerfStream {
  readonly #receiver = new DatagramReceiver();
  #start: Instant = clock.now();
  #last: Instant = this.#start;
  #sent: number | undefined = undefined;

  /** The time of a test has begun. */
  begin(start: Instant): void {
    this.#start = start;
  }

  /** Takes note of a datagram. */
  onDatagram(header: DatagramHeader, lengthBytes: number, now: Instant): void {
    this.#last = now;
    this.#receiver.onDatagram(header.seq, header.sentAt, now, lengthBytes);
  }

  /** The sender has sent so many and no more: resolves when all have come, or none has come for a while. */
  async finish(sent: number): Promise<void> {
    this.#sent = sent;
    const stoppedAt = clock.now();
    using pacer = new Pacer(clock);
    while (this.#receiver.packets < sent) {
      const end = Math.max(stoppedAt, this.#last) + QUIET;
      if (clock.now() >= end) return;
      await pacer.waitUntil(Math.min(end, clock.now() + 20 * MILLISECOND));
    }
  }

  counters(): StreamCounters {
    const { bytes, packets, outOfOrder, jitter } = this.#receiver;
    return countersOf({ bytes, packets, outOfOrder, jitter: jitter / MILLISECOND, lost: this.#receiver.lost() });
  }

  result(): StreamResult {
    const { bytes, packets, outOfOrder, duplicates, jitter } = this.#receiver;
    return resultOf({
      bytes,
      packets,
      outOfOrder,
      duplicates,
      jitter: jitter / MILLISECOND,
      lost: this.#receiver.lost(this.#sent),
      seconds: Math.max(0, this.#last - this.#start) / SECOND,
    });
  }
}

/** Hands the datagrams of a socket to the receivers of their streams, until the socket is closed. */
export class DatagramDemux {
  readonly #receivers = new Map<number, UdpReceiver>();

  /** Begins to receive. */
  constructor(conn: UdpConn) {
    this.#run(conn).catch(() => {});
  }

  /** Hands the datagrams of a stream to `receiver`. */
  add(stream: number, receiver: UdpReceiver): void {
    this.#receivers.set(stream, receiver);
  }

  /** Has the datagrams of a stream ignored. */
  remove(stream: number): void {
    this.#receivers.delete(stream);
  }

  async #run(conn: UdpConn): Promise<void> {
    const buffer = new Uint8Array(65536);
    const view = new DataView(buffer.buffer);
    const header = new DatagramHeader();
    for (;;) {
      const [{ length }] = await conn.receive(buffer);
      if (header.parse(view, length)) this.#receivers.get(header.stream)?.onDatagram(header, length, clock.now());
    }
  }
}

/** Bytes that no compression makes smaller. */
function filled(length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  const pattern = new BulkPattern(1);
  for (let at = 0; at < length; at += 65536) bytes.set(pattern.at(at, Math.min(65536, length - at)), at);
  return bytes;
}
