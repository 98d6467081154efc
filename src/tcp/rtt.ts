/**
 * Round-trip time and retransmission timeout: Van Jacobson's estimator (RFC 6298).
 *
 * Samples come from departure stamps, so time spent waiting for a departure is not in them; segments that were
 * retransmitted give none (Karn), unless timestamps say which copy was acknowledged. A back-off stays until the next
 * sample. A sample that is negative or not finite is ignored: a packet may have left before its stamp.
 *
 * Three models of the timeout:
 *
 * - `linux` (the default): the floor sits in the variance term, RTO = SRTT + max(minRto, 4 × RTTVAR). The deviation counts
 *   by its largest value of the last round trip, comes down slowly, and weighs an eighth when the round trip got shorter. With
 *   a floor on the sum alone a path with steady delays near the floor would time out on the first late packet.
 * - `rfc6298`: RTO = max(minRto, SRTT + max(G, 4 × RTTVAR)); RFC 6298 section 2.4 wants 1 s for minRto.
 * - a fixed timeout, for experiments: samples do not change it.
 *
 * References: RFC 6298; Linux's tcp_rtt_estimator by behaviour; the windowed minimum is that of Kathleen Nichols.
 *
 * @module
 */

import { type Duration, type Instant, MILLISECOND, SECOND } from "../base/time.ts";
import { seqGt } from "../wire/seq.ts";

/** How the timeout is made of the samples. */
export type RtoModel = "linux" | "rfc6298";

/** The models, for messages. */
export const RTO_MODELS: readonly RtoModel[] = ["linux", "rfc6298"];

/** How long a smallest round-trip time counts; as Linux. */
const MIN_RTT_WINDOW: Duration = 300 * SECOND;

/** Clock granularity G of RFC 6298 section 2. */
const GRANULARITY: Duration = MILLISECOND;

/** Smallest value of the last `window`, by the best three of its parts: constant memory. */
export class WindowedMin {
  #window: Duration;
  #at0: Instant = 0;
  #at1: Instant = 0;
  #at2: Instant = 0;
  #value0: number = Infinity;
  #value1: number = Infinity;
  #value2: number = Infinity;

  /** Makes one without values. */
  constructor(window: Duration) {
    this.#window = window;
  }

  /** The smallest value, or `Infinity`. */
  get value(): number {
    return this.#value0;
  }

  /** Takes a value. */
  add(value: number, now: Instant): void {
    if (value <= this.#value0 || now - this.#at2 > this.#window) {
      this.#value0 = this.#value1 = this.#value2 = value;
      this.#at0 = this.#at1 = this.#at2 = now;
      return;
    }
    if (value <= this.#value1) {
      this.#value1 = this.#value2 = value;
      this.#at1 = this.#at2 = now;
    } else if (value <= this.#value2) {
      this.#value2 = value;
      this.#at2 = now;
    }
    const age = now - this.#at0;
    if (age > this.#window) {
      // The best is too old: the next best takes its place.
      this.#value0 = this.#value1;
      this.#at0 = this.#at1;
      this.#value1 = this.#value2;
      this.#at1 = this.#at2;
      this.#value2 = value;
      this.#at2 = now;
      if (now - this.#at0 > this.#window) {
        this.#value0 = this.#value1;
        this.#at0 = this.#at1;
        this.#value1 = this.#value2;
        this.#at1 = this.#at2;
      }
    } else if (this.#at1 === this.#at0 && age > this.#window / 4) {
      this.#value1 = this.#value2 = value;
      this.#at1 = this.#at2 = now;
    } else if (this.#at2 === this.#at1 && age > this.#window / 2) {
      this.#value2 = value;
      this.#at2 = now;
    }
  }
}

/** What an estimator is made with. */
export interface RttSettings {
  /** Timeout before the first sample (RFC 6298 section 2.1: 1 s). */
  readonly initialRto: Duration;
  /** Floor of the variance term, or of the timeout with `rfc6298`. */
  readonly minRto: Duration;
  /** Ceiling of the timeout (RFC 6298 section 2.5: at least 60 s). */
  readonly maxRto: Duration;
  /** How the timeout is made of the samples. */
  readonly rtoModel: RtoModel;
  /** A timeout that samples do not change; 0 for none. */
  readonly fixedRto: Duration;
}

const DEFAULTS: RttSettings = {
  initialRto: SECOND,
  minRto: 200 * MILLISECOND,
  maxRto: 120 * SECOND,
  rtoModel: "linux",
  fixedRto: 0,
};

/** The estimator of one connection. */
export class RttEstimator {
  /** Smoothed round-trip time; 0 before the first sample. */
  srtt: Duration = 0;
  /** Mean deviation of the round-trip time. */
  rttvar: Duration = 0;
  /** The latest sample, or −1. */
  latest: Duration = -1;
  /** Timeouts since the last sample. */
  backoff = 0;
  #base: Duration = 0;
  /** The term added to SRTT (four times a deviation), and the largest deviation of this round trip. */
  #term: Duration = 0;
  #largest: Duration = 0;
  #roundEnd = 0;
  readonly #settings: RttSettings;
  readonly #min: WindowedMin = new WindowedMin(MIN_RTT_WINDOW);

  /** Starts without a sample. */
  constructor(settings: Partial<RttSettings> = {}) {
    // Field by field: what is given may be all options of a host, and is made anew for each connection.
    this.#settings = {
      initialRto: settings.initialRto ?? DEFAULTS.initialRto,
      minRto: settings.minRto ?? DEFAULTS.minRto,
      maxRto: settings.maxRto ?? DEFAULTS.maxRto,
      rtoModel: settings.rtoModel ?? DEFAULTS.rtoModel,
      fixedRto: settings.fixedRto ?? DEFAULTS.fixedRto,
    };
    this.#base = this.#settings.fixedRto > 0 ? this.#settings.fixedRto : this.#settings.initialRto;
  }

  /** The retransmission timeout now, back-off included. */
  get rto(): Duration {
    return Math.min(this.#base * 2 ** Math.min(this.backoff, 30), this.#settings.maxRto);
  }

  /** The smallest sample of the last five minutes, or `Infinity`. */
  get minRtt(): Duration {
    return this.#min.value;
  }

  /**
   * Takes a sample; false if it is not usable.
   *
   * @param sndUna what is acknowledged, and
   * @param sndNxt what was sent: once everything sent when a round trip began is acknowledged the next begins
   * @param mayBeDelayed the peer may have held the acknowledgment back: it does not make the minimum larger
   */
  sample(rtt: Duration, now: Instant, sndUna: number, sndNxt: number, mayBeDelayed = false): boolean {
    const { minRto, maxRto, rtoModel, fixedRto } = this.#settings;
    if (!(rtt >= 0) || rtt > maxRto * 4) return false;
    this.latest = rtt;
    if (!mayBeDelayed || rtt < this.#min.value) this.noteMin(rtt, now);
    this.backoff = 0;
    const first = this.srtt === 0;
    const error = rtt - this.srtt;
    if (first) {
      // RFC 6298 section 2.2
      this.srtt = Math.max(1, rtt);
      this.rttvar = rtt / 2;
    } else {
      // RFC 6298 section 2.3: RTTVAR first, with the old SRTT
      const change = Math.abs(error) - this.rttvar;
      // A round trip that got shorter says little about how long the next may be.
      const gain = rtoModel === "linux" && error < 0 && change > 0 ? 1 / 32 : 0.25;
      this.rttvar += gain * change;
      this.srtt = Math.max(1, this.srtt + error / 8);
    }
    if (rtoModel === "linux") {
      const term = 4 * this.rttvar;
      if (first) {
        this.#largest = this.#term = Math.max(term, minRto);
        this.#roundEnd = sndNxt;
      }
      if (term > this.#largest) {
        this.#largest = term;
        if (term > this.#term) this.#term = term;
      }
      if (seqGt(sndUna, this.#roundEnd)) {
        if (this.#largest < this.#term) this.#term -= (this.#term - this.#largest) / 4;
        this.#roundEnd = sndNxt;
        this.#largest = minRto;
      }
      if (fixedRto === 0) this.#base = Math.round(this.srtt + this.#term);
    } else if (fixedRto === 0) {
      this.#base = Math.round(Math.max(minRto, this.srtt + Math.max(GRANULARITY, 4 * this.rttvar)));
    }
    return true;
  }

  /** Takes a round-trip time that counts for the minimum only. */
  noteMin(rtt: Duration, now: Instant): void {
    if (rtt >= 0) this.#min.add(rtt, now);
  }

  /** What was sent last was answered, although nobody can say after how long: the timeout is not doubled any more. */
  answered(): void {
    this.backoff = 0;
  }

  /** The timer ran out: double the timeout (RFC 6298 section 5.5). */
  timedOut(): void {
    this.backoff++;
  }

  /** The SYN had to be repeated and gave no sample: begin data with 3 s (RFC 6298 section 5.7). */
  restartAfterSynLoss(): void {
    if (this.srtt !== 0 || this.#settings.fixedRto > 0) return;
    this.#base = 3 * SECOND;
    this.backoff = 0;
  }
}
