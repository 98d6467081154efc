/**
 * IPv4 and IPv6 headers: byte images, what is refused, round trips, and changes in place.
 *
 * @module
 */

import { assertEquals, assertStrictEquals } from "@std/assert";
import * as fc from "fast-check";
import { DropReason } from "../../src/base/drop.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import {
  Ecn,
  emitIp,
  IpHeader,
  ipHeaderBytes,
  IpProtocol,
  markCe,
  parseIp,
  trafficClassAt,
} from "../../src/wire/ip_header.ts";
import { decrementIpv4Ttl, emitIpv4, parseIpv4, setIpv4Ecn } from "../../src/wire/ipv4.ts";
import { decrementIpv6HopLimit, emitIpv6, parseIpv6, setIpv6Ecn } from "../../src/wire/ipv6.ts";
import { ipHeaders, ipv4Addr, ipv6Addr, u16 } from "../testing/arbitraries.ts";
import { exactView, fromHex, toHex } from "../testing/bytes.ts";
import { ipHeader } from "../testing/packets.ts";
import { pseudoHeader, slowChecksum, slowSum } from "../testing/slow_checksum.ts";

/** The header as bytes, in memory that held something else before. */
function emitted(h: IpHeader): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(ipHeaderBytes(h.version)).fill(0xa5);
  emitIp(new DataView(bytes.buffer), 0, h);
  return bytes;
}

function parsed(bytes: Uint8Array): { reason: DropReason; h: IpHeader } {
  const h = new IpHeader();
  return { reason: parseIp(exactView(bytes), 0, bytes.length, h), h };
}

/** `bytes` with these two-byte words put in, and the IPv4 header checksum made right. */
function changed(hex: string, words: Record<number, number>): Uint8Array<ArrayBuffer> {
  const bytes = fromHex(hex);
  const view = new DataView(bytes.buffer);
  for (const [at, word] of Object.entries(words)) view.setUint16(Number(at), word);
  view.setUint16(10, 0);
  view.setUint16(10, slowChecksum(bytes.subarray(0, (bytes[0]! & 15) * 4)));
  return bytes;
}

const TEXTBOOK = "4500 0073 0000 4000 4011 b861 c0a8 0001 c0a8 00c7" + "00".repeat(95);

Deno.test("ipv4: the textbook header, both ways", () => {
  const { reason, h } = parsed(fromHex(TEXTBOOK));
  assertStrictEquals(reason, DropReason.None);
  const expected = ipHeader("192.168.0.1", "192.168.0.199", { protocol: IpProtocol.Udp, payloadLength: 95 });
  assertEquals({ ...h }, { ...expected });
  assertStrictEquals(toHex(emitted(expected)), "4500 0073 0000 4000 4011 b861 c0a8 0001 c0a8 00c7");
});

Deno.test("ipv4: every field in its place", () => {
  // The words add up to 1a238, which folds to a239; its complement is 5dc6.
  const h = ipHeader("1.2.3.4", "5.6.7.8", {
    trafficClass: 0xb9,
    payloadLength: 1480,
    id: 0x1234,
    dontFragment: false,
    moreFragments: true,
    fragmentOffset: 0x1555 * 8,
    ttl: 255,
    protocol: IpProtocol.Tcp,
  });
  const image = "45b9 05dc 1234 3555 ff06 5dc6 0102 0304 0506 0708";
  assertStrictEquals(toHex(emitted(h)), image);
  const again = parsed(fromHex(image + "00".repeat(1480)));
  assertStrictEquals(again.reason, DropReason.None);
  assertEquals({ ...again.h }, { ...h });
});

Deno.test("ipv4: options are skipped, and covered by the checksum", () => {
  // A router alert option.
  const image = "4600 001a 0001 0000 0101 0000 0a07 0001 0a07 0002 9404 0000 abcd";
  const good = changed(image, {});
  const { reason, h } = parsed(good);
  assertStrictEquals(reason, DropReason.None);
  assertEquals([h.headerLength, h.payloadLength, h.protocol], [24, 2, 1]);
  good[20]! ^= 1;
  assertStrictEquals(parsed(good).reason, DropReason.BadIpChecksum);
});

Deno.test("ipv4: bytes behind the total length are ignored", () => {
  const { reason, h } = parsed(fromHex(TEXTBOOK + "ff".repeat(7)));
  assertStrictEquals(reason, DropReason.None);
  assertStrictEquals(h.payloadLength, 95);
});

Deno.test("ipv4: what is refused, and why", () => {
  const reason = (bytes: Uint8Array) => parsed(bytes).reason;
  assertStrictEquals(reason(new Uint8Array(0)), DropReason.Truncated);
  assertStrictEquals(reason(fromHex("45")), DropReason.Truncated);
  assertStrictEquals(reason(changed(TEXTBOOK, { 2: 0x0074 })), DropReason.Truncated);
  assertStrictEquals(reason(changed(TEXTBOOK, { 2: 0xffff })), DropReason.Truncated);
  assertStrictEquals(reason(changed(TEXTBOOK, { 2: 0x0013 })), DropReason.BadLength);
  assertStrictEquals(reason(changed(TEXTBOOK, { 2: 0x0000 })), DropReason.BadLength);
  assertStrictEquals(reason(changed(TEXTBOOK, { 2: 0x0014 })), DropReason.None);
  assertStrictEquals(reason(changed(TEXTBOOK, { 0: 0x4400 })), DropReason.BadHeaderLength);
  assertStrictEquals(reason(changed(TEXTBOOK, { 0: 0x4000 })), DropReason.BadHeaderLength);
  assertStrictEquals(reason(changed(TEXTBOOK, { 0: 0x4f00, 2: 0x003b })), DropReason.BadLength);
  assertStrictEquals(reason(changed(TEXTBOOK, { 0: 0x5500 })), DropReason.BadVersion);
  assertStrictEquals(reason(changed(TEXTBOOK, { 0: 0x0500 })), DropReason.BadVersion);
  const bad = fromHex(TEXTBOOK);
  bad[10]! ^= 0x80;
  assertStrictEquals(reason(bad), DropReason.BadIpChecksum);
  // Each parser refuses the other version.
  const view = exactView(fromHex(TEXTBOOK));
  assertStrictEquals(parseIpv6(view, 0, view.byteLength, new IpHeader()), DropReason.BadVersion);
  const v6 = exactView(emitted(ipHeader("fd07::1", "fd07::2")));
  assertStrictEquals(parseIpv4(v6, 0, v6.byteLength, new IpHeader()), DropReason.BadVersion);
});

const V6_IMAGE = "6b91 2345 0004 3a40 fd07 0000 0000 0000 0000 0000 0000 0001" +
  "2001 0db8 1234 5678 9abc def0 0fed cba9" + "0102 0304";

Deno.test("ipv6: every field in its place, both ways", () => {
  const h = ipHeader("fd07::1", "2001:db8:1234:5678:9abc:def0:fed:cba9", {
    trafficClass: 0xb9,
    flowLabel: 0x12345,
    payloadLength: 4,
    protocol: IpProtocol.Icmpv6,
  });
  assertStrictEquals(toHex(emitted(h)), toHex(fromHex(V6_IMAGE).subarray(0, 40)));
  const again = parsed(fromHex(V6_IMAGE));
  assertStrictEquals(again.reason, DropReason.None);
  assertEquals({ ...again.h }, { ...h });
  assertStrictEquals(parsed(fromHex(V6_IMAGE + "ffff")).h.payloadLength, 4);
});

Deno.test("ipv6: what is refused, and why", () => {
  for (const [hex, reason] of [["60", DropReason.Truncated], ["7b", DropReason.BadVersion]] as const) {
    assertStrictEquals(parsed(fromHex(hex)).reason, reason);
  }
  const long = fromHex(V6_IMAGE);
  long[5] = 5;
  assertStrictEquals(parsed(long).reason, DropReason.Truncated);
  const view = exactView(fromHex(TEXTBOOK));
  assertStrictEquals(parseIpv6(view, 0, view.byteLength, new IpHeader()), DropReason.BadVersion);
});

Deno.test("ipv6: an IPv4-mapped address is refused on the wire, at either end", () => {
  const mapped = "0000 0000 0000 0000 0000 ffff 0a07 0001";
  const plain = "fd07 0000 0000 0000 0000 0000 0000 0001";
  for (const addresses of [mapped + plain, plain + mapped, mapped + mapped]) {
    assertStrictEquals(parsed(fromHex("6000 0000 0000 0640" + addresses)).reason, DropReason.Martian);
  }
  assertStrictEquals(parsed(fromHex("6000 0000 0000 0640" + plain + plain)).reason, DropReason.None);
});

Deno.test("ip: parse(emit(x)) = x, wherever the header stands and whatever was there before", () => {
  fc.assert(
    fc.property(ipHeaders, fc.nat(9), fc.nat(5), (h, margin, tail) => {
      const bytes = new Uint8Array(margin + ipHeaderBytes(h.version) + h.payloadLength + tail).fill(0xa5);
      emitIp(new DataView(bytes.buffer), margin, h);
      const again = Object.assign(new IpHeader(), ipHeader("::1", "::2", { flowLabel: 7, id: 9, fragmentOffset: 8 }));
      assertStrictEquals(parseIp(exactView(bytes), margin, bytes.length, again), DropReason.None);
      assertEquals({ ...again }, { ...h });
      assertEquals(bytes.subarray(0, margin), new Uint8Array(margin).fill(0xa5));
      const behind = bytes.subarray(margin + ipHeaderBytes(h.version));
      assertEquals(behind, new Uint8Array(h.payloadLength + tail).fill(0xa5));
    }),
    { numRuns: 500 },
  );
});

Deno.test("ip: the pseudo-header sum is that of the pseudo-header's bytes", () => {
  fc.assert(fc.property(ipHeaders, u16, (h, length) => {
    const header = emitted(h);
    const [source, destination] = h.version === 4
      ? [header.subarray(12, 16), header.subarray(16, 20)]
      : [header.subarray(8, 24), header.subarray(24, 40)];
    let sum = h.pseudoHeaderSum(h.protocol, length);
    while (sum > 0xffff) sum = (sum & 0xffff) + Math.floor(sum / 0x10000);
    assertStrictEquals(sum, slowSum(pseudoHeader(source, destination, h.protocol, length)));
  }));
});

Deno.test("ip: addresses set the version, defaults are those of a packet of our own", () => {
  const h = new IpHeader();
  h.setAddresses(IpAddr.parse("fd07::1"), IpAddr.parse("fd07::2"));
  h.setDefaults(IpProtocol.Tcp, 20);
  assertEquals([h.version, h.headerLength, h.ttl, h.dontFragment, h.payloadLength], [6, 40, 64, true, 20]);
  Object.assign(h, {
    trafficClass: 3,
    flowLabel: 4,
    id: 5,
    dontFragment: false,
    moreFragments: true,
    fragmentOffset: 8,
  });
  h.setAddresses(IpAddr.parse("10.7.0.1"), IpAddr.parse("10.7.0.2"));
  h.setDefaults(IpProtocol.Udp, 8);
  assertEquals({ ...h }, { ...ipHeader("10.7.0.1", "10.7.0.2", { protocol: 17, payloadLength: 8 }) });
  assertEquals([ipHeaderBytes(4), ipHeaderBytes(6)], [20, 40]);
});

Deno.test("ipv4: TTL and ECN changed in place give what writing anew gives", () => {
  fc.assert(
    fc.property(ipHeaders.filter((h) => h.version === 4 && h.ttl > 0), fc.nat(3), (h, ecn) => {
      const bytes = emitted(h);
      const view = new DataView(bytes.buffer);
      decrementIpv4Ttl(view, 0);
      h.ttl--;
      assertStrictEquals(toHex(bytes), toHex(emitted(h)));
      setIpv4Ecn(view, 0, ecn);
      h.trafficClass = (h.trafficClass & 0xfc) | ecn;
      assertStrictEquals(toHex(bytes), toHex(emitted(h)));
    }),
    { numRuns: 500 },
  );
});

Deno.test("ipv4: the checksum stays right for every TTL, also where it passes 0xffff and 0x0000", () => {
  // Every id, so that the checksum takes every value that it can.
  const h = ipHeader("10.7.0.1", "10.7.0.2", { protocol: IpProtocol.Tcp, payloadLength: 0 });
  const bytes = emitted(h);
  const view = new DataView(bytes.buffer);
  for (h.id = 0; h.id <= 0xffff; h.id++) {
    for (const ttl of [1, 64, 255]) {
      h.ttl = ttl;
      emitIpv4(view, 0, h);
      decrementIpv4Ttl(view, 0);
      const checksum = view.getUint16(10);
      h.ttl = ttl - 1;
      emitIpv4(view, 0, h);
      if (checksum !== view.getUint16(10)) throw new Error(`id ${h.id}, TTL ${ttl}: ${checksum}`);
    }
  }
});

Deno.test("ipv6: hop limit and ECN changed in place give what writing anew gives", () => {
  fc.assert(fc.property(ipHeaders.filter((h) => h.version === 6 && h.ttl > 0), fc.nat(3), (h, ecn) => {
    const bytes = emitted(h);
    const view = new DataView(bytes.buffer);
    decrementIpv6HopLimit(view, 0);
    setIpv6Ecn(view, 0, ecn);
    h.ttl--;
    h.trafficClass = (h.trafficClass & 0xfc) | ecn;
    const expected = new Uint8Array(40);
    emitIpv6(new DataView(expected.buffer), 0, h);
    assertStrictEquals(toHex(bytes), toHex(expected));
  }));
});

Deno.test("ip: CE is set if the sender is ECN-capable, and the header is as if written anew", () => {
  fc.assert(
    fc.property(ipHeaders, fc.nat(7), (h, offset) => {
      const bytes = new Uint8Array(offset + ipHeaderBytes(h.version));
      const view = new DataView(bytes.buffer);
      emitIp(view, offset, h);
      assertStrictEquals(trafficClassAt(view, offset), h.trafficClass);
      const before = toHex(bytes);
      assertStrictEquals(markCe(view, offset, bytes.length - 1), false); // cut short
      assertStrictEquals(toHex(bytes), before);
      const isCapable = (h.trafficClass & 3) !== Ecn.NotEct;
      assertStrictEquals(markCe(view, offset, bytes.length), isCapable);
      if (isCapable) h.trafficClass |= Ecn.Ce;
      const expected = new Uint8Array(bytes.length);
      emitIp(new DataView(expected.buffer), offset, h);
      assertStrictEquals(toHex(bytes), toHex(expected));
    }),
    { numRuns: 500 },
  );
  for (let first = 0; first < 256; first++) {
    if (first >>> 4 === 4 || first >>> 4 === 6) continue;
    const view = new DataView(Uint8Array.from({ length: 60 }, (_, i) => i === 0 ? first : 0xff).buffer);
    assertEquals([trafficClassAt(view, 0), markCe(view, 0, 60), markCe(view, 0, 0)], [0, false, false]);
  }
});

Deno.test("ip: ECN code points are those of RFC 3168", () => {
  assertEquals([Ecn.NotEct, Ecn.Ect1, Ecn.Ect0, Ecn.Ce], [0, 1, 2, 3]);
});

Deno.test("ip: words of parsed addresses are int32 and IPv4 is in mapped form", () => {
  fc.assert(fc.property(fc.oneof(fc.tuple(ipv4Addr, ipv4Addr), fc.tuple(ipv6Addr, ipv6Addr)), ([a, b]) => {
    const h = new IpHeader();
    h.setAddresses(a, b);
    h.setDefaults(0, 0);
    const out = parsed(emitted(h)).h;
    assertStrictEquals(a.equalsWords(out.src0, out.src1, out.src2, out.src3), true);
    assertStrictEquals(b.equalsWords(out.dst0, out.dst1, out.dst2, out.dst3), true);
  }));
});
