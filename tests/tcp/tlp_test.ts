import { assert, assertEquals } from "@std/assert";
import { MILLISECOND } from "../../src/base/time.ts";
import { RecoveryState } from "../../src/tcp/state.ts";
import { Sender } from "../testing/tcp_sender.ts";
import { TcpTrace } from "../testing/tcp_trace.ts";

const probeIn = (s: Sender) => (s.t.probeAt - s.h.now) / MILLISECOND;

Deno.test("tlp: vector 17: twice the round-trip time and 2 ms, or 200 ms for one segment, but not beyond the timeout", () => {
  // Round-trip time, segments, when the probe is due, when the timeout would be.
  for (
    const [rtt, segments, probe, timeout] of [[50, 5, 102, 250], [50, 1, 250, 250], [300, 1, 500, 900], [
      300,
      5,
      602,
      900,
    ]]
  ) {
    // 300 ms: the timeout is 500 ms once the deviation has come down.
    const s = new Sender({
      rtt: rtt!,
      segments: segments!,
      tcp: rtt === 300 && segments === 1 ? { fixedRto: 500 * MILLISECOND } : {},
    });
    assertEquals([probeIn(s), (s.t.rtoAt - s.h.now) / MILLISECOND], [
      Math.min(probe!, timeout!),
      rtt === 300 && segments === 1 ? 500 : timeout,
    ]);
  }
});

for (const family of [4, 6] as const) {
  Deno.test(`tlp IPv${family}: the last segment of a flight is sent again, and its answer repairs the tail`, () => {
    const s = new Sender({ family, segments: 5 });
    s.h.pass(100);
    s.ack(2);
    // 2, 3 and 4 are lost. The probe is 4; what it draws tells of 2 and 3.
    s.h.until(402);
    assertEquals(s.sentAt(), [[4, 402]]);
    assertEquals([s.t.counters.tailLossProbes, s.t.counters.probeRetransmits, s.windows[0]], [1, 1, 7]);
    s.h.pass(100);
    s.ack(2, [[4, 5]]);
    assertEquals(s.sent(), [2]);
    s.h.pass(100);
    s.ack(3, [[4, 5]]);
    const { recovery } = s.t;
    s.h.pass(100);
    s.ack(5);
    assertEquals([recovery, s.t.recovery, s.t.counters.timeouts], [RecoveryState.Recovery, RecoveryState.Open, 0]);
    assertEquals(s.t.counters.recoveries, 1);
    s.h.noLeak();
  });
}

Deno.test("tlp: new data goes rather than old, one segment beyond the congestion window", () => {
  const s = new Sender({ segments: 5, further: 3 });
  assertEquals(s.t.inFlightBytes, 5000);
  s.h.until(302);
  assertEquals(s.sentAt(), [[5, 302]]);
  assertEquals([s.t.tlpIsRetransmission, s.t.inFlightBytes], [false, 6000]);
  // Its answer ends the probe; nothing was lost.
  s.h.pass(50);
  s.ack(6);
  assertEquals([s.t.tlpActive, s.t.recovery, s.windows[1]], [false, RecoveryState.Open, Infinity]);
});

Deno.test("tlp: a window without room for new data has the last segment sent again", () => {
  const s = new Sender({ segments: 5, further: 3 });
  s.h.pass(10);
  s.h.in({ flags: ".", seq: 1, ack: s.nth(1), win: 32 }); // 4,096 bytes: what is out, and a little
  s.h.all();
  s.h.until(s.t.probeAt / MILLISECOND);
  assertEquals(s.sent(), [4]);
});

Deno.test("tlp: one probe a flight, then the timeout, which counts from the probe", () => {
  const s = new Sender({ segments: 5 });
  s.h.until(302);
  assertEquals(s.sent(), [4]);
  assertEquals(s.t.probeAt, Infinity);
  s.h.until(601.999);
  s.h.quiet();
  s.h.until(602);
  assertEquals(s.sentAt(), [[0, 602]]);
  assertEquals([s.t.counters.timeouts, s.t.tlpActive], [1, false]);
});

Deno.test("tlp: none in a recovery, after a timeout, while something arrived out of order, without SACK, or switched off", () => {
  const recovering = new Sender({ segments: 6 });
  recovering.h.pass(100);
  recovering.ack(0, [[1, 4]]);
  assertEquals([recovering.t.recovery, recovering.t.probeAt], [RecoveryState.Recovery, Infinity]);
  recovering.ack(1, [[2, 4]]);
  assertEquals(recovering.t.probeAt, Infinity);

  const disorder = new Sender({ segments: 6 });
  disorder.h.pass(100);
  disorder.ack(0, [[1, 2]]);
  assertEquals([disorder.t.recovery, disorder.t.probeAt], [RecoveryState.Disorder, Infinity]);

  const lost = new Sender({ segments: 6, tcp: { frto: false } });
  lost.h.until(1000);
  assertEquals([lost.t.recovery, lost.t.probeAt], [RecoveryState.Loss, Infinity]);
  lost.ack(1);
  assertEquals(lost.t.probeAt, Infinity);

  for (const options of [{ sack: false }, { tcp: { tailLossProbe: false } }]) {
    const s = new Sender({ segments: 5, ...options });
    assertEquals(s.t.probeAt, Infinity);
    s.h.until(400);
    assertEquals([s.sent(), s.t.counters.tailLossProbes, s.t.counters.timeouts], [[0], 0, 1]);
  }
});

Deno.test("tlp: due at the same time as the timeout it comes first: a lost segment costs no window, and is repaired as soon", () => {
  const s = new Sender({ segments: 1, further: 0, rtt: 50 });
  assertEquals(s.t.probeAt, s.t.rtoAt);
  s.h.until(300);
  assertEquals(s.sentAt(), [[0, 300]]);
  assertEquals([s.t.counters.tailLossProbes, s.t.counters.timeouts], [1, 0]);
  // Not answered either: the timeout, an RTO later.
  s.h.until(550);
  assertEquals(s.sentAt(), [[0, 550]]);
  assertEquals([s.t.counters.timeouts, s.windows[0]], [1, 1]);
});

/** A flight whose last segment, 4, was sent again as a probe at 302 ms, all acknowledged but what the probe tells. */
function probed(): Sender {
  const s = new Sender({ segments: 5 });
  s.h.until(302);
  assertEquals(s.sent(), [4]);
  s.h.pass(10);
  s.ack(5);
  assertEquals([s.t.tlpActive, s.t.hasOutstanding], [true, false]);
  return s;
}

Deno.test("tlp: the original arrived too: said by a duplicate report, with nothing outstanding", () => {
  const s = probed();
  s.h.pass(90);
  s.h.in({ flags: ".", seq: 1, ack: s.nth(5), sack: [[s.nth(4), s.nth(5)]] });
  assertEquals([s.t.tlpActive, s.windows[1], s.t.rack.reoWndMult], [false, Infinity, 1]);
  s.h.write(s.t, 1000);
  s.ack(6);
  assertEquals(s.windows[1], Infinity);
});

Deno.test("tlp: the same said by a bare duplicate, but not by one with a block", () => {
  const s = probed();
  s.h.in({ flags: ".", seq: 1, ack: s.nth(5), sack: [[s.nth(0), s.nth(1)]] });
  assertEquals(s.t.tlpActive, true);
  s.ack(5);
  assertEquals(s.t.tlpActive, false);
  s.h.write(s.t, 1000);
  s.ack(6);
  assertEquals(s.windows[1], Infinity);
});

Deno.test("tlp: an acknowledgment of more without either: the probe repaired a loss, and the window goes down, once", () => {
  const s = probed();
  s.h.write(s.t, 3000);
  assertEquals(s.sent(), [5, 6, 7]);
  s.h.pass(100);
  s.ack(6);
  assertEquals([s.t.tlpActive, s.t.recovery], [false, RecoveryState.Open]);
  const [cwnd, ssthresh] = s.windows;
  assert(ssthresh < Infinity && cwnd < 5, `${cwnd} ${ssthresh}`);
  s.ack(8);
  assertEquals(s.windows[1], ssthresh);
  // Not to be taken back by a report that has nothing to do with it.
  s.h.in({ flags: ".", seq: 1, ack: s.nth(8), sack: [[s.nth(4), s.nth(5)]] });
  assertEquals(s.t.counters.undos, 0);
});

Deno.test("tlp: a probe draws an answer without a round-trip time: none follows until there is one (RFC 8985 7.3)", () => {
  const s = probed();
  s.ack(5);
  assertEquals([s.t.tlpActive, s.t.tlpWantsRtt], [false, true]);
  s.h.write(s.t, 1000);
  assertEquals([s.sent(), s.t.probeAt], [[5], Infinity]);
  s.h.pass(100);
  s.ack(6);
  s.h.write(s.t, 1000);
  assertEquals([s.sent(), s.t.tlpWantsRtt], [[6], false]);
  assert(s.t.probeAt < Infinity);
});

Deno.test("tlp: none before the first round-trip time", () => {
  const h = new TcpTrace();
  const listener = h.listen();
  h.in({ flags: "S", seq: 0, mss: 1000, sackOk: true });
  h.pass(1500); // a SYN-ACK sent twice gives none
  h.in({ flags: ".", seq: 1, ack: 1 });
  const t = listener.accept()!;
  h.all();
  h.write(t, 500);
  assertEquals([h.all().length, t.rtt.srtt, t.probeAt], [1, 0, Infinity]);
});

Deno.test("tlp: a probe of a FIN, answered by what was there already", () => {
  const s = new Sender({ segments: 2 });
  s.t.shutdownWrite(s.h.now);
  s.h.flush();
  s.h.all();
  s.h.until(s.t.probeAt / MILLISECOND);
  const [probe] = s.h.all();
  assertEquals([probe!.flags, probe!.seq], ["F.", s.nth(2)]);
  s.h.pass(10);
  s.h.in({ flags: ".", seq: 1, ack: s.nth(2) + 1 });
  s.h.in({ flags: "F.", seq: 1, ack: s.nth(2) + 1 });
  assertEquals(s.h.all().map((out) => [out.flags, out.ack]), [[".", 2]]);
  s.h.quietUntil(2000);
});

Deno.test("tlp: the probe counts among what an episode may take back only if it is reported too", () => {
  // What the probe draws tells that 0 is missing: of two copies that were not needed both have to be reported.
  const s = new Sender({ segments: 5 });
  s.h.until(302);
  assertEquals(s.sent(), [4]);
  s.h.pass(100);
  s.ack(0, [[1, 5]]);
  assertEquals([s.sent(), s.t.undoRetransmits], [[0], 2]);
  s.h.pass(10);
  s.h.in({ flags: ".", seq: 1, ack: s.nth(5), sack: [[s.nth(4), s.nth(5)]] });
  assertEquals([s.t.counters.undos, s.t.undoRetransmits], [0, 1]);
  s.h.in({ flags: ".", seq: 1, ack: s.nth(5), sack: [[s.nth(0), s.nth(1)]] });
  assertEquals(s.t.counters.undos, 1);

  // The same while the probe itself is still out.
  const u = new Sender({ segments: 6 });
  u.h.until(302);
  assertEquals(u.sent(), [5]);
  u.h.pass(10);
  u.ack(0, [[1, 4]]);
  assertEquals([u.sent(), u.t.undoRetransmits], [[0], 2]);
  u.h.pass(10);
  u.h.in({ flags: ".", seq: 1, ack: u.nth(4), sack: [[u.nth(0), u.nth(1)]] });
  assertEquals([u.t.counters.undos, u.t.undoRetransmits], [0, 1]);
});
