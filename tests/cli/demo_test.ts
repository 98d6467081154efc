/**
 * The demo: how it ends when something is not as it should be.
 *
 * @module
 */

import { assert, assertEquals, assertRejects } from "@std/assert";
import { Failure } from "../../src/cli/command.ts";
import { demo } from "../../src/cli/demo.ts";
import { openHost } from "../../src/runtime/open_host.ts";
import { assertRefused, CliProcess, LOOPBACK } from "../testing/run_cli.ts";

/** The answer of a peer's process to these settings. */
async function answerOf(settings: Record<string, unknown>): Promise<{ code: number; out: string; err: string }> {
  const main = new URL("../../src/cli/main.ts", import.meta.url).href;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", "--no-prompt", ...LOOPBACK, main, "demo-peer"],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(`${JSON.stringify(settings)}\n`));
  const { code, stdout, stderr } = await child.output();
  await writer.close().catch(() => {});
  const decoder = new TextDecoder();
  return { code, out: decoder.decode(stdout), err: decoder.decode(stderr) };
}

Deno.test("demo: a permission that is missing is one line", async () => {
  await using deaf = new CliProcess([], ["demo"]);
  assertRefused(await deaf.result(), "demo: ", "--allow-net=127.0.0.1");
  await using alone = new CliProcess(LOOPBACK, ["demo", "--json"]);
  const { code, out, err } = await alone.result();
  assertEquals([code, out], [2, ""]);
  // Progress, then the one line.
  const lines = err.trimEnd().split("\n").filter((line) => line !== "starting two peers");
  assertEquals(lines.length, 1, err);
  assert(lines[0]!.startsWith("culvert: demo: ") && lines[0]!.includes("--allow-run"), err);
});

Deno.test("demo: a port in use is told by its peer, without a stack trace", async () => {
  await using taken = await openHost({ address: "10.7.0.9/24", listen: "127.0.0.1:0" });
  const { port } = taken.endpoints[0]!;
  const { code, out, err } = await answerOf({
    role: "a",
    listen: `127.0.0.1:${port}`,
    peer: "127.0.0.1:9",
    family: 4,
    impairment: "delay 1ms",
    seed: 1,
    pcap: null,
  });
  assertEquals([code, err], [1, ""]);
  const event = JSON.parse(out);
  assertEquals(event.event, "failed");
  assert(event.text.includes(`127.0.0.1:${port}`), event.text);
});

Deno.test("demo: when the parent is killed its peers end quietly", async () => {
  await using parent = new CliProcess([...LOOPBACK, "--allow-run"], ["demo"]);
  await parent.waitFor("bulk received");
  parent.kill("SIGKILL");
  // The peers share the standard error of the parent: it ends when the last of them has ended.
  const { out, err } = await parent.result();
  assertEquals(out, "");
  for (const line of err.trimEnd().split("\n")) assert(/^(starting two peers$| *\d+\.\d s {2}ping )/.test(line), err);
});

Deno.test("demo: its time counts from the start of the program", async () => {
  const started = performance.now();
  await assertRejects(() => demo.run([], started - 18_800), Failure, "demo: the demo did not end within 19 s");
  assert(performance.now() - started < 5_000);
});
