/**
 * Changing an impairment while packets are under way: nothing is lost, overtaken or drawn anew that should not be.
 *
 * @module
 */

import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { Rng } from "../../src/base/rng.ts";
import { MILLISECOND, SECOND } from "../../src/base/time.ts";
import { NETEM_DEFAULTS } from "../../src/impair/config.ts";
import { parseNetem } from "../../src/impair/parse.ts";
import { type Arrival, Wire } from "../testing/wire.ts";

/** Sends a packet every millisecond and changes the impairment every `every` packets. */
function underLoad(first: string, count: number, every: number, next: (k: number) => string): [Wire, Arrival[]] {
  const wire = new Wire(first);
  const out: Arrival[] = [];
  for (let i = 0; i < count; i++) {
    const now = i * MILLISECOND;
    out.push(...wire.arrivals(now));
    if (i > 0 && i % every === 0) wire.stage.change(parseNetem(next(i / every)), now);
    wire.send(now, 500);
  }
  return [wire, [...out, ...wire.arrivals()]];
}

Deno.test("change: a thousand changes of delay and rate under load lose and reorder nothing", () => {
  const rng = new Rng(4);
  const [wire, arrivals] = underLoad("delay 50ms limit 100000", 10_000, 10, () => {
    const delay = `delay ${rng.below(100)}ms`;
    const rate = ["", "rate 4mbit", "rate 40mbit 20 48 5", "rate 2mbit"][rng.below(4)];
    const order = rng.chance(0.5) ? "" : `${rng.below(5)}ms jitter keep-order`;
    return delay === "delay 0ms"
      ? `${rate} limit 100000`
      : `delay ${10 + rng.below(90)}ms ${order} ${rate} limit 100000`;
  });
  assertEquals(arrivals.map(({ n }) => n), Array.from({ length: 10_000 }, (_, n) => n));
  const { lost, limit_drops, closed, duplicated } = wire.stage.stats();
  assertEquals([lost, limit_drops, closed, duplicated, wire.bench.pool.inUse], [0, 0, 0, 0, 0]);
});

Deno.test("change: a thousand changes of everything lose only what they are to lose, and never leak", () => {
  const rng = new Rng(5);
  const parts = [
    ...["delay 20ms", "delay 20ms 10ms", "delay 5ms 1ms 30% distribution normal", "delay 9ms 3ms jitter keep-order"],
    ...["rate 4mbit", "slot 1ms 3ms packets 5", "reorder 10% delay 10ms", "duplicate 10% 20%", "corrupt 5%"],
    ...["loss 5%", "loss 5% 30%", "loss gemodel 1% 20%", "loss state 2% 40%", "compat linux delay 3ms 9ms", "seed 7"],
  ];
  const [wire, arrivals] = underLoad("limit 500", 10_000, 10, () => {
    const chosen = [parts[rng.below(parts.length)]!, parts[rng.below(parts.length)]!];
    const text = `${chosen.join(" ")} limit ${100 + rng.below(500)}`;
    try {
      parseNetem(text);
      return text;
    } catch {
      return `${chosen[0]} limit 300`;
    }
  });
  const { pushed, duplicated, lost, limit_drops } = wire.stage.stats();
  assertEquals(pushed, 10_000);
  assertEquals(pushed! + duplicated!, arrivals.length + lost! + limit_drops!);
  assertEquals(wire.bench.pool.inUse, 0);
  const { corrupted } = wire.stage.stats();
  assert(lost! > 50 && duplicated! > 50 && corrupted! > 20, `${lost} ${duplicated} ${corrupted}`);
  const originals = arrivals.filter(({ copy }) => !copy).map(({ n }) => n);
  assertEquals(new Set(originals).size, originals.length, "a packet arrived twice");
});

Deno.test("change: jitter may reorder while it is there, and not before or behind it", () => {
  const [, arrivals] = underLoad("delay 20ms", 900, 300, (k) => k === 1 ? "delay 20ms 15ms" : "delay 20ms");
  const order = arrivals.map(({ n }) => n);
  const isOrdered = (from: number, to: number) => {
    const part = order.filter((n) => n >= from && n < to);
    return part.every((n, i) => i === 0 || n > part[i - 1]!);
  };
  assertEquals([isOrdered(0, 300), isOrdered(300, 600), isOrdered(600, 900)], [true, false, true]);
  assert(order.indexOf(600) > Math.max(...order.map((n, i) => n < 600 ? i : 0)), "overtook what had come before");
});

Deno.test("change: packets keep the delay with which they came", () => {
  const wire = new Wire("delay 100ms");
  wire.send(0);
  wire.stage.change(parseNetem("delay 300ms"), 10 * MILLISECOND);
  wire.send(10 * MILLISECOND);
  wire.stage.change({ ...NETEM_DEFAULTS }, 20 * MILLISECOND);
  wire.send(20 * MILLISECOND);
  assertEquals(wire.arrivals().map(({ n, at }) => [n, at / MILLISECOND]), [[0, 100], [1, 310], [2, 310]]);
});

Deno.test("change: what was not transmitted yet is transmitted at the new rate, the rest of a packet too", () => {
  const arrivals = (to: string) => {
    const wire = new Wire("rate 8kbit");
    for (let i = 0; i < 3; i++) wire.send(0, 1000);
    wire.stage.change(parseNetem(to), SECOND / 4);
    return wire.arrivals().map(({ at }) => at / SECOND);
  };
  // Three quarters of the first packet are left.
  assertEquals(arrivals("rate 80kbit"), [0.325, 0.425, 0.525]);
  assertEquals(arrivals("rate 4kbit"), [1.75, 3.75, 5.75]);
  assertEquals(arrivals(""), [0.25, 0.25, 0.25]);
  assertEquals(arrivals("rate 8kbit delay 5s"), [1, 2, 3]);
  const wire = new Wire("delay 1s");
  for (let i = 0; i < 2; i++) wire.send(0, 1000);
  wire.stage.change(parseNetem("rate 8kbit"), SECOND / 2);
  assertEquals(wire.arrivals().map(({ at }) => at / SECOND), [2, 3]);
});

Deno.test("change: due packets stay due, and a lower limit refuses only what comes later", () => {
  const wire = new Wire("delay 10ms limit 5");
  for (let i = 0; i < 5; i++) wire.send(0);
  wire.stage.change(parseNetem("delay 10ms rate 8kbit limit 2"), 20 * MILLISECOND);
  assertEquals([wire.stage.heldPackets, wire.stage.nextAt()], [5, 10 * MILLISECOND]);
  wire.send(20 * MILLISECOND);
  assertEquals(wire.refused, [5]);
  assertEquals(wire.arrivals().map(({ at }) => at), new Array(5).fill(10 * MILLISECOND));
});

Deno.test("change: random streams go on; adding, changing and removing a part leaves the others' draws alone", () => {
  const lost = (change: (wire: Wire, i: number) => void) => {
    const wire = new Wire("loss gemodel 2% 20% limit 100000", 8);
    for (let i = 0; i < 4000; i++) {
      change(wire, i);
      wire.send(i);
    }
    const there = new Set(wire.arrivals().map(({ n }) => n));
    return Array.from({ length: 4000 }, (_, n) => n).filter((n) => !there.has(n));
  };
  const plain = lost(() => {});
  const base = "loss gemodel 2% 20% limit 100000";
  const others = ["", "delay 1ms 1ms", "corrupt 5%", "delay 1ms reorder 5%", "rate 8gbit", "ecn"];
  assertEquals(
    lost((wire, i) => {
      if (i % 4 === 3) wire.stage.change(parseNetem(`${base} ${others[(i >> 2) % others.length]}`), i);
    }),
    plain,
  );
  assert(plain.length > 200);
  // Switched off, a part does not draw; switched on again it goes on where it was.
  const paused = new Wire("loss 20% limit 100000", 8);
  for (let i = 0; i < 300; i++) {
    if (i === 100) paused.stage.change(parseNetem("limit 100000"), i);
    if (i === 200) paused.stage.change(parseNetem("loss 20% limit 100000"), i);
    paused.send(i);
  }
  const whole = new Wire("loss 20% limit 100000", 8);
  for (let i = 0; i < 200; i++) whole.send(i);
  const there = new Set(paused.arrivals().map(({ n }) => n));
  const expected = new Set(whole.arrivals().map(({ n }) => n < 100 ? n : n + 100));
  for (let n = 0; n < 300; n++) if (n < 100 || n >= 200) assertEquals(there.has(n), expected.has(n), `${n}`);
});

Deno.test("change: a seed of its own makes an impairment repeat, whatever the host's is", () => {
  const run = (seed: number, text: string) => new Wire(text, seed).run(500, 1000);
  assertEquals(run(1, "loss 10% delay 1ms 1ms seed 5"), run(2, "loss 10% delay 1ms 1ms seed 5"));
  assert(run(1, "loss 10% seed 5").length !== run(1, "loss 10% seed 6").length);
});

Deno.test("change: what is wrong is refused, and nothing is changed", () => {
  const wire = new Wire("delay 5ms");
  assertThrows(() => wire.stage.change({ ...NETEM_DEFAULTS, loss: 2 }, 0), RangeError, "netem loss must be");
  assertEquals(wire.stage.config.delay, 5 * MILLISECOND);
  wire.send(0);
  assertEquals(wire.arrivals()[0]!.at, 5 * MILLISECOND);
});

Deno.test("change: the report is of what is asked for now", () => {
  const wire = new Wire("delay 5ms");
  for (let i = 0; i < 100; i++) wire.send(i);
  wire.stage.change(parseNetem("delay 9ms loss 50%"), MILLISECOND);
  for (let i = 0; i < 100; i++) wire.send(MILLISECOND + i);
  wire.arrivals();
  const report = wire.stage.report(SECOND);
  assertEquals([report.since, report.pushed, report.netem], [MILLISECOND, 100, "delay 9ms loss 50%"]);
  assertAlmostEquals(report.own.given!.mean, 9 * MILLISECOND, 10);
  assertEquals(wire.stage.stats()["pushed"], 200);
});
