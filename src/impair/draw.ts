/**
 * Random draws that remember the one before: whether something happens, and ranks from 0 to below 1.
 *
 * The memory is a stationary series of standard normal numbers, each of them `ρ` times the last plus fresh noise, of
 * which only the rank is used (a Gaussian copula). So a rank is uniform whatever the correlation is, and whatever is made
 * of it keeps its distribution. `ρ` is chosen so that what the user can see has exactly the correlation asked for: the
 * decisions of neighbouring packets in {@linkcode RandomChance}, their ranks in {@linkcode RandomRanks}.
 *
 * Without a correlation each draw takes one number of the stream and nothing is remembered. Changing a probability or a
 * correlation goes on in the same stream.
 *
 * @module
 */

import type { Rng } from "../base/rng.ts";
import { normalCorrelationOfDecisions, normalCorrelationOfRanks, normalQuantile, rankOf } from "./normal.ts";

/** Decides again and again whether something happens. */
export interface Chance {
  /** From now on it happens with `probability` (0 to 1), neighbouring decisions having `correlation` (0 to below 1). */
  set(probability: number, correlation: number): void;
  /** Whether it happens this time. */
  happens(): boolean;
}

/** Uniform numbers from 0 to below 1; an `Rng` is one. */
export interface UniformSource {
  /** The next number. */
  unit(): number;
}

/**
 * Standard normal numbers, each with a correlation to the one before. They stay in fields: a fraction that is returned
 * by a call that the engine does not inline is allocated.
 */
class NormalSeries {
  /** The last number. */
  value = NaN;
  readonly #rng: Rng;
  #rho = 0;
  #noise = 1;
  #fresh = 0;
  #spare = NaN;

  constructor(rng: Rng) {
    this.#rng = rng;
  }

  set rho(rho: number) {
    this.#rho = rho;
    this.#noise = Math.sqrt(1 - rho * rho);
  }

  /** Goes on to the next number. */
  step(): void {
    const last = this.value;
    const spare = this.#spare;
    if (spare === spare) {
      this.#fresh = spare;
      this.#spare = NaN;
    } else {
      this.#draw();
    }
    this.value = last === last ? this.#rho * last + this.#noise * this.#fresh : this.#fresh;
  }

  /** Marsaglia's polar method: two numbers at a time. */
  #draw(): void {
    for (;;) {
      const x = 2 * this.#rng.unit() - 1;
      const y = 2 * this.#rng.unit() - 1;
      const s = x * x + y * y;
      if (s >= 1 || s === 0) continue;
      const scale = Math.sqrt(-2 * Math.log(s) / s);
      this.#fresh = x * scale;
      this.#spare = y * scale;
      return;
    }
  }
}

/** Decisions that keep their probability, and have exactly the correlation asked for. */
export class RandomChance implements Chance {
  readonly #rng: Rng;
  readonly #series: NormalSeries;
  #probability = 0;
  #correlation = 0;
  #threshold = -Infinity;

  /** Draws from `rng`, which nobody else may use. */
  constructor(rng: Rng) {
    this.#rng = rng;
    this.#series = new NormalSeries(rng);
  }

  /** Sets both. */
  set(probability: number, correlation: number): void {
    if (correlation !== 0 && (probability !== this.#probability || correlation !== this.#correlation)) {
      this.#series.rho = normalCorrelationOfDecisions(probability, correlation);
      this.#threshold = normalQuantile(probability);
    }
    this.#probability = probability;
    this.#correlation = correlation;
  }

  /** Draws once, whatever the probability is. */
  happens(): boolean {
    if (this.#correlation === 0) return this.#rng.unit() < this.#probability;
    this.#series.step();
    return this.#series.value < this.#threshold;
  }
}

/** Ranks that are uniform, and have exactly the correlation asked for. */
export class RandomRanks {
  readonly #rng: Rng;
  readonly #series: NormalSeries;
  #correlation = 0;

  /** Draws from `rng`, which nobody else may use. */
  constructor(rng: Rng) {
    this.#rng = rng;
    this.#series = new NormalSeries(rng);
  }

  /** Neighbouring ranks have `correlation` (0 to below 1) from now on. */
  set correlation(correlation: number) {
    this.#correlation = correlation;
    this.#series.rho = normalCorrelationOfRanks(correlation);
  }

  /** The next rank in `n` equal steps: an integer from 0 to n − 1. */
  next(n: number): number {
    if (this.#correlation === 0) return Math.floor(this.#rng.unit() * n);
    this.#series.step();
    return Math.floor(rankOf(this.#series.value) * n);
  }
}
