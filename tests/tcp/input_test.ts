import { assert, assertEquals } from "@std/assert";
import { DropReason } from "../../src/base/drop.ts";
import { SocketErrorKind } from "../../src/base/errors.ts";
import { TcpState } from "../../src/tcp/state.ts";
import { REASSEMBLY_RANGES } from "../../src/tcp/reassembly.ts";
import { SocketEvent, TcpTrace } from "../testing/tcp_trace.ts";

for (const family of [4, 6] as const) {
  Deno.test(`input IPv${family}: the acknowledgment of one full segment waits 40 ms, of the second not at all`, () => {
    const h = new TcpTrace({}, family);
    const t = h.established();
    h.in({ flags: ".", seq: 1, ack: 1, len: 1400 });
    h.quietUntil(39);
    h.until(40);
    h.out({ flags: ".", ack: 1401, at: 40 });
    h.in({ flags: ".", seq: 1401, ack: 1, len: 1400 });
    h.quiet();
    h.in({ flags: ".", seq: 2801, ack: 1, len: 1400 });
    h.out({ flags: ".", ack: 4201, at: 40 });
    h.quietUntil(1000);
    assertEquals(h.read(t), 4200);
    h.noLeak();
  });

  Deno.test(`input IPv${family}: each out-of-order segment is acknowledged at once, the latest block first`, () => {
    const h = new TcpTrace({}, family);
    const t = h.established({ sackOk: true });
    const block = (n: number): [number, number] => [n * 1000 + 1, n * 1000 + 1001];
    for (const n of [2, 4, 6, 8, 10]) h.in({ flags: ".", seq: n * 1000 + 1, ack: 1, len: 1000 });
    h.out({ flags: ".", ack: 1, sack: [block(2)], at: 0 });
    h.out({ flags: ".", ack: 1, sack: [block(4), block(2)], at: 0 });
    h.out({ flags: ".", ack: 1, sack: [block(6), block(4), block(2)], at: 0 });
    h.out({ flags: ".", ack: 1, sack: [block(8), block(6), block(4), block(2)], at: 0 });
    h.out({ flags: ".", ack: 1, sack: [block(10), block(8), block(6), block(4)], at: 0 });
    // A range that grows is the latest (RFC 2018 section 4); a duplicate is reported in front of its range (RFC 2883 4.2).
    h.in({ flags: ".", seq: 3001, ack: 1, len: 1000 });
    h.out({ flags: ".", ack: 1, sack: [[2001, 5001], block(10), block(8), block(6)] });
    h.in({ flags: ".", seq: 8001, ack: 1, len: 1000 });
    h.out({ flags: ".", ack: 1, sack: [block(8), block(8), [2001, 5001], block(10)] });
    // Gaps that are filled are acknowledged at once, whole or in part.
    h.in({ flags: ".", seq: 1, ack: 1, len: 500 });
    h.out({ flags: ".", ack: 501, at: 0 });
    h.in({ flags: ".", seq: 501, ack: 1, len: 1500 });
    h.out({ flags: ".", ack: 5001, sack: [block(8), block(10), block(6)], at: 0 });
    h.in({ flags: ".", seq: 5001, ack: 1, len: 1000 });
    h.out({ flags: ".", ack: 7001 });
    h.in({ flags: ".", seq: 7001, ack: 1, len: 1400 });
    h.out({ flags: ".", ack: 9001, sack: [[8001, 8401], block(10)] });
    h.in({ flags: ".", seq: 9001, ack: 1, len: 1000 });
    h.out({ flags: ".", ack: 11001, sack: [] });
    assertEquals(h.read(t), 11000);
    h.noLeak();
  });

  Deno.test(`input IPv${family}: with timestamps there is room for three blocks`, () => {
    const h = new TcpTrace({}, family);
    h.established({ sackOk: true, ts: true });
    for (const seq of [101, 301, 501, 701]) h.in({ flags: ".", seq, ack: 1, len: 100 });
    const sent = h.all();
    assertEquals(sent.length, 4);
    assertEquals(sent[3]!.sack, [[701, 801], [501, 601], [301, 401]]);
  });
}

Deno.test("input: without SACK out-of-order segments bring bare duplicates", () => {
  const h = new TcpTrace();
  h.established();
  h.in({ flags: ".", seq: 1001, ack: 1, len: 1000 });
  h.in({ flags: ".", seq: 2001, ack: 1, len: 1000 });
  const [first, second] = h.all();
  assertEquals(first, { ...second! });
  assertEquals([first!.ack, first!.sack], [1, []]);
});

Deno.test("input: data to send carries the acknowledgment, and none follows", () => {
  const h = new TcpTrace();
  const t = h.established();
  h.in({ flags: ".", seq: 1, ack: 1, len: 100 });
  h.pass(10);
  h.write(t, 50);
  h.out({ flags: "P.", seq: 1, ack: 101, len: 50, at: 10 });
  h.quietUntil(100);
});

Deno.test("input: what comes together is acknowledged together, at once", () => {
  const h = new TcpTrace();
  h.established();
  for (const seq of [1, 1001, 2001]) h.in({ flags: ".", seq, ack: 1, len: 1000 }, false);
  h.out({ flags: ".", ack: 3001, at: 0 });
  h.quietUntil(100);
});

Deno.test("input: a segment that was taken already is acknowledged at once", () => {
  const h = new TcpTrace();
  const t = h.established();
  h.in({ flags: ".", seq: 1, ack: 1, len: 100 });
  h.in({ flags: ".", seq: 1, ack: 1, len: 100 });
  h.out({ flags: ".", ack: 101, at: 0 });
  assertEquals(t.readableBytes, 100);
});

Deno.test("input: overlapping segments give each byte once, the first copy of it", () => {
  const h = new TcpTrace();
  const t = h.established();
  h.in({ flags: ".", seq: 6, ack: 1, data: "fghij" });
  h.in({ flags: ".", seq: 12, ack: 1, data: "lm" });
  h.in({ flags: ".", seq: 3, ack: 1, data: "cdef" });
  h.in({ flags: ".", seq: 9, ack: 1, data: "ijklm" });
  h.in({ flags: ".", seq: 1, ack: 1, data: "abcd" });
  h.in({ flags: ".", seq: 10, ack: 1, data: "jklmno" });
  const out = new Uint8Array(20);
  assertEquals(new TextDecoder().decode(out.subarray(0, t.read(out))), "abcdefghijklmno");
  h.all();
  h.noLeak();
});

Deno.test("input: bytes beyond the window are cut off, though the buffer may have room; the right edge never moves back", () => {
  const h = new TcpTrace({ receiveBufferBytes: 1000 });
  const t = h.established();
  let edge = 1001;
  let next = 1;
  const check = () => {
    for (const s of h.all()) {
      assert(s.ack! + s.win! >= edge, `right edge ${s.ack! + s.win!} after ${edge}`);
      edge = s.ack! + s.win!;
    }
  };
  for (let round = 0; round < 20; round++) {
    h.in({ flags: ".", seq: next, ack: 1, len: 1400 });
    next = edge;
    h.pass(40);
    check();
    assertEquals(t.readableBytes, 1000);
    h.in({ flags: ".", seq: next, ack: 1, len: 1 });
    h.out({ flags: ".", ack: next, win: 0 });
    h.read(t);
    check();
    assertEquals(edge, next + 1000);
  }
  h.noLeak();
});

Deno.test("input: with a closed window acknowledgments and resets are still taken", () => {
  const h = new TcpTrace({ receiveBufferBytes: 500 });
  const t = h.established();
  h.in({ flags: ".", seq: 1, ack: 1, len: 500 });
  h.pass(40);
  h.out({ flags: ".", ack: 501, win: 0 });
  h.write(t, 100);
  h.out({ flags: "P.", seq: 1, len: 100 });
  h.in({ flags: ".", seq: 501, ack: 51 });
  assertEquals(t.unackedBytes, 50);
  h.in({ flags: ".", seq: 501, ack: 101, len: 10 }); // with data that is not taken
  h.out({ flags: ".", ack: 501, win: 0 });
  assertEquals(t.unackedBytes, 0);
  h.in({ flags: "R", seq: 501 });
  assertEquals(t.error, SocketErrorKind.ConnectionReset);
});

Deno.test("input: urgent data is delivered in line", () => {
  const h = new TcpTrace();
  const t = h.established();
  h.in({ flags: "UP.", seq: 1, ack: 1, len: 100, urgent: 50 });
  h.in({ flags: "U.", seq: 101, ack: 1, len: 100, urgent: 60000 });
  assertEquals(h.read(t), 200);
});

Deno.test("input: an old acknowledgment changes nothing, one older than all that was sent is challenged", () => {
  const h = new TcpTrace();
  const t = h.established();
  h.write(t, 3000);
  h.all();
  h.in({ flags: ".", seq: 1, ack: 2001, win: 5000 });
  h.all();
  h.in({ flags: ".", seq: 1, ack: 1001, win: 100 });
  h.quiet();
  assertEquals([t.sndUna - t.iss, t.sndWnd, t.dupAcks], [2001, 5000, 0]);
  h.in({ flags: ".", seq: 1, ack: 0, win: 100 });
  h.out({ flags: ".", seq: 3001, ack: 1 });
  assertEquals([t.sndWnd, h.drops.get(DropReason.TcpBadAck)], [5000, 1]);
});

Deno.test("input: data with an old acknowledgment is taken", () => {
  const h = new TcpTrace();
  const t = h.established();
  h.write(t, 100);
  h.out({ flags: "P.", len: 100 });
  h.in({ flags: ".", seq: 1, ack: 101 });
  h.in({ flags: ".", seq: 1, ack: 51, len: 10 });
  assertEquals(h.read(t), 10);
});

Deno.test("input: a FIN before data that came already is not believed", () => {
  const h = new TcpTrace();
  const t = h.established();
  h.in({ flags: ".", seq: 101, ack: 1, len: 100 });
  h.in({ flags: "F.", seq: 51, ack: 1 });
  h.in({ flags: ".", seq: 1, ack: 1, len: 100 });
  assertEquals([t.state, h.read(t)], [TcpState.Established, 200]);
  h.in({ flags: "F.", seq: 201, ack: 1 });
  assertEquals(t.state, TcpState.CloseWait);
});

Deno.test("input: data beyond a FIN is cut off", () => {
  const h = new TcpTrace();
  const t = h.established();
  h.in({ flags: "F.", seq: 101, ack: 1 });
  h.in({ flags: ".", seq: 51, ack: 1, len: 200 });
  h.in({ flags: ".", seq: 1, ack: 1, len: 50 });
  assertEquals([t.state, h.read(t), t.readEnded], [TcpState.CloseWait, 100, true]);
  h.all();
  h.in({ flags: ".", seq: 102, ack: 1, len: 10 });
  h.out({ flags: ".", ack: 102 });
  assertEquals(t.readableBytes, 0);
});

Deno.test("input: events: Readable for data and end, Writable for room", () => {
  const h = new TcpTrace();
  const t = h.established();
  h.eventsOf(t);
  h.in({ flags: ".", seq: 11, ack: 1, len: 10 });
  assertEquals(h.eventsOf(t), 0);
  h.in({ flags: ".", seq: 1, ack: 1, len: 10 });
  assertEquals(h.eventsOf(t), SocketEvent.Readable);
  h.in({ flags: "F.", seq: 21, ack: 1 });
  assertEquals(h.eventsOf(t), SocketEvent.Readable);
  h.write(t, 10);
  h.flush();
  h.in({ flags: ".", seq: 22, ack: 11 });
  assertEquals(h.eventsOf(t), SocketEvent.Writable);
});

Deno.test("input: at most one challenge in 500 ms, but data is answered each time", () => {
  const h = new TcpTrace();
  h.established();
  h.in({ flags: ".", seq: 200_000, ack: 1 });
  h.in({ flags: ".", seq: 200_000, ack: 1 });
  assertEquals(h.all().length, 1);
  h.in({ flags: ".", seq: 200_000, ack: 1, len: 5 });
  h.in({ flags: ".", seq: 200_000, ack: 1, len: 5 });
  assertEquals(h.all().length, 2);
  h.pass(499);
  h.in({ flags: ".", seq: 200_000, ack: 1 });
  h.quiet();
  h.pass(1);
  h.in({ flags: ".", seq: 200_000, ack: 1 });
  h.out({ flags: ".", seq: 1, ack: 1 });
});

Deno.test("input: challenges of all kinds share the limit", () => {
  const h = new TcpTrace();
  const t = h.established();
  h.write(t, 100);
  h.all();
  for (let i = 0; i < 5; i++) {
    h.in({ flags: "S", seq: 100 + i, mss: 1460 });
    h.in({ flags: "R", seq: 100 + i });
    h.in({ flags: ".", seq: 1, ack: -5000 });
    h.in({ flags: ".", seq: 1, ack: 5000 });
  }
  assertEquals(h.all().length, 1);
  assertEquals(h.drops.total(), 20);
});

Deno.test("input: old data with a new FIN for an application that is gone ends the connection, without a reset", () => {
  const h = new TcpTrace();
  const t = h.established();
  h.in({ flags: ".", seq: 1, ack: 1, len: 10 });
  h.read(t);
  t.close(h.now);
  h.in({ flags: ".", seq: 11, ack: 2 });
  h.all();
  assertEquals(t.state, TcpState.FinWait2);
  h.in({ flags: "F.", seq: 1, ack: 2, len: 10 });
  h.out({ flags: ".", ack: 12 });
  assertEquals(t.state, TcpState.TimeWait);
});

Deno.test("input: with the reassembly table full a segment is refused, acknowledged and counted, and comes in later", () => {
  const h = new TcpTrace();
  const t = h.established();
  const n = REASSEMBLY_RANGES + 1;
  for (let i = 0; i < n; i++) h.in({ flags: ".", seq: 101 + 10 * i, ack: 1, len: 5 });
  assertEquals(h.all().length, n);
  assertEquals(h.drops.get(DropReason.TcpReassemblyFull), 1);
  const last = 101 + 10 * (n - 1);
  for (let seq = 1; seq < last; seq += 1000) h.in({ flags: ".", seq, ack: 1, len: Math.min(1000, last - seq) });
  assertEquals(h.all().at(-1)!.ack, last);
  h.in({ flags: ".", seq: last, ack: 1, len: 5 });
  assertEquals(h.read(t), last + 4);
  h.noLeak();
});

Deno.test("PAWS: an old timestamp is answered and dropped, over the wrap of the clock", () => {
  const h = new TcpTrace();
  const t = h.established({ ts: true });
  h.pass(150); // the peer's clock has turned from 0x7fffffff to −0x80000000
  assertEquals(h.peerTsVal < 0, true);
  h.in({ flags: ".", seq: 1, ack: 1, len: 10 });
  h.pass(100);
  h.out({ flags: ".", ack: 11, ts: [h.lastTsVal, h.peerTsVal - 100] });
  h.in({ flags: ".", seq: 11, ack: 1, len: 10, ts: [0x7fffffff, 0] });
  h.out({ flags: ".", ack: 11 });
  assertEquals([h.drops.get(DropReason.TcpPaws), t.readableBytes], [1, 10]);
  h.in({ flags: ".", seq: 11, ack: 1, len: 10 });
  assertEquals(t.readableBytes, 20);
});

Deno.test("PAWS: resets are exempt; a segment without timestamps is dropped without a word", () => {
  const h = new TcpTrace();
  const t = h.established({ ts: true });
  h.in({ flags: ".", seq: 1, ack: 1, len: 10, ts: false });
  h.quietUntil(100);
  assertEquals([t.readableBytes, h.drops.get(DropReason.TcpPaws)], [0, 1]);
  h.in({ flags: "R", seq: 1, ts: [h.peerTsVal - 5000, 0] });
  assertEquals(t.error, SocketErrorKind.ConnectionReset);
  const other = new TcpTrace();
  const u = other.established({ ts: true });
  other.in({ flags: "R", seq: 1, ts: false });
  assertEquals(u.error, SocketErrorKind.ConnectionReset);
});

Deno.test("PAWS: after 24 days without a segment TS.Recent counts for nothing, and is set anew", () => {
  const h = new TcpTrace();
  const t = h.established({ ts: true });
  h.in({ flags: ".", seq: 1, ack: 1, len: 10 });
  h.pass(24 * 24 * 3600_000);
  const old = (h.peerTsVal - 2 ** 30) | 0;
  h.in({ flags: ".", seq: 11, ack: 1, len: 10, ts: [old, 0] });
  assertEquals(t.readableBytes, 20);
  assertEquals(t.tsRecent, old);
  h.in({ flags: ".", seq: 21, ack: 1, len: 10, ts: [old - 1, 0] });
  assertEquals(t.readableBytes, 20);
});

Deno.test("TS.Recent comes from the segment that is next in sequence, not from those beyond a hole", () => {
  const h = new TcpTrace();
  h.established({ ts: true, sackOk: true });
  h.in({ flags: ".", seq: 1, ack: 1, len: 10, ts: [h.peerTsVal + 1, 0] });
  h.pass(40);
  const ecr = h.out({ flags: ".", ack: 11, ts: true }).ts as [number, number];
  h.in({ flags: ".", seq: 21, ack: 1, len: 10, ts: [h.peerTsVal + 2, 0] });
  assertEquals((h.out({ flags: ".", ack: 11, ts: true }).ts as [number, number])[1], ecr[1]);
  // The gap is filled by an older segment: its stamp is echoed (RFC 7323 section 4.3).
  const filler = ecr[1] + 1;
  h.in({ flags: ".", seq: 11, ack: 1, len: 10, ts: [filler, 0] });
  assertEquals((h.out({ flags: ".", ack: 31, ts: true }).ts as [number, number])[1], filler);
});

Deno.test("TS.Recent is that of the first of two segments that one acknowledgment covers", () => {
  const h = new TcpTrace();
  h.established({ ts: true });
  const first = h.peerTsVal;
  h.in({ flags: ".", seq: 1, ack: 1, len: 1000, ts: [first, 0] });
  h.pass(5);
  h.in({ flags: ".", seq: 1001, ack: 1, len: 1000, ts: [first + 5, 0] });
  assertEquals((h.out({ flags: ".", ack: 2001, ts: true }).ts as [number, number])[1], first);
});
