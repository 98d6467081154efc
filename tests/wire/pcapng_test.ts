/**
 * pcapng blocks as byte images, written down by hand from the draft.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import fc from "fast-check";
import {
  emitPacketBlock,
  interfaceBlock,
  interfaceStatisticsBlock,
  packetBlockBytes,
  PcapngClock,
  PcapngDirection,
  PcapngPacket,
  sectionHeaderBlock,
} from "../../src/wire/pcapng.ts";

function hex(bytes: Uint8Array): string {
  return bytes.toHex();
}

/** The image without blanks and line ends. */
function image(...parts: string[]): string {
  return parts.join("").replaceAll(" ", "");
}

Deno.test("pcapng: the section header", () => {
  assertEquals(
    hex(sectionHeaderBlock("Culvert")),
    image(
      "0a0d0d0a 2c000000", // type, length 44
      "4d3c2b1a 0100 0000", // byte order, version 1.0
      "ffffffffffffffff", // section length unknown
      "0400 0700 43756c76657274 00", // shb_userappl "Culvert", padded
      "0000 0000",
      "2c000000",
    ),
  );
});

Deno.test("pcapng: an interface with its link type and resolution", () => {
  assertEquals(
    hex(interfaceBlock("b:out")),
    image(
      "01000000 2c000000",
      "6500 0000 00000000", // LINKTYPE_RAW, no limit
      "0200 0500 623a6f7574 000000", // if_name
      "0900 0100 09 000000", // if_tsresol: 10^-9
      "0000 0000",
      "2c000000",
    ),
  );
  assertEquals(
    hex(interfaceBlock("ü", "abcd")),
    image(
      "01000000 30000000 6500 0000 00000000",
      "0200 0200 c3bc 0000",
      "0300 0400 61626364",
      "0900 0100 09 000000 0000 0000 30000000",
    ),
  );
});

Deno.test("pcapng: a packet with direction and time, its data padded", () => {
  const p = new PcapngPacket();
  p.interfaceId = 3;
  p.timeHigh = 0x17e0a1b2;
  p.timeLow = 0xfedcba98;
  p.direction = PcapngDirection.Outbound;
  const target = new Uint8Array(64).fill(0xee);
  const data = new Uint8Array([9, 9, 0x45, 1, 2, 3, 4, 9]);
  const end = emitPacketBlock(target, new DataView(target.buffer), 4, p, data, 2, 7);
  assertEquals(end - 4, packetBlockBytes(5, null));
  assertEquals(
    hex(target.subarray(4, end)),
    image(
      "06000000 34000000",
      "03000000 b2a1e017 98badcfe 05000000 05000000",
      "4501020304 000000",
      "0200 0400 02000000", // epb_flags: outbound
      "0000 0000",
      "34000000",
    ),
  );
  assertEquals([target[3], target[end]], [0xee, 0xee]);
});

Deno.test("pcapng: a packet with a comment", () => {
  const p = new PcapngPacket();
  p.direction = PcapngDirection.Inbound;
  p.comment = new TextEncoder().encode("dropped: x");
  const target = new Uint8Array(68);
  const end = emitPacketBlock(target, new DataView(target.buffer), 0, p, new Uint8Array([0x60, 0, 0, 1]), 0, 4);
  assertEquals([end, packetBlockBytes(4, p.comment)], [64, 64]);
  assertEquals(
    hex(target.subarray(0, end)),
    image(
      "06000000 40000000 00000000 00000000 00000000 04000000 04000000",
      "60000001",
      "0100 0a00 64726f707065643a2078 0000", // opt_comment
      "0200 0400 01000000 0000 0000",
      "40000000",
    ),
  );
});

Deno.test("pcapng: the counts of an interface, beyond 32 bits", () => {
  const clock = new PcapngClock(0);
  clock.read(2 ** 32 + 5);
  assertEquals(
    hex(interfaceStatisticsBlock(1, clock, 2 ** 33 + 7, 2)),
    image(
      "05000000 34000000 01000000 01000000 05000000",
      "0400 0800 07000000 02000000",
      "0500 0800 02000000 00000000",
      "0000 0000 34000000",
    ),
  );
});

Deno.test("pcapng: the clock adds instants to its origin exactly", () => {
  fc.assert(fc.property(
    fc.integer({ min: 0, max: 2 ** 41 }),
    fc.integer({ min: 0, max: 999_999 }),
    fc.maxSafeNat(),
    (milliseconds, nanoseconds, now) => {
      const clock = new PcapngClock(milliseconds);
      clock.read(now);
      const at = (BigInt(clock.high) << 32n) + BigInt(clock.low);
      assertEquals(at, BigInt(milliseconds) * 1_000_000n + BigInt(now));
      // A fraction of a millisecond is kept to what a double holds of it.
      const fine = new PcapngClock(1000 + nanoseconds / 1e6);
      fine.read(0);
      assertEquals([fine.high, fine.low], [0, 1_000_000_000 + nanoseconds]);
    },
  ));
});
