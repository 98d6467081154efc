/**
 * Data that waits in the host's own queueing discipline is not sent again: the answer that a timer waits for cannot come
 * before the data has left, and a copy would make the queue longer.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { MILLISECOND, SECOND } from "../../src/base/time.ts";
import { Simulator } from "../../src/netsim/simulator.ts";
import type { Stack } from "../../src/stack/stack.ts";
import { TcpListener } from "../../src/tcp/listener.ts";
import { PACING_MODES, type PacingMode } from "../../src/tcp/pacing.ts";
import { TcpState } from "../../src/tcp/state.ts";
import { Tcb } from "../../src/tcp/tcb.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";

const SEED = 1;
const buffer = new Uint8Array(65536);

interface Path {
  v6: boolean;
  rate: string;
  pacing?: PacingMode;
  userTimeout?: string;
}

/** A host whose FQ sends at `rate`, and one that reads all that comes. */
function path({ v6, rate, ...tcp }: Path): { sim: Simulator; a: Stack; to: IpAddr; received: () => number } {
  const [own, other, bits] = v6 ? ["fd00::1", "fd00::2", 64] as const : ["10.0.0.1", "10.0.0.2", 24] as const;
  const sim = new Simulator({ seed: SEED });
  let received = 0;
  const qdisc = { kind: "fq" as const, rate };
  const a = sim.addStack("a", {
    address: `${own}/${bits}`,
    peers: [{ name: "b", allowed: other }],
    qdisc,
    tcp,
  }, {
    onEvent(source) {
      if (source instanceof Tcb) { while (source.write(buffer, 0, buffer.length) > 0); }
    },
  });
  const b = sim.addStack("b", { address: `${other}/${bits}`, peers: [{ name: "a", allowed: own }] }, {
    onEvent(source) {
      if (source instanceof TcpListener) { while (source.accept() !== null); }
      if (source instanceof Tcb) { for (let n = source.read(buffer); n > 0; n = source.read(buffer)) received += n; }
    },
  });
  sim.link(["a", 1], ["b", 1], { delay: 10 * MILLISECOND });
  const to = IpAddr.parse(other);
  b.tcp.listen(to, 80);
  return { sim, a, to, received: () => received };
}

function connect(a: Stack, to: IpAddr, now: number): Tcb {
  const t = a.tcp.connect(to, 80, {}, now);
  assert(t instanceof Tcb);
  return t;
}

for (const v6 of [false, true]) {
  for (const pacing of PACING_MODES) {
    Deno.test(`own queue: nothing that waits in it is sent again, paced by ${pacing}, IPv${v6 ? 6 : 4}`, () => {
      const { sim, a, to, received } = path({ v6, rate: "2mbit", pacing });
      const flows = Array.from({ length: 50 }, () => connect(a, to, sim.now));
      sim.run(20 * SECOND);
      const sum = (field: "timeouts" | "bytesRetrans" | "bytesSent"): number =>
        flows.reduce((total, t) => total + t.info()[field], 0);
      // Without pacing the first window of each flow goes through before the round-trip time tells of the queue.
      const allowed = pacing === "off" ? 0.005 : 0;
      assert(sum("timeouts") <= (pacing === "off" ? 10 : 0), `${sum("timeouts")} timeouts`);
      assert(sum("bytesRetrans") <= allowed * sum("bytesSent"), `${sum("bytesRetrans")} of ${sum("bytesSent")} bytes`);
      // All but headers and the first moments.
      assert(received() * 8 / 20 > 1.85e6, `${received()} bytes`);
    });
  }

  Deno.test(`own queue: a SYN and data that never leave end by the user timeout, IPv${v6 ? 6 : 4}`, () => {
    const { sim, a, to } = path({ v6, rate: "8", userTimeout: "5s" });
    // The first packet passes at once; what comes next waits for a minute.
    const [first, second] = [connect(a, to, sim.now), connect(a, to, sim.now)];
    sim.run(4 * SECOND);
    assertEquals([first.info().totalRetrans, second.info().totalRetrans], [0, 0]);
    sim.run(6 * SECOND);
    assertEquals([first.state, second.state], [TcpState.Closed, TcpState.Closed]);
  });
}
