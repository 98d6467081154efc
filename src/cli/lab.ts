/**
 * `culvert lab`: experiments with a result that can be checked.
 *
 * @module
 */

import { MILLISECOND, toMilliseconds } from "../base/time.ts";
import { type EdtResult, runEdt } from "../lab/edt.ts";
import { type Command, UsageError } from "./command.ts";
import { Flags, type FlagSpecs, formatFlags } from "./flags.ts";
import { bold, Progress, table } from "./terminal.ts";

const FLAGS: FlagSpecs = {
  seconds: { short: "t", value: "SECONDS", help: "virtual time of each part (default 10)" },
  seed: { value: "N", help: "seed of all randomness (default 1)" },
  json: { help: "print one JSON object" },
};

const HELP = `Usage: culvert lab edt [OPTIONS]

Experiments:
  edt   one flow of 24 Mbit/s on a path of 0.1 ms, and requests beside eight paced flows, with departures spaced by the
        queueing discipline ("qdisc") and stamped by TCP ("edt"), in virtual time

Options:
${formatFlags(FLAGS)}

Examples:
  culvert lab edt
  culvert lab edt --seconds 30 --seed 7
  culvert lab edt --json | jq '.edt.info.rtt'
`;

/** The command `lab`. */
export const lab: Command = {
  name: "lab",
  summary: "experiments: edt",
  help: HELP,
  run(args) {
    const flags = new Flags({ command: "lab", flags: FLAGS, words: ["EXPERIMENT"] }, args);
    const [name] = flags.words;
    if (name !== "edt") {
      throw new UsageError(`lab: found ${name === undefined ? "no experiment" : `"${name}"`}, expected edt`);
    }
    const seconds = toMilliseconds(flags.seconds("seconds", MILLISECOND, 10_000 * MILLISECOND)) / 1000;
    const seed = flags.integer("seed", 0, Number.MAX_SAFE_INTEGER, 1);
    const progress = new Progress(false);
    const results = (["qdisc", "edt"] as const).map((pacing) => {
      progress.show(`departures by ${pacing}: ${seconds} s of virtual time, three times`);
      return runEdt(pacing, { seed, seconds });
    });
    progress.clear();
    const [qdisc, edt] = results as [EdtResult, EdtResult];
    console.log(flags.has("json") ? JSON.stringify({ seed, seconds, qdisc, edt }) : formatEdt(results));
    return Promise.resolve(0);
  },
};

function formatEdt(results: readonly EdtResult[]): string {
  const ms = (n: number): string => `${n.toFixed(3)} ms`;
  return [
    ...results.map((r) => `${bold(r.pacing.padEnd(5))}  ${r.line}`),
    "",
    table([
      ["one flow at 24 Mbit/s", "base RTT", "srtt", "rttvar", "min_rtt", "delivery rate", "goodput"].map(bold),
      ...results.map((r) => [
        r.pacing,
        ms(r.baseRtt),
        ms(r.info.rtt),
        ms(r.info.rttvar),
        ms(r.info.minRtt),
        `${(r.info.deliveryRate / 1e6).toFixed(2)} Mbit/s`,
        `${r.goodputMbitPerSec.toFixed(2)} Mbit/s`,
      ]),
    ]),
    "",
    table([
      ["requests beside 8 flows", "answers", "p50", "p99", "p99.9"].map(bold),
      ...results.flatMap((r) =>
        ([["1 byte", r.small], ["20 kB", r.large]] as const).map(([size, times]) => [
          `${r.pacing}, answers of ${size}`,
          `${times.count}`,
          ms(times.p50),
          ms(times.p99),
          ms(times.p999),
        ])
      ),
    ]),
  ].join("\n");
}
