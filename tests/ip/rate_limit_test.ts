import { assert, assertEquals } from "@std/assert";
import { IcmpRateLimit } from "../../src/ip/rate_limit.ts";
import { MILLISECOND, SECOND } from "../../src/base/time.ts";

function taken(limit: IcmpRateLimit, destination: number, times: number, now: number, exempt = false): number {
  let n = 0;
  for (let i = 0; i < times; i++) if (limit.take(0, 0, 0xffff, destination, exempt, now)) n++;
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

Deno.test("all destinations together get a burst of 50, then one a millisecond", () => {
  const limit = new IcmpRateLimit(1);
  let n = 0;
  for (let d = 1; d <= 100; d++) n += taken(limit, d, 1, 0);
  assertEquals(n, 50);
  assertEquals(taken(limit, 200, 2, MILLISECOND), 1);
  assertEquals(taken(limit, 300, 2, 3 * MILLISECOND), 2);
});

Deno.test("exempt errors know no limit for each destination, only the one for all", () => {
  const limit = new IcmpRateLimit(1);
  assertEquals(taken(limit, 1, 100, 0, true), 50);
  assertEquals(taken(limit, 1, 10, 20 * MILLISECOND, true), 10);
});

Deno.test("a refusal costs nothing: a throttled destination takes no tokens from the others", () => {
  const limit = new IcmpRateLimit(1);
  assertEquals(taken(limit, 1, 1000, 0), 6);
  let n = 0;
  for (let d = 2; d <= 100; d++) n += taken(limit, d, 1, 0);
  assertEquals(n, 44);
});

Deno.test("a flood of other destinations does not grow the memory and leaves recent ones throttled", () => {
  const limit = new IcmpRateLimit(1, 16);
  let now = 0;
  for (let d = 1; d <= 10_000; d++, now += MILLISECOND) limit.take(0, 0, 0xffff, d, false, now);
  assertEquals(taken(limit, 99_999, 7, now), 6);
  assert(!limit.take(0, 0, 0xffff, 99_999, false, now + SECOND - 1));
});
