/**
 * Latencies in a histogram of high dynamic range: three significant digits from a microsecond to an hour, in memory of
 * fixed size.
 *
 * @module
 */

import { build, type Histogram } from "hdr-histogram-js";
import { type Duration, MICROSECOND } from "../../base/time.ts";

/** The percentiles that are told. */
export const PERCENTILES: readonly number[] = [50, 90, 99, 99.9, 99.99];

const HOUR_MICROSECONDS = 3_600_000_000;
const DIGITS = 3;

/** What latencies were, in milliseconds. */
export interface LatencySummary {
  /** How many. */
  count: number;
  /** Smallest. */
  min: number;
  /** Mean. */
  mean: number;
  /** Standard deviation. */
  stddev: number;
  /** Greatest. */
  max: number;
  /** Percentiles by name, such as `p99.9`. */
  percentiles: Record<string, number>;
}

/** A record of latencies. */
export class LatencyHistogram {
  readonly #histogram: Histogram = build({
    bitBucketSize: 32,
    lowestDiscernibleValue: 1,
    highestTrackableValue: HOUR_MICROSECONDS,
    numberOfSignificantValueDigits: DIGITS,
    autoResize: false,
    useWebAssembly: false,
  });

  /** Latencies recorded. */
  get count(): number {
    return this.#histogram.totalCount;
  }

  #min = Infinity;
  #max = 0;

  /** Records one; less than nothing counts as nothing, more than an hour as an hour. */
  record(latency: Duration): void {
    const microseconds = Math.min(HOUR_MICROSECONDS, Math.max(0, Math.round(latency / MICROSECOND)));
    this.#histogram.recordValue(microseconds);
    if (microseconds < this.#min) this.#min = microseconds;
    if (microseconds > this.#max) this.#max = microseconds;
  }

  /** The latency that a share of `percent` percent did not exceed, in milliseconds; `null` if there is none yet. */
  percentile(percent: number): number | null {
    if (this.count === 0) return null;
    // The histogram answers with the upper end of a bucket.
    return Math.min(this.#max, Math.max(this.#min, this.#histogram.getValueAtPercentile(percent))) / 1000;
  }

  /** All of it as numbers; `null` if there is none yet. */
  summary(): LatencySummary | null {
    const h = this.#histogram;
    if (h.totalCount === 0) return null;
    return {
      count: h.totalCount,
      min: this.#min / 1000,
      mean: h.mean / 1000,
      stddev: h.stdDeviation / 1000,
      max: this.#max / 1000,
      percentiles: Object.fromEntries(PERCENTILES.map((p) => [`p${p}`, this.percentile(p)!])),
    };
  }

  /** Forgets everything. */
  reset(): void {
    this.#histogram.reset();
    this.#min = Infinity;
    this.#max = 0;
  }
}
