/**
 * Numbers with units as the command line takes and prints them.
 *
 * Taken: seconds with or without a unit (`10`, `0.2`, `200ms`); rates in bits per second with decimal prefixes (`10M`,
 * `1.5Gbit`, but no `bps`, which tc takes for bytes); sizes in bytes with binary prefixes (`128K`). Printed: the forms of
 * iperf3, three significant digits, bytes by 1,024 and bits by 1,000.
 *
 * @module
 */

import { type Duration, SECOND } from "../base/time.ts";
import { parseTime } from "../impair/units.ts";

const PREFIXES = "KMGT";

/** Reads seconds, or a time with its unit; NaN if it is neither. */
export function parseSeconds(text: string): Duration {
  return /^(\d+\.?\d*|\.\d+)$/.test(text) ? Math.round(Number(text) * SECOND) : parseTime(text);
}

/** Reads a number with a prefix K, M, G or T in powers of `base`, and one of the units; NaN if it is none. */
function parsePrefixed(text: string, base: number, units: string): number {
  const match = new RegExp(`^(\\d+\\.?\\d*|\\.\\d+)([${PREFIXES}]?)(?:${units})?$`, "i").exec(text);
  if (match === null) return NaN;
  const power = match[2] === "" ? 0 : PREFIXES.indexOf(match[2]!.toUpperCase()) + 1;
  return Number(match[1]) * base ** power;
}

/** Reads a rate in bits per second: `10M` is ten million; NaN if it is none. */
export function parseBitRate(text: string): number {
  return parsePrefixed(text, 1000, "bit|bits|bit/s|bits/s");
}

/** Reads a number of bytes: `128K` is 131,072; NaN if it is none, or no whole number. */
export function parseByteCount(text: string): number {
  const n = parsePrefixed(text, 1024, "i?B");
  return Number.isInteger(n) ? n : NaN;
}

/** A number in three significant digits and in a width of four, with its prefix and unit. */
function formatPrefixed(n: number, base: number, unit: string): string {
  let power = 0;
  while (n >= base && power < PREFIXES.length) {
    n /= base;
    power++;
  }
  const digits = n < 9.995 ? 2 : n < 99.95 ? 1 : 0;
  const prefix = power === 0 ? "" : PREFIXES[power - 1]!;
  return `${n.toFixed(digits).padStart(4)} ${prefix}${unit}`;
}

/** A number of bytes: `5.62 MBytes`. */
export function formatBytes(bytes: number): string {
  return formatPrefixed(bytes, 1024, "Bytes");
}

/** A rate: `47.2 Mbits/sec`. */
export function formatBitRate(bitsPerSec: number): string {
  return formatPrefixed(bitsPerSec, 1000, "bits/sec");
}
