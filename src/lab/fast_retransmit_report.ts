/**
 * The tables of the experiment `fast-retransmit`: which cells to run, medians over the seeds, ratios to smoltcp cell by
 * cell, "whole buffer" against "oldest segment", and the bounds that have to be reached.
 *
 * @module
 */

import type { PacingMode } from "../tcp/pacing.ts";
import {
  type FastRetransmit,
  type FastRetransmitCell,
  type FastRetransmitResult,
  MULTI_RATE_BYTES_PER_SEC,
} from "./fast_retransmit.ts";
import {
  BOUND_BUFFER_BYTES,
  mathisBound,
  type MultiFlowReference,
  ns3Single,
  smoltcpMulti,
  smoltcpSingle,
  smoltcpWholeBufferChange,
} from "./smoltcp_tables.ts";
import { median } from "./statistics.ts";

/**
 * From this buffer size on a window holds more than one segment, so that it matters how segments are spaced and what a fast
 * retransmit sends again.
 */
const SEGMENTS_FROM_BYTES = 2048;

/** What is to be run. */
export interface FastRetransmitPlan {
  /** Congestion controls by name. */
  controls: readonly string[];
  /**
   * How departures are spaced: all of it once for each, but that buffers below 2,048 bytes, which hold one segment, and
   * `none`, which has no rate to be paced at, are run with the first one only.
   */
  pacings: readonly PacingMode[];
  /** Buffer sizes of the single flow. */
  buffersBytes: readonly number[];
  /** Loss probabilities of the single flow. */
  losses: readonly number[];
  /** Numbers of flows. */
  flows: readonly number[];
  /** Seeds; the tables hold the medians. */
  seeds: readonly number[];
  /** Run the single flow with the whole buffer sent again too, with the first kind of pacing. */
  wholeBuffer: boolean;
  /** Bytes to be received by a single flow (default 10 MiB). */
  singleTransferBytes?: number;
  /** Bytes to be received by each of many flows (default 2 MiB). */
  multiTransferBytes?: number;
}

/** A cell of a single-flow table. */
export interface SingleFlowEntry {
  /** Probability of loss, each way. */
  loss: number;
  /** Median of the throughput. */
  throughputBytesPerSec: number;
  /** The least and the greatest of the seeds. */
  range: [number, number];
  /** smoltcp's; `null` if it has none. */
  smoltcpBytesPerSec: number | null;
  /** Ours over smoltcp's. */
  ratio: number | null;
  /** Ours over the bound of Mathis et al. */
  mathisRatio: number;
  /** Ours over the lower of ns-3's two rows. */
  ns3Ratio: number | null;
}

/** A single-flow table. */
export interface SingleFlowTable {
  /** Congestion control. */
  control: string;
  /** How departures were spaced. */
  pacing: PacingMode;
  /** What a fast retransmit sent again. */
  fastRetransmit: FastRetransmit;
  /** One row a buffer size. */
  rows: { bufferBytes: number; cells: SingleFlowEntry[] }[];
}

/** What sending only the oldest segment changes, in per cent of sending everything outstanding. */
export interface WholeBufferTable {
  /** Congestion control. */
  control: string;
  /** One row a buffer size. */
  rows: {
    bufferBytes: number;
    cells: { loss: number; changePercent: number; smoltcpChangePercent: number | null }[];
  }[];
}

/** A row of a multi-flow table: medians. */
export interface MultiFlowEntry {
  /** Number of flows. */
  flows: number;
  /** All flows together. */
  throughputBytesPerSec: number;
  /** The slowest. */
  leastBytesPerSec: number;
  /** The fastest. */
  mostBytesPerSec: number;
  /** Jain's index. */
  fairness: number;
  /** Packets that found a queue full, of all that came to one. */
  dropRatio: number;
  /** Throughput over the link's rate. */
  utilisation: number;
  /** smoltcp's row; `null` if it has none. */
  smoltcp: MultiFlowReference | null;
  /** Our throughput over smoltcp's. */
  ratio: number | null;
}

/** A multi-flow table. */
export interface MultiFlowTable {
  /** Congestion control. */
  control: string;
  /** How departures were spaced. */
  pacing: PacingMode;
  /** One row a number of flows. */
  rows: MultiFlowEntry[];
}

/** A bound that has to be reached, and whether it is. */
export interface FastRetransmitCheck {
  /** What was looked at. */
  name: string;
  /** True if it holds everywhere. */
  passed: boolean;
  /** The worst value and where. */
  found: string;
  /** The bound. */
  expected: string;
}

/** Everything. */
export interface FastRetransmitReport {
  /** Seeds of the medians. */
  seeds: number[];
  /** Single-flow tables. */
  single: SingleFlowTable[];
  /** Multi-flow tables. */
  multi: MultiFlowTable[];
  /** What sending only the oldest segment changes. */
  wholeBuffer: WholeBufferTable[];
  /** The bounds, for what was run with pacing. */
  checks: FastRetransmitCheck[];
}

/** The cells of a plan; those that take longest come first. */
export function fastRetransmitCells(plan: FastRetransmitPlan): FastRetransmitCell[] {
  const cells: FastRetransmitCell[] = [];
  const { singleTransferBytes, multiTransferBytes, seeds } = plan;
  const singleSize = singleTransferBytes === undefined ? {} : { transferBytes: singleTransferBytes };
  const multiSize = multiTransferBytes === undefined ? {} : { transferBytes: multiTransferBytes };
  for (const control of plan.controls) {
    pacingsOf(plan, control).forEach((pacing, i) => {
      for (const fastRetransmit of ["oldest", "whole-buffer"] as const) {
        const isWhole = fastRetransmit === "whole-buffer";
        if (isWhole && (i > 0 || !plan.wholeBuffer)) continue;
        for (const bufferBytes of plan.buffersBytes) {
          if ((isWhole || i > 0) && bufferBytes < SEGMENTS_FROM_BYTES) continue;
          for (const loss of plan.losses) {
            if (isWhole && loss === 0) continue;
            for (const seed of seeds) {
              cells.push({ kind: "single", control, bufferBytes, loss, seed, pacing, fastRetransmit, ...singleSize });
            }
          }
        }
      }
      for (const flows of plan.flows) {
        for (const seed of seeds) {
          cells.push({ kind: "multi", control, flows, seed, pacing, fastRetransmit: "oldest", ...multiSize });
        }
      }
    });
  }
  return cells.map((cell) => ({ cell, cost: costOf(cell) })).sort((x, y) => y.cost - x.cost).map(({ cell }) => cell);
}

function pacingsOf(plan: FastRetransmitPlan, control: string): readonly PacingMode[] {
  return control === "none" ? plan.pacings.slice(0, 1) : plan.pacings;
}

/** About how many packets a cell takes. */
function costOf(cell: FastRetransmitCell): number {
  if (cell.kind === "multi") return cell.flows * 8000;
  return 10e6 / Math.min(cell.bufferBytes, 1448) * (1 + 3 * cell.loss);
}

/** Makes the tables of `results`, which are those of `cells` in the same order. */
export function reportFastRetransmit(
  plan: FastRetransmitPlan,
  cells: readonly FastRetransmitCell[],
  results: readonly FastRetransmitResult[],
): FastRetransmitReport {
  const byKey = new Map<string, FastRetransmitResult[]>();
  cells.forEach((cell, i) => {
    const key = keyOf(cell);
    const list = byKey.get(key);
    if (list === undefined) byKey.set(key, [results[i]!]);
    else list.push(results[i]!);
  });
  const single: SingleFlowTable[] = [];
  const multi: MultiFlowTable[] = [];
  const wholeBuffer: WholeBufferTable[] = [];
  for (const control of plan.controls) {
    pacingsOf(plan, control).forEach((pacing, i) => {
      const oldest = singleTable(byKey, plan, control, pacing, "oldest");
      if (oldest.rows.length > 0) single.push(oldest);
      if (plan.wholeBuffer && i === 0) {
        const whole = singleTable(byKey, plan, control, pacing, "whole-buffer");
        if (whole.rows.length > 0) wholeBuffer.push(changeTable(whole, oldest));
      }
      if (plan.flows.length > 0) multi.push(multiTable(byKey, plan, control, pacing));
    });
  }
  return { seeds: [...plan.seeds], single, multi, wholeBuffer, checks: check(single, multi) };
}

function keyOf(cell: FastRetransmitCell): string {
  const where = cell.kind === "single" ? `${cell.bufferBytes} ${cell.loss}` : `${cell.flows}`;
  return [cell.kind, cell.control, cell.pacing, cell.fastRetransmit, where].join(" ");
}

function singleTable(
  byKey: ReadonlyMap<string, FastRetransmitResult[]>,
  plan: FastRetransmitPlan,
  control: string,
  pacing: PacingMode,
  fastRetransmit: FastRetransmit,
): SingleFlowTable {
  const rows = plan.buffersBytes.flatMap((bufferBytes) => {
    const cells = plan.losses.flatMap((loss): SingleFlowEntry[] => {
      const runs = byKey.get(`single ${control} ${pacing} ${fastRetransmit} ${bufferBytes} ${loss}`);
      if (runs === undefined) return [];
      const values = runs.map((run) => run.throughputBytesPerSec);
      const throughputBytesPerSec = median(values);
      const smoltcpBytesPerSec = smoltcpSingle(control, bufferBytes, loss);
      const ns3 = bufferBytes === BOUND_BUFFER_BYTES ? ns3Single(control, loss) : null;
      return [{
        loss,
        throughputBytesPerSec,
        range: [Math.min(...values), Math.max(...values)],
        smoltcpBytesPerSec,
        ratio: smoltcpBytesPerSec === null ? null : throughputBytesPerSec / smoltcpBytesPerSec,
        mathisRatio: throughputBytesPerSec / mathisBound(bufferBytes, loss),
        ns3Ratio: ns3 === null ? null : throughputBytesPerSec / ns3,
      }];
    });
    return cells.length === 0 ? [] : [{ bufferBytes, cells }];
  });
  return { control, pacing, fastRetransmit, rows };
}

function changeTable(whole: SingleFlowTable, oldest: SingleFlowTable): WholeBufferTable {
  const rows = whole.rows.map(({ bufferBytes, cells }) => {
    const now = oldest.rows.find((row) => row.bufferBytes === bufferBytes)!.cells;
    return {
      bufferBytes,
      cells: cells.map(({ loss, throughputBytesPerSec }) => ({
        loss,
        changePercent: (now.find((c) => c.loss === loss)!.throughputBytesPerSec / throughputBytesPerSec - 1) * 100,
        smoltcpChangePercent: smoltcpWholeBufferChange(whole.control, bufferBytes, loss),
      })),
    };
  });
  return { control: whole.control, rows };
}

function multiTable(
  byKey: ReadonlyMap<string, FastRetransmitResult[]>,
  plan: FastRetransmitPlan,
  control: string,
  pacing: PacingMode,
): MultiFlowTable {
  const rows = plan.flows.map((flows) => {
    const runs = byKey.get(`multi ${control} ${pacing} oldest ${flows}`)!;
    const of = (field: keyof FastRetransmitResult): number => median(runs.map((run) => run[field]));
    const throughputBytesPerSec = of("throughputBytesPerSec");
    const smoltcp = smoltcpMulti(control, flows);
    return {
      flows,
      throughputBytesPerSec,
      leastBytesPerSec: of("leastBytesPerSec"),
      mostBytesPerSec: of("mostBytesPerSec"),
      fairness: of("fairness"),
      dropRatio: of("dropRatio"),
      utilisation: throughputBytesPerSec / MULTI_RATE_BYTES_PER_SEC,
      smoltcp,
      ratio: smoltcp === null ? null : throughputBytesPerSec / smoltcp.throughputBytesPerSec,
    };
  });
  return { control, pacing, rows };
}

/** Least share of the bound of Mathis et al. by control and loss. */
const MATHIS_SHARES: ReadonlyMap<string, ReadonlyMap<number, number>> = new Map([
  ["cubic", new Map([[0.01, 0.8], [0.02, 0.8], [0.05, 0.65]])],
  ["reno", new Map([[0.01, 0.7], [0.02, 0.7], [0.05, 0.5]])],
]);

/** Least share of the lower of ns-3's rows, up to this loss. */
const NS3_SHARE = 0.97;
const NS3_MOST_LOSS = 0.1;

/** Least share of the link by number of flows, and the bounds on fairness and drops, with `cubic`. */
const UTILISATIONS: ReadonlyMap<number, number> = new Map([[16, 0.7], [32, 0.8], [64, 0.85]]);
const LEAST_FAIRNESS = 0.75;
const MOST_DROPS = 0.02;

interface Measured {
  value: number;
  bound: number;
  where: string;
}

/** The worst of `all`, measured against the bound of each. */
function checkOf(name: string, all: readonly Measured[], isCeiling = false): FastRetransmitCheck[] {
  if (all.length === 0) return [];
  const slack = ({ value, bound }: Measured): number => isCeiling ? bound - value : value - bound;
  const worst = all.reduce((x, y) => slack(y) < slack(x) ? y : x);
  const failing = all.filter((m) => slack(m) < 0);
  const more = failing.length > 1 ? `, and ${failing.length - 1} more below` : "";
  return [{
    name,
    passed: failing.length === 0,
    found: `${worst.value.toFixed(3)} at ${worst.where}${isCeiling ? "" : more}`,
    expected: `${isCeiling ? "at most" : "at least"} ${worst.bound.toFixed(2)}`,
  }];
}

function check(single: readonly SingleFlowTable[], multi: readonly MultiFlowTable[]): FastRetransmitCheck[] {
  return [
    ...single.filter((table) => table.pacing !== "off").flatMap(checkSingle),
    ...multi.filter((table) => table.pacing !== "off" && table.control === "cubic").flatMap(checkMulti),
  ];
}

function checkSingle({ control, pacing, rows }: SingleFlowTable): FastRetransmitCheck[] {
  const cells = rows.flatMap(({ bufferBytes, cells }) =>
    cells.map((cell) => ({ ...cell, bufferBytes, where: `${bufferBytes} bytes, loss ${cell.loss}` }))
  );
  const large = cells.filter((cell) => cell.bufferBytes === BOUND_BUFFER_BYTES);
  const title = `single flow, ${control}, pacing ${pacing}`;
  return [
    ...checkOf(
      `${title}: ratio to smoltcp`,
      cells.flatMap(({ ratio, where }) => ratio === null ? [] : [{ value: ratio, bound: 1, where }]),
    ),
    ...checkOf(
      `${title}: share of the Mathis bound`,
      large.flatMap(({ loss, mathisRatio, where }) => {
        const bound = MATHIS_SHARES.get(control)?.get(loss);
        return bound === undefined ? [] : [{ value: mathisRatio, bound, where }];
      }),
    ),
    ...checkOf(
      `${title}: ratio to the lower of ns-3`,
      large.flatMap(({ loss, ns3Ratio, where }) =>
        ns3Ratio === null || loss > NS3_MOST_LOSS ? [] : [{ value: ns3Ratio, bound: NS3_SHARE, where }]
      ),
    ),
  ];
}

function checkMulti({ control, pacing, rows }: MultiFlowTable): FastRetransmitCheck[] {
  const title = `multi flow, ${control}, pacing ${pacing}`;
  const bounded = rows.filter(({ flows }) => UTILISATIONS.has(flows));
  const measured = (field: "utilisation" | "fairness" | "dropRatio", bound: (flows: number) => number): Measured[] =>
    bounded.map((row) => ({ value: row[field], bound: bound(row.flows), where: `${row.flows} flows` }));
  return [
    ...checkOf(`${title}: share of the link`, measured("utilisation", (flows) => UTILISATIONS.get(flows)!)),
    ...checkOf(`${title}: Jain's index`, measured("fairness", () => LEAST_FAIRNESS)),
    ...checkOf(`${title}: drops`, measured("dropRatio", () => MOST_DROPS), true),
  ];
}
