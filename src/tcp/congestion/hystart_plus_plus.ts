/**
 * HyStart++ (RFC 9406): slow start slows down when the round-trip time of a whole round has grown, and ends if that lasts.
 *
 * A round lasts until all that was sent before it began is acknowledged. If the smallest of at least eight round-trip
 * times of a round lies 4 to 16 ms (an eighth of the round-trip time within these) above that of the round before, growth
 * falls to a quarter: conservative slow start, CSS. There, a round with a smaller round-trip time than the one that led
 * to it shows that it was jitter, and slow start goes on; after five rounds slow start is over. It watches only the first
 * slow start of a connection: later ones have an `ssthresh` that was found by loss.
 *
 * An acknowledgment counts for at most eight segments unless the connection is paced.
 *
 * @module
 */

import { type Duration, MILLISECOND } from "../../base/time.ts";
import { seqGe } from "../../wire/seq.ts";
import type { AckSample } from "./control.ts";
import type { SlowStartExit } from "./slow_start_exit.ts";

// RFC 9406 section 4.3.
const MIN_RTT_THRESH: Duration = 4 * MILLISECOND;
const MAX_RTT_THRESH: Duration = 16 * MILLISECOND;
const MIN_RTT_DIVISOR = 8;
const N_RTT_SAMPLE = 8;
const CSS_GROWTH_DIVISOR = 4;
const CSS_ROUNDS = 5;
/** L of a connection that is not paced, in segments; it is infinite for one that is. */
const UNPACED_LIMIT = 8;

/** HyStart++. */
export class HyStartPlusPlus implements SlowStartExit {
  readonly name: string = "hystart++";
  why = "";
  #hasRound = false;
  #windowEnd = 0;
  #lastRoundMinRtt: Duration = Infinity;
  #currentRoundMinRtt: Duration = Infinity;
  #rttSampleCount = 0;
  /** Finite in CSS only. */
  #cssBaselineMinRtt: Duration = Infinity;
  /** Rounds spent in CSS; the one in which it began counts. */
  #cssRounds = 0;
  /** The acknowledgment at hand comes in the first slow start. */
  #isWatching = false;
  /** What CSS has divided away but not yet given. */
  #cssRemainder = 0;

  onAck(sample: AckSample, _cwnd: number, _mss: number, isFirst: boolean): boolean {
    this.#isWatching = isFirst;
    if (!isFirst) return false;
    if (!this.#hasRound) this.#startRound(sample);
    if (sample.rtt >= 0) {
      this.#currentRoundMinRtt = Math.min(this.#currentRoundMinRtt, sample.rtt);
      this.#rttSampleCount++;
      if (this.#rttSampleCount >= N_RTT_SAMPLE) this.#judge();
    }
    // Section 4.2: the acknowledgment of windowEnd ends the round.
    if (seqGe(sample.sndUna, this.#windowEnd)) {
      if (this.#cssBaselineMinRtt !== Infinity && ++this.#cssRounds >= CSS_ROUNDS) {
        this.#cssBaselineMinRtt = Infinity;
        this.why = "slow start ends: hystart++";
        return true;
      }
      this.#startRound(sample);
    }
    return false;
  }

  growth(bytes: number, sample: AckSample, mss: number): number {
    if (!this.#isWatching) return bytes;
    const n = sample.pacingRateBytesPerSec === Infinity ? Math.min(bytes, UNPACED_LIMIT * mss) : bytes;
    if (this.#cssBaselineMinRtt === Infinity) return n;
    const sum = n + this.#cssRemainder;
    this.#cssRemainder = sum % CSS_GROWTH_DIVISOR;
    return (sum - this.#cssRemainder) / CSS_GROWTH_DIVISOR;
  }

  onCongestion(): void {}

  #startRound(sample: AckSample): void {
    this.#hasRound = true;
    this.#windowEnd = sample.sndNxt;
    this.#lastRoundMinRtt = this.#currentRoundMinRtt;
    this.#currentRoundMinRtt = Infinity;
    this.#rttSampleCount = 0;
  }

  /** At least eight samples of the present round are there. */
  #judge(): void {
    const current = this.#currentRoundMinRtt;
    if (this.#cssBaselineMinRtt !== Infinity) {
      if (current >= this.#cssBaselineMinRtt) return;
      this.#cssBaselineMinRtt = Infinity;
      this.why = "slow start resumes: hystart++";
      return;
    }
    const last = this.#lastRoundMinRtt;
    if (last === Infinity) return;
    const thresh = Math.max(MIN_RTT_THRESH, Math.min(last / MIN_RTT_DIVISOR, MAX_RTT_THRESH));
    if (current < last + thresh) return;
    this.#cssBaselineMinRtt = current;
    this.#cssRounds = 0;
    this.#cssRemainder = 0;
    this.why = "conservative slow start: hystart++";
  }
}
