/**
 * The byte ring of a socket's send or receive buffer.
 *
 * ```text
 *   consumed │ readable bytes (length) │ room, where later bytes may already lie │
 *            head                      tail
 * ```
 *
 * Bytes may be placed beyond the tail (`writeAt`) before those in front of them have come; `commit` then moves the
 * tail over them. So out-of-order TCP data needs no second buffer and the memory of a connection has one bound.
 *
 * The memory is made when the first byte is written and doubles up to the bound as it is needed: a connection that moves
 * no data has none, and a short one little. A ring that was emptied begins again at its start, which stays in the cache.
 *
 * @module
 */

const FIRST_BYTES = 16384;
const NO_MEMORY = new Uint8Array(0);

/** A bounded ring of bytes. */
export class RingBuffer {
  #capacity: number;
  #memory: Uint8Array<ArrayBuffer> = NO_MEMORY;
  #head = 0;
  #length = 0;
  /** Bytes from the head on that may hold something: the readable ones and those placed beyond the tail. */
  #reach = 0;

  /** Makes a ring for at most `capacityBytes`. */
  constructor(capacityBytes: number) {
    if (!Number.isInteger(capacityBytes) || capacityBytes < 1) {
      throw new RangeError(`ring capacity must be a positive integer, got ${capacityBytes}`);
    }
    this.#capacity = capacityBytes;
  }

  /** The most bytes it can hold. */
  get capacity(): number {
    return this.#capacity;
  }

  /** Raises the most bytes that it can hold; a lower number changes nothing. */
  growTo(capacityBytes: number): void {
    if (capacityBytes > this.#capacity) this.#capacity = Math.floor(capacityBytes);
  }

  /** Bytes of memory in use. */
  get memoryBytes(): number {
    return this.#memory.length;
  }

  /** Bytes that can be read. */
  get length(): number {
    return this.#length;
  }

  /** Room behind the readable bytes. */
  get room(): number {
    return this.#capacity - this.#length;
  }

  /** Appends as much of `source[from, to)` as there is room for; returns how many bytes that was. */
  write(source: Uint8Array, from = 0, to: number = source.length): number {
    const n = Math.min(to - from, this.room);
    if (n <= 0) return 0;
    this.#place(this.#length, source, from, n);
    this.#length += n;
    return n;
  }

  /**
   * Places `source[from, to)` at `offset` bytes behind the tail without making it readable. What does not fit is cut
   * off; returns how many bytes were placed.
   */
  writeAt(offset: number, source: Uint8Array, from: number, to: number): number {
    const n = Math.min(to - from, this.room - offset);
    if (n <= 0) return 0;
    this.#place(this.#length + offset, source, from, n);
    return n;
  }

  /** Makes `n` bytes behind the tail readable. */
  commit(n: number): void {
    if (n < 0 || n > this.room) throw new RangeError(`commit of ${n} bytes with room for ${this.room}`);
    this.#length += n;
    if (this.#reach < this.#length) this.#reach = this.#length;
  }

  /** Copies readable bytes from `offset` on to `target[at, to)` without consuming; returns how many. */
  peek(offset: number, target: Uint8Array, at = 0, to: number = target.length): number {
    const n = Math.min(to - at, this.#length - offset);
    if (n <= 0) return 0;
    this.#copyOut(offset, target, at, n);
    return n;
  }

  /** Forgets the first `n` readable bytes. */
  consume(n: number): void {
    if (n < 0 || n > this.#length) throw new RangeError(`consume of ${n} bytes with ${this.#length} readable`);
    this.#length -= n;
    this.#reach -= n;
    if (this.#reach === 0) {
      this.#head = 0;
      return;
    }
    this.#head += n;
    if (this.#head >= this.#memory.length) this.#head -= this.#memory.length;
  }

  /** Reads and consumes up to `target.length` bytes; returns how many. */
  read(target: Uint8Array): number {
    const n = this.peek(0, target);
    if (n > 0) this.consume(n);
    return n;
  }

  /** Forgets all bytes and gives the memory back. */
  clear(): void {
    this.#memory = NO_MEMORY;
    this.#head = 0;
    this.#length = 0;
    this.#reach = 0;
  }

  #place(offset: number, source: Uint8Array, from: number, n: number): void {
    if (offset + n > this.#reach) this.#reach = offset + n;
    if (this.#reach > this.#memory.length) this.#grow();
    const memory = this.#memory;
    let at = this.#head + offset;
    if (at >= memory.length) at -= memory.length;
    const first = Math.min(n, memory.length - at);
    copyBytes(source, from, memory, at, first);
    if (first < n) copyBytes(source, from + first, memory, 0, n - first);
  }

  #copyOut(offset: number, target: Uint8Array, at: number, n: number): void {
    const memory = this.#memory;
    let from = this.#head + offset;
    if (from >= memory.length) from -= memory.length;
    const first = Math.min(n, memory.length - from);
    copyBytes(memory, from, target, at, first);
    if (first < n) copyBytes(memory, 0, target, at + first, n - first);
  }

  #grow(): void {
    let size = Math.max(this.#memory.length, FIRST_BYTES);
    while (size < this.#reach) size *= 2;
    const memory = new Uint8Array(Math.min(size, this.#capacity));
    this.#copyOut(0, memory, 0, Math.min(this.#reach, this.#memory.length));
    this.#memory = memory;
    this.#head = 0;
  }
}

/** Copies `n` bytes; short runs byte by byte, since a view of the source costs more than they do. */
export function copyBytes(source: Uint8Array, from: number, target: Uint8Array, at: number, n: number): void {
  if (n < 64) {
    for (let i = 0; i < n; i++) target[at + i] = source[from + i]!;
  } else {
    target.set(source.subarray(from, from + n), at);
  }
}
