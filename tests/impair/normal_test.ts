/**
 * The normal distribution against known values, its inverse, and the two correlations that are made of it.
 *
 * @module
 */

import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import fc from "fast-check";
import {
  bothBelow,
  normalCdf,
  normalCorrelationOfDecisions,
  normalCorrelationOfRanks,
  normalQuantile,
  rankOf,
} from "../../src/impair/normal.ts";

Deno.test("normal: known values of the distribution function and of its inverse", () => {
  const cases: [number, number][] = [
    [0, 0.5],
    [1, 0.8413447460685429],
    [1.959963984540054, 0.975],
    [-2.326347874040841, 0.01],
    [-6, 9.865876450376946e-10],
  ];
  for (const [z, p] of cases) {
    assert(Math.abs(normalCdf(z) / p - 1) < 1e-8, `${z}`);
    assertAlmostEquals(normalQuantile(p), z, 1e-7);
  }
  assertEquals([normalQuantile(0), normalQuantile(1)], [-Infinity, Infinity]);
});

Deno.test("normal: the inverse inverts, and both are symmetrical", () => {
  fc.assert(fc.property(fc.double({ min: 1e-12, max: 0.5, noNaN: true }), (p) => {
    const z = normalQuantile(p);
    assert(Math.abs(normalCdf(z) / p - 1) < 1e-11);
    assertAlmostEquals(normalCdf(-z), 1 - p, 1e-12);
  }));
});

Deno.test("normal: two pieces of the distribution function meet, and the table is near to it", () => {
  for (const at of [-3, 3]) assertAlmostEquals(normalCdf(at - 1e-9), normalCdf(at + 1e-9), 1e-10);
  for (let z = -10; z <= 10; z += 0.0137) assertAlmostEquals(rankOf(z), normalCdf(z), 1e-6);
  assert(rankOf(40) < 1 && rankOf(-40) === 0);
});

Deno.test("normal: both below the median have probability 1/4 + asin(r) / 2π", () => {
  for (const r of [0, 0.1, 0.5, 0.99]) {
    assertAlmostEquals(bothBelow(0.5, r), 0.25 + Math.asin(r) / (2 * Math.PI), 1e-10);
  }
  assertEquals(bothBelow(0.2, 1), 0.2);
  assertAlmostEquals(bothBelow(0.2, 0), 0.04, 1e-12);
});

Deno.test("normal: the correlation of decisions is hit, for rare ones too", () => {
  for (const p of [1e-6, 0.01, 0.5, 0.97]) {
    for (const correlation of [0.01, 0.25, 0.9]) {
      const r = normalCorrelationOfDecisions(p, correlation);
      const q = Math.min(p, 1 - p);
      assertAlmostEquals((bothBelow(q, r) - q * q) / (q * (1 - q)), correlation, 1e-6, `${p} ${correlation}`);
    }
  }
  assertEquals([normalCorrelationOfDecisions(0.5, 0), normalCorrelationOfDecisions(1, 0.5)], [0, 0]);
  assertEquals(normalCorrelationOfRanks(0), 0);
  assert(normalCorrelationOfRanks(0.999) < 1);
});
