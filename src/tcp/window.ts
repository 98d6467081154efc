/**
 * The receive window: what is advertised, and when it is worth a segment of its own.
 *
 * The right edge never moves back (RFC 9293 section 3.8.6: shrinking is discouraged), and it moves forward only by a
 * step worth having (section 3.8.6.2.2, silly window avoidance): a full segment or half the buffer if that is to be told in
 * a segment of its own. With an acknowledgment that goes anyway half of that is enough: else the rest of a buffer that is no
 * multiple of a segment would stand still every other round trip. (Linux takes any step then.)
 *
 * Always holds: what has been offered and not been used has room in the receive buffer.
 *
 * @module
 */

import { seqAdd, seqDiff, seqMax } from "../wire/seq.ts";
import type { Tcb } from "./tcb.ts";

/**
 * Shift count to announce for a receive buffer of `bufferBytes` (RFC 7323 section 2.3).
 *
 * @param wanted what it should be, or −1 for the least that tells the whole buffer; 14 is the most there is, and the
 * window must be able to open by half the buffer
 */
export function windowShiftFor(bufferBytes: number, wanted = -1): number {
  let shift = Math.min(14, Math.max(0, wanted));
  while (wanted < 0 && shift < 14 && (bufferBytes >>> shift) > 0xffff) shift++;
  while (shift > 0 && (bufferBytes >>> shift) < 2) shift--;
  return shift;
}

/** What is left of the window that the peer knows of, in bytes. */
export function receiveWindow(t: Tcb): number {
  return Math.max(0, seqDiff(t.rcvAdv, t.rcvNxt));
}

/**
 * The least that the right edge moves by: a full segment or half the buffer (RFC 9293 section 3.8.6.2.2), and what the
 * scaled field can tell.
 *
 * @param halvings 1 for half of that
 */
function leastStep(t: Tcb, halvings: number): number {
  return Math.max(Math.min(t.receiveRing.capacity >> 1, t.localMss) >> halvings, 1 << t.rcvWndShift);
}

/**
 * The window field for a segment that goes out now; moves the advertised right edge.
 *
 * @param scaled false in a SYN, whose window is never scaled (RFC 7323 section 2.2)
 */
export function advertiseWindow(t: Tcb, scaled: boolean): number {
  const shift = scaled ? t.rcvWndShift : 0;
  const current = receiveWindow(t);
  const free = t.receiveRing.room;
  let field = (free - current >= leastStep(t, 1) ? free : current) >>> shift;
  // Rounded up where rounding down would take something back, as long as the buffer has room for that. Where it has
  // not, the field says a little less than is still taken (RFC 7323 section 2.4): rcvAdv stays where it was.
  if (field << shift < current && (field + 1) << shift <= free) field++;
  if (field > 0xffff) field = 0xffff;
  t.rcvAdv = seqMax(t.rcvAdv, seqAdd(t.rcvNxt, field << shift));
  return field;
}

/** True if the application has read enough that the peer should be told now. */
export function shouldUpdateWindow(t: Tcb): boolean {
  const current = receiveWindow(t);
  const gain = Math.min(t.receiveRing.room, 0xffff << t.rcvWndShift) - current;
  if (gain <= 0) return false;
  // A peer that may be waiting for room hears of the first useful step; otherwise acknowledgments carry the news.
  const step = leastStep(t, 0);
  return current < 2 * step ? gain >= step : gain >= t.receiveRing.capacity >> 1;
}
