/**
 * Round-trip time and retransmission timeout: Van Jacobson's estimator (RFC 6298).
 *
 * Samples come from departure stamps, so time spent waiting for a departure is not in them; segments that were
 * retransmitted give none (Karn), unless timestamps say which copy was acknowledged. A back-off stays until the next
 * sample. A sample that is negative or not finite is ignored: a packet may have left before its stamp.
 *
 * As in Linux the floor sits in the variance term: RTO = SRTT + max(minRto, 4 × RTTVAR). With a floor on the sum
 * alone, a path with steady delays near the floor would time out on the first late packet.
 *
 * @module
 */

import { type Duration, MILLISECOND, SECOND } from "../base/time.ts";

/** The estimator of one connection. */
export class RttEstimator {
  /** Smoothed round-trip time; 0 before the first sample. */
  srtt: Duration = 0;
  /** Mean deviation of the round-trip time. */
  rttvar: Duration = 0;
  /** The smallest sample, or `Infinity`. */
  minRtt: Duration = Infinity;
  /** The latest sample, or −1. */
  latest: Duration = -1;
  /** Timeouts since the last sample. */
  backoff = 0;
  #base: Duration;
  readonly #minRto: Duration;
  readonly #maxRto: Duration;

  /**
   * Starts without a sample.
   *
   * @param initialRto timeout before the first sample (RFC 6298 section 2.1: 1 s)
   * @param minRto floor of the variance term (200 ms, as Linux)
   * @param maxRto ceiling of the timeout (RFC 6298 section 2.5: at least 60 s; 120 s, as Linux)
   */
  constructor(
    initialRto: Duration = SECOND,
    minRto: Duration = 200 * MILLISECOND,
    maxRto: Duration = 120 * SECOND,
  ) {
    this.#base = initialRto;
    this.#minRto = minRto;
    this.#maxRto = maxRto;
  }

  /** The retransmission timeout now, back-off included. */
  get rto(): Duration {
    return Math.min(this.#base * 2 ** Math.min(this.backoff, 30), this.#maxRto);
  }

  /** Takes a sample; false if it is not usable. */
  sample(rtt: Duration): boolean {
    if (!(rtt >= 0) || rtt > this.#maxRto * 4) return false;
    this.latest = rtt;
    if (rtt < this.minRtt) this.minRtt = rtt;
    if (this.srtt === 0) {
      // RFC 6298 section 2.2
      this.srtt = Math.max(1, rtt);
      this.rttvar = rtt / 2;
    } else {
      // RFC 6298 section 2.3: RTTVAR first, with the old SRTT
      this.rttvar = 0.75 * this.rttvar + 0.25 * Math.abs(this.srtt - rtt);
      this.srtt = Math.max(1, 0.875 * this.srtt + 0.125 * rtt);
    }
    this.#base = Math.round(this.srtt + Math.max(this.#minRto, 4 * this.rttvar));
    this.backoff = 0;
    return true;
  }

  /** The timer ran out: double the timeout (RFC 6298 section 5.5). */
  timedOut(): void {
    this.backoff++;
  }

  /** The SYN had to be repeated and gave no sample: begin data with 3 s (RFC 6298 section 5.7). */
  restartAfterSynLoss(): void {
    if (this.srtt !== 0) return;
    this.#base = 3 * SECOND;
    this.backoff = 0;
  }
}
