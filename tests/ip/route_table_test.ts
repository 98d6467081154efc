import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { Rng } from "../../src/base/rng.ts";
import { type Route, RouteKind, RouteTable } from "../../src/ip/route_table.ts";
import { IpAddr, IpPrefix } from "../../src/wire/ip_addr.ts";

function find(table: RouteTable, text: string): string {
  const a = IpAddr.parse(text);
  const route = table.lookup(a.w0, a.w1, a.w2, a.w3);
  return route === null ? "none" : `${route.prefix} ${route.ifindex}`;
}

function add(table: RouteTable, text: string, ifindex: number, metric?: number): Route {
  return table.add(IpPrefix.parse(text), ifindex, metric);
}

Deno.test("the longest prefix wins, in each family by itself", () => {
  const table = new RouteTable();
  add(table, "0.0.0.0/0", 1);
  add(table, "10.0.0.0/8", 2);
  add(table, "10.7.0.0/16", 3);
  add(table, "10.7.0.2/32", 4);
  assertEquals(find(table, "10.7.0.2"), "10.7.0.2/32 4");
  assertEquals(find(table, "10.7.0.3"), "10.7.0.0/16 3");
  assertEquals(find(table, "10.8.0.0"), "10.0.0.0/8 2");
  assertEquals(find(table, "192.0.2.1"), "0.0.0.0/0 1");
  assertEquals(find(table, "fd07::1"), "none");
  add(table, "::/0", 5);
  add(table, "fd07::/64", 6);
  assertEquals(find(table, "fd07::ffff:1"), "fd07::/64 6");
  assertEquals(find(table, "fd07:0:0:1::1"), "::/0 5");
  assertEquals(find(table, "10.7.0.2"), "10.7.0.2/32 4");
});

Deno.test("an IPv6 default route never catches an IPv4 packet", () => {
  const table = new RouteTable();
  add(table, "::/0", 1);
  assertEquals(find(table, "10.7.0.1"), "none");
});

Deno.test("among equal prefixes the lowest metric wins, then the first added is named", () => {
  const table = new RouteTable();
  add(table, "10.0.0.0/8", 1, 10);
  add(table, "10.0.0.0/8", 2, 5);
  add(table, "10.0.0.0/8", 3, 5);
  assertEquals(find(table, "10.1.1.1"), "10.0.0.0/8 2");
  assertEquals(table.remove(IpPrefix.parse("10.0.0.0/8"), 2), 1);
  assertEquals(find(table, "10.1.1.1"), "10.0.0.0/8 3");
  assertEquals(table.remove(IpPrefix.parse("10.0.0.0/8")), 2);
  assertEquals(find(table, "10.1.1.1"), "none");
  assertEquals(table.size, 0);
});

Deno.test("the same route twice, or one too many, is refused", () => {
  const table = new RouteTable(2);
  add(table, "10.0.0.0/8", 1);
  assertThrows(() => add(table, "10.0.0.0/8", 1), RangeError, "exists already");
  add(table, "10.0.0.0/8", 2);
  assertThrows(() => add(table, "11.0.0.0/8", 1), RangeError, "at most 2 routes");
});

Deno.test("iteration gives every route once, a prefix before those inside it", () => {
  const table = new RouteTable();
  for (const text of ["10.7.0.0/16", "fd00::/8", "10.0.0.0/8", "10.7.0.128/25", "10.7.0.0/25", "0.0.0.0/0"]) {
    add(table, text, 1);
  }
  assertEquals([...table].map((r) => `${r.prefix}`), [
    "0.0.0.0/0",
    "10.0.0.0/8",
    "10.7.0.0/16",
    "10.7.0.0/25",
    "10.7.0.128/25",
    "fd00::/8",
  ]);
});

// Few distinct bits, so that prefixes nest, collide and fork; all lengths.
const v4 = fc.tuple(
  fc.constantFrom(0, 0x0a000000, 0x0a070000, 0x0a070001, 0x0a078000, 0x80000000, 0xffffffff, 0x0a07ffff),
  fc.integer({ min: 0, max: 32 }),
).map(([word, length]) => new IpPrefix(IpAddr.v4(word), length));
const word = fc.constantFrom(0, 1, 0x80000000, 0xfd070000, 0xfd070001, 0xffffffff, 0xffff);
const v6 = fc.tuple(word, word, word, word, fc.integer({ min: 0, max: 128 })).map(([a, b, c, d, length]) =>
  new IpPrefix(new IpAddr(0x20000000 | a, b, c, d), length)
);
const prefix = fc.oneof(v4, v6);
const operation = fc.record({
  add: fc.boolean(),
  prefix,
  ifindex: fc.integer({ min: 1, max: 3 }),
  metric: fc.integer({ min: 0, max: 2 }),
});

function scan(routes: readonly Route[], a: IpAddr): Route | null {
  let best: Route | null = null;
  for (const r of routes) {
    if (r.prefix.address.isV4 !== a.isV4 || !r.prefix.contains(a)) continue;
    if (
      best === null || r.prefix.length > best.prefix.length ||
      (r.prefix.length === best.prefix.length && r.metric < best.metric)
    ) best = r;
  }
  return best;
}

Deno.test("after any adds and removes, a look-up finds what a linear scan finds", () => {
  fc.assert(fc.property(fc.array(operation, { minLength: 5, maxLength: 60, size: "max" }), (operations) => {
    const table = new RouteTable();
    let routes: Route[] = [];
    for (const o of operations) {
      const same = (r: Route): boolean =>
        r.prefix.length === o.prefix.length && r.prefix.address.equals(o.prefix.address) && r.ifindex === o.ifindex;
      if (o.add) {
        if (routes.some((r) => same(r) && r.metric === o.metric)) continue;
        routes.push(table.add(o.prefix, o.ifindex, o.metric));
      } else {
        const kept = routes.filter((r) => !same(r));
        assertEquals(table.remove(o.prefix, o.ifindex), routes.length - kept.length);
        routes = kept;
      }
      assertEquals(table.size, routes.length);
      for (const q of operations) {
        const a = q.prefix.address;
        for (const delta of [0, 1, -1, 0x8000]) {
          const probe = new IpAddr(a.w0, a.w1, a.w2, a.w3 + delta);
          const found = table.lookup(probe.w0, probe.w1, probe.w2, probe.w3);
          const expected = scan(routes, probe);
          if (found !== expected) throw new Error(`${probe}: ${found?.prefix} instead of ${expected?.prefix}`);
        }
      }
    }
    assertEquals(new Set(table), new Set(routes));
  }));
});

Deno.test("100,000 routes of each family: every look-up finds what a linear scan finds, with and without tables", () => {
  const rng = new Rng(7);
  const table = new RouteTable();
  // A scan of the routes by length, each length a map: the same answer as one of the list, in less time.
  const scans = new Map<string, Route>();
  const dense = (isV4: boolean): IpPrefix => {
    // Half of them under one prefix of 12 or 36 bits, so that some parts are dense and others are not.
    const crowded = rng.below(2) === 0;
    const r = rng.u32();
    if (isV4) {
      const word = crowded ? 0x0a500000 | (r >>> 12) : r;
      return new IpPrefix(IpAddr.v4(word), 8 + rng.below(25));
    }
    const w1 = crowded ? (rng.below(16) << 28) | (r >>> 16) : rng.u32();
    const w0 = crowded ? 0x20010db8 : 0x20000000 | (rng.u32() >>> 3);
    return new IpPrefix(new IpAddr(w0, w1, rng.u32(), rng.u32()), 16 + rng.below(113));
  };
  for (const isV4 of [true, false]) {
    const before = table.size;
    while (table.size - before < 100_000) {
      const prefix = dense(isV4);
      const key = `${prefix}`;
      if (!scans.has(key)) scans.set(key, table.add(prefix, 1 + rng.below(64)));
    }
  }
  const linear = [...scans.values()];
  const byLength = (a: IpAddr): Route | null => {
    for (let length = a.isV4 ? 32 : 128; length >= 0; length--) {
      const found = scans.get(`${new IpPrefix(a, length)}`);
      if (found !== undefined) return found;
    }
    return null;
  };
  let hits = 0;
  const check = (probes: number, isWhole: boolean): void => {
    for (let i = 0; i < probes; i++) {
      const near = linear[rng.below(linear.length)]!.prefix.address;
      const a = new IpAddr(near.w0, near.w1, near.w2, near.w3 ^ (rng.u32() >>> rng.below(32)));
      const found = table.lookup(a.w0, a.w1, a.w2, a.w3);
      assertEquals(found, isWhole ? scan(linear, a) : byLength(a), `${a}`);
      if (found !== null) hits++;
    }
  };
  check(100, true);
  // So many look-ups make the tables.
  for (let i = 0; i < 30_000; i++) {
    table.lookup(0, 0, 0xffff, i << 12);
    table.lookup(0x20010db8, i << 12, 0, 1);
  }
  check(100, true);
  check(3000, false);
  // A change throws them away.
  for (const route of linear.splice(0, 1000)) {
    assertEquals(table.remove(route.prefix), 1);
    scans.delete(`${route.prefix}`);
  }
  check(1000, false);
  assert(hits > 3000, `${hits}`);
});

Deno.test("routes of one prefix and metric share the flows by weight, and a flow moves only if it must", () => {
  const table = new RouteTable();
  const to = IpPrefix.parse("10.0.0.0/8");
  table.add(to, 1, { metric: 5, weight: 1 });
  table.add(to, 2, { metric: 5, weight: 2 });
  table.add(to, 3, { metric: 5, weight: 1 });
  table.add(to, 4, { metric: 6 });
  const spread = (): number[] => {
    const best = table.lookup(0, 0, 0xffff, 0x0a000001)!;
    return Array.from({ length: 40_000 }, (_, i) => table.select(best, Math.imul(i, 0x9e3779b1)).ifindex);
  };
  const count = (chosen: number[]): number[] => [1, 2, 3, 4].map((i) => chosen.filter((n) => n === i).length);
  const before = spread();
  for (const [i, n] of count(before).entries()) {
    const expected = [10_000, 20_000, 10_000, 0][i]!;
    assert(Math.abs(n - expected) <= expected / 50, `${n} for ${expected}`);
  }
  table.setDown(3, true);
  const after = spread();
  assertEquals(count(after)[2], 0);
  assert(before.every((n, i) => n !== 1 || after[i] === 1), "a flow of the first left it");
  table.setDown(1, true);
  table.setDown(2, true);
  assertEquals([...new Set(spread())], [4]);
  table.setDown(4, true);
  assertEquals(table.lookup(0, 0, 0xffff, 0x0a000001), null);
  assertEquals([...table].length, 4);
  for (const i of [1, 2, 3, 4]) table.setDown(i, false);
  assertEquals(spread(), before);
});

Deno.test("when all ways of a prefix are down, the shorter prefix counts, and what is added meanwhile is found later", () => {
  const table = new RouteTable();
  add(table, "fd00::/8", 1);
  add(table, "fd07::/64", 2);
  table.setDown(2, true);
  assertEquals(find(table, "fd07::1"), "fd00::/8 1");
  add(table, "fd08::/64", 2);
  assertEquals(find(table, "fd08::1"), "fd00::/8 1");
  assertThrows(() => add(table, "fd08::/64", 2), RangeError, "exists already");
  assertEquals(table.remove(IpPrefix.parse("fd07::/64")), 1);
  table.setDown(2, false);
  assertEquals(find(table, "fd08::1"), "fd08::/64 2");
  assertEquals(find(table, "fd07::1"), "fd00::/8 1");
});

Deno.test("a route that is no unicast route has no interface, shares with none, and takes its place by metric", () => {
  const table = new RouteTable();
  const to = IpPrefix.parse("10.7.0.0/16");
  const hole = table.add(to, 9, { kind: RouteKind.Blackhole, metric: 10 });
  assertEquals([hole.ifindex, hole.kind], [0, RouteKind.Blackhole]);
  add(table, "10.7.0.0/16", 1, 10);
  assertEquals(table.lookup(0, 0, 0xffff, 0x0a070001), hole);
  assertEquals(hole.group, null);
  add(table, "10.7.0.0/16", 2, 9);
  assertEquals(find(table, "10.7.0.1"), "10.7.0.0/16 2");
  table.setDown(2, true);
  assertEquals(table.lookup(0, 0, 0xffff, 0x0a070001), hole);
  assertThrows(() => table.add(to, 3, { weight: 0 }), RangeError, "from 1 to 256");
});
