/**
 * Random draws that remember the one before.
 *
 * With probability `correlation` a draw repeats the last one, otherwise it is fresh. So every draw is uniform on
 * [0, 1), and two draws that are `k` apart have a correlation of exactly `correlation` to the power of `k`; the same
 * holds for every decision made by comparing draws with a threshold (there it is the two-state Markov chain with that
 * marginal and correlation).
 *
 * @module
 */

import type { Rng } from "../base/rng.ts";

/** A stream of uniform numbers with a correlation from each to the next. */
export class CorrelatedDraw {
  readonly #rng: Rng;
  readonly #correlation: number;
  #last: number;

  /** Draws from `rng`, which nobody else may use; `correlation` is from 0 to below 1. */
  constructor(rng: Rng, correlation: number) {
    this.#rng = rng;
    this.#correlation = correlation;
    this.#last = rng.unit();
  }

  /** The next number in [0, 1). */
  next(): number {
    if (this.#correlation === 0 || this.#rng.unit() >= this.#correlation) this.#last = this.#rng.unit();
    return this.#last;
  }
}
