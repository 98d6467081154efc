/**
 * A first-in, first-out queue for all flows together, bounded in packets.
 *
 * A packet stands in line from its departure time on: one that is stamped for later takes its place when that time
 * comes, as if the sender itself had waited (which is what Linux TCP does above a qdisc that knows no departure
 * times). So a paced flow holds nobody up, nothing leaves before its stamp, and equal times leave in the order of their
 * arrival. A packet without a stamp stands in line at once.
 *
 * Left out: bytes as the unit of the limit (tc's bfifo), priorities.
 *
 * @module
 */

import { DropReason, type DropSink } from "../base/drop.ts";
import { HashTable } from "../base/hash_table.ts";
import type { Packet } from "../base/packet.ts";
import { type Instant, NEVER } from "../base/time.ts";
import { TimeQueue } from "../base/time_queue.ts";
import { checkOption, type Qdisc } from "./qdisc.ts";

/** Options of {@linkcode Pfifo}, by tc's names. */
export interface PfifoOptions {
  /** The most packets held, waiting for their time or in line (default 1,000). */
  limit?: number;
}

interface FlowBytes {
  flow: number;
  packets: number;
  bytes: number;
}

/** The plain queue. */
export class Pfifo implements Qdisc {
  /** `"pfifo"`. */
  readonly kind: string = "pfifo";
  readonly #sink: DropSink;
  readonly #limit: number;
  readonly #queue = new TimeQueue();
  readonly #flows: HashTable<FlowBytes>;
  readonly #freeFlows: FlowBytes[] = [];
  #pulledPackets = 0;
  #pulledBytes = 0;
  #drops = 0;

  /**
   * Makes an empty queue.
   *
   * @param options all of them optional
   * @param sink takes what is still held when the queue is closed
   * @throws {RangeError} if an option is out of range
   */
  constructor(options: PfifoOptions, sink: DropSink) {
    this.#limit = checkOption(this.kind, "limit", options.limit ?? 1000, 1, 1 << 24);
    this.#sink = sink;
    this.#flows = new HashTable(this.#limit);
  }

  /** Packets held. */
  get backlogPackets(): number {
    return this.#queue.packets;
  }

  /** Bytes held. */
  get backlogBytes(): number {
    return this.#queue.bytes;
  }

  /** Bytes held of one flow. */
  flowBacklog(flow: number): number {
    return this.#find(flow)?.bytes ?? 0;
  }

  /** Does nothing: a plain queue does not pace. */
  setFlowRate(_flow: number, _rateBytesPerSec: number): void {}

  /** Does nothing: a plain queue remembers nothing of a flow. */
  resetFlow(_flow: number): void {}

  /** Takes `p`, or refuses it with `QdiscLimit`. */
  push(p: Packet, now: Instant): DropReason {
    if (this.#queue.packets >= this.#limit) {
      this.#drops++;
      return DropReason.QdiscLimit;
    }
    p.releaseAt = p.departAt > now ? p.departAt : now;
    this.#account(p);
    this.#queue.push(p);
    return DropReason.None;
  }

  /** The packet that has stood in line longest, or `null`. */
  pull(now: Instant): Packet | null {
    const p = this.#shift(now);
    if (p === null) return null;
    this.#pulledPackets++;
    this.#pulledBytes += p.length;
    return p;
  }

  /** When the next packet may leave. */
  nextAt(): Instant {
    return this.#queue.nextAt();
  }

  /** `packets` and `bytes` (sent), `drops`, `qlen` and `backlog` (held, in packets and bytes). */
  stats(): Record<string, number> {
    return {
      packets: this.#pulledPackets,
      bytes: this.#pulledBytes,
      drops: this.#drops,
      qlen: this.#queue.packets,
      backlog: this.#queue.bytes,
    };
  }

  /** Drops all packets held. */
  close(now: Instant): void {
    for (let p = this.#shift(NEVER); p !== null; p = this.#shift(NEVER)) this.#sink.drop(p, DropReason.Closed, now);
  }

  #shift(now: Instant): Packet | null {
    const p = this.#queue.shift(now);
    if (p === null) return null;
    const entry = this.#find(p.flow)!;
    entry.bytes -= p.length;
    if (--entry.packets === 0) {
      this.#flows.remove(entry.flow, entry);
      this.#freeFlows.push(entry);
    }
    return p;
  }

  #account(p: Packet): void {
    let entry = this.#find(p.flow);
    if (entry === null) {
      entry = this.#freeFlows.pop() ?? { flow: 0, packets: 0, bytes: 0 };
      entry.flow = p.flow | 0;
      this.#flows.insert(entry.flow, entry);
    }
    entry.packets++;
    entry.bytes += p.length;
  }

  #find(flow: number): FlowBytes | null {
    const index = this.#flows.first(flow);
    return index < 0 ? null : this.#flows.at(index);
  }
}
