import { assert, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { DropReason } from "../../src/base/drop.ts";
import { MILLISECOND, SECOND } from "../../src/base/time.ts";
import type { TcpOptions } from "../../src/tcp/options.ts";
import { TcpState } from "../../src/tcp/state.ts";
import { seqDiff } from "../../src/wire/seq.ts";
import { readAll, type Segment, TcpTrace } from "../testing/tcp_trace.ts";

/** A listener whose backlog of one is taken by a connection that does not get on. */
function full(options: Partial<TcpOptions> = {}, family: 4 | 6 = 4) {
  const h = new TcpTrace({ synCookies: true, synAckRetries: 100, timeWait: 0, ...options }, family);
  const listener = h.listen(1);
  h.remotePort = 1;
  h.in({ flags: "S", seq: 0, mss: 1460 });
  h.out({ flags: "S.", seq: 0, ack: 1 });
  h.remotePort = 40000;
  return { h, listener };
}

for (const family of [4, 6] as const) {
  Deno.test(`syn cookies IPv${family}: a full backlog answers without remembering, and the acknowledgment opens`, () => {
    const { h, listener } = full({}, family);
    const mss = family === 4 ? 1460 : 1440;
    h.in({ flags: "S", seq: 0, mss: 1380, sackOk: true, wscale: 9, ts: [777, 0] });
    const synAck = h.out({ flags: "S.", ack: 1, mss, sackOk: true, wscale: 5, win: 65535, ts: true });
    assertEquals(synAck.ts instanceof Array && synAck.ts[1], 777);
    assertEquals([h.tcp.connectionCount, h.tcp.synCookies.sent], [1, 1]);
    const iss = synAck.seq!;
    h.pass(70);
    const ts: [number, number] = [800, (synAck.ts as [number, number])[0]];
    h.in({ flags: "P.", seq: 1, ack: iss + 1, win: 500, ts, data: "hello" });
    assertEquals([h.tcp.synCookies.accepted, h.tcp.synCookies.failed], [1, 0]);
    const t = listener.accept()!;
    assertEquals([t.state, t.mss, t.sackOn, t.sndWndShift, t.timestampsOn], [
      TcpState.Established,
      Math.min(1380, mss) - 12,
      true,
      9,
      true,
    ]);
    assertEquals([t.sndWnd, t.rcvWndShift, t.tsRecent], [500 << 9, 5, 800]);
    assertEquals(new TextDecoder().decode(readAll(t)), "hello");
    assertEquals(t.info().rtt, 0, "the clock of the cookie is too coarse for a round-trip time");
    h.pass(40);
    h.out({ flags: ".", seq: iss + 1, ack: 6 });
    t.write(new TextEncoder().encode("world"), 0, 5);
    h.out({ flags: "P.", seq: iss + 1, ack: 6, len: 5 });
    h.in({ flags: ".", seq: 6, ack: iss + 6, ts });
    t.shutdownWrite(h.now);
    h.out({ flags: "F.", seq: iss + 6 });
    h.in({ flags: "F.", seq: 6, ack: iss + 7, ts });
    h.out({ flags: ".", ack: 7 });
    h.noLeak();
  });
}

Deno.test("syn cookies: without timestamps there is no option but the MSS", () => {
  const { h, listener } = full();
  h.in({ flags: "S", seq: 0, mss: 1460, sackOk: true, wscale: 9, win: 3000 });
  const synAck = h.out({ flags: "S.", sackOk: false, ts: false, mss: 1460 });
  assertEquals(synAck.wscale, undefined);
  h.in({ flags: ".", seq: 1, ack: synAck.seq! + 1, win: 4000 });
  const t = listener.accept()!;
  assertEquals([t.mss, t.sackOn, t.windowScaleOn, t.timestampsOn], [1460, false, false, false]);
  assertEquals([t.sndWnd, t.rcvWndShift], [4000, 0]);
});

Deno.test("syn cookies: what our options switch off is not brought back by a peer", () => {
  const { h, listener } = full({ timestamps: false });
  h.in({ flags: "S", seq: 0, mss: 1460, sackOk: true, wscale: 9, ts: [1, 0] });
  const synAck = h.out({ flags: "S.", sackOk: false, ts: false });
  h.in({ flags: ".", seq: 1, ack: synAck.seq! + 1, ts: [2, 0xffff] });
  const t = listener.accept()!;
  assertEquals([t.timestampsOn, t.sackOn, t.windowScaleOn], [false, false, false]);
});

Deno.test("syn cookies: ECN is agreed on by them too, if the timestamp can carry it", () => {
  for (const ts of [[5, 0] as [number, number], false]) {
    const { h, listener } = full({ ecn: "accept" });
    h.in({ flags: "SEW", seq: 0, mss: 1460, ts });
    const synAck = h.out({ flags: ts === false ? "S." : "S.E" });
    const echo = ts === false ? false : [6, (synAck.ts as [number, number])[0]] as [number, number];
    h.in({ flags: ".", seq: 1, ack: synAck.seq! + 1, ts: echo });
    assertEquals(listener.accept()!.ecnOn, ts !== false);
  }
});

Deno.test("syn cookies: the MSS that is told is the next one not above the peer's", () => {
  const told = [[0, 536], [1, 48], [536, 536], [1200, 536], [1299, 1220], [1403, 1380], [1424, 1404], [9000, 1460]];
  for (const [announced, expected] of told as [number, number][]) {
    const { h, listener } = full();
    h.in({ flags: "S", seq: 0, mss: announced });
    const synAck = h.out({ flags: "S." });
    h.in({ flags: ".", seq: 1, ack: synAck.seq! + 1 });
    assertEquals(listener.accept()!.mss, expected, `${announced}`);
  }
});

Deno.test("syn cookies: good for the period in which it was made and the next, and no longer", () => {
  for (const [madeAt, usedAt, good] of [[0, 127_999, true], [0, 128_000, false], [63_999, 128_000, false]] as const) {
    const { h, listener } = full({ timestamps: false });
    h.until(madeAt);
    h.all();
    h.in({ flags: "S", seq: 0, mss: 1460 });
    const synAck = h.all().find(({ flags }) => flags === "S.")!;
    h.until(usedAt);
    h.all();
    // A new one keeps the listener looking for old ones.
    h.remotePort = 40001;
    h.in({ flags: "S", seq: 0, mss: 1460 });
    h.all();
    h.remotePort = 40000;
    h.in({ flags: ".", seq: 1, ack: synAck.seq! + 1 });
    assertEquals([listener.pending, h.all().filter(({ flags }) => flags === "R").length], good ? [1, 0] : [0, 1]);
    assertEquals(h.tcp.synCookies.failed, good ? 0 : 1);
  }
});

Deno.test("syn cookies: another port, address, sequence number or cookie is refused by a reset", () => {
  const { h, listener } = full();
  h.in({ flags: "S", seq: 0, mss: 1460 });
  const iss = h.out({ flags: "S." }).seq!;
  const tries: [Partial<Segment>, number][] = [
    [{ ack: iss + 2 }, 40000],
    [{ ack: iss - 50 }, 40000],
    [{ ack: iss + 1 + (1 << 24) }, 40000],
    [{ seq: 2, ack: iss + 1 }, 40000],
    [{ ack: iss + 1 }, 40001],
  ];
  for (const [wrong, port] of tries) {
    h.remotePort = port;
    h.in({ flags: ".", seq: 1, ...wrong } as Segment);
    h.out({ flags: "R", seq: wrong.ack! });
  }
  h.remotePort = 40000;
  assertEquals([listener.pending, h.tcp.connectionCount], [0, 1]);
  h.in({ flags: "R.", seq: 1, ack: iss + 1 });
  h.in({ flags: "S.", seq: 1, ack: iss + 1 });
  h.out({ flags: "R", seq: iss + 1 });
  h.in({ flags: ".", seq: 1, ack: iss + 1 });
  assertEquals(listener.pending, 1);
});

for (const family of [4, 6] as const) {
  Deno.test(`syn cookies IPv${family}: data that overtakes what brings the cookie back is passed over, without a reset`, () => {
    const { h, listener } = full({}, family);
    h.in({ flags: "S", seq: 0, mss: 1000, ts: [777, 0] });
    const synAck = h.out({ flags: "S.", ack: 1 });
    const ack = synAck.seq! + 1;
    const ts: [number, number] = [800, (synAck.ts as [number, number])[0]];
    h.in({ flags: ".", seq: 989, ack, ts, len: 988 });
    h.in({ flags: "F.", seq: 1977, ack, ts });
    h.quiet();
    assertEquals([h.tcp.connectionCount, h.tcp.synCookies.failed, h.drops.get(DropReason.TcpBadAck)], [1, 2, 2]);
    h.in({ flags: ".", seq: 1, ack, ts, len: 988 });
    const t = listener.accept()!;
    assertEquals([t.state, t.readableBytes], [TcpState.Established, 988]);
    h.in({ flags: ".", seq: 989, ack, ts, len: 988 });
    assertEquals(t.readableBytes, 1976);
    h.noLeak();
  });

  Deno.test(`syn cookies IPv${family}: a copy of the SYN that finds room does not spoil the answer given to the first`, () => {
    for (const first of ["cookie", "other answer"]) {
      const { h, listener } = full({}, family);
      h.in({ flags: "S", seq: 0, mss: 1000, ts: [777, 0] });
      const cookie = h.out({ flags: "S.", ack: 1 });
      h.remotePort = 1;
      h.in({ flags: "R", seq: 1 });
      h.remotePort = 40000;
      h.in({ flags: "S", seq: 0, mss: 1000, ts: [778, 0] });
      const other = h.out({ flags: "S.", ack: 1, seq: 0 });
      assertEquals(cookie.seq !== other.seq, true);
      const taken = first === "cookie" ? cookie : other;
      const ack = taken.seq! + 1;
      const ts: [number, number] = [800, (taken.ts as [number, number])[0]];
      h.in({ flags: ".", seq: 1, ack: ack + 77, ts }); // neither
      h.out({ flags: "R", seq: ack + 77 });
      assertEquals(h.tcp.connectionCount, 1);
      h.in({ flags: "P.", seq: 1, ack, ts, data: "hello" });
      assertEquals([h.tcp.connectionCount, listener.pending], [1, 1]);
      const t = listener.accept()!;
      assertEquals([t.state, new TextDecoder().decode(readAll(t))], [TcpState.Established, "hello"]);
      t.write(new TextEncoder().encode("world"), 0, 5);
      h.out({ flags: "P.", seq: ack, ack: 6, len: 5 });
      h.noLeak();
    }
  });
}

Deno.test("syn cookies: nothing is looked for while none can be on its way", () => {
  const h = new TcpTrace({ synCookies: true });
  h.listen();
  h.in({ flags: ".", seq: 1, ack: 77 });
  h.out({ flags: "R", seq: 77 });
  assertEquals(h.tcp.synCookies.failed, 0);
  const late = full();
  late.h.in({ flags: "S", seq: 0, mss: 1460 });
  late.h.pass(200_000);
  late.h.all();
  late.h.in({ flags: ".", seq: 1, ack: 77 });
  late.h.out({ flags: "R", seq: 77 });
  assertEquals(late.h.tcp.synCookies.failed, 0);
});

Deno.test("syn cookies: switched off, a SYN beyond the backlog is dropped and counted", () => {
  const { h } = full({ synCookies: false });
  h.in({ flags: "S", seq: 0, mss: 1460 });
  h.quiet();
  assertEquals([h.drops.get(DropReason.TcpBacklog), h.tcp.synCookies.sent], [1, 0]);
});

Deno.test("syn cookies: connections that wait to be accepted are not added to by new SYNs", () => {
  const { h, listener } = full();
  h.remotePort = 1;
  h.in({ flags: ".", seq: 1, ack: 1 });
  assertEquals(listener.pending, 1);
  h.remotePort = 40000;
  h.in({ flags: "S", seq: 0, mss: 1460 });
  h.quiet();
  assertEquals(h.drops.get(DropReason.TcpBacklog), 1);
});

Deno.test("syn cookies: a flood keeps nobody out and leaves nothing behind; what comes back is bounded", () => {
  const { h, listener } = full({ timestamps: false });
  for (let i = 0; i < 3000; i++) {
    h.remotePort = 2000 + i;
    h.in({ flags: "S", seq: i, mss: 1460 });
    assertEquals(h.all().length, 1);
  }
  assertEquals([h.tcp.connectionCount, h.tcp.synCookies.sent], [1, 3000]);
  h.noLeak();
  // All of these are honest after all, but nobody accepts them.
  for (let i = 0; i < 200; i++) {
    h.remotePort = 10_000 + i;
    h.in({ flags: "S", seq: 0, mss: 1460 });
    const sent = h.all();
    if (sent.length > 0) h.in({ flags: ".", seq: 1, ack: sent[0]!.seq! + 1 });
  }
  assertEquals(listener.pending, 1); // the backlog
  listener.accept();
  assertEquals(listener.pending, 0);
});

Deno.test("syn cookies: many that come back at once are kept beyond the backlog, up to a bound", () => {
  const { h, listener } = full({ timestamps: false });
  const acks: number[] = [];
  for (let i = 0; i < 100; i++) {
    h.remotePort = 10_000 + i;
    h.in({ flags: "S", seq: 0, mss: 1460 });
    acks.push(h.out({ flags: "S." }).seq! + 1);
  }
  for (const [i, ack] of acks.entries()) {
    h.remotePort = 10_000 + i;
    h.in({ flags: ".", seq: 1, ack });
  }
  assertEquals(listener.pending, 65);
  h.quiet();
  while (listener.accept() !== null);
  // One that was dropped comes in with its first data.
  h.in({ flags: "P.", seq: 1, ack: acks[99]!, data: "x" });
  assertEquals(new TextDecoder().decode(readAll(listener.accept()!)), "x");
});

Deno.test("syn cookies: the same peer gets another number each time, and time never runs backward for it", () => {
  const { h } = full();
  const seen = new Set<number>();
  let last: number | null = null;
  for (let i = 0; i < 200; i++) {
    h.in({ flags: "S", seq: 1000 * i, mss: 1460, wscale: i % 15, sackOk: i % 2 === 0, ts: [i, 0] });
    const synAck = h.all().find(({ ack }) => ack === 1000 * i + 1)!;
    seen.add(synAck.seq!);
    const [tsVal] = synAck.ts as [number, number];
    // At most 63 ms behind the clock, never ahead of it.
    const behind = seqDiff(((h.now / MILLISECOND) | 0) + offset(h), tsVal);
    assert(behind >= 0 && behind < 64, `${behind} ms`);
    if (last !== null) assert(seqDiff(tsVal, last) > -64);
    last = tsVal;
    h.pass(13);
  }
  assertEquals(seen.size, 200);
});

/** What the connection that takes up the backlog adds to its clock: the same for all to that address. */
function offset(h: TcpTrace): number {
  return [...h.tcp.connections()][0]!.tsOffset;
}

Deno.test("syn cookies: property: what a SYN says comes back, for any of them", () => {
  const arbitrary = fc.record({
    seq: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
    mss: fc.integer({ min: 0, max: 65535 }),
    shift: fc.integer({ min: -1, max: 20 }),
    sack: fc.boolean(),
    tsVal: fc.option(fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })),
    at: fc.integer({ min: 0, max: 10_000_000 }),
    later: fc.integer({ min: 0, max: 63_000 }),
  });
  fc.assert(fc.property(arbitrary, ({ seq, mss, shift, sack, tsVal, at, later }) => {
    const { h, listener } = full({ initialRto: 100 * SECOND, userTimeout: 0, synAckRetries: 1000 });
    h.until(at);
    h.all();
    h.in({
      flags: "S",
      seq,
      mss,
      sackOk: sack,
      ...(shift < 0 ? {} : { wscale: shift }),
      ts: tsVal === null ? false : [tsVal, 0],
    });
    const synAck = h.all()[0]!;
    h.pass(later);
    h.all();
    const ts = tsVal === null ? false : [(tsVal + later) | 0, (synAck.ts as [number, number])[0]] as [number, number];
    h.in({ flags: ".", seq: seq + 1, ack: synAck.seq! + 1, ts });
    const t = listener.accept();
    assert(t !== null, "refused");
    assertEquals([t.timestampsOn, t.sackOn, t.windowScaleOn], [
      tsVal !== null,
      tsVal !== null && sack,
      tsVal !== null && shift >= 0,
    ]);
    if (t.windowScaleOn) assertEquals(t.sndWndShift, Math.min(14, shift));
    const announced = mss === 0 ? 536 : Math.max(48, mss);
    const told = t.mss + (t.timestampsOn ? 12 : 0);
    assert(told <= Math.min(announced, 1460), `${told} of ${announced}`);
    if (announced >= 1220) assert(told >= 0.93 * Math.min(announced, 1460), `${told} of ${announced}`);
  }));
});
