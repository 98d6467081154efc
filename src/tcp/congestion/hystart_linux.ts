/**
 * Hybrid slow start as in Linux today: microsecond clock, and aware of pacing.
 *
 * A round is one flight. Slow start ends when acknowledgments at most 2 ms apart have come for longer than half of the
 * smallest round-trip time and an allowance for aggregation (for longer than all of it if the connection is paced, since
 * pacing in slow start spreads a window over half a round trip), or when, after eight samples, the smallest round-trip
 * time of the round lies above the smallest ever by more than an eighth of that (at least 4 ms, at most 16 ms).
 *
 * Nothing ends below 16 segments. After an exit nothing more happens until a timeout, which forgets everything.
 *
 * By behaviour after tcp_cubic.c of Linux 6.12.
 *
 * @module
 */

import { type Duration, MILLISECOND, SECOND } from "../../base/time.ts";
import { seqGt } from "../../wire/seq.ts";
import { type AckSample, CongestionSignal } from "./control.ts";
import type { SlowStartExit } from "./slow_start_exit.ts";

/** Acknowledgments at most so far apart are one train. */
const TRAIN_SPACING: Duration = 2 * MILLISECOND;
/** Bounds of the delay rule. */
const DELAY_MIN: Duration = 4 * MILLISECOND;
const DELAY_MAX: Duration = 16 * MILLISECOND;
/** Samples of a round before its delay counts. */
const MIN_SAMPLES = 8;
/** Window in segments below which nothing ends. */
const LOW_WINDOW = 16;
/** The largest aggregate there and its allowance: four of them at the pacing rate, at most 1 ms. */
const AGGREGATE_BYTES = 65536;
const AGGREGATES = 4;
const MAX_ALLOWANCE: Duration = MILLISECOND;

/** Hybrid slow start as in Linux today. */
export class HyStartLinux implements SlowStartExit {
  readonly name: string = "hystart-linux";
  why = "";
  #found = false;
  #hasRound = false;
  #roundEnd = 0;
  #roundStart = 0;
  #lastAck = 0;
  #delayMin: Duration = Infinity;
  #currentRtt: Duration = Infinity;
  #samples = 0;

  onAck(sample: AckSample, cwnd: number, mss: number): boolean {
    const { now, rtt } = sample;
    if (rtt < 0) return false;
    if (rtt < this.#delayMin) this.#delayMin = rtt;
    if (this.#found) return false;
    if (!this.#hasRound || seqGt(sample.sndUna, this.#roundEnd)) {
      this.#hasRound = true;
      this.#roundStart = now;
      this.#lastAck = now;
      this.#roundEnd = sample.sndNxt;
      this.#currentRtt = Infinity;
      this.#samples = 0;
    }
    if (cwnd < LOW_WINDOW * mss) return false;
    if (now - this.#lastAck <= TRAIN_SPACING) {
      this.#lastAck = now;
      if (now - this.#roundStart > this.#trainLimit(sample, cwnd)) {
        this.#found = true;
        this.why = "slow start ends: hystart-linux, ack train";
        return true;
      }
    }
    this.#currentRtt = Math.min(this.#currentRtt, rtt);
    if (this.#samples < MIN_SAMPLES) {
      this.#samples++;
      return false;
    }
    const rise = Math.min(Math.max(this.#delayMin / 8, DELAY_MIN), DELAY_MAX);
    if (this.#currentRtt <= this.#delayMin + rise) return false;
    this.#found = true;
    this.why = "slow start ends: hystart-linux, delay";
    return true;
  }

  growth(bytes: number): number {
    return bytes;
  }

  onCongestion(signal: CongestionSignal): void {
    if (signal !== CongestionSignal.Timeout) return;
    this.#found = false;
    this.#hasRound = false;
    this.#delayMin = Infinity;
  }

  #trainLimit(sample: AckSample, cwnd: number): Duration {
    const isPaced = sample.pacingRateBytesPerSec !== Infinity;
    // Without pacing the rate is that of slow start: twice the window over the round-trip time.
    const rate = isPaced ? sample.pacingRateBytesPerSec : 2 * cwnd / Math.max(sample.srtt, 1) * SECOND;
    const allowance = Math.min(MAX_ALLOWANCE, AGGREGATES * AGGREGATE_BYTES / rate * SECOND);
    const limit = this.#delayMin + allowance;
    return isPaced ? limit : limit / 2;
  }
}
