/**
 * Loss at random, or a congestion mark in its place.
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import type { Rng } from "../base/rng.ts";
import { markCe } from "../wire/ip_header.ts";
import { CorrelatedDraw } from "./draw.ts";
import type { Impairment, Verdict } from "./impairment.ts";

/** Loses packets. */
export class Loss implements Impairment {
  readonly #probability: number;
  readonly #ecn: boolean;
  readonly #draw: CorrelatedDraw;

  /** Loses with `probability`; with `ecn` it marks packets that can be marked instead. */
  constructor(probability: number, correlation: number, ecn: boolean, rng: Rng) {
    this.#probability = probability;
    this.#ecn = ecn;
    this.#draw = new CorrelatedDraw(rng, correlation);
  }

  /** Takes one copy away, so that a packet both duplicated and lost arrives once; or marks it. */
  apply(p: Packet, verdict: Verdict): void {
    if (this.#draw.next() >= this.#probability) return;
    if (this.#ecn && markCe(p.view, p.start, p.end)) verdict.marked = true;
    else verdict.copies--;
  }
}
