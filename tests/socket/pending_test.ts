/**
 * Pending calls: order, signals, what keeps the process alive.
 *
 * @module
 */

import { assert, assertEquals, assertRejects } from "@std/assert";
import type { Engine } from "../../src/socket/engine.ts";
import { PendingQueue } from "../../src/socket/pending.ts";

/** A queue with a pool of numbers that operations wait for, and a count of holds. */
function queueOf() {
  const state = { holds: 0, available: [] as number[] };
  const engine = { hold: () => state.holds++, letGo: () => state.holds-- } as unknown as Engine;
  const queue = new PendingQueue(engine);
  const take = (signal?: AbortSignal) => queue.run(() => state.available.shift(), signal);
  const give = (...numbers: number[]) => {
    state.available.push(...numbers);
    queue.poll();
  };
  return { state, queue, take, give };
}

Deno.test("pending: what is there is had at once, without holding the process", async () => {
  const { state, queue, take } = queueOf();
  state.available.push(1);
  const taken = take();
  assertEquals(queue.size, 0);
  assertEquals(state.holds, 0);
  assertEquals(await taken, 1);
});

Deno.test("pending: calls are served in order, later ones do not overtake", async () => {
  const { state, queue, take, give } = queueOf();
  const first = take();
  const second = take();
  state.available.push(1);
  const third = take();
  assertEquals(queue.size, 3);
  assertEquals(state.holds, 1);
  give(2);
  assertEquals(queue.size, 1);
  give(3);
  assertEquals([await first, await second, await third], [1, 2, 3]);
  assertEquals(state.holds, 0);
});

Deno.test("pending: falsy results are results", async () => {
  const { queue } = queueOf();
  assertEquals(await queue.run<number | null>(() => 0), 0);
  assertEquals(await queue.run<number | null>(() => null), null);
  assertEquals(queue.size, 0);
});

Deno.test("pending: an attempt that throws rejects its own call only", async () => {
  const { queue, take, give } = queueOf();
  let ready = false;
  const failing = queue.run<number>(() => {
    if (ready) throw new TypeError("no");
    return undefined;
  });
  const other = take();
  ready = true;
  give(5);
  await assertRejects(() => failing, TypeError, "no");
  assertEquals(await other, 5);
  await assertRejects(() =>
    queue.run(() => {
      throw new RangeError("at once");
    }), RangeError);
});

Deno.test("pending: an abort takes out the call from anywhere in the queue and takes nothing", async () => {
  const { state, queue, take, give } = queueOf();
  for (const place of [0, 1, 2]) {
    const abort = new AbortController();
    const calls = [0, 1, 2].map((i) => take(i === place ? abort.signal : undefined));
    abort.abort(new Error(`place ${place}`));
    await assertRejects(() => calls[place]!, Error, `place ${place}`);
    assertEquals(queue.size, 2);
    give(10, 11);
    const others = calls.filter((_, i) => i !== place);
    assertEquals(await Promise.all(others), [10, 11]);
    assertEquals(queue.size, 0);
    assertEquals(state.available.length, 0);
    assertEquals(state.holds, 0);
  }
});

Deno.test("pending: a signal that was aborted before rejects with its reason, whatever it is", async () => {
  const { state, take } = queueOf();
  state.available.push(1);
  const reason = "just so";
  assertEquals(await take(AbortSignal.abort(reason)).catch((error) => error), reason);
  assertEquals(state.available.length, 1);
});

Deno.test("pending: signals are let go of once a call is settled", async () => {
  const { take, give, queue } = queueOf();
  const abort = new AbortController();
  let listeners = 0;
  const { signal } = abort;
  const add = signal.addEventListener.bind(signal);
  const remove = signal.removeEventListener.bind(signal);
  signal.addEventListener = (...args: Parameters<typeof add>) => (listeners++, add(...args));
  signal.removeEventListener = (...args: Parameters<typeof remove>) => (listeners--, remove(...args));
  const served = take(signal);
  assertEquals(listeners, 1);
  give(1);
  assertEquals(await served, 1);
  assertEquals(listeners, 0);
  const failed = take(signal);
  queue.fail(new Error("over"));
  await assertRejects(() => failed, Error, "over");
  assertEquals(listeners, 0);
  abort.abort();
});

Deno.test("pending: fail rejects all that wait, in any number", async () => {
  const { state, queue, take } = queueOf();
  const calls = Array.from({ length: 100 }, () => take());
  queue.fail(new Error("closed"));
  const settled = await Promise.allSettled(calls);
  assert(settled.every((call) => call.status === "rejected" && call.reason.message === "closed"));
  assertEquals(queue.size, 0);
  assertEquals(state.holds, 0);
});

Deno.test("pending: an attempt may fail the queue that it waits in", async () => {
  const { state, queue, take } = queueOf();
  let ready = false;
  const failing = queue.run<number>(() => {
    if (!ready) return undefined;
    queue.fail(new Error("closed"));
    return 1;
  });
  const behind = take();
  ready = true;
  queue.poll();
  const settled = await Promise.allSettled([failing, behind]);
  assertEquals(settled.map(({ status }) => status), ["rejected", "rejected"]);
  assertEquals([queue.size, state.holds], [0, 0]);
  // The queue is as good as new.
  const next = take();
  assertEquals([queue.size, state.holds], [1, 1]);
  state.available.push(2);
  queue.poll();
  assertEquals(await next, 2);
});

Deno.test("pending: unref lets the process go while calls wait, ref holds it again", async () => {
  const { state, queue, take, give } = queueOf();
  const call = take();
  assertEquals(state.holds, 1);
  queue.setReferenced(false);
  queue.setReferenced(false);
  assertEquals(state.holds, 0);
  const other = take();
  assertEquals(state.holds, 0);
  queue.setReferenced(true);
  assertEquals(state.holds, 1);
  give(1, 2);
  assertEquals([await call, await other], [1, 2]);
  assertEquals(state.holds, 0);
});
