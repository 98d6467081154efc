import { assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { MILLISECOND, SECOND } from "../../src/base/time.ts";
import { Simulator } from "../../src/netsim/simulator.ts";
import { TraceKind } from "../../src/netsim/topology.ts";
import { UdpSocket } from "../../src/udp/udp_socket.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { openPair } from "../testing/host_pair.ts";

for (const family of [4, 6] as const) {
  const address = (n: number): string => family === 4 ? `10.0.0.${n}` : `fd00::${n}`;
  const length = family === 4 ? 24 : 64;

  const socketAndDepartures = (): { sim: Simulator; socket: UdpSocket; remote: IpAddr; departures: number[] } => {
    const sim = new Simulator({ seed: 1 });
    const a = sim.addStack("a", { address: `${address(1)}/${length}`, peers: [{ name: "b", allowed: address(2) }] });
    sim.addStack("b", { address: `${address(2)}/${length}`, peers: [{ name: "a", allowed: address(1) }] });
    sim.link(["a", 1], ["b", 1]);
    const departures: number[] = [];
    sim.tracer = (time, from, _to, _p, kind) => {
      if (from === "a" && kind === TraceKind.Departure) departures.push(time);
    };
    const socket = a.udp.bind(IpAddr.parse(address(1)), 0);
    if (!(socket instanceof UdpSocket)) throw new Error("bind");
    return { sim, socket, remote: IpAddr.parse(address(2)), departures };
  };

  Deno.test(`udp IPv${family}: a datagram departs at its stamp, and stamps order them`, () => {
    const { sim, socket, remote, departures } = socketAndDepartures();
    for (const ms of [30, 0, 10, 20]) socket.send(new Uint8Array(10), remote, 9, sim.now, ms * MILLISECOND);
    sim.run(SECOND);
    assertEquals(departures, [0, 10, 20, 30].map((ms) => ms * MILLISECOND));
  });

  Deno.test(`udp IPv${family}: the pacing rate spaces datagrams; idle time is made up for by half a gap`, () => {
    const { sim, socket, remote, departures } = socketAndDepartures();
    socket.maxPacingRateBytesPerSec = 100_000;
    const send = (n: number): void => {
      for (let i = 0; i < n; i++) socket.send(new Uint8Array(1000), remote, 9, sim.now);
    };
    send(4);
    sim.run(SECOND);
    const gaps = departures.map((at) => at / MILLISECOND);
    [0, 10, 20, 30].forEach((ms, i) => assertAlmostEquals(gaps[i]!, ms, 0.001));
    departures.length = 0;
    send(3);
    sim.run(2 * SECOND);
    [1000, 1005, 1015].forEach((ms, i) => assertAlmostEquals(departures[i]! / MILLISECOND, ms, 0.001));
  });
}

Deno.test("udp: departure and rate by the socket of a host", async () => {
  await using pair = await openPair();
  using from = pair.a.listenDatagram({ port: 0, hostname: "10.7.0.1" });
  using to = pair.b.listenDatagram({ port: 9, hostname: "10.7.0.2" });
  const addr = { transport: "udp" as const, hostname: "10.7.0.2", port: 9 };
  await from.send(new Uint8Array([1]), addr, { departIn: 60 * MILLISECOND });
  await from.send(new Uint8Array([2]), addr);
  const order = [(await to.receive())[0][0], (await to.receive())[0][0]];
  assertEquals(order, [2, 1]);
  assertThrows(() => from.setMaxPacingRate(0), RangeError, "above 0");
});
