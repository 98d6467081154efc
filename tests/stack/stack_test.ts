import { assert, assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import { DropReason } from "../../src/base/drop.ts";
import { SocketErrorKind } from "../../src/base/errors.ts";
import { type EventSource, SocketEvent } from "../../src/base/event_queue.ts";
import type { Packet } from "../../src/base/packet.ts";
import { Rng } from "../../src/base/rng.ts";
import { MICROSECOND, MILLISECOND, NEVER, SECOND } from "../../src/base/time.ts";
import { PingOutcome, type PingResult, PingSocket } from "../../src/icmp/ping_socket.ts";
import { NetemStage } from "../../src/impair/netem_stage.ts";
import { parseNetem } from "../../src/impair/parse.ts";
import { type HostOptions, parseHostConfig } from "../../src/stack/config.ts";
import { InterfaceStages } from "../../src/stack/interface_stages.ts";
import { Stack } from "../../src/stack/stack.ts";
import { UdpSocket } from "../../src/udp/udp_socket.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { IpHeader, IpProtocol } from "../../src/wire/ip_header.ts";
import { hex, ipPacket, pattern, TestPool, udpPacket } from "../testing/ip_packets.ts";
import { StackNet, type StackNode } from "../testing/stack_net.ts";

const families = [
  { name: "IPv4", a: "10.7.0.1", b: "10.7.0.2", c: "10.8.0.3", length: 24, header: 20 },
  { name: "IPv6", a: "fd07::1", b: "fd07::2", c: "fd08::3", length: 64, header: 40 },
];
const encapsulations: NonNullable<HostOptions["encapsulation"]>[] = ["raw", { kind: "vxlan-gpe", vni: 42 }];

/** Two hosts, a and b, with both families inside. */
function pair(delay: number, changes: Partial<HostOptions> = {}): { net: StackNet; a: StackNode; b: StackNode } {
  const net = new StackNet(delay);
  const host = (n: number): HostOptions => ({
    address: [`10.7.0.${n}/24`, `fd07::${n}/64`],
    listen: `192.0.2.${n}:4790`,
    peers: [{
      name: n === 1 ? "b" : "a",
      endpoint: `192.0.2.${3 - n}:4790`,
      allowed: [`10.7.0.${3 - n}`, `fd07::${3 - n}`],
    }],
    seed: 7,
    ...changes,
  });
  return { net, a: net.add(host(1)), b: net.add(host(2)) };
}

/** a – r – c in a chain; c's network is behind r, and the second link has an MTU of 1,400. */
function chain(changes: Partial<HostOptions> = {}): { net: StackNet; a: StackNode; r: StackNode; c: StackNode } {
  const net = new StackNet(10 * MILLISECOND);
  const a = net.add({
    address: ["10.7.0.1/24", "fd07::1/64"],
    listen: "192.0.2.1:4790",
    peers: [{ name: "r", endpoint: "192.0.2.2:4790", allowed: ["0.0.0.0/0", "::/0"] }],
    seed: 1,
  });
  const r = net.add({
    address: ["10.7.0.2/24", "fd07::2/64"],
    listen: "192.0.2.2:4790",
    peers: [
      { name: "a", endpoint: "192.0.2.1:4790", allowed: ["10.7.0.1", "fd07::1"] },
      { name: "c", endpoint: "192.0.2.3:4790", allowed: ["10.8.0.0/24", "fd08::/64"], mtu: 1400 },
    ],
    forward: true,
    seed: 2,
    ...changes,
  });
  const c = net.add({
    address: ["10.8.0.3/24", "fd08::3/64"],
    listen: "192.0.2.3:4790",
    peers: [{ name: "r", endpoint: "192.0.2.2:4790", allowed: "10.7.0.2/32" }],
    seed: 3,
  });
  // c learns of the rest by static routes; what may come from there has to be allowed too.
  return { net, a, r, c };
}

function ping(node: StackNode, remote: string): PingSocket {
  const socket = node.stack.icmp.openPing(IpAddr.parse(remote));
  if (!(socket instanceof PingSocket)) throw new Error(SocketErrorKind[socket]);
  return socket;
}

function bind(node: StackNode, local: string, port = 0): UdpSocket {
  const socket = node.stack.udp.bind(IpAddr.parse(local), port);
  if (!(socket instanceof UdpSocket)) throw new Error(SocketErrorKind[socket]);
  return socket;
}

function results(socket: PingSocket): PingResult[] {
  const all: PingResult[] = [];
  for (let r = socket.receive(); r !== null; r = socket.receive()) all.push(r);
  return all;
}

for (const encapsulation of encapsulations) {
  const kind = typeof encapsulation === "string" ? encapsulation : encapsulation.kind;

  for (const { name, a: addressA, b: addressB, header } of families) {
    Deno.test(`${name} over ${kind}: a datagram goes over and is answered`, () => {
      const { net, a, b } = pair(5 * MILLISECOND, { encapsulation });
      const server = bind(b, addressB, 53);
      const client = bind(a, addressA);
      const mtu = 1500 - 28 - (kind === "raw" ? 0 : 8);
      const largest = pattern(mtu - header - 8);
      b.onEvent = (source, events, now) => {
        assertEquals([source, events], [server as EventSource, SocketEvent.Readable]);
        const target = new Uint8Array(2000);
        const n = server.receive(target);
        server.send(target.subarray(0, n), server.receivedAddress, server.receivedPort, now);
      };
      assertEquals(client.send(largest, IpAddr.parse(addressB), 53, net.now), SocketErrorKind.None);
      assertEquals(
        client.send(pattern(largest.length + 1), IpAddr.parse(addressB), 53, 0),
        SocketErrorKind.MessageTooLong,
      );
      net.run();
      assertEquals(net.now, 10 * MILLISECOND);
      const target = new Uint8Array(2000);
      assertEquals(client.receive(target), largest.length);
      assertEquals(hex(target.subarray(0, largest.length)), hex(largest));
      assertEquals([`${client.receivedAddress}`, client.receivedPort, client.receivedAt], [
        addressB,
        53,
        10 * MILLISECOND,
      ]);
      assertEquals([a.stack.drops.total(), b.stack.drops.total()], [0, 0]);
      net.noLeak();
    });

    Deno.test(`${name} over ${kind}: ping takes the delay there and back`, () => {
      const { net, a } = pair(7 * MILLISECOND, { encapsulation });
      const socket = ping(a, addressB);
      assertEquals(socket.send(1, 56, 64, 0), SocketErrorKind.None);
      net.run();
      const [result] = results(socket);
      assertEquals([result?.outcome, result?.rtt, result?.ttl, result?.dataBytes], [
        PingOutcome.Reply,
        14 * MILLISECOND,
        64,
        56,
      ]);
      net.noLeak();
    });
  }
}

for (const { name, a: addressA, b: addressB, c: addressC } of families) {
  const v4 = name === "IPv4";

  Deno.test(`${name}: impairments of both directions add up, and the departure stamp is before them`, () => {
    const { net, a } = pair(0, { impair: { out: "delay 20ms", in: "delay 3ms" } });
    const socket = ping(a, addressB);
    socket.send(1, 0, 64, 0);
    assertEquals(a.stack.nextAt(), 0);
    net.run();
    assertEquals(results(socket)[0]?.rtt, 46 * MILLISECOND);
    net.noLeak();
  });

  Deno.test(`${name}: losses are counted where they happen, and what is lost times out`, () => {
    const { net, a, b } = pair(MILLISECOND, { impair: { in: "loss 50%" } });
    const socket = ping(a, addressB);
    for (let seq = 0; seq < 200; seq++) {
      socket.send(seq, 8, 64, net.now, net.now + 100 * MILLISECOND);
      net.run(net.now + 10 * MILLISECOND);
    }
    net.run();
    const outcomes = results(socket).map((r) => r.outcome);
    const replies = outcomes.filter((o) => o === PingOutcome.Reply).length;
    assertEquals(outcomes.length, 200);
    assert(replies > 25 && replies < 80, `${replies} replies`);
    const lost = a.stack.drops.get(DropReason.ImpairLoss) + b.stack.drops.get(DropReason.ImpairLoss);
    assertEquals(lost, 200 - replies);
    net.noLeak();
  });

  Deno.test(`${name}: a host pings and talks UDP to itself`, () => {
    const { net, a } = pair(0);
    const socket = ping(a, addressA);
    socket.send(1, 8, 64, 0);
    const server = bind(a, addressA, 53);
    const client = bind(a, v4 ? "0.0.0.0" : "::");
    client.send(pattern(9), IpAddr.parse(addressA), 53, 0);
    let datagrams = 0;
    net.onDatagram = () => datagrams++;
    net.run();
    assertEquals(results(socket)[0]?.outcome, PingOutcome.Reply);
    assertEquals(server.receive(new Uint8Array(9)), 9);
    assertEquals(`${server.receivedAddress}`, addressA);
    assertEquals(datagrams, 0);
    assertEquals(a.stack.nextAt(), NEVER);
    net.noLeak();
  });

  Deno.test(`${name}: a closed port refuses a connected socket, there and here; a full one is silent`, () => {
    const { net, a, b } = pair(MILLISECOND, { udp: { receiveBufferBytes: 64 } });
    // Errors from the host to itself are not limited; the peer sends six in a burst.
    for (const [remote, times] of [[addressB, 6], [addressA, 20]] as const) {
      const socket = bind(a, v4 ? "0.0.0.0" : "::");
      socket.connect(IpAddr.parse(remote), 99);
      for (let i = 0; i < times; i++) {
        socket.send(pattern(4), IpAddr.parse(remote), 99, net.now);
        net.run();
        assertEquals(socket.takeError(), SocketErrorKind.ConnectionRefused, remote);
      }
    }
    bind(b, addressB, 100);
    const socket = bind(a, addressA);
    socket.connect(IpAddr.parse(addressB), 100);
    for (let i = 0; i < 5; i++) socket.send(pattern(30), IpAddr.parse(addressB), 100, net.now);
    net.run();
    assertEquals(socket.takeError(), SocketErrorKind.None);
    assertEquals(b.stack.drops.toJSON(), { "no-socket": 6, "receive-buffer-full": 4 });
    net.noLeak();
  });

  Deno.test(`${name}: a protocol that is not spoken is answered with an error`, () => {
    const { net, a, b } = pair(0);
    const protocols = v4 ? [253, 58, 41] : [253, 1, 4];
    for (const protocol of protocols) {
      const p = ipPacket(a.stack.pool, { src: addressA, dst: addressB, protocol, payload: pattern(16) });
      p.ifindex = 1;
      a.stack.qdisc.push(p, net.now);
      let answer: Uint8Array | null = null;
      net.onDatagram = (bytes, from) => {
        if (from === b) answer = bytes;
      };
      net.run();
      const icmp = Array.from(answer!).slice(v4 ? 20 : 40, v4 ? 28 : 48);
      assertEquals([icmp[0], icmp[1], icmp[7]], v4 ? [3, 2, 0] : [4, 1, 6]);
    }
    assertEquals(b.stack.drops.get(DropReason.UnknownProtocol), 3);
    net.noLeak();
  });

  Deno.test(`${name}: a router forwards and answers for what it cannot`, () => {
    const { net, a, r, c } = chain();
    const socket = ping(a, addressC);
    socket.send(1, 8, 1, net.now);
    socket.send(2, 1400, 64, net.now);
    net.run();
    const [ttl, tooBig] = results(socket);
    const router = v4 ? "10.7.0.2" : "fd07::2";
    assertEquals([ttl?.outcome, `${ttl?.from}`, ttl?.type, ttl?.rtt], [
      PingOutcome.Error,
      router,
      v4 ? 11 : 3,
      20 * MILLISECOND,
    ]);
    assertEquals([tooBig?.outcome, `${tooBig?.from}`, tooBig?.mtu], [PingOutcome.Error, router, 1400]);
    const lost = ping(a, v4 ? "10.9.0.1" : "fd09::1");
    lost.send(1, 8, 64, net.now);
    net.run();
    const [unreachable] = results(lost);
    assertEquals([unreachable?.outcome, unreachable?.type, unreachable?.code], [PingOutcome.Error, v4 ? 3 : 1, 0]);
    assertEquals(r.stack.drops.toJSON(), { "ttl-exceeded": 1, "too-big": 1, "no-route": 1 });
    // c accepts from r only what it allows: the request arrives there and is refused.
    socket.send(3, 8, 64, net.now, net.now + SECOND);
    net.run();
    assertEquals(c.stack.drops.toJSON(), { "source-not-allowed": 1 });
    assertEquals(results(socket)[0]?.outcome, PingOutcome.Timeout);
    assertEquals(r.stack.ip.forwarded, 1);
    net.noLeak();
  });

  Deno.test(`${name}: three hosts in a chain reach each other through the middle one`, () => {
    const net = new StackNet(10 * MILLISECOND);
    const outer = (n: number, own: string[]): StackNode =>
      net.add({
        address: own,
        listen: `192.0.2.${n}:4790`,
        peers: [{ name: "r", endpoint: "192.0.2.2:4790", allowed: ["0.0.0.0/0", "::/0"] }],
        seed: n,
      });
    const a = outer(1, ["10.7.0.1/24", "fd07::1/64"]);
    const c = outer(3, ["10.8.0.3/24", "fd08::3/64"]);
    const r = net.add({
      address: ["10.7.0.2/24", "fd07::2/64"],
      listen: "192.0.2.2:4790",
      peers: [
        { name: "a", endpoint: "192.0.2.1:4790", allowed: ["10.7.0.1", "fd07::1"] },
        { name: "c", endpoint: "192.0.2.3:4790", allowed: ["10.8.0.3", "fd08::3"] },
      ],
      routes: [{ to: "10.8.0.0/24", via: "c" }, { to: "fd08::/64", via: "c" }],
      forward: true,
      seed: 2,
    });
    const socket = ping(a, addressC);
    socket.send(1, 100, 64, 0);
    net.run();
    const [result] = results(socket);
    assertEquals([result?.outcome, result?.rtt, result?.ttl], [PingOutcome.Reply, 40 * MILLISECOND, 63]);
    assertEquals(r.stack.ip.forwarded, 2);
    r.stack.ip.forward = false;
    socket.send(2, 100, 64, net.now, net.now + SECOND);
    net.run();
    assertEquals(results(socket)[0]?.outcome, PingOutcome.Timeout);
    assertEquals(r.stack.drops.toJSON(), { "not-forwarding": 1 });
    assertEquals([a.stack.drops.total(), c.stack.drops.total()], [0, 0]);
    net.noLeak();
  });
}

Deno.test("datagrams of strangers, and of peers that lie about their source, are counted and not answered", () => {
  const { net, b } = pair(0);
  const { pool } = b.stack;
  const from = (address: string, port: number, src: string): void => {
    const a = IpAddr.parse(address);
    const dst = src.includes(":") ? "fd07::2" : "10.7.0.2";
    const p = udpPacket(pool, { src, dst, srcPort: 9, dstPort: 9 });
    b.stack.inputDatagram(p, a.w0, a.w1, a.w2, a.w3, port, net.now);
  };
  from("192.0.2.9", 4790, "10.7.0.1");
  from("192.0.2.1", 4791, "10.7.0.1");
  from("192.0.2.1", 4790, "10.7.0.9");
  from("192.0.2.1", 4790, "fd07::9");
  let datagrams = 0;
  net.onDatagram = () => datagrams++;
  net.run();
  assertEquals(b.stack.drops.toJSON(), { "unknown-peer": 2, "source-not-allowed": 2 });
  assertEquals(datagrams, 0);
  net.noLeak();
});

Deno.test("nothing leaves early: departure stamps hold in the queue and on the way to oneself", () => {
  const { net, a } = pair(0);
  const own = bind(a, "10.7.0.1", 53);
  const departures: number[] = [];
  net.onDatagram = (_bytes, from, at) => {
    if (from === a) departures.push(at);
  };
  const send = (dst: string, flow: number, departAt: number): void => {
    const p = udpPacket(a.stack.pool, { src: "10.7.0.1", dst, srcPort: 1, dstPort: 53 });
    const ip = new IpHeader();
    ip.setAddresses(IpAddr.parse("10.7.0.1"), IpAddr.parse(dst));
    ip.setDefaults(IpProtocol.Udp, 0);
    p.start = p.l4;
    p.departAt = departAt;
    p.flow = flow;
    assertEquals(a.stack.ip.output(p, ip, net.now), DropReason.None);
  };
  for (const [i, ms] of [30, 10, 20].entries()) {
    send("10.7.0.2", 2 * i + 1, ms * MILLISECOND);
    send("10.7.0.1", 2 * i + 1, ms * MILLISECOND);
  }
  net.run(9 * MILLISECOND);
  assertEquals([departures.length, own.queuedDatagrams], [0, 0]);
  net.run();
  assertEquals(departures, [10, 20, 30].map((ms) => ms * MILLISECOND));
  const arrivals = departures.map(() => {
    own.receive(new Uint8Array(1));
    return own.receivedAt;
  });
  assertEquals(arrivals, departures);
  net.noLeak();
});

Deno.test("an idle stack with ten thousand impaired peers has nothing to do, and one packet costs one deadline", () => {
  const config = parseHostConfig({
    address: "10.0.0.1/8",
    peers: Array.from({ length: 10_000 }, (_, i) => ({
      name: `p${i}`,
      endpoint: `192.0.2.1:${10_000 + i}`,
      allowed: `10.1.${i >> 8}.${i & 255}`,
    })),
    impair: { in: "delay 1ms", out: "delay 5ms" },
    seed: 1,
  });
  const stack = new Stack(config);
  assertEquals(stack.nextAt(), NEVER);
  stack.timeout(0);
  assertEquals(stack.pull(0), null);
  const socket = stack.udp.bind(IpAddr.ANY_V4, 0) as UdpSocket;
  for (const last of ["10.1.39.15", "10.1.0.0"]) socket.send(pattern(1), IpAddr.parse(last), 9, 1000);
  assertEquals(stack.pull(1000), null);
  assertEquals(stack.nextAt(), 1000 + 5 * MILLISECOND);
  assertEquals(stack.pull(999 + 5 * MILLISECOND), null);
  const order = [0, 0].map(() => {
    const p = stack.pull(1000 + 5 * MILLISECOND)!;
    const { ifindex } = p;
    stack.pool.release(p);
    return ifindex;
  });
  assertEquals(order, [10_000, 1]);
  assertEquals(stack.nextAt(), NEVER);
  assertEquals(stack.pool.inUse, 0);
});

Deno.test("the same seed gives the same bytes at the same times, and a further peer changes nothing", () => {
  const run = (seed: number, more: boolean): string => {
    const net = new StackNet(MILLISECOND);
    const host = (n: number): HostOptions => ({
      address: `10.7.0.${n}/24`,
      listen: `192.0.2.${n}:4790`,
      peers: [
        ...(more ? [{ name: "x", endpoint: "192.0.2.9:4790", allowed: "10.9.0.1", impair: "loss 50%" }] : []),
        {
          name: `${3 - n}`,
          endpoint: `192.0.2.${3 - n}:4790`,
          allowed: `10.7.0.${3 - n}`,
          impair: { out: "delay 5ms 3ms loss 20% duplicate 5% corrupt 5%" },
        },
      ],
      seed: seed + n,
    });
    const a = net.add(host(1));
    net.add(host(2));
    const log: string[] = [];
    net.onDatagram = (bytes, from, at) => log.push(`${at} ${from.port} ${hex(bytes)}`);
    const socket = ping(a, "10.7.0.2");
    for (let seq = 0; seq < 100; seq++) {
      socket.send(seq, 32, 64, net.now, net.now + SECOND);
      net.run(net.now + MILLISECOND);
    }
    net.run();
    net.noLeak();
    return log.join("\n");
  };
  assertEquals(run(1, false), run(1, false));
  assertNotEquals(run(1, false), run(2, false));
  assertEquals(run(1, true), run(1, false));
});

Deno.test("a stack takes a random stream in place of a seed, and needs one of them", () => {
  const config = parseHostConfig({ address: "10.7.0.1/24" });
  assertThrows(() => new Stack(config), TypeError, "seed");
  const ports = [1, 1, 2].map((seed) => {
    const stack = new Stack(config, new Rng(seed).fork("host/a"));
    return (stack.udp.bind(IpAddr.ANY_V4, 0) as UdpSocket).localPort;
  });
  assertEquals(ports[0], ports[1]);
  assertNotEquals(ports[0], ports[2]);
});

Deno.test("static routes go before the allowed prefixes, by metric", () => {
  const stack = new Stack(parseHostConfig({
    address: "10.7.0.1/24",
    peers: [
      { name: "a", endpoint: "192.0.2.1:1", allowed: ["10.8.0.0/16", "10.9.0.0/16"] },
      { name: "b", endpoint: "192.0.2.2:1", allowed: "0.0.0.0/0" },
    ],
    routes: [{ to: "10.9.0.0/16", via: "b", metric: 5 }, { to: "10.9.0.0/16", via: "a", metric: 6 }],
    seed: 1,
  }));
  const via = (text: string): number | undefined => {
    const a = IpAddr.parse(text);
    return stack.ip.routes.lookup(a.w0, a.w1, a.w2, a.w3)?.ifindex;
  };
  assertEquals([via("10.8.1.1"), via("10.9.1.1"), via("10.10.0.1"), via("fd00::1")], [1, 2, 2, undefined]);
});

Deno.test("a stack without encapsulation takes and gives plain packets", () => {
  const stack = new Stack(parseHostConfig({
    address: "10.7.0.1/24",
    encapsulation: "none",
    peers: [{ name: "left", allowed: "10.7.0.0/24" }],
    seed: 1,
  }));
  assertEquals(stack.tunnel, null);
  const p = udpPacket(stack.pool, { src: "10.7.0.2", dst: "10.7.0.1", srcPort: 9, dstPort: 9 });
  stack.inputDatagram(p, 0, 0, 0xffff, 1, 9, 0);
  assertEquals(stack.drops.toJSON(), { "unknown-peer": 1 });
  stack.input(1, udpPacket(stack.pool, { src: "10.7.0.2", dst: "10.7.0.1", srcPort: 9, dstPort: 9 }), 0);
  const reply = stack.pull(0)!;
  assertEquals([reply.ifindex, reply.bytes[reply.start + 20]], [1, 3]);
  stack.pool.release(reply);
  assertEquals(stack.pool.inUse, 0);
});

Deno.test("closing drops what every queue holds, as closed", () => {
  const { net, a, b } = pair(0, { impair: { out: "delay 1s", in: "delay 1s" } });
  const socket = ping(a, "10.7.0.2");
  const itself = ping(a, "10.7.0.1");
  socket.send(1, 8, 64, 0);
  net.run(MILLISECOND);
  socket.send(2, 8, 64, MILLISECOND);
  itself.send(1, 8, 64, MILLISECOND);
  b.stack.input(1, udpPacket(b.stack.pool, { src: "10.7.0.1", dst: "10.7.0.2", srcPort: 1, dstPort: 1 }), 0);
  for (const { stack } of [a, b]) stack.close(MILLISECOND);
  assertEquals([a.stack.drops.toJSON(), b.stack.drops.toJSON()], [{ closed: 3 }, { closed: 1 }]);
  net.noLeak();
  assertEquals([a.stack.nextAt(), b.stack.nextAt()], [NEVER, NEVER]);
});

Deno.test("a snapshot has everything, in plain values", () => {
  const { net, a } = pair(MILLISECOND, { impair: { out: "delay 5ms loss 1%" }, routes: [] });
  const socket = ping(a, "10.7.0.2");
  socket.send(1, 8, 64, 0);
  bind(a, "0.0.0.0", 53);
  const client = bind(a, "fd07::1", 54);
  client.connect(IpAddr.parse("fd07::2"), 99);
  client.send(pattern(3), IpAddr.parse("fd07::2"), 99, 0);
  net.run();
  const snapshot = a.stack.inspect(net.now);
  assertEquals(JSON.parse(JSON.stringify(snapshot)), snapshot);
  assertEquals(snapshot.time, net.now / MILLISECOND);
  assertEquals(snapshot.addresses, ["10.7.0.1/24", "fd07::1/64"]);
  assertEquals(snapshot.routes, [
    { to: "10.7.0.2/32", via: "b", metric: 1024, type: "unicast", weight: 1 },
    { to: "fd07::2/128", via: "b", metric: 1024, type: "unicast", weight: 1 },
  ]);
  const [link] = snapshot.interfaces;
  assertEquals([link?.name, link?.mtu, link?.endpoint, link?.allowed.join()], [
    "b",
    1472,
    "192.0.2.2:4790",
    "10.7.0.2/32,fd07::2/128",
  ]);
  assertEquals([link?.packetsOut, link?.bytesOut, link?.packetsIn], [2, 36 + 51, 2]);
  assertEquals([link?.impairIn, link?.impairOut?.stats["packets"]], [null, 2]);
  assert(link?.impairOut?.netem.startsWith("delay 5ms loss 1%"), link?.impairOut?.netem);
  assertEquals(snapshot.qdisc.kind, "fq");
  assertEquals(snapshot.udp.map((s) => [s.local, s.remote, s.sent]).sort(), [
    ["0.0.0.0:53", null, 0],
    ["[fd07::1]:54", "[fd07::2]:99", 1],
  ]);
  assertEquals([snapshot.ping[0]?.sent, snapshot.ping[0]?.received], [1, 1]);
  assertEquals(snapshot.pool, { inUse: 0, limit: 16_384 });
});

Deno.test("a stage that says now and gives nothing holds up neither the others nor the loop", () => {
  class Reluctant extends NetemStage {
    calls = 0;
    override pull(now: number): Packet | null {
      return this.calls++ === 0 ? null : super.pull(now);
    }
  }
  const memory = new TestPool();
  const stages = new InterfaceStages();
  const config = parseNetem("delay 1ms");
  stages.set(1, () => new Reluctant(config, new Rng(1), memory.pool, memory));
  stages.set(2, () => new NetemStage(config, new Rng(1), memory.pool, memory));
  assertEquals([stages.has(0), stages.has(1), stages.has(3), stages.get(1)], [false, true, false, null]);
  for (const ifindex of [1, 2]) {
    const p = ipPacket(memory.pool, { src: "10.7.0.1", dst: "10.7.0.2" });
    p.ifindex = ifindex;
    assertEquals(stages.push(p, 0), DropReason.None);
  }
  const second = stages.pull(MILLISECOND)!;
  assertEquals(second.ifindex, 2);
  assertEquals(stages.pull(MILLISECOND), null);
  assertEquals(stages.nextAt(), MILLISECOND + 1);
  const first = stages.pull(MILLISECOND + 1)!;
  assertEquals(first.ifindex, 1);
  for (const p of [first, second]) memory.pool.release(p);
  assertEquals(stages.nextAt(), NEVER);
});

Deno.test("a flood to oneself is bounded, and leaves room for others in each turn", () => {
  const { net, a, b } = pair(10 * MICROSECOND, { udp: { receiveBufferBytes: 1 << 20 } });
  const own = bind(a, "10.7.0.1", 53);
  const client = bind(a, "10.7.0.1");
  for (let i = 0; i < 20_000; i++) client.send(pattern(1), IpAddr.parse("10.7.0.1"), 53, 0);
  assert(a.stack.pool.inUse <= 10_000);
  assert(a.stack.drops.get(DropReason.FlowLimit) > 0);
  const outside = bind(b, "10.7.0.2", 53);
  client.send(pattern(1), IpAddr.parse("10.7.0.2"), 53, 0);
  a.stack.timeout(0);
  assert(a.stack.pool.inUse > 1, "one turn took the whole queue");
  net.run();
  assertEquals(own.receivedDatagrams + a.stack.drops.get(DropReason.FlowLimit), 20_000);
  assertEquals(outside.receivedDatagrams, 1);
  net.noLeak();
});
