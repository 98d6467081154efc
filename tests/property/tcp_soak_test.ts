/**
 * Longer transfers over a link with plain loss: many flows at once, and one alone, whose retransmissions are counted.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { Rng } from "../../src/base/rng.ts";
import { SECOND } from "../../src/base/time.ts";
import { TcpListener } from "../../src/tcp/listener.ts";
import type { TcpOptions } from "../../src/tcp/options.ts";
import { Tcb } from "../../src/tcp/tcb.ts";
import { GOOD_LINK, type LinkOptions, TcpPair } from "../testing/tcp_pair.ts";

interface Outcome {
  /** When the last byte was acknowledged. */
  seconds: number;
  clients: Tcb[];
  servers: Tcb[];
}

/** `flows` connections that carry `bytes` each way at once. */
function transfer(
  seed: number,
  flows: number,
  bytes: number,
  link: Partial<LinkOptions>,
  options: Partial<TcpOptions> = {},
): Outcome {
  const both = { ...GOOD_LINK, ...link };
  const pair = new TcpPair(new Rng(seed).fork("soak"), seed % 2 === 0 ? 4 : 6, 1500, [both, both], [options, options]);
  const listener = pair.b.tcp.listen(pair.b.address, 80);
  assert(listener instanceof TcpListener);
  const clients: Tcb[] = [];
  for (let i = 0; i < flows; i++) {
    const t = pair.a.tcp.connect(pair.b.address, 80, {}, 0);
    assert(t instanceof Tcb);
    clients.push(t);
  }
  const servers: Tcb[] = [];
  const block = new Uint8Array(16384);
  const left = new Map<Tcb, number>(clients.map((t) => [t, bytes]));
  let progressAt = 0;
  let acked = 0;
  for (let steps = 0; clients.length + servers.length > 0; steps++) {
    const at = pair.nextAt();
    assert(at < Infinity && steps < 2_000_000, "stands still");
    pair.step(Math.max(at, pair.now));
    for (let t = listener.accept(); t !== null; t = listener.accept()) {
      servers.push(t);
      left.set(t, bytes);
    }
    let sum = 0;
    let done = servers.length === flows;
    for (const t of [...clients, ...servers]) {
      while (t.read(block) > 0);
      const rest = left.get(t)!;
      if (rest > 0) left.set(t, rest - Math.max(0, t.write(block, 0, Math.min(rest, block.length))));
      sum += t.counters.bytesAcked;
      if (t.counters.bytesAcked < bytes || t.counters.bytesReceived < bytes) done = false;
    }
    if (sum > acked) [acked, progressAt] = [sum, pair.now];
    assert(pair.now - progressAt < 60 * SECOND, "no progress for a minute");
    if (done) break;
  }
  return { seconds: pair.now / SECOND, clients, servers };
}

for (const seed of [2, 3]) {
  Deno.test(`tcp soak: 40 flows both ways with loss both ways all come through (seed ${seed})`, () => {
    const { clients, servers } = transfer(seed, 40, 20_000, { loss: 0.05, rateBytesPerSec: 1_250_000 });
    for (const t of [...clients, ...servers]) {
      assertEquals([t.counters.bytesAcked, t.counters.bytesReceived], [20_000, 20_000]);
      assertEquals(t.errorText, "");
    }
  });

  Deno.test(`tcp soak: without loss nothing is sent twice, and the link is full (seed ${seed})`, () => {
    const { clients, servers, seconds } = transfer(seed, 1, 1_500_000, { rateBytesPerSec: 1_000_000 });
    for (const t of [...clients, ...servers]) {
      assertEquals([t.counters.bytesRetransmitted, t.counters.timeouts], [0, 0]);
    }
    assert(seconds < 1.15 * 1.5 * 1500 / 1448 + 0.2, `${seconds} s`);
  });

  Deno.test(`tcp soak: with a little loss little more than that is sent twice (seed ${seed})`, () => {
    const bytes = 2_000_000;
    const { clients, servers } = transfer(seed, 1, bytes, { loss: 0.005, rateBytesPerSec: 3_000_000 });
    for (const { counters } of [...clients, ...servers]) {
      assert(counters.bytesRetransmitted < 0.02 * bytes, `${counters.bytesRetransmitted} bytes again`);
      assert(counters.fastRetransmits > counters.timeouts, "mostly by fast retransmit");
    }
  });
}

for (const pacing of ["edt", "internal", "off"] as const) {
  Deno.test(`tcp soak: an end that is paced slowly keeps its rate, and takes in as fast as the link goes (${pacing})`, () => {
    const link = { ...GOOD_LINK, rateBytesPerSec: 1_000_000 };
    const rate = pacing === "off" ? Infinity : 5000;
    const options = [{ pacing, maxPacingRateBytesPerSec: rate }, {}] as const;
    const pair = new TcpPair(new Rng(4).fork("soak"), 4, 1500, [link, link], options);
    const listener = pair.b.tcp.listen(pair.b.address, 80);
    assert(listener instanceof TcpListener);
    const a = pair.a.tcp.connect(pair.b.address, 80, {}, 0);
    assert(a instanceof Tcb);
    let b: Tcb | null = null;
    const block = new Uint8Array(16384);
    while (pair.now < 20 * SECOND) {
      pair.step(Math.max(pair.now, pair.nextAt()));
      b ??= listener.accept();
      for (const t of [a, b]) {
        if (t === null) continue;
        while (t.read(block) > 0);
        t.write(block, 0, block.length);
      }
    }
    assert(b !== null);
    // Of the link something is taken by headers and acknowledgments, and lost to slow start.
    assert(a.counters.bytesReceived > 0.9 * 20 * 1_000_000 * 1448 / 1500, `${a.counters.bytesReceived} bytes came in`);
    assertEquals([b.counters.bytesRetransmitted, pair.b.drops.total()], [0, 0]);
    if (rate === Infinity) return;
    // The first ten segments are not paced.
    const sent = (b.counters.bytesReceived - 10 * 1448) / 20;
    assert(sent > 0.9 * rate && sent < 1.1 * rate, `sent at ${sent} bytes per second`);
  });
}
