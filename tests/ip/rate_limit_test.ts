import { assert, assertEquals } from "@std/assert";
import { IcmpRateLimit } from "../../src/ip/rate_limit.ts";
import { MILLISECOND, SECOND } from "../../src/base/time.ts";

function taken(limit: IcmpRateLimit, destination: number, times: number, now: number): number {
  let n = 0;
  for (let i = 0; i < times; i++) if (limit.take(0, 0, 0xffff, destination, now)) n++;
  return n;
}

/** How many of errors to that many destinations, one each, are let through. */
function spread(limit: IcmpRateLimit, first: number, destinations: number, now: number): number {
  let n = 0;
  for (let d = first; d < first + destinations; d++) n += taken(limit, d, 1, now);
  return n;
}

Deno.test("one destination gets a burst of 6, then one a second, and at most 6 after any rest", () => {
  const limit = new IcmpRateLimit(1);
  assertEquals(taken(limit, 1, 7, 0), 6);
  assertEquals(taken(limit, 1, 3, SECOND - 1), 0);
  assertEquals(taken(limit, 1, 3, SECOND), 1);
  assertEquals(taken(limit, 1, 3, 3 * SECOND), 2);
  assertEquals(taken(limit, 1, 30, 1000 * SECOND), 6);
});

Deno.test("all destinations together get a burst of about 50, then about one a millisecond", () => {
  let bursts = 0;
  let later = 0;
  for (let seed = 1; seed <= 200; seed++) {
    const limit = new IcmpRateLimit(seed);
    const burst = spread(limit, 1, 400, 0);
    assert(burst >= 25 && burst <= 100, `${burst}`);
    bursts += burst;
    for (let ms = 1; ms <= 100; ms++) later += spread(limit, 1000 * ms, 5, ms * MILLISECOND);
  }
  assert(Math.abs(bursts / 200 - 50) < 3, `${bursts / 200}`);
  assert(Math.abs(later / 200 / 100 - 1) < 0.05, `${later / 200 / 100}`);
});

Deno.test("what is left of the bucket for all cannot be counted: equal loads get different answers", () => {
  const bursts = Array.from({ length: 20 }, (_, seed) => spread(new IcmpRateLimit(seed), 1, 400, 0));
  assert(new Set(bursts).size > 5, `${bursts}`);
  const again = Array.from({ length: 20 }, (_, seed) => spread(new IcmpRateLimit(seed), 1, 400, 0));
  assertEquals(again, bursts);
});

Deno.test("a refusal costs nothing: a throttled destination takes no tokens from the others", () => {
  const limit = new IcmpRateLimit(1);
  assertEquals(taken(limit, 1, 1000, 0), 6);
  assert(spread(limit, 2, 400, 0) >= 20);
});

Deno.test("a flood of other destinations does not grow the memory and leaves recent ones throttled", () => {
  const limit = new IcmpRateLimit(1, 16);
  let now = 0;
  for (let d = 1; d <= 10_000; d++, now += MILLISECOND) limit.take(0, 0, 0xffff, d, now);
  assertEquals(taken(limit, 99_999, 7, now + SECOND), 6);
  assert(!limit.take(0, 0, 0xffff, 99_999, now + 2 * SECOND - 1));
});
