/**
 * What the two ends of `perf` say to each other.
 *
 * ```text
 *   client                                   server
 *   control: "control", Test            ──▶
 *                                       ◀──  Accepted, or Refused
 *   stream 0 … n − 1 (TCP only)         ──▶
 *                                       ◀──  Start, when all streams are there
 *   … data, either way …
 *   Stop (what was sent, or received)   ──▶
 *                                       ◀──  Stop, of the other half
 * ```
 *
 * Each connection begins with sixteen bytes that tell what it is; then the control connection carries JSON, one message
 * a line, and a stream carries data only. Datagrams go between the ports that the messages name; see
 * `lab/workload/datagram_stream.ts`. Whoever sends says Stop when it has sent everything; a receiver that has been
 * interrupted says Stop to have the sender stop. It is not the protocol of iperf3, with which nothing is shared but the
 * look.
 *
 * @module
 */

import type { TcpInfo } from "../tcp/info.ts";
import { DATAGRAM_HEADER_BYTES } from "../lab/workload/datagram_stream.ts";

/** The port that a server listens on if not said otherwise. */
export const PERF_PORT = 5201;

/** The most streams of a test. */
export const STREAMS_MAX = 128;

/** The least and the greatest number of bytes that are written at once, or are in a datagram. */
export const LENGTH_BYTES: Readonly<Record<PerfProtocol, readonly [number, number]>> = {
  tcp: [1, 1 << 20],
  udp: [DATAGRAM_HEADER_BYTES, 65507],
};

/** The longest test. */
export const SECONDS_MAX = 86_400;

/** What carries the data. */
export type PerfProtocol = "tcp" | "udp";

/** What is to be done. */
export interface PerfTest {
  /** What carries the data. */
  protocol: PerfProtocol;
  /** Number of parallel streams. */
  streams: number;
  /** True if the server sends. */
  reverse: boolean;
  /** How long is sent. */
  seconds: number;
  /** Rate of each stream in bits per second; 0 for as fast as possible. */
  bitsPerSec: number;
  /** Bytes of a write, or of a datagram. */
  lengthBytes: number;
  /** The client's UDP port; 0 for TCP. */
  udpPort: number;
}

/** What one end of a stream counted. */
export interface StreamResult {
  /** Data bytes sent, or received. */
  bytes: number;
  /** From the start to the last byte. */
  seconds: number;
  /** Datagrams sent, or received once; 0 for TCP. */
  packets: number;
  /** Datagrams missing; 0 at the sender and for TCP. */
  lost: number;
  /** Datagrams that came after later ones. */
  outOfOrder: number;
  /** Datagrams that came again. */
  duplicates: number;
  /** Jitter in milliseconds. */
  jitter: number;
  /** Segments sent again, of a TCP sender; else 0. */
  retransmits: number;
  /** A TCP sender's connection at the end, else `null`. */
  tcp: TcpInfo | null;
}

/** A message on the control connection. */
export type PerfMessage =
  | { type: "test"; test: PerfTest }
  | { type: "accepted"; udpPort: number }
  | { type: "refused"; why: string }
  | { type: "start" }
  | { type: "stop"; streams: StreamResult[] };

/** What a connection is for. */
export enum PerfConnKind {
  /** Messages. */
  Control = 1,
  /** Data. */
  Stream,
}

/** Length of the head of each connection. */
export const PREFACE_BYTES = 16;

const MAGIC = 0x43565046;

/** The head of a connection. */
export interface Preface {
  /** What it is for. */
  kind: PerfConnKind;
  /** The test that it belongs to, a number that the client drew. */
  id: number;
  /** Number of the stream. */
  index: number;
}

/** Writes the head of a connection. */
export function emitPreface({ kind, id, index }: Preface): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(PREFACE_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, MAGIC);
  view.setUint32(4, kind);
  view.setUint32(8, id);
  view.setUint32(12, index);
  return bytes;
}

/** Reads the head of a connection; `null` if it is none. */
export function parsePreface(bytes: Uint8Array): Preface | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const kind = view.getUint32(4);
  if (view.getUint32(0) !== MAGIC || PerfConnKind[kind] === undefined) return null;
  return { kind, id: view.getUint32(8), index: view.getUint32(12) };
}

/** The id under which the datagrams of a stream travel. */
export function datagramStream(id: number, index: number): number {
  return (id + index) >>> 0;
}

/** Checks what a client asks for; why it is refused, or `null`. */
export function refusalOf(message: unknown): string | null {
  const { type, test: t } = (message ?? {}) as { type?: unknown; test?: Partial<PerfTest> };
  if (type !== "test" || typeof t !== "object" || t === null) return "no test was asked for";
  const isWhole = (n: unknown, least: number, most: number): boolean =>
    typeof n === "number" && Number.isInteger(n) && n >= least && n <= most;
  if (t.protocol !== "tcp" && t.protocol !== "udp") return "the protocol is neither tcp nor udp";
  if (typeof t.reverse !== "boolean") return "reverse is neither true nor false";
  if (!isWhole(t.streams, 1, STREAMS_MAX)) return `streams must be from 1 to ${STREAMS_MAX}`;
  if (typeof t.seconds !== "number" || !(t.seconds > 0 && t.seconds <= SECONDS_MAX)) {
    return `seconds must be more than 0 and at most ${SECONDS_MAX}`;
  }
  if (typeof t.bitsPerSec !== "number" || !(t.bitsPerSec >= 0 && t.bitsPerSec < 1e15)) {
    return "the rate is out of range";
  }
  const [least, most] = LENGTH_BYTES[t.protocol];
  if (!isWhole(t.lengthBytes, least, most)) return `the length must be from ${least} to ${most} bytes`;
  if (!isWhole(t.udpPort, t.protocol === "udp" ? 1 : 0, 65535)) return "the UDP port is out of range";
  return null;
}

/** The results in the next Stop. */
export async function nextStop(messages: AsyncGenerator<unknown>): Promise<StreamResult[]> {
  const { value, done } = await messages.next();
  const message = value as PerfMessage | undefined;
  if (done || message?.type !== "stop" || !Array.isArray(message.streams)) {
    throw new Deno.errors.UnexpectedEof("the other end did not say how the test ended");
  }
  return message.streams;
}
