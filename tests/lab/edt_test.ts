import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { runEdt } from "../../src/lab/edt.ts";

Deno.test("lab edt: stamps take the wait for departure out of the round-trip time and fill the rate", () => {
  const [qdisc, edt] = [runEdt("qdisc", { seconds: 1 }), runEdt("edt", { seconds: 1 })];
  assert(qdisc.info.rtt >= qdisc.baseRtt + 1.5, `srtt ${qdisc.info.rtt} ms with qdisc`);
  assert(edt.info.rtt <= edt.baseRtt + 0.1, `srtt ${edt.info.rtt} ms with edt`);
  assertAlmostEquals(edt.info.deliveryRate, 24e6, 0.24e6);
  assertAlmostEquals(edt.goodputMbitPerSec, 24, 0.24);
  for (const size of ["small", "large"] as const) {
    assert(edt[size].count > 100 && qdisc[size].count > 100);
    // One-byte answers wait for the packet on the link only: both are equal up to half a microsecond.
    assert(
      edt[size].p99 <= qdisc[size].p99 + 0.0005,
      `p99 ${edt[size].p99} ms with edt, ${qdisc[size].p99} ms with qdisc`,
    );
  }
});

Deno.test("lab edt: the same seed gives the same figures", () => {
  assertEquals(runEdt("edt", { seed: 5, seconds: 0.2 }), runEdt("edt", { seed: 5, seconds: 0.2 }));
});
