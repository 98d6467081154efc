import { assert, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { MILLISECOND } from "../../src/base/time.ts";
import { RetransmitQueue, SACKED } from "../../src/tcp/retransmit_queue.ts";
import { RecoveryState } from "../../src/tcp/state.ts";
import { Sender } from "../testing/tcp_sender.ts";
import { TcpTrace } from "../testing/tcp_trace.ts";

function sacked(s: Sender): number[] {
  const queue = s.t.retransmitQueue;
  return Array.from({ length: queue.size }, (_, i) => i).filter((i) => (queue.flags(i) & SACKED) !== 0);
}

for (const family of [4, 6] as const) {
  Deno.test(`sack IPv${family}: holes and nothing but holes are sent again, each once`, () => {
    const s = new Sender({ family });
    s.h.pass(100);
    s.ack(0, [[1, 2]]);
    s.ack(0, [[1, 3]]);
    assertEquals(s.sent(), []);
    // Of ten two are missing: 0 and 5. The third segment that arrives tells of the first.
    s.ack(0, [[1, 4]]);
    assertEquals(s.sent(), [0]);
    s.ack(0, [[1, 5]]);
    s.ack(0, [[6, 7], [1, 5]]);
    s.ack(0, [[6, 8], [1, 5]]);
    s.ack(0, [[6, 9], [1, 5]]);
    s.ack(0, [[6, 10], [1, 5]]);
    assertEquals(s.sent(), [5]);
    assertEquals([s.t.recovery, s.t.sackedSegments, s.t.inFlightBytes], [RecoveryState.Recovery, 8, 2000]);
    s.h.pass(100);
    s.ack(5, [[6, 10]]);
    s.ack(10);
    assertEquals([s.t.recovery, s.t.sackedBytes, s.t.inFlightBytes], [RecoveryState.Open, 0, 0]);
    assertEquals([s.t.counters.fastRetransmits, s.t.counters.timeouts, s.t.counters.recoveries], [2, 0, 1]);
    s.h.quietUntil(10_000);
    s.h.noLeak();
  });
}

Deno.test("sack: limited transmit: a new segment for each of the first two that arrive, none without news (RFC 3042)", () => {
  const s = new Sender({ further: 10 });
  s.h.pass(100);
  s.ack(0, [[1, 2]]);
  assertEquals(s.sent(), [10]);
  s.ack(0, [[1, 2]]);
  s.ack(0);
  s.ack(0, [[1, 2]]);
  assertEquals(s.sent(), []);
  s.ack(0, [[1, 3]]);
  assertEquals(s.sent(), [11]);
  s.ack(0, [[1, 4]]);
  assertEquals(s.sent(), [0]);
  assertEquals(s.windows[1], 5); // of the ten that the window let out, not of twelve
});

Deno.test("sack: blocks that cannot be true change nothing", () => {
  const s = new Sender();
  s.h.pass(100);
  const [una, nxt] = [s.nth(0), s.nth(10)];
  const bad: [number, number][] = [
    [s.nth(3), s.nth(3)], // empty
    [s.nth(4), s.nth(3)], // turned round
    [s.nth(8), nxt + 1], // beyond what was sent
    [nxt, nxt + 1000],
    [una, s.nth(3)], // begins with what is missing
    [nxt + 1_000_000, nxt + 1_001_000],
    [s.nth(2), s.nth(2) - 0x7fffffff], // more than half the numbers away
  ];
  for (const block of bad) {
    s.h.in({ flags: ".", seq: 1, ack: 1, sack: [block] });
    assertEquals([sacked(s), s.t.recovery, s.t.undoRetransmits], [[], RecoveryState.Open, -1], JSON.stringify(block));
  }
  // What is covered in part has not arrived.
  s.h.in({ flags: ".", seq: 1, ack: 1, sack: [[s.nth(2) + 1, s.nth(5) - 1]] });
  assertEquals(sacked(s), [3]);
  s.h.in({ flags: ".", seq: 1, ack: 1, sack: [[s.nth(6) + 1, s.nth(7) - 1]] });
  assertEquals(sacked(s), [3]);
  s.h.quiet();
});

Deno.test("sack: an acknowledgment that was overtaken still tells what arrived, but not that anything is a duplicate", () => {
  const s = new Sender();
  s.h.pass(100);
  s.ack(3);
  s.ack(1, [[5, 7]]);
  assertEquals([sacked(s), s.t.sackedSegments, s.t.sndUna], [[2, 3], 2, (s.nth(3) - 5) | 0]);
  assertEquals(s.t.counters.dupAcksIn, 0);
});

Deno.test("sack: a cumulative acknowledgment within a segment that had arrived", () => {
  const s = new Sender();
  s.h.pass(100);
  s.ack(0, [[1, 3]]);
  s.h.in({ flags: ".", seq: 1, ack: s.nth(2) + 500, sack: [[s.nth(4), s.nth(5)]] });
  assertEquals([s.t.sackedBytes, s.t.sackedSegments], [1500, 2]);
});

Deno.test("sack: without the option blocks are nothing", () => {
  const s = new Sender({ sack: false });
  s.h.pass(100);
  for (let i = 0; i < 3; i++) s.h.in({ flags: ".", seq: 1, ack: 1, win: 1000 + i, sack: [[s.nth(1), s.nth(9)]] });
  assertEquals([sacked(s), s.t.dupAcks, s.sent()], [[], 0, []]);
});

Deno.test("sack: property: what counts as arrived is what some believable block has covered whole", () => {
  const edge = fc.integer({ min: -3, max: 33 });
  const step = fc.record({
    acked: fc.nat(3),
    blocks: fc.array(fc.tuple(edge, edge, fc.constantFrom(0, 0, 0, -1, 1)), { maxLength: 4 }),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      const s = new Sender({ segments: 30, tcp: { congestion: "none", retries: 100 } });
      const arrived = new Set<number>();
      let una = 0;
      for (const { acked, blocks } of steps) {
        // A receiver that keeps what it has: the acknowledgment goes up to the next hole.
        una = Math.min(30, una + acked);
        while (arrived.has(una)) una++;
        const sack = blocks.map(([l, r, off]): [number, number] => [s.nth(l) + off, s.nth(r)]);
        const [first, second] = sack;
        const isDsack = first !== undefined && (first[0] < s.nth(una) ||
          (second !== undefined && first[0] >= second[0] && first[1] <= second[1]));
        s.h.in({ flags: ".", seq: 1, ack: s.nth(una), sack });
        for (const [i, [left, right]] of sack.entries()) {
          if ((i === 0 && isDsack) || left <= s.nth(una) || left >= right || right > s.nth(30)) continue;
          for (let n = 0; n < 30; n++) if (left <= s.nth(n) && s.nth(n + 1) <= right) arrived.add(n);
        }
        assertEquals(sacked(s).map((i) => i + una), [...arrived].filter((n) => n >= una).sort((a, b) => a - b));
      }
    }),
    { numRuns: 150 },
  );
});

/** Reads of the retransmit queue during `work`. */
function reads(work: () => void): number {
  let n = 0;
  const prototype = RetransmitQueue.prototype;
  const kept = new Map<string, PropertyDescriptor>();
  for (const name of ["flags", "end", "seq", "departAt", "order"]) {
    const descriptor = Object.getOwnPropertyDescriptor(prototype, name)!;
    kept.set(name, descriptor);
    const method = descriptor.value as (this: RetransmitQueue, i: number) => number;
    Object.defineProperty(prototype, name, {
      ...descriptor,
      value(this: RetransmitQueue, i: number): number {
        n++;
        return method.call(this, i);
      },
    });
  }
  try {
    work();
  } finally {
    for (const [name, descriptor] of kept) Object.defineProperty(prototype, name, descriptor);
  }
  return n;
}

/** 30,000 tiny segments in flight. */
function hugeFlight(): [TcpTrace, (ack: number, blocks: [number, number][]) => number] {
  const h = new TcpTrace({ congestion: "none", sendBufferBytes: 4 << 20 });
  const t = h.established({ mss: 48, wscale: 7, sackOk: true }, 100);
  h.write(t, 30_000 * 48);
  assertEquals(h.all().length, 30_000);
  h.now += 100 * MILLISECOND;
  const nth = (n: number) => 1 + 48 * n;
  /** Feeds an acknowledgment, and returns how often it and what follows from it look at segments. */
  const feed = (ack: number, blocks: [number, number][]) =>
    reads(() => {
      h.in({ flags: ".", seq: 1, ack: nth(ack), sack: blocks.map(([l, r]) => [nth(l), nth(r)]) }, false);
      for (let turn = 0; turn < 3; turn++) h.tcp.timeout(h.now);
    });
  return [h, feed];
}

Deno.test("sack: hostile blocks over 30,000 segments: each costs its news, in whatever order they come", () => {
  const [, feed] = hugeFlight();
  feed(0, [[2, 29_999]]);
  let worst = 0;
  for (let i = 0; i < 50; i++) {
    // The same again, in pieces that no other acknowledgment had, none remembered by the one before.
    const at = 3 + 11 * i;
    worst = Math.max(worst, feed(0, [[at, 20_000 + i], [at + 1, 25_000], [3, 29_000 - i], [2, 29_999]]));
    worst = Math.max(worst, feed(0, [[at + 2, at + 3]]));
    worst = Math.max(worst, feed(0, []));
  }
  assert(worst < 600, `${worst} looks at segments for one acknowledgment`);
});

Deno.test("sack: hostile blocks over 30,000 segments: every second one, then all again", () => {
  const [, feed] = hugeFlight();
  let worst = 0;
  for (let i = 1; i < 400; i += 2) worst = Math.max(worst, feed(0, [[29_999 - i, 30_000 - i]]));
  // Nothing is overdue yet for the first two; from the third on all before is lost, once.
  assert(worst < 30_000 * 12, `${worst}`);
  feed(0, [[20_000, 30_000]]);
  worst = 0;
  for (let i = 0; i < 100; i++) worst = Math.max(worst, feed(0, [[20_000 + i, 30_000], [21_000, 29_000 + i]]));
  assert(worst < 600, `${worst} looks at segments for one acknowledgment`);
});

Deno.test("sack: hostile blocks over 30,000 segments: two thousand told of one by one, then all again and again", () => {
  const [, feed] = hugeFlight();
  for (let i = 1; i <= 2000; i++) feed(0, [[i, i + 1]]);
  feed(0, [[1, 2001]]);
  let worst = 0;
  for (let i = 0; i < 50; i++) worst = Math.max(worst, feed(0, [[1, 2001 + i], [2, 1900 + i]]));
  assert(worst < 600, `${worst} looks at segments for one acknowledgment`);
});

Deno.test("sack: hostile reordering over 30,000 segments: what is not overdue is not looked at again and again", () => {
  const [h, feed] = hugeFlight();
  // Reordering is seen, so that the window stays open.
  feed(0, [[29_000, 29_001]]);
  feed(0, [[1, 2]]);
  const t = [...h.tcp.connections()][0]!;
  assert(t.rack.reorderingSeen);
  let worst = 0;
  for (let i = 0; i < 200; i++) {
    h.now += 1000;
    worst = Math.max(worst, feed(0, [[29_002 + 2 * i, 29_003 + 2 * i]]));
  }
  assertEquals(t.lostBytes, 0);
  assert(worst < 1000, `${worst} looks at segments for one acknowledgment`);
});

Deno.test("sack: the receiver says what came last first, then what came before it, at most three beside timestamps", () => {
  for (const [timestamps, most] of [[false, 4], [true, 3]] as const) {
    const h = new TcpTrace();
    h.established({ mss: 1000, sackOk: true, ...(timestamps ? { ts: true } : {}) });
    const ranges: [number, number][] = [];
    for (let i = 1; i <= 5; i++) {
      const range: [number, number] = [1 + 2000 * i, 1001 + 2000 * i];
      h.in({ flags: ".", seq: range[0], ack: 1, len: 1000 });
      ranges.unshift(range);
      h.out({ flags: ".", ack: 1, sack: ranges.slice(0, most) });
    }
    // A duplicate within a range goes first, once, followed by its range (RFC 2883 section 4).
    h.in({ flags: ".", seq: 4201, ack: 1, len: 100 });
    const { sack } = h.out({ flags: ".", ack: 1 });
    assertEquals(sack![0], [4201, 4301]);
    h.in({ flags: ".", seq: 1, ack: 1, len: 1000 });
    h.in({ flags: ".", seq: 1001, ack: 1, len: 1000 });
    assertEquals(h.all().map((s) => [s.ack, s.sack!.length]), [[1001, most], [3001, most]]);
    // One that was acknowledged already.
    h.in({ flags: ".", seq: 501, ack: 1, len: 300 });
    assertEquals(h.out({ flags: ".", ack: 3001 }).sack![0], [501, 801]);
  }
});

Deno.test("reneging: a receiver that drops what it had gets everything again, soon and not at once (RFC 2018 8)", () => {
  const s = new Sender({ further: 0 });
  s.h.pass(100);
  s.ack(0, [[1, 6]]);
  s.ack(0, [[1, 8]]);
  s.sent();
  // The head arrives, but of what was there nothing is acknowledged: half a round-trip time to think again.
  s.h.pass(100);
  s.ack(1, []);
  assertEquals(s.sent(), []);
  assertEquals(s.t.sackedSegments, 7);
  const srtt = s.t.rtt.srtt / MILLISECOND;
  s.h.until(300 + srtt / 2 - 0.001);
  s.h.quiet();
  s.h.until(300 + srtt / 2);
  assertEquals(s.sent(), [1]);
  assertEquals([s.t.sackedSegments, s.t.recovery], [0, RecoveryState.Loss]);
  for (let acked = 2; acked <= 10; acked++) {
    s.h.pass(100);
    s.ack(acked);
  }
  assertEquals(s.sent().sort((a, b) => a - b), [2, 3, 4, 5, 6, 7, 8, 9]);
  assertEquals([s.t.inFlightBytes, s.t.recovery], [0, RecoveryState.Open]);
  s.h.quietUntil(60_000);
});

Deno.test("reneging: not if the acknowledgment only came too early", () => {
  const s = new Sender();
  s.h.pass(100);
  s.ack(0, [[1, 8]]);
  s.sent();
  s.h.pass(100);
  s.ack(1, []);
  s.h.pass(20);
  s.ack(8);
  assertEquals([s.t.sackedSegments, s.sent()], [0, [8, 9]]); // older than what was sent again and has arrived
  s.ack(10);
  s.h.quietUntil(60_000);
  assertEquals(s.t.counters.timeouts, 0);
});

Deno.test("dsack: what was never sent again was duplicated by the network", () => {
  const s = new Sender({ further: 10 });
  s.h.pass(100);
  s.h.in({ flags: ".", seq: 1, ack: s.nth(2), sack: [[s.nth(1), s.nth(2)]] });
  s.h.in({ flags: ".", seq: 1, ack: s.nth(2), sack: [[s.nth(4), s.nth(5)], [s.nth(4), s.nth(7)]] });
  assertEquals([s.t.dsackSegments, s.t.rack.reoWndMult, s.t.counters.undos], [0, 1, 0]);
  assertEquals(s.t.sackedSegments, 3); // the second block holds although the first is in it
});
