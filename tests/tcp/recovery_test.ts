import { assert, assertEquals } from "@std/assert";
import { seqDiff } from "../../src/wire/seq.ts";
import { RecoveryState } from "../../src/tcp/state.ts";
import type { TcpOptions } from "../../src/tcp/options.ts";
import type { Tcb } from "../../src/tcp/tcb.ts";
import { TcpTrace, TRACE_ISS } from "../testing/tcp_trace.ts";

const MSS = 1460;
const nth = (n: number) => 1 + n * MSS;

/** A connection with a round-trip time of 100 ms, hence an RTO of 300 ms, and ten segments in flight. */
function tenInFlight(further = 0, family: 4 | 6 = 4, options: Partial<TcpOptions> = {}): [TcpTrace, Tcb] {
  const h = new TcpTrace(options, family);
  if (family === 6) h.mtu = 1520; // the same MSS
  const t = h.established({ wscale: 7 }, 100);
  h.write(t, 10 * MSS + further);
  assertEquals(h.all().length, 10);
  return [h, t];
}

function dup(h: TcpTrace, ack: number, times: number): void {
  for (let i = 0; i < times; i++) h.in({ flags: ".", seq: 1, ack });
}

for (const family of [4, 6] as const) {
  Deno.test(`recovery IPv${family}: three duplicates send exactly the oldest segment again, then nothing`, () => {
    const [h, t] = tenInFlight(0, family);
    dup(h, 1, 2);
    h.quiet();
    dup(h, 1, 1);
    h.out({ flags: ".", seq: 1, len: MSS });
    h.quiet();
    dup(h, 1, 6);
    h.quiet();
    assertEquals([t.congestion.ssthresh, t.recovery], [5 * MSS, RecoveryState.Recovery]);
    assertEquals(seqDiff(t.sndNxt, TRACE_ISS), nth(10));
    // A partial acknowledgment sends the next hole again, a full one ends the episode.
    h.in({ flags: ".", seq: 1, ack: nth(3) });
    h.out({ flags: ".", seq: nth(3), len: MSS });
    h.quiet();
    h.in({ flags: ".", seq: 1, ack: nth(9) });
    h.out({ flags: ".", seq: nth(9), len: MSS });
    h.in({ flags: ".", seq: 1, ack: nth(10) });
    assertEquals([t.recovery, t.congestion.ssthresh], [RecoveryState.Open, 5 * MSS]);
    assertEquals([t.counters.fastRetransmits, t.counters.recoveries], [3, 1]);
    h.quietUntil(10_000);
    h.noLeak();
  });
}

Deno.test("recovery: limited transmit, the retransmission beyond cwnd, one new segment for each that left above half", () => {
  const [h, t] = tenInFlight(20 * MSS);
  dup(h, 1, 1);
  h.out({ flags: ".", seq: nth(10) });
  h.quiet();
  dup(h, 1, 1);
  h.out({ flags: ".", seq: nth(11) });
  h.quiet();
  dup(h, 1, 1);
  h.out({ flags: ".", seq: 1, len: MSS });
  h.quiet();
  // What limited transmit sent is no part of FlightSize (RFC 5681 section 3.2 step 2).
  assertEquals([t.congestion.cwnd, t.congestion.ssthresh], [5 * MSS, 5 * MSS]);
  // 12 are out and 5 are to be: of 12 that arrive 5 may go, rounded up (RFC 9937 section 6). The first arrival sent one.
  const sent: number[] = [];
  for (let arrived = 2; arrived <= 7; arrived++) {
    dup(h, 1, 1);
    sent.push(...h.all().map((s) => s.seq!));
    assertEquals(1 + sent.length, Math.ceil(arrived * 5 / 12));
  }
  assertEquals(sent, [nth(12), nth(13)]);
  // A partial acknowledgment for 4 segments (3 had arrived): the hole goes again, and one new segment for the old one.
  h.in({ flags: ".", seq: 1, ack: nth(4) });
  h.out({ flags: ".", seq: nth(4) });
  h.out({ flags: ".", seq: nth(14) });
  h.quiet();
  assertEquals(t.inFlightBytes, 5 * MSS);
});

Deno.test("recovery: a full acknowledgment leaves ssthresh as the window (RFC 9937 section 6)", () => {
  const [h, t] = tenInFlight(40 * MSS);
  dup(h, 1, 9);
  h.all();
  h.in({ flags: ".", seq: 1, ack: seqDiff(t.sndNxt, TRACE_ISS) });
  assertEquals([t.cwnd, h.all().length], [5 * MSS, 5]);
});

Deno.test("recovery: 300 duplicates begin one episode and let out no more than came", () => {
  const [h, t] = tenInFlight(1_000_000);
  dup(h, 1, 300);
  const sent = h.all();
  assertEquals(sent.filter((s) => s.seq === 1).length, 1);
  assert(sent.length <= 301);
  assertEquals(t.congestion.ssthresh, 5 * MSS);
  assertEquals(t.counters.dupAcksIn, 300);
  assert(t.inFlightBytes >= 0);
});

Deno.test("recovery: no duplicates are window updates, segments with data, FINs, or acknowledgments of nothing", () => {
  const [h, t] = tenInFlight();
  for (const win of [1000, 1001, 1002, 1003, 1004]) h.in({ flags: ".", seq: 1, ack: 1, win });
  h.quiet();
  for (let i = 0; i < 5; i++) h.in({ flags: ".", seq: 1 + 10 * i, ack: 1, win: 1004, len: 10 });
  assertEquals(h.all().filter((s) => s.len! > 0), []);
  h.in({ flags: "F.", seq: 51, ack: 1, win: 1004 });
  assertEquals(h.all().filter((s) => s.len! > 0), []);
  assertEquals([t.dupAcks, t.recovery], [0, RecoveryState.Open]);

  const idle = new TcpTrace();
  const u = idle.established();
  dup(idle, 1, 5);
  assertEquals([u.dupAcks, u.counters.dupAcksIn], [0, 0]);
});

Deno.test("recovery: an acknowledgment of new data in between starts the count anew", () => {
  const [h, t] = tenInFlight();
  dup(h, 1, 2);
  h.in({ flags: ".", seq: 1, ack: nth(1) });
  dup(h, nth(1), 2);
  h.quiet();
  assertEquals(t.recovery, RecoveryState.Disorder);
  dup(h, nth(1), 1);
  h.out({ flags: ".", seq: nth(1) });
});

Deno.test("recovery: a second loss later is a second episode, with a reduction of its own", () => {
  const [h, t] = tenInFlight(50 * MSS);
  dup(h, 1, 3);
  h.all();
  const recover = seqDiff(t.sndNxt, TRACE_ISS);
  h.in({ flags: ".", seq: 1, ack: recover });
  h.all();
  h.in({ flags: ".", seq: 1, ack: recover + MSS });
  h.all();
  dup(h, recover + MSS, 3);
  assertEquals(h.all().filter((s) => s.seq === recover + MSS).length, 1);
  assertEquals([t.counters.fastRetransmits, t.recovery], [2, RecoveryState.Recovery]);
  assert(t.congestion.ssthresh < 5 * MSS);
});

Deno.test("recovery: duplicates after a timeout, of what was sent before it, begin nothing (RFC 6582 3.2)", () => {
  const [h, t] = tenInFlight();
  h.pass(300);
  h.out({ flags: ".", seq: 1 });
  h.in({ flags: ".", seq: 1, ack: nth(1) });
  assertEquals(h.all().length, 2);
  const before = t.congestion.ssthresh;
  dup(h, nth(1), 5);
  assertEquals([t.counters.fastRetransmits, t.congestion.ssthresh, t.recovery], [0, before, RecoveryState.Loss]);
});

Deno.test("recovery: duplicates of all that was sent before a timeout begin nothing, one byte further they do", () => {
  for (const [acked, expected] of [[nth(10), 0], [nth(11), 1]] as const) {
    const [h, t] = tenInFlight(20 * MSS);
    h.pass(300);
    h.in({ flags: ".", seq: 1, ack: nth(10) });
    assertEquals(t.recovery, RecoveryState.Open);
    if (acked > nth(10)) h.in({ flags: ".", seq: 1, ack: acked });
    dup(h, acked, 3);
    assertEquals(t.counters.fastRetransmits, expected);
  }
});

Deno.test("timeout: slow start from one segment; lost segments go again in order, each once", () => {
  const [h, t] = tenInFlight(30 * MSS, 4, { frto: false });
  h.pass(300);
  h.out({ flags: ".", seq: 1, at: 400 });
  h.quiet();
  assertEquals([t.congestion.cwnd, t.congestion.ssthresh], [MSS, 5 * MSS]);
  assertEquals(seqDiff(t.sndNxt, TRACE_ISS), nth(10));
  const order: number[] = [];
  let acked = 0;
  for (let cwnd = 2; acked < 9; cwnd++) {
    h.pass(100);
    h.in({ flags: ".", seq: 1, ack: nth(++acked) });
    order.push(...h.all().map((s) => s.seq!));
  }
  // Two for each acknowledgment up to ssthresh (five segments), then one; new data behind the old.
  assertEquals(order.slice(0, 9), [1, 2, 3, 4, 5, 6, 7, 8, 9].map(nth));
  assertEquals(order.slice(9), order.slice(9).map((_, i) => nth(10 + i)));
  assertEquals(t.counters.timeouts, 1);
  assertEquals(t.counters.lossRetransmits, 9);
});

Deno.test("timeout: an acknowledgment of all ends it, and nothing is sent again", () => {
  const [h, t] = tenInFlight();
  h.pass(300);
  h.out({ flags: ".", seq: 1 });
  h.in({ flags: ".", seq: 1, ack: nth(10) });
  h.quietUntil(10_000);
  assertEquals([t.recovery, t.lostBytes, t.inFlightBytes], [RecoveryState.Open, 0, 0]);
});

Deno.test("timeout: SND.NXT never goes back: other segments carry it", () => {
  const [h] = tenInFlight();
  h.pass(300);
  h.out({ flags: ".", seq: 1 });
  h.in({ flags: ".", seq: 1001, ack: 1, len: 10 });
  h.out({ flags: ".", seq: nth(10), ack: 1 });
});

Deno.test("timeout: the back-off doubles, ssthresh is lowered once, and the connection ends after the retries", () => {
  const h = new TcpTrace({ retries: 4, mtuProbing: "off" });
  const t = h.established({ wscale: 7 }, 100);
  h.write(t, 10 * MSS);
  h.all();
  h.until(400);
  h.out({ flags: ".", seq: 1, at: 400 });
  assertEquals(t.congestion.ssthresh, 5 * MSS);
  h.until(30_000);
  h.out({ flags: ".", seq: 1, at: 1000 });
  h.out({ flags: ".", seq: 1, at: 2200 });
  h.out({ flags: ".", seq: 1, at: 4600 });
  h.quiet();
  assertEquals(t.congestion.ssthresh, 5 * MSS);
  assertEquals(t.errorText, "no answer to 4 retransmissions of the data");
  assertEquals(h.tcp.connectionCount, 0);
  h.noLeak();
});

Deno.test("timeout: in a recovery, when the retransmission is lost too", () => {
  const [h, t] = tenInFlight();
  dup(h, 1, 9);
  h.out({ flags: ".", seq: 1 });
  h.until(400);
  h.out({ flags: ".", seq: 1, at: 400 });
  assertEquals([t.recovery, t.dupAcks, t.congestion.cwnd], [RecoveryState.Loss, 0, MSS]);
  h.in({ flags: ".", seq: 1, ack: nth(10) });
  h.quietUntil(5000);
  assertEquals(t.recovery, RecoveryState.Open);
});

Deno.test("timeout: a partial acknowledgment within a segment sends the rest of it again", () => {
  const [h] = tenInFlight();
  h.pass(300);
  h.out({ flags: ".", seq: 1, len: MSS });
  h.in({ flags: ".", seq: 1, ack: 501 });
  h.quiet();
  h.pass(700);
  h.out({ flags: ".", seq: 501, len: MSS - 500 });
});

Deno.test("recovery: a partial acknowledgment within the oldest segment sends the rest of it again", () => {
  const [h, t] = tenInFlight();
  dup(h, 1, 4);
  h.out({ flags: ".", seq: 1, len: MSS });
  h.in({ flags: ".", seq: 1, ack: 501 });
  h.out({ flags: ".", seq: 501, len: MSS - 500 });
  h.in({ flags: ".", seq: 1, ack: nth(10) });
  assertEquals(t.inFlightBytes, 0);
});

Deno.test("recovery: what later numbers are compared with goes along, or no episode would begin after 2^31 bytes", () => {
  const [h, t] = tenInFlight(10 * MSS);
  h.in({ flags: ".", seq: 1, ack: nth(10) });
  assertEquals([seqDiff(t.sndUna, t.recover), seqDiff(t.sndUna, t.sndSml)], [1, 0]);
});

Deno.test("recovery: a window that closes meanwhile does not end the connection while the peer answers", () => {
  const h = new TcpTrace({ retries: 3, maxRto: 2e9 });
  const t = h.established({}, 100);
  h.write(t, 3 * MSS);
  h.all();
  for (let i = 0; i < 20; i++) {
    h.pass(2000);
    assert(h.all().length > 0);
    h.in({ flags: ".", seq: 1, ack: 1, win: 0 });
  }
  h.in({ flags: ".", seq: 1, ack: nth(3), win: 65535 });
  h.write(t, 10);
  h.out({ flags: "P.", seq: nth(3), len: 10 });
});
