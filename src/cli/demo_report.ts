/**
 * What the demo found, as data and as a table.
 *
 * @module
 */

import type { TcpInfo } from "../tcp/info.ts";
import { bold, table } from "./terminal.ts";

/** Quantiles of a round-trip time in milliseconds. */
export interface RttSummary {
  /** Answers received. */
  count: number;
  /** Requests without an answer. */
  lost: number;
  /** Smallest. */
  min: number;
  /** Median. */
  p50: number;
  /** 99th percentile. */
  p99: number;
  /** Greatest. */
  max: number;
}

/** One direction of the bulk transfer. */
export interface BulkSummary {
  /** Bytes that arrived. */
  bytes: number;
  /** Seconds from the first byte to the end of the stream. */
  seconds: number;
  /** Goodput in Mbit/s. */
  goodputMbitPerSec: number;
  /** True if every byte was compared and right, and none is missing. */
  verified: boolean;
}

/** What one peer has to tell at the end. */
export interface PeerSummary {
  /** Drops by reason. */
  drops: Record<string, number>;
  /** Retransmitted segments by kind, over all connections. */
  retransmits: TcpInfo["retransmits"];
  /** The bulk sender at the end of its transfer. */
  sender: TcpInfo | null;
  /** The bulk transfer that this peer received. */
  received: BulkSummary | null;
}

/** The whole result; what `--json` prints. */
export interface DemoReport {
  /** The impairment each way, as a tc-netem string. */
  impairment: string;
  /** The seed. */
  seed: number;
  /** Wall time in seconds. */
  seconds: number;
  /** Pings, all through the demo. */
  ping: RttSummary;
  /** One-byte requests, after the bulk transfers. */
  requests: RttSummary;
  /** Bulk from a to b and back. */
  bulk: { aToB: BulkSummary; bToA: BulkSummary };
  /** Retransmitted segments by kind. */
  retransmits: { a: TcpInfo["retransmits"]; b: TcpInfo["retransmits"] };
  /** Drops by reason. */
  drops: { a: Record<string, number>; b: Record<string, number> };
  /** The bulk senders at the end of their transfers. */
  senders: { a: TcpInfo | null; b: TcpInfo | null };
}

/** No retransmissions. */
export function noRetransmits(): TcpInfo["retransmits"] {
  return { fast: 0, probe: 0, timeout: 0, loss: 0, syn: 0 };
}

/** Adds `more` to `sum`. */
export function addRetransmits(sum: TcpInfo["retransmits"], more: TcpInfo["retransmits"]): void {
  for (const kind of Object.keys(sum) as (keyof TcpInfo["retransmits"])[]) sum[kind] += more[kind];
}

/** Summary of round-trip times in milliseconds. */
export function summarizeRtts(rtts: readonly number[], lost: number): RttSummary {
  const sorted = [...rtts].sort((a, b) => a - b);
  const at = (q: number): number =>
    sorted.length === 0 ? 0 : round(sorted[Math.min(sorted.length - 1, Math.ceil(q * sorted.length) - 1)]!);
  return {
    count: sorted.length,
    lost,
    min: round(sorted[0] ?? 0),
    p50: at(0.5),
    p99: at(0.99),
    max: round(sorted.at(-1) ?? 0),
  };
}

function round(milliseconds: number): number {
  return Math.round(milliseconds * 1000) / 1000;
}

/** The report as a small table. */
export function formatDemoReport(r: DemoReport): string {
  const ms = (n: number): string => `${n.toFixed(1)} ms`;
  const bulk = (b: BulkSummary): string[] => [
    `${b.goodputMbitPerSec.toFixed(2)} Mbit/s`,
    `${(b.bytes / 1e6).toFixed(2)} MB`,
    b.verified ? "every byte verified" : "BYTES WRONG OR MISSING",
  ];
  const rtt = (s: RttSummary): string[] => [ms(s.p50), ms(s.p99), ms(s.min), ms(s.max), `${s.count}`, `${s.lost}`];
  const list = (o: Record<string, number>): string =>
    Object.entries(o).filter(([, n]) => n > 0).map(([name, n]) => `${name} ${n}`).join(", ") || "none";
  const sender = (i: TcpInfo | null): string[] =>
    i === null ? ["-", "-", "-", "-"] : [ms(i.rtt), ms(i.rttvar), `${i.cwnd}`, i.ssthresh < 0 ? "-" : `${i.ssthresh}`];
  return [
    `${bold("each way")}  ${r.impairment}   (seed ${r.seed}, ${r.seconds.toFixed(1)} s)`,
    "",
    table([
      [bold("goodput"), "", "", ""],
      ["a -> b", ...bulk(r.bulk.aToB)],
      ["b -> a", ...bulk(r.bulk.bToA)],
    ]),
    "",
    table([
      [bold("round trip"), "p50", "p99", "min", "max", "answers", "lost"],
      ["ping, all through", ...rtt(r.ping)],
      ["1-byte requests", ...rtt(r.requests)],
    ]),
    "",
    table([
      [bold("bulk sender"), "srtt", "rttvar", "cwnd", "ssthresh"],
      ["a", ...sender(r.senders.a)],
      ["b", ...sender(r.senders.b)],
    ]),
    "",
    `${bold("retransmissions")}  a: ${list({ ...r.retransmits.a })};  b: ${list({ ...r.retransmits.b })}`,
    `${bold("drops")}  a: ${list(r.drops.a)};  b: ${list(r.drops.b)}`,
  ].join("\n");
}
