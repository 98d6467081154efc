import { assert, assertEquals } from "@std/assert";
import { Rng } from "../../src/base/rng.ts";
import { MILLISECOND, SECOND } from "../../src/base/time.ts";
import { FIRST_RECEIVE_BUFFER_BYTES, FIRST_SEND_BUFFER_BYTES } from "../../src/tcp/autotune.ts";
import type { TcpOptions } from "../../src/tcp/options.ts";
import { Tcb } from "../../src/tcp/tcb.ts";
import { TcpListener } from "../../src/tcp/listener.ts";
import { GOOD_LINK, TcpPair } from "../testing/tcp_pair.ts";
import { type Segment, SocketEvent, TcpTrace } from "../testing/tcp_trace.ts";

const TUNED: Partial<TcpOptions> = { receiveBufferBytes: 0, sendBufferBytes: 0 };

/** Sends one window's worth of segments a round-trip time, read at once, and doubles it each time. */
function slowStart(h: TcpTrace, t: Tcb, rounds: number, rtt: number, read = true): void {
  let seq = 1;
  for (let round = 0, segments = 10; round < rounds; round++, segments *= 2) {
    for (let i = 0; i < segments; i++) {
      if (t.rcvAdv - t.rcvNxt < 1460) break;
      h.in({ flags: ".", seq, ack: 1, len: 1460 }, false);
      seq += 1460;
      if (read) h.read(t);
    }
    h.all();
    h.pass(rtt);
  }
}

for (const family of [4, 6] as const) {
  Deno.test(`autotune IPv${family}: the window begins with 128 KiB, and the shift is that of the bound`, () => {
    const h = new TcpTrace(TUNED, family);
    const t = h.established({ wscale: 7 });
    assertEquals([t.receiveRing.capacity, t.rcvWndShift], [FIRST_RECEIVE_BUFFER_BYTES, 7]);
    assertEquals(t.sendRing.capacity >= FIRST_SEND_BUFFER_BYTES, true);
    h.in({ flags: ".", seq: 1, ack: 1, len: 1 });
    h.read(t);
    // The SYN could only tell of half of it: the first acknowledgment, which does not wait, tells of the rest.
    assertEquals(h.out({ flags: ".", ack: 2, at: 0 }).win, (FIRST_RECEIVE_BUFFER_BYTES - 1) >> 7);
  });
}

Deno.test("autotune: a sender that doubles finds the window open before it gets there, with and without timestamps", () => {
  for (const ts of [true, false]) {
    const h = new TcpTrace(TUNED);
    const t = h.established({ wscale: 7, ts: ts as Segment["ts"] & boolean }, 50);
    slowStart(h, t, 9, 50);
    // 10 · 2^8 segments of 1,460 bytes in the last round.
    assert(t.receiveRing.capacity >= 2 * 1460 * 10 * 2 ** 7, `${ts}: ${t.receiveRing.capacity}`);
    const { rtt } = t.receiveTuning!;
    assert(Math.abs(rtt - 50 * MILLISECOND) <= 25 * MILLISECOND, `${ts}: ${rtt}`);
  }
});

Deno.test("autotune: the window stays within the bound, and a fixed buffer as it is", () => {
  const h = new TcpTrace({ ...TUNED, receiveBufferMaxBytes: 300_000 });
  const t = h.established({ wscale: 7, ts: true }, 50);
  slowStart(h, t, 9, 50);
  assertEquals(t.receiveRing.capacity, 300_000);
  const small = new TcpTrace({ ...TUNED, receiveBufferMaxBytes: 5000 });
  assertEquals(small.established().receiveRing.capacity, 5000);
  const fixed = new TcpTrace({ receiveBufferBytes: 200_000 });
  const u = fixed.established({ wscale: 7, ts: true }, 50);
  slowStart(fixed, u, 9, 50);
  assertEquals(u.receiveRing.capacity, 200_000);
});

Deno.test("autotune: an application that does not read gets no more buffer", () => {
  const h = new TcpTrace(TUNED);
  const t = h.established({ wscale: 7, ts: true }, 50);
  slowStart(h, t, 9, 50, false);
  assertEquals(t.receiveRing.capacity, FIRST_RECEIVE_BUFFER_BYTES);
});

Deno.test("autotune: a slow steady flow needs no more than the first buffer", () => {
  const h = new TcpTrace(TUNED);
  const t = h.established({ wscale: 7, ts: true }, 50);
  let seq = 1;
  for (let i = 0; i < 500; i++) {
    h.in({ flags: ".", seq, ack: 1, len: 1460 });
    seq += 1460;
    h.read(t);
    h.pass(10);
  }
  h.all();
  assertEquals(t.receiveRing.capacity, FIRST_RECEIVE_BUFFER_BYTES);
});

Deno.test("autotune: the send buffer is twice the congestion window, up to the bound, and says so", () => {
  const h = new TcpTrace({ ...TUNED, sendBufferMaxBytes: 300_000 });
  const t = h.established({ wscale: 7, win: 60_000 }, 50);
  h.fill(t);
  let acked = 1;
  for (let round = 0; round < 12; round++) {
    for (const { len } of h.all()) acked += len!;
    h.pass(50);
    h.eventsOf(t);
    h.in({ flags: ".", seq: 1, ack: acked, win: 60_000 });
    assert(t.sendRing.capacity >= Math.min(2 * t.congestion.cwnd, 300_000) - t.mss, `round ${round}`);
    const told = (h.eventsOf(t) & SocketEvent.Writable) !== 0;
    assertEquals(told, t.sendRing.room * 4 >= t.sendRing.capacity, `round ${round}`);
    h.fill(t);
  }
  assertEquals(t.sendRing.capacity, 300_000);
  const fixed = new TcpTrace({ sendBufferBytes: 10_000 });
  const u = fixed.established({}, 50);
  for (let i = 0, ack = 1; i < 10; i++) {
    fixed.fill(u);
    for (const { len } of fixed.all()) ack += len!;
    fixed.pass(50);
    fixed.in({ flags: ".", seq: 1, ack });
  }
  assertEquals(u.sendRing.capacity, 10_000);
});

for (const family of [4, 6] as const) {
  Deno.test(`autotune IPv${family}: bulk over a path of 100 ms and 32 Mbit/s fills it, though buffers begin small`, () => {
    const link = { ...GOOD_LINK, delay: 50 * MILLISECOND, rateBytesPerSec: 4e6 };
    const options: Partial<TcpOptions> = { congestion: "cubic", pacing: "edt", smallQueueBytes: 64 << 10 };
    const pair = new TcpPair(new Rng(7), family, 1500, [link, link], [options, options]);
    const listener = pair.b.tcp.listen(pair.b.address, 80);
    assert(listener instanceof TcpListener);
    const client = pair.a.tcp.connect(pair.b.address, 80, {}, 0);
    assert(client instanceof Tcb);
    let server: Tcb | null = null;
    const out = new Uint8Array(65536);
    let received = 0;
    let after = 0;
    for (let now = 0; now < 3 * SECOND; now = Math.max(now, pair.nextAt())) {
      while (client.write(out, 0, out.length) > 0);
      pair.step(now);
      server ??= listener.accept();
      if (server === null) continue;
      for (let n = server.read(out); n > 0; n = server.read(out)) {
        received += n;
        if (now > 1.5 * SECOND) after += n;
      }
    }
    // The path holds 400 kB: three times what the window begins with.
    assert(after > 0.85 * 1.5 * 4e6 * 1448 / 1500, `${after / 1.5e6} MB/s of 4; ${received} bytes in all`);
    assert(server!.receiveRing.capacity >= 4e5, `${server!.receiveRing.capacity}`);
  });
}
