/**
 * Time in the core: integer nanoseconds since the stack's start, as plain numbers.
 *
 * A double holds integers exactly up to 2^53, which is 104 days of nanoseconds. Nothing in the core reads a clock:
 * every entry takes `now`. A field that holds an {@linkcode Instant} always holds a number ({@linkcode NEVER} for
 * none), so that the engine never has to change how it stores it.
 *
 * @module
 */

/** A point in time: integer nanoseconds since the stack's start. */
export type Instant = number;

/** A length of time in integer nanoseconds. */
export type Duration = number;

/** The instant that is never reached: the value of a deadline that is not set. */
export const NEVER: Instant = Infinity;

/** One microsecond in nanoseconds. */
export const MICROSECOND: Duration = 1_000;

/** One millisecond in nanoseconds. */
export const MILLISECOND: Duration = 1_000_000;

/** One second in nanoseconds. */
export const SECOND: Duration = 1_000_000_000;

/** Nanoseconds to milliseconds, for people and reports. */
export function toMilliseconds(duration: Duration): number {
  return duration / MILLISECOND;
}

/** Milliseconds to whole nanoseconds. */
export function fromMilliseconds(milliseconds: number): Duration {
  return Math.round(milliseconds * MILLISECOND);
}
