import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { Rng } from "../../../src/base/rng.ts";
import { type Instant, MILLISECOND, NEVER, SECOND } from "../../../src/base/time.ts";
import { Bbr } from "../../../src/tcp/congestion/bbr.ts";
import { BbrState } from "../../../src/tcp/congestion/bbr_states.ts";
import { AckSample, CongestionSignal, LossSample } from "../../../src/tcp/congestion/control.ts";
import { LinkModel, type ModelOptions, settings } from "./link_model.ts";

const LINK: ModelOptions = { rateBytesPerSec: 12.5e6, rtt: 40 * MILLISECOND, queuePackets: 1000 };

/** A flow under BBR and what it did. */
class Run {
  readonly bbr: Bbr;
  readonly model: LinkModel;
  /** Changes of state: when, to which, and the bytes in flight then. */
  readonly changes: { at: Instant; state: BbrState; inFlight: number }[] = [];
  #last: BbrState = BbrState.Startup;

  constructor(link: Partial<ModelOptions> = {}, seed = 1) {
    this.bbr = new Bbr(settings({ rng: new Rng(seed) }));
    this.model = new LinkModel(this.bbr, { ...LINK, ...link, seed });
    this.model.onAck = () => this.look();
  }

  look(): void {
    if (this.bbr.state === this.#last) return;
    this.#last = this.bbr.state;
    this.changes.push({ at: this.model.now, state: this.#last, inFlight: this.model.inFlight });
  }

  entered(state: BbrState): Instant[] {
    return this.changes.filter((c) => c.state === state).map((c) => c.at);
  }

  /** Runs on until the state is entered. */
  until(state: BbrState, limit: Instant = 60 * SECOND): void {
    while (this.bbr.state !== state && this.model.now < limit) this.model.run(this.model.now + MILLISECOND);
    assertEquals(this.bbr.state, state);
  }

  /** Share of the link used from now on for `time`. */
  share(time: number): number {
    const before = this.model.delivered;
    this.model.run(this.model.now + time * SECOND);
    return (this.model.delivered - before) / (time * this.model.goodput);
  }
}

for (const [mbit, rttMs] of [[1, 10], [10, 20], [100, 40], [1000, 12], [20, 200]] as const) {
  Deno.test(`bbr: ${mbit} Mbit/s, ${rttMs} ms: finds the rate within 2 %, drains its queue, uses the link, loses nothing`, () => {
    const r = new Run({ rateBytesPerSec: mbit * 125_000, rtt: rttMs * MILLISECOND, queuePackets: 3000 });
    r.until(BbrState.Cruise, 30 * SECOND);
    assertAlmostEquals(r.bbr.maxBwBytesPerSec / r.model.goodput, 1, 0.02);
    assertEquals(r.changes.slice(0, 2).map((c) => c.state).includes(BbrState.Drain), true);
    const begin = r.model.now;
    let worst = 0;
    let sum = 0;
    let samples = 0;
    while (r.model.now < begin + 4 * SECOND) {
      r.model.run(r.model.now + 10 * MILLISECOND);
      if (r.bbr.state !== BbrState.Cruise) continue;
      worst = Math.max(worst, r.model.queueLength);
      sum += r.model.queueLength;
      samples++;
    }
    assert(samples > 0);
    const queue = sum / samples;
    // Three send quanta and delayed acknowledgments stay in flight on the smallest paths.
    assert(queue < Math.max(8, 0.15 * r.model.bdp), `average queue while cruising ${queue} of ${r.model.bdp}`);
    const used = r.share(8);
    assert(used > 0.93, `uses ${used}`);
    assertEquals(r.model.lostSegments, 0);
  });
}

Deno.test("bbr: Startup doubles the rate each round and ends after three rounds without growth by a quarter", () => {
  const r = new Run();
  r.until(BbrState.Drain);
  const [startupEnd] = r.entered(BbrState.Drain);
  // From 10 segments to the BDP of 325: five doublings, then the estimator's rounds, whose queue makes them longer.
  assert(startupEnd! > 8 * LINK.rtt && startupEnd! < 18 * LINK.rtt, `left after ${startupEnd! / LINK.rtt} round trips`);
  assertEquals(r.bbr.why, "bbr: drain");
  assertAlmostEquals(r.bbr.pacingRateBytesPerSec / (0.5 * 0.99 * r.bbr.maxBwBytesPerSec), 1, 1e-9);
  r.until(BbrState.Cruise, startupEnd! + 5 * LINK.rtt);
  assert(r.model.inFlight / r.model.mss < 1.1 * r.model.bdp);
});

Deno.test("bbr: gains of the states", () => {
  const r = new Run();
  const seen = new Map<BbrState, number>();
  r.model.onAck = () => {
    r.look();
    if (r.bbr.state === BbrState.Startup || r.model.now < SECOND) return;
    seen.set(r.bbr.state, r.bbr.pacingRateBytesPerSec / r.bbr.maxBwBytesPerSec);
  };
  r.model.run(12 * SECOND);
  const gains = [[BbrState.Down, 0.9], [BbrState.Cruise, 1], [BbrState.Refill, 1], [BbrState.Up, 1.25]] as const;
  for (const [state, gain] of gains) assertAlmostEquals(seen.get(state)!, gain * 0.99, 1e-9, BbrState[state]);
});

Deno.test("bbr: cruises for 2 to 3 s on a long path, some 60 round trips on a short one, differently by seed", () => {
  const waits = (rtt: number, seed: number) => {
    const r = new Run({ rtt }, seed);
    r.model.run(5 * SECOND);
    const refill = r.entered(BbrState.Refill)[0]!;
    return refill - r.entered(BbrState.Down).concat(r.entered(BbrState.Cruise)).sort((a, b) => a - b)[0]!;
  };
  const long = [1, 2, 3, 4, 5].map((seed) => waits(100 * MILLISECOND, seed));
  for (const wait of long) assert(wait > 1.9 * SECOND && wait < 3.2 * SECOND, `${wait}`);
  assertEquals(new Set(long).size, 5);
  const short = waits(20 * MILLISECOND, 1);
  assert(short > 55 * 20 * MILLISECOND && short < 75 * 20 * MILLISECOND, `${short}`);
});

Deno.test("bbr: ProbeRTT about every 5 s for 200 ms and a round, with half a BDP in flight, then back to Cruise", () => {
  const r = new Run();
  r.model.run(31 * SECOND);
  const probes = r.changes.map((c, i) => ({ ...c, next: r.changes[i + 1] })).filter((c) =>
    c.state === BbrState.ProbeRtt
  );
  assert(probes.length >= 5 && probes.length <= 6, `${probes.length} probes in 31 s`);
  for (let i = 0; i < probes.length; i++) {
    const { at, next } = probes[i]!;
    if (i > 0) {
      const gap = (at - probes[i - 1]!.at) / SECOND;
      assert(gap > 4.9 && gap < 5.6, `${gap} s apart`);
    }
    const time = (next!.at - at) / MILLISECOND;
    assert(time >= 200 && time < 200 + 3 * 40, `lasts ${time} ms`);
    assertEquals(next!.state, BbrState.Cruise);
    assertAlmostEquals(next!.inFlight / r.model.mss / (0.5 * r.model.bdp), 1, 0.1);
  }
  assertAlmostEquals(r.bbr.minRtt / LINK.rtt, 1, 0.01);
  assertAlmostEquals(r.bbr.maxBwBytesPerSec / r.model.goodput, 1, 0.02, "the low rate of ProbeRTT does not count");
});

Deno.test("bbr: a pause longer than 5 s stands in for ProbeRTT", () => {
  const r = new Run({ pause: [3 * SECOND, 9 * SECOND] });
  r.model.run(12 * SECOND);
  assertEquals(r.entered(BbrState.ProbeRtt), []);
  assertAlmostEquals(r.bbr.maxBwBytesPerSec / r.model.goodput, 1, 0.02);
});

Deno.test("bbr: leaves Startup by heavy loss before the plateau is certain, with a volume in flight that is safe", () => {
  const r = new Run({ queuePackets: 20 });
  r.until(BbrState.Drain);
  const byLoss = r.entered(BbrState.Drain)[0]!;
  assert(Number.isFinite(r.bbr.inflightLongtermBytes));
  const volume = r.bbr.inflightLongtermBytes / r.model.mss;
  assert(volume > 0.9 * r.model.bdp && volume < 1.4 * (r.model.bdp + 20), `${volume} of ${r.model.bdp}`);
  const large = new Run();
  large.until(BbrState.Drain);
  assert(byLoss < large.entered(BbrState.Drain)[0]!, "no sooner than by the plateau");
});

Deno.test("bbr: without SACK the first loss ends Startup", () => {
  const r = new Run({ queuePackets: 20, hasSack: false });
  r.until(BbrState.Drain);
  assert(r.model.firstDropAt < NEVER);
  assert(r.entered(BbrState.Drain)[0]! < r.model.firstDropAt + 4 * LINK.rtt);
});

Deno.test("bbr: a shallow queue: little loss, much of the link, and the volume that fits is learned", () => {
  const r = new Run({ queuePackets: 50 });
  r.model.run(5 * SECOND);
  const [sent, lost] = [r.model.sentSegments, r.model.lostSegments];
  const used = r.share(20);
  const share = (r.model.lostSegments - lost) / (r.model.sentSegments - sent);
  assert(used > 0.85, `uses ${used}`);
  assert(share < 0.01, `loses ${share}`);
  const volume = r.bbr.inflightLongtermBytes / r.model.mss;
  assert(volume < 1.3 * (r.model.bdp + 50), `${volume}`);
});

Deno.test("bbr: 1 % random loss hardly matters", () => {
  const r = new Run({ loss: 0.01 });
  r.model.run(2 * SECOND);
  const used = r.share(30);
  assert(used > 0.7, `uses ${used}`);
  assertEquals(r.model.timeouts, 0);
});

Deno.test("bbr: ten times the rate is found within seconds, a tenth of it within two cycles", () => {
  const r = new Run({ rateBytesPerSec: 1.25e6, queuePackets: 100 });
  r.model.run(6 * SECOND);
  r.model.rateBytesPerSec = 12.5e6;
  r.model.run(16 * SECOND);
  assertAlmostEquals(r.bbr.maxBwBytesPerSec / r.model.goodput, 1, 0.05);
  r.model.rateBytesPerSec = 1.25e6;
  r.model.run(30 * SECOND);
  assertAlmostEquals(r.bbr.maxBwBytesPerSec / r.model.goodput, 1, 0.05);
  const used = r.share(5);
  assert(used > 0.9, `uses ${used}`);
});

Deno.test("bbr: a BDP below a segment: four segments in flight keep the link busy", () => {
  const r = new Run({ rateBytesPerSec: 8000, rtt: MILLISECOND, queuePackets: 100 });
  r.model.run(20 * SECOND);
  const used = r.share(20);
  assert(used > 0.97, `uses ${used}`);
  assert(r.bbr.cwnd >= 4 * 1448);
});

Deno.test("bbr: acknowledgments in lumps: the window makes up for them", () => {
  const smooth = new Run();
  const lumpy = new Run({ ackNoise: 20 * MILLISECOND });
  for (const r of [smooth, lumpy]) r.model.run(3 * SECOND);
  assert(lumpy.bbr.cwnd > smooth.bbr.cwnd);
  const used = lumpy.share(6);
  assert(used > 0.9, `uses ${used}`);
});

/** Acknowledgments one round at a time at a given rate, each of `segments`. */
class Feed {
  readonly bbr = new Bbr(settings({ mssBytes: 1000 }));
  readonly sample = new AckSample();
  readonly loss = new LossSample();

  constructor() {
    this.sample.now = SECOND;
    this.sample.hasSack = this.loss.hasSack = true;
    this.bbr.onSent(SECOND, 1000, 1000);
  }

  /** A whole round: what was in flight is delivered. */
  round(rateBytesPerSec: number, change: Partial<AckSample> = {}): void {
    const s = this.sample;
    s.now += 50 * MILLISECOND;
    s.rtt = s.srtt = 50 * MILLISECOND;
    s.priorDeliveredBytes = s.totalDeliveredBytes;
    s.deliveredBytes = s.ackedBytes = rateBytesPerSec * 0.05;
    s.totalDeliveredBytes += s.deliveredBytes;
    s.deliveryRateBytesPerSec = rateBytesPerSec;
    s.inFlightBytes = s.txInFlightBytes = s.deliveredBytes;
    s.isAppLimited = false;
    s.sampleLostBytes = 0;
    Object.assign(s, change);
    this.bbr.onAck(s);
  }

  /** A recovery begins. */
  congestion(signal: CongestionSignal): void {
    this.sample.isInRecovery = signal !== CongestionSignal.Ecn;
    this.bbr.onCongestion(signal, this.sample);
  }

  recovered(): void {
    this.sample.isInRecovery = false;
    this.bbr.onRecovered(this.sample);
  }

  spurious(): void {
    this.sample.isInRecovery = false;
    this.bbr.onSpurious();
  }

  /** A segment is found to be lost. */
  lose(seq: number, txInFlightBytes: number, lostSinceSentBytes: number): void {
    const l = this.loss;
    l.now = this.sample.now;
    l.seq = seq;
    l.bytes = 1000;
    l.txInFlightBytes = txInFlightBytes;
    l.lostSinceSentBytes = lostSinceSentBytes;
    l.totalDeliveredBytes = this.sample.totalDeliveredBytes;
    this.bbr.onLost(l);
  }

  until(state: BbrState, rate = 1e6): void {
    for (let i = 0; i < 400 && this.bbr.state !== state; i++) this.round(rate);
    assertEquals(this.bbr.state, state);
  }
}

Deno.test("bbr: rounds limited by the application never end Startup; three that are not do", () => {
  const f = new Feed();
  f.round(1e6);
  for (let i = 0; i < 20; i++) f.round(1e6, { isAppLimited: true });
  assertEquals(f.bbr.state, BbrState.Startup);
  f.round(1.3e6);
  f.round(1.4e6);
  f.round(1.5e6);
  assertEquals(f.bbr.state, BbrState.Startup);
  f.round(1.6e6);
  assert(f.bbr.state !== BbrState.Startup);
});

Deno.test("bbr: a lower sample counts only if the application did not limit it", () => {
  const f = new Feed();
  f.round(2e6);
  f.round(1e6, { isAppLimited: true });
  assertEquals(f.bbr.maxBwBytesPerSec, 2e6);
  f.round(3e6, { isAppLimited: true });
  assertEquals(f.bbr.maxBwBytesPerSec, 3e6);
});

Deno.test("bbr: Drain ends after more than three rounds even if the queue stays", () => {
  const f = new Feed();
  f.round(1e6);
  for (let i = 0; i < 2; i++) f.round(1e6);
  f.round(1e6, { inFlightBytes: 500_000 });
  assertEquals(f.bbr.state, BbrState.Drain);
  for (let i = 0; i < 3; i++) f.round(1e6, { inFlightBytes: 500_000 });
  assertEquals(f.bbr.state, BbrState.Drain);
  f.round(1e6, { inFlightBytes: 500_000 });
  assertEquals(f.bbr.state, BbrState.Down);
});

Deno.test("bbr: loss above 2 % in Up sets the volume to where it crossed, and goes Down; a false alarm takes it back", () => {
  const f = new Feed();
  f.until(BbrState.Up);
  const before = f.bbr.cwnd;
  f.lose(0, 100_000, 1000); // 1 %
  assertEquals([f.bbr.state, f.bbr.inflightLongtermBytes], [BbrState.Up, Infinity]);
  f.lose(5000, 100_000, 3000);
  assertEquals(f.bbr.state, BbrState.Down);
  // 2,000 lost of 99,000 before this segment: 2 % are crossed at once.
  assertEquals(f.bbr.inflightLongtermBytes, 99_000);
  f.congestion(CongestionSignal.Loss);
  f.round(0.5e6);
  assert(f.bbr.cwnd < before || f.bbr.cwnd <= 99_000);
  f.spurious();
  assertEquals([f.bbr.state, f.bbr.inflightLongtermBytes], [BbrState.Refill, Infinity]);
  assert(f.bbr.cwnd >= before);
});

Deno.test("bbr: loss while cruising lowers rate and volume to what is delivered, by 0.7 at most, until the next Refill", () => {
  const f = new Feed();
  f.until(BbrState.Cruise);
  const rate = f.bbr.pacingRateBytesPerSec;
  f.lose(0, 50_000, 1000);
  f.congestion(CongestionSignal.Loss);
  f.round(0.9e6); // ends the round of the loss
  assertAlmostEquals(f.bbr.pacingRateBytesPerSec / rate, 1, 0.11);
  f.lose(9000, 50_000, 1000);
  f.round(0.1e6);
  f.lose(19_000, 50_000, 1000);
  f.round(0.1e6);
  const low = f.bbr.pacingRateBytesPerSec / rate;
  assert(low > 0.48 && low < 0.92, `${low}`);
  f.recovered();
  f.until(BbrState.Refill);
  f.round(1e6);
  assert(f.bbr.pacingRateBytesPerSec > 0.98 * rate);
});

Deno.test("bbr: a timeout leaves room for one segment, its end restores the window", () => {
  const f = new Feed();
  f.until(BbrState.Cruise);
  const before = f.bbr.cwnd;
  f.sample.inFlightBytes = 0;
  f.congestion(CongestionSignal.Timeout);
  assertEquals(f.bbr.cwnd, 1000);
  f.congestion(CongestionSignal.TimeoutAgain);
  assertEquals(f.bbr.cwnd, 1000);
  f.recovered();
  assertEquals(f.bbr.cwnd, before);
});

Deno.test("bbr: a CE mark is congestion: it ends Startup, and lowers the volume in Up", () => {
  const f = new Feed();
  f.round(1e6);
  f.congestion(CongestionSignal.Ecn);
  assertEquals(f.bbr.state, BbrState.Drain);
  assert(f.bbr.inflightLongtermBytes < Infinity);
  f.spurious();
  assert(f.bbr.state !== BbrState.Startup, "it is never taken back");
  f.until(BbrState.Up);
  f.congestion(CongestionSignal.Ecn);
  assertEquals(f.bbr.state, BbrState.Down);
});

Deno.test("bbr: an alarm that ended Startup and turns out false leads back to it", () => {
  const f = new Feed();
  f.round(1e6);
  for (let i = 0; i < 8; i++) f.lose(i * 5000, 100_000, 1000 * (i + 1));
  f.congestion(CongestionSignal.Loss);
  f.round(1.3e6, { sampleLostBytes: 8000, txInFlightBytes: 100_000 });
  assertEquals(f.bbr.state, BbrState.Drain);
  f.spurious();
  assertEquals([f.bbr.state, f.bbr.inflightLongtermBytes], [BbrState.Startup, Infinity]);
});

Deno.test("bbr: a loss that was repaired at once is one episode, which ends by itself", () => {
  const f = new Feed();
  f.until(BbrState.Cruise);
  const before = f.bbr.cwnd;
  f.congestion(CongestionSignal.Loss);
  f.round(1e6, { isInRecovery: false });
  f.round(1e6);
  f.sample.inFlightBytes = 0;
  f.congestion(CongestionSignal.Timeout);
  assertEquals(f.bbr.cwnd, 1000);
  f.recovered();
  assert(f.bbr.cwnd > 1000 && f.bbr.cwnd <= before);
});

Deno.test("bbr: five ranges lost in a round are too few to end Startup", () => {
  const f = new Feed();
  f.round(1e6);
  for (let i = 0; i < 5; i++) f.lose(i * 5000, 100_000, 1000 * (i + 1));
  for (let i = 0; i < 8; i++) f.lose(20_000 + (i + 1) * 1000, 100_000, 1000 * (i + 6)); // goes on from the fifth
  f.congestion(CongestionSignal.Loss);
  f.round(1.3e6, { sampleLostBytes: 13_000, txInFlightBytes: 100_000 });
  assertEquals(f.bbr.state, BbrState.Startup);
});

Deno.test("bbr: before anything is sent the window is the initial one of the segment size; later it keeps its segments", () => {
  const bbr = new Bbr(settings({ initialCwndSegments: 0 }));
  assertEquals(bbr.cwnd, 14480);
  bbr.onMss(9000);
  assertEquals(bbr.cwnd, 18000);
  bbr.onSent(0, 9000, 9000);
  bbr.onMss(4500);
  assertEquals(bbr.cwnd, 9000);
  assert(bbr.sendQuantumBytes >= 9000);
});
