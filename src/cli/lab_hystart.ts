/**
 * `culvert lab hystart`: where slow start ends at 1 Gbit/s and 11.3 ms, by the rule that ends it.
 *
 * @module
 */

import { MILLISECOND, SECOND } from "../base/time.ts";
import {
  HYSTART_BDP_SEGMENTS,
  HYSTART_PAYLOAD_BYTES_PER_SEC,
  type HystartCell,
  type HystartResult,
} from "../lab/hystart.ts";
import { median } from "../lab/statistics.ts";
import { CONGESTION_CONTROLS, SLOW_START_EXITS } from "../tcp/congestion/registry.ts";
import { PACING_MODES, type PacingMode } from "../tcp/pacing.ts";
import { drawSvg } from "./chart.ts";
import type { FlagSpecs } from "./flags.ts";
import { type Experiment, experimentHelp } from "./lab_experiment.ts";
import { JOBS_FLAG, jobsOf, JSON_FLAG, namesOf, RunProgress, SEEDS_FLAG, seedsOf, svgOf } from "./lab_flags.ts";
import { runCells } from "./lab_pool.ts";
import { bold, table } from "./terminal.ts";

const FLAGS: FlagSpecs = {
  exits: { value: "NAMES", help: `how slow start ends (default all: ${SLOW_START_EXITS.join(",")})` },
  control: { value: "NAME", help: "congestion control (default cubic)" },
  pacing: { value: "NAMES", help: "how departures are spaced, all of it once for each (default off,edt)" },
  seconds: { short: "t", value: "SECONDS", help: "virtual time of each run (default 10)" },
  phase: { value: "SECONDS", help: "begin so long after a tick of the jiffy clock, up to 4ms (default 0)" },
  seeds: SEEDS_FLAG,
  jobs: JOBS_FLAG,
  svg: { value: "FILE", help: "draw the windows of the first seed over time into an SVG file" },
  json: JSON_FLAG,
};

/** The experiment `hystart`. */
export const hystart: Experiment = {
  name: "hystart",
  summary: "where slow start ends at 1 Gbit/s and 11.3 ms, by the rule that ends it",
  help: experimentHelp(
    "hystart",
    `One bulk flow whose own interface of 1 Gbit/s, with a queue of 1,225 packets, is the bottleneck; 11.3 ms, and up to 1 ms
of noise on the acknowledgments. Shows the window at which each rule ends slow start, or at which the queue overflows,
when 90 % of the rate is reached, and what is lost. In virtual time; the whole takes some minutes.`,
    FLAGS,
    [
      "culvert lab hystart",
      "culvert lab hystart --exits hystart-2008,hystart++ --seconds 2 --seeds 1",
      "culvert lab hystart --pacing off --seeds 1 --svg windows.svg",
      "culvert lab hystart --json | jq '.rows[] | {exit, pacing, exitCwnd, reachedTime, lossRatio}'",
    ],
  ) + `
Permissions: --allow-read for threads of its own (without it the runs take one core); with --svg also --allow-write=FILE
`,
  flags: FLAGS,
  async run(flags) {
    const exits = namesOf(flags, "exits", SLOW_START_EXITS);
    const pacings = namesOf(flags, "pacing", PACING_MODES, ["off", "edt"]);
    const [control, ...more] = namesOf(flags, "control", CONGESTION_CONTROLS, ["cubic"]);
    if (more.length > 0) flags.wrong("control", flags.text("control")!, "one name");
    const seconds = flags.seconds("seconds", 100 * MILLISECOND, 10 * SECOND) / SECOND;
    const phase = flags.seconds("phase", 0, 0);
    if (phase >= 4 * MILLISECOND) flags.wrong("phase", flags.text("phase")!, "less than 4 ms");
    const seeds = seedsOf(flags);
    const jobs = jobsOf(flags);
    const svg = await svgOf(flags);
    const groups = pacings.flatMap((pacing) => exits.map((exit) => ({ exit, pacing })));
    const cells = groups.flatMap((group) =>
      seeds.map((seed): HystartCell => ({ ...group, seed, seconds, control: control!, phase }))
    );
    const progress = new RunProgress("hystart", cells.length);
    const results = await runCells("hystart", cells, { ...jobs, onDone: progress.onDone });
    progress.clear();
    const rows = groups.map((group, i) => rowOf(group, results.slice(i * seeds.length, (i + 1) * seeds.length)));
    if (svg !== undefined) await Deno.writeTextFile(svg, await drawWindows(rows));
    const report = {
      seconds,
      seeds,
      control: control!,
      phase: phase / MILLISECOND,
      bdpSegments: HYSTART_BDP_SEGMENTS,
      rows,
    };
    console.log(flags.has("json") ? JSON.stringify(report) : format(report));
    return 0;
  },
};

/** Medians of one exit with one kind of pacing, and the runs themselves, in the order of the seeds. */
interface Row {
  exit: string;
  pacing: PacingMode;
  /** How slow start ended in each seed. */
  ends: string[];
  exitCwnd: number;
  exitCwndRange: [number, number];
  exitTime: number | null;
  reachedTime: number | null;
  lostPackets: number;
  lossRatio: number;
  goodputBytesPerSec: number;
  runs: HystartResult[];
}

function rowOf({ exit, pacing }: { exit: string; pacing: PacingMode }, runs: HystartResult[]): Row {
  const windows = runs.map((run) => run.exitCwnd);
  /** A run that never got there counts as the latest of all. */
  const medianTime = (times: readonly (number | null)[]): number | null => {
    const time = median(times.map((t) => t ?? Infinity));
    return Number.isFinite(time) ? time : null;
  };
  return {
    exit,
    pacing,
    ends: runs.map((run) => run.end),
    exitCwnd: median(windows),
    exitCwndRange: [Math.min(...windows), Math.max(...windows)],
    exitTime: medianTime(runs.map((run) => run.exitTime)),
    reachedTime: medianTime(runs.map((run) => run.reachedTime)),
    lostPackets: median(runs.map((run) => run.lostPackets)),
    lossRatio: median(runs.map((run) => run.lossRatio)),
    goodputBytesPerSec: median(runs.map((run) => run.goodputBytesPerSec)),
    runs,
  };
}

interface Report {
  seconds: number;
  seeds: number[];
  control: string;
  rows: Row[];
}

function format({ seconds, seeds, control, rows }: Report): string {
  const ms = (time: number | null): string => time === null ? "never" : `${time.toFixed(0)} ms`;
  return [
    bold(`slow start of ${control} at 1 Gbit/s, 11.3 ms: one BDP is ${HYSTART_BDP_SEGMENTS.toFixed(0)} segments`),
    table([
      ["exit", "pacing", "ends by", "at cwnd", "(range)", "of a BDP", "after", "90% after", "lost", "share", "goodput"]
        .map(bold),
      ...rows.map((row) => [
        row.exit,
        row.pacing,
        [...new Set(row.ends)].join("/"),
        `${row.exitCwnd}`,
        `${row.exitCwndRange[0]}-${row.exitCwndRange[1]}`,
        (row.exitCwnd / HYSTART_BDP_SEGMENTS).toFixed(2),
        ms(row.exitTime),
        ms(row.reachedTime),
        `${row.lostPackets}`,
        `${(row.lossRatio * 100).toFixed(3)}%`,
        `${(row.goodputBytesPerSec * 8 / 1e6).toFixed(0)} Mbit/s`,
      ]),
    ]),
    "",
    `ends by "exit": the rule ended slow start; "overflow": the queue did. "90% after": when 90 % of the ${
      (HYSTART_PAYLOAD_BYTES_PER_SEC * 8 / 1e6).toFixed(0)
    } Mbit/s
of payload was reached, over a tenth of a second. Medians of the seeds ${seeds.join(", ")}, ${seconds} s each.`,
  ].join("\n");
}

/** The windows of the first seed over time, a line each exit, a panel each kind of pacing; dashed: one BDP. */
function drawWindows(rows: readonly Row[]): Promise<string> {
  const points = rows.flatMap(({ exit, pacing, runs }) =>
    runs[0]!.samples.map(({ time, cwnd }) => ({ exit, pacing: `pacing ${pacing}`, seconds: time / 1000, cwnd }))
  );
  return drawSvg((plot) => ({
    width: 900,
    height: 640,
    marginRight: 90,
    grid: true,
    x: { label: "time (s)" },
    y: { label: "congestion window (segments)", zero: true },
    fy: { axis: null },
    marks: [
      plot.text(
        rows,
        plot.groupZ({ text: "first" }, {
          text: (row: Row) => `pacing ${row.pacing}`,
          fy: (row: Row) => `pacing ${row.pacing}`,
          frameAnchor: "top",
          fontWeight: "bold",
        }),
      ),
      plot.ruleY([HYSTART_BDP_SEGMENTS], { strokeDasharray: "4 4" }),
      plot.line(points, { x: "seconds", y: "cwnd", stroke: "exit", fy: "pacing" }),
      plot.text(
        points,
        plot.selectLast({
          x: "seconds",
          y: "cwnd",
          z: "exit",
          fy: "pacing",
          text: "exit",
          fill: "exit",
          textAnchor: "start",
          dx: 5,
        }),
      ),
    ],
  }));
}
