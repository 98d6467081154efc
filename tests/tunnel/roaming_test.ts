/**
 * Peers that move: found by their inner source, held for a while, and never without leave.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { DropReason } from "../../src/base/drop.ts";
import type { Packet } from "../../src/base/packet.ts";
import { SECOND } from "../../src/base/time.ts";
import { emitKeepalive } from "../../src/tunnel/keepalive_packet.ts";
import { type EncapsulationKind, ENCAPSULATIONS, makeEncapsulation } from "../../src/tunnel/make_encapsulation.ts";
import { Tunnel } from "../../src/tunnel/tunnel.ts";
import { IpAddr, IpPrefix } from "../../src/wire/ip_addr.ts";
import { ipPacket, TestPool } from "../testing/ip_packets.ts";

const memory = new TestPool();

function prefixes(...texts: string[]): IpPrefix[] {
  return texts.map((text) => IpPrefix.parse(text));
}

/** A tunnel to `b`, who may roam, and `c`, who may not. */
function tunnelOf(kind: EncapsulationKind): Tunnel {
  const tunnel = new Tunnel(makeEncapsulation(kind), 3);
  const networkId = kind === "vxlan-gpe" || kind === "gre" ? 42 : 0;
  const b = prefixes("10.7.0.2/32", "fd07:2::/32");
  const c = prefixes("10.7.0.3/32", "fd07:3::/32");
  tunnel.addPeer({
    name: "b",
    ifindex: 1,
    address: IpAddr.parse("192.0.2.2"),
    port: 4790,
    networkId,
    allowed: [...b, ...prefixes("10.9.0.0/16")],
    roamsBy: b,
  });
  tunnel.addPeer({ name: "c", ifindex: 2, address: IpAddr.parse("192.0.2.3"), port: 4790, networkId, allowed: c });
  return tunnel;
}

function give(tunnel: Tunnel, p: Packet, from: string, port: number, now: number, networkId = 42): string {
  const a = IpAddr.parse(from);
  tunnel.encapsulation.emit(p, tunnel.encapsulation.networkIdMax === 0 ? 0 : networkId);
  const reason = tunnel.input(p, a.w0, a.w1, a.w2, a.w3, port, now);
  memory.pool.release(p);
  return DropReason[reason]!;
}

function packet(src: string): Packet {
  return ipPacket(memory.pool, { src, dst: src.includes(":") ? "fd07::1" : "10.7.0.1" });
}

function keepalive(src: string): Packet {
  const p = memory.pool.acquire()!;
  emitKeepalive(p, IpAddr.parse(src));
  return p;
}

function where(tunnel: Tunnel, ifindex = 1): string {
  const { address, port, learnedBy, moves } = tunnel.peers.byIfindex(ifindex)!;
  return `${address} ${port} ${learnedBy} ${moves}`;
}

for (const kind of ENCAPSULATIONS) {
  const port = kind === "raw" ? 5000 : 4790;

  Deno.test(`${kind}: a peer that may roam is followed by what it sends, be it a packet or a keepalive`, () => {
    for (const make of [packet, keepalive]) {
      for (const [src, from] of [["10.7.0.2", "198.51.100.1"], ["fd07:2::9", "2001:db8::2"]] as const) {
        const tunnel = tunnelOf(kind);
        assertEquals(give(tunnel, make(src), from, 5000, 0), "None");
        assertEquals(where(tunnel), `${from} ${port} roaming 1`);
        assertEquals(tunnel.moved?.name, "b");
        // What it sends from there is its own now, and what comes from the old place is from a stranger.
        assertEquals(give(tunnel, packet("10.7.0.2"), from, 5000, 1), "None");
        assertEquals(give(tunnel, packet("10.7.0.9"), from, 5000, 1), "SourceNotAllowed");
        assertEquals(give(tunnel, packet("10.7.0.2"), "192.0.2.2", 4790, 2), "UnknownPeer");
        const out = packet("10.7.0.1");
        out.ifindex = 1;
        assertEquals(`${tunnel.output(out).address}`, from);
        memory.pool.release(out);
      }
    }
    assertEquals(memory.pool.inUse, 0);
  });

  Deno.test(`${kind}: nobody else is followed, and nothing else`, () => {
    const tunnel = tunnelOf(kind);
    const start = where(tunnel);
    const refused = (p: Packet, why: string, from = "198.51.100.1", port = 5000): void => {
      assertEquals(give(tunnel, p, from, port, 0), why);
      assertEquals([where(tunnel), tunnel.moved], [start, null]);
    };
    refused(packet("10.7.0.3"), "UnknownPeer");
    refused(keepalive("10.7.0.3"), "UnknownPeer");
    refused(packet("10.7.0.9"), "UnknownPeer");
    // Known by what is behind it alone, not by what several may send from.
    refused(packet("10.9.0.1"), "UnknownPeer");
    refused(packet("10.7.0.2"), "UnknownPeer", "198.51.100.1", 0);
    // From the place of another peer, it is that peer who must not speak for it.
    refused(packet("10.7.0.2"), "SourceNotAllowed", "192.0.2.3", 4790);
    const bad = packet("10.7.0.2");
    bad.bytes[bad.start + 10]! ^= 1;
    refused(bad, "UnknownPeer");
    const short = packet("10.7.0.2");
    short.end -= 1;
    refused(short, "UnknownPeer");
    const mapped = packet("fd07:2::9");
    mapped.bytes.set([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 7, 0, 2], mapped.start + 8);
    refused(mapped, "UnknownPeer");
    tunnel.refuse = (peer, address) => `${peer.name} not at ${address}`;
    refused(packet("10.7.0.2"), "UnknownPeer");
    assertEquals(memory.pool.inUse, 0);
  });

  Deno.test(`${kind}: two senders cannot toss a peer to and fro: it moves once a second at most`, () => {
    const tunnel = tunnelOf(kind);
    const results = Array.from({ length: 30 }, (_, i) => {
      const from = `198.51.100.${1 + i % 2}`;
      return give(tunnel, packet("10.7.0.2"), from, 5000, i * SECOND / 10);
    });
    assertEquals(results.slice(0, 11).map((r) => r === "None"), [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1].map(Boolean));
    assertEquals(tunnel.peers.byIfindex(1)!.moves, 3);
    for (const r of results) assert(r === "None" || r === "UnknownPeer");
  });
}

Deno.test("a network identifier that is not the peer's moves nobody", () => {
  for (const kind of ["vxlan-gpe", "gre"] as const) {
    const tunnel = tunnelOf(kind);
    assertEquals(give(tunnel, packet("10.7.0.2"), "198.51.100.1", 5000, 0, 43), "UnknownPeer");
    assertEquals(where(tunnel), "192.0.2.2 4790 config 0");
  }
});

Deno.test("a peer is moved by hand to where nobody is, with its interface and its counters", () => {
  const tunnel = tunnelOf("raw");
  const b = tunnel.peers.byIfindex(1)!;
  assertEquals(tunnel.move(b, IpAddr.parse("192.0.2.3"), 4790, "dns", 5), "another peer is there");
  assertEquals(where(tunnel), "192.0.2.2 4790 config 0");
  assertEquals(tunnel.move(b, IpAddr.parse("192.0.2.3"), 4791, "dns", 5), "");
  assertEquals(where(tunnel), "192.0.2.3 4791 dns 1");
  assertEquals(give(tunnel, packet("10.9.0.1"), "192.0.2.3", 4791, 6), "None");
  assertEquals([tunnel.peers.size, b.packetsIn, tunnel.peers.byIfindex(1) === b], [2, 1, true]);
});
