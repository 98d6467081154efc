import { assertEquals } from "@std/assert";
import * as fc from "fast-check";
import {
  LOST,
  RETRANSMIT_QUEUE_LIMIT,
  RetransmitQueue,
  RETRANSMITTED,
  SACKED,
} from "../../src/tcp/retransmit_queue.ts";

const RATE = { deliveredBytes: 1, deliveredAt: 2, firstSentAt: 3, appLimitedUntilBytes: 0, totalLostBytes: 0 };

interface Record {
  seq: number;
  end: number;
  departAt: number;
  flags: number;
  /** The how-manieth transmission. */
  order: number;
  /** Taken out of the list of departures, and not put back yet. */
  isOut: boolean;
}

const isInFlight = (flags: number) => (flags & SACKED) === 0 && (flags & (LOST | RETRANSMITTED)) !== LOST;

function contents(q: RetransmitQueue): Omit<Record, "isOut">[] {
  return Array.from({ length: q.size }, (_, i) => ({
    seq: q.seq(i),
    end: q.end(i),
    departAt: q.departAt(i),
    flags: q.flags(i),
    order: q.order(i),
  }));
}

function departures(q: RetransmitQueue): number[] {
  const list: number[] = [];
  for (let i = q.earliest(); i >= 0; i = q.departedAfter(i)) list.push(i);
  return list;
}

/** An array that does slowly what the queue does. */
class Model {
  records: Record[] = [];
  sent = 0;

  departures(): number[] {
    return this.records.map((_, i) => i).filter((i) => !this.records[i]!.isOut)
      .sort((a, b) => this.records[a]!.order - this.records[b]!.order || a - b);
  }

  split(mss: number): void {
    this.records = this.records.flatMap((r) => {
      const pieces: Record[] = [];
      for (let left = r.seq; left !== r.end;) {
        const right = ((r.end - left) | 0) > mss ? (left + mss) | 0 : r.end;
        pieces.push({ ...r, seq: left, end: right });
        left = right;
      }
      return pieces;
    });
  }
}

const call = fc.oneof(
  { weight: 6, arbitrary: fc.record({ push: fc.integer({ min: 1, max: 9000 }) }) },
  { weight: 3, arbitrary: fc.record({ shift: fc.integer({ min: 1, max: 4 }) }) },
  { weight: 3, arbitrary: fc.record({ lose: fc.nat(300) }) },
  { weight: 3, arbitrary: fc.record({ resend: fc.nat(300) }) },
  { weight: 3, arbitrary: fc.record({ sack: fc.nat(300), segments: fc.integer({ min: 1, max: 9 }) }) },
  { weight: 1, arbitrary: fc.record({ find: fc.integer({ min: -100, max: 400_000 }) }) },
  { weight: 1, arbitrary: fc.record({ trim: fc.nat(100) }) },
  { weight: 1, arbitrary: fc.record({ split: fc.integer({ min: 500, max: 4000 }) }) },
  { weight: 1, arbitrary: fc.record({ forget: fc.constantFrom(SACKED, LOST) }) },
  { weight: 1, arbitrary: fc.record({ clear: fc.integer({ min: 0, max: 9 }) }) },
);

Deno.test("retransmit queue: property: an array with the same calls holds the same, departures and runs included", () => {
  fc.assert(
    fc.property(fc.array(call, { maxLength: 300, size: "max" }), (calls) => {
      const q = new RetransmitQueue();
      const model = new Model();
      let next = 0x7fffffff - 50_000; // the numbers pass 2^31, and in other runs of the stack 2^32 the same way
      let now = 0;
      const at = (i: number) => model.records.length === 0 ? -1 : i % model.records.length;
      for (const c of calls) {
        now += 0.5;
        const { records } = model;
        if ("push" in c) {
          const end = (next + c.push) | 0;
          assertEquals(q.push(next, end, now, RATE), true);
          records.push({ seq: next, end, departAt: now, flags: 0, order: ++model.sent, isOut: false });
          next = end;
        } else if ("shift" in c) {
          for (let k = Math.min(c.shift, records.length); k > 0; k--) {
            q.shift();
            records.shift();
          }
        } else if ("lose" in c) {
          const i = at(c.lose);
          if (i < 0 || (records[i]!.flags & SACKED) !== 0) continue;
          const flags = (records[i]!.flags | LOST) & ~RETRANSMITTED;
          q.setFlags(i, flags);
          Object.assign(records[i]!, { flags, isOut: true });
        } else if ("resend" in c) {
          const i = at(c.resend);
          if (i < 0 || (records[i]!.flags & SACKED) !== 0) continue;
          q.setRetransmitted(i, now, RATE);
          const flags = records[i]!.flags | RETRANSMITTED | 4;
          Object.assign(records[i]!, { flags, departAt: now, order: ++model.sent, isOut: false });
        } else if ("sack" in c) {
          const from = at(c.sack);
          if (from < 0) continue;
          const to = Math.min(records.length, from + c.segments);
          const runEnd = records[to - 1]!.end;
          for (let i = from; i < to; i++) {
            const flags = records[i]!.flags;
            if ((flags & SACKED) === 0) q.setSacked(i, runEnd);
            Object.assign(records[i]!, { flags: (flags | SACKED) & ~(LOST | RETRANSMITTED), isOut: true });
          }
        } else if ("find" in c) {
          if (records.length === 0) continue;
          const seq = (records[0]!.seq + c.find) | 0;
          const found = records.findIndex((r) => ((r.end - seq) | 0) > 0);
          assertEquals(q.find(seq), found < 0 ? records.length : found);
        } else if ("trim" in c) {
          if (records.length === 0 || ((records[0]!.end - records[0]!.seq) | 0) <= c.trim) continue;
          const seq = (records[0]!.seq + c.trim) | 0;
          q.trimHead(seq);
          records[0]!.seq = seq;
        } else if ("split" in c) {
          const first = records.findIndex((r) => ((r.end - r.seq) | 0) > c.split);
          assertEquals(q.split(c.split), first < 0 ? records.length : first);
          model.split(c.split);
        } else if ("forget" in c) {
          for (const [i, r] of records.entries()) {
            r.flags &= ~c.forget;
            q.setFlags(i, r.flags);
          }
          q.relink();
          for (const r of records) r.isOut = !isInFlight(r.flags);
        } else if (c.clear === 0) {
          q.clear();
          model.records = [];
        }
        assertEquals(q.size, model.records.length);
        assertEquals(departures(q), model.departures());
        for (let i = 0; i < q.size; i++) {
          let after = i;
          while (after < q.size && (model.records[after]!.flags & SACKED) !== 0) after++;
          assertEquals(q.afterSacked(i), after);
        }
      }
      assertEquals(contents(q), model.records.map(({ isOut: _, ...r }) => r));
    }),
    { numRuns: 60 },
  );
});

Deno.test("retransmit queue: property: what remains of a run is known whatever is asked in between", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(199), fc.integer({ min: 1, max: 60 })), { maxLength: 60 }), (marks) => {
      const q = new RetransmitQueue();
      for (let i = 0; i < 200; i++) q.push(i * 10 - 1000, i * 10 - 990, i, RATE);
      const sacked = new Set<number>();
      for (const [from, n] of marks) {
        const to = Math.min(200, from + n);
        for (let i = from; i < to;) {
          if ((q.flags(i) & SACKED) !== 0) i = q.afterSacked(i);
          else q.setSacked(i++, q.end(to - 1));
        }
        for (let i = from; i < to; i++) sacked.add(i);
        let after = from;
        while (sacked.has(after)) after++;
        assertEquals(q.afterSacked(from), after);
      }
      assertEquals(
        Array.from({ length: 200 }, (_, i) => i).filter((i) => (q.flags(i) & SACKED) !== 0),
        [
          ...sacked,
        ].sort((a, b) => a - b),
      );
    }),
  );
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
  assertEquals([q.size, q.earliest()], [0, -1]);
});
