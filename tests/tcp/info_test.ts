import { assertAlmostEquals, assertEquals, assertMatch } from "@std/assert";
import { MILLISECOND } from "../../src/base/time.ts";
import { formatTcpInfo, type TcpInfo } from "../../src/tcp/info.ts";
import { TcpTrace } from "../testing/tcp_trace.ts";

Deno.test("info: a snapshot after fast retransmit, timeout, probe and data out of order", () => {
  const h = new TcpTrace();
  const t = h.established({ wscale: 7 }, 100);
  h.write(t, 12 * 1460);
  assertEquals(h.all().length, 10);
  for (let i = 0; i < 3; i++) h.in({ flags: ".", seq: 1, ack: 1 }); // two more go out, then the first again
  assertEquals(h.all().length, 3);
  h.pass(100);
  h.in({ flags: ".", seq: 1, ack: 1 + 5 * 1460 }); // a partial acknowledgment
  h.pass(600);
  h.in({ flags: ".", seq: 1, ack: 1 + 12 * 1460, win: 0 });
  h.in({ flags: ".", seq: 1, ack: 1 + 12 * 1460, win: 0, len: 100 });
  h.in({ flags: ".", seq: 201, ack: 1 + 12 * 1460, win: 0, len: 100 });
  h.in({ flags: ".", seq: 201, ack: 1 + 12 * 1460, win: 0, len: 50 });
  h.in({ flags: ".", seq: 1, ack: 1 + 12 * 1460, win: 0, len: 50 });
  h.write(t, 500);
  h.pass(t.info().rto);
  const sent = h.all();
  const info = t.info();
  const expected: Partial<TcpInfo> = {
    state: "ESTABLISHED",
    caState: "open",
    congestion: "reno",
    minRtt: 100,
    mss: 1460,
    pmtu: 1500,
    rcvMss: 100,
    advMss: 1460,
    pacing: "off",
    sndWnd: 0,
    rcvWnd: t.rcvAdv - t.rcvNxt,
    rcvSpace: 1 << 20,
    sndWscale: 7,
    rcvWscale: 5,
    ts: false,
    sack: false,
    ecn: false,
    ecnSeen: false,
    unacked: 0,
    sacked: 0,
    lost: 0,
    retrans: 0,
    totalRetrans: 3 + info.retransmits.loss,
    inFlight: 0,
    notsent: 500,
    reordering: 3,
    reordSeen: false,
    dsackDups: 0,
    backoff: 1,
    segsIn: 10,
    segsOut: 1 + 13 + sent.length,
    dataSegsIn: 4,
    dataSegsOut: 12 + 3 + info.retransmits.loss,
    bytesSent: 12 * 1460,
    bytesAcked: 12 * 1460,
    bytesReceived: 100,
    bytesRetrans: t.counters.bytesRetransmitted,
    delivered: 12 * 1460,
    retransmits: { fast: 2, probe: 0, timeout: 1, loss: info.retransmits.loss, syn: 0 },
    timeouts: 1,
    spuriousTimeouts: 0,
    recoveries: 1,
    undos: 0,
    windowProbes: 1,
    dupAcksIn: 3,
    outOfOrderIn: 2,
  };
  assertEquals({ ...info, ...expected }, info);
  // Busy from the first byte on; from when the window closed it was the window.
  const rto = t.rtt.rto / MILLISECOND;
  assertAlmostEquals(info.busy, 700 + rto, 1);
  assertAlmostEquals(info.rwndLimited, rto, 1);
  assertMatch(
    formatTcpInfo(info),
    /^reno wscale:7,5 rto:[\d.]+ backoff:1 rtt:[\d./]+ ato:40 mss:1460 pmtu:1500 rcvmss:100 advmss:1460 cwnd:\d+ ssthresh:\d+ .* retrans:0\/3/,
  );
  assertEquals(
    t.counters.bytesRetransmitted,
    1460 * (3 + info.retransmits.loss),
  );
  assertEquals([t.counters.duplicatesIn, t.counters.timeouts], [1, 1]);
});

Deno.test("info: before anything, and in a recovery", () => {
  const h = new TcpTrace();
  const t = h.connect();
  const fresh = t.info();
  assertEquals([fresh.state, fresh.rtt, fresh.minRtt, fresh.rto, fresh.ssthresh], ["SYN-SENT", 0, 0, 1000, -1]);
  const g = new TcpTrace();
  const u = g.established({}, 100);
  g.write(u, 10 * 1460);
  g.flush();
  for (let i = 0; i < 3; i++) g.in({ flags: ".", seq: 1, ack: 1 });
  assertEquals([u.info().caState, u.info().ssthresh, u.info().cwnd, u.info().unacked], ["recovery", 5, 7, 10]);
  g.pass(300);
  assertEquals([u.info().caState, u.info().cwnd, u.info().backoff, u.info().rto], ["loss", 1, 1, 600]);
});
