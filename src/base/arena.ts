/**
 * The one memory that packets and socket rings live in.
 *
 * An arena is a fixed block handed out in pieces from the bottom up; pieces are never given back one by one (pools
 * above it reuse them). Today it is a plain buffer. Nothing else may assume which memory it is, so that it can become
 * a WebAssembly memory when checksums move there.
 *
 * @module
 */

/** A fixed block of memory, handed out from the bottom up. */
export class Arena {
  /** The whole block. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  #used = 0;

  /** Makes an arena of `sizeBytes`, zeroed. */
  constructor(sizeBytes: number) {
    this.bytes = new Uint8Array(sizeBytes);
  }

  /** How many bytes have not been handed out. */
  get freeBytes(): number {
    return this.bytes.length - this.#used;
  }

  /**
   * Hands out `sizeBytes`, aligned to 64 bytes.
   *
   * @returns a view of the piece, or `null` if the arena has no room left
   */
  allocate(sizeBytes: number): Uint8Array<ArrayBuffer> | null {
    const rounded = Math.ceil(sizeBytes / 64) * 64;
    if (rounded > this.freeBytes) return null;
    const at = this.#used;
    this.#used += rounded;
    return this.bytes.subarray(at, at + sizeBytes);
  }
}
