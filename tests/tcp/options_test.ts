import { assertEquals } from "@std/assert";
import { TcpState } from "../../src/tcp/state.ts";
import { TcpTrace } from "../testing/tcp_trace.ts";

Deno.test("options: quickAcks acknowledges so often at once, until data answers", () => {
  const h = new TcpTrace({ quickAcks: 3 });
  const t = h.established();
  let seq = 1;
  for (let i = 0; i < 2; i++) {
    h.in({ flags: ".", seq, ack: 1, len: 1000 });
    h.out({ flags: ".", ack: seq += 1000, at: 0 });
  }
  h.in({ flags: ".", seq, ack: 1, len: 1000 }, false);
  h.write(t, 10);
  h.out({ flags: "P.", ack: seq += 1000, len: 10 });
  h.in({ flags: ".", seq, ack: 11, len: 1000 });
  h.quietUntil(39);
});

Deno.test("options: ackEverySecondSegment counts segments, whatever their size", () => {
  const sizes = [10, 10, 10, 10];
  for (const ackEverySecondSegment of [false, true]) {
    const h = new TcpTrace({ ackEverySecondSegment });
    h.established();
    let seq = 1;
    for (const len of sizes) {
      h.in({ flags: ".", seq, ack: 1, len });
      seq += len;
    }
    assertEquals(h.all().map((s) => s.ack), ackEverySecondSegment ? [21, 41] : []);
  }
});

Deno.test("options: delayFinAck lets the acknowledgment of a FIN wait while we may send, and then only", () => {
  const h = new TcpTrace({ delayFinAck: true });
  const t = h.established();
  h.in({ flags: "F.", seq: 1, ack: 1 });
  assertEquals(t.state, TcpState.CloseWait);
  h.quietUntil(39);
  h.pass(1);
  h.out({ flags: ".", ack: 2 });
  const closed = new TcpTrace({ delayFinAck: true });
  const u = closed.established();
  u.shutdownWrite(closed.now);
  closed.out({ flags: "F." });
  closed.in({ flags: "F.", seq: 1, ack: 1 });
  closed.out({ flags: ".", ack: 2, at: 0 });
});

Deno.test("options: rfc1337 keeps TIME-WAIT from being ended by a reset", () => {
  for (const rfc1337 of [false, true]) {
    const h = new TcpTrace({ rfc1337 });
    const t = h.established();
    t.shutdownWrite(h.now);
    h.in({ flags: "F.", seq: 1, ack: 2 });
    h.all();
    h.in({ flags: "R", seq: 2 });
    h.quiet();
    assertEquals(t.state, rfc1337 ? TcpState.TimeWait : TcpState.Closed);
    h.pass(60_000);
    assertEquals(h.tcp.connectionCount, 0);
  }
});

Deno.test("options: maxSegmentBytes bounds what is announced and what is sent", () => {
  const h = new TcpTrace({ maxSegmentBytes: 500 });
  h.listen();
  h.in({ flags: "S", seq: 0, mss: 1460 });
  h.out({ flags: "S.", mss: 500 });
  h.in({ flags: ".", seq: 1, ack: 1 });
  h.write([...h.tcp.connections()][0]!, 1200);
  assertEquals(h.all().map((s) => s.len), [500, 500, 200]);
  const least = new TcpTrace({ maxSegmentBytes: 1 });
  const t = least.established({ ts: true });
  least.write(t, 3);
  least.out({ flags: ".", len: 1 });
});

Deno.test("options: windowShift is announced and used", () => {
  const h = new TcpTrace({ windowShift: 9, receiveBufferBytes: 100_000 });
  h.listen();
  h.in({ flags: "S", seq: 0, mss: 1460, wscale: 0 });
  h.out({ flags: "S.", wscale: 9, win: 65535 });
  h.in({ flags: ".", seq: 1, ack: 1, len: 1000 });
  h.pass(40);
  h.out({ flags: ".", ack: 1001, win: 99_000 >> 9 });
});

Deno.test("options: dsack reports what came twice, once, before the other blocks (RFC 2883)", () => {
  const h = new TcpTrace();
  h.established({ sackOk: true });
  h.in({ flags: ".", seq: 1, ack: 1, len: 1000 });
  h.in({ flags: ".", seq: 501, ack: 1, len: 400 });
  h.out({ flags: ".", ack: 1001, sack: [[501, 901]] });
  h.in({ flags: ".", seq: 2001, ack: 1, len: 1000 });
  h.out({ flags: ".", ack: 1001, sack: [[2001, 3001]] });
  h.in({ flags: ".", seq: 1501, ack: 1, len: 1000 });
  h.out({ flags: ".", ack: 1001, sack: [[2001, 2501], [1501, 3001]] });
  h.in({ flags: ".", seq: 1, ack: 1, len: 100 });
  h.out({ flags: ".", ack: 1001, sack: [[1, 101], [1501, 3001]] });
  h.in({ flags: ".", seq: 901, ack: 1, len: 200 });
  h.out({ flags: ".", ack: 1101, sack: [[901, 1001], [1501, 3001]] });
  const off = new TcpTrace({ dsack: false });
  off.established({ sackOk: true });
  off.in({ flags: ".", seq: 1, ack: 1, len: 1000 });
  off.in({ flags: ".", seq: 1, ack: 1, len: 1000 });
  off.out({ flags: ".", ack: 1001, sack: [] });
});

Deno.test("options: what is off is not offered, and not used though the peer offers it", () => {
  const h = new TcpTrace({ windowScale: false, timestamps: false, sack: false });
  const t = h.connect();
  const s = h.out({ flags: "S", ts: false, sackOk: false });
  assertEquals(s.wscale, undefined);
  h.in({ flags: "S.", seq: 0, ack: 1, mss: 1460, wscale: 7, sackOk: true, ts: [1, 0], win: 1000 });
  h.out({ flags: ".", ts: false, win: 65535 });
  h.in({ flags: ".", seq: 11, ack: 1, len: 10, win: 1000 });
  h.out({ flags: ".", sack: [] });
  assertEquals([t.sndWnd, t.mss], [1000, 1460]);
});
