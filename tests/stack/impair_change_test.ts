/**
 * Impairments of a stack, changed while it runs: by peer and direction, without losing or reordering what is under way.
 *
 * @module
 */

import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { MILLISECOND, SECOND } from "../../src/base/time.ts";
import { NETEM_DEFAULTS } from "../../src/impair/config.ts";
import { parseNetem } from "../../src/impair/parse.ts";
import { Simulator } from "../../src/netsim/simulator.ts";
import type { Stack } from "../../src/stack/stack.ts";
import { UdpSocket } from "../../src/udp/udp_socket.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";

/** Two stacks on a plain link, and a socket on each. */
function pair(impair: Record<string, string> = {}): {
  sim: Simulator;
  a: Stack;
  b: Stack;
  send: (n: number) => void;
  received: { n: number; at: number }[];
} {
  const sim = new Simulator({ seed: 3 });
  const received: { n: number; at: number }[] = [];
  const a = sim.addStack("a", { address: "10.7.0.1/24", peers: [{ name: "b", allowed: "10.7.0.2", impair }] });
  const b = sim.addStack("b", {
    address: "10.7.0.2/24",
    peers: [{ name: "a", allowed: "10.7.0.1" }],
    udp: { receiveBufferBytes: 1 << 24 },
  });
  sim.link(["a", 1], ["b", 1]);
  const from = a.udp.bind(IpAddr.parse("10.7.0.1"), 1);
  const to = b.udp.bind(IpAddr.parse("10.7.0.2"), 2);
  if (!(from instanceof UdpSocket) || !(to instanceof UdpSocket)) throw new Error("not bound");
  const buffer = new Uint8Array(4);
  const look = (now: number) => {
    while (to.queuedDatagrams > 0) {
      to.receive(buffer);
      received.push({ n: new DataView(buffer.buffer).getUint32(0), at: now });
    }
  };
  const send = (n: number) => {
    look(sim.now);
    const bytes = new Uint8Array(4);
    new DataView(bytes.buffer).setUint32(0, n);
    from.send(bytes, IpAddr.parse("10.7.0.2"), 2, sim.now);
  };
  for (let ms = 0; ms < 20_000; ms++) sim.at(ms * MILLISECOND + 1, look);
  return { sim, a, b, send, received };
}

Deno.test("a stack's impairments are changed a thousand times under load: nothing is lost or reordered", () => {
  const { sim, a, b, send, received } = pair({ out: "delay 20ms" });
  const texts = [
    "delay 50ms",
    "rate 1mbit delay 5ms",
    "",
    "delay 30ms 10ms jitter keep-order",
    "delay 1ms slot 1ms 3ms",
  ];
  for (let i = 0; i < 5000; i++) {
    sim.at(i * MILLISECOND, (now) => {
      if (i % 10 === 5) {
        a.setImpairment(1, "out", parseNetem(`${texts[(i / 10 | 0) % texts.length]} limit 10000`), now);
        b.setImpairment(1, "in", i % 20 === 5 ? parseNetem("delay 7ms") : null, now);
      }
      send(i);
    });
  }
  sim.run(20 * SECOND);
  assertEquals(received.map(({ n }) => n), Array.from({ length: 5000 }, (_, n) => n));
  assertEquals([a.drops.total(), b.drops.total(), a.pool.inUse, b.pool.inUse], [0, 0, 0, 0]);
});

Deno.test("a stack's impairment begins, changes and ends; each direction and peer for itself", () => {
  const { sim, a, send, received } = pair();
  assertEquals(a.inspect(0).interfaces[0]!.impairOut, null);
  const at = (ms: number, text: string | null) =>
    sim.at(ms * MILLISECOND, (now) => a.setImpairment(1, "out", text === null ? null : parseNetem(text), now));
  at(10, "delay 100ms");
  at(500, "delay 10ms");
  at(700, null);
  [0, 200, 600, 800].forEach((ms, n) => sim.at(ms * MILLISECOND, () => send(n)));
  sim.at(650 * MILLISECOND, (now) => {
    const { impairIn, impairOut } = a.inspect(now).interfaces[0]!;
    assertEquals([impairIn, impairOut?.netem, impairOut?.stats["packets"]], [null, "delay 10ms", 2]);
    assertEquals(impairOut?.report?.own.given?.mean, 10 * MILLISECOND);
    JSON.stringify(impairOut);
  });
  sim.run(2 * SECOND);
  received.forEach(({ n, at }, i) => {
    assertEquals(n, i);
    assertAlmostEquals(at / MILLISECOND, [0, 300, 610, 800][i]!, 1.1);
  });
  assertEquals(received.length, 4);
  assertEquals(a.inspect(sim.now).interfaces[0]!.impairOut, null);
  assertThrows(() => a.setImpairment(2, "out", null, 0), RangeError, "no peer with interface 2");
  assertThrows(() => a.setImpairment(1, "out", { ...NETEM_DEFAULTS, loss: 2 }, 0), RangeError, "netem loss");
});

Deno.test("an impairment that is taken away lets go in order what it holds", () => {
  const { sim, a, send, received } = pair({ out: "delay 100ms" });
  sim.at(0, () => send(0));
  sim.at(10 * MILLISECOND, (now) => a.setImpairment(1, "out", null, now));
  sim.at(20 * MILLISECOND, () => send(1));
  sim.at(300 * MILLISECOND, () => send(2));
  sim.run(SECOND);
  assertEquals(received.map(({ n, at }) => [n, Math.floor(at / MILLISECOND)]), [[0, 100], [1, 100], [2, 300]]);
});

Deno.test("netsim: a link's impairment is changed while packets are under way", () => {
  const sim = new Simulator({ seed: 1 });
  const names = ["a", "b"];
  const [a, b] = names.map((name, i) =>
    sim.addStack(name, {
      address: `10.7.0.${i + 1}/24`,
      peers: [{ name: names[1 - i]!, allowed: `10.7.0.${2 - i}` }],
    })
  );
  const link = sim.link(["a", 1], ["b", 1], { impair: "delay 50ms" }, {});
  const from = a!.udp.bind(IpAddr.parse("10.7.0.1"), 1);
  if (!(from instanceof UdpSocket)) throw new Error("not bound");
  for (const ms of [0, 1, 2, 100, 200]) {
    sim.at(ms * MILLISECOND, (now) => void from.send(new Uint8Array(9), IpAddr.parse("10.7.0.2"), 2, now));
  }
  sim.at(3 * MILLISECOND, () => sim.setImpairment(link.forth, "delay 10ms loss 100%"));
  sim.at(150 * MILLISECOND, () => sim.setImpairment(link.forth, null));
  sim.at(150 * MILLISECOND, () => sim.setImpairment(link.back, "loss 100%"));
  sim.run(SECOND);
  assertEquals([link.forth.sentPackets, link.forth.arrivedPackets, link.forth.stage!.stats()["lost"]], [5, 4, 1]);
  assert(link.back.stage!.stats()["lost"]! > 0, "port unreachable");
  assertThrows(() => new Simulator({ seed: 1 }).setImpairment(link.forth, null), TypeError, "another simulator");
  assertEquals(b!.pool.inUse, 0);
});
