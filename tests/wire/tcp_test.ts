/**
 * TCP headers and options: byte images of every option and combination, what is refused, round trips, and the option
 * reader against a slow one.
 *
 * @module
 */

import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import * as fc from "fast-check";
import { DropReason } from "../../src/base/drop.ts";
import { IpHeader } from "../../src/wire/ip_header.ts";
import {
  ACK,
  CWR,
  ECE,
  emitTcp,
  FIN,
  parseTcp,
  PSH,
  RST,
  SYN,
  TcpHeader,
  tcpHeaderLength,
  URG,
} from "../../src/wire/tcp.ts";
import { emitTcpOptions, parseTcpOptions, tcpOptionsLength } from "../../src/wire/tcp_options.ts";
import { addressPair, payload, tcpHeaders } from "../testing/arbitraries.ts";
import { exactView, fromHex, toHex } from "../testing/bytes.ts";
import { kernelPacket } from "../testing/kernel_packets.ts";
import { ipHeader, parsePacket, tcpHeader, tcpPacket } from "../testing/packets.ts";

/** The fields of a header as a plain object, SACK blocks as pairs. */
function fields(h: TcpHeader): Record<string, unknown> {
  const { sackEdges, sackCount, ...rest } = h;
  const sack = Array.from({ length: sackCount }, (_, i) => [sackEdges[2 * i], sackEdges[2 * i + 1]]);
  return { ...rest, sack };
}

/** What parsing should make of `h` in front of `payloadLength` bytes. */
function expectedFields(h: TcpHeader, payloadLength: number): Record<string, unknown> {
  return { ...fields(h), headerLength: tcpHeaderLength(h), payloadLength };
}

/** The options of `h` as hex, written over memory that held something else. */
function optionsHex(h: TcpHeader): string {
  const bytes = new Uint8Array(tcpOptionsLength(h)).fill(0xa5);
  emitTcpOptions(new DataView(bytes.buffer), 0, h);
  return toHex(bytes);
}

function parsedOptions(hex: string): { reason: DropReason; h: TcpHeader } {
  const h = tcpHeader({ mss: 1, windowScale: 1, sackPermitted: true, hasTimestamps: true, sack: [1, 2] });
  const view = exactView(fromHex(hex));
  return { reason: parseTcpOptions(view, 0, view.byteLength, h), h };
}

Deno.test("tcp: image of a SYN with all its options over IPv4", () => {
  // Pseudo-header 0a07+0001+0a07+0002+0006+0028 = 143f; header 9c40+0050+0000+0001+0000+0000+a002+ffff = 23c92;
  // options 0204+05b4+0402+080a+0000+0001+0000+0000+0103+0307 = 17cf. Together 268a0, folded 68a2; complement 975d.
  const tcp = tcpHeader({
    srcPort: 40000,
    dstPort: 80,
    seq: 1,
    flags: SYN,
    window: 65535,
    mss: 1460,
    windowScale: 7,
    sackPermitted: true,
    hasTimestamps: true,
    tsVal: 1,
  });
  const packet = tcpPacket(ipHeader("10.7.0.1", "10.7.0.2"), tcp);
  assertStrictEquals(
    toHex(packet.subarray(20)),
    "9c40 0050 0000 0001 0000 0000 a002 ffff 975d 0000 0204 05b4 0402 080a 0000 0001 0000 0000 0103 0307",
  );
});

Deno.test("tcp: image of data over IPv6, every field at its end, odd length", () => {
  // Pseudo-header fd07+0001+fd07+0002+0000+0017+0006 = 1fa2e; header ffff+0001+ffff+ffff+8000+0000+5018+0000+ffff
  // = 4d015; data 6162+6300 = c462. Together 78ea5, folded 8eac; complement 7153.
  const tcp = tcpHeader({
    srcPort: 65535,
    dstPort: 1,
    seq: -1,
    ack: -0x80000000,
    flags: PSH | ACK,
    window: 0,
    urgent: 65535,
  });
  const packet = tcpPacket(ipHeader("fd07::1", "fd07::2"), tcp, new TextEncoder().encode("abc"));
  assertStrictEquals(
    toHex(packet.subarray(40)),
    "ffff 0001 ffff ffff 8000 0000 5018 0000 7153 ffff 6162 63",
  );
});

Deno.test("tcp: flags stand where RFC 9293 and RFC 3168 put them", () => {
  const bits: [number, number][] = [
    [FIN, 0x5001],
    [SYN, 0x5002],
    [RST, 0x5004],
    [PSH, 0x5008],
    [ACK, 0x5010],
    [URG, 0x5020],
    [ECE, 0x5040],
    [CWR, 0x5080],
  ];
  for (const [flags, word] of bits) {
    const bytes = new Uint8Array(20);
    emitTcp(new DataView(bytes.buffer), 0, 20, ipHeader("10.7.0.1", "10.7.0.2"), tcpHeader({ flags }));
    assertStrictEquals(new DataView(bytes.buffer).getUint16(12), word);
  }
});

Deno.test("tcp: images of every combination of MSS, SACK-permitted, timestamps and window scale", () => {
  const mss = { mss: 1460 };
  const ok = { sackPermitted: true };
  const ts = { hasTimestamps: true, tsVal: 0x01020304, tsEcr: -2 };
  const ws = { windowScale: 7 };
  const table: [Partial<TcpHeader>, string][] = [
    [{}, ""],
    [mss, "020405b4"],
    [ok, "01010402"],
    [ts, "0101080a 01020304 fffffffe"],
    [ws, "01030307"],
    [{ ...mss, ...ok }, "020405b4 01010402"],
    [{ ...mss, ...ts }, "020405b4 0101080a 01020304 fffffffe"],
    [{ ...mss, ...ws }, "020405b4 01030307"],
    [{ ...ok, ...ts }, "0402080a 01020304 fffffffe"],
    [{ ...ok, ...ws }, "01010402 01030307"],
    [{ ...ts, ...ws }, "0101080a 01020304 fffffffe 01030307"],
    [{ ...mss, ...ok, ...ts }, "020405b4 0402080a 01020304 fffffffe"],
    [{ ...mss, ...ok, ...ws }, "020405b4 01010402 01030307"],
    [{ ...mss, ...ts, ...ws }, "020405b4 0101080a 01020304 fffffffe 01030307"],
    [{ ...ok, ...ts, ...ws }, "0402080a 01020304 fffffffe 01030307"],
    [{ ...mss, ...ok, ...ts, ...ws }, "020405b4 0402080a 01020304 fffffffe 01030307"],
    // At the ends of their ranges.
    [{ mss: 0, windowScale: 0 }, "02040000 01030300"],
    [{ mss: 65535, windowScale: 255 }, "0204ffff 010303ff"],
  ];
  for (const [options, hex] of table) {
    assertStrictEquals(optionsHex(tcpHeader(options)), toHex(fromHex(hex)));
    const { reason, h } = parsedOptions(hex);
    assertStrictEquals(reason, DropReason.None);
    assertEquals(fields(h), fields(tcpHeader(options)));
  }
});

Deno.test("tcp: images of one to four SACK blocks, alone and behind timestamps", () => {
  const edges = [1, 2, -1, 0, 0x7fffffff, -0x80000000, 16, 32];
  const hex = ["00000001 00000002", "ffffffff 00000000", "7fffffff 80000000", "00000010 00000020"];
  for (let n = 1; n <= 4; n++) {
    const blocks = `0101 05${(2 + 8 * n).toString(16).padStart(2, "0")} ${hex.slice(0, n).join(" ")}`;
    const alone = tcpHeader({ sack: edges.slice(0, 2 * n) });
    assertStrictEquals(optionsHex(alone), toHex(fromHex(blocks)));
    assertEquals(fields(parsedOptions(blocks).h), fields(alone));
    if (n === 4) break;
    const both = tcpHeader({ hasTimestamps: true, tsVal: 5, tsEcr: 6, sack: edges.slice(0, 2 * n) });
    const image = `0101080a 00000005 00000006 ${blocks}`;
    assertStrictEquals(optionsHex(both), toHex(fromHex(image)));
    assertEquals(fields(parsedOptions(image).h), fields(both));
  }
});

Deno.test("tcp: options in other orders, without padding, and unknown ones between", () => {
  for (
    const hex of [
      "080a 00000005 00000006 0303 07 0402 0204 05b4 0000",
      "0204 05b4 0303 07 0402 080a 00000005 00000006 00",
      "fe04 abcd 0402 1e02 0303 07 01 0204 05b4 080a 00000005 00000006 13 12" + "00".repeat(16),
    ]
  ) {
    const { reason, h } = parsedOptions(hex);
    assertStrictEquals(reason, DropReason.None, hex);
    assertEquals(
      fields(h),
      fields(tcpHeader({ mss: 1460, windowScale: 7, sackPermitted: true, hasTimestamps: true, tsVal: 5, tsEcr: 6 })),
    );
  }
});

Deno.test("tcp: nothing behind the end of the list is read", () => {
  const { reason, h } = parsedOptions("0402 00 02 ff 01 0303");
  assertStrictEquals(reason, DropReason.None);
  assertEquals(fields(h), fields(tcpHeader({ sackPermitted: true })));
});

Deno.test("tcp: an option that appears twice counts as its last appearance", () => {
  const sack2 = "0512 00000001 00000002 00000003 00000004";
  const sack1 = "050a 00000005 00000006";
  assertEquals(fields(parsedOptions(sack2 + sack1).h), fields(tcpHeader({ sack: [5, 6] })));
  assertEquals(fields(parsedOptions("0204 0001 0204 0002").h), fields(tcpHeader({ mss: 2 })));
});

Deno.test("tcp: twelve bytes of options that are not NOP, NOP, timestamps", () => {
  assertEquals(fields(parsedOptions("0204 05b4 0402 0101 0303 0701").h), {
    ...fields(tcpHeader({ mss: 1460, sackPermitted: true, windowScale: 7 })),
  });
});

Deno.test("tcp: options of impossible length make the segment invalid", () => {
  for (
    const hex of [
      "02", // kind without a length
      "0101 01 08",
      "0200", // shorter than kind and length themselves
      "0201",
      "fe00",
      "fe01 0101",
      "0204 05", // runs past the header
      "fe03",
      "01 fe ff 0101",
      "0203 05", // known kinds, wrong lengths
      "0205 05b400",
      "0302",
      "0304 0700",
      "0403 00",
      "0502",
      "0506 00000001",
      "0509 00000001 000000",
      "050b 00000001 00000002 00",
      "052a" + "00000001".repeat(10),
      "0809 00000001 000000",
      "080b 00000001 00000002 00",
    ]
  ) assertStrictEquals(parsedOptions(hex).reason, DropReason.BadTcpOption, hex);
});

/** The options by name, read one byte at a time from an array, or null if any of them is malformed. */
function slowOptions(bytes: number[]): Record<string, unknown> | null {
  const found: Record<string, unknown> = { mss: -1, windowScale: -1, sackPermitted: false, timestamps: null, sack: [] };
  const u32 = (b: number[]) => b.reduce((n, byte) => n * 256 + byte, 0) | 0;
  const lengths: Record<number, number[]> = { 2: [4], 3: [3], 4: [2], 5: [10, 18, 26, 34], 8: [10] };
  while (bytes.length > 0 && bytes[0] !== 0) {
    if (bytes[0] === 1) {
      bytes = bytes.slice(1);
      continue;
    }
    const [kind, length] = bytes as [number, number | undefined];
    if (length === undefined || length < 2 || length > bytes.length) return null;
    if (!(lengths[kind]?.includes(length) ?? true)) return null;
    const data = bytes.slice(2, length);
    if (kind === 2) found.mss = data[0]! * 256 + data[1]!;
    if (kind === 3) found.windowScale = data[0];
    if (kind === 4) found.sackPermitted = true;
    if (kind === 5) {
      found.sack = Array.from({ length: data.length / 8 }, (_, i) => [
        u32(data.slice(8 * i, 8 * i + 4)),
        u32(data.slice(8 * i + 4, 8 * i + 8)),
      ]);
    }
    if (kind === 8) found.timestamps = [u32(data.slice(0, 4)), u32(data.slice(4))];
    bytes = bytes.slice(length);
  }
  return found;
}

Deno.test("tcp: any option bytes are read as the slow reader reads them", () => {
  const option = fc.oneof(
    fc.constantFrom("01", "00", "020405b4", "03030a", "0402", "080a0000000100000002", "050a0000000100000002"),
    fc.tuple(fc.constantFrom(2, 3, 4, 5, 8, 254), fc.nat(20)).map(([kind, length]) =>
      toHex(new Uint8Array([kind, length, ...Array(Math.max(0, length - 2)).fill(0x33)]))
    ),
    fc.uint8Array({ maxLength: 4 }).map((bytes) => toHex(bytes)),
  );
  fc.assert(
    fc.property(fc.array(option, { maxLength: 8 }), (options) => {
      const bytes = fromHex(options.join("")).subarray(0, 40);
      const { reason, h } = parsedOptions(toHex(bytes));
      const expected = slowOptions([...bytes]);
      assertStrictEquals(reason, expected === null ? DropReason.BadTcpOption : DropReason.None);
      if (expected === null) return;
      const f = fields(h);
      const timestamps = h.hasTimestamps ? [h.tsVal, h.tsEcr] : null;
      assertEquals(
        {
          mss: f.mss,
          windowScale: f.windowScale,
          sackPermitted: f.sackPermitted,
          timestamps,
          sack: f.sack,
        } as unknown,
        expected,
      );
    }),
    { numRuns: 2000 },
  );
});

Deno.test("tcp: the kernel's segments are read field by field", () => {
  const read = (name: string) => {
    const { reason, tcp } = parsePacket(exactView(kernelPacket(name)));
    assertStrictEquals(reason, DropReason.None, name);
    return fields(tcp);
  };
  const closed = { hasTimestamps: true, tsVal: 682613891, tsEcr: 1001 };
  assertEquals(
    read("v4 syn"),
    expectedFields(
      tcpHeader({
        srcPort: 40000,
        dstPort: 80,
        seq: 2622471072 | 0,
        flags: SYN,
        window: 65280,
        mss: 1360,
        windowScale: 10,
        sackPermitted: true,
        hasTimestamps: true,
        tsVal: 682613870,
      }),
      0,
    ),
  );
  assertEquals(
    read("v4 sack3"),
    expectedFields(
      tcpHeader({
        srcPort: 40000,
        dstPort: 80,
        seq: 2622471087 | 0,
        ack: 4294967281 | 0,
        flags: ACK,
        window: 64,
        ...closed,
        sack: [35, 45, 15, 25, 4294967291 | 0, 5],
      }),
      0,
    ),
  );
  assertEquals(
    read("v6 data"),
    expectedFields(
      tcpHeader({
        srcPort: 40000,
        dstPort: 80,
        seq: 3126260178 | 0,
        ack: 4294967281 | 0,
        flags: PSH | ACK,
        window: 63,
        hasTimestamps: true,
        tsVal: 1051590952,
        tsEcr: 1000,
      }),
      14,
    ),
  );
  assertEquals(
    read("v6 rst-ack closed port"),
    expectedFields(tcpHeader({ srcPort: 81, dstPort: 5555, ack: 78, flags: RST | ACK }), 0),
  );
});

Deno.test("tcp: what is refused, and why", () => {
  const ip = ipHeader("10.7.0.1", "10.7.0.2");
  const good = tcpPacket(ip, tcpHeader({ srcPort: 1, dstPort: 2, flags: ACK, mss: 1460 })).subarray(20);
  const reason = (bytes: Uint8Array, header = ip) =>
    parseTcp(exactView(bytes), 0, bytes.length, header, new TcpHeader());
  const withOffset = (words: number) => {
    const bytes = new Uint8Array(good);
    bytes[12] = words << 4;
    return bytes;
  };
  assertStrictEquals(reason(good), DropReason.None);
  assertStrictEquals(reason(good.subarray(0, 19)), DropReason.Truncated);
  assertStrictEquals(reason(good.subarray(0, 23)), DropReason.Truncated);
  assertStrictEquals(reason(withOffset(0)), DropReason.BadHeaderLength);
  assertStrictEquals(reason(withOffset(4)), DropReason.BadHeaderLength);
  assertStrictEquals(reason(withOffset(7)), DropReason.Truncated);
  assertStrictEquals(reason(withOffset(15)), DropReason.Truncated);
  assertStrictEquals(reason(withOffset(5)), DropReason.BadTcpChecksum);
  assertStrictEquals(reason(good, ipHeader("10.7.0.1", "10.7.0.3")), DropReason.BadTcpChecksum);
  // A bad option under a good checksum.
  const bad = tcpPacket(ip, tcpHeader({ mss: 1460, flags: ACK })).subarray(20);
  const view = new DataView(bad.buffer, bad.byteOffset, bad.byteLength);
  view.setUint16(20, 0x0205);
  view.setUint16(16, view.getUint16(16) - 1);
  assertStrictEquals(reason(bad), DropReason.BadTcpOption);
});

Deno.test("tcp: parse(emit(x)) = x, with any options and payload", () => {
  fc.assert(
    fc.property(addressPair, tcpHeaders, payload, ([source, destination], tcp, data) => {
      const ip = new IpHeader();
      ip.setAddresses(source, destination);
      ip.setDefaults(0, 0);
      const packet = tcpPacket(ip, tcp, data);
      const again = parsePacket(exactView(packet));
      assertStrictEquals(again.reason, DropReason.None);
      assertEquals({ ...again.ip }, { ...ip });
      assertEquals(fields(again.tcp), expectedFields(tcp, data.length));
      assertEquals(packet.subarray(packet.length - data.length), data);
    }),
    { numRuns: 500 },
  );
});

Deno.test("tcp: the length of the header is known before it is written", () => {
  fc.assert(fc.property(tcpHeaders, (h) => {
    const bytes = new Uint8Array(60 + 4).fill(0xa5);
    const end = tcpHeaderLength(h);
    emitTcp(new DataView(bytes.buffer), 0, end, ipHeader("10.7.0.1", "10.7.0.2"), h);
    assertStrictEquals(end % 4, 0);
    assertStrictEquals((bytes[12]! >> 4) * 4, end);
    assert(bytes.subarray(end).every((b) => b === 0xa5));
  }));
});
