import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { DropReason } from "../../src/base/drop.ts";
import type { Packet } from "../../src/base/packet.ts";
import { type Encapsulation, RawEncapsulation, VxlanGpeEncapsulation } from "../../src/tunnel/encapsulation.ts";
import { Tunnel } from "../../src/tunnel/tunnel.ts";
import { IpAddr, IpPrefix } from "../../src/wire/ip_addr.ts";
import { hex, icmpPacket, ipPacket, pattern, TestPool } from "../testing/ip_packets.ts";

const memory = new TestPool();

function packetOf(bytes: Uint8Array): Packet {
  const p = memory.pool.acquire()!;
  p.bytes.set(bytes, p.start);
  p.end = p.start + bytes.length;
  return p;
}

function bytesOf(text: string): Uint8Array {
  return Uint8Array.from(text.split(/\s+/), (byte) => parseInt(byte, 16));
}

function input(tunnel: Tunnel, p: Packet, address: string, port: number): string {
  const a = IpAddr.parse(address);
  return DropReason[tunnel.input(p, a.w0, a.w1, a.w2, a.w3, port)]!;
}

function inputBytes(tunnel: Tunnel, bytes: Uint8Array, address: string, port: number): string {
  const p = packetOf(bytes);
  const result = input(tunnel, p, address, port);
  memory.pool.release(p);
  return result;
}

function withPeers(encapsulation: Encapsulation): Tunnel {
  const tunnel = new Tunnel(encapsulation, 5);
  const networkId = encapsulation.kind === "raw" ? 0 : 42;
  const prefixes = (...texts: string[]): IpPrefix[] => texts.map((text) => IpPrefix.parse(text));
  tunnel.addPeer({
    name: "b",
    ifindex: 1,
    address: IpAddr.parse("192.0.2.2"),
    port: 4790,
    networkId,
    allowed: prefixes("10.7.0.2/32", "fd07::2/128", "10.20.0.0/16"),
  });
  tunnel.addPeer({
    name: "c",
    ifindex: 2,
    address: IpAddr.parse("2001:db8::3"),
    port: 4790,
    networkId,
    allowed: prefixes("::/0"),
  });
  return tunnel;
}

const INNER_V4 = "45 00 00 17 00 00 40 00 40 fd 65 df 0a 07 00 02 0a 07 00 01 61 62 63";
const INNER_V6 = "60 00 00 00 00 01 fd 40 fd 07 00 00 00 00 00 00 00 00 00 00 00 00 00 02 " +
  "fd 07 00 00 00 00 00 00 00 00 00 00 00 00 00 01 ff";

Deno.test("golden: raw carries the IP packet and nothing else", () => {
  const tunnel = withPeers(new RawEncapsulation());
  for (const inner of [INNER_V4, INNER_V6]) {
    const p = packetOf(bytesOf(inner));
    p.ifindex = 1;
    assertEquals(tunnel.output(p).name, "b");
    assertEquals(hex(p.toBytes()), inner);
    p.ifindex = 0;
    assertEquals(input(tunnel, p, "192.0.2.2", 4790), "None");
    assertEquals(hex(p.toBytes()), inner);
    assertEquals(p.ifindex, 1);
    memory.pool.release(p);
  }
});

Deno.test("golden: vxlan-gpe prepends flags, next protocol and VNI", () => {
  const tunnel = withPeers(new VxlanGpeEncapsulation());
  for (const [inner, header] of [[INNER_V4, "0c 00 00 01 00 00 2a 00"], [INNER_V6, "0c 00 00 02 00 00 2a 00"]]) {
    const p = packetOf(bytesOf(inner!));
    p.ifindex = 1;
    assertEquals(tunnel.output(p).name, "b");
    assertEquals(hex(p.toBytes()), `${header} ${inner}`);
    assertEquals(input(tunnel, p, "192.0.2.2", 50_123), "None");
    assertEquals(hex(p.toBytes()), inner);
    assertEquals(p.ifindex, 1);
    memory.pool.release(p);
  }
});

Deno.test("vxlan-gpe: the whole range of VNIs goes out and comes back", () => {
  const encapsulation = new VxlanGpeEncapsulation();
  fc.assert(fc.property(fc.nat(0xffffff), fc.boolean(), (networkId, v6) => {
    const p = packetOf(bytesOf(v6 ? INNER_V6 : INNER_V4));
    const { start } = p;
    encapsulation.emit(p, networkId);
    assertEquals(p.start, start - encapsulation.headerBytes(networkId));
    assertEquals(encapsulation.parse(p), DropReason.None);
    assertEquals([encapsulation.networkId, p.start], [networkId, start]);
    memory.pool.release(p);
  }));
});

Deno.test("vxlan-gpe: a header with any bit of the first byte changed is refused and not stripped", () => {
  const tunnel = withPeers(new VxlanGpeEncapsulation());
  const good = bytesOf(`0c 00 00 01 00 00 2a 00 ${INNER_V4}`);
  for (let bit = 0; bit < 8; bit++) {
    const p = packetOf(good);
    p.bytes[p.start]! ^= 1 << bit;
    const { start } = p;
    assertEquals(input(tunnel, p, "192.0.2.2", 4790), "BadEncapsulation", `bit ${bit}`);
    assertEquals(p.start, start);
    memory.pool.release(p);
  }
  assertEquals(inputBytes(tunnel, good, "192.0.2.2", 4790), "None");
});

Deno.test("vxlan-gpe: next protocol, VNI, reserved bytes and truncation", () => {
  const tunnel = withPeers(new VxlanGpeEncapsulation());
  const send = (header: string, inner = INNER_V4): string =>
    inputBytes(tunnel, bytesOf(`${header} ${inner}`.trim()), "192.0.2.2", 4790);
  assertEquals(send("0c 00 00 00 00 00 2a 00"), "BadEncapsulation");
  assertEquals(send("0c 00 00 03 00 00 2a 00"), "BadEncapsulation");
  assertEquals(send("0c 00 00 02 00 00 2a 00"), "BadVersion");
  assertEquals(send("0c 00 00 01 00 00 2a 00", INNER_V6), "BadVersion");
  assertEquals(send("0c 00 00 01 00 00 2b 00"), "UnknownPeer");
  assertEquals(send("0c 00 00 01 00 2a 00 00"), "UnknownPeer");
  assertEquals(send("0c 12 34 01 00 00 2a 56"), "None");
  assertEquals(send("0c 00 00 01 00 00 2a 00", ""), "Truncated");
  const whole = bytesOf(`0c 00 00 01 00 00 2a 00 ${INNER_V4}`);
  for (let n = 0; n < 28; n++) {
    const result = inputBytes(tunnel, whole.subarray(0, n), "192.0.2.2", 4790);
    assertEquals(result, n < 8 ? "BadEncapsulation" : "Truncated", `${n} bytes`);
  }
});

Deno.test("raw: peers are known by address and port", () => {
  const tunnel = withPeers(new RawEncapsulation());
  const send = (address: string, port: number): string => inputBytes(tunnel, bytesOf(INNER_V4), address, port);
  assertEquals(send("192.0.2.2", 4790), "None");
  assertEquals(send("192.0.2.2", 4791), "UnknownPeer");
  assertEquals(send("192.0.2.3", 4790), "UnknownPeer");
  assertEquals(send("2001:db8::2", 4790), "UnknownPeer");
  assertEquals(send("::c000:202", 4790), "UnknownPeer");
});

Deno.test("raw: the version nibble decides, all others are dropped", () => {
  const tunnel = withPeers(new RawEncapsulation());
  const results = Array.from({ length: 16 }, (_, nibble) => {
    const bytes = bytesOf(nibble === 6 ? INNER_V6 : INNER_V4);
    bytes[0] = (nibble << 4) | (bytes[0]! & 15);
    return inputBytes(tunnel, bytes, "192.0.2.2", 4790);
  });
  assertEquals(results, results.map((_, nibble) => nibble === 4 || nibble === 6 ? "None" : "BadVersion"));
  for (let n = 0; n < 20; n++) {
    assertEquals(
      inputBytes(tunnel, bytesOf(INNER_V4).subarray(0, n), "192.0.2.2", 4790),
      "Truncated",
    );
  }
  for (let n = 1; n < 40; n++) {
    assertEquals(inputBytes(tunnel, bytesOf(INNER_V6).subarray(0, n), "192.0.2.2", 4790), "Truncated");
  }
});

Deno.test("an inner source outside the allowed prefixes is refused, in each family by itself", () => {
  const tunnel = withPeers(new RawEncapsulation());
  const send = (src: string, endpoint: string): string => {
    const p = ipPacket(memory.pool, { src, dst: src.includes(":") ? "fd07::1" : "10.7.0.1" });
    const result = input(tunnel, p, endpoint, 4790);
    memory.pool.release(p);
    return result;
  };
  const b = "192.0.2.2";
  const c = "2001:db8::3";
  assertEquals([send("10.7.0.2", b), send("10.20.255.1", b), send("fd07::2", b)], ["None", "None", "None"]);
  for (const src of ["10.7.0.3", "10.21.0.0", "10.7.0.1", "0.0.0.0", "fd07::3", "fd07::1", "::", "fe80::1"]) {
    assertEquals(send(src, b), "SourceNotAllowed", src);
  }
  assertEquals(send("2001:db8:9::1", c), "None");
  assertEquals(send("10.7.0.2", c), "SourceNotAllowed");
});

Deno.test("an IPv6 packet with an IPv4-mapped source is a martian, whatever is allowed", () => {
  const tunnel = withPeers(new RawEncapsulation());
  const p = ipPacket(memory.pool, { src: "fd07::2", dst: "fd07::1" });
  p.bytes.set([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 7, 0, 2], p.start + 8);
  assertEquals(input(tunnel, p, "2001:db8::3", 4790), "Martian");
  memory.pool.release(p);
});

Deno.test("what a kernel says unasked on its interface is counted and let in by nobody", () => {
  const tunnel = withPeers(new VxlanGpeEncapsulation());
  const chatter: [string, string, number][] = [
    ["fe80::1", "ff02::2", 133],
    ["::", "ff02::16", 143],
    ["fe80::1", "ff02::16", 143],
    ["::", "ff02::1:ff00:2", 135],
  ];
  for (const [src, dst, type] of chatter) {
    const p = icmpPacket(memory.pool, { src, dst, type, payload: pattern(8), ttl: 255 });
    tunnel.encapsulation.emit(p, 42);
    assertEquals(input(tunnel, p, "192.0.2.2", 4790), "SourceNotAllowed");
    memory.pool.release(p);
  }
  assertEquals(tunnel.peers.byIfindex(1)?.drops, { "source-not-allowed": 4 });
});

Deno.test("each peer counts its own packets and inner bytes", () => {
  const tunnel = withPeers(new VxlanGpeEncapsulation());
  const b = tunnel.peers.byIfindex(1)!;
  const c = tunnel.peers.byIfindex(2)!;
  const p = packetOf(bytesOf(INNER_V4));
  for (let i = 0; i < 3; i++) {
    p.ifindex = 1;
    tunnel.output(p);
    assertEquals(input(tunnel, p, "192.0.2.2", 1000 + i), "None");
  }
  assertEquals([b.packetsOut, b.bytesOut, b.packetsIn, b.bytesIn], [3, 69, 3, 69]);
  assertEquals([c.packetsOut, c.bytesOut, c.packetsIn, c.bytesIn], [0, 0, 0, 0]);
  assertEquals(b.drops, {});
  inputBytes(tunnel, bytesOf(`0c 00 00 01 00 00 2a 00 45 00`), "192.0.2.2", 4790);
  assertEquals(b.drops, { truncated: 1 });
  assertEquals(b.packetsIn, 3);
  memory.pool.release(p);
});

Deno.test("a packet for an interface without a peer is a fault of the program, and stays as it is", () => {
  const tunnel = withPeers(new VxlanGpeEncapsulation());
  const p = packetOf(bytesOf(INNER_V4));
  for (const ifindex of [0, 3, 1000]) {
    p.ifindex = ifindex;
    assertThrows(() => tunnel.output(p), Error, `interface ${ifindex} has no peer`);
    assertEquals(hex(p.toBytes()), INNER_V4);
  }
  memory.pool.release(p);
});

Deno.test("peers have their own interface and endpoint, and their number is bounded", () => {
  for (const encapsulation of [new RawEncapsulation(), new VxlanGpeEncapsulation()]) {
    const tunnel = new Tunnel(encapsulation, 1, 3);
    const add = (name: string, ifindex: number, port: number, networkId: number): void => {
      tunnel.addPeer({ name, ifindex, address: IpAddr.parse("127.0.0.1"), port, networkId, allowed: [] });
    };
    const raw = encapsulation.kind === "raw";
    add("a", 1, 1000, 0);
    if (raw) add("b", 2, 1001, 0);
    else add("b", 2, 1000, 0xffffff);
    assertThrows(() => add("c", 2, 1002, raw ? 0 : 2), RangeError, "interface 2");
    assertThrows(() => add("c", 3, 1000, 0), RangeError, "a and c have the same address and");
    assertThrows(() => add("c", 3, 1002, raw ? 1 : 0x1000000), RangeError, "network identifier of peer c");
    assertThrows(() => add("c", 0, 1002, 0), RangeError, "above 0");
    add("d", 7, 1003, raw ? 0 : 3);
    assertThrows(() => add("e", 8, 1004, raw ? 0 : 4), RangeError, "at most 3");
    assertEquals(Array.from(tunnel.peers, (peer) => peer.name), ["a", "b", "d"]);
  }
});

Deno.test("ten thousand peers behind one address are told apart", () => {
  const tunnel = new Tunnel(new RawEncapsulation(), 1);
  const address = IpAddr.parse("127.0.0.1");
  const allowed = [IpPrefix.parse("0.0.0.0/0")];
  for (let i = 1; i <= 10_000; i++) tunnel.addPeer({ name: `p${i}`, ifindex: i, address, port: 20_000 + i, allowed });
  const p = packetOf(bytesOf(INNER_V4));
  for (let i = 1; i <= 10_000; i += 7) {
    assertEquals(input(tunnel, p, "127.0.0.1", 20_000 + i), "None");
    assertEquals(p.ifindex, i);
  }
  memory.pool.release(p);
});

Deno.test("any datagram from anybody: nothing throws, and what is let in has an allowed source", () => {
  for (const encapsulation of [new RawEncapsulation(), new VxlanGpeEncapsulation()]) {
    const tunnel = withPeers(encapsulation);
    const header = encapsulation.kind === "raw" ? [] : [0x0c, 0, 0, 1, 0, 0, 42, 0];
    const random = fc.uint8Array({ maxLength: 100 });
    const near = fc.tuple(fc.constantFrom(INNER_V4, INNER_V6), fc.nat(60), fc.nat(255)).map(([inner, at, value]) => {
      const bytes = Uint8Array.from([...header, ...bytesOf(inner)]);
      if (at < bytes.length) bytes[at] = value;
      return bytes;
    });
    fc.assert(
      fc.property(fc.oneof(random, near), fc.constantFrom("192.0.2.2", "2001:db8::3", "192.0.2.9"), (bytes, from) => {
        const p = packetOf(bytes);
        if (input(tunnel, p, from, 4790) === "None") {
          const version = p.bytes[p.start]! >>> 4;
          assert(p.length >= (version === 4 ? 20 : 40));
          assert(p.end - p.start <= bytes.length);
          if (from === "192.0.2.2" && version === 4) assertEquals(p.bytes[p.start + 12], 10);
        }
        memory.pool.release(p);
      }),
      { numRuns: 2000 },
    );
  }
  assertEquals(memory.pool.inUse, 0);
});
