/**
 * The scoreboard: which outstanding segments have arrived, which are lost, which were sent again, and how many bytes are
 * in flight because of that (RFC 6675 section 4's pipe).
 *
 * ```text
 *   in flight = outstanding − selectively acknowledged − lost + sent again
 * ```
 *
 * SACK blocks are believed only within SND.UNA … SND.NXT. A block that reports a duplicate (RFC 2883) says nothing about
 * the scoreboard, but tells recovery that a retransmission was not needed. What earlier acknowledgments held already is
 * passed over, so that a block costs its segments once, in whatever order blocks come.
 *
 * Without SACK each duplicate acknowledgment counts as a segment that has arrived (RFC 6582).
 *
 * Always holds: `sackedBytes`, `lostBytes`, `retransmittedBytes` and `pendingBytes` (lost and not sent again) are the sums
 * over the records with those flags; no record is both selectively acknowledged and lost.
 *
 * @module
 */

import type { Instant } from "../base/time.ts";
import { seqDiff, seqGe, seqGt, seqLe, seqLt } from "../wire/seq.ts";
import type { AckFacts } from "./ack_facts.ts";
import { rackDelivered } from "./rack.ts";
import { EVER_RETRANSMITTED, LOST, RETRANSMITTED, SACKED } from "./retransmit_queue.ts";
import type { Tcb } from "./tcb.ts";

/** How far back a duplicate may be reported: the largest window (RFC 7323 section 2.3). */
const DSACK_REACH = 2 ** 30;

/** Takes the SACK blocks of the segment in `tcp.segment`. What it acknowledges cumulatively has been taken already. */
export function sackInput(t: Tcb, f: AckFacts): void {
  const s = t.tcp.segment;
  const edges = s.sackEdges;
  let first = 0;
  if (isDsack(t, s.sackCount, edges)) {
    onDsack(t, f, edges[0]!, edges[1]!);
    first = 1;
  }
  for (let b = first; b < s.sackCount; b++) {
    const left = edges[2 * b]!;
    const right = edges[2 * b + 1]!;
    // What begins at SND.UNA or before it would have been acknowledged cumulatively.
    if (!seqLt(left, right) || !seqGt(left, t.sndUna) || seqGt(right, t.sndNxt)) continue;
    markRange(t, f, left, right);
  }
}

/** RFC 2883 section 4: a first block at or below the cumulative acknowledgment, or within the second block. */
function isDsack(t: Tcb, count: number, edges: Int32Array): boolean {
  const left = edges[0]!;
  const right = edges[1]!;
  if (seqLt(left, t.tcp.segment.ack)) return true;
  return count > 1 && seqGe(left, edges[2]!) && seqLe(right, edges[3]!);
}

function onDsack(t: Tcb, f: AckFacts, left: number, right: number): void {
  if (!seqLt(left, right) || seqGt(right, t.sndNxt) || seqDiff(t.sndNxt, left) > DSACK_REACH) return;
  f.hasDsack = true;
  const segments = Math.ceil(seqDiff(right, left) / t.mss);
  const dataEnd = t.finSent ? t.sndFin : t.tlpSeq;
  if (t.tlpActive && t.tlpIsRetransmission && (right === t.tlpSeq || right === dataEnd)) f.isProbeDsacked = true;
  // More than was ever sent again cannot have arrived twice because of us: the network duplicated it.
  if (t.dsackSegments >= t.retransmitCount) return;
  t.dsackSegments += segments;
  // What a probe sent again was not believed lost: no sign of reordering.
  if (!f.isProbeDsacked) t.rack.onDsack(t);
  // A retransmission of this episode was not needed (RFC 3708).
  if (t.undoRetransmits <= 0 || !seqGt(right, t.undoMarker) || seqGt(right, t.undoHigh)) return;
  const queue = t.retransmitQueue;
  const i = seqGt(right, t.sndUna) ? queue.find(left) : queue.size;
  if (i < queue.size && (queue.flags(i) & EVER_RETRANSMITTED) === 0) return;
  t.undoRetransmits = Math.max(0, t.undoRetransmits - segments);
}

/** Marks the segments that lie within `[left, right)`. */
function markRange(t: Tcb, f: AckFacts, left: number, right: number): void {
  const queue = t.retransmitQueue;
  let i = queue.find(left);
  if (i < queue.size && seqLt(queue.seq(i), left)) i++;
  const after = queue.find(right);
  const runEnd = after > 0 ? queue.end(after - 1) : right;
  while (i < after) {
    if ((queue.flags(i) & SACKED) !== 0) i = queue.afterSacked(i);
    else markSacked(t, f, i++, runEnd);
  }
}

function markSacked(t: Tcb, f: AckFacts, i: number, runEnd: number): void {
  const queue = t.retransmitQueue;
  const flags = queue.flags(i);
  const bytes = seqDiff(queue.end(i), queue.seq(i));
  discount(t, flags, bytes);
  rackDelivered(t, f, i);
  t.rate.onDelivered(t, i, bytes);
  queue.setSacked(i, runEnd);
  t.sackedBytes += bytes;
  t.sackedSegments++;
  f.hasNewSack = true;
  if ((flags & EVER_RETRANSMITTED) !== 0) {
    f.isSackAmbiguous = true;
    return;
  }
  if (seqLe(queue.end(i), t.recover)) f.hasOriginal = true;
  const departAt = queue.departAt(i);
  if (departAt > f.sackLastDepartAt) f.sackLastDepartAt = departAt;
}

/** Segment, or the first `bytes` of it, with these flags is not outstanding any more. */
export function discount(t: Tcb, flags: number, bytes: number): void {
  if ((flags & LOST) !== 0) {
    t.lostBytes -= bytes;
    if ((flags & RETRANSMITTED) === 0) t.pendingBytes -= bytes;
  }
  if ((flags & RETRANSMITTED) !== 0) t.retransmittedBytes -= bytes;
}

/** Marks segment `i` lost: it, or the copy of it that was sent again, is not in flight any more. */
export function markLost(t: Tcb, i: number, now: Instant): void {
  const queue = t.retransmitQueue;
  const flags = queue.flags(i);
  if ((flags & SACKED) !== 0 || (flags & (LOST | RETRANSMITTED)) === LOST) return;
  const bytes = seqDiff(queue.end(i), queue.seq(i));
  if ((flags & RETRANSMITTED) !== 0) t.retransmittedBytes -= bytes;
  if ((flags & LOST) === 0) t.lostBytes += bytes;
  t.pendingBytes += bytes;
  t.rate.totalLostBytes += bytes;
  queue.setFlags(i, (flags | LOST) & ~RETRANSMITTED);
  if (i < t.retransmitHint) t.retransmitHint = i;
  const loss = t.tcp.loss;
  loss.now = now;
  loss.seq = queue.seq(i);
  loss.bytes = bytes;
  loss.txInFlightBytes = queue.inFlightBytes(i);
  loss.lostSinceSentBytes = t.rate.totalLostBytes - queue.totalLostBytes(i);
  loss.isAppLimited = queue.isAppLimited(i);
  loss.totalDeliveredBytes = t.rate.deliveredBytes;
  loss.hasSack = t.sackOn;
  t.congestion.onLost(loss);
}

/** Nothing is lost after all: what was marked and not sent again counts as in flight. */
export function unmarkLost(t: Tcb): void {
  const queue = t.retransmitQueue;
  for (let i = 0; i < queue.size && t.lostBytes > 0; i++) {
    const flags = queue.flags(i);
    if ((flags & LOST) === 0) continue;
    t.lostBytes -= seqDiff(queue.end(i), queue.seq(i));
    queue.setFlags(i, flags & ~LOST);
  }
  t.pendingBytes = 0;
  t.retransmitHint = queue.size;
  queue.relink();
}

/** Forgets what was selectively acknowledged: the receiver has dropped it (RFC 2018 section 8). */
export function forgetSacks(t: Tcb): void {
  const queue = t.retransmitQueue;
  for (let i = 0; i < queue.size; i++) queue.setFlags(i, queue.flags(i) & ~SACKED);
  t.sackedBytes = 0;
  t.sackedSegments = 0;
  queue.relink();
}

/** Counts the scoreboard anew after segments were cut. */
export function recount(t: Tcb): void {
  const queue = t.retransmitQueue;
  t.sackedBytes = 0;
  t.sackedSegments = 0;
  t.lostBytes = 0;
  t.pendingBytes = 0;
  t.retransmittedBytes = 0;
  for (let i = 0; i < queue.size; i++) {
    const flags = queue.flags(i);
    const bytes = seqDiff(queue.end(i), queue.seq(i));
    if ((flags & SACKED) !== 0) {
      t.sackedBytes += bytes;
      t.sackedSegments++;
    }
    if ((flags & LOST) !== 0) t.lostBytes += bytes;
    if ((flags & (LOST | RETRANSMITTED)) === LOST) t.pendingBytes += bytes;
    if ((flags & RETRANSMITTED) !== 0) t.retransmittedBytes += bytes;
  }
  t.retransmitHint = 0;
}
