/**
 * A slow fair queue to compare the real one with: the rules of sch_fq with plain arrays that are sorted and searched.
 *
 * It has no garbage collection of idle flows, so it agrees only for runs of less than three seconds.
 *
 * @module
 */

import { DropReason } from "../../src/base/drop.ts";
import { NEVER } from "../../src/base/time.ts";

/** What the model knows of a packet. */
export interface SlowPacket {
  /** Place in the order of all pushes. */
  n: number;
  /** Flow key. */
  flow: number;
  /** Length in bytes. */
  length: number;
  /** When it may leave. */
  at: number;
}

interface SlowFlow {
  credit: number;
  queue: SlowPacket[];
  idleSince: number;
  state: "idle" | "new" | "old" | "throttled";
  wakeAt: number;
  wakeOrder: number;
}

/** Options that the model needs, all of them given. */
export interface SlowOptions {
  /** Most packets. */
  limit: number;
  /** Most packets a flow. */
  flowLimit: number;
  /** Bytes a turn. */
  quantum: number;
  /** Bytes of the first turn. */
  initialQuantum: number;
  /** Furthest departure. */
  horizon: number;
  /** Drop or cap. */
  horizonDrop: boolean;
  /** Idle time for a fresh quantum. */
  refillDelay: number;
}

/** The model. */
export class SlowFq {
  /** All flows ever seen. */
  readonly flows: Map<number, SlowFlow> = new Map();
  #new: SlowFlow[] = [];
  #old: SlowFlow[] = [];
  #wakes = 0;

  /** Makes an empty model. */
  constructor(readonly options: SlowOptions) {}

  /** Packets held. */
  get packets(): number {
    return [...this.flows.values()].reduce((sum, f) => sum + f.queue.length, 0);
  }

  /** Offers a packet stamped with `departAt`. */
  push(n: number, flow: number, length: number, departAt: number, now: number): DropReason {
    const o = this.options;
    if (this.packets >= o.limit) return DropReason.QdiscLimit;
    let at = departAt || now;
    if (at > now + o.horizon) {
      if (o.horizonDrop) return DropReason.Horizon;
      at = now + o.horizon;
    }
    let f = this.flows.get(flow);
    if (f === undefined) {
      f = { credit: o.initialQuantum, queue: [], idleSince: now, state: "idle", wakeAt: NEVER, wakeOrder: 0 };
      this.flows.set(flow, f);
    }
    if (f.queue.length >= o.flowLimit) return DropReason.FlowLimit;
    const oldHead = f.queue[0];
    f.queue.push({ n, flow, length, at });
    f.queue.sort((a, b) => a.at - b.at || a.n - b.n);
    if (f.state === "idle") {
      if (now - f.idleSince > o.refillDelay) f.credit = Math.max(f.credit, o.quantum);
      f.state = "new";
      this.#new.push(f);
    } else if (f.state === "throttled" && f.queue[0] !== oldHead) {
      this.#throttle(f);
    }
    return DropReason.None;
  }

  /** The packet that leaves at `now`. */
  pull(now: number): SlowPacket | null {
    const due = [...this.flows.values()].filter((f) => f.state === "throttled" && f.wakeAt <= now);
    for (const f of due.sort((a, b) => a.wakeAt - b.wakeAt || a.wakeOrder - b.wakeOrder)) {
      f.state = "old";
      this.#old.push(f);
    }
    for (;;) {
      const isNew = this.#new.length > 0;
      const list = isNew ? this.#new : this.#old;
      const f = list[0];
      if (f === undefined) return null;
      const first = f.queue[0];
      if (f.credit > 0 && first !== undefined && first.at <= now) {
        f.queue.shift();
        f.credit -= first.length;
        return first;
      }
      list.shift();
      if (f.credit <= 0 || (first === undefined && isNew)) {
        if (f.credit <= 0) f.credit += this.options.quantum;
        f.state = "old";
        this.#old.push(f);
      } else if (first === undefined) {
        f.state = "idle";
        f.idleSince = now;
      } else {
        this.#throttle(f);
      }
    }
  }

  #throttle(f: SlowFlow): void {
    const at = f.queue[0]!.at;
    if (f.state === "throttled" && f.wakeAt === at) return;
    f.state = "throttled";
    f.wakeAt = at;
    f.wakeOrder = this.#wakes++;
  }
}
