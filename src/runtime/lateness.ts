/**
 * How late a host woke up: the price of timers that are coarser than the departure times they serve.
 *
 * A histogram with four buckets an octave from 1 µs up; the greatest value, a moving average and quantiles are read
 * from it. Its size is fixed and recording allocates nothing.
 *
 * @module
 */

import { type Duration, MICROSECOND } from "../base/time.ts";

const PER_OCTAVE = 4;
const OCTAVES = 24;

/** What is known about lateness, all durations in nanoseconds. */
export interface LatenessStats {
  /** Deadlines that were met, late or not. */
  count: number;
  /** Moving average with weight 1/8, as `fq` keeps its. */
  ewma: Duration;
  /** Median, as the upper end of its bucket. */
  p50: Duration;
  /** 99th percentile, as the upper end of its bucket. */
  p99: Duration;
  /** The greatest. */
  max: Duration;
}

/** A record of lateness. */
export class Lateness {
  readonly #buckets = new Float64Array(PER_OCTAVE * OCTAVES + 1);
  #count = 0;
  #max: Duration = 0;
  #ewma: Duration = 0;

  /** Records that something due was done `late` nanoseconds after its time. */
  record(late: Duration): void {
    const units = late / MICROSECOND;
    const bucket = units <= 1 ? 0 : Math.min(PER_OCTAVE * OCTAVES, Math.ceil(Math.log2(units) * PER_OCTAVE));
    this.#buckets[bucket]! += 1;
    this.#ewma += this.#count === 0 ? late : (late - this.#ewma) / 8;
    this.#count++;
    if (late > this.#max) this.#max = late;
  }

  /** The lateness that a share `q` (0 to 1) of all recordings did not exceed, to the upper end of its bucket. */
  quantile(q: number): Duration {
    const rank = Math.ceil(q * this.#count);
    if (rank <= 0) return 0;
    let seen = 0;
    for (let bucket = 0; bucket < this.#buckets.length; bucket++) {
      seen += this.#buckets[bucket]!;
      if (seen >= rank) return Math.min(this.#max, Math.round(2 ** (bucket / PER_OCTAVE) * MICROSECOND));
    }
    return this.#max;
  }

  /** All of it as numbers. */
  stats(): LatenessStats {
    return {
      count: this.#count,
      ewma: Math.round(this.#ewma),
      p50: this.quantile(0.5),
      p99: this.quantile(0.99),
      max: this.#max,
    };
  }
}
