/**
 * Duplication at random.
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import type { Rng } from "../base/rng.ts";
import { CorrelatedDraw } from "./draw.ts";
import type { Impairment, Verdict } from "./impairment.ts";

/** Makes packets arrive twice. */
export class Duplicate implements Impairment {
  readonly #probability: number;
  readonly #draw: CorrelatedDraw;

  /** Duplicates with `probability`. */
  constructor(probability: number, correlation: number, rng: Rng) {
    this.#probability = probability;
    this.#draw = new CorrelatedDraw(rng, correlation);
  }

  /** Adds a copy. */
  apply(_p: Packet, verdict: Verdict): void {
    if (this.#draw.next() < this.#probability) verdict.copies++;
  }
}
