/**
 * What becomes of a command whose output nobody reads, or for which there is no space; and how tables are laid out.
 *
 * @module
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { CliProcess, hostFlags, LOOPBACK, runCli, startUp, withFolder } from "../testing/run_cli.ts";
import { table } from "../../src/cli/terminal.ts";

const MAIN = new URL("../../src/cli/main.ts", import.meta.url).href;

/** The shell and its `head` do here what they do for a user. */
const ignore = Deno.build.os === "windows";

/** Runs a command in a shell script, as its arguments, with the permission for the loopback. */
async function inShell(script: string, args: readonly string[]): Promise<{ out: string; err: string }> {
  const { stdout, stderr } = await new Deno.Command("sh", {
    args: ["-c", script, "sh", Deno.execPath(), "run", "--quiet", "--no-prompt", ...LOOPBACK, MAIN, ...args],
    env: { NO_COLOR: "1" },
    stdin: "null",
  }).output();
  const decoder = new TextDecoder();
  return { out: decoder.decode(stdout), err: decoder.decode(stderr) };
}

Deno.test("output: a ping that nobody reads any more ends, quietly", { ignore }, () =>
  withFolder(async (folder) => {
    const { up, peer } = await startUp(folder);
    await using _up = up;
    const ping = ["ping", "-c", "600", "-i", "0.05", "10.7.0.2", ...peer];
    const started = performance.now();
    const { out, err } = await inShell('{ "$@"; echo "code $?" >&2; } | head -n 2', ping);
    assertMatch(out, /^PING [^\n]*\n64 bytes [^\n]*\n$/);
    assertEquals(err, "code 0\n");
    assert(performance.now() - started < 25_000, "it pinged to the end");
  }));

Deno.test("output: a perf that nobody reads any more ends, and tells its server", { ignore }, async () => {
  const { a, b } = await hostFlags();
  await using server = new CliProcess(LOOPBACK, ["perf", "-s", "-1", ...b]);
  await server.waitFor("Server listening");
  const perf = ["perf", "-c", "10.7.0.2", "-t", "60", "-i", "0.1", "-b", "1M", ...a];
  const { err } = await inShell('{ "$@"; echo "code $?" >&2; } | head -n 4', perf);
  assertEquals(err, "code 0\n");
  const served = await server.result();
  assertEquals(served.code, 0);
  assert(Number(/ 0\.00-([\d.]+) +sec /.exec(served.out)![1]) < 50, served.out);
});

Deno.test("output: a host goes on when nobody reads what it says", { ignore }, () =>
  withFolder(async (folder) => {
    const { a, b } = await hostFlags();
    const script = `{ "$@" & echo $! > '${folder}/pid'; wait $!; echo "code $?" >&2; } | head -n 1`;
    const up = inShell(script, ["up", "--keepalive", "50ms", "--dead-after", "300ms", ...b]);
    // It tells that its peer is alive, then that it is dead, then that it is alive again.
    for (const count of ["40", "3"]) {
      const ping = ["ping", "-c", count, "-i", "0.05", "-W", "0.2", "10.7.0.2", ...a, "--keepalive", "50ms"];
      const { code, out } = await runCli(ping);
      assertEquals(code, 0, out);
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
    Deno.kill(Number(await Deno.readTextFile(`${folder}/pid`)), "SIGTERM");
    const { out, err } = await up;
    assertMatch(out, /^address [^\n]*\n$/);
    assertEquals(err, "code 0\n");
  }));

Deno.test("output: progress that nobody reads any more ends nothing", { ignore }, async () => {
  const { a } = await hostFlags();
  const ping = ["ping", "-q", "-c", "5", "-i", "0.9", "-W", "0.1", "10.7.0.2", ...a];
  const script = 'exec 3>&1; { "$@" 2>&1 >&3; echo "code $?" >&3; } | head -n 1 >&2';
  const { out, err } = await inShell(script, ping);
  assertMatch(err, /^\d sent, 0 received\n$/);
  assertMatch(out, /\n5 packets transmitted, 0 received, .*\ncode 1\n$/);
});

Deno.test("output: a full disk is one line and code 1", { ignore: Deno.build.os !== "linux" }, async () => {
  for (const more of [[], ["--json"]]) {
    const { err } = await inShell('"$@" >/dev/full; echo "code $?" >&2', ["netem", "delay 1ms", ...more]);
    assertMatch(err, /^culvert: netem: No space left on device[^\n]*\ncode 1\n$/);
  }
});

Deno.test("output: the columns of a table stand below each other also where cells are bold", () => {
  const bold = (text: string) => `\x1b[1m${text}\x1b[22m`;
  const rows = (style: (text: string) => string) => [["peer", "in"].map(style), ["somebody", "12345"]];
  const strip = (text: string) => text.replaceAll(bold("peer"), "peer").replaceAll(bold("in"), "in");
  assertEquals(strip(table(rows(bold))), table(rows(String)));
  assertEquals(table(rows(String)), "peer         in\nsomebody  12345");
});
