import { assert, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { Reassembly, REASSEMBLY_RANGES } from "../../src/tcp/reassembly.ts";
import { seqAdd, seqDiff } from "../../src/wire/seq.ts";

/** All blocks as distances from `base`. */
function blocks(r: Reassembly, base: number, most = 4): [number, number][] {
  const edges = new Int32Array(8);
  const n = r.blocks(edges, most);
  return Array.from({ length: n }, (_, i) => [seqDiff(edges[2 * i]!, base), seqDiff(edges[2 * i + 1]!, base)]);
}

for (const base of [0, 0x7fffff00, -0x100]) {
  Deno.test(`reassembly from ${base}: ranges join, the latest comes first`, () => {
    const r = new Reassembly();
    const add = (from: number, to: number) => assert(r.add(seqAdd(base, from), seqAdd(base, to)));
    add(100, 200);
    add(300, 400);
    add(500, 600);
    assertEquals(blocks(r, base), [[500, 600], [300, 400], [100, 200]]);
    add(150, 160);
    assertEquals(blocks(r, base), [[100, 200], [500, 600], [300, 400]]);
    add(200, 300);
    assertEquals(blocks(r, base), [[100, 400], [500, 600]]);
    add(50, 700);
    assertEquals(blocks(r, base), [[50, 700]]);
    assertEquals([r.count, r.bytes], [1, 650]);
    assertEquals(seqDiff(r.advance(seqAdd(base, 49)), base), 49);
    assertEquals(seqDiff(r.advance(seqAdd(base, 50)), base), 700);
    assertEquals([r.count, r.bytes], [0, 0]);
  });

  Deno.test(`reassembly from ${base}: property: holds what a bitmap holds, refuses only when it is out of ranges`, () => {
    const size = 600;
    const step = fc.oneof(
      { weight: 8, arbitrary: fc.record({ from: fc.nat(size - 1), length: fc.integer({ min: 1, max: 12 }) }) },
      { weight: 1, arbitrary: fc.record({ advance: fc.nat(20) }) },
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 400 }), (steps) => {
        const r = new Reassembly();
        const has = new Uint8Array(size + 100);
        let next = 0;
        const ranges = () => {
          const found: [number, number][] = [];
          for (let i = next; i < has.length; i++) {
            if (!has[i]) continue;
            const from = i;
            while (has[i]) i++;
            found.push([from, i]);
          }
          return found;
        };
        for (const s of steps) {
          if ("advance" in s) {
            next += s.advance;
            const reached = seqDiff(r.advance(seqAdd(base, next)), base);
            while (has[next]) next++;
            assertEquals(reached, next);
          } else {
            // The segment begins beyond what is next, as one in sequence is no business of this class.
            const from = Math.max(s.from, next + 1);
            const before = ranges();
            const taken = r.add(seqAdd(base, from), seqAdd(base, from + s.length));
            if (taken) {
              has.fill(1, from, from + s.length);
              const [first] = blocks(r, base);
              assert(first![0] <= from && first![1] >= from + s.length, "the first block is not the latest");
            } else assertEquals(before.length, REASSEMBLY_RANGES);
          }
          const expected = ranges();
          assertEquals(r.count, expected.length);
          assertEquals(r.bytes, expected.reduce((sum, [a, b]) => sum + b - a, 0));
          const some = blocks(r, base);
          assertEquals(some.length, Math.min(4, expected.length));
          assertEquals(new Set(some.map(String)).size, some.length);
          for (const b of some) assert(expected.some((e) => String(e) === String(b)), `no range ${b}`);
          const end = expected.at(-1)?.[1] ?? 0;
          assertEquals([r.reaches(seqAdd(base, end - 1)), r.reaches(seqAdd(base, end))], [expected.length > 0, false]);
        }
      }),
      { numRuns: 50 },
    );
  });
}

Deno.test("reassembly: one range too many is refused and changes nothing; one that joins is not", () => {
  const r = new Reassembly();
  for (let i = 0; i < REASSEMBLY_RANGES; i++) assert(r.add(10 * i, 10 * i + 1));
  const before = blocks(r, 0);
  assertEquals(r.add(5, 6), false);
  assertEquals([blocks(r, 0), r.count], [before, REASSEMBLY_RANGES]);
  assert(r.add(1, 2));
  assert(r.add(2, 10));
  assertEquals(r.count, REASSEMBLY_RANGES - 1);
  assert(r.add(5000, 5001));
});

Deno.test("reassembly: blocks are never more than asked for, and none of an empty one", () => {
  const r = new Reassembly();
  assertEquals(blocks(r, 0), []);
  assertEquals(r.reaches(0), false);
  for (let i = 0; i < 10; i++) r.add(10 * i, 10 * i + 1);
  for (let most = 0; most <= 4; most++) assertEquals(blocks(r, 0, most).length, most);
  r.clear();
  assertEquals([blocks(r, 0), r.count, r.bytes], [[], 0, 0]);
  r.add(1, 2);
  assertEquals(blocks(r, 0), [[1, 2]]);
});
