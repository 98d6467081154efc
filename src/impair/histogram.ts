/**
 * A histogram of durations with bounded memory and a bounded relative error.
 *
 * Each power of two is cut into 64 cells, so a value read back errs by at most 1/128 of itself; below 64 ns cells are
 * single nanoseconds. The cells of a power of two are made when the first value falls into it. Values from 0 to 2^48 ns
 * (78 hours) are told apart, longer ones counted as that.
 *
 * @module
 */

import type { Duration } from "../base/time.ts";

const CELLS = 64;
const CELL_BITS = 6;
const OCTAVES = 48 - CELL_BITS + 1;
const LONGEST = 2 ** 48 - 1;
const TWO_31 = 2 ** 31;

/** Durations by size. */
export class DurationHistogram {
  /** Durations counted. */
  count = 0;
  /** The shortest; `Infinity` if there is none. */
  least: Duration = Infinity;
  /** The longest; 0 if there is none. */
  most: Duration = 0;
  #sum = 0;
  #squares = 0;
  readonly #octaves: (Uint32Array | null)[] = new Array<Uint32Array | null>(OCTAVES).fill(null);

  /** Counts `value`, a whole number of ns of at least 0. */
  add(value: Duration): void {
    this.count++;
    this.#sum += value;
    this.#squares += value * value;
    if (value < this.least) this.least = value;
    if (value > this.most) this.most = value;
    let octave = 0;
    let cell = value;
    if (value >= CELLS) {
      let high = value < LONGEST ? value : LONGEST;
      let shift = 0;
      if (high >= TWO_31) {
        high = Math.floor(high / 2 ** 24);
        shift = 24;
      }
      const bits = 31 - Math.clz32(high) - CELL_BITS;
      octave = bits + shift + 1;
      cell = (high >>> bits) & (CELLS - 1);
    }
    const cells = this.#octaves[octave]!;
    if (cells !== null) cells[cell]!++;
    else this.#begin(octave, cell);
  }

  #begin(octave: number, cell: number): void {
    const cells = new Uint32Array(CELLS);
    cells[cell] = 1;
    this.#octaves[octave] = cells;
  }

  /** Mean; NaN if nothing was counted. */
  get mean(): Duration {
    return this.#sum / this.count;
  }

  /** Standard deviation; NaN if nothing was counted. */
  get sd(): Duration {
    const mean = this.mean;
    return Math.sqrt(Math.max(0, this.#squares / this.count - mean * mean));
  }

  /** The value that `share` (0 to 1) of all are at most: the middle of its cell; NaN if nothing was counted. */
  quantile(share: number): Duration {
    if (this.count === 0) return NaN;
    let left = Math.max(1, Math.ceil(Math.min(1, share) * this.count));
    for (let octave = 0; octave < OCTAVES; octave++) {
      const cells = this.#octaves[octave]!;
      if (cells === null) continue;
      for (let cell = 0; cell < CELLS; cell++) {
        left -= cells[cell]!;
        if (left > 0) continue;
        const width = octave === 0 ? 1 : 2 ** (octave - 1);
        const from = octave === 0 ? cell : (CELLS + cell) * width;
        return Math.min(this.most, Math.max(this.least, from + (width - 1) / 2));
      }
    }
    return this.most;
  }
}
