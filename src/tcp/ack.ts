/**
 * The acknowledgment of a segment: RFC 9293 section 3.10.7.4, fifth, and what follows from it for the sender.
 *
 * In order: is it acceptable (RFC 5961); the window; what it acknowledges cumulatively and selectively; the round-trip time;
 * the state of recovery; the congestion control; the timers. What was learnt on the way is in `tcp.facts`, what the congestion
 * control is told in `tcp.sample`.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import { SocketErrorKind } from "../base/errors.ts";
import { SocketEvent } from "../base/event_queue.ts";
import { type Duration, type Instant, MILLISECOND, NEVER } from "../base/time.ts";
import { seqAdd, seqDiff, seqGt, seqLe, seqLt } from "../wire/seq.ts";
import { FIN, SYN } from "../wire/tcp.ts";
import type { AckFacts } from "./ack_facts.ts";
import { challenge } from "./challenge.ts";
import { destroyConnection, enterTimeWait } from "./close.ts";
import { isEcnEcho } from "./ecn.ts";
import { updatePacingRate } from "./pacing.ts";
import { probeArrived } from "./pmtud.ts";
import { rackDelivered } from "./rack.ts";
import { isWindowUsed, recoveryInput } from "./recovery.ts";
import { EVER_RETRANSMITTED, SACKED } from "./retransmit_queue.ts";
import { discount, sackInput } from "./scoreboard.ts";
import { RecoveryState, TcpState } from "./state.ts";
import type { Tcb } from "./tcb.ts";
import { echoedRtt } from "./timestamps.ts";
import { probeAcked, scheduleProbe } from "./tlp.ts";

/** How soon at least a receiver that dropped what it had acknowledged selectively is treated as after a timeout; as Linux. */
const RENEGING_DELAY_MIN = 10 * MILLISECOND;

/** ACK in a synchronised state. */
export function ackInput(t: Tcb, now: Instant): DropReason {
  const s = t.tcp.segment;
  if (seqGt(s.ack, t.sndNxt)) return challenge(t, now, DropReason.TcpBadAck, s.payloadLength > 0);
  // RFC 5961 section 5.2: older than any acknowledgment still on its way can be.
  // Our FIN, if it is acknowledged, was one of the sequence numbers that SND.UNA has passed.
  const lookBack = Math.min(t.sndWndMax, t.counters.bytesAcked + (t.finSent && !t.hasOutstanding ? 1 : 0));
  if (seqLt(s.ack, seqAdd(t.sndUna, -lookBack))) return challenge(t, now, DropReason.TcpBadAck, false);

  const newWindow = s.window << t.sndWndShift;
  const acked = seqDiff(s.ack, t.sndUna);
  const f = t.tcp.facts;
  f.reset(now, t.sndUna);
  f.isPure = acked === 0 && s.payloadLength === 0 && (s.flags & (SYN | FIN)) === 0 && newWindow === t.sndWnd;
  f.isDuplicate = f.isPure && t.hasOutstanding; // RFC 5681 section 2

  if (acked >= 0) updateWindow(t, newWindow, acked);
  // The answer to a probe, or to data sent into a window that closed meanwhile, shows that the peer lives.
  // Not once the application is gone: a peer could keep the rest of its data here for ever.
  if (!t.orphaned && (!t.hasOutstanding || t.sndWnd === 0)) t.retries = 0;

  // An old acknowledgment may still carry SACK blocks that say something new, and one that finds nothing outstanding may
  // say that what was sent last was not needed.
  const hasBlocks = t.sackOn && s.sackCount > 0;
  if (acked > 0 || f.isDuplicate || hasBlocks || (acked === 0 && (t.tlpActive || (t.ecnOn && t.hasOutstanding)))) {
    senderInput(t, f, acked);
    t.tcp.makeReady(t);
  }
  if (!t.finSent || t.sndUna !== seqAdd(t.sndFin, 1)) return DropReason.None;

  // Our FIN is acknowledged.
  switch (t.state) {
    case TcpState.FinWait1:
      t.state = TcpState.FinWait2;
      if (t.orphaned) t.timeWaitAt = now + t.tcp.options.finWait2;
      break;
    case TcpState.Closing:
      enterTimeWait(t, now);
      break;
    case TcpState.LastAck:
      destroyConnection(t, now, SocketErrorKind.None, "");
      break;
    default:
      break;
  }
  return DropReason.None;
}

/** Window update (RFC 9293 section 3.10.7.4). */
function updateWindow(t: Tcb, newWindow: number, acked: number): void {
  const s = t.tcp.segment;
  if (!seqLt(t.sndWl1, s.seq) && (t.sndWl1 !== s.seq || !seqLe(t.sndWl2, s.ack))) return;
  if (newWindow > t.sndWnd || acked > 0) {
    t.persistAt = NEVER;
    t.persistBackoff = 0;
  }
  if (newWindow !== t.sndWnd || acked > 0) t.tcp.makeReady(t);
  t.sndWnd = newWindow;
  if (newWindow > t.sndWndMax) t.sndWndMax = newWindow;
  t.sndWl1 = s.seq;
  t.sndWl2 = s.ack;
}

/** What the acknowledgment at hand means for what was sent; `acked` is how far it moves SND.UNA, if that is forward. */
function senderInput(t: Tcb, f: AckFacts, acked: number): void {
  const s = t.tcp.segment;
  const { sample } = t.tcp;
  const now = f.now;
  const lostBefore = t.rate.totalLostBytes;
  f.priorFack = t.rack.fack;
  f.priorInFlightBytes = t.inFlightBytes;
  f.priorSackedBytes = t.sackedBytes;
  f.hasEce = acked >= 0 && isEcnEcho(t, s.flags);
  if (f.hasEce) t.counters.ecnEchoes++;
  const priorDupAcks = t.dupAcks;
  sample.isCwndLimited = isWindowUsed(t);
  if (acked > 0) advance(t, f, acked);
  if (t.sackOn && s.sackCount > 0) sackInput(t, f);
  if (t.rack.isDsackRound) t.rack.endRound(t.sndUna);
  // Without SACK what had arrived before a retransmission is acknowledged together with it.
  if (!t.sackOn && f.isAmbiguous) f.hasOriginal = false;
  if (f.isDuplicate) t.counters.dupAcksIn++;
  takeRtt(t, f);
  if (t.tlpActive) probeAcked(t, f);
  if (t.path.probeBytes > 0) probeArrived(t, now);

  const before = t.recovery;
  recoveryInput(t, f);
  // What ends an episode was delivered at the reduced window: it does not make it grow.
  const isOver = before >= RecoveryState.Cwr && t.recovery < RecoveryState.Cwr;

  sample.now = now;
  sample.ackedBytes = f.ackedBytes;
  sample.priorInFlightBytes = f.priorInFlightBytes;
  sample.inFlightBytes = t.inFlightBytes;
  sample.lostBytes = t.rate.totalLostBytes - lostBefore;
  sample.rtt = f.rtt;
  sample.minRtt = t.rtt.minRtt;
  sample.srtt = t.rtt.srtt;
  sample.sndUna = t.sndUna;
  sample.sndNxt = t.sndNxt;
  sample.hasEce = f.hasEce;
  sample.hasSack = t.sackOn;
  sample.isInRecovery = t.recovery >= RecoveryState.Recovery;
  sample.pacingRateBytesPerSec = t.pacing === "off" ? Infinity : t.pacingRateBytesPerSec;
  t.rate.onAckDone(t, sample, now);
  if (!t.sackOn) sample.deliveredBytes = arrivedWithoutSack(t, f, priorDupAcks);
  controlWindow(t, f, isOver);
  updatePacingRate(t);

  if (acked > 0) {
    // RFC 6298 sections 5.2 and 5.3, from the departure of what is now the oldest segment if that lies ahead.
    t.rtoAt = t.hasOutstanding ? Math.max(now, t.retransmitQueue.departAt(0)) + t.rtt.rto : NEVER;
    if (!t.hasOutstanding) t.reorderAt = NEVER;
    // A receiver that has dropped what it had is treated as after a timeout, and soon, but not on one odd acknowledgment.
    if (f.isReneged) t.rtoAt = Math.min(t.rtoAt, now + Math.max(t.rtt.srtt / 2, RENEGING_DELAY_MIN));
    scheduleProbe(t, now);
    // Worth waking the writer for: a quarter of the buffer. Less would cut the stream into small segments.
    if (t.sendRing.room * 4 >= t.sendRing.capacity) t.raise(SocketEvent.Writable);
  } else if (t.sackedSegments > 0) {
    t.probeAt = NEVER;
  }
}

/** Without SACK: a duplicate is a segment; an advance is what no duplicate has told yet. */
function arrivedWithoutSack(t: Tcb, f: AckFacts, priorDupAcks: number): number {
  if (f.ackedBytes === 0) return f.isDuplicate ? t.mss : 0;
  return Math.max(0, f.ackedBytes - Math.min(priorDupAcks, Math.max(0, f.ackedSegments - 1)) * t.mss);
}

/** Lets PRR or the congestion control set the window. */
function controlWindow(t: Tcb, f: AckFacts, isOver: boolean): void {
  const { sample } = t.tcp;
  const { congestion } = t;
  if (congestion.ownsRecovery) {
    if (sample.deliveredBytes > 0 || sample.lostBytes > 0) congestion.onAck(sample);
  } else if (t.recovery === RecoveryState.Recovery || t.recovery === RecoveryState.Cwr) {
    if (sample.deliveredBytes > 0 || t.prr.cwnd === 0) {
      t.prr.update(t, sample.deliveredBytes, f.ackedBytes > 0 && sample.lostBytes === 0);
    }
  } else if (f.ackedBytes > 0 && !isOver) {
    congestion.onAck(sample);
  }
  if (congestion.why !== t.noticedWhy) {
    t.noticedWhy = congestion.why;
    t.note(f.now, congestion.why);
  }
}

/** SND.UNA moves by `acked`. */
function advance(t: Tcb, f: AckFacts, acked: number): void {
  const { ack } = t.tcp.segment;
  const queue = t.retransmitQueue;
  f.ackedBytes = acked;
  while (queue.size > 0 && seqLt(queue.seq(0), ack)) {
    const end = queue.end(0);
    const whole = seqLe(end, ack);
    const bytes = seqDiff(whole ? end : ack, queue.seq(0));
    const flags = queue.flags(0);
    if ((flags & SACKED) !== 0) {
      t.sackedBytes -= bytes;
      if (whole) t.sackedSegments--;
    } else {
      discount(t, flags, bytes);
      if (whole) rackDelivered(t, f, 0);
      t.rate.onDelivered(t, 0, bytes);
    }
    if ((flags & EVER_RETRANSMITTED) !== 0) {
      f.isAmbiguous = true;
    } else if ((flags & SACKED) === 0) {
      const departAt = queue.departAt(0);
      if (f.firstDepartAt < 0) f.firstDepartAt = departAt;
      f.lastDepartAt = departAt;
      if (seqLe(end, t.recover)) f.hasOriginal = true;
    }
    if (!whole) {
      queue.trimHead(ack);
      break;
    }
    queue.shift();
    f.ackedSegments++;
    if (bytes > t.path.provenBytes) t.path.provenBytes = bytes;
    if (t.retransmitHint > 0) t.retransmitHint--;
  }
  const finAcked = t.finSent && ack === seqAdd(t.sndFin, 1);
  const dataAcked = acked - (finAcked ? 1 : 0);
  t.sendRing.consume(dataAcked);
  t.sndUna = ack;
  if (seqLt(t.sndSml, t.sndUna)) t.sndSml = t.sndUna;
  if (seqLt(t.rack.fack, t.sndUna)) t.rack.fack = t.sndUna;
  t.counters.bytesAcked += dataAcked;
  t.retries = 0;
  f.isReneged = queue.size > 0 && (queue.flags(0) & SACKED) !== 0;
}

/** Round-trip time: Karn's rule, else timestamps (RFC 7323 section 4.3). */
function takeRtt(t: Tcb, f: AckFacts): void {
  let rtt: Duration = -1;
  if (f.firstDepartAt >= 0 && !f.isAmbiguous) {
    rtt = f.now - f.firstDepartAt;
    f.rtt = f.now - f.lastDepartAt;
  } else if (f.sackLastDepartAt >= 0 && !f.isAmbiguous && !f.isSackAmbiguous) {
    // Of the one that departed last: others may have arrived long ago and been reported in vain.
    rtt = f.now - f.sackLastDepartAt;
    f.rtt = rtt;
  } else if (f.ackedBytes > 0 && f.hasDsack) {
    // The answer to a duplicate echoes the first copy, however long ago that was acknowledged in vain: no round trip. But
    // that it was is sure now, so that the timeout was not too short (a late answer to the first copy has no report).
    t.rtt.answered();
  } else if (f.ackedBytes > 0 && !f.hasNewSack) {
    // Not the answer to something out of order either, which echoes what came in order before it.
    rtt = echoedRtt(t, f.now);
    f.rtt = rtt;
  }
  // One small segment on its own: its acknowledgment may have been delayed.
  const mayBeDelayed = f.ackedSegments === 1 && f.ackedBytes < t.mss && !f.hasNewSack;
  if (!t.rtt.sample(rtt, f.now, t.sndUna, t.sndNxt, mayBeDelayed)) {
    f.rtt = -1;
    return;
  }
  t.tlpWantsRtt = false;
  if (f.rtt < 0) f.rtt = -1;
  else if (!mayBeDelayed || f.rtt < t.rtt.minRtt) t.rtt.noteMin(f.rtt, f.now);
}
