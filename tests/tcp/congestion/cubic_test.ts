import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { type Duration, MILLISECOND, SECOND } from "../../../src/base/time.ts";
import { AckSample, CongestionSignal } from "../../../src/tcp/congestion/control.ts";
import { Cubic } from "../../../src/tcp/congestion/cubic.ts";
import { Reno } from "../../../src/tcp/congestion/reno.ts";
import { LinkModel, settings } from "./link_model.ts";

const MSS = 1000;

/** Drives a control by rounds: a window is acknowledged each round-trip time, a segment at a time. */
class Rounds {
  now = 0;
  readonly sample = new AckSample();

  constructor(readonly control: Cubic, readonly rtt: Duration, readonly mss = MSS) {
    this.sample.isCwndLimited = true;
    this.sample.srtt = rtt;
  }

  get cwnd(): number {
    return this.control.cwnd / this.mss;
  }

  ack(segments: number): void {
    this.sample.now = this.now;
    this.sample.ackedBytes = segments * this.mss;
    this.control.onAck(this.sample);
  }

  round(): void {
    const segments = Math.floor(this.cwnd);
    const begin = this.now;
    for (let i = 1; i <= segments; i++) {
      this.now = Math.round(begin + this.rtt * i / segments);
      this.ack(1);
    }
  }

  until(t: number): void {
    while (this.now < t) this.round();
  }

  congestion(signal: CongestionSignal, flight = this.control.cwnd): void {
    this.sample.priorInFlightBytes = flight;
    this.control.onCongestion(signal, this.sample);
    if (signal === CongestionSignal.Loss) this.control.onRecovered(this.sample);
  }
}

function cubic(initialCwndSegments: number, rtt: Duration): Rounds {
  return new Rounds(new Cubic(settings({ mssBytes: MSS, initialCwndSegments })), rtt);
}

/** RFC 9438 equation 1 after a reduction from wMax to cwnd. */
function curve(t: number, wMax: number, cwnd: number): number {
  return 0.4 * (t - Math.cbrt((wMax - cwnd) / 0.4)) ** 3 + wMax;
}

Deno.test("cubic: from 1,000 to 700 segments, back at 1,000 after 9.086 s, along the curve (vector 13)", () => {
  const rtt = 100 * MILLISECOND; // so long that the Reno-friendly window stays below
  const r = cubic(1000, rtt);
  r.congestion(CongestionSignal.Loss);
  assertEquals([r.control.cwnd, r.control.ssthresh], [700 * MSS, 700 * MSS]);
  assertAlmostEquals(Math.cbrt(300 / 0.4), 9.086, 1e-3);
  for (const t of [0.5, 1, 2, 4, 6, 8, 9.086, 10, 12, 15]) {
    r.until(t * SECOND);
    // The target lies one round-trip time ahead and is reached about one later.
    const expected = curve(r.now / SECOND, 1000, 700);
    assertAlmostEquals(r.cwnd, expected, 0.002 * expected + 0.1, `at ${t} s`);
  }
});

Deno.test("cubic: K of a smaller window: 100 segments are regained after 4.217 s", () => {
  const r = cubic(100, 5 * MILLISECOND);
  r.congestion(CongestionSignal.Loss);
  assertEquals(r.cwnd, 70);
  assertAlmostEquals(Math.cbrt(30 / 0.4), 4.217, 1e-3);
});

Deno.test("cubic: concave below W_max, convex above", () => {
  const r = cubic(1000, 100 * MILLISECOND);
  r.congestion(CongestionSignal.Loss);
  const at: number[] = [];
  for (let t = 1; t <= 18; t++) {
    r.until(t * SECOND);
    at.push(r.cwnd);
  }
  const steps = at.slice(1).map((w, i) => w - at[i]!);
  for (let i = 1; i < steps.length; i++) {
    if (i < 7) assert(steps[i]! < steps[i - 1]!, `second ${i + 2}: growth slows down below W_max`);
    else if (i > 9) assert(steps[i]! > steps[i - 1]!, `second ${i + 2}: growth speeds up above W_max`);
  }
});

Deno.test("cubic: no round trip grows the window by more than half, however far ahead the curve is", () => {
  const r = cubic(1000, 200 * MILLISECOND);
  r.congestion(CongestionSignal.Loss);
  r.until(60 * SECOND);
  r.control.cwnd = 100 * MSS; // far below the curve
  r.control.ssthresh = 100 * MSS;
  for (let i = 0; i < 4; i++) {
    const before = r.cwnd;
    r.round();
    assert(r.cwnd <= 1.5 * before + 1e-9 && r.cwnd > 1.49 * before, `${before} to ${r.cwnd}`);
  }
});

Deno.test("cubic: at a small BDP it grows as Reno with 0.529 segments a round trip, and with 1 once back at cwnd_prior", () => {
  const r = cubic(20, 10 * MILLISECOND);
  r.congestion(CongestionSignal.Loss);
  assertEquals(r.cwnd, 14);
  const rounds = 10;
  for (let i = 0; i < rounds; i++) r.round();
  assertAlmostEquals(r.cwnd, 14 + rounds * 3 * 0.3 / 1.7, 0.3);
  while (r.cwnd < 20) r.round();
  const before = r.cwnd;
  for (let i = 0; i < rounds; i++) r.round();
  assertAlmostEquals(r.cwnd, before + rounds, 0.4);
});

Deno.test("cubic: fast convergence: a loss before the old W_max is reached lowers it by 0.85", () => {
  const rtt = 100 * MILLISECOND;
  const r = cubic(1000, rtt);
  r.congestion(CongestionSignal.Loss);
  r.until(2 * SECOND);
  const prior = r.cwnd;
  assert(prior < 1000);
  r.congestion(CongestionSignal.Loss);
  const begin = r.now;
  const start = r.cwnd;
  assertAlmostEquals(start, 0.7 * prior, 1e-3);
  for (const t of [1, 3, 5, 8]) {
    r.until(begin + t * SECOND);
    const expected = curve((r.now - begin) / SECOND, 0.85 * prior, start);
    assertAlmostEquals(r.cwnd, expected, 0.003 * expected);
  }
  // The next loss comes above the lowered W_max: no further lowering.
  r.until(begin + 14 * SECOND);
  const last = r.cwnd;
  assert(last > 0.85 * prior);
  r.congestion(CongestionSignal.Loss);
  const again = r.now;
  r.until(again + 3 * SECOND);
  assertAlmostEquals(r.cwnd, curve((r.now - again) / SECOND, last, 0.7 * last), 0.003 * last);
});

Deno.test("cubic: a timeout leaves one segment, slow start to 0.7 of FlightSize, then the curve from its flat point", () => {
  const rtt = 20 * MILLISECOND;
  const r = cubic(1000, rtt);
  r.congestion(CongestionSignal.Timeout);
  assertEquals([r.cwnd, r.control.ssthresh], [1, 700 * MSS]);
  while (r.cwnd < 700) r.round();
  const begin = r.now;
  assertAlmostEquals(begin / rtt, 10, 0.5, "doubles each round");
  r.until(begin + 10 * SECOND);
  const expected = 700 + 0.4 * ((r.now - begin) / SECOND) ** 3;
  assertAlmostEquals(r.cwnd, expected, 0.02 * expected);
  r.until(begin + 1 * SECOND);
});

Deno.test("cubic: slow start that ended without loss goes on along the convex branch", () => {
  const r = cubic(500, 200 * MILLISECOND);
  r.control.ssthresh = 500 * MSS;
  r.until(10 * SECOND);
  const expected = 500 + 0.4 * (r.now / SECOND) ** 3;
  assertAlmostEquals(r.cwnd, expected, 0.01 * expected);
});

Deno.test("cubic: ECN leaves 0.7, down to one segment, and ssthresh at two", () => {
  const r = cubic(10, 20 * MILLISECOND);
  r.congestion(CongestionSignal.Ecn);
  assertEquals([r.control.cwnd, r.control.ssthresh], [7000, 7000]);
  for (let i = 0; i < 10; i++) r.congestion(CongestionSignal.Ecn);
  assertEquals([r.control.cwnd, r.control.ssthresh], [MSS, 2 * MSS]);
});

Deno.test("cubic: FlightSize counts, not a window that was not used", () => {
  const r = cubic(1000, 20 * MILLISECOND);
  r.congestion(CongestionSignal.Loss, 300 * MSS);
  assertEquals([r.control.cwnd, r.control.ssthresh], [210 * MSS, 210 * MSS]);
});

Deno.test("cubic: time in which the window holds nothing back does not count", () => {
  const rtt = 20 * MILLISECOND;
  const [steady, paused] = [cubic(1000, rtt), cubic(1000, rtt)];
  for (const r of [steady, paused]) {
    r.congestion(CongestionSignal.Loss);
    r.until(3 * SECOND);
  }
  // Acknowledgments go on, but the application is what limits; then silence; then a new flight.
  paused.sample.isCwndLimited = false;
  for (let i = 0; i < 500; i++) {
    paused.now += rtt;
    paused.ack(5);
  }
  assertEquals(paused.cwnd, steady.cwnd);
  paused.now += 100 * SECOND;
  paused.control.onSent(paused.now, MSS, MSS);
  paused.sample.isCwndLimited = true;
  paused.until(paused.now + 2 * SECOND);
  steady.until(steady.now + 2 * SECOND);
  assertAlmostEquals(paused.cwnd, steady.cwnd, 0.5);
});

Deno.test("cubic: after idleness the window decays to the initial one, and grows from there without a jump", () => {
  const r = cubic(10, 100 * MILLISECOND);
  r.control.cwnd = 1000 * MSS;
  r.congestion(CongestionSignal.Loss);
  r.until(3 * SECOND);
  const before = r.cwnd;
  r.now += 10 * SECOND;
  r.control.onIdle(r.now, 10 * SECOND, 4 * SECOND);
  assertAlmostEquals(r.cwnd, before / 4, 1e-3);
  assert(r.control.ssthresh / MSS >= 0.75 * before - 1);
  r.control.onIdle(r.now, 100 * SECOND, SECOND);
  assertEquals(r.cwnd, 10);
  r.control.onSent(r.now, MSS, MSS);
  while (r.control.cwnd < r.control.ssthresh) r.round();
  const [begin, start] = [r.now, r.cwnd];
  r.until(begin + 3 * SECOND);
  // A new epoch on the way to the old W_max.
  assertAlmostEquals(r.cwnd, curve((r.now - begin) / SECOND, 1000, start), 3);
});

Deno.test("cubic: property: undo restores everything: the window goes on as if nothing had been", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 10, max: 3000 }),
      fc.integer({ min: 1, max: 60 }),
      fc.integer({ min: 0, max: 60 }),
      fc.constantFrom(CongestionSignal.Loss, CongestionSignal.Timeout),
      fc.boolean(),
      (window, first, second, signal, hasLossBefore) => {
        const pair = [0, 1].map(() => cubic(window, 20 * MILLISECOND));
        for (const r of pair) {
          if (hasLossBefore) r.congestion(CongestionSignal.Loss);
          else r.control.ssthresh = window * MSS;
          for (let i = 0; i < first; i++) r.round();
        }
        const [a, b] = [pair[0]!, pair[1]!];
        b.congestion(signal);
        b.control.onSpurious();
        assertEquals([b.control.cwnd, b.control.ssthresh], [a.control.cwnd, a.control.ssthresh]);
        for (let i = 0; i < second; i++) {
          a.round();
          b.round();
          assertEquals(b.control.cwnd, a.control.cwnd);
        }
      },
    ),
    { numRuns: 40 },
  );
});

Deno.test("cubic: property: windows in segments do not depend on the size of a segment", () => {
  fc.assert(
    fc.property(fc.integer({ min: 100, max: 9000 }), fc.integer({ min: 20, max: 800 }), (mss, window) => {
      const make = (size: number) =>
        new Rounds(new Cubic(settings({ mssBytes: size, initialCwndSegments: window })), 20 * MILLISECOND, size);
      const [a, b] = [make(1000), make(mss)];
      for (const r of [a, b]) {
        r.congestion(CongestionSignal.Loss);
        for (let i = 0; i < 30; i++) r.round();
      }
      assertAlmostEquals(a.cwnd, b.cwnd, 0.02 * a.cwnd);
    }),
    { numRuns: 20 },
  );
});

Deno.test("cubic: fills a long fat link that Reno does not, with a short queue", () => {
  const link = { rateBytesPerSec: 12.5e6, rtt: 80 * MILLISECOND, queuePackets: 150 };
  const reached = [Cubic, Reno].map((Control) => {
    const m = new LinkModel(new Control(settings({ slowStartExit: "hystart++" })), link);
    m.run(60 * SECOND);
    return m.delivered / (60 * m.goodput);
  });
  assert(reached[0]! > 0.9, `cubic ${reached[0]}`);
  assert(reached[0]! > reached[1]! + 0.1, `reno ${reached[1]}`);
});

Deno.test("cubic: on a small BDP it is as fast as Reno under random loss", () => {
  const reached = [Cubic, Reno].map((Control) => {
    const link = { rateBytesPerSec: 12.5e6, rtt: 10 * MILLISECOND, queuePackets: 1000, loss: 0.01, seed: 5 };
    const m = new LinkModel(new Control(settings()), link);
    m.run(60 * SECOND);
    return m.delivered;
  });
  const ratio = reached[0]! / reached[1]!;
  assert(ratio > 0.95 && ratio < 1.5, `cubic to reno ${ratio}`);
});
