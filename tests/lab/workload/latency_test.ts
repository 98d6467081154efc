/**
 * The latency histogram: percentiles to three digits.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { MICROSECOND, MILLISECOND, SECOND } from "../../../src/base/time.ts";
import { LatencyHistogram } from "../../../src/lab/workload/latency.ts";

Deno.test("latency: nothing recorded", () => {
  const h = new LatencyHistogram();
  assertEquals([h.count, h.percentile(50), h.summary()], [0, null, null]);
});

Deno.test("latency: one to ten thousand microseconds", () => {
  const h = new LatencyHistogram();
  for (let i = 10_000; i >= 1; i--) h.record(i * MICROSECOND);
  const s = h.summary()!;
  assertEquals([s.count, s.min, s.max], [10_000, 0.001, 10]);
  const near = (value: number, wanted: number) =>
    assert(Math.abs(value - wanted) <= wanted / 1000, `${value} is not ${wanted} to three digits`);
  near(s.mean, 5.0005);
  for (const [name, wanted] of Object.entries({ p50: 5, p90: 9, p99: 9.9, "p99.9": 9.99 })) {
    near(s.percentiles[name]!, wanted);
  }
  assertEquals(Object.keys(s.percentiles), ["p50", "p90", "p99", "p99.9", "p99.99"]);
  assert(s.percentiles["p99.99"]! <= s.max);
});

Deno.test("latency: a percentile is never beyond what was recorded", () => {
  const h = new LatencyHistogram();
  h.record(36_958_123);
  assertEquals(h.summary()!.percentiles, { p50: 36.958, p90: 36.958, p99: 36.958, "p99.9": 36.958, "p99.99": 36.958 });
});

Deno.test("latency: values out of range are taken to its ends", () => {
  const h = new LatencyHistogram();
  h.record(-5 * MILLISECOND);
  h.record(7200 * SECOND);
  assertEquals([h.summary()!.min, h.summary()!.max], [0, 3_600_000]);
});

Deno.test("latency: reset forgets everything", () => {
  const h = new LatencyHistogram();
  h.record(SECOND);
  h.reset();
  h.record(MILLISECOND);
  assertEquals([h.count, h.summary()!.max, h.summary()!.min], [1, 1, 1]);
});
