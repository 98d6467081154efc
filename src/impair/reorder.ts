/**
 * Reordering: a packet goes ahead of all that are being delayed.
 *
 * With a gap of N, N − 1 packets are delayed first; from the N-th on, each goes ahead with the given probability, and
 * the count begins anew when one has. Packets that are lost do not count. The copy of a packet is always delayed.
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import type { Rng } from "../base/rng.ts";
import { CorrelatedDraw } from "./draw.ts";
import type { Impairment, Verdict } from "./impairment.ts";

/** Lets packets go ahead. */
export class Reorder implements Impairment {
  readonly #probability: number;
  readonly #gap: number;
  readonly #draw: CorrelatedDraw;
  #delayed = 0;

  /** Each `gap`-th packet goes ahead with `probability`. */
  constructor(probability: number, correlation: number, gap: number, rng: Rng) {
    this.#probability = probability;
    this.#gap = gap;
    this.#draw = new CorrelatedDraw(rng, correlation);
  }

  /** Sets `ahead`. */
  apply(_p: Packet, verdict: Verdict): void {
    const drawn = this.#draw.next() < this.#probability;
    if (verdict.copies === 0) return;
    if (this.#delayed < this.#gap - 1 || !drawn) {
      this.#delayed = Math.min(this.#delayed + 1, this.#gap);
    } else {
      this.#delayed = 0;
      verdict.ahead = true;
    }
  }
}
