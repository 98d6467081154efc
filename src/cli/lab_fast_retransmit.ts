/**
 * `culvert lab fast-retransmit`: goodput under loss and many flows through a shallow queue, beside smoltcp's.
 *
 * @module
 */

import type { FastRetransmitCell, FastRetransmitResult } from "../lab/fast_retransmit.ts";
import {
  fastRetransmitCells,
  type FastRetransmitCheck,
  type FastRetransmitPlan,
  type FastRetransmitReport,
  type MultiFlowTable,
  reportFastRetransmit,
  type SingleFlowTable,
  type WholeBufferTable,
} from "../lab/fast_retransmit_report.ts";
import { BUFFERS_BYTES, FLOWS, LOSSES, type MultiFlowReference } from "../lab/smoltcp_tables.ts";
import { CONGESTION_CONTROLS } from "../tcp/congestion/registry.ts";
import { PACING_MODES } from "../tcp/pacing.ts";
import type { Flags, FlagSpecs } from "./flags.ts";
import { type Experiment, experimentHelp } from "./lab_experiment.ts";
import { JOBS_FLAG, jobsOf, JSON_FLAG, namesOf, rangeOf, RunProgress, SEEDS_FLAG, seedsOf } from "./lab_flags.ts";
import { runCells } from "./lab_pool.ts";
import { bold, table } from "./terminal.ts";

/** The controls that are compared, as far as there are such. */
const CONTROLS: readonly string[] = ["none", "reno", "cubic", "bbr"].filter((c) => CONGESTION_CONTROLS.includes(c));

const FLAGS: FlagSpecs = {
  controls: { value: "NAMES", help: `congestion controls (default ${CONTROLS.join(",")})` },
  rows: {
    value: "RANGE",
    help: `buffer sizes of the single flow, like 2048- (default all: ${BUFFERS_BYTES.join(",")})`,
  },
  losses: { value: "RANGE", help: `loss probabilities of the single flow (default all: ${LOSSES.join(",")})` },
  flows: { value: "RANGE", help: `numbers of flows, or none (default all: ${FLOWS.join(",")})` },
  pacing: { value: "NAMES", help: "how departures are spaced, one table each (default edt,off)" },
  "no-whole-buffer": { help: 'do not compare with "whole buffer"' },
  seeds: SEEDS_FLAG,
  jobs: JOBS_FLAG,
  check: { help: "exit with 1 if a bound is missed" },
  json: JSON_FLAG,
};

/** The experiment `fast-retransmit`. */
export const fastRetransmit: Experiment = {
  name: "fast-retransmit",
  summary: "goodput under loss by buffer size, and 1 to 64 flows in a shallow queue, beside smoltcp's figures",
  help: experimentHelp(
    "fast-retransmit",
    `One flow of 10 MiB over a path of 100 ms that loses packets both ways, by size of the buffers; and up to 64 flows of
2 MiB that share 200 Mbit/s with a queue of 64 KiB, at round-trip times of 50 to 150 ms. Network, workload and metrics are
those of smoltcp's simulation, whose figures stand beside ours: "x 1.25" is a quarter more. All in virtual time; the
whole takes some minutes.`,
    FLAGS,
    [
      "culvert lab fast-retransmit",
      "culvert lab fast-retransmit --controls cubic --rows 32768 --flows none --pacing edt",
      "culvert lab fast-retransmit --rows 2048- --pacing edt --check",
      "culvert lab fast-retransmit --json | jq '.checks[] | select(.passed | not)'",
    ],
  ) + `
Permissions: --allow-read for threads of its own; without it the runs take one core.
`,
  flags: FLAGS,
  async run(flags) {
    const plan = planOf(flags);
    const cells = fastRetransmitCells(plan);
    if (cells.length === 0) throw flags.fault("found no buffer size, loss or number of flows to run, expected some");
    const jobs = jobsOf(flags);
    const progress = new RunProgress("fast-retransmit", cells.length);
    const started = performance.now();
    const results = await runCells("fast-retransmit", cells, { ...jobs, onDone: progress.onDone });
    progress.clear();
    const report = reportFastRetransmit(plan, cells, results);
    const seconds = (performance.now() - started) / 1000;
    console.log(
      flags.has("json")
        ? JSON.stringify({ seconds, ...report, runs: runsOf(cells, results) })
        : format(report, seconds),
    );
    return flags.has("check") && report.checks.some((check) => !check.passed) ? 1 : 0;
  },
};

function planOf(flags: Flags): FastRetransmitPlan {
  return {
    controls: namesOf(flags, "controls", CONGESTION_CONTROLS, CONTROLS),
    pacings: namesOf(flags, "pacing", PACING_MODES, ["edt", "off"]),
    buffersBytes: rangeOf(flags, "rows", BUFFERS_BYTES),
    losses: rangeOf(flags, "losses", LOSSES),
    flows: rangeOf(flags, "flows", FLOWS),
    seeds: seedsOf(flags),
    wholeBuffer: !flags.has("no-whole-buffer"),
  };
}

/** Each run with what it gave. */
function runsOf(cells: readonly FastRetransmitCell[], results: readonly FastRetransmitResult[]) {
  return cells.map((cell, i) => ({ ...cell, ...results[i]! }));
}

function format(report: FastRetransmitReport, seconds: number): string {
  const seeds = report.seeds.length === 1
    ? `seed ${report.seeds[0]}`
    : `medians of the seeds ${report.seeds.join(", ")}`;
  return [
    ...report.single.map(formatSingle),
    ...report.wholeBuffer.map(formatWholeBuffer),
    ...report.multi.map(formatMulti),
    formatChecks(report.checks),
    `${seeds}; ${seconds.toFixed(0)} s of wall time`,
  ].filter((part) => part !== "").join("\n\n");
}

const percent = (loss: number): string => `loss ${Number((loss * 100).toFixed(3))}%`;
const times = (ratio: number | null): string => ratio === null ? "" : ` x ${ratio.toFixed(2)}`;

function headerOf(title: string, rows: readonly { cells: readonly { loss: number }[] }[]): string[] {
  return [title, ...rows[0]!.cells.map(({ loss }) => percent(loss))].map(bold);
}

function formatSingle({ control, pacing, rows }: SingleFlowTable): string {
  const large = rows.at(-1)!;
  return [
    bold(`single flow, ${control}, pacing ${pacing}: bytes per second, and ratio to smoltcp`),
    table([
      headerOf("buffer", rows),
      ...rows.map(({ bufferBytes, cells }) => [
        `${bufferBytes}`,
        ...cells.map((cell) => `${formatRate(cell.throughputBytesPerSec)}${times(cell.ratio)}`),
      ]),
      [`of the Mathis bound at ${large.bufferBytes}`, ...large.cells.map(({ mathisRatio }) => mathisRatio.toFixed(2))],
      ...(large.cells.some(({ ns3Ratio }) => ns3Ratio !== null)
        ? [["ratio to the lower of ns-3", ...large.cells.map(({ ns3Ratio }) => ns3Ratio?.toFixed(2) ?? "")]]
        : []),
    ]),
  ].join("\n");
}

function formatRate(bytesPerSec: number): string {
  return bytesPerSec.toFixed(bytesPerSec < 100 ? 2 : bytesPerSec < 10_000 ? 1 : 0);
}

function formatWholeBuffer({ control, rows }: WholeBufferTable): string {
  const signed = (change: number): string => `${change >= 0 ? "+" : ""}${change.toFixed(1)}%`;
  const theirs = (change: number | null): string => change === null ? "" : ` (${signed(change)})`;
  return [
    bold(`single flow, ${control}: "whole buffer" → "oldest segment"${control === "none" ? ", and smoltcp's" : ""}`),
    table([
      headerOf("buffer", rows),
      ...rows.map(({ bufferBytes, cells }) => [
        `${bufferBytes}`,
        ...cells.map((cell) => `${signed(cell.changePercent)}${theirs(cell.smoltcpChangePercent)}`),
      ]),
    ]),
  ].join("\n");
}

function formatMulti({ control, pacing, rows }: MultiFlowTable): string {
  const number = (value: number): string => value.toFixed(0);
  return [
    bold(`multi flow, ${control}, pacing ${pacing}: bytes per second, and smoltcp's in brackets`),
    table([
      ["flows", "all", "ratio", "of the link", "slowest", "fastest", "Jain's index", "drops"].map(bold),
      ...rows.map((row) => {
        const { smoltcp } = row;
        const beside = (ours: string, theirs: (row: MultiFlowReference) => string): string =>
          smoltcp === null ? ours : `${ours} (${theirs(smoltcp)})`;
        const share = (ratio: number): string => `${(ratio * 100).toFixed(2)}%`;
        return [
          `${row.flows}`,
          beside(number(row.throughputBytesPerSec), (s) => number(s.throughputBytesPerSec)),
          times(row.ratio).trim(),
          row.utilisation.toFixed(3),
          number(row.leastBytesPerSec),
          number(row.mostBytesPerSec),
          beside(row.fairness.toFixed(3), (s) => s.fairness.toFixed(3)),
          beside(share(row.dropRatio), (s) => share(s.dropRatio)),
        ];
      }),
    ]),
  ].join("\n");
}

function formatChecks(checks: readonly FastRetransmitCheck[]): string {
  if (checks.length === 0) return "";
  return table([
    ["bound", "found", "expected", ""].map(bold),
    ...checks.map(({ name, found, expected, passed }) => [name, found, expected, passed ? "ok" : "MISSED"]),
  ]);
}
