import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { Sender } from "../testing/tcp_sender.ts";

/** Bytes per second of `bytes` in `ms`. */
const rate = (bytes: number, ms: number) => bytes / ms * 1000;

Deno.test("rate sample: what was delivered since a segment was sent, over the time to send or to acknowledge it", () => {
  const s = new Sender({ further: 1000, tcp: { slowStartExit: "off" } });
  s.h.pass(100);
  // Ten segments in 100 ms: delivered one by one, a millisecond apart.
  for (let n = 1; n <= 10; n++) {
    s.ack(n);
    assertAlmostEquals(s.t.rate.rateBytesPerSec, rate(n * 1000, 100 + n - 1), 1);
    s.h.pass(1);
  }
  assertEquals([s.t.rate.deliveredBytes, s.t.rate.totalLostBytes], [10_000, 0]);
  // Segment 10 was sent with the first acknowledgment, when 1,000 bytes had been delivered; sending took no time.
  s.h.until(300);
  s.ack(11);
  assertAlmostEquals(s.t.rate.rateBytesPerSec, rate(11_000 - 1000, 100), 1);
});

Deno.test("rate sample: the time that sending took counts if it is longer: compressed acknowledgments make no rate", () => {
  const s = new Sender({ further: 1000, tcp: { slowStartExit: "off" } });
  s.h.pass(100);
  for (let n = 1; n <= 10; n++) {
    s.ack(n);
    s.h.pass(10);
  }
  // The second flight left over 90 ms; all of it is acknowledged in one instant.
  s.h.until(400);
  const { size } = s.t.retransmitQueue;
  for (let n = 11; n <= 10 + size; n++) s.ack(n);
  // 20 segments that were sent in 90 ms and took 110 and more to be acknowledged.
  assert(s.t.rate.rateBytesPerSec <= rate(size * 1000 + 10_000, 100), `${s.t.rate.rateBytesPerSec}`);
});

Deno.test("rate sample: of what one acknowledgment delivers, selectively or not, the segment sent last counts", () => {
  const s = new Sender({ further: 40 });
  s.h.pass(100);
  s.ack(0, [[1, 10]]);
  s.h.all();
  const delivered = s.t.rate.deliveredBytes;
  assertEquals(delivered, 9000);
  s.h.pass(100);
  // The head, sent again when 9,000 bytes had been delivered.
  s.ack(1, [[2, 10]]);
  assertEquals([s.t.tcp.sample.priorDeliveredBytes, s.t.tcp.sample.deliveredBytes], [9000, 1000]);
  assertAlmostEquals(s.t.tcp.sample.deliveryRateBytesPerSec, rate(1000, 100), 1);
  // What had been selectively acknowledged delivers nothing a second time.
  s.ack(10);
  assertEquals([s.t.tcp.sample.deliveredBytes, s.t.rate.deliveredBytes], [0, 10_000]);
  assertEquals(s.t.tcp.sample.priorDeliveredBytes, -1);
});

Deno.test("rate sample: the segment sent last is not always the last in sequence", () => {
  const s = new Sender({ further: 40 });
  s.h.pass(100);
  s.ack(0, [[1, 4]]);
  s.h.all();
  s.h.pass(100);
  // The head, sent again when 3,000 bytes had been delivered, and seven of which nobody had said that they arrived.
  s.ack(10);
  const { sample } = s.t.tcp;
  assertEquals([sample.priorDeliveredBytes, sample.deliveredBytes], [3000, 7000]);
  assertAlmostEquals(sample.deliveryRateBytesPerSec, rate(7000, 100), 1);
});

Deno.test("rate sample: in flight and lost are told as of when the segment was sent", () => {
  const s = new Sender({ further: 40 });
  s.h.pass(100);
  s.ack(0, [[2, 10]]);
  const { sample } = s.t.tcp;
  assertEquals([sample.txInFlightBytes, sample.lostBytes, sample.sampleLostBytes], [10_000, 2000, 2000]);
  const sent = s.sent();
  assertEquals(sent.slice(0, 2), [0, 1]);
  s.h.pass(100);
  s.ack(1, [[2, 10]]);
  // The head again, with nothing else in flight; what had been lost before it was sent again is not of this sample.
  assertEquals([sample.txInFlightBytes, sample.sampleLostBytes], [1000, 0]);
});

Deno.test("rate sample: limited by the application while there is less than a segment to send and room in the window", () => {
  const s = new Sender({ segments: 10, further: 0 });
  // Before the first byte there was nothing to send; that the window was full exactly adds nothing to it.
  assertEquals(s.t.rate.appLimitedUntilBytes, 1);
  s.h.pass(100);
  s.ack(5);
  assertEquals(s.t.rate.appLimitedUntilBytes, 10_000);
  s.h.write(s.t, 30_000);
  s.h.all();
  s.ack(10);
  s.h.pass(100);
  s.ack(11);
  assertEquals([s.t.tcp.sample.isAppLimited, s.t.rate.appLimitedUntilBytes === 0], [true, true]);
  s.h.all();
  s.h.pass(100);
  const una = s.t.counters.bytesAcked / 1000;
  s.ack(una + s.t.retransmitQueue.size);
  assertEquals(s.t.tcp.sample.isAppLimited, false);
});

Deno.test("rate sample: one limited by the application does not lower the rate, but may raise it", () => {
  const s = new Sender({ segments: 10 });
  s.h.pass(100);
  s.ack(10);
  const before = s.t.rate.rateBytesPerSec;
  assertAlmostEquals(before, rate(10_000, 100), 1);
  for (let i = 0; i < 5; i++) {
    s.h.write(s.t, 1000);
    s.h.all();
    s.h.pass(100);
    s.ack(11 + i);
  }
  assertEquals(s.t.rate.rateBytesPerSec, before);
});
