/**
 * Sequence numbers: 32 bits, compared modulo 2^32 (RFC 9293 section 3.4, RFC 1982).
 *
 * They are kept as int32 (`| 0`), which the engine stores without boxing, and are compared only here. Two numbers
 * exactly 2^31 apart are each "before" the other; no window is that large.
 *
 * @module
 */

/** `a + n` modulo 2^32, as int32. */
export function seqAdd(a: number, n: number): number {
  return (a + n) | 0;
}

/** How far `a` is behind `b`: `a − b` as a signed 32-bit distance. */
export function seqDiff(a: number, b: number): number {
  return (a - b) | 0;
}

/** `a` comes before `b`. */
export function seqLt(a: number, b: number): boolean {
  return ((a - b) | 0) < 0;
}

/** `a` is `b` or comes before it. */
export function seqLe(a: number, b: number): boolean {
  return ((a - b) | 0) <= 0;
}

/** `a` comes after `b`. */
export function seqGt(a: number, b: number): boolean {
  return ((a - b) | 0) > 0;
}

/** `a` is `b` or comes after it. */
export function seqGe(a: number, b: number): boolean {
  return ((a - b) | 0) >= 0;
}

/** The later of the two. */
export function seqMax(a: number, b: number): number {
  return ((a - b) | 0) >= 0 ? a : b;
}

/** The earlier of the two. */
export function seqMin(a: number, b: number): number {
  return ((a - b) | 0) <= 0 ? a : b;
}
