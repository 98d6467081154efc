/**
 * Reference figures for the experiment `fast-retransmit`: what smoltcp and ns-3 reach on the same network.
 *
 * Facts, not code. smoltcp (0BSD): its simulation `tests/netsim.rs` at 24f83e97 (2026-06-16). Without congestion control
 * they are the snapshots in its repository, which it builds without one; the ones with `reno` and `cubic` were measured
 * with those compiled in. "Before" is 058524be (2026-06-13), the last state in which a fast retransmit sent everything
 * outstanding again. ns-3 3.37: measured on the single-flow network with SACK, without timestamps, least timeout 200 ms,
 * five seeds, medians; its CUBIC has no Reno-friendly region. All throughputs are in bytes per second.
 *
 * @module
 */

/** Buffer sizes of the single-flow table, one a row. */
export const BUFFERS_BYTES: readonly number[] = [128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768];

/** Loss probabilities of the single-flow table, one a column. */
export const LOSSES: readonly number[] = [0, 0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3];

/** Numbers of flows of the multi-flow table, one a row. */
export const FLOWS: readonly number[] = [1, 2, 4, 16, 32, 64];

/** A table by row: buffer size, or name. */
type Rows<K> = ReadonlyMap<K, readonly number[]>;

/** Rows up to 1,024 bytes: one segment at a time, so that the congestion control does not matter. */
const SMALL: readonly (readonly [number, readonly number[]])[] = [
  [128, [1279.98, 1255.76, 1054.15, 886.36, 538.66, 227.84, 33.99, 7.18]],
  [256, [2559.91, 2507.27, 2100.03, 1770.30, 1070.71, 468.24, 66.71, 14.35]],
  [512, [5119.63, 5011.95, 4172.36, 3531.57, 2098.73, 942.38, 144.73, 29.45]],
  [1024, [10238.50, 10023.19, 8340.90, 7084.25, 4003.34, 1869.94, 290.74, 60.92]],
];

const NONE: Rows<number> = new Map([
  ...SMALL,
  [2048, [17535.11, 17171.82, 14093.50, 11963.68, 7399.06, 3416.41, 690.50, 126.57]],
  [4096, [35062.41, 33859.80, 26937.41, 21886.99, 14073.67, 7870.66, 1603.60, 401.79]],
  [8192, [77374.28, 72992.18, 58490.74, 46527.73, 29421.45, 15515.23, 3737.20, 710.80]],
  [16384, [161842.28, 159310.62, 127090.53, 104233.16, 55319.33, 27269.28, 7654.51, 1277.32]],
  [32768, [322944.88, 314779.73, 219670.76, 166587.86, 76626.48, 37774.62, 6079.34, 1156.40]],
]);

const RENO: Rows<number> = new Map([
  ...SMALL,
  [2048, [17535.11, 17146.84, 14322.55, 12019.39, 7158.14, 3444.97, 553.54, 100.14]],
  [4096, [35051.48, 33813.15, 26662.96, 21523.67, 13446.70, 6425.27, 1148.08, 191.49]],
  [8192, [77225.79, 72199.39, 46572.12, 32881.30, 13650.90, 4513.48, 619.76, 101.83]],
  [16384, [160589.35, 125465.23, 49033.91, 30282.54, 12240.55, 4640.09, 615.58, 107.02]],
  [32768, [312391.44, 141151.00, 48673.63, 30934.07, 12045.00, 4545.95, 601.12, 114.49]],
]);

const CUBIC: Rows<number> = new Map([
  ...SMALL,
  [2048, [17535.11, 17146.84, 14322.55, 12019.39, 7158.14, 3444.97, 553.54, 100.14]],
  [4096, [35051.48, 33761.42, 26416.23, 21249.12, 13153.06, 6200.18, 1218.53, 209.07]],
  [8192, [77225.79, 73754.79, 50647.42, 34604.82, 14595.42, 5085.12, 628.92, 111.43]],
  [16384, [160589.35, 148244.26, 54051.49, 31784.41, 12398.70, 4369.37, 686.05, 103.87]],
  [32768, [312391.44, 219540.83, 59813.37, 31210.14, 12754.45, 4787.29, 602.23, 112.27]],
]);

const NONE_BEFORE: Rows<number> = new Map([
  ...SMALL,
  [2048, [17535.11, 17171.82, 14093.50, 11963.68, 7409.52, 3425.33, 713.13, 127.54]],
  [4096, [35062.41, 33859.80, 26998.84, 21883.49, 13830.55, 7584.98, 1604.76, 356.17]],
  [8192, [77374.28, 72942.53, 58760.96, 48370.02, 28809.84, 14433.15, 2973.06, 577.40]],
  [16384, [161842.28, 159094.12, 141988.96, 128930.89, 92515.13, 43930.50, 7832.33, 1315.89]],
  [32768, [322944.88, 313302.98, 266011.44, 217969.30, 155881.87, 65357.32, 11213.78, 2193.98]],
]);

const SINGLE: ReadonlyMap<string, Rows<number>> = new Map([["none", NONE], ["reno", RENO], ["cubic", CUBIC]]);

/** A row of the multi-flow table. */
export interface MultiFlowReference {
  /** Bytes received in a second, all flows together. */
  readonly throughputBytesPerSec: number;
  /** Jain's index of what the flows received. */
  readonly fairness: number;
  /** Packets that found a queue full, of all that came to one. */
  readonly dropRatio: number;
}

const MULTI: ReadonlyMap<string, Rows<number>> = new Map([
  [
    "none",
    new Map([
      [1, [3449.54, 1, 0.4467]],
      [2, [6966.98, 0.9999, 0.4427]],
      [4, [12848.40, 0.9997, 0.4430]],
      [16, [52408.19, 0.9913, 0.4364]],
      [32, [94342.76, 0.9759, 0.4379]],
      [64, [167823.63, 0.9866, 0.4548]],
    ]),
  ],
  [
    "reno",
    new Map([
      [1, [1281223.04, 1, 0]],
      [2, [2524853.40, 0.9998, 0]],
      [4, [1835379.80, 0.9567, 0.0119]],
      [16, [9079834.15, 0.7346, 0.0030]],
      [32, [12681885.84, 0.8035, 0.0045]],
      [64, [16974164.35, 0.8786, 0.0046]],
    ]),
  ],
  [
    "cubic",
    new Map([
      [1, [1281223.04, 1, 0]],
      [2, [2524853.40, 0.9998, 0]],
      [4, [1791663.59, 0.9249, 0.0130]],
      [16, [7924059.72, 0.7378, 0.0067]],
      [32, [11253371.29, 0.9211, 0.0067]],
      [64, [14764091.60, 0.9085, 0.0085]],
    ]),
  ],
]);

/** The two rows of ns-3 at buffers of 32,768 bytes: acknowledgments delayed by up to 40 ms, and by up to 10 ms. */
const NS3: ReadonlyMap<string, readonly (readonly number[])[]> = new Map([
  ["reno", [
    [319193, 257946, 106054, 68444, 36975, 21121, 6312, 1518],
    [319193, 263059, 117262, 76515, 38271, 21698, 6772, 1613],
  ]],
  ["cubic", [
    [319193, 310681, 139528, 124487, 66796, 27699, 9134, 2193],
    [319193, 310681, 151349, 111941, 60322, 27514, 7805, 1848],
  ]],
]);

/** The buffer size at which ns-3 was measured and the bounds below count. */
export const BOUND_BUFFER_BYTES = 32_768;

/** What smoltcp reaches in a cell of the single-flow table with a control of that name; `null` if it has none. */
export function smoltcpSingle(control: string, bufferBytes: number, loss: number): number | null {
  return SINGLE.get(control)?.get(bufferBytes)?.[LOSSES.indexOf(loss)] ?? null;
}

/** The change in per cent from "whole buffer" to "oldest segment" in smoltcp, which is known for `none`. */
export function smoltcpWholeBufferChange(control: string, bufferBytes: number, loss: number): number | null {
  if (control !== "none") return null;
  const column = LOSSES.indexOf(loss);
  const before = NONE_BEFORE.get(bufferBytes)?.[column];
  const now = NONE.get(bufferBytes)?.[column];
  return before === undefined || now === undefined ? null : (now / before - 1) * 100;
}

/** What smoltcp reaches with so many flows and a control of that name; `null` if it has none. */
export function smoltcpMulti(control: string, flows: number): MultiFlowReference | null {
  const row = MULTI.get(control)?.get(flows);
  if (row === undefined) return null;
  return { throughputBytesPerSec: row[0]!, fairness: row[1]!, dropRatio: row[2]! };
}

/** The lower of the two rows of ns-3 at {@linkcode BOUND_BUFFER_BYTES}; `null` if there is none for the control. */
export function ns3Single(control: string, loss: number): number | null {
  const column = LOSSES.indexOf(loss);
  const values = (NS3.get(control) ?? []).map((row) => row[column]).filter((value) => value !== undefined);
  return values.length === 0 ? null : Math.min(...values);
}

/**
 * The bound of Mathis et al. for control by loss, MSS / RTT · sqrt(1.5 / p), and never more than a window a round trip.
 *
 * @param bufferBytes the window
 * @param loss probability of loss, p
 * @param mssBytes bytes in a segment (default 1,460)
 * @param rttSeconds round-trip time in seconds (default 0.1)
 */
export function mathisBound(bufferBytes: number, loss: number, mssBytes = 1460, rttSeconds = 0.1): number {
  return Math.min(bufferBytes / rttSeconds, mssBytes / rttSeconds * Math.sqrt(1.5 / loss));
}
