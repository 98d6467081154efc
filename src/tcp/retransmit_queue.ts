/**
 * What was sent and is not acknowledged yet: one record a segment, oldest first.
 *
 * The records (sequence range, departure stamp, flags, and what the rate sampler wants to know) lie in one typed array that is taken when the first segment is
 * sent and doubles up to a bound. Arrays of the first size are used again by later connections: making one costs more
 * than a whole handshake. Bytes themselves stay in the send buffer; a record only says which.
 *
 * Always holds: records do not overlap and are in sequence order without gaps, from SND.UNA to SND.NXT.
 *
 * @module
 */

import type { Instant } from "../base/time.ts";

/** The segment is believed lost. */
export const LOST = 1;
/** The segment was sent again, and that copy is in flight. */
export const RETRANSMITTED = 2;
/** The segment was sent more than once at some time (Karn: no RTT sample). */
export const EVER_RETRANSMITTED = 4;

const STRIDE = 8;
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

  /** Number of segments. */
  get size(): number {
    return this.#size;
  }

  /**
   * Adds the segment `[seq, end)`, sent with departure stamp `departAt` when the rate sampler stood as `rate` says; false
   * when the bound is reached.
   */
  push(seq: number, end: number, departAt: Instant, rate: RateState): boolean {
    if (this.#cells === null || this.#size > this.#mask) {
      if (this.#size >= RETRANSMIT_QUEUE_LIMIT) return false;
      this.#grow();
    }
    const at = ((this.#head + this.#size++) & this.#mask) * STRIDE;
    const cells = this.#cells!;
    cells[at] = seq;
    cells[at + 1] = end;
    cells[at + 2] = departAt;
    cells[at + 3] = 0;
    cells[at + 4] = rate.deliveredBytes;
    cells[at + 5] = rate.deliveredAt;
    cells[at + 6] = rate.firstSentAt;
    cells[at + 7] = rate.appLimitedUntilBytes;
    return true;
  }

  /** First sequence number of segment `i` (0 is the oldest). */
  seq(i: number): number {
    return this.#cells![this.#at(i)]! | 0;
  }

  /** One past the last sequence number of segment `i`. */
  end(i: number): number {
    return this.#cells![this.#at(i) + 1]! | 0;
  }

  /** Departure stamp of the latest copy of segment `i`. */
  departAt(i: number): Instant {
    return this.#cells![this.#at(i) + 2]!;
  }

  /** Flags of segment `i`. */
  flags(i: number): number {
    return this.#cells![this.#at(i) + 3]! | 0;
  }

  /** Bytes that had been delivered when segment `i` was sent. */
  deliveredBytes(i: number): number {
    return this.#cells![this.#at(i) + 4]!;
  }

  /** When that was so. */
  deliveredAt(i: number): Instant {
    return this.#cells![this.#at(i) + 5]!;
  }

  /** Departure of the first segment of the flight of segment `i`. */
  firstSentAt(i: number): Instant {
    return this.#cells![this.#at(i) + 6]!;
  }

  /** True if the sender was limited by the application when it sent segment `i`. */
  isAppLimited(i: number): boolean {
    return this.#cells![this.#at(i) + 7]! !== 0;
  }

  /** Replaces the flags of segment `i`. */
  setFlags(i: number, flags: number): void {
    this.#cells![this.#at(i) + 3] = flags;
  }

  /** Notes that segment `i` was sent again, to depart at `departAt`. */
  setDepartAt(i: number, departAt: Instant, rate: RateState): void {
    const at = this.#at(i);
    const cells = this.#cells!;
    cells[at + 2] = departAt;
    cells[at + 4] = rate.deliveredBytes;
    cells[at + 5] = rate.deliveredAt;
    cells[at + 6] = rate.firstSentAt;
    cells[at + 7] = rate.appLimitedUntilBytes;
  }

  /** Cuts off what comes before `seq` in the oldest segment. */
  trimHead(seq: number): void {
    this.#cells![this.#at(0)] = seq;
  }

  /** Removes the oldest segment. */
  shift(): void {
    this.#head = (this.#head + 1) & this.#mask;
    this.#size--;
  }

  /** Removes all segments and gives the memory back. */
  clear(): void {
    const cells = this.#cells;
    if (cells !== null && cells.length === FIRST_CAPACITY * STRIDE && SPARE.length < SPARE_LIMIT) SPARE.push(cells);
    this.#cells = null;
    this.#mask = 0;
    this.#head = 0;
    this.#size = 0;
  }

  #at(i: number): number {
    return ((this.#head + i) & this.#mask) * STRIDE;
  }

  #grow(): void {
    const capacity = this.#cells === null ? FIRST_CAPACITY : (this.#mask + 1) * 2;
    const spare = capacity === FIRST_CAPACITY ? SPARE.pop() : undefined;
    const cells = spare ?? new Float64Array(capacity * STRIDE);
    for (let i = 0; i < this.#size; i++) {
      const from = this.#at(i);
      cells.set(this.#cells!.subarray(from, from + STRIDE), i * STRIDE);
    }
    this.#cells = cells;
    this.#mask = capacity - 1;
    this.#head = 0;
  }
}
