/**
 * Sleepers: never early, nothing armed without a deadline, deadlines that move.
 *
 * @module
 */

import { assert, assertEquals, assertGreaterOrEqual, assertLess } from "@std/assert";
import { type Instant, MILLISECOND, NEVER, SECOND } from "../../src/base/time.ts";
import { MonotonicClock } from "../../src/runtime/clock.ts";
import { TimerSleeper, type TimerSleeperKind } from "../../src/runtime/sleeper.ts";

const KINDS: readonly TimerSleeperKind[] = ["hop", "timeout", "spin"];

/** A sleeper with a promise for its next waking. */
function sleeperOf(kind: TimerSleeperKind) {
  const clock = new MonotonicClock();
  let onDue: (now: Instant) => void = () => {};
  const sleeper = new TimerSleeper(kind, clock, () => onDue(clock.now()));
  const due = () => new Promise<Instant>((resolve) => onDue = resolve);
  // Timers of sleepers do not keep the process alive; the test does.
  const keepAlive = setInterval(() => {}, 1000);
  return { clock, sleeper, due, [Symbol.dispose]: () => (sleeper.cancel(), clearInterval(keepAlive)) };
}

for (const kind of KINDS) {
  Deno.test(`sleeper ${kind}: wakes at or after the deadline, whatever its distance`, async () => {
    using s = sleeperOf(kind);
    for (const distance of [0, 1, 1000, 0.4 * MILLISECOND, 1.7 * MILLISECOND, 3 * MILLISECOND, 12.3 * MILLISECOND]) {
      const now = s.clock.now();
      const deadline = now + distance;
      const due = s.due();
      s.sleeper.sleepUntil(deadline, now);
      assert(s.sleeper.armed);
      assertGreaterOrEqual(await due, deadline);
      assert(!s.sleeper.armed);
      assertEquals(s.sleeper.deadline, NEVER);
    }
  });

  Deno.test(`sleeper ${kind}: without a deadline nothing is armed`, () => {
    using s = sleeperOf(kind);
    assert(!s.sleeper.armed);
    s.sleeper.sleepUntil(s.clock.now() + SECOND, s.clock.now());
    assert(s.sleeper.armed);
    s.sleeper.sleepUntil(NEVER, s.clock.now());
    assert(!s.sleeper.armed);
    s.sleeper.sleepUntil(s.clock.now(), s.clock.now());
    assert(s.sleeper.armed);
    s.sleeper.cancel();
    assert(!s.sleeper.armed);
  });

  Deno.test(`sleeper ${kind}: a deadline that moves near is met, one that moves away is not met early`, async () => {
    using s = sleeperOf(kind);
    let now = s.clock.now();
    s.sleeper.sleepUntil(now + 10 * SECOND, now);
    let due = s.due();
    s.sleeper.sleepUntil(now + 8 * MILLISECOND, now);
    let woken = await due;
    assertGreaterOrEqual(woken, now + 8 * MILLISECOND);
    assertLess(woken, now + 9 * SECOND);

    now = s.clock.now();
    due = s.due();
    s.sleeper.sleepUntil(now + 4 * MILLISECOND, now);
    s.sleeper.sleepUntil(now + 15 * MILLISECOND, now);
    woken = await due;
    assertGreaterOrEqual(woken, now + 15 * MILLISECOND);
  });
}

Deno.test("sleeper: a deadline beyond the longest timer is no trouble", () => {
  for (const kind of KINDS) {
    using s = sleeperOf(kind);
    s.sleeper.sleepUntil(1e17, s.clock.now());
    assert(s.sleeper.armed);
  }
});

Deno.test("sleeper hop: is closer than the timer", async () => {
  // The timer alone is late by about 1 ms in the median; hopping by some microseconds, on a quiet machine.
  using s = sleeperOf("hop");
  const late: number[] = [];
  for (let i = 0; i < 21; i++) {
    const now = s.clock.now();
    const deadline = now + 5.5 * MILLISECOND;
    const due = s.due();
    s.sleeper.sleepUntil(deadline, now);
    late.push(await due - deadline);
  }
  assertLess(late.toSorted((a, b) => a - b)[2]!, 2 * MILLISECOND);
});
