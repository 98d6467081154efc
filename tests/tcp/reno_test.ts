import { assert, assertEquals, assertThrows } from "@std/assert";
import * as fc from "fast-check";
import { SECOND } from "../../src/base/time.ts";
import { AckSample, CongestionSignal, initialWindow } from "../../src/tcp/congestion/control.ts";
import { makeCongestionControl } from "../../src/tcp/congestion/registry.ts";
import { Reno } from "../../src/tcp/congestion/reno.ts";

const MSS = 1000;

function sample(ackedBytes: number, priorInFlightBytes = 0, isCwndLimited = true): AckSample {
  return Object.assign(new AckSample(), { ackedBytes, priorInFlightBytes, isCwndLimited });
}

Deno.test("reno: initial window of RFC 6928, or as asked for, in segments of the size that is agreed on", () => {
  assertEquals([536, 1000, 1460, 4000, 9000].map(initialWindow), [5360, 10000, 14600, 14600, 18000]);
  assertEquals(new Reno(MSS).cwnd, 10 * MSS);
  const r = new Reno(MSS, 4);
  assertEquals(r.cwnd, 4 * MSS);
  r.onMss(500);
  assertEquals([r.cwnd, r.ssthresh], [2000, Infinity]);
});

Deno.test("reno: slow start by bytes acknowledged, then one segment a window, the rest beyond ssthresh counted", () => {
  const r = new Reno(MSS, 2);
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

Deno.test("reno: no growth while something else holds the sender back", () => {
  const r = new Reno(MSS);
  r.onAck(sample(5000, 5000, false));
  assertEquals(r.cwnd, 10 * MSS);
  r.ssthresh = MSS;
  r.onAck(sample(50_000, 5000, false));
  assertEquals(r.cwnd, 10 * MSS);
});

Deno.test("reno: loss halves FlightSize, at least two segments; a timeout leaves one; the same again keeps ssthresh", () => {
  const r = new Reno(MSS);
  r.onCongestion(CongestionSignal.Loss, sample(0, 9001));
  assertEquals([r.cwnd, r.ssthresh], [4500, 4500]);
  r.onRecovered(Object.assign(sample(0), { inFlightBytes: 1500 }));
  assertEquals(r.cwnd, 2500);
  r.onCongestion(CongestionSignal.Timeout, sample(0, 8000));
  assertEquals([r.cwnd, r.ssthresh], [MSS, 4 * MSS]);
  r.onCongestion(CongestionSignal.TimeoutAgain, sample(0, 1000));
  assertEquals([r.cwnd, r.ssthresh], [MSS, 4 * MSS]);
  r.onCongestion(CongestionSignal.Loss, sample(0, 1000));
  assertEquals([r.cwnd, r.ssthresh], [2 * MSS, 2 * MSS]);
});

Deno.test("reno: an episode ends with what is in flight and a segment, at most ssthresh", () => {
  const r = new Reno(MSS);
  r.onCongestion(CongestionSignal.Loss, sample(0, 10_000));
  r.onRecovered(Object.assign(sample(0), { inFlightBytes: 0 }));
  assertEquals(r.cwnd, 2 * MSS);
  r.onRecovered(Object.assign(sample(0), { inFlightBytes: 90_000 }));
  assertEquals(r.cwnd, 5 * MSS);
});

Deno.test("reno: a false alarm is taken back", () => {
  const r = new Reno(MSS);
  r.onCongestion(CongestionSignal.Timeout, sample(0, 10_000));
  r.onSpurious();
  assertEquals([r.cwnd, r.ssthresh], [10 * MSS, Infinity]);
});

Deno.test("reno: idleness halves the window each timeout, down to the initial one, and ssthresh remembers", () => {
  const r = new Reno(MSS);
  r.cwnd = 80 * MSS;
  r.ssthresh = 20 * MSS;
  r.onIdle(2.5 * SECOND, SECOND);
  assertEquals([r.cwnd, r.ssthresh], [20 * MSS, 60 * MSS]);
  r.onIdle(3600 * SECOND, SECOND);
  assertEquals(r.cwnd, 10 * MSS);
  r.cwnd = 3 * MSS;
  r.onIdle(3600 * SECOND, SECOND);
  assertEquals(r.cwnd, 3 * MSS);
  r.cwnd = 100_001;
  r.onIdle(2 * SECOND, SECOND);
  r.onAck(sample(100_000));
  assert(Number.isInteger(r.cwnd) && r.cwnd > r.ssthresh - MSS);
});

Deno.test("reno: property: cwnd stays a finite number of at least one segment, ssthresh of at least two", () => {
  const event = fc.oneof(
    fc.record({ acked: fc.nat(100_000), limited: fc.boolean() }),
    fc.record({
      signal: fc.constantFrom(CongestionSignal.Loss, CongestionSignal.Timeout, CongestionSignal.TimeoutAgain),
      flight: fc.nat(1_000_000),
    }),
    fc.record({ recovered: fc.nat(1_000_000) }),
    fc.record({ idle: fc.nat(10 * SECOND) }),
  );
  fc.assert(fc.property(fc.integer({ min: 16, max: 9000 }), fc.array(event), (mss, events) => {
    const r = new Reno(mss);
    for (const e of events) {
      const before = r.cwnd;
      if ("acked" in e) {
        r.onAck(sample(e.acked, 0, e.limited));
        assert(r.cwnd >= before && r.cwnd <= before + e.acked + mss, "grew by more than was acknowledged");
      } else if ("signal" in e) {
        r.onCongestion(e.signal, sample(0, e.flight));
      } else if ("recovered" in e) {
        r.onRecovered(Object.assign(sample(0), { inFlightBytes: e.recovered }));
      } else {
        r.onIdle(e.idle, SECOND);
        assert(r.cwnd <= before);
      }
      assert(Number.isInteger(r.cwnd) && r.cwnd >= mss, `cwnd ${r.cwnd}`);
      assert(r.ssthresh >= 2 * mss, `ssthresh ${r.ssthresh}`);
    }
  }));
});

Deno.test("congestion: controls by name", () => {
  assertEquals(make("none").cwnd > 1e9, true);
  assertEquals(make("reno").name, "reno");
  assertThrows(() => make("vegas"), TypeError, "reno, none");
});
