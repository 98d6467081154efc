/**
 * Corruption at random: one bit of a packet is flipped.
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import type { Rng } from "../base/rng.ts";
import type { Chance } from "./draw.ts";
import type { Impairment, Verdict } from "./impairment.ts";

/** Flips bits. */
export class Corrupt implements Impairment {
  readonly #chance: Chance;
  readonly #bits: Rng;

  /** Corrupts when `chance` says so; `bits` says where. */
  constructor(chance: Chance, bits: Rng) {
    this.#chance = chance;
    this.#bits = bits;
  }

  /** Chooses the bit, all bits of the live range being equally likely; the stage flips it once the copy is made. */
  apply(p: Packet, verdict: Verdict): void {
    if (this.#chance.happens() && p.length > 0) verdict.corruptBit = this.#bits.below(p.length * 8);
  }
}
