import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { MILLISECOND, SECOND } from "../../src/base/time.ts";
import { burstSegments, endBurst, onDataSent, stampSegment, updatePacingRate } from "../../src/tcp/pacing.ts";
import type { Tcb } from "../../src/tcp/tcb.ts";
import { TcpTrace } from "../testing/tcp_trace.ts";

const MSS = 1448;

/** An established connection with an RTT of `rttMs`, past its unpaced segments. */
function paced(h: TcpTrace, rttMs: number): Tcb {
  const t = h.established({ mss: MSS + 12, ts: true, wscale: 10 }, rttMs);
  assertEquals([t.mss, t.rtt.srtt], [MSS, rttMs * MILLISECOND]);
  t.dataSegmentsOut = 10;
  return t;
}

/** Has the control claim these values. */
function pretend(t: Tcb, cwndSegments: number, ssthreshSegments: number): void {
  const control = t.congestion as unknown as { cwnd: number; ssthresh: number };
  control.cwnd = cwndSegments * t.mss;
  control.ssthresh = ssthreshSegments * t.mss;
}

Deno.test("pacing: the step of the stamp, and at most half of it made up for (vector 5)", () => {
  const h = new TcpTrace({ pacing: "edt" });
  const t = paced(h, 10);
  t.pacingRateBytesPerSec = 3_000_000;
  const step = (idle: number): number => {
    const now = t.departAt + idle;
    stampSegment(t, now);
    const stamp = t.departAt;
    assertEquals(stamp, now);
    onDataSent(t, MSS);
    endBurst(t);
    return (t.departAt - stamp) / 1000;
  };
  t.departAt = SECOND;
  assertAlmostEquals(step(0), 482.667, 0.001);
  assertAlmostEquals(step(300_000), 241.333, 0.001);
  assertAlmostEquals(step(100_000), 382.667, 0.001);
});

Deno.test("pacing: twice the window per round trip below half of ssthresh, 1.2 times above (vector 6)", () => {
  const h = new TcpTrace({ pacing: "edt" });
  const t = paced(h, 10);
  pretend(t, 10, Infinity);
  updatePacingRate(t);
  assertAlmostEquals(t.pacingRateBytesPerSec, 2_896_000, 1);
  pretend(t, 50, 60);
  updatePacingRate(t);
  assertAlmostEquals(t.pacingRateBytesPerSec, 8_688_000, 1);
  pretend(t, 29, 60);
  updatePacingRate(t);
  assertAlmostEquals(t.pacingRateBytesPerSec, 29 * MSS * 100 * 2, 1);
  t.maxPacingRateBytesPerSec = 3_000_000;
  updatePacingRate(t);
  assertEquals(t.pacingRateBytesPerSec, 3_000_000);
});

Deno.test("pacing: bursts of a millisecond, at least two segments, at most half the window", () => {
  const h = new TcpTrace({ pacing: "edt" });
  const t = paced(h, 10);
  pretend(t, 100, 60);
  for (const [rate, segments] of [[1e5, 2], [3e6, 2], [1.5e7, 10], [1.5e9, 50]] as const) {
    t.pacingRateBytesPerSec = rate;
    assertEquals(burstSegments(t), segments, `at ${rate} B/s`);
  }
  pretend(t, 3, 60);
  assertEquals(burstSegments(t), 1);
});

Deno.test("pacing edt: ten segments at once, then bursts that share a stamp; the RTT counts from the stamp", () => {
  const h = new TcpTrace({ pacing: "edt", maxPacingRateBytesPerSec: 3_000_000, smallQueueBytes: 1 << 20 });
  const t = h.established({ mss: MSS + 12, ts: true, wscale: 10 }, 10);
  pretend(t, 40, 40);
  updatePacingRate(t);
  h.write(t, 16 * MSS);
  const times = h.allCaught().map((c) => (c.at - h.now) / 1000);
  assertEquals(times.slice(0, 10), new Array(10).fill(0));
  // The tenth begins a burst; half of the step behind it is made up for by the idle time before.
  const gap = 2 * MSS / 3; // µs at 3 MB/s
  const expected = [0, gap / 2, gap / 2, 1.5 * gap, 1.5 * gap, 2.5 * gap];
  for (let i = 10; i < 16; i++) assertAlmostEquals(times[i]!, expected[i - 10]!, 0.01);
  // Acknowledged 10 ms after the last stamp: the wait for the departure is not in the sample.
  const last = h.now + times[15]! * 1000;
  h.until(last / MILLISECOND + 10);
  h.in({ flags: ".", seq: 1, ack: 1 + 15 * MSS, ts: true });
  h.in({ flags: ".", seq: 1, ack: 1 + 16 * MSS, ts: true });
  assertAlmostEquals(t.rtt.latest / MILLISECOND, 10, 0.001);
});

Deno.test("pacing internal: TCP holds the data itself until the stamp", () => {
  const h = new TcpTrace({ pacing: "internal", maxPacingRateBytesPerSec: 3_000_000 });
  const t = paced(h, 10);
  pretend(t, 40, 40);
  updatePacingRate(t);
  const from = h.now;
  h.write(t, 6 * MSS);
  assertEquals(h.allCaught().map((c) => c.at - from), [0, 0]);
  h.pass(0.4);
  assertEquals(h.allCaught().length, 0);
  h.pass(5);
  const gap = 2 * MSS / 3_000_000 * 1e9;
  const times = h.allCaught().map((c) => c.at - from);
  assertEquals(times.length, 4);
  for (const [i, at] of times.entries()) assertAlmostEquals(at, (Math.floor(i / 2) + 0.5) * gap, 10);
});

Deno.test("pacing off and qdisc: no stamp lies ahead", () => {
  for (const pacing of ["off", "qdisc"] as const) {
    const h = new TcpTrace({ pacing, maxPacingRateBytesPerSec: 3_000_000 });
    const t = paced(h, 10);
    pretend(t, 40, 40);
    h.write(t, 20 * MSS);
    const sent = h.allCaught();
    assertEquals(sent.length, 20);
    assert(sent.every((c) => c.at === h.now));
  }
});

for (const lateness of [0, 10]) {
  const most = 5 + 2 * lateness;
  Deno.test(`pacing edt: nothing is handed over more than ${most} ms before it departs, and all of it departs in time`, () => {
    const h = new TcpTrace({ maxPacingRateBytesPerSec: 20_000, pacing: "edt" });
    const t = h.established({ ts: true, wscale: 7 }, 100);
    h.latency = lateness * MILLISECOND;
    h.write(t, 20 * t.mss);
    h.flush();
    h.in({ flags: ".", seq: 1, ack: 1 + 10 * t.mss });
    h.allCaught();
    const departures: number[] = [];
    let earliest = 0;
    for (let ms = 0; ms < 400; ms++) {
      h.pass(1);
      for (const { at, segment } of h.allCaught()) {
        assert(
          at - h.now <= most * MILLISECOND,
          `${segment.seq} was handed over ${(at - h.now) / MILLISECOND} ms ahead`,
        );
        departures.push(at);
        earliest = Math.max(earliest, at - h.now);
        h.in({ flags: ".", seq: 1, ack: segment.seq! + segment.len! }, false);
      }
    }
    assert(departures.length >= 5, `${departures.length} segments`);
    // Two segments a burst: as far apart as 20,000 bytes a second make them, however early they were handed over.
    const steps = departures.slice(1).map((at, i) => at - departures[i]!).filter((step) => step > 0);
    for (const step of steps) assertAlmostEquals(step, 2 * t.mss / 20_000 * SECOND, 2);
    assert(earliest > (most - 2) * MILLISECOND, "a late runtime needs it as early as it may be");
  });
}

for (const pacing of ["edt", "internal", "off"] as const) {
  for (const ts of [false, true]) {
    Deno.test(`pacing ${pacing}: acknowledgments do not wait for their turn${ts ? ", and TSval never goes back" : ""}`, () => {
      const h = new TcpTrace({ pacing, maxPacingRateBytesPerSec: 10_000, delayedAck: 0 });
      const t = h.established({ ts, wscale: 7 }, 100);
      h.write(t, 40 * t.mss);
      h.pass(0);
      h.allCaught();
      for (let i = 1; i <= 5; i++) {
        h.pass(10);
        h.in({ flags: ".", seq: 1, ack: 1 + 2 * i * t.mss });
      }
      const caught = h.allCaught();
      h.in({ flags: "P.", seq: 1, ack: 1 + 10 * t.mss, len: 10 });
      const answer = h.allCaught().filter(({ segment }) => segment.len === 0);
      assertEquals(answer.map(({ at, segment }) => [at, segment.ack]), [[h.now, 11]]);
      if (pacing === "edt") assert(t.departAt > h.now, "nothing was being paced");
      h.pass(5000);
      caught.push(...answer, ...h.allCaught());
      if (!ts) return;
      const stamps = caught.map(({ segment }) => (segment.ts as [number, number])[0]);
      for (let i = 1; i < stamps.length; i++) assert(stamps[i]! - stamps[i - 1]! >= 0, "TSval went back");
    });
  }
}

Deno.test("pacing edt: an acknowledgment does not depart before the FIN that was handed over before it", () => {
  const h = new TcpTrace({ pacing: "edt", maxPacingRateBytesPerSec: 1_000_000, delayedAck: 0 });
  const t = h.established({ ts: true, wscale: 10 }, 100);
  t.dataSegmentsOut = 10;
  pretend(t, 40, 40);
  h.write(t, 2 * t.mss);
  h.flush();
  t.shutdownWrite(h.now);
  h.in({ flags: "P.", seq: 1, ack: 1, len: 10 });
  const [fin, answer] = h.allCaught().slice(-2);
  assertEquals([fin!.segment.flags, answer!.segment.flags, answer!.segment.ack], ["F.", ".", 11]);
  assert(fin!.at > h.now, "the FIN was not being paced");
  assertEquals(answer!.at, fin!.at);
});

for (const pacing of ["edt", "internal"] as const) {
  Deno.test(`pacing ${pacing}: an acknowledgment in between does not use up what a late timer is owed`, () => {
    const stepAfter = (acks: boolean): number => {
      const h = new TcpTrace({ pacing, maxPacingRateBytesPerSec: 100_000, delayedAck: 0 });
      const t = h.established({ ts: true, wscale: 10 }, 100);
      t.dataSegmentsOut = 10;
      pretend(t, 40, 40);
      h.write(t, 2 * t.mss);
      h.flush();
      h.now = t.departAt + 3 * MILLISECOND; // late, or only now there is something to send
      if (acks) h.in({ flags: "P.", seq: 1, ack: 1, len: 10 });
      h.now += 4 * MILLISECOND;
      h.write(t, 2 * t.mss);
      h.flush();
      return t.departAt - h.now;
    };
    assertAlmostEquals(stepAfter(false), 2 * MSS / 100_000 * SECOND - 7 * MILLISECOND, 2);
    assertEquals(stepAfter(true), stepAfter(false));
  });

  Deno.test(`pacing ${pacing}: the timer does not run out on a loss whose repair waits for its turn`, () => {
    // Two segments take three seconds.
    const h = new TcpTrace({ pacing, maxPacingRateBytesPerSec: 1000 });
    const t = h.established({ ts: true, wscale: 7, sackOk: true }, 100);
    const { mss } = t;
    h.write(t, 40 * mss);
    h.all();
    h.pass(20);
    h.in({ flags: ".", seq: 1, ack: 1 + 2 * mss, sack: [[1 + 3 * mss, 1 + 10 * mss]] });
    const turn = t.departAt;
    assert(turn > h.now + t.rtt.rto, "the timer is the later one anyway");
    h.until(turn / MILLISECOND + 50);
    const [first] = h.allCaught();
    assertEquals([first!.at, first!.segment.seq], [turn, 1 + 2 * mss]);
    assertEquals([t.counters.fastRetransmits, t.counters.timeouts], [1, 0]);
    // But for its answer it is there.
    h.until((turn + t.rtt.rto) / MILLISECOND + 50);
    assertEquals(t.counters.timeouts, 1);
  });
}

Deno.test("pacing: small queues hold two bursts, or what a late runtime needs", () => {
  const h = new TcpTrace({ pacing: "edt" });
  const t = paced(h, 10);
  pretend(t, 100, 60);
  t.maxPacingRateBytesPerSec = 3_000_000;
  updatePacingRate(t);
  h.backlog = 2 * 2 * MSS; // two bursts of two segments
  h.write(t, 10 * MSS);
  assertEquals(h.all().length, 0);
  assertEquals(t.heldBack, true);
  h.latency = 2 * MILLISECOND; // 1 ms + 2 × 2 ms at 3 MB/s = 15,000 bytes
  h.tcp.departed(t.flow);
  assertEquals(h.all().length, 10);
});

Deno.test("rate sample: steady delivery at a known rate; limited by the application counts only upwards", () => {
  const h = new TcpTrace({ pacing: "internal", maxPacingRateBytesPerSec: 1_000_000 });
  const t = paced(h, 20);
  pretend(t, 100, 60);
  updatePacingRate(t);
  h.write(t, 200 * MSS);
  // The receiver acknowledges each segment 20 ms after its departure.
  const departures: number[] = [];
  for (let acked = 0; acked < 100; acked++) {
    departures.push(...h.allCaught().map((c) => c.at));
    h.until((departures[acked]! + 20 * MILLISECOND) / MILLISECOND);
    departures.push(...h.allCaught().map((c) => c.at));
    h.in({ flags: ".", seq: 1, ack: 1 + (acked + 1) * MSS, ts: true });
  }
  assertAlmostEquals(t.rate.rateBytesPerSec, 1_000_000, 30_000);
  assertEquals(t.rate.isAppLimited, false);
});
