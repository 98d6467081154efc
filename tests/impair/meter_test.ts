/**
 * What a link gave: histogram and standard errors against slow ways to the same, and reports against what was asked for.
 *
 * @module
 */

import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import fc from "fast-check";
import { Rng } from "../../src/base/rng.ts";
import { MICROSECOND, MILLISECOND, SECOND } from "../../src/base/time.ts";
import { NETEM_DEFAULTS } from "../../src/impair/config.ts";
import { RatioEstimate } from "../../src/impair/estimate.ts";
import { DurationHistogram } from "../../src/impair/histogram.ts";
import type { NetemFigure, NetemReport } from "../../src/impair/meter.ts";
import { parseNetem } from "../../src/impair/parse.ts";
import { parseTrace } from "../../src/impair/trace.ts";
import { Wire } from "../testing/wire.ts";

Deno.test("histogram: quantiles err by at most 1/128, mean and standard deviation not at all", () => {
  const values = fc.array(fc.oneof(fc.nat(200), fc.nat(), fc.integer({ min: 0, max: 2 ** 48 - 1 })), {
    minLength: 1,
    maxLength: 200,
  });
  fc.assert(fc.property(values, fc.double({ min: 0, max: 1, noNaN: true }), (list, share) => {
    const histogram = new DurationHistogram();
    for (const value of list) histogram.add(value);
    const sorted = list.toSorted((a, b) => a - b);
    const exact = sorted[Math.max(1, Math.ceil(share * list.length)) - 1]!;
    assert(Math.abs(histogram.quantile(share) - exact) <= exact / 128, `${histogram.quantile(share)} ${exact}`);
    const mean = list.reduce((sum, x) => sum + x, 0) / list.length;
    assertAlmostEquals(histogram.mean, mean, mean * 1e-9 + 1e-9);
    assertEquals([histogram.least, histogram.most], [sorted[0], sorted.at(-1)]);
  }));
});

Deno.test("histogram: nothing, and values beyond its range", () => {
  const histogram = new DurationHistogram();
  assert(Number.isNaN(histogram.quantile(0.5)));
  histogram.add(2 ** 50);
  assertEquals(histogram.quantile(0.5), 2 ** 50);
});

Deno.test("estimate: the standard error of independent and of alike neighbours is the right one", () => {
  // Over many series the squared errors are as large as the estimate says.
  for (const rho of [0, 0.9]) {
    let [squared, claimed] = [0, 0];
    const runs = 300;
    const count = 20_000;
    for (let run = 0; run < runs; run++) {
      const rng = new Rng(run + 1);
      const estimate = new RatioEstimate();
      let x = rng.unit() - 0.5;
      for (let i = 0; i < count; i++) {
        x = rng.unit() < rho ? x : rng.unit() - 0.5;
        estimate.add(x, 1);
      }
      squared += estimate.value ** 2;
      claimed += estimate.standardError ** 2;
    }
    const exact = (1 + rho) / (1 - rho) / 12 / count;
    assertAlmostEquals(squared / runs / exact, 1, 4 * Math.sqrt(2 / runs), `${rho}`);
    assertAlmostEquals(claimed / runs / exact, 1, 0.12, `${rho}`);
  }
});

Deno.test("estimate: the first members count, and too few give no error", () => {
  const estimate = new RatioEstimate();
  assert(Number.isNaN(estimate.value));
  estimate.add(3, 2);
  assertEquals([estimate.value, estimate.standardError], [1.5, NaN]);
  for (let i = 0; i < 1000; i++) estimate.add(3, 2);
  assertEquals([estimate.value, estimate.standardError, estimate.count], [1.5, 0, 1001]);
});

function assertGiven(figure: NetemFigure, what: string): void {
  const { asked, given, standardError } = figure;
  assert(Math.abs(given! - asked!) <= 4 * standardError! + 1e-9, `${what}: ${JSON.stringify(figure)}`);
}

function report(text: string, count: number, spacing: number, lengthBytes = 100): NetemReport {
  const wire = new Wire(`${text} limit 1000000`, 2);
  wire.run(count, spacing, lengthBytes);
  return wire.stage.report(count * spacing);
}

Deno.test("report: what was given is what was asked for, within the standard errors", () => {
  const texts = [
    "delay 20ms 5ms loss 2% duplicate 1% corrupt 3% reorder 10%",
    "delay 20ms 5ms 30% distribution normal loss gemodel 1% 20%",
    "delay 20ms 5ms distribution pareto loss state 1% 30% 20% 50% 0.5% reorder 50% gap 3",
    "delay 20ms 5ms distribution paretonormal loss 5% 40% duplicate 5% 20% corrupt 1% 10%",
    "compat linux delay 20ms 2ms distribution normal loss 1% duplicate 2%",
  ];
  for (const text of texts) {
    const r = report(text, 60_000, MILLISECOND);
    for (const figure of ["loss", "duplicate", "corrupt", "ahead"] as const) {
      assertGiven(r[figure], `${text} ${figure}`);
    }
    const { asked, given, standardError } = r.own;
    // Linux draws copies like packets of their own, and ours never go ahead: both only matter beyond these bounds.
    assertAlmostEquals(given!.mean, asked!.mean, 4 * standardError!.mean + 0.002 * asked!.mean, `${text} mean`);
    for (const name of ["p10", "p50", "p90"] as const) {
      const bound = 5 * standardError!.quantiles[name] + asked!.quantiles[name] / 64;
      assertAlmostEquals(given!.quantiles[name], asked!.quantiles[name], bound, `${text} ${name}`);
    }
    assertEquals([r.late!.mean, r.saturation.link, r.saturation.refused], [0, null, 0]);
    assertEquals(r.netem.startsWith(text.slice(0, 11)), true);
  }
});

Deno.test("report: a saturated rate is measured to a thousandth, also when packets are pulled late", () => {
  for (const text of ["rate 50mbit", "delay 30ms 10ms rate 50mbit", "rate 50mbit slot 1ms 2ms"]) {
    const r = report(text, 30_000, 200 * MICROSECOND, 1400);
    assertAlmostEquals(r.rate.given! / r.rate.asked!, 1, 0.001, text);
    assert(r.rate.packets > 25_000);
    assertAlmostEquals(r.saturation.link!, 1, 0.01, text);
    assert(r.saturation.queuePeak > 0.003);
  }
  const wire = new Wire("rate 50mbit limit 100000");
  for (let i = 0; i < 20_000; i++) wire.send(0, 1400);
  for (let now = 0; wire.stage.heldPackets > 0; now += 3 * MILLISECOND) {
    for (let p = wire.stage.pull(now); p !== null; p = wire.stage.pull(now)) wire.bench.pool.release(p);
  }
  const late = wire.stage.report(10 * SECOND);
  assertAlmostEquals(late.rate.given! / late.rate.asked!, 1, 0.001);
  assertAlmostEquals(late.late!.mean, 1.5 * MILLISECOND, 0.05 * MILLISECOND);
  assert(late.total!.mean > late.own.given!.mean);
});

Deno.test("report: a link that is idle half of the time says so, and measures its rate in spells", () => {
  const wire = new Wire("delay 20ms rate 8mbit limit 1000");
  for (let spell = 0; spell < 100; spell++) {
    wire.arrivals(spell * 20 * MILLISECOND);
    for (let i = 0; i < 10; i++) wire.send(spell * 20 * MILLISECOND, 1000);
  }
  wire.arrivals();
  const r = wire.stage.report(2 * SECOND);
  assertAlmostEquals(r.saturation.link!, 0.5, 0.01);
  assertAlmostEquals(r.rate.given!, 1_000_000, 1);
  assertEquals(r.rate.packets, 900);
  assertEquals([r.saturation.queue, r.saturation.queuePeak], [0, 0.02]);
});

Deno.test("report: reordering is what RFC 4737 says it is", () => {
  // Every fifth packet goes 10 ms ahead of those before it: the four that it passed are late, once they have come.
  const r = report("delay 10ms reorder 100% gap 5", 50_000, MILLISECOND);
  assertAlmostEquals(r.ahead.given!, 0.2, 0.001);
  assertAlmostEquals(r.reordered.given!, 0.8, 0.001);
  assertEquals(report("delay 10ms duplicate 50%", 5000, MILLISECOND).reordered.given, 0);
  assertEquals(report("delay 10ms 5ms jitter keep-order", 5000, MILLISECOND).reordered.given, 0);
  assert(report("delay 10ms 5ms", 5000, MILLISECOND).reordered.given! > 0.3);
});

Deno.test("report: marks count as asked for, refusals and a full queue are told", () => {
  const wire = new Wire("loss 10% delay 1s limit 100");
  for (let i = 0; i < 1000; i++) wire.send(i);
  const { saturation, loss, pushed, pulled } = wire.stage.report(1000);
  assertEquals([saturation.queue, saturation.queuePeak, pushed, pulled], [1, 1, 1000, 0]);
  assertEquals(saturation.refused, wire.refused.length);
  assertGiven(loss, "loss is of all packets, not of those taken");
  wire.stage.close(1000);
  assertEquals([wire.stage.stats()["closed"], wire.bench.pool.inUse], [100, 0]);
});

Deno.test("report: before the first packet, and for what changes with time, there are no figures", () => {
  const empty = new Wire("delay 5ms rate 1mbit").stage.report(5);
  assertEquals([empty.own.given, empty.total, empty.late, empty.loss.given, empty.rate.given], [
    ...[null, null, null, null, null],
  ]);
  assertEquals(empty.since, -1);
  const trace = parseTrace("t", "0s 5ms 1% 1mbit", false);
  const { own, loss, rate } = new Wire({ ...NETEM_DEFAULTS, trace }).stage.report(0);
  assertEquals([own.asked, loss.asked, rate.asked], [null, null, null]);
  JSON.stringify(empty);
});

Deno.test("report: an ECN mark is a loss that was asked for, and a delivery", () => {
  const wire = new Wire(parseNetem("loss 100% ecn"));
  const p = wire.bench.packetOf(new Uint8Array(40).fill(0x45, 0, 1).fill(2, 1, 2));
  p.view.setUint16(p.start + 2, 40);
  wire.stage.push(p, 0);
  assertEquals(wire.stage.stats()["marked"], 1);
  assertEquals([wire.stage.report(0).loss.given, wire.stage.stats()["drops"]], [1, 0]);
});
