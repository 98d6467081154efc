import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { runEdt, summarizeRequests } from "../../src/lab/edt.ts";

Deno.test("lab edt: stamps take the wait for departure out of the round-trip time and fill the rate", () => {
  const [qdisc, edt] = [runEdt("qdisc", { seconds: 1 }), runEdt("edt", { seconds: 1 })];
  assert(qdisc.info.rtt >= qdisc.baseRtt + 1.5, `srtt ${qdisc.info.rtt} ms with qdisc`);
  assert(edt.info.rtt <= edt.baseRtt + 0.1, `srtt ${edt.info.rtt} ms with edt`);
  assertAlmostEquals(edt.info.deliveryRate, 24e6, 0.24e6);
  for (const { goodputMbitPerSec } of [qdisc, edt]) assertAlmostEquals(goodputMbitPerSec, 24, 0.24);
  for (const size of ["small", "large"] as const) {
    assert(edt[size].count > 100 && qdisc[size].count > 100);
    // The same load beside the requests.
    assertAlmostEquals(edt[size].bulkMbitPerSec, 80, 0.1);
    assertAlmostEquals(qdisc[size].bulkMbitPerSec, 80, 0.8);
    // One-byte answers wait for the packet on the link, and hardly ever for a second one: both modes have the same
    // distribution, and which of them is ahead depends on the seed. So no worse means: not by what chance explains.
    const [a, b] = [edt[size], qdisc[size]];
    const chance = 2 * Math.hypot(a.p99Error, b.p99Error);
    assert(a.p99 <= b.p99 + chance, `p99 ${a.p99} ms with edt, ${b.p99} ms with qdisc, ± ${chance}`);
  }
  // Longer answers compete for turns, and flows that make up for lost time by stamps hold them up less.
  assert(edt.large.p99 < qdisc.large.p99, `p99 ${edt.large.p99} ms with edt, ${qdisc.large.p99} ms with qdisc`);
});

Deno.test("lab edt: the same seed gives the same figures", () => {
  assertEquals(runEdt("edt", { seed: 5, seconds: 0.2 }), runEdt("edt", { seed: 5, seconds: 0.2 }));
});

Deno.test("lab edt: times of requests by exact quantiles, and how sure the 99th percentile is", () => {
  const times = Array.from({ length: 10_000 }, (_, i) => (9999 - i) * 1000);
  const { count, p50, p99, p99Error, p999 } = summarizeRequests(times, 80);
  assertEquals([count, p50, p99, p999], [10_000, 4.999, 9.899, 9.989]);
  // The rank of the percentile has a standard deviation of √(n × 0.99 × 0.01): 9.95 of 10,000 evenly spread times.
  assertAlmostEquals(p99Error, 0.00995, 0.0006);
  assertEquals(summarizeRequests([], 0), { count: 0, p50: 0, p99: 0, p99Error: 0, p999: 0, bulkMbitPerSec: 0 });
  assertEquals(summarizeRequests([7e6], 0), { count: 1, p50: 7, p99: 7, p99Error: 0, p999: 7, bulkMbitPerSec: 0 });
});
