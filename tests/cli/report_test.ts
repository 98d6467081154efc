/**
 * What the commands print: units, the line forms of ping(8) and iperf3, JSON.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { MICROSECOND, MILLISECOND, SECOND } from "../../src/base/time.ts";
import type { PerfReport } from "../../src/cli/perf_client.ts";
import type { PerfTest, StreamResult } from "../../src/cli/perf_protocol.ts";
import { formatInterval, formatResults, formatSummary, intervalHeader, reportJson } from "../../src/cli/perf_report.ts";
import type { StreamCounters } from "../../src/cli/perf_streams.ts";
import {
  formatPingAnswer,
  formatPingHeader,
  formatPingSummary,
  formatRtt,
  PingTally,
} from "../../src/cli/ping_report.ts";
import { formatBitRate, formatBytes, parseBitRate, parseByteCount, parseSeconds } from "../../src/cli/quantities.ts";
import type { PingAnswer } from "../../src/socket/ping.ts";

Deno.test("quantities: what is taken", () => {
  const seconds: [string, number][] = [["10", 10 * SECOND], ["0.2", 0.2 * SECOND], [".5", SECOND / 2], [
    "200ms",
    0.2 * SECOND,
  ]];
  for (const [text, value] of seconds) assertEquals(parseSeconds(text), value, text);
  const rates: [string, number][] = [["0", 0], ["500k", 5e5], ["10M", 1e7], ["1.5Gbit", 1.5e9], ["7bit/s", 7], [
    "1T",
    1e12,
  ]];
  for (const [text, value] of rates) assertEquals(parseBitRate(text), value, text);
  const bytes: [string, number][] = [["1400", 1400], ["128K", 131072], ["1M", 1 << 20], ["64KiB", 65536], [
    "1.5k",
    1536,
  ]];
  for (const [text, value] of bytes) assertEquals(parseByteCount(text), value, text);
});

Deno.test("quantities: what is refused", () => {
  for (const text of ["", "x", "-1", "1h", "1 s", "1e3"]) {
    assertEquals(parseSeconds(text), NaN, text);
  }
  for (const text of ["", "-1", "10MB", "10MBps", "10mbps", "1.2.3", "10 M", "M"]) {
    assertEquals(parseBitRate(text), NaN, text);
  }
  for (const text of ["", "-1", "0.3", "10Mbit", "K"]) assertEquals(parseByteCount(text), NaN, text);
});

Deno.test("quantities: the forms of iperf3", () => {
  const rates: [number, string][] = [
    [0, "0.00 bits/sec"],
    [9.994, "9.99 bits/sec"],
    [47_200_000, "47.2 Mbits/sec"],
    [99_949_000, "99.9 Mbits/sec"],
    [171_000_000, " 171 Mbits/sec"],
    [1_050_000_000, "1.05 Gbits/sec"],
  ];
  for (const [n, text] of rates) assertEquals(formatBitRate(n), text);
  assertEquals(formatBytes(5.62 * 2 ** 20), "5.62 MBytes");
  assertEquals(formatBytes(102 * 1024), " 102 KBytes");
  assertEquals(formatBytes(1023), "1023 Bytes");
});

const REPLY: PingAnswer = {
  kind: "reply",
  seq: 1,
  from: "10.7.0.2",
  rtt: 41.23 * MILLISECOND,
  ttl: 64,
  bytes: 56,
  duplicate: false,
};

Deno.test("ping: the lines of ping(8)", () => {
  assertEquals(formatPingHeader("10.7.0.2", 56), "PING 10.7.0.2 (10.7.0.2) 56(84) bytes of data.");
  assertEquals(formatPingHeader("fd07::2", 8), "PING fd07::2 (fd07::2) 8 data bytes");
  assertEquals(formatPingAnswer(REPLY), "64 bytes from 10.7.0.2: icmp_seq=1 ttl=64 time=41.2 ms");
  const duplicate = { ...REPLY, rtt: 400 * MICROSECOND, duplicate: true };
  assertEquals(formatPingAnswer(duplicate), "64 bytes from 10.7.0.2: icmp_seq=1 ttl=64 time=0.400 ms (DUP!)");
  assertEquals(
    formatPingAnswer({ kind: "error", seq: 2, from: "10.7.0.9", message: "TTL exceeded on the way" }),
    "From 10.7.0.9 icmp_seq=2 Time to live exceeded",
  );
  assertEquals(formatPingAnswer({ kind: "timeout", seq: 3 }), null);
});

Deno.test("ping: as many digits as ping(8)", () => {
  const cases: [number, string][] = [[0.0414, "0.041"], [0.9996, "1.00"], [4.1249, "4.12"], [9.996, "10.0"], [
    123.4,
    "123",
  ]];
  for (const [ms, text] of cases) assertEquals(formatRtt(ms), text);
});

Deno.test("ping: the statistics", () => {
  const tally = new PingTally();
  for (const ms of [10, 20, 30]) tally.add({ ...REPLY, rtt: ms * MILLISECOND });
  tally.add({ kind: "timeout", seq: 4 });
  assertEquals(
    formatPingSummary(tally.report("10.7.0.2", 56, 4, 3003.7)),
    "--- 10.7.0.2 ping statistics ---\n" +
      "4 packets transmitted, 3 received, 25% packet loss, time 3004ms\n" +
      "rtt min/avg/max/mdev = 10.000/20.000/30.000/8.165 ms",
  );
  tally.add({ ...REPLY, rtt: 20 * MILLISECOND, duplicate: true });
  tally.add({ kind: "error", seq: 6, from: "10.7.0.1", message: "no route leads there" });
  const lines = formatPingSummary(tally.report("10.7.0.2", 56, 9, 8000)).split("\n");
  assertEquals(
    lines[1],
    "9 packets transmitted, 3 received, +1 duplicates, +1 errors, 66.6667% packet loss, time 8000ms",
  );
});

Deno.test("ping: nothing sent, nothing received", () => {
  const report = new PingTally().report("fd07::2", 56, 0, 5);
  assertEquals(
    formatPingSummary(report),
    "--- fd07::2 ping statistics ---\n0 packets transmitted, 0 received, time 5ms",
  );
  assertEquals([report.lossPercent, report.rttMs, report.answers], [null, null, []]);
});

const TEST: PerfTest = {
  protocol: "tcp",
  streams: 1,
  reverse: false,
  seconds: 10,
  bitsPerSec: 0,
  lengthBytes: 131072,
  udpPort: 0,
};

const COUNTERS: StreamCounters = {
  bytes: 5.62 * 2 ** 20,
  packets: 0,
  lost: 0,
  outOfOrder: 0,
  jitter: 0,
  retransmits: 3,
  cwndBytes: 102 * 1024,
};

const RESULT: StreamResult = {
  bytes: 56.2 * 2 ** 20,
  seconds: 10,
  packets: 0,
  lost: 0,
  outOfOrder: 0,
  duplicates: 0,
  jitter: 0,
  retransmits: 12,
  tcp: null,
};

Deno.test("perf: the lines of a TCP sender", () => {
  assertEquals(intervalHeader(TEST), "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd");
  assertEquals(
    formatInterval(TEST, { from: 0, to: 1, streams: [COUNTERS] }),
    "[  5]   0.00-1.00   sec  5.62 MBytes  47.1 Mbits/sec    3    102 KBytes",
  );
  const two = formatInterval({ ...TEST, streams: 2 }, { from: 9, to: 10, streams: [COUNTERS, COUNTERS] }).split("\n");
  assertEquals(two, [
    "[  5]   9.00-10.00  sec  5.62 MBytes  47.1 Mbits/sec    3    102 KBytes",
    "[  7]   9.00-10.00  sec  5.62 MBytes  47.1 Mbits/sec    3    102 KBytes",
    "[SUM]   9.00-10.00  sec  11.2 MBytes  94.3 Mbits/sec    6",
  ]);
});

Deno.test("perf: the lines of a TCP receiver, and the summary", () => {
  const test = { ...TEST, reverse: true };
  assertEquals(intervalHeader(test), "[ ID] Interval           Transfer     Bitrate");
  assertEquals(
    formatInterval(test, { from: 0, to: 1, streams: [COUNTERS] }),
    "[  5]   0.00-1.00   sec  5.62 MBytes  47.1 Mbits/sec",
  );
  const report = { test: TEST, sent: [RESULT], received: [RESULT] } as unknown as PerfReport;
  assertEquals(formatSummary(report).split("\n").slice(1), [
    "[ ID] Interval           Transfer     Bitrate         Retr",
    "[  5]   0.00-10.00  sec  56.2 MBytes  47.1 Mbits/sec   12             sender",
    "[  5]   0.00-10.00  sec  56.2 MBytes  47.1 Mbits/sec                  receiver",
  ]);
});

Deno.test("perf: the lines of UDP", () => {
  const test: PerfTest = { ...TEST, protocol: "udp" };
  const counters = { ...COUNTERS, bytes: 131072, packets: 91, lost: 2, jitter: 0.0264 };
  assertEquals(intervalHeader(test), "[ ID] Interval           Transfer     Bitrate         Total Datagrams");
  assertEquals(
    formatInterval(test, { from: 0, to: 1, streams: [counters] }),
    "[  5]   0.00-1.00   sec   128 KBytes  1.05 Mbits/sec  91",
  );
  assertEquals(
    formatInterval({ ...test, reverse: true }, { from: 0, to: 1, streams: [counters] }),
    "[  5]   0.00-1.00   sec   128 KBytes  1.05 Mbits/sec  0.026 ms  2/93 (2.2%)",
  );
  const result = { ...RESULT, bytes: 1.25 * 2 ** 20, packets: 900, lost: 6, jitter: 0.026 };
  assertEquals(
    formatResults(test, "receiver", [result, result]).split("\n"),
    [
      "[  5]   0.00-10.00  sec  1.25 MBytes  1.05 Mbits/sec  0.026 ms  6/906 (0.66%)  receiver",
      "[  7]   0.00-10.00  sec  1.25 MBytes  1.05 Mbits/sec  0.026 ms  6/906 (0.66%)  receiver",
      "[SUM]   0.00-10.00  sec  2.50 MBytes  2.10 Mbits/sec  0.026 ms  12/1812 (0.66%)  receiver",
    ],
  );
});

Deno.test("perf: JSON has iperf3's names and no NaN, also when nothing came through", () => {
  const nothing = { ...RESULT, bytes: 0, seconds: 0, packets: 0 };
  const report: PerfReport = {
    test: { ...TEST, protocol: "udp" },
    ends: [{ local: { hostname: "10.7.0.1", port: 1 }, remote: { hostname: "10.7.0.2", port: 2 } }],
    intervals: [{ from: 0, to: 0, streams: [{ ...COUNTERS, bytes: 0 }] }],
    sent: [{ ...nothing, packets: 10 }],
    received: [nothing],
    interrupted: false,
  };
  const text = JSON.stringify(reportJson(report));
  assert(!/null|NaN/.test(text.replace('"tcp_info":null', "")), text);
  const json = JSON.parse(text);
  assertEquals(Object.keys(json), ["start", "intervals", "end", "interrupted"]);
  const { sum_received, sum_sent } = json.end;
  assertEquals([sum_sent.packets, sum_received.packets, sum_received.lost_percent], [10, 0, 0]);
  assertEquals(sum_received.bits_per_second, 0);
});
