/**
 * `perf` and `rpc` as processes, two at a time over the loopback, each with the least permissions that its help names.
 *
 * @module
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { CliProcess, hostFlags, LOOPBACK, runCli, startUp, withFolder } from "../testing/run_cli.ts";

Deno.test("cli: perf over TCP, both ways, in several streams", () =>
  withFolder(async (folder) => {
    const started = await startUp(folder);
    await using up = started.up;
    const text = await runCli(["perf", "-c", "10.7.0.2", "-t", "0.6", "-i", "0.3", ...started.peer]);
    assertEquals([text.code, text.err], [0, ""]);
    const lines = text.out.split("\n");
    assertEquals(lines[0], "Connecting to host 10.7.0.2, port 5201");
    assertMatch(lines[1]!, /^\[ +5\] local 10\.7\.0\.1 port \d+ connected to 10\.7\.0\.2 port 5201$/);
    assertEquals(lines[2], "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd");
    assertMatch(
      lines[3]!,
      /^\[ +5\] +0\.00-\d+\.\d\d +sec +[ \d.]+ [KM]?Bytes +[ \d.]+ [KMG]?bits\/sec +[ \d]{3,} +[ \d.]+ [KM]?Bytes$/,
    );
    assert(text.out.includes("  sender\n") && text.out.includes("  receiver\n"));
    assertMatch(text.out, /\nculvert perf: done\.\n$/);

    const args = ["perf", "-c", "fd07::2", "-t", "0.5", "-R", "-P", "3", "--json", ...started.peer];
    const { code, out } = await runCli(args);
    assertEquals(code, 0);
    const { start, end, interrupted } = JSON.parse(out);
    assertEquals([start.connected.length, end.streams.length, interrupted], [3, 3, false]);
    assertEquals(start.test_start.reverse, 1);
    // Every byte that was sent arrived.
    assertEquals(end.sum_received.bytes, end.sum_sent.bytes);
    for (const { sender, receiver } of end.streams) {
      assert(receiver.bytes > 0);
      assertEquals(receiver.bytes, sender.bytes);
      assertEquals(sender.tcp_info.congestion, "cubic");
    }

    const paced = await runCli(["perf", "-c", "10.7.0.2", "-t", "0.5", "-b", "4M", "-J", ...started.peer]);
    assertEquals(paced.code, 0);
    const { bytes } = JSON.parse(paced.out).end.sum_received;
    // A quarter of a megabyte, and never more than one write of ten milliseconds ahead.
    assert(bytes > 0 && bytes <= 250_000 + 5_000, `${bytes}`);

    up.kill("SIGINT");
    const last = await up.result();
    assertEquals(last.code, 0, last.err);
  }));

Deno.test("cli: perf over UDP, both ways, with loss as it was asked for", () =>
  withFolder(async (folder) => {
    const started = await startUp(folder);
    await using _up = started.up;
    const base = [
      "perf",
      "-c",
      "10.7.0.2",
      "-u",
      "-t",
      "0.5",
      "-b",
      "4M",
      "-l",
      "1000",
      ...started.peer,
      "--seed",
      "1",
    ];
    const forth = await runCli([...base, "--impair", "loss 10%", "--json"]);
    assertEquals(forth.code, 0, forth.err);
    const { sum_sent, sum_received } = JSON.parse(forth.out).end;
    assertEquals(sum_sent.packets, 250);
    assertEquals(sum_received.packets, 250);
    assert(sum_received.lost_packets > 5 && sum_received.lost_packets < 200, `${sum_received.lost_packets} were lost`);
    assertEquals(sum_received.bytes, (250 - sum_received.lost_packets) * 1000);
    assert(sum_received.jitter_ms >= 0);

    const back = await runCli([...base, "-R", "-P", "2"]);
    assertEquals([back.code, back.err], [0, ""]);
    assert(back.out.includes("[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams"));
    assertMatch(back.out, /\[SUM\].* 0\.000 ms +0\/500 \(0%\) +sender\n/);
    assertMatch(back.out, /\[SUM\].* ms +\d+\/500 \([\d.]+%\) +receiver\n/);
  }));

Deno.test("cli: SIGINT ends a perf early and with a result, whoever sends", () =>
  withFolder(async (folder) => {
    const started = await startUp(folder);
    await using _up = started.up;
    for (const direction of [[], ["-R"], ["-u", "-R"]]) {
      const args = ["perf", "-c", "10.7.0.2", "-t", "60", "-i", "0.1", ...direction, ...started.peer];
      await using perf = new CliProcess(LOOPBACK, args);
      await perf.waitFor("0.00-");
      perf.kill("SIGINT");
      const { code, out, err } = await perf.result();
      assertEquals([code, err], [0, ""], direction.join());
      for (const text of ["  sender\n", "  receiver\n", "\ninterrupted\n"]) {
        assert(out.includes(text), `${direction} ${out}`);
      }
    }
  }));

Deno.test("cli: a perf server for one test, and a port where nobody serves", async () => {
  const { a, b } = await hostFlags();
  await using server = new CliProcess(LOOPBACK, ["perf", "-s", "-1", "-p", "7777", ...b]);
  await server.waitFor("Server listening on 7777");
  const refused = await runCli(["perf", "-c", "10.7.0.2", "-t", "0.2", ...a]);
  assertEquals([refused.code, refused.out], [1, "Connecting to host 10.7.0.2, port 5201\n"]);
  assertMatch(refused.err, /^culvert: perf: cannot connect to 10\.7\.0\.2:5201: [^\n]+\n$/);
  const json = await runCli(["rpc", "-c", "10.7.0.2", "--json", ...a]);
  assertEquals(json.code, 1);
  assertMatch(JSON.parse(json.out).error, /^rpc: cannot connect to 10\.7\.0\.2:5202: /);
  assertEquals((await runCli(["perf", "-c", "10.7.0.2", "-p", "7777", "-t", "0.2", ...a])).code, 0);
  const { code, out } = await server.result();
  assertEquals(code, 0);
  assertMatch(out, /Accepted connection from 10\.7\.0\.1: TCP, 1 stream, 0\.2 s\n/);
  assertMatch(out, /\[ +5\] +0\.00-\d+\.\d\d +sec .* receiver\n$/);
});

Deno.test("cli: rpc answers every request of an open loop", () =>
  withFolder(async (folder) => {
    const started = await startUp(folder);
    await using _up = started.up;
    const args = [
      "rpc",
      "-c",
      "10.7.0.2",
      "--rate",
      "200",
      "-t",
      "0.5",
      "-P",
      "3",
      "--size",
      "300",
      "--reply-size",
      "3000",
    ];
    const { code, out, err } = await runCli([...args, "--json", "--impair", "delay 10ms", ...started.peer]);
    assertEquals(code, 0, err);
    const report = JSON.parse(out);
    assertEquals([report.requests, report.answered, report.unanswered, report.interrupted], [100, 100, 0, false]);
    assertEquals(report.latency.count, 100);
    // The delay is in every latency.
    assert(report.latency.min >= 10, `${report.latency.min}`);
    const { p50, p90, p99 } = report.latency.percentiles;
    assert(report.latency.min <= p50 && p50 <= p90 && p90 <= p99 && p99 <= report.latency.max);
    assertEquals(report.tcp.length, 3);

    const text = await runCli(["rpc", "-c", "fd07::2", "-r", "50", "-t", "0.2", ...started.peer]);
    assertEquals(text.code, 0);
    assertMatch(
      text.out,
      /^fd07::2 port 5202: 50 requests\/s of 100 bytes, replies of 100 bytes, 1 connection\n10 requests, 10 answered/,
    );
    assertMatch(text.out, /latency in ms +min +mean +stddev +p50 +p90 +p99 +p99\.9 +p99\.99 +max\n/);
  }));

Deno.test("cli: SIGINT ends an rpc early, with what was answered", async () => {
  const { a, b } = await hostFlags();
  await using server = new CliProcess(LOOPBACK, ["rpc", "-s", "-1", "--json", ...b]);
  await server.waitFor("Server listening on 5202");
  await using client = new CliProcess(LOOPBACK, ["rpc", "-c", "10.7.0.2", "-t", "60", "--json", ...a]);
  // Progress, on standard error.
  await client.waitFor(" answered");
  client.kill("SIGINT");
  const { code, out, err } = await client.result();
  assertEquals(code, 0, err);
  const report = JSON.parse(out);
  assertEquals([report.interrupted, report.unanswered], [true, 0]);
  assertEquals([report.load.durationMs, report.load.timeoutMs], [60_000, 5_000]);
  assert(report.answered === report.requests && report.requests < 6000);
  const served = await server.result();
  const wanted = { client: "10.7.0.1", answered: report.answered, failure: null };
  assertEquals([served.code, JSON.parse(served.out)], [0, wanted]);
});
