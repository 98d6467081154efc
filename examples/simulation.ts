/**
 * A simulation: a minute of TCP over a lossy path in virtual time, twice with the same seed and once with another.
 *
 * deno run --allow-env examples/simulation.ts
 *
 * @module
 */

import { type EventSource, IpAddr, MILLISECOND, SECOND, Simulator, Tcb, TcpListener } from "@culvert/culvert/netsim";

function simulate(seed: number): void {
  const sim = new Simulator({ seed });
  const buffer = new Uint8Array(65536);
  let received = 0;

  const sender = {
    onEvent(source: EventSource): void {
      if (source instanceof Tcb) { while (source.write(buffer, 0, buffer.length) > 0); }
    },
  };
  const receiver = {
    onEvent(source: EventSource): void {
      if (source instanceof TcpListener) source.accept();
      if (!(source instanceof Tcb)) return;
      for (let n = source.read(buffer); n > 0; n = source.read(buffer)) received += n;
    },
  };
  const a = sim.addStack("a", { address: "10.0.0.1/24", peers: [{ name: "b", allowed: "10.0.0.2" }] }, sender);
  const b = sim.addStack("b", { address: "10.0.0.2/24", peers: [{ name: "a", allowed: "10.0.0.1" }] }, receiver);
  sim.link(["a", 1], ["b", 1], { delay: 20 * MILLISECOND, impair: "loss 0.5% rate 20mbit" }, {
    delay: 20 * MILLISECOND,
  });

  const address = IpAddr.parse("10.0.0.2");
  b.tcp.listen(address, 80);
  const conn = a.tcp.connect(address, 80, {}, sim.now);
  const from = performance.now();
  sim.run(60 * SECOND);
  const wall = ((performance.now() - from) / 1000).toFixed(2);
  const rate = (received * 8 / 60 / 1e6).toFixed(2);
  const fast = conn instanceof Tcb ? conn.info().retransmits.fast : 0;
  console.log(`seed ${seed}: ${rate} Mbit/s, ${fast} fast retransmits, digest ${sim.digest} (60 s in ${wall} s)`);
}

for (const seed of [1, 1, 2]) simulate(seed);
