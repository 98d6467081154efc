import { assert, assertEquals } from "@std/assert";
import { SocketErrorKind } from "../../src/base/errors.ts";
import { NEVER, SECOND } from "../../src/base/time.ts";
import { TcpState } from "../../src/tcp/state.ts";
import { nextDeadline } from "../../src/tcp/timers.ts";
import { SocketEvent, TcpTrace } from "../testing/tcp_trace.ts";

Deno.test("timers: the retransmission timer begins with the first segment and with each acknowledgment of new data", () => {
  const h = new TcpTrace();
  const t = h.established({}, 100);
  assertEquals(t.rtoAt, NEVER);
  h.write(t, 1460);
  h.flush();
  assertEquals(t.rtoAt, 400e6);
  h.pass(50);
  h.write(t, 2920);
  h.flush();
  assertEquals(t.rtoAt, 400e6);
  h.pass(50);
  h.in({ flags: ".", seq: 1, ack: 1 });
  h.in({ flags: ".", seq: 1, ack: 1, win: 1234 });
  assertEquals(t.rtoAt, 400e6);
  h.in({ flags: ".", seq: 1, ack: 1461, win: 1234 });
  assertEquals(t.rtoAt, h.now + t.rtt.rto);
  h.in({ flags: ".", seq: 1, ack: 1461 + 2920 });
  assertEquals([t.rtoAt, nextDeadline(t)], [NEVER, NEVER]);
});

Deno.test("timers: a closed window is probed, at doubling intervals for as long as the peer answers", () => {
  const h = new TcpTrace({ retries: 3 });
  const t = h.established({}, 100);
  h.write(t, 1000);
  h.all();
  h.pass(100);
  h.in({ flags: ".", seq: 1, ack: 1001, win: 0 });
  h.write(t, 1000);
  h.quiet();
  let at = 200;
  for (const gap of [300, 600, 1200, 2400, 4800, 9600, 19200, 38400, 76800, 120000, 120000]) {
    at += gap;
    h.quietUntil(at - 1);
    h.until(at);
    h.out({ flags: ".", seq: 1000, len: 0, ack: 1, at });
    h.in({ flags: ".", seq: 1, ack: 1001, win: 0 });
    h.quiet();
  }
  assertEquals(t.counters.windowProbes, 11);
  // The window opens: on it goes, and the next closure begins with the short interval.
  h.in({ flags: ".", seq: 1, ack: 1001, win: 5000 });
  h.out({ flags: "P.", seq: 1001, len: 1000 });
  h.pass(100);
  h.in({ flags: ".", seq: 1, ack: 2001, win: 0 });
  h.write(t, 10);
  h.pass(t.info().rto);
  h.out({ flags: ".", seq: 2000, len: 0 });
});

Deno.test("timers: a window update that was lost is found by the probe's answer", () => {
  const h = new TcpTrace({ receiveBufferBytes: 1000 });
  const t = h.established();
  h.in({ flags: ".", seq: 1, ack: 1, len: 1000 });
  h.pass(40);
  h.out({ flags: ".", ack: 1001, win: 0 });
  h.read(t);
  h.out({ flags: ".", ack: 1001, win: 1000 }); // lost
  h.pass(500);
  h.in({ flags: ".", seq: 1000, ack: 1 }); // an empty segment just before the window, as Linux and we probe
  h.out({ flags: ".", ack: 1001, win: 1000 });
  h.pass(500);
  h.in({ flags: ".", seq: 1001, ack: 1, len: 1 }); // or a byte of data
  h.pass(40);
  h.out({ flags: ".", ack: 1002 });
});

Deno.test("timers: probes that nobody answers end the connection", () => {
  const h = new TcpTrace({ retries: 3 });
  const t = h.established({ win: 0 }, 100);
  h.write(t, 1000);
  h.pass(60_000);
  assertEquals(h.all().map((s) => [s.seq, s.len]), [[0, 0], [0, 0], [0, 0]]);
  assertEquals([t.state, t.error], [TcpState.Closed, SocketErrorKind.TimedOut]);
  assertEquals(t.errorText, "the peer did not answer 3 window probes");
  assert(h.eventsOf(t) & SocketEvent.Closed);
  h.noLeak();
});

Deno.test("timers: a window that stays closed does not keep a connection whose application is gone", () => {
  const h = new TcpTrace();
  const t = h.established({ win: 0 }, 100);
  h.write(t, 1000);
  t.close(h.now);
  let probes = 0;
  for (let i = 0; i < 300 && h.tcp.connectionCount > 0; i++) {
    h.pass(1000);
    for (const s of h.all()) {
      if (s.flags.includes("R")) continue;
      probes++;
      h.in({ flags: ".", seq: 1, ack: 1, win: 0 });
    }
  }
  assertEquals([probes, h.tcp.connectionCount], [8, 0]);
  h.noLeak();
});

Deno.test("timers: nextAt is in the future after timeout, and NEVER when nothing runs", () => {
  const h = new TcpTrace();
  const t = h.established();
  h.write(t, 5000);
  assertEquals(h.tcp.nextAt(), 0);
  h.flush();
  assert(h.tcp.nextAt() > h.now);
  h.in({ flags: ".", seq: 1, ack: 5001 });
  h.pass(1000); // the entry of the timer that was put off runs out and does nothing
  assertEquals(h.tcp.nextAt(), NEVER);
  assertEquals(h.all().length, 4);
});

Deno.test("timers: TIME-WAIT is not prolonged by anything but the FIN", () => {
  const h = new TcpTrace({ timeWait: SECOND });
  const t = h.established();
  t.shutdownWrite(h.now);
  h.in({ flags: "F.", seq: 1, ack: 2 });
  h.all();
  h.pass(900);
  h.in({ flags: ".", seq: 2, ack: 2 });
  h.in({ flags: ".", seq: 2, ack: 2, len: 10 });
  h.in({ flags: ".", seq: 1, ack: 2, len: 1 });
  h.pass(100);
  assertEquals(h.tcp.connectionCount, 0);
});
