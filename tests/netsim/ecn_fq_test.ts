/**
 * Congestion marks from our own scheduler: what has waited in FQ beyond its departure is marked, the receiver echoes it,
 * and the sender goes slower without a packet lost.
 *
 * The network card is slower than the sender, which does not pace itself, so that packets wait in FQ.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import type { EventSource } from "../../src/base/event_queue.ts";
import type { Packet, PacketPool } from "../../src/base/packet.ts";
import { type Instant, MILLISECOND, SECOND } from "../../src/base/time.ts";
import { BULK_PORT, BulkSink, BulkSource, openBulk } from "../../src/lab/bulk.ts";
import { Simulator } from "../../src/netsim/simulator.ts";
import type { SimHost } from "../../src/netsim/topology.ts";
import { parseHostConfig } from "../../src/stack/config.ts";
import { Stack } from "../../src/stack/stack.ts";

/** Bytes per second of the network card: 10 Mbit/s. */
const RATE_BYTES_PER_SEC = 1_250_000;

/** A host whose card takes a packet only when it has sent the one before. */
class SlowCard implements SimHost {
  #freeAt: Instant = 0;

  constructor(readonly stack: Stack) {}

  get pool(): PacketPool {
    return this.stack.pool;
  }
  input(ifindex: number, p: Packet, now: Instant): void {
    this.stack.input(ifindex, p, now);
  }
  timeout(now: Instant): void {
    this.stack.timeout(now);
  }
  pull(now: Instant): Packet | null {
    if (now < this.#freeAt) return null;
    const p = this.stack.pull(now);
    if (p !== null) this.#freeAt = now + Math.ceil(p.length / RATE_BYTES_PER_SEC * SECOND);
    return p;
  }
  nextAt(): Instant {
    return Math.max(this.stack.nextAt(), this.#freeAt);
  }
  pollEvent(): EventSource | null {
    return this.stack.pollEvent();
  }
}

function bulk(family: 4 | 6, ecn: "on" | "off", congestion: string) {
  const sim = new Simulator({ seed: 1, digest: false });
  const [one, two] = family === 4 ? ["10.0.0.1", "10.0.0.2"] : ["fd00::1", "fd00::2"];
  const prefix = family === 4 ? 24 : 64;
  const tcp = { congestion, ecn, slowStartExit: "off", pacing: "off", smallQueueBytes: 1 << 24 } as const;
  const config = parseHostConfig({
    address: `${one}/${prefix}`,
    peers: [{ name: "b", allowed: two! }],
    tcp,
    qdisc: { kind: "fq", ceThreshold: 15 * MILLISECOND, flowLimit: 10_000 },
    encapsulation: "none",
  });
  const a = new Stack(config, sim.hostRng("a"));
  sim.addHost("a", new SlowCard(a), new BulkSource());
  const sink = new BulkSink();
  const b = sim.addStack("b", { address: `${two}/${prefix}`, peers: [{ name: "a", allowed: one! }], tcp }, sink);
  sim.link(["a", 1], ["b", 1], { delay: 10 * MILLISECOND }, { delay: 10 * MILLISECOND });
  const t = openBulk(a, b, two!, sim.now);
  sim.run(5 * SECOND);
  const peer = [...b.tcp.connections()].find((c) => c.localPort === BULK_PORT)!;
  const marks = a.qdisc.stats(sim.now)["ce_mark"]!;
  return { t, peer, marks, bytes: sink.bytes };
}

for (const family of [4, 6] as const) {
  for (const congestion of ["reno", "cubic"]) {
    Deno.test(`ecn IPv${family} ${congestion}: marks from FQ hold the queue down, with the link full and nothing lost`, () => {
      const { t, peer, marks, bytes } = bulk(family, "on", congestion);
      assert(marks > 0 && peer.counters.ceIn > 0 && t.counters.ecnEchoes > 0, `${marks} marks`);
      assert(peer.counters.ceIn <= marks);
      assertEquals([t.counters.bytesRetransmitted, t.counters.timeouts, t.counters.undos], [0, 0, 0]);
      const reductions = t.trace!.events().filter((e) => e.why === "the peer echoes congestion");
      assert(reductions.length >= 2, `${reductions.length} reductions`);
      // At most one a round trip, which the queue makes longer than the path's 20 ms.
      for (const [i, e] of reductions.slice(1).entries()) assert(e.time - reductions[i]!.time >= 20);
      assert(bytes > 0.85 * 5 * RATE_BYTES_PER_SEC, `${bytes} bytes`);
      // 15 ms of queue is what is asked for; without marks the window would grow up to the buffers.
      assert(t.rtt.srtt < 60 * MILLISECOND, `${t.rtt.srtt / MILLISECOND} ms`);
    });
  }

  Deno.test(`ecn IPv${family}: without agreement nothing is marked, and the queue stands`, () => {
    const { t, marks } = bulk(family, "off", "reno");
    assertEquals([marks, t.counters.ecnEchoes], [0, 0]);
    assert(t.rtt.srtt > 100 * MILLISECOND, `${t.rtt.srtt / MILLISECOND} ms`);
  });
}
