/**
 * Fair queueing with earliest departure times, after Linux's sch_fq.
 *
 * Each flow has its own queue, ordered by departure time. Flows that have something due take turns: a flow sends until
 * its credit is used up, gets a quantum more and goes to the end of the line (deficit round robin). A flow that was
 * idle is *new*, and new flows are served before old ones, so that a sparse flow does not wait behind bulk ones; when
 * its queue runs empty it has to pass once through the old flows before it can be new again, so that it cannot starve
 * them. A flow whose first packet is due later is *throttled*: it is on no list but in a heap by departure time, and
 * joins the old flows when its time comes.
 *
 * ```text
 *                     ┌────────────── credit used up: + quantum ─┐
 *  idle ──push──▶ new flows ──▶ old flows ◀──────────────────────┘
 *    ▲                │  first packet not due │  ▲
 *    │                └────────▶ throttled ◀──┘  │
 *    │                               └── due ────┘
 *    └─────── empty, after a pass through the old flows
 * ```
 *
 * There are three *bands* with lists of their own, chosen by DSCP (fq_band.ts). They take turns by weight, 9 to 3 to 1
 * unless set otherwise: a band with the greater weight gets more, and none is starved.
 *
 * A packet that is due when nothing else is takes the *fast path*: a short list that is served first and for which no
 * flow is looked up.
 *
 * **Rates.** A packet with a stamp (`departAt` above 0) was paced by its sender; only `maxrate` can delay it further. A
 * packet without one is paced here, by the lower of `maxrate` and the rate set for its flow by `setFlowRate`: up to
 * `lowRateThreshold` each packet is followed by a gap; above, a flow sends back to back what its credit allows and then
 * makes a gap of a whole quantum. If a packet left later than it could have, the next gap is shorter by that, at most by
 * half of itself; so a late timer costs no rate, and there is no burst to catch up.
 *
 * `rate` bounds all flows together: this queue then *is* the bottleneck and shares it fairly, which it cannot do if the
 * bottleneck lies behind it (netem's `rate`). The line is busy with a packet for length ÷ rate from when it would have
 * left under a timer without delay; lateness of up to 5 ms is made up for in full.
 *
 * What always holds: no packet leaves before its stamp (with `horizonDrop: false`, a stamp beyond the horizon counts as
 * one at the horizon), nor before the rates allow it; the packets of a flow leave in the order of their stamps, equal
 * ones in the order of their arrival (one that was overdue when it came may find younger ones on the fast path before
 * it); of two flows of a band that always have something due, and have had their first turn, neither gets more than a
 * quantum and a packet ahead of the other in bytes; packets pushed = pulled + refused + dropped by `close` + held. A
 * packet without a stamp, or with one in the past, is due at once.
 *
 * The key of a flow is `Packet.flow`. Even keys belong to local connections and are taken as they are; odd ones are
 * hashes, of which only the bits in `orphanMask` count, so that strangers cannot make flows (and with them new ones)
 * without end. Flow numbers are reused; idle flows are forgotten after three seconds, or earlier when they are needed.
 *
 * Left out: tc's `buckets` (the table grows by itself), `timer_slack` and `offload_horizon` (a driver that wants to pull
 * early does so at its own risk), `defrate`, and the counters that Linux keeps at 0. Different from Linux: a packet that
 * is due earlier than the one that a flow is throttled for brings the flow forward; band 0 has its round first; when there
 * are as many flows as there may be, a packet that needs a further one is refused.
 *
 * References: net/sched/sch_fq.c, tc-fq(8); M. Shreedhar and G. Varghese, "Efficient Fair Queuing Using Deficit
 * Round-Robin", 1996; RFC 8290 section 4.2 for new and old flows.
 *
 * @module
 */

import { DeadlineHeap } from "../base/deadline_heap.ts";
import { DropReason, type DropSink } from "../base/drop.ts";
import { HashTable } from "../base/hash_table.ts";
import type { Packet } from "../base/packet.ts";
import { type Duration, type Instant, MILLISECOND, NEVER, SECOND } from "../base/time.ts";
import { markCe, trafficClassAt } from "../wire/ip_header.ts";
import { bandTable, FQ_BANDS, FqBand } from "./fq_band.ts";
import { FlowList, FlowState, FqFlows, NONE } from "./fq_flow.ts";
import { completeFqOptions, type FqOptions } from "./fq_options.ts";
import { checkOption, checkRate, type Qdisc } from "./qdisc.ts";

export type { FqOptions } from "./fq_options.ts";

/** Idle flows are forgotten after this time. */
const COLLECT_AFTER: Duration = 3 * SECOND;

/** At most so many are forgotten each time a flow is made. */
const COLLECT_AT_ONCE = 8;

/** The most packets on the fast path when others are waiting for their time. */
const FAST_PACKETS = 8;

/** The longest gap between two packets of a flow: its rate may have changed by then. */
const GAP_MAX: Duration = SECOND;

/** How much lateness the total rate makes up for: more than a timer is late by, less than a burst that hurts. */
const RATE_CREDIT: Duration = 5 * MILLISECOND;

/** The greatest flow number of a local connection; rates are kept in an array by connection. */
const LOCAL_FLOW_MAX = 1 << 25;

/** The fair queue. */
export class Fq implements Qdisc {
  /** `"fq"`. */
  readonly kind: string = "fq";
  readonly #sink: DropSink;
  readonly #limit: number;
  readonly #flowLimit: number;
  readonly #quantum: number;
  readonly #initialQuantum: number;
  readonly #maxrate: number;
  readonly #lowRateThreshold: number;
  readonly #pacing: boolean;
  /** True once there is a rate that can hold a flow. */
  #mayPace: boolean;
  readonly #ceThreshold: Duration;
  readonly #horizon: Duration;
  readonly #horizonDrop: boolean;
  readonly #refillDelay: Duration;
  readonly #orphanMask: number;
  readonly #overheadBytes: number;
  /** The band of each traffic class. */
  readonly #bandOf: Uint8Array;
  /** Nanoseconds a byte at the total rate; 0 if there is none. */
  readonly #byteTime: number;
  /** False if a rate holds for all packets, which then have to wait in their flows. */
  readonly #fastPath: boolean;

  /** Flows by key. */
  readonly #table: HashTable<number>;
  readonly #flows = new FqFlows();
  readonly #freeFlows: number[] = [];
  readonly #bands: readonly FqBand[];
  readonly #idleFlows = new FlowList(this.#flows);
  readonly #throttled = new DeadlineHeap();
  /** The flow of the packets on the fast path; it is on no list and in no table. */
  readonly #fast = this.#flows.make();
  /** Rates of local connections in bytes per second, by half their flow number; empty if none was ever set. */
  #rates = new Float64Array(0);
  /** The band whose turn it is. */
  #bandNumber = 0;
  /** When the line is free for the next packet, by the total rate. */
  #freeAt: Instant = -NEVER;

  #packets = 0;
  #bytes = 0;
  /** Flows that hold packets. */
  #busyFlows = 0;
  #pulledPackets = 0;
  #pulledBytes = 0;
  #drops = 0;
  #overlimits = 0;
  #collectedCount = 0;
  #throttledCount = 0;
  #flowLimitCount = 0;
  #longGapCount = 0;
  #allocationErrors = 0;
  #horizonDrops = 0;
  #horizonCaps = 0;
  #ceMarks = 0;
  #fastCount = 0;
  #unthrottleLatency: Duration = -NEVER;

  /**
   * Makes an empty queue.
   *
   * @param options all of them optional
   * @param sink takes what is still held when the queue is closed
   * @throws {RangeError} if an option is out of range
   */
  constructor(options: FqOptions, sink: DropSink) {
    const o = completeFqOptions(options);
    this.#sink = sink;
    this.#limit = o.limit;
    this.#flowLimit = o.flowLimit;
    this.#quantum = o.quantum;
    this.#initialQuantum = o.initialQuantum;
    this.#maxrate = o.pacing ? o.maxrateBytesPerSec : Infinity;
    this.#lowRateThreshold = o.lowRateThresholdBytesPerSec;
    this.#pacing = o.pacing;
    this.#mayPace = this.#maxrate < Infinity;
    this.#ceThreshold = o.ceThreshold;
    this.#horizon = o.horizon;
    this.#horizonDrop = o.horizonDrop;
    this.#refillDelay = o.refillDelay;
    this.#orphanMask = o.orphanMask;
    this.#overheadBytes = o.overheadBytes;
    this.#bandOf = bandTable(o.priomap);
    this.#byteTime = SECOND / o.rateBytesPerSec;
    this.#fastPath = this.#maxrate === Infinity && this.#byteTime === 0;
    this.#bands = o.weights.map((weight) => new FqBand(weight, this.#flows));
    // Enough for a flow a packet and all hashes; more can only be local connections on their way to being idle.
    this.#table = new HashTable(FQ_BANDS * this.#limit + this.#orphanMask + 1);
    this.#unthrottleLatency = 0;
  }

  /** Packets held. */
  get backlogPackets(): number {
    return this.#packets;
  }

  /** Bytes held. */
  get backlogBytes(): number {
    return this.#bytes;
  }

  /** Bytes held of one flow (of all that share its bucket, if it is a hash). */
  flowBacklog(flow: number): number {
    const index = this.#table.first(this.#key(flow));
    const bytes = index < 0 ? 0 : this.#flows.bytes[this.#table.at(index)]!;
    // Those bits of the number that make up the key.
    const bits = (flow & 1) === 0 ? -1 : (this.#orphanMask << 1) | 1;
    return bytes + this.#flows.bytesFrom(this.#fast, flow, bits);
  }

  /** Sets the rate by which packets of a local connection that have no stamp are spaced; `Infinity` lets all of them go. */
  setFlowRate(flow: number, rateBytesPerSec: number): void {
    checkRate("fq", "flow rate", rateBytesPerSec);
    const id = localId(flow);
    if (rateBytesPerSec === Infinity && this.#maxrate === Infinity) this.#releaseFlow(flow);
    if (rateBytesPerSec !== Infinity && id >= this.#rates.length) this.#growRates(id + 1);
    if (id < this.#rates.length) this.#rates[id] = rateBytesPerSec;
  }

  /** Forgets the rate of a local connection, and its credit and its gap; what it has queued stays. */
  resetFlow(flow: number): void {
    this.setFlowRate(flow, Infinity);
    this.#releaseFlow(flow);
    const index = this.#table.first(this.#key(flow));
    if (index >= 0) this.#flows.credits[this.#table.at(index)] = this.#initialQuantum;
  }

  /** Takes `p`, or refuses it with `QdiscLimit`, `FlowLimit` or `Horizon`. */
  push(p: Packet, now: Instant): DropReason {
    const reason = this.#admit(p, now);
    if (reason !== DropReason.None) this.#drops++;
    return reason;
  }

  /** The next packet in turn that is due, or `null`. */
  pull(now: Instant): Packet | null {
    if (this.#freeAt > now) {
      if (this.#packets > 0) this.#overlimits++;
      return null;
    }
    const flows = this.#flows;
    if (flows.packets[this.#fast]! > 0) {
      this.#countPulled(flows.headBytes(this.#fast));
      return flows.shift(this.#fast);
    }
    this.#unthrottle(now);
    for (;;) {
      const list = this.#nextList();
      if (list === null) return null;
      const band = this.#bands[this.#bandNumber]!;
      const flow = list.head;
      if (flows.credits[flow]! <= 0) {
        flows.credits[flow]! += this.#quantum;
        this.#toOldFlows(list, flow);
        continue;
      }
      if (flows.packets[flow] === 0) {
        if (list === band.newFlows) this.#toOldFlows(list, flow);
        else this.#toIdleFlows(list, flow, now);
        continue;
      }
      const due = Math.max(flows.headAt[flow]!, flows.nextPacketAt[flow]!);
      if (due > now) {
        list.remove(flow);
        flows.states[flow] = FlowState.Throttled;
        this.#wakeWhenDue(flow);
        this.#throttledCount++;
        continue;
      }
      const bytes = flows.headBytes(flow);
      const length = bytes + this.#overheadBytes;
      const p = this.#take(flow);
      this.#countPulled(bytes);
      if (this.#byteTime > 0) this.#occupyLine(flow, p, length, now);
      if (now - due > this.#ceThreshold && markCe(p.view, p.start, p.end)) this.#ceMarks++;
      flows.credits[flow]! -= length;
      band.credit -= length;
      if (this.#mayPace) this.#pace(flow, p, length, now);
      return p;
    }
  }

  /** When the next packet may leave; a time that has passed if a flow is in line, whose first packet only a pull looks at. */
  nextAt(): Instant {
    const inLine = this.#flows.packets[this.#fast]! > 0 || this.#busyFlows > this.#throttled.size;
    const at = inLine ? 0 : this.#throttled.nextAt();
    return at > this.#freeAt ? at : this.#freeAt;
  }

  /**
   * The counters of `tc -s qdisc` by their names there: `packets` and `bytes` (sent), `drops`, `overlimits` (pulls that
   * the total rate refused), `qlen` and `backlog` (held, in packets and bytes), and those of fq itself, of which
   * `band_pkt_count` and `band_drops` have the number of the band behind them. `time_next_delayed_flow` is when the first
   * throttled flow is due, relative to `now`, and 0 if none is; `unthrottle_latency_ns` is a moving average of how late
   * throttled flows were looked at; `allocation_errors` are packets refused because there were as many flows as there may be.
   */
  stats(now: Instant = 0): Record<string, number> {
    const bands: Record<string, number> = {};
    this.#bands.forEach((band, i) => bands[`band_pkt_count_${i}`] = band.packets);
    this.#bands.forEach((band, i) => bands[`band_drops_${i}`] = band.drops);
    return {
      packets: this.#pulledPackets,
      bytes: this.#pulledBytes,
      drops: this.#drops,
      overlimits: this.#overlimits,
      qlen: this.#packets,
      backlog: this.#bytes,
      flows: this.#table.size,
      inactive_flows: this.#table.size - this.#busyFlows,
      throttled_flows: this.#throttled.size,
      throttled: this.#throttledCount,
      time_next_delayed_flow: this.#throttled.size === 0 ? 0 : this.#throttled.nextAt() - now,
      unthrottle_latency_ns: Math.floor(this.#unthrottleLatency),
      flows_plimit: this.#flowLimitCount,
      pkts_too_long: this.#longGapCount,
      allocation_errors: this.#allocationErrors,
      gc_flows: this.#collectedCount,
      ce_mark: this.#ceMarks,
      horizon_drops: this.#horizonDrops,
      horizon_caps: this.#horizonCaps,
      fastpath_packets: this.#fastCount,
      ...bands,
    };
  }

  /** Drops all packets held. */
  close(now: Instant): void {
    const flows = this.#flows;
    while (flows.packets[this.#fast]! > 0) {
      this.#uncount(flows.headBytes(this.#fast));
      this.#sink.drop(flows.shift(this.#fast), DropReason.Closed, now);
    }
    for (let flow = this.#fast + 1; flow < flows.count; flow++) {
      if (flows.states[flow] === FlowState.Throttled) {
        this.#throttled.clear(flow);
        this.#joinOldFlows(flow);
      }
      while (flows.packets[flow]! > 0) {
        this.#uncount(flows.headBytes(flow));
        this.#sink.drop(this.#take(flow), DropReason.Closed, now);
      }
    }
  }

  #admit(p: Packet, now: Instant): DropReason {
    const bandNumber = this.#bandOf[trafficClassAt(p.view, p.start)]!;
    const band = this.#bands[bandNumber]!;
    if (band.packets >= this.#limit) {
      band.drops++;
      return DropReason.QdiscLimit;
    }
    if (p.departAt - now > this.#horizon) {
      if (this.#horizonDrop) {
        this.#horizonDrops++;
        return DropReason.Horizon;
      }
      this.#horizonCaps++;
      p.releaseAt = now + this.#horizon;
    } else {
      p.releaseAt = p.departAt;
      if (p.departAt === 0) p.releaseAt = now;
    }
    const flows = this.#flows;
    if (p.releaseAt <= now && this.#mayPass(p, now)) {
      this.#fastCount++;
      flows.insert(this.#fast, p, bandNumber);
      this.#count(p);
      return DropReason.None;
    }
    const flow = this.#flowOf(p.flow, now);
    if (flow === NONE) {
      this.#allocationErrors++;
      return DropReason.FlowLimit;
    }
    const packets = flows.packets[flow]!;
    if (packets >= this.#flowLimit) {
      this.#flowLimitCount++;
      return DropReason.FlowLimit;
    }
    if (packets === 0) this.#busyFlows++;
    flows.insert(flow, p, bandNumber);
    flows.bands[flow] = bandNumber;
    band.packets++;
    this.#count(p);
    const state = flows.states[flow];
    if (state === FlowState.Idle) {
      this.#idleFlows.remove(flow);
      if (now - flows.idleSince[flow]! > this.#refillDelay && flows.credits[flow]! < this.#quantum) {
        flows.credits[flow] = this.#quantum;
      }
      flows.states[flow] = FlowState.New;
      band.newFlows.push(flow);
    } else if (state === FlowState.Throttled) {
      this.#wakeWhenDue(flow);
    }
    return DropReason.None;
  }

  /**
   * May `p`, which is due, take the fast path? Only if nobody in line would be passed, and not if its flow has a rate, since
   * that may be holding packets which came before it.
   */
  #mayPass(p: Packet, now: Instant): boolean {
    if (!this.#fastPath || this.#busyFlows !== this.#throttled.size) return false;
    if (this.#flows.packets[this.#fast]! >= FAST_PACKETS) return false;
    if (this.#throttled.size > 0 && this.#throttled.wanted[this.#throttled.nextId()]! <= now) return false;
    return !this.#mayPace || !this.#hasRate(p.flow);
  }

  /** The list whose first flow has its turn, in the band whose turn it is; `null` if no flow is in line. */
  #nextList(): FlowList | null {
    for (let looks = 0;; looks++) {
      const band = this.#bands[this.#bandNumber]!;
      if (band.credit > 0) {
        const list = band.newFlows.head !== NONE ? band.newFlows : band.oldFlows;
        if (list.head !== NONE) return list;
      } else if (looks > 0) {
        // Not even a whole round made up for its last packet: once more round all bands.
        looks = 0;
      }
      if (looks === FQ_BANDS) return null;
      this.#bandNumber = this.#bandNumber === FQ_BANDS - 1 ? 0 : this.#bandNumber + 1;
      const next = this.#bands[this.#bandNumber]!;
      next.credit = next.credit < 0 ? next.credit + next.weight : next.weight;
    }
  }

  /** Sets when the next packet of `flow` may leave, after `p`, which counts with `length` bytes. */
  #pace(flow: number, p: Packet, length: number, now: Instant): void {
    const isPlain = p.departAt === 0;
    const rate = Math.min(this.#maxrate, isPlain && this.#hasRate(p.flow) ? this.#rates[p.flow >>> 1]! : Infinity);
    if (rate === Infinity) return;
    let bytes = length;
    if (isPlain) {
      if (rate <= this.#lowRateThreshold) {
        this.#flows.credits[flow] = 0;
      } else {
        if (this.#flows.credits[flow]! > 0) return;
        if (bytes < this.#quantum) bytes = this.#quantum;
      }
    }
    let gap = Math.ceil(bytes * SECOND / rate);
    if (gap > GAP_MAX) {
      gap = GAP_MAX;
      this.#longGapCount++;
    }
    const last = this.#flows.nextPacketAt[flow]!;
    if (last !== 0) gap -= Math.min(Math.floor(gap / 2), now - last);
    this.#flows.nextPacketAt[flow] = now + gap;
  }

  /** The line is busy with `p` from when that could leave, if no timer were ever late. */
  #occupyLine(flow: number, p: Packet, length: number, now: Instant): void {
    const from = Math.max(this.#freeAt, p.releaseAt, this.#flows.nextPacketAt[flow]!, now - RATE_CREDIT);
    this.#freeAt = from + Math.ceil(length * this.#byteTime);
  }

  #take(flow: number): Packet {
    this.#bands[this.#flows.headBand(flow)]!.packets--;
    const p = this.#flows.shift(flow);
    if (this.#flows.packets[flow] === 0) this.#busyFlows--;
    return p;
  }

  #count(p: Packet): void {
    this.#packets++;
    this.#bytes += p.length;
  }

  #uncount(bytes: number): void {
    this.#packets--;
    this.#bytes -= bytes;
  }

  #countPulled(bytes: number): void {
    this.#pulledPackets++;
    this.#pulledBytes += bytes;
    this.#uncount(bytes);
  }

  /** Sets when a throttled flow is looked at again; to be called whenever its head or its gap changes. */
  #wakeWhenDue(flow: number): void {
    this.#throttled.wanted[flow] = Math.max(this.#flows.headAt[flow]!, this.#flows.nextPacketAt[flow]!);
    this.#throttled.update(flow);
  }

  #unthrottle(now: Instant): void {
    let flow = this.#throttled.popDue(now);
    if (flow < 0) return;
    const { headAt, nextPacketAt } = this.#flows;
    const lateness = now - Math.max(headAt[flow]!, nextPacketAt[flow]!);
    this.#unthrottleLatency += (lateness - this.#unthrottleLatency) / 8;
    do {
      nextPacketAt[flow] = Math.max(headAt[flow]!, nextPacketAt[flow]!);
      this.#joinOldFlows(flow);
      flow = this.#throttled.popDue(now);
    } while (flow >= 0);
  }

  #joinOldFlows(flow: number): void {
    this.#flows.states[flow] = FlowState.Old;
    this.#bands[this.#flows.bands[flow]!]!.oldFlows.push(flow);
  }

  #toOldFlows(from: FlowList, flow: number): void {
    from.remove(flow);
    this.#joinOldFlows(flow);
  }

  #toIdleFlows(from: FlowList, flow: number, now: Instant): void {
    from.remove(flow);
    this.#flows.states[flow] = FlowState.Idle;
    this.#flows.idleSince[flow] = now;
    this.#idleFlows.push(flow);
  }

  /** Lets the packets of a local connection go on that only a rate holds. */
  #releaseFlow(localFlow: number): void {
    const index = this.#table.first(this.#key(localFlow));
    if (index < 0) return;
    const flow = this.#table.at(index);
    this.#flows.nextPacketAt[flow] = 0;
    if (this.#flows.states[flow] === FlowState.Throttled) this.#wakeWhenDue(flow);
  }

  /** True if a rate is set for a flow; hashes have none. */
  #hasRate(flow: number): boolean {
    const id = flow >>> 1;
    return (flow & 1) === 0 && id < this.#rates.length && this.#rates[id]! < Infinity;
  }

  #growRates(needed: number): void {
    const rates = new Float64Array(Math.max(64, 1 << (32 - Math.clz32(needed - 1)))).fill(Infinity);
    rates.set(this.#rates);
    this.#rates = rates;
    this.#mayPace = this.#pacing;
  }

  /** Key in the flow table: local connections have the top bit clear, hashes have it set. */
  #key(flow: number): number {
    return (flow & 1) === 0 ? flow >>> 1 : ((flow >>> 1) & this.#orphanMask) | 0x80000000;
  }

  /** The flow of a flow number, made if it does not exist; `NONE` when all are in use. */
  #flowOf(number: number, now: Instant): number {
    const key = this.#key(number);
    const index = this.#table.first(key);
    return index >= 0 ? this.#table.at(index) : this.#makeFlow(key, now);
  }

  #makeFlow(key: number, now: Instant): number {
    const flows = this.#flows;
    const full = this.#table.size === this.#table.limit;
    for (let i = 0; i < COLLECT_AT_ONCE; i++) {
      const oldest = this.#idleFlows.head;
      if (oldest === NONE || (now - flows.idleSince[oldest]! <= COLLECT_AFTER && !(full && i === 0))) break;
      this.#idleFlows.remove(oldest);
      this.#table.remove(flows.keys[oldest]!, oldest);
      this.#freeFlows.push(oldest);
      this.#collectedCount++;
    }
    if (this.#table.size === this.#table.limit) return NONE;
    const flow = this.#freeFlows.pop() ?? flows.make();
    this.#throttled.reserve(flow);
    this.#table.insert(key, flow);
    flows.keys[flow] = key;
    flows.states[flow] = FlowState.Idle;
    flows.credits[flow] = this.#initialQuantum;
    flows.nextPacketAt[flow] = 0;
    flows.idleSince[flow] = now;
    this.#idleFlows.push(flow);
    return flow;
  }
}

/** The connection of an even flow number. */
function localId(flow: number): number {
  checkOption("fq", "flow", flow, 0, LOCAL_FLOW_MAX);
  if ((flow & 1) !== 0) throw new RangeError(`fq flow ${flow} is a hash, which can have no rate`);
  return flow >>> 1;
}
