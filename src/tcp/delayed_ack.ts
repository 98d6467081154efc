/**
 * When the receiver acknowledges: at once, or a little later so that the acknowledgment may ride on data or stand for
 * two segments (RFC 9293 section 3.8.6.3, RFC 5681 section 4.2).
 *
 * At once: more than one full segment is not acknowledged; something came out of order, came twice or filled a gap; the
 * window is nearly used up and the application has made room; the connection is in its quick phase. Otherwise within the
 * delay.
 *
 * The quick phase is the first acknowledgments of a connection, since a sender in slow start grows by each of them. It
 * comes back after disorder, after a pause longer than the peer's retransmission timeout, and when ECN asks for it. It
 * ends as soon as we answer with data ("ping-pong"): then acknowledgments ride.
 *
 * The delay is fixed by the option, or adapts: half of what it was plus the time since the segment before, at least 40 and
 * at most 200 ms, and not beyond the round-trip time if that is longer than 40 ms. It doubles when the timer runs out
 * without anything to ride on. An adaptive receiver also acknowledges a segment that was not full as soon as the
 * application has read it, while there is no ping-pong.
 *
 * Reference: Linux's tcp_input.c and tcp_output.c, by behaviour. Not here: thinning out the acknowledgments of a long row
 * of segments out of order; each gets its own.
 *
 * @module
 */

import { type Duration, type Instant, MILLISECOND, NEVER } from "../base/time.ts";
import { seqDiff } from "../wire/seq.ts";
import type { Tcb } from "./tcb.ts";
import { receiveWindow, shouldUpdateWindow } from "./window.ts";

/** Bounds of the adaptive delay. */
const ATO_MIN: Duration = 40 * MILLISECOND;
const ATO_MAX: Duration = 200 * MILLISECOND;

/** The least acknowledgments of a quick phase. */
const QUICK_ACKS_MIN = 2;

/** A segment is full-sized for a peer of which nothing is known if it holds so much (RFC 9293 section 3.7.1). */
const FIRST_RCV_MSS = 536;

/** Shorter ones are never taken for full-sized. */
const LEAST_RCV_MSS = 88;

/** The handshake is complete as far as the peer's SYN goes: what counts as a full segment until data tells. */
export function startDelayedAck(t: Tcb): void {
  t.rcvMss = Math.max(1, Math.min(FIRST_RCV_MSS, t.localMss, t.receiveRing.capacity >> 1));
}

/**
 * A segment with data has come, before anything else is done about it.
 *
 * @param bytes of data in it
 * @param isLast the sender had nothing more to send then (PSH)
 */
export function onDataSegment(t: Tcb, bytes: number, isLast: boolean, now: Instant): void {
  t.unackedSegmentsIn++;
  if (bytes >= t.rcvMss) {
    t.rcvMss = Math.min(bytes, Math.max(t.rcvMss, t.localMss));
    t.shortSegmentBytes = 0;
  } else {
    // The peer's path may be narrow, or have become so: two alike in a row, neither of them a rest, are full-sized.
    const mayBeFull = bytes >= FIRST_RCV_MSS || (bytes >= LEAST_RCV_MSS && !isLast);
    if (mayBeFull && bytes === t.shortSegmentBytes) t.rcvMss = bytes;
    t.shortSegmentBytes = mayBeFull ? bytes : 0;
    if (t.shortSegments < 2) t.shortSegments++;
  }
  if (t.ato === 0) {
    t.ato = ATO_MIN;
    refillQuickAcks(t);
  } else if (now !== t.lastDataInAt) {
    const gap = now - t.lastDataInAt;
    if (gap <= ATO_MIN / 2) t.ato = t.ato / 2 + ATO_MIN / 2;
    else if (gap < t.ato) t.ato = Math.min(t.ato / 2 + gap, t.rtt.rto, ATO_MAX);
    else if (gap > t.rtt.rto) refillQuickAcks(t); // the sender may have begun again with a small window
  }
  t.lastDataInAt = now;
}

/** As many quick acknowledgments as acknowledge half the window, at most what the option allows. */
function refillQuickAcks(t: Tcb): void {
  const half = Math.floor(receiveWindow(t) / (2 * t.rcvMss));
  const n = Math.min(Math.max(QUICK_ACKS_MIN, half), t.tcp.options.quickAcks);
  if (n > t.quickAcksLeft) t.quickAcksLeft = n;
}

/** The next `n` acknowledgments do not wait, whether or not we answer with data: CE marks, for one. */
export function quickAck(t: Tcb, n: number): void {
  if (n > t.quickAcksLeft) t.quickAcksLeft = n;
  t.pingPong = false;
  t.ato = ATO_MIN;
}

/** Something came out of order or twice: the sender will be repairing, and needs to hear of everything soon. */
export function onDisorder(t: Tcb): void {
  if (t.tcp.options.quickAcks === 0) return;
  refillQuickAcks(t);
  t.pingPong = false;
  t.ato = ATO_MIN;
}

/** The segment at hand was taken: acknowledges at once, or has the timer do it. */
export function scheduleAck(t: Tcb, now: Instant): void {
  if (t.ackNow) return t.tcp.makeReady(t);
  const { options } = t.tcp;
  const unacked = seqDiff(t.rcvNxt, t.lastAckSent);
  if (
    unacked > t.rcvMss || (t.quickAcksLeft > 0 && !t.pingPong) || shouldUpdateWindow(t) ||
    (options.ackEverySecondSegment && t.unackedSegmentsIn >= 2)
  ) {
    t.ackNow = true;
  } else if (unacked > 0) {
    const delay = ackDelay(t);
    // A timer that is about to run out does so now.
    if (options.delayedAck === "adaptive" && t.delayedAckAt <= now + delay / 4) t.ackNow = true;
    else t.delayedAckAt = Math.min(t.delayedAckAt, now + delay);
  }
  if (t.ackNow) t.tcp.makeReady(t);
}

/** How long an acknowledgment waits now. */
export function ackDelay(t: Tcb): Duration {
  const fixed = t.tcp.options.delayedAck;
  if (fixed !== "adaptive") return fixed;
  const { srtt } = t.rtt;
  const bound = srtt > 0 ? Math.min(ATO_MAX, Math.max(srtt, ATO_MIN)) : ATO_MAX;
  return Math.max(ATO_MIN, Math.min(t.ato, bound));
}

/** The timer ran out: nothing came along that the acknowledgment could have ridden on. */
export function onDelayedAckTimer(t: Tcb): void {
  t.ackNow = true;
  if (t.pingPong) {
    t.pingPong = false;
    t.ato = ATO_MIN;
  } else {
    t.ato = Math.min(2 * t.ato, t.rtt.rto);
  }
  t.tcp.makeReady(t);
}

/** The application has read: a segment that was not full is acknowledged when nothing is left to read. */
export function onRead(t: Tcb): void {
  if (t.shortSegments === 0 || t.receiveRing.length > 0 || t.tcp.options.delayedAck !== "adaptive") return;
  if (t.rcvNxt === t.lastAckSent || (t.pingPong && t.shortSegments < 2)) return;
  t.ackNow = true;
  t.tcp.makeReady(t);
}

/** A segment with an acknowledgment and `dataBytes` of data goes out. */
export function onAckSent(t: Tcb, dataBytes: number, now: Instant): void {
  if (t.quickAcksLeft > 0 && (dataBytes === 0 || t.rcvNxt !== t.lastAckSent)) {
    if (--t.quickAcksLeft === 0) t.ato = ATO_MIN;
  }
  // An answer: from now on acknowledgments can ride on data.
  if (dataBytes > 0 && !t.pingPong && t.ato > 0) {
    const fixed = t.tcp.options.delayedAck;
    if (now - t.lastDataInAt < (fixed === "adaptive" ? t.ato : fixed)) t.pingPong = true;
  }
  t.unackedSegmentsIn = 0;
  t.shortSegments = 0;
  t.ackNow = false;
  t.delayedAckAt = NEVER;
  t.lastAckSent = t.rcvNxt;
}
