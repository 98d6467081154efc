/**
 * Deadlines by small integer id, the earliest first: the timers of connections, flows and stages.
 *
 * A binary heap in typed arrays with an index from id to place, so that moving or clearing a deadline is O(log n) and
 * nothing is allocated. Ties leave in the order in which they were set.
 *
 * @module
 */

import { type Instant, NEVER } from "./time.ts";

/** A heap of deadlines, at most one an id. */
export class DeadlineHeap {
  #ids: Int32Array;
  #deadlines: Float64Array;
  #orders: Float64Array;
  #places: Int32Array;
  #size = 0;
  #order = 0;

  /** Makes an empty heap; it grows with the largest id used. */
  constructor(initialCapacity = 16) {
    const capacity = Math.max(1, initialCapacity);
    this.#ids = new Int32Array(capacity);
    this.#deadlines = new Float64Array(capacity);
    this.#orders = new Float64Array(capacity);
    this.#places = new Int32Array(capacity).fill(-1);
  }

  /** Number of ids with a deadline. */
  get size(): number {
    return this.#size;
  }

  /** The earliest deadline, or `NEVER`. */
  nextAt(): Instant {
    return this.#size === 0 ? NEVER : this.#deadlines[0]!;
  }

  /** The id with the earliest deadline, or −1. */
  nextId(): number {
    return this.#size === 0 ? -1 : this.#ids[0]!;
  }

  /** The deadline of `id`, or `NEVER`. */
  get(id: number): Instant {
    const place = id < this.#places.length ? this.#places[id]! : -1;
    return place < 0 ? NEVER : this.#deadlines[place]!;
  }

  /** Sets or moves the deadline of `id` (an integer ≥ 0); `NEVER` clears it. */
  set(id: number, deadline: Instant): void {
    if (deadline === NEVER) return this.clear(id);
    if (id >= this.#places.length) this.#grow(id + 1);
    let place = this.#places[id]!;
    if (place < 0) {
      place = this.#size++;
    } else if (this.#deadlines[place] === deadline) {
      return;
    }
    this.#put(place, id, deadline, this.#order++);
    this.#up(place);
    this.#down(this.#places[id]!);
  }

  /** Clears the deadline of `id`, if it has one. */
  clear(id: number): void {
    const place = id < this.#places.length ? this.#places[id]! : -1;
    if (place < 0) return;
    this.#places[id] = -1;
    const last = --this.#size;
    if (place === last) return;
    const moved = this.#ids[last]!;
    this.#put(place, moved, this.#deadlines[last]!, this.#orders[last]!);
    this.#up(place);
    this.#down(this.#places[moved]!);
  }

  /** Takes the id whose deadline is earliest, if that is at or before `now`; else −1. */
  popDue(now: Instant): number {
    if (this.#size === 0 || this.#deadlines[0]! > now) return -1;
    const id = this.#ids[0]!;
    this.clear(id);
    return id;
  }

  #put(place: number, id: number, deadline: Instant, order: number): void {
    this.#ids[place] = id;
    this.#deadlines[place] = deadline;
    this.#orders[place] = order;
    this.#places[id] = place;
  }

  #before(a: number, b: number): boolean {
    const da = this.#deadlines[a]!;
    const db = this.#deadlines[b]!;
    return da < db || (da === db && this.#orders[a]! < this.#orders[b]!);
  }

  #swap(a: number, b: number): void {
    const id = this.#ids[a]!;
    const deadline = this.#deadlines[a]!;
    const order = this.#orders[a]!;
    this.#put(a, this.#ids[b]!, this.#deadlines[b]!, this.#orders[b]!);
    this.#put(b, id, deadline, order);
  }

  #up(from: number): void {
    let place = from;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      if (!this.#before(place, parent)) return;
      this.#swap(place, parent);
      place = parent;
    }
  }

  #down(from: number): void {
    let place = from;
    for (;;) {
      let least = place;
      const left = 2 * place + 1;
      if (left < this.#size && this.#before(left, least)) least = left;
      if (left + 1 < this.#size && this.#before(left + 1, least)) least = left + 1;
      if (least === place) return;
      this.#swap(place, least);
      place = least;
    }
  }

  #grow(needed: number): void {
    let capacity = this.#places.length;
    while (capacity < needed) capacity *= 2;
    const ids = new Int32Array(capacity);
    ids.set(this.#ids);
    this.#ids = ids;
    const deadlines = new Float64Array(capacity);
    deadlines.set(this.#deadlines);
    this.#deadlines = deadlines;
    const orders = new Float64Array(capacity);
    orders.set(this.#orders);
    this.#orders = orders;
    const places = new Int32Array(capacity).fill(-1);
    places.set(this.#places);
    this.#places = places;
  }
}
