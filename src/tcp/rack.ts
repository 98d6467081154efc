/**
 * RACK: loss by time (RFC 8985 section 6).
 *
 * A segment is lost if one that departed later has been delivered and a reordering window has gone by since. So a lost
 * retransmission is found like a lost first copy, and neither the last segments of a flight nor small flights need three
 * duplicates. The window is nothing while no reordering has been seen and something is missing for sure; it grows with each
 * round in which duplicates are reported (RFC 2883), and shrinks back after sixteen recoveries without. A recovery that
 * turned out not to have been needed is a sign of reordering too: the late segment itself was sent again, so that its
 * arrival says nothing.
 *
 * Times are departure stamps. What is missing but not overdue is looked at again when the reordering timer runs out. How
 * many such segments an acknowledgment looks at is bounded.
 *
 * @module
 */

import { type Duration, type Instant, NEVER } from "../base/time.ts";
import { seqDiff, seqGe, seqLt, seqMax } from "../wire/seq.ts";
import type { AckFacts } from "./ack_facts.ts";
import { EVER_RETRANSMITTED } from "./retransmit_queue.ts";
import { markLost } from "./scoreboard.ts";
import { RecoveryState } from "./state.ts";
import type { Tcb } from "./tcb.ts";
import { timestamp } from "./timestamps.ts";

/** Duplicate acknowledgments, or segments selectively acknowledged, that make a loss (RFC 5681 section 3.2). */
export const DUP_THRESH = 3;

/** The multiplier grows no further; as Linux. */
const MULT_LIMIT = 255;

/** The most that reordering is said to be; as Linux. */
const REORDERING_LIMIT = 300;

/** Segments that are missing but not overdue which one acknowledgment looks at to set the reordering timer exactly. */
const EARLY_LIMIT = 64;

/** Recoveries without a reported duplicate after which the window is small again (RFC 8985 section 6.2 step 4). */
const PERSIST = 16;

/** RACK's state of one connection, under the names of RFC 8985 section 5. */
export class Rack {
  /** Departure of the segment delivered that departed last. */
  xmitAt: Instant = -1;
  /** The how-manieth transmission it was. */
  order = 0;
  /** Its round-trip time. */
  rtt: Duration = 0;
  /** The highest sequence number delivered. */
  fack = 0;
  /** Segments were seen to arrive in another order than they were sent in. */
  reorderingSeen = false;
  /** How far, in segments: as Linux counts it, for information. */
  reordering: number = DUP_THRESH;
  /** Multiplier of the reordering window. */
  reoWndMult = 1;
  /** Recoveries until it is 1 again. */
  reoWndPersist: number = PERSIST;
  /** A segment that departed later than any before was delivered: something may be overdue. */
  advanced = false;
  /** The window has grown in this round, up to `dsackRoundEnd`. */
  isDsackRound = false;
  /** SND.NXT when it did (RACK.dsack_round). */
  dsackRoundEnd = 0;

  /** Begins with nothing delivered. */
  start(iss: number): void {
    this.fack = iss;
  }

  /** The acknowledgment at hand was taken: a round in which duplicates were reported may be over. */
  endRound(sndUna: number): void {
    if (this.isDsackRound && seqGe(sndUna, this.dsackRoundEnd)) this.isDsackRound = false;
  }

  /** A duplicate was reported: RFC 8985 section 6.2 step 4: once a round trip that makes the window larger. */
  onDsack(t: Tcb): void {
    this.endRound(t.sndUna);
    if (this.isDsackRound) return;
    this.isDsackRound = true;
    this.dsackRoundEnd = t.sndNxt;
    this.reoWndMult = Math.min(MULT_LIMIT, this.reoWndMult + 1);
    this.reoWndPersist = PERSIST;
  }

  /** A recovery is over. */
  onRecovered(): void {
    if (this.reoWndPersist > 0 && --this.reoWndPersist === 0) this.reoWndMult = 1;
  }
}

/** A segment was delivered for the first time (RFC 8985 section 6.2 steps 2 and 3). */
export function rackDelivered(t: Tcb, f: AckFacts, i: number): void {
  const rack = t.rack;
  const queue = t.retransmitQueue;
  // Stamps are read here: an instant that crosses a call may have to be allocated.
  const endSeq = queue.end(i);
  const departAt = queue.departAt(i);
  const order = queue.order(i);
  const flags = queue.flags(i);
  // RFC 8985 section 6.2 step 3
  if ((flags & EVER_RETRANSMITTED) === 0 && seqLt(endSeq, f.priorFack)) {
    rack.reorderingSeen = true;
    const segments = Math.ceil(seqDiff(f.priorFack, endSeq) / t.mss) + 1;
    if (segments > rack.reordering) rack.reordering = Math.min(segments, REORDERING_LIMIT);
  }
  rack.fack = seqMax(rack.fack, endSeq);
  const rtt = f.now - departAt;
  if (rtt < 0) return;
  if ((flags & EVER_RETRANSMITTED) !== 0) {
    // Which copy? Too soon for the last one, or said to be an earlier one.
    const s = t.tcp.segment;
    if (t.timestampsOn && s.hasTimestamps && seqLt(s.tsEcr, timestamp(t, departAt))) return;
    if (rtt < t.rtt.minRtt) return;
  }
  rack.rtt = rtt;
  // RFC 8985 section 6.2: RACK_sent_after. Stamps never go back, so the order of transmission is that of the stamps, and
  // tells segments with one stamp apart as the RFC's sequence numbers do not.
  if (order <= rack.order) return;
  rack.xmitAt = departAt;
  rack.order = order;
  rack.advanced = true;
}

/** The reordering window (RFC 8985 section 6.2 step 4). */
export function reorderingWindow(t: Tcb): Duration {
  const rack = t.rack;
  if (!rack.reorderingSeen && (t.recovery >= RecoveryState.Recovery || t.sackedSegments >= DUP_THRESH)) return 0;
  const { minRtt, srtt } = t.rtt;
  return minRtt === Infinity ? 0 : Math.min(rack.reoWndMult * minRtt / 4, srtt);
}

/** How long segment `i` may still take before it counts as lost; at most 0 if it does. */
export function rackRemaining(t: Tcb, i: number, window: Duration, now: Instant): Duration {
  return t.retransmitQueue.departAt(i) + t.rack.rtt + window - now;
}

/**
 * Marks lost what is overdue, and sets the reordering timer for what will be (RFC 8985 section 6.2 step 5).
 *
 * @returns true if something was marked
 */
export function rackDetectLoss(t: Tcb, now: Instant): boolean {
  const rack = t.rack;
  t.reorderAt = NEVER;
  if (rack.xmitAt < 0) return false;
  const queue = t.retransmitQueue;
  const window = reorderingWindow(t);
  let found = false;
  let longest = 0;
  let early = 0;
  for (let i = queue.earliest(); i >= 0 && queue.order(i) < rack.order;) {
    const following = queue.departedAfter(i);
    const remaining = rackRemaining(t, i, window, now);
    if (remaining <= 0) {
      markLost(t, i, now);
      found = true;
    } else {
      // Stamps do not go back: none of those that follow is overdue, and the last of them is the last to be.
      longest = remaining;
      if (++early === EARLY_LIMIT) {
        longest = Math.max(longest, rack.xmitAt + rack.rtt + window - now);
        break;
      }
    }
    i = following;
  }
  if (longest > 0) t.reorderAt = now + longest;
  return found;
}
