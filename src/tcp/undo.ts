/**
 * Taking back a reduction that was not needed (RFC 4015, RFC 3522, RFC 3708, RFC 5682).
 *
 * A recovery was a false alarm if the acknowledgment that ends it, or advances in it, echoes a timestamp older than the first
 * retransmission (Eifel), if every retransmission was reported as a duplicate (DSACK), or, after a timeout, if data is
 * acknowledged that was sent before it and never again (F-RTO). Then window and threshold are what they were before. Never
 * after ECN: the path did say that it is congested.
 *
 * @module
 */

import { type Instant, NEVER } from "../base/time.ts";
import { seqLt } from "../wire/seq.ts";
import { unmarkLost } from "./scoreboard.ts";
import type { Tcb } from "./tcb.ts";
import { timestamp } from "./timestamps.ts";

/** A reduction begins: from now on it may be taken back. */
export function startUndo(t: Tcb): void {
  t.undoActive = true;
  t.undoMarker = t.sndUna;
  t.undoRetransmits = -1;
  if (t.retransmittedBytes === 0) t.retransmitAt = NEVER;
}

/** The acknowledgment at hand is of a copy sent before the first retransmission (RFC 3522 section 3.2 step 5). */
export function isOriginalAcked(t: Tcb): boolean {
  if (t.retransmitAt === NEVER) return true; // nothing was sent again
  const s = t.tcp.segment;
  return t.timestampsOn && s.hasTimestamps && seqLt(s.tsEcr, timestamp(t, t.retransmitAt));
}

/** True if what is known says that the reduction was not needed. */
export function mayUndo(t: Tcb): boolean {
  return t.undoActive && (t.undoRetransmits === 0 || isOriginalAcked(t));
}

/**
 * Takes the reduction back (RFC 4015 section 3.2).
 *
 * @param unmark true if nothing that is marked lost is
 */
export function undoReduction(t: Tcb, unmark: boolean, now: Instant, why: string): void {
  if (unmark) unmarkLost(t);
  t.undoActive = false;
  t.counters.undos++;
  t.congestion.onSpurious();
  t.rack.advanced = true; // what is not lost by that reckoning is looked at again
  t.note(now, why);
}
