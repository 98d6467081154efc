import { assert, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { RecoveryState } from "../../src/tcp/state.ts";
import { seqDiff } from "../../src/wire/seq.ts";
import { Sender } from "../testing/tcp_sender.ts";
import { TRACE_ISS } from "../testing/tcp_trace.ts";

for (const family of [4, 6] as const) {
  Deno.test(`prr IPv${family}: vector 15: of 100 in flight one is lost: after n that arrive ceil(0.7 n) have been sent`, () => {
    const s = new Sender({ family, segments: 100, further: 300, tcp: { congestion: "cubic" } });
    s.h.pass(100);
    s.ack(0, [[1, 2]]);
    s.ack(0, [[1, 3]]);
    assertEquals(s.sent(), [100, 101]); // limited transmit
    let sent = 0;
    for (let n = 1; n <= 97; n++) {
      s.ack(0, [[1, 3 + n]]);
      const now = s.sent();
      if (n === 1) assertEquals([now, s.windows[1]], [[0], 70]);
      sent += now.length;
      if (s.t.inFlightBytes > 70_000) assertEquals(sent, Math.ceil(n * 70 / 100), `after ${n}`);
    }
    // Limited transmit had let out two more than the window: those are worked off too.
    assertEquals(s.t.inFlightBytes, 70_000);
    s.h.pass(100);
    s.ack(102);
    assertEquals([s.t.recovery, s.t.cwnd], [RecoveryState.Open, 70_000]);
  });
}

Deno.test("prr: much lost: what is in flight lies below ssthresh, and one goes for one; once all goes well, two (RFC 9937 6)", () => {
  // Twenty in flight, the first fifteen lost: five arrive.
  const s = new Sender({ segments: 20, further: 60 });
  s.h.pass(100);
  const sent: number[][] = [];
  for (let n = 16; n <= 20; n++) {
    s.ack(0, [[15, n]]);
    sent.push(s.sent());
  }
  assertEquals(sent, [[20], [21], [0], [1], [2]]);
  assertEquals([s.windows[1], s.t.inFlightBytes], [10, 5000]);
  // The two of limited transmit arrive: one for one. What was sent again arrives and SND.UNA moves: two for one.
  s.h.pass(100);
  s.ack(0, [[15, 21]]);
  s.ack(0, [[15, 22]]);
  assertEquals(s.sent(), [3, 4]);
  s.ack(1, [[15, 22]]);
  assertEquals(s.sent(), [5, 6]);
  s.ack(2, [[15, 22]]);
  assertEquals(s.sent(), [7, 8]);
  assertEquals([s.t.cwnd, s.t.inFlightBytes], [7000, 7000]);
});

Deno.test("prr: what does not move SND.UNA, or finds more lost, is not safe: one for one", () => {
  const s = new Sender({ segments: 20, further: 60 });
  s.h.pass(100);
  s.ack(0, [[14, 17]]);
  assertEquals(s.sent(), [0, 1, 2]);
  s.h.pass(100);
  // It moves SND.UNA, and at once 17 is seen to be missing.
  s.ack(1, [[14, 17], [18, 19]]);
  const { inFlightBytes } = s.t;
  assert(s.t.cwnd <= inFlightBytes + 1000);
  assertEquals(s.sent().length, 2); // two arrived
});

Deno.test("prr: the retransmission that begins a recovery leaves whatever the window says", () => {
  for (const segments of [1, 2, 3, 4]) {
    for (const congestion of ["reno", "cubic", "bbr", "none"]) {
      // More in flight than any window allows now.
      const s = new Sender({ segments: 8, tcp: { congestion } });
      const c = s.t.congestion as { cwnd: number };
      Object.defineProperty(c, "cwnd", { value: segments === 1 ? 0 : segments * 100, writable: true });
      s.h.pass(100);
      s.ack(0, [[1, 4]]);
      assertEquals(s.sent()[0], 0, `${congestion}, window of ${c.cwnd}`);
      assertEquals(s.t.recovery, RecoveryState.Recovery);
    }
  }
});

Deno.test("prr: without SACK duplicates are believed only up to what was in flight", () => {
  const s = new Sender({ segments: 20, further: 1000, sack: false });
  s.h.pass(100);
  let sent = 0;
  for (let i = 0; i < 500; i++) {
    s.ack(0);
    sent += s.sent().length;
  }
  // Two by limited transmit, and no more than the 22 that can have arrived.
  assert(sent <= 2 + 22, `${sent}`);
  assertEquals(s.t.prr.delivered <= s.t.prr.recoverFs, true);
});

Deno.test("prr: a window of nothing or next to nothing never makes empty segments, and nothing stands still", () => {
  for (const win of [0, 1, 2, 7]) {
    const s = new Sender({ segments: 6, further: 20 });
    s.h.pass(100);
    s.ack(0, [[1, 4]], { win });
    s.ack(1, [[2, 4]], { win });
    for (let i = 0; i < 30; i++) {
      s.h.pass(500);
      for (const out of s.h.all()) assert(out.len! > 0 || out.seq! < 1000 + s.nth(30), JSON.stringify(out));
    }
    assertEquals(s.h.tcp.connectionCount, 1);
    s.h.in({ flags: ".", seq: 1, ack: seqDiff(s.t.sndNxt, TRACE_ISS) });
    s.h.pass(1000);
    assert(s.t.counters.bytesSent > 6000);
  }
});

Deno.test("prr: property: over a recovery the window comes down to ssthresh and no further, and sends no more than arrives", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 4, max: 60 }),
      fc.array(fc.boolean(), { minLength: 60, maxLength: 60 }),
      fc.constantFrom("reno", "cubic"),
      (segments, losses, congestion) => {
        const s = new Sender({ segments, further: 200, tcp: { congestion, slowStartExit: "off" } });
        s.h.pass(100);
        const arrives = Array.from({ length: segments }, (_, i) => i).filter((i) => i > 0 && !losses[i]);
        let [left, sent, delivered] = [-1, 0, 0];
        for (const i of arrives) {
          if (i !== arrives[arrives.indexOf(i) - 1]! + 1) left = i;
          const before = s.t.recovery;
          s.ack(0, [[left, i + 1]]);
          const now = s.sent().length;
          if (s.t.recovery !== RecoveryState.Recovery) continue;
          if (before !== RecoveryState.Recovery) assert(now >= 1);
          sent += now;
          delivered++;
          assert(sent <= Math.max(1, delivered), `${sent} sent, ${delivered} arrived`);
          assert(s.t.inFlightBytes <= Math.max(s.t.cwnd, 1000 + segments * 1000));
        }
      },
    ),
    { numRuns: 100 },
  );
});
