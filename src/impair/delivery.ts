/**
 * Replay of recorded deliveries, as Mahimahi's link does it.
 *
 * Each opportunity carries 1,504 bytes: the end of a packet begun before, and whole packets or the beginning of another
 * one that came earlier than the opportunity. What nobody uses is wasted. When the last opportunity has passed the
 * recording begins anew, its times then counting from there.
 *
 * References: R. Netravali et al., Mahimahi: Accurate Record-and-Replay for HTTP, USENIX ATC 2015; mm-link(1).
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import { type Duration, type Instant, MILLISECOND } from "../base/time.ts";
import type { NetemDelivery } from "./config.ts";
import type { Transmitter } from "./rate.ts";

/** What one opportunity carries. */
export const OPPORTUNITY_BYTES = 1504;

/** Plays a recording. */
export class DeliveryPlayer implements Transmitter {
  /** When the last packet has been delivered. */
  freeAt: Instant = -1;
  readonly #times: Float64Array;
  readonly #period: Duration;
  /** When the period of the current opportunity began. */
  #origin: Instant;
  /** The current opportunity, and when it is. */
  #index = -1;
  #at: Instant = -1;
  #leftBytes = 0;

  /** Begins at `origin`. */
  constructor(delivery: NetemDelivery, origin: Instant) {
    this.#times = Float64Array.from(delivery.opportunities, (ms) => ms * MILLISECOND);
    this.#period = this.#times.at(-1)!;
    this.#origin = origin;
  }

  /** Rate that the recording has on average, in bytes per second. */
  static meanRate({ opportunities }: NetemDelivery): number {
    return opportunities.length * OPPORTUNITY_BYTES / (opportunities.at(-1)! / 1000);
  }

  /** Delivers `p`. */
  transmit(p: Packet): void {
    if (this.#leftBytes === 0 || this.#at <= p.readyAt || this.#at < this.freeAt) {
      this.#goBeyond(Math.max(p.readyAt, this.freeAt - 1));
    }
    let bytes = p.length;
    while (bytes > this.#leftBytes) {
      bytes -= this.#leftBytes;
      this.#goOn();
    }
    this.#leftBytes -= bytes;
    p.releaseAt = this.#at;
    this.freeAt = this.#at;
  }

  #goOn(): void {
    if (++this.#index === this.#times.length) {
      this.#index = 0;
      this.#origin += this.#period;
    }
    this.#at = this.#origin + this.#times[this.#index]!;
    this.#leftBytes = OPPORTUNITY_BYTES;
  }

  /** Goes on to the first opportunity that is later than `at`. */
  #goBeyond(at: Instant): void {
    this.#goOn();
    if (this.#at > at) return;
    const periods = Math.floor((at - this.#origin) / this.#period);
    if (periods > 0) {
      this.#origin += periods * this.#period;
      this.#index = 0;
    }
    let [low, high] = [this.#index, this.#times.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#origin + this.#times[middle]! > at) high = middle;
      else low = middle + 1;
    }
    this.#index = low - 1;
    this.#goOn();
  }
}
