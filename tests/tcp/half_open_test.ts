/**
 * What a peer says that is at odds with us about the connection: resets that carry data, SYNs of one that has begun anew,
 * acknowledgments from before the end, and SYNs that were answered twice.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import { DropReason } from "../../src/base/drop.ts";
import { SocketErrorKind } from "../../src/base/errors.ts";
import { SocketEvent } from "../../src/base/event_queue.ts";
import { TcpState, tcpStateName } from "../../src/tcp/state.ts";
import { Tcb } from "../../src/tcp/tcb.ts";
import { readAll, TcpTrace } from "../testing/tcp_trace.ts";

for (const family of [4, 6] as const) {
  for (const window of ["open", "closed"]) {
    Deno.test(`reset IPv${family}: what it carries is no data: only its number counts, the window being ${window}`, () => {
      const h = new TcpTrace({ receiveBufferBytes: 1000 }, family);
      const t = h.established();
      const len = window === "open" ? 10 : 1000;
      h.in({ flags: ".", seq: 1, ack: 1, len });
      h.pass(100);
      h.all();
      // Reaches into the window from before it, but stands outside: silence (RFC 5961 section 3.2).
      h.in({ flags: "R", seq: len, len: 5 });
      h.in({ flags: "RF", seq: len, len: 5 });
      h.quiet();
      assertEquals(t.state, TcpState.Established);
      h.in({ flags: "R.", seq: 1 + len, ack: 1, data: "why" });
      h.quiet();
      assertEquals([t.state, t.error, readAll(t).length], [TcpState.Closed, SocketErrorKind.ConnectionReset, len]);
      h.noLeak();
    });
  }

  Deno.test(`half-open IPv${family}: a SYN without timestamps is answered, so that the peer can reset what we have`, () => {
    for (const seq of [500_000, 100, -70_000]) {
      const h = new TcpTrace({}, family);
      const t = h.established({ ts: true });
      h.in({ flags: "S", seq, mss: 1460, ts: false });
      h.out({ flags: ".", seq: 1, ack: 1, len: 0 });
      h.in({ flags: ".", seq: 1, ack: 1, len: 10, ts: false }); // anything else without is still passed over
      h.quiet();
      assertEquals([t.state, t.readableBytes], [TcpState.Established, 0]);
      h.in({ flags: "R", seq: 1, ts: false });
      assertEquals(t.error, SocketErrorKind.ConnectionReset);
      h.in({ flags: "S", seq, mss: 1460, ts: false });
      h.out({ flags: "S.", ack: seq + 1 });
    }
  });

  Deno.test(`half-open IPv${family}: so in SYN-RECEIVED, where it is the SYN again, and in TIME-WAIT`, () => {
    const h = new TcpTrace({}, family);
    h.listen();
    h.in({ flags: "S", seq: 0, mss: 1460, ts: [7, 0] });
    h.out({ flags: "S.", ack: 1 });
    h.in({ flags: "S", seq: 0, mss: 1460, ts: false });
    h.out({ flags: "S.", ack: 1 });
    const w = new TcpTrace({}, family);
    const t = w.established({ ts: true });
    t.shutdownWrite(w.now);
    w.in({ flags: "F.", seq: 1, ack: 2 });
    w.all();
    assertEquals(t.state, TcpState.TimeWait);
    w.in({ flags: "S", seq: -5000, mss: 1460, ts: false });
    w.out({ flags: ".", seq: 2, ack: 2 });
  });

  Deno.test(`FIN IPv${family}: data that was sent before the peer saw our FIN is taken, though it comes after`, () => {
    for (const written of [0, 1, 3000]) {
      const h = new TcpTrace({}, family);
      const t = h.established();
      h.write(t, written);
      t.shutdownWrite(h.now);
      h.all();
      h.in({ flags: ".", seq: 11, ack: 2 + written }); // has overtaken the data before it
      assertEquals(t.state, TcpState.FinWait2);
      h.in({ flags: "P.", seq: 1, ack: 1, len: 10 });
      assertEquals(t.readableBytes, 10);
      // An acknowledgment of the SYN's own number is older than anything (RFC 5961 section 5.2).
      h.pass(1000);
      h.all();
      h.in({ flags: ".", seq: 11, ack: 0 });
      h.out({ flags: ".", ack: 11 });
      assertEquals(t.state, TcpState.FinWait2);
    }
  });
}

/** Ways into the states in which both sides have closed, with `bytes` not acknowledged. */
const CLOSING: readonly [TcpState, (h: TcpTrace, t: Tcb, bytes: number) => void][] = [
  [TcpState.Closing, (h, t, bytes) => {
    h.write(t, bytes);
    t.shutdownWrite(h.now);
    h.flush();
    h.in({ flags: "F.", seq: 1, ack: 1 });
  }],
  [TcpState.LastAck, (h, t, bytes) => {
    h.in({ flags: "F.", seq: 1, ack: 1 });
    h.write(t, bytes);
    t.shutdownWrite(h.now);
  }],
];

for (const [state, way] of CLOSING) {
  Deno.test(`reset in ${tcpStateName(state)}: an error if data is lost by it, none if only the FIN is`, () => {
    for (const bytes of [0, 100]) {
      for (const acked of [0, bytes]) {
        const h = new TcpTrace();
        const t = h.established();
        way(h, t, bytes);
        h.all();
        assertEquals(t.state, state);
        h.in({ flags: ".", seq: 2, ack: 1 + acked });
        h.in({ flags: "R.", seq: 2, ack: 1 + acked });
        const error = acked < bytes ? SocketErrorKind.ConnectionReset : SocketErrorKind.None;
        assertEquals([t.state, t.error], [TcpState.Closed, error]);
      }
    }
  });
}

Deno.test("events: Closed comes once, when TIME-WAIT begins, however that ends", () => {
  for (const end of ["time", "reset", "a new SYN", "our own connect"]) {
    const h = new TcpTrace({ timeWait: 5e9 });
    const t = h.established({ ts: true });
    let closed = 0;
    const poll = () => {
      for (let source = h.events.poll(); source !== null; source = h.events.poll()) {
        if (source === t && (source.events & SocketEvent.Closed) !== 0) closed++;
        source.events = 0;
      }
      return closed;
    };
    t.shutdownWrite(h.now);
    h.in({ flags: "F.", seq: 1, ack: 2 });
    assertEquals([t.state, poll()], [TcpState.TimeWait, 1]);
    h.pass(2000);
    if (end === "time") h.pass(5000);
    else if (end === "reset") h.in({ flags: "R", seq: 2 });
    else if (end === "a new SYN") h.in({ flags: "S", seq: 500_000 });
    else h.connect();
    assertEquals([t.state, poll()], [TcpState.Closed, 1], end);
  }
});

Deno.test("connect: what became of another segment says nothing about a SYN for which there was no packet", () => {
  const h = new TcpTrace();
  h.outputReason = DropReason.NoRoute;
  assertEquals(h.tcp.connect(h.remote, 7, {}, h.now), SocketErrorKind.HostUnreachable);
  h.outputReason = DropReason.None;
  h.packetsLeft = 0;
  const t = h.tcp.connect(h.remote, 7, {}, h.now);
  assertEquals(t instanceof Tcb && t.state, TcpState.SynSent);
});
