/**
 * Reordering: a packet goes ahead of all that are being delayed.
 *
 * With a gap of N, N − 1 packets are delayed first; from the N-th on, each goes ahead with the given probability, and
 * the count begins anew when one has. Packets that are lost do not count. The copy of a packet is always delayed.
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import type { Chance } from "./draw.ts";
import type { Impairment, Verdict } from "./impairment.ts";

/** Lets packets go ahead. */
export class Reorder implements Impairment {
  /** Each `gap`-th packet may go ahead. */
  gap = 1;
  readonly #chance: Chance;
  #delayed = 0;

  /** Lets packets go ahead when `chance` says so. */
  constructor(chance: Chance) {
    this.#chance = chance;
  }

  /** Sets `ahead`. */
  apply(_p: Packet, verdict: Verdict): void {
    const drawn = this.#chance.happens();
    if (verdict.copies === 0) return;
    if (this.#delayed < this.gap - 1 || !drawn) {
      this.#delayed = Math.min(this.#delayed + 1, this.gap);
    } else {
      this.#delayed = 0;
      verdict.ahead = true;
    }
  }
}
