/**
 * Numbers with units as tc writes them: times, rates, percentages.
 *
 * Reading is exact: the decimal point is moved in the text, not by a multiplication, so that what was read can be
 * written and read again without a change. Units do not depend on case. As in tc a rate without a unit is in bits per
 * second, `bps` is *bytes* per second, and a percentage needs no sign. A time without a unit is refused, unless it is read
 * as tc reads it.
 *
 * @module
 */

import type { Duration } from "../base/time.ts";

const NUMBER = /^([+-]?(?:\d+\.?\d*|\.\d+))(?:e([+-]?\d+))?([^\d.].*)?$/i;

/** Power of ten of each unit of time, over nanoseconds. */
const TIME_UNITS: ReadonlyMap<string, number> = new Map([
  ["s", 9],
  ["sec", 9],
  ["secs", 9],
  ["ms", 6],
  ["msec", 6],
  ["msecs", 6],
  ["us", 3],
  ["usec", 3],
  ["usecs", 3],
  ["ns", 0],
  ["nsec", 0],
  ["nsecs", 0],
]);

/** Prefixes of rates: power of ten and factor. */
const RATE_PREFIXES: readonly [string, number, number][] = [
  ["", 0, 1],
  ["k", 3, 1],
  ["m", 6, 1],
  ["g", 9, 1],
  ["t", 12, 1],
  ["ki", 0, 1024],
  ["mi", 0, 1024 ** 2],
  ["gi", 0, 1024 ** 3],
  ["ti", 0, 1024 ** 4],
];

/** What a unit of rate stands for. */
interface RateUnit {
  exponent: number;
  factor: number;
}

const RATE_UNITS: ReadonlyMap<string, RateUnit> = new Map([
  ["", { exponent: 0, factor: 1 / 8 }] as const,
  ...RATE_PREFIXES.flatMap(([prefix, exponent, factor]) => [
    [`${prefix}bit`, { exponent, factor: factor / 8 }] as const,
    [`${prefix}bps`, { exponent, factor }] as const,
  ]),
]);

/** The number in front of `text` times ten to the power of `exponent`, and what follows it; `null` if none does. */
function readNumber(text: string): { value(exponent: number): number; unit: string } | null {
  const match = NUMBER.exec(text);
  if (match === null) return null;
  const [, mantissa, power, unit] = match;
  return {
    value: (exponent) => Number(`${mantissa}e${Number(power ?? 0) + exponent}`),
    unit: (unit ?? "").toLowerCase(),
  };
}

/** True if `text` begins as a number does. */
export function looksNumeric(text: string): boolean {
  return /^[+-]?\.?\d/.test(text);
}

/** Reads a time with its unit, rounded to whole nanoseconds; NaN if it is none. */
export function parseTime(text: string): Duration {
  const number = readNumber(text);
  const exponent = number === null ? undefined : TIME_UNITS.get(number.unit);
  return number === null || exponent === undefined ? NaN : Math.round(number.value(exponent));
}

/** Reads a time as tc does: in microseconds if it has no unit. */
export function parseBareTime(text: string): Duration {
  return parseTime(/\d$|\.$/.test(text) ? `${text}us` : text);
}

/** Writes a time in the largest unit of which it is a whole number. */
export function formatTime(time: Duration): string {
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["us", 1e3]] as const) {
    if (time % size === 0 && time !== 0) return `${time / size}${unit}`;
  }
  return `${time}ns`;
}

/** Reads a rate; the result is in bytes per second, NaN if it is none. */
export function parseRate(text: string): number {
  const number = readNumber(text);
  const unit = number === null ? undefined : RATE_UNITS.get(number.unit);
  return number === null || unit === undefined ? NaN : number.value(unit.exponent) * unit.factor;
}

/** Writes a rate in the largest decimal unit of bits of which it is a whole number. */
export function formatRate(rateBytesPerSec: number): string {
  const bits = rateBytesPerSec * 8;
  for (const [unit, size] of [["tbit", 1e12], ["gbit", 1e9], ["mbit", 1e6], ["kbit", 1e3]] as const) {
    if (bits % size === 0 && bits !== 0) return `${bits / size}${unit}`;
  }
  return `${bits}bit`;
}

/** Reads a percentage, with its sign or without; the result is a fraction, NaN if it is none. */
export function parsePercent(text: string): number {
  const number = readNumber(text);
  return number === null || (number.unit !== "%" && number.unit !== "") ? NaN : number.value(-2);
}

/** Writes a fraction as a percentage. */
export function formatPercent(fraction: number): string {
  const [mantissa, exponent] = fraction.toExponential().split("e");
  const exact = `${mantissa}e${Number(exponent) + 2}`;
  const plain = `${Number(exact)}%`;
  return parsePercent(plain) === fraction ? plain : `${exact}%`;
}

/** Reads an integer; NaN if it is none. */
export function parseInteger(text: string): number {
  return /^[+-]?\d+$/.test(text) ? Number(text) : NaN;
}
