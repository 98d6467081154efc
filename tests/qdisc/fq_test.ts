/**
 * The fair queue: against a slow model, and each of its promises by itself.
 *
 * @module
 */

import { assert, assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { DropReason } from "../../src/base/drop.ts";
import type { Packet } from "../../src/base/packet.ts";
import { MILLISECOND, NEVER, SECOND } from "../../src/base/time.ts";
import { Fq, type FqOptions } from "../../src/qdisc/fq.ts";
import { StageBench } from "../testing/stage_bench.ts";
import { SlowFq, type SlowOptions } from "./slow_fq.ts";

interface Step {
  kind: "push" | "pull" | "wait";
  flow: number;
  length: number;
  /** Departure relative to now; 0 for no stamp. */
  ahead: number;
  wait: number;
}

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.record({
    kind: fc.constantFrom("push" as const, "push" as const, "pull" as const, "wait" as const),
    flow: fc.constantFrom(2, 4, 6, 7, 9, 11, 13),
    length: fc.integer({ min: 1, max: 1500 }),
    ahead: fc.oneof(fc.constant(0), fc.integer({ min: -5, max: 30 }).map((ms) => ms * MILLISECOND)),
    wait: fc.integer({ min: 0, max: 20 }).map((ms) => ms * MILLISECOND),
  }),
  { maxLength: 120 },
);

const options: fc.Arbitrary<SlowOptions> = fc.record({
  limit: fc.integer({ min: 1, max: 40 }),
  flowLimit: fc.integer({ min: 1, max: 12 }),
  quantum: fc.integer({ min: 100, max: 4000 }),
  initialQuantum: fc.integer({ min: 0, max: 6000 }),
  horizon: fc.integer({ min: 5, max: 40 }).map((ms) => ms * MILLISECOND),
  horizonDrop: fc.boolean(),
  refillDelay: fc.constant(10 * MILLISECOND),
});

Deno.test("fq: decides packet by packet as the slow model does", () => {
  fc.assert(
    fc.property(options, steps, (o, run) => {
      const bench = new StageBench();
      const fq = new Fq(o, bench);
      const slow = new SlowFq(o);
      const numbers = new Map<Packet, number>();
      const counts = { pushed: 0, refused: 0, pulled: 0 };
      let now = SECOND;
      for (const s of run) {
        if (s.kind === "wait") now += s.wait;
        if (s.kind === "push") {
          const departAt = s.ahead === 0 ? 0 : now + s.ahead;
          const p = bench.packet(s.flow, s.length, departAt);
          const reason = fq.push(p, now);
          assertEquals(reason, slow.push(counts.pushed, s.flow, s.length, departAt, now));
          numbers.set(p, counts.pushed++);
          if (reason !== DropReason.None) {
            counts.refused++;
            bench.pool.release(p);
          }
        }
        if (s.kind === "pull") {
          const p = fq.pull(now);
          const expected = slow.pull(now);
          assertEquals(p === null ? null : numbers.get(p), expected === null ? null : expected.n);
          if (p === null) {
            assert(fq.nextAt() > now, "nothing left, yet a pull is said to be useful");
          } else {
            assert(p.departAt <= now || !o.horizonDrop, "left before its stamp");
            counts.pulled++;
            bench.pool.release(p);
          }
        }
        assertEquals(fq.backlogPackets, slow.packets);
        assertEquals(counts.pushed, counts.refused + counts.pulled + fq.backlogPackets);
        for (const [flow, f] of slow.flows) {
          assertEquals(fq.flowBacklog(flow), f.queue.reduce((sum, p) => sum + p.length, 0));
        }
      }
      fq.close(now);
      assertEquals([bench.pool.inUse, fq.backlogPackets, fq.backlogBytes, fq.nextAt()], [0, 0, 0, NEVER]);
    }),
    { numRuns: 300 },
  );
});

Deno.test("fq: a driver that sleeps until nextAt sends every packet exactly at its stamp, in order", () => {
  fc.assert(fc.property(
    fc.array(fc.record({ flow: fc.integer({ min: 1, max: 9 }), at: fc.integer({ min: 1, max: 500 }) }), {
      maxLength: 80,
    }),
    (stamps) => {
      const bench = new StageBench();
      const fq = new Fq({}, bench);
      for (const { flow, at } of stamps) fq.push(bench.packet(flow, 200, at), 0);
      const sent: number[] = [];
      let now = 0;
      for (;;) {
        for (let p = fq.pull(now); p !== null; p = fq.pull(now)) {
          assertEquals(p.departAt, now);
          sent.push(now);
        }
        const next = fq.nextAt();
        if (next === NEVER) break;
        assert(next > now);
        now = next;
      }
      assertEquals(sent, stamps.map((s) => s.at).sort((a, b) => a - b));
    },
  ));
});

Deno.test("fq: bytes of busy flows differ by at most a quantum and a packet, at every moment", () => {
  const lengths = fc.array(fc.integer({ min: 40, max: 1500 }), { minLength: 5, maxLength: 5 });
  fc.assert(
    fc.property(lengths, fc.integer({ min: 300, max: 4000 }), (lengths, quantum) => {
      const bench = new StageBench();
      const fq = new Fq({ quantum, initialQuantum: quantum }, bench);
      const refill = (i: number) => {
        while (fq.flowBacklog(2 * i + 2) < 20_000 && fq.push(bench.packet(2 * i + 2, lengths[i]!), 0) === 0);
      };
      const sent = lengths.map(() => 0);
      lengths.forEach((_, i) => refill(i));
      for (let n = 0; n < 600; n++) {
        const p = fq.pull(0)!;
        const i = (p.flow - 2) / 2;
        sent[i]! += p.length;
        bench.pool.release(p);
        refill(i);
        const spread = Math.max(...sent) - Math.min(...sent);
        assert(spread <= quantum + Math.max(...lengths), `spread of ${spread} bytes`);
      }
    }),
    { numRuns: 50 },
  );
});

Deno.test("fq: a new flow sends its first ten full packets before old flows go on", () => {
  const bench = new StageBench();
  const fq = new Fq({}, bench);
  for (let i = 0; i < 100; i++) fq.push(bench.packet(2, 1514), 0);
  for (let i = 0; i < 21; i++) assertEquals(fq.pull(0)!.flow, 2); // in the middle of a turn
  for (let i = 0; i < 12; i++) fq.push(bench.packet(5, 1514), 0);
  const flows = Array.from({ length: 14 }, () => fq.pull(0)!.flow);
  assertEquals(flows.indexOf(2), 10);
});

Deno.test("fq: an emptied new flow passes once through the old flows before it is new again", () => {
  const bench = new StageBench();
  const fq = new Fq({ initialQuantum: 3028 }, bench);
  for (let i = 0; i < 20; i++) fq.push(bench.packet(2, 1500), 0);
  fq.pull(0);
  fq.pull(0);
  fq.pull(0); // flow 2 is old now
  fq.push(bench.packet(4, 100), 0);
  assertEquals(fq.pull(0)!.flow, 4);
  assertEquals(fq.pull(0)!.flow, 2); // finds flow 4 empty, moves it behind flow 2
  fq.push(bench.packet(4, 100), 0);
  assertEquals(fq.pull(0)!.flow, 2); // the rest of its turn
  assertEquals(fq.pull(0)!.flow, 4);
  assertEquals(fq.pull(0)!.flow, 2);
  for (let p = fq.pull(0); p !== null; p = fq.pull(0)) bench.pool.release(p);
  fq.push(bench.packet(2, 1500), 0);
  fq.push(bench.packet(4, 100), 0);
  assertEquals(fq.stats()["inactive_flows"], 0);
});

Deno.test("fq: credit comes back only after the refill delay", () => {
  for (const [idle, expected] of [[40 * MILLISECOND, 2], [40 * MILLISECOND + 1, 4]] as const) {
    const bench = new StageBench();
    const fq = new Fq({ initialQuantum: 1, quantum: 3000 }, bench);
    fq.push(bench.packet(4, 3000), 0);
    fq.pull(0); // leaves a credit of 1 − 3000
    assertEquals(fq.pull(0), null); // one turn: a credit of 1, then idle
    for (let i = 0; i < 3; i++) fq.push(bench.packet(2, 1000), idle);
    for (let i = 0; i < 3; i++) fq.push(bench.packet(4, 1000), idle);
    // Flow 2 is new with a credit of 1, flow 4 with 1 or with 3,000.
    const flows = Array.from({ length: 4 }, () => fq.pull(idle)!.flow);
    assertEquals(flows.filter((flow, i) => i > 0 && flow === 4).length + 1, expected, String(flows));
  }
});

Deno.test("fq: stamps 3, 1, 2 leave as 1, 2, 3; equal ones in order of arrival; past ones at once", () => {
  const bench = new StageBench();
  const fq = new Fq({}, bench);
  const stamps = [30, 10, 20, 10, 30];
  const packets = stamps.map((at) => bench.packet(2, 100, at));
  for (const p of packets) fq.push(p, 40);
  for (const i of [1, 3, 2, 0, 4]) assertStrictEquals(fq.pull(40), packets[i]);
});

Deno.test("fq: an earlier packet brings forward the wake-up of a throttled flow", () => {
  const bench = new StageBench();
  const fq = new Fq({}, bench);
  fq.push(bench.packet(2, 100, 1000), 0);
  assertEquals([fq.pull(0), fq.nextAt()], [null, 1000]);
  fq.push(bench.packet(2, 100, 600), 0);
  assertEquals(fq.nextAt(), 600);
  assertEquals(fq.pull(600)!.departAt, 600);
  assertEquals([fq.pull(999), fq.nextAt()], [null, 1000]);
});

Deno.test("fq: the horizon itself is allowed, a nanosecond more is dropped or capped", () => {
  for (const horizonDrop of [true, false]) {
    const bench = new StageBench();
    const fq = new Fq({ horizonDrop }, bench);
    assertEquals(fq.push(bench.packet(2, 100, 5 + 10 * SECOND), 5), DropReason.None);
    const beyond = fq.push(bench.packet(4, 100, 6 + 10 * SECOND), 5);
    assertEquals(beyond, horizonDrop ? DropReason.Horizon : DropReason.None);
    assertEquals(fq.pull(5), null);
    assertEquals([fq.nextAt(), fq.pull(4 + 10 * SECOND)], [5 + 10 * SECOND, null]);
    const { horizon_drops, horizon_caps, drops } = fq.stats();
    assertEquals([horizon_drops, horizon_caps, drops], horizonDrop ? [1, 0, 1] : [0, 1, 0]);
  }
});

Deno.test("fq: flow limit and total limit, each under its reason", () => {
  const bench = new StageBench();
  const fq = new Fq({ limit: 5, flowLimit: 3 }, bench);
  const push = (flow: number) => fq.push(bench.packet(flow, 100), 0);
  assertEquals([2, 2, 2, 2, 4, 5].map(push), [
    DropReason.None,
    DropReason.None,
    DropReason.None,
    DropReason.FlowLimit,
    DropReason.None,
    DropReason.None,
  ]);
  assertEquals(push(8), DropReason.QdiscLimit);
  const { flows_plimit, drops, qlen, flows } = fq.stats();
  assertEquals([flows_plimit, drops, qlen, flows], [1, 2, 5, 3]);
});

Deno.test("fq: hashes share orphanMask + 1 flows, local connections never share", () => {
  const bench = new StageBench();
  const fq = new Fq({ orphanMask: 3 }, bench);
  for (let i = 0; i < 64; i++) fq.push(bench.packet((i * 0x2468ace) | 1, 100), 0);
  for (let i = 0; i < 64; i++) fq.push(bench.packet(2 * i, 100), 0);
  assertEquals(fq.stats()["flows"], 4 + 64);
  assertEquals(fq.flowBacklog(0), 100);
  assertEquals(fq.flowBacklog(1) + fq.flowBacklog(3) + fq.flowBacklog(5) + fq.flowBacklog(7), 6400);
});

Deno.test("fq: idle flows are forgotten and their objects used again", () => {
  const bench = new StageBench();
  const fq = new Fq({}, bench);
  const serve = (flow: number, now: number) => {
    fq.push(bench.packet(flow, 100), now);
    bench.pool.release(fq.pull(now)!);
    assertEquals(fq.pull(now), null);
  };
  for (let i = 0; i < 20; i++) serve(2 * i, i);
  assertEquals([fq.stats()["flows"], fq.stats()["inactive_flows"]], [20, 20]);
  serve(100, 3 * SECOND); // exactly three seconds: flow 0 stays
  assertEquals([fq.stats()["flows"], fq.stats()["gc_flows"]], [21, 0]);
  for (let i = 0; i < 3; i++) serve(200 + 2 * i, 4 * SECOND);
  assertEquals([fq.stats()["flows"], fq.stats()["gc_flows"]], [4, 20]);
});

Deno.test("fq: with every flow object in use the oldest idle one gives way, else the packet is refused", () => {
  const bench = new StageBench();
  const fq = new Fq({ limit: 3, orphanMask: 0 }, bench); // room for 4 flows
  const push = (flow: number) => fq.push(bench.packet(flow, 100), 0);
  push(2);
  fq.pull(0);
  fq.pull(0);
  for (const flow of [4, 6, 8]) push(flow);
  fq.pull(0);
  assertEquals(push(10), DropReason.None); // in place of flow 2
  assertEquals(fq.stats()["gc_flows"], 1);
  fq.pull(0);
  assertEquals(push(12), DropReason.FlowLimit); // flows 4 and 6 are empty, yet still have to pass
  assertEquals(fq.stats()["allocation_errors"], 1);
  while (fq.pull(0) !== null);
  assertEquals(push(12), DropReason.None);
});

Deno.test("fq: overhead counts against the credit", () => {
  const bench = new StageBench();
  const fq = new Fq({ quantum: 150, initialQuantum: 150, overheadBytes: 50 }, bench);
  for (const flow of [2, 4]) for (let i = 0; i < 3; i++) fq.push(bench.packet(flow, 100), 0);
  assertEquals(Array.from({ length: 6 }, () => fq.pull(0)!.flow), [2, 4, 2, 4, 2, 4]);
});

Deno.test("fq: reports how late throttled flows were looked at", () => {
  const bench = new StageBench();
  const fq = new Fq({}, bench);
  fq.push(bench.packet(2, 100, 1000), 0);
  fq.pull(0);
  fq.pull(1800);
  const { unthrottle_latency_ns, throttled, throttled_flows } = fq.stats();
  assertEquals([unthrottle_latency_ns, throttled, throttled_flows], [100, 1, 0]);
});

Deno.test("fq: after close it can be used again", () => {
  const bench = new StageBench();
  const fq = new Fq({}, bench);
  for (const [flow, at] of [[2, 0], [4, 500], [5, 900]] as const) fq.push(bench.packet(flow, 100, at), 0);
  fq.pull(0);
  fq.pull(0);
  fq.close(1);
  assertEquals(bench.dropped, [DropReason.Closed, DropReason.Closed]);
  const p = bench.packet(4, 100, 700);
  fq.push(p, 2);
  assertEquals([fq.pull(2), fq.nextAt()], [null, 700]);
  assertStrictEquals(fq.pull(700), p);
});

Deno.test("fq: options out of range are refused", () => {
  const cases: [FqOptions, string][] = [
    [{ quantum: 0 }, "fq quantum must be an integer from 1 to 1048576, got 0"],
    [{ limit: 1.5 }, "fq limit"],
    [{ flowLimit: NaN }, "fq flowLimit"],
    [{ initialQuantum: -1 }, "fq initialQuantum"],
    [{ horizon: NEVER }, "fq horizon"],
    [{ orphanMask: -1 }, "fq orphanMask"],
  ];
  for (const [o, message] of cases) assertThrows(() => new Fq(o, new StageBench()), RangeError, message);
});
