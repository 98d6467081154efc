/**
 * What the codecs do to packets that are cut short, damaged or made up: they never throw, never read beyond the end,
 * and never take a packet for good that a length or a checksum could tell from a good one.
 *
 * Every view ends exactly at the last byte of the packet, so a read beyond it throws.
 *
 * @module
 */

import { assert, assertEquals, assertNotEquals, assertStrictEquals } from "@std/assert";
import * as fc from "fast-check";
import { DropReason } from "../../src/base/drop.ts";
import { IcmpHeader, parseIcmp } from "../../src/wire/icmp.ts";
import { IpHeader, IpProtocol, parseIp } from "../../src/wire/ip_header.ts";
import { parseIpv4 } from "../../src/wire/ipv4.ts";
import { parseIpv6 } from "../../src/wire/ipv6.ts";
import { ACK, parseTcp, PSH, TcpHeader, tcpHeaderLength } from "../../src/wire/tcp.ts";
import { parseUdp, UdpHeader } from "../../src/wire/udp.ts";
import { exactView, flipBit, fromHex, toHex } from "../testing/bytes.ts";
import { KERNEL_PACKETS } from "../testing/kernel_packets.ts";
import { icmpPacket, ipHeader, parsePacket, tcpHeader, tcpPacket, udpPacket } from "../testing/packets.ts";
import { slowChecksum } from "../testing/slow_checksum.ts";

const DATA = Uint8Array.from({ length: 37 }, (_, i) => (i * 41) & 255);
const PAIRS = [["10.7.0.1", "10.7.0.2"], ["fd07::1", "2001:db8::2"]] as const;

/** Good packets: those of the kernel and, in both families, some of our own with odd data. */
const CORPUS: readonly { name: string; bytes: Uint8Array }[] = [
  ...KERNEL_PACKETS.map(({ name, hex }) => ({ name, bytes: fromHex(hex) })),
  ...PAIRS.flatMap(([a, b]) => [
    {
      name: `${a} tcp data`,
      bytes: tcpPacket(ipHeader(a, b), tcpHeader({ flags: ACK | PSH, hasTimestamps: true, sack: [1, 2] }), DATA),
    },
    {
      name: `${a} tcp sack 4`,
      bytes: tcpPacket(ipHeader(a, b), tcpHeader({ flags: ACK, seq: -1, sack: [1, 2, 3, 4, 5, 6, 7, 8] })),
    },
    { name: `${a} udp`, bytes: udpPacket(ipHeader(a, b), 1, 2, DATA) },
    { name: `${a} udp empty`, bytes: udpPacket(ipHeader(a, b), 1000, 2) },
    { name: `${a} echo`, bytes: icmpPacket(ipHeader(a, b), { type: a.includes(":") ? 128 : 8, id: 7, seq: 9 }, DATA) },
  ]),
];

/** Length of the IP header at the front of a good packet. */
const ipLength = (bytes: Uint8Array): number => bytes[0]! >> 4 === 4 ? (bytes[0]! & 15) * 4 : 40;

/** A packet cut to `length` whose IP header says so: what a cut in front of the tunnel would look like. */
function cutHonestly(bytes: Uint8Array, length: number): Uint8Array<ArrayBuffer> {
  const cut = new Uint8Array(bytes.subarray(0, length));
  const view = new DataView(cut.buffer);
  if (cut[0]! >> 4 === 4) {
    view.setUint16(2, length);
    view.setUint16(10, 0);
    view.setUint16(10, slowChecksum(cut.subarray(0, ipLength(cut))));
  } else view.setUint16(4, length - 40);
  return cut;
}

/** True if cutting at `length` loses only zeros at the end of an ICMP message, whose checksum covers no length. */
function losesOnlyZeros(bytes: Uint8Array, length: number): boolean {
  return bytes[0] === 0x45 && bytes[9] === IpProtocol.Icmp && bytes.subarray(length).every((b) => b === 0);
}

Deno.test("robustness: the corpus is good", () => {
  for (const { name, bytes } of CORPUS) assertStrictEquals(parsePacket(exactView(bytes)).reason, DropReason.None, name);
});

Deno.test("robustness: a packet cut short at any length is reported as truncated", () => {
  for (const { name, bytes } of CORPUS) {
    for (let length = 0; length < bytes.length; length++) {
      const cut = bytes.subarray(0, length);
      const { reason } = parsePacket(exactView(cut));
      assertStrictEquals(reason, DropReason.Truncated, `${name} cut to ${length}`);
      // The same behind other bytes, as in a slot with headroom.
      const behind = parsePacket(exactView(new Uint8Array([...bytes, ...cut])), bytes.length);
      assertStrictEquals(behind.reason, DropReason.Truncated, `${name} cut to ${length}, behind others`);
    }
  }
});

Deno.test("robustness: a transport header cut under a consistent IP header is refused at any length", () => {
  for (const { name, bytes } of CORPUS) {
    const l4 = ipLength(bytes);
    const { ip, tcp } = parsePacket(exactView(bytes));
    const headerLength = ip.protocol === IpProtocol.Tcp ? tcpHeaderLength(tcp) : 8;
    for (let length = l4; length < bytes.length; length++) {
      const { reason } = parsePacket(exactView(cutHonestly(bytes, length)));
      const what = `${name} cut to ${length}`;
      if (length < l4 + headerLength) assertStrictEquals(reason, DropReason.Truncated, what);
      // Behind the header only the checksum can tell, and UDP's own length.
      else if (losesOnlyZeros(bytes, length)) assertStrictEquals(reason, DropReason.None, what);
      else assertNotEquals(reason, DropReason.None, what);
    }
  }
});

Deno.test("robustness: each codec by itself, cut at any length, reads nothing beyond the end", () => {
  for (const { name, bytes } of CORPUS) {
    const l4 = ipLength(bytes);
    const { ip } = parsePacket(exactView(bytes));
    for (let length = 0; length < bytes.length; length++) {
      const view = exactView(bytes.subarray(0, length));
      assertNotEquals(parseIpv4(view, 0, length, new IpHeader()), DropReason.None, name);
      assertNotEquals(parseIpv6(view, 0, length, new IpHeader()), DropReason.None, name);
      if (length < l4) continue;
      const transport = length - l4;
      const reasons: [DropReason, number][] = [
        [parseTcp(view, l4, length, ip, new TcpHeader()), 20],
        [parseUdp(view, l4, length, ip, new UdpHeader()), 8],
        [parseIcmp(view, l4, length, ip, new IcmpHeader()), 8],
      ];
      for (const [reason, headerLength] of reasons) {
        if (transport < headerLength) assertStrictEquals(reason, DropReason.Truncated, `${name} cut to ${length}`);
      }
    }
  }
});

Deno.test("robustness: what stands outside [start, end) changes nothing", () => {
  for (const { name, bytes } of CORPUS) {
    const results = [0x00, 0xff].map((fill) => {
      const around = new Uint8Array(bytes.length + 33).fill(fill);
      around.set(bytes, 13);
      return parsePacket(exactView(around), 13, 13 + bytes.length);
    });
    assertEquals(results[0], results[1], name);
    assertEquals({ ...results[0]!.ip }, { ...parsePacket(exactView(bytes)).ip }, name);
    assertStrictEquals(results[0]!.reason, DropReason.None);
  }
});

/** Bits of the IPv6 header that no checksum covers: traffic class, flow label, hop limit. */
function isUncovered(bit: number): boolean {
  return (bit >= 4 && bit < 32) || (bit >= 56 && bit < 64);
}

Deno.test("robustness: a flip of any bit is detected wherever a checksum or a length covers it", () => {
  for (const { name, bytes } of CORPUS) {
    const before = parsePacket(exactView(bytes));
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const after = parsePacket(exactView(flipBit(bytes, bit)));
      if (before.ip.version === 6 && isUncovered(bit)) {
        assertStrictEquals(after.reason, DropReason.None, `${name}, bit ${bit}`);
        const changed = Object.keys(before.ip).filter((key) =>
          before.ip[key as keyof IpHeader] !== after.ip[key as keyof IpHeader]
        );
        assertEquals(changed, [bit >= 56 ? "ttl" : bit >= 12 ? "flowLabel" : "trafficClass"]);
        assertEquals({ ...after.tcp }, { ...before.tcp });
      } else {
        assertNotEquals(after.reason, DropReason.None, `${name}, bit ${bit}`);
      }
    }
  }
});

Deno.test("robustness: a flip is reported under the reason of the layer that it hit", () => {
  const covered: Record<number, DropReason> = {
    [IpProtocol.Tcp]: DropReason.BadTcpChecksum,
    [IpProtocol.Udp]: DropReason.BadUdpChecksum,
    [IpProtocol.Icmp]: DropReason.BadIcmpChecksum,
    [IpProtocol.Icmpv6]: DropReason.BadIcmpChecksum,
  };
  for (const { name, bytes } of CORPUS) {
    const { ip } = parsePacket(exactView(bytes));
    const l4 = ipLength(bytes);
    // An address, and the last byte.
    const address = (ip.version === 4 ? 12 : 8) * 8;
    assertStrictEquals(
      parsePacket(exactView(flipBit(bytes, address))).reason,
      ip.version === 4 ? DropReason.BadIpChecksum : covered[ip.protocol]!,
      name,
    );
    // The first bit of the transport header: a port, or the type.
    assertStrictEquals(parsePacket(exactView(flipBit(bytes, l4 * 8))).reason, covered[ip.protocol]!, name);
  }
});

Deno.test("robustness: a flip that turns the only bit of a UDP checksum off leaves a datagram without one", () => {
  // The one hole in the detection, and RFC 768's own: over IPv4 a zero checksum means that there is none.
  const ip = ipHeader("10.7.0.1", "10.7.0.2");
  // Pseudo-header 1411+0011+000a, ports 0001+0002, length 000a: 1439. With ebc5 that is fffe, and the checksum 0001.
  const packet = udpPacket(ip, 1, 2, fromHex("ebc5"));
  assertStrictEquals(toHex(packet.subarray(20)), "0001 0002 000a 0001 ebc5");
  assertStrictEquals(parsePacket(exactView(flipBit(packet, 27 * 8 + 7))).reason, DropReason.None);
});

Deno.test("robustness: random bytes never make a codec throw", () => {
  const ips = [ipHeader("10.7.0.1", "10.7.0.2"), ipHeader("fd07::1", "fd07::2")];
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 120, size: "max" }), (bytes) => {
      const view = exactView(bytes);
      const n = bytes.length;
      parseIp(view, 0, n, new IpHeader());
      parsePacket(view);
      for (const ip of ips) {
        for (let start = 0; start <= Math.min(n, 4); start++) {
          parseTcp(view, start, n, ip, new TcpHeader());
          parseUdp(view, start, n, ip, new UdpHeader());
          parseIcmp(view, start, n, ip, new IcmpHeader());
        }
      }
    }),
    { numRuns: 1000 },
  );
});

/** Puts length and checksums right, so that damage reaches what lies behind these checks. */
function repaired(bytes: Uint8Array, ip: IpHeader): Uint8Array<ArrayBuffer> {
  const copy = cutHonestly(bytes, bytes.length);
  const view = new DataView(copy.buffer);
  const at = ipLength(copy) + ({ [IpProtocol.Tcp]: 16, [IpProtocol.Udp]: 6 }[ip.protocol] ?? 2);
  const l4 = ipLength(copy);
  if (at + 2 > copy.length) return copy;
  view.setUint16(at, 0);
  let sum = ip.protocol === IpProtocol.Icmp ? 0 : ip.pseudoHeaderSum(ip.protocol, copy.length - l4);
  for (let i = l4; i < copy.length; i += 2) sum += copy[i]! * 256 + (copy[i + 1] ?? 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  view.setUint16(at, 0xffff - sum);
  return copy;
}

Deno.test("robustness: damaged packets with good checksums never make a codec throw", () => {
  let good = 0;
  fc.assert(
    fc.property(
      fc.nat(),
      fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 6 }),
      fc.nat(200),
      (pick, changes, cut) => {
        const { bytes } = CORPUS[pick % CORPUS.length]!;
        const { ip } = parsePacket(exactView(bytes));
        const l4 = ipLength(bytes);
        const damaged = new Uint8Array(bytes.subarray(0, Math.max(l4, bytes.length - cut % (bytes.length / 2))));
        // Only the transport part: damage to addresses would make another pseudo-header.
        for (const [at, value] of changes) damaged[l4 + at % Math.max(1, bytes.length - l4)] = value;
        const { reason, tcp, ip: after } = parsePacket(exactView(repaired(damaged, ip)));
        if (reason !== DropReason.None) return;
        good++;
        if (after.protocol !== IpProtocol.Tcp) return;
        assert(tcp.headerLength >= 20 && tcp.headerLength + tcp.payloadLength === damaged.length - l4);
        assert(tcp.sackCount >= 0 && tcp.sackCount <= 4);
      },
    ),
    { numRuns: 2000 },
  );
  assert(good > 100, `only ${good} damaged packets got past the checksums`);
});
