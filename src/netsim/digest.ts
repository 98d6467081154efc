/**
 * A fingerprint of everything that happened in a simulation: two runs with the same digest went the same way, packet by
 * packet and byte by byte.
 *
 * Two 32-bit mixes, the second one fed with the state of the first, make 64 bits. The bytes of a packet go through four
 * mixes side by side, whose results are then events themselves: one mix would wait for itself at every word. Not for
 * secrets.
 *
 * @module
 */

import { hashFinish, hashMix } from "../base/hash.ts";
import type { Packet } from "../base/packet.ts";
import type { Instant } from "../base/time.ts";

/** A running 64-bit hash of events. */
export class EventDigest {
  #high = 0x243f6a88;
  #low = 0x05a308d3;

  /** Adds a 32-bit word. */
  word(word: number): void {
    this.#high = hashMix(this.#high, word);
    this.#low = hashMix(this.#low, word ^ this.#high);
  }

  /** Adds a time. */
  time(time: Instant): void {
    this.word(time | 0);
    this.word(Math.floor(time / 2 ** 32));
  }

  /** Adds the length and the bytes of a packet. */
  bytes(p: Packet): void {
    this.word(p.length);
    const { view, end } = p;
    let at = p.start;
    let a = 1;
    let b = 2;
    let c = 3;
    let d = 4;
    for (const end16 = end - 15; at < end16; at += 16) {
      a = hashMix(a, view.getInt32(at));
      b = hashMix(b, view.getInt32(at + 4));
      c = hashMix(c, view.getInt32(at + 8));
      d = hashMix(d, view.getInt32(at + 12));
    }
    for (; at + 4 <= end; at += 4) a = hashMix(a, view.getInt32(at));
    for (; at < end; at++) a = hashMix(a, view.getUint8(at));
    this.word(a);
    this.word(b);
    this.word(c);
    this.word(d);
  }

  /** The digest so far, as 16 hexadecimal digits. */
  toString(): string {
    const hex = (hash: number) => (hashFinish(hash) >>> 0).toString(16).padStart(8, "0");
    return hex(this.#high) + hex(this.#low);
  }
}

/** Hash of a name, for a digest. */
export function hashName(name: string): number {
  let hash = name.length;
  for (let i = 0; i < name.length; i++) hash = hashMix(hash, name.charCodeAt(i));
  return hashFinish(hash);
}
