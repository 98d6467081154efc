/**
 * The distributions of jitter.
 *
 * A table holds a distribution's inverse at equally many steps, in 8,192ths of the jitter and in ascending order, as
 * tc's `.dist` files do; a rank picks an entry. The tables of tc are made here from closed forms: `pareto` entry by entry
 * the same, `normal` to within one count, `paretonormal` (a quarter normal and three quarters pareto) too, but for its
 * first entry, which differs by 17. Jitter is the standard deviation of `normal` only: that of the other two is 0.82 and
 * 0.83 of it, and they lie 0.03 of it below the delay on average. `uniform` is from `delay − jitter` to just below
 * `delay + jitter` and needs no table.
 *
 * @module
 */

import type { DistributionTable, NetemDistribution } from "./config.ts";
import { normalQuantile } from "./normal.ts";

/** An entry of this size is once the jitter. */
export const DISTRIBUTION_SCALE = 8192;

/** The most entries that a table may have. */
export const DISTRIBUTION_ENTRIES_MAX = 16_384;

const ENTRIES = 4096;
const INT16_MAX = 32_767;

const INT16_MIN = -32_768;

/** Names of the distributions that need no file. */
export const DISTRIBUTION_NAMES = ["uniform", "normal", "pareto", "paretonormal"] as const;

const made = new Map<string, Int16Array>();

function pareto(i: number): number {
  const x = (65_536 - 16 * i) / 65_536;
  return Math.min(INT16_MAX, Math.round((x ** (-1 / 3) - 1.5) * 4 / 3 * DISTRIBUTION_SCALE));
}

/** tc's normal table is that of the ranks an eighth of a step above the lower edges. */
function normal(i: number): number {
  return Math.max(INT16_MIN, Math.round(normalQuantile((i + 1 / 8) / ENTRIES) * DISTRIBUTION_SCALE));
}

/** The table of a distribution in 8,192ths of the jitter, ascending; `null` for `uniform`. Not to be written to. */
export function distributionTable(distribution: NetemDistribution): Int16Array | null {
  if (distribution === "uniform") return null;
  if (typeof distribution !== "string") return Int16Array.from(distribution.values);
  let table = made.get(distribution);
  if (table === undefined) {
    const entry = distribution === "normal"
      ? normal
      : distribution === "pareto"
      ? pareto
      : (i: number) => Math.round(0.25 * normal(i) + 0.75 * pareto(i));
    table = Int16Array.from({ length: ENTRIES }, (_, i) => entry(i));
    made.set(distribution, table);
  }
  return table;
}

/**
 * Reads a table in the form of tc's `.dist` files: whole numbers from −32,768 to 32,767 between blanks, comments from
 * `#` to the end of the line.
 *
 * @param name what it is called in the text of an impairment
 * @throws {TypeError} naming the line and what was expected
 */
export function parseDistribution(name: string, text: string): DistributionTable {
  const values: number[] = [];
  text.split("\n").forEach((line, i) => {
    for (const word of line.replace(/#.*/, "").split(/\s+/)) {
      if (word === "") continue;
      const value = /^[+-]?\d+$/.test(word) ? Number(word) : NaN;
      if (!(value >= -32_768 && value <= INT16_MAX)) {
        throw new TypeError(`${name}: line ${i + 1} "${word}": expected whole numbers from -32768 to 32767`);
      }
      values.push(value);
    }
  });
  if (values.length === 0 || values.length > DISTRIBUTION_ENTRIES_MAX) {
    throw new TypeError(`${name}: expected 1 to ${DISTRIBUTION_ENTRIES_MAX} numbers, found ${values.length}`);
  }
  return { name, values };
}

/** What a jitter of 1 adds to the delay at `rank` (0 to below 1). */
export function jitterQuantile(distribution: NetemDistribution, rank: number): number {
  const table = distributionTable(distribution);
  if (table === null) return 2 * rank - 1;
  const sorted = typeof distribution === "string" ? table : table.sort();
  return sorted[Math.floor(rank * sorted.length)]! / DISTRIBUTION_SCALE;
}

/** What a jitter of 1 adds on average, and its standard deviation. */
export function jitterMoments(distribution: NetemDistribution): { mean: number; sd: number } {
  const table = distributionTable(distribution);
  if (table === null) return { mean: 0, sd: 1 / Math.sqrt(3) };
  const mean = table.reduce((sum, t) => sum + t, 0) / table.length;
  const square = table.reduce((sum, t) => sum + (t - mean) ** 2, 0) / table.length;
  return { mean: mean / DISTRIBUTION_SCALE, sd: Math.sqrt(square) / DISTRIBUTION_SCALE };
}
