import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { MILLISECOND, SECOND } from "../../src/base/time.ts";
import { RttEstimator } from "../../src/tcp/rtt.ts";
import { TcpTrace } from "../testing/tcp_trace.ts";

const ms = (n: number) => n * MILLISECOND;

/** A sample, each the last of a round trip. */
let rounds = 0;
function sample(e: RttEstimator, rtt: number): boolean {
  rounds++;
  return e.sample(rtt, rounds * SECOND, 10 * rounds, 10 * rounds + 5);
}

Deno.test("rtt: without a sample the timeout is 1 s, and doubles up to 120 s", () => {
  const e = new RttEstimator();
  const seen: number[] = [];
  for (let i = 0; i < 9; i++) {
    seen.push(e.rto / SECOND);
    e.timedOut();
  }
  assertEquals(seen, [1, 2, 4, 8, 16, 32, 64, 120, 120]);
});

Deno.test("rtt: the first sample of 100 ms makes 300 ms, and steady ones keep the floor of 200 ms above the mean", () => {
  const e = new RttEstimator();
  assert(sample(e, ms(100)));
  assertEquals([e.srtt, e.rttvar, e.rto], [ms(100), ms(50), ms(300)]);
  for (let i = 0; i < 50; i++) sample(e, ms(100));
  assertAlmostEquals(e.rto / ms(1), 300, 1e-3);
  // RFC 6298 section 2.3 on one sample of 400 ms: RTTVAR = 300/4, SRTT = 137.5.
  sample(e, ms(400));
  assertAlmostEquals(e.srtt / ms(1), 137.5, 1e-3);
  assertAlmostEquals(e.rttvar / ms(1), 75, 1e-3);
  assertAlmostEquals(e.rto / ms(1), 437.5, 1e-3);
});

Deno.test("rtt: a sample takes the back-off away, an unusable one does not", () => {
  const e = new RttEstimator();
  sample(e, ms(100));
  e.timedOut();
  e.timedOut();
  assertEquals(e.rto, ms(1200));
  for (const bad of [-1, NaN, Infinity, -Infinity, SECOND * 1e6]) {
    assertEquals(sample(e, bad), false);
    assertEquals([e.rto, e.srtt, e.minRtt], [ms(1200), ms(100), ms(100)]);
  }
  sample(e, ms(100));
  assertEquals(e.rto, ms(100 + 200));
});

Deno.test("rtt: property: the timeout stays between the mean plus the floor and the ceiling", () => {
  fc.assert(fc.property(fc.array(fc.integer({ min: 0, max: 600 * SECOND }), { minLength: 1 }), (samples) => {
    const e = new RttEstimator({ minRto: ms(5), maxRto: 60 * SECOND });
    let least = Infinity;
    for (const s of samples) {
      if (sample(e, s)) least = Math.min(least, s);
      const wanted = e.srtt === 0 ? SECOND : e.srtt + ms(5);
      assert(e.rto >= Math.min(Math.floor(wanted), 60 * SECOND) && e.rto <= 60 * SECOND);
      assertEquals(e.minRtt, least);
    }
  }));
});

for (const ts of [false, true]) {
  const name = ts ? "with timestamps" : "without timestamps";

  Deno.test(`rtt ${name}: the handshake gives the first sample, each acknowledgment of new data a further one`, () => {
    const h = new TcpTrace();
    const t = h.established({ ts }, 100);
    assertEquals([t.info().rtt, t.info().rto], [100, 300]);
    h.write(t, 1000);
    h.all();
    h.pass(180);
    h.in({ flags: ".", seq: 1, ack: 1001 });
    assertAlmostEquals(t.info().rtt, 110, 1e-6);
    assertEquals(t.rtt.latest, ms(180));
  });

  Deno.test(`rtt ${name}: taken from the departure stamp, not from the time of writing; so is the timer`, () => {
    const h = new TcpTrace();
    const t = h.established({ ts }, 100);
    t.departAt = h.now + ms(50);
    h.write(t, 1000);
    h.out({ flags: "P.", at: 150 });
    assertEquals(t.rtoAt, ms(150 + 300));
    h.pass(150);
    h.in({ flags: ".", seq: 1, ack: 1001 });
    assertEquals([t.rtt.latest, t.info().rtt], [ms(100), 100]);
  });

  Deno.test(`rtt ${name}: an acknowledgment before the stamp gives no sample and does no harm`, () => {
    const h = new TcpTrace();
    const t = h.established({ ts }, 100);
    t.departAt = h.now + ms(50);
    h.write(t, 3000);
    h.all();
    h.in({ flags: ".", seq: 1, ack: 1001 });
    assertEquals(t.info().rtt, 100);
    assertEquals(t.tcp.sample.rtt, -1);
    // What is left departs in the future: the timer counts from there.
    assertEquals(t.rtoAt, ms(150 + 300));
  });
}

Deno.test("rtt: Karn: a segment sent twice gives no sample, and the back-off stays until a fresh one", () => {
  const h = new TcpTrace();
  const t = h.established({}, 100);
  h.write(t, 100);
  h.pass(300);
  assertEquals(h.all().length, 2);
  h.pass(100);
  h.in({ flags: ".", seq: 1, ack: 101 });
  assertEquals([t.info().rtt, t.info().rto, t.info().backoff], [100, 600, 1]);
  h.write(t, 100);
  h.pass(599);
  assertEquals(h.all().length, 1);
  h.pass(1);
  assertEquals(h.all().length, 1);
  h.in({ flags: ".", seq: 1, ack: 201 });
  assertEquals(t.info().rto, 1200);
  h.write(t, 100);
  h.pass(100);
  h.in({ flags: ".", seq: 1, ack: 301 });
  assertEquals(t.info().rto, 300);
});

Deno.test("rtt: with timestamps a segment sent twice gives a sample by its echo (RTTM)", () => {
  const h = new TcpTrace();
  const t = h.established({ ts: true }, 100);
  h.write(t, 100);
  h.out({ flags: "P." });
  const first = h.lastTsVal;
  h.pass(300);
  h.out({ flags: "P." });
  h.pass(80);
  h.in({ flags: ".", seq: 1, ack: 101 }); // echoes the second copy
  assertEquals([t.rtt.latest, t.info().backoff], [ms(80), 0]);
  h.write(t, 100);
  h.pass(400);
  assertEquals(h.all().length, 2);
  h.in({ flags: ".", seq: 1, ack: 201, ts: [h.peerTsVal, first + 380] }); // the first copy was only late
  assertEquals(t.rtt.latest, ms(400));
  // An echo from the future, as an attacker may send, gives none.
  h.write(t, 100);
  h.pass(1000);
  h.all();
  const { rtt } = t.info();
  h.in({ flags: ".", seq: 1, ack: 301, ts: [h.peerTsVal, h.lastTsVal + 5000] });
  assertEquals(t.info().rtt, rtt);
});

Deno.test("rtt: an echo within the same tick counts as one tick", () => {
  const h = new TcpTrace();
  const t = h.established({ ts: true }, 100);
  h.write(t, 100);
  h.pass(300);
  h.all();
  h.pass(0.25);
  h.in({ flags: ".", seq: 1, ack: 101 });
  assertEquals(t.rtt.latest, ms(1));
});

Deno.test("rtt: the timer counts from the departure of the copy that was sent again", () => {
  const h = new TcpTrace();
  const t = h.established({}, 100);
  h.write(t, 10_000);
  h.flush();
  for (let i = 0; i < 3; i++) h.in({ flags: ".", seq: 1, ack: 1 });
  t.departAt = h.now + ms(50);
  h.in({ flags: ".", seq: 1, ack: 1 + 1460 });
  assertEquals(t.rtoAt, ms(150) + t.rtt.rto);
});

Deno.test("rtt: an acknowledgment of old and new segments counts from the first that was sent once", () => {
  const h = new TcpTrace();
  const t = h.established({}, 100);
  t.noDelay = true;
  h.write(t, 100);
  h.pass(50);
  h.write(t, 100);
  h.pass(60);
  h.in({ flags: ".", seq: 1, ack: 201 });
  assertEquals(t.rtt.latest, ms(110));
  assertEquals(t.tcp.sample.rtt, ms(60)); // the congestion control hears of the last
});

Deno.test("rtt: a SYN or SYN-ACK sent twice gives a sample only by timestamps", () => {
  for (const ts of [true, false]) {
    const active = new TcpTrace();
    const a = active.connect();
    active.until(1000);
    assertEquals(active.all().length, 2);
    active.pass(70);
    active.in({ flags: "S.", seq: 0, ack: 1, mss: 1460, ts: ts ? [5, active.lastTsVal] : false });
    assertEquals([a.info().rtt, a.info().rto], ts ? [70, 270] : [0, 3000]);

    const passive = new TcpTrace();
    const listener = passive.listen();
    passive.in({ flags: "S", seq: 0, mss: 1460, ts: ts ? [5, 0] : false });
    passive.pass(300);
    passive.in({ flags: "S", seq: 0, mss: 1460, ts: ts ? [305, 0] : false }); // again: the SYN-ACK is sent again
    assertEquals(passive.all().length, 2);
    passive.pass(40);
    passive.in({ flags: ".", seq: 1, ack: 1, ts: ts ? [345, passive.lastTsVal] : false });
    const p = listener.accept()!;
    assertEquals([p.info().rtt, p.info().rto], ts ? [40, 240] : [0, 1000]);
    passive.write(p, 100_000);
    assertEquals(passive.all().length, 10, "a SYN that came twice is no loss");
  }
});

Deno.test("rtt: after a SYN that had to be repeated the initial window is one segment (RFC 5681 3.1)", () => {
  const h = new TcpTrace();
  const t = h.connect();
  h.until(1000);
  h.all();
  h.in({ flags: "S.", seq: 0, ack: 1, mss: 1460 });
  h.out({ flags: "." });
  h.write(t, 10_000);
  assertEquals(h.all().length, 1);
  assertEquals(t.congestion.ssthresh, Infinity);
});
