/**
 * A hash table whose keys the caller compares itself: for tuples of integers (addresses, ports) for which a `Map`
 * would need a string or an object per look-up.
 *
 * The caller brings a 32-bit hash and walks the candidates:
 *
 * ```ts ignore
 * for (let i = table.first(hash); i >= 0; i = table.following(i)) {
 *   if (matches(table.at(i))) return table.at(i);
 * }
 * ```
 *
 * Chaining over typed arrays; doubles as it fills, up to `limit` entries, then refuses.
 *
 * @module
 */

/** A table of values under 32-bit hashes; equal hashes may hold many values. */
export class HashTable<T> {
  /** The most entries. */
  readonly limit: number;
  #heads: Int32Array;
  #hashes: Int32Array;
  #nexts: Int32Array;
  #values: (T | null)[];
  #freeHead = -1;
  #used = 0;
  #size = 0;

  /** Makes an empty table for at most `limit` entries (default 1,048,576). */
  constructor(limit = 1 << 20) {
    this.limit = limit;
    this.#heads = new Int32Array(16).fill(-1);
    this.#hashes = new Int32Array(16);
    this.#nexts = new Int32Array(16);
    this.#values = new Array<T | null>(16).fill(null);
  }

  /** Number of entries. */
  get size(): number {
    return this.#size;
  }

  /** Index of the first entry with exactly this hash, or −1. */
  first(hash: number): number {
    return this.#skip(this.#heads[hash & (this.#heads.length - 1)]!, hash | 0);
  }

  /** Index of the next entry with the same hash as entry `index`, or −1. */
  following(index: number): number {
    return this.#skip(this.#nexts[index]!, this.#hashes[index]!);
  }

  /** The value of entry `index`. */
  at(index: number): T {
    return this.#values[index]!;
  }

  /** Adds a value; false when the table is full. Does not look whether it is there already. */
  insert(hash: number, value: T): boolean {
    if (this.#size >= this.limit) return false;
    if (this.#freeHead < 0 && this.#used === this.#hashes.length) this.#grow();
    let index = this.#freeHead;
    if (index >= 0) this.#freeHead = this.#nexts[index]!;
    else index = this.#used++;
    const bucket = hash & (this.#heads.length - 1);
    this.#hashes[index] = hash;
    this.#values[index] = value;
    this.#nexts[index] = this.#heads[bucket]!;
    this.#heads[bucket] = index;
    this.#size++;
    return true;
  }

  /** Removes this very value from under this hash; false if it is not there. Not to be called amid a walk. */
  remove(hash: number, value: T): boolean {
    const bucket = hash & (this.#heads.length - 1);
    let before = -1;
    for (let i = this.#heads[bucket]!; i >= 0; before = i, i = this.#nexts[i]!) {
      if (this.#values[i] !== value || this.#hashes[i] !== (hash | 0)) continue;
      if (before < 0) this.#heads[bucket] = this.#nexts[i]!;
      else this.#nexts[before] = this.#nexts[i]!;
      this.#values[i] = null;
      this.#nexts[i] = this.#freeHead;
      this.#freeHead = i;
      this.#size--;
      return true;
    }
    return false;
  }

  /** All values, in no particular order; for inspection. */
  *values(): IterableIterator<T> {
    for (const value of this.#values) if (value !== null) yield value;
  }

  #skip(from: number, hash: number): number {
    let i = from;
    while (i >= 0 && this.#hashes[i] !== hash) i = this.#nexts[i]!;
    return i;
  }

  #grow(): void {
    const capacity = this.#hashes.length * 2;
    const hashes = new Int32Array(capacity);
    hashes.set(this.#hashes);
    const nexts = new Int32Array(capacity);
    const heads = new Int32Array(capacity).fill(-1);
    for (let i = 0; i < this.#used; i++) {
      const bucket = hashes[i]! & (capacity - 1);
      nexts[i] = heads[bucket]!;
      heads[bucket] = i;
    }
    for (let i = this.#used; i < capacity; i++) this.#values.push(null);
    this.#hashes = hashes;
    this.#nexts = nexts;
    this.#heads = heads;
  }
}
