/**
 * Packets and their pool: the bound, last in first out, ownership.
 *
 * @module
 */

import { assert, assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import * as fc from "fast-check";
import { HEADROOM_BYTES, type Packet, PacketPool, SLOT_BYTES } from "../../src/base/packet.ts";

Deno.test("packet pool: gives out no more than its limit and then null", () => {
  for (const limit of [0, 1, 63, 64, 65, 200]) {
    const pool = new PacketPool(limit);
    const packets: Packet[] = [];
    for (let p = pool.acquire(); p !== null; p = pool.acquire()) packets.push(p);
    assertStrictEquals(packets.length, limit);
    assertStrictEquals(new Set(packets).size, limit);
    assertStrictEquals(pool.inUse, limit);
    assertStrictEquals(pool.acquire(), null);
    for (const p of packets) pool.release(p);
    assertStrictEquals(pool.inUse, 0);
    if (limit > 0) assert(pool.acquire() !== null);
  }
});

Deno.test("packet pool: the packet freed last is the next one given out", () => {
  const pool = new PacketPool(100);
  const [a, b, c] = [pool.acquire()!, pool.acquire()!, pool.acquire()!];
  pool.release(b);
  pool.release(c);
  pool.release(a);
  assertEquals([pool.acquire() === a, pool.acquire() === c, pool.acquire() === b], [true, true, true]);
});

Deno.test("packet pool: freeing a packet twice throws and changes nothing", () => {
  const pool = new PacketPool(10);
  const p = pool.acquire()!;
  pool.release(p);
  assertThrows(() => pool.release(p), Error, "freed twice");
  assertStrictEquals(pool.inUse, 0);
  const [a, b] = [pool.acquire(), pool.acquire()];
  assert(a !== b, "the same packet was given out twice");
});

Deno.test("packet pool: any sequence of takes and frees keeps the books", () => {
  fc.assert(
    fc.property(
      fc.nat(70),
      fc.array(fc.integer({ min: -3, max: 70 }), { maxLength: 200, size: "max" }),
      (limit, steps) => {
        const pool = new PacketPool(limit, 64);
        const held: Packet[] = [];
        for (const step of steps) {
          if (step < 0 || held.length === 0) {
            const p = pool.acquire(0);
            assertStrictEquals(p === null, held.length === limit);
            if (p !== null) {
              assert(!held.includes(p) && !p.free);
              held.push(p);
            }
          } else {
            const [p] = held.splice(step % held.length, 1);
            pool.release(p!);
            assert(p!.free);
          }
          assertStrictEquals(pool.inUse, held.length);
        }
      },
    ),
  );
});

Deno.test("packet pool: slots do not overlap, and views agree, for any slot size", () => {
  for (const slotBytes of [1, 63, 64, 100, 1500, SLOT_BYTES, 9000]) {
    const pool = new PacketPool(70, slotBytes);
    const packets = Array.from({ length: 70 }, () => pool.acquire(0)!);
    packets.forEach((p, i) => {
      assert(p.bytes.length >= slotBytes);
      assertStrictEquals(p.bytes.length, pool.slotBytes);
      assertStrictEquals(p.view.byteLength, pool.slotBytes);
      p.bytes.fill(i + 1);
    });
    packets.forEach((p, i) => {
      assertStrictEquals(p.view.getUint8(0), i + 1);
      assert(p.bytes.every((b) => b === i + 1), `slot ${i} was written by another`);
    });
  }
});

Deno.test("packet: comes out of the pool empty, whatever was in it", () => {
  const pool = new PacketPool(1);
  const p = pool.acquire()!;
  Object.assign(p, {
    start: 3,
    end: 999,
    l4: 77,
    ifindex: 4,
    flow: 5,
    departAt: 6,
    releaseAt: 7,
    order: 8,
    duplicate: true,
  });
  p.next = p;
  pool.release(p);
  assertStrictEquals(p.next, null);
  const q = pool.acquire(40)!;
  assertStrictEquals(q, p);
  assertEquals([q.start, q.end, q.l4, q.length], [40, 40, 40, 0]);
  assertEquals([q.ifindex, q.flow, q.departAt, q.releaseAt, q.order], [0, 0, 0, 0, 0]);
  assertEquals([q.duplicate, q.next, q.free], [false, null, false]);
  pool.release(q);
  assertStrictEquals(pool.acquire()!.start, HEADROOM_BYTES);
});

Deno.test("packet: a copy has the bytes and the facts, but its own memory and place", () => {
  const pool = new PacketPool(2);
  const p = pool.acquire()!;
  p.bytes.set([1, 2, 3, 4], p.start);
  p.end += 4;
  Object.assign(p, { l4: p.start + 2, ifindex: 4, flow: 5, departAt: 6, releaseAt: 7, order: 8, duplicate: true });
  p.next = p;
  const q = pool.acquire(0)!;
  q.copyFrom(p);
  assertEquals([...q.toBytes()], [1, 2, 3, 4]);
  assertEquals([q.start, q.end, q.l4, q.ifindex, q.flow], [p.start, p.end, p.l4, 4, 5]);
  assertEquals([q.departAt, q.releaseAt, q.order, q.duplicate, q.next], [6, 7, 0, true, null]);
  q.bytes[q.start] = 9;
  assertStrictEquals(p.bytes[p.start], 1);
});

Deno.test("large packets have a bound of their own, hold the largest IP packet, and go back to where they came from", () => {
  const pool = new PacketPool(2, undefined, 3);
  const large = [pool.acquireLarge()!, pool.acquireLarge(384)!, pool.acquireLarge()!];
  assertEquals(pool.acquireLarge(), null);
  assertEquals(large.map((p) => [p.start, p.length, p.bytes.length >= 384 + 65_535]), [
    [128, 0, true],
    [384, 0, true],
    [128, 0, true],
  ]);
  const small = [pool.acquire()!, pool.acquire()!];
  assertEquals([pool.acquire(), pool.inUse], [null, 5]);
  for (const p of [...large, ...small]) pool.release(p);
  assertEquals(pool.inUse, 0);
  assertEquals(pool.acquire()!.bytes.length, pool.slotBytes);
  assertEquals(large.includes(pool.acquireLarge()!), true);
});
