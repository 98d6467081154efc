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
 * What always holds: no packet leaves before its stamp (with `horizonDrop: false`, a stamp beyond the horizon counts as
 * one at the horizon); the packets of a flow leave in the order of their stamps, equal ones in the order of their
 * arrival; of two flows that always have something due, neither gets more than a quantum and a packet ahead of the
 * other in bytes; packets pushed = pulled + refused + dropped by `close` + held. A packet without a stamp, or with one
 * in the past, may leave at once.
 *
 * The key of a flow is `Packet.flow`. Even keys belong to local connections and are taken as they are; odd ones are
 * hashes, of which only the bits in `orphanMask` count, so that strangers cannot make flows (and with them new ones)
 * without end. Flow objects are reused; idle ones are forgotten after three seconds, or earlier when they are needed.
 *
 * Left out: the bands of newer kernels, pacing of packets without a stamp (senders here stamp all that they pace), rate
 * limits and CE marking.
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
import { type Duration, type Instant, MILLISECOND, SECOND } from "../base/time.ts";
import { FlowList, FlowState, FqFlow } from "./fq_flow.ts";
import { checkOption, type Qdisc } from "./qdisc.ts";

/** Idle flows are forgotten after this time. */
const COLLECT_AFTER: Duration = 3 * SECOND;

/** At most so many are forgotten each time a flow is made. */
const COLLECT_AT_ONCE = 8;

/** Options of {@linkcode Fq}, by tc's names. */
export interface FqOptions {
  /** The most packets held, all flows together (default 10,000). */
  limit?: number;
  /** The most packets held of one flow (default 100). */
  flowLimit?: number;
  /** Bytes that a flow may send in a turn (default 3,028: two Ethernet frames). */
  quantum?: number;
  /** Bytes that a flow may send in its first turn (default 15,140: ten Ethernet frames). */
  initialQuantum?: number;
  /** How far ahead a departure time may lie, in ns (default 10 s). */
  horizon?: Duration;
  /** What to do beyond the horizon: drop (default), or `false` for departure at the horizon. */
  horizonDrop?: boolean;
  /** Idle time after which a flow gets a quantum of credit again, in ns (default 40 ms). */
  refillDelay?: Duration;
  /** Which bits of a flow hash count (default 1,023, for 1,024 flows); local connections are not concerned. */
  orphanMask?: number;
  /** Bytes added to the length of each packet for the headers that it will get further down (default 0). */
  overheadBytes?: number;
}

/** The fair queue. */
export class Fq implements Qdisc {
  /** `"fq"`. */
  readonly kind: string = "fq";
  readonly #sink: DropSink;
  readonly #limit: number;
  readonly #flowLimit: number;
  readonly #quantum: number;
  readonly #initialQuantum: number;
  readonly #horizon: Duration;
  readonly #horizonDrop: boolean;
  readonly #refillDelay: Duration;
  readonly #orphanMask: number;
  readonly #overheadBytes: number;

  readonly #table: HashTable<FqFlow>;
  readonly #flows: FqFlow[] = [];
  readonly #freeFlows: FqFlow[] = [];
  readonly #newFlows = new FlowList();
  readonly #oldFlows = new FlowList();
  readonly #idleFlows = new FlowList();
  readonly #throttled = new DeadlineHeap();

  #packets = 0;
  #bytes = 0;
  /** Flows that hold packets. */
  #busyFlows = 0;
  #pulledPackets = 0;
  #pulledBytes = 0;
  #drops = 0;
  #collectedCount = 0;
  #throttledCount = 0;
  #flowLimitCount = 0;
  #allocationErrors = 0;
  #horizonDrops = 0;
  #horizonCaps = 0;
  #unthrottleLatency: Duration = 0;

  /**
   * Makes an empty queue.
   *
   * @param options all of them optional
   * @param sink takes what is still held when the queue is closed
   * @throws {RangeError} if an option is out of range
   */
  constructor(options: FqOptions, sink: DropSink) {
    const check = (name: string, value: number, least: number, most: number) =>
      checkOption(this.kind, name, value, least, most);
    this.#sink = sink;
    this.#limit = check("limit", options.limit ?? 10_000, 1, 1 << 24);
    this.#flowLimit = check("flowLimit", options.flowLimit ?? 100, 1, 1 << 24);
    this.#quantum = check("quantum", options.quantum ?? 3028, 1, 1 << 20);
    this.#initialQuantum = check("initialQuantum", options.initialQuantum ?? 15_140, 0, 2 ** 31 - 1);
    this.#horizon = check("horizon", options.horizon ?? 10 * SECOND, 0, 3600 * SECOND);
    this.#horizonDrop = options.horizonDrop ?? true;
    this.#refillDelay = check("refillDelay", options.refillDelay ?? 40 * MILLISECOND, 0, 3600 * SECOND);
    this.#orphanMask = check("orphanMask", options.orphanMask ?? 1023, 0, 0xffff);
    this.#overheadBytes = check("overheadBytes", options.overheadBytes ?? 0, 0, 1024);
    // Enough for a flow a packet and all hashes; more can only be local connections on their way to being idle.
    this.#table = new HashTable(this.#limit + this.#orphanMask + 1);
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
    return index < 0 ? 0 : this.#table.at(index).bytes;
  }

  /** Takes `p`, or refuses it with `QdiscLimit`, `FlowLimit` or `Horizon`. */
  push(p: Packet, now: Instant): DropReason {
    const reason = this.#admit(p, now);
    if (reason !== DropReason.None) this.#drops++;
    return reason;
  }

  /** The next packet in turn that is due, or `null`. */
  pull(now: Instant): Packet | null {
    this.#unthrottle(now);
    for (;;) {
      const list = this.#newFlows.head !== null ? this.#newFlows : this.#oldFlows;
      const flow = list.head;
      if (flow === null) return null;
      if (flow.credit <= 0) {
        flow.credit += this.#quantum;
        this.#toOldFlows(list, flow);
        continue;
      }
      const p = flow.head;
      if (p === null) {
        if (list === this.#newFlows) this.#toOldFlows(list, flow);
        else this.#toIdleFlows(flow, now);
        continue;
      }
      if (p.releaseAt > now) {
        list.remove(flow);
        flow.state = FlowState.Throttled;
        this.#throttled.set(flow.id, p.releaseAt);
        this.#throttledCount++;
        continue;
      }
      flow.credit -= p.length + this.#overheadBytes;
      this.#take(flow);
      this.#pulledPackets++;
      this.#pulledBytes += p.length;
      return p;
    }
  }

  /** When the next packet may leave; 0 if a flow is in line, whose first packet only a pull looks at. */
  nextAt(): Instant {
    return this.#busyFlows > this.#throttled.size ? 0 : this.#throttled.nextAt();
  }

  /**
   * The counters of `tc -s qdisc` by their names there: `packets` and `bytes` (sent), `drops`, `qlen` and `backlog`
   * (held, in packets and bytes), and those of fq itself. `unthrottle_latency_ns` is a moving average of how late
   * throttled flows were looked at; `allocation_errors` are packets refused because every flow object was in use.
   */
  stats(): Record<string, number> {
    return {
      packets: this.#pulledPackets,
      bytes: this.#pulledBytes,
      drops: this.#drops,
      qlen: this.#packets,
      backlog: this.#bytes,
      flows: this.#table.size,
      inactive_flows: this.#table.size - this.#busyFlows,
      throttled_flows: this.#throttled.size,
      throttled: this.#throttledCount,
      flows_plimit: this.#flowLimitCount,
      horizon_drops: this.#horizonDrops,
      horizon_caps: this.#horizonCaps,
      gc_flows: this.#collectedCount,
      allocation_errors: this.#allocationErrors,
      unthrottle_latency_ns: Math.floor(this.#unthrottleLatency),
    };
  }

  /** Drops all packets held. */
  close(now: Instant): void {
    for (const flow of this.#flows) {
      if (flow.state === FlowState.Throttled) {
        this.#throttled.clear(flow.id);
        flow.state = FlowState.Old;
        this.#oldFlows.push(flow);
      }
      for (let p = flow.head; p !== null; p = flow.head) {
        this.#take(flow);
        this.#sink.drop(p, DropReason.Closed, now);
      }
    }
  }

  #admit(p: Packet, now: Instant): DropReason {
    if (this.#packets >= this.#limit) return DropReason.QdiscLimit;
    let due = p.departAt === 0 ? now : p.departAt;
    if (due - now > this.#horizon) {
      if (this.#horizonDrop) {
        this.#horizonDrops++;
        return DropReason.Horizon;
      }
      this.#horizonCaps++;
      due = now + this.#horizon;
    }
    const flow = this.#flowOf(p.flow, now);
    if (flow === null) {
      this.#allocationErrors++;
      return DropReason.FlowLimit;
    }
    if (flow.packets >= this.#flowLimit) {
      this.#flowLimitCount++;
      return DropReason.FlowLimit;
    }
    p.releaseAt = due;
    if (flow.packets === 0) this.#busyFlows++;
    flow.insert(p);
    this.#packets++;
    this.#bytes += p.length;
    if (flow.state === FlowState.Idle) {
      this.#idleFlows.remove(flow);
      if (now - flow.idleSince > this.#refillDelay && flow.credit < this.#quantum) flow.credit = this.#quantum;
      flow.state = FlowState.New;
      this.#newFlows.push(flow);
    } else if (flow.state === FlowState.Throttled && flow.head === p) {
      this.#throttled.set(flow.id, due);
    }
    return DropReason.None;
  }

  #take(flow: FqFlow): void {
    const p = flow.shift()!;
    this.#packets--;
    this.#bytes -= p.length;
    if (flow.packets === 0) this.#busyFlows--;
  }

  #unthrottle(now: Instant): void {
    const due = this.#throttled.nextAt();
    if (due > now) return;
    this.#unthrottleLatency += (now - due - this.#unthrottleLatency) / 8;
    for (let id = this.#throttled.popDue(now); id >= 0; id = this.#throttled.popDue(now)) {
      const flow = this.#flows[id]!;
      flow.state = FlowState.Old;
      this.#oldFlows.push(flow);
    }
  }

  #toOldFlows(from: FlowList, flow: FqFlow): void {
    from.remove(flow);
    flow.state = FlowState.Old;
    this.#oldFlows.push(flow);
  }

  #toIdleFlows(flow: FqFlow, now: Instant): void {
    this.#oldFlows.remove(flow);
    flow.state = FlowState.Idle;
    flow.idleSince = now;
    this.#idleFlows.push(flow);
  }

  /** Key in the flow table: local connections have the top bit clear, hashes have it set. */
  #key(flow: number): number {
    return (flow & 1) === 0 ? flow >>> 1 : ((flow >>> 1) & this.#orphanMask) | 0x80000000;
  }

  /** The flow of `flow`, made if it does not exist; `null` when all objects are in use. */
  #flowOf(flow: number, now: Instant): FqFlow | null {
    const key = this.#key(flow);
    const index = this.#table.first(key);
    return index >= 0 ? this.#table.at(index) : this.#makeFlow(key, now);
  }

  #makeFlow(key: number, now: Instant): FqFlow | null {
    const full = this.#table.size === this.#table.limit;
    for (let i = 0; i < COLLECT_AT_ONCE; i++) {
      const oldest = this.#idleFlows.head;
      if (oldest === null || (now - oldest.idleSince <= COLLECT_AFTER && !(full && i === 0))) break;
      this.#idleFlows.remove(oldest);
      this.#table.remove(oldest.key, oldest);
      this.#freeFlows.push(oldest);
      this.#collectedCount++;
    }
    if (this.#table.size === this.#table.limit) return null;
    let flow = this.#freeFlows.pop();
    if (flow === undefined) {
      flow = new FqFlow(this.#flows.length);
      this.#flows.push(flow);
    }
    this.#table.insert(key, flow);
    flow.key = key;
    flow.credit = this.#initialQuantum;
    flow.idleSince = now;
    this.#idleFlows.push(flow);
    return flow;
  }
}
