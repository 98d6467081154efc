/**
 * SipHash-2-4: a keyed hash whose values nobody can guess who does not know the key, however many others he has seen.
 *
 * For what must not be predictable from outside: initial sequence numbers, timestamp offsets, SYN cookies. Hash tables
 * use the faster mix of hash.ts. The input is a row of 32-bit words; their bytes count as little-endian. The 64-bit
 * words of the algorithm are pairs of int32 halves, so nothing is allocated.
 *
 * Reference: J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast short-input PRF", 2012.
 *
 * @module
 */

const COMPRESSION_ROUNDS = 2;
const FINALIZATION_ROUNDS = 4;

/** v0 to v3 before the key, which goes into v0 and v1, and again into v2 and v3. */
const INITIAL = new Int32Array([
  0x70736575,
  0x736f6d65,
  0x6e646f6d,
  0x646f7261,
  0x6e657261,
  0x6c796765,
  0x79746573,
  0x74656462,
]);

/** The hash under one key. */
export class SipHash {
  /** High half of the latest value, int32. */
  high = 0;
  /** Low half of the latest value, int32. */
  low = 0;
  readonly #key: Int32Array;
  /** v0 to v3, each its low half and its high half. */
  readonly #v: Int32Array = new Int32Array(8);

  /**
   * Takes a key.
   *
   * @param key four 32-bit words, the lowest first
   * @throws {RangeError} if there are not four
   */
  constructor(key: Int32Array) {
    if (key.length !== 4) throw new RangeError(`a SipHash key has 4 words, got ${key.length}`);
    this.#key = key.slice();
  }

  /**
   * Hashes the first `count` words of `words`.
   *
   * @returns the low half of the value, which is also in `low`; the high half is in `high`
   */
  hash(words: Int32Array, count: number = words.length): number {
    const key = this.#key;
    const v = this.#v;
    for (let i = 0; i < 8; i++) v[i] = INITIAL[i]! ^ key[i & 3]!;
    let i = 0;
    for (; i + 1 < count; i += 2) this.#compress(words[i]!, words[i + 1]!);
    // The last word holds what is left over and, in its highest byte, the length in bytes.
    this.#compress(i < count ? words[i]! : 0, count << 26);
    v[4]! ^= 0xff;
    this.#rounds(FINALIZATION_ROUNDS);
    this.high = v[1]! ^ v[3]! ^ v[5]! ^ v[7]!;
    return this.low = v[0]! ^ v[2]! ^ v[4]! ^ v[6]!;
  }

  #compress(low: number, high: number): void {
    const v = this.#v;
    v[6]! ^= low;
    v[7]! ^= high;
    this.#rounds(COMPRESSION_ROUNDS);
    v[0]! ^= low;
    v[1]! ^= high;
  }

  #rounds(count: number): void {
    const v = this.#v;
    let v0l = v[0]!;
    let v0h = v[1]!;
    let v1l = v[2]!;
    let v1h = v[3]!;
    let v2l = v[4]!;
    let v2h = v[5]!;
    let v3l = v[6]!;
    let v3h = v[7]!;
    for (let n = 0; n < count; n++) {
      let l = (v0l + v1l) | 0;
      v0h = (v0h + v1h + (l >>> 0 < v0l >>> 0 ? 1 : 0)) | 0;
      v0l = l;
      l = (v1l << 13) | (v1h >>> 19);
      v1h = (v1h << 13) | (v1l >>> 19);
      v1l = l ^ v0l;
      v1h ^= v0h;
      l = v0l;
      v0l = v0h;
      v0h = l;

      l = (v2l + v3l) | 0;
      v2h = (v2h + v3h + (l >>> 0 < v2l >>> 0 ? 1 : 0)) | 0;
      v2l = l;
      l = (v3l << 16) | (v3h >>> 16);
      v3h = (v3h << 16) | (v3l >>> 16);
      v3l = l ^ v2l;
      v3h ^= v2h;

      l = (v0l + v3l) | 0;
      v0h = (v0h + v3h + (l >>> 0 < v0l >>> 0 ? 1 : 0)) | 0;
      v0l = l;
      l = (v3l << 21) | (v3h >>> 11);
      v3h = (v3h << 21) | (v3l >>> 11);
      v3l = l ^ v0l;
      v3h ^= v0h;

      l = (v2l + v1l) | 0;
      v2h = (v2h + v1h + (l >>> 0 < v2l >>> 0 ? 1 : 0)) | 0;
      v2l = l;
      l = (v1l << 17) | (v1h >>> 15);
      v1h = (v1h << 17) | (v1l >>> 15);
      v1l = l ^ v2l;
      v1h ^= v2h;
      l = v2l;
      v2l = v2h;
      v2h = l;
    }
    v[0] = v0l;
    v[1] = v0h;
    v[2] = v1l;
    v[3] = v1h;
    v[4] = v2l;
    v[5] = v2h;
    v[6] = v3l;
    v[7] = v3h;
  }
}
