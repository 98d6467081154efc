/**
 * Slots: a link that is granted from time to time, and then carries what has come by then.
 *
 * A packet that is due by the time at which a slot opens leaves in it, at once, until the slot has had its packets or its
 * bytes (the last packet may exceed them); the next slot is then counted from the opening of that one. A packet that is
 * due later finds the slot gone and asks for another, counted from when the packet is due. So the times of the slots
 * follow from the packets and the draws alone. Linux counts from the moment in which it happens to look; `compat linux`
 * does too.
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import { type Duration, type Instant, NEVER } from "../base/time.ts";
import type { NetemSlot } from "./config.ts";
import { DISTRIBUTION_SCALE, distributionTable } from "./distribution.ts";
import type { UniformSource } from "./draw.ts";

/** The slots of a link. */
export class Slots {
  /** When the current slot opens, or has opened; −1 before the first. */
  at: Instant = -1;
  readonly #slot: NetemSlot;
  readonly #table: Int16Array | null;
  readonly #rng: UniformSource;
  #packets = 0;
  #bytes = 0;

  /** Draws from `rng`, which nobody else may use. */
  constructor(slot: NetemSlot, rng: UniformSource) {
    this.#slot = slot;
    this.#rng = rng;
    this.#table = slot.distribution === null ? null : distributionTable(slot.distribution);
  }

  /** Asks for another slot, counted from when `p` is due. */
  askFor(p: Packet): void {
    this.at = p.releaseAt;
    this.askNext();
  }

  /** Asks for another slot, counted from the opening of this one. */
  askNext(): void {
    this.at += this.#draw();
    this.#packets = this.#slot.packets === 0 ? NEVER : this.#slot.packets;
    this.#bytes = this.#slot.bytes === 0 ? NEVER : this.#slot.bytes;
  }

  /** `p` has left in the current slot; true if that has had all it may. */
  use(p: Packet): boolean {
    this.#bytes -= p.length;
    return --this.#packets <= 0 || this.#bytes <= 0;
  }

  #draw(): Duration {
    const { min, max, distribution, delay, jitter } = this.#slot;
    const rank = this.#rng.unit();
    if (distribution === null) return min + Math.floor(rank * (max - min + 1));
    const offset = this.#table === null
      ? (2 * rank - 1) * jitter
      : jitter * this.#table[Math.floor(rank * this.#table.length)]! / DISTRIBUTION_SCALE;
    return Math.max(0, Math.round(delay + offset));
  }
}
