import { assert, assertEquals } from "@std/assert";
import { RecoveryState } from "../../src/tcp/state.ts";
import { type FlightOptions, Sender } from "../testing/tcp_sender.ts";

const CONTROLS = ["reno", "cubic"];

for (const family of [4, 6] as const) {
  for (const congestion of CONTROLS) {
    const name = `IPv${family} ${congestion}`;

    Deno.test(`eifel ${name}: a late original takes the recovery back, window and threshold (RFC 3522, RFC 4015)`, () => {
      const s = new Sender({ family, timestamps: true, further: 60, tcp: { congestion } });
      const first = s.h.lastTsVal;
      s.h.pass(100);
      s.ack(0, [[1, 4]]);
      assertEquals(s.sent()[0], 0);
      assertEquals(s.windows[0], congestion === "reno" ? 5 : 7);
      s.h.pass(10);
      // The head comes after all: the echo is older than what was sent again.
      s.ack(4, [], { ts: [s.h.peerTsVal, first] });
      assertEquals([s.t.counters.undos, s.t.recovery], [1, RecoveryState.Open]);
      assertEquals(s.windows, [10, Infinity]);
      assertEquals(s.t.lostBytes, 0);
    });

    Deno.test(`eifel ${name}: an echo of the retransmission takes nothing back`, () => {
      const s = new Sender({ family, timestamps: true, further: 60, tcp: { congestion } });
      s.h.pass(100);
      s.ack(0, [[1, 4]]);
      s.h.flush();
      const again = s.h.lastTsVal;
      s.h.pass(100);
      s.ack(20, [], { ts: [s.h.peerTsVal, again] });
      assertEquals([s.t.counters.undos, s.windows[1]], [0, congestion === "reno" ? 5 : 7]);
    });

    Deno.test(`eifel ${name}: a late original after a timeout takes it back, and what was marked lost is not`, () => {
      const s = new Sender({ family, timestamps: true, further: 60, tcp: { congestion, tailLossProbe: false } });
      const first = s.h.lastTsVal;
      s.h.until(400);
      assertEquals([s.sent(), s.windows[0], s.t.lostBytes], [[0], 1, 10 * s.mss]);
      s.h.pass(20);
      s.ack(2, [], { ts: [s.h.peerTsVal, first] });
      assertEquals([s.t.counters.undos, s.t.counters.spuriousTimeouts, s.t.recovery], [1, 1, RecoveryState.Open]);
      assertEquals([s.windows, s.t.lostBytes], [[10, Infinity], 0]);
      assertEquals(s.sent(), [10, 11]);
    });

    Deno.test(`dsack ${name}: when all that was sent again is reported, in a recovery or after it (RFC 3708)`, () => {
      const s = new Sender({ family, further: 60, tcp: { congestion } });
      s.h.pass(100);
      s.ack(0, [[2, 10]]);
      assertEquals(s.sent().slice(0, 2), [0, 1]);
      s.h.pass(10);
      s.ack(0, [[0, 1], [2, 10]].map(([l, r]): [number, number] => [l!, r!]).slice(1));
      s.h.in({ flags: ".", seq: 1, ack: s.nth(10) });
      const out = s.t.retransmitQueue.size;
      s.h.pass(90);
      s.h.in({ flags: ".", seq: 1, ack: s.nth(10), sack: [[s.nth(0), s.nth(1)]] });
      assertEquals(s.t.counters.undos, 0);
      s.h.in({ flags: ".", seq: 1, ack: s.nth(10), sack: [[s.nth(1), s.nth(2)]] });
      assertEquals([s.t.counters.undos, s.t.rack.reorderingSeen], [1, true]);
      assertEquals(s.windows, [10, Infinity]);
      assert(out > 0);
    });
  }
}

Deno.test("dsack: one report of two, a third time the same, or of something else takes nothing back", () => {
  const start = () => {
    const s = new Sender({ further: 60 });
    s.h.pass(100);
    s.ack(0, [[2, 10]]);
    assertEquals(s.sent().slice(0, 2), [0, 1]);
    s.h.pass(100);
    s.ack(10, []);
    return s;
  };
  const one = start();
  one.h.in({ flags: ".", seq: 1, ack: one.nth(10), sack: [[one.nth(0), one.nth(1)]] });
  assertEquals(one.t.counters.undos, 0);
  // Beyond what was sent again: the network duplicated it.
  const other = start();
  for (let i = 0; i < 3; i++) {
    other.h.in({ flags: ".", seq: 1, ack: other.nth(10), sack: [[other.nth(5), other.nth(6)]] });
  }
  assertEquals([other.t.counters.undos, other.t.undoRetransmits], [0, 2]);
  // Before it.
  const older = start();
  for (let i = 0; i < 3; i++) {
    older.h.in({ flags: ".", seq: 1, ack: older.nth(10), sack: [[older.nth(-4), older.nth(-2)]] });
  }
  assertEquals(older.t.counters.undos, 0);
});

Deno.test("dsack: a report of both at once counts as two, one above SND.UNA counts if that was sent again", () => {
  const both = new Sender({ further: 60 });
  both.h.pass(100);
  both.ack(0, [[2, 10]]);
  both.sent();
  both.h.pass(20);
  both.h.in({ flags: ".", seq: 1, ack: both.nth(10), sack: [[both.nth(0), both.nth(2)]] });
  assertEquals(both.t.counters.undos, 1);

  const above = new Sender({ segments: 10 });
  above.h.pass(100);
  above.ack(0, [[1, 2], [3, 10]]);
  assertEquals(above.sent(), [0, 2]);
  above.h.pass(20);
  above.h.in({
    flags: ".",
    seq: 1,
    ack: 1,
    sack: [[above.nth(2), above.nth(3)], [above.nth(1), above.nth(10)]],
  });
  assertEquals(above.t.undoRetransmits, 1);
  above.h.in({
    flags: ".",
    seq: 1,
    ack: 1,
    sack: [[above.nth(5), above.nth(6)], [above.nth(1), above.nth(10)]],
  });
  assertEquals(above.t.undoRetransmits, 1);
});

Deno.test("dsack: what can be said of an episode is said a round trip after it; later reports take nothing back", () => {
  for (const late of [false, true]) {
    const s = new Sender({ further: 60 });
    s.h.pass(100);
    s.ack(0, [[1, 10]]);
    s.h.pass(100);
    const end = s.t.retransmitQueue.size;
    s.ack(end);
    assertEquals([s.t.recovery, s.t.undoActive], [RecoveryState.Open, true]);
    s.h.all();
    s.h.pass(100);
    // With the first acknowledgment of something sent since it is still in time.
    if (late) s.ack(end + 1);
    s.h.in({ flags: ".", seq: 1, ack: s.nth(end + 1), sack: [[s.nth(0), s.nth(1)]] });
    assertEquals([s.t.undoActive, s.t.counters.undos], [false, late ? 0 : 1]);
  }
});

/** Ten segments out, more to send, no timestamps; the timer has run out and the head was sent again. */
function timedOut(options: FlightOptions = {}): Sender {
  const s = new Sender({ further: 60, ...options, tcp: { tailLossProbe: false, ...options.tcp } });
  s.h.until(400);
  assertEquals([s.sent(), s.t.recovery, s.windows], [[0], RecoveryState.Loss, [1, 5]]);
  return s;
}

for (const sack of [true, false]) {
  const name = sack ? "with SACK" : "without SACK";

  Deno.test(`frto ${name}: late acknowledgments of the old: two new segments, and all is as before (RFC 5682 3 b)`, () => {
    const s = timedOut({ sack });
    s.h.pass(30);
    s.ack(1);
    assertEquals(s.sent(), [10, 11]);
    assertEquals([s.t.frto, s.t.recovery, s.t.counters.undos], [true, RecoveryState.Loss, 0]);
    s.ack(2);
    assertEquals([s.t.counters.undos, s.t.counters.spuriousTimeouts], [1, 1]);
    assertEquals([s.windows[0], s.windows[1], s.t.lostBytes, s.t.recovery], [10, Infinity, 0, RecoveryState.Open]);
    for (let n = 3; n <= 10; n++) s.ack(n);
    assertEquals(s.sent().filter((n) => n < 10), []);
    assertEquals(s.t.counters.bytesRetransmitted, 1000);
  });

  Deno.test(`frto ${name}: the new arrives and the old does not: what is lost goes again (RFC 5682 3 a)`, () => {
    const s = timedOut({ sack });
    s.h.pass(100);
    s.ack(1);
    assertEquals(s.sent(), [10, 11]);
    s.h.pass(100);
    s.ack(1, sack ? [[10, 11]] : []);
    assertEquals(s.t.frto, false);
    const again = s.sent();
    assertEquals(again, [1]);
    s.ack(1, sack ? [[10, 12]] : []);
    assertEquals(s.sent(), [2]);
    assertEquals([s.t.counters.undos, s.windows[1]], [0, 5]);
  });

  Deno.test(`frto ${name}: what had arrived before is acknowledged with the head: the loss was real (2 a, and 2 b)`, () => {
    const all = timedOut({ sack });
    all.h.pass(100);
    all.ack(10);
    assertEquals([all.t.counters.undos, all.t.recovery, all.windows[1]], [0, RecoveryState.Open, 5]);

    const some = timedOut({ sack });
    some.h.pass(100);
    some.ack(4); // 1 to 3 had arrived, and nobody had said so
    assertEquals([some.t.counters.undos, some.sent()], [0, [10, 11]]);
    some.h.pass(100);
    some.ack(4, sack ? [[10, 12]] : []);
    assertEquals([some.t.counters.undos, some.sent()[0]], [0, 4]);
  });

  Deno.test(`frto ${name}: without new data, or room for it, what is lost goes again at once`, () => {
    const none = timedOut({ sack, further: 0 });
    none.h.pass(100);
    none.ack(1);
    assertEquals([none.sent(), none.t.frto], [[1, 2], false]);

    const closed = timedOut({ sack });
    closed.h.pass(100);
    closed.ack(1, [], { win: 0 });
    assertEquals([closed.sent(), closed.t.frto], [[1, 2], false]);
  });
}

Deno.test("frto: while it waits for what the new data brings nothing else is sent, whoever asks", () => {
  const s = timedOut({ further: 1 });
  s.h.pass(100);
  s.ack(1);
  // Only one new segment was there. More is written meanwhile; the lost ones are not sent.
  assertEquals(s.sent(), [10]);
  s.h.write(s.t, 1000);
  s.h.pass(50);
  assertEquals([s.sent(), s.t.frto], [[], true]);
  s.ack(1, [[10, 11]]);
  assertEquals([s.sent()[0], s.t.frto], [1, false]);
});

Deno.test("frto: a partial segment is new data too, although Nagle holds it back", () => {
  const s = new Sender({ tcp: { tailLossProbe: false, initialCwndSegments: 20 } });
  s.h.write(s.t, 300);
  s.h.flush();
  s.h.write(s.t, 200);
  assertEquals(s.h.all().map((o) => o.len), [300]);
  s.h.until(400);
  assertEquals(s.sent(), [0]);
  s.ack(1);
  assertEquals(s.h.all().map((o) => [o.seq, o.len]), [[s.nth(10) + 300, 200]]);
  s.ack(3);
  assertEquals([s.t.counters.undos, s.windows[0]], [1, 20]);
});

Deno.test("frto without SACK: what comes together with the rest of the head says nothing", () => {
  const s = timedOut({ sack: false });
  s.h.pass(100);
  s.h.in({ flags: ".", seq: 1, ack: 501 });
  assertEquals(s.sent(), [10]);
  s.h.pass(100);
  s.ack(3);
  assertEquals([s.t.counters.undos, s.t.frto, s.windows[1]], [0, false, 5]);
});

Deno.test("frto: a duplicate before the first advance says nothing with SACK, and ends it without", () => {
  const withSack = timedOut();
  withSack.ack(0);
  assertEquals(withSack.t.frto, true);
  const without = timedOut({ sack: false });
  without.ack(0);
  assertEquals(without.t.frto, false);
});

Deno.test("frto: a second timeout of the same segment begins it again, one of another in the same episode does not", () => {
  const s = timedOut();
  s.h.until(1000);
  assertEquals([s.sent(), s.t.frto], [[0], true]);
  s.ack(1);
  assertEquals(s.sent(), [10, 11]);
  s.ack(2);
  assertEquals([s.t.counters.undos, s.windows], [1, [10, Infinity]]);

  const u = timedOut({ further: 0 });
  u.h.pass(100);
  u.ack(1);
  u.sent();
  u.h.until(u.t.rtoAt / 1e6);
  assertEquals([u.t.recovery, u.t.frto, u.t.counters.timeouts], [RecoveryState.Loss, false, 2]);
});

Deno.test("frto: switched off, or while a recovery was going on, slow start goes through what is lost", () => {
  const off = timedOut({ tcp: { frto: false } });
  off.ack(1);
  assertEquals(off.sent(), [1, 2]);

  const s = new Sender({ tcp: { tailLossProbe: false } });
  s.h.pass(100);
  s.ack(0, [[1, 5]]);
  assertEquals(s.sent(), [0]);
  s.h.until(s.t.rtoAt / 1e6);
  assertEquals([s.t.counters.timeouts, s.t.frto], [1, false]);
});

Deno.test("undo: never after the peer has echoed congestion: by Eifel, by reports, by F-RTO", () => {
  const eifel = new Sender({ timestamps: true, ecn: true, further: 60 });
  const first = eifel.h.lastTsVal;
  eifel.h.pass(100);
  eifel.ack(0, [[1, 4]], { flags: "E." });
  eifel.sent();
  eifel.h.pass(10);
  eifel.ack(4, [], { ts: [eifel.h.peerTsVal, first] });
  assertEquals([eifel.t.counters.undos, eifel.windows[1]], [0, 5]);

  const dsack = new Sender({ ecn: true, further: 60 });
  dsack.h.pass(100);
  dsack.ack(0, [[1, 10]]);
  dsack.sent();
  dsack.h.pass(10);
  dsack.h.in({ flags: "E.", seq: 1, ack: dsack.nth(10), sack: [[dsack.nth(0), dsack.nth(1)]] });
  assertEquals([dsack.t.counters.undos, dsack.windows[1]], [0, 5]);

  const frto = timedOut({ ecn: true });
  frto.h.pass(30);
  frto.ack(1, [], { flags: "E." });
  frto.ack(2);
  // That the timeout was spurious is known, and nothing is sent again for it; but the window stays down.
  assertEquals([frto.t.counters.spuriousTimeouts, frto.t.counters.undos], [1, 0]);
  assertEquals([frto.t.lostBytes, frto.windows[1]], [0, 5]);
  assert(frto.windows[0] < 10);
});

Deno.test("undo: a lost acknowledgment is no lost segment: the duplicate's answer says so", () => {
  // All ten arrived and the acknowledgments were lost. What is sent again draws the old echo, with a report.
  for (const timestamps of [true, false]) {
    const s = new Sender({ timestamps, further: 60, tcp: { tailLossProbe: false } });
    const first = s.h.lastTsVal;
    const { rto } = s.t.rtt;
    s.h.until(400);
    assertEquals(s.sent(), [0]);
    s.h.pass(100);
    s.h.in({
      flags: ".",
      seq: 1,
      ack: s.nth(10),
      sack: [[s.nth(0), s.nth(1)]],
      ...(timestamps ? { ts: [s.h.peerTsVal, first] } : {}),
    });
    assertEquals([s.t.counters.undos, s.windows], [1, [10, Infinity]]);
    // And the time since the first copy is no round-trip time; but the timeout was not too short either.
    assertEquals([s.t.rtt.srtt, s.t.rtt.rto, s.t.rtt.backoff], [100e6, rto, 0]);
  }
});
