import { assert, assertEquals } from "@std/assert";
import { DropReason } from "../../src/base/drop.ts";
import { MILLISECOND } from "../../src/base/time.ts";
import { TcpState } from "../../src/tcp/state.ts";
import { readAll, TcpTrace } from "../testing/tcp_trace.ts";

for (const family of [4, 6] as const) {
  const mss = family === 4 ? 1460 : 1440;

  Deno.test(`output IPv${family}: the initial window is ten segments, however large the peer's`, () => {
    const h = new TcpTrace({}, family);
    const t = h.established({ wscale: 14 });
    h.write(t, 100_000);
    assertEquals(h.all().map((s) => [s.seq, s.len]), Array.from({ length: 10 }, (_, i) => [1 + i * mss, mss]));
    h.quietUntil(199);
  });

  Deno.test(`output IPv${family}: segments with timestamps fill the MTU exactly`, () => {
    const h = new TcpTrace({}, family);
    const t = h.established({ ts: true });
    h.write(t, 5000);
    h.out({ flags: ".", len: mss - 12, ts: true }); // the trace itself refuses packets beyond the MTU
  });
}

Deno.test("output: below ssthresh the window grows by what is acknowledged, while it is what holds us back", () => {
  const h = new TcpTrace();
  const t = h.established({ wscale: 14 });
  h.write(t, 60_000);
  assertEquals(h.all().length, 10);
  h.in({ flags: ".", seq: 1, ack: 1461 });
  assertEquals(h.all().length, 2);
  h.in({ flags: ".", seq: 1, ack: 1461 + 2920 });
  assertEquals(h.all().length, 4);
  assertEquals(t.congestion.cwnd, 13 * 1460);
});

Deno.test("output: a window that is not used does not grow", () => {
  const h = new TcpTrace();
  const t = h.established({ wscale: 14 });
  let acked = 1;
  for (let i = 0; i < 50; i++) {
    h.write(t, 1000);
    h.out({ flags: "P.", len: 1000 });
    h.in({ flags: ".", seq: 1, ack: acked += 1000 });
  }
  assertEquals(t.congestion.cwnd, 14600);
});

Deno.test("output: in slow start it grows to twice of what is used, however its acknowledgments come", () => {
  const h = new TcpTrace();
  const t = h.established({ wscale: 14 });
  let acked = 1;
  for (const segments of [6, 6, 3, 3]) {
    h.write(t, segments * 1460);
    assertEquals(h.all().length, segments);
    for (let i = 0; i < segments; i++) h.in({ flags: ".", seq: 1, ack: acked += 1460 });
    assertEquals(t.congestion.cwnd, 12 * 1460);
  }
});

Deno.test("output: after an idle time the window is no more than the initial one", () => {
  const h = new TcpTrace({ slowStartExit: "off" });
  const t = h.established({ wscale: 14 });
  let acked = 1;
  for (let i = 0; i < 6; i++) {
    h.fill(t);
    const n = h.all().reduce((sum, s) => sum + s.len!, 0);
    h.in({ flags: ".", seq: 1, ack: acked += n });
  }
  h.in({ flags: ".", seq: 1, ack: acked += h.all().reduce((sum, s) => sum + s.len!, 0) });
  while (t.unackedBytes > 0) h.in({ flags: ".", seq: 1, ack: acked += h.all().reduce((sum, s) => sum + s.len!, 0) });
  assert(t.congestion.cwnd > 200 * 1460);
  h.pass(60_000);
  h.write(t, 200_000);
  assertEquals(h.all().length, 10);
});

Deno.test("output: Nagle holds a small segment back while another is not acknowledged; full ones pass", () => {
  const h = new TcpTrace();
  const t = h.established();
  h.write(t, 10);
  h.out({ flags: "P.", seq: 1, len: 10 });
  h.write(t, 10);
  h.quiet();
  h.write(t, 1460);
  h.out({ flags: ".", seq: 11, len: 1460 });
  h.quiet();
  h.in({ flags: ".", seq: 1, ack: 11 });
  h.out({ flags: "P.", seq: 1471, len: 10 });
});

Deno.test("output: a small segment behind full ones goes at once (Minshall)", () => {
  const h = new TcpTrace();
  const t = h.established();
  h.write(t, 1460 + 10);
  assertEquals(h.all().map((s) => s.len), [1460, 10]);
  h.write(t, 10);
  h.quiet();
  h.in({ flags: ".", seq: 1, ack: 1461 });
  h.quiet();
  h.in({ flags: ".", seq: 1, ack: 1471 });
  h.out({ flags: "P.", len: 10 });
});

Deno.test("output: noDelay sends each write at once", () => {
  const h = new TcpTrace();
  const t = h.established();
  t.noDelay = true;
  for (let i = 0; i < 5; i++) {
    h.write(t, 10);
    h.out({ flags: "P.", seq: 1 + 10 * i, len: 10 });
  }
});

Deno.test("output: PSH stands on the segment that empties the buffer", () => {
  const h = new TcpTrace();
  const t = h.established();
  h.write(t, 3000);
  assertEquals(h.all().map((s) => s.flags.includes("P")), [false, false, true]);
});

Deno.test("output: less than a segment of window is used only if it is half of the largest ever offered", () => {
  const h = new TcpTrace();
  const t = h.established({ win: 4000 });
  h.write(t, 20_000);
  assertEquals(h.all().map((s) => s.len), [1460, 1460]); // 1,080 of 4,000 bytes are left
  h.in({ flags: ".", seq: 1, ack: 2921, win: 1000 });
  h.quiet();
  h.in({ flags: ".", seq: 1, ack: 2921, win: 1459 });
  h.quiet();
  h.in({ flags: ".", seq: 1, ack: 2921, win: 1460 });
  h.out({ flags: ".", seq: 2921, len: 1460 });

  const small = new TcpTrace();
  const u = small.established({ win: 1000 });
  small.write(u, 20_000);
  small.out({ flags: ".", len: 1000 });
  small.in({ flags: ".", seq: 1, ack: 1001, win: 499 });
  small.quiet();
  small.in({ flags: ".", seq: 1, ack: 1001, win: 500 });
  small.out({ flags: ".", seq: 1001, len: 500 });
});

Deno.test("output: a small window that stays is used when the persist timer runs out", () => {
  const h = new TcpTrace();
  const t = h.established({ win: 65535 }, 100);
  h.write(t, 3000);
  h.all();
  h.pass(100);
  h.in({ flags: ".", seq: 1, ack: 3001, win: 100 });
  h.write(t, 5000);
  h.quietUntil(499);
  h.pass(1);
  h.out({ flags: ".", seq: 3001, len: 100, at: 500 });
  h.pass(100);
  h.in({ flags: ".", seq: 1, ack: 3101, win: 100 });
  h.pass(300);
  h.out({ flags: ".", seq: 3101, len: 100 });
});

Deno.test("output: the small-queue limit holds back, and a departure lets go on", () => {
  const h = new TcpTrace({ smallQueueBytes: 5000 });
  const t = h.established();
  h.backlog = 5000;
  h.write(t, 10_000);
  h.quietUntil(100);
  h.tcp.departed(t.flow); // still as full
  h.quiet();
  h.backlog = 4999;
  h.quiet(); // nothing has left: TCP does not look by itself
  h.tcp.departed(t.flow);
  assertEquals(h.all().length, 7);
  h.tcp.departed(t.flow);
  h.tcp.departed(12345 * 2);
  h.tcp.departed(t.flow | 1);
  assertEquals(h.tcp.nextAt() > h.now, true);
});

Deno.test("output: acknowledgments and the retransmission on timeout pass the small-queue limit", () => {
  const h = new TcpTrace({ smallQueueBytes: 5000 });
  const t = h.established({}, 100);
  h.write(t, 6000);
  h.all();
  h.backlog = 5000; // the first segment has left
  h.in({ flags: ".", seq: 1, ack: 1, len: 1000 });
  h.in({ flags: ".", seq: 1001, ack: 1, len: 1000 });
  h.out({ flags: ".", ack: 2001 });
  h.pass(300);
  h.out({ flags: ".", seq: 1, len: 1460 });
});

Deno.test("output: what has not left the host is not sent again, and the timer goes on", () => {
  const h = new TcpTrace();
  const t = h.established({}, 100);
  h.write(t, 1000);
  h.all();
  h.backlog = 1040;
  h.quietUntil(h.now / 1e6 + 5000);
  assertEquals([t.retries, t.counters.timeouts, t.rtt.backoff], [0, 0, 0]);
  h.backlog = 0;
  h.pass(500);
  h.out({ flags: "P.", seq: 1, len: 1000 });
  assertEquals([t.retries, t.counters.timeouts], [1, 1]);
});

for (const family of [4, 6] as const) {
  for (const tailLossProbe of [true, false]) {
    const repair = tailLossProbe ? "probe" : "timer";
    Deno.test(`output IPv${family}: acknowledgments that queue behind data that is lost do not hold up the ${repair}`, () => {
      const h = new TcpTrace({ tailLossProbe, delayedAck: 0 }, family);
      const t = h.established({ sackOk: true }, 100);
      h.write(t, 100);
      h.out({ seq: 1, len: 100, flags: "P." });
      // It has left and is lost; the peer sends all the time, and the way for its acknowledgments is slow.
      let got = 1;
      for (let ms = 0; ms < 1000; ms += 10) {
        h.backlog = Math.min(ms, 40) * 10;
        h.in({ flags: ".", seq: got, ack: 1, len: 100 });
        got += 100;
        h.pass(10);
        readAll(t);
      }
      const again = h.all().filter(({ len }) => len === 100);
      assert(again.length >= 1, "nothing was sent again");
      assertEquals([t.counters.tailLossProbes > 0, t.counters.timeouts > 0], [tailLossProbe, true]);
    });
  }

  Deno.test(`output IPv${family}: data in the queue is held here, with acknowledgments before and behind it`, () => {
    const h = new TcpTrace({ delayedAck: 0 }, family);
    const t = h.established({}, 100);
    const bare = family === 4 ? 40 : 60;
    h.in({ flags: ".", seq: 1, ack: 1, len: 100 });
    h.write(t, 100);
    h.flush();
    for (let i = 1; i < 5; i++) h.in({ flags: ".", seq: 1 + 100 * i, ack: 1, len: 100 });
    h.all();
    h.backlog = 6 * bare + 100;
    h.pass(5000);
    assertEquals([h.all(), t.counters.timeouts], [[], 0]);
    // All but the last acknowledgments has left.
    h.backlog = 4 * bare;
    h.pass(500);
    h.out({ flags: "P.", seq: 1, len: 100 });
  });
}

Deno.test("output: data for which there is no packet follows when there is one", () => {
  const h = new TcpTrace();
  const t = h.established({}, 100);
  h.packetsLeft = 1;
  h.write(t, 5000);
  assertEquals(h.all().length, 1);
  assertEquals([t.sndNxt - t.sndUna, t.lostBytes], [1460, 0]);
  h.pass(5);
  assertEquals(h.all().length, 0);
  h.packetsLeft = Infinity;
  h.pass(1);
  assertEquals(h.all().map((s) => s.seq), [1461, 2921, 4381]);
  h.in({ flags: ".", seq: 1, ack: 5001 });
  assertEquals(t.counters.bytesRetransmitted, 0);
  h.noLeak();
});

/** What is acknowledged at once. */
const PROMPT: readonly [string, (h: TcpTrace) => void, number][] = [
  ["of a second segment", (h) => [1, 1001].forEach((seq) => h.in({ flags: ".", seq, ack: 1, len: 1000 })), 2001],
  ["beyond a hole", (h) => h.in({ flags: ".", seq: 1001, ack: 1, len: 1000 }), 1],
  ["of a FIN", (h) => h.in({ flags: "F.", seq: 1, ack: 1 }), 2],
  ["as a challenge", (h) => h.in({ flags: "S", seq: 100 }), 1],
];

for (const [name, cause, ack] of PROMPT) {
  Deno.test(`output: an acknowledgment ${name} for which there is no packet follows`, () => {
    const h = new TcpTrace();
    h.established();
    h.packetsLeft = 0;
    cause(h);
    h.quiet();
    h.packetsLeft = Infinity;
    h.pass(40);
    h.out({ flags: ".", ack });
    h.quietUntil(1000);
  });
}

for (const delayedAck of [0, "adaptive"] as const) {
  Deno.test(`output: while there is no packet for an acknowledgment TCP comes to rest in between (delayedAck ${delayedAck})`, () => {
    const h = new TcpTrace({ delayedAck });
    h.established();
    h.packetsLeft = 0;
    h.in({ flags: "P.", seq: 1, ack: 1, len: 10 });
    for (let i = 0; i < 100; i++) {
      h.flush();
      assert(h.tcp.nextAt() > h.now);
      h.pass(1);
    }
    h.packetsLeft = Infinity;
    h.pass(200);
    h.out({ flags: ".", ack: 11 });
    h.quietUntil(1000);
  });
}

Deno.test("output: so does the one that ends the handshake", () => {
  const h = new TcpTrace();
  h.connect();
  h.out({ flags: "S" });
  h.packetsLeft = 0;
  h.in({ flags: "S.", seq: 0, ack: 1, mss: 1460 });
  h.packetsLeft = Infinity;
  h.pass(40);
  h.out({ flags: ".", seq: 1, ack: 1 });
});

Deno.test("output: what the layers below refuse is counted, freed and sent again", () => {
  const h = new TcpTrace();
  const t = h.established({}, 100);
  h.outputReason = DropReason.QdiscLimit;
  h.write(t, 3000);
  h.quiet();
  assertEquals(h.drops.get(DropReason.QdiscLimit), 3);
  h.noLeak();
  h.outputReason = DropReason.None;
  h.pass(300);
  h.out({ flags: ".", seq: 1, len: 1460 });
});

Deno.test("output: segments carry their departure stamps, and TSval is that of the departure", () => {
  const h = new TcpTrace();
  const t = h.established({ ts: true });
  const before = h.lastTsVal;
  h.pass(10);
  t.departAt = 60 * MILLISECOND;
  h.write(t, 100);
  h.out({ flags: "P.", len: 100, at: 60 });
  assertEquals(h.lastTsVal - before, 60);
});

Deno.test("FIN: needs room in the window, as any byte", () => {
  const h = new TcpTrace();
  const t = h.established({ win: 1000 });
  h.write(t, 1000);
  t.shutdownWrite(h.now);
  h.out({ flags: "P.", seq: 1, len: 1000 });
  h.quiet();
  h.in({ flags: ".", seq: 1, ack: 1001, win: 0 });
  h.quiet();
  h.pass(210);
  h.out({ flags: ".", seq: 1000, len: 0 }); // the probe
  h.in({ flags: ".", seq: 1, ack: 1001, win: 1 });
  h.out({ flags: "F.", seq: 1001, len: 0 });
});

Deno.test("FIN: passes Nagle, with its data or alone", () => {
  const h = new TcpTrace();
  const t = h.established();
  h.write(t, 10);
  h.out({ flags: "P.", len: 10 });
  h.write(t, 10);
  h.quiet();
  t.shutdownWrite(h.now);
  h.out({ flags: "FP.", seq: 11, len: 10 });
  const alone = new TcpTrace();
  const u = alone.established();
  alone.write(u, 10);
  alone.out({ flags: "P.", len: 10 });
  u.shutdownWrite(alone.now);
  alone.out({ flags: "F.", seq: 11, len: 0 });
});

/** How the peer may acknowledge 10 bytes and the FIN in one segment, the first copy lost: what is sent again. */
for (
  const [acked, seq, len] of [[1, 1, 10], [5, 5, 6], [11, 11, 0]] as const
) {
  Deno.test(`FIN: sent again with what is left of its data, ${acked - 1} bytes acknowledged`, () => {
    const h = new TcpTrace();
    const t = h.established({}, 100);
    h.write(t, 10);
    t.shutdownWrite(h.now);
    h.out({ flags: "FP.", seq: 1, len: 10 });
    h.pass(100);
    if (acked > 1) h.in({ flags: ".", seq: 1, ack: acked });
    h.pass(300);
    h.out({ flags: "F.", seq, len });
    h.in({ flags: ".", seq: 1, ack: 12 });
    assertEquals([t.state, t.unackedBytes], [TcpState.FinWait2, 0]);
    h.quietUntil(5000);
  });
}

Deno.test("FIN: three segments and the FIN lost, all sent again in order, once", () => {
  const h = new TcpTrace();
  const t = h.established({}, 100);
  h.write(t, 3 * 1460);
  h.all();
  t.shutdownWrite(h.now);
  h.out({ flags: "F.", seq: 4381 });
  h.pass(300);
  h.out({ flags: ".", seq: 1, len: 1460 });
  h.in({ flags: ".", seq: 1, ack: 1461 });
  assertEquals(h.all().map((s) => [s.seq, s.len]), [[1461, 1460], [2921, 1460]]);
  h.in({ flags: ".", seq: 1, ack: 4381 });
  h.out({ flags: "F.", seq: 4381, len: 0 });
  h.in({ flags: ".", seq: 1, ack: 4382 });
  assertEquals(t.state, TcpState.FinWait2);
});

Deno.test("FIN: lost data behind which the FIN had come: only the data is sent again", () => {
  const h = new TcpTrace();
  const t = h.established({}, 100);
  h.write(t, 1460);
  h.all();
  t.shutdownWrite(h.now);
  h.out({ flags: "F.", seq: 1461 });
  h.pass(300);
  h.out({ flags: "P.", seq: 1, len: 1460 });
  h.in({ flags: ".", seq: 1, ack: 1462 });
  assertEquals(t.state, TcpState.FinWait2);
  h.quietUntil(10_000);
});

Deno.test("output: a write after the peer's reset is refused; nothing more is sent", () => {
  const h = new TcpTrace();
  const t = h.established();
  h.write(t, 100);
  h.all();
  h.in({ flags: "R", seq: 1 });
  assertEquals([t.write(new Uint8Array(1), 0, 1), t.writableBytes, t.unackedBytes, t.unsentBytes], [-1, 0, 0, 0]);
  h.quietUntil(100_000);
  h.noLeak();
});
