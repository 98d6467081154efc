import { assert, assertEquals } from "@std/assert";
import { MILLISECOND, NEVER } from "../../src/base/time.ts";
import type { TcpOptions } from "../../src/tcp/options.ts";
import type { Tcb } from "../../src/tcp/tcb.ts";
import { quickAck } from "../../src/tcp/delayed_ack.ts";
import { type Segment, TcpTrace } from "../testing/tcp_trace.ts";

/** A receiver with the product's defaults for acknowledgments. */
function receiver(
  options: Partial<TcpOptions> = {},
  syn: Partial<Segment> = {},
  family: 4 | 6 = 4,
  rtt = 0,
): [h: TcpTrace, t: Tcb] {
  const h = new TcpTrace({ delayedAck: "adaptive", quickAcks: 16, ...options }, family);
  return [h, h.established(syn, rtt)];
}

/** Feeds segments of data that follow one another. */
class Feed {
  seq = 1;
  constructor(readonly h: TcpTrace, readonly t: Tcb, readonly flags = ".") {}

  /** One segment; it is read at once. */
  in(len: number, flags = this.flags): void {
    const ack = (this.t.sndNxt - this.t.iss) | 0;
    this.h.in({ flags, seq: this.seq, ack, len });
    this.seq += len;
    this.h.read(this.t);
  }

  /** So many full segments, each acknowledged at once. */
  quick(n: number): void {
    for (let i = 0; i < n; i++) {
      this.in(1000);
      this.h.out({ flags: ".", ack: this.seq, at: this.h.now / MILLISECOND });
    }
  }
}

for (const family of [4, 6] as const) {
  Deno.test(`delayed ack IPv${family}: the first sixteen segments are acknowledged at once, then every second one`, () => {
    const [h, t] = receiver({}, {}, family);
    const feed = new Feed(h, t);
    feed.quick(16);
    feed.in(1000);
    h.quiet();
    feed.in(1000);
    h.out({ flags: ".", ack: feed.seq, at: 0 });
    feed.in(1000);
    h.quietUntil(39);
    h.pass(1);
    h.out({ flags: ".", ack: feed.seq, at: 40 });
  });
}

Deno.test("delayed ack: the quick phase is half the window's worth of segments, at least two, at most what is asked for", () => {
  for (const [receiveBufferBytes, quickAcks, expected] of [[10_000, 16, 5], [5999, 16, 2], [1 << 20, 3, 3]] as const) {
    const [h, t] = receiver({ receiveBufferBytes, quickAcks, delayedAck: 40 * MILLISECOND });
    const feed = new Feed(h, t);
    for (let i = 0; i < 8; i++) {
      h.in({ flags: ".", seq: feed.seq, ack: 1, len: 1000 });
      feed.seq += 1000;
      const acks = h.all().length;
      assertEquals(acks, i < expected || (i - expected) % 2 === 1 ? 1 : 0, `segment ${i} of ${expected}`);
      h.read(t);
      h.all();
    }
  }
});

Deno.test("delayed ack: an answer ends the quick phase; then acknowledgments ride on answers", () => {
  const [h, t] = receiver();
  const feed = new Feed(h, t, "P.");
  feed.in(100);
  h.out({ flags: ".", ack: 101, at: 0 });
  h.write(t, 10);
  h.out({ flags: "P.", ack: 101, len: 10 });
  for (let i = 0; i < 5; i++) {
    h.pass(100);
    feed.in(100);
    h.quiet();
    h.pass(20);
    h.write(t, 10);
    h.out({ flags: "P.", ack: feed.seq, len: 10 });
  }
  // Without an answer the acknowledgment goes by itself after the delay, and there is no ping-pong any more.
  h.pass(100);
  feed.in(100);
  const came = h.now;
  assert(t.pingPong);
  h.pass(200);
  const { ack } = h.out({ flags: "." });
  assertEquals([ack, t.pingPong, t.ato], [feed.seq, false, 40 * MILLISECOND]);
  assert(t.lastDataInAt === came);
});

Deno.test("delayed ack: the delay follows the time between segments, from 40 ms up to the round-trip time or 200 ms", () => {
  for (const [rtt, most] of [[0, 40], [10, 40], [120, 120], [500, 200]] as const) {
    const [h, t] = receiver({ quickAcks: 0 }, {}, 4, rtt);
    let seq = 1;
    let longest = 0;
    // Ever farther apart; nobody reads, so that nothing else makes an acknowledgment.
    for (let gap = 15; gap < 190; gap += 10) {
      h.in({ flags: ".", seq, ack: 1, len: 100 });
      seq += 100;
      if (t.delayedAckAt !== NEVER) longest = Math.max(longest, (t.delayedAckAt - h.now) / MILLISECOND);
      h.pass(gap);
    }
    h.all();
    assert(longest >= 40 && longest <= most, `${longest} ms with a round-trip time of ${rtt} ms`);
    if (rtt === 500) assert(longest > 90, `${longest} ms`);
  }
});

Deno.test("delayed ack: a timer that ran out for nothing doubles the delay, and close segments bring it down again", () => {
  const [h, t] = receiver({ quickAcks: 0 }, {}, 4, 300);
  const feed = (gap: number, seq: number) => {
    h.in({ flags: ".", seq, ack: 1, len: 100 });
    h.pass(gap);
  };
  feed(1000, 1);
  assertEquals(t.ato, 80 * MILLISECOND);
  feed(1000, 101);
  assertEquals(t.ato, 160 * MILLISECOND);
  let seq = 201;
  for (let i = 0; i < 20; i++, seq += 100) feed(5, seq);
  assert(t.ato < 41 * MILLISECOND, `${t.ato}`);
  h.all();
});

Deno.test("delayed ack: more than one full segment is acknowledged at once, however it came", () => {
  const [h, t] = receiver({ quickAcks: 0 });
  h.in({ flags: ".", seq: 1, ack: 1, len: 1460 });
  h.quiet();
  h.in({ flags: ".", seq: 1461, ack: 1, len: 1 });
  h.out({ flags: ".", ack: 1462, at: 0 });
  assertEquals(t.rcvMss, 1460);
  // Small ones may wait until they are more than a full one together.
  for (let i = 0; i < 14; i++) h.in({ flags: "P.", seq: 1462 + 100 * i, ack: 1, len: 100 });
  h.quiet();
  h.in({ flags: "P.", seq: 2862, ack: 1, len: 100 });
  h.out({ flags: ".", ack: 2962 });
});

Deno.test("delayed ack: a peer whose segments become shorter is still acknowledged for every second one", () => {
  const [h, t] = receiver({ quickAcks: 0 });
  let seq = 1;
  for (const len of [1460, 1460, 1200, 1200, 1200, 1200, 1200, 1200]) {
    h.in({ flags: ".", seq, ack: 1, len });
    seq += len;
  }
  assertEquals(t.rcvMss, 1200);
  assertEquals(h.all().map(({ ack }) => ack), [2921, 5321, 7721, 10121]);
  // The path of another is narrow from the start; the rests that end its messages do not count.
  const [narrow, u] = receiver({ quickAcks: 0 }, { mss: 300 });
  seq = 1;
  for (const [len, flags] of [[300, "."], [300, "."], [300, "."], [90, "P."], [90, "P."]] as const) {
    narrow.in({ flags, seq, ack: 1, len });
    seq += len;
  }
  assertEquals(u.rcvMss, 300);
});

Deno.test("delayed ack: a short segment is acknowledged as soon as it is read, unless the answers come", () => {
  const [h, t] = receiver({ quickAcks: 0 });
  const feed = new Feed(h, t, "P.");
  h.in({ flags: "P.", seq: 1, ack: 1, len: 100 });
  h.quiet();
  h.read(t, 50);
  h.quiet();
  h.read(t);
  h.out({ flags: ".", ack: 101, at: 0 });
  feed.seq = 101;
  // Ping-pong: the answer will bring it.
  h.in({ flags: "P.", seq: 101, ack: 1, len: 100 });
  h.write(t, 10);
  h.out({ flags: "P.", ack: 201 });
  h.in({ flags: "P.", seq: 201, ack: 11, len: 100 });
  h.read(t);
  h.quiet();
  // A second one before the answer shows that there is none.
  h.in({ flags: "P.", seq: 301, ack: 11, len: 100 });
  h.read(t);
  h.out({ flags: ".", ack: 401 });
  // With a fixed delay reading changes nothing.
  const [fixed, u] = receiver({ quickAcks: 0, delayedAck: 100 * MILLISECOND });
  fixed.in({ flags: "P.", seq: 1, ack: 1, len: 100 });
  fixed.read(u);
  fixed.quietUntil(99);
  fixed.pass(1);
  fixed.out({ flags: ".", ack: 101, at: 100 });
});

Deno.test("delayed ack: a window that is nearly used up is acknowledged when the application has made room", () => {
  const [h, t] = receiver({ quickAcks: 0, receiveBufferBytes: 3000, delayedAck: 200 * MILLISECOND });
  h.in({ flags: ".", seq: 1, ack: 1, len: 1460 });
  h.quiet();
  h.read(t);
  h.out({ flags: ".", ack: 1461, win: 3000, at: 0 });
});

Deno.test("delayed ack: disorder and duplicates are acknowledged at once, and what follows too", () => {
  const [h, t] = receiver({}, { sackOk: true });
  const feed = new Feed(h, t);
  feed.quick(16);
  h.write(t, 10);
  h.all();
  assert(t.pingPong);
  h.in({ flags: ".", seq: feed.seq + 1000, ack: 11, len: 1000 });
  h.out({ flags: ".", ack: feed.seq, sack: [[feed.seq + 1000, feed.seq + 2000]] });
  assertEquals([t.pingPong, t.quickAcksLeft > 0], [false, true]);
  h.in({ flags: ".", seq: feed.seq, ack: 11, len: 1000 });
  h.out({ flags: ".", ack: feed.seq += 2000, at: 0 });
  h.in({ flags: ".", seq: feed.seq, ack: 11, len: 1000 });
  h.out({ flags: ".", ack: feed.seq += 1000, at: 0 });
  // With none allowed, only the segments themselves are.
  const [none, u] = receiver({ quickAcks: 0 });
  none.in({ flags: ".", seq: 1001, ack: 1, len: 1000 });
  none.out({ flags: ".", ack: 1, at: 0 });
  none.in({ flags: ".", seq: 1, ack: 1, len: 1000 });
  none.out({ flags: ".", ack: 2001, at: 0 });
  none.in({ flags: ".", seq: 2001, ack: 1, len: 1000 });
  none.quiet();
  assertEquals(u.quickAcksLeft, 0);
});

Deno.test("delayed ack: quickAck makes the next so many immediate, whatever the options say", () => {
  const [h, t] = receiver({ quickAcks: 0, delayedAck: 100 * MILLISECOND });
  const feed = new Feed(h, t);
  t.pingPong = true;
  quickAck(t, 2);
  feed.quick(2);
  feed.in(1000);
  h.quiet();
});

Deno.test("delayed ack: a pause longer than the timeout brings the quick phase back", () => {
  const [h, t] = receiver({}, {}, 4, 10);
  const feed = new Feed(h, t);
  feed.quick(16);
  feed.in(1000);
  h.quiet();
  h.pass(200);
  h.out({ flags: ".", ack: feed.seq });
  h.pass(t.info().rto + 1);
  feed.quick(16);
  feed.in(1000);
  h.quiet();
});

Deno.test("delayed ack: there is a timer exactly while an acknowledgment is owed and waits", () => {
  const [h, t] = receiver({ quickAcks: 0 });
  assertEquals(t.delayedAckAt, NEVER);
  h.in({ flags: ".", seq: 1, ack: 1, len: 100 });
  assertEquals(t.delayedAckAt, 40 * MILLISECOND);
  h.pass(35);
  // The next would have it wait until 75: it waits no longer than the first allows, and no shorter than a quarter of that.
  h.in({ flags: ".", seq: 101, ack: 1, len: 100 });
  h.out({ flags: ".", ack: 201, at: 35 });
  assertEquals(t.delayedAckAt, NEVER);
});
