/**
 * Keepalives: when they are sent, and when a peer counts as dead.
 *
 * @module
 */

import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { NEVER, SECOND } from "../../src/base/time.ts";
import { Keepalives } from "../../src/tunnel/keepalive.ts";

const INTERVAL = 10 * SECOND;
const DEAD_AFTER = 35 * SECOND;

/** What is to be sent and what changed at `now`. */
function step(k: Keepalives, now: number): { sends: number[]; changes: number[] } {
  k.timeout(now);
  const sends: number[] = [];
  const changes: number[] = [];
  for (let i = k.pollSend(); i >= 0; i = k.pollSend()) sends.push(i);
  for (let i = k.pollChange(); i >= 0; i = k.pollChange()) changes.push(i);
  return { sends: sends.sort((a, b) => a - b), changes };
}

Deno.test("a keepalive goes out at once, then whenever nothing was sent for the interval", () => {
  const k = new Keepalives({ interval: INTERVAL, deadAfter: NEVER });
  k.add(1, 0);
  k.add(2, 0);
  assertEquals(step(k, 0).sends, [1, 2]);
  assertEquals(k.nextAt(), INTERVAL);
  k.onSent(1, 4 * SECOND);
  assertEquals(step(k, INTERVAL).sends, [2]);
  assertEquals(k.nextAt(), 14 * SECOND);
  assertEquals(step(k, 14 * SECOND).sends, [1]);
  assertEquals(step(k, 20 * SECOND).sends, [2]);
  assertEquals(step(k, 1000 * SECOND), { sends: [1, 2], changes: [] });
});

Deno.test("a peer is dead when nothing was heard of it for that long, and alive when something is", () => {
  const k = new Keepalives({ interval: INTERVAL, deadAfter: DEAD_AFTER });
  k.add(3, SECOND);
  assertEquals([k.state(3), k.heardAt(3)], ["unheard", -NEVER]);
  assertEquals(step(k, 2 * SECOND), { sends: [3], changes: [] });
  k.onHeard(3, 20 * SECOND);
  assertEquals([k.state(3), k.heardAt(3)], ["alive", 20 * SECOND]);
  assertEquals(step(k, 36 * SECOND).changes, [3]);
  assertEquals(step(k, 37 * SECOND).changes, []);
  assertEquals(step(k, 55 * SECOND - 1).changes, []);
  assertEquals(step(k, 55 * SECOND).changes, [3]);
  assert(k.isDead(3));
  assertEquals(step(k, 500 * SECOND), { sends: [3], changes: [] });
  k.onHeard(3, 501 * SECOND);
  assertEquals([k.isDead(3), k.nextAt()], [false, 0]);
  assertEquals(step(k, 501 * SECOND).changes, [3]);
  assertEquals(step(k, 536 * SECOND).changes, [3]);
  assertEquals(k.deaths, 2);
});

Deno.test("peers without keepalives are never dead, and telling of them does no harm", () => {
  const k = new Keepalives({ interval: INTERVAL, deadAfter: DEAD_AFTER });
  k.onHeard(5, 1);
  k.onSent(5, 1);
  k.add(7, 0);
  k.onHeard(6, 1);
  assertEquals(step(k, 1), { sends: [7], changes: [] });
  assertEquals([5, 6, 7].map((i) => [k.has(i), k.isDead(i)]), [[false, false], [false, false], [true, false]]);
});

Deno.test("a keepalive that nobody took is not owed twice, and one can be asked for", () => {
  const k = new Keepalives({ interval: INTERVAL, deadAfter: NEVER });
  k.add(1, 0);
  for (let i = 0; i < 5; i++) k.timeout(i * INTERVAL);
  assertEquals([k.pollSend(), k.pollSend(), k.sent], [1, -1, 1]);
  k.sendNow(1, 41 * SECOND);
  assertEquals(k.nextAt(), 41 * SECOND);
  assertEquals(step(k, 41 * SECOND).sends, [1]);
  assertEquals(k.nextAt(), 51 * SECOND);
  k.sendNow(2, 42 * SECOND);
  assertEquals(k.nextAt(), 51 * SECOND);
});

Deno.test("nonsense is refused", () => {
  assertThrows(() => new Keepalives({ interval: 0, deadAfter: 1 }), RangeError, "above 0");
  assertThrows(() => new Keepalives({ interval: 5, deadAfter: 5 }), RangeError, "more than the interval");
});

Deno.test("whatever is sent and heard: never silent for longer than the interval, dead exactly when unheard", () => {
  const event = fc.record({ wait: fc.integer({ min: 1, max: 20 }), what: fc.constantFrom("sent", "heard", "nothing") });
  fc.assert(fc.property(fc.array(event, { maxLength: 60 }), (events) => {
    const k = new Keepalives({ interval: INTERVAL, deadAfter: DEAD_AFTER });
    k.add(1, 0);
    step(k, 0);
    let sentAt = 0;
    let heardAt = 0;
    let now = 0;
    const runTo = (until: number): void => {
      while (k.nextAt() <= until) {
        now = Math.max(now, k.nextAt());
        if (step(k, now).sends.length > 0) {
          assertEquals(now - sentAt, INTERVAL);
          sentAt = now;
        }
      }
      now = until;
      assert(now - sentAt < INTERVAL);
      assertEquals(k.isDead(1), now - heardAt >= DEAD_AFTER);
    };
    for (const { wait, what } of events) {
      runTo(now + wait * SECOND);
      if (what === "sent") {
        k.onSent(1, now);
        sentAt = now;
      } else if (what === "heard") {
        k.onHeard(1, now);
        heardAt = now;
        step(k, now);
      }
    }
  }));
});
