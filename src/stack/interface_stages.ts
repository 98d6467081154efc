/**
 * The impairments of one direction of all interfaces, as one stage.
 *
 * A stage is made when its first packet comes and scheduled only while it holds something, so interfaces that are idle,
 * or have no impairment, cost nothing however many they are.
 *
 * @module
 */

import { DeadlineHeap } from "../base/deadline_heap.ts";
import { DropReason } from "../base/drop.ts";
import type { Packet } from "../base/packet.ts";
import type { Stage } from "../base/stage.ts";
import type { Instant } from "../base/time.ts";
import type { NetemStage } from "../impair/netem_stage.ts";

/** The stages by interface. */
export class InterfaceStages implements Stage {
  readonly #makers: ((() => NetemStage) | null)[] = [];
  readonly #stages: (NetemStage | null)[] = [];
  readonly #deadlines = new DeadlineHeap();

  /** Gives interface `ifindex` the stage that `make` will make. */
  set(ifindex: number, make: () => NetemStage): void {
    while (this.#makers.length <= ifindex) {
      this.#makers.push(null);
      this.#stages.push(null);
    }
    this.#makers[ifindex] = make;
  }

  /** True if interface `ifindex` has a stage. */
  has(ifindex: number): boolean {
    return ifindex < this.#makers.length && this.#makers[ifindex] !== null;
  }

  /** The stage of an interface, or `null` if it has none or no packet has come yet. */
  get(ifindex: number): NetemStage | null {
    return this.#stages[ifindex] ?? null;
  }

  /** Offers a packet to the stage of `p.ifindex`, which must have one. */
  push(p: Packet, now: Instant): DropReason {
    const { ifindex } = p;
    let stage = this.#stages[ifindex]!;
    if (stage === null) {
      stage = this.#makers[ifindex]!();
      this.#stages[ifindex] = stage;
    }
    const reason = stage.push(p, now);
    if (reason === DropReason.None) this.#deadlines.set(ifindex, stage.nextAt());
    return reason;
  }

  /** The packet that is due first, of all interfaces, or `null`. */
  pull(now: Instant): Packet | null {
    const deadlines = this.#deadlines;
    while (deadlines.nextAt() <= now) {
      const ifindex = deadlines.nextId();
      const stage = this.#stages[ifindex]!;
      const p = stage.pull(now);
      // A stage that says "now" and gives nothing must not hold up the others.
      deadlines.set(ifindex, p === null ? Math.max(stage.nextAt(), now + 1) : stage.nextAt());
      if (p !== null) return p;
    }
    return null;
  }

  /** When the next packet is due. */
  nextAt(): Instant {
    return this.#deadlines.nextAt();
  }

  /** Drops all packets held. */
  close(now: Instant): void {
    for (let ifindex = 0; ifindex < this.#stages.length; ifindex++) {
      this.#stages[ifindex]?.close(now);
      this.#deadlines.clear(ifindex);
    }
  }
}
