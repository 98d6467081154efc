/**
 * A slow fair queue to compare the real one with: the rules of sch_fq, one by one, with plain arrays that are sorted and
 * searched.
 *
 * It has no garbage collection of idle flows, so it agrees only for runs of less than three seconds.
 *
 * @module
 */

import { DropReason } from "../../src/base/drop.ts";
import { NEVER } from "../../src/base/time.ts";
import type { FqOptions } from "../../src/qdisc/fq.ts";

/** What the model knows of a packet. */
export interface SlowPacket {
  /** Place in the order of all pushes. */
  n: number;
  /** Flow key. */
  flow: number;
  /** Length in bytes. */
  length: number;
  /** The stamp, 0 for none. */
  departAt: number;
  /** When it may leave. */
  at: number;
  /** Its band. */
  band: number;
  /** The two bits of ECN. */
  ecn: number;
}

/** What the model knows of a flow. */
export interface SlowFlow {
  /** Bytes left in its turn. */
  credit: number;
  /** Its packets in the order in which they may leave. */
  queue: SlowPacket[];
  /** When it became idle. */
  idleSince: number;
  /** Where it stands. */
  state: "idle" | "new" | "old" | "throttled";
  /** The band that it joins next. */
  band: number;
  /** When it is looked at again, if throttled. */
  wakeAt: number;
  /** Ties of that. */
  wakeOrder: number;
  /** No packet leaves before, whatever its stamp. */
  nextAt: number;
}

/** What the model counts, by the names of the real one. */
export interface SlowCounters {
  /** Pulls that made a flow wait. */
  throttled: number;
  /** Refused by the flow limit. */
  flows_plimit: number;
  /** Gaps cut to a second. */
  pkts_too_long: number;
  /** Marked. */
  ce_mark: number;
  /** Refused beyond the horizon. */
  horizon_drops: number;
  /** Brought back to the horizon. */
  horizon_caps: number;
  /** On the fast path. */
  fastpath_packets: number;
}

/** Linux's table by four bits of the TOS byte; 0 best effort, 2 bulk, 4 interactive bulk, 6 interactive. */
const TOS_TO_PRIORITY = [0, 0, 0, 0, 2, 2, 2, 2, 6, 6, 6, 6, 4, 4, 4, 4];

/** The model. */
export class SlowFq {
  /** All flows ever seen. */
  readonly flows: Map<number, SlowFlow> = new Map();
  /** Rates set. */
  readonly rates: Map<number, number> = new Map();
  /** What is on the fast path. */
  readonly fast: SlowPacket[] = [];
  /** Counters. */
  readonly counters: SlowCounters = {
    throttled: 0,
    flows_plimit: 0,
    pkts_too_long: 0,
    ce_mark: 0,
    horizon_drops: 0,
    horizon_caps: 0,
    fastpath_packets: 0,
  };
  /** Refused because the band was full. */
  readonly bandDrops: number[] = [0, 0, 0];
  #new: SlowFlow[][] = [[], [], []];
  #old: SlowFlow[][] = [[], [], []];
  #credits: number[];
  #turn = 0;
  #wakes = 0;
  #freeAt = -NEVER;

  /** Makes an empty model. */
  constructor(readonly options: Required<FqOptions>) {
    this.#credits = [...options.weights];
  }

  /** Packets held. */
  get packets(): number {
    return this.#held().length;
  }

  /** Bytes held of one flow. */
  bytesOf(flow: number): number {
    return this.#held().filter((p) => p.flow === flow).reduce((sum, p) => sum + p.length, 0);
  }

  /** Packets held of a band, without the fast path. */
  bandPackets(band: number): number {
    return this.#held().filter((p) => p.band === band && !this.fast.includes(p)).length;
  }

  /** Offers a packet stamped with `departAt`. */
  push(n: number, flow: number, length: number, departAt: number, trafficClass: number, now: number): DropReason {
    const o = this.options;
    const band = o.priomap[TOS_TO_PRIORITY[(trafficClass & 0x1e) >> 1]!]!;
    if (this.bandPackets(band) >= o.limit) {
      this.bandDrops[band]!++;
      return DropReason.QdiscLimit;
    }
    let at = departAt || now;
    if (at > now + o.horizon) {
      if (o.horizonDrop) {
        this.counters.horizon_drops++;
        return DropReason.Horizon;
      }
      this.counters.horizon_caps++;
      at = now + o.horizon;
    }
    const p = { n, flow, length, departAt, at, band, ecn: trafficClass & 3 };
    if (this.#mayPass(p, now)) {
      this.counters.fastpath_packets++;
      this.fast.push(p);
      this.fast.sort((a, b) => a.at - b.at || a.n - b.n);
      return DropReason.None;
    }
    let f = this.flows.get(flow);
    if (f === undefined) {
      f = {
        credit: o.initialQuantum,
        queue: [],
        idleSince: now,
        state: "idle",
        band,
        wakeAt: NEVER,
        wakeOrder: 0,
        nextAt: 0,
      };
      this.flows.set(flow, f);
    }
    if (f.queue.length >= o.flowLimit) {
      this.counters.flows_plimit++;
      return DropReason.FlowLimit;
    }
    f.queue.push(p);
    f.queue.sort((a, b) => a.at - b.at || a.n - b.n);
    f.band = band;
    if (f.state === "idle") {
      if (now - f.idleSince > o.refillDelay) f.credit = Math.max(f.credit, o.quantum);
      f.state = "new";
      this.#new[band]!.push(f);
    } else if (f.state === "throttled") {
      this.#wakeWhenDue(f);
    }
    return DropReason.None;
  }

  /** The packet that leaves at `now`. */
  pull(now: number): SlowPacket | null {
    const o = this.options;
    if (this.#freeAt > now) return null;
    const fast = this.fast.shift();
    if (fast !== undefined) return fast;
    const due = [...this.flows.values()].filter((f) => f.state === "throttled" && f.wakeAt <= now);
    for (const f of due.sort((a, b) => a.wakeAt - b.wakeAt || a.wakeOrder - b.wakeOrder)) {
      f.nextAt = Math.max(f.nextAt, f.wakeAt);
      f.state = "old";
      this.#old[f.band]!.push(f);
    }
    for (;;) {
      const band = this.#chooseBand();
      if (band < 0) return null;
      const isNew = this.#new[band]!.length > 0;
      const list = isNew ? this.#new[band]! : this.#old[band]!;
      const f = list[0]!;
      const p = f.queue[0];
      if (f.credit <= 0) {
        list.shift();
        f.credit += o.quantum;
        f.state = "old";
        this.#old[f.band]!.push(f);
      } else if (p === undefined && isNew) {
        list.shift();
        f.state = "old";
        this.#old[f.band]!.push(f);
      } else if (p === undefined) {
        list.shift();
        f.state = "idle";
        f.idleSince = now;
      } else if (dueAt(f) > now) {
        list.shift();
        f.state = "throttled";
        f.wakeAt = NEVER;
        this.counters.throttled++;
        this.#wakeWhenDue(f);
      } else {
        this.#send(f, band, now);
        return p;
      }
    }
  }

  /** When the next packet leaves; right only when `pull` has just given `null`. */
  nextAt(): number {
    const waiting = [...this.flows.values()].filter((f) => f.queue.length > 0);
    if (waiting.length === 0) return NEVER;
    return Math.max(this.#freeAt, Math.min(...waiting.map(dueAt)));
  }

  /** Sets the rate of a flow. */
  setFlowRate(flow: number, rate: number): void {
    this.rates.set(flow, rate);
    if (rate === Infinity && this.options.maxrateBytesPerSec === Infinity) this.#release(flow);
  }

  /** A new connection got the number of a flow. */
  resetFlow(flow: number): void {
    this.rates.delete(flow);
    this.#release(flow);
    const f = this.flows.get(flow);
    if (f !== undefined) f.credit = this.options.initialQuantum;
  }

  #held(): SlowPacket[] {
    return [...this.fast, ...[...this.flows.values()].flatMap((f) => f.queue)];
  }

  #mayPass(p: SlowPacket, now: number): boolean {
    const o = this.options;
    const isPaced = o.pacing && (this.rates.get(p.flow) ?? Infinity) < Infinity;
    if (p.at > now || isPaced || o.rateBytesPerSec < Infinity || (o.pacing && o.maxrateBytesPerSec < Infinity)) {
      return false;
    }
    if (this.packets === 0) return true;
    const waiting = [...this.flows.values()].filter((f) => f.queue.length > 0);
    return this.fast.length < 8 && waiting.every((f) => f.state === "throttled" && f.wakeAt > now);
  }

  #chooseBand(): number {
    const hasFlow = (band: number) => this.#new[band]!.length + this.#old[band]!.length > 0;
    if (![0, 1, 2].some(hasFlow)) {
      // The round goes once past all bands.
      for (let i = 0; i < 3; i++) this.#nextBand();
      if (this.#credits.some((credit) => credit <= 0)) throw new Error("a packet of more than a band's round");
      return -1;
    }
    while (!hasFlow(this.#turn) || this.#credits[this.#turn]! <= 0) this.#nextBand();
    return this.#turn;
  }

  #nextBand(): void {
    this.#turn = (this.#turn + 1) % 3;
    const weight = this.options.weights[this.#turn]!;
    this.#credits[this.#turn] = Math.min(this.#credits[this.#turn]! + weight, weight);
  }

  #send(f: SlowFlow, band: number, now: number): void {
    const o = this.options;
    const due = dueAt(f);
    const p = f.queue.shift()!;
    if (now - due > o.ceThreshold && p.ecn !== 0) this.counters.ce_mark++;
    const length = p.length + o.overheadBytes;
    f.credit -= length;
    this.#credits[band]! -= length;
    if (o.rateBytesPerSec < Infinity) {
      const from = Math.max(this.#freeAt, due, now - 5_000_000);
      this.#freeAt = from + Math.ceil(length * (1e9 / o.rateBytesPerSec));
    }
    if (!o.pacing) return;
    let rate = o.maxrateBytesPerSec;
    let bytes = length;
    if (p.departAt === 0) {
      rate = Math.min(rate, this.rates.get(p.flow) ?? Infinity);
      if (rate === Infinity) return;
      if (rate <= o.lowRateThresholdBytesPerSec) f.credit = 0;
      else bytes = Math.max(bytes, o.quantum);
      if (f.credit > 0) return;
    }
    if (rate === Infinity) return;
    let gap = Math.ceil(bytes * 1e9 / rate);
    if (gap > 1e9) {
      gap = 1e9;
      this.counters.pkts_too_long++;
    }
    if (f.nextAt > 0) gap -= Math.min(Math.floor(gap / 2), now - f.nextAt);
    f.nextAt = now + gap;
  }

  #release(flow: number): void {
    const f = this.flows.get(flow);
    if (f === undefined) return;
    f.nextAt = 0;
    if (f.state === "throttled") this.#wakeWhenDue(f);
  }

  #wakeWhenDue(f: SlowFlow): void {
    const at = dueAt(f);
    if (f.wakeAt === at) return;
    f.wakeAt = at;
    f.wakeOrder = this.#wakes++;
  }
}

function dueAt(f: SlowFlow): number {
  return Math.max(f.queue[0]!.at, f.nextAt);
}
