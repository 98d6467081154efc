/**
 * Corruption at random: one bit of a packet is flipped.
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import type { Rng } from "../base/rng.ts";
import { CorrelatedDraw } from "./draw.ts";
import type { Impairment, Verdict } from "./impairment.ts";

/** Flips bits. */
export class Corrupt implements Impairment {
  readonly #probability: number;
  readonly #draw: CorrelatedDraw;
  readonly #bits: Rng;

  /** Corrupts with `probability`. */
  constructor(probability: number, correlation: number, rng: Rng) {
    this.#probability = probability;
    this.#draw = new CorrelatedDraw(rng, correlation);
    this.#bits = rng.fork("bit");
  }

  /** Chooses the bit, all bits of the live range being equally likely; the stage flips it once the copy is made. */
  apply(p: Packet, verdict: Verdict): void {
    if (this.#draw.next() < this.#probability && p.length > 0) verdict.corruptBit = this.#bits.below(p.length * 8);
  }
}
