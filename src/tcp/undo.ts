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
import { seqGt, seqLt } from "../wire/seq.ts";
import { RETRANSMITTED } from "./retransmit_queue.ts";
import { unmarkLost } from "./scoreboard.ts";
import { RecoveryState } from "./state.ts";
import type { Tcb } from "./tcb.ts";
import { timestamp } from "./timestamps.ts";

/** A reduction begins: from now on it may be taken back. */
export function startUndo(t: Tcb): void {
  t.undoActive = true;
  t.undoMarker = t.sndUna;
  t.undoHigh = t.sndUna;
  t.undoRetransmits = -1;
  t.retransmitAt = NEVER;
  const isProbeOut = t.tlpActive && t.tlpIsRetransmission;
  if (t.retransmittedBytes === 0 && !isProbeOut) return;
  // What was sent again before, and may still be on its way, may be reported as a duplicate too: a tail-loss probe even if
  // its segment has arrived.
  const queue = t.retransmitQueue;
  let count = 0;
  for (let i = 0; i < queue.size; i++) {
    const isProbe = isProbeOut && queue.end(i) === t.tlpSeq;
    if ((queue.flags(i) & RETRANSMITTED) === 0 && !isProbe) continue;
    count++;
    t.undoHigh = queue.end(i);
    t.retransmitAt = Math.min(t.retransmitAt, queue.departAt(i));
  }
  if (count > 0) t.undoRetransmits = count;
}

/** The episode is over: its retransmissions may be reported as duplicates until what is out now is acknowledged. */
export function limitUndo(t: Tcb): void {
  t.undoUntil = t.sndNxt;
}

/** SND.UNA has moved outside of an episode: what can be said about the last one has been said. */
export function expireUndo(t: Tcb): void {
  if (t.undoActive && seqGt(t.sndUna, t.undoUntil)) t.undoActive = false;
}

/** The acknowledgment at hand is of a copy sent before the first retransmission (RFC 3522 section 3.2 step 5). */
export function isOriginalAcked(t: Tcb): boolean {
  if (t.retransmitAt === NEVER) return true; // nothing was sent again
  const s = t.tcp.segment;
  return t.timestampsOn && s.hasTimestamps && s.tsEcr !== 0 && seqLt(s.tsEcr, timestamp(t, t.retransmitAt));
}

/** True if what is known says that the reduction was not needed. */
export function mayUndo(t: Tcb): boolean {
  return t.undoActive && (t.undoRetransmits === 0 || isOriginalAcked(t));
}

/**
 * Takes the reduction back (RFC 4015 section 3.2), unless congestion was echoed in the meantime.
 *
 * @param unmark true if nothing that is marked lost is
 */
export function undoReduction(t: Tcb, unmark: boolean, now: Instant, why: string): void {
  if (unmark) unmarkLost(t);
  // What was late and not lost had been overtaken; what only answered late after a timeout need not have been.
  if (t.recovery !== RecoveryState.Loss) t.rack.reorderingSeen = true;
  t.rack.advanced = true; // what is not lost by that reckoning is looked at again
  if (t.undoActive) {
    t.undoActive = false;
    t.counters.undos++;
    t.congestion.onSpurious();
    t.noticedWhy = t.congestion.why; // the reason is given here
  }
  t.note(now, why);
}
