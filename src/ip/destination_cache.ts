/**
 * What is remembered for a while of many destinations (RFC 4861 section 5.1: Destination Cache), in memory of a fixed size.
 *
 * An address has four places to choose from, by a seeded hash, so that nobody outside can choose addresses that fight for
 * the same ones. With each place goes a time, which its owner gives a meaning; when an address is new and all four are
 * taken, the one with the earliest time makes room. Nothing is allocated after the start.
 *
 * The owner keeps what else there is to remember in arrays of its own, by place.
 *
 * @module
 */

import { hashAddress } from "../base/hash.ts";

const WAYS = 4;

/** A fixed number of places for addresses. */
export class DestinationCache {
  /** How many places there are. */
  readonly places: number;
  /** The time of each place; 0 if nothing is there. */
  readonly times: Float64Array<ArrayBuffer>;
  readonly #seed: number;
  readonly #words: Int32Array<ArrayBuffer>;

  /** Makes an empty one with room for `addresses` (rounded up to a power of two, at least four). */
  constructor(seed: number, addresses: number) {
    this.#seed = seed;
    this.places = Math.max(WAYS, 2 ** Math.ceil(Math.log2(addresses)));
    this.times = new Float64Array(this.places);
    this.#words = new Int32Array(this.places * 4);
  }

  /** The place of an address, or −1. Whether what is there still counts is for the owner to say, by its time. */
  find(w0: number, w1: number, w2: number, w3: number): number {
    const words = this.#words;
    const first = this.#first(w0, w1, w2, w3);
    for (let place = first; place < first + WAYS; place++) {
      const at = place * 4;
      if (words[at + 3] === w3 && words[at + 2] === w2 && words[at + 1] === w1 && words[at] === w0) return place;
    }
    return -1;
  }

  /** The place of an address; one with the time 0 if it had none. */
  take(w0: number, w1: number, w2: number, w3: number): number {
    const found = this.find(w0, w1, w2, w3);
    if (found >= 0) return found;
    const { times } = this;
    let place = this.#first(w0, w1, w2, w3);
    for (let i = place + 1, end = place + WAYS; i < end; i++) if (times[i]! < times[place]!) place = i;
    const at = place * 4;
    this.#words[at] = w0;
    this.#words[at + 1] = w1;
    this.#words[at + 2] = w2;
    this.#words[at + 3] = w3;
    times[place] = 0;
    return place;
  }

  #first(w0: number, w1: number, w2: number, w3: number): number {
    return hashAddress(this.#seed, w0, w1, w2, w3) & (this.places - WAYS);
  }
}
