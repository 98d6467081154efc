/**
 * What was sent and is not acknowledged yet: one record a segment, oldest first.
 *
 * The records (sequence range, departure stamp, flags, and what the rate sampler wants to know) lie in one typed array
 * that is taken when the first segment is sent and doubles up to a bound. Arrays of the first size are used again by later
 * connections: making one costs more than a whole handshake. Bytes themselves stay in the send buffer; a record only says
 * which.
 *
 * The segments of which a copy is in flight also form a list in the order in which they departed, as RACK asks for: what is
 * lost or selectively acknowledged is not in it. So finding what is overdue looks at no segment twice.
 *
 * A segment that was selectively acknowledged remembers how far the run of such segments goes that it lies in, as far as
 * that was known when it was last passed. So a block of any length costs its new segments, whatever the peer sent before.
 *
 * Always holds: records do not overlap and are in sequence order without gaps, from SND.UNA to SND.NXT; all before the end
 * that a selectively acknowledged segment remembers is selectively acknowledged too.
 *
 * @module
 */

import type { Instant } from "../base/time.ts";
import { seqLe } from "../wire/seq.ts";

/** The segment is believed lost. */
export const LOST = 1;
/** The segment was sent again, and that copy is in flight. */
export const RETRANSMITTED = 2;
/** The segment was sent more than once at some time (Karn: no RTT sample). */
export const EVER_RETRANSMITTED = 4;
/** The segment was selectively acknowledged. */
export const SACKED = 8;
/** The application limited the sender when the segment was sent. */
export const APP_LIMITED = 16;

const STRIDE = 13;
const SEQ = 0;
const END = 1;
const DEPART_AT = 2;
const FLAGS = 3;
const DELIVERED = 4;
const DELIVERED_AT = 5;
const FIRST_SENT_AT = 6;
const IN_FLIGHT = 7;
const TOTAL_LOST = 8;
const ORDER = 9;
const RUN_END = 10;
const EARLIER = 11;
const LATER = 12;
const FIRST_CAPACITY = 32;

/** The most segments in flight of one connection. */
export const RETRANSMIT_QUEUE_LIMIT = 1 << 15;

/** What the rate sampler wants to be remembered with a segment. */
export interface RateState {
  /** Bytes delivered so far. */
  readonly deliveredBytes: number;
  /** When that was so. */
  readonly deliveredAt: Instant;
  /** Departure of the first segment of the flight. */
  readonly firstSentAt: Instant;
  /** Not 0 while the application limits the sender. */
  readonly appLimitedUntilBytes: number;
  /** Bytes lost so far. */
  readonly totalLostBytes: number;
}

/** Arrays of the first size that no connection uses; a bounded number is kept. */
const SPARE: Float64Array<ArrayBuffer>[] = [];
const SPARE_LIMIT = 1024;

/** The unacknowledged segments of one connection. */
export class RetransmitQueue {
  #cells: Float64Array<ArrayBuffer> | null = null;
  #mask = 0;
  #head = 0;
  #size = 0;
  /** Slots of the segments in flight that departed first and last, or −1. */
  #earliest = -1;
  #latest = -1;
  #sentCount = 0;

  /** Number of segments. */
  get size(): number {
    return this.#size;
  }

  /**
   * Adds the segment `[seq, end)`, sent with departure stamp `departAt` when the rate sampler stood as `rate` says and
   * `inFlightBytes` were in flight with it; false when the bound is reached.
   */
  push(seq: number, end: number, departAt: Instant, rate: RateState, inFlightBytes = 0): boolean {
    if (this.#cells === null || this.#size > this.#mask) {
      if (this.#size >= RETRANSMIT_QUEUE_LIMIT) return false;
      this.#grow();
    }
    const slot = (this.#head + this.#size++) & this.#mask;
    const at = slot * STRIDE;
    const cells = this.#cells!;
    cells[at + SEQ] = seq;
    cells[at + END] = end;
    cells[at + FLAGS] = 0;
    this.#sent(slot, departAt, rate, inFlightBytes);
    return true;
  }

  /** First sequence number of segment `i` (0 is the oldest). */
  seq(i: number): number {
    return this.#cells![this.#at(i)]! | 0;
  }

  /** One past the last sequence number of segment `i`. */
  end(i: number): number {
    return this.#cells![this.#at(i) + END]! | 0;
  }

  /** Departure stamp of the latest copy of segment `i`. */
  departAt(i: number): Instant {
    return this.#cells![this.#at(i) + DEPART_AT]!;
  }

  /** Flags of segment `i`. */
  flags(i: number): number {
    return this.#cells![this.#at(i) + FLAGS]! | 0;
  }

  /** Bytes that had been delivered when segment `i` was sent. */
  deliveredBytes(i: number): number {
    return this.#cells![this.#at(i) + DELIVERED]!;
  }

  /** When that was so. */
  deliveredAt(i: number): Instant {
    return this.#cells![this.#at(i) + DELIVERED_AT]!;
  }

  /** Departure of the first segment of the flight of segment `i`. */
  firstSentAt(i: number): Instant {
    return this.#cells![this.#at(i) + FIRST_SENT_AT]!;
  }

  /** Bytes in flight when segment `i` was sent, itself included. */
  inFlightBytes(i: number): number {
    return this.#cells![this.#at(i) + IN_FLIGHT]!;
  }

  /** The how-manieth transmission of all the latest copy of segment `i` was: tells copies with one stamp apart. */
  order(i: number): number {
    return this.#cells![this.#at(i) + ORDER]!;
  }

  /** Bytes that had been lost when segment `i` was sent. */
  totalLostBytes(i: number): number {
    return this.#cells![this.#at(i) + TOTAL_LOST]!;
  }

  /** True if the sender was limited by the application when it sent segment `i`. */
  isAppLimited(i: number): boolean {
    return (this.flags(i) & APP_LIMITED) !== 0;
  }

  /** Replaces the flags of segment `i`. A segment of which no copy is in flight leaves the list of departures. */
  setFlags(i: number, flags: number): void {
    const slot = (this.#head + i) & this.#mask;
    this.#cells![slot * STRIDE + FLAGS] = flags;
    if ((flags & SACKED) !== 0 || (flags & (LOST | RETRANSMITTED)) === LOST) this.#unlink(slot);
  }

  /** Notes that segment `i` was sent again, to depart at `departAt`. */
  setRetransmitted(i: number, departAt: Instant, rate: RateState, inFlightBytes = 0): void {
    const slot = (this.#head + i) & this.#mask;
    this.#cells![slot * STRIDE + FLAGS]! |= RETRANSMITTED | EVER_RETRANSMITTED;
    this.#unlink(slot);
    this.#sent(slot, departAt, rate, inFlightBytes);
  }

  /** Index of the segment in flight that departed first, or −1. */
  earliest(): number {
    return this.#earliest < 0 ? -1 : (this.#earliest - this.#head) & this.#mask;
  }

  /** Index of the segment in flight that departed next after segment `i`, which is in flight; or −1. */
  departedAfter(i: number): number {
    const slot = this.#cells![this.#at(i) + LATER]!;
    return slot < 0 ? -1 : (slot - this.#head) & this.#mask;
  }

  /**
   * Makes the list of departures anew, after segments that were not in flight turned out to be.
   */
  relink(): void {
    this.#earliest = this.#latest = -1;
    const cells = this.#cells;
    if (cells === null) return;
    const slots: number[] = [];
    for (let i = 0; i < this.#size; i++) {
      const flags = this.flags(i);
      if ((flags & SACKED) === 0 && (flags & (LOST | RETRANSMITTED)) !== LOST) {
        slots.push((this.#head + i) & this.#mask);
      }
      cells[this.#at(i) + EARLIER] = cells[this.#at(i) + LATER] = -1;
    }
    slots.sort((a, b) => cells[a * STRIDE + ORDER]! - cells[b * STRIDE + ORDER]!);
    for (const slot of slots) this.#append(slot);
  }

  /**
   * Marks segment `i` selectively acknowledged, and with it all up to `runEnd`: no copy of it is in flight any more.
   */
  setSacked(i: number, runEnd: number): void {
    this.#cells![this.#at(i) + RUN_END] = runEnd;
    this.setFlags(i, (this.flags(i) | SACKED) & ~(LOST | RETRANSMITTED));
  }

  /** Index after the run of selectively acknowledged segments in which segment `i` lies. */
  afterSacked(i: number): number {
    let next = i;
    let hops = 0;
    while (next < this.#size && (this.flags(next) & SACKED) !== 0) {
      next = this.find(this.#cells![this.#at(next) + RUN_END]! | 0);
      hops++;
    }
    if (hops < 2) return next;
    // All that was passed knows from now on.
    const end = this.end(next - 1);
    for (let k = i; k < next;) {
      const at = this.#at(k) + RUN_END;
      k = this.find(this.#cells![at]! | 0);
      this.#cells![at] = end;
    }
    return next;
  }

  /** Index of the segment that holds `seq`: the first whose end lies beyond it; `size` if there is none. */
  find(seq: number): number {
    let low = 0;
    let high = this.#size;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (seqLe(this.end(middle), seq)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Cuts off what comes before `seq` in the oldest segment. */
  trimHead(seq: number): void {
    this.#cells![this.#at(0)] = seq;
  }

  /** Removes the oldest segment. */
  shift(): void {
    this.#unlink(this.#head);
    this.#head = (this.#head + 1) & this.#mask;
    this.#size--;
  }

  /** Cuts every segment of more than `mssBytes` into pieces; returns the first index cut, or `size` if there is none. */
  split(mssBytes: number): number {
    let total = 0;
    for (let i = 0; i < this.#size; i++) total += this.#pieces(i, mssBytes);
    while (total > this.#mask + 1) this.#grow();
    let first = this.#size;
    // From the back, so that nothing is overwritten that has not moved yet.
    let to = total;
    for (let i = this.#size - 1; i >= 0; i--) {
      const pieces = this.#pieces(i, mssBytes);
      to -= pieces;
      if (to !== i) this.#move((this.#head + i) & this.#mask, (this.#head + to) & this.#mask);
      if (pieces === 1) continue;
      first = to;
      for (let k = pieces - 1; k > 0; k--) {
        this.#copy((this.#head + to) & this.#mask, (this.#head + to + k) & this.#mask);
      }
      const seq = this.seq(to);
      for (let k = 0; k < pieces; k++) {
        const at = this.#at(to + k);
        this.#cells![at + SEQ] = (seq + k * mssBytes) | 0;
        if (k < pieces - 1) this.#cells![at + END] = (seq + (k + 1) * mssBytes) | 0;
      }
    }
    this.#size = total;
    return first;
  }

  /** Removes all segments and gives the memory back. */
  clear(): void {
    const cells = this.#cells;
    if (cells !== null && cells.length === FIRST_CAPACITY * STRIDE && SPARE.length < SPARE_LIMIT) SPARE.push(cells);
    this.#cells = null;
    this.#mask = 0;
    this.#head = 0;
    this.#size = 0;
    this.#earliest = -1;
    this.#latest = -1;
  }

  #at(i: number): number {
    return ((this.#head + i) & this.#mask) * STRIDE;
  }

  /** A copy departs: fills in what belongs to it and appends it to the list of departures. */
  #sent(slot: number, departAt: Instant, rate: RateState, inFlightBytes: number): void {
    const at = slot * STRIDE;
    const cells = this.#cells!;
    cells[at + DEPART_AT] = departAt;
    cells[at + DELIVERED] = rate.deliveredBytes;
    cells[at + DELIVERED_AT] = rate.deliveredAt;
    cells[at + FIRST_SENT_AT] = rate.firstSentAt;
    cells[at + IN_FLIGHT] = inFlightBytes;
    cells[at + TOTAL_LOST] = rate.totalLostBytes;
    cells[at + ORDER] = ++this.#sentCount;
    const flags = cells[at + FLAGS]! & ~APP_LIMITED;
    cells[at + FLAGS] = rate.appLimitedUntilBytes !== 0 ? flags | APP_LIMITED : flags;
    this.#append(slot);
  }

  /** Puts a slot that is not in the list of departures at its end. */
  #append(slot: number): void {
    const cells = this.#cells!;
    cells[slot * STRIDE + EARLIER] = this.#latest;
    cells[slot * STRIDE + LATER] = -1;
    if (this.#latest < 0) this.#earliest = slot;
    else cells[this.#latest * STRIDE + LATER] = slot;
    this.#latest = slot;
  }

  #unlink(slot: number): void {
    const cells = this.#cells!;
    const at = slot * STRIDE;
    const earlier = cells[at + EARLIER]!;
    const later = cells[at + LATER]!;
    if (earlier < 0 && this.#earliest !== slot) return; // not in the list
    if (earlier < 0) this.#earliest = later;
    else cells[earlier * STRIDE + LATER] = later;
    if (later < 0) this.#latest = earlier;
    else cells[later * STRIDE + EARLIER] = earlier;
    cells[at + EARLIER] = -1;
    cells[at + LATER] = -1;
  }

  #pieces(i: number, mssBytes: number): number {
    return Math.max(1, Math.ceil(((this.end(i) - this.seq(i)) | 0) / mssBytes));
  }

  /** Makes slot `to` a copy of slot `from`; in the list of departures it follows at once. */
  #copy(from: number, to: number): void {
    const cells = this.#cells!;
    cells.copyWithin(to * STRIDE, from * STRIDE, (from + 1) * STRIDE);
    cells[to * STRIDE + EARLIER] = -1;
    cells[to * STRIDE + LATER] = -1;
    const linked = cells[from * STRIDE + EARLIER]! >= 0 || this.#earliest === from;
    if (!linked) return;
    const later = cells[from * STRIDE + LATER]!;
    cells[to * STRIDE + EARLIER] = from;
    cells[to * STRIDE + LATER] = later;
    cells[from * STRIDE + LATER] = to;
    if (later < 0) this.#latest = to;
    else cells[later * STRIDE + EARLIER] = to;
  }

  #move(from: number, to: number): void {
    const cells = this.#cells!;
    cells.copyWithin(to * STRIDE, from * STRIDE, (from + 1) * STRIDE);
    const earlier = cells[from * STRIDE + EARLIER]!;
    const later = cells[from * STRIDE + LATER]!;
    if (earlier >= 0) cells[earlier * STRIDE + LATER] = to;
    else if (this.#earliest === from) this.#earliest = to;
    if (later >= 0) cells[later * STRIDE + EARLIER] = to;
    else if (this.#latest === from) this.#latest = to;
  }

  #grow(): void {
    const capacity = this.#cells === null ? FIRST_CAPACITY : (this.#mask + 1) * 2;
    const spare = capacity === FIRST_CAPACITY ? SPARE.pop() : undefined;
    const cells = spare ?? new Float64Array(capacity * STRIDE);
    const old = this.#cells;
    const mask = this.#mask;
    const place = (slot: number): number => slot < 0 ? -1 : (slot - this.#head) & mask;
    for (let i = 0; i < this.#size; i++) {
      const from = this.#at(i);
      const to = i * STRIDE;
      for (let k = 0; k < EARLIER; k++) cells[to + k] = old![from + k]!;
      cells[to + EARLIER] = place(old![from + EARLIER]!);
      cells[to + LATER] = place(old![from + LATER]!);
    }
    this.#earliest = place(this.#earliest);
    this.#latest = place(this.#latest);
    this.#cells = cells;
    this.#mask = capacity - 1;
    this.#head = 0;
  }
}
