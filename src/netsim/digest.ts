/**
 * A fingerprint of everything that happened in a simulation: two runs with the same digest went the same way, packet by
 * packet and byte by byte.
 *
 * Two 32-bit mixes, the second one fed with the state of the first, make 64 bits. Not for secrets.
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
    let at = p.start;
    for (; at + 4 <= p.end; at += 4) this.word(p.view.getInt32(at));
    for (; at < p.end; at++) this.word(p.view.getUint8(at));
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
