/**
 * The sending process of `lab edt --real`: bulk flows of a limited rate, and answers to requests.
 *
 * The parent gives the settings as the first line on standard input, then `start`, then `finish`; a closed input means
 * that the parent is gone, and ends the process.
 *
 * @module
 */

import { type Host, openHost } from "../runtime/open_host.ts";
import { limitFor } from "../lab/edt.ts";
import type { TcpConn } from "../socket/tcp_conn.ts";
import type { PortConfig, SleeperConfig } from "../stack/options.ts";
import type { TcpInfo } from "../tcp/info.ts";
import type { PacingMode } from "../tcp/pacing.ts";
import { Failure, messageOf } from "./command.ts";
import { writeAll } from "./conn_io.ts";
import { failureOf } from "./failure.ts";
import { JsonLineWriter, readJsonLines } from "./json_lines.ts";

/** Where the bulk goes. */
export const BULK_PORT = 5001;

/** Where requests are answered. */
export const REQUEST_PORT = 7;

/** Addresses inside the tunnel: of this process, and of its parent. */
export const SENDER_ADDRESS = "10.7.0.1";
/** The parent's. */
export const PARENT_ADDRESS = "10.7.0.2";

/** How often the delivery rate of the first flow is read, in milliseconds. */
const SAMPLE_MILLISECONDS = 20;

/** What both hosts are made of. */
export interface EdtHostSettings {
  /** The host's underlay endpoint. */
  listen: string;
  /** The other's. */
  peer: string;
  /** The UDP port. */
  port: PortConfig["kind"];
  /** The sleeper; `null` for what suits the port. */
  sleeper: SleeperConfig | null;
  /** How departures are spaced. */
  pacing: PacingMode;
  /** Total rate of the queueing discipline as tc has it, or `null` for none. */
  linkRate: string | null;
}

/** What the process is to do. */
export interface EdtPeerSettings extends EdtHostSettings {
  /** How many bulk flows. */
  flows: number;
  /** The most that each sends, in bytes of payload per second. */
  rateBytesPerSec: number;
  /** Bytes of an answer. */
  answerBytes: number;
  /** How long the flows send before they are measured, in milliseconds. */
  settle: number;
}

/** What it found about its first flow. */
export interface EdtPeerResult {
  /** The flow at its end. */
  info: TcpInfo;
  /** Median of the delivery-rate samples, in bit/s. */
  deliveryRate: number;
  /** Bytes of all flows acknowledged a second since they had settled, as Mbit/s. */
  goodputMbitPerSec: number;
  /** What carried the datagrams and waited for deadlines. */
  underlay: string;
}

/** What it tells its parent. */
export type EdtPeerEvent =
  | { event: "ready" }
  | { event: "sending" }
  | { event: "failed"; text: string }
  | { event: "result"; result: EdtPeerResult };

/** Options of a host that differs from the other one in its addresses only. */
export function openEdtHost(
  own: string,
  other: string,
  { listen, peer, port, sleeper, pacing, linkRate }: EdtHostSettings,
): Promise<Host> {
  return openHost({
    address: `${own}/24`,
    listen,
    peers: [{ name: "other", endpoint: peer, allowed: other }],
    port,
    ...(sleeper === null ? {} : { sleeper }),
    tcp: { pacing, noDelay: true },
    qdisc: linkRate === null ? "fq" : { kind: "fq", rate: linkRate },
  });
}

/** Runs the process. */
export async function runEdtPeer(): Promise<number> {
  const out = new JsonLineWriter(Deno.stdout.writable);
  const emit = (event: EdtPeerEvent): Promise<void> => out.write(event);
  const lines = readJsonLines(Deno.stdin.readable);
  const first = await lines.next();
  if (first.done) return 1;
  try {
    const settings = first.value as EdtPeerSettings;
    const host = await openEdtHost(SENDER_ADDRESS, PARENT_ADDRESS, settings);
    const sender = new Sender(host, settings);
    await emit({ event: "ready" });
    for await (const line of lines) {
      if (line === "start") {
        await sender.start();
        await emit({ event: "sending" });
      }
      if (line === "finish") {
        await emit({ event: "result", result: sender.result() });
        return 0;
      }
    }
  } catch (error) {
    if (!(failureOf("lab", error) instanceof Failure)) throw error;
    await emit({ event: "failed", text: messageOf(error) }).catch(() => {});
  }
  return 1;
}

class Sender {
  readonly #host: Host;
  readonly #settings: EdtPeerSettings;
  readonly #flows: TcpConn[] = [];
  readonly #rates: number[] = [];
  #startedAt = 0;
  #ackedAtStart = 0;

  constructor(host: Host, settings: EdtPeerSettings) {
    this.#host = host;
    this.#settings = settings;
    this.#serve();
  }

  /** Opens the flows; resolves when all send. */
  async start(): Promise<void> {
    const { flows, rateBytesPerSec, pacing } = this.#settings;
    const { mtu } = this.#host.inspect().interfaces[0]!;
    for (let i = 0; i < flows; i++) {
      const conn = await this.#host.connect({
        hostname: PARENT_ADDRESS,
        port: BULK_PORT,
        pacing,
        maxPacingRateBytesPerSec: limitFor(pacing, rateBytesPerSec, mtu),
      });
      this.#flows.push(conn);
      this.#fill(conn);
    }
    setTimeout(() => this.#measure(), this.#settings.settle);
  }

  result(): EdtPeerResult {
    const { sleeper, ports } = this.#host.inspect();
    const flow = this.#flows[0]!;
    const info = flow.info();
    const sorted = this.#rates.sort((x, y) => x - y);
    return {
      info,
      deliveryRate: sorted[sorted.length >> 1] ?? info.deliveryRate,
      goodputMbitPerSec: (this.#bytesAcked() - this.#ackedAtStart) * 8 / (performance.now() - this.#startedAt) / 1000,
      underlay: `port ${ports[0]!.kind}, sleeper ${sleeper.kind}`,
    };
  }

  /** Begins to measure; slow start is over. */
  #measure(): void {
    const flow = this.#flows[0]!;
    this.#startedAt = performance.now();
    this.#ackedAtStart = this.#bytesAcked();
    setInterval(() => this.#rates.push(flow.info().deliveryRate), SAMPLE_MILLISECONDS);
  }

  #bytesAcked(): number {
    return this.#flows.reduce((sum, flow) => sum + flow.info().bytesAcked, 0);
  }

  async #fill(conn: TcpConn): Promise<void> {
    const bytes = new Uint8Array(65536);
    for (;;) await conn.write(bytes);
  }

  async #serve(): Promise<void> {
    for await (const conn of this.#host.listen({ port: REQUEST_PORT })) this.#answer(conn);
  }

  async #answer(conn: TcpConn): Promise<void> {
    const answer = new Uint8Array(this.#settings.answerBytes);
    const buffer = new Uint8Array(64);
    while (await conn.read(buffer) !== null) await writeAll(conn, answer);
  }
}
