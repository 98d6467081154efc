import { assert, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { WindowedMax } from "../../../src/tcp/congestion/windowed_max.ts";

Deno.test("windowed max: a maximum leaves with the window, what came after it takes over", () => {
  const m = new WindowedMax();
  assertEquals(m.value, 0);
  m.update(0, 10, 10);
  for (let t = 1; t <= 10; t++) {
    m.update(t, 5, 10);
    assertEquals(m.value, 10);
  }
  m.update(11, 5, 10);
  assertEquals(m.value, 5);
  m.update(40, 1, 10);
  assertEquals(m.value, 1, "after silence only the new value counts");
});

Deno.test("windowed max: property: between the largest of the last half window and the largest of the window", () => {
  const value = fc.record({ gap: fc.nat(3), value: fc.nat(1000) });
  fc.assert(fc.property(fc.integer({ min: 1, max: 20 }), fc.array(value, { minLength: 1 }), (length, values) => {
    const m = new WindowedMax();
    const seen: { time: number; value: number }[] = [];
    let time = 0;
    for (const v of values) {
      time += v.gap;
      seen.push({ time, value: v.value });
      m.update(time, v.value, length);
      const within = (age: number) => Math.max(...seen.filter((s) => s.time >= time - age).map((s) => s.value));
      assert(m.value <= within(length), `${m.value} was not seen in the window`);
      assert(m.value >= v.value, `${m.value} is less than the newest`);
    }
  }));
});
