/**
 * The impairing stage: each decision by itself against its closed form, the reference vectors, and what always holds.
 *
 * All seeds are fixed, so a statistical test gives the same result every time; its bounds are four standard deviations
 * around the closed form.
 *
 * @module
 */

import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import fc from "fast-check";
import { DropReason } from "../../src/base/drop.ts";
import type { Packet } from "../../src/base/packet.ts";
import { PacketPool } from "../../src/base/packet.ts";
import { Rng } from "../../src/base/rng.ts";
import { MILLISECOND, NEVER, SECOND } from "../../src/base/time.ts";
import { NETEM_DEFAULTS } from "../../src/impair/config.ts";
import { NetemStage } from "../../src/impair/netem_stage.ts";
import { parseNetem } from "../../src/impair/parse.ts";
import { Ecn } from "../../src/wire/ip_header.ts";
import { ipHeader, parsePacket, udpPacket } from "../testing/packets.ts";
import { StageBench } from "../testing/stage_bench.ts";
import { type Arrival, Wire } from "../testing/wire.ts";

/** `count` of `trials` lies within four standard deviations of probability `p`. */
function assertFrequency(count: number, trials: number, p: number): void {
  assertAlmostEquals(count / trials, p, 4 * Math.sqrt(p * (1 - p) / trials));
}

Deno.test("netem: without options packets pass at once, in order", () => {
  const wire = new Wire("");
  for (let i = 0; i < 3; i++) wire.send(7);
  assertEquals(wire.stage.nextAt(), 7);
  assertEquals(wire.arrivals(), [0, 1, 2].map((n) => ({ n, at: 7, copy: false })));
});

Deno.test("netem: a delay without jitter is exact and keeps the order", () => {
  const wire = new Wire("delay 20ms");
  wire.send(0);
  wire.send(0);
  wire.send(5);
  assertEquals(wire.stage.pull(20 * MILLISECOND - 1), null);
  assertEquals(wire.arrivals().map(({ n, at }) => [n, at]), [
    [0, 20 * MILLISECOND],
    [1, 20 * MILLISECOND],
    [2, 20 * MILLISECOND + 5],
  ]);
});

Deno.test("netem: jitter is uniform on [delay − jitter, delay + jitter)", () => {
  const wire = new Wire("delay 20ms 2ms limit 100000");
  const count = 40_000;
  const arrivals = wire.run(count, 0);
  const offsets = arrivals.map(({ at }) => at / MILLISECOND - 20);
  assert(Math.min(...offsets) >= -2 && Math.max(...offsets) < 2);
  const sd = 4 / Math.sqrt(12);
  assertAlmostEquals(offsets.reduce((sum, x) => sum + x, 0) / count, 0, 4 * sd / Math.sqrt(count));
  for (let decile = 0; decile < 10; decile++) {
    assertFrequency(offsets.filter((x) => Math.floor((x + 2) / 0.4) === decile).length, count, 0.1);
  }
});

Deno.test("netem: jitter without a rate reorders neighbours with probability (W − g)² / 2W²", () => {
  const cases = [["delay 50ms 40ms", 1, 0.488], ["delay 20ms 10ms", 12, 0.08]] as const;
  for (const [text, spacing, expected] of cases) {
    const count = 20_000;
    const at = new Map(new Wire(text).run(count, spacing * MILLISECOND).map((a) => [a.n, a.at]));
    let inversions = 0;
    for (let n = 1; n < count; n++) if (at.get(n)! < at.get(n - 1)!) inversions++;
    assertAlmostEquals(inversions / count, expected, 0.012, text);
  }
});

Deno.test("netem: a correlated jitter keeps its distribution and has its correlation", () => {
  const count = 40_000;
  const arrivals = new Wire("delay 20ms 2ms 60%").run(count, SECOND);
  const x = arrivals.map(({ n, at }) => (at - n * SECOND) / MILLISECOND - 20);
  const mean = x.reduce((sum, v) => sum + v, 0) / count;
  const variance = x.reduce((sum, v) => sum + (v - mean) ** 2, 0) / count;
  const lag = x.reduce((sum, v, i) => i === 0 ? 0 : sum + (v - mean) * (x[i - 1]! - mean), 0) / count;
  assertAlmostEquals(mean, 0, 0.06);
  assertAlmostEquals(variance, 16 / 12, 0.05);
  assertAlmostEquals(lag / variance, 0.6, 0.03);
});

Deno.test("netem: loss has its probability, and is counted, freed and not told", () => {
  const wire = new Wire("loss 3%");
  const count = 50_000;
  const arrived = wire.run(count, 1).length;
  assertFrequency(count - arrived, count, 0.03);
  assertEquals(wire.bench.dropped.length, count - arrived);
  assert(wire.bench.dropped.every((reason) => reason === DropReason.ImpairLoss));
  assertEquals([wire.refused, wire.stage.stats()["lost"], wire.bench.pool.inUse], [[], count - arrived, 0]);
});

Deno.test("netem: loss of 0 and of 100 percent", () => {
  assertEquals(new Wire("loss 0%").run(1000, 1).length, 1000);
  assertEquals(new Wire("loss 100%").run(1000, 1).length, 0);
});

Deno.test("netem: a correlated loss keeps its probability and comes in runs of 1 / (1 − p)(1 − ρ)", () => {
  const count = 200_000;
  const arrived = new Set(new Wire("loss 1% 25%").run(count, 1).map(({ n }) => n));
  let runs = 0;
  for (let n = 0; n < count; n++) if (!arrived.has(n) && (n === 0 || arrived.has(n - 1))) runs++;
  const lost = count - arrived.size;
  assertAlmostEquals(lost / count, 0.01, 0.0012);
  assertAlmostEquals(lost / runs, 1 / (0.99 * 0.75), 0.05);
});

Deno.test("netem: duplicates have their probability and each its own delay", () => {
  const wire = new Wire("delay 20ms 10ms duplicate 10%");
  const count = 20_000;
  const arrivals = wire.run(count, MILLISECOND);
  const at = new Map(arrivals.filter((a) => !a.copy).map((a) => [a.n, a.at]));
  const copies = arrivals.filter((a) => a.copy);
  assertEquals(at.size, count);
  assertFrequency(copies.length, count, 0.1);
  assertEquals(wire.stage.stats()["duplicated"], copies.length);
  assertFrequency(copies.filter((a) => a.at < at.get(a.n)!).length, copies.length, 0.5);
});

Deno.test("netem: a copy carries the same bytes and never another copy", () => {
  const bench = new StageBench();
  const stage = new NetemStage(parseNetem("duplicate 100%"), new Rng(1), bench.pool, bench);
  const bytes = udpPacket(ipHeader("10.7.0.1", "10.7.0.2"), 5, 6, new Uint8Array([1, 2, 3]));
  stage.push(bench.packetOf(bytes), 0);
  const out = [stage.pull(0)!, stage.pull(0)!];
  assertEquals(stage.pull(0), null);
  assertEquals(out.map((p) => [p.duplicate, p.toBytes()]), [[false, bytes], [true, bytes]]);
});

Deno.test("netem: a packet both duplicated and lost arrives exactly once", () => {
  const wire = new Wire("duplicate 100% loss 100%");
  const arrivals = wire.run(100, 1);
  assertEquals(arrivals.map((a) => a.n), Array.from({ length: 100 }, (_, n) => n));
  assertEquals([wire.stage.stats()["duplicated"], wire.bench.dropped.length], [0, 0]);
});

Deno.test("netem: corruption flips exactly one bit, each bit of the packet equally often, the copy stays whole", () => {
  const bench = new StageBench();
  const stage = new NetemStage(parseNetem("corrupt 50% duplicate 100%"), new Rng(3), bench.pool, bench);
  const original = Uint8Array.from({ length: 40 }, (_, i) => i * 37);
  const flips = new Array<number>(320).fill(0);
  const count = 20_000;
  let corrupted = 0;
  for (let i = 0; i < count; i++) {
    stage.push(bench.packetOf(original), 0);
    for (let p = stage.pull(0); p !== null; p = stage.pull(0)) {
      let differing = 0;
      p.toBytes().forEach((byte, at) => {
        for (let bit = 0; bit < 8; bit++) {
          if (((byte ^ original[at]!) >> bit) & 1) {
            differing++;
            flips[at * 8 + bit]!++;
          }
        }
      });
      assert(differing <= (p.duplicate ? 0 : 1));
      corrupted += differing;
      bench.pool.release(p);
    }
  }
  assertFrequency(corrupted, count, 0.5);
  assertEquals(stage.stats()["corrupted"], corrupted);
  const mean = corrupted / 320;
  const chiSquare = flips.reduce((sum, n) => sum + (n - mean) ** 2 / mean, 0);
  assertAlmostEquals(chiSquare, 319, 4 * Math.sqrt(2 * 319));
});

Deno.test("netem: reorder 100% gap 5: four packets delayed, the fifth at once, and again", () => {
  const wire = new Wire("delay 10ms reorder 100% gap 5");
  const arrivals = wire.run(20, MILLISECOND);
  const waited = arrivals.map(({ n, at }) => [n, (at - n * MILLISECOND) / MILLISECOND]).sort((a, b) => a[0]! - b[0]!);
  assertEquals(waited, Array.from({ length: 20 }, (_, n) => [n, n % 5 === 4 ? 0 : 10]));
  assertEquals(wire.stage.stats()["reordered"], 4);
});

Deno.test("netem: reorder without a gap lets each packet go ahead with its probability", () => {
  const count = 20_000;
  const arrivals = new Wire("delay 10ms reorder 25%").run(count, MILLISECOND);
  assertFrequency(arrivals.filter(({ n, at }) => at === n * MILLISECOND).length, count, 0.25);
});

Deno.test("netem: from the gap on, packets wait for the draw: a mean distance of gap − 1 + 1/p", () => {
  const count = 30_000;
  const arrivals = new Wire("delay 10ms reorder 50% gap 3").run(count, MILLISECOND);
  const ahead = arrivals.filter(({ n, at }) => at === n * MILLISECOND).map(({ n }) => n);
  assert(ahead.every((n, i) => i === 0 || n - ahead[i - 1]! >= 3));
  assertAlmostEquals(count / ahead.length, 2 + 1 / 0.5, 0.08);
});

Deno.test("netem: packets that are lost do not count for the gap", () => {
  const lossy = new Wire("delay 10ms reorder 100% gap 2 loss 50%");
  const arrivals = lossy.run(200, MILLISECOND).sort((a, b) => a.n - b.n);
  arrivals.forEach(({ n, at }, i) => assertEquals(at - n * MILLISECOND, i % 2 === 1 ? 0 : 10 * MILLISECOND));
});

Deno.test("netem: packets that the limit refuses do not count for the gap", () => {
  const wire = new Wire("delay 10ms gap 3 limit 2");
  for (let i = 0; i < 4; i++) wire.send(0);
  wire.arrivals();
  wire.send(SECOND);
  assertEquals([wire.refused, wire.arrivals().map((a) => [a.n, a.at])], [[2, 3], [[4, SECOND]]]);
});

Deno.test("netem: rate: back-to-back packets arrive at D + (i + 1) · L/R", () => {
  const wire = new Wire("delay 100ms rate 1mbit");
  for (let i = 0; i < 3; i++) wire.send(0, 1250);
  assertEquals(wire.arrivals().map((a) => a.at / MILLISECOND), [110, 120, 130]);
  wire.send(500 * MILLISECOND, 1250);
  assertEquals(wire.arrivals().map((a) => a.at / MILLISECOND), [610]);
});

Deno.test("netem: with a rate jitter never reorders, and packets keep their distance", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(20), { minLength: 2, maxLength: 100 }), fc.nat(), (gaps, seed) => {
      const wire = new Wire("delay 100ms 100ms rate 1mbit", seed);
      let now = 0;
      const arrivals: Arrival[] = [];
      for (const gap of gaps) {
        now += gap * MILLISECOND;
        arrivals.push(...wire.arrivals(now));
        wire.send(now, 1250);
      }
      arrivals.push(...wire.arrivals());
      arrivals.forEach(({ n, at }, i) => {
        assertEquals(n, i);
        assert(i === 0 || at - arrivals[i - 1]!.at >= 10 * MILLISECOND);
      });
    }),
    { numRuns: 50 },
  );
});

Deno.test("netem: a saturated rate carries exactly that many bytes", () => {
  const wire = new Wire("rate 50mbit limit 100000");
  const arrivals = wire.run(10_000, 100_000, 1400);
  const bytes = arrivals.filter((a) => a.at <= SECOND).length * 1400;
  assertAlmostEquals(bytes, 6_250_000, 1400);
});

Deno.test("netem: rate with overhead and cells", () => {
  const cases: [string, number, number][] = [
    ["rate 5kbit 20 100 5", 100, 336],
    ["rate 8kbit 0 48 5", 50, 106],
    ["rate 8kbit 0 48 5", 48, 53],
    ["rate 8kbit -14", 114, 100],
    ["rate 8kbit -14", 10, 0],
  ];
  for (const [text, lengthBytes, milliseconds] of cases) {
    const wire = new Wire(text);
    wire.send(0, lengthBytes);
    assertEquals(wire.arrivals()[0]!.at, milliseconds * MILLISECOND, text);
  }
});

Deno.test("netem: the limit counts all packets held, and is told to whoever pushes", () => {
  const wire = new Wire("delay 10ms limit 3");
  for (let i = 0; i < 5; i++) wire.send(i);
  assertEquals([wire.refused, wire.stage.heldPackets, wire.stage.stats()["limit_drops"]], [[3, 4], 3, 2]);
  wire.arrivals();
  for (let i = 0; i < 5; i++) wire.send(SECOND);
  assertEquals(wire.refused.length, 4);
  assertEquals(new Wire("delay 10s").stage.config.limit, 1000);
});

Deno.test("netem: no copy is made beyond the limit or without a free packet", () => {
  const wire = new Wire("delay 10ms duplicate 100% limit 3");
  for (let i = 0; i < 3; i++) wire.send(0);
  assertEquals([wire.stage.heldPackets, wire.refused], [3, [2]]);
  const { duplicated, copies_refused } = wire.stage.stats();
  assertEquals([duplicated, copies_refused], [1, 1]);

  const pool = new PacketPool(1);
  const stage = new NetemStage(parseNetem("duplicate 100%"), new Rng(1), pool, new StageBench());
  assertEquals(stage.push(pool.acquire()!, 0), DropReason.None);
  assertEquals([stage.heldPackets, stage.stats()["copies_refused"]], [1, 1]);
});

Deno.test("netem: ecn marks ECN-capable packets instead of losing them, in IPv4 and IPv6", () => {
  for (const [source, destination] of [["10.7.0.1", "10.7.0.2"], ["fd07::1", "fd07::2"]] as const) {
    for (const ecn of [Ecn.NotEct, Ecn.Ect0, Ecn.Ect1, Ecn.Ce]) {
      const bench = new StageBench();
      const stage = new NetemStage(parseNetem("loss 100% ecn"), new Rng(1), bench.pool, bench);
      const bytes = udpPacket(ipHeader(source, destination, { trafficClass: 0xb8 | ecn }), 5, 6, new Uint8Array(9));
      assertEquals(stage.push(bench.packetOf(bytes), 0), DropReason.None);
      const p: Packet | null = stage.pull(0);
      const { lost, marked } = stage.stats();
      if (ecn === Ecn.NotEct) {
        assertEquals([p, lost, marked, bench.dropped], [null, 1, 0, [DropReason.ImpairLoss]]);
      } else {
        assertEquals([lost, marked, bench.dropped], [0, 1, []]);
        const parsed = parsePacket(p!.view, p!.start, p!.end); // checks the checksums too
        assertEquals([parsed.reason, parsed.ip.trafficClass], [DropReason.None, 0xb8 | Ecn.Ce]);
      }
    }
  }
});

Deno.test("netem: ecn loses what is no whole IP header", () => {
  for (const first of [0x45, 0x60, 0x00]) {
    for (const length of [0, 1, 19, 39]) {
      if (first === 0x45 && length >= 20) continue;
      const bench = new StageBench();
      const stage = new NetemStage(parseNetem("loss 100% ecn"), new Rng(1), bench.pool, bench);
      stage.push(bench.packetOf(new Uint8Array(length).fill(0xff).fill(first, 0, 1)), 0);
      assertEquals(bench.dropped, [DropReason.ImpairLoss]);
    }
  }
});

Deno.test("netem: the same seed decides the same, another seed differently", () => {
  const text = "delay 20ms 5ms 20% loss 5% 10% duplicate 5% reorder 5% corrupt 5% rate 50mbit";
  const run = (seed: number) => new Wire(text, seed).run(2000, 100_000, 1400);
  assertEquals(run(5), run(5));
  assert(JSON.stringify(run(5)) !== JSON.stringify(run(6)));
});

Deno.test("netem: adding an impairment leaves the decisions of the others, packet by packet, as they were", () => {
  const count = 3000;
  const run = (text: string) => new Wire(`limit 100000 ${text}`, 9).run(count, 100_000);
  const lost = (arrivals: Arrival[]) => {
    const there = new Set(arrivals.map((a) => a.n));
    return Array.from({ length: count }, (_, n) => n).filter((n) => !there.has(n));
  };
  const copied = (arrivals: Arrival[]) => new Set(arrivals.filter((a) => a.copy).map((a) => a.n));
  const ahead = (arrivals: Arrival[]) => arrivals.filter(({ n, at }) => at === n * 100_000).map((a) => a.n);

  const jitterOnly = new Map(run("delay 20ms 2ms").map((a) => [a.n, a.at]));
  const lossOnly = run("loss 5%");
  const duplicatesOnly = copied(run("duplicate 5%"));
  assertEquals(lost(run("loss 5% delay 20ms 2ms corrupt 10% reorder 10% rate 50mbit")), lost(lossOnly));
  assertEquals(copied(run("duplicate 5% delay 20ms 2ms corrupt 10% reorder 10%")), duplicatesOnly);
  assertEquals(ahead(run("delay 20ms reorder 5% corrupt 5%")), ahead(run("delay 9ms 4ms reorder 5%")));
  const all = run("delay 20ms 2ms loss 5% duplicate 5% corrupt 3% reorder 5%");
  let delayed = 0;
  for (const { n, at, copy } of all) {
    if (copy || at === n * 100_000) continue;
    delayed++;
    assertEquals(at, jitterOnly.get(n));
  }
  assert(delayed > count * 0.8);
  const plain = run("delay 20ms 2ms duplicate 5%").filter((a) => a.copy);
  const again = new Map(all.filter((a) => a.copy).map((a) => [a.n, a.at]));
  assert(plain.some((a) => again.get(a.n) === a.at), "copies draw their delays in their own order");
});

Deno.test("netem: pushed + duplicated = pulled + lost + refused + closed + held", () => {
  const config = fc.record({
    limit: fc.integer({ min: 1, max: 50 }),
    delay: fc.integer({ min: 1, max: 50 }).map((ms) => ms * MILLISECOND),
    loss: fc.constantFrom(0, 0.3, 1),
    ecn: fc.constant(false),
    duplicate: fc.constantFrom(0, 0.5, 1),
    reorder: fc.constantFrom(0, 0.3),
    corrupt: fc.constantFrom(0, 0.5),
    rateBytesPerSec: fc.constantFrom(0, 100_000),
  });
  fc.assert(fc.property(config, fc.nat(), fc.array(fc.nat(10), { maxLength: 150 }), (fields, seed, waits) => {
    const bench = new StageBench();
    const stage = new NetemStage({ ...NETEM_DEFAULTS, ...fields }, new Rng(seed), bench.pool, bench);
    let [now, refused, pulled] = [0, 0, 0];
    waits.forEach((wait, i) => {
      now += wait * MILLISECOND;
      for (let p = stage.pull(now); p !== null; p = stage.pull(now)) {
        assert(p.releaseAt <= now);
        pulled++;
        bench.pool.release(p);
      }
      const p = bench.packet(2, 100 + i);
      if (stage.push(p, now) !== DropReason.None) {
        refused++;
        bench.pool.release(p);
      }
      const { duplicated, lost, qlen, limit_drops } = stage.stats();
      assertEquals(i + 1 + duplicated!, pulled + lost! + refused + qlen!);
      assertEquals([bench.dropped.length, bench.pool.inUse, limit_drops], [lost, qlen, refused]);
      assert(qlen! <= fields.limit);
    });
    stage.close(now);
    assertEquals([bench.pool.inUse, stage.heldPackets, stage.nextAt()], [0, 0, NEVER]);
  }));
});
