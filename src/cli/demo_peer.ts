/**
 * One of the demo's two processes: a host, and its half of the work.
 *
 * The parent gives the settings as the first line on standard input and then `start` or `finish`; a closed input means
 * that the parent is gone, and ends the process, as does an event that nobody takes. Events go to standard output, one JSON value a line.
 *
 * Peer b serves: it echoes on port 7, takes bulk on port 5001 and sends bulk on port 5002. Peer a pings, moves bulk both
 * ways at once, then sends one-byte requests.
 *
 * @module
 */

import { MILLISECOND, toMilliseconds } from "../base/time.ts";
import { CaptureFile } from "../runtime/capture_file.ts";
import { type Host, openHost } from "../runtime/open_host.ts";
import type { TcpConn } from "../socket/tcp_conn.ts";
import { BULK_CHUNK_BYTES, BulkPattern } from "./bulk_pattern.ts";
import { Failure, messageOf } from "./command.ts";
import { delay, writeAll } from "./conn_io.ts";
import { addRetransmits, type BulkSummary, noRetransmits, type PeerSummary, type RttSummary } from "./demo_report.ts";
import { summarizeRtts } from "./demo_report.ts";
import { failureOf } from "./failure.ts";
import { JsonLineWriter, readJsonLines } from "./json_lines.ts";

const ECHO_PORT = 7;
const SINK_PORT = 5001;
const SOURCE_PORT = 5002;

/** The settings of one peer: the first line on its standard input. */
export interface PeerSettings {
  /** `a` asks, `b` serves. */
  role: "a" | "b";
  /** Underlay endpoint of this peer. */
  listen: string;
  /** Underlay endpoint of the other peer. */
  peer: string;
  /** 4 or 6: the family inside the tunnel. */
  family: 4 | 6;
  /** Impairment of what this peer sends, as a tc-netem string. */
  impairment: string;
  /** Seed of all randomness. */
  seed: number;
  /** How long each bulk transfer sends. */
  bulkSeconds: number;
  /** One-byte requests in all. */
  requests: number;
  /** Connections that share them. */
  connections: number;
  /** Time between pings in milliseconds. */
  pingIntervalMs: number;
  /** File to capture into, or `null`. */
  pcap: string | null;
}

/** What a peer tells its parent. */
export type PeerEvent =
  | { event: "ready" }
  | { event: "unwritable"; text: string }
  | { event: "failed"; text: string }
  | { event: "progress"; text: string }
  | { event: "client"; ping: RttSummary; requests: RttSummary }
  | { event: "summary"; summary: PeerSummary };

/** Addresses inside the tunnel. */
export function demoAddress(role: "a" | "b", family: 4 | 6): string {
  const n = role === "a" ? 1 : 2;
  return family === 4 ? `10.7.0.${n}` : `fd07::${n}`;
}

/** Runs the peer; resolves with the exit code when the parent says `finish` or is gone. */
export async function runDemoPeer(): Promise<number> {
  const out = new JsonLineWriter(Deno.stdout.writable);
  const gone = Promise.withResolvers<number>();
  const emit = async (event: PeerEvent): Promise<void> => {
    try {
      await out.write(event);
    } catch (error) {
      if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
      gone.resolve(1);
    }
  };
  return await Promise.race([obey(emit), gone.promise]);
}

/** Does what the parent says, up to the end of the input. */
async function obey(emit: (event: PeerEvent) => Promise<void>): Promise<number> {
  const lines = readJsonLines(Deno.stdin.readable);
  const first = await lines.next();
  if (first.done) return 1;
  const settings = first.value as PeerSettings;
  let capture: CaptureFile | null = null;
  try {
    if (settings.pcap !== null) capture = CaptureFile.open(settings.pcap);
  } catch (error) {
    const text = `found ${JSON.stringify(settings.pcap)}, expected a file that can be written (${messageOf(error)})`;
    await emit({ event: "unwritable", text });
    return 2;
  }
  try {
    const peer = await Peer.open(settings, capture, emit);
    await emit({ event: "ready" });
    for await (const line of lines) {
      if (line === "start") await peer.runClient();
      if (line === "finish") {
        await emit({ event: "summary", summary: await peer.finish() });
        return 0;
      }
    }
  } catch (error) {
    if (!(failureOf("demo", error) instanceof Failure)) throw error;
    await emit({ event: "failed", text: messageOf(error) });
  }
  return 1;
}

class Peer {
  readonly #settings: PeerSettings;
  readonly #host: Host;
  readonly #capture: CaptureFile | null;
  readonly #emit: (event: PeerEvent) => Promise<void>;
  readonly #pattern: BulkPattern;
  readonly #remote: string;
  readonly #retransmits = noRetransmits();
  #sender: PeerSummary["sender"] = null;
  #received: BulkSummary | null = null;
  /** Bytes received so far by the bulk transfer, for progress. */
  #bulkBytes = 0;

  private constructor(
    settings: PeerSettings,
    host: Host,
    capture: CaptureFile | null,
    emit: (event: PeerEvent) => Promise<void>,
  ) {
    this.#settings = settings;
    this.#host = host;
    this.#capture = capture;
    host.capture(capture);
    this.#emit = emit;
    this.#pattern = new BulkPattern(settings.seed);
    this.#remote = demoAddress(settings.role === "a" ? "b" : "a", settings.family);
  }

  static async open(
    settings: PeerSettings,
    capture: CaptureFile | null,
    emit: (event: PeerEvent) => Promise<void>,
  ): Promise<Peer> {
    const { role, family } = settings;
    const other = role === "a" ? "b" : "a";
    const host = await openHost({
      address: `${demoAddress(role, family)}/${family === 4 ? 24 : 64}`,
      listen: settings.listen,
      peers: [{
        name: other,
        endpoint: settings.peer,
        allowed: [demoAddress(other, family)],
        impair: { out: settings.impairment },
      }],
      seed: settings.seed + (role === "a" ? 1 : 2),
    });
    const peer = new Peer(settings, host, capture, emit);
    if (role === "b") peer.#serve();
    return peer;
  }

  /** Accepts on a port and hands each connection to `handle`; a failed connection ends the process with its error. */
  #accept(port: number, handle: (conn: TcpConn) => Promise<void>): void {
    const listener = this.#host.listen({ port });
    (async () => {
      for await (const conn of listener) handle(conn);
    })();
  }

  #serve(): void {
    this.#accept(ECHO_PORT, (conn) => this.#echo(conn));
    this.#accept(SINK_PORT, async (conn) => {
      this.#received = await this.#receiveBulk(conn);
      conn.close();
    });
    this.#accept(SOURCE_PORT, async (conn) => {
      await this.#sendBulk(conn);
    });
  }

  async #echo(conn: TcpConn): Promise<void> {
    conn.setNoDelay(true);
    const buffer = new Uint8Array(1024);
    for (let n = await conn.read(buffer); n !== null; n = await conn.read(buffer)) {
      await writeAll(conn, buffer.subarray(0, n));
    }
    this.#count(conn);
    conn.close();
  }

  /** Sends the pattern for the time set, then closes the write side and waits for the other end. */
  async #sendBulk(conn: TcpConn): Promise<void> {
    const end = performance.now() + this.#settings.bulkSeconds * 1000;
    let sent = 0;
    while (performance.now() < end) {
      sent += await conn.write(this.#pattern.at(sent, BULK_CHUNK_BYTES / 4));
    }
    this.#sender = conn.info();
    await conn.closeWrite();
    const rest = new Uint8Array(16);
    while (await conn.read(rest) !== null);
    this.#count(conn);
    conn.close();
  }

  async #receiveBulk(conn: TcpConn): Promise<BulkSummary> {
    const buffer = new Uint8Array(BULK_CHUNK_BYTES);
    let bytes = 0;
    let first = 0;
    let verified = true;
    for (let n = await conn.read(buffer); n !== null; n = await conn.read(buffer)) {
      if (bytes === 0) first = performance.now();
      if (this.#pattern.firstWrong(bytes, buffer.subarray(0, n)) >= 0) verified = false;
      bytes += n;
      this.#bulkBytes = bytes;
    }
    const seconds = (performance.now() - first) / 1000;
    this.#count(conn);
    return {
      bytes,
      seconds,
      goodputMbitPerSec: bytes === 0 ? 0 : bytes * 8 / seconds / 1e6,
      verified: verified && bytes > 0,
    };
  }

  #count(conn: TcpConn): void {
    addRetransmits(this.#retransmits, conn.info().retransmits);
  }

  /** Peer a's work: pings all through, bulk both ways, then requests. */
  async runClient(): Promise<void> {
    const stop = new AbortController();
    const pingRtts: number[] = [];
    let pingLost = 0;
    let phase = "ping";
    let requestsDone = 0;
    const pinging = this.#ping(stop.signal, (rtt) => rtt === null ? pingLost++ : pingRtts.push(rtt));
    const started = performance.now();
    const ticker = setInterval(() => {
      const seconds = ((performance.now() - started) / 1000).toFixed(1).padStart(4);
      const ping = pingRtts.length === 0 ? "-" : `${pingRtts.at(-1)!.toFixed(1)} ms`;
      const what = phase === "bulk"
        ? `received ${(this.#bulkBytes / 1e6).toFixed(2)} MB`
        : phase === "requests"
        ? `${requestsDone} of ${this.#settings.requests}`
        : "";
      this.#emit({ event: "progress", text: `${seconds} s  ping ${ping} (${pingLost} lost)  ${phase} ${what}`.trim() });
    }, 200);
    try {
      await delay(900);
      phase = "bulk";
      const up = await this.#host.connect({ hostname: this.#remote, port: SINK_PORT });
      const down = await this.#host.connect({ hostname: this.#remote, port: SOURCE_PORT });
      const receiving = this.#receiveBulk(down);
      await this.#sendBulk(up);
      this.#received = await receiving;
      down.close();
      phase = "requests";
      const rtts: number[] = [];
      const { connections, requests } = this.#settings;
      await Promise.all(
        Array.from({ length: connections }, async (_, i) => {
          const share = Math.floor(requests / connections) + (i < requests % connections ? 1 : 0);
          await this.#request(share, (rtt) => {
            rtts.push(rtt);
            requestsDone++;
          });
        }),
      );
      stop.abort();
      await pinging;
      await this.#emit({
        event: "client",
        ping: summarizeRtts(pingRtts, pingLost),
        requests: summarizeRtts(rtts, requests - rtts.length),
      });
    } finally {
      clearInterval(ticker);
    }
  }

  async #ping(signal: AbortSignal, onAnswer: (rtt: number | null) => void): Promise<void> {
    const interval = this.#settings.pingIntervalMs * MILLISECOND;
    try {
      for await (const answer of this.#host.ping(this.#remote, { count: Infinity, interval, signal })) {
        if (answer.kind === "reply") onAnswer(toMilliseconds(answer.rtt));
        else if (answer.kind === "timeout") onAnswer(null);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  async #request(count: number, onAnswer: (rtt: number) => void): Promise<void> {
    const conn = await this.#host.connect({ hostname: this.#remote, port: ECHO_PORT });
    conn.setNoDelay(true);
    const byte = new Uint8Array(1);
    for (let i = 0; i < count; i++) {
      const from = performance.now();
      await writeAll(conn, byte);
      if (await conn.read(byte) === null) throw new Error("peer b closed the request connection");
      onAnswer(performance.now() - from);
    }
    await conn.closeWrite();
    while (await conn.read(byte) !== null);
    this.#count(conn);
    conn.close();
  }

  /** Closes the host and says what this peer saw. */
  async finish(): Promise<PeerSummary> {
    const { drops } = this.#host.inspect() as { drops: Record<string, number> };
    await this.#host.close();
    await this.#capture?.close();
    return { drops, retransmits: this.#retransmits, sender: this.#sender, received: this.#received };
  }
}
