/**
 * The bytes of a bulk transfer, known to both ends: what is sent can be checked byte by byte where it arrives.
 *
 * Random bytes of a prime period, so that a shift, a repetition or a swap by any whole number of segments shows.
 *
 * @module
 */

import { Rng } from "../base/rng.ts";

const PERIOD = 65521;

/** The longest piece that can be taken at once. */
export const BULK_CHUNK_BYTES = 65536;

/** A stream of bytes that depends on its seed only. */
export class BulkPattern {
  readonly #bytes = new Uint8Array(PERIOD + BULK_CHUNK_BYTES);

  /** Makes the stream of `seed`. */
  constructor(seed: number) {
    const rng = new Rng(seed).fork("bulk");
    for (let i = 0; i < PERIOD; i++) this.#bytes[i] = rng.u32() >>> 24;
    this.#bytes.copyWithin(PERIOD, 0, BULK_CHUNK_BYTES);
  }

  /** The bytes from `offset` on, at most {@linkcode BULK_CHUNK_BYTES}; not to be changed. */
  at(offset: number, length: number): Uint8Array<ArrayBuffer> {
    const from = offset % PERIOD;
    return this.#bytes.subarray(from, from + length);
  }

  /** Index of the first byte of `data`, which arrived at `offset`, that is wrong; −1 if all are right. */
  firstWrong(offset: number, data: Uint8Array): number {
    const expected = this.at(offset, data.length);
    for (let i = 0; i < data.length; i++) if (data[i] !== expected[i]) return i;
    return -1;
  }
}
