/**
 * The experiment `departure` on real sockets, briefly: its counts must be right on a loaded machine too, its times are
 * only bounded where nothing can be faster.
 *
 * @module
 */

import { assert, assertEquals, assertLess } from "@std/assert";
import { createSocket, type Socket } from "node:dgram";
import { MILLISECOND } from "../../src/base/time.ts";
import {
  DEPARTURE_LOADS,
  DEPARTURE_SLEEPERS,
  type DepartureEnvironment,
  departureGoal,
  type DeparturePort,
  runDeparture,
  runIdle,
} from "../../src/lab/departure.ts";
import { NO_LINUX_PORT } from "../testing/host_pair.ts";

async function withSink(body: (environment: DepartureEnvironment, received: () => number) => Promise<void>) {
  const socket: Socket = createSocket("udp4");
  let received = 0;
  let cpuReads = 0;
  socket.on("message", () => received++);
  await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
  try {
    await body({
      sinkPort: socket.address().port,
      cpuTime: () => ++cpuReads * MILLISECOND,
      delay: (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds)),
    }, () => received);
  } finally {
    await new Promise<void>((resolve) => socket.close(() => resolve()));
  }
}

const PORTS: readonly DeparturePort[] = NO_LINUX_PORT === "" ? ["dgram", "linux"] : ["dgram"];

for (const port of PORTS) {
  for (const sleeper of DEPARTURE_SLEEPERS) {
    if (sleeper === "ppoll" && NO_LINUX_PORT !== "") continue;
    Deno.test(`departure: every packet of the schedule leaves once and none early, by ${port} and ${sleeper}`, async () => {
      await withSink(async (environment, received) => {
        for (const load of [{ flows: 20, gap: 10 * MILLISECOND }, { flows: 1, gap: MILLISECOND / 4 }]) {
          const result = await runDeparture(port, sleeper, load, 0.1, environment);
          const { packets, missing, early, wokeP99, p50, p99, max, histogram, packetsPerSec } = result;
          assertEquals({ packets, missing, early }, { packets: packetsPerSec / 10, missing: 0, early: 0 });
          assert(0 < p50 && p50 <= p99 && p99 <= max, `${p50} ${p99} ${max}`);
          // A host cannot have taken a packet out of the queue later than the socket was given it.
          assert(0 <= wokeP99 && wokeP99 <= p99, `${wokeP99} ${p99}`);
          assertEquals(histogram.reduce((sum, { count }) => sum + count, 0), packets);
          assert(histogram.every(({ from, to }) => from < to));
          assertLess(histogram.at(-1)!.from, max + 0.001);
          // The schedule does not move: only the ends of the run can differ, by how late they were.
          const span = (packets - 1) / packetsPerSec * 1000;
          assertLess(Math.abs(span / (1 + result.rateError) - span), max + 0.01);
          assert(result.cpuShare > 0);
        }
        // Warm-up included; a loaded machine may lose some in the socket that takes them.
        assert(received() > 0);
      });
    });
  }
}

Deno.test("departure: a host without traffic is measured without a schedule", async () => {
  await withSink(async (environment) => {
    const { port, sleeper, cpuShare } = await runIdle("dgram", "hop", 0.1, environment);
    assertEquals([port, sleeper], ["dgram", "hop"]);
    // The clock of this environment gives a millisecond each time it is read.
    assert(cpuShare > 0 && cpuShare <= 0.01, `${cpuShare}`);
  });
});

Deno.test("departure: loads reach from 100 µs for one flow to 50 ms for 1,000, with at most 20,000 packets a second", () => {
  const rates = DEPARTURE_LOADS.map(({ flows, gap }) => flows / gap * 1e9);
  assert(Math.max(...rates) <= 20_000);
  assertEquals(DEPARTURE_LOADS[0], { flows: 1, gap: 100_000 });
  assertEquals(DEPARTURE_LOADS.at(-1), { flows: 1000, gap: 50 * MILLISECOND });
  assertEquals(DEPARTURE_SLEEPERS.map((kind) => departureGoal(kind, 2000)), [4, 0.5, 0.3, 0.03]);
  assertEquals(departureGoal("spin", 20_000), null);
});
