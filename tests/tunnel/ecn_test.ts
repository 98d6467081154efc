/**
 * ECN and DSCP through a tunnel: the tables of RFC 6040 in both inner versions, and the tunnel that uses them.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { DropReason } from "../../src/base/drop.ts";
import { Packet, SLOT_BYTES } from "../../src/base/packet.ts";
import { carryEcnIn, outerTrafficClass } from "../../src/tunnel/ecn.ts";
import { type Encapsulation, RawEncapsulation, VxlanGpeEncapsulation } from "../../src/tunnel/encapsulation.ts";
import { Tunnel } from "../../src/tunnel/tunnel.ts";
import { IpAddr, IpPrefix } from "../../src/wire/ip_addr.ts";
import { IpHeader, parseIp } from "../../src/wire/ip_header.ts";
import { ipHeader, udpPacket } from "../testing/packets.ts";

const NOT_ECT = 0;
const ECT1 = 1;
const ECT0 = 2;
const CE = 3;

/** RFC 6040, figure 4: what comes out for an inner field (row) and an outer one (column); −1 is a drop. */
const DECAPSULATED: readonly (readonly number[])[] = [
  [NOT_ECT, NOT_ECT, NOT_ECT, -1],
  [ECT1, ECT1, ECT1, CE],
  [ECT0, ECT1, ECT0, CE],
  [CE, CE, CE, CE],
];

const PEER = IpAddr.parse("192.0.2.2");

function packetOf(version: 4 | 6, trafficClass: number, start = 100): Packet {
  const [source, destination] = version === 4 ? ["10.7.0.2", "10.7.0.1"] : ["fd07::2", "fd07::1"];
  const ip = ipHeader(source!, destination!, { trafficClass, flowLabel: 0xabcde });
  const bytes = udpPacket(ip, 1000, 2000, Uint8Array.of(1, 2, 3));
  const p = new Packet(new Uint8Array(SLOT_BYTES));
  p.start = start;
  p.end = start + bytes.length;
  p.bytes.set(bytes, start);
  return p;
}

/** The traffic class of the inner header, whose checksum must be right. */
function innerTrafficClass(p: Packet): number {
  const ip = new IpHeader();
  assertEquals(DropReason[parseIp(p.view, p.start, p.end, ip)], "None");
  if (ip.version === 6) assertEquals(p.view.getUint32(p.start) & 0xfffff, 0xabcde);
  return ip.trafficClass;
}

for (const version of [4, 6] as const) {
  Deno.test(`ecn IPv${version}: every pair of inner and outer field comes in as RFC 6040 says`, () => {
    for (const dscp of [0, 0xb8, 0xfc]) {
      for (let inner = 0; inner < 4; inner++) {
        for (let outer = 0; outer < 4; outer++) {
          const p = packetOf(version, dscp | inner);
          p.outerTrafficClass = 0x28 | outer;
          const expected = DECAPSULATED[inner]![outer]!;
          assertEquals(DropReason[carryEcnIn(p)], expected < 0 ? "CeNotEct" : "None", `${inner} in ${outer}`);
          if (expected >= 0) assertEquals(innerTrafficClass(p), dscp | expected, `${inner} in ${outer}`);
        }
      }
    }
  });

  Deno.test(`ecn IPv${version}: outside is the inner field in normal mode, Not-ECT in compatibility mode`, () => {
    for (let trafficClass = 0; trafficClass < 256; trafficClass++) {
      const p = packetOf(version, trafficClass);
      assertEquals(outerTrafficClass(p, true), trafficClass);
      assertEquals(outerTrafficClass(p, false), trafficClass & 0xfc);
    }
  });
}

Deno.test("ecn: a wrong inner checksum stays wrong", () => {
  fc.assert(fc.property(fc.integer({ min: 1, max: 0xfffe }), fc.constantFrom(ECT0, ECT1), (change, inner) => {
    const p = packetOf(4, inner);
    p.view.setUint16(p.start + 10, (p.view.getUint16(p.start + 10) + change) % 0xffff);
    p.outerTrafficClass = CE;
    assertEquals(carryEcnIn(p), DropReason.None);
    assertEquals(DropReason[parseIp(p.view, p.start, p.end, new IpHeader())], "BadIpChecksum");
  }));
});

function tunnelOf(encapsulation: Encapsulation, isEcnNormal?: boolean): Tunnel {
  const tunnel = new Tunnel(encapsulation, 5);
  tunnel.addPeer({
    name: "b",
    ifindex: 1,
    address: PEER,
    port: 4790,
    allowed: [IpPrefix.parse("10.7.0.2/32"), IpPrefix.parse("fd07::2/128")],
    ...(isEcnNormal === undefined ? {} : { isEcnNormal }),
  });
  return tunnel;
}

for (const make of [() => new RawEncapsulation(), () => new VxlanGpeEncapsulation()]) {
  const { kind } = make();

  Deno.test(`ecn ${kind}: a mark made outside comes in, or the packet is dropped and counted at its peer`, () => {
    const tunnel = tunnelOf(make(), true);
    const input = (p: Packet): DropReason => tunnel.input(p, PEER.w0, PEER.w1, PEER.w2, PEER.w3, 4790);
    for (const version of [4, 6] as const) {
      for (const inner of [NOT_ECT, ECT0]) {
        const p = packetOf(version, inner);
        p.ifindex = 1;
        tunnel.output(p);
        assertEquals(p.outerTrafficClass, inner);
        p.outerTrafficClass |= CE;
        assertEquals(input(p), inner === NOT_ECT ? DropReason.CeNotEct : DropReason.None);
        if (inner !== NOT_ECT) assertEquals(innerTrafficClass(p), CE);
      }
    }
    const peer = tunnel.peers.byIfindex(1)!;
    assertEquals(peer.drops, { "ce-not-ect": 2 });
    assertEquals(peer.packetsIn, 2);
  });

  Deno.test(`ecn ${kind}: unless asked for, the field is not shown outside, and the DSCP is`, () => {
    const tunnel = tunnelOf(make());
    const p = packetOf(4, 0xb8 | ECT0);
    p.ifindex = 1;
    p.outerTrafficClass = 0xff;
    tunnel.output(p);
    assertEquals(p.outerTrafficClass, 0xb8);
  });
}
