/**
 * `up` and `ping` as processes, two at a time over the loopback, each with the least permissions that its help names.
 *
 * @module
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { freePort } from "../testing/host_pair.ts";
import { readPcapng } from "../testing/pcapng_reader.ts";
import { assertRefused, CliProcess, hostFlags, LOOPBACK, runCli, startUp, withFolder } from "../testing/run_cli.ts";
import { HAS_TSHARK, readByTshark } from "../testing/tshark.ts";

Deno.test("cli: up serves, ping asks, both capture, SIGINT ends with counters", () =>
  withFolder(async (folder) => {
    const started = await startUp(folder, "--pcap", `${folder}/b.pcapng`);
    await using up = started.up;
    await up.waitFor("SIGINT ends it");
    const capture = `${folder}/a.pcapng`;
    const ping = await runCli(
      ["ping", "-c", "3", "-i", "0.05", "10.7.0.2", ...started.peer, "--impair", "delay 5ms", "--pcap", capture],
      `--allow-write=${capture}`,
    );
    assertEquals([ping.code, ping.err], [0, ""]);
    const lines = ping.out.trimEnd().split("\n");
    assertEquals(lines[0], "PING 10.7.0.2 (10.7.0.2) 56(84) bytes of data.");
    for (let seq = 1; seq <= 3; seq++) {
      assertMatch(lines[seq]!, new RegExp(`^64 bytes from 10\\.7\\.0\\.2: icmp_seq=${seq} ttl=64 time=[\\d.]+ ms$`));
    }
    assertEquals(lines.slice(4, 6), ["", "--- 10.7.0.2 ping statistics ---"]);
    assertMatch(lines[6]!, /^3 packets transmitted, 3 received, 0% packet loss, time \d+ms$/);
    assertMatch(lines[7]!, /^rtt min\/avg\/max\/mdev = [\d.]+\/[\d.]+\/[\d.]+\/[\d.]+ ms$/);

    const quiet = await runCli(["ping", "-q", "-6", "-c", "2", "-i", "20ms", "-s", "8", "fd07::2", ...started.peer]);
    assertEquals(quiet.code, 0);
    assertMatch(quiet.out, /^PING fd07::2 \(fd07::2\) 8 data bytes\n\n--- fd07::2 ping statistics ---\n2 packets/);

    up.kill("SIGINT");
    const end = await up.result();
    assertEquals(end.code, 0, end.err);
    for (const text of ["10.7.0.2/24, fd07::2/64", "service rpc", "UDP 127.0.0.1:"]) {
      assert(end.out.includes(text), text);
    }
    // Three packets of 84 bytes and two of 56 in, and the same out.
    assertMatch(end.out, /\na +5 +364 +5 +364 +0\n/);
    assertMatch(end.out, /drops +none/);

    const ofA = readPcapng(await Deno.readFile(capture));
    const count = (name: string) => ofA.packets.filter((p) => p.name === name).length;
    assertEquals([count("b:out"), count("b:out:wire"), count("b:in")], [3, 3, 3]);
    const ofB = readPcapng(await Deno.readFile(`${folder}/b.pcapng`));
    assertEquals(ofB.statistics, { "a:in": { received: 5, dropped: 0 }, "a:out": { received: 5, dropped: 0 } });
    if (HAS_TSHARK) {
      assertEquals((await readByTshark(capture)).filter(({ verified }) => verified.includes("icmp")).length, 9);
      assertEquals((await readByTshark(`${folder}/b.pcapng`)).length, 10);
    }
  }));

Deno.test("cli: ping of an address that does not answer ends with code 1", async () => {
  const { a } = await hostFlags();
  const lost = await runCli(["ping", "-c", "2", "-i", "0.02", "-W", "0.1", "10.7.0.2", ...a]);
  assertEquals(lost.code, 1);
  assertMatch(lost.out, /2 packets transmitted, 0 received, 100% packet loss, time \d+ms\n$/);
  const json = await runCli(["ping", "--json", "-c", "1", "-i", "0.02", "-W", "0.1", "192.0.2.1", ...a]);
  assertEquals(json.code, 1);
  const report = JSON.parse(json.out);
  assertEquals([report.transmitted, report.errors, report.rttMs, report.answers.length], [0, 1, null, 1]);
});

Deno.test("cli: SIGINT ends a ping with its statistics", () =>
  withFolder(async (folder) => {
    const started = await startUp(folder);
    await using up = started.up;
    for (const signal of ["SIGINT", "SIGTERM"] as const) {
      await using ping = new CliProcess(LOOPBACK, ["ping", "-i", "0.05", "10.7.0.2", ...started.peer]);
      await ping.waitFor("icmp_seq=3");
      ping.kill(signal);
      const { code, out, err } = await ping.result();
      assertEquals([code, err], [0, ""]);
      const [, sent, received] = /\n(\d+) packets transmitted, (\d+) received/.exec(out)!;
      assert(Number(received) >= 3 && Number(sent) >= Number(received), out);
    }
    // Nothing has come back from an address that nobody has.
    await using ping = new CliProcess(LOOPBACK, [
      "ping",
      "-q",
      "-W",
      "60",
      "10.7.0.2",
      ...started.peer,
      "--impair",
      "loss 100%",
    ]);
    await ping.waitFor("PING");
    // The signal is listened for before the first line.
    ping.kill("SIGINT");
    const { code, out } = await ping.result();
    assertEquals(code, 1);
    assertMatch(out, /\n[01] packets transmitted, 0 received/);
    up.kill("SIGTERM");
    assertEquals((await up.result()).code, 0);
  }));

Deno.test("cli: up tells when a peer is heard of, falls silent and moves, in words and in JSON", async () => {
  const [one, two, three] = [await freePort(), await freePort(), await freePort()];
  const timing = ["--keepalive", "50ms", "--dead-after", "400ms"];
  const other = (port: number) => [
    "up",
    ...["--address", "10.7.0.2/24", "--listen", `127.0.0.1:${port}`, "--peer", `a=127.0.0.1:${one},10.7.0.1`],
    ...timing,
  ];
  for (const more of [[], ["--json"]]) {
    await using up = new CliProcess(["--allow-net=127.0.0.1,localhost"], [
      "up",
      ...["--address", "10.7.0.1/24", "--listen", `127.0.0.1:${one}`],
      ...["--peer", `b=localhost:${two},10.7.0.2,roaming`, ...timing, ...more],
    ]);
    {
      await using b = new CliProcess(LOOPBACK, other(two));
      await up.waitFor(more.length === 0 ? `peer b is alive at 127.0.0.1:${two}` : '"kind":"alive"');
      b.kill("SIGINT");
      assertEquals((await b.result()).code, 0);
    }
    await up.waitFor(more.length === 0 ? `peer b is dead at 127.0.0.1:${two}` : '"kind":"dead"');
    await using moved = new CliProcess(LOOPBACK, other(three));
    await up.waitFor(more.length === 0 ? `peer b has moved to 127.0.0.1:${three} (roaming)` : '"learnedBy":"roaming"');
    await moved.waitFor("peer a is alive");
    up.kill("SIGINT");
    const { code, out, err } = await up.result();
    assertEquals(code, 0, err);
    if (more.length > 0) {
      const lines = out.trimEnd().split("\n").map((line) => JSON.parse(line));
      assertEquals([lines[0].event, lines[1].event, lines[1].peer, lines.at(-1).event], ["up", "peer", "b", "closed"]);
      assertEquals(lines.at(-1).interfaces[0].state, "alive");
    }
  }
  const refused = await runCli(["up", "--address", "10.7.0.1/24", "--peer", "b=b.example:1,10.7.0.2"]);
  assertEquals([refused.code, refused.out], [2, ""]);
  assertEquals(refused.err, "culvert: up: looking up b.example needs --allow-net=b.example\n");
});

Deno.test("cli: up tells its routes in the words of ip route", async () => {
  const { a } = await hostFlags();
  await using up = new CliProcess(LOOPBACK, [
    ...["up", ...a, "--route", "10.20.0.0/16,b,metric 10,weight 3", "--route", "10.21.0.0/16,b"],
    ...["--route", "10.0.0.0/8,unreachable"],
  ]);
  await up.waitFor("SIGINT ends it");
  up.kill("SIGINT");
  const routes = (await up.result()).out.split("\n").filter((line) => line.startsWith("route "));
  assertEquals(routes.map((line) => line.slice("route".length).trim()), [
    "10.20.0.0/16 via b metric 10 weight 3",
    "10.21.0.0/16 via b",
    "unreachable 10.0.0.0/8",
  ]);
});

Deno.test("cli: what keeps a host from being opened is one line and code 1", async () => {
  const { a } = await hostFlags();
  await using first = new CliProcess(LOOPBACK, ["up", ...a]);
  await first.waitFor("SIGINT ends it");
  const second = await runCli(["up", ...a]);
  assertEquals([second.code, second.out], [1, ""]);
  assertMatch(second.err, /^culvert: up: cannot bind UDP to 127\.0\.0\.1:\d+: [^\n]+\n$/);
});

Deno.test("cli: up tells scripts what it is and what it saw", () =>
  withFolder(async (folder) => {
    const started = await startUp(folder, "--json");
    await using up = started.up;
    await up.waitFor("\n");
    await runCli(["ping", "-c", "1", "10.7.0.2", ...started.peer]);
    up.kill("SIGTERM");
    const { code, out } = await up.result();
    assertEquals(code, 0);
    const [first, last] = out.trimEnd().split("\n").map((line) => JSON.parse(line));
    assertEquals([first.event, first.addresses, first.peers[0].name], ["up", ["10.7.0.2/24", "fd07::2/64"], "a"]);
    assertEquals(first.services, { echo: 7, discard: 9, perf: 5201, rpc: 5202 });
    assertEquals([last.event, last.interfaces[0].packetsIn, last.interfaces[0].packetsOut], ["closed", 1, 1]);
  }));

Deno.test("cli: a capture that fails later is told in the end", {
  ignore: Deno.build.os !== "linux",
}, async () => {
  const { a } = await hostFlags();
  // Deno grants a device only with everything else.
  await using child = new CliProcess(["--allow-all"], [
    ...["ping", "-c", "1", "-W", "0.1", "--pcap", "/dev/full", "10.7.0.2"],
    ...a,
  ]);
  const { code, err } = await child.result();
  assertEquals(code, 1);
  assertMatch(err, /^culvert: ping: the capture \/dev\/full is incomplete: No space left [^\n]+\n$/);
});

Deno.test("cli: a file, which flags complete", () =>
  withFolder(async (folder) => {
    const path = `${folder}/host.yaml`;
    await Deno.writeTextFile(path, "address: 10.7.0.1/24\n");
    const refused = await runCli(
      ["ping", "-c", "1", "--config", path, "--peer", "b=127.0.0.1:9", "10.7.0.2"],
      `--allow-read=${path}`,
      "--allow-env=LOG_TOKENS,LOG_STREAM",
    );
    assertRefused(refused, "--peer: found");
    const withoutEnv = await runCli(["ping", "-c", "1", "--config", path, "10.7.0.2"], `--allow-read=${path}`);
    assertRefused(withoutEnv, "--allow-env=LOG_TOKENS,LOG_STREAM");
  }));
