/**
 * Deadlines by small integer id, the earliest first: the timers of connections, flows and stages.
 *
 * A heap in typed arrays with an index from id to place, so that moving or clearing a deadline is O(log n) and nothing
 * is allocated. Each place has four children, whose deadlines lie in one line of the cache: half as many levels as with
 * two, which counts when there are thousands. Ties leave in the order in which they were set.
 *
 * @module
 */

import { type Instant, NEVER } from "./time.ts";

/** A heap of deadlines, at most one an id. */
export class DeadlineHeap {
  /**
   * The deadline that `update` is to give an id, by id. Writing here and calling `update` does what `set` does, but no
   * fraction or large number crosses a call, for which the engine may have to allocate. The array is replaced when the
   * heap grows.
   */
  wanted: Float64Array;
  #ids: Int32Array;
  /** The deadlines by place. */
  #deadlines: Float64Array;
  #orders: Float64Array;
  #places: Int32Array;
  #size = 0;
  #order = 0;

  /** Makes an empty heap; it grows with the largest id used. */
  constructor(initialCapacity = 16) {
    const capacity = Math.max(1, initialCapacity);
    this.wanted = new Float64Array(capacity);
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

  /** Makes room for `id` (an integer ≥ 0) in `wanted`. */
  reserve(id: number): void {
    if (id >= this.#places.length) this.#grow(id + 1);
  }

  /** Sets or moves the deadline of `id` (an integer ≥ 0); `NEVER` clears it. */
  set(id: number, deadline: Instant): void {
    this.reserve(id);
    this.wanted[id] = deadline;
    this.update(id);
  }

  /** Sets or moves the deadline of `id`, for which there must be room, to `wanted[id]`; `NEVER` clears it. */
  update(id: number): void {
    const deadline = this.wanted[id]!;
    if (deadline === NEVER) return this.clear(id);
    let place = this.#places[id]!;
    if (place < 0) place = this.#size++;
    else if (this.#deadlines[place] === deadline) return;
    this.#ids[place] = id;
    this.#deadlines[place] = deadline;
    this.#orders[place] = this.#order++;
    this.#settle(place);
  }

  /** Clears the deadline of `id`, if it has one. */
  clear(id: number): void {
    const place = id < this.#places.length ? this.#places[id]! : -1;
    if (place < 0) return;
    this.#places[id] = -1;
    const last = --this.#size;
    if (place === last) return;
    this.#ids[place] = this.#ids[last]!;
    this.#deadlines[place] = this.#deadlines[last]!;
    this.#orders[place] = this.#orders[last]!;
    this.#settle(place);
  }

  /** Takes the id whose deadline is earliest, if that is at or before `now`; else −1. */
  popDue(now: Instant): number {
    if (this.#size === 0 || this.#deadlines[0]! > now) return -1;
    const id = this.#ids[0]!;
    this.clear(id);
    return id;
  }

  /** Moves the entry at `from`, which is new there, up or down to where it belongs. */
  #settle(from: number): void {
    const deadlines = this.#deadlines;
    const orders = this.#orders;
    const size = this.#size;
    const id = this.#ids[from]!;
    const deadline = deadlines[from]!;
    const order = orders[from]!;
    let place = from;
    while (place > 0) {
      const parent = (place - 1) >> 2;
      const at = deadlines[parent]!;
      if (at < deadline || (at === deadline && orders[parent]! < order)) break;
      this.#move(parent, place);
      place = parent;
    }
    while (place >= from) {
      const first = 4 * place + 1;
      const end = first + 4 < size ? first + 4 : size;
      // The least of the children and the entry itself.
      let least = -1;
      let leastAt = deadline;
      let leastOrder = order;
      for (let child = first; child < end; child++) {
        const at = deadlines[child]!;
        if (at > leastAt || (at === leastAt && orders[child]! > leastOrder)) continue;
        least = child;
        leastAt = at;
        leastOrder = orders[child]!;
      }
      if (least < 0) break;
      this.#move(least, place);
      place = least;
    }
    this.#ids[place] = id;
    deadlines[place] = deadline;
    orders[place] = order;
    this.#places[id] = place;
  }

  #move(from: number, to: number): void {
    const id = this.#ids[from]!;
    this.#ids[to] = id;
    this.#deadlines[to] = this.#deadlines[from]!;
    this.#orders[to] = this.#orders[from]!;
    this.#places[id] = to;
  }

  #grow(needed: number): void {
    let capacity = this.#places.length;
    while (capacity < needed) capacity *= 2;
    const wanted = new Float64Array(capacity);
    wanted.set(this.wanted);
    this.wanted = wanted;
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
