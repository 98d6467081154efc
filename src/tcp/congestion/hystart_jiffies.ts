/**
 * Hybrid slow start with a jiffy clock: the original of 2008 (Linux 2.6.29) and the change to it proposed in 2011.
 *
 * Two heuristics watch each round, which is one flight. An ACK train: acknowledgments at most 2 ms apart, counted from the
 * start of the round; slow start ends when the train is as long as half of the smallest round-trip time, with the patch as
 * long as twice that. A delay: the smallest of the first eight round-trip times of the round lies above the smallest ever
 * by a sixteenth of that (at least 2, at most 16 clock ticks), with the patch above twice that.
 *
 * All this is done in jiffies, as then: time is a tick count at HZ = 250 (4 ms), the round-trip time of a segment is the
 * difference of two tick counts, the smallest one is kept times eight, and 2 ms are a whole tick. So 11.3 ms are two or
 * three ticks, their smallest is two, and half of it is one: any tick within a flight ends slow start. That coarseness is
 * the point of keeping the clock.
 *
 * Nothing happens below 16 segments. After an exit nothing more happens until a timeout, which forgets everything.
 *
 * @module
 */

import { type Duration, MILLISECOND } from "../../base/time.ts";
import { seqGt } from "../../wire/seq.ts";
import { type AckSample, CongestionSignal } from "./control.ts";
import type { SlowStartExit } from "./slow_start_exit.ts";

/** One jiffy: HZ = 250. */
const JIFFY: Duration = 4 * MILLISECOND;
/** Acknowledgments at most so many jiffies apart are one train: 2 ms, rounded up to a tick. */
const TRAIN_SPACING = 1;
/** Samples of a round before its delay counts. */
const MIN_SAMPLES = 8;
/** Window in segments below which nothing is looked at. */
const LOW_WINDOW = 16;
/** Bounds of the delay rule, in jiffies times eight. */
const DELAY_MIN = 2 << 3;
const DELAY_MAX = 16 << 3;

/** Which of the two. */
export type HyStartYear = 2008 | 2011;

/** Hybrid slow start as of 2008 or with the patch of 2011. */
export class HyStartJiffies implements SlowStartExit {
  readonly name: string;
  why = "";
  readonly #year: HyStartYear;
  #found = false;
  #hasRound = false;
  #roundEnd = 0;
  /** In jiffies. */
  #roundStart = 0;
  #lastAck = 0;
  /** Smallest round-trip time in jiffies times eight; 0 for none. */
  #delayMin = 0;
  /** The same of the present round. */
  #currentRtt = 0;
  #samples = 0;

  /** Starts with nothing seen. */
  constructor(year: HyStartYear) {
    this.#year = year;
    this.name = `hystart-${year}`;
  }

  onAck(sample: AckSample, cwnd: number, mss: number): boolean {
    const now = Math.floor(sample.now / JIFFY);
    let ends = false;
    if (sample.rtt >= 0) {
      const sentAt = Math.floor((sample.now - sample.rtt) / JIFFY);
      // Within one tick there is no sample: the difference says nothing.
      if (now > sentAt) ends = this.#update(now, (now - sentAt) << 3, cwnd >= LOW_WINDOW * mss);
    }
    if (sample.isCwndLimited && (!this.#hasRound || seqGt(sample.sndUna, this.#roundEnd))) {
      this.#startRound(now, sample.sndNxt);
    }
    return ends;
  }

  growth(bytes: number): number {
    return bytes;
  }

  onCongestion(signal: CongestionSignal): void {
    if (signal !== CongestionSignal.Timeout) return;
    this.#found = false;
    this.#hasRound = false;
    this.#delayMin = 0;
  }

  #startRound(now: number, end: number): void {
    this.#hasRound = true;
    this.#roundStart = now;
    this.#lastAck = now;
    this.#roundEnd = end;
    this.#currentRtt = 0;
    this.#samples = 0;
  }

  #update(now: number, delay: number, isLarge: boolean): boolean {
    if (this.#delayMin === 0 || delay < this.#delayMin) this.#delayMin = delay;
    if (this.#found || !isLarge || !this.#hasRound) return false;
    const is2011 = this.#year === 2011;
    // The ACK train. The shifts take away the factor of eight and halve, or double.
    if (now - this.#lastAck <= TRAIN_SPACING) {
      this.#lastAck = now;
      if (now - this.#roundStart >= this.#delayMin >> (is2011 ? 2 : 4)) {
        this.#found = true;
        this.why = is2011 ? "slow start ends: hystart-2011, ack train" : "slow start ends: hystart-2008, ack train";
        return true;
      }
    }
    // The delay.
    if (this.#samples < MIN_SAMPLES) {
      if (this.#currentRtt === 0 || delay < this.#currentRtt) this.#currentRtt = delay;
      this.#samples++;
      return false;
    }
    const limit = is2011
      ? this.#delayMin << 1
      : this.#delayMin + Math.min(Math.max(this.#delayMin >> 4, DELAY_MIN), DELAY_MAX);
    if (this.#currentRtt <= limit) return false;
    this.#found = true;
    this.why = is2011 ? "slow start ends: hystart-2011, delay" : "slow start ends: hystart-2008, delay";
    return true;
  }
}
