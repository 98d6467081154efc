/**
 * Replay: traces of delay, loss and rate, and recorded deliveries against a step-by-step model.
 *
 * @module
 */

import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import fc from "fast-check";
import { Packet } from "../../src/base/packet.ts";
import { MILLISECOND, SECOND } from "../../src/base/time.ts";
import { NETEM_DEFAULTS, type NetemConfig } from "../../src/impair/config.ts";
import { DeliveryPlayer, OPPORTUNITY_BYTES } from "../../src/impair/delivery.ts";
import { parseDelivery, parseTrace, TracePlayer } from "../../src/impair/trace.ts";
import { Wire } from "../testing/wire.ts";

function traced(text: string, loop = false): NetemConfig {
  return { ...NETEM_DEFAULTS, limit: 1 << 20, trace: parseTrace("t", text, loop) };
}

function delivered(text: string, fields: Partial<NetemConfig> = {}): NetemConfig {
  return { ...NETEM_DEFAULTS, ...fields, delivery: parseDelivery("d", text) };
}

/** When a packet of so many bytes that is ready then has been transmitted. */
function finish(player: TracePlayer | DeliveryPlayer, lengthBytes: number, readyAt: number): number {
  const p = new Packet(new Uint8Array(4096));
  p.end = p.start + lengthBytes;
  p.readyAt = readyAt;
  player.transmit(p);
  return p.releaseAt;
}

Deno.test("trace: a packet has the delay of the row in which it comes, and does not overtake", () => {
  const wire = new Wire(traced("time,delay,loss,rate\n0s,50ms,0%,unlimited\n\n100ms,10ms,0%,unlimited # nearer\n"));
  for (const at of [0, 99, 100, 140, 200]) {
    wire.arrivals(at * MILLISECOND - 1);
    wire.send(at * MILLISECOND);
  }
  assertEquals(wire.arrivals(99 * MILLISECOND), []);
  assertEquals(wire.arrivals().map(({ n, at }) => [n, at / MILLISECOND]), [[4, 210]]);
  const again = new Wire(traced("0s 50ms 0% unlimited\n100ms 10ms 0% unlimited"));
  for (const at of [0, 99, 100, 140]) again.send(at * MILLISECOND);
  // The third would be there at 110 ms, before the second.
  assertEquals(again.arrivals().map(({ n, at }) => [n, at / MILLISECOND]), [[0, 50], [1, 149], [2, 149], [3, 150]]);
});

Deno.test("trace: losses follow it, and it begins anew with loop", () => {
  const text = "0s 0ms 0% unlimited\n1s 0ms 100% unlimited\n2s 0ms 0% unlimited";
  const lost = (loop: boolean) => {
    const wire = new Wire(traced(text, loop));
    const there = new Set(wire.run(60, SECOND / 10).map(({ n }) => n));
    return Array.from({ length: 60 }, (_, n) => n).filter((n) => !there.has(n)).map((n) => Math.floor(n / 10));
  };
  assertEquals(new Set(lost(false)), new Set([1]));
  assertEquals([new Set(lost(true)), lost(true).length], [new Set([1, 3, 5]), 30]);
});

Deno.test("trace: a packet is transmitted at the rates of the time in which it is", () => {
  // 1,000 bytes a second, then a standstill, then twice that.
  const rows = "0s 0ms 0% 8kbit\n1s 0ms 0% 0bit\n2s 0ms 0% 16kbit\n3s 0ms 0% 8kbit";
  const make = (loop: boolean) => new TracePlayer(parseTrace("t", rows, loop), 0);
  const player = make(false);
  assertEquals(finish(player, 500, 0), SECOND / 2);
  assertEquals(finish(player, 600, 0), 2050 * MILLISECOND);
  assertEquals(finish(player, 100, 0), 2100 * MILLISECOND);
  assertEquals(finish(player, 100, 10 * SECOND), 10_100 * MILLISECOND);
  // A period of 3 s carries 3,000 bytes.
  const looping = make(true);
  assertEquals(finish(looping, 3000 * 1 + 500, 0), 3.5 * SECOND);
  assertEquals(finish(looping, 500, 301 * SECOND), 302.25 * SECOND);
  const tiny = new TracePlayer(parseTrace("t", "0s 0ms 0% 8bit\n1us 0ms 0% 0bit\n2us 0ms 0% 0bit", true), 0);
  const at = finish(tiny, 1000, 0);
  assertAlmostEquals(at / SECOND, 2000, 0.001);
});

Deno.test("trace: a link with no rate adds nothing, and times of long ago and far ahead are found", () => {
  const rows = Array.from({ length: 1000 }, (_, i) => `${i}s ${i}ms 0% unlimited`).join("\n");
  const player = new TracePlayer(parseTrace("t", rows, true), 5 * SECOND);
  for (const at of [0, 5, 6, 7.5, 900, 12, 999, 1003.5, 1004.5, 5004, 123_456.25]) {
    const changed = player.follow(at * SECOND);
    const expected = Math.floor(Math.max(0, at - 5) % 999);
    assertEquals(player.row, expected, `${at}`);
    assertEquals(player.delay, expected * MILLISECOND);
    assert(!player.follow(at * SECOND) || !changed);
    assertEquals(finish(player, 1500, at * SECOND), Math.max(at * SECOND, player.freeAt));
  }
});

Deno.test("trace: the stage keeps what it holds when a trace takes the place of a rate", () => {
  const wire = new Wire("rate 8kbit");
  for (let i = 0; i < 10; i++) wire.send(0, 1000);
  wire.stage.change(traced("0s 5ms 0% 80kbit\n1s 5ms 0% 8kbit"), SECOND / 2);
  // Half of the first packet is left: 500 bytes at 10,000 a second; the others take 100 ms each, until 1.5 s.
  assertEquals(wire.arrivals().map(({ at }) => Math.round(at / MILLISECOND)), [
    ...[550, 650, 750, 850, 950, 1050, 1150, 1250, 1350, 1450],
  ]);
});

/** Mahimahi's link step by step: every opportunity in turn takes bytes of the queue. */
function stepByStep(opportunities: number[], packets: { at: number; length: number }[]): number[] {
  const period = opportunities.at(-1)!;
  const done: number[] = [];
  const queue: { n: number; at: number; left: number }[] = [];
  let next = 0;
  for (let origin = 0; done.length < packets.length; origin += period) {
    for (const ms of opportunities) {
      const time = (origin + ms) * MILLISECOND;
      // What comes at the very time of an opportunity comes too late for it.
      while (next < packets.length && packets[next]!.at < time) {
        queue.push({ n: next, at: packets[next]!.at, left: packets[next]!.length });
        next++;
      }
      let bytes = OPPORTUNITY_BYTES;
      while (bytes > 0 && queue.length > 0) {
        const used = Math.min(bytes, queue[0]!.left);
        queue[0]!.left -= used;
        bytes -= used;
        if (queue[0]!.left > 0) break;
        done[queue.shift()!.n] = time;
      }
    }
  }
  return done;
}

Deno.test("delivery: the times are those of Mahimahi's link", () => {
  const opportunities = fc.array(fc.nat(20), { minLength: 1, maxLength: 20 }).map((list) => {
    const sorted = list.sort((a, b) => a - b);
    return sorted.at(-1) === 0 ? [...sorted, 1] : sorted;
  });
  const packets = fc.array(fc.record({ wait: fc.nat(30_000_000), length: fc.integer({ min: 1, max: 1900 }) }), {
    maxLength: 40,
  });
  fc.assert(fc.property(opportunities, packets, (times, list) => {
    let at = 0;
    const sent = list.map(({ wait, length }) => ({ at: at += wait, length }));
    const player = new DeliveryPlayer(parseDelivery("d", times.join("\n")), 0);
    assertEquals(sent.map(({ at, length }) => finish(player, length, at)), stepByStep(times, sent));
  }));
});

Deno.test("delivery: one opportunity carries several small packets, and a delay comes before", () => {
  const wire = new Wire(delivered("10\n10\n20\n", { delay: 5 * MILLISECOND }));
  for (let i = 0; i < 5; i++) wire.send(0, 700);
  // Ready at 5 ms: two opportunities of 1,504 bytes at 10 ms take four packets, that at 20 ms the last one.
  assertEquals(wire.arrivals().map(({ n, at }) => [n, at / MILLISECOND]), [[0, 10], [1, 10], [2, 10], [3, 10], [
    4,
    20,
  ]]);
  wire.send(3600 * SECOND + 6 * MILLISECOND, 700);
  assertEquals(wire.arrivals().map(({ at }) => at - 3600 * SECOND), [20 * MILLISECOND]);
});

Deno.test("delivery: a saturated link carries what the recording does", () => {
  const wire = new Wire(delivered("1\n2\n2\n5\n", { limit: 1 << 20 }));
  for (let i = 0; i < 4000; i++) wire.send(0, 1504);
  const seconds = wire.arrivals().at(-1)!.at / SECOND;
  assertAlmostEquals(4000 * 1504 / seconds, DeliveryPlayer.meanRate(parseDelivery("d", "1\n2\n2\n5\n")), 1);
});
