/**
 * The simulator's speed: packets that it carries in a second of wall time.
 *
 * @module
 */

import {
  type EventSource,
  type Instant,
  IpAddr,
  MILLISECOND,
  SECOND,
  Simulator,
  Tcb,
  TcpListener,
} from "../src/netsim/mod.ts";
import type { Bench } from "./bench.ts";

/** One bulk flow at 100 Mbit/s and 20 ms; every packet is sent, queued, carried and received. */
export const packets: Bench = {
  name: "netsim packets",
  what: "packets carried a second of wall time, one TCP flow at 100 Mbit/s and 20 ms",
  unit: "1/s",
  run(seconds) {
    const sim = new Simulator({ seed: 1 });
    const out = new Uint8Array(65536);
    const a = sim.addStack("a", { address: "10.0.0.1/24", peers: [{ name: "b", allowed: "10.0.0.2" }] }, {
      onEvent(source: EventSource): void {
        if (source instanceof Tcb) { while (source.write(out, 0, out.length) > 0); }
      },
    });
    let packets = 0;
    const b = sim.addStack("b", { address: "10.0.0.2/24", peers: [{ name: "a", allowed: "10.0.0.1" }] }, {
      onEvent(source: EventSource): void {
        if (source instanceof TcpListener) source.accept();
        if (source instanceof Tcb) { while (source.read(out) > 0); }
      },
    });
    sim.tracer = () => packets++;
    const impair = "rate 100mbit limit 500";
    sim.link(["a", 1], ["b", 1], { delay: 10 * MILLISECOND, impair }, { delay: 10 * MILLISECOND, impair });
    b.tcp.listen(IpAddr.parse("10.0.0.2"), 80);
    a.tcp.connect(IpAddr.parse("10.0.0.2"), 80, {}, 0);
    let until: Instant = SECOND;
    sim.run(until);
    packets = 0;
    const from = performance.now();
    let now = from;
    while (now - from < seconds * 1000) {
      until += 100 * MILLISECOND;
      sim.run(until);
      now = performance.now();
    }
    // Each packet is seen when it departs and when it arrives.
    return packets / 2 / ((now - from) / 1000);
  },
};
