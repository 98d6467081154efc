/**
 * CUBIC (RFC 9438): after a reduction the window follows a cubic curve of time back to where it was, flat around there, and
 * then away from it.
 *
 * The curve is W(t) = C (t − K)³ + W_max, with t from the beginning of the present congestion avoidance (the epoch). For
 * each segment acknowledged the window moves by (target − cwnd) / cwnd, where the target is W one round-trip time ahead,
 * at least the window and at most 1.5 times that. Where an AIMD window with the same reduction would be larger, the window
 * is that (the Reno-friendly region): its additive part is 3 (1 − β) / (1 + β), and 1 once it has grown back to what the
 * window was. A reduction before the old W_max was reached lowers W_max further (fast convergence). After a timeout, and
 * after a slow start that ended without loss, the curve starts at its flat point: K = 0.
 *
 * Time in which the window does not hold the sender back does not count: the epoch moves on with it.
 *
 * Inside, windows are segments and times seconds, as in the RFC; the window itself is whole bytes, the fraction is kept.
 *
 * @module
 */

import { type Duration, type Instant, NEVER, SECOND } from "../../base/time.ts";
import { type AckSample, CongestionSignal } from "./control.ts";
import { LossBasedControl } from "./loss_based.ts";

/** RFC 9438 section 4.6. */
const BETA = 0.7;
/** Segments per second cubed: section 5.1. */
const C = 0.4;
/** Additive increase of an AIMD window with this β that is as large as Reno's on average: section 4.3. */
const ALPHA: number = 3 * (1 - BETA) / (1 + BETA);

/** The CUBIC congestion control. */
export class Cubic extends LossBasedControl {
  readonly name: string = "cubic";
  protected readonly beta: number = BETA;
  /** Window before the last reduction, lowered by fast convergence; 0 before the first. */
  #wMax = 0;
  /** Time from the epoch to W_max, in seconds. */
  #k = 0;
  /** Beginning of the present congestion avoidance; `NEVER` if the next acknowledgment in it begins one. */
  #epochAt: Instant = NEVER;
  /** Until when the time since the epoch is accounted for. */
  #lastAt: Instant = 0;
  /** Window that an AIMD control would have. */
  #wEst = 0;
  /** Window when `ssthresh` was last set. */
  #cwndPrior = 0;
  /** The next epoch starts at the flat point of the curve. */
  #startsFlat = true;
  /** Bytes of the window that are not whole. */
  #fraction = 0;
  // The same before the last reduction.
  #undoWMax = 0;
  #undoK = 0;
  #undoEpochAt: Instant = NEVER;
  #undoWEst = 0;
  #undoCwndPrior = 0;
  #undoStartsFlat = true;
  #undoFraction = 0;

  override onSent(now: Instant, bytes: number, inFlightBytes: number): void {
    super.onSent(now, bytes, inFlightBytes);
    // Section 4.2: nothing was in flight, so that the time since the last acknowledgment was idle.
    if (inFlightBytes <= bytes) this.#skipTime(now);
  }

  override onIdle(now: Instant, idle: Duration, rto: Duration): void {
    const { cwnd, ssthresh } = this;
    super.onIdle(now, idle, rto);
    if (this.ssthresh !== ssthresh) this.#cwndPrior = cwnd / this.mss;
    // Slow start comes first; the congestion avoidance after it is another one.
    if (this.cwnd < cwnd) {
      this.#epochAt = NEVER;
      this.#fraction = 0;
    }
  }

  protected override avoid(sample: AckSample, acked: number): void {
    const { now } = sample;
    if (this.#epochAt === NEVER) this.#startEpoch(now);
    if (!sample.isCwndLimited) {
      this.#skipTime(now);
      return;
    }
    this.#lastAt = now;
    const { mss } = this;
    const cwnd = (this.cwnd + this.#fraction) / mss;
    const ackedSegments = acked / mss;
    const t = (now - this.#epochAt) / SECOND;

    // Section 4.3, equation 4; additive increase 1 from cwnd_prior on.
    const alpha = this.#wEst >= this.#cwndPrior ? 1 : ALPHA;
    this.#wEst += alpha * ackedSegments / cwnd;
    let next: number;
    if (this.#window(t) < this.#wEst) {
      // "The larger of the two": acknowledgments never shrink the window.
      next = Math.max(cwnd, this.#wEst);
    } else {
      // Section 4.2.
      const target = Math.min(Math.max(this.#window(t + sample.srtt / SECOND), cwnd), 1.5 * cwnd);
      next = cwnd + (target - cwnd) / cwnd * ackedSegments;
    }
    const exact = next * mss;
    const whole = Math.floor(exact);
    this.#fraction = exact - whole;
    this.grow(whole - this.cwnd);
  }

  protected override reduce(signal: CongestionSignal, sample: AckSample): void {
    this.#undoWMax = this.#wMax;
    this.#undoK = this.#k;
    this.#undoEpochAt = this.#epochAt;
    this.#undoWEst = this.#wEst;
    this.#undoCwndPrior = this.#cwndPrior;
    this.#undoStartsFlat = this.#startsFlat;
    this.#undoFraction = this.#fraction;
    const cwnd = this.cwnd / this.mss;
    // Section 4.7: fast convergence. Not where a buffer held the window down: then it says nothing about other flows.
    this.#wMax = cwnd < this.#wMax && sample.isCwndLimited ? cwnd * (1 + BETA) / 2 : cwnd;
    this.#cwndPrior = cwnd;
    this.#epochAt = NEVER;
    this.#fraction = 0;
    // Section 4.8.
    this.#startsFlat = signal === CongestionSignal.Timeout;
  }

  protected override restore(): void {
    this.#wMax = this.#undoWMax;
    this.#k = this.#undoK;
    this.#epochAt = this.#undoEpochAt;
    this.#wEst = this.#undoWEst;
    this.#cwndPrior = this.#undoCwndPrior;
    this.#startsFlat = this.#undoStartsFlat;
    this.#fraction = this.#undoFraction;
  }

  #startEpoch(now: Instant): void {
    const cwnd = this.cwnd / this.mss;
    this.#epochAt = now;
    this.#lastAt = now;
    this.#wEst = cwnd;
    // Section 4.10: a slow start that ended without loss leaves neither.
    if (this.#cwndPrior === 0) this.#cwndPrior = cwnd;
    if (this.#startsFlat || this.#wMax <= cwnd) {
      this.#wMax = cwnd;
      this.#k = 0;
    } else {
      // Section 4.2, equation 2.
      this.#k = Math.cbrt((this.#wMax - cwnd) / C);
    }
    this.#startsFlat = false;
  }

  /** Section 4.2, equation 1. */
  #window(t: number): number {
    const d = t - this.#k;
    return C * d * d * d + this.#wMax;
  }

  /** Time up to now does not count. */
  #skipTime(now: Instant): void {
    if (this.#epochAt !== NEVER) this.#epochAt += now - this.#lastAt;
    this.#lastAt = now;
  }
}
