/**
 * The packet list against an array.
 *
 * @module
 */

import { assertStrictEquals } from "@std/assert";
import * as fc from "fast-check";
import { type Packet, PacketPool } from "../../src/base/packet.ts";
import { PacketList } from "../../src/base/packet_list.ts";

Deno.test("packet list: behaves as an array, and counts packets and bytes", () => {
  const pool = new PacketPool(1000);
  fc.assert(fc.property(fc.array(fc.integer({ min: -40, max: 60 }), { maxLength: 100, size: "max" }), (steps) => {
    const list = new PacketList();
    const model: Packet[] = [];
    for (const step of steps) {
      if (step < 0) {
        const p = list.shift();
        assertStrictEquals(p, model.shift() ?? null);
        if (p !== null) {
          assertStrictEquals(p.next, null);
          pool.release(p);
        }
      } else {
        const p = pool.acquire()!;
        p.end = p.start + step;
        // What an earlier list left behind may not matter.
        p.next = model[0] ?? null;
        list.push(p);
        model.push(p);
      }
      assertStrictEquals(list.packets, model.length);
      assertStrictEquals(list.bytes, model.reduce((sum, p) => sum + p.length, 0));
      assertStrictEquals(list.head, model[0] ?? null);
      assertStrictEquals(list.tail, model.at(-1) ?? null);
    }
    while (list.head !== null) pool.release(list.shift()!);
    assertStrictEquals(list.bytes, 0);
    assertStrictEquals(pool.inUse, 0);
  }));
});
