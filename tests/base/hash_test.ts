/**
 * The tuple hash: every argument counts, and the seed decides who collides with whom.
 *
 * @module
 */

import { assert, assertNotEquals, assertStrictEquals } from "@std/assert";
import * as fc from "fast-check";
import { hashFinish, hashMix, hashTuple } from "../../src/base/hash.ts";

type Tuple = [number, number, number, number, number, number, number, number, number, number];

const V4: Tuple = [0, 0, 0xffff, 0x0a070001, 0, 0, 0xffff, 0x0a070002, 0x9c400050, 6];
const V6: Tuple = [0xfd070000 | 0, 0, 0, 1, 0xfd070000 | 0, 0, 0, 2, 0x9c400050, 6];

Deno.test("hash: MurmurHash3 of one and of two words", () => {
  // The published 32-bit variant with its length (in bytes) mixed in before the end.
  const murmur3 = (seed: number, words: number[]) => hashFinish(words.reduce(hashMix, seed) ^ (4 * words.length)) >>> 0;
  assertStrictEquals(murmur3(0, []), 0);
  assertStrictEquals(murmur3(1, []), 0x514e28b7);
  assertStrictEquals(murmur3(0, [0xffffffff]), 0x76293b50);
  assertStrictEquals(murmur3(0, [0x87654321]), 0xf55b516b);
  assertStrictEquals(murmur3(0x5082edee, [0x87654321]), 0x2362f9de);
});

Deno.test("hash: a flip of any bit of any argument changes the hash", () => {
  for (const tuple of [V4, V6]) {
    const seen = new Set([hashTuple(1, ...tuple)]);
    for (let i = 0; i < tuple.length; i++) {
      for (let bit = 0; bit < 32; bit++) {
        const other = [...tuple] as Tuple;
        other[i]! ^= 1 << bit;
        seen.add(hashTuple(1, ...other));
      }
    }
    assertStrictEquals(seen.size, 321);
  }
});

Deno.test("hash: tuples that collide under one seed do not under another", () => {
  // Changes of two words that cancel out in a plain exclusive or, alone or multiplied.
  for (const factor of [1, 0x01000193]) {
    fc.assert(fc.property(fc.integer({ min: 1, max: 0x7fffffff }), fc.integer(), (delta, seed) => {
      const other = [...V6] as Tuple;
      other[2] ^= Math.imul(delta, factor);
      other[6] ^= delta;
      const collides = (s: number) => hashTuple(s, ...V6) === hashTuple(s, ...other);
      return !(collides(seed) && collides(seed + 1));
    }));
  }
});

Deno.test("hash: neighbouring ports spread evenly over buckets", () => {
  for (const tuple of [V4, V6]) {
    const buckets = new Uint32Array(64);
    for (let port = 0; port < 6400; port++) {
      const t = [...tuple] as Tuple;
      t[8] = (port << 16) | 80;
      buckets[hashTuple(99, ...t) & 63]! += 1;
    }
    // Chi-square with 63 degrees of freedom: above 115 happens once in ten thousand.
    const chi2 = buckets.reduce((sum, n) => sum + (n - 100) ** 2 / 100, 0);
    assert(chi2 < 115, `chi-square ${chi2}`);
  }
});

Deno.test("hash: direction and seed count", () => {
  const [a0, a1, a2, a3, b0, b1, b2, b3, ports, protocol] = V4;
  assertNotEquals(hashTuple(1, ...V4), hashTuple(2, ...V4));
  assertNotEquals(hashTuple(1, ...V4), hashTuple(1, b0, b1, b2, b3, a0, a1, a2, a3, ports, protocol));
});
