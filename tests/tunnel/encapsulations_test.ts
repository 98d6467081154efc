/**
 * GUE and GRE in UDP by byte image and by tshark, keepalives of all encapsulations, and tunnels within tunnels.
 *
 * @module
 */

import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { DropReason } from "../../src/base/drop.ts";
import type { Packet } from "../../src/base/packet.ts";
import { emitKeepalive, isKeepalive } from "../../src/tunnel/keepalive_packet.ts";
import { NESTING_MAX } from "../../src/tunnel/nesting.ts";
import type { Encapsulation } from "../../src/tunnel/encapsulation.ts";
import { ENCAPSULATIONS, makeEncapsulation } from "../../src/tunnel/make_encapsulation.ts";
import { Tunnel } from "../../src/tunnel/tunnel.ts";
import { checksumFinish, checksumSum } from "../../src/wire/checksum.ts";
import { IpAddr, IpPrefix } from "../../src/wire/ip_addr.ts";
import { hex, icmpPacket, ipPacket, pattern, TestPool, udpPacket } from "../testing/ip_packets.ts";
import { HAS_TSHARK } from "../testing/tshark.ts";
import { decodeByTshark } from "../testing/tshark_decode.ts";

const memory = new TestPool();
const PEER = IpAddr.parse("192.0.2.2");

const INNER_V4 = "45 00 00 17 00 00 40 00 40 fd 65 df 0a 07 00 02 0a 07 00 01 61 62 63";
const INNER_V6 = "60 00 00 00 00 01 fd 40 fd 07 00 00 00 00 00 00 00 00 00 00 00 00 00 02 " +
  "fd 07 00 00 00 00 00 00 00 00 00 00 00 00 00 01 ff";

function packetOf(text: string): Packet {
  const bytes = text === "" ? [] : text.split(/\s+/).map((byte) => parseInt(byte, 16));
  const p = memory.pool.acquire()!;
  p.bytes.set(bytes, p.start);
  p.end = p.start + bytes.length;
  return p;
}

function tunnelOf(encapsulation: Encapsulation, networkId = 0, port = 4790): Tunnel {
  const tunnel = new Tunnel(encapsulation, 5);
  const allowed = ["0.0.0.0/0", "::/0"].map((text) => IpPrefix.parse(text));
  tunnel.addPeer({ name: "b", ifindex: 1, address: PEER, port, networkId, allowed });
  return tunnel;
}

/** What a tunnel says to a datagram, and what is left of it. */
function input(tunnel: Tunnel, text: string, port = 4790): string {
  const p = packetOf(text);
  const reason = tunnel.input(p, PEER.w0, PEER.w1, PEER.w2, PEER.w3, port, 1);
  const result = reason === DropReason.None ? hex(p.toBytes()) : DropReason[reason]!;
  memory.pool.release(p);
  return result;
}

function output(tunnel: Tunnel, text: string): string {
  const p = packetOf(text);
  p.ifindex = 1;
  tunnel.output(p);
  const result = hex(p.toBytes());
  memory.pool.release(p);
  return result;
}

Deno.test("golden: GUE prepends variant 0 with the protocol, and takes variants 0 and 1 from any port", () => {
  const tunnel = tunnelOf(makeEncapsulation("gue"));
  assertEquals(output(tunnel, INNER_V4), `00 04 00 00 ${INNER_V4}`);
  assertEquals(output(tunnel, INNER_V6), `00 29 00 00 ${INNER_V6}`);
  assertEquals(input(tunnel, `00 04 00 00 ${INNER_V4}`, 50_000), INNER_V4);
  assertEquals(input(tunnel, `00 29 00 00 ${INNER_V6}`), INNER_V6);
  assertEquals(input(tunnel, INNER_V4), INNER_V4);
  assertEquals(input(tunnel, INNER_V6), INNER_V6);
});

Deno.test("GUE: private data is skipped; variants 2 and 3, control, flags and other protocols are refused", () => {
  const tunnel = tunnelOf(makeEncapsulation("gue"));
  assertEquals(input(tunnel, `02 04 00 00 01 02 03 04 05 06 07 08 ${INNER_V4}`), INNER_V4);
  assertEquals(input(tunnel, "1f 04 00 00 45 00 00 17"), "BadEncapsulation");
  const results = Array.from(
    { length: 256 },
    (_, first) => input(tunnel, `${hex(Uint8Array.of(first))} 04 00 00 ${INNER_V4}`),
  );
  // The image of variant 1 with a first byte of its own is an IP packet whose header is checked elsewhere.
  results.forEach((result, first) => {
    if (first === 0) assertEquals(result, INNER_V4);
    else if (first < 0x20) {
      assert(["BadEncapsulation", "BadVersion", "Truncated"].includes(result), `${first}: ${result}`);
    } else if (first < 0x40 || first >= 0x80) assertEquals(result, "BadEncapsulation", `${first}`);
    else if (first >>> 4 !== 4 && first >>> 4 !== 6) assertEquals(result, "BadVersion", `${first}`);
  });
  assertEquals(input(tunnel, `00 04 80 00 ${INNER_V4}`), "BadEncapsulation");
  assertEquals(input(tunnel, `00 04 00 01 ${INNER_V4}`), "BadEncapsulation");
  assertEquals(input(tunnel, `00 00 00 00 ${INNER_V4}`), "BadEncapsulation");
  assertEquals(input(tunnel, `00 2f 00 00 ${INNER_V4}`), "BadEncapsulation");
  assertEquals(input(tunnel, `00 29 00 00 ${INNER_V4}`), "BadVersion");
  assertEquals(input(tunnel, "00 3b 00 00"), "NoNextHeader");
  assertEquals(input(tunnel, "00 04 00"), "BadEncapsulation");
  assertThrows(() => tunnelOf(makeEncapsulation("gue"), 1), RangeError, "must be 0 to 0 in gue");
});

Deno.test("golden: GRE has the EtherType, and the key of the peer unless it is 0", () => {
  const plain = tunnelOf(makeEncapsulation("gre"), 0, 4754);
  assertEquals(output(plain, INNER_V4), `00 00 08 00 ${INNER_V4}`);
  assertEquals(output(plain, INNER_V6), `00 00 86 dd ${INNER_V6}`);
  assertEquals(input(plain, `00 00 08 00 ${INNER_V4}`, 50_000), INNER_V4);
  const keyed = tunnelOf(makeEncapsulation("gre"), 0xdeadbeef, 4754);
  assertEquals(output(keyed, INNER_V4), `20 00 08 00 de ad be ef ${INNER_V4}`);
  assertEquals(input(keyed, `20 00 08 00 de ad be ef ${INNER_V4}`), INNER_V4);
  assertEquals(input(keyed, `00 00 08 00 ${INNER_V4}`), "UnknownPeer");
  assertEquals(input(keyed, `20 00 08 00 de ad be ee ${INNER_V4}`), "UnknownPeer");
  assertEquals(input(plain, `20 00 08 00 00 00 00 01 ${INNER_V4}`), "UnknownPeer");
});

Deno.test("GRE: checksum, key and sequence number are taken in any combination, a wrong checksum is not", () => {
  const encapsulation = makeEncapsulation("gre");
  for (let flags = 0; flags < 8; flags++) {
    const [hasChecksum, hasKey, hasSequence] = [flags & 4, flags & 2, flags & 1].map((bit) => bit !== 0);
    const header = [
      (hasChecksum ? 0x80 : 0) | (hasKey ? 0x20 : 0) | (hasSequence ? 0x10 : 0),
      0,
      8,
      0,
      ...(hasChecksum ? [0, 0, 0, 0] : []),
      ...(hasKey ? [0, 0, 1, 2] : []),
      ...(hasSequence ? [9, 9, 9, 9] : []),
    ];
    const p = packetOf(`${hex(Uint8Array.from(header))} ${INNER_V4}`);
    const { start } = p;
    if (hasChecksum) p.view.setUint16(start + 4, checksumFinish(checksumSum(p.view, start, p.end)));
    assertEquals(encapsulation.parse(p), DropReason.None);
    assertEquals([hex(p.toBytes()), encapsulation.networkId], [INNER_V4, hasKey ? 0x102 : 0]);
    if (hasChecksum) {
      p.start = start;
      p.bytes[p.end - 1]! ^= 1;
      assertEquals(encapsulation.parse(p), DropReason.BadEncapsulation);
      assertEquals(p.start, start);
    }
    memory.pool.release(p);
  }
});

Deno.test("GRE: bits that must be zero, other versions, other payloads and cut headers are refused", () => {
  const tunnel = tunnelOf(makeEncapsulation("gre"));
  for (const bit of [14, 11, 10, 2, 1, 0]) {
    const flags = 1 << bit;
    const text = `${hex(Uint8Array.of(flags >> 8, flags & 255))} 08 00 ${INNER_V4}`;
    assertEquals(input(tunnel, text), "BadEncapsulation", `bit ${bit}`);
  }
  for (const bit of [9, 8, 7, 6, 5, 4, 3]) {
    const flags = 1 << bit;
    assertEquals(input(tunnel, `${hex(Uint8Array.of(flags >> 8, flags & 255))} 08 00 ${INNER_V4}`), INNER_V4);
  }
  assertEquals(input(tunnel, `00 00 65 58 ${INNER_V4}`), "BadEncapsulation");
  assertEquals(input(tunnel, `00 00 86 dd ${INNER_V4}`), "BadVersion");
  assertEquals(input(tunnel, "20 00 08 00 00 00 00"), "BadEncapsulation");
  assertEquals(input(tunnel, "00 00 08"), "BadEncapsulation");
});

for (const kind of ENCAPSULATIONS) {
  const networkId = kind === "vxlan-gpe" || kind === "gre" ? 42 : 0;

  Deno.test(`${kind}: what goes out comes in, its header has the length that is said`, () => {
    fc.assert(fc.property(fc.nat(0xffffff), fc.boolean(), fc.nat(1400), (id, v6, bytes) => {
      const encapsulation = makeEncapsulation(kind);
      const used = Math.min(id, encapsulation.networkIdMax);
      const ends = v6 ? { src: "fd07::2", dst: "fd07::1" } : { src: "10.7.0.2", dst: "10.7.0.1" };
      const p = ipPacket(memory.pool, { ...ends, payload: pattern(bytes) });
      const before = hex(p.toBytes());
      const { start } = p;
      encapsulation.emit(p, used);
      assertEquals(start - p.start, encapsulation.headerBytes(used));
      assertEquals(encapsulation.parse(p), DropReason.None);
      assertEquals([hex(p.toBytes()), encapsulation.networkId], [before, used]);
      memory.pool.release(p);
    }));
  });

  Deno.test(`${kind}: a keepalive is heard of the peer and counts as no packet`, () => {
    const tunnel = tunnelOf(makeEncapsulation(kind), networkId);
    const headers = {
      raw: ["", ""],
      "vxlan-gpe": ["0c 00 00 01 00 00 2a 00", "0c 00 00 02 00 00 2a 00"],
      gue: ["00 04 00 00", "00 29 00 00"],
      gre: ["20 00 08 00 00 00 00 2a", "20 00 86 dd 00 00 00 2a"],
    };
    const images = [
      "45 00 00 14 00 00 40 00 01 3b 65 9e 0a 07 00 02 0a 07 00 02",
      "60 00 00 00 00 00 3b 01 fd 07 00 00 00 00 00 00 00 00 00 00 00 00 00 02 " +
      "fd 07 00 00 00 00 00 00 00 00 00 00 00 00 00 02",
    ];
    images.forEach((image, i) => {
      const made = packetOf("");
      emitKeepalive(made, IpAddr.parse(i === 0 ? "10.7.0.2" : "fd07::2"));
      assertEquals(hex(made.toBytes()), image);
      assert(isKeepalive(made));
      memory.pool.release(made);
      const datagram = `${headers[kind][i]} ${image}`.trim();
      assertEquals(output(tunnel, image), datagram);
      assertEquals(input(tunnel, datagram), image);
    });
    const peer = tunnel.peers.byIfindex(1)!;
    assertEquals([peer.packetsIn, peer.packetsOut, peer.drops], [0, 0, {}]);
  });

  Deno.test(`${kind}: tunnels within tunnels come out up to ${NESTING_MAX} deep, then they are dropped`, () => {
    const tunnel = tunnelOf(makeEncapsulation(kind), networkId);
    for (const v6 of [false, true]) {
      let p = icmpPacket(memory.pool, { src: "10.7.0.2", dst: "10.7.0.1", type: 8, payload: pattern(10) });
      for (let depth = 0; depth <= NESTING_MAX + 2; depth++) {
        const outer = packetOf(hex(p.toBytes()));
        outer.ifindex = 1;
        tunnel.output(outer);
        const ends = v6 ? { src: "fd07::2", dst: "fd07::1" } : { src: "10.7.0.2", dst: "10.7.0.1" };
        const next = udpPacket(memory.pool, { ...ends, srcPort: 5, dstPort: 4790, payload: outer.toBytes().slice() });
        const result = tunnel.input(outer, PEER.w0, PEER.w1, PEER.w2, PEER.w3, 4790);
        assertEquals(DropReason[result], depth <= NESTING_MAX ? "None" : "TunnelNesting");
        if (depth <= NESTING_MAX) assertEquals(hex(outer.toBytes()), hex(p.toBytes()));
        memory.pool.release(outer);
        memory.pool.release(p);
        p = next;
      }
      memory.pool.release(p);
    }
    assertEquals(memory.pool.inUse, 0);
  });

  Deno.test(`${kind}: any bytes from the peer: nothing throws, and what is refused is as it was`, () => {
    const tunnel = tunnelOf(makeEncapsulation(kind), networkId);
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 80 }),
        fc.constantFrom("", "00 04 00 00", "20 00 08 00 00 00 00 2a"),
        (bytes, head) => {
          const text = `${head} ${hex(bytes)}`.trim();
          const p = packetOf(text);
          const reason = tunnel.encapsulation.parse(p);
          if (reason !== DropReason.None) assertEquals(hex(p.toBytes()), text);
          assert(p.start <= p.end);
          memory.pool.release(p);
          input(tunnel, text);
        },
      ),
      { numRuns: 500 },
    );
  });
}

Deno.test({
  name: "tshark reads our GRE and GUE as what they are",
  ignore: !HAS_TSHARK,
  async fn() {
    const inner = [
      udpPacket(memory.pool, { src: "10.7.0.2", dst: "10.7.0.1", srcPort: 1000, dstPort: 40_000, payload: pattern(5) }),
      udpPacket(memory.pool, { src: "fd07::2", dst: "fd07::1", srcPort: 1000, dstPort: 40_000, payload: pattern(5) }),
    ];
    const wrapped = (kind: "gre" | "gue", port: number, networkId: number): Uint8Array[] =>
      inner.map((packet) => {
        const p = packetOf(hex(packet.toBytes()));
        makeEncapsulation(kind).emit(p, networkId);
        const ends = { src: "192.0.2.1", dst: "192.0.2.2", srcPort: port, dstPort: port };
        return udpPacket(memory.pool, { ...ends, payload: p.toBytes().slice() }).toBytes().slice();
      });
    const fields = ["gre.proto", "gre.key", "gre.flags.key", "ip.dst", "ipv6.dst", "_ws.malformed"];
    const gre = await decodeByTshark(wrapped("gre", 4754, 0x12345), fields);
    assertEquals(gre.map(([proto, key, flag]) => [proto, Number(key), /1|True/.test(flag ?? "")]), [
      ["0x0800", 0x12345, true],
      ["0x86dd", 0x12345, true],
    ]);
    assertEquals([gre[0]![3], gre[1]![4]], ["192.0.2.2,10.7.0.1", "fd07::1"]);
    assert([...gre].every((line) => (line[5] ?? "") === ""));
    // GUE has no dissector of its own there; its payload is read from behind the four bytes.
    const gue = wrapped("gue", 6080, 0).map((packet) => packet.slice(32));
    const decoded = await decodeByTshark(gue, ["ip.dst", "ipv6.dst", "udp.dstport", "_ws.malformed"]);
    assertEquals(decoded.map((line) => line.slice(0, 3)), [["10.7.0.1", "", "40000"], ["", "fd07::1", "40000"]]);
  },
});
