/**
 * The byte ring against a plain array, with bytes placed beyond the tail.
 *
 * @module
 */

import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import * as fc from "fast-check";
import { copyBytes, RingBuffer } from "../../src/base/ring_buffer.ts";

/** The slow model: readable bytes, and what lies behind them by its distance from the tail. */
class PlainRing {
  readable: number[] = [];
  placed = new Map<number, number>();

  constructor(readonly capacity: number) {}

  get room(): number {
    return this.capacity - this.readable.length;
  }

  writeAt(offset: number, bytes: number[]): number {
    const n = Math.max(0, Math.min(bytes.length, this.room - offset));
    for (let i = 0; i < n; i++) this.placed.set(offset + i, bytes[i]!);
    return n;
  }

  commit(n: number): void {
    for (let i = 0; i < n; i++) this.readable.push(this.placed.get(i)!);
    this.placed = new Map([...this.placed].filter(([at]) => at >= n).map(([at, byte]) => [at - n, byte]));
  }

  write(bytes: number[]): number {
    const n = this.writeAt(0, bytes);
    this.commit(n);
    return n;
  }

  consume(n: number): number[] {
    return this.readable.splice(0, n);
  }

  /** How many bytes behind the tail are placed without a gap. */
  get contiguous(): number {
    let n = 0;
    while (this.placed.has(n)) n++;
    return n;
  }
}

const length = fc.oneof(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 60, max: 200 }));
const operation = fc.record({
  kind: fc.constantFrom("write", "writeAt", "commit", "peek", "consume", "read", "clear"),
  length,
  offset: fc.integer({ min: 0, max: 120 }),
  margin: fc.integer({ min: 0, max: 3 }),
});

Deno.test("ring buffer: behaves as a plain array", () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 60, max: 160 })),
      fc.array(operation, { maxLength: 80, size: "max" }),
      (capacity, operations) => {
        const ring = new RingBuffer(capacity);
        const model = new PlainRing(capacity);
        let next = 1;
        for (const op of operations) {
          // Source bytes never repeat soon and stand between margins that may not be copied.
          const bytes = Array.from({ length: op.length }, () => (next = next % 251 + 1));
          const source = new Uint8Array([...Array(op.margin).fill(255), ...bytes, ...Array(op.margin).fill(254)]);
          const from = op.margin;
          const to = op.margin + op.length;
          switch (op.kind) {
            case "write":
              assertStrictEquals(ring.write(source, from, to), model.write(bytes));
              break;
            case "writeAt":
              assertStrictEquals(ring.writeAt(op.offset, source, from, to), model.writeAt(op.offset, bytes));
              break;
            case "commit": {
              const n = Math.min(op.length, model.contiguous);
              ring.commit(n);
              model.commit(n);
              break;
            }
            case "peek": {
              const target = new Uint8Array(op.length + 2 * op.margin);
              const expected = model.readable.slice(op.offset, op.offset + op.length);
              assertStrictEquals(ring.peek(op.offset, target, from, to), expected.length);
              const zeros = Array(op.length - expected.length + op.margin).fill(0);
              assertEquals([...target], [...Array(op.margin).fill(0), ...expected, ...zeros]);
              break;
            }
            case "consume": {
              const n = Math.min(op.length, model.readable.length);
              ring.consume(n);
              model.consume(n);
              break;
            }
            case "read": {
              const target = new Uint8Array(op.length);
              const expected = model.consume(op.length);
              assertStrictEquals(ring.read(target), expected.length);
              assertEquals([...target.subarray(0, expected.length)], expected);
              break;
            }
            case "clear":
              // Rarely, else nothing ever wraps.
              if (op.length !== 0) break;
              ring.clear();
              model.readable = [];
              model.placed.clear();
          }
          assertStrictEquals(ring.length, model.readable.length);
          assertStrictEquals(ring.room, model.room);
          assertStrictEquals(ring.capacity, capacity);
        }
        const all = new Uint8Array(capacity);
        assertEquals([...all.subarray(0, ring.read(all))], model.readable);
      },
    ),
    { numRuns: 400 },
  );
});

Deno.test("ring buffer: out-of-order data becomes readable once the hole is filled", () => {
  const ring = new RingBuffer(8);
  const take = (n: number) => {
    const target = new Uint8Array(n);
    return [...target.subarray(0, ring.read(target))];
  };
  // Move the head so that everything below wraps.
  ring.write(new Uint8Array(6));
  take(6);
  assertStrictEquals(ring.writeAt(2, new Uint8Array([3, 4, 5]), 0, 3), 3);
  assertStrictEquals(ring.length, 0);
  assertEquals(take(8), []);
  assertStrictEquals(ring.writeAt(0, new Uint8Array([1, 2]), 0, 2), 2);
  ring.commit(5);
  assertEquals(take(8), [1, 2, 3, 4, 5]);
});

Deno.test("ring buffer: placed bytes survive that the readable ones in front are read", () => {
  const ring = new RingBuffer(6);
  ring.write(new Uint8Array([1, 2]));
  ring.writeAt(1, new Uint8Array([4, 5]), 0, 2);
  ring.consume(2);
  ring.writeAt(0, new Uint8Array([3]), 0, 1);
  ring.commit(3);
  const target = new Uint8Array(3);
  assertStrictEquals(ring.read(target), 3);
  assertEquals([...target], [3, 4, 5]);
});

Deno.test("ring buffer: wrong amounts and capacities throw", () => {
  for (const capacity of [0, -1, 1.5, NaN, Infinity]) {
    assertThrows(() => new RingBuffer(capacity), RangeError, "ring capacity must be a positive integer");
  }
  const ring = new RingBuffer(4);
  ring.write(new Uint8Array(3));
  assertThrows(() => ring.commit(2), RangeError, "commit of 2 bytes with room for 1");
  assertThrows(() => ring.commit(-1), RangeError);
  assertThrows(() => ring.consume(4), RangeError, "consume of 4 bytes with 3 readable");
  assertThrows(() => ring.consume(-1), RangeError);
});

Deno.test("ring buffer: offsets beyond the data or the room do nothing", () => {
  const ring = new RingBuffer(4);
  const target = new Uint8Array(4);
  assertStrictEquals(ring.peek(0, target), 0);
  ring.write(new Uint8Array([1, 2]));
  assertStrictEquals(ring.peek(2, target), 0);
  assertStrictEquals(ring.peek(9, target), 0);
  assertStrictEquals(ring.writeAt(2, target, 0, 4), 0);
  assertStrictEquals(ring.writeAt(9, target, 0, 4), 0);
  assertStrictEquals(ring.writeAt(1, target, 0, 4), 1);
});

Deno.test("copyBytes: copies exactly the run, short and long", () => {
  for (const n of [0, 1, 63, 64, 65, 200]) {
    const source = Uint8Array.from({ length: 210 }, (_, i) => i + 1);
    const target = new Uint8Array(220);
    copyBytes(source, 5, target, 7, n);
    assertEquals(
      target,
      Uint8Array.from({ length: 220 }, (_, i) => i >= 7 && i < 7 + n ? (i - 7 + 6) & 255 : 0),
    );
  }
});
