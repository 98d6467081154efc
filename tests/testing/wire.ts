/**
 * An impairing stage that numbered packets go through, and what comes out of it.
 *
 * @module
 */

import { DropReason } from "../../src/base/drop.ts";
import { Rng } from "../../src/base/rng.ts";
import { NEVER } from "../../src/base/time.ts";
import type { NetemConfig } from "../../src/impair/config.ts";
import { NetemStage } from "../../src/impair/netem_stage.ts";
import { parseNetem } from "../../src/impair/parse.ts";
import { StageBench } from "./stage_bench.ts";

/** A packet as it came out: its number, the time, and whether it is a copy. */
export interface Arrival {
  n: number;
  at: number;
  copy: boolean;
}

/** A stage that numbered packets go through. */
export class Wire {
  /** Where the packets come from, and what becomes of those that are dropped. */
  readonly bench = new StageBench();
  /** The stage. */
  readonly stage: NetemStage;
  /** Numbers of the packets that it refused. */
  readonly refused: number[] = [];
  #next = 0;

  constructor(impairment: string | NetemConfig, seed = 1) {
    const config = typeof impairment === "string" ? parseNetem(impairment) : impairment;
    this.stage = new NetemStage(config, new Rng(seed), this.bench.pool, this.bench);
  }

  /** How many packets were sent. */
  get sent(): number {
    return this.#next;
  }

  /** Sends a packet of `lengthBytes` whose number is in its flow, as nothing below looks at that. */
  send(now: number, lengthBytes = 100): void {
    const p = this.bench.packet(this.#next++, lengthBytes);
    if (this.stage.push(p, now) === DropReason.None) return;
    this.refused.push(p.flow);
    this.bench.pool.release(p);
  }

  /** Everything that comes out until `until`, at the time at which it is said to come out. */
  arrivals(until = NEVER): Arrival[] {
    const out: Arrival[] = [];
    for (let at = this.stage.nextAt(); at <= until && at < NEVER; at = this.stage.nextAt()) {
      const p = this.stage.pull(at);
      if (p === null) continue;
      out.push({ n: p.flow, at, copy: p.duplicate });
      this.bench.pool.release(p);
    }
    return out;
  }

  /** Sends `count` packets that far apart; each leaves when it is due, before the next one is sent. */
  run(count: number, spacing: number, lengthBytes = 100): Arrival[] {
    const out: Arrival[] = [];
    for (let i = 0; i < count; i++) {
      out.push(...this.arrivals(i * spacing - 1));
      this.send(i * spacing, lengthBytes);
    }
    return [...out, ...this.arrivals()];
  }
}
