/**
 * The hash table against a Map of arrays.
 *
 * @module
 */

import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import * as fc from "fast-check";
import { HashTable } from "../../src/base/hash_table.ts";

interface Thing {
  name: number;
}

/** All values under `hash`. */
function valuesUnder(table: HashTable<Thing>, hash: number): Thing[] {
  const found: Thing[] = [];
  for (let i = table.first(hash); i >= 0; i = table.following(i)) found.push(table.at(i));
  return found;
}

function sorted(things: Iterable<Thing>): number[] {
  return [...things].map((t) => t.name).sort((a, b) => a - b);
}

// Few whole hashes, so that most removals find something; some share a bucket at every size; now and then any hash.
const hashes = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 0, max: 2 }) },
  { weight: 4, arbitrary: fc.integer({ min: 1, max: 3 }).map((n) => (n << 24) | 2) },
  { weight: 1, arbitrary: fc.integer({ min: -0x80000000, max: 0x7fffffff }) },
  { weight: 1, arbitrary: fc.constantFrom(-1, 0x7fffffff, -0x80000000) },
);

Deno.test("hash table: behaves as a Map, growing and at its limit", () => {
  fc.assert(
    fc.property(
      fc.constantFrom(0, 1, 15, 16, 17, 40, 1 << 20),
      fc.array(
        fc.record({ insert: fc.integer({ min: 0, max: 4 }).map((n) => n < 3), hash: hashes, pick: fc.nat(200) }),
        { maxLength: 150, size: "max" },
      ),
      (limit, operations) => {
        const table = new HashTable<Thing>(limit);
        const model = new Map<number, Thing[]>();
        let size = 0;
        let named = 0;
        for (const { insert, hash, pick } of operations) {
          const bucket = model.get(hash) ?? [];
          if (insert) {
            const thing = { name: named++ };
            assertStrictEquals(table.insert(hash, thing), size < limit);
            if (size < limit) {
              model.set(hash, [...bucket, thing]);
              size++;
            }
          } else {
            const thing = bucket[pick % Math.max(1, bucket.length)];
            assertStrictEquals(table.remove(hash, thing ?? { name: -1 }), thing !== undefined);
            if (thing !== undefined) {
              model.set(hash, bucket.filter((t) => t !== thing));
              size--;
            }
          }
          assertStrictEquals(table.size, size);
          assertEquals(sorted(valuesUnder(table, hash)), sorted(model.get(hash) ?? []));
        }
        for (const [hash, things] of model) assertEquals(sorted(valuesUnder(table, hash)), sorted(things));
        assertEquals(sorted(table.values()), sorted([...model.values()].flat()));
      },
    ),
    { numRuns: 300 },
  );
});

Deno.test("hash table: a hash may be given as int32 or uint32", () => {
  const table = new HashTable<Thing>();
  const thing = { name: 1 };
  table.insert(0xfedcba98, thing);
  assertEquals(valuesUnder(table, 0xfedcba98 | 0), [thing]);
  assertEquals(valuesUnder(table, 0xfedcba98), [thing]);
  assert(table.remove(0xfedcba98, thing));
  assertStrictEquals(table.size, 0);
});

Deno.test("hash table: one value under two hashes of one bucket is removed from the one named", () => {
  const table = new HashTable<Thing>();
  const thing = { name: 1 };
  table.insert(0x10, thing);
  table.insert(0x20, thing);
  assert(table.remove(0x10, thing));
  assertEquals(valuesUnder(table, 0x10), []);
  assertEquals(valuesUnder(table, 0x20), [thing]);
  assert(!table.remove(0x10, thing));
});

Deno.test("hash table: the places of removed entries are used again", () => {
  const table = new HashTable<Thing>(100);
  for (let round = 0; round < 50; round++) {
    const things = Array.from({ length: 100 }, (_, name) => ({ name }));
    for (const t of things) assert(table.insert(t.name * 0x9e3779b1, t));
    assert(!table.insert(5, { name: 101 }), "beyond the limit");
    for (const t of things) assert(table.remove(t.name * 0x9e3779b1, t));
  }
  assertStrictEquals(table.size, 0);
  assertEquals([...table.values()], []);
});
