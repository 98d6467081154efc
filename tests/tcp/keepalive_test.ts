import { assert, assertEquals } from "@std/assert";
import { SocketErrorKind } from "../../src/base/errors.ts";
import { NEVER, SECOND } from "../../src/base/time.ts";
import { TcpState } from "../../src/tcp/state.ts";
import { SocketEvent, TcpTrace } from "../testing/tcp_trace.ts";

const HOUR = 3_600_000;

for (const family of [4, 6] as const) {
  for (const way of ["opened", "established"] as const) {
    Deno.test(`keep-alive (IPv${family}, ${way}): off by default, then two hours and every 75 s, nine times`, () => {
      const off = new TcpTrace({}, family);
      off[way]();
      off.quietUntil(5 * HOUR);

      const h = new TcpTrace({ keepAlive: true }, family);
      const t = h[way]();
      h.quietUntil(2 * HOUR - 1);
      h.until(2 * HOUR + 8 * 75_000 + 74_999);
      for (let i = 0; i < 9; i++) h.out({ flags: ".", seq: 0, ack: 1, len: 0, at: 2 * HOUR + i * 75_000 });
      h.quiet();
      assertEquals(t.state, TcpState.Established);
      h.pass(1);
      h.out({ flags: "R.", seq: 1, ack: 1 });
      assertEquals([t.state, t.error], [TcpState.Closed, SocketErrorKind.TimedOut]);
      assertEquals(t.errorText, "the peer did not answer 9 keep-alive probes");
      assertEquals(t.counters.keepAliveProbes, 9);
      assert(h.eventsOf(t) & SocketEvent.Closed);
      assertEquals(h.tcp.nextAt(), NEVER);
      h.noLeak();
    });
  }
}

const OPTIONS = { keepAlive: true, keepAliveIdle: 10 * SECOND, keepAliveInterval: 2 * SECOND, keepAliveProbes: 3 };

Deno.test("keep-alive: an answer begins the idle time anew, and the count of probes", () => {
  const h = new TcpTrace(OPTIONS);
  const t = h.established();
  let at = 10_000;
  for (let i = 0; i < 5; i++) {
    h.until(at + 2000);
    h.out({ flags: ".", seq: 0, ack: 1, at });
    h.out({ flags: ".", seq: 0, ack: 1, at: at + 2000 });
    h.pass(500);
    h.in({ flags: ".", seq: 1, ack: 1 });
    assertEquals(t.keepAliveProbesSent, 0);
    at += 12_500;
    h.quietUntil(at - 1);
  }
  assertEquals(t.state, TcpState.Established);
});

Deno.test("keep-alive: an idle time shorter than the interval counts from the answer too", () => {
  const h = new TcpTrace({ ...OPTIONS, keepAliveIdle: SECOND, keepAliveInterval: 60 * SECOND });
  h.established();
  for (let i = 1; i <= 5; i++) {
    h.pass(1000);
    h.out({ flags: ".", seq: 0, at: 1000 * i });
    h.in({ flags: ".", seq: 1, ack: 1 });
  }
  h.quiet();
});

Deno.test("keep-alive: data that comes puts the probe off", () => {
  const h = new TcpTrace(OPTIONS);
  const t = h.established();
  for (let i = 0; i < 10; i++) {
    h.pass(9000);
    h.in({ flags: ".", seq: 1 + i, ack: 1, len: 1 });
    h.pass(100);
    assertEquals(h.all().map(({ seq, ack }) => [seq, ack]), [[1, 2 + i]]);
  }
  h.pass(9899);
  h.quiet();
  h.pass(1);
  h.out({ flags: ".", seq: 0, ack: 11 });
  assertEquals(t.counters.keepAliveProbes, 1);
});

Deno.test("keep-alive: nothing is probed while data is outstanding or waits for the window", () => {
  const h = new TcpTrace({ ...OPTIONS, retries: 20, mtuProbing: "off" });
  const t = h.established();
  h.write(t, 100);
  h.pass(60_000);
  assert(h.all().every(({ seq, len }) => seq === 1 && len === 100), "only the data is sent again");
  h.in({ flags: ".", seq: 1, ack: 101, win: 0 });
  h.write(t, 100);
  h.pass(60_000);
  assertEquals(t.counters.keepAliveProbes, 0);
  assert(t.counters.windowProbes > 0);
  h.all();
  // Both are over: from now on it is idle.
  h.in({ flags: ".", seq: 1, ack: 101, win: 1000 });
  h.in({ flags: ".", seq: 1, ack: 201, win: 1000 });
  h.all();
  h.pass(21_000);
  assertEquals(h.all().map(({ seq, len }) => [seq, len]).slice(0, 1), [[200, 0]]);
});

Deno.test("keep-alive: an answered probe is no duplicate, and moves nothing", () => {
  const h = new TcpTrace(OPTIONS);
  const t = h.established({ win: 5000 });
  h.pass(10_000);
  h.out({ flags: ".", seq: 0 });
  for (let i = 0; i < 5; i++) h.in({ flags: ".", seq: 1, ack: 1, win: 5000 });
  h.quiet();
  assertEquals([t.counters.dupAcksIn, t.counters.fastRetransmits, t.sndWnd], [0, 0, 5000]);
});

Deno.test("keep-alive: switched on and off while the connection is open, and chosen for one connection", () => {
  const h = new TcpTrace({ ...OPTIONS, keepAlive: false });
  const t = h.established();
  h.pass(4000);
  t.setKeepAlive(true, h.now);
  h.quietUntil(9_999); // the idle time counts from the last segment
  h.pass(1);
  h.out({ flags: ".", seq: 0 });
  t.setKeepAlive(false, h.now);
  h.quietUntil(100_000);
  assertEquals(t.keepAliveAt, NEVER);
  t.setKeepAlive(true, h.now);
  h.pass(0);
  h.out({ flags: ".", seq: 0, at: 100_000 });
  h.in({ flags: "R", seq: 1 });
  assertEquals(t.state, TcpState.Closed);
  t.setKeepAlive(true, h.now);
  h.quietUntil(200_000);

  const one = new TcpTrace();
  const u = one.connect({ keepAlive: true, keepAliveIdle: SECOND, keepAliveInterval: SECOND, keepAliveProbes: 1 });
  one.in({ flags: "S.", seq: 0, ack: 1, mss: 1460 });
  one.all();
  one.pass(1000);
  one.out({ flags: ".", seq: 0 });
  one.pass(1000);
  one.out({ flags: "R." });
  assertEquals(u.error, SocketErrorKind.TimedOut);
});

Deno.test("keep-alive: half-closed connections are probed, TIME-WAIT is not", () => {
  const h = new TcpTrace(OPTIONS);
  const t = h.established();
  t.shutdownWrite(h.now);
  h.out({ flags: "F.", seq: 1 });
  h.in({ flags: ".", seq: 1, ack: 2 });
  assertEquals(t.state, TcpState.FinWait2);
  h.pass(10_000);
  h.out({ flags: ".", seq: 1, ack: 1, at: 10_000 });
  h.in({ flags: "F.", seq: 1, ack: 2 });
  h.out({ flags: ".", ack: 2 });
  assertEquals(t.state, TcpState.TimeWait);
  h.quietUntil(100_000);
  assertEquals(h.tcp.connectionCount, 0);
});

Deno.test("keep-alive: our own answer to a probe, with and without a byte of garbage (RFC 9293 3.8.4)", () => {
  const h = new TcpTrace();
  const t = h.established();
  h.in({ flags: ".", seq: 0, ack: 1 });
  h.out({ flags: ".", seq: 1, ack: 1 });
  h.in({ flags: ".", seq: 0, ack: 1, len: 1 });
  h.out({ flags: ".", seq: 1, ack: 1 });
  assertEquals(t.readableBytes, 0);
});
