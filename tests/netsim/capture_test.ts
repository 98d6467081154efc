/**
 * Captures in the simulator: of links, and of the stacks on them.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { SocketErrorKind } from "../../src/base/errors.ts";
import { MILLISECOND, SECOND } from "../../src/base/time.ts";
import { captureLinks } from "../../src/netsim/capture.ts";
import { Simulator } from "../../src/netsim/simulator.ts";
import { PacketCapture, StackCapture } from "../../src/stack/capture.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { readPcapng } from "../testing/pcapng_reader.ts";
import { HAS_TSHARK, readByTshark } from "../testing/tshark.ts";

/** Five pings from a to b, of which the way back loses some; the capture as bytes. */
function run(seed: number): Uint8Array<ArrayBuffer> {
  const sim = new Simulator({ seed });
  const a = sim.addStack("a", {
    address: "10.0.0.1/24",
    peers: [{ name: "b", allowed: "10.0.0.2", impair: { out: "delay 2ms" } }],
  });
  sim.addStack("b", { address: "10.0.0.2/24", peers: [{ name: "a", allowed: "10.0.0.1" }] });
  sim.link(["a", 1], ["b", 1], { delay: 10 * MILLISECOND }, { delay: 10 * MILLISECOND, impair: "loss 40%" });
  const capture = new PacketCapture();
  sim.tracer = captureLinks(capture);
  a.tap = new StackCapture(capture, a.ip.interfaces, 0, "a:");
  const socket = a.icmp.openPing(IpAddr.parse("10.0.0.2"));
  assert(typeof socket !== "number");
  for (let seq = 1; seq <= 5; seq++) {
    sim.at(seq * SECOND, (now) => assertEquals(socket.send(seq, 56, 64, now), SocketErrorKind.None));
  }
  sim.run(10 * SECOND);
  return new Uint8Array([...capture.take()!, ...capture.statistics()]);
}

Deno.test("netsim capture: departures, arrivals and drops of each direction, and the stack's own points", () => {
  const captured = readPcapng(run(1));
  const of = (name: string) => captured.packets.filter((p) => p.name === name);
  assertEquals(of("a:b:out").map(({ at }) => Number(at)), [1, 2, 3, 4, 5].map((s) => s * SECOND));
  assertEquals(
    of("a:b:out:wire").map(({ at }) => Number(at)),
    [1, 2, 3, 4, 5].map((s) => s * SECOND + 2 * MILLISECOND),
  );
  assertEquals(of("a>b").length, 5);
  assertEquals(of("a>b:wire").map(({ at }) => Number(at)), [1, 2, 3, 4, 5].map((s) => s * SECOND + 12 * MILLISECOND));
  const lost = of("b>a:drop");
  assert(lost.length > 0 && lost.length < 5);
  for (const { comment } of lost) assertEquals(comment, "dropped: impair-loss");
  assertEquals(of("b>a").length, 5);
  assertEquals(of("b>a:wire").length, 5 - lost.length);
  assertEquals(of("a:b:in").length, 5 - lost.length);
});

Deno.test("netsim capture: the same seed gives the same file", () => {
  assertEquals(run(7), run(7));
});

Deno.test({
  name: "netsim capture: tshark reads it without a fault",
  ignore: !HAS_TSHARK,
  async fn() {
    const path = await Deno.makeTempFile({ suffix: ".pcapng" });
    try {
      await Deno.writeFile(path, run(1));
      const packets = await readByTshark(path);
      assertEquals(packets.filter(({ name }) => name === "a>b:wire").length, 5);
      const comments = new Set(packets.filter(({ name }) => name === "b>a:drop").map(({ comment }) => comment));
      assertEquals([...comments], ["dropped: impair-loss"]);
    } finally {
      await Deno.remove(path);
    }
  },
});
