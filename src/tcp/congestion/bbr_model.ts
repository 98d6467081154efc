/**
 * The estimators that BBR's model of the path is made of (draft-ietf-ccwg-bbr sections 5.3.1.2, 5.3.4.3, 5.5.5 and 5.5.10.3).
 *
 * Each is a few numbers and knows nothing of the state machine, which asks and resets them. Rates are bytes per second,
 * volumes bytes.
 *
 * @module
 */

import { type Duration, type Instant, SECOND } from "../../base/time.ts";

/** Part of a short-term estimate that a round with loss leaves at least (BBR.Beta). */
export const BETA = 0.7;

const STARTUP_GROWTH = 1.25;
const STARTUP_ROUNDS = 3;
const MIN_RTT_FILTER: Duration = 10 * SECOND;
const PROBE_RTT_INTERVAL: Duration = 5 * SECOND;

/** The highest delivery rate of the present probing cycle and the one before. */
export class MaxBandwidth {
  /** It; 0 before the first sample. */
  value = 0;
  #cycle = 0;
  #lastCycle = 0;

  /** A sample of the present cycle. */
  update(rate: number): void {
    this.#cycle = Math.max(this.#cycle, rate);
    this.value = Math.max(this.#cycle, this.#lastCycle);
  }

  /** Another cycle begins. One without samples said nothing: the one before is remembered. */
  advance(): void {
    if (this.#cycle === 0) return;
    this.#lastCycle = this.#cycle;
    this.#cycle = 0;
  }
}

/** Tells from three rounds in which the rate grew by less than a quarter that the pipe is full. */
export class FullPipe {
  /** It is, as far as can be told since the last reset (BBR.full_bw_now). */
  isFull = false;
  #rate = 0;
  #rounds = 0;

  /** Starts again, to grow from `rate`. */
  reset(rate = 0): void {
    this.isFull = false;
    this.#rate = rate;
    this.#rounds = 0;
  }

  /** The rate of a round that the application did not limit. */
  onRound(rate: number): void {
    if (this.isFull) return;
    if (rate >= this.#rate * STARTUP_GROWTH) {
      this.reset(rate);
      return;
    }
    this.#rounds++;
    this.isFull = this.#rounds >= STARTUP_ROUNDS;
  }
}

/** The smallest round-trip time of the last ten seconds, looked for anew after five. */
export class MinRtt {
  /** It, or `Infinity`. */
  value: Duration = Infinity;
  /** None as small was seen for five seconds (BBR.probe_rtt_expired). */
  isExpired = false;
  #stamp: Instant = 0;
  #probeDelay: Duration = Infinity;
  #probeStamp: Instant = 0;

  /** Time begins. */
  start(now: Instant): void {
    this.#stamp = now;
    this.#probeStamp = now;
  }

  /** Takes a sample, or −1 for none. */
  update(rtt: Duration, now: Instant): void {
    this.isExpired = now > this.#probeStamp + PROBE_RTT_INTERVAL;
    if (rtt >= 0 && (rtt < this.#probeDelay || this.isExpired)) {
      this.#probeDelay = rtt;
      this.#probeStamp = now;
    }
    if (this.#probeDelay < this.value || now > this.#stamp + MIN_RTT_FILTER) {
      this.value = this.#probeDelay;
      this.#stamp = this.#probeStamp;
    }
  }

  /** It was looked for: the next time is five seconds from now. */
  schedule(now: Instant): void {
    this.#probeStamp = now;
  }
}

/** What the path has delivered of late, and from loss what it can deliver until it is probed again. */
export class ShortTerm {
  /** Rate, or `Infinity` for no bound. */
  bw: number = Infinity;
  /** Volume in flight, or `Infinity` for no bound. */
  inflight: number = Infinity;
  /** The most delivered in a round trip. */
  inflightLatest = 0;
  /** The acknowledgment at hand ends a round. */
  isRoundStart = false;
  /** Something was lost in this round. */
  isLossInRound = false;
  #bwLatest = 0;
  #roundDelivered = 0;

  /** Something was lost when `delivered` bytes were delivered: with the first loss the round begins. */
  noteLoss(delivered: number): void {
    if (!this.isLossInRound) this.#roundDelivered = delivered;
    this.isLossInRound = true;
  }

  /** Near the start of an acknowledgment; `priorDelivered` is −1 without a sample. */
  update(rate: number, sampleDelivered: number, priorDelivered: number, delivered: number): void {
    this.#bwLatest = Math.max(this.#bwLatest, rate);
    this.inflightLatest = Math.max(this.inflightLatest, sampleDelivered);
    this.isRoundStart = priorDelivered >= 0 && priorDelivered >= this.#roundDelivered;
    if (this.isRoundStart) this.#roundDelivered = delivered;
  }

  /** A round ended: if there was loss in it and no probe explains that, what was delivered is the bound. */
  endRound(isProbing: boolean, maxBw: number, cwnd: number): void {
    if (this.isLossInRound && !isProbing) {
      if (this.bw === Infinity) this.bw = maxBw;
      if (this.inflight === Infinity) this.inflight = cwnd;
      this.bw = Math.max(this.#bwLatest, BETA * this.bw);
      this.inflight = Math.max(this.inflightLatest, BETA * this.inflight);
    }
    this.isLossInRound = false;
  }

  /** Near the end of an acknowledgment: another round starts with its sample. */
  advance(rate: number, sampleDelivered: number): void {
    if (!this.isRoundStart) return;
    this.#bwLatest = rate;
    this.inflightLatest = sampleDelivered;
  }

  /** The bounds are gone: the path is about to be probed. */
  resetBounds(): void {
    this.bw = Infinity;
    this.inflight = Infinity;
  }

  /** What was delivered while probing says nothing about the time after. */
  resetSignals(): void {
    this.isLossInRound = false;
    this.#bwLatest = 0;
    this.inflightLatest = 0;
  }
}
