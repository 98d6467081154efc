/**
 * Streams of datagrams: their head as a byte image, and loss, order, duplicates and jitter at the receiver.
 *
 * @module
 */

import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import fc from "fast-check";
import { MILLISECOND } from "../../../src/base/time.ts";
import { DATAGRAM_HEADER_BYTES, DatagramHeader, DatagramReceiver } from "../../../src/lab/workload/datagram_stream.ts";

Deno.test("datagram stream: the head", () => {
  const bytes = new Uint8Array(24);
  const view = new DataView(bytes.buffer);
  const header = new DatagramHeader();
  header.stream = 0x01020304;
  header.seq = 0xfffffffe;
  header.sentAt = 1.5;
  header.emit(view);
  assertEquals(bytes.toHex(), "63767374" + "01020304" + "fffffffe" + "3ff8000000000000" + "00000000");
  const read = new DatagramHeader();
  assert(read.parse(view, 24));
  assertEquals({ ...read }, { stream: 0x01020304, seq: 0xfffffffe, sentAt: 1.5 });
  assertEquals(read.parse(view, DATAGRAM_HEADER_BYTES - 1), false);
  bytes[0] = 0;
  assertEquals(read.parse(view, 24), false);
});

Deno.test("datagram stream: a head with a time that is no number is refused", () => {
  const view = new DataView(new ArrayBuffer(20));
  new DatagramHeader().emit(view);
  view.setFloat64(12, NaN);
  assertEquals(new DatagramHeader().parse(view, 20), false);
});

/** A receiver that got these numbers, one a millisecond, each a millisecond on the way. */
function received(...numbers: number[]): DatagramReceiver {
  const r = new DatagramReceiver();
  numbers.forEach((seq, i) => r.onDatagram(seq, i * MILLISECOND, (i + 1) * MILLISECOND, 100));
  return r;
}

Deno.test("datagram stream: loss, order and duplicates", () => {
  const cases: [numbers: number[], packets: number, lost: number, outOfOrder: number, duplicates: number][] = [
    [[], 0, 0, 0, 0],
    [[0, 1, 2], 3, 0, 0, 0],
    [[1, 2], 2, 1, 0, 0],
    [[0, 3], 2, 2, 0, 0],
    [[0, 2, 1, 3], 4, 0, 1, 0],
    [[2, 1, 0], 3, 0, 2, 0],
    [[0, 0, 1, 1, 0], 2, 0, 0, 3],
    [[5, 0, 5], 2, 4, 1, 1],
  ];
  for (const [numbers, packets, lost, outOfOrder, duplicates] of cases) {
    const r = received(...numbers);
    assertEquals([r.packets, r.lost(), r.outOfOrder, r.duplicates, r.bytes], [
      packets,
      lost,
      outOfOrder,
      duplicates,
      packets * 100,
    ], `${numbers}`);
  }
  // What was sent last is missing, too, when the sender tells how much that was.
  assertEquals(received(0, 1).lost(5), 3);
});

Deno.test("datagram stream: numbers that are too old to tell are duplicates", () => {
  const r = received(0, 10_000, 1);
  assertEquals([r.packets, r.duplicates, r.lost()], [2, 1, 9_999]);
});

Deno.test("datagram stream: the same as with a set, in any order within the window", () => {
  fc.assert(fc.property(fc.array(fc.integer({ min: 0, max: 3000 }), { maxLength: 300 }), (numbers) => {
    const r = received(...numbers);
    const seen = new Set(numbers);
    assertEquals(r.packets, seen.size);
    assertEquals(r.duplicates, numbers.length - seen.size);
    assertEquals(r.lost(), numbers.length === 0 ? 0 : Math.max(...numbers) + 1 - seen.size);
  }));
});

Deno.test("datagram stream: jitter as in RFC 3550 section 6.4.1, whatever the clocks say", () => {
  for (const offset of [0, 1e15, -1e15]) {
    const r = new DatagramReceiver();
    let jitter = 0;
    let last: number | null = null;
    [10, 12, 11, 20, 20, 5].forEach((transit, i) => {
      r.onDatagram(i, i * 1000, i * 1000 + transit + offset, 1);
      if (last !== null) jitter += (Math.abs(transit - last) - jitter) / 16;
      last = transit;
    });
    assertAlmostEquals(r.jitter, jitter, 1e-9);
  }
});

Deno.test("datagram stream: a duplicate does not touch the jitter", () => {
  const r = received(0, 1, 2);
  r.onDatagram(1, 0, 1000 * MILLISECOND, 100);
  assertEquals(r.jitter, 0);
});
