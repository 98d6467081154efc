/**
 * Loss recovery: the states of a sender between the first sign of trouble and its end.
 *
 * ```text
 *             something missing              loss found                all acknowledged
 *   Open ───────────────────────► Disorder ────────────► Recovery ─────────────────────► Open
 *     │  ECN echo                                                                          ▲
 *     ├───────────► Cwr ───────────────────────────────────────────────────────────────────┤
 *     └ retransmission timeout ─► Loss ────────────────────────────────────────────────────┘
 * ```
 *
 * With SACK, loss is found by RACK (rack.ts). Without, the third duplicate acknowledgment finds the oldest segment lost and
 * each partial acknowledgment the next hole (RFC 5681, RFC 6582). One reduction an episode. In Recovery and Cwr the window is
 * PRR's (prr.ts), unless the congestion control sees to that itself. The retransmission that begins a recovery leaves
 * whatever the window says.
 *
 * A timeout marks lost what is overdue and not what has just been sent; the oldest segment is sent again. Before anything
 * else is, F-RTO (RFC 5682) sends new data and looks whether acknowledgments of the old arrive. SND.NXT never goes back.
 *
 * @module
 */

import { type Instant, NEVER } from "../base/time.ts";
import { seqAdd, seqDiff, seqGe, seqGt, seqLt } from "../wire/seq.ts";
import type { AckFacts } from "./ack_facts.ts";
import { type AckSample, CongestionSignal } from "./congestion/control.ts";
import { retransmitHead, RetransmitKind } from "./output.ts";
import { updatePacingRate } from "./pacing.ts";
import { probeLost } from "./pmtud.ts";
import { DUP_THRESH, rackDetectLoss, rackRemaining, reorderingWindow } from "./rack.ts";
import { LOST, RETRANSMITTED, SACKED } from "./retransmit_queue.ts";
import { forgetSacks, markLost } from "./scoreboard.ts";
import { RecoveryState } from "./state.ts";
import type { Tcb } from "./tcb.ts";
import { expireUndo, isOriginalAcked, limitUndo, mayUndo, startUndo, undoReduction } from "./undo.ts";

/**
 * Tells the congestion control. FlightSize does not count what limited transmit has sent beyond the congestion window
 * (RFC 5681 section 3.2 step 2), and is that of before the acknowledgment that tells of congestion: with one that covers
 * much the flight would seem small.
 *
 * @param una SND.UNA before it
 */
export function signalCongestion(t: Tcb, signal: CongestionSignal, una: number, now: Instant): void {
  const sample = t.tcp.sample;
  describe(t, sample, now);
  sample.priorInFlightBytes = Math.min(seqDiff(t.sndNxt, una), t.congestion.cwnd);
  sample.isInRecovery = signal !== CongestionSignal.Ecn;
  t.congestion.onCongestion(signal, sample);
  t.noticedWhy = t.congestion.why;
}

/** RFC 7661 section 4.2: a window of which at least half was used in this round trip is validated, and may grow. */
export function isWindowUsed(t: Tcb): boolean {
  return t.cwndLimited || t.congestion.cwnd < 2 * t.maxInFlightBytes;
}

/** Writes how the connection stands. All share one sample, which may have told of another one last. */
function describe(t: Tcb, sample: AckSample, now: Instant): void {
  sample.now = now;
  sample.inFlightBytes = t.inFlightBytes;
  sample.isCwndLimited = isWindowUsed(t);
  sample.isAppLimited = false;
  sample.sndUna = t.sndUna;
  sample.sndNxt = t.sndNxt;
  sample.minRtt = t.rtt.minRtt;
  sample.srtt = t.rtt.srtt;
  sample.hasSack = t.sackOn;
  sample.totalDeliveredBytes = t.rate.deliveredBytes;
  sample.totalLostBytes = t.rate.totalLostBytes;
}

/** One acknowledgment: SND.UNA and the scoreboard have been brought up to date. */
export function recoveryInput(t: Tcb, f: AckFacts): void {
  if (f.hasEce) t.undoActive = false; // RFC 3168 section 6.1.2: the reduction was called for
  // Of a receiver that drops what it had nothing more is believed; the timer runs out soon (ack.ts).
  if (!f.isReneged) changeState(t, f);
  if (f.hasEce) t.undoActive = false; // of an episode that it began
  if (t.recovery > RecoveryState.Disorder) return;
  expireUndo(t);
  // Kept within reach, so that the comparison means something however much is sent without loss.
  if (seqLt(t.recover, t.sndUna)) t.recover = seqAdd(t.sndUna, -1);
}

function changeState(t: Tcb, f: AckFacts): void {
  const now = f.now;
  if (seqGe(t.sndUna, t.recover)) {
    if (t.recovery === RecoveryState.Cwr) {
      // Held until something sent after the reduction is acknowledged.
      if (t.sndUna !== t.recover) endEpisode(t, now, "window reduced");
    } else if (t.recovery === RecoveryState.Recovery) {
      t.dupAcks = 0;
      if (mayUndo(t)) {
        undoReduction(t, false, now, "the retransmissions were not needed");
        endEpisode(t, now, "");
      } else {
        endEpisode(t, now, "recovered");
      }
    }
  }
  switch (t.recovery) {
    case RecoveryState.Recovery:
      inRecovery(t, f);
      break;
    case RecoveryState.Loss:
      inLoss(t, f);
      break;
    default:
      if (!t.sackOn) countDuplicates(t, f);
      if (t.recovery !== RecoveryState.Cwr) undoByDsack(t, now);
      identifyLoss(t, f);
      if (t.pendingBytes > 0 && !probeLost(t, now)) enterRecovery(t, f);
      else if (f.hasEce && t.recovery < RecoveryState.Cwr && seqGt(t.sndUna, t.recover)) {
        // RFC 3168 section 6.1.2: once a window of data, whatever the last reduction was for.
        enterCwr(t, f);
      } else if (t.recovery !== RecoveryState.Cwr) {
        t.recovery = isOrderly(t) ? RecoveryState.Open : RecoveryState.Disorder;
      }
  }
}

/** Nothing is missing, and no retransmission is being watched. */
function isOrderly(t: Tcb): boolean {
  return t.sackedSegments === 0 && t.dupAcks === 0 && t.lostBytes === 0 && t.retransmittedBytes === 0;
}

function inRecovery(t: Tcb, f: AckFacts): void {
  const now = f.now;
  if (f.ackedBytes > 0) {
    // A partial acknowledgment by an original: what else is marked lost is late too (RFC 4015).
    if (t.undoActive && isOriginalAcked(t)) {
      if (t.retransmittedBytes > 0) {
        if (!t.sackOn) countDuplicates(t, f);
        return;
      }
      undoReduction(t, true, now, "a late original was acknowledged");
      endEpisode(t, now, "");
      return;
    }
  }
  if (!t.sackOn) countDuplicates(t, f);
  if (undoByDsack(t, now)) {
    endEpisode(t, now, "");
    return;
  }
  identifyLoss(t, f);
  probeLost(t, now);
}

/** Every retransmission was reported as a duplicate (RFC 3708 section 3). */
function undoByDsack(t: Tcb, now: Instant): boolean {
  if (!t.undoActive || t.undoRetransmits !== 0) return false;
  undoReduction(t, false, now, "every retransmission was a duplicate");
  return true;
}

/** After a timeout: F-RTO, and slow start through what is lost. */
function inLoss(t: Tcb, f: AckFacts): void {
  const now = f.now;
  const advanced = f.ackedBytes > 0;
  const recovered = seqGe(t.sndUna, t.recover);
  if (advanced && mayUndo(t)) return undoTimeout(t, now, "the timeout was spurious: a late original was acknowledged");
  if (t.frto) {
    if (isFrtoProbing(t)) {
      // RFC 5682 section 3.1 step 3 b: what was sent before the timeout, and not since, arrives.
      if (f.hasOriginal) return undoTimeout(t, now, "the timeout was spurious: F-RTO");
      // Step 3 a: the new data arrives and the old does not.
      if (advanced || f.hasNewSack || f.isDuplicate) t.frto = false;
    } else if (advanced && !recovered) {
      // Step 2 b: new data instead of retransmissions. Without any that may be sent nothing can be found out.
      t.recover = t.sndNxt;
      t.frtoNewData = true;
      return;
    } else if (advanced || (!t.sackOn && f.isDuplicate)) {
      t.frto = false; // step 2 a
    }
  }
  if (recovered) {
    t.dupAcks = 0;
    if (mayUndo(t)) undoReduction(t, false, now, "the retransmissions were not needed");
    endEpisode(t, now, "recovered from the timeout");
    return;
  }
  if (!t.sackOn) {
    if (advanced || seqGt(t.sndNxt, t.recover)) countDuplicates(t, f);
  }
  identifyLoss(t, f);
}

/** F-RTO has sent new data and waits for what it brings (RFC 5682 section 3.1 step 3). */
export function isFrtoProbing(t: Tcb): boolean {
  return t.frto && seqGt(t.sndNxt, t.recover);
}

function undoTimeout(t: Tcb, now: Instant, why: string): void {
  t.counters.spuriousTimeouts++;
  undoReduction(t, true, now, why);
  t.frto = false;
  t.dupAcks = 0;
  endEpisode(t, now, "");
}

/** Without SACK: duplicates count as segments that arrived, a partial acknowledgment takes back those that it covers. */
function countDuplicates(t: Tcb, f: AckFacts): void {
  if (f.ackedBytes > 0) {
    t.dupAcks = t.recovery === RecoveryState.Recovery ? Math.max(0, t.dupAcks - Math.max(0, f.ackedSegments - 1)) : 0;
  } else if (f.isDuplicate && t.dupAcks < 1 << 30) {
    t.dupAcks++;
  }
}

function identifyLoss(t: Tcb, f: AckFacts): void {
  if (t.sackOn) {
    if (t.rack.advanced) {
      t.rack.advanced = false;
      rackDetectLoss(t, f.now);
    }
    return;
  }
  if (t.retransmitQueue.size === 0) return;
  if (t.recovery === RecoveryState.Recovery) {
    if (f.ackedBytes === 0) return;
    // RFC 6582 section 3.2 step 3: the next hole, at once.
    markLost(t, 0, f.now);
    t.retransmitForced = true;
  } else if (t.recovery < RecoveryState.Recovery && t.dupAcks >= DUP_THRESH && seqGt(t.sndUna, t.recover)) {
    // RFC 6582 section 3.2 step 1: duplicates of what was sent before the last episode ended begin nothing.
    markLost(t, 0, f.now);
  }
}

/** Loss was found: fast recovery begins. */
function enterRecovery(t: Tcb, f: AckFacts): void {
  if (t.tcp.options.fastRetransmit === "whole-buffer") markAllLost(t, f.now);
  // Loss after an ECN signal in the same window of data is answered already (RFC 3168 section 6.1.2).
  if (t.recovery === RecoveryState.Cwr && !t.congestion.ownsRecovery) beginEpisode(t);
  else beginReduction(t, CongestionSignal.Loss, f);
  t.recovery = RecoveryState.Recovery;
  t.counters.recoveries++;
  t.retransmitForced = true;
  t.note(f.now, "loss found");
}

/** The experiment of resending the whole buffer: nothing is believed to have arrived. */
function markAllLost(t: Tcb, now: Instant): void {
  forgetSacks(t);
  for (let i = 0; i < t.retransmitQueue.size; i++) markLost(t, i, now);
}

/** The window goes down once, without retransmissions (RFC 3168 section 6.1.2). */
function enterCwr(t: Tcb, f: AckFacts): void {
  beginReduction(t, CongestionSignal.Ecn, f);
  t.undoActive = false;
  t.recovery = RecoveryState.Cwr;
  t.note(f.now, "the peer echoes congestion");
}

/** A tail-loss probe repaired a loss: the window goes down at once (RFC 8985 section 7.4.2). */
export function reduceOnce(t: Tcb, f: AckFacts, why: string): void {
  signalCongestion(t, CongestionSignal.Loss, f.priorUna, f.now);
  t.congestion.onRecovered(t.tcp.sample);
  t.recover = t.sndNxt;
  t.undoActive = false;
  t.ecnSendCwr = t.ecnOn;
  updatePacingRate(t);
  t.note(f.now, why);
}

function beginEpisode(t: Tcb): void {
  t.recover = t.sndNxt;
  t.tlpActive = false;
  t.probeAt = NEVER;
}

function beginReduction(t: Tcb, signal: CongestionSignal, f: AckFacts): void {
  startUndo(t);
  beginEpisode(t);
  signalCongestion(t, signal, f.priorUna, f.now);
  // RFC 9937 section 6: outstanding before this acknowledgment, without what was selectively acknowledged before it.
  t.prr.start(seqDiff(t.sndNxt, f.priorUna) - f.priorSackedBytes);
  t.ecnSendCwr = t.ecnOn;
  updatePacingRate(t);
}

function endEpisode(t: Tcb, now: Instant, why: string): void {
  const was = t.recovery;
  t.recovery = isOrderly(t) ? RecoveryState.Open : RecoveryState.Disorder;
  t.frto = false;
  t.frtoNewData = false;
  t.retransmitForced = false;
  limitUndo(t);
  if (was >= RecoveryState.Recovery) {
    t.rack.onRecovered();
    const sample = t.tcp.sample;
    sample.now = now;
    sample.inFlightBytes = t.inFlightBytes;
    t.congestion.onRecovered(sample);
  }
  updatePacingRate(t);
  if (why !== "") t.note(now, why);
}

/** The reordering timer ran out: what was only late is lost by now (RFC 8985 section 6.3). */
export function onReorderTimeout(t: Tcb, now: Instant): void {
  t.reorderAt = NEVER;
  if (!t.hasOutstanding) return;
  const f = t.tcp.facts;
  f.reset(now, t.sndUna);
  f.priorSackedBytes = t.sackedBytes;
  f.priorLostBytes = t.lostBytes;
  if (!rackDetectLoss(t, now)) return;
  t.tcp.makeReady(t);
  if (probeLost(t, now)) return;
  const starts = t.recovery < RecoveryState.Recovery;
  if (starts) enterRecovery(t, f);
  if (starts && !t.congestion.ownsRecovery) t.prr.update(t, 0, false);
  if (t.congestion.ownsRecovery) {
    const sample = t.tcp.sample;
    describe(t, sample, now);
    sample.ackedBytes = 0;
    sample.deliveredBytes = 0;
    sample.deliveryRateBytesPerSec = 0;
    sample.priorDeliveredBytes = -1;
    sample.rtt = -1;
    sample.lostBytes = Math.max(0, t.lostBytes - f.priorLostBytes);
    sample.isInRecovery = true;
    sample.hasEce = false;
    t.congestion.onAck(sample);
  }
  t.tcp.makeReady(t);
}

/** The retransmission timer ran out on data (RFC 6298 section 5, RFC 5681 section 3.1). */
export function onRetransmissionTimeout(t: Tcb, now: Instant): void {
  const queue = t.retransmitQueue;
  const isNew = t.recovery < RecoveryState.Recovery;
  // RFC 5681 section 3.1: ssthresh is lowered once for a segment, not for each further timeout of it.
  const again = t.recovery === RecoveryState.Loss && t.retries > 1;
  if (!again) startUndo(t);
  // A receiver that has acknowledged the head selectively and not cumulatively has dropped it (RFC 2018 section 8).
  const reneged = (queue.flags(0) & SACKED) !== 0;
  if (reneged) forgetSacks(t);
  t.dupAcks = 0;
  const window = reorderingWindow(t);
  for (let i = 0; i < queue.size; i++) {
    const inFlight = (queue.flags(i) & (LOST | RETRANSMITTED)) !== LOST;
    // RFC 8985 section 6.3: what was sent less than a round trip and the reordering window ago may well arrive.
    if (i > 0 && t.sackOn && !reneged && inFlight && rackRemaining(t, i, window, now) > 0) continue;
    markLost(t, i, now);
  }
  markLost(t, 0, now);
  t.retransmitHint = 0;
  t.recovery = RecoveryState.Loss;
  t.recover = t.sndNxt;
  t.reorderAt = NEVER;
  t.probeAt = NEVER;
  t.tlpActive = false;
  t.frto = t.tcp.options.frto && (isNew || t.retries > 1);
  t.frtoNewData = false;
  t.retransmitForced = false;
  t.ecnSendCwr = t.ecnOn;
  signalCongestion(t, again ? CongestionSignal.TimeoutAgain : CongestionSignal.Timeout, t.sndUna, now);
  t.counters.timeouts++;
  t.rtt.timedOut();
  updatePacingRate(t);
  t.note(now, reneged ? "timeout: the receiver dropped what it had" : again ? "timeout again" : "timeout");
  retransmitHead(t, RetransmitKind.Timeout, now);
  t.rtoAt = Math.max(now, t.departAt) + t.rtt.rto;
}
