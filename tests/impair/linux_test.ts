/**
 * `compat linux`: the generator, the order of draws, and what Linux does differently.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { DropReason } from "../../src/base/drop.ts";
import { Rng } from "../../src/base/rng.ts";
import { MILLISECOND, NEVER } from "../../src/base/time.ts";
import { Lfsr113 } from "../../src/impair/lfsr113.ts";
import { NetemStage } from "../../src/impair/netem_stage.ts";
import { parseNetem } from "../../src/impair/parse.ts";
import { Ecn } from "../../src/wire/ip_header.ts";
import { ipHeader, udpPacket } from "../testing/packets.ts";
import { StageBench } from "../testing/stage_bench.ts";
import { Wire } from "../testing/wire.ts";

/** The k, q and s of the components: bit n + k is bit n + q xor bit n, and s bits are passed a step. */
const COMPONENTS = [[31, 6, 18, 2], [29, 2, 2, 8], [28, 13, 7, 16], [25, 3, 13, 128]] as const;

/** The generator bit by bit, from the recurrences of its components. */
function bitwise(seed: bigint, count: number): number[] {
  const word = Number(((seed >> 32n) ^ (seed << 10n) ^ seed) & 0xffffffffn);
  const sequences = COMPONENTS.map(([k, q, s, least]) => {
    const first = word < least ? word + least : word;
    const bits = Array.from({ length: k }, (_, i) => (first >>> (31 - i)) & 1);
    for (let n = 0; bits.length < count * s + 64; n++) bits.push(bits[n]! ^ bits[n + q]!);
    return bits;
  });
  return Array.from({ length: count }, (_, step) => {
    let out = 0;
    for (let i = 0; i < 32; i++) {
      const bit = sequences.reduce((x, bits, c) => x ^ bits[(step + 1) * COMPONENTS[c]![2] + i]!, 0);
      out = (out << 1) | bit;
    }
    return out >>> 0;
  });
}

Deno.test("lfsr113: the words are those of its four recurrences, for seeds of all sizes", () => {
  for (const seed of [0, 1, 7, 0xffffffff, 2 ** 32, 123_456_789_012_345, Number.MAX_SAFE_INTEGER]) {
    const prng = new Lfsr113(seed);
    const words = Array.from({ length: 300 }, () => prng.u32());
    assertEquals(words, bitwise(BigInt(seed), 300), `${seed}`);
  }
});

Deno.test("compat linux: draws come from one generator in Linux's order", () => {
  const text = "compat linux seed 42 delay 10ms 1ms loss 30% duplicate 20% corrupt 10% reorder 25% gap 2 limit 100000";
  const wire = new Wire(text);
  const prng = new Lfsr113(42);
  const happens = (share: number) => Math.round(share * 0xffffffff) >= prng.u32();
  let counter = 0;
  let corrupted = 0;
  const expected: [n: number, isCopy: boolean, at: number][] = [];
  /** Copy, or the packet itself: reordered, or delayed. */
  const time = (): number => {
    if (counter >= 1 && happens(0.25)) {
      counter = 0;
      return 0;
    }
    counter++;
    return prng.u32() % (2 * MILLISECOND) + 9 * MILLISECOND;
  };
  const count = 500;
  for (let n = 0; n < count; n++) {
    wire.send(0);
    const duplicated = happens(0.2);
    const copies = (duplicated ? 2 : 1) - (happens(0.3) ? 1 : 0);
    if (copies === 0) continue;
    if (happens(0.1)) corrupted++;
    if (copies === 2 && !happens(0.3)) {
      if (happens(0.1)) corrupted++;
      expected.push([n, true, time()]);
    }
    expected.push([n, false, time()]);
  }
  const arrived = wire.arrivals().map(({ n, at, copy }): [number, boolean, number] => [n, copy, at]);
  const inOrder = (list: [number, boolean, number][]) =>
    list.sort((a, b) => a[2] - b[2] || a[0] - b[0] || Number(a[1]) - Number(b[1]));
  assertEquals(inOrder(arrived), inOrder(expected));
  assertEquals(wire.stage.stats()["corrupted"], corrupted);
});

Deno.test("compat linux: a copy is lost by itself, and by default it is not", () => {
  const count = 20_000;
  const both = (text: string) => {
    const arrivals = new Wire(`${text} duplicate 100% loss 50% limit 100000`, 3).run(count, 1);
    const copies = arrivals.filter(({ copy }) => copy).length;
    return [copies / count, (arrivals.length - copies) / count];
  };
  // Half of the packets keep both copies; Linux loses half of these copies once more.
  const [linux] = both("compat linux");
  const [own, originals] = both("");
  assert(Math.abs(linux! - 0.25) < 0.015, `${linux}`);
  assert(Math.abs(own! - 0.5) < 0.015, `${own}`);
  assertEquals(originals, 1);
});

Deno.test("compat linux: packets that go ahead leave first, the last one before the others", () => {
  const arrivals = (text: string) => {
    const wire = new Wire(text);
    for (let i = 0; i < 6; i++) wire.send(i);
    return wire.arrivals().map(({ n }) => n);
  };
  assertEquals(arrivals("compat linux delay 10ms gap 2"), [5, 3, 1, 0, 2, 4]);
  assertEquals(arrivals("delay 10ms gap 2"), [1, 3, 5, 0, 2, 4]);
  const wire = new Wire("compat linux delay 10ms gap 2 limit 3");
  for (let i = 0; i < 6; i++) wire.send(0);
  assertEquals(wire.refused, [3, 4, 5], "packets that went ahead count for the limit");
  assertEquals([wire.stage.heldPackets, wire.stage.heldBytes], [3, 300]);
  wire.stage.close(0);
  assertEquals([wire.stage.heldPackets, wire.stage.nextAt(), wire.bench.pool.inUse], [0, NEVER, 0]);
});

Deno.test("compat linux: a delay may be negative, and such a packet overtakes", () => {
  const config = parseNetem("compat linux delay 1ms 5ms");
  const wire = new Wire(config);
  let early = 0;
  for (let i = 0; i < 300; i++) {
    wire.send(1000 * MILLISECOND);
    if (wire.stage.nextAt() < 1000 * MILLISECOND) early++;
    wire.arrivals(1000 * MILLISECOND);
  }
  // From −4 to 6 ms.
  assert(early > 80 && early < 160, `${early}`);
  wire.arrivals();
});

Deno.test("compat linux: an ECN mark counts as a drop, and delivers", () => {
  for (const compat of ["compat linux", ""]) {
    const bench = new StageBench();
    const stage = new NetemStage(parseNetem(`${compat} loss 100% ecn`), new Rng(1), bench.pool, bench);
    const bytes = udpPacket(ipHeader("10.7.0.1", "10.7.0.2", { trafficClass: Ecn.Ect0 }), 5, 6, new Uint8Array(9));
    assertEquals(stage.push(bench.packetOf(bytes), 0), DropReason.None);
    assert(stage.pull(0) !== null);
    const { drops, lost, marked } = stage.stats();
    assertEquals([drops, lost, marked], [compat === "" ? 0 : 1, 0, 1]);
    assertEquals(bench.dropped, []);
  }
});

Deno.test("compat linux: reference vectors of rate and reordering hold too", () => {
  const rate = new Wire("compat linux delay 100ms rate 1mbit");
  for (let i = 0; i < 3; i++) rate.send(0, 1250);
  assertEquals(rate.arrivals().map(({ at }) => at / MILLISECOND), [110, 120, 130]);
  const jittered = new Wire("compat linux delay 100ms 80ms rate 1mbit");
  for (let i = 0; i < 100; i++) jittered.send(i * MILLISECOND, 1250);
  jittered.arrivals().forEach(({ n, at }, i, all) => {
    assertEquals(n, i);
    assert(i === 0 || at - all[i - 1]!.at >= 10 * MILLISECOND);
  });
  const gaps = new Wire("compat linux delay 10ms reorder 100% gap 5").run(20, MILLISECOND);
  for (const { n, at } of gaps) assertEquals(at - n * MILLISECOND, n % 5 === 4 ? 0 : 10 * MILLISECOND);
});

Deno.test("compat linux: a duplicated and lost packet arrives exactly once", () => {
  const wire = new Wire("compat linux duplicate 100% loss 100%");
  assertEquals(wire.run(50, 1).map(({ n }) => n), Array.from({ length: 50 }, (_, n) => n));
  assertEquals(wire.bench.dropped, []);
});

Deno.test("compat linux: pushed + duplicated = pulled + lost + refused + held", () => {
  const text = "compat linux delay 5ms 4ms loss 20% 10% duplicate 30% corrupt 10% reorder 20% rate 8mbit limit 20 " +
    "slot 1ms 2ms packets 3";
  for (let seed = 1; seed <= 20; seed++) {
    const wire = new Wire(text, seed);
    const pulled = wire.run(400, MILLISECOND / 3, 200).length;
    const { pushed, duplicated, lost, limit_drops, qlen } = wire.stage.stats();
    assertEquals(pushed! + duplicated!, pulled + lost! + limit_drops! + qlen!);
    assertEquals([wire.bench.pool.inUse, qlen], [0, 0]);
  }
});

Deno.test("compat linux: the model of Gilbert and Elliott loses in the bad state by the upper end of a draw", () => {
  for (
    const [text, p, r, badLoss, goodLoss] of [
      ["gemodel 20% 40% 30% 5%", 0.2, 0.4, 0.3, 0.05],
      ["gemodel 50% 10%", 0.5, 0.1, 1, 0],
    ] as const
  ) {
    const wire = new Wire(`compat linux seed 9 loss ${text} limit 100000`);
    const prng = new Lfsr113(9);
    const count = (share: number) => Math.round(share * 0xffffffff);
    let isBad = false;
    const expected: number[] = [];
    for (let n = 0; n < 2000; n++) {
      wire.send(0);
      const wasBad = isBad;
      if (prng.u32() < count(wasBad ? r : p)) isBad = !isBad;
      const draw = prng.u32();
      if (!(wasBad ? draw > 0xffffffff - count(badLoss) : draw < count(goodLoss))) expected.push(n);
    }
    assertEquals(wire.arrivals().map(({ n }) => n), expected);
  }
});
