/**
 * The deadline heap against a sorted array.
 *
 * @module
 */

import { assertEquals, assertStrictEquals } from "@std/assert";
import * as fc from "fast-check";
import { DeadlineHeap } from "../../src/base/deadline_heap.ts";
import { NEVER } from "../../src/base/time.ts";

/** The slow model: an array that is sorted by deadline, then by when the deadline was set. */
class SortedDeadlines {
  #entries: { id: number; deadline: number; order: number }[] = [];
  #order = 0;

  get size(): number {
    return this.#entries.length;
  }

  get(id: number): number {
    return this.#entries.find((e) => e.id === id)?.deadline ?? NEVER;
  }

  nextAt(): number {
    return this.#entries[0]?.deadline ?? NEVER;
  }

  nextId(): number {
    return this.#entries[0]?.id ?? -1;
  }

  set(id: number, deadline: number): void {
    if (this.get(id) === deadline) return;
    this.clear(id);
    if (deadline === NEVER) return;
    this.#entries.push({ id, deadline, order: this.#order++ });
    this.#entries.sort((a, b) => a.deadline - b.deadline || a.order - b.order);
  }

  clear(id: number): void {
    this.#entries = this.#entries.filter((e) => e.id !== id);
  }

  popDue(now: number): number {
    if (this.nextAt() > now) return -1;
    return this.#entries.shift()?.id ?? -1;
  }
}

// Few ids and few instants, so that ties and moves are the rule.
const id = fc.integer({ min: 0, max: 40 });
const instant = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 0, max: 12 }) },
  { weight: 1, arbitrary: fc.constantFrom(0, 2 ** 53 - 1, NEVER) },
);
const operation = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("set" as const), id, at: instant }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("clear" as const), id, at: instant }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("pop" as const), id, at: instant }) },
);

Deno.test("deadline heap: behaves as a sorted array", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 8 }),
      fc.array(operation, { maxLength: 150, size: "max" }),
      (capacity, operations) => {
        const heap = new DeadlineHeap(capacity);
        const model = new SortedDeadlines();
        for (const op of operations) {
          if (op.kind === "set") {
            if (op.id % 2 === 0) {
              heap.set(op.id, op.at);
            } else {
              // The same in steps.
              heap.reserve(op.id);
              heap.wanted[op.id] = op.at;
              heap.update(op.id);
            }
            model.set(op.id, op.at);
          } else if (op.kind === "clear") {
            heap.clear(op.id);
            model.clear(op.id);
          } else {
            assertStrictEquals(heap.popDue(op.at), model.popDue(op.at));
          }
          assertStrictEquals(heap.size, model.size);
          assertStrictEquals(heap.nextAt(), model.nextAt());
          assertStrictEquals(heap.nextId(), model.nextId());
          assertStrictEquals(heap.get(op.id), model.get(op.id));
        }
        const rest: number[] = [];
        const expected: number[] = [];
        while (model.size > 0) {
          rest.push(heap.popDue(2 ** 53));
          expected.push(model.popDue(2 ** 53));
        }
        assertEquals(rest, expected);
        assertStrictEquals(heap.size, 0);
      },
    ),
    { numRuns: 300 },
  );
});

Deno.test("deadline heap: empty says never", () => {
  const heap = new DeadlineHeap();
  assertStrictEquals(heap.nextAt(), NEVER);
  assertStrictEquals(heap.nextId(), -1);
  assertStrictEquals(heap.get(5), NEVER);
  assertStrictEquals(heap.get(5000), NEVER);
  assertStrictEquals(heap.popDue(NEVER), -1);
  heap.clear(5000);
  heap.set(3, NEVER);
  assertStrictEquals(heap.size, 0);
});

Deno.test("deadline heap: due means at or before now", () => {
  const heap = new DeadlineHeap();
  heap.set(7, 1000);
  assertStrictEquals(heap.popDue(999), -1);
  assertStrictEquals(heap.popDue(1000), 7);
  assertStrictEquals(heap.popDue(1000), -1);
});

Deno.test("deadline heap: setting the same deadline again keeps the place among ties", () => {
  const heap = new DeadlineHeap();
  for (const id of [3, 1, 2]) heap.set(id, 50);
  heap.set(3, 50);
  assertEquals([heap.popDue(50), heap.popDue(50), heap.popDue(50)], [3, 1, 2]);
  for (const id of [3, 1, 2]) heap.set(id, 50);
  heap.set(3, 40);
  heap.set(3, 50);
  assertEquals([heap.popDue(50), heap.popDue(50), heap.popDue(50)], [1, 2, 3]);
});

Deno.test("deadline heap: ten thousand ids out of order come out in order", () => {
  const heap = new DeadlineHeap(1);
  for (let i = 0; i < 10_000; i++) heap.set(i, (i * 7919) % 10_007);
  let last = -1;
  for (let i = 0; i < 10_000; i++) {
    const at = heap.nextAt();
    if (at <= last) throw new Error(`${at} after ${last}`);
    last = at;
    assertStrictEquals((heap.popDue(at) * 7919) % 10_007, at);
  }
  assertStrictEquals(heap.size, 0);
});
