import { assertEquals } from "@std/assert";
import { RecoveryState } from "../../src/tcp/state.ts";
import { Sender } from "../testing/tcp_sender.ts";

for (const sack of [true, false]) {
  Deno.test(`whole buffer ${sack ? "with" : "without"} SACK: all that is out is sent again, once`, () => {
    const s = new Sender({ sack, tcp: { fastRetransmit: "whole-buffer", congestion: "none" } });
    s.h.pass(100);
    for (let n = 2; n <= 4; n++) s.ack(0, [[1, n]]);
    assertEquals(s.sent(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assertEquals([s.t.recovery, s.t.counters.fastRetransmits], [RecoveryState.Recovery, 10]);
    for (let n = 5; n <= 10; n++) s.ack(0, [[1, n]]);
    assertEquals(s.sent(), []);
    s.h.pass(10);
    s.ack(10);
    assertEquals([s.t.recovery, s.t.lostBytes, s.t.inFlightBytes], [RecoveryState.Open, 0, 0]);
    s.h.quietUntil(60_000);
  });
}

Deno.test("whole buffer: a congestion window is kept to", () => {
  const s = new Sender({ tcp: { fastRetransmit: "whole-buffer" } });
  s.h.pass(100);
  s.ack(0, [[1, 4]]);
  assertEquals(s.sent()[0], 0);
  assertEquals(s.t.inFlightBytes <= 5000, true);
});

Deno.test("oldest segment: the default sends what is missing and nothing else, also without a congestion window", () => {
  const s = new Sender({ tcp: { congestion: "none" } });
  s.h.pass(100);
  for (let n = 2; n <= 10; n++) s.ack(0, [[1, n]]);
  assertEquals(s.sent(), [0]);
});
