/**
 * `culvert netem`, and impairments that `up` reads again.
 *
 * @module
 */

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { PROFILE_NAMES } from "../../src/impair/profile.ts";
import { assertRefused, callCli, CliProcess, LOOPBACK, runCli, startUp, withFolder } from "../testing/run_cli.ts";

Deno.test("cli: netem tells what an impairment is, what to expect of it, and what is rarely meant", async () => {
  const { code, out, err } = await callCli("netem", "delay 20ms 5ms distribution pareto loss gemodel 1% 10%");
  assertEquals([code, err], [0, ""]);
  for (
    const text of [
      "delay 20ms 5ms distribution pareto loss gemodel 1% 10% 100% 0%",
      "mean 19.83, sd 4.098, 1 % 16.69, 50 % 18.4, 99 % 40 ms",
      "9.09091%",
      "unlimited",
      "1000 packets",
      'word 3 "5ms": jitter makes packets overtake',
    ]
  ) assertStringIncludes(out, text);
  const json = JSON.parse((await callCli("netem", "--json", "profile lte")).out);
  assertEquals([json.netem, json.delay.mean, json.loss, json.rateBytesPerSec, json.limit, json.warnings], [
    ...["delay 35ms rate 12mbit limit 105", 35_000_000, 0, 1_500_000, 105, []],
  ]);
});

Deno.test("cli: netem reads files, and lists profiles", () =>
  withFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/cell`, "1\n2\n");
    const { out } = await callCli("netem", `delivery ${folder}/cell`);
    assertStringIncludes(out, "12032kbit");
    const list = await callCli("netem", "--profiles");
    for (const name of PROFILE_NAMES) assertStringIncludes(list.out, name);
    assertEquals(JSON.parse((await callCli("netem", "--profiles", "--json")).out).length, PROFILE_NAMES.length);
  }));

Deno.test("cli: netem refuses in one line", async () => {
  assertRefused(await callCli("netem"), "found no impairment");
  assertRefused(await callCli("netem", "dealy 1ms"), 'word 1 "dealy": expected limit');
  assertRefused(await callCli("netem", "delay", "20ms"), 'found "20ms", expected only TEXT');
  assertRefused(await callCli("netem", "trace /nowhere/at/all"), "the name of a file that can be read");
  assertRefused(await callCli("netem", "delay 1ms", "--jsno"), "unknown flag");
  assertRefused(await callCli("netem", "--profiles", "delay 1ms"), 'found "delay 1ms" with --profiles');
});

Deno.test({
  name: "cli: SIGHUP has up read its file again and take over the impairments, or nothing of a wrong file",
  ignore: Deno.build.os === "windows",
  fn: () =>
    withFolder(async (folder) => {
      const started = await startUp(folder);
      await using up = started.up;
      await up.waitFor("SIGINT ends it");
      const path = `${folder}/b.yaml`;
      const file = JSON.parse(await Deno.readTextFile(path));
      const write = (impair: string) =>
        Deno.writeTextFile(path, JSON.stringify({ ...file, peers: [{ ...file.peers[0], impair }] }));
      await write("delay 40ms");
      up.kill("SIGHUP");
      await up.waitFor("impairments read again for a");
      const ping = await runCli(["ping", "-c", "1", "10.7.0.2", ...started.peer]);
      assert(Number(/time=([\d.]+) ms/.exec(ping.out)![1]) >= 40, ping.out);
      await write("dealy 40ms");
      up.kill("SIGHUP");
      await up.waitFor("nothing was changed");
      up.kill("SIGINT");
      const end = await up.result();
      assertEquals(end.code, 0, end.err);
      assertMatch(end.err, /culvert: up: .*dealy.*; nothing was changed\n/);
    }),
});

Deno.test({
  name: "cli: with --json up tells also in JSON that it has read its file again",
  ignore: Deno.build.os === "windows",
  fn: () =>
    withFolder(async (folder) => {
      const { up } = await startUp(folder, "--json");
      await using _up = up;
      await up.waitFor('"event":"up"');
      up.kill("SIGHUP");
      await up.waitFor("impairments");
      up.kill("SIGINT");
      const { out } = await up.result();
      const events = out.trimEnd().split("\n").map((line) => JSON.parse(line));
      assertEquals(events.map(({ event }) => event), ["up", "impairments", "closed"]);
      assertEquals(events[1], { event: "impairments", peers: ["a"] });
    }),
});

Deno.test("cli: an impairment that names a file needs the permission to read it", () =>
  withFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/wire`, "0s 5ms 0% unlimited");
    const host = ["--address", "10.7.0.1/24", "--listen", "127.0.0.1:0", "--peer", "b=127.0.0.1:9,10.7.0.2"];
    const args = ["up", "--check", ...host, "--impair", `trace ${folder}/wire`];
    await using allowed = new CliProcess([...LOOPBACK, `--allow-read=${folder}/wire`], args);
    assertEquals((await allowed.result()).code, 0);
    await using refused = new CliProcess(LOOPBACK, args);
    const { code, err } = await refused.result();
    assertEquals(code, 2);
    assertStringIncludes(err, "--impair");
  }));
