import { assert, assertEquals } from "@std/assert";
import { SocketErrorKind } from "../../src/base/errors.ts";
import { TcpState, tcpStateName } from "../../src/tcp/state.ts";
import type { Tcb } from "../../src/tcp/tcb.ts";
import { readAll, TcpTrace } from "../testing/tcp_trace.ts";

Deno.test("close: we first: FIN-WAIT-1, FIN-WAIT-2, TIME-WAIT, gone", () => {
  const h = new TcpTrace({ timeWait: 1e9 });
  const t = h.established();
  t.shutdownWrite(h.now);
  h.out({ flags: "F.", seq: 1, ack: 1 });
  assertEquals(t.state, TcpState.FinWait1);
  h.in({ flags: ".", seq: 1, ack: 2 });
  assertEquals(t.state, TcpState.FinWait2);
  h.in({ flags: "P.", seq: 1, ack: 2, data: "late" });
  assertEquals(new TextDecoder().decode(readAll(t)), "late");
  h.in({ flags: "F.", seq: 5, ack: 2 });
  h.out({ flags: ".", seq: 2, ack: 6 });
  assertEquals([t.state, t.readEnded], [TcpState.TimeWait, true]);
  h.pass(500);
  h.in({ flags: "F.", seq: 5, ack: 2 }); // our ACK was lost: again, and the wait begins anew
  h.out({ flags: ".", ack: 6 });
  h.pass(999);
  assertEquals(h.tcp.connectionCount, 1);
  h.pass(2);
  assertEquals([h.tcp.connectionCount, t.error], [0, SocketErrorKind.None]);
  h.noLeak();
});

Deno.test("close: the peer first: CLOSE-WAIT, LAST-ACK, gone; data goes out in CLOSE-WAIT", () => {
  const h = new TcpTrace();
  const t = h.established();
  h.in({ flags: "F.", seq: 1, ack: 1 });
  h.out({ flags: ".", ack: 2 });
  assertEquals([t.state, t.readEnded], [TcpState.CloseWait, true]);
  t.write(new Uint8Array(5), 0, 5);
  h.out({ flags: "P.", seq: 1, ack: 2, len: 5 });
  t.shutdownWrite(h.now);
  h.out({ flags: "F.", seq: 6, ack: 2 });
  assertEquals(t.state, TcpState.LastAck);
  h.in({ flags: ".", seq: 2, ack: 6 }); // not yet the FIN
  assertEquals(t.state, TcpState.LastAck);
  h.in({ flags: ".", seq: 2, ack: 7 });
  assertEquals([t.state, h.tcp.connectionCount], [TcpState.Closed, 0]);
});

Deno.test("close: both at once: CLOSING, TIME-WAIT", () => {
  const h = new TcpTrace();
  const t = h.established();
  t.shutdownWrite(h.now);
  h.out({ flags: "F.", seq: 1, ack: 1 });
  h.in({ flags: "F.", seq: 1, ack: 1 });
  h.out({ flags: ".", seq: 2, ack: 2 });
  assertEquals(t.state, TcpState.Closing);
  h.in({ flags: ".", seq: 2, ack: 2 });
  assertEquals(t.state, TcpState.TimeWait);
});

Deno.test("close: FIN with the acknowledgment of ours goes straight to TIME-WAIT", () => {
  const h = new TcpTrace();
  const t = h.established();
  t.shutdownWrite(h.now);
  h.out({ flags: "F." });
  h.in({ flags: "F.", seq: 1, ack: 2 });
  h.out({ flags: ".", seq: 2, ack: 2 });
  assertEquals(t.state, TcpState.TimeWait);
});

Deno.test("close: data before the FIN goes first, in one piece with it where it fits", () => {
  const h = new TcpTrace({ timestamps: false });
  const t = h.established();
  t.write(new Uint8Array(1465), 0, 1465);
  t.shutdownWrite(h.now);
  assertEquals(t.write(new Uint8Array(1), 0, 1), -1);
  assertEquals(t.state, TcpState.FinWait1);
  h.out({ flags: ".", seq: 1, len: 1460 });
  h.out({ flags: "FP.", seq: 1461, len: 5 });
  h.quiet();
});

Deno.test("close: a FIN with data missing before it changes nothing until the hole is filled", () => {
  const h = new TcpTrace();
  const t = h.established();
  h.in({ flags: "F.", seq: 11, ack: 1, len: 10 });
  h.out({ flags: ".", ack: 1 });
  assertEquals(t.state, TcpState.Established);
  h.in({ flags: ".", seq: 1, ack: 1, len: 10 });
  h.out({ flags: ".", ack: 22 });
  assertEquals([t.state, t.readableBytes], [TcpState.CloseWait, 20]);
});

Deno.test("close: a lost FIN is repeated", () => {
  const h = new TcpTrace();
  const t = h.established();
  t.shutdownWrite(h.now);
  h.out({ flags: "F.", seq: 1 });
  h.pass(5000);
  h.out({ flags: "F.", seq: 1 });
  h.in({ flags: ".", seq: 1, ack: 2 });
  assertEquals(t.state, TcpState.FinWait2);
});

Deno.test("close: unread data makes it a reset (RFC 2525 2.17)", () => {
  const h = new TcpTrace();
  const t = h.established();
  h.in({ flags: "P.", seq: 1, ack: 1, len: 10 });
  t.close(h.now);
  h.out({ flags: "R.", seq: 1, ack: 11 });
  assertEquals([t.state, h.tcp.connectionCount], [TcpState.Closed, 0]);
});

Deno.test("close: data that comes after a full close is answered by a reset", () => {
  const h = new TcpTrace();
  const t = h.established();
  t.close(h.now);
  h.out({ flags: "F.", seq: 1 });
  h.in({ flags: "P.", seq: 1, ack: 2, len: 10 });
  h.out({ flags: "R.", seq: 2 });
  assertEquals(h.tcp.connectionCount, 0);
});

Deno.test("close: an abandoned FIN-WAIT-2 ends by itself", () => {
  const h = new TcpTrace({ finWait2: 2e9 });
  const t = h.established();
  t.close(h.now);
  h.in({ flags: ".", seq: 1, ack: 2 });
  assertEquals(t.state, TcpState.FinWait2);
  h.pass(1999);
  assertEquals(t.state, TcpState.FinWait2);
  h.pass(2);
  assertEquals(h.tcp.connectionCount, 0);
});

Deno.test("close: so does one that is abandoned later, counted from then", () => {
  const h = new TcpTrace({ finWait2: 2e9 });
  const t = h.established();
  t.shutdownWrite(h.now);
  h.in({ flags: ".", seq: 1, ack: 2 });
  h.pass(60_000);
  assertEquals(t.state, TcpState.FinWait2);
  t.close(h.now);
  h.pass(1999);
  assertEquals(t.state, TcpState.FinWait2);
  h.pass(2);
  assertEquals([t.state, h.tcp.connectionCount], [TcpState.Closed, 0]);
});

Deno.test("close: in SYN-RECEIVED the FIN follows the handshake", () => {
  const h = new TcpTrace();
  h.listen();
  h.in({ flags: "S", seq: 0, mss: 1460 });
  h.out({ flags: "S." });
  const t = [...h.tcp.connections()][0]!;
  t.shutdownWrite(h.now);
  h.quiet();
  h.in({ flags: ".", seq: 1, ack: 1 });
  h.out({ flags: "F.", seq: 1 });
  assertEquals(t.state, TcpState.FinWait1);
});

Deno.test("close: TIME-WAIT takes a new SYN beyond the old sequence numbers, not one below", () => {
  const h = new TcpTrace({ timestamps: false });
  const t = h.established();
  t.shutdownWrite(h.now);
  h.in({ flags: "F.", seq: 1, ack: 2 });
  h.all();
  assertEquals(t.state, TcpState.TimeWait);
  h.in({ flags: "S", seq: 0, mss: 1460 });
  h.out({ flags: ".", ack: 2 });
  h.in({ flags: "S", seq: 5000, mss: 1460 });
  const s = h.out({ flags: "S.", ack: 5001 });
  assert(s.seq! > 2);
  assertEquals([t.state, h.tcp.connectionCount], [TcpState.Closed, 1]);
});

Deno.test("close: a reset kills TIME-WAIT", () => {
  const h = new TcpTrace();
  const t = h.established();
  t.shutdownWrite(h.now);
  h.in({ flags: "F.", seq: 1, ack: 2 });
  h.all();
  h.in({ flags: "R", seq: 2 });
  assertEquals([t.state, t.error], [TcpState.Closed, SocketErrorKind.None]);
});

/** Ways into each synchronised state. */
const WAYS: readonly [TcpState, (h: TcpTrace, t: Tcb) => void][] = [
  [TcpState.Established, () => {}],
  [TcpState.FinWait1, (h, t) => t.shutdownWrite(h.now)],
  [TcpState.FinWait2, (h, t) => {
    t.shutdownWrite(h.now);
    h.in({ flags: ".", seq: 1, ack: 2 });
  }],
  [TcpState.CloseWait, (h) => h.in({ flags: "F.", seq: 1, ack: 1 })],
  [TcpState.Closing, (h, t) => {
    t.shutdownWrite(h.now);
    h.flush();
    h.in({ flags: "F.", seq: 1, ack: 1 });
  }],
  [TcpState.LastAck, (h, t) => {
    h.in({ flags: "F.", seq: 1, ack: 1 });
    t.shutdownWrite(h.now);
  }],
  [TcpState.TimeWait, (h, t) => {
    t.shutdownWrite(h.now);
    h.flush();
    h.in({ flags: "F.", seq: 1, ack: 2 });
  }],
];

for (const family of [4, 6] as const) {
  for (const [state, way] of WAYS) {
    const name = tcpStateName(state);
    const into = (): [TcpTrace, Tcb] => {
      const h = new TcpTrace({}, family);
      const t = h.established();
      way(h, t);
      h.all();
      assertEquals(t.state, state);
      return [h, t];
    };
    const rcv = [TcpState.CloseWait, TcpState.Closing, TcpState.LastAck, TcpState.TimeWait].includes(state) ? 2 : 1;

    Deno.test(`reset IPv${family} in ${name}: exact resets, in window is challenged, outside ignored, never answered by RST`, () => {
      const [h, t] = into();
      h.in({ flags: "R", seq: rcv + 1_000_000_000 });
      h.quiet();
      h.in({ flags: "R", seq: rcv + 100 });
      h.out({ flags: ".", ack: rcv });
      assertEquals(t.state, state);
      h.in({ flags: "R", seq: rcv + 101 }); // at most one in 500 ms
      h.quiet();
      h.in({ flags: "R", seq: rcv });
      h.quiet();
      assertEquals([t.state, h.tcp.connectionCount], [TcpState.Closed, 0]);
      h.noLeak();
    });

    Deno.test(`SYN IPv${family} in ${name} is challenged and changes nothing (RFC 5961 4)`, () => {
      const [h, t] = into();
      h.in({ flags: "S", seq: rcv + 10, mss: 1460 });
      const sent = h.all();
      assertEquals(sent.filter((s) => s.flags.includes("R")), []);
      assertEquals(t.state === state || state === TcpState.TimeWait, true);
    });

    Deno.test(`acknowledgment IPv${family} of what was never sent in ${name} is answered and dropped`, () => {
      const [h, t] = into();
      h.in({ flags: ".", seq: rcv, ack: 1000 });
      h.out({ flags: ".", ack: rcv });
      assertEquals(t.state, state);
    });

    Deno.test(`abort IPv${family} in ${name}`, () => {
      const [h, t] = into();
      t.abort(h.now);
      if (state === TcpState.TimeWait) h.quiet();
      else h.out({ flags: "R." });
      assertEquals(h.tcp.connectionCount, 0);
      h.noLeak();
    });
  }
}
