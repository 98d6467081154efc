/**
 * The random streams: against a slow model of the generator, and what forking promises.
 *
 * @module
 */

import {
  assert,
  assertAlmostEquals,
  assertEquals,
  assertNotEquals,
  assertStrictEquals,
  assertThrows,
} from "@std/assert";
import * as fc from "fast-check";
import { Rng } from "../../src/base/rng.ts";

const take = (rng: Rng, n: number): number[] => Array.from({ length: n }, () => rng.u32());

/** 32-bit arithmetic on BigInt, for the model. */
const M = 0xffffffffn;
const rotl = (x: bigint, k: bigint): bigint => ((x << k) | (x >> (32n - k))) & M;

/** MurmurHash3's block and final step. */
function slowMix(h: bigint, word: bigint): bigint {
  const k = rotl(word * 0xcc9e2d51n & M, 15n) * 0x1b873593n & M;
  return (rotl(h ^ k, 13n) * 5n + 0xe6546b64n) & M;
}

function slowFinish(h: bigint): bigint {
  h = (h ^ (h >> 16n)) * 0x85ebca6bn & M;
  h = (h ^ (h >> 13n)) * 0xc2b2ae35n & M;
  return h ^ (h >> 16n);
}

/** xoshiro128**, seeded from a hash of seed and path. */
function* slowStream(seed: number, path: string): Generator<number> {
  const s = BigInt.asUintN(64, BigInt(seed));
  let key = slowMix(slowMix(0x9e3779b9n, s & M), s >> 32n);
  for (const unit of path.split("")) key = slowMix(key, BigInt(unit.charCodeAt(0)));
  const state = [1n, 2n, 3n, 4n].map((i) => slowFinish(slowMix(key, i))) as [bigint, bigint, bigint, bigint];
  state[3] |= 1n;
  for (let i = 0;; i++) {
    const result = rotl(state[1] * 5n & M, 7n) * 9n & M;
    const t = state[1] << 9n & M;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= t;
    state[3] = rotl(state[3], 11n);
    if (i >= 8) yield Number(result);
  }
}

Deno.test("rng: the stream of seed and path is that of the slow model", () => {
  fc.assert(
    fc.property(fc.maxSafeInteger(), fc.array(fc.string({ maxLength: 5 }), { maxLength: 3 }), (seed, labels) => {
      const rng = labels.reduce((parent, label) => parent.fork(label), new Rng(seed));
      const model = slowStream(seed, labels.map((label) => `/${label}`).join(""));
      assertEquals(take(rng, 20), Array.from({ length: 20 }, () => model.next().value));
    }),
    { numRuns: 50 },
  );
});

Deno.test("rng: the first numbers of seed 1 never change", () => {
  assertEquals(take(new Rng(1), 4), [1538776903, 2908542311, 1501388847, 2301860901]);
  assertEquals(take(new Rng(1).fork("loss"), 4), [239793936, 3254288099, 122863628, 96683788]);
});

Deno.test("rng: the same seed gives the same stream, another seed another one", () => {
  for (
    const seed of [0, 1, -1, 42, 2 ** 32, 2 ** 32 + 1, -(2 ** 32), Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER]
  ) {
    assertEquals(take(new Rng(seed), 10), take(new Rng(seed), 10));
    for (const other of [2, 7, 2 ** 33]) assertNotEquals(take(new Rng(seed), 10), take(new Rng(other), 10));
  }
  const firsts = new Set(Array.from({ length: 2000 }, (_, seed) => take(new Rng(seed), 2).join()));
  assertStrictEquals(firsts.size, 2000);
});

Deno.test("rng: a fork depends on seed and labels alone, never on draws or other forks", () => {
  fc.assert(
    fc.property(fc.maxSafeInteger(), fc.string(), fc.nat(50), fc.string(), (seed, label, draws, otherLabel) => {
      const fresh = take(new Rng(seed).fork(label), 8);
      const parent = new Rng(seed);
      for (let i = 0; i < draws; i++) parent.unit();
      const other = parent.fork(otherLabel);
      take(other, draws);
      assertEquals(take(parent.fork(label), 8), fresh);
    }),
  );
});

Deno.test("rng: forking draws nothing from the parent", () => {
  const a = new Rng(5);
  const b = new Rng(5);
  take(a, 3);
  take(b, 3);
  a.fork("x").u32();
  a.fork("y");
  assertEquals(take(a, 10), take(b, 10));
});

Deno.test("rng: labels, their order and their nesting tell streams apart", () => {
  const root = new Rng(7);
  const streams = [root, root.fork("a"), root.fork("b"), root.fork("a").fork("b"), root.fork("b").fork("a")];
  streams.push(root.fork("ab"), root.fork(""), root.fork("a").fork(""), root.fork("a ").fork("b"));
  assertStrictEquals(new Set(streams.map((r) => take(r, 4).join())).size, streams.length);
  assertEquals(take(root.fork("a/b"), 4), take(root.fork("a").fork("b"), 4));
  assertStrictEquals(root.fork("a").fork("b").path, "/a/b");
  assertStrictEquals(root.fork("a").seed, 7);
});

Deno.test("rng: an unsafe seed is refused", () => {
  for (const seed of [NaN, Infinity, 0.5, 2 ** 53]) {
    assertThrows(() => new Rng(seed), RangeError, "seed must be a safe");
  }
});

Deno.test("rng: unit, below and chance are about uniform", () => {
  const n = 100_000;
  for (const seed of [1, 2, 3]) {
    const rng = new Rng(seed).fork("uniform");
    let sum = 0;
    let squares = 0;
    for (let i = 0; i < n; i++) {
      const x = rng.unit();
      if (!(x >= 0 && x < 1)) throw new Error(`unit() gave ${x}`);
      sum += x;
      squares += x * x;
    }
    // Four standard deviations of the mean of n uniform numbers.
    assertAlmostEquals(sum / n, 0.5, 4 * Math.sqrt(1 / 12 / n));
    assertAlmostEquals(squares / n, 1 / 3, 4 * Math.sqrt(4 / 45 / n));

    const counts = new Uint32Array(10);
    for (let i = 0; i < n; i++) counts[rng.below(10)]! += 1;
    const chi2 = counts.reduce((s, c) => s + (c - n / 10) ** 2 / (n / 10), 0);
    // 9 degrees of freedom: above 33.7 happens once in ten thousand.
    assert(chi2 < 33.7, `chi-square ${chi2}`);

    let hits = 0;
    for (let i = 0; i < n; i++) if (rng.chance(0.005)) hits++;
    assertAlmostEquals(hits / n, 0.005, 4 * Math.sqrt(0.005 * 0.995 / n));
  }
});

Deno.test("rng: every bit is set half of the time, and successive numbers do not correlate", () => {
  const rng = new Rng(12);
  const n = 50_000;
  const ones = new Uint32Array(32);
  let before = rng.u32();
  let product = 0;
  for (let i = 0; i < n; i++) {
    const x = rng.u32();
    for (let bit = 0; bit < 32; bit++) ones[bit]! += (x >>> bit) & 1;
    product += (x / 2 ** 32 - 0.5) * (before / 2 ** 32 - 0.5);
    before = x;
  }
  for (const count of ones) assertAlmostEquals(count / n, 0.5, 4.5 * 0.5 / Math.sqrt(n));
  assertAlmostEquals(product / n, 0, 4 / 12 / Math.sqrt(n));
});

Deno.test("rng: unit is made of the high bits of two draws, 53 in all", () => {
  const a = new Rng(4);
  const b = new Rng(4);
  for (let i = 0; i < 1000; i++) {
    const high = BigInt(b.u32()) >> 5n;
    const low = BigInt(b.u32()) >> 6n;
    assertStrictEquals(a.unit() * 2 ** 53, Number(high << 26n | low));
  }
});

Deno.test("rng: below stays below, also for the largest bounds", () => {
  const rng = new Rng(3);
  for (const n of [1, 2, 3, 2 ** 31, 2 ** 32 - 1, 2 ** 32]) {
    for (let i = 0; i < 1000; i++) {
      const x = rng.below(n);
      assert(Number.isInteger(x) && x >= 0 && x < n, `below(${n}) gave ${x}`);
    }
  }
});

Deno.test("rng: chance draws exactly once, whatever the probability", () => {
  for (const p of [0, 0.3, 1, -1, 2]) {
    const a = new Rng(9);
    const b = new Rng(9);
    const answer = a.chance(p);
    b.unit();
    if (p <= 0) assertStrictEquals(answer, false);
    if (p >= 1) assertStrictEquals(answer, true);
    assertEquals(take(a, 3), take(b, 3));
  }
});
