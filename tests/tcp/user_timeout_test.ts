import { assert, assertEquals } from "@std/assert";
import { SocketErrorKind } from "../../src/base/errors.ts";
import { SECOND } from "../../src/base/time.ts";
import { TcpState } from "../../src/tcp/state.ts";
import { TcpTrace } from "../testing/tcp_trace.ts";

for (const family of [4, 6] as const) {
  Deno.test(`user timeout IPv${family}: data that is never acknowledged ends the connection at that time`, () => {
    const h = new TcpTrace({ userTimeout: 10 * SECOND, retries: 1 }, family);
    const t = h.established({}, 100);
    h.quietUntil(500_000); // not while idle
    h.write(t, 1000);
    h.until(509_999);
    assert(h.all().length > 4, "the number of retransmissions does not count");
    assertEquals(t.state, TcpState.Established);
    h.pass(1);
    assertEquals([t.state, t.error], [TcpState.Closed, SocketErrorKind.TimedOut]);
    assertEquals(t.errorText, "nothing was acknowledged for 10 s");
    h.noLeak();
  });
}

Deno.test("user timeout: each acknowledgment of something new begins it anew, others do not", () => {
  const h = new TcpTrace({ userTimeout: 5 * SECOND });
  const t = h.established({}, 100);
  h.write(t, 10_000);
  h.all();
  for (let i = 1; i <= 5; i++) {
    h.pass(4000);
    h.in({ flags: ".", seq: 1, ack: 1 + 1460 * i });
  }
  for (let i = 0; i < 4; i++) {
    h.pass(1000);
    h.in({ flags: ".", seq: 1, ack: 7301, win: 60_000 + i });
  }
  assertEquals(t.state, TcpState.Established);
  h.pass(999);
  assertEquals(t.state, TcpState.Established);
  h.pass(1);
  assertEquals([t.state, h.now / SECOND], [TcpState.Closed, 25.1]);
});

Deno.test("user timeout: a window that stays closed, though the peer answers every probe", () => {
  const h = new TcpTrace({ userTimeout: 20 * SECOND });
  const t = h.established({ win: 0 }, 100);
  h.quietUntil(300_000); // nothing waits
  h.write(t, 1000);
  for (let i = 0; i < 19; i++) {
    h.pass(1000);
    if (h.all().length > 0) h.in({ flags: ".", seq: 1, ack: 1, win: 0 });
  }
  assertEquals([t.state, t.retries], [TcpState.Established, 0]);
  h.pass(1000);
  assertEquals([t.state, t.error, h.now / SECOND], [TcpState.Closed, SocketErrorKind.TimedOut, 320]);
});

Deno.test("user timeout: a window that opens in time begins it anew", () => {
  const h = new TcpTrace({ userTimeout: 20 * SECOND });
  const t = h.established({ win: 0 }, 100);
  h.write(t, 1000);
  h.pass(19_000);
  h.all();
  h.in({ flags: ".", seq: 1, ack: 1, win: 1000 });
  h.out({ flags: ".", seq: 1, len: 1000 });
  h.pass(19_000);
  assertEquals(t.state, TcpState.Established);
  h.in({ flags: ".", seq: 1, ack: 1001, win: 0 });
  h.all();
  h.quietUntil(200_000);
  assertEquals(t.state, TcpState.Established);
});

Deno.test("user timeout: a SYN, a SYN-ACK and a FIN count as data", () => {
  const h = new TcpTrace({ userTimeout: 2 * SECOND });
  const t = h.connect();
  h.pass(1999);
  assertEquals([t.state, h.all().length], [TcpState.SynSent, 2]);
  h.pass(1);
  assertEquals([t.state, t.error], [TcpState.Closed, SocketErrorKind.TimedOut]);

  const listening = new TcpTrace({ userTimeout: 2 * SECOND });
  listening.listen();
  listening.in({ flags: "S", seq: 0, mss: 1460 });
  listening.pass(2000);
  assertEquals(listening.tcp.connectionCount, 0);

  const closing = new TcpTrace({ userTimeout: 2 * SECOND });
  const u = closing.established({}, 100);
  u.close(closing.now);
  closing.pass(1999);
  assertEquals(u.state, TcpState.FinWait1);
  closing.pass(1);
  assertEquals(u.state, TcpState.Closed);
});

Deno.test("user timeout: set while the data is already on its way, and taken back", () => {
  const h = new TcpTrace({ retries: 100 });
  const t = h.established({}, 100);
  h.write(t, 1000);
  h.pass(30_000);
  t.setUserTimeout(40 * SECOND);
  h.pass(9000);
  t.setUserTimeout(0);
  h.pass(100_000);
  assertEquals(t.state, TcpState.Established);
  t.setUserTimeout(SECOND); // long past
  h.pass(0);
  assertEquals(t.state, TcpState.Closed);
  const one = new TcpTrace();
  const u = one.connect({ userTimeout: SECOND });
  one.pass(1000);
  assertEquals(u.state, TcpState.Closed);
});

Deno.test("user timeout: what ICMP said meanwhile is told", () => {
  const h = new TcpTrace({ userTimeout: 3 * SECOND });
  const t = h.established({}, 100);
  h.write(t, 10);
  h.pass(100);
  t.softError = "host unreachable";
  h.pass(3000);
  assertEquals(t.errorText, "nothing was acknowledged for 3 s; ICMP: host unreachable");
});
