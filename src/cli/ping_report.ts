/**
 * What `ping` prints, in the line forms of ping(8), and as JSON.
 *
 * @module
 */

import { toMilliseconds } from "../base/time.ts";
import type { PingAnswer } from "../socket/ping.ts";

/** The most answers that are kept for JSON. */
const ANSWERS_MAX = 100_000;

/** Round-trip times in milliseconds. */
export interface RttStats {
  /** Smallest. */
  min: number;
  /** Mean. */
  avg: number;
  /** Greatest. */
  max: number;
  /** Standard deviation. */
  mdev: number;
}

/** What came out of pinging; what `--json` prints. */
export interface PingReport {
  /** The host that was pinged. */
  destination: string;
  /** Bytes of data in each request. */
  sizeBytes: number;
  /** Requests sent. */
  transmitted: number;
  /** Requests answered. */
  received: number;
  /** Further answers. */
  duplicates: number;
  /** Requests that ended in an error. */
  errors: number;
  /** Share of requests that were not answered; `null` if none was sent. */
  lossPercent: number | null;
  /** From the start to the end in milliseconds. */
  timeMs: number;
  /** Round-trip times; `null` if nothing was answered. */
  rttMs: RttStats | null;
  /** How the requests ended, in that order; at most 100,000. */
  answers: PingAnswerJson[];
}

/** How one request ended. */
export type PingAnswerJson =
  | { seq: number; kind: "reply"; from: string; ttl: number; rttMs: number; bytes: number; duplicate: boolean }
  | { seq: number; kind: "timeout" }
  | { seq: number; kind: "error"; from: string; message: string };

/** Words of ping(8) for ICMP errors. */
const ERROR_WORDS: ReadonlyMap<string, string> = new Map([
  ["network unreachable", "Destination Net Unreachable"],
  ["host unreachable", "Destination Host Unreachable"],
  ["protocol unreachable", "Destination Protocol Unreachable"],
  ["port unreachable", "Destination Port Unreachable"],
  ["fragmentation needed", "Frag needed and DF set"],
  ["source route failed", "Source Route Failed"],
  ["TTL exceeded on the way", "Time to live exceeded"],
  ["hop limit exceeded on the way", "Time exceeded: Hop limit"],
  ["no route to destination", "Destination unreachable: No route"],
  ["administratively prohibited", "Destination unreachable: Administratively prohibited"],
  ["address unreachable", "Destination unreachable: Address unreachable"],
  ["packet too big", "Packet too big"],
]);

/** Bytes of IPv4 and ICMP headers. */
const V4_HEADER_BYTES = 28;

/** A round-trip time with as many digits as ping(8) shows. */
export function formatRtt(milliseconds: number): string {
  const digits = milliseconds >= 99.95 ? 0 : milliseconds >= 9.995 ? 1 : milliseconds >= 0.9995 ? 2 : 3;
  return milliseconds.toFixed(digits);
}

/** A number with at most six significant digits, as `%g` shows it. */
function general(n: number): string {
  return `${Number(n.toPrecision(6))}`;
}

/** The first line. */
export function formatPingHeader(destination: string, sizeBytes: number): string {
  const size = destination.includes(":")
    ? `${sizeBytes} data bytes`
    : `${sizeBytes}(${sizeBytes + V4_HEADER_BYTES}) bytes of data.`;
  return `PING ${destination} (${destination}) ${size}`;
}

/** The line of an answer; `null` if ping(8) prints none. */
export function formatPingAnswer(answer: PingAnswer): string | null {
  const { seq } = answer;
  switch (answer.kind) {
    case "reply": {
      // The ICMP header counts.
      const text = `${answer.bytes + 8} bytes from ${answer.from}: icmp_seq=${seq} ttl=${answer.ttl}`;
      return `${text} time=${formatRtt(toMilliseconds(answer.rtt))} ms${answer.duplicate ? " (DUP!)" : ""}`;
    }
    case "error":
      return `From ${answer.from} icmp_seq=${seq} ${ERROR_WORDS.get(answer.message) ?? answer.message}`;
    case "timeout":
      return null;
  }
}

/** The block at the end. */
export function formatPingSummary(r: PingReport): string {
  const parts = [`${r.transmitted} packets transmitted`, `${r.received} received`];
  if (r.duplicates > 0) parts.push(`+${r.duplicates} duplicates`);
  if (r.errors > 0) parts.push(`+${r.errors} errors`);
  if (r.lossPercent !== null) parts.push(`${general(r.lossPercent)}% packet loss`);
  parts.push(`time ${Math.round(r.timeMs)}ms`);
  const lines = [`--- ${r.destination} ping statistics ---`, parts.join(", ")];
  if (r.rttMs !== null) {
    const { min, avg, max, mdev } = r.rttMs;
    lines.push(`rtt min/avg/max/mdev = ${[min, avg, max, mdev].map((n) => n.toFixed(3)).join("/")} ms`);
  }
  return lines.join("\n");
}

/** Sums answers up. */
export class PingTally {
  /** Requests answered. */
  received = 0;
  /** Further answers. */
  duplicates = 0;
  /** Requests that ended in an error. */
  errors = 0;
  readonly #answers: PingAnswerJson[] = [];
  #min = Infinity;
  #max = 0;
  #sum = 0;
  #sumOfSquares = 0;

  /** Takes note of an answer. */
  add(answer: PingAnswer): void {
    const { seq, kind } = answer;
    if (kind === "reply") {
      const rttMs = toMilliseconds(answer.rtt);
      this.#min = Math.min(this.#min, rttMs);
      this.#max = Math.max(this.#max, rttMs);
      this.#sum += rttMs;
      this.#sumOfSquares += rttMs * rttMs;
      if (answer.duplicate) this.duplicates++;
      else this.received++;
      const { from, ttl, bytes, duplicate } = answer;
      this.#keep({ seq, kind, from, ttl, rttMs, bytes, duplicate });
    } else if (kind === "error") {
      this.errors++;
      this.#keep({ seq, kind, from: answer.from, message: answer.message });
    } else {
      this.#keep({ seq, kind });
    }
  }

  /** The report. */
  report(destination: string, sizeBytes: number, transmitted: number, timeMs: number): PingReport {
    return {
      destination,
      sizeBytes,
      transmitted,
      received: this.received,
      duplicates: this.duplicates,
      errors: this.errors,
      lossPercent: transmitted === 0 ? null : 100 * (transmitted - this.received) / transmitted,
      timeMs,
      rttMs: this.#rtt(),
      answers: this.#answers,
    };
  }

  /** Over all replies, duplicates too, as ping(8) does. */
  #rtt(): RttStats | null {
    const n = this.received + this.duplicates;
    if (n === 0) return null;
    const avg = this.#sum / n;
    const mdev = Math.sqrt(Math.max(0, this.#sumOfSquares / n - avg * avg));
    return { min: this.#min, avg, max: this.#max, mdev };
  }

  #keep(answer: PingAnswerJson): void {
    if (this.#answers.length < ANSWERS_MAX) this.#answers.push(answer);
  }
}
