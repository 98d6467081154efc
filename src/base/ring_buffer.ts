/**
 * The byte ring of a socket's send or receive buffer.
 *
 * ```text
 *   consumed │ readable bytes (length) │ room, where later bytes may already lie │
 *            head                      tail
 * ```
 *
 * Bytes may be placed beyond the tail (`writeAt`) before those in front of them have come; `commit` then moves the
 * tail over them. So out-of-order TCP data needs no second buffer and the memory of a connection has one bound. The
 * memory itself is made when the first byte is written: a connection that moves no data has none.
 *
 * @module
 */

/** A bounded ring of bytes. */
export class RingBuffer {
  #capacity: number;
  #memory: Uint8Array<ArrayBuffer> | null = null;
  #head = 0;
  #length = 0;

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
  }

  /** Copies readable bytes from `offset` on to `target[at, to)` without consuming; returns how many. */
  peek(offset: number, target: Uint8Array, at = 0, to: number = target.length): number {
    const n = Math.min(to - at, this.#length - offset);
    if (n <= 0 || this.#memory === null) return 0;
    const memory = this.#memory;
    let from = this.#head + offset;
    if (from >= this.#capacity) from -= this.#capacity;
    const first = Math.min(n, this.#capacity - from);
    copyBytes(memory, from, target, at, first);
    if (first < n) copyBytes(memory, 0, target, at + first, n - first);
    return n;
  }

  /** Forgets the first `n` readable bytes. */
  consume(n: number): void {
    if (n < 0 || n > this.#length) throw new RangeError(`consume of ${n} bytes with ${this.#length} readable`);
    this.#head += n;
    if (this.#head >= this.#capacity) this.#head -= this.#capacity;
    this.#length -= n;
  }

  /** Reads and consumes up to `target.length` bytes; returns how many. */
  read(target: Uint8Array): number {
    const n = this.peek(0, target);
    if (n > 0) this.consume(n);
    return n;
  }

  /** Forgets all bytes and gives the memory back. */
  clear(): void {
    this.#memory = null;
    this.#head = 0;
    this.#length = 0;
  }

  #place(offset: number, source: Uint8Array, from: number, n: number): void {
    const memory = this.#memory ??= new Uint8Array(this.#capacity);
    let at = this.#head + offset;
    if (at >= this.#capacity) at -= this.#capacity;
    const first = Math.min(n, this.#capacity - at);
    copyBytes(source, from, memory, at, first);
    if (first < n) copyBytes(source, from + first, memory, 0, n - first);
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
