/**
 * UDP headers: byte images, the zero checksum, lengths, round trips.
 *
 * @module
 */

import { assertEquals, assertStrictEquals } from "@std/assert";
import * as fc from "fast-check";
import { DropReason } from "../../src/base/drop.ts";
import { IpHeader } from "../../src/wire/ip_header.ts";
import { emitUdp, parseUdp, UdpHeader } from "../../src/wire/udp.ts";
import { addressPair, payload, u16 } from "../testing/arbitraries.ts";
import { exactView, fromHex, toHex } from "../testing/bytes.ts";
import { ipHeader, parsePacket, udpPacket } from "../testing/packets.ts";

function parsed(ip: IpHeader, bytes: Uint8Array): { reason: DropReason; h: UdpHeader } {
  const h = new UdpHeader();
  return { reason: parseUdp(exactView(bytes), 0, bytes.length, ip, h), h };
}

const V4 = ipHeader("10.7.0.1", "10.7.0.2");
const V6 = ipHeader("fd07::1", "fd07::2");

Deno.test("udp: image over IPv4, with an odd payload", () => {
  // Pseudo-header 0a07+0001+0a07+0002+0011+000b = 142d; datagram 1388+0035+000b+6f64+6400 = e72c.
  // Together fb59; complement 04a6.
  const packet = udpPacket(ipHeader("10.7.0.1", "10.7.0.2"), 5000, 53, new TextEncoder().encode("odd"));
  assertStrictEquals(toHex(packet.subarray(20)), "1388 0035 000b 04a6 6f64 64");
});

Deno.test("udp: image over IPv6", () => {
  // Pseudo-header fd07+0001+fd07+0002+000b+0011 = 1fa2d; datagram e72c as above; together 2e159, folded e15b.
  const packet = udpPacket(ipHeader("fd07::1", "fd07::2"), 5000, 53, new TextEncoder().encode("odd"));
  assertStrictEquals(toHex(packet.subarray(40)), "1388 0035 000b 1ea4 6f64 64");
});

Deno.test("udp: a checksum that comes out as zero is sent as ffff, and accepted", () => {
  // Everything but the payload adds up to 1439 (IPv4) and fa3a (IPv6, after folding): these payloads make it ffff.
  for (const [ip, word] of [[V4, "ebc6"], [V6, "05c5"]] as const) {
    const image = "0001 0002 000a ffff" + word;
    const bytes = new Uint8Array(10);
    bytes.set(fromHex(word), 8);
    emitUdp(new DataView(bytes.buffer), 0, ip, Object.assign(new UdpHeader(), { srcPort: 1, dstPort: 2, length: 10 }));
    assertStrictEquals(toHex(bytes), toHex(fromHex(image)));
    assertStrictEquals(parsed(ip, bytes).reason, DropReason.None);
  }
});

Deno.test("udp: no checksum is allowed over IPv4 and refused over IPv6", () => {
  const bytes = fromHex("1388 0035 000b 0000 6f64 64");
  const v4 = parsed(V4, bytes);
  assertStrictEquals(v4.reason, DropReason.None);
  assertEquals({ ...v4.h }, { srcPort: 5000, dstPort: 53, length: 11 });
  assertStrictEquals(parsed(V6, bytes).reason, DropReason.BadUdpChecksum);
});

Deno.test("udp: what is refused, and why", () => {
  const image = "1388 0035 000b 04a6 6f64 64";
  const reason = (hex: string) => parsed(V4, fromHex(hex)).reason;
  assertStrictEquals(reason(image), DropReason.None);
  assertStrictEquals(reason(image.slice(0, 17)), DropReason.Truncated);
  assertStrictEquals(reason("1388 0035 0007 04a6 6f64 64"), DropReason.BadLength);
  assertStrictEquals(reason("1388 0035 0000 04a6 6f64 64"), DropReason.BadLength);
  assertStrictEquals(reason("1388 0035 000c 04a6 6f64 64"), DropReason.Truncated);
  assertStrictEquals(reason("1388 0035 000b 04a7 6f64 64"), DropReason.BadUdpChecksum);
  // The checksum covers the addresses, whose exchange alone it cannot see.
  assertStrictEquals(parsed(ipHeader("10.7.0.1", "10.7.0.3"), fromHex(image)).reason, DropReason.BadUdpChecksum);
  assertStrictEquals(parsed(ipHeader("10.7.0.2", "10.7.0.1"), fromHex(image)).reason, DropReason.None);
});

Deno.test("udp: bytes behind the length belong to nobody", () => {
  const { reason, h } = parsed(V4, fromHex("1388 0035 000b 04a6 6f64 64 ffff ffff ff"));
  assertStrictEquals(reason, DropReason.None);
  assertStrictEquals(h.length, 11);
});

Deno.test("udp: parse(emit(x)) = x", () => {
  fc.assert(
    fc.property(addressPair, u16, u16, payload, ([source, destination], srcPort, dstPort, data) => {
      const ip = new IpHeader();
      ip.setAddresses(source, destination);
      ip.setDefaults(0, 0);
      const packet = udpPacket(ip, srcPort, dstPort, data);
      const { reason, ip: again, udp } = parsePacket(exactView(packet));
      assertStrictEquals(reason, DropReason.None);
      assertEquals({ ...again }, { ...ip });
      assertEquals({ ...udp }, { srcPort, dstPort, length: 8 + data.length });
      assertEquals(packet.subarray(packet.length - data.length), data);
    }),
    { numRuns: 300 },
  );
});
