/**
 * The interface to the kernel: its configuration, and how a stack routes to and from it.
 *
 * @module
 */

import { assertEquals, assertThrows } from "@std/assert";
import { DropReason } from "../../src/base/drop.ts";
import type { Packet } from "../../src/base/packet.ts";
import { parseHostConfig } from "../../src/stack/config.ts";
import { Stack } from "../../src/stack/stack.ts";
import { emitIp, IpHeader, ipHeaderBytes, IpProtocol } from "../../src/wire/ip_header.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";

const PEER = { name: "r1", endpoint: "192.0.2.1:4790", allowed: ["10.7.0.0/24", "fd07::/64"] };

function parse(tun: unknown, more: Record<string, unknown> = {}) {
  return parseHostConfig({ address: ["10.9.0.1/24", "fd09::1/64"], peers: [PEER], forward: true, tun, ...more });
}

Deno.test("tun config: what is left out is completed", () => {
  const { tun } = parse({ addresses: ["10.9.0.2/24", "fd09::2/64"] });
  assertEquals({ ...tun, addresses: tun!.addresses.map(String), allowed: tun!.allowed.map(String) }, {
    name: "culv%d",
    addresses: ["10.9.0.2/24", "fd09::2/64"],
    allowed: ["10.9.0.2/32", "fd09::2/128"],
    routes: [],
    mtu: 1472,
    reversePath: "strict",
  });
  assertEquals(parseHostConfig({ address: "10.9.0.1/24" }).tun, null);
  const most = parse({
    name: "t.un-%d_",
    addresses: "10.9.0.2/24",
    allowed: "10.10.0.0/16",
    routes: ["10.7.0.0/24", "0.0.0.0/1"],
    mtu: 600,
    rpFilter: "none",
  });
  assertEquals(
    [most.tun!.allowed.map(String), most.tun!.routes.map(String), most.tun!.mtu, most.tun!.reversePath],
    [["10.9.0.2/32", "10.10.0.0/16"], ["10.7.0.0/24", "0.0.0.0/1"], 600, null],
  );
  // The least of the peers, or that of the host.
  const narrow = { ...PEER, endpoint: "192.0.2.2:4790", name: "r2", allowed: "10.6.0.0/24", mtu: 1300 };
  assertEquals(parse({ addresses: "10.9.0.2/24" }, { peers: [PEER, narrow] }).tun!.mtu, 1300);
  assertEquals(parse({ addresses: "10.9.0.2/24" }, { mtu: 1350 }).tun!.mtu, 1350);
});

Deno.test("tun config: faults, each with its path", () => {
  const cases: [tun: unknown, message: string, more?: Record<string, unknown>][] = [
    [{}, "tun.addresses: found nothing, expected an address"],
    [{ addresses: "10.9.0.2" }, "tun.addresses: found"],
    [{ addresses: "10.9.0.0/24" }, "tun.addresses: found"],
    [{ addresses: "127.0.0.2/8" }, "not one that is loopback"],
    [{ addresses: "10.9.0.1/24" }, "this host itself has that address"],
    [{ addresses: ["10.9.0.2/24", "10.9.0.2/16"] }, "tun.addresses[1]"],
    [{ addresses: "10.9.0.2/24", allowed: ["10.7.0.0/24"] }, "peers[0].allowed has 10.7.0.0/24"],
    [{ addresses: "10.9.0.2/24", name: "a name" }, "tun.name"],
    [{ addresses: "10.9.0.2/24", name: "sixteen-letters-" }, "tun.name"],
    [{ addresses: "10.9.0.2/24", name: "%d%d" }, "tun.name"],
    [{ addresses: "10.9.0.2/24", name: ".." }, "tun.name"],
    [{ addresses: "10.9.0.2/24", mtu: 100 }, "tun.mtu"],
    [{ addresses: "fd09::2/64", mtu: 1279 }, "tun.mtu: found 1279, expected at least 1280"],
    [{ addresses: "10.9.0.2/24", routes: "fd07::/64", mtu: 1279 }, "tun.mtu"],
    [{ addresses: "10.9.0.2/24", routes: "192.0.2.0/24" }, "tun.routes: found"],
    [{ addresses: "10.9.0.2/24", routes: ["10.7.0.0/24", "0.0.0.0/0"] }, "tun.routes[1]: found"],
    [{ addresses: "192.0.2.9/24" }, "the endpoint of peers[0]: the tunnel would lead into itself"],
    [{ addresses: "10.9.0.2/24", routes: ["10.7.0.0/24", "10.7.0.0/24"] }, "tun.routes[1]"],
    [{ addresses: "10.9.0.2/24", route: "10.7.0.0/24" }, 'did you mean "routes"?'],
  ];
  for (const [tun, message, more] of cases) {
    assertThrows(() => parse(tun, more), TypeError, message, JSON.stringify(tun));
  }
});

/** A packet of UDP without data, enough to be forwarded. */
function packet(stack: Stack, from: string, to: string, payloadBytes = 8): Packet {
  const source = IpAddr.parse(from);
  const destination = IpAddr.parse(to);
  const p = stack.pool.acquire()!;
  const ip = new IpHeader();
  ip.version = source.version;
  [ip.src0, ip.src1, ip.src2, ip.src3] = [source.w0, source.w1, source.w2, source.w3];
  [ip.dst0, ip.dst1, ip.dst2, ip.dst3] = [destination.w0, destination.w1, destination.w2, destination.w3];
  ip.setDefaults(IpProtocol.Udp, payloadBytes);
  ip.headerLength = ipHeaderBytes(ip.version);
  p.end = p.start + payloadBytes;
  p.start -= ip.headerLength;
  emitIp(p.view, p.start, ip);
  return p;
}

for (const [a, b, behind] of [["10.7.0.2", "10.9.0.2", "10.10.1.1"], ["fd07::2", "fd09::2", "fd10::1"]] as const) {
  Deno.test(`tun: packets from ${a} go to the kernel and back, and what is behind it`, () => {
    const allowed = ["10.10.0.0/16", "fd10::/64"];
    const config = parse({ addresses: ["10.9.0.2/24", "fd09::2/64"], allowed, mtu: 1280 });
    const stack = new Stack({ ...config, seed: 1 });
    assertEquals([stack.device!.ifindex, stack.device!.name], [2, "culv%d"]);
    for (const to of [b, behind]) {
      stack.input(1, packet(stack, a, to), 0);
      const p = stack.pull(0)!;
      assertEquals(p.ifindex, 2);
      stack.pool.release(p);
      stack.input(2, packet(stack, to, a), 0);
      const back = stack.pull(0)!;
      assertEquals(back.ifindex, 1);
      stack.pool.release(back);
    }
    assertEquals(stack.drops.total(), 0);
    // Of the network of the kernel's address only that address is there.
    stack.input(1, packet(stack, a, b.replace(/2$/, "77")), 0);
    assertEquals(stack.drops.get(DropReason.NoRoute), 1);
    // The kernel may not speak for others.
    stack.input(2, packet(stack, a.replace(/2$/, "3"), a), 0);
    assertEquals(stack.drops.get(DropReason.ReversePath), 1);
    // A packet too big for the device is answered.
    const before = stack.ip.errors.sent;
    stack.input(1, packet(stack, a, b, 1261), 0);
    assertEquals([stack.drops.get(DropReason.TooBig), stack.ip.errors.sent - before], [1, 1]);
    for (let p = stack.pull(0); p !== null; p = stack.pull(0)) stack.pool.release(p);
    assertEquals(stack.pool.inUse, 0);
    const row = stack.inspect(0).interfaces[1]!;
    assertEquals([row.name, row.mtu, row.endpoint, row.allowed.length], ["culv%d", 1280, null, 4]);
  });
}

Deno.test("tun: a peer is never looked for where the kernel routes to the tunnel, but it may be behind the kernel", () => {
  const tun = { addresses: "10.9.0.2/24", allowed: ["198.51.100.0/24"], routes: ["10.7.0.0/24", "203.0.113.0/24"] };
  const stack = new Stack({ ...parse(tun), seed: 1 });
  const peer = stack.tunnel!.peers.byIfindex(1)!;
  const refusal = (address: string) => stack.tunnel!.refuse(peer, IpAddr.parse(address));
  assertEquals(refusal("198.51.100.7"), "");
  assertEquals(refusal("192.0.2.7"), "");
  assertEquals(refusal("203.0.113.7"), "203.0.113.7 is what the kernel routes to the tunnel: 203.0.113.0/24");
  assertEquals(refusal("10.9.0.9"), "10.9.0.9 is what the kernel routes to the tunnel: 10.9.0.0/24");
});
