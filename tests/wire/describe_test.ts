/**
 * The one-line text of packets: as tcpdump prints good ones, with a complaint for every damaged one, and always a line.
 *
 * @module
 */

import { assert, assertEquals, assertMatch, assertStrictEquals } from "@std/assert";
import * as fc from "fast-check";
import { PacketPool } from "../../src/base/packet.ts";
import { describe } from "../../src/wire/describe.ts";
import { type IpHeader, IpProtocol } from "../../src/wire/ip_header.ts";
import { ACK, CWR, ECE, FIN, PSH, RST, SYN, type TcpHeader, URG } from "../../src/wire/tcp.ts";
import { flipBit, fromHex } from "../testing/bytes.ts";
import { KERNEL_PACKETS, kernelPacket } from "../testing/kernel_packets.ts";
import { icmpPacket, ipHeader, tcpHeader, tcpPacket, udpPacket } from "../testing/packets.ts";
import { slowChecksum } from "../testing/slow_checksum.ts";

const v4 = (fields: Partial<IpHeader> = {}) => ipHeader("10.7.0.1", "10.7.0.2", fields);
const v6 = (fields: Partial<IpHeader> = {}) => ipHeader("fd07::1", "fd07::2", fields);
const text = (s: string) => new TextEncoder().encode(s) as Uint8Array<ArrayBuffer>;

Deno.test("describe: says of the kernel's packets what tcpdump says", () => {
  for (const { name, hex, text } of KERNEL_PACKETS) assertStrictEquals(describe(fromHex(hex)), text, name);
});

Deno.test("describe: a SYN in both families", () => {
  const syn = () =>
    tcpHeader({
      srcPort: 40000,
      dstPort: 80,
      seq: 1,
      flags: SYN,
      window: 65535,
      mss: 1460,
      sackPermitted: true,
      hasTimestamps: true,
      tsVal: 1,
      windowScale: 7,
    });
  const rest = "Flags [S], seq 1, win 65535, options [mss 1460,sackOK,TS val 1 ecr 0,nop,wscale 7], length 0";
  assertStrictEquals(describe(tcpPacket(v4(), syn())), `IP 10.7.0.1.40000 > 10.7.0.2.80: ${rest}`);
  assertStrictEquals(describe(tcpPacket(v6(), syn())), `IP6 fd07::1.40000 > fd07::2.80: ${rest}`);
});

Deno.test("describe: a packet of the pool, its live range only", () => {
  const p = new PacketPool(1).acquire()!;
  p.bytes.fill(0xff);
  const bytes = udpPacket(v4(), 1, 2, text("hello"));
  p.bytes.set(bytes, p.start);
  p.end = p.start + bytes.length;
  const before = p.bytes.slice();
  assertStrictEquals(describe(p), "IP 10.7.0.1.1 > 10.7.0.2.2: UDP, length 5");
  assertStrictEquals(describe(p.bytes, p.start, p.end), describe(p));
  assertStrictEquals(describe(p.bytes.subarray(p.start), 0, bytes.length), describe(p));
  p.bytes[p.start + 10]! ^= 1;
  p.bytes[p.start + 26]! ^= 1;
  describe(p);
  p.bytes[p.start + 10]! ^= 1;
  p.bytes[p.start + 26]! ^= 1;
  assertEquals(p.bytes, before, "describing changed the packet");
});

/** Describes a segment with these fields between two fixed endpoints, and gives what stands behind them. */
function segment(fields: Partial<TcpHeader> & { sack?: readonly number[] }, data = ""): string {
  const line = describe(tcpPacket(v4(), tcpHeader({ srcPort: 1, dstPort: 2, window: 9, ...fields }), text(data)));
  const endpoints = "IP 10.7.0.1.1 > 10.7.0.2.2: ";
  assert(line.startsWith(endpoints), line);
  return line.slice(endpoints.length);
}

Deno.test("describe: TCP flags, sequence numbers and windows", () => {
  assertStrictEquals(segment({}), "Flags [none], win 9, length 0");
  assertStrictEquals(segment({ flags: ACK, seq: 5, ack: 6 }), "Flags [.], ack 6, win 9, length 0");
  assertStrictEquals(
    segment({ flags: ACK, seq: -2, ack: -1 }, "abc"),
    "Flags [.], seq 4294967294:1, ack 4294967295, win 9, length 3",
  );
  assertStrictEquals(segment({ flags: FIN | ACK, seq: 5, ack: 6 }), "Flags [F.], seq 5, ack 6, win 9, length 0");
  assertStrictEquals(segment({ flags: RST, seq: 5, ack: 6 }), "Flags [R], seq 5, win 9, length 0");
  assertStrictEquals(segment({ flags: SYN | ACK | ECE, seq: 0 }), "Flags [S.E], seq 0, ack 0, win 9, length 0");
  assertStrictEquals(
    segment({ flags: FIN | SYN | RST | PSH | ACK | URG | ECE | CWR, urgent: 3 }, "x"),
    "Flags [FSRP.UEW], seq 0:1, ack 0, win 9, urg 3, length 1",
  );
});

/** Puts option bytes into a segment that has room for `hex.length / 2` of them. */
function withOptions(hex: string): string {
  const options = fromHex(hex);
  assertStrictEquals(options.length % 4, 0);
  const bytes = new Uint8Array([
    ...tcpPacket(v4(), tcpHeader({ srcPort: 1, dstPort: 2, window: 9, flags: ACK })),
    ...options,
  ]);
  const view = new DataView(bytes.buffer);
  view.setUint16(2, bytes.length);
  view.setUint16(10, 0);
  view.setUint16(10, slowChecksum(bytes.subarray(0, 20)));
  bytes[32] = (20 + options.length) << 2;
  const found = /bad cksum 0x[0-9a-f]{4} \(->0x([0-9a-f]{4})\)!/.exec(describe(bytes));
  view.setUint16(36, parseInt(found![1]!, 16));
  const line = describe(bytes);
  const options_ = /options \[(.*)\], length 0$/.exec(line);
  assert(options_ !== null && !line.includes("cksum"), line);
  return options_[1]!;
}

Deno.test("describe: TCP options in the order in which they stand", () => {
  assertStrictEquals(withOptions("01010402"), "nop,nop,sackOK");
  assertStrictEquals(withOptions("0303 07 00"), "wscale 7,eol");
  assertStrictEquals(withOptions("00000000"), "eol");
  assertStrictEquals(withOptions("0101 050a fffffffb 00000005"), "nop,nop,sack 1 {4294967291:5}");
  assertStrictEquals(withOptions("fe04beef 1302 01 01"), "unknown-254 0xbeef,unknown-19,nop,nop");
  assertStrictEquals(withOptions("0203 05 01"), "bad mss length 3,nop");
  assertStrictEquals(
    withOptions("0204 05b4 0302 0503 00 0402 00"),
    "mss 1460,bad wscale length 2,bad sack length 3,sackOK,eol",
  );
  assertStrictEquals(withOptions("01 01 08 0a"), "nop,nop,bad option 8 length 10");
  assertStrictEquals(withOptions("01 01 01 02"), "nop,nop,nop,bad option 2 length 0");
  assertStrictEquals(withOptions("0200 05b4"), "bad option 2 length 0");
});

Deno.test("describe: ICMP errors name what could not be reached", () => {
  const quotedUdp = udpPacket(ipHeader("10.7.0.2", "10.9.0.1"), 5000, 53, text("query"));
  const quotedTcp = tcpPacket(ipHeader("10.7.0.2", "10.9.0.1"), tcpHeader({ dstPort: 80 }));
  const line = (
    type: number,
    code: number,
    fields: { id?: number; seq?: number } = {},
    quoted: Uint8Array = quotedUdp,
  ) =>
    describe(icmpPacket(v4(), { type, code, ...fields }, new Uint8Array(quoted))).replace(
      "IP 10.7.0.1 > 10.7.0.2: ICMP ",
      "",
    );
  assertStrictEquals(line(3, 0), "net 10.9.0.1 unreachable, length 41");
  assertStrictEquals(line(3, 1), "host 10.9.0.1 unreachable, length 41");
  assertStrictEquals(line(3, 2), "10.9.0.1 protocol 17 unreachable, length 41");
  assertStrictEquals(line(3, 3), "10.9.0.1 udp port 53 unreachable, length 41");
  assertStrictEquals(line(3, 3, {}, quotedTcp), "10.9.0.1 tcp port 80 unreachable, length 48");
  assertStrictEquals(line(3, 4, { seq: 1400 }), "10.9.0.1 unreachable - need to frag (mtu 1400), length 41");
  assertStrictEquals(line(3, 4), "10.9.0.1 unreachable - need to frag, length 41");
  assertStrictEquals(line(3, 9), "net 10.9.0.1 unreachable - admin prohibited, length 41");
  assertStrictEquals(line(3, 10), "host 10.9.0.1 unreachable - admin prohibited, length 41");
  assertStrictEquals(line(3, 13), "host 10.9.0.1 unreachable - admin prohibited filter, length 41");
  assertStrictEquals(line(3, 5), "10.9.0.1 unreachable - code 5, length 41");
  assertStrictEquals(line(11, 0), "time exceeded in-transit, length 41");
  assertStrictEquals(line(11, 1), "ip reassembly time exceeded, length 41");
  assertStrictEquals(line(12, 0, { id: 0x0900 }), "parameter problem - octet 9, length 41");
  assertStrictEquals(line(11, 2), "type 11 code 2, length 41");
  assertStrictEquals(line(12, 1), "type 12 code 1, length 41");
  assertStrictEquals(line(13, 0), "type 13 code 0, length 41");
  // A quotation that stops in the transport header, in the IP header, or is none.
  assertStrictEquals(line(3, 3, {}, quotedUdp.subarray(0, 28)), "10.9.0.1 udp port 53 unreachable, length 36");
  assertStrictEquals(line(3, 3, {}, quotedUdp.subarray(0, 22)), "10.9.0.1 udp port ? unreachable, length 30");
  assertStrictEquals(line(3, 3, {}, quotedUdp.subarray(0, 19)), "? ? port ? unreachable, length 27");
  assertStrictEquals(line(3, 2, {}, new Uint8Array(0)), "? protocol ? unreachable, length 8");
});

Deno.test("describe: ICMPv6 errors and neighbour discovery", () => {
  const quoted = udpPacket(ipHeader("fd07::2", "fd09::1"), 5000, 53, text("query"));
  const line = (type: number, code: number, fields: { id?: number; seq?: number } = {}) =>
    describe(icmpPacket(v6(), { type, code, ...fields }, quoted)).replace("IP6 fd07::1 > fd07::2: ICMP6, ", "");
  assertStrictEquals(line(1, 0), "destination unreachable, unreachable route fd09::1, length 61");
  assertStrictEquals(line(1, 1), "destination unreachable, unreachable prohibited fd09::1, length 61");
  assertStrictEquals(line(1, 3), "destination unreachable, unreachable address fd09::1, length 61");
  assertStrictEquals(line(1, 4), "destination unreachable, unreachable port, fd09::1 udp port 53, length 61");
  assertStrictEquals(line(1, 6), "destination unreachable, fd09::1 code 6, length 61");
  assertStrictEquals(line(2, 0, { seq: 1280 }), "packet too big, mtu 1280, length 61");
  assertStrictEquals(line(2, 0, { id: 0xffff, seq: 0xffff }), "packet too big, mtu 4294967295, length 61");
  assertStrictEquals(line(3, 0), "time exceeded in-transit for fd09::1, length 61");
  assertStrictEquals(line(3, 1), "time exceeded in-transit (reassembly), length 61");
  assertStrictEquals(line(4, 0, { seq: 6 }), "parameter problem, erroneous - octet 6, length 61");
  assertStrictEquals(line(4, 1, { seq: 6 }), "parameter problem, next header - octet 6, length 61");
  assertStrictEquals(line(3, 2), "type 3 code 2, length 61");
  assertStrictEquals(line(4, 3), "type 4 code 3, length 61");
  assertStrictEquals(line(133, 0), "router solicitation, length 61");
  assertStrictEquals(line(136, 0), "neighbor advertisement, length 61");
  assertStrictEquals(line(143, 0), "type 143 code 0, length 61");
});

Deno.test("describe: other protocols, and ICMP of the wrong family", () => {
  const other = (ip: IpHeader, protocol: number) => {
    const bytes = udpPacket(ip, 1, 2, text("abc"));
    bytes[ip.version === 4 ? 9 : 6] = protocol;
    return describe(bytes).replace(/bad cksum \S+ \S+ /, "");
  };
  assertStrictEquals(other(v4(), 253), "IP 10.7.0.1 > 10.7.0.2: ip-proto-253, length 11");
  assertStrictEquals(other(v6(), 44), "IP6 fd07::1 > fd07::2: ip-proto-44, length 11");
  assertStrictEquals(other(v4(), IpProtocol.Icmpv6), "IP 10.7.0.1 > 10.7.0.2: ip-proto-58, length 11");
  assertStrictEquals(other(v6(), IpProtocol.Icmp), "IP6 fd07::1 > fd07::2: ip-proto-1, length 11");
});

Deno.test("describe: fragments", () => {
  const more = { id: 42, dontFragment: false, moreFragments: true };
  assertStrictEquals(
    describe(udpPacket(v4(more), 1, 2, text("12345678"))),
    "IP 10.7.0.1.1 > 10.7.0.2.2: UDP, length 8 (frag 42:16@0+)",
  );
  assertStrictEquals(
    describe(udpPacket(v4({ ...more, fragmentOffset: 1480 }), 1, 2, text("12345678"))),
    "IP 10.7.0.1 > 10.7.0.2: udp (frag 42:16@1480+)",
  );
  assertStrictEquals(
    describe(tcpPacket(v4({ ...more, moreFragments: false, fragmentOffset: 8 }), tcpHeader())),
    "IP 10.7.0.1 > 10.7.0.2: tcp (frag 42:20@8)",
  );
  // The checksum of a first fragment covers what is not there: no complaint.
  const first = udpPacket(v4(more), 1, 2, text("12345678"));
  first[26]! ^= 0x55;
  assertStrictEquals(describe(first), "IP 10.7.0.1.1 > 10.7.0.2.2: UDP, length 8 (frag 42:16@0+)");
});

Deno.test("describe: wrong checksums are shown with the right ones", () => {
  const damaged = (name: string, at: number) => {
    const bytes = kernelPacket(name);
    bytes[at]! ^= 0x80;
    return describe(bytes);
  };
  assertStrictEquals(
    damaged("v4 rst", 10),
    "IP bad cksum 0xede8 (->0x6de8)! 10.7.0.2.40000 > 10.7.0.1.80: Flags [R.], seq 2622471088, ack 45, win 64, " +
      "options [nop,nop,TS val 682613891 ecr 1005], length 0",
  );
  assertStrictEquals(
    damaged("v6 rst", 56),
    "IP6 fd07::2.40000 > fd07::1.80: Flags [R.], bad cksum 0x6fae (->0xefae)!, seq 3126260193, ack 45, win 63, " +
      "options [nop,nop,TS val 1051590952 ecr 1005], length 0",
  );
  assertStrictEquals(
    damaged("v4 udp", 26),
    "IP 10.7.0.2.5000 > 10.7.0.1.53: bad cksum 0x84a6 (->0x04a6)! UDP, length 3",
  );
  assertStrictEquals(
    damaged("v6 echo reply", 42),
    "IP6 fd07::2 > fd07::1: ICMP6, echo reply, id 7, seq 1, length 24 (bad cksum 0xcb51 (->0x4b51)!)",
  );
  const none = udpPacket(v6(), 1, 2, text("abc"));
  none[46] = none[47] = 0;
  assertMatch(describe(none), /^IP6 fd07::1\.1 > fd07::2\.2: bad cksum 0x0000 \(->0x[0-9a-f]{4}\)! UDP, length 3$/);
  // A sum whose complement is zero is sent as ffff.
  const zero = udpPacket(v4(), 1, 2, fromHex("ebc6"));
  zero[27] = 0xfe;
  assertStrictEquals(
    describe(zero),
    "IP 10.7.0.1.1 > 10.7.0.2.2: bad cksum 0xfffe (->0xffff)! UDP, length 2",
  );
  const allowed = udpPacket(v4(), 1, 2, text("abc"));
  allowed[26] = allowed[27] = 0;
  assertStrictEquals(describe(allowed), "IP 10.7.0.1.1 > 10.7.0.2.2: UDP, length 3");
});

Deno.test("describe: what is missing or contradicts itself", () => {
  const tcp = kernelPacket("v4 data");
  assertStrictEquals(describe(new Uint8Array(0)), "empty packet");
  assertStrictEquals(describe(fromHex("f0ff")), "unknown IP version 15, length 2");
  assertStrictEquals(describe(tcp.subarray(0, 12)), "IP truncated (12 of 20 header bytes)");
  assertStrictEquals(describe(kernelPacket("v6 data").subarray(0, 39)), "IP6 truncated (39 of 40 header bytes)");
  assertStrictEquals(
    describe(tcp.subarray(0, 20)),
    "IP truncated-ip - 46 bytes missing! 10.7.0.2 > 10.7.0.1: tcp truncated (0 of 20 bytes)",
  );
  assertStrictEquals(
    describe(tcp.subarray(0, 24)),
    "IP truncated-ip - 42 bytes missing! 10.7.0.2.40000 > 10.7.0.1.80: tcp truncated (4 of 20 bytes)",
  );
  assertStrictEquals(
    describe(tcp.subarray(0, 39)),
    "IP truncated-ip - 27 bytes missing! 10.7.0.2.40000 > 10.7.0.1.80: tcp truncated (19 of 20 bytes)",
  );
  assertStrictEquals(
    describe(tcp.subarray(0, 51)),
    "IP truncated-ip - 15 bytes missing! 10.7.0.2.40000 > 10.7.0.1.80: tcp truncated (31 of 32 header bytes)",
  );
  assertStrictEquals(
    describe(tcp.subarray(0, 60)),
    "IP truncated-ip - 6 bytes missing! 10.7.0.2.40000 > 10.7.0.1.80: Flags [P.], seq 2622471073:2622471081, " +
      "ack 4294967281, win 64, options [nop,nop,TS val 682613891 ecr 1000], length 8",
  );
  assertStrictEquals(
    describe(kernelPacket("v6 udp").subarray(0, 47)),
    "IP6 truncated-ip - 4 bytes missing! fd07::2.5000 > fd07::1.53: udp truncated (7 of 8 bytes)",
  );
  assertStrictEquals(
    describe(kernelPacket("v6 udp").subarray(0, 48)),
    "IP6 truncated-ip - 3 bytes missing! fd07::2.5000 > fd07::1.53: UDP, length 3",
  );
  assertStrictEquals(
    describe(kernelPacket("v4 echo reply").subarray(0, 22)),
    "IP truncated-ip - 22 bytes missing! 10.7.0.2 > 10.7.0.1: ICMP truncated (2 of 8 bytes)",
  );
  const header = (at: number, value: number) => {
    const bytes = new Uint8Array(tcp);
    bytes[at] = value;
    return describe(bytes);
  };
  assertStrictEquals(header(0, 0x44), "IP bad header length 16");
  assertStrictEquals(header(3, 19), "IP bad length 19");
  assertStrictEquals(header(32, 0x40), "IP 10.7.0.2.40000 > 10.7.0.1.80: tcp, bad header length 16");
  const udp = kernelPacket("v6 udp");
  udp[45] = 12;
  assertStrictEquals(describe(udp), "IP6 fd07::2.5000 > fd07::1.53: UDP, bad length 12 > 11");
  udp[45] = 7;
  assertStrictEquals(describe(udp), "IP6 fd07::2.5000 > fd07::1.53: UDP, bad length 7");
});

Deno.test("describe: an IPv4-mapped address in IPv6 is shown as such", () => {
  const bytes = kernelPacket("v6 udp");
  bytes.set(fromHex("0000 0000 0000 0000 0000 ffff 0a07 0001"), 8);
  assertMatch(describe(bytes), /^IP6 martian ::ffff:10\.7\.0\.1\.5000 > fd07::1\.53: bad cksum .* UDP, length 3$/);
});

const COMPLAINT = /bad |truncated|missing|unknown|ip-proto|martian|type \d+ code/;

Deno.test("describe: a flip of any bit that something covers is complained about", () => {
  for (const { name, hex, text } of KERNEL_PACKETS) {
    const bytes = fromHex(hex);
    const isV4 = bytes[0]! >> 4 === 4;
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const line = describe(flipBit(bytes, bit));
      if (!isV4 && ((bit >= 4 && bit < 32) || (bit >= 56 && bit < 64))) assertStrictEquals(line, text);
      else assertMatch(line, COMPLAINT, `${name}, bit ${bit}`);
    }
  }
});

Deno.test("describe: a packet cut at any length is complained about, unless nothing is left", () => {
  for (const { name, hex } of KERNEL_PACKETS) {
    const bytes = fromHex(hex);
    for (let length = 1; length < bytes.length; length++) {
      assertMatch(describe(bytes, 0, length), /truncated/, `${name} cut to ${length}`);
    }
    assertStrictEquals(describe(bytes, 0, 0), "empty packet");
  }
});

Deno.test("describe: any bytes, whole packets with damage, and odd ranges give one line", () => {
  const oneLine = (line: string) => assertMatch(line, /^[\x20-\x7e]+$/);
  fc.assert(fc.property(fc.uint8Array({ maxLength: 120, size: "max" }), (bytes) => oneLine(describe(bytes))), {
    numRuns: 500,
  });
  fc.assert(
    fc.property(
      fc.nat(KERNEL_PACKETS.length - 1),
      fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 8 }),
      fc.integer({ min: -200, max: 200 }),
      fc.integer({ min: -200, max: 200 }),
      (pick, changes, start, end) => {
        const bytes = fromHex(KERNEL_PACKETS[pick]!.hex);
        for (const [at, value] of changes) bytes[at % bytes.length] = value;
        oneLine(describe(bytes));
        oneLine(describe(bytes, start, end));
      },
    ),
    { numRuns: 1500 },
  );
});
