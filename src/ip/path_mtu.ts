/**
 * What is known of paths that carry less than their first link does (RFC 1191, RFC 8201).
 *
 * A smaller MTU is believed for ten minutes, as in Linux; then the MTU of the link is tried again. IPv4 paths are not
 * believed to carry less than 552 bytes, whatever a router says or leaves out; a "packet too big" with less than 1,280 is
 * ignored (RFC 8201 section 4). Whoever learns of an MTU has checked that the error quotes a packet that was sent.
 *
 * The table has a fixed size, four places to a hash; the one that expires first makes room. TCP keeps its own account by
 * connection and does not ask here.
 *
 * @module
 */

import { hashFinish, hashMix } from "../base/hash.ts";
import { type Duration, type Instant, SECOND } from "../base/time.ts";
import { isV4Words } from "../wire/ip_addr.ts";

/** How long a smaller MTU is believed. */
export const PATH_MTU_TIME: Duration = 600 * SECOND;

/** The least MTU of an IPv4 path that is believed, in bytes (Linux: `min_pmtu`). */
export const PATH_MTU_MIN_V4 = 552;

/** The least MTU of an IPv6 path, in bytes. */
export const PATH_MTU_MIN_V6 = 1280;

const WAYS = 4;

/** Path MTUs by destination. */
export class PathMtus {
  readonly #seed: number;
  readonly #sets: number;
  readonly #words: Int32Array;
  readonly #mtus: Int32Array;
  readonly #expiry: Float64Array;
  #isEmpty = true;

  /** Makes an empty table for `paths` destinations (rounded up to a power of two, default 1,024). */
  constructor(seed: number, paths = 1024) {
    this.#seed = seed;
    this.#sets = 1 << Math.max(0, Math.ceil(Math.log2(paths / WAYS)));
    this.#words = new Int32Array(this.#sets * WAYS * 4);
    this.#mtus = new Int32Array(this.#sets * WAYS);
    this.#expiry = new Float64Array(this.#sets * WAYS);
  }

  /** The MTU of the path to the address of these words, at most `link`, the MTU of its first link in bytes. */
  get(w0: number, w1: number, w2: number, w3: number, link: number, now: Instant): number {
    if (this.#isEmpty) return link;
    const place = this.#find(w0, w1, w2, w3);
    return place >= 0 && this.#expiry[place]! > now ? Math.min(link, this.#mtus[place]!) : link;
  }

  /**
   * Learns that the path to an address carries `mtu` bytes (0 if the router did not say how many).
   *
   * @returns false if that is not believed, or nothing new
   */
  learn(w0: number, w1: number, w2: number, w3: number, mtu: number, now: Instant): boolean {
    const isV4 = isV4Words(w0, w1, w2);
    if (!isV4 && mtu < PATH_MTU_MIN_V6) return false;
    const believed = isV4 ? Math.max(mtu, PATH_MTU_MIN_V4) : mtu;
    let place = this.#find(w0, w1, w2, w3);
    if (place < 0) {
      place = this.#set(w0, w1, w2, w3);
      for (let i = place + 1, end = place + WAYS; i < end; i++) {
        if (this.#expiry[i]! < this.#expiry[place]!) place = i;
      }
      this.#words[place * 4] = w0;
      this.#words[place * 4 + 1] = w1;
      this.#words[place * 4 + 2] = w2;
      this.#words[place * 4 + 3] = w3;
    } else if (this.#expiry[place]! > now && this.#mtus[place]! <= believed) return false;
    this.#mtus[place] = believed;
    this.#expiry[place] = now + PATH_MTU_TIME;
    this.#isEmpty = false;
    return true;
  }

  #set(w0: number, w1: number, w2: number, w3: number): number {
    const hash = hashFinish(hashMix(hashMix(hashMix(hashMix(this.#seed, w3), w2), w1), w0));
    return (hash & (this.#sets - 1)) * WAYS;
  }

  #find(w0: number, w1: number, w2: number, w3: number): number {
    const words = this.#words;
    const first = this.#set(w0, w1, w2, w3);
    for (let i = first; i < first + WAYS; i++) {
      const at = i * 4;
      if (words[at + 3] === w3 && words[at + 2] === w2 && words[at + 1] === w1 && words[at] === w0) return i;
    }
    return -1;
  }
}
