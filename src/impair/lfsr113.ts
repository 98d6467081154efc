/**
 * The random numbers of Linux's netem: the combined Tausworthe generator LFSR113, seeded as the kernel does it.
 *
 * Only for `compat linux`. Four registers are stepped and added without carry; the masks leave out the low bits that the
 * recurrences do not use.
 *
 * References: P. L'Ecuyer, Tables of maximally equidistributed combined LFSR generators, Mathematics of Computation 68
 * (1999); net/sched/sch_netem.c since 6.5 for the seed.
 *
 * @module
 */

import type { UniformSource } from "./draw.ts";

const TWO_32 = 2 ** 32;

/** A register may not begin below this. */
const MINIMA = [2, 8, 16, 128] as const;

function beginning(word: number, least: number): number {
  return (word >>> 0) < least ? (word + least) | 0 : word | 0;
}

/** One stream of 32-bit numbers. */
export class Lfsr113 implements UniformSource {
  #a: number;
  #b: number;
  #c: number;
  #d: number;

  /** Begins with `seed`, an integer from 0 to 2^53 − 1 (the kernel takes 64 bits). */
  constructor(seed: number) {
    const low = seed | 0;
    const high = Math.floor(seed / TWO_32) | 0;
    // The low 32 bits of (S >> 32) ^ (S << 10) ^ S.
    const word = high ^ (low << 10) ^ low;
    this.#a = beginning(word, MINIMA[0]);
    this.#b = beginning(word, MINIMA[1]);
    this.#c = beginning(word, MINIMA[2]);
    this.#d = beginning(word, MINIMA[3]);
  }

  /** The next number from 0 to 2^32 − 1. */
  u32(): number {
    this.#a = ((this.#a & -2) << 18) ^ (((this.#a << 6) ^ this.#a) >>> 13);
    this.#b = ((this.#b & -8) << 2) ^ (((this.#b << 2) ^ this.#b) >>> 27);
    this.#c = ((this.#c & -16) << 7) ^ (((this.#c << 13) ^ this.#c) >>> 21);
    this.#d = ((this.#d & -128) << 13) ^ (((this.#d << 3) ^ this.#d) >>> 12);
    return (this.#a ^ this.#b ^ this.#c ^ this.#d) >>> 0;
  }

  /** The next number as a fraction of 2^32. */
  unit(): number {
    return this.u32() / TWO_32;
  }
}
