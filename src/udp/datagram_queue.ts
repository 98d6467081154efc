/**
 * Datagrams waiting to be received, in one bounded ring of bytes.
 *
 * Each datagram is a record: time of arrival, four words of source address, source port, length, then the data. A
 * datagram without data therefore counts too, and the bound on bytes bounds their number. Copying in frees the packet at once: a reader that
 * sleeps holds its own ring and no packets of the pool.
 *
 * @module
 */

import { RingBuffer } from "../base/ring_buffer.ts";
import type { Instant } from "../base/time.ts";

/** Bytes that a datagram takes beside its data. */
export const DATAGRAM_OVERHEAD_BYTES = 28;

/** A bounded queue of datagrams. */
export class DatagramQueue {
  /** Source address of the datagram last taken, four words. */
  src0 = 0;
  /** Source address, second word. */
  src1 = 0;
  /** Source address, third word. */
  src2 = 0;
  /** Source address, last word. */
  src3 = 0;
  /** Source port of the datagram last taken. */
  srcPort = 0;
  /** When the datagram last taken arrived. */
  arrivedAt: Instant = 0;
  readonly #ring: RingBuffer;
  readonly #record = new Uint8Array(DATAGRAM_OVERHEAD_BYTES);
  readonly #view = new DataView(this.#record.buffer);
  #count = 0;

  /** Makes an empty queue for at most `capacityBytes`, overhead included. */
  constructor(capacityBytes: number) {
    this.#ring = new RingBuffer(capacityBytes);
  }

  /** Number of datagrams waiting. */
  get count(): number {
    return this.#count;
  }

  /** Bytes in use, overhead included. */
  get bytes(): number {
    return this.#ring.length;
  }

  /** Length in bytes of the data of the oldest datagram, or −1. */
  get nextBytes(): number {
    if (this.#count === 0) return -1;
    this.#ring.peek(0, this.#record);
    return this.#view.getUint16(26);
  }

  /** Copies a datagram in; false if it does not fit. */
  push(
    src0: number,
    src1: number,
    src2: number,
    src3: number,
    srcPort: number,
    bytes: Uint8Array,
    from: number,
    to: number,
    now: Instant,
  ): boolean {
    if (this.#ring.room < DATAGRAM_OVERHEAD_BYTES + to - from) return false;
    const view = this.#view;
    view.setFloat64(0, now);
    view.setInt32(8, src0);
    view.setInt32(12, src1);
    view.setInt32(16, src2);
    view.setInt32(20, src3);
    view.setUint16(24, srcPort);
    view.setUint16(26, to - from);
    this.#ring.write(this.#record);
    this.#ring.write(bytes, from, to);
    this.#count++;
    return true;
  }

  /** Takes the oldest datagram: copies what fits of its data and sets the source; returns its length, or −1. */
  take(target: Uint8Array): number {
    if (this.#count === 0) return -1;
    this.#ring.read(this.#record);
    const view = this.#view;
    this.arrivedAt = view.getFloat64(0);
    this.src0 = view.getInt32(8);
    this.src1 = view.getInt32(12);
    this.src2 = view.getInt32(16);
    this.src3 = view.getInt32(20);
    this.srcPort = view.getUint16(24);
    const length = view.getUint16(26);
    this.#ring.peek(0, target, 0, Math.min(length, target.length));
    this.#ring.consume(length);
    this.#count--;
    return length;
  }

  /** Forgets all datagrams and gives the memory back. */
  clear(): void {
    this.#ring.clear();
    this.#count = 0;
  }
}
