/**
 * Delay with jitter, in whole nanoseconds and never below zero.
 *
 * The copy of a duplicated packet takes its own way: its delay comes from a stream of its own, so that duplication
 * leaves the delays of all other packets as they are.
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import type { Duration } from "../base/time.ts";
import type { NetemDistribution } from "./config.ts";
import { DISTRIBUTION_SCALE, distributionTable } from "./distribution.ts";
import type { RandomRanks } from "./draw.ts";
import type { Impairment, Verdict } from "./impairment.ts";

/** Delays packets. */
export class Delay implements Impairment {
  readonly #ranks: RandomRanks;
  readonly #copyRanks: RandomRanks;
  #delay: Duration = 0;
  #jitter: Duration = 0;
  #table: Int16Array | null = null;

  /** Draws the delays of packets and of their copies. */
  constructor(ranks: RandomRanks, copyRanks: RandomRanks) {
    this.#ranks = ranks;
    this.#copyRanks = copyRanks;
  }

  /** Delays by `delay` and a jitter of that distribution from now on. */
  set(delay: Duration, jitter: Duration, correlation: number, distribution: NetemDistribution): void {
    this.#delay = delay;
    this.#jitter = jitter;
    this.#table = distributionTable(distribution);
    this.#ranks.correlation = correlation;
    this.#copyRanks.correlation = correlation;
  }

  /** Sets the delays of the packet and of its copy, if it has one. */
  apply(_p: Packet, verdict: Verdict): void {
    verdict.delay = this.#draw(this.#ranks);
    if (verdict.copies > 1) verdict.copyDelay = this.#draw(this.#copyRanks);
  }

  #draw(ranks: RandomRanks): Duration {
    const table = this.#table;
    if (table === null) return this.#delay - this.#jitter + ranks.next(2 * this.#jitter);
    const delay = this.#delay + Math.round(this.#jitter * (table[ranks.next(table.length)]! / DISTRIBUTION_SCALE));
    return delay > 0 ? delay : 0;
  }
}
