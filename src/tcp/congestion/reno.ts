/**
 * Reno: slow start, congestion avoidance and halving (RFC 5681), counting acknowledged bytes (RFC 3465).
 *
 * Below `ssthresh` the window grows by the bytes acknowledged; above it by one segment for each window acknowledged. It
 * grows only while it is what holds the sender back. Loss halves the bytes in flight; a timeout begins again with one
 * segment.
 *
 * Not here: which segment is lost (recovery.ts) and the inflation of the window by duplicate acknowledgments, which is
 * done by counting them out of the bytes in flight.
 *
 * @module
 */

import type { Duration, Instant } from "../../base/time.ts";
import {
  type AckSample,
  type CongestionControl,
  type CongestionSettings,
  CongestionSignal,
  initialWindow,
} from "./control.ts";

/** The Reno congestion control. */
export class Reno implements CongestionControl {
  readonly name: string = "reno";
  readonly pacingRateBytesPerSec: number = 0;
  readonly ownsRecovery: boolean = false;
  readonly why: string = "";
  cwnd: number;
  ssthresh: number = Infinity;
  #mss: number;
  #initialCwnd: number;
  #ackedBytes = 0;
  #priorCwnd = 0;
  #priorSsthresh: number = Infinity;

  /** Starts with the initial window of the settings. */
  constructor(settings: CongestionSettings) {
    this.#initialCwnd = settings.initialCwndSegments;
    this.#mss = settings.mssBytes;
    this.cwnd = this.#initial();
  }

  onSent(): void {}

  onAck(sample: AckSample): void {
    if (!sample.isCwndLimited) return;
    let acked = sample.ackedBytes;
    if (this.cwnd < this.ssthresh) {
      // Slow start; what goes beyond ssthresh counts for congestion avoidance.
      const grown = Math.min(this.cwnd + acked, this.ssthresh);
      acked -= grown - this.cwnd;
      this.cwnd = grown;
      if (acked <= 0) return;
    }
    this.#ackedBytes += acked;
    while (this.#ackedBytes >= this.cwnd) {
      this.#ackedBytes -= this.cwnd;
      this.cwnd += this.#mss;
    }
  }

  onCongestion(signal: CongestionSignal, sample: AckSample): void {
    this.#ackedBytes = 0;
    if (signal === CongestionSignal.TimeoutAgain) {
      this.cwnd = this.#mss;
      return;
    }
    this.#priorCwnd = this.cwnd;
    this.#priorSsthresh = this.ssthresh;
    // RFC 5681 equation 4: half of FlightSize, at least two segments.
    this.ssthresh = Math.max(Math.floor(sample.priorInFlightBytes / 2), 2 * this.#mss);
    this.cwnd = signal === CongestionSignal.Timeout ? this.#mss : this.ssthresh;
  }

  onRecovered(sample: AckSample): void {
    // RFC 6582 section 3.2 step 3, full acknowledgment, option 1: no burst if little is in flight.
    this.cwnd = Math.min(this.ssthresh, Math.max(sample.inFlightBytes, this.#mss) + this.#mss);
  }

  onSpurious(): void {
    this.cwnd = Math.max(this.cwnd, this.#priorCwnd);
    this.ssthresh = Math.max(this.ssthresh, this.#priorSsthresh);
  }

  onIdle(_now: Instant, idle: Duration, rto: Duration): void {
    // RFC 5681 section 4.1 restart, with the decay of RFC 2861: halve for each RTO of idleness.
    const restart = Math.min(this.#initial(), this.cwnd);
    if (this.ssthresh !== Infinity) this.ssthresh = Math.max(this.ssthresh, Math.floor(0.75 * this.cwnd));
    for (let left = idle; left > rto && this.cwnd > restart; left -= rto) this.cwnd = Math.floor(this.cwnd / 2);
    this.cwnd = Math.max(this.cwnd, restart);
  }

  onMss(mssBytes: number): void {
    this.#mss = mssBytes;
    this.cwnd = this.#initial();
  }

  #initial(): number {
    return this.#initialCwnd > 0 ? this.#initialCwnd * this.#mss : initialWindow(this.#mss);
  }
}
