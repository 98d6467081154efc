/**
 * Pacing: when each segment may leave.
 *
 * The rate is what the congestion control says, or the window over the smoothed round-trip time, twice that in slow
 * start and 1.2 times after it. Data leaves in bursts of about a millisecond, at least two segments; the segments of a
 * burst share one stamp, and after it the next stamp lies as much later as the burst takes at the rate. Time that went by
 * unused since the last stamp is made up for by at most half of that step, so that a late timer does no harm on average.
 * The first ten data segments are not paced. Bare acknowledgments are not either: they depart at once, behind what has been
 * handed over before them, and move no stamp. (Linux gives them the next stamp.)
 *
 * Four models, by name:
 *
 * - `edt`: TCP stamps, the queueing discipline keeps the stamps, the round-trip time counts from the stamp. Where a stamp lies
 *   more than 5 ms ahead TCP waits with the segment, so that what it acknowledges is not old when it departs.
 * - `qdisc`: as before earliest departure times: the queueing discipline spaces the flow at the rate that it is told, and
 *   the round-trip time counts from the hand-over, so that it holds the time spent waiting there.
 * - `internal`: TCP itself waits for the stamp; nothing is queued below.
 * - `off`: everything leaves as soon as windows allow.
 *
 * A connection has at most so much data below TCP that its next stamp is kept however late the runtime is (small
 * queues): two bursts, or the rate times (1 ms + twice the measured lateness).
 *
 * References: Linux's tcp_output.c and sch_fq.c since 4.20, by behaviour.
 *
 * @module
 */

import { type Duration, type Instant, MILLISECOND, SECOND } from "../base/time.ts";
import { seqDiff } from "../wire/seq.ts";
import { headerBytes } from "./pmtud.ts";
import type { Tcb } from "./tcb.ts";

/** How a connection is paced. */
export type PacingMode = "edt" | "qdisc" | "internal" | "off";

/** The modes, for messages. */
export const PACING_MODES: readonly PacingMode[] = ["edt", "qdisc", "internal", "off"];

/** Data segments at the start that are not paced. */
const UNPACED_SEGMENTS = 10;

/** Rate over window per round-trip time, below half of ssthresh and above (Linux: 200 % and 120 %). */
const SLOW_START_RATIO = 2;
const AVOIDANCE_RATIO = 1.2;

/**
 * So long before its departure a segment leaves TCP at most, twice the runtime's lateness apart: it is to carry what is known
 * by then.
 */
const HELD_BELOW: Duration = 5 * MILLISECOND;

/** The least segments of a burst. */
const BURST_SEGMENTS = 2;

/** Sets the pacing rate anew after a round-trip time or a window has changed. */
export function updatePacingRate(t: Tcb): void {
  const { cwnd, ssthresh, pacingRateBytesPerSec } = t.congestion;
  let rate = pacingRateBytesPerSec;
  if (rate === 0) {
    const srtt = t.rtt.srtt;
    if (srtt === 0) return;
    // The switch lies at half of ssthresh, where slow start still goes on but would overshoot.
    const ratio = cwnd < ssthresh / 2 ? SLOW_START_RATIO : AVOIDANCE_RATIO;
    rate = Math.max(cwnd, t.inFlightBytes) / srtt * SECOND * ratio;
  }
  t.pacingRateBytesPerSec = Math.min(rate, t.maxPacingRateBytesPerSec);
  if (t.pacing === "qdisc") t.tcp.network.setFlowRate(t.flow, t.pacingRateBytesPerSec);
}

/** True if data is stamped or held by TCP itself at a finite rate. */
function isStamped(t: Tcb): boolean {
  return (t.pacing === "edt" || t.pacing === "internal") && t.pacingRateBytesPerSec !== Infinity &&
    t.dataSegmentsOut >= UNPACED_SEGMENTS;
}

/** Segments that share a stamp: about a millisecond's worth, at least two, at most half the window. */
export function burstSegments(t: Tcb): number {
  const segments = Math.max(BURST_SEGMENTS, Math.floor(t.pacingRateBytesPerSec / 1024 / t.mss));
  return Math.min(segments, Math.max(1, Math.floor(t.cwnd / t.mss / 2)));
}

/** A segment is built: its departure stamp is set. */
export function stampSegment(t: Tcb, now: Instant): void {
  if (t.departAt >= now) return;
  if (t.burstSegments === 0) t.pacingCredit = now - t.departAt;
  t.departAt = now;
}

/** A data segment of `bytes` went out with the present stamp. */
export function onDataSent(t: Tcb, bytes: number): void {
  t.dataSegmentsOut++;
  if (!isStamped(t)) return;
  t.burstSegments++;
  t.burstBytes += bytes;
  if (t.burstSegments >= burstSegments(t)) endBurst(t);
}

/** Moves the stamp on by what the burst takes at the rate, less at most half of that for time that went by unused. */
export function endBurst(t: Tcb): void {
  if (t.burstSegments === 0) return;
  const step = t.burstBytes / t.pacingRateBytesPerSec * SECOND;
  t.departAt += Math.round(step - Math.min(step / 2, t.pacingCredit));
  t.burstSegments = 0;
  t.burstBytes = 0;
  t.pacingCredit = 0;
}

/** True if the time to hand the next segment over has not come; the pacing timer is set. */
export function isTooEarly(t: Tcb, now: Instant): boolean {
  if (t.departAt <= now) return false;
  if (t.pacing === "edt") {
    if (t.departAt - now <= HELD_BELOW) return false;
    const early = HELD_BELOW + 2 * t.tcp.network.lateness();
    if (t.departAt - now <= early) return false;
    t.paceAt = t.departAt - early;
    return true;
  }
  if (t.pacing !== "internal") return false;
  t.paceAt = t.departAt;
  return true;
}

/** The most bytes of the connection below TCP. */
export function smallQueueLimit(t: Tcb): number {
  const { smallQueueBytes } = t.tcp.options;
  if (t.pacing === "off" || t.pacingRateBytesPerSec === Infinity) return smallQueueBytes;
  const time = MILLISECOND + 2 * t.tcp.network.lateness();
  const paced = Math.max(2 * burstSegments(t) * t.mss, t.pacingRateBytesPerSec * time / SECOND);
  return Math.min(paced, smallQueueBytes);
}

/**
 * True if nothing of what is outstanding has left this host: then the answer that a timer waits for cannot come yet, and a
 * copy would only stand behind the original. (Linux: TCPSpuriousRtxHostQueues.) A flow is a queue: if anything of it is left,
 * the acknowledgments handed over last are, and count for nothing here.
 */
export function isHeldHere(t: Tcb): boolean {
  const backlog = t.tcp.network.flowBacklog(t.flow) - t.bareBytesBehind;
  return backlog > 0 && backlog >= seqDiff(t.sndNxt, t.sndUna) + t.retransmitQueue.size * headerBytes(t);
}
