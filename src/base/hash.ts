/**
 * A small 32-bit hash for integer tuples: the mixing steps of MurmurHash3, seeded, so that an outsider cannot choose
 * addresses that collide.
 *
 * @module
 */

/** Mixes one 32-bit word into `hash`. */
export function hashMix(hash: number, word: number): number {
  let k = Math.imul(word, 0xcc9e2d51);
  k = (k << 15) | (k >>> 17);
  let h = hash ^ Math.imul(k, 0x1b873593);
  h = (h << 13) | (h >>> 19);
  return (Math.imul(h, 5) + 0xe6546b64) | 0;
}

/** Finishes a hash so that every input bit reaches every output bit. */
export function hashFinish(hash: number): number {
  let h = hash;
  h ^= h >>> 16;
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return h ^ (h >>> 16);
}

/** Hash of one address of four words. */
export function hashAddress(seed: number, w0: number, w1: number, w2: number, w3: number): number {
  return hashFinish(hashMix(hashMix(hashMix(hashMix(seed, w3), w2), w1), w0));
}

/** Hash of two addresses of four words each and two ports (or any other two 32-bit words). */
export function hashTuple(
  seed: number,
  a0: number,
  a1: number,
  a2: number,
  a3: number,
  b0: number,
  b1: number,
  b2: number,
  b3: number,
  ports: number,
  protocol: number,
): number {
  let h = hashMix(seed, a3);
  h = hashMix(h, b3);
  h = hashMix(h, ports);
  h = hashMix(h, protocol);
  // Two IPv4 addresses differ in their last words only.
  if ((a0 | a1 | b0 | b1) !== 0 || a2 !== 0xffff || b2 !== 0xffff) {
    h = hashMix(h, a0);
    h = hashMix(h, b0);
    h = hashMix(h, a1);
    h = hashMix(h, b1);
    h = hashMix(h, a2);
    h = hashMix(h, b2);
  }
  return hashFinish(h);
}
