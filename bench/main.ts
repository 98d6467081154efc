/**
 * All benchmarks, each in a fresh process, one after the other.
 *
 * ```sh
 * deno task bench                     # a table
 * deno task bench --json              # one JSON line a figure: {"name", "value", "unit"}
 * deno task bench --only "in-process" # those whose name contains the text
 * deno task bench --seconds 5 --runs 5
 * ```
 *
 * With several runs the median counts. Figures of different days or machines cannot be compared; compare two versions by
 * runs in turn, pinned to one core (`taskset -c 1`) where the benchmark has one process.
 *
 * @module
 */

import { parseArgs } from "@std/cli/parse-args";
import type { Bench, Figure } from "./bench.ts";
import * as fq from "./fq.ts";
import * as inProcess from "./in_process.ts";
import * as limits from "./limits.ts";
import * as routes from "./routes.ts";
import * as netem from "./netem.ts";
import * as peers from "./peers.ts";
import * as simulation from "./simulation.ts";
import * as twoProcesses from "./two_processes.ts";

const BENCHES: readonly Bench[] = [
  inProcess.bulk,
  inProcess.requests,
  inProcess.connections,
  ...twoProcesses.benches,
  simulation.packets,
  ...fq.busy,
  ...fq.paced,
  fq.heap,
  ...routes.lookups,
  routes.forward,
  routes.forwardHeap,
  routes.peers,
  peers.open,
  peers.memory,
  ...netem.costs,
  netem.heap,
  limits.bytes,
  limits.udp,
  ...(Deno.build.os === "linux" ? [limits.trains] : []),
];

function refuse(message: string): never {
  console.error(`bench: ${message}`);
  Deno.exit(2);
}

function positive(name: string, text: string): number {
  const value = Number(text);
  if (!(value > 0) || value > 3600) refuse(`--${name} "${text}": expected a number from above 0 to 3600`);
  return value;
}

async function runInChild(bench: Bench, seconds: number): Promise<number> {
  const { code, stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", "--allow-all", import.meta.url, "--one", bench.name, "--seconds", `${seconds}`],
    stdin: "null",
    stderr: "inherit",
  }).output();
  if (code !== 0) throw new Error(`${bench.name}: the process ended with code ${code}`);
  return Number(new TextDecoder().decode(stdout));
}

async function main(): Promise<void> {
  const flags = parseArgs(Deno.args, {
    boolean: ["json", "help"],
    string: ["only", "seconds", "runs", "one", "serve"],
    default: { seconds: "2", runs: "1" },
    unknown: (arg) => refuse(`unknown argument "${arg}": expected --json, --only, --seconds or --runs`),
  });
  if (flags.help) {
    console.log("Usage: deno task bench [--json] [--only TEXT] [--seconds N] [--runs N]\n");
    for (const { name, what, unit } of BENCHES) console.log(`  ${name.padEnd(24)} ${unit.padEnd(7)} ${what}`);
    return;
  }
  if (flags.serve !== undefined) {
    const [port, own, other] = flags.serve.split(",");
    return await twoProcesses.serve(port!, own!, other!);
  }
  const seconds = positive("seconds", flags.seconds);
  const runs = Math.round(positive("runs", flags.runs));
  if (flags.one !== undefined) {
    const bench = BENCHES.find((b) => b.name === flags.one);
    if (bench === undefined) refuse(`no benchmark "${flags.one}"`);
    console.log(await bench.run(seconds));
    Deno.exit(0);
  }
  const chosen = BENCHES.filter((b) => b.name.includes(flags.only ?? ""));
  if (chosen.length === 0) {
    refuse(`--only "${flags.only}": expected a part of one of ${BENCHES.map((b) => b.name).join(", ")}`);
  }
  for (const bench of chosen) {
    const values: number[] = [];
    for (let i = 0; i < runs; i++) values.push(await runInChild(bench, seconds));
    values.sort((a, b) => a - b);
    const median = values[values.length >> 1]!;
    const figure: Figure = { name: bench.name, value: Number(median.toPrecision(4)), unit: bench.unit };
    const range = runs > 1 ? `  (${values[0]!.toPrecision(3)} to ${values.at(-1)!.toPrecision(3)})` : "";
    const text = figure.value.toLocaleString("en", { maximumFractionDigits: 2 });
    console.log(
      flags.json ? JSON.stringify(figure) : `${bench.name.padEnd(24)} ${text.padStart(12)} ${bench.unit}${range}`,
    );
  }
}

if (import.meta.main) await main();
