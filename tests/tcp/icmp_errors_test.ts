import { assertEquals, assertMatch } from "@std/assert";
import { SocketErrorKind } from "../../src/base/errors.ts";
import { Simulator } from "../../src/netsim/simulator.ts";
import { SECOND } from "../../src/base/time.ts";
import { TcpState } from "../../src/tcp/state.ts";
import { Tcb } from "../../src/tcp/tcb.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { TcpTrace, TRACE_ISS } from "../testing/tcp_trace.ts";

/** An ICMP error about a segment of the trace's connection. */
function error(h: TcpTrace, type: number, code: number, seq: number) {
  const { local, remote } = h;
  return {
    version: local.version,
    type,
    code,
    src0: local.w0,
    src1: local.w1,
    src2: local.w2,
    src3: local.w3,
    dst0: remote.w0,
    dst1: remote.w1,
    dst2: remote.w2,
    dst3: remote.w3,
    srcPort: h.localPort,
    dstPort: h.remotePort,
    mtu: 0,
    seq: (TRACE_ISS + seq) | 0,
  };
}

/** Type and code of "port unreachable" and of "host unreachable" or "address unreachable". */
const HARD = { 4: [3, 3], 6: [1, 4] } as const;
const SOFT = { 4: [3, 1], 6: [1, 3] } as const;

for (const family of [4, 6] as const) {
  const [hardType, hardCode] = HARD[family];
  const [softType, softCode] = SOFT[family];

  Deno.test(`icmp IPv${family}: "port unreachable" refuses a connection being opened, if it quotes the SYN`, () => {
    const h = new TcpTrace({}, family);
    const t = h.connect();
    h.out({ flags: "S" });
    assertEquals(h.tcp.icmpError(error(h, hardType, hardCode, 1), h.now), false);
    assertEquals(h.tcp.icmpError(error(h, hardType, hardCode, -1), h.now), false);
    assertEquals(t.state, TcpState.SynSent);
    assertEquals(h.tcp.icmpError(error(h, hardType, hardCode, 0), h.now), true);
    assertEquals([t.state, t.error, t.errorText], [
      TcpState.Closed,
      SocketErrorKind.ConnectionRefused,
      "ICMP: port unreachable",
    ]);
  });

  Deno.test(`icmp IPv${family}: a soft error ends nothing, and is told when the attempt times out`, () => {
    const h = new TcpTrace({ synRetries: 2 }, family);
    const t = h.connect();
    h.tcp.icmpError(error(h, softType, softCode, 0), h.now);
    assertEquals(t.state, TcpState.SynSent);
    h.until(60_000);
    assertEquals([t.state, t.error], [TcpState.Closed, SocketErrorKind.HostUnreachable]);
    assertMatch(t.errorText, /2 retransmissions.*; ICMP: (host|address) unreachable/);
  });

  Deno.test(`icmp IPv${family}: an open connection survives every error`, () => {
    const h = new TcpTrace({}, family);
    const t = h.established();
    h.write(t, 100);
    for (const [type, code] of [HARD[family], SOFT[family]]) h.tcp.icmpError(error(h, type, code, 1), h.now);
    assertEquals(t.state, TcpState.Established);
    assertEquals(h.tcp.icmpError({ ...error(h, softType, softCode, 1), dstPort: 9 }, h.now), false);
    h.all();
    h.in({ flags: ".", seq: 1, ack: 101 });
    assertEquals(t.unackedBytes, 0);
  });

  Deno.test(`icmp IPv${family}: no route at a router is a soft error of the connection through it`, () => {
    const sim = new Simulator({ seed: 1 });
    const address = (n: number): string => family === 4 ? `10.0.0.${n}` : `fd00::${n}`;
    const a = sim.addStack("a", {
      address: `${address(1)}/${family === 4 ? 32 : 128}`,
      peers: [{ name: "r", allowed: address(2) }],
      routes: [{ to: family === 4 ? "10.9.0.0/16" : "fd09::/16", via: "r" }],
      tcp: { synRetries: 1 },
    });
    sim.addStack("r", {
      address: `${address(2)}/${family === 4 ? 32 : 128}`,
      forward: true,
      peers: [{ name: "a", allowed: address(1) }],
    });
    sim.link(["a", 1], ["r", 1]);
    const t = a.tcp.connect(IpAddr.parse(family === 4 ? "10.9.0.1" : "fd09::1"), 80, {}, 0);
    if (!(t instanceof Tcb)) throw new Error("refused");
    sim.run(10 * SECOND);
    assertEquals([t.state, t.error], [TcpState.Closed, SocketErrorKind.HostUnreachable]);
    assertMatch(t.errorText, /ICMP: (network unreachable|no route to destination)/);
  });
}
