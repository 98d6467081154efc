import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { MILLISECOND } from "../../src/base/time.ts";
import { HYSTART_BDP_SEGMENTS, HYSTART_PAYLOAD_BYTES_PER_SEC, runHystartCell } from "../../src/lab/hystart.ts";

Deno.test("lab hystart: the rule of 2008 ends slow start far too early, that of 2011 at about two BDP", () => {
  const old = runHystartCell({ exit: "hystart-2008", pacing: "off", seed: 1, seconds: 0.4 });
  assertEquals(old.end, "exit");
  assert(old.exitCwnd >= 16 && old.exitCwnd < 100, `${old.exitCwnd} segments`);
  assertEquals([old.reachedTime, old.lostPackets], [null, 0]);

  const patched = runHystartCell({ exit: "hystart-2011", pacing: "off", seed: 2, seconds: 0.4 });
  assertEquals([patched.end, patched.lostPackets], ["exit", 0]);
  assert(patched.exitCwnd > 1500 && patched.exitCwnd < 2200, `${patched.exitCwnd} segments`);
  assert(patched.reachedTime !== null && patched.reachedTime > patched.exitTime!);
});

Deno.test("lab hystart: without an exit the queue overflows", () => {
  const off = runHystartCell({ exit: "off", pacing: "off", seed: 1, seconds: 0.4 });
  assertEquals(off.end, "overflow");
  assert(off.exitCwnd > 2 * HYSTART_BDP_SEGMENTS && off.lostPackets > 100, `${off.exitCwnd} segments`);
  assertEquals(Math.max(...off.samples.map((s) => s.queue)) <= 1225, true);
  assert(off.goodputBytesPerSec < HYSTART_PAYLOAD_BYTES_PER_SEC);
});

Deno.test("lab hystart: the same seed gives the same figures; the phase of the clock matters to the rule of 2008", () => {
  const run = (seed: number, phase = 0) =>
    runHystartCell({ exit: "hystart-2008", pacing: "off", seed, seconds: 0.2, phase });
  assertEquals(run(5), run(5));
  assertNotEquals(run(5).samples, run(6).samples);
  assertNotEquals(run(1).exitCwnd, run(1, 1.5 * MILLISECOND).exitCwnd);
});
