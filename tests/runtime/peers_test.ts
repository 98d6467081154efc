/**
 * Peers of open hosts: names, roaming, keepalives and their events, and the MTU that the underlay leaves.
 *
 * @module
 */

import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { MILLISECOND, NEVER, SECOND } from "../../src/base/time.ts";
import type { ResolveName } from "../../src/runtime/lookup.ts";
import { MemoryNetwork, type MemoryPort } from "../../src/runtime/memory_port.ts";
import { type Host, openHostOver, type OverOptions } from "../../src/runtime/open_host.ts";
import { loopTo } from "../../src/runtime/peer_keeper.ts";
import { type HostOptions, parseHostConfig } from "../../src/stack/config.ts";
import type { PeerEvent } from "../../src/stack/peer_events.ts";
import { Stack } from "../../src/stack/stack.ts";
import { Peer } from "../../src/tunnel/peer_table.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import type { UdpPort } from "../../src/runtime/udp_port.ts";
import { UnderlayMtu } from "../../src/runtime/underlay_mtu.ts";
import { assertSameBytes, pairTest, pattern } from "../testing/host_pair.ts";

const KEEPALIVE = { keepalive: "50ms", deadAfter: "800ms" };

/** Hosts on one network in memory; host N is 10.7.0.N. */
class Lan {
  readonly network = new MemoryNetwork();
  readonly ports: MemoryPort[] = [];

  open(n: number, at: string, peers: HostOptions["peers"], more: Partial<HostOptions> = {}, over: OverOptions = {}) {
    return openHostOver(
      { address: `10.7.0.${n}/24`, listen: at, peers: peers!, seed: n, ...more },
      (address, port, context) => {
        const made = this.network.open(address, port, context);
        this.ports.push(made);
        return made;
      },
      over,
    );
  }
}

function resolverOf(zone: Record<string, string[]>): ResolveName {
  return (hostname) => {
    const found = zone[hostname];
    return found === undefined
      ? Promise.reject(new Error("there is no such name"))
      : Promise.resolve(found.map((text) => IpAddr.parse(text)));
  };
}

/** The next event that is of a kind. */
async function next(events: AsyncGenerator<PeerEvent, void>, kind: PeerEvent["kind"]): Promise<PeerEvent> {
  for (;;) {
    const { value } = await events.next();
    if (!value) throw new Error(`no event ${kind}`);
    if (value.kind === kind) return value;
  }
}

async function pings(host: Host, to: string): Promise<boolean> {
  const answers = await Array.fromAsync(host.ping(to, { count: 1, timeout: 500 * MILLISECOND }));
  return answers[0]!.kind === "reply";
}

Deno.test("a peer named by DNS is found at another address when it is dead, and nothing else is lost", async () => {
  const lan = new Lan();
  const zone = { "b.example": ["192.0.2.2"] };
  const toB = [{ name: "b", endpoint: "b.example:7000", allowed: "10.7.0.2" }];
  const toA = [{ name: "a", endpoint: "192.0.2.1:7000", allowed: "10.7.0.1" }];
  const over = { resolve: resolverOf(zone) };
  await using a = await lan.open(1, "192.0.2.1:7000", toB, { ...KEEPALIVE, lookupInterval: "60s" }, over);
  const events = a.peerEvents();
  const b = await lan.open(2, "192.0.2.2:7000", toA, KEEPALIVE);
  const { time, ...alive } = await next(events, "alive");
  assertEquals(alive, { peer: "b", kind: "alive", endpoint: "192.0.2.2:7000", learnedBy: "dns" });
  assert(time >= 0 && time <= a.inspect().time);
  assert(await pings(a, "10.7.0.2"));
  await b.close();
  await using b2 = await lan.open(2, "192.0.2.3:7000", toA, KEEPALIVE);
  zone["b.example"] = ["192.0.2.3"];
  await next(events, "dead");
  assertEquals((await next(events, "moved")).endpoint, "192.0.2.3:7000");
  await next(events, "alive");
  assert(await pings(a, "10.7.0.2"));
  assert(await pings(b2, "10.7.0.1"));
  const { endpoint, hostname, learnedBy, moves, state, lastHeard } = a.inspect().interfaces[0]!;
  assertEquals([endpoint, hostname, learnedBy, moves, state], ["192.0.2.3:7000", "b.example", "dns", 1, "alive"]);
  assert(lastHeard! > 0);
  const [lookup] = a.inspect().lookups;
  assertEquals([lookup!.hostname, lookup!.peers, lookup!.problem], ["b.example", ["b"], ""]);
  assert(lookup!.lookups >= 1 && lookup!.lookups < 5);
});

Deno.test("a name is looked up in the families that are listened on, and is the peer's name if it has none", async () => {
  const lan = new Lan();
  const zone = { "b.example": ["2001:db8::2", "192.0.2.2"] };
  const open = async (listen: string[] | undefined): Promise<string[]> => {
    const peers = [{ endpoint: "b.example:7000", allowed: "10.7.0.2" }];
    const more = listen === undefined ? {} : { listen };
    await using host = await lan.open(1, "192.0.2.1:0", peers, more, { resolve: resolverOf(zone) });
    const { endpoint, name } = host.inspect().interfaces[0]!;
    return [name, endpoint!];
  };
  assertEquals(await open(undefined), ["b.example:7000", "192.0.2.2:7000"]);
  assertEquals(await open(["[2001:db8::1]:0"]), ["b.example:7000", "[2001:db8::2]:7000"]);
  assertEquals(await open([]), ["b.example:7000", "[2001:db8::2]:7000"]);
  zone["b.example"] = ["2001:db8::2"];
  await assertRejects(() => open(undefined), TypeError, "it has no address of IPv4");
});

Deno.test("names that cannot be looked up are faults of the configuration, each with its place and the reason", async () => {
  const peers = ["b.example", "c.example", "d.example"].map((name, i) => ({
    endpoint: `${name}:7000`,
    allowed: `10.7.0.${2 + i}`,
  }));
  const open = () =>
    new Lan().open(1, "192.0.2.1:0", peers, {}, { resolve: resolverOf({ "c.example": ["192.0.2.3"] }) });
  const error = await assertRejects(open, TypeError, "2 faults");
  assertStringIncludes(
    error.message,
    'peers[0].endpoint: found "b.example:7000", expected an address or a name that can',
  );
  assertStringIncludes(error.message, "(there is no such name)");
  assertStringIncludes(error.message, "peers[2].endpoint");
  const refusing = () => Promise.reject(new Deno.errors.NotCapable("looking up b.example needs --allow-net=b.example"));
  const denied = () => new Lan().open(1, "192.0.2.1:0", peers, {}, { resolve: refusing });
  await assertRejects(denied, Deno.errors.NotCapable, "--allow-net=b.example");
  // Behind the tunnel itself, as by the address.
  const loop = [{ endpoint: "b.example:7000", allowed: "192.0.2.0/24" }];
  const looping = () =>
    new Lan().open(1, "203.0.113.1:0", loop, {}, { resolve: resolverOf({ "b.example": ["192.0.2.2"] }) });
  await assertRejects(looping, TypeError, "leads into the tunnel itself");
});

Deno.test("a peer that moves is followed with roaming, and says so", async () => {
  for (const roaming of [true, false]) {
    const lan = new Lan();
    const toB = [{ name: "b", endpoint: "192.0.2.2:7000", allowed: "10.7.0.2", roaming }];
    const toA = [{ name: "a", endpoint: "192.0.2.1:7000", allowed: "10.7.0.1" }];
    await using a = await lan.open(1, "192.0.2.1:7000", toB);
    const b = await lan.open(2, "192.0.2.2:7000", toA);
    assert(await pings(b, "10.7.0.1"));
    const events = a.peerEvents();
    await b.close();
    await using b2 = await lan.open(2, "198.51.100.7:9", toA);
    assertEquals(await pings(b2, "10.7.0.1"), roaming);
    const { endpoint, learnedBy } = a.inspect().interfaces[0]!;
    if (roaming) {
      assertEquals((await next(events, "moved")).learnedBy, "roaming");
      assertEquals([endpoint, learnedBy], ["198.51.100.7:9", "roaming"]);
    } else {
      assertEquals([endpoint, learnedBy], ["192.0.2.2:7000", "config"]);
      assertEquals(a.inspect().drops["unknown-peer"], 1);
    }
  }
});

pairTest("host: a wire that loses everything makes a peer dead, and alive again when it does not", async (openPair) => {
  await using pair = await openPair({ host: KEEPALIVE });
  const { a, b } = pair;
  const events = b.peerEvents();
  const early = b.peerEvents();
  const state = (host: Host) => host.inspect().interfaces[0]!.state;
  while (state(a) !== "alive" || state(b) !== "alive") await new Promise((done) => setTimeout(done, 5));
  assert(await pings(b, "10.7.0.1"));
  a.setImpairment("other", "out", "loss 100%");
  await next(events, "dead");
  assertEquals([state(a), state(b)], ["alive", "dead"]);
  await assertRejects(() => b.connect({ hostname: "10.7.0.1", port: 9 }), Deno.errors.NetworkUnreachable);
  a.setImpairment("other", "out", null);
  await next(events, "alive");
  assert(await pings(b, "10.7.0.1"));
  await b.close();
  // Whoever read nothing yet has everything, in order, and comes to the end.
  const kinds = (await Array.fromAsync(early)).map(({ kind }) => kind);
  assertEquals(kinds.slice(-2), ["dead", "alive"]);
  assertEquals((await events.next()).done, true);
});

Deno.test("the events of peers can be given up, and begin when they are asked for", async () => {
  await using host = await new Lan().open(1, "192.0.2.1:7000", []);
  const controller = new AbortController();
  const waiting = host.peerEvents({ signal: controller.signal }).next();
  controller.abort(new Error("enough"));
  await assertRejects(() => waiting, Error, "enough");
  const fresh = host.peerEvents();
  await fresh.return();
  assertEquals(await fresh.next(), { done: true, value: undefined });
});

Deno.test("the MTU follows the system's ways: at the start, when a peer moves, when a datagram was too large", async () => {
  const lan = new Lan();
  const mtus: Record<string, number> = { "192.0.2.2": 1400, "192.0.2.3": 9000, "198.51.100.7": 1300 };
  let asked = 0;
  const routes = {
    route: (to: IpAddr) => {
      asked++;
      const mtu = mtus[`${to}`];
      return mtu === undefined ? null : { mtu, source: IpAddr.parse("192.0.2.1") };
    },
  };
  const peers = [
    { name: "b", endpoint: "192.0.2.2:7000", allowed: "10.7.0.2", roaming: true },
    { name: "c", endpoint: "192.0.2.3:7000", allowed: "10.7.0.3" },
    { name: "d", endpoint: "192.0.2.4:7000", allowed: "10.7.0.4", mtu: 1200 },
  ];
  await using a = await lan.open(1, "192.0.2.1:7000", peers, {}, { routes });
  const mtu = () => a.inspect().interfaces.map(({ mtu }) => mtu);
  assertEquals(mtu(), [1372, 1472, 1200]);
  await using b = await lan.open(2, "198.51.100.7:9", [{
    name: "a",
    endpoint: "192.0.2.1:7000",
    allowed: "10.7.0.1",
  }]);
  assert(await pings(b, "10.7.0.1"));
  assertEquals(mtu(), [1272, 1472, 1200]);
  mtus["192.0.2.3"] = 1000;
  asked = 0;
  for (let i = 0; i < 100; i++) (lan.ports[0]! as UdpPort).onTooBig!(IpAddr.parse("192.0.2.3"));
  for (let tries = 0; mtu()[1] !== 972; tries++) {
    assert(tries < 200, `${mtu()}`);
    await new Promise((done) => setTimeout(done, 5));
  }
  assertEquals(asked, 2);
});

Deno.test("a peer that moves does not have it forgotten that a datagram to another was too large", () => {
  for (const [near, far, gone] of [["192.0.2.2", "192.0.2.3", "192.0.2.9"], ["fd00::2", "fd00::3", "fd00::9"]]) {
    const [b, c] = [near!, far!].map((text, i) =>
      new Peer({ name: text, ifindex: i + 1, address: IpAddr.parse(text), port: 9, allowed: [] })
    ) as [Peer, Peer];
    const set: [number, number][] = [];
    const stack = {
      options: { peers: [{ mtu: 1472 }, { mtu: 1472 }] },
      tunnel: { peers: [b, c] },
      setUnderlayMtu: (ifindex: number, mtu: number) => {
        set.push([ifindex, mtu]);
        return Math.min(1472, mtu);
      },
    } as unknown as Stack;
    const mtu = new UnderlayMtu(stack, { route: () => null });
    mtu.start(0);
    assertEquals(mtu.nextAt(), NEVER);
    mtu.tooBig(c.address);
    mtu.peerMoved(b, SECOND);
    set.length = 0;
    const at = mtu.nextAt();
    assert(at <= SECOND + 10 * MILLISECOND, `${at}`);
    mtu.timeout(at);
    assertEquals(set, [[2, Infinity]]);
    assertEquals(mtu.nextAt(), NEVER);
    // One to an address where no peer is any more is forgotten, too.
    mtu.tooBig(IpAddr.parse(gone!));
    mtu.timeout(mtu.nextAt());
    assertEquals([set.length, mtu.nextAt()], [1, NEVER]);
  }
});

Deno.test("a way of the system that leads into the own TUN device is told, any other is not", () => {
  const config = parseHostConfig({
    address: "10.7.0.1/24",
    forward: true,
    tun: { name: "culv0", addresses: ["10.9.0.2/24", "fd09::2/64"] },
    seed: 1,
  });
  const stack = new Stack(config);
  const to = IpAddr.parse("192.0.2.7");
  const by = (source: string) => ({ route: () => ({ mtu: 1500, source: IpAddr.parse(source) }) });
  assertEquals(
    loopTo(stack, to, by("10.9.0.2")),
    "the system's way to 192.0.2.7 leads into the tunnel itself: it would send from 10.9.0.2, by culv0",
  );
  assertStringIncludes(loopTo(stack, IpAddr.parse("2001:db8::7"), by("fd09::2")), "by culv0");
  assertEquals([loopTo(stack, to, by("192.0.2.1")), loopTo(stack, to, { route: () => null })], ["", ""]);
  assertEquals(loopTo(stack, to, null), "");
});

pairTest("host: a UDP socket fragments what is too large if it is told to, and else refuses it", async (openPair) => {
  await using pair = await openPair();
  const { a, b } = pair;
  using server = b.listenDatagram({ port: 9 });
  const data = pattern(20_000);
  for (const pathMtuDiscovery of ["want", "dont"] as const) {
    using client = a.listenDatagram({ pathMtuDiscovery });
    for (const family of [4, 6] as const) {
      const hostname = pair.addressB(family);
      await client.send(data, { transport: "udp", hostname, port: 9 });
      const [bytes] = await server.receive();
      assertSameBytes(bytes, data);
    }
  }
  for (const options of [{}, { pathMtuDiscovery: "do" as const }, { pathMtuDiscovery: "probe" as const }]) {
    using client = a.listenDatagram(options);
    const sending = () => client.send(data, { transport: "udp", hostname: "10.7.0.2", port: 9 });
    await assertRejects(sending, RangeError, "larger than the MTU allows");
  }
  assertThrows(
    () => a.listenDatagram({ pathMtuDiscovery: "maybe" as "do" }),
    TypeError,
    'pathMtuDiscovery must be one of dont, want, do, probe, got "maybe"',
  );
});

Deno.test("a name that leads to this host itself is not followed", async () => {
  const lan = new Lan();
  const zone = { "b.example": ["192.0.2.2"] };
  const toB = [{ name: "b", endpoint: "b.example:7000", allowed: "10.7.0.2" }];
  const more = { ...KEEPALIVE, deadAfter: "100ms", lookupInterval: "1s" };
  await using a = await lan.open(1, "192.0.2.1:7000", toB, more, { resolve: resolverOf(zone) });
  const events = a.peerEvents();
  zone["b.example"] = ["192.0.2.1", "0.0.0.0"];
  await next(events, "dead");
  for (let i = 0; i < 100 && a.inspect().lookups[0]!.problem === ""; i++) {
    await new Promise((done) => setTimeout(done, 20));
  }
  assertStringIncludes(a.inspect().lookups[0]!.problem, "192.0.2.1:7000 is not used: this host itself is there");
  assertEquals(a.inspect().interfaces[0]!.endpoint, "192.0.2.2:7000");
  // Another port of this machine is another host's.
  assertEquals(a.inspect().interfaces[0]!.state, "dead");
});

Deno.test("an iteration over events can be ended while it waits, and before it has begun", async () => {
  const lan = new Lan();
  await using host = await lan.open(1, "192.0.2.1:7000", []);
  const waiting = host.peerEvents();
  const pending = waiting.next();
  assertEquals(await waiting.return(), { done: true, value: undefined });
  assertEquals(await pending, { done: true, value: undefined });
  const unused = host.peerEvents();
  assertEquals(await unused.return(), { done: true, value: undefined });
  assertEquals(await unused.next(), { done: true, value: undefined });
});
