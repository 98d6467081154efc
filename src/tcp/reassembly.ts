/**
 * Which bytes beyond RCV.NXT have come: the receiver's out-of-order ranges, and the SACK blocks made of them.
 *
 * The bytes themselves lie in the receive ring behind its tail. Ranges are kept sorted and apart (touching ones are
 * joined). Their number is bounded: a range too many is refused and the state stays as it was, so the sender will send
 * those bytes again. Each range remembers when it last grew, since the first SACK block must hold the segment that
 * caused the acknowledgment, and the others the ranges reported most recently (RFC 2018 section 4).
 *
 * @module
 */

import { seqDiff, seqGe, seqGt, seqLe, seqLt } from "../wire/seq.ts";

/** The most out-of-order ranges remembered: as many holes as a large window may have after slow start has overshot. */
export const REASSEMBLY_RANGES = 1024;

/** Room for so many is made at first; it doubles up to the bound. */
const FIRST_RANGES = 32;

/** Out-of-order ranges of one connection. */
export class Reassembly {
  // left, right, recency in turn; made on first use
  #cells: Int32Array | null = null;
  #count = 0;
  #recency = 0;

  /** Number of ranges. */
  get count(): number {
    return this.#count;
  }

  /** Left edge of range `i`. */
  left(i: number): number {
    return this.#cells![3 * i]!;
  }

  /** Right edge of range `i`. */
  right(i: number): number {
    return this.#cells![3 * i + 1]!;
  }

  /** Index of the first range that has a byte of `[left, right)`, or -1. */
  firstOverlap(left: number, right: number): number {
    const i = this.#find(left);
    return i < this.#count && seqLt(this.left(i), right) && seqLt(left, this.right(i)) ? i : -1;
  }

  /** Bytes in all ranges. */
  get bytes(): number {
    let n = 0;
    for (let i = 0; i < this.#count; i++) n += seqDiff(this.#cells![3 * i + 1]!, this.#cells![3 * i]!);
    return n;
  }

  /** True if something at or beyond `seq` has come. */
  reaches(seq: number): boolean {
    return this.#count > 0 && seqGt(this.#cells![3 * this.#count - 2]!, seq);
  }

  /** Notes that `[left, right)` has come; false if there is no room to remember it. */
  add(left: number, right: number): boolean {
    let cells = this.#cells ??= new Int32Array(3 * FIRST_RANGES);
    // The ranges from `first` up to `last` touch the new one.
    let first = this.#find(left);
    if (first > 0 && this.right(first - 1) === left) first--;
    let last = first;
    let newLeft = left;
    let newRight = right;
    while (last < this.#count && seqLe(cells[3 * last]!, right)) {
      if (seqLt(cells[3 * last]!, newLeft)) newLeft = cells[3 * last]!;
      if (seqGt(cells[3 * last + 1]!, newRight)) newRight = cells[3 * last + 1]!;
      last++;
    }
    if (first === last) {
      if (this.#count === REASSEMBLY_RANGES) return false;
      if (3 * this.#count === cells.length) {
        cells = new Int32Array(Math.min(2 * cells.length, 3 * REASSEMBLY_RANGES));
        cells.set(this.#cells);
        this.#cells = cells;
      }
      cells.copyWithin(3 * first + 3, 3 * first, 3 * this.#count);
      this.#count++;
    } else if (last - first > 1) {
      cells.copyWithin(3 * first + 3, 3 * last, 3 * this.#count);
      this.#count -= last - first - 1;
    }
    cells[3 * first] = newLeft;
    cells[3 * first + 1] = newRight;
    cells[3 * first + 2] = this.#recency = (this.#recency + 1) | 0;
    return true;
  }

  /**
   * RCV.NXT has moved to `rcvNxt` by data in sequence: takes the range that this reaches, if any.
   *
   * @returns where RCV.NXT stands after the range, or `rcvNxt` itself
   */
  advance(rcvNxt: number): number {
    let next = rcvNxt;
    const cells = this.#cells;
    while (this.#count > 0 && seqGe(next, cells![0]!)) {
      if (seqGt(cells![1]!, next)) next = cells![1]!;
      cells!.copyWithin(0, 3, 3 * this.#count);
      this.#count--;
    }
    return next;
  }

  /**
   * Writes up to `most` SACK blocks, the latest first, as left and right edges in turn.
   *
   * @returns how many blocks were written
   */
  blocks(edges: Int32Array, most: number, from = 0): number {
    const n = Math.min(most, this.#count);
    let last = -1;
    for (let k = 0; k < n; k++) {
      // Each time the range that grew next before the last one; ages, since recency itself wraps.
      let best = -1;
      let bestAge = Infinity;
      for (let i = 0; i < this.#count; i++) {
        const age = (this.#recency - this.#cells![3 * i + 2]!) >>> 0;
        if (age <= last || age >= bestAge) continue;
        best = i;
        bestAge = age;
      }
      edges[2 * (from + k)] = this.#cells![3 * best]!;
      edges[2 * (from + k) + 1] = this.#cells![3 * best + 1]!;
      last = bestAge;
    }
    return n;
  }

  /** Index of the first range that ends beyond `seq`; `count` if there is none. */
  #find(seq: number): number {
    let low = 0;
    let high = this.#count;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (seqLe(this.right(middle), seq)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Forgets everything. */
  clear(): void {
    this.#cells = null;
    this.#count = 0;
  }
}
