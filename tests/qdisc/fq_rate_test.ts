/**
 * Rates of the fair queue: gaps between the packets of a flow, what becomes of lateness, and the total rate.
 *
 * @module
 */

import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import fc from "fast-check";
import { type Instant, MILLISECOND, NEVER, SECOND } from "../../src/base/time.ts";
import type { FqOptions } from "../../src/qdisc/fq.ts";
import { FqBench } from "./fq_bench.ts";

const FULL = 1514;

/** A packet that left. */
interface Departure {
  at: Instant;
  flow: number;
  length: number;
}

/** Pulls whenever something may leave, each time `late()` ns after that, until nothing is held or `until` has come. */
function drive(b: FqBench, from: Instant, late: () => number = () => 0, until: Instant = NEVER): Departure[] {
  const sent: Departure[] = [];
  for (let now = from; now <= until;) {
    for (let p = b.fq.pull(now); p !== null; p = b.fq.pull(now)) {
      sent.push({ at: now, flow: p.flow, length: p.length });
      b.pool.release(p);
    }
    if (b.fq.nextAt() === NEVER) break;
    assert(b.fq.nextAt() > now);
    now = b.fq.nextAt() + late();
  }
  return sent;
}

Deno.test("fq: ten full packets pass unpaced, the eleventh waits for a quantum's time, then two by two", () => {
  const b = new FqBench();
  b.fq.setFlowRate(2, 3_028_000);
  for (let i = 0; i < 16; i++) b.push(SECOND, 2, FULL);
  assertEquals(b.fq.stats()["fastpath_packets"], 0);
  const times = drive(b, SECOND).map(({ at }) => (at - SECOND) / MILLISECOND);
  assertEquals(times, [...Array(10).fill(0), 1, 1, 2, 2, 3, 3]);
  // To the byte: 15,140 of them go before the first gap.
  for (const [length, count] of [[1514, 10], [1513, 11], [152, 100], [151, 101]] as const) {
    const b = new FqBench({ flowLimit: 200 });
    b.fq.setFlowRate(2, 3_028_000);
    for (let i = 0; i < 120; i++) b.push(SECOND, 2, length);
    assertEquals(b.flows(SECOND, 120).indexOf(null), count);
  }
});

Deno.test("fq: after a packet longer than a quantum the gap is that packet's", () => {
  const b = new FqBench({ quantum: 500, initialQuantum: 500, lowRateThresholdBytesPerSec: 1 });
  b.fq.setFlowRate(2, 1_000_000);
  for (const length of [1000, 400, 400, 20]) b.push(0, 2, length);
  // 1,000 bytes cost two quanta; the next 400 leave a credit of 100, with which another 400 go; then 500 count.
  assertEquals(drive(b, 0).map(({ at }) => at / MILLISECOND), [0, 1, 1, 1.5]);
});

Deno.test("fq: a timer that is late shortens the next gap by that, at most by half of it", () => {
  for (const [late, gap] of [[0, 10], [4, 6], [5, 5], [30, 5]] as const) {
    const b = new FqBench({ initialQuantum: 1514, quantum: 1514 });
    b.fq.setFlowRate(2, 151_400); // 10 ms a packet
    for (let i = 0; i < 3; i++) b.push(SECOND, 2, FULL);
    assertEquals(b.flows(SECOND, 2), [2, null]);
    assertEquals(b.fq.nextAt(), SECOND + 10 * MILLISECOND);
    const now = b.fq.nextAt() + late * MILLISECOND;
    assertEquals(b.flows(now, 2), [2, null]);
    assertEquals(b.fq.nextAt(), now + gap * MILLISECOND);
  }
});

Deno.test("fq: lateness never wins back more than half a gap a packet, and no rate is lost while it is less", () => {
  const lateness = fc.array(fc.integer({ min: 0, max: 40 * MILLISECOND }), { minLength: 5, maxLength: 60 });
  const paced = fc.record({
    rate: fc.integer({ min: 20_000, max: 3_000_000 }),
    length: fc.integer({ min: 60, max: 1500 }),
    overheadBytes: fc.integer({ min: 0, max: 100 }),
    isStamped: fc.boolean(),
    isLow: fc.boolean(),
  });
  fc.assert(fc.property(paced, lateness, ({ rate, length, overheadBytes, isStamped, isLow }, late) => {
    const quantum = length + overheadBytes; // a packet a turn
    const lowRateThresholdBytesPerSec = isLow ? 1e9 : 1;
    const b = new FqBench({
      ...{ quantum, initialQuantum: quantum, overheadBytes, lowRateThresholdBytesPerSec },
      ...(isStamped ? { maxrateBytesPerSec: rate } : {}),
    });
    if (!isStamped) b.fq.setFlowRate(2, rate);
    for (let i = 0; i <= late.length; i++) b.push(SECOND, 2, length, isStamped ? SECOND : 0);
    const gap = Math.ceil(quantum * SECOND / rate);
    assertEquals(b.flows(SECOND, 2), [2, null]);
    let deficit = 0;
    for (const [i, lateBy] of late.entries()) {
      const dueAt = b.fq.nextAt();
      assertEquals(b.pull(dueAt - 1), null);
      const now = dueAt + lateBy;
      assertEquals(b.flows(now, 2), [2, null]);
      if (i === late.length - 1) break;
      const next = b.fq.nextAt() - now;
      assert(next >= Math.ceil(gap / 2) && next <= gap, `${next} of ${gap}`);
      deficit += Math.max(0, lateBy - Math.floor(gap / 2));
      // All lateness up to half a gap was made up for.
      assertEquals(b.fq.nextAt(), SECOND + (i + 2) * gap + deficit);
    }
  }));
});

Deno.test("fq: up to the low rate threshold packets are spaced one by one, above it quantum by quantum", () => {
  for (const [rate, times] of [[68_750, [0, 22, 44, 66]], [68_751, [0, 0, 44, 44]]] as const) {
    const b = new FqBench({ initialQuantum: 3028 });
    b.fq.setFlowRate(2, rate);
    for (let i = 0; i < 4; i++) b.push(SECOND, 2, FULL);
    assertEquals(drive(b, SECOND).map(({ at }) => Math.floor((at - SECOND) / MILLISECOND)), [...times]);
  }
});

Deno.test("fq: a rate holds flows without a stamp only; what TCP stamped leaves at its stamps", () => {
  const b = new FqBench();
  b.fq.setFlowRate(2, 100_000);
  for (let i = 0; i < 20; i++) b.push(SECOND, 2, FULL, SECOND + i * 1000);
  assertEquals(drive(b, SECOND).map(({ at }) => at), Array.from({ length: 20 }, (_, i) => SECOND + i * 1000));
  // A hash never has a rate.
  for (let i = 0; i < 20; i++) b.push(2 * SECOND, 3, FULL);
  assertEquals(b.flows(2 * SECOND, 20), Array(20).fill(3));
});

Deno.test("fq: a stamped packet does not pass those of its own flow that a rate holds", () => {
  const b = new FqBench({ initialQuantum: 1500, quantum: 1500 });
  b.fq.setFlowRate(2, 150_000);
  for (const length of [1500, 1501]) b.push(SECOND, 2, length);
  assertEquals(b.flows(SECOND, 2), [2, null]);
  // The second waits for its gap; this one is due, and the fast path would be free.
  b.push(SECOND + 5, 2, 1502, SECOND + 5);
  b.push(SECOND + 5, 4, 40, SECOND + 5);
  assertEquals(drive(b, SECOND + 5).map(({ length }) => length), [40, 1501, 1502]);
});

Deno.test("fq: however high the low rate threshold is, flows without a rate share by bytes", () => {
  const b = new FqBench({ lowRateThresholdBytesPerSec: Infinity, quantum: 1500, initialQuantum: 1500 });
  b.fq.setFlowRate(8, 1e6); // So that there is a rate at all.
  const bytes = [0, 0];
  b.inLine(SECOND, () => {
    for (let i = 0; i < 100; i++) b.push(SECOND, 2, 150);
    for (let i = 0; i < 20; i++) b.push(SECOND, 4, 1500);
  });
  for (let i = 0; i < 55; i++) {
    const p = b.fq.pull(SECOND)!;
    bytes[p.flow / 2 - 1]! += p.length;
    b.pool.release(p);
  }
  assert(Math.abs(bytes[0]! - bytes[1]!) <= 3000, `${bytes}`);
});

Deno.test("fq: the maximum rate holds every flow, stamped or not", () => {
  const rate = 1_514_000;
  const stamped = new FqBench({ maxrateBytesPerSec: rate });
  for (let i = 0; i < 6; i++) stamped.push(SECOND, 2, FULL, SECOND);
  assertEquals(drive(stamped, SECOND).map(({ at }) => (at - SECOND) / MILLISECOND), [0, 1, 2, 3, 4, 5]);
  // A stamp later than the rate allows counts from there.
  for (const at of [0, 0.5, 5, 5.2]) stamped.push(2 * SECOND, 4, FULL, 2 * SECOND + at * MILLISECOND);
  assertEquals(drive(stamped, 2 * SECOND).map(({ at }) => (at - 2 * SECOND) / MILLISECOND), [0, 1, 5, 6]);
  const plain = new FqBench({ maxrateBytesPerSec: rate });
  plain.fq.setFlowRate(2, 2 * rate); // the lower of the two counts
  for (const flow of [2, 3]) for (let i = 0; i < 14; i++) plain.push(SECOND, flow, FULL);
  for (const flow of [2, 3]) {
    assertEquals(plain.fq.flowBacklog(flow), 14 * FULL);
  }
  const sent = drive(plain, SECOND);
  for (const flow of [2, 3]) {
    const times = sent.filter((p) => p.flow === flow).map(({ at }) => (at - SECOND) / MILLISECOND);
    assertEquals(times, [...Array(10).fill(0), 2, 2, 4, 4]);
  }
});

Deno.test("fq: no flow exceeds the maximum rate, whatever its packets and however late the timer", () => {
  const packets = fc.array(
    fc.record({
      flow: fc.constantFrom(2, 3),
      length: fc.integer({ min: 20, max: 1500 }),
      ahead: fc.oneof(fc.constant(NEVER), fc.integer({ min: 0, max: 50 }).map((ms) => ms * MILLISECOND)),
    }),
    { minLength: 20, maxLength: 90 },
  );
  const rates = fc.integer({ min: 100_000, max: 5_000_000 });
  fc.assert(
    fc.property(
      packets,
      rates,
      fc.array(fc.integer({ min: 0, max: 3000 }), { minLength: 200 }),
      (packets, rate, late) => {
        const b = new FqBench({ maxrateBytesPerSec: rate });
        for (const { flow, length, ahead } of packets) {
          b.push(SECOND, flow, length, ahead === NEVER ? 0 : SECOND + ahead);
        }
        let wakes = 0;
        const sent = drive(b, SECOND, () => late[wakes++ % late.length]! * 1000);
        assertEquals(sent.length, packets.length);
        for (const flow of [2, 3]) {
          const own = sent.filter((p) => p.flow === flow);
          const total = own.reduce((sum, p) => sum + p.length, 0);
          // The first turn is free; lateness can win back a gap of a quantum at most over the whole time.
          const allowed = 15_140 + 1500 + 2 * 3028 + rate * ((own.at(-1)?.at ?? SECOND) - SECOND) / SECOND;
          assert(total <= allowed, `${total} bytes where ${allowed} are allowed`);
        }
      },
    ),
  );
});

Deno.test("fq: a gap is cut to a second, and counted", () => {
  const b = new FqBench({ initialQuantum: 1 });
  b.fq.setFlowRate(2, 100);
  for (let i = 0; i < 3; i++) b.push(0, 2, 1000);
  assertEquals(drive(b, 0).map(({ at }) => at / SECOND), [0, 1, 2]);
  assertEquals(b.fq.stats()["pkts_too_long"], 3);
  const just = new FqBench({ initialQuantum: 1 });
  just.fq.setFlowRate(2, 1000);
  for (const length of [1000, 1001]) just.push(0, 2, length);
  assertEquals(just.flows(0, 2), [2, null]);
  assertEquals([just.fq.nextAt(), just.fq.stats()["pkts_too_long"]], [SECOND, 0]);
});

Deno.test("fq: without pacing rates of flows do not count, departure times do", () => {
  const b = new FqBench({ pacing: false, maxrateBytesPerSec: 1000 });
  b.fq.setFlowRate(2, 1000);
  for (let i = 0; i < 20; i++) b.push(0, 2, 1000, i < 10 ? 0 : 500);
  assertEquals(drive(b, 0).map(({ at }) => at), [...Array(10).fill(0), ...Array(10).fill(500)]);
});

Deno.test("fq: a rate can be changed, is kept while the flow is forgotten, and ends with the connection", () => {
  const b = new FqBench({ initialQuantum: 1500, quantum: 1500 });
  b.fq.setFlowRate(2, 1_500_000);
  const start = 10 * SECOND;
  for (let round = 0; round < 2; round++) {
    const now = start + round * 10 * SECOND; // long enough to be collected when another flow is made
    b.push(now, 4 + 2 * round, 100, now + 1);
    for (let i = 0; i < 3; i++) b.push(now, 2, 1500);
    assertEquals(drive(b, now).filter((p) => p.flow === 2).map(({ at }) => (at - now) / MILLISECOND), [0, 1, 2]);
  }
  assert(b.fq.stats()["gc_flows"]! > 0);
  const now = 50 * SECOND;
  b.fq.setFlowRate(2, 150_000);
  for (let i = 0; i < 4; i++) b.push(now, 2, 1500);
  assertEquals(b.flows(now, 2), [2, null]);
  assertEquals(b.fq.nextAt(), now + 5 * MILLISECOND); // half a gap: the pause counts as lateness
  // No rate any more: what waits only for it is due, and nothing of the flow gets ahead of it.
  const young = () => b.push(now + 5, 2, 33);
  b.fq.setFlowRate(2, Infinity);
  young();
  assert(b.fq.nextAt() <= now + 5);
  assertEquals(drive(b, now + 5).map(({ length }) => length), [1500, 1500, 1500, 33]);
  // A new connection of that number begins with all its credit.
  b.fq.setFlowRate(2, 150_000);
  for (let i = 0; i < 4; i++) b.push(now + 5, 2, 1500);
  assertEquals(b.flows(now + 5, 2), [2, null]);
  b.fq.resetFlow(2);
  assertEquals(b.flows(now + 6, 4), [2, 2, 2, null]);
});

Deno.test("fq: the total rate is kept exactly by a timer that is not late, and shared by all flows", () => {
  const b = new FqBench({ rateBytesPerSec: 1_000_000, overheadBytes: 50 });
  for (let i = 0; i < 30; i++) for (const flow of [2, 4, 5]) b.push(SECOND, flow, 950);
  assertEquals(b.fq.stats()["fastpath_packets"], 0);
  const sent = drive(b, SECOND);
  assertEquals(sent.map(({ at }) => at - SECOND), Array.from({ length: 90 }, (_, i) => i * MILLISECOND));
  assert(b.fq.stats()["overlimits"]! > 0);
  // The line is busy with the last packet for its time, also for whoever comes later.
  b.push(SECOND + 89.5 * MILLISECOND, 7, 10);
  assertEquals(drive(b, SECOND + 89.5 * MILLISECOND).map(({ at }) => at), [SECOND + 90 * MILLISECOND]);
  const { overlimits } = b.fq.stats();
  assertEquals([b.pull(SECOND + 90 * MILLISECOND), b.fq.stats()["overlimits"]], [null, overlimits]); // empty: no fault of the rate
  // After a pause it is free at once: a pause earns nothing.
  for (let i = 0; i < 3; i++) b.push(3 * SECOND, 2, 950);
  assertEquals(drive(b, 3 * SECOND).map(({ at }) => (at - 3 * SECOND) / MILLISECOND), [0, 1, 2]);
});

Deno.test("fq: behind the total rate a sparse flow waits for one packet only, not for the bulk of others", () => {
  const b = new FqBench({ rateBytesPerSec: 1_000_000 });
  for (let i = 0; i < 60; i++) for (const flow of [2, 4]) b.push(0, flow, 1000);
  drive(b, 0, () => 0, 50 * MILLISECOND);
  const now = 50.3 * MILLISECOND;
  b.push(now, 9, 100);
  assertEquals(drive(b, now)[0], { at: 51 * MILLISECOND, flow: 9, length: 100 });
});

Deno.test("fq: the total rate is neither exceeded nor lost by timers that are late by up to 5 ms", () => {
  const lateness = fc.array(fc.integer({ min: 0, max: 5_000_000 }), { minLength: 30, maxLength: 60 });
  fc.assert(fc.property(lateness, fc.integer({ min: 20_000, max: 100_000_000 }), (late, rate) => {
    const b = new FqBench({ rateBytesPerSec: rate });
    const lengths = Array.from({ length: 200 }, (_, i) => 40 + (i * 769) % 1460);
    lengths.forEach((length, i) => b.push(SECOND, 2 * (i % 5) + 2, length));
    let wakes = 0;
    const sent = drive(b, SECOND, () => late[wakes++ % late.length]!);
    assertEquals(sent.length, lengths.length);
    // Not exceeded: in no interval more than the rate, 5 ms of it, and the packet at its beginning.
    for (let i = 0; i < sent.length; i += 7) {
      let bytes = 0;
      for (let j = i; j < sent.length; j++) {
        bytes += sent[j]!.length;
        const time = sent[j]!.at - sent[i]!.at + 5 * MILLISECOND;
        assert(bytes <= rate * time / SECOND + 1500, `${bytes} bytes in ${time} ns at ${rate}`);
      }
    }
    // Not lost: the last one leaves within 5 ms of when it would have without lateness.
    const ideal = SECOND + sent.slice(0, -1).reduce((sum, p) => sum + Math.ceil(p.length * (1e9 / rate)), 0);
    const last = sent.at(-1)!.at;
    assert(last >= ideal && last <= ideal + 5 * MILLISECOND, `${last - ideal} ns late`);
  }));
});

Deno.test("fq: of a long stall the total rate makes up for 5 ms and no more", () => {
  const b = new FqBench({ rateBytesPerSec: 1_000_000 });
  for (let i = 0; i < 90; i++) b.push(0, 2, 1000);
  assertEquals(b.flows(0, 2), [2, null]);
  const sent = drive(b, SECOND);
  assertEquals(sent.filter(({ at }) => at === SECOND).length, 6);
  assertEquals(sent.at(-1)!.at, SECOND + 83 * MILLISECOND);
});

Deno.test("fq: what a flow's own rate held counts against the total rate from when that let it go", () => {
  const b = new FqBench({ rateBytesPerSec: 1_000_000, initialQuantum: 1000, quantum: 1000 });
  b.fq.setFlowRate(2, 100_000);
  for (let i = 0; i < 2; i++) b.push(SECOND, 2, 1000);
  assertEquals(b.flows(SECOND, 2), [2, null]);
  // The second packet may leave at 10 ms; 3 ms late, the line has been free again since 11 ms.
  for (let i = 0; i < 4; i++) b.push(SECOND + 13 * MILLISECOND, 4, 1000);
  const sent = drive(b, SECOND + 13 * MILLISECOND);
  assertEquals(sent.map(({ at, flow }) => [(at - SECOND) / MILLISECOND, flow]), [[13, 4], [14, 2], [15, 4], [16, 4], [
    17,
    4,
  ]]);
  const late = new FqBench({ rateBytesPerSec: 1_000_000, initialQuantum: 1000, quantum: 1000 });
  late.fq.setFlowRate(2, 100_000);
  for (let i = 0; i < 2; i++) late.push(SECOND, 2, 1000);
  assertEquals(late.flows(SECOND, 2), [2, null]);
  assertEquals(late.flows(SECOND + 13 * MILLISECOND, 1), [2]);
  late.push(SECOND + 13 * MILLISECOND, 4, 1000);
  assertEquals(late.fq.nextAt(), SECOND + 11 * MILLISECOND);
});

Deno.test("fq: departure times hold under a total rate too", () => {
  const options: FqOptions = { rateBytesPerSec: 1_000_000 };
  fc.assert(fc.property(
    fc.array(fc.record({ flow: fc.integer({ min: 1, max: 9 }), at: fc.integer({ min: 1, max: 50 }) }), {
      minLength: 1,
      maxLength: 60,
    }),
    (stamps) => {
      const b = new FqBench(options);
      const expected: number[] = [];
      let freeAt = 0;
      for (const at of stamps.map((s) => s.at).sort((x, y) => x - y)) {
        freeAt = Math.max(freeAt, at * MILLISECOND) + MILLISECOND;
        expected.push(freeAt - MILLISECOND);
      }
      for (const { flow, at } of stamps) b.push(0, flow, 1000, at * MILLISECOND);
      assertEquals(drive(b, 0).map(({ at }) => at), expected);
    },
  ));
});

Deno.test("fq: eight flows at 3 MB/s each, timers late by up to half a gap: each gets its rate", () => {
  const b = new FqBench({ flowLimit: 2000 });
  for (let flow = 2; flow <= 16; flow += 2) b.fq.setFlowRate(flow, 3_000_000);
  for (let i = 0; i < 1000; i++) for (let flow = 2; flow <= 16; flow += 2) b.push(SECOND, flow, 1500);
  let x = 1;
  const sent = drive(b, SECOND, () => (x = (x * 48_271) % 2_147_483_647) % 400_000);
  for (let flow = 2; flow <= 16; flow += 2) {
    const own = sent.filter((p) => p.flow === flow).slice(20);
    const seconds = (own.at(-1)!.at - own[0]!.at) / SECOND;
    // Two or three packets leave at a time, a quantum of 3,028 bytes on average.
    assertAlmostEquals(own.length * 1500 / seconds / 3_000_000, 1, 0.002);
  }
});
