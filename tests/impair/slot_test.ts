/**
 * Slots: what leaves when, and that looking does not change it.
 *
 * @module
 */

import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { MILLISECOND, NEVER } from "../../src/base/time.ts";
import { type Arrival, Wire } from "../testing/wire.ts";

const inMs = (arrivals: Arrival[]) => arrivals.map(({ n, at }) => [n, at / MILLISECOND]);

Deno.test("slot: what has come by its opening leaves in it at once; the next one is asked for by who comes later", () => {
  const wire = new Wire("slot 10ms");
  for (const at of [0, 4, 9, 15, 40]) {
    wire.arrivals(at * MILLISECOND - 1);
    wire.send(at * MILLISECOND);
  }
  assertEquals(inMs(wire.arrivals()), [[4, 50]]);
  const again = new Wire("slot 10ms");
  for (const at of [0, 4, 9]) again.send(at * MILLISECOND);
  assertEquals(inMs(again.arrivals(20 * MILLISECOND)), [[0, 10], [1, 10], [2, 10]]);
  again.send(25 * MILLISECOND);
  assertEquals(inMs(again.arrivals()), [[3, 35]]);
});

Deno.test("slot: after its packets, or the packet that exceeds its bytes, the next slot is awaited", () => {
  const packets = new Wire("slot 10ms packets 2");
  for (let i = 0; i < 5; i++) packets.send(0);
  assertEquals(inMs(packets.arrivals()), [[0, 10], [1, 10], [2, 20], [3, 20], [4, 30]]);
  const bytes = new Wire("slot 10ms bytes 150");
  for (let i = 0; i < 5; i++) bytes.send(0, 100);
  assertEquals(inMs(bytes.arrivals()), [[0, 10], [1, 10], [2, 20], [3, 20], [4, 30]]);
});

Deno.test("slot: a packet is delayed first, and then waits for its slot", () => {
  const wire = new Wire("delay 100ms slot 10ms packets 1");
  for (let i = 0; i < 3; i++) wire.send(0);
  assertEquals(wire.stage.nextAt(), 110 * MILLISECOND);
  assertEquals(inMs(wire.arrivals()), [[0, 110], [1, 120], [2, 130]]);
});

Deno.test("slot: times are uniform from the least to the most, or distributed", () => {
  const gaps = (text: string) => {
    const wire = new Wire(`${text} packets 1 limit 100000`);
    for (let i = 0; i < 20_000; i++) wire.send(0);
    return wire.arrivals().map(({ at }, i, all) => (at - (i === 0 ? 0 : all[i - 1]!.at)) / MILLISECOND);
  };
  const mean = (list: number[]) => list.reduce((sum, x) => sum + x, 0) / list.length;
  const uniform = gaps("slot 2ms 6ms");
  assert(Math.min(...uniform) >= 2 && Math.max(...uniform) <= 6);
  assertAlmostEquals(mean(uniform), 4, 0.04);
  const normal = gaps("slot distribution normal 10ms 2ms");
  const middle = mean(normal);
  assertAlmostEquals(middle, 10, 0.06);
  assertAlmostEquals(Math.sqrt(mean(normal.map((x) => (x - middle) ** 2))), 2, 0.05);
});

Deno.test("slot: looking too early changes nothing", () => {
  const run = (looks: number) => {
    const wire = new Wire("delay 5ms 2ms slot 1ms 4ms packets 3", 5);
    const out: Arrival[] = [];
    for (let i = 0; i < 500; i++) {
      const now = i * MILLISECOND;
      out.push(...wire.arrivals(now - 1));
      for (let k = 0; k < looks; k++) {
        wire.stage.nextAt();
        assert(wire.stage.nextAt() >= now || wire.stage.nextAt() === NEVER);
        assertEquals(wire.stage.pull(Math.min(now, wire.stage.nextAt() - 1)), null);
      }
      wire.send(now);
    }
    return [...out, ...wire.arrivals()];
  };
  assertEquals(run(3), run(0));
  assertEquals(run(0).length, 500);
});
