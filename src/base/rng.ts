/**
 * Seeded random numbers that can be forked by name.
 *
 * A stream depends on the seed and on the path of labels that led to it, and on nothing else: forking never draws
 * from the parent, so adding a consumer leaves the streams of all others unchanged. The generator is xoshiro128**
 * (Blackman and Vigna); its state is filled by a 32-bit mixer from a hash of seed and path. Not for secrets.
 *
 * @module
 */

import { hashFinish, hashMix } from "./hash.ts";

/** A stream of random numbers. */
export class Rng {
  /** The seed that the whole tree of streams comes from. */
  readonly seed: number;
  /** The labels that led to this stream, joined by `/`. */
  readonly path: string;
  #a: number;
  #b: number;
  #c: number;
  #d: number;

  /**
   * Makes the stream of a seed.
   *
   * @param seed any integer up to 2^53 in size
   * @param path the labels that led here; users call {@linkcode Rng.fork} instead
   */
  constructor(seed: number, path = "") {
    if (!Number.isSafeInteger(seed)) throw new RangeError(`seed must be a safe integer, got ${seed}`);
    this.seed = seed;
    this.path = path;
    let key = hashMix(hashMix(0x9e3779b9 | 0, seed | 0), Math.floor(seed / 2 ** 32) | 0);
    for (let i = 0; i < path.length; i++) key = hashMix(key, path.charCodeAt(i));
    this.#a = hashFinish(hashMix(key, 1));
    this.#b = hashFinish(hashMix(key, 2));
    this.#c = hashFinish(hashMix(key, 3));
    this.#d = hashFinish(hashMix(key, 4)) | 1;
    for (let i = 0; i < 8; i++) this.u32();
  }

  /** The independent stream of the same seed under `label`; `fork("a/b")` is `fork("a").fork("b")`. */
  fork(label: string): Rng {
    return new Rng(this.seed, `${this.path}/${label}`);
  }

  /** The next number in 0 … 2^32 − 1. */
  u32(): number {
    return this.#int32() >>> 0;
  }

  /** The next number as int32, which the engine never has to allocate. */
  #int32(): number {
    const x = Math.imul(this.#b, 5);
    const result = Math.imul((x << 7) | (x >>> 25), 9);
    const t = this.#b << 9;
    this.#c ^= this.#a;
    this.#d ^= this.#b;
    this.#b ^= this.#c;
    this.#a ^= this.#d;
    this.#c ^= t;
    this.#d = (this.#d << 11) | (this.#d >>> 21);
    return result;
  }

  /** The next number in [0, 1), with 53 random bits. */
  unit(): number {
    return ((this.#int32() >>> 5) * 67108864 + (this.#int32() >>> 6)) / 9007199254740992;
  }

  /** The next integer in 0 … n − 1, without bias worth speaking of (n at most 2^32). */
  below(n: number): number {
    return Math.floor(this.unit() * n);
  }

  /** True with probability `p`; draws exactly once, whatever `p` is. */
  chance(p: number): boolean {
    return this.unit() < p;
  }
}
