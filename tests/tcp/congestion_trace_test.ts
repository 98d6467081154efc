import { assert, assertEquals } from "@std/assert";
import { MILLISECOND } from "../../src/base/time.ts";
import { CONGESTION_EVENTS_LIMIT, CongestionTrace, formatCongestionEvents } from "../../src/tcp/congestion_trace.ts";
import { Sender } from "../testing/tcp_sender.ts";

const told = (s: Sender) => s.t.trace!.events().map((e) => [e.time, e.state, e.cwnd, e.ssthresh, e.why]);

Deno.test("congestion trace: loss, its end and a timeout, with the windows that followed and why", () => {
  const s = new Sender({ further: 40, tcp: { slowStartExit: "off", frto: false, tailLossProbe: false } });
  assertEquals(s.t.trace, null);
  s.h.pass(100);
  s.ack(0, [[1, 10]]);
  s.h.pass(100);
  const out = s.t.counters.bytesAcked / 1000 + s.t.retransmitQueue.size;
  s.ack(out);
  s.h.all();
  s.h.until((s.t.rtoAt + 1) / MILLISECOND);
  const events = told(s);
  assertEquals(events.slice(0, 2), [
    [200, "recovery", 5000, 5000, "loss found"],
    [300, "open", 5000, 5000, "recovered"],
  ]);
  const last = events.at(-1)!;
  assertEquals([last[1], last[2], last[4]], ["loss", 1000, "timeout"]);
  const [first] = s.t.trace!.events();
  assertEquals([first!.srtt, first!.inFlight <= 10_000], [100, true]);
  assertEquals(s.h.tcp.connectionCount, 1);
});

Deno.test("congestion trace: an ECN signal, an undo, a spurious timeout and a probe that repaired a loss say so", () => {
  const ecn = new Sender({ ecn: true, further: 20 });
  ecn.h.pass(100);
  ecn.ack(1, [], { flags: ".E" });
  assertEquals(told(ecn).at(-1)!.slice(1), ["cwr", 5000, 5000, "the peer echoes congestion"]);

  const undone = new Sender({ further: 20 });
  undone.h.pass(100);
  undone.ack(0, [[1, 10]]);
  undone.h.pass(10);
  undone.h.in({ flags: ".", seq: 1, ack: undone.nth(10), sack: [[undone.nth(0), undone.nth(1)]] });
  assertEquals(told(undone).at(-1)!.slice(2), [10_000, -1, "the retransmissions were not needed"]);

  const frto = new Sender({ further: 20, tcp: { tailLossProbe: false } });
  frto.h.until(400);
  frto.ack(1);
  frto.ack(2);
  assertEquals(told(frto).at(-1)!.slice(2), [10_000, -1, "the timeout was spurious: F-RTO"]);
});

Deno.test("congestion trace: the newest are kept, the oldest first, and what was dropped is counted", () => {
  const s = new Sender({ segments: 1 });
  const trace = new CongestionTrace();
  for (let i = 0; i < CONGESTION_EVENTS_LIMIT + 10; i++) trace.note(s.t, i * MILLISECOND, `event ${i}`);
  const events = trace.events();
  assertEquals([events.length, trace.dropped], [CONGESTION_EVENTS_LIMIT, 10]);
  assertEquals(events.map((e) => e.time), events.map((_, i) => i + 10));
});

Deno.test("congestion trace: as NDJSON: an object a line, nothing that JSON cannot say", () => {
  const s = new Sender({ tcp: { congestion: "none" } });
  s.h.pass(100);
  s.ack(0, [[1, 10]]);
  const text = formatCongestionEvents(s.t.trace!.events());
  assert(text.endsWith("\n"));
  const lines = text.trimEnd().split("\n").map((line) => JSON.parse(line));
  assertEquals(
    lines.map((l) => Object.keys(l)),
    lines.map(() => ["time", "state", "cwnd", "ssthresh", "srtt", "inFlight", "why"]),
  );
  assert(lines.every((l) => Number.isFinite(l.cwnd) && l.ssthresh === -1));
  assertEquals(formatCongestionEvents([]), "");
});
