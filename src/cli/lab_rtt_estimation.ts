/**
 * `culvert lab rtt-estimation`: a fixed retransmission timeout against the estimator, on a path that jitters.
 *
 * @module
 */

import { MILLISECOND, SECOND } from "../base/time.ts";
import type { RtoKind, RttEstimationCell, RttEstimationResult } from "../lab/rtt_estimation.ts";
import { median } from "../lab/statistics.ts";
import type { FlagSpecs } from "./flags.ts";
import { type Experiment, experimentHelp } from "./lab_experiment.ts";
import { JOBS_FLAG, jobsOf, JSON_FLAG, RunProgress, SEEDS_FLAG, seedsOf } from "./lab_flags.ts";
import { runCells } from "./lab_pool.ts";
import { bold, table } from "./terminal.ts";

const FLAGS: FlagSpecs = {
  seconds: { short: "t", value: "SECONDS", help: "virtual time of each run (default 30)" },
  seeds: SEEDS_FLAG,
  jobs: JOBS_FLAG,
  json: JSON_FLAG,
};

const RTOS: readonly RtoKind[] = ["fixed", "estimator"];

/** The experiment `rtt-estimation`. */
export const rttEstimation: Experiment = {
  name: "rtt-estimation",
  summary: "a retransmission timeout of 100 ms against the estimator, at 200 ms with jitter",
  help: experimentHelp(
    "rtt-estimation",
    `One bulk flow over "delay 100ms 40ms" each way, which reorders and loses nothing. With a fixed retransmission timeout of
100 ms the SYN and the first segments are sent again for nothing, until acknowledgments come so often that the timer
never runs out; in some seeds that costs most of the goodput. With the estimator it never does. In virtual time.`,
    FLAGS,
    [
      "culvert lab rtt-estimation",
      "culvert lab rtt-estimation --seconds 120 --seeds 1-20",
      "culvert lab rtt-estimation --json | jq '.estimator.median'",
    ],
  ) + `
Permissions: --allow-read for threads of its own; without it the runs take one core.
`,
  flags: FLAGS,
  async run(flags) {
    const seconds = flags.seconds("seconds", MILLISECOND, 30 * SECOND) / SECOND;
    const seeds = seedsOf(flags);
    const jobs = jobsOf(flags);
    const cells = RTOS.flatMap((rto) => seeds.map((seed): RttEstimationCell => ({ rto, seed, seconds })));
    const progress = new RunProgress("rtt-estimation", cells.length);
    const results = await runCells("rtt-estimation", cells, { ...jobs, onDone: progress.onDone });
    progress.clear();
    const of = (rto: RtoKind) => {
      const runs = results.filter((_, i) => cells[i]!.rto === rto);
      return { median: medians(runs), runs: runs.map((run, i) => ({ seed: seeds[i]!, ...run })) };
    };
    const report = { seconds, seeds, fixed: of("fixed"), estimator: of("estimator") };
    console.log(flags.has("json") ? JSON.stringify(report) : format(report));
    return 0;
  },
};

/** What all runs of one kind gave. */
interface Runs {
  median: RttEstimationResult;
  runs: (RttEstimationResult & { seed: number })[];
}

function medians(runs: readonly RttEstimationResult[]): RttEstimationResult {
  const fields = Object.keys(runs[0]!) as (keyof RttEstimationResult)[];
  return Object.fromEntries(
    fields.map((field) => [field, median(runs.map((run) => run[field]))]),
  ) as unknown as RttEstimationResult;
}

function format(report: { seconds: number; seeds: number[]; fixed: Runs; estimator: Runs }): string {
  const row = (name: string, { median: m, runs }: Runs): string[] => [
    name,
    m.timeoutRetransmitsPerThousand.toFixed(2),
    `${Math.max(...runs.map((run) => run.timeoutRetransmits))}`,
    `${m.otherRetransmits}`,
    `${m.segments}`,
    `${(m.goodputBytesPerSec / 1e6).toFixed(3)} MB/s`,
    `${m.srtt.toFixed(1)} ms`,
    `${m.rttvar.toFixed(1)} ms`,
    `${m.rto.toFixed(0)} ms`,
  ];
  const ratio = report.estimator.median.goodputBytesPerSec / report.fixed.median.goodputBytesPerSec;
  return [
    bold('one flow over "delay 100ms 40ms" each way'),
    table([
      ["timeout", "per 1,000", "most", "other", "segments", "goodput", "srtt", "rttvar", "rto"].map(bold),
      row("fixed, 100 ms", report.fixed),
      row("estimator", report.estimator),
    ]),
    "",
    `per 1,000: segments sent again because of the timer, of a thousand; most: their number in the worst seed;
other: segments sent again for other reasons. Goodput with the estimator is ${ratio.toFixed(2)} times that without.
Medians of the seeds ${report.seeds.join(", ")}, ${report.seconds} s each.`,
  ].join("\n");
}
