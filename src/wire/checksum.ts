/**
 * The Internet checksum: the ones' complement sum of 16-bit words (RFC 1071), and its incremental update (RFC 1624).
 *
 * A *sum* is an ordinary number that still has to be folded; sums of parts may be added, each part but the last having
 * an even length. `checksumFinish` folds and complements. A range that contains its own correct checksum finishes to 0.
 *
 * @module
 */

import { arenaSum } from "../base/arena.ts";

/**
 * Sum of the 16-bit big-endian words in `[start, end)`; an odd last byte counts as the high half of a word.
 *
 * @param view memory
 * @param start first byte
 * @param end one past the last byte; at most 65,536 bytes from `start`
 * @param initial a sum to add to (default 0)
 */
export function checksumSum(view: DataView, start: number, end: number, initial = 0): number {
  const sum = arenaSum(view, start, end);
  return initial + (sum < 0 ? plainSum(view, start, end) : sum);
}

/** The same in plain JavaScript, for any memory. */
export function plainSum(view: DataView, start: number, end: number): number {
  let low = 0;
  let high = 0;
  let at = start;
  const end16 = end - 15;
  for (; at < end16; at += 16) {
    const a = view.getInt32(at);
    const b = view.getInt32(at + 4);
    const c = view.getInt32(at + 8);
    const d = view.getInt32(at + 12);
    low += (a & 0xffff) + (b & 0xffff) + (c & 0xffff) + (d & 0xffff);
    high += (a >>> 16) + (b >>> 16) + (c >>> 16) + (d >>> 16);
  }
  for (; at + 1 < end; at += 2) low += view.getUint16(at);
  if (at < end) low += view.getUint8(at) << 8;
  return low + high;
}

/** Folds a sum to 16 bits. */
export function checksumFold(sum: number): number {
  let s = sum;
  while (s > 0xffff) s = (s % 0x10000) + Math.floor(s / 0x10000);
  return s;
}

/** Folds and complements a sum: the value for the checksum field, or 0 if the range was correct. */
export function checksumFinish(sum: number): number {
  return ~checksumFold(sum) & 0xffff;
}

/**
 * The checksum after one 16-bit word under it changed from `before` to `after` (RFC 1624, equation 3:
 * HC' = ~(~HC + ~m + m')).
 */
export function checksumUpdate(checksum: number, before: number, after: number): number {
  return checksumFinish((~checksum & 0xffff) + (~before & 0xffff) + (after & 0xffff));
}

/** Sum of a 32-bit word's halves, for header fields that are at hand as numbers. */
export function sum32(word: number): number {
  return (word >>> 16) + (word & 0xffff);
}
