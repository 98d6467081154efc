/**
 * Faults that another stack (smoltcp) had, by the numbers of its public tracker: each test shows that this one does
 * right. They run over both families and for both ways of opening, and all their sequence numbers pass 2^32.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { DropReason } from "../../src/base/drop.ts";
import { SocketErrorKind } from "../../src/base/errors.ts";
import { MILLISECOND } from "../../src/base/time.ts";
import type { TcpOptions } from "../../src/tcp/options.ts";
import { TcpState } from "../../src/tcp/state.ts";
import { RecoveryState } from "../../src/tcp/state.ts";
import type { Tcb } from "../../src/tcp/tcb.ts";
import { type Segment, TcpTrace } from "../testing/tcp_trace.ts";

const MSS = 1460;

interface Start {
  syn?: Partial<Segment>;
  options?: Partial<TcpOptions>;
  /** Round-trip time of the handshake in ms; the RTO is then 200 ms more, or three times it. */
  rtt?: number;
}

/** A test for each family and way of opening. */
function each(name: string, body: (open: (start?: Start) => [TcpTrace, Tcb]) => void): void {
  for (const family of [4, 6] as const) {
    for (const way of ["passive", "active"] as const) {
      Deno.test(`${name} (IPv${family}, ${way})`, () =>
        body(({ syn = {}, options = {}, rtt = 100 } = {}) => {
          const h = new TcpTrace(options, family);
          if (family === 6) h.mtu = 1520; // the same MSS
          return [h, way === "passive" ? h.established(syn, rtt) : h.opened(syn, rtt)];
        }));
    }
  }
}

function dup(h: TcpTrace, ack: number, times: number): void {
  for (let i = 0; i < times; i++) h.in({ flags: ".", seq: 1, ack });
}

each("#62: acknowledgments that bring nothing new do not put the retransmission timer off", (open) => {
  const [h, t] = open();
  h.write(t, 3 * MSS);
  h.all();
  for (let i = 0; i < 29; i++) {
    h.pass(10);
    h.in({ flags: ".", seq: 1, ack: 1, win: 60_000 + i });
    h.in({ flags: ".", seq: 1, ack: 1, win: 60_000 + i, len: 1 });
  }
  const { timeouts } = t.counters;
  h.pass(9);
  assertEquals([timeouts, t.counters.timeouts], [0, 0]);
  h.pass(1);
  assertEquals(t.counters.timeouts, 1);
  assert(h.all().some((s) => s.seq === 1 && s.len === MSS));
});

each("#949 #953 #1018: with data always outstanding the timer counts from the last progress", (open) => {
  const [h, t] = open({ rtt: 1000, options: { initialRto: 3000 * MILLISECOND } });
  t.noDelay = true;
  let acked = 1;
  for (let i = 0; i < 300; i++) {
    h.write(t, 1);
    h.pass(100);
    if (i >= 9) h.in({ flags: ".", seq: 1, ack: ++acked });
  }
  assertEquals(t.counters.bytesRetransmitted, 0);
  assert(t.hasOutstanding);
});

each("#406: no retransmission on a path of 200 ± 40 ms", (open) => {
  const [h, t] = open({ rtt: 200 });
  t.noDelay = true;
  const due: [at: number, ack: number][] = [];
  let written = 0;
  let seed = 7;
  for (let ms = 200; ms < 20_000; ms += 5) {
    h.until(ms);
    while (due.length > 0 && due[0]![0] <= ms) h.in({ flags: ".", seq: 1, ack: due.shift()![1] });
    if (ms % 25 !== 0) continue;
    h.write(t, 100);
    written += 100;
    seed = (seed * 1103515245 + 12345) % 2 ** 31;
    // A link that keeps the order.
    due.push([Math.max(due.at(-1)?.[0] ?? 0, ms + 160 + seed % 80), 1 + written]);
  }
  assertEquals([t.counters.bytesRetransmitted, t.counters.timeouts], [0, 0]);
  assert(t.counters.bytesAcked > 70_000);
});

each("#1190: the floor of the timeout is low, and configurable", (open) => {
  for (const [minRto, wait] of [[200, 200.1], [5, 5.1], [1, 1.1]] as const) {
    const [h, t] = open({ rtt: 0.05, options: { minRto: minRto * MILLISECOND } });
    h.write(t, 5 * MSS);
    h.pass(0.05);
    h.in({ flags: ".", seq: 1, ack: 1 + 3 * MSS }); // the last two are lost, and nothing follows them
    h.all();
    h.pass(wait);
    h.out({ flags: ".", seq: 1 + 3 * MSS });
    h.pass(0.05);
    h.in({ flags: ".", seq: 1, ack: 1 + 4 * MSS });
    h.out({ flags: ".", seq: 1 + 4 * MSS });
    h.pass(0.05);
    h.in({ flags: ".", seq: 1, ack: 1 + 5 * MSS });
    assertEquals(t.unackedBytes, 0);
  }
});

each("#26: the timeout that is shown is the one that is armed", (open) => {
  const [h, t] = open();
  h.write(t, 10);
  for (let i = 0; i < 4; i++) {
    h.flush();
    assertEquals(t.rtoAt - h.now, t.info().rto * MILLISECOND);
    assertEquals(h.tcp.nextAt(), t.rtoAt);
    h.pass(t.info().rto);
  }
});

each("#224 #225: 300 duplicates", (open) => {
  const [h, t] = open();
  h.write(t, 10 * MSS);
  h.all();
  dup(h, 1, 300);
  assertEquals(h.all().map((s) => [s.seq, s.len]), [[1, MSS]]);
  h.in({ flags: ".", seq: 1, ack: 1 + 10 * MSS });
  assertEquals([t.recovery, t.dupAcks, t.unackedBytes], [RecoveryState.Open, 0, 0]);
});

each("#748: window updates are no duplicates", (open) => {
  const [h, t] = open();
  h.write(t, 5 * MSS);
  h.all();
  for (const win of [50_000, 51_000, 52_000, 53_000]) h.in({ flags: ".", seq: 1, ack: 1, win });
  h.quiet();
  assertEquals(t.counters.dupAcksIn, 0);
});

each("#1155: the third duplicate sends one segment, the oldest; a partial acknowledgment the next hole", (open) => {
  const [h, t] = open();
  h.write(t, 10 * MSS);
  h.all();
  dup(h, 1, 3);
  h.out({ flags: ".", seq: 1, len: MSS });
  h.quiet();
  dup(h, 1, 5);
  h.quiet();
  h.in({ flags: ".", seq: 1, ack: 1 + 4 * MSS });
  h.out({ flags: ".", seq: 1 + 4 * MSS, len: MSS });
  h.quiet();
  h.in({ flags: ".", seq: 1001, ack: 1 + 4 * MSS, len: 5 }); // SND.NXT has not been rewound
  h.out({ flags: ".", seq: 1 + 10 * MSS, len: 0 });
});

each("#1149 #1156 #1157: one reduction an episode", (open) => {
  const [h, t] = open();
  h.write(t, 10 * MSS);
  h.all();
  dup(h, 1, 3);
  assertEquals(t.congestion.ssthresh, 5 * MSS);
  dup(h, 1, 50);
  h.in({ flags: ".", seq: 1, ack: 1 + 2 * MSS });
  dup(h, 1 + 2 * MSS, 50);
  assertEquals(t.congestion.ssthresh, 5 * MSS);
});

each("#1154: the congestion window is applied, whatever the peer offers", (open) => {
  const [h, t] = open({ syn: { wscale: 14, win: 65535 } });
  h.write(t, 500_000);
  assertEquals(h.all().length, 10);
});

for (const announced of [0, 1, 12, 100, 65535]) {
  each(`#1161: a peer's MSS of ${announced} with timestamps: bounded, goes forward, within the MTU`, (open) => {
    const [h, t] = open({ syn: { mss: announced, ts: true } });
    h.write(t, 2000);
    let acked = 1;
    for (let rounds = 0; acked < 2001; rounds++) {
      assert(rounds < 200, "does not go forward");
      const sent = h.all();
      assert(sent.length > 0 && sent.length < 100 && sent.every((s) => s.len! > 0));
      acked = sent.at(-1)!.seq! + sent.at(-1)!.len!;
      h.pass(10);
      h.in({ flags: ".", seq: 1, ack: acked });
    }
  });
}

each("#199: after a window of 0 the reader's progress is told", (open) => {
  const [h, t] = open({ options: { receiveBufferBytes: 4000 } });
  for (const seq of [1, 1001, 2001, 3001]) h.in({ flags: ".", seq, ack: 1, len: 1000 });
  assertEquals(h.all().at(-1)!.win, 0);
  h.read(t);
  h.out({ flags: ".", ack: 4001, win: 4000 });
});

each("#1026: a lost window update: probes, backed off, until one is answered", (open) => {
  const [h, t] = open();
  h.write(t, 100);
  h.all();
  h.pass(100);
  h.in({ flags: ".", seq: 1, ack: 101, win: 0 });
  h.write(t, 100);
  h.quiet();
  const start = h.now / MILLISECOND;
  h.pass(2500);
  assertEquals(h.all().length, 3);
  h.in({ flags: ".", seq: 1, ack: 101, win: 1000 });
  h.out({ flags: "P.", seq: 101, len: 100 });
  assertEquals(h.now / MILLISECOND - start, 2500);
});

each("#530: the third segment does not put the acknowledgment off again", (open) => {
  const [h] = open();
  for (const seq of [1, 1001, 2001]) h.in({ flags: ".", seq, ack: 1, len: 1000 }, false);
  h.out({ flags: ".", ack: 3001, at: 100 });
});

each("#1079: nothing beyond the window is taken, though the buffer has room", (open) => {
  const [h, t] = open({ options: { receiveBufferBytes: 64 } });
  h.in({ flags: ".", seq: 1, ack: 1, len: 64 });
  h.pass(40);
  h.out({ flags: ".", ack: 65, win: 0 });
  h.read(t, 15); // not worth telling
  h.quiet();
  h.in({ flags: ".", seq: 65, ack: 1, len: 1 });
  h.out({ flags: ".", ack: 65, win: 0 });
  assertEquals([t.readableBytes, h.drops.get(DropReason.TcpOutOfWindow)], [49, 1]);
});

each("#518: a reset, FIN or window of one connection never touches another", (open) => {
  const [h, t] = open();
  h.write(t, 10);
  h.all();
  const [, state, wnd, una] = [t.id, t.state, t.sndWnd, t.sndUna];
  for (const [remotePort, localPort] of [[h.remotePort + 1, h.localPort], [h.remotePort, h.localPort + 1]] as const) {
    [h.remotePort, h.localPort] = [remotePort, localPort];
    h.in({ flags: ".", seq: 1, ack: 11, win: 1 });
    h.in({ flags: "F.", seq: 1, ack: 11, win: 0 });
    h.in({ flags: "R", seq: 1 });
    h.in({ flags: "R.", seq: 1, ack: 11 });
    [h.remotePort, h.localPort] = [40000, 80];
    assertEquals([t.state, t.sndWnd, t.sndUna], [state, wnd, una]);
  }
});

each("#408 #499: never two partial segments in flight, though the buffer is no multiple of the MSS", (open) => {
  const [h, t] = open({ syn: { mss: 1350 }, options: { sendBufferBytes: 8192 } });
  const inFlight: Segment[] = [];
  for (let i = 0; i < 200; i++) {
    h.fill(t);
    inFlight.push(...h.all());
    assert(inFlight.filter((s) => s.len! < 1350).length <= 1, JSON.stringify(inFlight.map((s) => s.len)));
    h.pass(10);
    const [first] = inFlight.splice(0, 1 + i % 3).slice(-1);
    h.in({ flags: ".", seq: 1, ack: first!.seq! + first!.len! });
    inFlight.push(...h.all());
  }
});

each("#112: a FIN before missing data changes no state", (open) => {
  for (const closed of [false, true]) {
    const [h, t] = open();
    if (closed) {
      t.shutdownWrite(h.now);
      h.in({ flags: ".", seq: 1, ack: 2 });
    }
    h.all();
    const { state } = t;
    h.in({ flags: "F.", seq: 11, ack: closed ? 2 : 1, len: 5 });
    h.out({ flags: ".", ack: 1 });
    assertEquals([t.state, t.readEnded], [state, false]);
    h.in({ flags: ".", seq: 1, ack: closed ? 2 : 1, len: 10 });
    h.out({ flags: ".", ack: 17 });
    assertEquals(t.state, closed ? TcpState.TimeWait : TcpState.CloseWait);
  }
});

each("#470 #477 #1060 #1126: LAST-ACK ends by the acknowledgment of the FIN alone", (open) => {
  const [h, t] = open();
  h.in({ flags: "F.", seq: 1, ack: 1 });
  h.write(t, 100);
  t.shutdownWrite(h.now);
  h.all();
  assertEquals(t.state, TcpState.LastAck);
  h.in({ flags: ".", seq: 2, ack: 0 }); // older than anything: challenged
  h.out({ flags: ".", seq: 102, ack: 2 });
  h.in({ flags: ".", seq: 2, ack: 51 }); // partial: taken
  h.in({ flags: ".", seq: 2, ack: 101 });
  h.quiet();
  assertEquals(t.state, TcpState.LastAck);
  h.pass(500);
  h.all();
  h.in({ flags: ".", seq: 2, ack: 103 }); // of what was never sent: challenged
  h.out({ flags: ".", seq: 102, ack: 2 });
  assertEquals(t.state, TcpState.LastAck);
  h.in({ flags: ".", seq: 2, ack: 102 });
  assertEquals([t.state, t.error, h.tcp.connectionCount], [TcpState.Closed, SocketErrorKind.None, 0]);
});

each("#338: a reset counts at RCV.NXT exactly, and no reset is ever answered by one", (open) => {
  for (const off of [-1, 1, 30_000, -30_000, 100_000]) {
    const [h, t] = open();
    h.in({ flags: ".", seq: 1, ack: 1, len: 10 });
    h.pass(40);
    h.out({ flags: ".", ack: 11 });
    h.in({ flags: "R", seq: 11 + off });
    h.in({ flags: "R.", seq: 11 + off, ack: 1 });
    const answers = h.all();
    assert(answers.length <= 1 && answers.every((s) => s.flags === "."));
    assertEquals(t.state, TcpState.Established);
    h.in({ flags: "R", seq: 11 });
    h.quiet();
    assertEquals(t.error, SocketErrorKind.ConnectionReset);
    h.in({ flags: "R", seq: 11 });
    h.in({ flags: "R.", seq: 11, ack: 1 });
    h.quiet();
  }
});

each("#851 #1058: a reset reaches its connection, not a listener on the same port", (open) => {
  const [h, t] = open();
  const [local, remote] = [h.localPort, h.remotePort];
  if ([...h.tcp.connections()].length === 1) h.tcp.listen(h.local, local);
  h.remotePort++;
  h.in({ flags: "S", seq: 0, mss: 1460 });
  h.out({ flags: "S." });
  h.remotePort = remote;
  h.in({ flags: "R", seq: 1 });
  assertEquals([t.state, h.tcp.connectionCount], [TcpState.Closed, 1]);
  h.remotePort++;
  h.in({ flags: ".", seq: 1, ack: 1 });
  assertEquals([...h.tcp.connections()].map((c) => c.state), [TcpState.Established]);
});

for (const family of [4, 6] as const) {
  Deno.test(`#552: SYN-SENT answers a wrong acknowledgment with its number as a reset (IPv${family})`, () => {
    const h = new TcpTrace({}, family);
    const t = h.connect();
    h.out({ flags: "S" });
    for (const ack of [-5, 0, 2, 1_000_000]) {
      for (const flags of [".", "S.", "F.", "P."]) {
        h.in({ flags, seq: 77, ack });
        h.out({ flags: "R", seq: ack });
      }
      h.in({ flags: "R.", seq: 77, ack });
      h.quiet();
    }
    assertEquals(t.state, TcpState.SynSent);
  });

  Deno.test(`#1144: a SYN that no route leads back to is dropped (IPv${family})`, () => {
    const h = new TcpTrace({}, family);
    h.listen();
    h.mtu = 0;
    h.in({ flags: "S", seq: 0, mss: 1460 });
    h.quiet();
    assertEquals([h.tcp.connectionCount, h.drops.get(DropReason.NoRoute)], [0, 1]);
    assertEquals(h.tcp.connect(h.remote, 1, {}, h.now), SocketErrorKind.HostUnreachable);
  });
}

each("#261: a long series of one-byte segments, none next to another", (open) => {
  const [h, t] = open({ syn: { sackOk: true } });
  for (let i = 0; i < 3000; i++) h.in({ flags: ".", seq: 3 + 2 * i, ack: 1, len: 1 });
  assertEquals(h.all().length, 3000);
  for (let i = 0; i < 3000; i++) h.in({ flags: ".", seq: 1 + 2 * i, ack: 1, len: 2 });
  assertEquals(h.read(t), 6000);
  h.noLeak();
});

each("#1127 #226 #1142: after its turn the next deadline lies ahead, or there is none", (open) => {
  const [h, t] = open();
  const check = () => {
    h.flush();
    assert(h.tcp.nextAt() > h.now, "repolled at once");
  };
  check();
  h.write(t, 5000);
  check();
  h.packetsLeft = 0;
  h.write(t, 5000);
  h.in({ flags: ".", seq: 1, ack: 1, len: 100 });
  check();
  h.packetsLeft = Infinity;
  h.outputReason = DropReason.FlowLimit;
  for (let i = 0; i < 12; i++) {
    h.now = h.tcp.nextAt();
    check();
  }
  h.outputReason = DropReason.None;
  h.backlog = 1e9;
  h.write(t, 5000);
  check();
});

// Of gVisor's tracker.
each("gVisor ca345ca5a: after an abort nothing is left to be sent or acknowledged", (open) => {
  const [h, t] = open();
  h.write(t, 50_000);
  h.all();
  t.abort(h.now);
  h.out({ flags: "R.", seq: 1 + 10 * MSS });
  assertEquals([t.unsentBytes, t.unackedBytes, t.inFlightBytes, t.hasOutstanding], [0, 0, 0, false]);
});

each("gVisor bcb259a28: FIN-WAIT-1 begins when the FIN is queued", (open) => {
  const [h, t] = open({ syn: { win: 0 } });
  h.write(t, 10);
  t.shutdownWrite(h.now);
  h.quiet();
  assertEquals(t.state, TcpState.FinWait1);
});

for (const family of [4, 6] as const) {
  Deno.test(`gVisor #7075: a SYN that asks for ECN is answered, with it or without (IPv${family})`, () => {
    for (const ecn of ["off", "accept", "on"] as const) {
      const h = new TcpTrace({ ecn }, family);
      h.listen();
      h.in({ flags: "SEW", seq: 0, mss: 1460 });
      h.out({ flags: ecn === "off" ? "S." : "S.E" });
    }
  });
}
