/**
 * A transmitter with one drop-tail queue, which any number of links share.
 *
 * ```text
 *   a1 ──┐                                    ┌── loss, delay of link 1 ── b1
 *   a2 ──┼── queue ── transmitter at a rate ──┼── loss, delay of link 2 ── b2
 *   a3 ──┘                                    └── loss, delay of link 3 ── b3
 * ```
 *
 * Each direction of a link that names a bottleneck sends through it first; behind it follow the impairment and the
 * delay of the direction itself. So flows with round-trip times of their own compete for one queue, and what is lost on
 * the wire has taken its time on the transmitter.
 *
 * Whether a packet finds room is decided when it comes, and nothing else is remembered than when the transmitter will be
 * free: the queue holds (free − now) · rate bytes, the rest of the packet being transmitted included. A packet is
 * dropped if it does not fit beside them. Packets are counted alike: those that are still in the queue, the one being
 * transmitted included.
 *
 * What always holds: packets leave in the order in which they came, at most at the rate; packets offered = left + dropped
 * + held.
 *
 * Left out: isolation of flows, early dropping and marking, which are the business of a queueing discipline.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import type { Packet } from "../base/packet.ts";
import { PacketList } from "../base/packet_list.ts";
import { type Instant, NEVER, SECOND } from "../base/time.ts";

/** Options of a {@linkcode SimBottleneck}. */
export interface SimBottleneckOptions {
  /** What is transmitted in a second; `Infinity` (default) for no bound, where nothing ever queues. */
  rateBytesPerSec?: number;
  /** The most bytes in the queue, each packet with its overhead (default no bound). */
  queueBytes?: number;
  /** The most packets in the queue (default no bound). */
  queuePackets?: number;
  /** Bytes that each packet has on the link beyond its own: 14 for the header of Ethernet (default 0). */
  overheadBytes?: number;
}

/** A shared transmitter; made by `Simulator.addBottleneck`. */
export class SimBottleneck {
  /** Its name, for messages. */
  readonly name: string;
  /** Its deadline's id. */
  readonly id: number;
  /** Bytes transmitted in a second, or `Infinity`. */
  readonly rateBytesPerSec: number;
  /** Packets offered to it. */
  offeredPackets = 0;
  /** Packets that found no room. */
  droppedPackets = 0;
  /** Bytes transmitted or in the queue, overhead included. */
  takenBytes = 0;
  /** The most bytes that were ever in the queue. */
  peakQueueBytes = 0;
  readonly #queueBytes: number;
  readonly #queuePackets: number;
  readonly #overheadBytes: number;
  readonly #held = new PacketList();
  #freeAt: Instant = 0;

  /**
   * Makes an idle transmitter.
   *
   * @throws {RangeError} if an option is out of range
   */
  constructor(name: string, id: number, options: SimBottleneckOptions = {}) {
    const { rateBytesPerSec = Infinity, queueBytes = Infinity, queuePackets = Infinity, overheadBytes = 0 } = options;
    if (!(rateBytesPerSec > 0)) {
      throw new RangeError(`rateBytesPerSec of bottleneck "${name}" must be above 0, got ${rateBytesPerSec}`);
    }
    if (!(queueBytes > 0)) {
      throw new RangeError(`queueBytes of bottleneck "${name}" must be above 0, got ${queueBytes}`);
    }
    if (!(queuePackets >= 1)) {
      throw new RangeError(`queuePackets of bottleneck "${name}" must be at least 1, got ${queuePackets}`);
    }
    if (!Number.isSafeInteger(overheadBytes) || overheadBytes < 0) {
      throw new RangeError(`overheadBytes of bottleneck "${name}" must be a whole number from 0, got ${overheadBytes}`);
    }
    this.name = name;
    this.id = id;
    this.rateBytesPerSec = rateBytesPerSec;
    this.#queueBytes = queueBytes;
    this.#queuePackets = queuePackets;
    this.#overheadBytes = overheadBytes;
  }

  /** Packets in the queue, the one being transmitted included. */
  get heldPackets(): number {
    return this.#held.packets;
  }

  /** Bytes in the queue at `now`, overhead included and with the rest of the packet being transmitted. */
  backlogBytes(now: Instant): number {
    return this.#freeAt > now ? (this.#freeAt - now) * this.rateBytesPerSec / SECOND : 0;
  }

  /** Takes `p` and sets when it will have been transmitted, or refuses it with `LinkFull`. */
  push(p: Packet, now: Instant): DropReason {
    this.offeredPackets++;
    const bytes = p.length + this.#overheadBytes;
    const queued = this.rateBytesPerSec === Infinity ? bytes : this.backlogBytes(now) + bytes;
    if (queued > this.#queueBytes || this.#held.packets >= this.#queuePackets) {
      this.droppedPackets++;
      return DropReason.LinkFull;
    }
    if (queued > this.peakQueueBytes) this.peakQueueBytes = queued;
    this.takenBytes += bytes;
    const time = this.rateBytesPerSec === Infinity ? 0 : Math.ceil(bytes / this.rateBytesPerSec * SECOND);
    this.#freeAt = Math.max(this.#freeAt, now) + time;
    p.releaseAt = this.#freeAt;
    this.#held.push(p);
    return DropReason.None;
  }

  /** A packet that has been transmitted at `now`, or `null`. */
  pull(now: Instant): Packet | null {
    const head = this.#held.head;
    return head !== null && head.releaseAt <= now ? this.#held.shift() : null;
  }

  /** When the next packet will have been transmitted; `NEVER` if none is held. */
  nextAt(): Instant {
    return this.#held.head?.releaseAt ?? NEVER;
  }

  /** Its counters. */
  stats(): Record<string, number> {
    return {
      offered_packets: this.offeredPackets,
      dropped_packets: this.droppedPackets,
      taken_bytes: this.takenBytes,
      peak_queue_bytes: Math.round(this.peakQueueBytes),
      held_packets: this.heldPackets,
    };
  }
}
