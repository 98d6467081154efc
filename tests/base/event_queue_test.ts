/**
 * The event queue: each source once, in order, nothing lost, bounded.
 *
 * @module
 */

import { assert, assertStrictEquals } from "@std/assert";
import * as fc from "fast-check";
import { EventQueue, type EventSource, SocketEvent } from "../../src/base/event_queue.ts";

const source = (): EventSource => ({ events: 0, eventQueued: false, user: null });

Deno.test("event queue: events are distinct bits", () => {
  const bits = [SocketEvent.Readable, SocketEvent.Writable, SocketEvent.Connected, SocketEvent.Closed];
  assertStrictEquals(bits.reduce((sum, bit) => sum + bit, 0), bits.reduce((or, bit) => or | bit, 0));
  for (const bit of bits) assert(bit > 0 && (bit & (bit - 1)) === 0);
});

Deno.test("event queue: bits gather on the source, which is queued once", () => {
  const queue = new EventQueue();
  const a = source();
  const b = source();
  queue.raise(a, SocketEvent.Connected);
  queue.raise(b, SocketEvent.Readable);
  queue.raise(a, SocketEvent.Writable);
  assertStrictEquals(queue.size, 2);
  assertStrictEquals(queue.poll(), a);
  assertStrictEquals(a.events, SocketEvent.Connected | SocketEvent.Writable);
  a.events = 0;
  assertStrictEquals(queue.poll(), b);
  assertStrictEquals(queue.poll(), null);
  assertStrictEquals(queue.poll(), null);
  assertStrictEquals(queue.size, 0);
});

Deno.test("event queue: a source that is raised while it is handled comes again, behind the others", () => {
  const queue = new EventQueue();
  const a = source();
  const b = source();
  queue.raise(a, SocketEvent.Readable);
  queue.raise(b, SocketEvent.Readable);
  assertStrictEquals(queue.poll(), a);
  a.events = 0;
  queue.raise(a, SocketEvent.Closed);
  assertStrictEquals(queue.poll(), b);
  assertStrictEquals(queue.poll(), a);
  assertStrictEquals(a.events, SocketEvent.Closed);
});

Deno.test("event queue: behaves as an array of distinct sources", () => {
  fc.assert(fc.property(fc.array(fc.integer({ min: -6, max: 9 }), { maxLength: 200, size: "max" }), (steps) => {
    const queue = new EventQueue();
    const sources = Array.from({ length: 10 }, source);
    const bits = new Map<EventSource, number>();
    const model: EventSource[] = [];
    for (const step of steps) {
      if (step < 0) {
        const polled = queue.poll();
        assertStrictEquals(polled, model.shift() ?? null);
        if (polled !== null) {
          assertStrictEquals(polled.events, bits.get(polled));
          assert(!polled.eventQueued);
          polled.events = 0;
          bits.delete(polled);
        }
      } else {
        const s = sources[step]!;
        const bit = 1 << (step & 3);
        queue.raise(s, bit);
        if (!model.includes(s)) model.push(s);
        bits.set(s, (bits.get(s) ?? 0) | bit);
      }
      assertStrictEquals(queue.size, model.length);
    }
  }));
});

Deno.test("event queue: a queue that never runs empty keeps its order", () => {
  const queue = new EventQueue();
  // Three sources are always out of the queue: entry n of the queue is source n modulo 5,003.
  const sources = Array.from({ length: 5003 }, source);
  for (let i = 0; i < 5000; i++) queue.raise(sources[i]!, SocketEvent.Readable);
  const polled: EventSource[] = [];
  for (let i = 0; i < 20_000; i++) {
    const s = queue.poll()!;
    s.events = 0;
    polled.push(s);
    queue.raise(sources[(i + 5000) % 5003]!, SocketEvent.Readable);
    assertStrictEquals(queue.size, 5000);
  }
  assert(polled.every((s, i) => s === sources[i % 5003]));
  assertStrictEquals(sources.filter((s) => s.eventQueued).length, 5000);
});
