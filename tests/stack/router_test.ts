/**
 * Stacks as routers: datagrams in fragments end to end, path MTU over a narrow link, peers that die, new settings.
 *
 * @module
 */

import { assert, assertEquals, assertThrows } from "@std/assert";
import { SocketErrorKind } from "../../src/base/errors.ts";
import { MILLISECOND, SECOND } from "../../src/base/time.ts";
import { PingOutcome } from "../../src/icmp/ping_socket.ts";
import { type HostOptions, parseHostConfig } from "../../src/stack/config.ts";
import { Stack } from "../../src/stack/stack.ts";
import { Tcb } from "../../src/tcp/tcb.ts";
import type { UdpSocket } from "../../src/udp/udp_socket.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { pattern } from "../testing/ip_packets.ts";
import { StackNet, type StackNode } from "../testing/stack_net.ts";

/** Hosts 1 and 3 with router 2 between them, whose link to 3 has another MTU. */
function chain(mtu: number, changes: Partial<HostOptions> = {}): { net: StackNet; nodes: StackNode[] } {
  const net = new StackNet(MILLISECOND);
  const everything = ["0.0.0.0/0", "::/0"];
  const peer = (n: number, allowed: string[], peerMtu = 1500) => ({
    name: `p${n}`,
    endpoint: `192.0.2.${n}:4790`,
    allowed,
    mtu: peerMtu,
  });
  const host = (n: number, peers: HostOptions["peers"]): StackNode =>
    net.add({
      address: [`10.${n}.0.1/24`, `fd0${n}::1/64`],
      listen: `192.0.2.${n}:4790`,
      peers: peers!,
      forward: n === 2,
      seed: n,
      ...changes,
    });
  const nodes = [
    host(1, [peer(2, everything)]),
    host(2, [peer(1, ["10.1.0.0/24", "fd01::/64"]), peer(3, ["10.3.0.0/24", "fd03::/64"], mtu)]),
    host(3, [peer(2, everything, mtu)]),
  ];
  return { net, nodes };
}

for (const v4 of [true, false]) {
  const family = v4 ? "IPv4" : "IPv6";
  const any = v4 ? IpAddr.ANY_V4 : IpAddr.ANY_V6;
  const far = IpAddr.parse(v4 ? "10.3.0.1" : "fd03::1");
  const headers = v4 ? 28 : 48;

  Deno.test(`${family}: a datagram of 60,000 bytes goes through a router in fragments and comes back`, () => {
    const { net, nodes } = chain(1300);
    const a = nodes[0]!.stack.udp.bind(any, 0) as UdpSocket;
    const b = nodes[2]!.stack.udp.bind(any, 9) as UdpSocket;
    a.pathMtuDiscovery = "dont";
    b.pathMtuDiscovery = "want";
    const data = pattern(60_000).map((byte, i) => byte ^ (i >> 8));
    const target = new Uint8Array(65_536);
    if (!v4) {
      // Routers do not cut IPv6: the first one says so, and then it fits.
      assertEquals(a.send(data, far, 9, net.now), SocketErrorKind.None);
      net.run(net.now + SECOND);
      assertEquals(b.receive(target), -1);
      a.pathMtuDiscovery = "want";
    }
    assertEquals(a.send(data, far, 9, net.now), SocketErrorKind.None);
    net.run(net.now + SECOND);
    assertEquals(b.receive(target), data.length);
    assertEquals(target.subarray(0, data.length), data);
    assertEquals(b.send(data, b.receivedAddress, b.receivedPort, net.now), SocketErrorKind.None);
    net.run(net.now + SECOND);
    assertEquals(a.receive(target), data.length);
    assertEquals(nodes[1]!.stack.ip.fragmented.packets > 0, v4);
    const { fragments } = nodes[2]!.stack.inspect(net.now);
    assertEquals([fragments.joined, fragments.cut, fragments.timedOut], [1, 1, 0]);
    net.run(net.now + 100 * SECOND);
    net.noLeak();
  });

  Deno.test(`${family}: "too big" of a router is MessageTooLong of the next datagram, and what fits gets through`, () => {
    const { net, nodes } = chain(1280);
    const a = nodes[0]!.stack.udp.bind(any, 0) as UdpSocket;
    const b = nodes[2]!.stack.udp.bind(any, 9) as UdpSocket;
    a.connect(far, 9);
    assertEquals(a.send(pattern(1500 - headers), far, 9, net.now), SocketErrorKind.None);
    net.run(net.now + SECOND);
    assertEquals(b.queuedDatagrams, 0);
    assertEquals(SocketErrorKind[a.takeError()], "MessageTooLong");
    assertEquals(a.send(pattern(1281 - headers), far, 9, net.now), SocketErrorKind.MessageTooLong);
    assertEquals(a.send(pattern(1280 - headers), far, 9, net.now), SocketErrorKind.None);
    net.run(net.now + SECOND);
    assertEquals(b.nextDatagramBytes, 1280 - headers);
    // What is learnt is forgotten after ten minutes.
    net.run(net.now + 601 * SECOND);
    assertEquals(a.send(pattern(1500 - headers), far, 9, net.now), SocketErrorKind.None);
    net.run(net.now + SECOND);
    net.noLeak();
  });

  Deno.test(`${family}: what one transport learns of a path the others begin with, until it is forgotten`, () => {
    for (const first of ["tcp", "udp", "ping"] as const) {
      const { net, nodes } = chain(1300);
      const [here, , there] = nodes.map(({ stack }) => stack);
      // The far end takes what it will not get.
      there!.ip.setMtu(1, 1500);
      there!.tcp.listen(any, 80);
      const connect = (): Tcb => {
        const t = here!.tcp.connect(far, 80, {}, net.now);
        if (!(t instanceof Tcb)) throw new Error(SocketErrorKind[t]);
        net.run(net.now + SECOND);
        return t;
      };
      const udp = here!.udp.bind(any, 0) as UdpSocket;
      const known = (): number => here!.ip.pathMtuTo(far, net.now);
      const old = connect();
      const full = old.mss;
      if (first === "tcp") {
        old.write(pattern(4000), 0, 4000);
        here!.tcp.timeout(net.now);
      } else if (first === "udp") udp.send(pattern(1500 - headers), far, 9, net.now);
      else {
        const ping = here!.icmp.openPing(far);
        if (typeof ping === "number") throw new Error("no ping");
        ping.send(1, 1500 - headers, 64, net.now);
      }
      net.run(net.now + SECOND);
      assertEquals(known(), 1300, first);
      assertEquals(udp.send(pattern(1301 - headers), far, 9, net.now), SocketErrorKind.MessageTooLong, first);
      assertEquals(old.mss, first === "tcp" ? full - 200 : full, "a connection goes by errors about its own segments");
      assertEquals(connect().mss, full - 200, first);
      net.run(net.now + 601 * SECOND);
      assertEquals([known(), connect().mss], [1500, full], first);
    }
  });

  Deno.test(`${family}: a large ping is answered through the narrow link with the MTU, a smaller one with a reply`, () => {
    const { net, nodes } = chain(1280);
    const ping = nodes[0]!.stack.icmp.openPing(far);
    if (typeof ping === "number") throw new Error("no ping");
    ping.send(1, 1400, 64, net.now);
    net.run(net.now + SECOND);
    const error = ping.receive()!;
    assertEquals([error.outcome, error.mtu, `${error.from}`], [PingOutcome.Error, 1280, v4 ? "10.2.0.1" : "fd02::1"]);
    ping.send(2, 1280 - headers, 64, net.now);
    net.run(net.now + SECOND);
    assertEquals(ping.receive()!.outcome, PingOutcome.Reply);
    net.noLeak();
  });
}

Deno.test("a peer that falls silent is passed over, and used again when it speaks", () => {
  const net = new StackNet(MILLISECOND);
  const keepalive = { keepalive: "1s", deadAfter: "3s" };
  const a = net.add({
    address: "10.0.0.1/24",
    listen: "192.0.2.1:4790",
    peers: [
      { name: "b", endpoint: "192.0.2.2:4790", allowed: "10.0.0.2" },
      { name: "c", endpoint: "192.0.2.3:4790", allowed: "10.0.0.3" },
    ],
    routes: [{ to: "10.9.0.0/16", via: "b", metric: 1 }, { to: "10.9.0.0/16", via: "c", metric: 2 }],
    seed: 1,
    ...keepalive,
  });
  const other = (n: number): StackNode =>
    net.add({
      address: `10.0.0.${n}/24`,
      listen: `192.0.2.${n}:4790`,
      peers: [{ name: "a", endpoint: "192.0.2.1:4790", allowed: "10.0.0.1" }],
      seed: n,
      ...keepalive,
    });
  other(3);
  const way = (): number | undefined => a.stack.ip.routes.lookup(0, 0, 0xffff, 0x0a090001)?.ifindex;
  net.run(2 * SECOND);
  assertEquals(way(), 1);
  net.run(5 * SECOND);
  assertEquals(way(), 2);
  assertEquals(a.stack.inspect(net.now).interfaces.map(({ state }) => state), ["dead", "alive"]);
  assertEquals(a.stack.ip.routes.lookup(0, 0, 0xffff, 0x0a000002), null);
  other(2);
  net.run(8 * SECOND);
  assertEquals(way(), 1);
  const { keepalive: heard } = a.stack.drops.toJSON();
  assert(heard! > 5, `${heard}`);
  net.noLeak();
});

Deno.test("GUE and GRE carry a conversation between two stacks, each with the MTU that its header leaves", () => {
  for (const [encapsulation, mtu] of [["gue", 1468], ["gre", 1468], [{ kind: "gre", key: 7 }, 1464]] as const) {
    const net = new StackNet(MILLISECOND);
    const [a, b] = [1, 2].map((n) =>
      net.add({
        address: [`10.7.0.${n}/24`, `fd07::${n}/64`],
        listen: `192.0.2.${n}:4754`,
        peers: [{ name: "p", endpoint: `192.0.2.${3 - n}:4754`, allowed: [`10.7.0.${3 - n}`, `fd07::${3 - n}`] }],
        encapsulation,
        seed: n,
      })
    ) as [StackNode, StackNode];
    assertEquals(a.stack.options.peers[0]!.mtu, mtu);
    for (const to of ["10.7.0.2", "fd07::2"]) {
      const ping = a.stack.icmp.openPing(IpAddr.parse(to));
      if (typeof ping === "number") throw new Error("no ping");
      ping.send(1, 1000, 64, net.now);
      net.run(net.now + SECOND);
      assertEquals(ping.receive()!.outcome, PingOutcome.Reply);
    }
    assertEquals(b.stack.drops.total(), 0);
    net.noLeak();
  }
});

Deno.test("settings of a router that contradict each other are refused, with their path", () => {
  const base = { address: "10.7.0.1/24", peers: [{ name: "b", endpoint: "192.0.2.2:1", allowed: "10.7.0.2" }] };
  const refused = (changes: object, text: string): void => {
    assertThrows(() => parseHostConfig({ ...base, ...changes }), TypeError, text);
  };
  refused({ routes: [{ to: "10.9.0.0/16" }] }, "routes[0]: found");
  refused({ routes: [{ to: "10.9.0.0/16", via: "b", type: "blackhole" }] }, "routes[0].via");
  refused({ routes: [{ to: "10.9.0.0/16", type: "blackhol" }] }, "routes[0].type");
  refused({ routes: [{ to: "10.9.0.0/16", via: "b", weight: 0 }] }, "from 1 to 256");
  refused({ rpFilter: "on" }, 'expected "none", "loose" or "strict"');
  refused({ deadAfter: "3s" }, 'nothing without "keepalive"');
  refused({ keepalive: "3s", deadAfter: "3s" }, "more than the interval");
  refused({ keepalive: "1ms" }, "keepalive");
  refused({ encapsulation: { kind: "gue", key: 1 } }, "key");
  refused({ peers: [{ ...base.peers[0], key: 3 }] }, 'nothing: "raw" has no key');
  refused({ underlayMtu: 500 }, "underlayMtu");
  refused({ address: "fd07::1/64", underlayMtu: 1300 }, "underlayMtu: found 1300");
  // An endpoint inside a blackhole is not behind the tunnel.
  parseHostConfig({ ...base, routes: [{ to: "192.0.2.0/24", type: "blackhole" }] });
  refused({ routes: [{ to: "192.0.2.0/24", via: "b" }] }, "leads into the tunnel itself");
});

Deno.test("routes, filter and MTU of a configuration arrive in the stack", () => {
  const stack = new Stack(parseHostConfig({
    address: "10.7.0.1/24",
    peers: [
      { name: "b", endpoint: "192.0.2.2:1", allowed: "10.7.0.2", accept: "10.9.0.0/16", rpFilter: "none" },
      { name: "c", endpoint: "192.0.2.3:1", allowed: "10.7.0.3", accept: "10.9.0.0/16" },
    ],
    routes: [
      { to: "10.9.0.0/16", via: "b", weight: 3 },
      { to: "10.9.0.0/16", via: "c" },
      { to: "10.0.0.0/8", type: "unreachable", metric: 5 },
    ],
    rpFilter: "strict",
    clampMss: true,
    underlayMtu: 1400,
    seed: 1,
  }));
  assertEquals(stack.inspect(0).routes.slice(0, 3), [
    { to: "10.0.0.0/8", via: "", metric: 5, type: "unreachable", weight: 1 },
    { to: "10.7.0.2/32", via: "b", metric: 1024, type: "unicast", weight: 1 },
    { to: "10.7.0.3/32", via: "c", metric: 1024, type: "unicast", weight: 1 },
  ]);
  assertEquals(stack.ip.interfaces.map(({ mtu, reversePath }) => [mtu, reversePath]), [[1372, null], [1372, "strict"]]);
  assertEquals(stack.ip.clampMss, true);
  assert(stack.tunnel!.peers.byIfindex(2)!.allows(0, 0, 0xffff, 0x0a090001));
});
