/**
 * `culvert lab`: short runs of the experiments in virtual time, and the workers that they are run by.
 *
 * @module
 */

import { assert, assertEquals, assertRejects } from "@std/assert";
import { Failure } from "../../src/cli/command.ts";
import { Flags, type FlagSpecs } from "../../src/cli/flags.ts";
import { rangeOf, SEEDS_FLAG, seedsOf } from "../../src/cli/lab_flags.ts";
import { type CellOf, runCells } from "../../src/cli/lab_pool.ts";
import { assertRefused, callCli } from "../testing/run_cli.ts";

const SPECS: FlagSpecs = { seeds: SEEDS_FLAG, rows: { value: "RANGE", help: "rows" } };
const flags = (...args: string[]) => new Flags({ command: "lab x", flags: SPECS }, args);

/** What the last line of standard output says. */
async function json(...args: string[]): Promise<Record<string, unknown>> {
  const { code, out, err } = await callCli("lab", ...args, "--json");
  assertEquals(code, 0, err);
  return JSON.parse(out);
}

Deno.test("lab: seeds are numbers and ranges, each once", () => {
  assertEquals(seedsOf(flags()), [1, 2, 3, 4, 5]);
  assertEquals(seedsOf(flags("--seeds", "7,1-3,2")), [7, 1, 2, 3]);
});

Deno.test("lab: a range names some of what there is, in its order", () => {
  const all = [0, 0.001, 128, 256, 2048];
  assertEquals(rangeOf(flags(), "rows", all), all);
  assertEquals(rangeOf(flags("--rows", "none"), "rows", all), []);
  assertEquals(rangeOf(flags("--rows", "256-"), "rows", all), [256, 2048]);
  assertEquals(rangeOf(flags("--rows", "-0.001,2048"), "rows", all), [0, 0.001, 2048]);
  assertEquals(rangeOf(flags("--rows", "100-300"), "rows", all), [128, 256]);
});

Deno.test("lab: wrong seeds, rows and names are told in one line", async () => {
  const refused = async (words: string, ...parts: string[]) =>
    assertRefused(await callCli("lab", ...words.split(" ")), ...parts);
  for (const seeds of ["0x1", "3-1", "1,,2", "1-2000", "-1"]) {
    await refused(`handshake-ack --seeds ${seeds}`, "--seeds: found", "whole numbers like 1-5 or 1,7,9");
  }
  await refused("fast-retransmit --rows 3000", '--rows: found "3000", expected a range like 256- or some of 128,256');
  await refused("fast-retransmit --controls reno,vegas", '--controls: found "vegas", expected some of');
  await refused("fast-retransmit --pacing on", '--pacing: found "on", expected some of edt,qdisc');
  await refused("fast-retransmit --jobs 0", '--jobs: found "0", expected a whole number from 1');
  await refused("hystart --exits never", '--exits: found "never", expected some of');
  await refused("hystart --control reno,cubic", "--control: found", "one name");
  await refused("hystart --phase 4ms", '--phase: found "4ms", expected less than 4 ms');
  await refused("hystart --svg /no/such/folder/a.svg", '--svg: found "/no/such');
});

Deno.test("lab: cells give the same in workers and in this thread, in their order", async () => {
  const cells = [3, 1, 2].map((seed): CellOf<"rtt-estimation"> => ({ rto: "estimator", seed, seconds: 0.5 }));
  const done: number[] = [];
  const pooled = await runCells("rtt-estimation", cells, { jobs: 2, onDone: (n) => done.push(n) });
  assertEquals(pooled, await runCells("rtt-estimation", cells, { jobs: 1 }));
  assertEquals([done, new Set(pooled.map((r) => r.segments)).size], [[1, 2, 3], 3]);
});

Deno.test("lab: a cell that fails fails the whole with its name, in a worker and in this thread", async () => {
  const cell: CellOf<"hystart"> = { exit: "never", pacing: "off", seed: 1, seconds: 1 };
  for (const jobs of [1, 2]) {
    const error = await assertRejects(() => runCells("hystart", [cell, cell], { jobs }), Failure);
    assert(
      error.message.startsWith('hystart {"exit":"never"') && error.message.includes("slowStartExit"),
      error.message,
    );
  }
});

Deno.test("lab handshake-ack: prints what waiting costs", async () => {
  const { server, client } = await json("handshake-ack", "--rtt", "4ms", "--seeds", "1");
  assertEquals([server, client], [
    { now: { firstByte: 8, clientPackets: 2 }, delayed: { firstByte: 48, clientPackets: 2 } },
    { now: { firstByte: 8, clientPackets: 3 }, delayed: { firstByte: 8, clientPackets: 2 } },
  ]);
  const { out } = await callCli("lab", "handshake-ack");
  assert(/server speaks first +20\.000 ms +60\.000 ms +40\.000 ms/.test(out), out);
});

Deno.test("lab rtt-estimation: prints both timeouts, and each run in JSON", async () => {
  const { out } = await callCli("lab", "rtt-estimation", "--seconds", "1", "--seeds", "1,2");
  assert(/^estimator +0\.00 +0 /m.test(out) && /^fixed, 100 ms /m.test(out), out);
  const { fixed, estimator } = await json("rtt-estimation", "--seconds", "0.5", "--seeds", "1-3") as Record<
    string,
    { median: { rto: number }; runs: { seed: number }[] }
  >;
  assertEquals([fixed!.runs.map((r) => r.seed), fixed!.runs.length], [[1, 2, 3], 3]);
  assert(estimator!.median.rto > 280);
});

Deno.test("lab fast-retransmit: prints ratios and bounds, and fails for a missed bound if it is asked to check", async () => {
  const args = "fast-retransmit --controls none --rows 8192 --losses 0.05-0.1 --flows 2 --seeds 1,2 --jobs 1".split(
    " ",
  );
  const { code, out } = await callCli("lab", ...args, "--check");
  assertEquals(code, 0, out);
  assert(/^8192 +\d+ x \d\.\d\d +\d+ x \d\.\d\d$/m.test(out), out);
  assert(/"whole buffer" → "oldest segment", and smoltcp's\n/.test(out), out);
  assert(/^single flow, none, pacing edt: ratio to smoltcp .* at least 1\.00 +ok$/m.test(out), out);
  assert(/^2 +\d+ \(6967\) +x \d/m.test(out), out);
});

Deno.test("lab hystart: prints where each rule ends slow start, and draws the windows", async () => {
  const svg = await Deno.makeTempFile({ suffix: ".svg" });
  try {
    const args = "hystart --exits hystart-2008,off --pacing off --seeds 1 --seconds 0.2 --jobs 1 --svg".split(" ");
    const { code, out, err } = await callCli("lab", ...args, svg);
    assertEquals(code, 0, err);
    assert(/^hystart-2008 +off +exit +\d\d +/m.test(out) && /^off +off +overflow +\d{4} +/m.test(out), out);
    const text = await Deno.readTextFile(svg);
    assert(text.startsWith("<svg") && text.includes("hystart-2008"), text.slice(0, 200));
  } finally {
    await Deno.remove(svg);
  }
});
