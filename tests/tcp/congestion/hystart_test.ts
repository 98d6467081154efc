import { assert, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { Rng } from "../../../src/base/rng.ts";
import { type Duration, type Instant, MILLISECOND, SECOND } from "../../../src/base/time.ts";
import { AckSample, type CongestionControl, CongestionSignal } from "../../../src/tcp/congestion/control.ts";
import { makeCongestionControl } from "../../../src/tcp/congestion/registry.ts";
import type { SlowStartExit } from "../../../src/tcp/congestion/slow_start_exit.ts";
import { makeSlowStartExit, SLOW_START_EXITS } from "../../../src/tcp/congestion/slow_start_exits.ts";
import { LinkModel, type ModelOptions, settings } from "./link_model.ts";

const MSS = 1448;

/** Acknowledgments one by one, of a segment each, with so many segments in flight after each as `flight` says. */
class Feed {
  readonly sample = new AckSample();
  now: Instant = SECOND;
  /** With 0, each acknowledgment is a round of the older exits of its own. */
  flight = 0;
  #seq: number;

  constructor(readonly exit: SlowStartExit, start = 1000) {
    this.#seq = start;
    this.sample.isCwndLimited = true;
  }

  /** A segment is acknowledged `gap` after the last with the given round-trip time. */
  ack(rtt: Duration, gap: Duration = 3 * MILLISECOND, cwndSegments = 100, isFirst = true): boolean {
    this.now += gap;
    this.#seq = (this.#seq + MSS) | 0;
    const s = this.sample;
    s.now = this.now;
    s.rtt = rtt;
    s.srtt = rtt;
    s.ackedBytes = MSS;
    s.sndUna = this.#seq;
    s.sndNxt = (this.#seq + this.flight * MSS) | 0;
    return this.exit.onAck(s, cwndSegments * MSS, MSS, isFirst);
  }

  /** Acknowledges a flight: a whole round of HyStart++ once the first segment is acknowledged. */
  round(rtt: Duration): boolean {
    let ended = false;
    for (let i = 0; i < this.flight; i++) ended = this.ack(rtt) || ended;
    return ended;
  }
}

/** HyStart++ with rounds of `flight` acknowledgments; the next one begins a round, after one of round-trip time `rtt`. */
function plusPlus(rtt: Duration, flight = 20): Feed {
  const f = new Feed(makeSlowStartExit("hystart++"));
  f.flight = flight;
  f.ack(rtt);
  f.round(rtt);
  return f;
}

// Vector 14.
for (const [delayMin, limit] of [[11.3, 15.3], [40, 45], [200, 216]] as const) {
  Deno.test(`hystart-linux: delay_min ${delayMin} ms: the ninth sample of a round ends slow start above ${limit} ms`, () => {
    for (const [rtt, ends] of [[limit - 0.001, false], [limit, false], [limit + 0.001, true]] as const) {
      const f = new Feed(makeSlowStartExit("hystart-linux"));
      f.ack(delayMin * MILLISECOND);
      f.flight = 100;
      f.ack(Math.round(rtt * MILLISECOND), 200 * MILLISECOND); // begins the round: its first sample
      for (let i = 2; i <= 8; i++) assertEquals(f.ack(Math.round(rtt * MILLISECOND)), false, `sample ${i}`);
      assertEquals(f.ack(Math.round(rtt * MILLISECOND)), ends, `${rtt} ms`);
      if (ends) assertEquals(f.exit.why, "slow start ends: hystart-linux, delay");
    }
  });
}

for (const name of ["hystart-linux", "hystart-2008", "hystart-2011"]) {
  Deno.test(`${name}: nothing ends below 16 segments, nothing twice, and a timeout forgets`, () => {
    const f = new Feed(makeSlowStartExit(name));
    const rise = (cwndSegments: number, rtt = 500 * MILLISECOND, isFirst = true) => {
      f.flight = 0;
      f.ack(20 * MILLISECOND, 20 * MILLISECOND, 10, isFirst);
      f.flight = 1000;
      let ends = 0;
      for (let i = 0; i < 60; i++) if (f.ack(rtt, 3 * MILLISECOND, cwndSegments, isFirst)) ends++;
      return ends;
    };
    assertEquals(rise(15), 0);
    assertEquals(rise(16), 1);
    assertEquals(rise(16, 900 * MILLISECOND), 0);
    f.exit.onCongestion(CongestionSignal.Loss);
    assertEquals(rise(100), 0);
    f.exit.onCongestion(CongestionSignal.Timeout);
    assertEquals(rise(16, 500 * MILLISECOND, false), 1);
  });
}

Deno.test("hystart-linux: an ACK train longer than half of delay_min and half the allowance; all of both if paced", () => {
  for (const [paced, limit] of [[false, 6.15], [true, 12.3]] as const) {
    const f = new Feed(makeSlowStartExit("hystart-linux"));
    f.sample.pacingRateBytesPerSec = paced ? 1e6 : Infinity;
    f.ack(11.3 * MILLISECOND);
    f.flight = 100_000;
    f.ack(11.3 * MILLISECOND, 20 * MILLISECOND);
    const begin = f.now;
    let at = 0;
    while (at === 0) if (f.ack(11.3 * MILLISECOND, 0.05 * MILLISECOND)) at = (f.now - begin) / MILLISECOND;
    assert(at > limit && at < limit + 0.1, `ends after ${at} ms`);
    assertEquals(f.exit.why, "slow start ends: hystart-linux, ack train");
  }
});

Deno.test("hystart-linux: acknowledgments further apart than 2 ms are no train", () => {
  const f = new Feed(makeSlowStartExit("hystart-linux"));
  f.ack(20 * MILLISECOND);
  f.flight = 100_000;
  for (let i = 0; i < 1000; i++) assertEquals(f.ack(20 * MILLISECOND, 2.01 * MILLISECOND), false);
});

Deno.test("hystart-2008: one tick of 4 ms within a flight ends slow start at 11.3 ms; the patch waits for four", () => {
  for (const [name, ticks] of [["hystart-2008", 1], ["hystart-2011", 4]] as const) {
    const f = new Feed(makeSlowStartExit(name));
    // Many phases of the clock, so that two ticks are seen as the smallest round-trip time.
    for (let i = 0; i < 200; i++) f.ack(11.3 * MILLISECOND, 3 * MILLISECOND, 10);
    f.flight = 100_000;
    f.now += 20 * MILLISECOND - f.now % (4 * MILLISECOND); // a tick has just begun
    f.ack(11.3 * MILLISECOND, 0.1 * MILLISECOND);
    const begin = f.now;
    let at = 0;
    while (at === 0) if (f.ack(11.3 * MILLISECOND, 0.1 * MILLISECOND)) at = (f.now - begin) / MILLISECOND;
    assert(Math.abs(at - (ticks * 4 - 0.1)) < 0.15, `${name} ends after ${at} ms`);
    assertEquals(f.exit.why, `slow start ends: ${name}, ack train`);
  }
});

Deno.test("hystart-2008: the delay rule is coarse: two ticks above delay_min; the patch: twice delay_min", () => {
  const ends = (name: string, ticks: number) => {
    const f = new Feed(makeSlowStartExit(name));
    for (let i = 0; i < 30; i++) f.ack(24 * MILLISECOND, 12 * MILLISECOND);
    f.flight = 100;
    let ended = false;
    // Twelve ms apart: no train; whole ticks, so that delays are exact.
    for (let i = 0; i < 12; i++) ended = f.ack(ticks * 4 * MILLISECOND, 12 * MILLISECOND) || ended;
    return ended;
  };
  assertEquals([6, 7, 8, 9, 12, 13].map((ticks) => ends("hystart-2008", ticks)), [
    false,
    false,
    false,
    true,
    true,
    true,
  ]);
  assertEquals([6, 9, 12, 13].map((ticks) => ends("hystart-2011", ticks)), [false, false, false, true]);
});

Deno.test("hystart++: a round 4 to 16 ms above the last, by eight samples, leads to a quarter of the growth, then the end", () => {
  for (const [last, thresh] of [[10, 4], [80, 10], [400, 16]] as const) {
    const f = plusPlus(last * MILLISECOND);
    const grow = () => f.exit.growth(4 * MSS, f.sample, MSS);
    const high = (last + thresh) * MILLISECOND;
    f.round(high - 1); // not yet
    assertEquals(grow(), 4 * MSS);
    f.round(last * MILLISECOND);
    for (let i = 1; i <= 7; i++) f.ack(high);
    assertEquals([grow(), f.exit.why], [4 * MSS, ""]);
    f.ack(high);
    assertEquals([grow(), f.exit.why], [MSS, "conservative slow start: hystart++"]);
    for (let i = 9; i <= 20; i++) f.ack(high);
    // Five rounds, the one in which it began counts.
    let rounds = 2;
    while (!f.round(high)) rounds++;
    assertEquals([rounds, f.exit.why], [5, "slow start ends: hystart++"]);
  }
});

Deno.test("hystart++: a lower round-trip time in conservative slow start shows that it was jitter", () => {
  const f = plusPlus(20 * MILLISECOND);
  f.round(30 * MILLISECOND);
  assertEquals(f.exit.growth(4 * MSS, f.sample, MSS), MSS);
  for (let i = 0; i < 7; i++) f.ack(20 * MILLISECOND); // too few samples to say so
  assertEquals(f.exit.growth(4 * MSS, f.sample, MSS), MSS);
  f.ack(40 * MILLISECOND); // the eighth: the smallest counts
  assertEquals([f.exit.growth(4 * MSS, f.sample, MSS), f.exit.why], [4 * MSS, "slow start resumes: hystart++"]);
});

Deno.test("hystart++: at most eight segments an acknowledgment unless paced; a quarter of odd bytes is not lost", () => {
  const f = plusPlus(20 * MILLISECOND);
  assertEquals(f.exit.growth(20 * MSS, f.sample, MSS), 8 * MSS);
  f.sample.pacingRateBytesPerSec = 1e6;
  assertEquals(f.exit.growth(20 * MSS, f.sample, MSS), 20 * MSS);
  f.round(30 * MILLISECOND);
  let sum = 0;
  for (let i = 0; i < 400; i++) sum += f.exit.growth(3, f.sample, MSS);
  assertEquals(sum, 300);
});

Deno.test("hystart++: only the first slow start is watched", () => {
  const f = plusPlus(20 * MILLISECOND);
  for (let i = 0; i < 40; i++) f.ack(90 * MILLISECOND, 3 * MILLISECOND, 100, false);
  assertEquals([f.exit.growth(20 * MSS, f.sample, MSS), f.exit.why], [20 * MSS, ""]);
});

Deno.test("hystart: property: sequence numbers may wrap", () => {
  fc.assert(fc.property(fc.constantFrom(...SLOW_START_EXITS), fc.integer(), (name, start) => {
    const feeds = [1000, start].map((s) => new Feed(makeSlowStartExit(name), s | 0));
    const results = feeds.map((f) => {
      const ended: number[] = [];
      f.flight = 30;
      for (let round = 0; round < 12; round++) {
        if (f.round((20 + 6 * Math.max(0, round - 3)) * MILLISECOND)) ended.push(round);
      }
      assertEquals(ended.length, name === "off" ? 0 : 1);
      return ended;
    });
    assertEquals(results[1], results[0]);
  }));
});

/** Window at the end of the first slow start in segments, or at the first overflow if it ends by that. */
function firstExit(
  name: string,
  paced: boolean,
  seed: number,
  change: Partial<ModelOptions> = {},
  until = SECOND,
) {
  const slowStartGrowth = name.includes("-20") ? "acks" : "bytes";
  const control = makeCongestionControl(
    "cubic",
    settings({ slowStartExit: name, slowStartGrowth, rng: new Rng(seed) }),
  );
  const link = {
    rateBytesPerSec: 125e6,
    rtt: 11.3 * MILLISECOND,
    queuePackets: 1225,
    ackNoise: MILLISECOND,
    paced,
    seed,
  };
  const m = new LinkModel(control, { ...link, ...change });
  let cwnd = 0;
  let byLoss = false;
  m.onAck = () => {
    if (cwnd !== 0 || control.ssthresh === Infinity) return;
    byLoss = control.why === "loss";
    cwnd = byLoss ? m.firstDropCwnd : m.cwnd;
  };
  m.run(until);
  return { cwnd, byLoss, lossShare: m.lostSegments / m.sentSegments, bdp: m.bdp };
}

Deno.test("hystart: 1 Gbit/s, 11.3 ms, a queue of 1,225, ACK noise up to 1 ms: where each exit lies", () => {
  const seeds = [1, 2, 3, 4, 5];
  const median = (name: string) => seeds.map((seed) => firstExit(name, false, seed).cwnd).sort((x, y) => x - y)[2]!;
  const y2008 = seeds.map((seed) => firstExit("hystart-2008", false, seed).cwnd);
  assert(y2008.every((w) => w >= 16 && w < 100), `2008: ${y2008}`);
  const y2011 = median("hystart-2011");
  assert(y2011 >= 1700 && y2011 <= 2200, `2011: ${y2011}`);
  const linux = median("hystart-linux");
  assert(linux > 480 && linux < 1200, `linux: ${linux}`);
  for (const seed of seeds) {
    const plus = firstExit("hystart++", false, seed);
    assert(plus.cwnd > 0.5 * plus.bdp, `hystart++: ${plus.cwnd}`);
  }
  const off = firstExit("off", false, 1);
  assert(off.byLoss && off.cwnd > 2150 && off.cwnd < 2300, `off: ${off.cwnd}`);
});

Deno.test("hystart++: jitter of 20 ms may slow slow start down for part of a round, but never ends it", () => {
  for (let seed = 1; seed <= 5; seed++) {
    const rng = new Rng(seed);
    const f = plusPlus(50 * MILLISECOND, 40);
    let slowed = 0;
    for (let i = 0; i < 200 * 40; i++) {
      assertEquals(f.ack(50 * MILLISECOND + rng.below(20 * MILLISECOND)), false);
      if (f.exit.growth(4 * MSS, f.sample, MSS) < 4 * MSS) slowed++;
    }
    assert(slowed > 0 && slowed < 200 * 40 / 10, `slowed for ${slowed} acknowledgments`);
  }
});

Deno.test("hystart++: noise does not end slow start before a queue does, and a queue ends it without loss", () => {
  const rtt = 50 * MILLISECOND;
  for (let seed = 1; seed <= 5; seed++) {
    const noisy = firstExit("hystart++", true, seed, { rtt, ackNoise: 4 * MILLISECOND, queuePackets: 20_000 });
    assert(noisy.cwnd === 0 || noisy.cwnd > noisy.bdp, `left at ${noisy.cwnd} of ${noisy.bdp}`);
    const queue = { rateBytesPerSec: 2.5e6, rtt, ackNoise: 0, queuePackets: 5000 };
    const exit = firstExit("hystart++", true, seed, queue, 5 * SECOND);
    assert(!exit.byLoss && exit.cwnd > exit.bdp && exit.cwnd < 20 * exit.bdp, `left at ${exit.cwnd} of ${exit.bdp}`);
    assertEquals(exit.lossShare, 0);
  }
});

Deno.test("hystart: a control says by a constant why its slow start ended", () => {
  const control: CongestionControl = makeCongestionControl("reno", settings({ slowStartExit: "hystart-linux" }));
  const m = new LinkModel(control, { rateBytesPerSec: 12.5e6, rtt: 20 * MILLISECOND, queuePackets: 1000 });
  m.run(SECOND);
  assert(control.ssthresh < Infinity);
  assert(/^slow start ends: hystart-linux, (delay|ack train)$/.test(control.why), control.why);
  assertEquals(m.lostSegments, 0);
});
