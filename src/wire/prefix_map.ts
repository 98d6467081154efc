/**
 * A map from prefixes, looked up by address: for where there are few lengths of prefix, and look-ups are rare. Making it is
 * cheaper than making a trie of routes.
 *
 * A hash table for each length in use; a look-up tries the longest first.
 *
 * @module
 */

import { hashAddress } from "../base/hash.ts";
import { HashTable } from "../base/hash_table.ts";
import { type IpPrefix, isV4Words, prefixMask } from "./ip_addr.ts";

interface Entry<T> {
  readonly prefix: IpPrefix;
  readonly value: T;
}

/** The prefixes of one family and length. */
class Length<T> {
  readonly isV4: boolean;
  readonly bits: number;
  readonly entries = new HashTable<Entry<T>>();

  constructor(isV4: boolean, bits: number) {
    this.isV4 = isV4;
    this.bits = bits;
  }
}

/** A map from prefixes of both families, looked up by address. */
export class PrefixMap<T> {
  readonly #seed: number;
  /** The longest first. */
  readonly #lengths: Length<T>[] = [];

  /** Makes an empty map, with the seed of its hash. */
  constructor(seed: number) {
    this.#seed = seed;
  }

  /** True if it is empty. */
  get isEmpty(): boolean {
    return this.#lengths.length === 0;
  }

  /** Adds a prefix; of equal ones that which was added last is found. */
  add(prefix: IpPrefix, value: T): void {
    const { isV4, w0, w1, w2, w3 } = prefix.address;
    let length = this.#lengths.find((l) => l.isV4 === isV4 && l.bits === prefix.length);
    if (length === undefined) {
      length = new Length<T>(isV4, prefix.length);
      this.#lengths.push(length);
      this.#lengths.sort((a, b) => b.bits - a.bits);
    }
    length.entries.insert(this.#hash(w0, w1, w2, w3), { prefix, value });
  }

  /** What is under the longest prefix that holds the address of these words, or `null`. */
  find(w0: number, w1: number, w2: number, w3: number): T | null {
    const isV4 = isV4Words(w0, w1, w2);
    for (const { isV4: lengthIsV4, bits, entries } of this.#lengths) {
      if (lengthIsV4 !== isV4) continue;
      const n = isV4 ? 96 + bits : bits;
      const hash = this.#hash(
        w0 & prefixMask(n, 0),
        w1 & prefixMask(n, 1),
        w2 & prefixMask(n, 2),
        w3 & prefixMask(n, 3),
      );
      for (let i = entries.first(hash); i >= 0; i = entries.following(i)) {
        const { prefix, value } = entries.at(i);
        if (prefix.containsWords(w0, w1, w2, w3)) return value;
      }
    }
    return null;
  }

  #hash(w0: number, w1: number, w2: number, w3: number): number {
    return hashAddress(this.#seed, w0, w1, w2, w3);
  }
}
