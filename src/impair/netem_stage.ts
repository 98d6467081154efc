/**
 * The stage that plays the wire: it asks the deciding parts about each packet and holds those that are delayed.
 *
 * The order of decisions is netem's: duplicate, loss or mark, copy, corrupt, limit, reorder, delay and rate. Different
 * from Linux a copy does not go through all of that again: it gets a delay of its own and takes its share of the rate,
 * and is neither lost nor corrupted nor reordered by itself; a packet that goes ahead does not overtake those that are
 * due already; a mark is not counted as a drop. With `compat linux` all of this is as in Linux.
 *
 * With a rate, a packet is transmitted when the one before it has been: it leaves at
 * `max(previous release, now + delay) + transmission time`. So the delay is paid once, packets that were sent back to
 * back leave one transmission time apart, and jitter can no longer reorder. `limit` counts all packets held: to play
 * a link of rate R with delay D and a buffer of B packets it has to be at least R·D in packets, plus B.
 *
 * The configuration can be changed at any time. What is held stays, also above a new limit; packets keep the delay with
 * which they came, and nobody overtakes them where delays do not stray. If the rate changes, what was not transmitted yet
 * is transmitted at the new one, and a packet under way goes on with what is left of it. Random streams go on where they
 * were.
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
import { PacketList } from "../base/packet_list.ts";
import { Rng } from "../base/rng.ts";
import type { Stage } from "../base/stage.ts";
import { type Instant, NEVER } from "../base/time.ts";
import { TimeQueue } from "../base/time_queue.ts";
import { type NetemConfig, netemConfig } from "./config.ts";
import { DeliveryPlayer } from "./delivery.ts";
import { type Decisions, Verdict } from "./impairment.ts";
import { LinuxDecisions } from "./linux_decisions.ts";
import { Meter, type NetemReport } from "./meter.ts";
import { OwnDecisions } from "./own_decisions.ts";
import { Rate, type Transmitter } from "./rate.ts";
import { Slots } from "./slot.ts";
import { TracePlayer } from "./trace.ts";

/** One direction of an impaired link. */
export class NetemStage implements Stage {
  readonly #rng: Rng;
  readonly #pool: PacketPool;
  readonly #sink: DropSink;
  readonly #verdict = new Verdict();
  readonly #copyVerdict = new Verdict();
  readonly #queue = new TimeQueue();
  /** Packets that went ahead in Linux's way, the last one first; they leave before all others. */
  #front: Packet | null = null;
  #frontPackets = 0;
  #frontBytes = 0;
  #config: NetemConfig;
  #decisions: Decisions;
  #unseeded: OwnDecisions | null = null;
  #unseededLinux: LinuxDecisions | null = null;
  #slotRng: Rng | null = null;
  #isLinux = false;
  #transmitter: Transmitter | null = null;
  #trace: TracePlayer | null = null;
  #slots: Slots | null = null;
  /** No packet may be due before the one that came before it. */
  #keepsOrder = true;
  /** The latest release so far. */
  #lastRelease: Instant = 0;
  #meter: Meter;

  #pushed = 0;
  #pulledPackets = 0;
  #pulledBytes = 0;
  #lost = 0;
  #limitDrops = 0;
  #marked = 0;
  #duplicated = 0;
  #copiesRefused = 0;
  #corrupted = 0;
  #reordered = 0;
  #closed = 0;

  /**
   * Makes an empty stage.
   *
   * @param config what to do; see `parseNetem` for the text form
   * @param rng only forked, under the names of the parts; not used if `config` has a seed
   * @param pool where copies come from
   * @param sink takes the packets that are lost
   * @param origin when recordings begin (default 0)
   * @throws {RangeError} if a field of `config` is out of range
   */
  constructor(config: NetemConfig, rng: Rng, pool: PacketPool, sink: DropSink, origin: Instant = 0) {
    this.#rng = rng;
    this.#pool = pool;
    this.#sink = sink;
    this.#config = netemConfig(config);
    this.#decisions = this.#makeDecisions();
    this.#meter = new Meter(-1);
    this.#apply(null, origin);
  }

  /** What it does, complete. */
  get config(): Readonly<NetemConfig> {
    return this.#config;
  }

  /** Packets held. */
  get heldPackets(): number {
    return this.#queue.packets + this.#frontPackets;
  }

  /** Bytes held. */
  get heldBytes(): number {
    return this.#queue.bytes + this.#frontBytes;
  }

  /**
   * Does something else from `now` on; packets held stay. The report begins anew.
   *
   * @throws {RangeError} if a field of `config` is out of range; then nothing is changed
   */
  change(config: NetemConfig, now: Instant): void {
    const before = this.#config;
    this.#config = keepSame(netemConfig(config), before);
    if (before.compat !== this.#config.compat || before.seed !== this.#config.seed) {
      this.#decisions = this.#makeDecisions();
    }
    this.#apply(before, now);
    this.#meter = new Meter(now);
    if (!this.#isLinux && !isSameLink(before, this.#config)) this.#transmitAgain(now, before);
    this.#meter.begunBusy(Math.max(0, this.#lastRelease - now));
    this.#settleSlot();
  }

  /** Takes `p`; a lost packet counts as taken (its sender is not told). Refuses it with `ImpairLimit`. */
  push(p: Packet, now: Instant): DropReason {
    if (this.#pushed++ === 0) this.#meter.begin(now);
    if (this.#isLinux) {
      const reason = this.#pushAsLinux(p, now, this.#verdict, false);
      this.#settleSlot();
      return reason;
    }
    const decisions = this.#decisions;
    const trace = this.#trace;
    if (trace !== null && trace.follow(now)) decisions.follow(trace.delay, trace.loss);
    const verdict = this.#verdict;
    verdict.reset();
    decisions.fate(p, verdict, false);
    this.#meter.fated(verdict);
    if (verdict.marked) this.#marked++;
    const isLost = verdict.copies === 0;
    const isFull = !isLost && this.heldPackets >= this.#config.limit;
    if (isFull) verdict.copies = 0;
    decisions.timing(p, verdict);
    if (isLost) return this.#lose(p, now);
    if (isFull) return this.#refuse();
    const copy = verdict.copies > 1 && this.heldPackets + 1 < this.#config.limit ? this.#copy(p) : null;
    if (verdict.copies > 1 && copy === null) this.#copiesRefused++;
    if (verdict.corruptBit >= 0) this.#corrupt(p, verdict.corruptBit);
    this.#meter.taken(verdict.ahead, this.heldPackets + (copy === null ? 1 : 2));
    if (verdict.ahead) {
      this.#holdAhead(p, now);
    } else {
      p.heldAt = now;
      p.readyAt = now + verdict.delay;
      this.#hold(p);
    }
    if (copy !== null) {
      copy.heldAt = now;
      copy.readyAt = now + verdict.copyDelay;
      this.#hold(copy);
    }
    this.#settleSlot();
    return DropReason.None;
  }

  /** A packet that has arrived at the other end of the wire, or `null`. */
  pull(now: Instant): Packet | null {
    const p = this.#front !== null
      ? this.#shiftFront()
      : this.#slots === null
      ? this.#queue.shift(now)
      : this.#shiftSlot(now);
    if (p === null) return null;
    this.#pulledPackets++;
    this.#pulledBytes += p.length;
    this.#meter.pulled(p, this.#transmitter !== null, now);
    return p;
  }

  /** When the next packet arrives at the other end. */
  nextAt(): Instant {
    const at = this.#queue.nextAt();
    if (this.#front !== null) return Math.min(at, this.#front.releaseAt);
    return this.#slots === null || at === NEVER ? at : Math.max(at, this.#slots.at);
  }

  /**
   * Counters: `pushed`, `packets` and `bytes` (pulled), `qlen` and `backlog` (held, in packets and bytes), `lost`,
   * `marked`, `limit_drops`, `duplicated`, `copies_refused` (no room or no packet for the copy), `corrupted`,
   * `reordered` (went ahead), `closed` (dropped by `close`), and `drops`: `lost` + `limit_drops`, with `compat linux`
   * + `marked`.
   */
  stats(): Record<string, number> {
    return {
      pushed: this.#pushed,
      packets: this.#pulledPackets,
      bytes: this.#pulledBytes,
      qlen: this.heldPackets,
      backlog: this.heldBytes,
      drops: this.#lost + this.#limitDrops + (this.#isLinux ? this.#marked : 0),
      lost: this.#lost,
      marked: this.#marked,
      limit_drops: this.#limitDrops,
      duplicated: this.#duplicated,
      copies_refused: this.#copiesRefused,
      corrupted: this.#corrupted,
      reordered: this.#reordered,
      closed: this.#closed,
    };
  }

  /** What was asked for and what was given, since the beginning or the last change. */
  report(now: Instant): NetemReport {
    return this.#meter.report(this.#config, this.heldPackets, this.#lastRelease, now);
  }

  /** Drops all packets held, as `Closed`; afterwards the stage is empty and can be used again. */
  close(now: Instant): void {
    for (let p = this.#shiftAny(); p !== null; p = this.#shiftAny()) {
      this.#closed++;
      this.#sink.drop(p, DropReason.Closed, now);
    }
    this.#lastRelease = now;
    if (this.#transmitter !== null) this.#transmitter.freeAt = now;
  }

  /** Decisions that begin with the seed of the configuration; without one, those that there were before. */
  #makeDecisions(): Decisions {
    const { compat, seed } = this.#config;
    if (seed !== null) {
      return compat === null ? new OwnDecisions(this.#seeded()) : new LinuxDecisions(this.#seeded(), seed);
    }
    if (compat === null) return this.#unseeded ??= new OwnDecisions(this.#rng);
    return this.#unseededLinux ??= new LinuxDecisions(this.#rng, null);
  }

  /** The stream to fork; a seed of the impairment's own leaves links of different names independent. */
  #seeded(): Rng {
    const { seed } = this.#config;
    return seed === null ? this.#rng : new Rng(seed, this.#rng.path);
  }

  /** Takes over the configuration where it differs from the one `before`; recordings that are new begin at `origin`. */
  #apply(before: NetemConfig | null, origin: Instant): void {
    const c = this.#config;
    this.#isLinux = c.compat !== null;
    this.#decisions.change(c);
    if (before === null || before.slot !== c.slot || before.seed !== c.seed) {
      const slotRng = c.seed === null ? this.#slotRng ??= this.#rng.fork("slot") : this.#seeded().fork("slot");
      this.#slots = c.slot === null ? null : new Slots(c.slot, slotRng);
    }
    if (before === null || before.trace !== c.trace) {
      this.#trace = c.trace === null ? null : new TracePlayer(c.trace, origin);
    } else if (this.#trace !== null) {
      this.#trace.row = -1;
    }
    if (before === null || !isSameLink(before, c)) {
      this.#transmitter = c.rateBytesPerSec > 0
        ? new Rate(c.rateBytesPerSec, c.packetOverheadBytes, c.cellBytes, c.cellOverheadBytes)
        : c.delivery !== null
        ? new DeliveryPlayer(c.delivery, origin)
        : this.#trace;
    }
    this.#keepsOrder = !this.#isLinux && (c.jitter === 0 || c.keepOrder);
  }

  #lose(p: Packet, now: Instant): DropReason {
    this.#lost++;
    this.#sink.drop(p, DropReason.ImpairLoss, now);
    return DropReason.None;
  }

  #refuse(): DropReason {
    this.#limitDrops++;
    this.#meter.refused();
    return DropReason.ImpairLimit;
  }

  #corrupt(p: Packet, bit: number): void {
    this.#corrupted++;
    const at = p.start + (bit >>> 3);
    p.bytes[at]! ^= 0x80 >>> (bit & 7);
  }

  /** A copy of `p`; `null` if there is no packet for it. */
  #copy(p: Packet): Packet | null {
    const copy = p.end <= this.#pool.slotBytes ? this.#pool.acquire() : null;
    if (copy === null) return null;
    copy.copyFrom(p);
    copy.duplicate = true;
    this.#duplicated++;
    return copy;
  }

  /** Holds a packet that is not delayed. */
  #holdAhead(p: Packet, now: Instant): void {
    this.#reordered++;
    p.heldAt = now;
    p.readyAt = now;
    p.releaseAt = now;
    this.#queue.push(p);
  }

  /** Holds a packet whose `readyAt` is set. */
  #hold(p: Packet): void {
    const transmitter = this.#transmitter;
    if (transmitter !== null) {
      const { freeAt } = transmitter;
      transmitter.transmit(p);
      this.#meter.transmits(p, freeAt);
    } else {
      p.releaseAt = this.#keepsOrder && this.#lastRelease > p.readyAt ? this.#lastRelease : p.readyAt;
    }
    if (p.releaseAt > this.#lastRelease) this.#lastRelease = p.releaseAt;
    this.#queue.push(p);
  }

  /** As Linux enqueues (sch_netem.c, netem_enqueue); a copy enters before the packet that it is of. */
  #pushAsLinux(p: Packet, now: Instant, verdict: Verdict, isCopy: boolean): DropReason {
    verdict.reset();
    this.#decisions.fate(p, verdict, isCopy);
    this.#meter.fated(verdict);
    if (verdict.marked) this.#marked++;
    if (verdict.copies === 0) return this.#lose(p, now);
    const copy = verdict.copies > 1 ? this.#copy(p) : null;
    if (verdict.copies > 1 && copy === null) this.#copiesRefused++;
    if (verdict.corruptBit >= 0) this.#corrupt(p, verdict.corruptBit);
    if (this.heldPackets >= this.#config.limit) {
      if (copy !== null) {
        this.#refuse();
        this.#sink.drop(copy, DropReason.ImpairLimit, now);
      }
      return this.#refuse();
    }
    if (copy !== null) {
      const reason = this.#pushAsLinux(copy, now, this.#copyVerdict, true);
      if (reason !== DropReason.None) this.#sink.drop(copy, reason, now);
    }
    this.#decisions.timing(p, verdict);
    this.#meter.taken(verdict.ahead, this.heldPackets + 1);
    p.heldAt = now;
    p.readyAt = now + verdict.delay;
    p.releaseAt = p.readyAt;
    if (verdict.ahead) {
      this.#pushFront(p, now);
    } else {
      if (this.#transmitter !== null) this.#transmitAsLinux(p);
      if (p.releaseAt > this.#lastRelease) this.#lastRelease = p.releaseAt;
      this.#queue.push(p);
    }
    return DropReason.None;
  }

  /** The latest time to send of all packets held is what a packet waits for; with none held it may lie in the past. */
  #transmitAsLinux(p: Packet): void {
    const transmitter = this.#transmitter!;
    transmitter.freeAt = this.heldPackets === 0 ? -Infinity : this.#lastRelease;
    const { freeAt } = transmitter;
    transmitter.transmit(p);
    this.#meter.transmits(p, freeAt);
  }

  #pushFront(p: Packet, now: Instant): void {
    this.#reordered++;
    this.#queue.number(p);
    if (now > this.#lastRelease) this.#lastRelease = now;
    p.next = this.#front;
    this.#front = p;
    this.#frontPackets++;
    this.#frontBytes += p.length;
  }

  #shiftFront(): Packet {
    const p = this.#front!;
    this.#front = p.next;
    p.next = null;
    this.#frontPackets--;
    this.#frontBytes -= p.length;
    return p;
  }

  /** Any packet held, whether it is due or not. */
  #shiftAny(): Packet | null {
    return this.#front !== null ? this.#shiftFront() : this.#queue.shift(NEVER);
  }

  #shiftSlot(now: Instant): Packet | null {
    const slots = this.#slots!;
    if (this.#isLinux) {
      const first = this.#queue.first();
      if (first !== null && slots.at < first.releaseAt) this.#askAt(now);
    }
    if (slots.at > now) return null;
    const p = this.#queue.shift(now);
    if (p === null) return null;
    if (slots.use(p)) {
      if (this.#isLinux) this.#askAt(now);
      else slots.askNext();
    }
    this.#settleSlot();
    return p;
  }

  /** Asks for a slot as Linux does: counted from now. */
  #askAt(now: Instant): void {
    this.#slots!.at = now;
    this.#slots!.askNext();
  }

  /** Asks for a slot if there is a packet that came too late for the last one. */
  #settleSlot(): void {
    const slots = this.#slots;
    if (slots === null || this.#isLinux) return;
    const first = this.#queue.first();
    if (first !== null && first.releaseAt > slots.at) slots.askFor(first);
  }

  /** Has what was not transmitted yet transmitted by the new link; what is due stays due. */
  #transmitAgain(now: Instant, before: NetemConfig): void {
    const waiting = new PacketList();
    for (let p = this.#queue.shift(NEVER); p !== null; p = this.#queue.shift(NEVER)) waiting.push(p);
    const transmitter = this.#transmitter;
    const had = before.rateBytesPerSec > 0 || before.delivery !== null || before.trace !== null;
    let lastBefore: Instant = 0;
    let last: Instant = 0;
    for (let p = waiting.shift(); p !== null; p = waiting.shift()) {
      const releaseBefore = p.releaseAt;
      const { readyAt } = p;
      if (releaseBefore > now) {
        const began = Math.max(lastBefore, readyAt);
        const isUnderWay = had && began < now && releaseBefore > readyAt;
        p.readyAt = Math.max(readyAt, now);
        if (transmitter === null) {
          p.releaseAt = this.#keepsOrder ? Math.max(p.readyAt, last) : p.readyAt;
        } else {
          transmitter.freeAt = last;
          transmitter.transmit(p);
          if (isUnderWay) {
            const left = (releaseBefore - now) / (releaseBefore - began);
            p.releaseAt = transmitter.freeAt = now + Math.ceil((p.releaseAt - now) * left);
          }
        }
        p.readyAt = readyAt;
      }
      lastBefore = releaseBefore;
      last = Math.max(last, p.releaseAt);
      this.#queue.put(p);
    }
    this.#lastRelease = last;
  }
}

/** `config` with the recordings and slots of `before` where they are the same, so that these go on. */
function keepSame(config: NetemConfig, before: NetemConfig): NetemConfig {
  for (const field of ["trace", "delivery", "slot"] as const) {
    if (JSON.stringify(config[field]) === JSON.stringify(before[field])) {
      Object.assign(config, { [field]: before[field] });
    }
  }
  return config;
}

/** True if both transmit packets in the same way. */
function isSameLink(a: NetemConfig, b: NetemConfig): boolean {
  return a.rateBytesPerSec === b.rateBytesPerSec && a.packetOverheadBytes === b.packetOverheadBytes &&
    a.cellBytes === b.cellBytes && a.cellOverheadBytes === b.cellOverheadBytes && a.delivery === b.delivery &&
    a.trace === b.trace && a.compat === b.compat;
}
