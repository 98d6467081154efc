/**
 * The asking end of `rpc`: an open loop of requests over some connections, and how long each took from the time at which
 * it was meant to start.
 *
 * Request `k` goes over connection `k mod n`. Replies come in the order of the requests, so the count of bytes received
 * tells which request a reply belongs to, and the schedule tells when that was meant to start; nothing is kept for
 * requests under way.
 *
 * @module
 */

import { type Duration, type Instant, MILLISECOND, SECOND } from "../base/time.ts";
import { LatencyHistogram, type LatencySummary } from "../lab/workload/latency.ts";
import { OpenLoop } from "../lab/workload/open_loop.ts";
import { MonotonicClock } from "../runtime/clock.ts";
import type { Host } from "../runtime/host.ts";
import type { TcpConn } from "../socket/tcp_conn.ts";
import type { TcpInfo } from "../tcp/info.ts";
import { connectSoon, delay, writeAll } from "./conn_io.ts";
import type { Interrupt } from "./interrupt.ts";
import { Pacer } from "./pacer.ts";
import { emitRpcHead } from "./rpc_protocol.ts";

/** Bytes of requests that are written at once. */
const CHUNK_BYTES = 65536;

/** Time between two reports of progress. */
const PROGRESS: Duration = SECOND;

/** What is to be asked. */
export interface RpcLoad {
  /** Where the server is. */
  hostname: string;
  /** Its port. */
  port: number;
  /** Requests a second, over all connections. */
  perSecond: number;
  /** How long requests are started. */
  duration: Duration;
  /** Bytes of each request. */
  requestBytes: number;
  /** Bytes of each reply. */
  replyBytes: number;
  /** Connections that share the requests. */
  connections: number;
  /** How long replies are waited for in the end. */
  patience: Duration;
}

/** Progress of a second. */
export interface RpcProgress {
  /** Seconds from the start. */
  at: number;
  /** Requests that were to have started so far. */
  due: number;
  /** Requests answered so far. */
  answered: number;
  /** Median of the replies of this second in milliseconds, or `null`. */
  p50: number | null;
  /** 99th percentile of the replies of this second in milliseconds, or `null`. */
  p99: number | null;
}

/** What came out. */
export interface RpcReport {
  /** What was asked. */
  load: RpcLoad;
  /** Requests that were to be started. */
  requests: number;
  /** Requests answered. */
  answered: number;
  /** Requests without an answer. */
  unanswered: number;
  /** Seconds from the first request to the last reply. */
  seconds: number;
  /** Replies a second in that time. */
  repliesPerSec: number;
  /** Latencies from the intended start of each request; `null` if nothing was answered. */
  latency: LatencySummary | null;
  /** What was seen while it went on. */
  progress: RpcProgress[];
  /** The connections at the end. */
  tcp: TcpInfo[];
  /** True if a signal ended it early. */
  interrupted: boolean;
}

/** Runs a load against a server. */
export async function runRpc(
  host: Host,
  load: RpcLoad,
  interrupt: Interrupt,
  onProgress: (progress: RpcProgress) => void,
): Promise<RpcReport> {
  const conns: TcpConn[] = [];
  try {
    for (let i = 0; i < load.connections; i++) {
      const conn = await connectSoon(host, {
        hostname: load.hostname,
        port: load.port,
        signal: interrupt.signal,
        noDelay: true,
      });
      conns.push(conn);
      await writeAll(conn, emitRpcHead(load));
    }
    return await new Run(conns, load, interrupt, onProgress).run();
  } finally {
    for (const conn of conns) conn.close();
  }
}

class Run {
  readonly #clock = new MonotonicClock();
  readonly #conns: readonly TcpConn[];
  readonly #load: RpcLoad;
  readonly #interrupt: Interrupt;
  readonly #onProgress: (progress: RpcProgress) => void;
  readonly #loop: OpenLoop;
  readonly #latencies = new LatencyHistogram();
  readonly #ofThisSecond = new LatencyHistogram();
  readonly #progress: RpcProgress[] = [];
  /** Requests that are started at all: fewer than planned after a signal. */
  #limit: number;
  readonly #pacers: readonly Pacer[];
  #stopped = false;
  #answered = 0;
  #lastReplyAt: Instant;

  constructor(conns: readonly TcpConn[], load: RpcLoad, interrupt: Interrupt, onProgress: (p: RpcProgress) => void) {
    this.#conns = conns;
    this.#load = load;
    this.#interrupt = interrupt;
    this.#onProgress = onProgress;
    this.#loop = new OpenLoop(this.#clock.now() + 5 * MILLISECOND, load.perSecond, load.duration);
    this.#limit = this.#loop.count;
    this.#pacers = conns.map(() => new Pacer(this.#clock));
    this.#lastReplyAt = this.#loop.start;
  }

  async run(): Promise<RpcReport> {
    const over = new AbortController();
    const writing = this.#conns.map((conn, i) => this.#write(conn, i));
    const reading = this.#conns.map((conn, i) => this.#read(conn, i));
    const all = Promise.all([...writing, ...reading]);
    all.catch(() => {});
    const reporting = this.#report(over.signal);
    try {
      await Promise.race([all, this.#untilLate(over.signal)]);
    } finally {
      over.abort();
      this.#stopped = true;
      for (const pacer of this.#pacers) pacer.wake();
      await reporting;
    }
    const seconds = Math.max(1, this.#lastReplyAt - this.#loop.start) / SECOND;
    return {
      load: this.#load,
      requests: this.#limit,
      answered: this.#answered,
      unanswered: this.#limit - this.#answered,
      seconds,
      repliesPerSec: this.#answered / seconds,
      latency: this.#latencies.summary(),
      progress: this.#progress,
      tcp: this.#conns.map((conn) => conn.info()),
      interrupted: this.#interrupt.raised,
    };
  }

  /** Requests of connection `i` among the first `n`. */
  #shareOf(i: number, n: number): number {
    return n <= i ? 0 : Math.floor((n - i - 1) / this.#conns.length) + 1;
  }

  async #write(conn: TcpConn, i: number): Promise<void> {
    const pacer = this.#pacers[i]!;
    const onSignal = (): void => {
      this.#limit = Math.min(this.#limit, this.#loop.dueBy(this.#clock.now()));
      pacer.wake();
    };
    this.#interrupt.signal.addEventListener("abort", onSignal);
    const chunk = new Uint8Array(CHUNK_BYTES);
    try {
      for (let started = 0; !this.#stopped && started < this.#shareOf(i, this.#limit);) {
        const due = this.#shareOf(i, Math.min(this.#limit, this.#loop.dueBy(this.#clock.now())));
        if (due === started) {
          await pacer.waitUntil(this.#loop.startOf(started * this.#conns.length + i));
          continue;
        }
        for (let rest = (due - started) * this.#load.requestBytes; rest > 0;) {
          const size = Math.min(rest, CHUNK_BYTES);
          await writeAll(conn, chunk.subarray(0, size));
          rest -= size;
        }
        started = due;
      }
      await conn.closeWrite();
    } finally {
      this.#interrupt.signal.removeEventListener("abort", onSignal);
    }
  }

  async #read(conn: TcpConn, i: number): Promise<void> {
    const buffer = new Uint8Array(CHUNK_BYTES);
    let received = 0;
    let answered = 0;
    for (let n = await conn.read(buffer); n !== null; n = await conn.read(buffer)) {
      received += n;
      const now = this.#clock.now();
      for (const complete = Math.floor(received / this.#load.replyBytes); answered < complete; answered++) {
        const latency = now - this.#loop.startOf(answered * this.#conns.length + i);
        this.#latencies.record(latency);
        this.#ofThisSecond.record(latency);
        this.#answered++;
        this.#lastReplyAt = now;
      }
    }
    if (answered < this.#shareOf(i, this.#limit)) {
      throw new Deno.errors.UnexpectedEof("the server ended the connection before it had answered every request");
    }
  }

  /** Resolves when the replies are overdue; rejects never. */
  async #untilLate(signal: AbortSignal): Promise<void> {
    try {
      for (;;) {
        const end = this.#loop.startOf(this.#limit) + this.#load.patience;
        const rest = (end - this.#clock.now()) / MILLISECOND;
        if (rest <= 0) return;
        await delay(Math.min(rest, 100), signal);
      }
    } catch {
      // It has ended by itself.
    }
  }

  async #report(signal: AbortSignal): Promise<void> {
    try {
      for (let n = 1;; n++) {
        const at = this.#loop.start + n * PROGRESS;
        await delay(Math.max(0, at - this.#clock.now()) / MILLISECOND, signal);
        const progress = {
          at: (this.#clock.now() - this.#loop.start) / SECOND,
          due: Math.min(this.#limit, this.#loop.dueBy(this.#clock.now())),
          answered: this.#answered,
          p50: this.#ofThisSecond.percentile(50),
          p99: this.#ofThisSecond.percentile(99),
        };
        this.#ofThisSecond.reset();
        this.#progress.push(progress);
        this.#onProgress(progress);
      }
    } catch {
      // It has ended.
    }
  }
}
