/**
 * What experiments say about several runs: medians and fairness.
 *
 * @module
 */

/** The median: of an even number of values, the mean of the two in the middle; NaN of none. */
export function median(values: readonly number[]): number {
  if (values.length === 0) return NaN;
  const sorted = [...values].sort((x, y) => x - y);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** Jain's fairness index: 1 if all values are equal, 1/n if one has all; NaN of none. */
export function jainIndex(values: readonly number[]): number {
  let sum = 0;
  let squares = 0;
  for (const value of values) {
    sum += value;
    squares += value * value;
  }
  return sum * sum / (values.length * squares);
}
