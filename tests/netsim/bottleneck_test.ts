/**
 * The shared transmitter: its rate, its queue in bytes and packets, and that links share it.
 *
 * @module
 */

import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { DropReason } from "../../src/base/drop.ts";
import { type Instant, MICROSECOND, MILLISECOND, SECOND } from "../../src/base/time.ts";
import type { SimBottleneckOptions } from "../../src/netsim/bottleneck.ts";
import { Simulator } from "../../src/netsim/simulator.ts";
import { FakeHost } from "../testing/fake_host.ts";

/** Two pairs of hosts behind one transmitter of 1 byte a microsecond. */
function twoLinks(options: SimBottleneckOptions, impair?: string) {
  const sim = new Simulator({ seed: 3 });
  const bottleneck = sim.addBottleneck("shared", { rateBytesPerSec: 1_000_000, ...options });
  const hosts = ["a1", "b1", "a2", "b2"].map((name) => {
    const host = new FakeHost();
    sim.addHost(name, host);
    return host;
  }) as [FakeHost, FakeHost, FakeHost, FakeHost];
  const link = (i: number, delay: number) =>
    sim.link([`a${i}`, 1], [`b${i}`, 1], { bottleneck, delay, ...(impair === undefined ? {} : { impair }) }, {});
  return { sim, bottleneck, hosts, links: [link(1, 5 * MILLISECOND), link(2, 9 * MILLISECOND)] as const };
}

const bytes = (n: number, tag: number) => new Array<number>(n).fill(tag);
const arrivals = (h: FakeHost): Instant[] => h.received.map((r) => r.at);

Deno.test("bottleneck: links share the rate, each has its own delay behind it", () => {
  const { sim, hosts: [a1, b1, a2, b2] } = twoLinks({ overheadBytes: 14 });
  a1.send(1, bytes(86, 1), 0);
  a2.send(1, bytes(186, 2), 0);
  a1.send(1, bytes(36, 3), 0);
  sim.run();
  // Hosts run in the order in which they were added: both packets of a1 go first.
  assertEquals(arrivals(b1), [5 * MILLISECOND + 100 * MICROSECOND, 5 * MILLISECOND + 150 * MICROSECOND]);
  assertEquals(arrivals(b2), [9 * MILLISECOND + 350 * MICROSECOND]);
  assertEquals(b2.received[0]!.bytes, bytes(186, 2));
});

Deno.test("bottleneck: a packet is dropped if it does not fit beside what is queued when it comes", () => {
  const { sim, bottleneck, hosts: [a1, b1], links } = twoLinks({ queueBytes: 300 });
  // Transmitted in 100 µs each: 250 bytes are left at 50 µs, and again at 100 µs once 50 more have come.
  for (let i = 0; i < 3; i++) a1.send(1, bytes(100, i), 0);
  a1.send(1, bytes(51, 3), 50 * MICROSECOND);
  a1.send(1, bytes(50, 4), 50 * MICROSECOND);
  a1.send(1, bytes(50, 5), 100 * MICROSECOND);
  sim.run();
  assertEquals(b1.received.map((r) => r.bytes[0]), [0, 1, 2, 4, 5]);
  assertEquals(links[0].forth.drops.toJSON(), { "link-full": 1 });
  assertEquals(bottleneck.stats(), {
    offered_packets: 6,
    dropped_packets: 1,
    taken_bytes: 400,
    peak_queue_bytes: 300,
    held_packets: 0,
  });
});

Deno.test("bottleneck: a queue in packets counts the one being transmitted", () => {
  const { sim, hosts: [a1, b1, a2, b2] } = twoLinks({ queuePackets: 2 });
  for (let i = 0; i < 2; i++) a1.send(1, bytes(1000, i), 0);
  a2.send(1, bytes(1000, 7), MILLISECOND - 1);
  a2.send(1, bytes(1000, 8), MILLISECOND);
  sim.run();
  assertEquals([b1.received.length, b2.received.map((r) => r.bytes[0])], [2, [8]]);
});

Deno.test("bottleneck: what is lost on the wire has taken its time on the transmitter", () => {
  const { sim, bottleneck, hosts: [a1, b1], links } = twoLinks({}, "loss 100%");
  a1.send(1, bytes(1000, 1), 0);
  sim.run(MILLISECOND - 1);
  assertEquals([bottleneck.heldPackets, bottleneck.backlogBytes(sim.now), sim.drops.total()], [1, 0.001, 0]);
  sim.run();
  assertEquals([sim.now, b1.received.length, links[0].forth.drops.get(DropReason.ImpairLoss)], [MILLISECOND, 0, 1]);
});

Deno.test("bottleneck: a link that is cut loses what is still queued, and others do not", () => {
  const { sim, hosts: [a1, b1, a2, b2], links } = twoLinks({});
  a1.send(1, bytes(1000, 1), 0);
  a2.send(1, bytes(1000, 2), 0);
  sim.at(1, () => links[0].up = false);
  sim.run();
  assertEquals([b1.received.length, b2.received.length], [0, 1]);
  assertEquals(links[0].forth.drops.toJSON(), { "link-down": 1 });
});

Deno.test("bottleneck: without a rate nothing queues", () => {
  const { sim, hosts: [a1, b1] } = twoLinks({ rateBytesPerSec: Infinity, queueBytes: 100 });
  for (let i = 0; i < 3; i++) a1.send(1, bytes(100, i), 7);
  a1.send(1, bytes(101, 9), 7);
  sim.run();
  assertEquals(b1.received.map((r) => [r.at, r.bytes[0]]), [0, 1, 2].map((i) => [5 * MILLISECOND + 7, i]));
});

Deno.test("bottleneck: wrong options and a foreign bottleneck are refused in words", () => {
  const sim = new Simulator({ seed: 1 });
  for (
    const [options, message] of [
      [{ rateBytesPerSec: 0 }, "rateBytesPerSec"],
      [{ rateBytesPerSec: NaN }, "rateBytesPerSec"],
      [{ queueBytes: 0 }, "queueBytes"],
      [{ queuePackets: 0 }, "queuePackets"],
      [{ overheadBytes: -1 }, "overheadBytes"],
      [{ overheadBytes: 0.5 }, "overheadBytes"],
    ] as const
  ) assertThrows(() => sim.addBottleneck("x", options), RangeError, message);
  sim.addHost("a", new FakeHost());
  sim.addHost("b", new FakeHost());
  const foreign = new Simulator({ seed: 1 }).addBottleneck("theirs", {});
  assertThrows(() => sim.link(["a", 1], ["b", 1], { bottleneck: foreign }), TypeError, "another simulator");
  // Nothing was left half made.
  sim.link(["a", 1], ["b", 1], { bottleneck: sim.addBottleneck("ours", {}) });
});

Deno.test("bottleneck: packets leave in order, at most at the rate, and none goes missing", () => {
  const packet = fc.record({ at: fc.nat(20_000), size: fc.integer({ min: 20, max: 1500 }), link: fc.nat(1) });
  fc.assert(
    fc.property(fc.array(packet, { maxLength: 60 }), fc.integer({ min: 1500, max: 6000 }), (sent, queueBytes) => {
      const { sim, bottleneck, hosts: [a1, b1, a2, b2], links } = twoLinks({ queueBytes });
      sent.sort((x, y) => x.at - y.at);
      sent.forEach(({ at, size, link }, i) => (link === 0 ? a1 : a2).send(1, bytes(size, i), at * MICROSECOND));
      sim.run(60 * SECOND);
      const left = [
        ...b1.received.map((r) => ({ at: r.at - 5 * MILLISECOND, size: r.bytes.length, link: 0 })),
        ...b2.received.map((r) => ({ at: r.at - 9 * MILLISECOND, size: r.bytes.length, link: 1 })),
      ].sort((x, y) => x.at - y.at);
      left.forEach((p, i) => {
        const before = i === 0 ? 0 : left[i - 1]!.at;
        assert(p.at - before >= p.size * MICROSECOND, "two packets overlap on the transmitter");
      });
      for (const [host, a] of [[b1, 0], [b2, 1]] as const) {
        const tags = host.received.map((r) => r.bytes[0]!);
        assertEquals(tags, [...tags].sort((x, y) => x - y));
        assert(tags.every((tag) => sent[tag]!.link === a));
      }
      const dropped = links[0].forth.drops.total() + links[1].forth.drops.total();
      assertEquals([left.length + dropped, bottleneck.droppedPackets, bottleneck.heldPackets], [
        sent.length,
        dropped,
        0,
      ]);
    }),
  );
});
