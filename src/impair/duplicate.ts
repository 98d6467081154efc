/**
 * Duplication at random.
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import type { Chance } from "./draw.ts";
import type { Impairment, Verdict } from "./impairment.ts";

/** Makes packets arrive twice. */
export class Duplicate implements Impairment {
  readonly #chance: Chance;

  /** Duplicates when `chance` says so. */
  constructor(chance: Chance) {
    this.#chance = chance;
  }

  /** Adds a copy. */
  apply(_p: Packet, verdict: Verdict): void {
    if (this.#chance.happens()) verdict.copies++;
  }
}
