/**
 * The plain queue: order, departure times, limit.
 *
 * @module
 */

import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { DropReason } from "../../src/base/drop.ts";
import { NEVER } from "../../src/base/time.ts";
import { Pfifo } from "../../src/qdisc/pfifo.ts";
import { StageBench } from "../testing/stage_bench.ts";

Deno.test("pfifo: first in, first out, whatever the flow", () => {
  const bench = new StageBench();
  const q = new Pfifo({}, bench);
  const packets = [2, 3, 2, 5].map((flow, i) => bench.packet(flow, 100 + i));
  for (const p of packets) assertEquals(q.push(p, 7), DropReason.None);
  assertEquals([q.backlogPackets, q.backlogBytes, q.flowBacklog(2), q.flowBacklog(9)], [4, 406, 202, 0]);
  for (const p of packets) assertStrictEquals(q.pull(7), p);
  assertEquals([q.pull(NEVER), q.nextAt(), q.backlogBytes, q.flowBacklog(2)], [null, NEVER, 0, 0]);
});

Deno.test("pfifo: a stamped packet stands in line from its departure time on and holds nobody up", () => {
  const bench = new StageBench();
  const q = new Pfifo({}, bench);
  const late = bench.packet(2, 100, 50);
  const soon = bench.packet(3, 100);
  q.push(late, 10);
  q.push(soon, 10);
  assertStrictEquals(q.pull(10), soon);
  assertEquals([q.pull(49), q.nextAt()], [null, 50]);
  const third = bench.packet(3, 100);
  q.push(third, 60);
  assertStrictEquals(q.pull(60), late);
  assertStrictEquals(q.pull(60), third);
});

Deno.test("pfifo: refuses beyond its limit and counts", () => {
  const bench = new StageBench();
  const q = new Pfifo({ limit: 2 }, bench);
  q.push(bench.packet(2, 100), 0);
  q.push(bench.packet(4, 200), 0);
  assertEquals(q.push(bench.packet(6, 300), 0), DropReason.QdiscLimit);
  q.pull(0);
  assertEquals(q.stats(), { packets: 1, bytes: 100, drops: 1, qlen: 1, backlog: 200 });
});

Deno.test("pfifo: close drops what is held, stamped or not", () => {
  const bench = new StageBench();
  const q = new Pfifo({}, bench);
  for (let i = 0; i < 3; i++) q.push(bench.packet(2, 0, i * 1000), 0);
  q.close(5);
  assertEquals(bench.dropped, [DropReason.Closed, DropReason.Closed, DropReason.Closed]);
  assertEquals([q.backlogPackets, q.nextAt(), bench.pool.inUse], [0, NEVER, 0]);
});

Deno.test("pfifo: options out of range are refused", () => {
  assertThrows(() => new Pfifo({ limit: 0 }, new StageBench()), RangeError, "pfifo limit must be an integer from 1");
});
