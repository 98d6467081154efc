/**
 * Peers of a stack over time: keepalives through impairments, peers that move, and the MTU that the underlay leaves.
 *
 * @module
 */

import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { MILLISECOND, SECOND } from "../../src/base/time.ts";
import { PingOutcome } from "../../src/icmp/ping_socket.ts";
import { parseNetem } from "../../src/impair/parse.ts";
import { type HostOptions, parseHostConfig } from "../../src/stack/config.ts";
import type { PeerEvent } from "../../src/stack/peer_events.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { StackNet, type StackNode } from "../testing/stack_net.ts";

const LOST = parseNetem("loss 100%");
const KEEPALIVE = { keepalive: "1s", deadAfter: "3s" };

/** Hosts 1 and 2, peers of each other. */
function pair(one: Partial<HostOptions> = {}, two: Partial<HostOptions> = {}, peer: object = {}) {
  const net = new StackNet(MILLISECOND);
  const host = (n: number, options: Partial<HostOptions>): StackNode =>
    net.add({
      address: [`10.7.0.${n}/24`, `fd07::${n}/64`],
      listen: `192.0.2.${n}:4790`,
      peers: [{
        name: `p${3 - n}`,
        endpoint: `192.0.2.${3 - n}:4790`,
        allowed: [`10.7.0.${3 - n}`, `fd07::${3 - n}`],
        ...peer,
      }],
      seed: n,
      ...options,
    });
  return { net, a: host(1, one), b: host(2, two) };
}

function told(node: StackNode): string[] {
  return node.stack.peerEvents.take().map((e: PeerEvent) => `${e.kind} ${e.peer} ${e.endpoint} ${e.learnedBy}`);
}

/** How a ping from `node` ends. */
function ping(net: StackNet, node: StackNode, to: string): string {
  const socket = node.stack.icmp.openPing(IpAddr.parse(to));
  if (typeof socket === "number") return "no route";
  socket.send(1, 100, 64, net.now);
  net.run(net.now + 10 * MILLISECOND);
  const answer = socket.receive();
  socket.close();
  return answer === null ? "nothing" : PingOutcome[answer.outcome]!;
}

for (const direction of ["out", "in"] as const) {
  Deno.test(`a wire that loses all that goes ${direction} kills the peer who does not hear, and it lives when it is mended`, () => {
    const { net, a, b } = pair(KEEPALIVE, KEEPALIVE);
    net.run(2 * SECOND);
    assertEquals([told(a), told(b)], [["alive p2 192.0.2.2:4790 config"], ["alive p1 192.0.2.1:4790 config"]]);
    a.stack.setImpairment(1, direction, LOST, net.now);
    net.run(net.now + 10 * SECOND);
    const [deaf, hearing] = direction === "out" ? [b, a] : [a, b];
    const state = (node: StackNode): string | null => node.stack.inspect(net.now).interfaces[0]!.state;
    assertEquals([state(deaf), state(hearing)], ["dead", "alive"]);
    assertStringIncludes(told(deaf).join(), "dead");
    const { lastHeard } = deaf.stack.inspect(net.now).interfaces[0]!;
    assert(lastHeard! <= 2100 && lastHeard! > 900, `${lastHeard}`);
    a.stack.setImpairment(1, direction, null, net.now);
    net.run(net.now + 2 * SECOND);
    assertEquals([state(deaf), state(hearing)], ["alive", "alive"]);
    assertEquals(ping(net, a, "10.7.0.2"), "Reply");
    net.noLeak();
  });
}

Deno.test("a keepalive takes the time that the impairment takes, and corruption does no harm", () => {
  const { net, a, b } = pair({ ...KEEPALIVE, impair: "delay 200ms" }, { ...KEEPALIVE, impair: "corrupt 100%" });
  net.run(190 * MILLISECOND);
  assertEquals(told(b), []);
  net.run(210 * MILLISECOND);
  assertEquals(told(b), ["alive p1 192.0.2.1:4790 config"]);
  net.run(20 * SECOND);
  assertEquals(b.stack.inspect(net.now).interfaces[0]!.state, "alive");
  assert(a.stack.drops.total() > 10);
  net.noLeak();
});

Deno.test("a peer without keepalives has no state, is sent none and never dies", () => {
  const { net, a, b } = pair(KEEPALIVE, KEEPALIVE, { keepalive: false });
  net.run(20 * SECOND);
  for (const node of [a, b]) {
    const { state, lastHeard, packetsOut } = node.stack.inspect(net.now).interfaces[0]!;
    assertEquals([state, lastHeard, packetsOut, told(node)], [null, null, 0, []]);
  }
  assertEquals(ping(net, a, "fd07::2"), "Reply");
});

for (const encapsulation of ["raw", "vxlan-gpe", "gue", "gre"] as const) {
  Deno.test(`${encapsulation}: a peer that moves is lost without roaming, and found again with it, even if both are dead to each other`, () => {
    for (const roaming of [false, true]) {
      const { net, a, b } = pair({ ...KEEPALIVE, encapsulation }, { ...KEEPALIVE, encapsulation }, { roaming });
      net.run(2 * SECOND);
      assertEquals(ping(net, a, "10.7.0.2"), "Reply");
      // Away for so long that each counts the other as dead, and back at another place.
      net.move(b, IpAddr.parse("198.51.100.9"), 4790);
      b.stack.setImpairment(1, "out", LOST, net.now);
      net.run(net.now + 10 * SECOND);
      assertEquals([a, b].map((node) => node.stack.inspect(net.now).interfaces[0]!.state), ["dead", "dead"]);
      told(a);
      b.stack.setImpairment(1, "out", null, net.now);
      net.run(net.now + 3 * SECOND);
      assertEquals(ping(net, a, "10.7.0.2"), roaming ? "Reply" : "nothing");
      const { endpoint, learnedBy, moves, state } = a.stack.inspect(net.now).interfaces[0]!;
      if (roaming) {
        assertEquals([endpoint, learnedBy, moves, state], ["198.51.100.9:4790", "roaming", 1, "alive"]);
        assertEquals(told(a), ["moved p2 198.51.100.9:4790 roaming", "alive p2 198.51.100.9:4790 roaming"]);
      } else {
        assertEquals([endpoint, learnedBy, moves, state], ["192.0.2.2:4790", "config", 0, "dead"]);
        assert(a.stack.drops.toJSON()["unknown-peer"]! >= 2);
      }
      net.run(net.now + SECOND);
      net.noLeak();
    }
  });
}

Deno.test("a peer that is moved keeps what is queued for it, and is sent a keepalive at once", () => {
  const { net, a, b } = pair({ keepalive: "60s", impair: "delay 50ms" }, { keepalive: "60s" });
  net.run(SECOND);
  told(a);
  const socket = a.stack.icmp.openPing(IpAddr.parse("10.7.0.2"));
  if (typeof socket === "number") throw new Error("no ping");
  for (let seq = 0; seq < 5; seq++) socket.send(seq, 100, 64, net.now);
  net.run(net.now + 10 * MILLISECOND);
  assert(a.stack.pool.inUse >= 5);
  const address = IpAddr.parse("198.51.100.9");
  net.move(b, address, 999);
  const peer = b.stack.movePeer(1, IpAddr.parse("192.0.2.1"), 4790, "dns", net.now);
  assertEquals(peer, "");
  let datagrams = 0;
  net.onDatagram = (_bytes, from) => datagrams += from === a ? 1 : 0;
  assertEquals(a.stack.movePeer(1, address, 999, "dns", net.now), "");
  net.run(net.now + 200 * MILLISECOND);
  assertEquals([datagrams, b.stack.inspect(net.now).interfaces[0]!.packetsIn], [6, 5]);
  for (let seq = 0; seq < 5; seq++) assertEquals(socket.receive()?.outcome, PingOutcome.Reply);
  assertEquals(told(a), ["moved p2 198.51.100.9:999 dns"]);
  net.run(net.now + SECOND);
  net.noLeak();
});

Deno.test("a peer is refused a place behind the tunnel, its own and another's", () => {
  const { net, a } = pair(
    { routes: [{ to: "198.51.0.0/16", via: "p2" }, { to: "0.0.0.0/0", via: "p2" }], ...KEEPALIVE },
  );
  const move = (address: string): string => a.stack.movePeer(1, IpAddr.parse(address), 4790, "dns", net.now);
  assertStringIncludes(move("198.51.100.1"), "198.51.100.1 is behind the tunnel itself: 198.51.0.0/16");
  assertStringIncludes(move("10.7.0.2"), "behind the tunnel itself: 10.7.0.2/32");
  assertStringIncludes(move("fd07::1"), "this host's own");
  // Dead, its routes are passed over; that does not make its place another one.
  net.run(10 * SECOND);
  assertEquals(a.stack.inspect(net.now).interfaces[0]!.state, "dead");
  assertStringIncludes(move("10.7.0.2"), "behind the tunnel itself: 10.7.0.2/32");
  assertEquals(a.stack.inspect(net.now).interfaces[0]!.endpoint, "192.0.2.2:4790");
  assertEquals(move("203.0.113.5"), "");
  assertThrows(() => a.stack.movePeer(2, IpAddr.parse("203.0.113.5"), 1, "dns", net.now), RangeError, "no peer");
});

Deno.test("roaming and keepalives are refused where there is no tunnel", () => {
  const base = { address: "10.7.0.1/24", encapsulation: "none" as const };
  const peer = { name: "b", allowed: "10.7.0.2", roaming: true };
  assertThrows(
    () => parseHostConfig({ ...base, peers: [peer] }),
    TypeError,
    "peers[0].roaming: found true, expected nothing",
  );
  const bad = { ...base, encapsulation: "raw", peers: [{ ...peer, endpoint: "192.0.2.2:1", roaming: "yes" }] };
  assertThrows(() => parseHostConfig(bad), TypeError, 'peers[0].roaming: found "yes", expected true or false');
  assertThrows(() => parseHostConfig({ ...base, lookupInterval: "1ms" }), TypeError, "lookupInterval");
});

for (const v4 of [true, false]) {
  Deno.test(`IPv${v4 ? 4 : 6}: a connection goes on when the underlay becomes narrower, and when it is wide again`, () => {
    const { net, a, b } = pair({}, { tcp: { receiveBufferBytes: 1 << 20 } });
    const headers = 28;
    b.stack.tcp.listen(v4 ? IpAddr.ANY_V4 : IpAddr.ANY_V6, 80, 4);
    const conn = a.stack.tcp.connect(IpAddr.parse(v4 ? "10.7.0.2" : "fd07::2"), 80, {}, net.now);
    if (typeof conn === "number") throw new Error("no connection");
    net.run(net.now + SECOND);
    let sent = 0;
    let tooBig = 0;
    let largest = 0;
    net.onDatagram = (bytes, from) => {
      if (from !== a) return;
      largest = Math.max(largest, bytes.length);
      if (bytes.length > a.stack.ip.mtuOf(1)) tooBig++;
    };
    const bulk = new Uint8Array(300_000);
    const write = (): number => sent += conn.write(bulk, sent, bulk.length);
    write();
    net.run(net.now + 2 * MILLISECOND);
    assertEquals(a.stack.setUnderlayMtu(1, 1340, net.now), 1340 - headers);
    // Those are queued already.
    tooBig = 0;
    for (let i = 0; i < 200 && sent < bulk.length; i++) {
      write();
      net.run(net.now + 10 * MILLISECOND);
    }
    assertEquals([sent, conn.unackedBytes > 0], [bulk.length, false]);
    assertEquals(a.stack.inspect(net.now).interfaces[0]!.mtu, 1340 - headers);
    assert(tooBig < 40, `${tooBig} packets of up to ${largest}`);
    assertEquals(a.stack.drops.toJSON()["too-big"] ?? 0, 0);
    assertEquals(a.stack.setUnderlayMtu(1, 65_535, net.now), 1472);
    assertThrows(() => a.stack.setUnderlayMtu(9, 1500, net.now), RangeError, "no peer");
  });
}

Deno.test("a keepalive does not wait for the end of what is queued for others", () => {
  const net = new StackNet(MILLISECOND);
  const node = net.add({
    keepalive: "1s",
    address: "10.7.0.1/24",
    listen: "192.0.2.1:4790",
    peers: [2, 3].map((n) => ({ name: `p${n}`, endpoint: `192.0.2.${n}:4790`, allowed: `10.7.0.${n}` })),
    qdisc: { kind: "fq", flowLimit: 5000 },
    seed: 1,
  });
  const { stack } = node;
  const socket = stack.icmp.openPing(IpAddr.parse("10.7.0.2"));
  if (typeof socket === "number") throw new Error("no ping");
  let seq = 0;
  const sent = [0, 0, 0];
  // The port takes ten packets a millisecond, and eleven are made: the queue never runs empty.
  for (let now = 0; now < 5 * SECOND; now += MILLISECOND) {
    for (let i = 0; i < 11 && stack.qdisc.backlogPackets < 1000; i++) socket.send(seq++ & 0xffff, 100, 64, now);
    stack.timeout(now);
    for (let i = 0; i < 10; i++) {
      const p = stack.pull(now)!;
      sent[p.ifindex]!++;
      stack.pool.release(p);
    }
    assert(stack.qdisc.backlogPackets > 0);
  }
  assertEquals(sent[2], 5, "one a second");
  assert(sent[1]! > 40_000);
});

Deno.test("a peer is refused an address that no host has", () => {
  const { net, a } = pair();
  const move = (address: string): string => a.stack.movePeer(1, IpAddr.parse(address), 4790, "dns", net.now);
  for (
    const [address, kind] of [
      ["0.0.0.0", "unspecified"],
      ["::", "unspecified"],
      ["224.0.0.251", "multicast"],
      ["ff02::fb", "multicast"],
      ["255.255.255.255", "reserved"],
    ] as const
  ) assertStringIncludes(move(address), `${address} is no address of a host: it is ${kind}`);
  assertEquals(a.stack.inspect(net.now).interfaces[0]!.endpoint, "192.0.2.2:4790");
  assertStringIncludes(move("fe80::1"), "fe80::1 is link-local, and needs a zone");
  assertEquals([move("127.0.0.1"), move("169.254.1.1"), move("2001:db8::7")], ["", "", ""]);
});
