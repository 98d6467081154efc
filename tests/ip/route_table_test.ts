import { assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { type Route, RouteTable } from "../../src/ip/route_table.ts";
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

Deno.test("among equal prefixes the lowest metric wins, then the first added", () => {
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
