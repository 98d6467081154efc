/**
 * Tail-loss probe: about two round trips after the last segment of a flight went unanswered, one segment is sent to draw an
 * acknowledgment, so that RACK finds a loss at the tail instead of the retransmission timer (RFC 8985 section 7).
 *
 * @module
 */

import { type Duration, type Instant, MILLISECOND, NEVER } from "../base/time.ts";
import { seqGt, seqLt } from "../wire/seq.ts";
import type { AckFacts } from "./ack_facts.ts";
import { sendProbe } from "./output.ts";
import { isHeldHere } from "./pacing.ts";
import { reduceOnce } from "./recovery.ts";
import { RecoveryState } from "./state.ts";
import type { Tcb } from "./tcb.ts";

/** The most that a peer delays the acknowledgment of a single segment (RFC 8985 section 7.2: WCDelAckT). */
const WORST_DELAYED_ACK: Duration = 200 * MILLISECOND;

/** Added where no delayed acknowledgment is expected, as Linux: two ticks of a millisecond. */
const SLACK: Duration = 2 * MILLISECOND;

/** Sets the probe timer anew, or stops it (RFC 8985 section 7.2). */
export function scheduleProbe(t: Tcb, now: Instant): void {
  t.probeAt = NEVER;
  if (
    !t.tcp.options.tailLossProbe || !t.sackOn || t.tlpActive || t.tlpWantsRtt || !t.hasOutstanding ||
    t.sackedSegments > 0 || t.recovery === RecoveryState.Recovery || t.recovery === RecoveryState.Loss
  ) return;
  const { srtt } = t.rtt;
  if (srtt === 0) return; // no probe without a round-trip time (RFC 8985 section 7.3, second condition)
  const pto = 2 * srtt + (t.retransmitQueue.size === 1 ? WORST_DELAYED_ACK : SLACK);
  // From when the last segment departs, and not beyond the retransmission timer: if both are due the probe comes first and
  // starts that anew.
  t.probeAt = Math.min(Math.max(now, t.departAt) + pto, t.rtoAt);
}

/** The probe timer ran out (RFC 8985 section 7.3). */
export function onProbeTimeout(t: Tcb, now: Instant): void {
  t.probeAt = NEVER;
  if (!t.hasOutstanding || t.tlpActive) return;
  const before = t.sndNxt;
  if (!isHeldHere(t) && sendProbe(t, now)) {
    t.counters.tailLossProbes++;
    t.tlpActive = true;
    // Without a round-trip time in between probes would keep the timeout from being measured.
    t.tlpWantsRtt = true;
    t.tlpSeq = t.sndNxt;
    t.tlpIsRetransmission = t.sndNxt === before;
  }
  t.probeAt = NEVER;
  t.rtoAt = Math.max(now, t.departAt) + t.rtt.rto;
}

/** An acknowledgment while a probe is out (RFC 8985 section 7.4.2). */
export function probeAcked(t: Tcb, f: AckFacts): void {
  const { ack } = t.tcp.segment;
  if (seqLt(ack, t.tlpSeq)) return;
  if (!t.tlpIsRetransmission || f.isProbeDsacked) {
    t.tlpActive = false; // nothing was lost
  } else if (seqGt(ack, t.tlpSeq)) {
    // The probe repaired a loss that nobody else noticed: reduce as for any.
    t.tlpActive = false;
    if (t.recovery <= RecoveryState.Disorder) reduceOnce(t, f, "tail loss repaired by a probe");
  } else if (f.isPure && t.tcp.segment.sackCount === 0) {
    t.tlpActive = false; // the original and the probe both arrived
  }
}
