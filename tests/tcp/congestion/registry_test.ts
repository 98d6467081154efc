import { assert, assertEquals, assertThrows } from "@std/assert";
import * as fc from "fast-check";
import { Rng } from "../../../src/base/rng.ts";
import { MILLISECOND, SECOND } from "../../../src/base/time.ts";
import { AckSample, CongestionSignal, LossSample, MAX_CWND } from "../../../src/tcp/congestion/control.ts";
import { CONGESTION_CONTROLS, makeCongestionControl, SLOW_START_EXITS } from "../../../src/tcp/congestion/registry.ts";
import { LinkModel, settings } from "./link_model.ts";

Deno.test("congestion: controls and exits by name", () => {
  assertEquals(CONGESTION_CONTROLS, ["none", "reno", "cubic", "bbr"]);
  assertEquals(SLOW_START_EXITS, ["off", "hystart++", "hystart-2008", "hystart-2011", "hystart-linux"]);
  for (const name of CONGESTION_CONTROLS) {
    for (const slowStartExit of SLOW_START_EXITS) {
      assertEquals(makeCongestionControl(name, settings({ slowStartExit })).name, name);
    }
  }
  assert(makeCongestionControl("none", settings()).cwnd > 1e9);
  assertThrows(() => makeCongestionControl("vegas", settings()), TypeError, "none, reno, cubic, bbr");
  assertThrows(
    () => makeCongestionControl("cubic", settings({ slowStartExit: "hystart-2009" })),
    TypeError,
    '"hystart-2009": expected one of off, hystart++',
  );
});

const event = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("ack" as const),
      acked: fc.nat(100_000),
      delivered: fc.nat(100_000),
      lost: fc.oneof(fc.constant(0), fc.nat(20_000)),
      rtt: fc.oneof(fc.constant(-1), fc.integer({ min: 1, max: 3 * SECOND })),
      limited: fc.boolean(),
      hasSample: fc.boolean(),
      rate: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 1e10 })),
      appLimited: fc.boolean(),
      gap: fc.nat(SECOND),
      paced: fc.boolean(),
    }),
  },
  fc.record({
    kind: fc.constant("congestion" as const),
    signal: fc.constantFrom(
      CongestionSignal.Loss,
      CongestionSignal.Timeout,
      CongestionSignal.TimeoutAgain,
      CongestionSignal.Ecn,
    ),
    flight: fc.nat(1_000_000),
  }),
  fc.record({ kind: fc.constant("lost" as const), bytes: fc.integer({ min: 1, max: 9000 }), flight: fc.nat(1e6) }),
  fc.record({ kind: fc.constant("recovered" as const), flight: fc.nat(1_000_000) }),
  fc.record({ kind: fc.constant("spurious" as const) }),
  fc.record({ kind: fc.constant("sent" as const), bytes: fc.integer({ min: 1, max: 9000 }), first: fc.boolean() }),
  fc.record({ kind: fc.constant("idle" as const), idle: fc.nat(100 * SECOND) }),
  fc.record({ kind: fc.constant("mss" as const), mss: fc.integer({ min: 16, max: 9000 }) }),
);

for (const name of CONGESTION_CONTROLS) {
  Deno.test(`${name}: property: windows and rates stay in bounds whatever happens`, () => {
    const exit = fc.constantFrom(...SLOW_START_EXITS);
    const growth = fc.constantFrom("bytes" as const, "acks" as const);
    fc.assert(fc.property(fc.integer({ min: 16, max: 9000 }), exit, growth, fc.array(event), fc.nat(), (...args) => {
      const [mssBytes, slowStartExit, slowStartGrowth, events, seed] = args;
      const rng = new Rng(seed);
      const c = makeCongestionControl(name, settings({ mssBytes, slowStartExit, slowStartGrowth, rng }));
      const s = new AckSample();
      const l = new LossSample();
      let mss = mssBytes;
      s.sndNxt = 1_000_000;
      for (const e of events) {
        const before = c.cwnd;
        switch (e.kind) {
          case "ack":
            s.now += e.gap;
            s.ackedBytes = e.acked;
            s.deliveredBytes = e.delivered;
            s.lostBytes = e.lost;
            s.rtt = e.rtt;
            if (e.rtt > 0) s.srtt = s.srtt === 0 ? e.rtt : s.srtt * 7 / 8 + e.rtt / 8;
            s.isCwndLimited = e.limited;
            s.priorDeliveredBytes = e.hasSample ? s.totalDeliveredBytes : -1;
            s.totalDeliveredBytes += e.delivered;
            s.deliveryRateBytesPerSec = e.hasSample ? e.rate : 0;
            s.txInFlightBytes = e.acked;
            s.sampleLostBytes = e.lost;
            s.isAppLimited = e.appLimited;
            s.pacingRateBytesPerSec = e.paced ? 1e6 : Infinity;
            s.sndUna = (s.sndUna + e.acked) | 0;
            s.sndNxt = (s.sndNxt + e.acked) | 0;
            c.onAck(s);
            if (name === "reno" || name === "cubic") {
              assert(c.cwnd >= before, "an acknowledgment shrank the window");
              assert(c.cwnd <= before + e.acked + mss, "grew by more than was acknowledged");
              if (!e.limited) assertEquals(c.cwnd, before);
              // At most half in congestion avoidance, apart from the segment that Reno adds.
              if (before >= c.ssthresh && name === "cubic") assert(c.cwnd <= before + e.acked / 2 + mss);
            }
            break;
          case "lost":
            l.now = s.now;
            l.bytes = e.bytes;
            l.seq = (l.seq + e.bytes) | 0;
            l.txInFlightBytes = e.flight + e.bytes;
            l.lostSinceSentBytes = e.bytes + e.flight / 50;
            l.totalDeliveredBytes = s.totalDeliveredBytes;
            l.hasSack = e.flight % 2 === 0;
            c.onLost(l);
            break;
          case "congestion":
            s.priorInFlightBytes = e.flight;
            s.inFlightBytes = Math.floor(e.flight / 2);
            c.onCongestion(e.signal, s);
            break;
          case "recovered":
            s.inFlightBytes = e.flight;
            c.onRecovered(s);
            break;
          case "spurious":
            c.onSpurious();
            assert(c.cwnd >= before || name === "bbr", "an undo shrank the window");
            break;
          case "sent":
            c.onSent(s.now, e.bytes, e.first ? e.bytes : e.bytes + 5000);
            break;
          case "idle":
            c.onIdle(s.now, e.idle, SECOND);
            assert(c.cwnd <= before);
            break;
          case "mss":
            c.onMss(e.mss);
            if (name !== "none") mss = e.mss;
        }
        const what = `after ${e.kind}`;
        assert(Number.isInteger(c.cwnd) && c.cwnd >= mss && c.cwnd <= 2 * MAX_CWND, `cwnd ${c.cwnd} ${what}`);
        assert(c.ssthresh >= 2 * mss, `ssthresh ${c.ssthresh} ${what}`);
        assert(c.ssthresh === Infinity || Number.isInteger(c.ssthresh), `ssthresh ${c.ssthresh} ${what}`);
        assert(c.pacingRateBytesPerSec >= 0 && Number.isFinite(c.pacingRateBytesPerSec), what);
        if (name === "bbr") assert(c.pacingRateBytesPerSec > 0, what);
      }
    }));
  });
}

Deno.test("congestion: each control keeps a 100 Mbit/s, 40 ms link busy and lives with loss, reproducibly", () => {
  const run = (name: string, loss: number, seed: number) => {
    const control = makeCongestionControl(name, settings({ slowStartExit: "hystart++", rng: new Rng(seed) }));
    const link = { rateBytesPerSec: 12.5e6, rtt: 40 * MILLISECOND, queuePackets: 400, paced: true, loss, seed };
    const m = new LinkModel(control, link);
    m.run(10 * SECOND);
    return m;
  };
  for (const name of ["reno", "cubic", "bbr"]) {
    const clean = run(name, 0, 1);
    const used = clean.delivered / (10 * clean.goodput);
    assert(used > 0.85, `${name} uses ${used}`);
    assert(clean.lostSegments / clean.sentSegments < 0.02, `${name} loses ${clean.lostSegments}`);
    const lossy = run(name, 0.01, 2);
    assert(lossy.delivered > 10 * 1448 * 100, `${name} stalls at 1 % loss`);
    assertEquals(run(name, 0.01, 2).delivered, lossy.delivered);
    assert(run(name, 0.01, 3).delivered !== lossy.delivered);
  }
});
