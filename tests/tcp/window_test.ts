import { assert, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { windowShiftFor } from "../../src/tcp/window.ts";
import { TcpTrace } from "../testing/tcp_trace.ts";

Deno.test("window: the shift is the least that tells the whole buffer, at most 14", () => {
  const cases: [number, number][] = [
    [1, 0],
    [65535, 0],
    [65536, 1],
    [131071, 1],
    [131072, 2],
    [1 << 20, 5],
    [1 << 29, 14],
    [2 ** 30, 14],
    [2 ** 31 - 1, 14],
  ];
  for (const [bytes, shift] of cases) assertEquals(windowShiftFor(bytes), shift, `${bytes}`);
  // What is asked for, as long as the window can still open.
  assertEquals([0, 7, 14, 20].map((wanted) => windowShiftFor(1 << 20, wanted)), [0, 7, 14, 14]);
  assertEquals([0, 7, 14].map((wanted) => windowShiftFor(300, wanted)), [0, 7, 7]);
  assertEquals([1, 2, 3].map((bytes) => windowShiftFor(bytes, 14)), [0, 0, 0]);
});

for (const family of [4, 6] as const) {
  Deno.test(`window IPv${family}: a SYN's window is not scaled, all others are, ours and theirs`, () => {
    const passive = new TcpTrace({ receiveBufferBytes: 1 << 20 }, family);
    passive.listen();
    passive.in({ flags: "S", seq: 0, mss: 1460, wscale: 3, win: 1000 });
    passive.out({ flags: "S.", win: 65535, wscale: 5 });
    const [t] = [...passive.tcp.connections()];
    assertEquals(t!.sndWnd, 1000);
    passive.in({ flags: ".", seq: 1, ack: 1, win: 1000, len: 1 });
    assertEquals(t!.sndWnd, 8000);
    passive.pass(40);
    passive.out({ flags: ".", win: (1 << 20) / 32 - 1 }); // a byte less, rounded down to 32

    const active = new TcpTrace({ receiveBufferBytes: 1 << 20 }, family);
    const u = active.connect();
    active.out({ flags: "S", win: 65535, wscale: 5 });
    active.in({ flags: "S.", seq: 0, ack: 1, mss: 1460, wscale: 14, win: 1000 });
    active.out({ flags: ".", win: (1 << 20) / 32 });
    assertEquals(u.sndWnd, 1000);
    active.in({ flags: ".", seq: 1, ack: 1, win: 1000, len: 1 });
    assertEquals(u.sndWnd, 1000 << 14);
  });
}

Deno.test("window: a SYN-ACK with data, and one that crosses ours, are not scaled either", () => {
  const h = new TcpTrace();
  const t = h.connect();
  h.in({ flags: "S.", seq: 0, ack: 1, mss: 1460, wscale: 7, win: 1000, len: 10 });
  assertEquals([t.sndWnd, h.read(t)], [1000, 10]);
  const crossing = new TcpTrace();
  const u = crossing.connect();
  crossing.in({ flags: "S", seq: 0, mss: 1460, wscale: 7, win: 500 });
  crossing.in({ flags: "S.", seq: 0, ack: 1, mss: 1460, wscale: 7, win: 1000 });
  assertEquals(u.sndWnd, 1000);
  crossing.in({ flags: ".", seq: 1, ack: 1, win: 1000 });
  assertEquals(u.sndWnd, 128_000);
});

Deno.test("window: a shift beyond 14 counts as 14 (RFC 7323 2.3)", () => {
  const h = new TcpTrace();
  const t = h.established({ wscale: 200, win: 1 });
  assertEquals([t.sndWndShift, t.sndWnd], [14, 1 << 14]);
});

Deno.test("window: it opens by a full segment or half the buffer, not by less", () => {
  const h = new TcpTrace({ receiveBufferBytes: 5000 });
  const t = h.established();
  for (const seq of [1, 1251, 2501, 3751]) h.in({ flags: ".", seq, ack: 1, len: 1250 });
  h.out({ flags: ".", ack: 2501, win: 2500 });
  h.out({ flags: ".", ack: 5001, win: 0 });
  h.read(t, 1000);
  h.quiet();
  h.read(t, 459);
  h.quiet();
  h.read(t, 1);
  h.out({ flags: ".", ack: 5001, win: 1460 });
  h.read(t, 1000);
  h.quiet();

  const small = new TcpTrace({ receiveBufferBytes: 100 });
  const u = small.established();
  small.in({ flags: ".", seq: 1, ack: 1, len: 100 });
  small.pass(40);
  small.out({ flags: ".", win: 0 });
  small.read(u, 49);
  small.quiet();
  small.read(u, 1);
  small.out({ flags: ".", ack: 101, win: 50 });
});

Deno.test("window: acknowledgments that go anyway open it by half of that, not by less", () => {
  const h = new TcpTrace({ receiveBufferBytes: 5000 });
  const t = h.established();
  for (const seq of [1, 1251, 2501]) h.in({ flags: ".", seq, ack: 1, len: 1250 });
  h.pass(40);
  h.all();
  h.read(t, 729);
  h.in({ flags: ".", seq: 1, ack: 1, len: 1250 }); // an old segment is acknowledged at once
  h.out({ flags: ".", ack: 3751, win: 1250 });
  h.read(t, 1);
  h.in({ flags: ".", seq: 1, ack: 1, len: 1250 });
  h.out({ flags: ".", ack: 3751, win: 1980 });
});

Deno.test("window: with plenty left, reading is told by the acknowledgments alone until half the buffer is free", () => {
  const h = new TcpTrace({ receiveBufferBytes: 60_000 });
  const t = h.established();
  let seq = 1;
  for (let i = 0; i < 10; i++) {
    h.in({ flags: ".", seq, ack: 1, len: 1460 }, true);
    seq += 1460;
    h.read(t);
  }
  assertEquals(h.all().length, 5);
});

/** What the peer sees of our window: the right edge may fall back by less than the scale, and never beyond the buffer. */
for (
  const [receiveBufferBytes, wscale] of [[5000, undefined], [5000, 0], [300_000, 7], [300_000, undefined]] as const
) {
  Deno.test(`window: property: a buffer of ${receiveBufferBytes}, shift ${wscale ?? "none"}: all that was offered is taken`, () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ length: fc.integer({ min: 0, max: 1460 }), read: fc.nat(400_000) }), { maxLength: 60 }),
        (steps) => {
          const h = new TcpTrace({ receiveBufferBytes });
          const t = h.established({ ...(wscale === undefined ? {} : { wscale }) });
          const shift = wscale === undefined ? 0 : windowShiftFor(receiveBufferBytes);
          let next = 1;
          let edge = 1 + Math.min(receiveBufferBytes, 65535);
          let read = 0;
          for (const step of steps) {
            const length = Math.min(step.length, edge - next);
            if (length > 0) h.in({ flags: ".", seq: next, ack: 1, len: length });
            next += length;
            if (read + t.readableBytes !== next - 1) throw new Error("something within the window was not taken");
            read += h.read(t, Math.min(step.read, t.readableBytes));
            h.pass(50);
            for (const s of h.all()) {
              const right = s.ack! + (s.win! << shift);
              assert(right > edge - (1 << shift), "the right edge moved back");
              edge = Math.max(edge, right);
              assert(edge - 1 - read <= receiveBufferBytes, "more offered than there is room for");
            }
          }
          // A reader that catches up makes room: the peer hears of it, or still has enough.
          h.read(t);
          h.pass(50);
          for (const s of h.all()) edge = Math.max(edge, s.ack! + (s.win! << shift));
          assert(edge - next >= Math.min(receiveBufferBytes >> 1, 1460), "no window, though all was read");
        },
      ),
      { numRuns: 60 },
    );
  });
}
