/**
 * ICMP and ICMPv6 messages: byte images of echo and of errors, the checksum's reach, round trips.
 *
 * @module
 */

import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import * as fc from "fast-check";
import { DropReason } from "../../src/base/drop.ts";
import { IcmpHeader, Icmpv4Type, Icmpv6Type, isIcmpError, parseIcmp } from "../../src/wire/icmp.ts";
import { IpHeader } from "../../src/wire/ip_header.ts";
import { addressPair, payload, u16, u8 } from "../testing/arbitraries.ts";
import { exactView, fromHex, toHex } from "../testing/bytes.ts";
import { kernelPacket } from "../testing/kernel_packets.ts";
import { icmpPacket, ipHeader, parsePacket } from "../testing/packets.ts";

function parsed(ip: IpHeader, bytes: Uint8Array): { reason: DropReason; h: IcmpHeader } {
  const h = new IcmpHeader();
  return { reason: parseIcmp(exactView(bytes), 0, bytes.length, ip, h), h };
}

Deno.test("icmp: image of an echo request over IPv4", () => {
  // 0800+0007+0001+6162+6300 = cc6a; complement 3395. No pseudo-header.
  const ip = ipHeader("10.7.0.1", "10.7.0.2");
  const echo = { type: Icmpv4Type.EchoRequest, id: 7, seq: 1 };
  const packet = icmpPacket(ip, echo, new TextEncoder().encode("abc"));
  assertStrictEquals(toHex(packet.subarray(20)), "0800 3395 0007 0001 6162 63");
});

Deno.test("icmp: image of an echo request over IPv6", () => {
  // 8000+0007+0001+6162+6300 = 1446a, and the pseudo-header fd07+0001+fd07+0002+000b+003a = 1fa56;
  // together 33ec0, folded 3ec3; complement c13c.
  const ip = ipHeader("fd07::1", "fd07::2");
  const echo = { type: Icmpv6Type.EchoRequest, id: 7, seq: 1 };
  const packet = icmpPacket(ip, echo, new TextEncoder().encode("abc"));
  assertStrictEquals(toHex(packet.subarray(40)), "8000 c13c 0007 0001 6162 63");
});

Deno.test("icmp: the kernel's echoes and errors are read field by field", () => {
  const fields = (name: string) => {
    const { reason, icmp } = parsePacket(exactView(kernelPacket(name)));
    assertStrictEquals(reason, DropReason.None, name);
    return [icmp.type, icmp.code, icmp.id, icmp.seq];
  };
  assertEquals(fields("v4 echo request"), [Icmpv4Type.EchoRequest, 0, 0x1b42, 1]);
  assertEquals(fields("v4 echo reply"), [Icmpv4Type.EchoReply, 0, 7, 1]);
  assertEquals(fields("v4 port unreachable"), [Icmpv4Type.Unreachable, 3, 0, 0]);
  assertEquals(fields("v6 echo request"), [Icmpv6Type.EchoRequest, 0, 0x1b43, 1]);
  assertEquals(fields("v6 echo reply"), [Icmpv6Type.EchoReply, 0, 7, 1]);
  assertEquals(fields("v6 port unreachable"), [Icmpv6Type.Unreachable, 4, 0, 0]);
});

Deno.test("icmp: fragmentation needed has its MTU in the low half, packet too big in both", () => {
  const v4 = icmpPacket(ipHeader("10.7.0.1", "10.7.0.2"), { type: 3, code: 4, seq: 1400 });
  assertStrictEquals(toHex(v4.subarray(20)), "0304 f783 0000 0578");
  const v6 = icmpPacket(ipHeader("fd07::1", "fd07::2"), { type: Icmpv6Type.PacketTooBig, id: 1, seq: 0x0500 });
  assertStrictEquals(toHex(v6.subarray(44)), "0001 0500");
});

Deno.test("icmp: what is refused, and why", () => {
  const v4 = ipHeader("10.7.0.1", "10.7.0.2");
  const v6 = ipHeader("fd07::1", "fd07::2");
  assertStrictEquals(parsed(v4, fromHex("0800 3395 0007 00")).reason, DropReason.Truncated);
  assertStrictEquals(parsed(v4, fromHex("0800 3394 0007 0001 6162 63")).reason, DropReason.BadIcmpChecksum);
  assertStrictEquals(parsed(v6, fromHex("8000 c13d 0007 0001 6162 63")).reason, DropReason.BadIcmpChecksum);
  // ICMPv6 covers the addresses, ICMP does not.
  assertStrictEquals(
    parsed(ipHeader("fd07::1", "fd07::3"), fromHex("8000 c13c 0007 0001 6162 63")).reason,
    DropReason.BadIcmpChecksum,
  );
  assertStrictEquals(
    parsed(ipHeader("10.7.0.1", "1.1.1.1"), fromHex("0800 3395 0007 0001 6162 63")).reason,
    DropReason.None,
  );
});

Deno.test("icmp: which types are errors, never to be answered", () => {
  const errors = (version: number) => Array.from({ length: 256 }, (_, t) => t).filter((t) => isIcmpError(version, t));
  assertEquals(errors(4), [3, 4, 5, 11, 12]);
  assertEquals(errors(6), Array.from({ length: 128 }, (_, type) => type));
  assert(!isIcmpError(6, Icmpv6Type.EchoRequest) && !isIcmpError(4, Icmpv4Type.EchoRequest));
});

Deno.test("icmp: parse(emit(x)) = x", () => {
  fc.assert(
    fc.property(addressPair, u8, u8, u16, u16, payload, ([source, destination], type, code, id, seq, data) => {
      const ip = new IpHeader();
      ip.setAddresses(source, destination);
      ip.setDefaults(0, 0);
      const packet = icmpPacket(ip, { type, code, id, seq }, data);
      const { reason, ip: again, icmp } = parsePacket(exactView(packet));
      assertStrictEquals(reason, DropReason.None);
      assertEquals({ ...again }, { ...ip });
      assertEquals({ ...icmp }, { type, code, id, seq });
      assertEquals(packet.subarray(packet.length - data.length), data);
    }),
    { numRuns: 300 },
  );
});
