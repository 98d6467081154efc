/**
 * The impairments of one direction of all interfaces, as one stage.
 *
 * A stage is made when its first packet comes and scheduled only while it holds something, so interfaces that are idle,
 * or have no impairment, cost nothing however many they are. An impairment can be changed at any time, and taken away: a
 * stage that still holds packets then stays until it has let them go, and lets others pass behind them.
 *
 * @module
 */

import { DeadlineHeap } from "../base/deadline_heap.ts";
import { DropReason } from "../base/drop.ts";
import type { Packet } from "../base/packet.ts";
import type { Stage } from "../base/stage.ts";
import type { Instant } from "../base/time.ts";
import { NETEM_DEFAULTS, type NetemConfig } from "../impair/config.ts";
import type { NetemStage } from "../impair/netem_stage.ts";

/** What a stage does that only lets go what it holds; its packets have to lie in the pool anyway. */
const PASS: Readonly<NetemConfig> = Object.freeze({ ...NETEM_DEFAULTS, limit: 1 << 24 });

/** The stages by interface. */
export class InterfaceStages implements Stage {
  readonly #makers: ((() => NetemStage) | null)[] = [];
  readonly #stages: (NetemStage | null)[] = [];
  readonly #configs: (NetemConfig | null)[] = [];
  readonly #deadlines = new DeadlineHeap();

  /** Gives interface `ifindex` the stage that `make` will make. */
  set(ifindex: number, make: () => NetemStage): void {
    this.#reserve(ifindex);
    this.#makers[ifindex] = make;
  }

  /**
   * Gives interface `ifindex` another impairment from `now` on, or its first one, or takes it away.
   *
   * @param config what it is to be, already checked; `null` for none
   * @param make makes the stage when its first packet comes, if there is none yet
   */
  change(ifindex: number, config: NetemConfig | null, make: (config: NetemConfig) => NetemStage, now: Instant): void {
    this.#reserve(ifindex);
    this.#configs[ifindex] = config;
    const stage = this.#stages[ifindex]!;
    if (stage !== null && (config !== null || stage.heldPackets > 0)) {
      stage.change(config ?? PASS, now);
      this.#deadlines.set(ifindex, stage.nextAt());
      return;
    }
    this.#stages[ifindex] = null;
    this.#deadlines.clear(ifindex);
    this.#makers[ifindex] = config === null ? null : () => make(config);
  }

  /** What was last given to interface `ifindex` by `change`; `null` for none. */
  config(ifindex: number): NetemConfig | null {
    return this.#configs[ifindex] ?? null;
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

  #reserve(ifindex: number): void {
    while (this.#makers.length <= ifindex) {
      this.#makers.push(null);
      this.#stages.push(null);
      this.#configs.push(null);
    }
  }

  /** Drops all packets held. */
  close(now: Instant): void {
    for (let ifindex = 0; ifindex < this.#stages.length; ifindex++) {
      this.#stages[ifindex]?.close(now);
      this.#deadlines.clear(ifindex);
    }
  }
}
