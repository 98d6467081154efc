import { assert, assertEquals, assertThrows } from "@std/assert";
import { DropReason } from "../../src/base/drop.ts";
import { SocketErrorKind } from "../../src/base/errors.ts";
import { TcpState } from "../../src/tcp/state.ts";
import { Tcb } from "../../src/tcp/tcb.ts";
import { Tcp } from "../../src/tcp/tcp.ts";
import { TcpListener } from "../../src/tcp/listener.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { TcpTrace } from "../testing/tcp_trace.ts";

for (const family of [4, 6] as const) {
  const any = IpAddr.parse(family === 4 ? "0.0.0.0" : "::");

  Deno.test(`tcp IPv${family}: a listener on the address comes before one on any; each family has its own`, () => {
    const h = new TcpTrace({}, family);
    const everywhere = h.tcp.listen(any, 81);
    assert(everywhere instanceof TcpListener);
    h.localPort = 81;
    h.in({ flags: "S", seq: 0, mss: 1460 });
    h.out({ flags: "S." });
    h.in({ flags: ".", seq: 1, ack: 1 });
    assertEquals(everywhere.accept()!.localAddress.equals(h.local), true);
    assertEquals(h.tcp.listen(h.local, 81), SocketErrorKind.AddrInUse);
    assertEquals(h.tcp.listen(any, 81), SocketErrorKind.AddrInUse);
    const other = h.tcp.listen(IpAddr.parse(family === 4 ? "::" : "0.0.0.0"), 81);
    assert(other instanceof TcpListener);
    everywhere.close(h.now);
    h.remotePort++;
    h.in({ flags: "S", seq: 0, mss: 1460 });
    h.out({ flags: "R.", ack: 1 });
  });
}

Deno.test("tcp: many connections that differ in one port each keep their own data, windows and ends", () => {
  const h = new TcpTrace();
  const listener = h.listen(100);
  const all: Tcb[] = [];
  for (let i = 0; i < 50; i++) {
    h.remotePort = 40000 + i;
    h.in({ flags: "S", seq: 0, mss: 1460, win: 1000 + i });
    h.out({ flags: "S." });
    h.in({ flags: ".", seq: 1, ack: 1, win: 1000 + i });
    all.push(listener.accept()!);
  }
  for (let i = 0; i < 50; i++) {
    h.remotePort = 40000 + i;
    if (i % 3 === 0) h.in({ flags: "R", seq: 1 });
    else if (i % 3 === 1) h.in({ flags: "F.", seq: 1, ack: 1, win: 2000 + i });
    else h.in({ flags: ".", seq: 1, ack: 1, len: i, win: 3000 + i });
  }
  all.forEach((t, i) => {
    assertEquals(t.remotePort, 40000 + i);
    const state = [TcpState.Closed, TcpState.CloseWait, TcpState.Established][i % 3]!;
    assertEquals([t.state, t.readableBytes], [state, i % 3 === 2 ? i : 0]);
    if (i % 3 > 0) assertEquals(t.sndWnd, 1000 * (1 + i % 3) + i);
  });
  assertEquals(new Set(all.map((t) => t.id)).size, 50);
  assert(all.every((t) => t.flow > 0 && t.flow % 2 === 0));
  assertEquals(h.tcp.connectionCount, 33);
});

Deno.test("tcp: an id is used again only when its connection is gone; a late departure of the old flow does no harm", () => {
  const h = new TcpTrace();
  const a = h.connect({ localPort: 1000 });
  const b = h.connect({ localPort: 1001 });
  a.abort(h.now);
  const c = h.connect({ localPort: 1002 });
  assertEquals([c.id, b.id === c.id, c.flow], [a.id, false, a.flow]);
  h.tcp.departed(a.flow);
  h.tcp.departed(1 << 20);
  h.tcp.departed(7);
  h.flush();
  assertEquals([a.state, c.state], [TcpState.Closed, TcpState.SynSent]);
});

Deno.test("tcp: a connection that was aborted while it was ready is left out of the turn", () => {
  const h = new TcpTrace();
  const t = h.established();
  h.write(t, 100);
  t.abort(h.now);
  const u = h.connect({ localPort: 1000 });
  h.out({ flags: "R.", seq: 1 });
  h.localPort = 1000;
  h.out({ flags: "S" });
  h.quiet();
  assertEquals(u.state, TcpState.SynSent);
});

Deno.test("tcp: the number of connections is bounded", () => {
  const h = new TcpTrace({ connectionLimit: 2 });
  h.listen();
  h.connect({ localPort: 1000 });
  h.connect({ localPort: 1001 });
  h.all();
  assertEquals(h.tcp.connect(h.remote, 7, {}, h.now), SocketErrorKind.NoBufferSpace);
  h.in({ flags: "S", seq: 0, mss: 1460 });
  h.quiet();
  assertEquals(h.drops.get(DropReason.TcpBacklog), 1);
});

Deno.test("tcp: ports of the dynamic range, never one that is taken", () => {
  const h = new TcpTrace();
  const connected = new Set<number>();
  const listening = new Set<number>();
  for (let i = 0; i < 200; i++) {
    const t = h.tcp.connect(h.remote, 7, {}, h.now);
    assert(t instanceof Tcb);
    connected.add(t.localPort);
    const l = h.tcp.listen(h.local, 0);
    assert(l instanceof TcpListener);
    listening.add(l.localPort);
    assert(t.localPort >= 49152 && l.localPort >= 49152 && t.localPort <= 65535 && l.localPort <= 65535);
  }
  assertEquals([connected.size, listening.size], [200, 200]);
});

Deno.test("tcp: addresses: of the other family, not ours, no route", () => {
  const h = new TcpTrace();
  const v6 = IpAddr.parse("fd07::2");
  assertEquals(h.tcp.connect(v6, 7, { localAddress: h.local }, 0), SocketErrorKind.AddrNotAvailable);
  assertEquals(h.tcp.connect(h.remote, 7, { localAddress: h.remote }, 0), SocketErrorKind.AddrNotAvailable);
  h.mtu = 0;
  assertEquals(h.tcp.connect(h.remote, 7, {}, 0), SocketErrorKind.HostUnreachable);
  assertThrows(() => new Tcp(h, { congestion: "westwood" }), TypeError);
});

Deno.test("tcp: initial sequence numbers: by clock and tuple, secret, and the same again for the same seed", () => {
  class Plain extends Tcp {
    sequenceOf(t: Tcb, now: number): number {
      return this.generateSequence(t, now);
    }
  }
  const make = () => {
    const h = new TcpTrace();
    const tcp = new Plain(h);
    const t = (port: number) => tcp.connect(h.remote, 7, { localPort: port }, 0) as Tcb;
    return { tcp, a: t(1000), b: t(1001) };
  };
  const { tcp, a, b } = make();
  assertEquals(tcp.sequenceOf(a, 64_000) - tcp.sequenceOf(a, 0) | 0, 1000);
  assert(tcp.sequenceOf(a, 0) !== tcp.sequenceOf(b, 0));
  assertEquals(make().tcp.sequenceOf(make().a, 0) === tcp.sequenceOf(a, 0), true);
  const later = 2 ** 50; // 13 days: the clock has wrapped often
  assertEquals(tcp.sequenceOf(a, later + 128) - tcp.sequenceOf(a, later) | 0, 2);
});

Deno.test("TIME-WAIT: a new SYN by its timestamp, whatever its sequence number (RFC 6191)", () => {
  const h = new TcpTrace();
  const t = h.established({ ts: true });
  t.shutdownWrite(h.now);
  h.in({ flags: "F.", seq: 1, ack: 2 });
  h.all();
  assertEquals(t.state, TcpState.TimeWait);
  h.in({ flags: "S", seq: -1000, mss: 1460, ts: [t.tsRecent - 1, 0] });
  h.in({ flags: "S", seq: 5000, mss: 1460, ts: [t.tsRecent - 1, 0] });
  assertEquals(t.state, TcpState.TimeWait);
  h.all();
  h.in({ flags: "S", seq: -1000, mss: 1460, ts: [t.tsRecent + 1, 0] });
  const s = h.out({ flags: "S.", ack: -999 });
  assert(s.seq! >= 2 + 65537, "the new numbers begin beyond the old ones");
  assertEquals([t.state, h.tcp.connectionCount], [TcpState.Closed, 1]);
});

Deno.test("TIME-WAIT: not given up for a SYN that the full backlog would refuse", () => {
  const h = new TcpTrace({ timestamps: false });
  const listener = h.listen(1);
  h.in({ flags: "S", seq: 0, mss: 1460 });
  h.in({ flags: ".", seq: 1, ack: 1 });
  const t = listener.accept()!;
  t.shutdownWrite(h.now);
  h.in({ flags: "F.", seq: 1, ack: 2 });
  h.remotePort++;
  h.in({ flags: "S", seq: 0, mss: 1460 });
  h.remotePort--;
  h.all();
  h.in({ flags: "S", seq: 5000, mss: 1460 });
  assertEquals(t.state, TcpState.TimeWait);
});

Deno.test("listener: closing resets what waits, and is told once", () => {
  const h = new TcpTrace();
  const listener = h.listen();
  for (const port of [40000, 40001, 40002]) {
    h.remotePort = port;
    h.in({ flags: "S", seq: 0, mss: 1460 });
    if (port > 40000) h.in({ flags: ".", seq: 1, ack: 1 });
  }
  h.in({ flags: "R", seq: 1 }); // the last is reset while it waits, and still handed out
  assertEquals(listener.pending, 2);
  h.all();
  listener.close(h.now);
  assertEquals(h.all().map((s) => s.flags), ["R.", "R."]);
  listener.events = 0;
  listener.close(h.now);
  h.quiet();
  assertEquals(listener.events, 0);
  assertEquals([h.tcp.connectionCount, listener.accept()], [0, null]);
  h.noLeak();
});

Deno.test("listener: a connection that was reset while it waited is handed out with its data and its error", () => {
  const h = new TcpTrace();
  const listener = h.listen();
  h.in({ flags: "S", seq: 0, mss: 1460 });
  h.in({ flags: ".", seq: 1, ack: 1, len: 10 });
  h.in({ flags: "R", seq: 11 });
  const t = listener.accept()!;
  assertEquals([t.error, h.read(t), t.readEnded], [SocketErrorKind.ConnectionReset, 10, true]);
});
