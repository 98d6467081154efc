import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { MILLISECOND, SECOND } from "../../src/base/time.ts";
import { RTO_MODELS, RttEstimator, WindowedMin } from "../../src/tcp/rtt.ts";
import { Sender } from "../testing/tcp_sender.ts";

const ms = (n: number) => n * MILLISECOND;

/** Samples, each the last of a round trip. */
function estimator(
  settings: ConstructorParameters<typeof RttEstimator>[0] = {},
): [RttEstimator, (rtt: number) => number] {
  const e = new RttEstimator(settings);
  let rounds = 0;
  // Sequence numbers that pass 2^31 and 2^32.
  return [e, (rtt) => {
    rounds++;
    const at = (k: number) => (-30 + 10 * k) | 0;
    assert(e.sample(ms(rtt), rounds * SECOND, at(rounds), (at(rounds) + 5) | 0));
    return e.rto / MILLISECOND;
  }];
}

Deno.test("rto: vector 7", () => {
  const [e, sample] = estimator();
  assertEquals(sample(100), 300);
  assertEquals([e.srtt, 4 * e.rttvar], [ms(100), ms(200)]);
  // The deviation decays by a quarter each; the term stays at its floor.
  let mdev = 200;
  for (let i = 0; i < 60; i++) {
    assertEquals(sample(100), 300);
    mdev *= 0.75;
    assertAlmostEquals(4 * e.rttvar / ms(1), mdev, 1e-6);
  }
  assertAlmostEquals(sample(400), 437.5, 0.005);
  assertAlmostEquals(e.srtt / ms(1), 137.5, 0.005);
  assertAlmostEquals(4 * e.rttvar / ms(1), 300, 0.005);
  for (const [rto, deviation] of [[423.44, 262.5], [404.1, 229.69], [381.91, 200.98]]) {
    assertAlmostEquals(sample(100), rto!, 0.005);
    assertAlmostEquals(4 * e.rttvar / ms(1), deviation!, 0.005);
  }
});

Deno.test("rto: a round trip that got much shorter makes the deviation grow by an eighth of what it would", () => {
  const [e, sample] = estimator();
  for (let i = 0; i < 60; i++) sample(400);
  const before = e.rttvar;
  sample(100);
  assertAlmostEquals((e.rttvar - before) / ms(1), (300 - before / ms(1)) / 32, 1e-6);
});

Deno.test("rto: rfc6298: the floor lies under the sum, 1 s as the RFC wants it", () => {
  const [, sample] = estimator({ rtoModel: "rfc6298", minRto: SECOND });
  assertEquals(sample(100), 1000);
  for (let i = 0; i < 60; i++) assertEquals(sample(100), 1000);
  // SRTT 137.5 + 4 × (3/4 × 0 + 1/4 × 300)
  assertEquals(sample(400), 1000);
  const [e, low] = estimator({ rtoModel: "rfc6298", minRto: ms(200) });
  assertEquals(low(100), 300);
  for (let i = 0; i < 60; i++) low(100);
  assertEquals(e.rto, ms(200));
  assertAlmostEquals(low(400), 137.5 + 4 * 75, 0.005);
  // Shorter ones weigh as much as longer ones: RTTVAR = 3/4 × 75 + 1/4 × 37.5, SRTT = 7/8 × 137.5 + 1/8 × 100.
  assertAlmostEquals(low(100), 132.8125 + 4 * 65.625, 0.005);
});

Deno.test("rto: fixed: no sample changes it, the back-off does, and a sample takes that away", () => {
  for (const rtoModel of RTO_MODELS) {
    const [e, sample] = estimator({ fixedRto: ms(100), rtoModel });
    assertEquals(e.rto, ms(100));
    for (const rtt of [1, 500, 3000]) assertEquals(sample(rtt), 100);
    e.timedOut();
    e.timedOut();
    assertEquals(e.rto, ms(400));
    assertEquals(sample(50), 100);
    assertEquals(e.minRtt, ms(1));
    e.restartAfterSynLoss();
    assertEquals(e.rto, ms(100));
  }
});

Deno.test("rto: on a connection: fixed at 100 ms everything goes again too soon, by the estimator nothing does (6a)", () => {
  for (const [fixedRto, again] of [[ms(100), true], [0, false]] as const) {
    const s = new Sender({ rtt: 50, segments: 4, tcp: { fixedRto, tailLossProbe: false } });
    s.h.pass(177);
    assertEquals(s.sent().length > 0, again);
    s.ack(4);
    assertEquals(s.t.counters.timeouts > 0, again);
  }
});

Deno.test("rto: on a connection: RFC 6298 with 1 s, and the timeout counts from the latest acknowledgment of new data", () => {
  const s = new Sender({ segments: 4, tcp: { rtoModel: "rfc6298", minRto: SECOND, tailLossProbe: false } });
  s.h.pass(900);
  s.ack(1);
  s.h.pass(900);
  s.ack(2);
  assertEquals(s.sent(), []);
  s.h.pass(999.999 + (s.t.rtt.rto - SECOND) / MILLISECOND);
  assertEquals(s.sent(), []);
  s.h.pass(0.001);
  assertEquals(s.sent(), [2]);
});

Deno.test("rto: acknowledgments of nothing new never put the timer off (RFC 6298 5.3)", () => {
  const s = new Sender({ segments: 10, tcp: { tailLossProbe: false } });
  const { rtoAt } = s.t;
  for (let i = 0; i < 29; i++) {
    s.h.pass(10);
    s.ack(0);
    assertEquals(s.t.rtoAt, rtoAt);
  }
  s.h.until(rtoAt / MILLISECOND);
  assertEquals(s.sent(), [0]);
});

Deno.test("min rtt: what was smallest, forgotten when it is too old for something that came in the window", () => {
  const w = new WindowedMin(100);
  assertEquals(w.value, Infinity);
  for (
    const [now, value, least] of [[0, 10, 10], [50, 20, 10], [100, 15, 10], [101, 30, 15], [200, 40, 15], [201, 50, 40]]
  ) {
    w.add(value!, now!);
    assertEquals(w.value, least);
  }
  w.add(70, 1000);
  assertEquals(w.value, 70);
  w.add(5, 1001);
  assertEquals(w.value, 5);
});

Deno.test("min rtt: property: always a value of the window, never above the latest", () => {
  const value = fc.record({ value: fc.integer({ min: 1, max: 1000 }), after: fc.nat(60) });
  fc.assert(fc.property(fc.array(value, { minLength: 1, maxLength: 200 }), (values) => {
    const w = new WindowedMin(100);
    const all: { at: number; value: number }[] = [];
    let now = 0;
    for (const { value, after } of values) {
      now += after;
      w.add(value, now);
      all.push({ at: now, value });
      assert(all.some((v) => v.value === w.value && now - v.at <= 100), "what counts is too old");
      assert(w.value <= value);
    }
  }));
});

Deno.test("min rtt: an acknowledgment that may have been delayed does not make it larger", () => {
  const s = new Sender({ segments: 2, rtt: 20 });
  s.h.pass(20);
  s.ack(2);
  assertEquals(s.t.rtt.minRtt, ms(20));
  // Six minutes later one small segment is answered after 60 ms: 40 ms of that may be the peer's delay.
  s.h.pass(360_000);
  s.h.write(s.t, 10);
  s.h.flush();
  s.h.all();
  s.h.pass(60);
  s.h.in({ flags: ".", seq: 1, ack: s.nth(2) + 10 });
  assertEquals([s.t.rtt.minRtt, s.t.rtt.latest], [ms(20), ms(60)]);
  // A full one tells.
  s.h.write(s.t, 1000);
  s.h.flush();
  s.h.all();
  s.h.pass(50);
  s.h.in({ flags: ".", seq: 1, ack: s.nth(3) + 10 });
  assertEquals(s.t.rtt.minRtt, ms(50));
});

Deno.test("rtt: an acknowledgment that something sent twice may have drawn gives no sample by what it selectively acknowledges", () => {
  const s = new Sender({ segments: 10, further: 20 });
  s.h.pass(100);
  s.ack(0, [[1, 10]]);
  assertEquals(s.t.rtt.latest, ms(100));
  const news = s.sent().filter((n) => n >= 10);
  assert(news.length > 0);
  // Segment 11 arrived and its report was lost; much later the retransmission fills the hole, and tells of it too.
  s.h.pass(150);
  s.ack(10, [[11, 12]]);
  assertEquals(s.t.rtt.latest, ms(100));
});

Deno.test("rtt: of several segments newly selectively acknowledged the one that departed last counts", () => {
  const s = new Sender({ segments: 4, further: 20 });
  s.t.noDelay = true;
  s.h.pass(60);
  s.ack(0, [[1, 2]]);
  assertEquals(s.t.rtt.latest, ms(60));
  const news = s.sent().filter((n) => n >= 4);
  assert(news.length > 0);
  s.h.pass(70);
  s.ack(0, [[1, 5]]); // the reports of 2 and 3 were lost
  assertEquals(s.t.rtt.latest, ms(70));
});

Deno.test("rtt: what answers something out of order echoes what came in order before it: no sample by timestamps", () => {
  const s = new Sender({ segments: 4, timestamps: true, tcp: { tailLossProbe: false } });
  s.h.until(400);
  assertEquals(s.sent(), [0]);
  const again = s.h.lastTsVal;
  // The head arrived and its acknowledgment was lost. Much later something else is answered, sent twice as well.
  s.h.until(1000);
  s.sent();
  s.h.pass(100);
  s.t.retransmitQueue.setFlags(2, s.t.retransmitQueue.flags(2) | 4);
  const { latest } = s.t.rtt;
  s.ack(1, [[2, 3]], { ts: [s.h.peerTsVal, again] });
  assertEquals([s.t.rtt.latest, s.t.sackedSegments], [latest, 1]);
  // Without anything new out of order the echo counts.
  s.ack(2, [[2, 3]], { ts: [s.h.peerTsVal, again] });
  assertEquals(s.t.rtt.latest, ms(700));
});
