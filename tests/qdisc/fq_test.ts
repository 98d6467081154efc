/**
 * The promises of the fair queue, each by itself: order, turns, limits, horizon, flows, counters.
 *
 * @module
 */

import { assert, assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { DropReason } from "../../src/base/drop.ts";
import { MILLISECOND, NEVER, SECOND } from "../../src/base/time.ts";
import { Fq, type FqOptions } from "../../src/qdisc/fq.ts";
import { StageBench } from "../testing/stage_bench.ts";
import { FqBench } from "./fq_bench.ts";

Deno.test("fq: what is due when nothing else is passes at once and makes no flow", () => {
  const b = new FqBench();
  const facts = () => [b.fq.stats()["fastpath_packets"], b.fq.stats()["flows"], b.fq.backlogPackets];
  b.push(5, 2, 100, 9000);
  assertEquals([b.pull(5), b.fq.nextAt()], [null, 9000]); // flow 2 waits
  const packets = Array.from({ length: 8 }, (_, i) => b.push(5, 4 + (i & 1), 100 + i));
  assertEquals(facts(), [8, 1, 9]);
  assertEquals([b.fq.flowBacklog(4), b.fq.flowBacklog(5)], [100 + 102 + 104 + 106, 101 + 103 + 105 + 107]);
  assertEquals(b.fq.stats()["band_pkt_count_1"], 1);
  assert(b.fq.nextAt() <= 5);
  packets.push(b.push(5, 4, 200)); // eight are enough: the ninth has to stand in line
  packets.push(b.push(5, 5, 200));
  assertEquals(facts(), [8, 3, 11]);
  for (const p of packets) assertStrictEquals(b.fq.pull(5), p);
  assertEquals([b.fq.pull(5), b.fq.nextAt()], [null, 9000]);
  b.push(8999, 6, 100);
  assertEquals([facts(), b.pull(8999)], [[9, 3, 2], 6]);
  // From 9,000 on flow 2 is in line, even though nobody has looked yet: nothing passes it.
  b.push(9000, 6, 100);
  assertEquals([facts(), b.flows(9000, 3)], [[9, 4, 2], [6, 2, null]]);
});

Deno.test("fq: the fast path keeps the order of stamps that have passed", () => {
  const b = new FqBench();
  const packets = [30, 10, 0, 20, 10].map((at) => b.push(40, 2, 100, at));
  assertEquals(b.fq.stats()["fastpath_packets"], 5);
  for (const i of [1, 4, 3, 0, 2]) assertStrictEquals(b.fq.pull(40), packets[i]);
});

Deno.test("fq: packets of a flow leave in the order of their stamps, equal ones in order of arrival", () => {
  const stamps = fc.array(
    fc.record({ flow: fc.integer({ min: 1, max: 3 }), ahead: fc.integer({ min: 0, max: 12 }), wait: fc.nat(4) }),
    { maxLength: 100 },
  );
  fc.assert(fc.property(stamps, fc.array(fc.boolean(), { minLength: 100, maxLength: 100 }), (steps, pulls) => {
    const b = new FqBench();
    const held: { flow: number; at: number; n: number }[] = [];
    let now = 1;
    const pull = () => {
      const p = b.fq.pull(now);
      if (p === null) return false;
      const first = held.filter((h) => h.flow === p.flow).sort((x, y) => x.at - y.at || x.n - y.n)[0]!;
      assertEquals([p.flow, p.departAt, p.length], [first.flow, first.at, first.n + 2]);
      assert(p.departAt <= now);
      held.splice(held.indexOf(first), 1);
      b.pool.release(p);
      return true;
    };
    steps.forEach(({ flow, ahead, wait }, n) => {
      now += wait;
      held.push({ flow, at: now + ahead, n });
      b.push(now, flow, n + 2, now + ahead);
      if (pulls[n]) pull();
    });
    now += 100;
    while (pull());
    assertEquals(held, []);
  }));
});

Deno.test("fq: stamps 3, 1, 2 leave as 1, 2, 3, also of many packets and with equal ones between", () => {
  const b = new FqBench({ flowLimit: 500 });
  const stamps = Array.from({ length: 400 }, (_, i) => 1000 + (i * 7919) % 97);
  const packets = stamps.map((at) => b.push(5, 2, 100, at));
  const order = packets.map((_, i) => i).sort((x, y) => stamps[x]! - stamps[y]! || x - y);
  for (const i of order) {
    assertEquals(b.fq.pull(stamps[i]! - 1), null);
    assertStrictEquals(b.fq.pull(stamps[i]!), packets[i]);
  }
});

Deno.test("fq: bytes of busy flows differ by at most a quantum and a packet, at every moment", () => {
  const lengths = fc.array(fc.integer({ min: 40, max: 1500 }), { minLength: 5, maxLength: 5 });
  fc.assert(
    fc.property(lengths, fc.integer({ min: 300, max: 4000 }), (lengths, quantum) => {
      const b = new FqBench({ quantum, initialQuantum: quantum });
      const refill = (i: number) => {
        while (b.fq.flowBacklog(2 * i + 2) < 20_000 && b.fq.push(b.packet(2 * i + 2, lengths[i]!), 0) === 0);
      };
      const sent = lengths.map(() => 0);
      b.inLine(0, () => lengths.forEach((_, i) => refill(i)));
      for (let n = 0; n < 600; n++) {
        const p = b.fq.pull(0)!;
        const i = (p.flow - 2) / 2;
        sent[i]! += p.length;
        b.pool.release(p);
        refill(i);
        const spread = Math.max(...sent) - Math.min(...sent);
        assert(spread <= quantum + Math.max(...lengths), `spread of ${spread} bytes`);
      }
    }),
    { numRuns: 50 },
  );
});

Deno.test("fq: 1,000 saturating flows get the same in every round, to a quantum and a packet", () => {
  const FLOWS = 1000;
  const b = new FqBench();
  const length = (i: number) => 64 + (i * 997) % 1437;
  const sent = new Float64Array(FLOWS);
  const send = (packets: number) => {
    for (let n = 0; n < packets; n++) {
      const p = b.fq.pull(0)!;
      const i = (p.flow >> 1) - 1;
      sent[i]! += p.length;
      assertEquals(b.fq.push(p, 0), DropReason.None); // each flow always has two packets
    }
  };
  b.inLine(0, () => {
    for (let i = 0; i < FLOWS; i++) for (let k = 0; k < 2; k++) b.push(0, 2 * i + 2, length(i));
  });
  send(50_000); // the first turns, which are longer, are over; every flow is old
  for (let n = 0; n < 300; n++) {
    send(101);
    const spread = sent.reduce((a, n) => Math.max(a, n)) - sent.reduce((a, n) => Math.min(a, n));
    assert(spread <= 3028 + 1500, `spread of ${spread} bytes`);
  }
  assert(sent.reduce((a, n) => Math.min(a, n)) > 15_140 + 5 * 3028);
  assertEquals(b.fq.stats()["fastpath_packets"], 8);
});

Deno.test("fq: a sparse flow's packet leaves before any old flow's next, among 1,000 that saturate", () => {
  const b = new FqBench();
  b.inLine(0, () => {
    for (let i = 0; i < 1000; i++) for (let k = 0; k < 2; k++) b.push(0, 2 * i + 2, 1500);
  });
  const sendOne = (now: number) => {
    const p = b.fq.pull(now)!;
    b.fq.push(p, now);
    return p.flow;
  };
  for (let n = 0; n < 15_000; n++) sendOne(0); // all are old
  let now = 0;
  for (let n = 0; n < 50; n++) {
    now += 100 * MILLISECOND;
    b.push(now, 5001, 300, n % 2 === 0 ? now : 0);
    assertEquals(b.pull(now), 5001);
    for (let k = 0; k < 3100; k++) sendOne(now); // one pass through the old flows
  }
});

Deno.test("fq: a new flow sends its first ten full packets before old flows go on", () => {
  const b = new FqBench();
  for (let i = 0; i < 100; i++) b.push(0, 2, 1514);
  assertEquals(b.flows(0, 29), Array(29).fill(2)); // eight on the fast path, then in the middle of a turn
  for (let i = 0; i < 12; i++) b.push(0, 5, 1514);
  assertEquals(b.flows(0, 14).indexOf(2), 10);
});

Deno.test("fq: an emptied new flow passes once through the old flows before it is new again", () => {
  const b = new FqBench({ initialQuantum: 3028 });
  b.inLine(0, () => {
    for (let i = 0; i < 20; i++) b.push(0, 2, 1500);
  });
  assertEquals(b.flows(0, 3), [2, 2, 2]); // flow 2 is old now
  b.push(0, 4, 100);
  assertEquals(b.flows(0, 2), [4, 2]); // finds flow 4 empty, moves it behind flow 2
  b.push(0, 4, 100);
  assertEquals(b.flows(0, 3), [2, 4, 2]); // the rest of flow 2's turn first
  while (b.pull(0) !== null);
  assertEquals(b.fq.stats()["inactive_flows"], 2);
});

Deno.test("fq: credit comes back only after the refill delay", () => {
  for (const [idle, expected] of [[40 * MILLISECOND, 2], [40 * MILLISECOND + 1, 4]] as const) {
    const b = new FqBench({ initialQuantum: 1, quantum: 3000 });
    b.inLine(0, () => b.push(0, 4, 3000 - 1200)); // leaves a credit of 1 − 1,800
    assertEquals(b.flows(0, 2), [4, null]); // one turn: a credit of 1,201, then idle
    b.inLine(idle, () => {
      for (let i = 0; i < 3; i++) b.push(idle, 2, 1000);
      for (let i = 0; i < 3; i++) b.push(idle, 4, 1000);
    });
    // Flow 2 is new with a credit of 1, flow 4 with 1,201 or with 3,000.
    const flows = b.flows(idle, 4);
    assertEquals(flows.filter((flow, i) => i > 0 && flow === 4).length + 1, expected === 4 ? 4 : 3, String(flows));
  }
});

Deno.test("fq: an earlier packet brings forward the wake-up of a throttled flow", () => {
  const b = new FqBench();
  b.push(0, 2, 100, 1000);
  assertEquals([b.pull(0), b.fq.nextAt()], [null, 1000]);
  b.push(0, 2, 100, 600);
  assertEquals([b.fq.nextAt(), b.fq.stats(250)["time_next_delayed_flow"]], [600, 350]);
  assertEquals(b.fq.pull(600)!.departAt, 600);
  assertEquals([b.fq.pull(999), b.fq.nextAt()], [null, 1000]);
});

Deno.test("fq: the horizon itself is allowed, a nanosecond more is dropped or capped", () => {
  for (const horizonDrop of [true, false]) {
    const b = new FqBench({ horizonDrop });
    b.push(5, 2, 100, 5 + 10 * SECOND);
    const beyond = b.fq.push(b.packet(4, 100, 6 + 10 * SECOND), 5);
    assertEquals(beyond, horizonDrop ? DropReason.Horizon : DropReason.None);
    assertEquals(b.pull(5), null);
    assertEquals([b.fq.nextAt(), b.pull(4 + 10 * SECOND)], [5 + 10 * SECOND, null]);
    const { horizon_drops, horizon_caps, drops } = b.fq.stats();
    assertEquals([horizon_drops, horizon_caps, drops], horizonDrop ? [1, 0, 1] : [0, 1, 0]);
    b.push(5, 6, 100, 3); // a stamp that has passed: at once
    assertEquals(b.pull(5), 6);
  }
});

Deno.test("fq: flow limit and limit, each under its reason", () => {
  const b = new FqBench({ limit: 5, flowLimit: 3 });
  const push = (flow: number) => b.fq.push(b.packet(flow, 100, 1), 0);
  assertEquals([2, 2, 2, 2, 4, 5].map(push), [
    DropReason.None,
    DropReason.None,
    DropReason.None,
    DropReason.FlowLimit,
    DropReason.None,
    DropReason.None,
  ]);
  assertEquals(push(8), DropReason.QdiscLimit);
  const { flows_plimit, drops, qlen, flows, band_drops_1 } = b.fq.stats();
  assertEquals([flows_plimit, drops, qlen, flows, band_drops_1], [1, 2, 5, 3, 1]);
});

Deno.test("fq: no flow ever holds more than its limit", () => {
  const pushes = fc.array(fc.tuple(fc.integer({ min: 1, max: 4 }), fc.integer({ min: -2, max: 5 })), {
    maxLength: 200,
  });
  fc.assert(fc.property(pushes, fc.integer({ min: 1, max: 9 }), (pushes, flowLimit) => {
    const b = new FqBench({ flowLimit });
    let now = 10;
    for (const [flow, ahead] of pushes) {
      const fast = b.fq.stats()["fastpath_packets"]!;
      const reason = b.fq.push(b.packet(flow, 100, now + ahead), now);
      if (reason === DropReason.None && b.fq.stats()["fastpath_packets"] === fast) {
        assert(b.fq.flowBacklog(flow) <= (flowLimit + 8) * 100);
      }
      if (flow === 4) { while (b.pull(now) !== null); }
      if (flow === 3) now++;
    }
    while (b.fq.nextAt() <= now && b.pull(now) !== null);
    for (let flow = 1; flow <= 4; flow++) assert(b.fq.flowBacklog(flow) <= flowLimit * 100);
  }));
});

Deno.test("fq: hashes share orphanMask + 1 flows, local connections never share", () => {
  const b = new FqBench({ orphanMask: 3 });
  for (let i = 0; i < 64; i++) b.push(0, (i * 0x2468ace) | 1, 100, 1);
  for (let i = 0; i < 64; i++) b.push(0, 2 * i, 100, 1);
  assertEquals(b.fq.stats()["flows"], 4 + 64);
  assertEquals(b.fq.flowBacklog(0), 100);
  assertEquals(b.fq.flowBacklog(1) + b.fq.flowBacklog(3) + b.fq.flowBacklog(5) + b.fq.flowBacklog(7), 6400);
  // The same on the fast path.
  const fast = new FqBench({ orphanMask: 3 });
  for (const [i, flow] of [0x101, 0x109, 0x103, 0x100, 0x108, 0x1100].entries()) fast.push(0, flow, 1 << i);
  assertEquals([1, 9, 3, 0x100, 0x108, 0x1100, 0].map((flow) => fast.fq.flowBacklog(flow)), [3, 3, 4, 8, 16, 32, 0]);
  assertEquals(fast.fq.stats()["fastpath_packets"], 6);
});

Deno.test("fq: idle flows are forgotten and their objects used again", () => {
  const b = new FqBench();
  const serve = (flow: number, now: number) => {
    b.push(now, flow, 100, now + 1);
    assertEquals(b.flows(now + 1, 2), [flow, null]);
  };
  for (let i = 0; i < 20; i++) serve(2 * i, i);
  assertEquals([b.fq.stats()["flows"], b.fq.stats()["inactive_flows"]], [20, 20]);
  serve(100, 1 + 3 * SECOND); // flow 0 is idle for exactly three seconds: it stays
  assertEquals([b.fq.stats()["flows"], b.fq.stats()["gc_flows"]], [21, 0]);
  for (let i = 0; i < 3; i++) serve(200 + 2 * i, 4 * SECOND);
  assertEquals([b.fq.stats()["flows"], b.fq.stats()["gc_flows"]], [4, 20]);
});

Deno.test("fq: a flow object that is used again remembers nothing of the flow before", () => {
  const b = new FqBench({ initialQuantum: 3000, quantum: 3000 });
  b.fq.setFlowRate(2, 100_000);
  b.inLine(0, () => {
    for (let i = 0; i < 4; i++) b.push(0, 2, 1500);
  });
  assertEquals(b.flows(0, 3), [2, 2, null]);
  assertEquals(b.fq.nextAt(), 30 * MILLISECOND);
  assertEquals(b.flows(SECOND, 3), [2, 2, null]);
  const now = 6 * SECOND;
  b.fq.setFlowRate(4, 1_000_000_000);
  b.inLine(now, () => {
    for (let i = 0; i < 3; i++) b.push(now, 4, 1500);
  });
  assertEquals(b.fq.stats()["gc_flows"], 1);
  assertEquals(b.flows(now, 3), [4, 4, null]); // a whole quantum at once, then a gap
  assertEquals(b.fq.nextAt(), now + 3000);
});

Deno.test("fq: with as many flows as there may be the oldest idle one gives way, else the packet is refused", () => {
  const b = new FqBench({ limit: 1, orphanMask: 1 }); // room for 5 flows, one packet a band
  const push = (flow: number, now: number, trafficClass = 0) =>
    b.fq.push(b.packet(flow, 100, now + 1, trafficClass), now);
  for (const flow of [2, 14]) {
    push(flow, 0);
    assertEquals(b.flows(1, 2), [flow, null]);
  }
  for (const [i, flow] of [4, 6, 8].entries()) push(flow, 1, [0, 0x08, 0x10][i]);
  assertEquals(b.pull(2), 4);
  assertEquals(push(10, 2), DropReason.None); // in place of flow 2; flow 14 stays
  assertEquals([b.fq.stats()["gc_flows"], b.fq.stats()["flows"]], [1, 5]);
  assertEquals(b.pull(3), 10);
  assertEquals(push(12, 3), DropReason.None); // in place of flow 14
  assertEquals([b.pull(4), b.fq.stats()["gc_flows"]], [12, 2]);
  assertEquals(push(16, 4), DropReason.FlowLimit); // flows 4, 10 and 12 are empty, yet still have to pass
  assertEquals(b.fq.stats()["allocation_errors"], 1);
  while (b.pull(5) !== null);
  assertEquals(push(16, 5), DropReason.None);
});

Deno.test("fq: overhead counts against the credit", () => {
  const b = new FqBench({ quantum: 150, initialQuantum: 150, overheadBytes: 50 });
  b.inLine(0, () => {
    for (const flow of [2, 4]) for (let i = 0; i < 3; i++) b.push(0, flow, 100);
  });
  assertEquals(b.flows(0, 6), [2, 4, 2, 4, 2, 4]);
});

Deno.test("fq: reports how late throttled flows were looked at", () => {
  const b = new FqBench();
  b.push(0, 2, 100, 1000);
  b.pull(0);
  b.pull(1800);
  const { unthrottle_latency_ns, throttled, throttled_flows } = b.fq.stats();
  assertEquals([unthrottle_latency_ns, throttled, throttled_flows], [100, 1, 0]);
});

Deno.test("fq: after close it can be used again", () => {
  const b = new FqBench();
  for (const [flow, at] of [[2, 0], [4, 500], [5, 900], [7, 300], [7, 200]] as const) b.push(0, flow, 100, at);
  assertEquals(b.flows(0, 2), [2, null]);
  b.push(1, 8, 100);
  b.fq.close(1);
  assertEquals(b.dropped, Array(5).fill(DropReason.Closed));
  assertEquals([b.fq.backlogPackets, b.fq.backlogBytes, b.fq.nextAt(), b.pool.inUse], [0, 0, NEVER, 0]);
  const p = b.push(2, 4, 100, 700);
  assertEquals([b.fq.pull(2), b.fq.nextAt()], [null, 700]);
  assertStrictEquals(b.fq.pull(700), p);
});

Deno.test("fq: has every counter of tc, and a plain queue's", () => {
  const stats = new FqBench().fq.stats();
  assertEquals(
    Object.keys(stats).sort(),
    [
      ...["packets", "bytes", "drops", "overlimits", "qlen", "backlog"],
      ...["gc_flows", "throttled", "flows_plimit", "pkts_too_long", "allocation_errors", "time_next_delayed_flow"],
      ...["flows", "inactive_flows", "throttled_flows", "unthrottle_latency_ns", "ce_mark", "horizon_drops"],
      ...["horizon_caps", "fastpath_packets", "band_drops_0", "band_drops_1", "band_drops_2"],
      ...["band_pkt_count_0", "band_pkt_count_1", "band_pkt_count_2"],
    ].sort(),
  );
  for (const [name, value] of Object.entries(stats)) assertEquals(value, 0, name);
});

Deno.test("fq: options out of range are refused", () => {
  const cases: [FqOptions, string][] = [
    [{ quantum: 0 }, "fq quantum must be an integer from 1 to 1048576, got 0"],
    [{ limit: 1.5 }, "fq limit"],
    [{ flowLimit: NaN }, "fq flowLimit"],
    [{ initialQuantum: -1 }, "fq initialQuantum"],
    [{ horizon: NEVER }, "fq horizon"],
    [{ ceThreshold: -1 }, "fq ceThreshold"],
    [{ orphanMask: -1 }, "fq orphanMask"],
    [{ maxrateBytesPerSec: 0 }, "fq maxrate must be above 0 bytes per second, got 0"],
    [{ rateBytesPerSec: NaN }, "fq rate must be above 0"],
    [{ lowRateThresholdBytesPerSec: -1 }, "fq lowRateThreshold"],
    [{ priomap: [0, 1, 2] }, "fq priomap must have 16 entries, got 3"],
    [{ priomap: Array(16).fill(3) }, "fq priomap must be an integer from 0 to 2, got 3"],
    [{ weights: [1e6, 1e5, 16_383] }, "fq weights must be an integer from 16384"],
  ];
  for (const [o, message] of cases) assertThrows(() => new Fq(o, new StageBench()), RangeError, message);
  const { fq } = new FqBench();
  assertThrows(() => fq.setFlowRate(3, 1000), RangeError, "fq flow 3 is a hash");
  assertThrows(() => fq.setFlowRate(-2, 1000), RangeError, "fq flow");
  assertThrows(() => fq.setFlowRate(2, 0), RangeError, "fq flow rate must be above 0");
  assertThrows(() => fq.resetFlow(5), RangeError, "fq flow 5 is a hash");
});
