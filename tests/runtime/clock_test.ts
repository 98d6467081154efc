/**
 * The clock and the record of lateness.
 *
 * @module
 */

import { assert, assertEquals, assertGreaterOrEqual, assertLessOrEqual } from "@std/assert";
import fc from "fast-check";
import { MICROSECOND, MILLISECOND } from "../../src/base/time.ts";
import { MonotonicClock } from "../../src/runtime/clock.ts";
import { Lateness } from "../../src/runtime/lateness.ts";

Deno.test("clock: whole nanoseconds from about 0 on, never going back", () => {
  const clock = new MonotonicClock();
  let before = 0;
  for (let i = 0; i < 10_000; i++) {
    const now = clock.now();
    assert(Number.isInteger(now));
    assertGreaterOrEqual(now, before);
    before = now;
  }
});

Deno.test("clock: runs at the speed of time", async () => {
  const clock = new MonotonicClock();
  const from = clock.now();
  const wall = performance.now();
  await new Promise((resolve) => setTimeout(resolve, 20));
  const passed = (performance.now() - wall) * MILLISECOND;
  const measured = clock.now() - from;
  assertGreaterOrEqual(measured, 19 * MILLISECOND);
  assertGreaterOrEqual(measured, passed * 0.99);
});

Deno.test("lateness: nothing recorded is all zeros", () => {
  assertEquals(new Lateness().stats(), { count: 0, ewma: 0, p50: 0, p99: 0, max: 0 });
});

Deno.test("lateness: a quantile is the true one up to a quarter of an octave", () => {
  fc.assert(fc.property(
    fc.array(fc.integer({ min: 0, max: 10_000 * MILLISECOND }), { minLength: 1, maxLength: 200 }),
    fc.double({ min: 0.01, max: 1, noNaN: true }),
    (values, q) => {
      const lateness = new Lateness();
      for (const value of values) lateness.record(value);
      const sorted = values.toSorted((a, b) => a - b);
      const exact = sorted[Math.ceil(q * values.length) - 1]!;
      const answer = lateness.quantile(q);
      assertGreaterOrEqual(answer, exact - 1);
      assertLessOrEqual(answer, Math.max(MICROSECOND, exact * 2 ** 0.25 + 1));
      assertEquals(lateness.stats().max, sorted.at(-1));
      assertEquals(lateness.stats().count, values.length);
    },
  ));
});

Deno.test("lateness: the average moves by an eighth", () => {
  const lateness = new Lateness();
  lateness.record(800);
  assertEquals(lateness.stats().ewma, 800);
  lateness.record(0);
  assertEquals(lateness.stats().ewma, 700);
});
