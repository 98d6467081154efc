/**
 * The open loop: when operations are due.
 *
 * @module
 */

import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { MILLISECOND, NEVER, SECOND } from "../../../src/base/time.ts";
import { OpenLoop } from "../../../src/lab/workload/open_loop.ts";

Deno.test("open loop: a hundred a second for a second", () => {
  const loop = new OpenLoop(7 * SECOND, 100, SECOND);
  assertEquals([loop.count, loop.interval], [100, 10 * MILLISECOND]);
  assertEquals([0, 1, 99].map((i) => loop.startOf(i)), [7 * SECOND, 7.01 * SECOND, 7.99 * SECOND]);
  assertEquals(loop.dueBy(7 * SECOND - 1), 0);
  assertEquals(loop.dueBy(7 * SECOND), 1);
  assertEquals(loop.dueBy(7.01 * SECOND - 1), 1);
  assertEquals(loop.dueBy(7.01 * SECOND), 2);
  // After a stall everything is due that should have started meanwhile.
  assertEquals(loop.dueBy(7.5 * SECOND), 51);
  assertEquals(loop.dueBy(100 * SECOND), 100);
  assertEquals([loop.nextAt(0), loop.nextAt(99), loop.nextAt(100)], [7 * SECOND, 7.99 * SECOND, NEVER]);
});

Deno.test("open loop: at least one operation, and no rate of nothing", () => {
  assertEquals(new OpenLoop(0, 1, 10 * MILLISECOND).count, 1);
  for (const rate of [0, -1, NaN]) assertThrows(() => new OpenLoop(0, rate, SECOND), RangeError, "above 0");
});

Deno.test("open loop: due is exactly what has started, at any rate and time", () => {
  fc.assert(fc.property(
    fc.double({ min: 0.01, max: 1e6, noNaN: true }),
    fc.integer({ min: 0, max: 1e12 }),
    fc.integer({ min: 0, max: 20 * SECOND }),
    (rate, start, elapsed) => {
      const loop = new OpenLoop(start, rate, 10 * SECOND);
      const now = start + elapsed;
      const due = loop.dueBy(now);
      assert(due === 0 || loop.startOf(due - 1) <= now);
      assert(due === loop.count || loop.startOf(due) > now);
    },
  ));
});
