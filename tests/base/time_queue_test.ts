/**
 * Packets by release time, against a sorted array.
 *
 * @module
 */

import { assertEquals, assertStrictEquals } from "@std/assert";
import fc from "fast-check";
import { type Packet, PacketPool } from "../../src/base/packet.ts";
import { NEVER } from "../../src/base/time.ts";
import { TimeQueue } from "../../src/base/time_queue.ts";

function packet(pool: PacketPool, releaseAt: number, lengthBytes = 100): Packet {
  const p = pool.acquire()!;
  p.end = p.start + lengthBytes;
  p.releaseAt = releaseAt;
  return p;
}

Deno.test("time queue: an empty queue has nothing and no next time", () => {
  const queue = new TimeQueue();
  assertEquals([queue.packets, queue.bytes, queue.nextAt(), queue.shift(NEVER)], [0, 0, NEVER, null]);
});

Deno.test("time queue: leaves by time, ties in the order of arrival, never early", () => {
  const pool = new PacketPool();
  const queue = new TimeQueue();
  const pushed = [30, 10, 20, 10, 30, 10].map((at) => packet(pool, at));
  for (const p of pushed) queue.push(p);
  assertEquals(queue.nextAt(), 10);
  assertEquals(queue.shift(9), null);
  const order = [1, 3, 5, 2, 0, 4];
  for (const i of order) assertStrictEquals(queue.shift(30), pushed[i]);
  assertEquals(queue.packets, 0);
});

Deno.test("time queue: agrees with a sorted array", () => {
  const step = fc.oneof(
    fc.record({ push: fc.nat(40), length: fc.nat(1500) }),
    fc.record({ shift: fc.nat(40) }),
  );
  fc.assert(fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
    const pool = new PacketPool();
    const queue = new TimeQueue();
    const model: { at: number; n: number; p: Packet }[] = [];
    let n = 0;
    for (const s of steps) {
      if ("push" in s) {
        const p = packet(pool, s.push, s.length);
        queue.push(p);
        model.push({ at: s.push, n: n++, p });
        model.sort((a, b) => a.at - b.at || a.n - b.n);
      } else {
        const expected = model.length > 0 && model[0]!.at <= s.shift ? model.shift()!.p : null;
        assertStrictEquals(queue.shift(s.shift), expected);
      }
      assertEquals(queue.nextAt(), model[0]?.at ?? NEVER);
      assertEquals(queue.packets, model.length);
      assertEquals(queue.bytes, model.reduce((sum, e) => sum + e.p.length, 0));
    }
    for (const e of model) assertStrictEquals(queue.shift(NEVER), e.p);
    assertEquals(queue.shift(NEVER), null);
  }));
});
