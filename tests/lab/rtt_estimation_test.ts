import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { type RtoKind, runRttEstimationCell } from "../../src/lab/rtt_estimation.ts";
import { median } from "../../src/lab/statistics.ts";

Deno.test("lab rtt-estimation: the estimator never times out, a fixed timeout does, and costs goodput", () => {
  const run = (rto: RtoKind) => [1, 2, 3, 4, 5].map((seed) => runRttEstimationCell({ rto, seed, seconds: 5 }));
  const [estimator, fixed] = [run("estimator"), run("fixed")];
  assertEquals(estimator.map((r) => r.timeoutRetransmits + r.synRetransmits), [0, 0, 0, 0, 0]);
  assert(estimator.every((r) => r.rto > r.srtt + 80 && r.srtt > 120 && r.srtt < 280));
  assert(fixed.every((r) => r.timeoutRetransmits > 0 && r.timeoutRetransmitsPerThousand > 0 && r.synRetransmits > 0));
  const [goodput, goodputFixed] = [estimator, fixed].map((runs) => median(runs.map((r) => r.goodputBytesPerSec)));
  assert(goodput! > goodputFixed!, `${goodput} B/s, with a fixed timeout ${goodputFixed} B/s`);
});

Deno.test("lab rtt-estimation: the same seed gives the same figures, another seed others", () => {
  const run = (seed: number) => runRttEstimationCell({ rto: "estimator", seed, seconds: 2 });
  assertEquals(run(7), run(7));
  assertNotEquals(run(7).segments, run(8).segments);
});
