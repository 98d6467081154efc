import { assert, assertEquals } from "@std/assert";
import { MILLISECOND, SECOND } from "../../../src/base/time.ts";
import { AckSample, CongestionSignal, initialWindow } from "../../../src/tcp/congestion/control.ts";
import { Reno } from "../../../src/tcp/congestion/reno.ts";
import { LinkModel, settings } from "./link_model.ts";

const MSS = 1000;

function sample(ackedBytes: number, change: Partial<AckSample> = {}): AckSample {
  return Object.assign(new AckSample(), { ackedBytes, deliveredBytes: ackedBytes, isCwndLimited: true }, change);
}

function reno(initialCwndSegments = 0, slowStartGrowth: "bytes" | "acks" = "bytes"): Reno {
  return new Reno(settings({ mssBytes: MSS, initialCwndSegments, slowStartGrowth }));
}

Deno.test("reno: initial window of RFC 6928, or as asked for, in segments of the size that is agreed on", () => {
  assertEquals([536, 1000, 1460, 4000, 9000].map(initialWindow), [5360, 10000, 14600, 14600, 18000]);
  assertEquals(reno().cwnd, 10 * MSS);
  const r = reno(4);
  assertEquals(r.cwnd, 4 * MSS);
  r.onMss(500);
  assertEquals([r.cwnd, r.ssthresh], [2000, Infinity]);
});

Deno.test("reno: a smaller segment later leaves windows their number of segments; after a lost SYN one remains", () => {
  const r = reno();
  r.onSent(0, MSS, MSS);
  r.onCongestion(CongestionSignal.Loss, sample(0, { priorInFlightBytes: 10 * MSS }));
  r.onMss(600);
  assertEquals([r.cwnd, r.ssthresh], [3000, 3000]);
  r.onSpurious();
  assertEquals([r.cwnd, r.ssthresh], [6000, Infinity]);
  const syn = reno();
  syn.onCongestion(CongestionSignal.TimeoutAgain, sample(0));
  syn.onMss(1460);
  assertEquals([syn.cwnd, syn.ssthresh], [1460, Infinity]);
  syn.onRecovered(sample(0));
  assertEquals(syn.cwnd, 1460);
});

Deno.test("reno: slow start by bytes acknowledged, then one segment a window, the rest beyond ssthresh counted", () => {
  const r = reno(2);
  r.onAck(sample(500));
  r.onAck(sample(1500));
  assertEquals(r.cwnd, 4 * MSS);
  r.ssthresh = 5 * MSS;
  r.onAck(sample(2000)); // 1,000 to ssthresh, 1,000 of the 5,000 for the next segment
  assertEquals(r.cwnd, 5 * MSS);
  r.onAck(sample(3999));
  assertEquals(r.cwnd, 5 * MSS);
  r.onAck(sample(1));
  assertEquals(r.cwnd, 6 * MSS);
  r.onAck(sample(6000));
  assertEquals(r.cwnd, 7 * MSS);
});

Deno.test("reno: slow start by a segment for each acknowledgment, whatever it acknowledges, if asked for", () => {
  const r = reno(2, "acks");
  r.onAck(sample(2000));
  r.onAck(sample(1));
  assertEquals(r.cwnd, 4 * MSS);
});

Deno.test("reno: in slow start after a timeout only what is newly delivered counts, without SACK a segment at most", () => {
  const after = (change: Partial<AckSample>) => {
    const r = reno(20);
    r.onCongestion(CongestionSignal.Timeout, sample(0, { priorInFlightBytes: 20 * MSS }));
    r.onAck(sample(9000, { isInRecovery: true, ...change }));
    return r.cwnd;
  };
  assertEquals(after({ hasSack: true, deliveredBytes: 3000 }), 4 * MSS);
  assertEquals(after({ hasSack: false }), 2 * MSS);
  assertEquals(after({ isInRecovery: false }), 10 * MSS);
});

Deno.test("reno: no growth while something else holds the sender back", () => {
  const r = reno();
  r.onAck(sample(5000, { isCwndLimited: false }));
  assertEquals(r.cwnd, 10 * MSS);
  r.ssthresh = MSS;
  r.onAck(sample(50_000, { isCwndLimited: false }));
  assertEquals(r.cwnd, 10 * MSS);
});

Deno.test("reno: loss halves FlightSize, at least two segments; a timeout leaves one; the same again keeps ssthresh", () => {
  const r = reno();
  const flight = (priorInFlightBytes: number) => sample(0, { priorInFlightBytes });
  r.onCongestion(CongestionSignal.Loss, flight(9001));
  assertEquals([r.cwnd, r.ssthresh, r.why], [4500, 4500, "loss"]);
  r.onRecovered(sample(0, { inFlightBytes: 1500 }));
  assertEquals(r.cwnd, 4500);
  r.onCongestion(CongestionSignal.Timeout, flight(8000));
  assertEquals([r.cwnd, r.ssthresh, r.why], [MSS, 4 * MSS, "timeout"]);
  r.onCongestion(CongestionSignal.TimeoutAgain, flight(1000));
  assertEquals([r.cwnd, r.ssthresh, r.why], [MSS, 4 * MSS, "timeout again"]);
  r.onRecovered(sample(0));
  assertEquals(r.cwnd, MSS, "the end of a timeout's episode leaves slow start where it is");
  r.onCongestion(CongestionSignal.Loss, flight(1000));
  assertEquals([r.cwnd, r.ssthresh], [2 * MSS, 2 * MSS]);
});

Deno.test("reno: ECN halves down to one segment, and is never taken back", () => {
  const r = reno(4);
  const signal = () => r.onCongestion(CongestionSignal.Ecn, sample(0, { priorInFlightBytes: r.cwnd }));
  signal();
  assertEquals([r.cwnd, r.ssthresh, r.why], [2 * MSS, 2 * MSS, "ecn"]);
  r.onRecovered(sample(0));
  signal();
  r.onSpurious();
  r.onRecovered(sample(0));
  assertEquals([r.cwnd, r.ssthresh], [MSS, 2 * MSS]);
});

Deno.test("reno: a false alarm is taken back once, but not what came after it", () => {
  const r = reno();
  r.onCongestion(CongestionSignal.Timeout, sample(0, { priorInFlightBytes: 10_000 }));
  r.onSpurious();
  assertEquals([r.cwnd, r.ssthresh, r.why], [10 * MSS, Infinity, "undo"]);
  r.onRecovered(sample(0));
  assertEquals(r.cwnd, 10 * MSS, "the end of the episode changes nothing any more");
  r.onCongestion(CongestionSignal.Loss, sample(0, { priorInFlightBytes: 10_000 }));
  r.onCongestion(CongestionSignal.Ecn, sample(0, { priorInFlightBytes: 5000 }));
  r.onSpurious();
  assertEquals([r.cwnd, r.ssthresh], [2500, 2500]);
});

Deno.test("reno: a window that has outgrown what it was stays when the alarm turns out false", () => {
  const r = reno();
  r.onCongestion(CongestionSignal.Loss, sample(0, { priorInFlightBytes: 10_000 }));
  r.onRecovered(sample(0));
  r.cwnd = 12 * MSS;
  r.onSpurious();
  assertEquals([r.cwnd, r.ssthresh], [12 * MSS, 5 * MSS]);
});

Deno.test("reno: idleness halves the window each timeout, down to the initial one, and ssthresh remembers", () => {
  const r = reno();
  r.cwnd = 80 * MSS;
  r.ssthresh = 20 * MSS;
  r.onIdle(0, 2.5 * SECOND, SECOND);
  assertEquals([r.cwnd, r.ssthresh, r.why], [20 * MSS, 60 * MSS, "idle"]);
  r.onIdle(0, 3600 * SECOND, SECOND);
  assertEquals(r.cwnd, 10 * MSS);
  r.cwnd = 3 * MSS;
  r.onIdle(0, 3600 * SECOND, SECOND);
  assertEquals(r.cwnd, 3 * MSS);
  r.cwnd = 100_001;
  r.onIdle(0, 2 * SECOND, SECOND);
  assert(Number.isInteger(r.cwnd));
});

Deno.test("reno: on a link with a queue of one BDP the window swings between half and all of it, and the link is full", () => {
  const r = new Reno(settings());
  const m = new LinkModel(r, { rateBytesPerSec: 1.25e6, rtt: 40 * MILLISECOND, queuePackets: 33 });
  m.run(20 * SECOND);
  const before = m.delivered;
  const episodes = m.episodes;
  let low = Infinity;
  let high = 0;
  m.onAck = () => {
    low = Math.min(low, m.cwnd);
    high = Math.max(high, m.cwnd);
  };
  m.run(80 * SECOND);
  const full = m.bdp + 33;
  assert(high > full && high < full + 6, `highest window ${high}, the path holds ${full}`);
  assert(Math.abs(low - high / 2) < 3, `lowest ${low} of ${high}`);
  assert((m.delivered - before) / (60 * m.goodput) > 0.99);
  // A swing takes as many round trips, of rtt to 2 rtt, as there are segments to gain: half of what the path holds.
  const swing = 60 / (m.episodes - episodes);
  assert(swing > 1.2 && swing < 3.4, `a swing of ${swing} s`);
});
