import { assertEquals } from "@std/assert";
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
  assertEquals(info, {
    state: "ESTABLISHED",
    caState: "open",
    congestion: "reno",
    rto: info.rto,
    rtt: info.rtt,
    rttvar: info.rttvar,
    minRtt: 100,
    mss: 1460,
    cwnd: info.cwnd,
    ssthresh: info.ssthresh,
    pacingRate: info.pacingRate,
    deliveryRate: info.deliveryRate,
    appLimited: info.appLimited,
    pacing: "off",
    sndWnd: 0,
    rcvWnd: t.rcvAdv - t.rcvNxt,
    sndWscale: 7,
    rcvWscale: 5,
    ts: false,
    sack: false,
    unacked: 0,
    notsent: 500,
    sacked: 0,
    lost: 0,
    retrans: 0,
    reordering: 3,
    backoff: 1,
    segsIn: 10,
    segsOut: 1 + 13 + sent.length,
    bytesSent: 12 * 1460,
    bytesAcked: 12 * 1460,
    bytesReceived: 100,
    bytesRetrans: t.counters.bytesRetransmitted,
    retransmits: { fast: 2, probe: 0, timeout: 1, loss: info.retransmits.loss, syn: 0 },
    windowProbes: 1,
    dupAcksIn: 3,
    outOfOrderIn: 2,
  });
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
  assertEquals([u.info().caState, u.info().ssthresh, u.info().cwnd, u.info().unacked], ["recovery", 5, 7, 14600]);
  g.pass(300);
  assertEquals([u.info().caState, u.info().cwnd, u.info().backoff, u.info().rto], ["loss", 1, 1, 600]);
});
