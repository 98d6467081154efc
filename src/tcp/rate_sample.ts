/**
 * Delivery-rate samples: how fast data arrives at the other end (draft-ietf-ccwg-bbr section 4.1.1).
 *
 * Each segment remembers how much had been delivered when it was sent. When it is acknowledged, what was delivered
 * meanwhile, over the longer of the time taken to send it and the time taken to acknowledge it, is a sample. Sending times
 * are departure stamps. A sample shorter than the smallest round-trip time is no good, and one taken while the sender had
 * nothing to send counts only if it is higher than the last.
 *
 * @module
 */

import { type Duration, type Instant, SECOND } from "../base/time.ts";
import type { AckSample } from "./congestion/control.ts";
import type { Tcb } from "./tcb.ts";

/** State of the sampler of one connection. */
export class RateSampler {
  /** Bytes delivered so far. */
  deliveredBytes = 0;
  /** When `deliveredBytes` last grew. */
  deliveredAt: Instant = 0;
  /** Departure of the first segment of the present flight. */
  firstSentAt: Instant = 0;
  /** Until this much is delivered, samples are limited by the application; 0 if they are not. */
  appLimitedUntilBytes = 0;
  /** Bytes lost so far. */
  totalLostBytes = 0;
  /** The latest sample in bytes per second, or 0. */
  rateBytesPerSec = 0;
  /** The latest sample was limited by the application. */
  isAppLimited = false;
  /** Bytes that the acknowledgment at hand delivers. */
  newlyDeliveredBytes = 0;
  // The newest segment of the acknowledgment at hand; an order of 0 for none.
  #order = 0;
  #priorBytes = -1;
  #priorAt: Instant = 0;
  #sendElapsed: Duration = 0;
  #wasAppLimited = false;
  #txInFlightBytes = 0;
  #priorLostBytes = 0;

  /** Nothing was in flight, and a segment departs at `departAt`: the flight begins. */
  startFlight(departAt: Instant): void {
    this.firstSentAt = departAt;
    this.deliveredAt = departAt;
  }

  /** Segment `i` of the retransmit queue, or `bytes` of it, was acknowledged, selectively or not, for the first time. */
  onDelivered(t: Tcb, i: number, bytes: number): void {
    this.deliveredBytes += bytes;
    this.newlyDeliveredBytes += bytes;
    const queue = t.retransmitQueue;
    // Of all that arrived the segment sent last tells most (IsNewestPacket of the draft).
    const order = queue.order(i);
    if (order <= this.#order) return;
    this.#order = order;
    this.#priorBytes = queue.deliveredBytes(i);
    this.#priorAt = queue.deliveredAt(i);
    this.#sendElapsed = queue.departAt(i) - queue.firstSentAt(i);
    this.#wasAppLimited = queue.isAppLimited(i);
    this.#txInFlightBytes = queue.inFlightBytes(i);
    this.#priorLostBytes = queue.totalLostBytes(i);
    if (queue.departAt(i) > this.firstSentAt) this.firstSentAt = queue.departAt(i);
  }

  /** All of an acknowledgment was seen: takes the sample, and tells it to the congestion control by `sample`. */
  onAckDone(t: Tcb, sample: AckSample, now: Instant): void {
    sample.deliveredBytes = this.newlyDeliveredBytes;
    sample.totalDeliveredBytes = this.deliveredBytes;
    sample.totalLostBytes = this.totalLostBytes;
    sample.priorDeliveredBytes = this.#priorBytes;
    sample.deliveryRateBytesPerSec = 0;
    sample.isAppLimited = this.#wasAppLimited;
    sample.txInFlightBytes = this.#txInFlightBytes;
    sample.sampleLostBytes = this.totalLostBytes - this.#priorLostBytes;
    this.newlyDeliveredBytes = 0;
    if (this.appLimitedUntilBytes !== 0 && this.deliveredBytes > this.appLimitedUntilBytes) {
      this.appLimitedUntilBytes = 0;
    }
    if (this.#order === 0) return;
    const delivered = this.deliveredBytes - this.#priorBytes;
    const interval = Math.max(this.#sendElapsed, now - this.#priorAt);
    this.#order = 0;
    this.#priorBytes = -1;
    this.deliveredAt = now;
    if (interval < t.rtt.minRtt || interval <= 0) return;
    const rate = delivered / interval * SECOND;
    sample.deliveryRateBytesPerSec = rate;
    if (this.#wasAppLimited && rate < this.rateBytesPerSec) return;
    this.rateBytesPerSec = rate;
    this.isAppLimited = this.#wasAppLimited;
  }

  /** The sender has nothing more to send although the window has room. */
  onAppLimited(t: Tcb): void {
    this.appLimitedUntilBytes = Math.max(1, this.deliveredBytes + t.inFlightBytes);
  }
}
