import { assert, assertEquals } from "@std/assert";
import { SocketErrorKind } from "../../src/base/errors.ts";
import { TcpState } from "../../src/tcp/state.ts";
import { readAll, SocketEvent, TcpTrace } from "../testing/tcp_trace.ts";

for (const family of [4, 6] as const) {
  const mss = family === 4 ? 1460 : 1440;

  Deno.test(`handshake IPv${family}: active open; the SYN-ACK is acknowledged at once, ahead of data`, () => {
    const h = new TcpTrace({}, family);
    const t = h.connect();
    t.write(new Uint8Array(3), 0, 3);
    h.out({ flags: "S", seq: 0, mss, sackOk: true, ts: true, wscale: 5, win: 65535, at: 0 });
    h.until(30);
    h.quiet();
    h.in({ flags: "S.", seq: 0, ack: 1, mss: 1400 });
    h.out({ flags: ".", seq: 1, ack: 1, len: 0, ts: false, at: 30 });
    h.out({ flags: "P.", seq: 1, ack: 1, len: 3, at: 30 });
    assertEquals(t.state, TcpState.Established);
    assertEquals(t.mss, 1400);
    assertEquals(t.info().rtt, 30);
    assert(h.eventsOf(t) & SocketEvent.Connected);
    h.noLeak();
  });

  Deno.test(`handshake IPv${family}: an idle client acknowledges the SYN-ACK at once too`, () => {
    const h = new TcpTrace({}, family);
    h.connect();
    h.out({ flags: "S" });
    h.in({ flags: "S.", seq: 0, ack: 1, mss: 1460 });
    h.out({ flags: ".", seq: 1, ack: 1, len: 0, at: 0 });
    h.quiet();
  });

  Deno.test(`handshake IPv${family}: passive open with all options, MSS less the timestamps`, () => {
    const h = new TcpTrace({}, family);
    const t = h.established({ sackOk: true, ts: true, wscale: 7, mss: 9000, win: 1000 });
    assertEquals([t.state, t.timestampsOn, t.sackOn, t.sndWndShift], [TcpState.Established, true, true, 7]);
    assertEquals(t.mss, mss - 12);
    assertEquals(t.sndWnd, 1000 << 7);
  });

  Deno.test(`handshake IPv${family}: without an MSS option the default counts`, () => {
    const h = new TcpTrace({ timestamps: false }, family);
    h.listen();
    h.in({ flags: "S", seq: 0 });
    h.out({ flags: "S.", mss });
    assertEquals([...h.tcp.connections()][0]!.mss, family === 4 ? 536 : 1220);
  });
}

Deno.test("handshake: an option is used only if both SYNs carry it", () => {
  const h = new TcpTrace();
  h.listen();
  h.in({ flags: "S", seq: 0, mss: 1460 });
  const s = h.out({ flags: "S.", ack: 1, sackOk: false, ts: false });
  assertEquals(s.wscale, undefined);
});

for (const announced of [0, 1, 12, 48, 65535]) {
  Deno.test(`handshake: MSS ${announced} with timestamps still moves data in packets within the MTU`, () => {
    const h = new TcpTrace();
    const t = h.established({ mss: announced, ts: true });
    t.write(new Uint8Array(3000), 0, 3000);
    const sent = h.all();
    assert(sent.length > 0 && sent.length <= 200);
    assert(sent.every((s) => s.len! > 0));
  });
}

Deno.test("handshake: the SYN is repeated at 1, 3, 7 s and given up after the retries", () => {
  const h = new TcpTrace({ synRetries: 3 });
  const t = h.connect();
  h.out({ flags: "S", at: 0 });
  h.until(20_000);
  h.out({ flags: "S", at: 1000 });
  h.out({ flags: "S", at: 3000 });
  h.out({ flags: "S", at: 7000 });
  h.quiet();
  assertEquals([t.state, t.error], [TcpState.Closed, SocketErrorKind.TimedOut]);
  assertEquals([t.counters.timeouts, t.counters.synRetransmits], [3, 3]);
  assertEquals(t.errorText, "no answer to 3 retransmissions of the connection attempt");
  assert(h.eventsOf(t) & SocketEvent.Closed);
  assertEquals(h.tcp.connectionCount, 0);
});

Deno.test("handshake: a repeated SYN gives no RTT sample without timestamps, and data begins with 3 s (RFC 6298 5.7)", () => {
  const h = new TcpTrace({ timestamps: false });
  const t = h.connect();
  h.until(1500);
  h.all();
  h.in({ flags: "S.", seq: 0, ack: 1, mss: 1460 });
  h.all();
  assertEquals(t.info().rtt, 0);
  assertEquals(t.info().rto, 3000);
});

Deno.test("handshake: RST to the SYN refuses; only with an acceptable acknowledgment", () => {
  const h = new TcpTrace();
  const t = h.connect();
  h.out({ flags: "S" });
  h.in({ flags: "R", seq: 0 });
  h.in({ flags: "R.", seq: 0, ack: 7 });
  h.quiet();
  assertEquals(t.state, TcpState.SynSent);
  h.in({ flags: "R.", seq: 0, ack: 1 });
  assertEquals([t.state, t.error], [TcpState.Closed, SocketErrorKind.ConnectionRefused]);
  h.quiet();
});

Deno.test("handshake: a wrong acknowledgment in SYN-SENT is answered by RST with its number", () => {
  const h = new TcpTrace();
  const t = h.connect();
  h.out({ flags: "S" });
  h.in({ flags: ".", seq: 10, ack: 5 });
  h.out({ flags: "R", seq: 5 });
  h.in({ flags: "S.", seq: 10, ack: 0 });
  h.out({ flags: "R", seq: 0 });
  assertEquals(t.state, TcpState.SynSent);
});

Deno.test("handshake: simultaneous open", () => {
  const h = new TcpTrace();
  const t = h.connect();
  h.out({ flags: "S", seq: 0 });
  h.in({ flags: "S", seq: 0, mss: 1460 });
  h.out({ flags: "S.", seq: 0, ack: 1 });
  assertEquals(t.state, TcpState.SynReceived);
  h.in({ flags: "S.", seq: 0, ack: 1, mss: 1460 });
  assertEquals(t.state, TcpState.Established);
  h.all();
  t.write(new Uint8Array(10), 0, 10);
  h.out({ flags: "P.", seq: 1, ack: 1, len: 10 });
});

Deno.test("handshake: data and FIN in the SYN-ACK are taken", () => {
  const h = new TcpTrace();
  const t = h.connect();
  h.out({ flags: "S" });
  h.in({ flags: "FS.", seq: 0, ack: 1, mss: 1460, data: "hello" });
  h.out({ flags: ".", seq: 1, ack: 1 });
  h.out({ flags: ".", seq: 1, ack: 7 });
  assertEquals(new TextDecoder().decode(readAll(t)), "hello");
  assertEquals([t.state, t.readEnded], [TcpState.CloseWait, true]);
});

Deno.test("handshake: a listener answers ACK with RST, ignores RST and nonsense, keeps listening", () => {
  const h = new TcpTrace();
  const listener = h.listen();
  h.in({ flags: "R", seq: 0 });
  h.in({ flags: "", seq: 0 });
  h.in({ flags: "F", seq: 0 });
  h.quiet();
  h.in({ flags: ".", seq: 0, ack: 77 });
  h.out({ flags: "R", seq: 77 });
  h.in({ flags: "S.", seq: 0, ack: 77 });
  h.out({ flags: "R", seq: 77 });
  h.in({ flags: "S", seq: 0, mss: 1460 });
  h.out({ flags: "S.", ack: 1 });
  h.in({ flags: "R", seq: 1 });
  assertEquals(h.tcp.connectionCount, 0);
  h.in({ flags: "S", seq: 0, mss: 1460 });
  h.out({ flags: "S.", ack: 1 });
  h.in({ flags: ".", seq: 1, ack: 1 });
  assert(listener.accept() !== null);
  h.noLeak();
});

Deno.test("handshake: no listener: SYN gets RST.ACK, ACK gets RST, RST gets nothing", () => {
  const h = new TcpTrace();
  h.in({ flags: "S", seq: 0, len: 3 });
  h.out({ flags: "R.", ack: 4 });
  h.in({ flags: "F", seq: 5, len: 3 });
  h.out({ flags: "R.", ack: 9 });
  h.in({ flags: "", seq: 5, len: 3 });
  h.out({ flags: "R.", ack: 8 });
  h.in({ flags: ".", seq: 5, ack: 9 });
  h.out({ flags: "R", seq: 9 });
  h.in({ flags: "R", seq: 5 });
  h.quiet();
  h.noLeak();
});

Deno.test("handshake: the SYN again in SYN-RECEIVED brings the SYN-ACK again; it is also repeated by its own timer", () => {
  const h = new TcpTrace({ synAckRetries: 2 });
  h.listen();
  h.in({ flags: "S", seq: 0, mss: 1460 });
  h.out({ flags: "S.", at: 0 });
  h.until(300);
  h.in({ flags: "S", seq: 0, mss: 1460 });
  h.out({ flags: "S.", at: 300 });
  h.until(20_000);
  h.out({ flags: "S.", at: 1000 });
  h.out({ flags: "S.", at: 3000 });
  h.quiet();
  assertEquals(h.tcp.connectionCount, 0);
});

Deno.test("handshake: the backlog bounds half-open and waiting connections together", () => {
  const h = new TcpTrace();
  const listener = h.listen(2);
  for (let i = 0; i < 4; i++) {
    h.remotePort = 40000 + i;
    h.in({ flags: "S", seq: 0, mss: 1460 });
  }
  assertEquals(h.all().length, 2);
  assertEquals(h.tcp.connectionCount, 2);
  h.remotePort = 40000;
  h.in({ flags: ".", seq: 1, ack: 1 });
  assertEquals(listener.isFull, true);
  listener.accept();
  assertEquals(listener.isFull, false);
  listener.close(h.now);
  assertEquals(h.tcp.connectionCount, 1);
});

Deno.test("handshake: an attempt that ends, by a reset or by its timer, gives its place in the backlog back", () => {
  const h = new TcpTrace({ synAckRetries: 1 });
  const listener = h.listen(1);
  for (const end of [() => h.in({ flags: "R", seq: 1 }), () => h.pass(10_000)]) {
    h.in({ flags: "S", seq: 0, mss: 1460 });
    assertEquals(listener.isFull, true);
    end();
    assertEquals([listener.isFull, listener.pending], [false, 0]);
  }
});

Deno.test("handshake: an acknowledgment that is wrong in SYN-RECEIVED gets RST", () => {
  const h = new TcpTrace();
  h.listen();
  h.in({ flags: "S", seq: 0, mss: 1460 });
  h.out({ flags: "S." });
  for (const ack of [2, 0, -1, 100_000]) {
    h.in({ flags: ".", seq: 1, ack });
    h.out({ flags: "R", seq: ack });
  }
  assertEquals([...h.tcp.connections()][0]!.state, TcpState.SynReceived);
});

Deno.test("handshake: ports and addresses in use are refused", () => {
  const h = new TcpTrace();
  h.listen();
  assertEquals(h.tcp.listen(h.local, 80), SocketErrorKind.AddrInUse);
  assertEquals(h.tcp.listen(h.remote, 81), SocketErrorKind.AddrNotAvailable);
  h.connect({ localPort: 5000 });
  assertEquals(h.tcp.connect(h.remote, h.remotePort, { localPort: 5000 }, 0), SocketErrorKind.AddrInUse);
});

Deno.test("handshake: on the smallest of links segments fit, whatever the peer announces", () => {
  for (const announced of [0, 1, 48, 1460]) {
    const h = new TcpTrace();
    h.mtu = 68;
    const t = h.established({ mss: announced, ts: true });
    h.write(t, 100);
    h.out({ flags: ".", len: 68 - 40 - 12 }); // the trace refuses packets beyond the MTU
  }
});

Deno.test("handshake: a SYN in the window of SYN-RECEIVED gives a passive open up, and challenges an active one", () => {
  const passive = new TcpTrace();
  passive.listen();
  passive.in({ flags: "S", seq: 0, mss: 1460 });
  passive.out({ flags: "S." });
  passive.in({ flags: "S", seq: 100, mss: 1460 });
  assertEquals(passive.tcp.connectionCount, 0);
  passive.in({ flags: "S", seq: 100, mss: 1460 });
  passive.out({ flags: "S.", ack: 101 });

  const active = new TcpTrace();
  const t = active.connect();
  active.in({ flags: "S", seq: 0, mss: 1460 });
  active.all();
  active.in({ flags: "S", seq: 100, mss: 1460 });
  active.out({ flags: ".", seq: 1, ack: 1 });
  assertEquals(t.state, TcpState.SynReceived);
});

Deno.test("handshake: the SYN-ACK again, since our acknowledgment was lost, is acknowledged again", () => {
  const h = new TcpTrace();
  const t = h.opened();
  h.in({ flags: "S.", seq: 0, ack: 1, mss: 1460 });
  h.out({ flags: ".", seq: 1, ack: 1 });
  assertEquals(t.state, TcpState.Established);
});

Deno.test("handshake: simultaneous open, our SYN-ACK lost: their SYN again brings it again", () => {
  const h = new TcpTrace();
  const t = h.connect();
  h.in({ flags: "S", seq: 0, mss: 1460 });
  assertEquals(h.all().map((s) => s.flags), ["S", "S."]);
  h.in({ flags: "S", seq: 0, mss: 1460 });
  h.out({ flags: "S.", seq: 0, ack: 1 });
  h.in({ flags: ".", seq: 1, ack: 1 });
  assertEquals(t.state, TcpState.Established);
});

Deno.test("handshake: data that waits in SYN-SENT and its FIN follow the acknowledgment", () => {
  const h = new TcpTrace({ timestamps: false });
  const t = h.connect();
  h.write(t, 2000);
  t.shutdownWrite(h.now);
  assertEquals(t.unsentBytes, 2000);
  h.out({ flags: "S" });
  h.quiet();
  h.in({ flags: "S.", seq: 0, ack: 1, mss: 1460 });
  h.out({ flags: ".", seq: 1, len: 0 });
  h.out({ flags: ".", seq: 1, len: 1460 });
  h.out({ flags: "F.", seq: 1461, len: 540 });
  assertEquals(t.state, TcpState.FinWait1);
});

for (const family of [4, 6] as const) {
  Deno.test(`handshake IPv${family}: a SYN or SYN-ACK for which there is no packet follows when the timer has run out`, () => {
    for (const way of ["active", "passive", "simultaneous"]) {
      const h = new TcpTrace({}, family);
      h.pass(100_000);
      if (way === "passive") h.listen();
      h.packetsLeft = way === "simultaneous" ? 1 : 0;
      const t = way === "passive" ? null : h.connect();
      if (way !== "active") h.in({ flags: "S", seq: 0, mss: 1460 });
      h.all();
      h.pass(999);
      h.quiet();
      h.packetsLeft = Infinity;
      h.pass(1);
      h.out({ flags: way === "active" ? "S" : "S.", seq: 0 });
      assertEquals([h.tcp.connectionCount, t?.retries ?? 1], [1, 1], way);
    }
  });
}

Deno.test("handshake: closing in SYN-SENT forgets the attempt without a word", () => {
  const h = new TcpTrace();
  const t = h.connect();
  h.out({ flags: "S" });
  t.close(h.now);
  h.quietUntil(10_000);
  assertEquals([t.state, t.error, h.tcp.connectionCount], [TcpState.Closed, SocketErrorKind.None, 0]);
  h.in({ flags: "S.", seq: 0, ack: 1, mss: 1460 });
  h.out({ flags: "R", seq: 1 });
});
