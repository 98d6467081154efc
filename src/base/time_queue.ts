/**
 * Packets in the order of their release times, equal times first in, first out.
 *
 * Like netem's own queue it is made of two parts. A packet that is due at or after the newest one of the line goes to
 * the end of the line in O(1): that is every packet while the delay is constant or a rate is set. One that is due
 * earlier goes into a binary heap, whose keys lie in typed arrays. The earliest packet is then the earlier of the two
 * heads. Once the heap has grown to its size nothing is allocated.
 *
 * The queue has no bound of its own; whoever pushes compares {@linkcode TimeQueue.packets} with a limit first.
 *
 * @module
 */

import type { Packet } from "./packet.ts";
import { PacketList } from "./packet_list.ts";
import { type Instant, NEVER } from "./time.ts";

/** A queue of packets by `releaseAt`. */
export class TimeQueue {
  readonly #line = new PacketList();
  #heap: (Packet | null)[] = new Array<Packet | null>(16).fill(null);
  #times = new Float64Array(16);
  #orders = new Int32Array(16);
  #heapSize = 0;
  #heapBytes = 0;
  #order = 0;

  /** Packets held. */
  get packets(): number {
    return this.#line.packets + this.#heapSize;
  }

  /** Bytes that the live ranges of the packets held have together. */
  get bytes(): number {
    return this.#line.bytes + this.#heapBytes;
  }

  /** When the earliest packet is due, or `NEVER`. */
  nextAt(): Instant {
    const head = this.#line.head;
    const lineAt = head === null ? NEVER : head.releaseAt;
    return this.#heapSize > 0 && this.#times[0]! < lineAt ? this.#times[0]! : lineAt;
  }

  /** Gives `p` the next place in the order of arrival, `p.order`. */
  number(p: Packet): void {
    p.order = this.#order;
    this.#order = (this.#order + 1) | 0;
  }

  /** Takes in `p`, which is due at `p.releaseAt` and may be in no other list; sets `p.order`. */
  push(p: Packet): void {
    this.number(p);
    this.put(p);
  }

  /** Takes in `p` as `push` does, with the `p.order` that it has from there. */
  put(p: Packet): void {
    const tail = this.#line.tail;
    if (tail === null || p.releaseAt >= tail.releaseAt) this.#line.push(p);
    else this.#heapPush(p);
  }

  /** The earliest packet, which stays, or `null`. */
  first(): Packet | null {
    const head = this.#line.head;
    if (this.#heapSize === 0) return head;
    return this.#heapFirst(head) ? this.#heap[0]! : head;
  }

  /** Takes the earliest packet if it is due at `now`, else `null`; `shift(NEVER)` empties the queue packet by packet. */
  shift(now: Instant): Packet | null {
    const head = this.#line.head;
    if (this.#heapSize > 0 && this.#heapFirst(head)) return this.#times[0]! <= now ? this.#heapPop() : null;
    return head !== null && head.releaseAt <= now ? this.#line.shift() : null;
  }

  /** True if the head of the heap, which is not empty, goes before that of the line. */
  #heapFirst(head: Packet | null): boolean {
    if (head === null) return true;
    const at = this.#times[0]!;
    // Orders are compared modulo 2^32: far fewer packets than 2^31 are held at once.
    return at < head.releaseAt || (at === head.releaseAt && ((this.#orders[0]! - head.order) | 0) < 0);
  }

  #heapPush(p: Packet): void {
    if (this.#heapSize === this.#heap.length) this.#grow();
    let place = this.#heapSize++;
    this.#heapBytes += p.length;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      if (this.#before(parent, p.releaseAt, p.order)) break;
      this.#move(parent, place);
      place = parent;
    }
    this.#put(place, p, p.releaseAt, p.order);
  }

  #heapPop(): Packet {
    const first = this.#heap[0]!;
    const size = --this.#heapSize;
    this.#heapBytes -= first.length;
    const last = this.#heap[size]!;
    const time = this.#times[size]!;
    const order = this.#orders[size]!;
    this.#heap[size] = null;
    if (size === 0) return first;
    let place = 0;
    for (;;) {
      let child = 2 * place + 1;
      if (child >= size) break;
      if (child + 1 < size && this.#before(child + 1, this.#times[child]!, this.#orders[child]!)) child++;
      if (!this.#before(child, time, order)) break;
      this.#move(child, place);
      place = child;
    }
    this.#put(place, last, time, order);
    return first;
  }

  #before(place: number, time: Instant, order: number): boolean {
    const at = this.#times[place]!;
    return at < time || (at === time && ((this.#orders[place]! - order) | 0) < 0);
  }

  #move(from: number, to: number): void {
    this.#put(to, this.#heap[from]!, this.#times[from]!, this.#orders[from]!);
  }

  #put(place: number, p: Packet, time: Instant, order: number): void {
    this.#heap[place] = p;
    this.#times[place] = time;
    this.#orders[place] = order;
  }

  #grow(): void {
    const capacity = this.#heap.length * 2;
    while (this.#heap.length < capacity) this.#heap.push(null);
    const times = new Float64Array(capacity);
    times.set(this.#times);
    this.#times = times;
    const orders = new Int32Array(capacity);
    orders.set(this.#orders);
    this.#orders = orders;
  }
}
