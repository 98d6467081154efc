/**
 * What `perf` found, in the line forms of iperf3 and as JSON with iperf3's names.
 *
 * @module
 */

import type { PerfInterval, PerfReport, StreamEnds } from "./perf_client.ts";
import type { PerfTest, StreamResult } from "./perf_protocol.ts";
import type { StreamCounters } from "./perf_streams.ts";
import { formatBitRate, formatBytes } from "./quantities.ts";

/** The line between parts. */
export const SEPARATOR: string = Array(25).fill("-").join(" ");

/** Which end the lines are about. */
type Side = "sender" | "receiver";

/** The number that stands for a stream, as iperf3 shows its sockets. */
function idOf(index: number): number {
  return 5 + 2 * index;
}

function idText(id: number | null): string {
  return id === null ? "[SUM]" : `[${String(id).padStart(3)}]`;
}

function bitsPerSec(bytes: number, seconds: number): number {
  return seconds > 0 ? bytes * 8 / seconds : 0;
}

function common(id: number | null, from: number, to: number, bytes: number): string {
  const span = `${from.toFixed(2).padStart(6)}-${to.toFixed(2).padEnd(6)} sec`;
  return `${idText(id)} ${span}  ${formatBytes(bytes)}  ${formatBitRate(bitsPerSec(bytes, to - from))}`;
}

/** Percent with two significant digits. */
function percent(part: number, whole: number): string {
  return `${whole === 0 ? 0 : Number((100 * part / whole).toPrecision(2))}%`;
}

function lossText(jitter: number, lost: number, packets: number): string {
  const total = packets + lost;
  return `${jitter.toFixed(3)} ms  ${lost}/${total} (${percent(lost, total)})`;
}

function sum<K extends "bytes" | "packets" | "lost" | "outOfOrder" | "retransmits">(
  streams: readonly Record<K, number>[],
  field: K,
): number {
  return streams.reduce((total, stream) => total + stream[field], 0);
}

function mean(streams: readonly { jitter: number }[]): number {
  return streams.reduce((total, { jitter }) => total + jitter, 0) / streams.length;
}

/** The lines that tell how the streams are connected. */
export function formatConnected(ends: readonly StreamEnds[]): string {
  return ends.map(({ local, remote }, i) =>
    `${idText(idOf(i))} local ${local.hostname} port ${local.port} connected to ${remote.hostname} port ${remote.port}`
  ).join("\n");
}

/** The head of the intervals. */
export function intervalHeader(test: PerfTest): string {
  const head = "[ ID] Interval           Transfer     Bitrate";
  if (test.protocol === "tcp") return test.reverse ? head : `${head}         Retr  Cwnd`;
  return `${head}         ${test.reverse ? "Jitter    Lost/Total Datagrams" : "Total Datagrams"}`;
}

/** The lines of one interval; between two of several streams each belongs a {@linkcode SEPARATOR}. */
export function formatInterval(test: PerfTest, { from, to, streams }: PerfInterval): string {
  const line = (id: number | null, s: StreamCounters): string => {
    const text = common(id, from, to, s.bytes);
    if (test.protocol === "udp") {
      return test.reverse ? `${text}  ${lossText(s.jitter, s.lost, s.packets)}` : `${text}  ${s.packets}`;
    }
    if (test.reverse) return text;
    const cwnd = id === null ? "" : `   ${formatBytes(s.cwndBytes)}`;
    return `${text}  ${String(s.retransmits).padStart(3)}${cwnd}`;
  };
  const lines = streams.map((s, i) => line(idOf(i), s));
  if (streams.length > 1) lines.push(line(null, sumCounters(streams)));
  return lines.join("\n");
}

function sumCounters(streams: readonly StreamCounters[]): StreamCounters {
  return {
    bytes: sum(streams, "bytes"),
    packets: sum(streams, "packets"),
    lost: sum(streams, "lost"),
    outOfOrder: sum(streams, "outOfOrder"),
    retransmits: sum(streams, "retransmits"),
    jitter: mean(streams),
    cwndBytes: streams.reduce((total, { cwndBytes }) => total + cwndBytes, 0),
  };
}

function sumResults(streams: readonly StreamResult[]): StreamResult {
  return {
    bytes: sum(streams, "bytes"),
    seconds: Math.max(...streams.map(({ seconds }) => seconds)),
    packets: sum(streams, "packets"),
    lost: sum(streams, "lost"),
    outOfOrder: sum(streams, "outOfOrder"),
    duplicates: streams.reduce((total, { duplicates }) => total + duplicates, 0),
    jitter: mean(streams),
    retransmits: sum(streams, "retransmits"),
    tcp: null,
  };
}

/** The head of the summary. */
export function summaryHeader(test: PerfTest): string {
  const head = "[ ID] Interval           Transfer     Bitrate";
  return `${head}         ${test.protocol === "tcp" ? "Retr" : "Jitter    Lost/Total Datagrams"}`;
}

/** A line for each stream at one end, and for their sum. */
export function formatResults(test: PerfTest, side: Side, streams: readonly StreamResult[]): string {
  const line = (id: number | null, r: StreamResult): string => {
    const text = common(id, 0, r.seconds, r.bytes);
    if (test.protocol === "udp") return `${text}  ${lossText(r.jitter, r.lost, r.packets)}  ${side}`;
    const retransmits = side === "sender" ? String(r.retransmits).padStart(3) : "   ";
    return `${text}  ${retransmits}             ${side}`;
  };
  const lines = streams.map((r, i) => line(idOf(i), r));
  if (streams.length > 1) lines.push(line(null, sumResults(streams)));
  return lines.join("\n");
}

/** The summary of both ends. */
export function formatSummary({ test, sent, received }: PerfReport): string {
  const lines = [SEPARATOR, summaryHeader(test)];
  lines.push(formatResults(test, "sender", sent), formatResults(test, "receiver", received));
  return lines.join("\n");
}

function counted(test: PerfTest, side: Side, c: StreamCounters | StreamResult): Record<string, number> {
  if (test.protocol === "tcp") return side === "sender" ? { retransmits: c.retransmits } : {};
  if (side === "sender") return { packets: c.packets };
  const packets = c.packets + c.lost;
  return {
    jitter_ms: c.jitter,
    lost_packets: c.lost,
    packets,
    lost_percent: packets === 0 ? 0 : 100 * c.lost / packets,
    out_of_order: c.outOfOrder,
  };
}

function spanJson(from: number, to: number, bytes: number): Record<string, number> {
  return { start: from, end: to, seconds: to - from, bytes, bits_per_second: bitsPerSec(bytes, to - from) };
}

function resultJson(test: PerfTest, side: Side, r: StreamResult): Record<string, unknown> {
  return { ...spanJson(0, r.seconds, r.bytes), ...counted(test, side, r), sender: side === "sender" };
}

/** What a server found, as one JSON object. */
export function servedJson(client: string, test: PerfTest, streams: readonly StreamResult[]): Record<string, unknown> {
  const side = test.reverse ? "sender" : "receiver";
  return {
    client,
    test,
    streams: streams.map((r) => resultJson(test, side, r)),
    sum: resultJson(test, side, sumResults(streams)),
  };
}

/** The whole report as one JSON object. */
export function reportJson(report: PerfReport): Record<string, unknown> {
  const { test, ends, intervals, sent, received, interrupted } = report;
  const side = test.reverse ? "receiver" : "sender";
  return {
    start: {
      connected: ends.map(({ local, remote }, i) => ({
        socket: idOf(i),
        local_host: local.hostname,
        local_port: local.port,
        remote_host: remote.hostname,
        remote_port: remote.port,
      })),
      test_start: {
        protocol: test.protocol.toUpperCase(),
        num_streams: test.streams,
        blksize: test.lengthBytes,
        duration: test.seconds,
        reverse: test.reverse ? 1 : 0,
        target_bitrate: test.bitsPerSec,
      },
    },
    intervals: intervals.map(({ from, to, streams }) => ({
      streams: streams.map((s, i) => ({
        socket: idOf(i),
        ...spanJson(from, to, s.bytes),
        ...counted(test, side, s),
        ...(test.protocol === "tcp" && !test.reverse ? { snd_cwnd: s.cwndBytes } : {}),
        sender: side === "sender",
      })),
      sum: {
        ...spanJson(from, to, sum(streams, "bytes")),
        ...counted(test, side, sumCounters(streams)),
        sender: side === "sender",
      },
    })),
    end: {
      streams: sent.map((s, i) => ({
        socket: idOf(i),
        sender: { ...resultJson(test, "sender", s), tcp_info: s.tcp },
        receiver: resultJson(test, "receiver", received[i]!),
      })),
      sum_sent: resultJson(test, "sender", sumResults(sent)),
      sum_received: resultJson(test, "receiver", sumResults(received)),
    },
    interrupted,
  };
}
