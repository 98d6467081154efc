/**
 * The receive window: what is advertised, and when it is worth a segment of its own.
 *
 * The right edge never moves back (RFC 9293 section 3.8.6: shrinking is discouraged), and it moves forward only by a
 * step worth having: a full segment or half the buffer (section 3.8.6.2.2, silly window avoidance).
 *
 * @module
 */

import { seqAdd, seqDiff } from "../wire/seq.ts";
import type { Tcb } from "./tcb.ts";

/** Shift count to announce for a receive buffer of `bufferBytes` (RFC 7323 section 2.3). */
export function windowShiftFor(bufferBytes: number): number {
  let shift = 0;
  while (shift < 14 && (bufferBytes >>> shift) > 0xffff) shift++;
  return shift;
}

/** What is left of the window that the peer knows of, in bytes. */
export function receiveWindow(t: Tcb): number {
  return Math.max(0, seqDiff(t.rcvAdv, t.rcvNxt));
}

/** How far the right edge may be moved now, counted from rcvNxt. */
function openWindow(t: Tcb): number {
  const current = receiveWindow(t);
  const free = t.receiveRing.room;
  const step = Math.min(t.receiveRing.capacity >> 1, t.localMss);
  return free - current >= step ? Math.max(free, current) : current;
}

/**
 * The window field for a segment that goes out now; moves the advertised right edge.
 *
 * @param scaled false in a SYN, whose window is never scaled (RFC 7323 section 2.2)
 */
export function advertiseWindow(t: Tcb, scaled: boolean): number {
  const shift = scaled ? t.rcvWndShift : 0;
  const current = receiveWindow(t);
  const open = openWindow(t);
  // A window that grows is rounded down; one that stays is rounded up, so that rounding does not shrink it.
  let field = open > current ? open >>> shift : (current + (1 << shift) - 1) >>> shift;
  if (open > current && field << shift < current) field = (current + (1 << shift) - 1) >>> shift;
  if (field > 0xffff) field = 0xffff;
  t.rcvAdv = seqAdd(t.rcvNxt, field << shift);
  return field;
}

/** True if the application has read enough that the peer should be told now. */
export function shouldUpdateWindow(t: Tcb): boolean {
  const current = receiveWindow(t);
  const gain = Math.min(t.receiveRing.room, 0xffff << t.rcvWndShift) - current;
  if (gain <= 0) return false;
  // A peer that may be waiting for room hears of the first useful step; otherwise acknowledgments carry the news.
  const step = Math.min(t.receiveRing.capacity >> 1, t.localMss);
  return current < 2 * t.localMss ? gain >= step : gain >= t.receiveRing.capacity >> 1;
}
