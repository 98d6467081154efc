import { assert, assertEquals } from "@std/assert";
import { MILLISECOND } from "../../src/base/time.ts";
import type { AckSample } from "../../src/tcp/congestion/control.ts";
import { rackRemaining, reorderingWindow } from "../../src/tcp/rack.ts";
import { RecoveryState } from "../../src/tcp/state.ts";
import type { Tcb } from "../../src/tcp/tcb.ts";
import { type FlightOptions, Sender } from "../testing/tcp_sender.ts";
import { TcpTrace } from "../testing/tcp_trace.ts";

/** Ten segments in flight at 40 ms, with a smallest round-trip time of 40 ms: vector 16. */
function flight(options: FlightOptions = {}): Sender {
  return new Sender({ rtt: 40, ...options });
}

/** Makes reordering known without anything being sent again: segment 1 arrives before segment 0. */
function reordered(options: FlightOptions = {}): Sender {
  const s = flight(options);
  s.h.pass(40);
  s.ack(0, [[1, 2]]);
  s.h.pass(5);
  s.ack(2);
  assert(s.t.rack.reorderingSeen);
  assertEquals([s.t.rack.reordering, s.t.recovery, s.t.counters.recoveries], [3, RecoveryState.Open, 0]);
  s.h.all();
  return s;
}

const windowOf = (s: Sender) => reorderingWindow(s.t) / MILLISECOND;

for (const family of [4, 6] as const) {
  Deno.test(`rack IPv${family}: one that arrives waits a quarter of the round-trip time for those before it`, () => {
    const s = flight({ family });
    s.h.pass(40);
    s.ack(0, [[4, 5]]);
    assertEquals([windowOf(s), s.t.recovery], [10, RecoveryState.Disorder]);
    // Sent at 40 ms, a round trip of 40 ms and the window of 10 ms: at 90 ms.
    s.h.until(89.999);
    s.h.quiet();
    s.h.until(90);
    assertEquals(s.sentAt(), [[0, 90]]);
    assertEquals([s.t.recovery, s.t.lostBytes], [RecoveryState.Recovery, 4000]);
    assertEquals(s.windows, [5, 5]);
  });
}

Deno.test("rack: what comes within the window was not lost, and the window goes with the timer", () => {
  const s = flight();
  s.h.pass(40);
  s.ack(0, [[4, 5]]);
  s.h.pass(9);
  s.ack(5);
  assertEquals([s.t.recovery, s.t.lostBytes, s.t.rack.reorderingSeen], [RecoveryState.Open, 0, true]);
  s.h.quietUntil(130);
  assertEquals(s.t.counters.bytesRetransmitted, 0);
});

Deno.test("rack: three that arrive are enough while no reordering has been seen, in recovery one is", () => {
  const s = flight();
  s.h.pass(40);
  s.ack(0, [[1, 4]]);
  assertEquals([windowOf(s), s.sent()], [0, [0]]);
  s.ack(0, [[5, 6], [1, 4]]);
  assertEquals(s.t.lostBytes, 2000);
});

Deno.test("rack: once reordering has been seen three are not enough, here or in recovery", () => {
  const s = reordered();
  s.h.until(85);
  s.ack(2, [[3, 10]]);
  assertEquals([windowOf(s), s.sent()], [10, []]);
  s.h.until(94.999);
  s.h.quiet();
  // The last to arrive took 45 ms, and 10 ms more.
  s.h.until(95);
  assertEquals(s.sentAt(), [[2, 95]]);
});

/** Carries what is sent, segment `n` in `delay(n)` ms, to a receiver that answers each at once, until `ms` is reached. */
function carry(s: Sender, ms: number, delay: (segment: number) => number): { acked: number; lastAgain: number } {
  const arrived = new Set<number>();
  const wire: { at: number; segment: number }[] = [];
  const put = (segment: number, at: number) => wire.push({ at: at + delay(segment), segment });
  for (let n = 0; n < s.t.retransmitQueue.size; n++) put(n, s.t.retransmitQueue.departAt(n) / MILLISECOND);
  let una = 0;
  let again = 0;
  let lastAgain = 0;
  while (s.h.now < ms * MILLISECOND) {
    const next = Math.min(ms, ...wire.map((w) => w.at));
    s.h.until(next);
    for (const [segment, at] of s.sentAt()) put(segment, at);
    for (const w of wire.splice(0).sort((x, y) => x.at - y.at)) {
      if (w.at > next) {
        wire.push(w);
        continue;
      }
      const { segment } = w;
      const isDuplicate = arrived.has(segment);
      arrived.add(segment);
      while (arrived.has(una)) una++;
      let [left, right] = [segment, segment + 1];
      while (arrived.has(left - 1)) left--;
      while (arrived.has(right)) right++;
      const blocks: [number, number][] = left > una ? [[left, right]] : [];
      if (isDuplicate) blocks.unshift([segment, segment + 1]);
      s.ack(una, blocks);
    }
    for (const [segment, at] of s.sentAt()) put(segment, at);
    if (s.t.counters.bytesRetransmitted > again) lastAgain = next;
    again = s.t.counters.bytesRetransmitted;
  }
  return { acked: una, lastAgain };
}

Deno.test("rack: reordering by less than the window never has anything sent again", () => {
  const s = new Sender({ rtt: 40, further: 3000, tcp: { slowStartExit: "off" } });
  // The first to be overtaken is so by one only: nobody could know before.
  const { acked } = carry(s, 350, (n) => n === 8 || (n >= 10 && n % 3 === 0) ? 49 : 40);
  assert(acked > 200 && s.t.rack.reorderingSeen, `${acked} segments`);
  assertEquals([s.t.counters.bytesRetransmitted, s.t.counters.recoveries, s.t.counters.timeouts], [0, 0, 0]);
});

Deno.test("rack: reordering by more than the window is learnt from the recoveries that it causes for nothing", () => {
  // Every 37th segment comes 25 ms late. At first each is sent again; the duplicates open the window wide enough.
  const s = new Sender({ rtt: 40, further: 3000, tcp: { slowStartExit: "off" } });
  const { acked, lastAgain } = carry(s, 1500, (n) => n % 37 === 5 ? 65 : 40);
  assert(lastAgain > 0 && lastAgain < 500, `last sent again at ${lastAgain} ms`);
  assert(s.t.rack.reoWndMult > 2 && s.t.counters.undos > 0);
  assert(acked > 700, `${acked} segments`);
});

Deno.test("rack: the window grows with each round in which duplicates are reported, up to the round-trip time", () => {
  const s = reordered({ further: 3000, tcp: { slowStartExit: "off" } });
  s.t.retransmitCount = 100; // not the network's doing
  const grown: number[] = [];
  for (let round = 0; round < 6; round++) {
    s.h.pass(40);
    s.h.all();
    const acked = s.t.counters.bytesAcked / 1000;
    // Two reports in one round count once, now and when it is over.
    s.h.in({ flags: ".", seq: 1, ack: s.nth(acked), sack: [[s.nth(0), s.nth(1)]] });
    s.h.in({ flags: ".", seq: 1, ack: s.nth(acked), sack: [[s.nth(1), s.nth(2)]] });
    grown.push(windowOf(s));
    assert(grown.at(-1)! <= s.t.rtt.srtt / MILLISECOND);
    s.ack(acked + s.t.retransmitQueue.size);
  }
  assertEquals([grown.slice(0, 3), s.t.rack.reoWndMult], [[20, 30, 40], 7]);
  assert(grown.at(-1)! > 40 && grown.at(-1)! < 50); // seven quarters of 40 ms would be 70
});

Deno.test("rack: a report in a round that has had one is forgotten with the round", () => {
  const s = reordered({ further: 20 });
  s.t.retransmitCount = 100;
  s.h.in({ flags: ".", seq: 1, ack: s.nth(3), sack: [[s.nth(0), s.nth(1)]] });
  s.h.in({ flags: ".", seq: 1, ack: s.nth(3), sack: [[s.nth(1), s.nth(2)]] });
  assertEquals(s.t.rack.reoWndMult, 2);
  s.ack(12);
  s.h.pass(40);
  s.ack(14);
  assertEquals(s.t.rack.reoWndMult, 2);
});

Deno.test("rack: sixteen recoveries without a report make the window small again", () => {
  const s = reordered({ further: 1000, tcp: { pacing: "off" } });
  s.t.retransmitCount = 1;
  s.h.in({ flags: ".", seq: 1, ack: s.nth(3), sack: [[s.nth(0), s.nth(1)]] });
  assertEquals(s.t.rack.reoWndMult, 2);
  for (let episode = 1; episode <= 16; episode++) {
    assertEquals(s.t.rack.reoWndMult, 2, `after ${episode - 1}`);
    s.h.all();
    const una = s.t.counters.bytesAcked / 1000;
    const out = una + s.t.retransmitQueue.size;
    s.h.pass(40);
    s.ack(una, [[una + 1, out]]);
    s.h.pass(60);
    assertEquals(s.t.counters.recoveries, episode);
    s.h.pass(40);
    s.ack(out + (s.t.retransmitQueue.size - (out - una)));
    assertEquals(s.t.recovery, RecoveryState.Open);
  }
  assertEquals(s.t.rack.reoWndMult, 1);
});

Deno.test("rack: a retransmission that is lost is found when something sent after it arrives", () => {
  const s = flight({ further: 20, segments: 10 });
  s.h.pass(40);
  s.ack(0, [[1, 10]]);
  const sent = s.sent();
  assertEquals(sent[0], 0);
  assert(sent.length > 1);
  s.h.pass(40);
  // The new segments sent behind it arrive, it does not.
  s.ack(0, [[1, 11]]);
  assertEquals(s.sentAt()[0], [0, 120]);
  assertEquals([s.t.counters.fastRetransmits, s.t.counters.timeouts, s.t.counters.recoveries], [2, 0, 1]);
  s.h.pass(40);
  s.ack(11 + sent.length - 2);
  assertEquals(s.t.lostBytes, 0);
});

Deno.test("rack: several lost at once, one of them twice", () => {
  const s = flight({ segments: 20, further: 20 });
  s.h.pass(40);
  s.ack(0, [[3, 20]]);
  assertEquals(s.sent().slice(0, 3), [0, 1, 2]);
  s.h.pass(40);
  s.ack(1, [[2, 20]]); // 1 is missing again
  assertEquals(s.sent().includes(1), true);
  s.h.pass(40);
  s.ack(1 + s.t.retransmitQueue.size);
  assertEquals([s.t.counters.timeouts, s.t.recovery], [0, RecoveryState.Open]);
});

Deno.test("rack: the order of transmission tells copies with one stamp apart", () => {
  const s = flight({ further: 20 });
  s.h.pass(40);
  s.ack(0, [[1, 10]]);
  const sent = s.sent();
  // The head again and new segments left in one instant. The first new one arrives: the head is before it, the rest is not.
  assertEquals(sent.slice(0, 2), [0, 10]);
  s.h.pass(40);
  s.ack(0, [[1, 11]]);
  assertEquals(s.sentAt()[0], [0, 120]);
  assertEquals(s.t.retransmitQueue.flags(11) & 1, 0);
});

Deno.test("rack: an answer too soon is the original's: it says nothing of what was sent before the retransmission", () => {
  const s = flight({ further: 10 });
  s.h.pass(40);
  s.ack(0, [[1, 10]]);
  s.h.all();
  const { xmitAt, order } = s.t.rack;
  s.h.pass(10); // less than the smallest round-trip time of 40 ms
  s.ack(1, [[2, 10]]);
  assertEquals([s.t.rack.xmitAt, s.t.rack.order], [xmitAt, order]);
});

Deno.test("rack: an echo of an earlier time is the original's, one of the same millisecond the retransmission's", () => {
  for (const [ahead, counts] of [[-1, false], [0, true]] as const) {
    const s = flight({ further: 10, timestamps: true });
    s.h.now += 700_000; // within a millisecond
    s.h.pass(40);
    s.ack(0, [[1, 10]]);
    s.h.flush();
    const stamp = s.h.lastTsVal;
    s.h.all();
    const { order } = s.t.rack;
    s.h.pass(41);
    s.ack(1, [[2, 10]], { ts: [s.h.peerTsVal, stamp + ahead] });
    assertEquals(s.t.rack.order > order, counts);
  }
});

Deno.test("rack: the window is nothing before there is a round-trip time, and the timer none", () => {
  const s = new Sender({ rtt: 0 });
  assertEquals(s.t.rtt.minRtt, 0);
  assertEquals(windowOf(s), 0);
  assertEquals(s.t.reorderAt, Infinity);
  assertEquals(rackRemaining(s.t, 0, 0, s.h.now), 0);
});

Deno.test("rack: after a timeout only what is overdue counts as lost (RFC 8985 6.3)", () => {
  const s = flight({ further: 4, segments: 6, tcp: { tailLossProbe: false } });
  // One arrives after 118 ms, and lets a new one go. So long, and the window of 10 ms, may each take from when it was sent.
  s.h.until(158);
  s.ack(0, [[1, 2]]);
  assertEquals([s.sent(), s.t.rtoAt / MILLISECOND], [[6], 280]);
  s.t.reorderAt = Infinity; // only the timeout is looked at
  s.h.until(280);
  assertEquals(s.sentAt(), [[0, 280]]);
  const lost = [0, 1, 2, 3, 4, 5, 6].filter((i) => (s.t.retransmitQueue.flags(i) & 1) !== 0);
  assertEquals(lost, [0, 2, 3, 4, 5]);
});

Deno.test("rack: a recovery that was not needed is a sign of reordering, and the next one waits", () => {
  const s = flight({ timestamps: true, further: 40 });
  s.h.pass(40);
  const stamp = s.h.lastTsVal;
  s.ack(0, [[1, 10]]);
  assertEquals(s.sent()[0], 0);
  s.h.pass(5);
  // The head was late: its acknowledgment echoes what was sent before the retransmission.
  s.ack(10, [], { ts: [s.h.peerTsVal, stamp] });
  assertEquals([s.t.counters.undos, s.t.rack.reorderingSeen], [1, true]);
  s.h.all();
  s.h.pass(45);
  const una = 10;
  s.ack(una, [[una + 1, una + 6]]);
  assertEquals(s.sent().filter((n) => n === una), []);
});

Deno.test("rack: a hole is not counted as reordering when what fills it had been sent again", () => {
  const s = flight();
  s.h.pass(40);
  s.ack(0, [[1, 4]]);
  s.h.pass(40);
  s.ack(4);
  assertEquals(s.t.rack.reorderingSeen, false);
});

for (const congestion of ["cubic", "bbr"]) {
  for (const timer of ["reordering", "retransmission"]) {
    Deno.test(`rack: what ${congestion} is told when the ${timer} timer runs out is of its own connection`, () => {
      const h = new TcpTrace({ congestion, initialCwndSegments: 20, tailLossProbe: false });
      const listener = h.listen();
      const open = (port: number, sackOk: boolean): Tcb => {
        h.remotePort = port;
        h.in({ flags: "S", seq: 0, mss: 1000, sackOk, wscale: 7 });
        h.out({ flags: "S." });
        h.pass(40);
        h.in({ flags: ".", seq: 1, ack: 1 });
        return listener.accept()!;
      };
      const [a, b] = [open(40000, true), open(40001, false)];
      const block = new Uint8Array(20_000);
      a.write(block, 0, block.length);
      h.all();
      h.pass(40);
      h.remotePort = 40000;
      h.in({ flags: ".", seq: 1, ack: 1, sack: [[1001, 2001]] });
      h.in({ flags: ".", seq: 1, ack: 2001 }); // it was only late
      h.in({ flags: ".", seq: 1, ack: 2001, sack: [[4001, 5001]] });
      // A recovery is on, in which more may turn out to be late.
      h.pass(10.001);
      assertEquals(a.recovery, RecoveryState.Recovery);
      if (timer === "reordering") h.in({ flags: ".", seq: 1, ack: 2001, sack: [[6001, 7001], [4001, 5001]] });
      assertEquals(a.reorderAt < Infinity, timer === "reordering");
      // The other connection, which is limited by its application, has an acknowledgment in between.
      h.remotePort = 40001;
      b.write(block, 0, 1000);
      h.flush();
      h.pass(3);
      h.in({ flags: ".", seq: 1, ack: 1001 });
      const seen: unknown[] = [];
      const wrong: unknown[] = [];
      const look = (name: string, s: AckSample) => {
        seen.push(name);
        const told = [
          s.totalDeliveredBytes,
          s.totalLostBytes,
          s.srtt,
          s.minRtt,
          s.sndUna,
          s.sndNxt,
          s.hasSack,
          s.isAppLimited,
        ];
        const { rate, rtt } = a;
        const own = [rate.deliveredBytes, rate.totalLostBytes, rtt.srtt, rtt.minRtt, a.sndUna, a.sndNxt, true, false];
        told.push(s.isCwndLimited, s.now);
        own.push(true, h.now);
        if (JSON.stringify(told) !== JSON.stringify(own)) wrong.push(name, told, own);
      };
      const control = a.congestion;
      const [onAck, onCongestion] = [control.onAck.bind(control), control.onCongestion.bind(control)];
      control.onAck = (sample) => {
        look("ack", sample);
        onAck(sample);
      };
      control.onCongestion = (signal, sample) => {
        look("congestion", sample);
        onCongestion(signal, sample);
      };
      h.pass(timer === "reordering" ? 30 : 250);
      assertEquals(wrong, []);
      const isTold = timer === "retransmission" || congestion === "bbr";
      assertEquals(seen, isTold ? [timer === "reordering" ? "ack" : "congestion"] : []);
    });
  }
}
