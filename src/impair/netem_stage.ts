/**
 * The stage that plays the wire: it asks the deciding parts about each packet and holds those that are delayed.
 *
 * The order of decisions is netem's: duplicate, loss or mark, copy, corrupt, limit, reorder, delay and rate. Different
 * from Linux a copy does not go through all of that again: it gets a delay of its own and takes its share of the rate,
 * and is neither lost nor corrupted nor reordered by itself; a packet that goes ahead does not overtake those that are
 * due already; a mark is not counted as a drop.
 *
 * With a rate, a packet is transmitted when the one before it has been: it leaves at
 * `max(previous release, now + delay) + transmission time`. So the delay is paid once, packets that were sent back to
 * back leave one transmission time apart, and jitter can no longer reorder. `limit` counts all packets held: to play
 * a link of rate R with delay D and a buffer of B packets it has to be at least R·D in packets, plus B.
 *
 * What always holds: packets pushed + duplicated = pulled + lost + refused by the limit + dropped by `close` + held; the
 * same seed gives the same decisions; nothing is allocated a packet once the queue has grown.
 *
 * References: net/sched/sch_netem.c, tc-netem(8).
 *
 * @module
 */

import { DropReason, type DropSink } from "../base/drop.ts";
import type { Packet, PacketPool } from "../base/packet.ts";
import type { Rng } from "../base/rng.ts";
import type { Stage } from "../base/stage.ts";
import { type Duration, type Instant, NEVER } from "../base/time.ts";
import { TimeQueue } from "../base/time_queue.ts";
import { type NetemConfig, netemConfig } from "./config.ts";
import { Corrupt } from "./corrupt.ts";
import { Delay } from "./delay.ts";
import { Duplicate } from "./duplicate.ts";
import { type Impairment, Verdict } from "./impairment.ts";
import { Loss } from "./loss.ts";
import { Rate } from "./rate.ts";
import { Reorder } from "./reorder.ts";

/** One direction of an impaired link. */
export class NetemStage implements Stage {
  /** What it was made from, complete. */
  readonly config: Readonly<NetemConfig>;
  readonly #pool: PacketPool;
  readonly #sink: DropSink;
  readonly #limit: number;
  /** Decide whether and how a packet goes on. */
  readonly #fate: Impairment[] = [];
  /** Decide when. */
  readonly #timing: Impairment[] = [];
  readonly #rate: Rate | null;
  readonly #verdict = new Verdict();
  readonly #queue = new TimeQueue();
  /** Release time of the last packet that was transmitted under the rate. */
  #lastRelease: Instant = 0;

  #pulledPackets = 0;
  #pulledBytes = 0;
  #lost = 0;
  #limitDrops = 0;
  #marked = 0;
  #duplicated = 0;
  #copiesRefused = 0;
  #corrupted = 0;
  #reordered = 0;

  /**
   * Makes an empty stage.
   *
   * @param config what to do; see `parseNetem` for the text form
   * @param rng only forked, under the names of the parts
   * @param pool where copies come from
   * @param sink takes the packets that are lost
   * @throws {RangeError} if a field of `config` is out of range
   */
  constructor(config: NetemConfig, rng: Rng, pool: PacketPool, sink: DropSink) {
    const c = netemConfig(config);
    this.config = c;
    this.#pool = pool;
    this.#sink = sink;
    this.#limit = c.limit;
    if (c.duplicate > 0) {
      this.#fate.push(new Duplicate(c.duplicate, c.duplicateCorrelation, rng.fork("duplicate")));
    }
    if (c.loss > 0) this.#fate.push(new Loss(c.loss, c.lossCorrelation, c.ecn, rng.fork("loss")));
    if (c.corrupt > 0) this.#fate.push(new Corrupt(c.corrupt, c.corruptCorrelation, rng.fork("corrupt")));
    if (c.reorder > 0) {
      this.#timing.push(new Reorder(c.reorder, c.reorderCorrelation, c.gap, rng.fork("reorder")));
    }
    if (c.delay > 0) this.#timing.push(new Delay(c.delay, c.jitter, c.delayCorrelation, rng.fork("delay")));
    this.#rate = c.rateBytesPerSec === 0
      ? null
      : new Rate(c.rateBytesPerSec, c.packetOverheadBytes, c.cellBytes, c.cellOverheadBytes);
  }

  /** Packets held. */
  get heldPackets(): number {
    return this.#queue.packets;
  }

  /** Takes `p`; a lost packet counts as taken (its sender is not told). Refuses it with `ImpairLimit`. */
  push(p: Packet, now: Instant): DropReason {
    const verdict = this.#verdict;
    verdict.reset();
    for (const part of this.#fate) part.apply(p, verdict);
    if (verdict.marked) this.#marked++;
    const lost = verdict.copies === 0;
    const full = !lost && this.#queue.packets >= this.#limit;
    if (full) verdict.copies = 0;
    for (const part of this.#timing) part.apply(p, verdict);
    if (lost) {
      this.#lost++;
      this.#sink.drop(p, DropReason.ImpairLoss, now);
      return DropReason.None;
    }
    if (full) {
      this.#limitDrops++;
      return DropReason.ImpairLimit;
    }
    const copy = verdict.copies > 1 ? this.#copy(p) : null;
    if (verdict.corruptBit >= 0) {
      this.#corrupted++;
      const at = p.start + (verdict.corruptBit >>> 3);
      p.bytes[at]! ^= 0x80 >>> (verdict.corruptBit & 7);
    }
    if (verdict.ahead) {
      this.#reordered++;
      this.#hold(p, now);
    } else {
      this.#hold(p, this.#releaseAt(p, verdict.delay, now));
    }
    if (copy !== null) this.#hold(copy, this.#releaseAt(copy, verdict.copyDelay, now));
    return DropReason.None;
  }

  /** A packet that has arrived at the other end of the wire, or `null`. */
  pull(now: Instant): Packet | null {
    const p = this.#queue.shift(now);
    if (p === null) return null;
    this.#pulledPackets++;
    this.#pulledBytes += p.length;
    return p;
  }

  /** When the next packet arrives at the other end. */
  nextAt(): Instant {
    return this.#queue.nextAt();
  }

  /**
   * Counters: `packets` and `bytes` (pulled), `qlen` and `backlog` (held, in packets and bytes), `lost`, `marked`,
   * `limit_drops`, `duplicated`, `copies_refused` (no room or no packet for the copy), `corrupted`, `reordered`.
   */
  stats(): Record<string, number> {
    return {
      packets: this.#pulledPackets,
      bytes: this.#pulledBytes,
      qlen: this.#queue.packets,
      backlog: this.#queue.bytes,
      lost: this.#lost,
      marked: this.#marked,
      limit_drops: this.#limitDrops,
      duplicated: this.#duplicated,
      copies_refused: this.#copiesRefused,
      corrupted: this.#corrupted,
      reordered: this.#reordered,
    };
  }

  /** Drops all packets held, as `Closed`; afterwards the stage is empty and can be used again. */
  close(now: Instant): void {
    for (let p = this.#queue.shift(NEVER); p !== null; p = this.#queue.shift(NEVER)) {
      this.#sink.drop(p, DropReason.Closed, now);
    }
    this.#lastRelease = now;
  }

  #releaseAt(p: Packet, delay: Duration, now: Instant): Instant {
    if (this.#rate === null) return now + delay;
    const begin = Math.max(this.#lastRelease, now + delay);
    this.#lastRelease = begin + this.#rate.transmissionTime(p.length);
    return this.#lastRelease;
  }

  #hold(p: Packet, releaseAt: Instant): void {
    p.releaseAt = releaseAt;
    this.#queue.push(p);
  }

  /** A copy of `p`, for which there will be room once `p` itself is held; else `null`. */
  #copy(p: Packet): Packet | null {
    const copy = this.#queue.packets + 1 < this.#limit ? this.#pool.acquire() : null;
    if (copy === null) {
      this.#copiesRefused++;
      return null;
    }
    copy.copyFrom(p);
    copy.duplicate = true;
    this.#duplicated++;
    return copy;
  }
}
