/**
 * Loss recovery: fast retransmit of the oldest segment and NewReno (RFC 5681, RFC 6582), and the retransmission timeout.
 *
 * Each duplicate acknowledgment says that a segment has left the network. It is counted out of the bytes in flight
 * instead of inflating the congestion window, which comes to the same (RFC 6582 section 3.2 steps 2 to 5) and also sends
 * a new segment on each of the first two (limited transmit, RFC 3042). The third begins a recovery: one reduction of the
 * window and one segment, the oldest, sent again. A partial acknowledgment sends the next hole again; nothing else is
 * repeated.
 *
 * A timeout marks everything outstanding as lost and sends the oldest segment again; the rest follows as slow start
 * allows. SND.NXT never goes back.
 *
 * The sender does not look at SACK blocks yet.
 *
 * @module
 */

import type { Instant } from "../base/time.ts";
import { seqAdd, seqDiff, seqGt, seqLe, seqLt } from "../wire/seq.ts";
import { CongestionSignal } from "./congestion/control.ts";
import { retransmitHead, RetransmitKind } from "./output.ts";
import { updatePacingRate } from "./pacing.ts";
import { LOST, RETRANSMITTED } from "./retransmit_queue.ts";
import { RecoveryState, type Tcb } from "./tcb.ts";

/** Duplicate acknowledgments that make a loss (RFC 5681 section 3.2). */
export const DUP_THRESH = 3;

/** A duplicate acknowledgment has come. */
export function onDupAck(t: Tcb, now: Instant): void {
  t.counters.dupAcksIn++;
  if (t.dupAcks < 1 << 30) t.dupAcks++;
  if (t.recovery !== RecoveryState.Open || t.dupAcks !== DUP_THRESH) return;
  // RFC 6582 section 3.2 step 1: duplicates of what was sent before the last episode ended begin nothing.
  if (!seqGt(t.sndUna, t.recover)) return;
  signalCongestion(t, CongestionSignal.Loss, now);
  t.recovery = RecoveryState.Recovery;
  t.recover = t.sndNxt;
  updatePacingRate(t);
  retransmitHead(t, RetransmitKind.Fast, now);
}

/**
 * Tells the congestion control. FlightSize does not count what limited transmit has sent beyond the congestion window
 * (RFC 5681 section 3.2 step 2).
 */
export function signalCongestion(t: Tcb, signal: CongestionSignal, now: Instant): void {
  const sample = t.tcp.sample;
  sample.now = now;
  sample.priorInFlightBytes = Math.min(seqDiff(t.sndNxt, t.sndUna), t.congestion.cwnd);
  sample.inFlightBytes = t.inFlightBytes;
  t.congestion.onCongestion(signal, sample);
}

/**
 * New data was acknowledged: SND.UNA has moved, the records are gone, and `t.tcp.sample` holds the facts.
 *
 * @param segments how many segments it acknowledged
 */
export function onNewAck(t: Tcb, segments: number, now: Instant): void {
  const sample = t.tcp.sample;
  const pastRecover = seqLe(t.recover, t.sndUna);
  // Kept within reach, so that the comparison means something however much is sent without loss.
  if (seqLt(t.recover, t.sndUna)) t.recover = seqAdd(t.sndUna, -1);
  switch (t.recovery) {
    case RecoveryState.Open:
      t.dupAcks = 0;
      t.congestion.onAck(sample);
      return;
    case RecoveryState.Recovery:
      if (pastRecover) {
        t.dupAcks = 0;
        t.recovery = RecoveryState.Open;
        sample.inFlightBytes = t.inFlightBytes;
        t.congestion.onRecovered(sample);
        return;
      }
      // Partial acknowledgment: the hole is filled, and the segments behind it that had arrived are acknowledged too.
      t.dupAcks = Math.max(0, t.dupAcks - Math.max(0, segments - 1));
      retransmitHead(t, RetransmitKind.PartialAck, now);
      return;
    case RecoveryState.Loss:
      t.dupAcks = 0;
      if (pastRecover) t.recovery = RecoveryState.Open;
      t.congestion.onAck(sample);
      return;
  }
}

/** The retransmission timer ran out on data (RFC 6298 section 5, RFC 5681 section 3.1). */
export function onRetransmissionTimeout(t: Tcb, now: Instant): void {
  // RFC 5681 section 3.1: ssthresh is lowered once for a segment, not for each further timeout of it.
  const again = t.recovery === RecoveryState.Loss && t.retries > 1;
  signalCongestion(t, again ? CongestionSignal.TimeoutAgain : CongestionSignal.Timeout, now);
  t.recover = t.sndNxt;
  t.recovery = RecoveryState.Loss;
  t.dupAcks = 0;
  const queue = t.retransmitQueue;
  t.lostBytes = 0;
  t.retransmittedBytes = 0;
  t.retransmitHint = 0;
  for (let i = 0; i < queue.size; i++) {
    queue.setFlags(i, (queue.flags(i) | LOST) & ~RETRANSMITTED);
    t.lostBytes += seqDiff(queue.end(i), queue.seq(i));
  }
  t.counters.timeouts++;
  t.rtt.timedOut();
  updatePacingRate(t);
  retransmitHead(t, RetransmitKind.Timeout, now);
  t.rtoAt = Math.max(now, t.departAt) + t.rtt.rto;
}
