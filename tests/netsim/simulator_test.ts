/**
 * The simulator: time, order, determinism, and what happens to packets between hosts.
 *
 * @module
 */

import { assert, assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { DropReason } from "../../src/base/drop.ts";
import { type EventSource, SocketEvent } from "../../src/base/event_queue.ts";
import { PacketPool } from "../../src/base/packet.ts";
import { MILLISECOND, NEVER, SECOND } from "../../src/base/time.ts";
import { Simulator } from "../../src/netsim/simulator.ts";
import { type SimApp, type SimDirectionOptions, TraceKind } from "../../src/netsim/topology.ts";
import { FakeHost } from "../testing/fake_host.ts";

/** Hosts of these names in a simulator; none of them is linked. */
function hosts(seed: number, ...names: string[]): { sim: Simulator; h: Record<string, FakeHost> } {
  const sim = new Simulator({ seed });
  const h: Record<string, FakeHost> = {};
  for (const name of names) sim.addHost(name, h[name] = new FakeHost());
  return { sim, h };
}

/** Two hosts with one link, and `count` packets from a to b, a millisecond apart. */
function stream(seed: number, count: number, forth: SimDirectionOptions): { sim: Simulator; b: FakeHost } {
  const { sim, h } = hosts(seed, "a", "b");
  sim.link(["a", 1], ["b", 1], forth);
  for (let i = 0; i < count; i++) h["a"]!.send(1, [i & 255, i >> 8, 7], i * MILLISECOND);
  return { sim, b: h["b"]! };
}

Deno.test("netsim: a packet arrives after the delay with its bytes and nothing else", () => {
  const { sim, h } = hosts(1, "a", "b");
  sim.link(["a", 3], ["b", 5], { delay: 20 * MILLISECOND }, { delay: 7 * MILLISECOND });
  let facts: number[] = [];
  h["b"]!.onInput = (p) => facts = [p.flow, p.departAt, p.ifindex, p.l4 - p.start];
  h["a"]!.send(3, [1, 2, 3], 5 * MILLISECOND);
  h["b"]!.send(5, [4], 30 * MILLISECOND);
  sim.run();
  assertEquals(h["b"]!.received, [{ at: 25 * MILLISECOND, ifindex: 5, bytes: [1, 2, 3] }]);
  assertEquals(h["a"]!.received, [{ at: 37 * MILLISECOND, ifindex: 3, bytes: [4] }]);
  assertEquals(facts, [0, 0, 5, 0]);
  assertEquals([h["a"]!.pool.inUse, h["b"]!.pool.inUse, sim.now], [0, 0, 37 * MILLISECOND]);
});

Deno.test("netsim: an impairment comes before the propagation, each way by itself", () => {
  const { sim, h } = hosts(1, "a", "b");
  const link = sim.link(["a", 1], ["b", 1], { delay: MILLISECOND, impair: "delay 9ms rate 8mbit" }, {
    impair: "loss 100%",
  });
  for (let i = 0; i < 3; i++) h["a"]!.send(1, new Array(1000).fill(i), 0);
  h["b"]!.send(1, [1], 0);
  sim.run();
  assertEquals(h["b"]!.received.map((r) => r.at), [11, 12, 13].map((ms) => ms * MILLISECOND));
  assertEquals(h["a"]!.received, []);
  assertEquals([link.forth.stats()["arrived_packets"], link.back.drops.toJSON()], [3, { "impair-loss": 1 }]);
});

Deno.test("netsim: run stops at `until`, continues, and stops when `done` says so", () => {
  const { sim, b } = stream(1, 10, { delay: MILLISECOND });
  assertEquals(sim.run(4 * MILLISECOND), false);
  assertEquals([b.received.length, sim.now], [4, 4 * MILLISECOND]);
  assertEquals(sim.run(4.5 * MILLISECOND), false);
  assertEquals(sim.now, 4.5 * MILLISECOND);
  assertEquals(sim.run(NEVER, () => b.received.length === 7), true);
  assertEquals([b.received.length, sim.now], [7, 7 * MILLISECOND]);
  assertEquals(sim.run(SECOND), false);
  assertEquals([b.received.length, sim.now, sim.nextAt(), sim.step()], [10, SECOND, NEVER, false]);
});

Deno.test("netsim: a host that was used between two runs is looked at again", () => {
  const { sim, h } = hosts(1, "a", "b");
  sim.link(["a", 1], ["b", 1]);
  sim.run(SECOND);
  h["a"]!.send(1, [1], 0);
  sim.run(SECOND);
  assertEquals(h["b"]!.received, [{ at: SECOND, ifindex: 1, bytes: [1] }]);
});

const IMPAIRED = { delay: 3 * MILLISECOND, impair: "delay 20ms 8ms loss 10% duplicate 5% corrupt 5%" };

Deno.test("netsim: the same seed gives the same digest, another seed another one", () => {
  const run = (seed: number) => {
    const { sim, b } = stream(seed, 300, IMPAIRED);
    sim.run();
    return { digest: sim.digest, received: b.received };
  };
  assertEquals(run(42), run(42));
  assertNotEquals(run(42).digest, run(43).digest);
  assert(/^[0-9a-f]{16}$/.test(run(42).digest));
});

Deno.test("netsim: without a digest everything else is the same", () => {
  const run = (digest: boolean) => {
    const sim = new Simulator({ seed: 42, digest });
    const [a, b] = [new FakeHost(), new FakeHost()];
    sim.addHost("a", a);
    sim.addHost("b", b);
    sim.link(["a", 1], ["b", 1], IMPAIRED);
    for (let i = 0; i < 100; i++) a.send(1, [i], i * MILLISECOND);
    sim.run();
    return { received: b.received, steps: sim.steps, digest: sim.digest };
  };
  const { digest, ...rest } = run(true);
  assertEquals(run(false), { ...rest, digest: "" });
  assertEquals(digest.length, 16);
});

Deno.test("netsim: the digest sees a single bit and a single nanosecond", () => {
  const digest = (bytes: number[], at: number) => {
    const { sim, h } = hosts(1, "a", "b");
    sim.link(["a", 1], ["b", 1], { delay: 1 });
    h["a"]!.send(1, bytes, at);
    sim.run();
    return sim.digest;
  };
  const all = [
    digest([1, 2, 3, 4, 5], 9),
    digest([1, 2, 3, 4, 4], 9),
    digest([1, 2, 3, 5, 5], 9),
    digest([1, 2, 3, 4, 5, 0], 9),
    digest([1, 2, 3, 4, 5], 10),
    digest([1, 2, 3, 4, 5], 9 + 2 ** 32),
  ];
  assertEquals(new Set(all).size, all.length);
  assertEquals(digest([1, 2, 3, 4, 5], 9), all[0]);
});

Deno.test("netsim: stepping, or running in pieces, gives the same digest as one run", () => {
  const whole = stream(7, 200, IMPAIRED);
  whole.sim.run(SECOND);
  const pieces = stream(7, 200, IMPAIRED);
  for (let at = 0; at <= SECOND; at += 1_234_567) pieces.sim.run(at);
  const stepped = stream(7, 200, IMPAIRED);
  while (stepped.sim.step());
  assertEquals([pieces.sim.digest, stepped.sim.digest], [whole.sim.digest, whole.sim.digest]);
});

Deno.test("netsim: adding a host and a link leaves the streams of all others as they are", () => {
  const run = (extra: boolean) => {
    const sim = new Simulator({ seed: 11 });
    const [a, b, c] = [new FakeHost(), new FakeHost(), new FakeHost()];
    if (extra) sim.addHost("0-first", c);
    sim.addHost("a", a);
    sim.addHost("b", b);
    if (extra) sim.link(["0-first", 1], ["b", 2], IMPAIRED);
    sim.link(["a", 1], ["b", 1], IMPAIRED);
    for (let i = 0; i < 200; i++) {
      a.send(1, [i, 1], i * MILLISECOND);
      if (extra) c.send(1, [i, 2], i * MILLISECOND);
    }
    sim.run();
    const draws = Array.from({ length: 4 }, ((rng) => () => rng.u32())(sim.hostRng("a")));
    return { draws, received: b.received.filter((r) => r.ifindex === 1) };
  };
  const [without, withExtra] = [run(false), run(true)];
  assertEquals(withExtra, without);
  assert(without.received.length > 150);
  assertNotEquals(new Simulator({ seed: 11 }).hostRng("b").u32(), without.draws[0]);
});

Deno.test("netsim: both directions of a link, and two links between the same hosts, have streams of their own", () => {
  const { sim, h } = hosts(5, "a", "b");
  sim.link(["a", 1], ["b", 1], { impair: "loss 50%" });
  sim.link(["a", 2], ["b", 2], { impair: "loss 50%" });
  for (let i = 0; i < 64; i++) {
    for (const ifindex of [1, 2]) {
      h["a"]!.send(ifindex, [i], i);
      h["b"]!.send(ifindex, [i], i);
    }
  }
  sim.run();
  const survivors = [h["a"]!, h["b"]!].flatMap((host) =>
    [1, 2].map((ifindex) => String(host.received.filter((r) => r.ifindex === ifindex).map((r) => r.bytes[0])))
  );
  assertEquals(new Set(survivors).size, 4);
});

Deno.test("netsim: packets that arrive at one instant do so in the order in which they were sent", () => {
  const { sim, h } = hosts(1, "a", "b", "c");
  sim.link(["a", 1], ["c", 1], { delay: 30 });
  sim.link(["b", 1], ["c", 2], { delay: 10 });
  h["b"]!.send(1, [3], 20);
  h["b"]!.send(1, [4], 20);
  h["a"]!.send(1, [1], 0);
  h["a"]!.send(1, [2], 0);
  sim.run();
  assertEquals(h["c"]!.received.map((r) => [r.at, r.bytes[0]]), [[30, 1], [30, 2], [30, 3], [30, 4]]);
});

Deno.test("netsim: a host takes in all that arrives at an instant, then runs", () => {
  const { sim, h } = hosts(1, "a", "b");
  sim.link(["a", 1], ["b", 1], { delay: 10 });
  for (let i = 0; i < 5; i++) h["a"]!.send(1, [i], 0);
  sim.run(9);
  h["b"]!.runs.length = 0;
  const runsBefore: number[] = [];
  h["b"]!.onInput = () => runsBefore.push(h["b"]!.runs.length);
  sim.run();
  assertEquals(runsBefore, [0, 0, 0, 0, 0]);
  assertEquals(h["b"]!.runs, [10]);
});

Deno.test("netsim: a program sees what came in before its host runs, and what it does then makes no second run", () => {
  const sim = new Simulator({ seed: 1 });
  const [a, b] = [new FakeHost(), new FakeHost()];
  const runs: number[] = [];
  sim.addHost("a", a);
  sim.addHost("b", b, {
    onEvent: (_source, _events, now) => {
      runs.push(b.runs.length);
      b.send(1, [2], now);
    },
  });
  sim.link(["a", 1], ["b", 1], { delay: 10 });
  a.send(1, [1], 0);
  sim.run(9);
  b.runs.length = 0;
  sim.run();
  assertEquals([runs, b.runs, a.received.map((r) => r.at)], [[0], [10], [20]]);
});

Deno.test("netsim: deadlines of one instant run in the order in which they were set", () => {
  const { sim, h } = hosts(1, "a", "b", "c");
  const order: string[] = [];
  sim.tracer = (_time, from) => order.push(from);
  for (const name of ["a", "b", "c"]) sim.link([name, 1], [name, 2], { impair: "loss 100%" });
  // All hosts are asked in the order in which they were added; c says 100 first, then the others do.
  h["c"]!.send(1, [1], 100);
  sim.run(50);
  h["b"]!.send(1, [1], 100);
  sim.run(60);
  h["a"]!.send(1, [1], 100);
  sim.run();
  assertEquals(order.filter((_, i) => i % 2 === 0), ["c", "b", "a"]);
});

Deno.test("netsim: actions come first at their instant, in the order in which they were asked for", () => {
  const { sim, h } = hosts(1, "a", "b");
  sim.link(["a", 1], ["b", 1], { delay: 10 });
  const order: string[] = [];
  sim.tracer = (time, _from, _to, _p, kind) => order.push(`${time} ${TraceKind[kind]}`);
  h["a"]!.send(1, [1], 0);
  sim.at(10, (now) => order.push(`${now} second`));
  sim.at(5, (now) => {
    order.push(`${now} first`);
    h["a"]!.send(1, [2], 7);
  });
  sim.at(10, (now) => order.push(`${now} third`));
  sim.run(8);
  sim.at(3, (now) => order.push(`${now} belated`));
  sim.run();
  assertEquals(order, [
    "0 Departure",
    "5 first",
    "7 Departure",
    "8 belated",
    "10 second",
    "10 third",
    "10 Arrival",
    "17 Arrival",
  ]);
});

Deno.test("netsim: a program is told of events, whose bits are cleared, and of the time it asked for", () => {
  const sim = new Simulator({ seed: 1 });
  const [a, b] = [new FakeHost(), new FakeHost()];
  const log: unknown[] = [];
  let next = 2 * MILLISECOND;
  const client: SimApp = {
    onEvent(source: EventSource, events: number, now: number): void {
      log.push(["answer", source === a, events, source.events, now]);
    },
    timeout(now: number): void {
      log.push(["ask", now]);
      a.send(1, [1], now);
      next = now < 4 * MILLISECOND ? 4 * MILLISECOND : NEVER;
    },
    nextAt: () => next,
  };
  const server: SimApp = { onEvent: (_source, _events, now) => b.send(1, [2], now) };
  sim.addHost("a", a, client);
  sim.addHost("b", b, server);
  sim.link(["a", 1], ["b", 1], { delay: 500_000 });
  sim.run();
  assertEquals(log, [
    ["ask", 2 * MILLISECOND],
    ["answer", true, SocketEvent.Readable, 0, 3 * MILLISECOND],
    ["ask", 4 * MILLISECOND],
    ["answer", true, SocketEvent.Readable, 0, 5 * MILLISECOND],
  ]);
});

Deno.test("netsim: the tracer sees departure, arrival and drop with time, names and packet", () => {
  const { sim, h } = hosts(1, "a", "b");
  sim.link(["a", 1], ["b", 1], { delay: 5, impair: "limit 1 delay 3ns" });
  const log: unknown[] = [];
  sim.tracer = (time, from, to, p, kind) => log.push([time, from, to, p.toBytes()[0], TraceKind[kind]]);
  h["a"]!.send(1, [7], 2);
  h["a"]!.send(1, [8], 2);
  h["a"]!.send(9, [9], 2);
  sim.run();
  assertEquals(log, [
    [2, "a", "b", 7, "Departure"],
    [2, "a", "b", 8, "Departure"],
    [2, "a", "b", 8, "Drop"],
    [2, "a", "", 9, "Departure"],
    [2, "a", "", 9, "Drop"],
    [10, "a", "b", 7, "Arrival"],
  ]);
});

Deno.test("netsim: a link that is cut drops what is sent and what is on its way", () => {
  const { sim, h } = hosts(1, "a", "b");
  const link = sim.link(["a", 1], ["b", 1], { delay: 10 });
  for (const at of [0, 12, 25]) h["a"]!.send(1, [at], at);
  sim.at(5, () => link.up = false);
  sim.at(20, () => link.up = true);
  sim.run();
  assertEquals([link.up, h["b"]!.received.map((r) => r.bytes[0])], [true, [25]]);
  assertEquals([link.forth.drops.get(DropReason.LinkDown), sim.drops.total()], [2, 2]);
  h["a"]!.send(77, [1], 0);
  sim.run();
  assertEquals([sim.drops.get(DropReason.LinkDown), link.forth.drops.total()], [3, 2]);
});

Deno.test("netsim: a pool that is used up is a counted drop, at the receiver and on the wire", () => {
  const sim = new Simulator({ seed: 1, wirePackets: 2 });
  const [a, b] = [new FakeHost(), new FakeHost(1)];
  sim.addHost("a", a);
  sim.addHost("b", b);
  const link = sim.link(["a", 1], ["b", 1], { delay: 10 });
  const kept = b.pool.acquire()!;
  for (let i = 0; i < 3; i++) a.send(1, [i], 0);
  sim.run();
  assertEquals([link.forth.drops.toJSON(), b.received.length], [{ "pool-exhausted": 3 }, 0]);
  b.pool.release(kept);
  a.send(1, [3], 0);
  sim.run();
  assertEquals([b.received.length, a.pool.inUse, b.pool.inUse], [1, 0, 0]);
});

Deno.test("netsim: sent + duplicated = arrived + dropped + on the way, and every pool is empty at the end", () => {
  const impair = fc.constantFrom(
    "",
    "loss 30%",
    "delay 5ms 5ms duplicate 30%",
    "limit 4 rate 80kbit",
    "delay 2ms gap 3",
  );
  fc.assert(
    fc.property(impair, fc.nat(), fc.array(fc.nat(20), { maxLength: 60 }), fc.nat(40), (text, seed, times, stop) => {
      const { sim, h } = hosts(seed, "a", "b");
      const link = sim.link(["a", 1], ["b", 1], { delay: 3 * MILLISECOND, impair: text });
      for (const ms of times) h["a"]!.send(1, [ms], ms * MILLISECOND);
      const balance = () => {
        const { duplicated, qlen } = link.forth.stage!.stats();
        const { sentPackets, arrivedPackets, drops } = link.forth;
        return sentPackets + duplicated! - arrivedPackets - drops.total() - qlen!;
      };
      sim.run(stop * MILLISECOND);
      assert(balance() >= 0); // the rest propagates
      sim.run();
      assertEquals([balance(), link.forth.sentPackets], [0, times.length]);
      assertEquals([h["a"]!.pool.inUse, h["b"]!.pool.inUse], [0, 0]);
      assertEquals(link.forth.arrivedPackets, h["b"]!.received.length);
    }),
    { numRuns: 60 },
  );
});

Deno.test("netsim: what stands still is stopped with the name of who does not stop", () => {
  const loop = new Simulator({ seed: 1, stepLimit: 500 });
  const [a, b] = [new FakeHost(), new FakeHost()];
  a.onInput = (_p, now) => a.send(1, [1], now);
  b.onInput = (_p, now) => b.send(1, [1], now);
  loop.addHost("a", a);
  loop.addHost("b", b);
  loop.link(["a", 1], ["b", 1]);
  a.send(1, [1], 3);
  assertThrows(() => loop.run(), Error, "stands still at 3 ns: more than 500 steps at one instant");

  const stuck = new Simulator({ seed: 1, stepLimit: 500 });
  const never = Object.assign(new FakeHost(), { nextAt: () => 0 });
  stuck.addHost("stuck", never);
  assertThrows(() => stuck.run(), Error, "the last by stuck");

  const busy = new Simulator({ seed: 1, stepLimit: 500 });
  const host = new FakeHost();
  const raise = () => host.eventQueued = true;
  busy.addHost("busy", host, { onEvent: raise });
  raise();
  assertThrows(() => busy.run(), Error, "the last by busy");
});

Deno.test("netsim: steps at different instants do not add up", () => {
  const sim = new Simulator({ seed: 1, stepLimit: 10 });
  const [a, b] = [new FakeHost(), new FakeHost()];
  sim.addHost("a", a);
  sim.addHost("b", b);
  sim.link(["a", 1], ["b", 1], { delay: 5 });
  for (let i = 0; i < 100; i++) a.send(1, [i], i * 10);
  sim.run();
  assertEquals(b.received.length, 100);
  assert(sim.steps > 200);
});

Deno.test("netsim: a hop to the same host, and a chain through a host in the middle", () => {
  const { sim, h } = hosts(1, "a", "r", "b");
  sim.link(["a", 1], ["r", 1], { delay: 10 });
  sim.link(["r", 2], ["b", 1], { delay: 20 });
  sim.link(["b", 8], ["b", 9], { delay: 1 });
  h["r"]!.onInput = (p, now) => h["r"]!.send(2, [...p.toBytes()], now);
  h["a"]!.send(1, [5], 0);
  h["b"]!.send(9, [6], 0);
  sim.run();
  assertEquals(h["b"]!.received, [{ at: 1, ifindex: 8, bytes: [6] }, { at: 30, ifindex: 1, bytes: [5] }]);
});

Deno.test("netsim: mistakes of the caller are errors at the call", () => {
  const { sim } = hosts(1, "a", "b");
  assertThrows(() => sim.addHost("a", new FakeHost()), TypeError, 'host "a" is there already');
  assertThrows(() => sim.link(["a", 1], ["x", 1]), TypeError, 'there is no host "x"');
  assertThrows(() => sim.link(["a", 1], ["a", 1]), TypeError, "expected two interfaces");
  assertThrows(() => sim.link(["a", 1], ["b", 1], { delay: -1 }), RangeError, "delay of link a:1>b:1 must be");
  assertThrows(() => sim.link(["a", 1], ["b", 1], { impair: "dealy 1ms" }), TypeError, 'netem: word 1 "dealy"');
  assertThrows(() => sim.link(["a", 1], ["b", 1], {}, { impair: "ecn" }), TypeError, "ecn needs a loss");
  sim.link(["a", 1], ["b", 1]); // the mistakes left nothing behind
  assertThrows(() => sim.link(["a", 1], ["b", 2]), TypeError, 'interface 1 of host "a" has a link already');
  assertThrows(() => new Simulator({ seed: 0.5 }), RangeError, "seed");
  const odd = Object.assign(new FakeHost(), { pool: new PacketPool(10, 512) });
  assertThrows(() => sim.addHost("odd", odd), RangeError, "slots of 512 bytes: expected 2048");
});

Deno.test("netsim: a time is a whole number of nanoseconds, whatever is asked for", () => {
  const { sim, h } = hosts(1, "a", "b");
  sim.link(["a", 1], ["b", 1], { delay: 10 });
  const times: number[] = [];
  for (const when of [0.5, 1.1 * SECOND + 0.25, 7]) sim.at(when, (now) => times.push(now));
  assertEquals(sim.run(2.5), false);
  assertEquals(sim.now, 2);
  h["a"]!.send(1, [1], 100.25);
  sim.run(1.2 * SECOND + 0.5);
  assertEquals(times, [1, 7, 1_100_000_001]);
  assertEquals([sim.now, h["b"]!.received.map(({ at }) => at)], [1_200_000_000, [111]]);
  assertThrows(() => sim.at(NaN, () => {}), RangeError, "NaN");
  assertThrows(() => sim.run(NaN), RangeError, "NaN");
  const app: SimApp = { onEvent: () => {}, nextAt: () => NaN };
  sim.addHost("c", new FakeHost(), app);
  assertThrows(() => sim.run(), Error, 'host "c" says that it is next useful at NaN');
});
