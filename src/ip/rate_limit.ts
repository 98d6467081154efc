/**
 * How many ICMP errors may be sent (RFC 1812 section 4.3.2.8, RFC 4443 section 2.4 f), with Linux's figures: 1,000 a second
 * with a burst of 50 for all, and one a second with a burst of 6 for each destination. "Fragmentation needed" and "packet too
 * big" are not counted: without them path MTU discovery fails.
 *
 * Each bucket is one number, the instant at which it would be full of debt ("theoretical arrival time", as in the
 * generic cell rate algorithm): a bucket of `burst` tokens that refills at one each `interval` has a token as long as
 * that instant is less than `burst` intervals ahead.
 *
 * Destinations are remembered in a memory of fixed size (destination_cache.ts); the one that refilled first makes room. Whoever
 * loses its place so starts with a full bucket, which the bucket for all bounds.
 *
 * An error takes 0, 1 or 2 tokens from the bucket for all, at random: whoever counts what is left of it learns nothing about
 * what others got (as Linux since 5.10, against "SAD DNS").
 *
 * @module
 */

import { hashFinish, hashMix } from "../base/hash.ts";
import { type Duration, type Instant, MILLISECOND, SECOND } from "../base/time.ts";
import { DestinationCache } from "./destination_cache.ts";

const GLOBAL_INTERVAL: Duration = MILLISECOND;
const GLOBAL_BURST = 50;
const DESTINATION_INTERVAL: Duration = SECOND;
const DESTINATION_BURST = 6;

/** The budget for ICMP errors. */
export class IcmpRateLimit {
  /** The time of a place is when its bucket is full. */
  readonly #destinations: DestinationCache;
  #globalAt: Instant = 0;
  #random: number;

  /** Makes a limiter that remembers `destinations` (rounded up to a power of two, default 1,024). */
  constructor(seed: number, destinations = 1024) {
    this.#random = hashFinish(seed ^ 0x5bd1e995);
    this.#destinations = new DestinationCache(seed, destinations);
  }

  /**
   * Asks for one error to the address of these words.
   *
   * @returns true if it may be sent, and then counts it; a refusal costs nothing
   */
  take(w0: number, w1: number, w2: number, w3: number, now: Instant): boolean {
    if (this.#globalAt - now > (GLOBAL_BURST - 1) * GLOBAL_INTERVAL) return false;
    if (!this.#takeDestination(w0, w1, w2, w3, now)) return false;
    this.#random = hashMix(this.#random, 1);
    const tokens = (hashFinish(this.#random) >>> 0) % 3;
    this.#globalAt = Math.max(this.#globalAt, now) + tokens * GLOBAL_INTERVAL;
    return true;
  }

  #takeDestination(w0: number, w1: number, w2: number, w3: number, now: Instant): boolean {
    const { times } = this.#destinations;
    const place = this.#destinations.take(w0, w1, w2, w3);
    const fullAt = times[place]!;
    if (fullAt - now > (DESTINATION_BURST - 1) * DESTINATION_INTERVAL) return false;
    times[place] = Math.max(fullAt, now) + DESTINATION_INTERVAL;
    return true;
  }
}
