import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { SocketErrorKind } from "../../src/base/errors.ts";
import { Rng } from "../../src/base/rng.ts";
import type { TcpOptions } from "../../src/tcp/options.ts";
import { TcpState } from "../../src/tcp/state.ts";
import { Tcb } from "../../src/tcp/tcb.ts";
import { Tcp } from "../../src/tcp/tcp.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { seqDiff } from "../../src/wire/seq.ts";
import { type Segment, TcpTrace } from "../testing/tcp_trace.ts";
import { TransportNetwork } from "../testing/transport_network.ts";

type Ts = Exclude<Segment["ts"], undefined>;

/** A listener's connection in TIME-WAIT; the peer's FIN stood at 1, its last timestamp was 1,000. */
function passive(ts: boolean, options: Partial<TcpOptions> = {}, family: 4 | 6 = 4) {
  const h = new TcpTrace(options, family);
  const listener = h.listen();
  const val = (n: number): Ts => ts ? [n, 0] : false;
  h.in({ flags: "S", seq: 0, mss: 1460, ts: val(998) });
  h.in({ flags: ".", seq: 1, ack: 1, ts: val(999) });
  const t = listener.accept()!;
  t.shutdownWrite(h.now);
  h.flush();
  h.in({ flags: "F.", seq: 1, ack: 2, ts: val(1000) });
  h.all();
  assertEquals(t.state, TcpState.TimeWait);
  return { h, t, listener };
}

for (const family of [4, 6] as const) {
  // RFC 6191 section 2: the five cases in which a SYN opens again, and those in which it does not.
  const cases: [before: boolean, ts: Ts, seq: number, opens: boolean][] = [
    [true, [1001, 0], -5000, true],
    [true, [1000, 0], 2, true],
    [true, [1000, 0], 1, false],
    [true, [999, 0], 5000, false],
    [true, false, 2, true],
    [true, false, 1, false],
    [false, [1, 0], -5000, true],
    [false, false, 2, true],
    [false, false, 1, false],
  ];
  for (const [before, ts, seq, opens] of cases) {
    const what = `timestamps ${before ? "before" : "never"}, SYN ${seq} with ${ts ? (ts as number[])[0] : "none"}`;
    Deno.test(`TIME-WAIT IPv${family}: RFC 6191: ${what} ${opens ? "opens" : "does not open"}`, () => {
      const { h, t } = passive(before, {}, family);
      h.pass(1000);
      h.in({ flags: "S", seq, mss: 1460, ts });
      assertEquals(t.state, opens ? TcpState.Closed : TcpState.TimeWait);
      if (!opens) return assert(h.all().every(({ flags }) => flags === "."));
      // The new numbers begin well beyond the old ones.
      assertEquals(h.out({ flags: "S.", ack: seq + 1 }).seq, 2 + 65_537);
      assertEquals(h.tcp.connectionCount, 1);
    });
  }
}

Deno.test("TIME-WAIT: a SYN does not open where our own timestamps are off and its number is old", () => {
  const { h, t } = passive(false, { timestamps: false });
  h.in({ flags: "S", seq: 1, mss: 1460, ts: [9999, 0] });
  assertEquals(t.state, TcpState.TimeWait);
});

Deno.test("TIME-WAIT: SYNs that do not open are answered at most twice a second (RFC 5961 section 7)", () => {
  const { h } = passive(true);
  for (let i = 0; i < 1000; i++) {
    h.pass(10);
    h.in({ flags: "S", seq: i % 2 === 0 ? 1 : -5, mss: 1460, ts: [900, 0] });
  }
  const answers = h.all().length;
  assert(answers >= 19 && answers <= 21, `${answers} answers in 10 s`);
});

/** A connection of ours from port 80 in TIME-WAIT. */
function active(options: Partial<TcpOptions> = {}, ts = true, family: 4 | 6 = 4) {
  const h = new TcpTrace(options, family);
  const t = h.opened({ ts });
  t.shutdownWrite(h.now);
  h.flush();
  h.in({ flags: "F.", seq: 1, ack: 2 });
  h.all();
  assertEquals(t.state, TcpState.TimeWait);
  return { h, t };
}

function connect(h: TcpTrace): Tcb | SocketErrorKind {
  return h.tcp.connect(h.remote, h.remotePort, { localPort: 80 }, h.now);
}

for (const family of [4, 6] as const) {
  Deno.test(`TIME-WAIT IPv${family}: we connect from the same port after a second, if timestamps tell`, () => {
    const { h, t } = active({}, true, family);
    h.pass(999);
    assertEquals(connect(h), SocketErrorKind.AddrInUse);
    h.pass(1);
    const u = connect(h);
    assert(u instanceof Tcb);
    assertEquals([t.state, h.tcp.connectionCount, h.tcp.timeWaitCount], [TcpState.Closed, 1, 0]);
    const syn = h.out({ flags: "S", seq: 2 + 65_537, ts: true });
    // The peer may still be in LAST-ACK: its answer is refused by a reset, and the next SYN opens.
    h.in({ flags: ".", seq: 2, ack: 2, ts: [5, 0] });
    h.out({ flags: "R", seq: 2 });
    h.pass(1000);
    h.out({ flags: "S", seq: 2 + 65_537 });
    h.in({ flags: "S.", seq: 0, ack: syn.seq! + 1, mss: 1460, ts: [7, syn.ts ? (syn.ts as number[])[0]! : 0] });
    assertEquals(u.state, TcpState.Established);
  });
}

Deno.test("TIME-WAIT: we do not where timestamps do not tell, or when it is switched off", () => {
  for (const { h } of [active({}, false), active({ timeWaitReuse: false })]) {
    h.pass(10_000);
    assertEquals(connect(h), SocketErrorKind.AddrInUse);
    h.pass(60_000);
    assert(connect(h) instanceof Tcb);
  }
});

Deno.test("sequence: initial numbers move on by 64 ns, and differ by a secret between peers, ports and hosts (RFC 6528)", () => {
  const make = (seed: number, secret?: Int32Array): Tcp => {
    const network = Object.assign(new TransportNetwork(), { rng: new Rng(seed), secret });
    const tcp = { setFlowRate() {}, resetFlow() {}, flowBacklog: () => 0, lateness: () => 0 };
    return new Tcp(Object.assign(network, tcp), { timeWait: 0 });
  };
  const iss = (tcp: Tcp, remote: string, port: number, now: number): number => {
    const t = tcp.connect(IpAddr.parse(remote), port, { localPort: 1234 }, now);
    assert(t instanceof Tcb);
    t.close(now);
    return t.iss;
  };
  const a = make(1);
  const first = iss(a, "10.7.0.2", 80, 0);
  assertEquals(seqDiff(iss(a, "10.7.0.2", 80, 64_000_000), first), 1_000_000);
  // The clock goes round in 275 s; so do the numbers.
  assertEquals(iss(a, "10.7.0.2", 80, 64 * 2 ** 32), first);
  const others = [iss(a, "10.7.0.2", 81, 0), iss(a, "10.7.0.3", 80, 0), iss(make(2), "10.7.0.2", 80, 0)];
  assertEquals(new Set([first, ...others]).size, 4);
  const v6 = [iss(a, "fd07::2", 80, 0), iss(a, "fd07:1::2", 80, 0)];
  assertNotEquals(v6[0], v6[1]);
  // With a secret given, the seed plays no part in it.
  const key = new Int32Array([1, 2, 3, 4]);
  assertEquals(iss(make(1, key), "10.7.0.2", 80, 0), iss(make(2, key), "10.7.0.2", 80, 0));
  assertNotEquals(iss(make(1, new Int32Array([1, 2, 3, 5])), "10.7.0.2", 80, 0), iss(make(1, key), "10.7.0.2", 80, 0));
});
