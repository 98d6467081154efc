import { assert, assertEquals } from "@std/assert";
import type { EcnOption } from "../../src/tcp/options.ts";
import { RecoveryState } from "../../src/tcp/state.ts";
import { Sender } from "../testing/tcp_sender.ts";
import { TcpTrace } from "../testing/tcp_trace.ts";

/** A sender with ECN in use. */
function ecnSender(options: ConstructorParameters<typeof Sender>[0] = {}): Sender {
  const s = new Sender({ ecn: true, further: 60, ...options });
  assert(s.t.ecnOn);
  return s;
}

for (const family of [4, 6] as const) {
  Deno.test(`ecn IPv${family}: a listener answers what is asked, as the setting says (RFC 3168 6.1.1)`, () => {
    for (const ecn of ["off", "accept", "on"] as EcnOption[]) {
      for (const [flags, asked] of [["S", false], ["SEW", true], ["SE", false], ["SW", false]] as const) {
        const h = new TcpTrace({ ecn }, family);
        h.listen();
        h.in({ flags, seq: 0, mss: 1000 });
        const agreed = asked && ecn !== "off";
        h.out({ flags: agreed ? "S.E" : "S.", ecn: 0 });
        assertEquals([...h.tcp.connections()][0]!.ecnOn, agreed);
      }
    }
  });

  Deno.test(`ecn IPv${family}: a client asks only if it is on, and takes no for an answer`, () => {
    for (const ecn of ["off", "accept", "on"] as EcnOption[]) {
      for (const [flags, agreed] of [["S.", false], ["S.E", true], ["S.EW", false], ["S.W", false]] as const) {
        const h = new TcpTrace({ ecn }, family);
        const t = h.connect();
        h.out({ flags: ecn === "on" ? "SEW" : "S", seq: 0, ecn: 0 });
        h.in({ flags, seq: 0, ack: 1, mss: 1000 });
        h.out({ flags: ".", ack: 1, ecn: 0 });
        assertEquals(t.ecnOn, agreed && ecn === "on");
        h.write(t, 1000);
        h.out({ flags: ".", len: 1000, ecn: agreed && ecn === "on" ? 2 : 0 });
      }
    }
  });

  Deno.test(`ecn IPv${family}: new data is ECN-capable; what is sent again, acknowledgments, FIN and probes are not`, () => {
    const s = ecnSender({ family, segments: 4, further: 3 });
    s.h.pass(100);
    s.h.in({ flags: ".", seq: 1, ack: 1, len: 10 });
    s.h.in({ flags: ".", seq: 1001, ack: 1, len: 10 });
    const acks = s.h.all();
    assert(acks.length >= 1 && acks.every((a) => a.len === 0 && a.ecn === 0));
    s.ack(1, [], { seq: 11 });
    const news = s.h.all();
    assert(news.length > 0 && news.every((n) => n.len! > 0 && n.ecn === 2));
    s.h.until(s.t.probeAt / 1e6);
    assertEquals(s.h.all().map((p) => p.ecn), [s.t.tlpIsRetransmission ? 0 : 2]);
    s.h.until(s.t.rtoAt / 1e6);
    assertEquals(s.h.all().map((r) => [r.seq, r.ecn]), [[s.nth(1), 0]]);
    s.t.shutdownWrite(s.h.now);
    s.ack(s.t.counters.bytesAcked / 1000 + s.t.retransmitQueue.size, [], { seq: 11, win: 0 });
    s.h.all();
    s.h.pass(3000);
    assert(s.h.all().every((p) => p.len! > 0 || p.ecn === 0));
  });

  Deno.test(`ecn IPv${family}: a mark is echoed on every acknowledgment until the peer says CWR (RFC 3168 6.1.3)`, () => {
    const s = ecnSender({ family });
    let at = 1;
    const data = (flags: string, ecn: number) => {
      s.h.in({ flags, seq: at, ack: 1, len: 1000, ecn });
      at += 1000;
      s.h.pass(50);
      return s.h.all().map((a) => a.flags.includes("E"));
    };
    assertEquals(data(".", 2), [false]);
    assertEquals(data(".", 3), [true]);
    assertEquals(data(".", 2), [true]);
    // A bare acknowledgment says nothing, marked or not.
    s.h.in({ flags: ".W", seq: at, ack: 1, ecn: 3 });
    assertEquals(data(".", 2), [true]);
    assertEquals(data(".W", 2), [false]);
    assertEquals(data(".", 2), [false]);
    // CWR and a new mark in one segment.
    assertEquals(data(".", 3), [true]);
    assertEquals(data(".W", 3), [true]);
    assertEquals(s.t.counters.ceIn, 3);
  });

  Deno.test(`ecn IPv${family}: an echo reduces the window once a window of data, and the next new data says CWR`, () => {
    const s = ecnSender({ family, tcp: { pacing: "off" } });
    s.h.pass(100);
    s.ack(1, [], { flags: ".E" });
    assertEquals([s.windows[1], s.t.recovery, s.t.counters.ecnEchoes], [5, RecoveryState.Cwr, 1]);
    const sent = [...s.h.all()];
    for (let n = 2; n <= 10; n++) {
      s.ack(n, [], { flags: ".E" });
      sent.push(...s.h.all());
    }
    // The window comes down as data leaves: one for two.
    assertEquals([s.windows[1], sent.length], [5, 5]);
    assertEquals(sent.map((o) => o.flags.includes("W")), [true, false, false, false, false]);
    assertEquals(s.t.recovery, RecoveryState.Cwr);
    // What was sent since still draws the echo of before, up to the segment that says CWR.
    s.ack(11);
    assertEquals([s.t.recovery, s.windows[0]], [RecoveryState.Open, 5]);
    s.h.all();
    // A window later a further echo counts.
    s.h.pass(100);
    s.ack(14, [], { flags: ".E" });
    assertEquals(s.t.recovery, RecoveryState.Cwr);
    assert(s.windows[1] < 5);
  });
}

Deno.test("ecn: a SYN that got no answer is sent again without; then no data is marked, but the peer's marks are heeded", () => {
  const h = new TcpTrace({ ecn: "on" });
  const t = h.connect();
  h.out({ flags: "SEW" });
  h.pass(1000);
  h.out({ flags: "S" });
  // The answer to the first of the two.
  h.in({ flags: "S.E", seq: 0, ack: 1, mss: 1000 });
  h.out({ flags: "." });
  assertEquals(t.ecnOn, false);
  h.write(t, 1000);
  h.out({ flags: ".", len: 1000, ecn: 0 });
  h.in({ flags: ".", seq: 1, ack: 1001, len: 1000, ecn: 3 });
  h.pass(50);
  h.out({ flags: ".E", ack: 1001 });
  // An echo is none, since nothing was marked.
  h.in({ flags: ".E", seq: 1001, ack: 1001 });
  assertEquals([t.recovery, t.counters.ecnEchoes], [RecoveryState.Open, 0]);
});

Deno.test("ecn: without agreement marks, echoes and CWR mean nothing", () => {
  const s = new Sender({ further: 20 });
  s.h.pass(100);
  s.h.in({ flags: ".", seq: 1, ack: 1, len: 1000, ecn: 3 });
  s.h.pass(50);
  assert(s.h.all().every((o) => !o.flags.includes("E") && o.ecn === 0));
  s.ack(1, [], { flags: ".EW" });
  assertEquals([s.t.recovery, s.windows[1], s.t.counters.ceIn], [RecoveryState.Open, Infinity, 0]);
});

Deno.test("ecn: CWR waits for new data: what is sent again does not carry it", () => {
  const s = ecnSender({ segments: 10, further: 1 });
  s.h.pass(100);
  s.ack(0, [[1, 10]], { flags: ".E" });
  assertEquals(s.h.all().map((o) => [o.seq, o.flags.includes("W"), o.ecn]), [[1, false, 0], [s.nth(10), true, 2]]);
});

Deno.test("ecn: loss and marks of one window of data reduce once, whichever is first", () => {
  const lossFirst = ecnSender();
  lossFirst.h.pass(100);
  lossFirst.ack(0, [[1, 4]]);
  for (let n = 5; n <= 10; n++) lossFirst.ack(0, [[1, n]], { flags: ".E" });
  assertEquals(lossFirst.windows[1], 5);
  lossFirst.h.all();
  // What ends the recovery is of the same window of data: the echo goes on until CWR is seen.
  lossFirst.ack(10, [], { flags: ".E" });
  assertEquals([lossFirst.windows[1], lossFirst.t.recovery], [5, RecoveryState.Open]);
  lossFirst.ack(11, [], { flags: ".E" });
  assertEquals(lossFirst.t.recovery, RecoveryState.Cwr);

  const markFirst = ecnSender();
  markFirst.h.pass(100);
  markFirst.ack(1, [], { flags: ".E" });
  assertEquals([markFirst.windows[1], markFirst.t.recovery], [5, RecoveryState.Cwr]);
  markFirst.ack(1, [[2, 5]], { flags: ".E" });
  assertEquals([markFirst.windows[1], markFirst.t.recovery], [5, RecoveryState.Recovery]);
  assertEquals(markFirst.sent().includes(1), true);
});

Deno.test("ecn: an acknowledgment that was overtaken echoes nothing", () => {
  const s = ecnSender();
  s.h.pass(100);
  s.ack(5);
  s.ack(3, [[7, 8]], { flags: ".E" });
  assertEquals([s.t.recovery, s.t.counters.ecnEchoes], [RecoveryState.Disorder, 0]);
});

Deno.test("ecn: a loss that a probe repaired and an echo of the same window reduce once", () => {
  const s = ecnSender({ segments: 5, further: 0 });
  s.h.until(302);
  s.h.all();
  s.h.pass(100);
  s.ack(5);
  s.h.write(s.t, 5000);
  s.h.all();
  s.h.pass(100);
  s.ack(6, [], { flags: ".E" });
  const [, ssthresh] = s.windows;
  assert(ssthresh < Infinity);
  s.ack(7, [], { flags: ".E" });
  assertEquals(s.windows[1], ssthresh);
});

Deno.test("ecn: a mark on the smallest window leaves one segment a round trip", () => {
  const s = ecnSender({ segments: 1, further: 40 });
  for (let i = 1; i < 20; i++) {
    s.h.pass(100);
    const una = s.t.counters.bytesAcked / 1000;
    s.ack(una + s.t.retransmitQueue.size, [], { flags: ".E" });
    assert(s.windows[0] >= 1);
    assert(s.sent().length >= 1, `round ${i}`);
  }
});
