import { assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { RETRANSMIT_QUEUE_LIMIT, RetransmitQueue } from "../../src/tcp/retransmit_queue.ts";

const RATE = { deliveredBytes: 1, deliveredAt: 2, firstSentAt: 3, appLimitedUntilBytes: 0, totalLostBytes: 0 };

interface Record {
  seq: number;
  end: number;
  departAt: number;
  flags: number;
}

function contents(q: RetransmitQueue): Record[] {
  return Array.from({ length: q.size }, (_, i) => ({
    seq: q.seq(i),
    end: q.end(i),
    departAt: q.departAt(i),
    flags: q.flags(i),
  }));
}

Deno.test("retransmit queue: property: an array with the same calls holds the same", () => {
  const call = fc.oneof(
    { weight: 5, arbitrary: fc.record({ push: fc.integer({ min: 1, max: 65_000 }), at: fc.nat(2 ** 50) }) },
    { weight: 3, arbitrary: fc.record({ shift: fc.integer({ min: 1, max: 4 }) }) },
    { weight: 2, arbitrary: fc.record({ flag: fc.nat(7), i: fc.nat(300), at: fc.nat(2 ** 50) }) },
    { weight: 1, arbitrary: fc.record({ trim: fc.nat(100) }) },
    { weight: 1, arbitrary: fc.record({ clear: fc.boolean() }) },
  );
  fc.assert(fc.property(fc.array(call, { maxLength: 600, size: "max" }), (calls) => {
    const q = new RetransmitQueue();
    let model: Record[] = [];
    let next = -100_000; // the numbers pass 0 and, in long runs, go far beyond
    for (const c of calls) {
      if ("push" in c) {
        const end = (next + c.push) | 0;
        assertEquals(q.push(next, end, c.at, RATE), true);
        model.push({ seq: next, end, departAt: c.at, flags: 0 });
        next = end;
      } else if ("shift" in c) {
        for (let k = Math.min(c.shift, model.length); k > 0; k--) {
          q.shift();
          model.shift();
        }
      } else if ("flag" in c) {
        if (model.length === 0) continue;
        const i = c.i % model.length;
        q.setFlags(i, c.flag);
        q.setRetransmitted(i, c.at, RATE);
        Object.assign(model[i]!, { flags: c.flag | 6, departAt: c.at });
      } else if ("trim" in c) {
        if (model.length === 0) continue;
        const seq = (model[0]!.seq + c.trim) | 0;
        q.trimHead(seq);
        model[0]!.seq = seq;
      } else if (c.clear) {
        q.clear();
        model = [];
      }
      assertEquals(q.size, model.length);
    }
    assertEquals(contents(q), model);
  }));
});

Deno.test("retransmit queue: bounded; a refused segment changes nothing; numbers keep their sign over the wrap", () => {
  const q = new RetransmitQueue();
  for (let i = 0; i < RETRANSMIT_QUEUE_LIMIT; i++) {
    assertEquals(q.push((0x7fffff00 + i) | 0, (0x7fffff01 + i) | 0, i + 0.5, RATE), true);
  }
  assertEquals(q.push(1, 2, 3, RATE), false);
  assertEquals([q.size, q.seq(0), q.seq(256), q.end(255)], [
    RETRANSMIT_QUEUE_LIMIT,
    0x7fffff00,
    -0x80000000,
    -0x80000000,
  ]);
  q.shift();
  assertEquals(q.push(1, 2, 3, RATE), true);
  assertEquals([q.seq(q.size - 1), q.departAt(0)], [1, 1.5]);
  q.clear();
  assertEquals(q.size, 0);
});
