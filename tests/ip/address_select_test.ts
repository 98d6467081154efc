import { assert, assertEquals, assertThrows } from "@std/assert";
import { AddressKind, addressKind } from "../../src/ip/address_kind.ts";
import { AddressTable } from "../../src/ip/address_select.ts";
import { RouteTable } from "../../src/ip/route_table.ts";
import { IpAddr, IpInterface, IpPrefix } from "../../src/wire/ip_addr.ts";

function kind(text: string): string {
  const a = IpAddr.parse(text);
  return AddressKind[addressKind(a.version, a.w0, a.w1, a.w2, a.w3)]!;
}

Deno.test("addresses are sorted into kinds at the edges of their ranges", () => {
  const expected: [string, string][] = [
    ["0.0.0.0", "Unspecified"],
    ["0.255.255.255", "Unspecified"],
    ["1.0.0.0", "Unicast"],
    ["126.255.255.255", "Unicast"],
    ["127.0.0.0", "Loopback"],
    ["127.255.255.255", "Loopback"],
    ["128.0.0.0", "Unicast"],
    ["169.253.255.255", "Unicast"],
    ["169.254.0.1", "LinkLocal"],
    ["169.255.0.0", "Unicast"],
    ["223.255.255.255", "Unicast"],
    ["224.0.0.1", "Multicast"],
    ["239.255.255.255", "Multicast"],
    ["240.0.0.0", "Reserved"],
    ["255.255.255.255", "Reserved"],
    ["::", "Unspecified"],
    ["::1", "Loopback"],
    ["::2", "Reserved"],
    ["::1:0:0:0", "Unicast"],
    ["2001:db8::1", "Unicast"],
    ["fd07::1", "Unicast"],
    ["fe7f:ffff::", "Unicast"],
    ["fe80::1", "LinkLocal"],
    ["febf::1", "LinkLocal"],
    ["fec0::1", "Unicast"],
    ["ff00::", "Multicast"],
    ["ff02::1", "Multicast"],
  ];
  assertEquals(expected.map(([text]) => [text, kind(text)]), expected);
  const mapped = IpAddr.parse("10.7.0.1");
  assertEquals(addressKind(6, mapped.w0, mapped.w1, mapped.w2, mapped.w3), AddressKind.Reserved);
});

function tableOf(...texts: string[]): AddressTable {
  const table = new AddressTable(7);
  for (const text of texts) table.add(IpInterface.parse(text));
  return table;
}

function source(table: AddressTable, routes: RouteTable, to: string): string {
  const a = IpAddr.parse(to);
  return `${table.sourceFor(a.w0, a.w1, a.w2, a.w3, routes)}`;
}

Deno.test("a loopback address is the source of nothing but what goes to itself", () => {
  const routes = new RouteTable();
  const table = tableOf("127.0.0.1/8", "::1/128", "10.7.0.1/24", "fd07::1/64");
  assertEquals(["127.0.0.1", "127.0.0.2", "169.254.1.1", "10.9.0.1"].map((to) => source(table, routes, to)), [
    "127.0.0.1",
    "10.7.0.1",
    "10.7.0.1",
    "10.7.0.1",
  ]);
  assertEquals(["::1", "fe80::2", "2001:db8::1"].map((to) => source(table, routes, to)), ["::1", "fd07::1", "fd07::1"]);
  const alone = tableOf("127.0.0.1/8", "::1/128");
  assertEquals(["10.9.0.1", "169.254.1.1", "fe80::2"].map((to) => source(alone, routes, to)), ["null", "null", "null"]);
});

Deno.test("own addresses are found in both families, others are not", () => {
  const table = tableOf("10.7.0.1/24", "fd07::1/64");
  const local = (text: string): boolean => {
    const a = IpAddr.parse(text);
    return table.isLocal(a.w0, a.w1, a.w2, a.w3);
  };
  assert(local("10.7.0.1"));
  assert(local("fd07::1"));
  assert(!local("10.7.0.2"));
  assert(!local("fd07::2"));
  assert(!local("::a07:1"));
});

Deno.test("the directed broadcast of an own network is known, /31 and /32 have none", () => {
  const table = tableOf("10.7.0.1/24", "10.8.0.0/31", "10.9.0.255/32");
  const broadcast = (text: string): boolean => {
    const a = IpAddr.parse(text);
    return table.isBroadcast(a.w0, a.w1, a.w2, a.w3);
  };
  assert(broadcast("10.7.0.255"));
  assert(!broadcast("10.7.1.255"));
  assert(!broadcast("10.8.0.1"));
  assert(!broadcast("10.9.0.255"));
});

Deno.test("addresses that no host can have, and doubles, are refused", () => {
  const table = tableOf("10.7.0.1/24");
  assertThrows(() => table.add(IpInterface.parse("10.7.0.1/16")), RangeError, "there already");
  assertThrows(() => table.add(IpInterface.parse("224.0.0.1")), RangeError, "multicast");
  assertThrows(() => table.add(IpInterface.parse("0.0.0.0")), RangeError, "unspecified");
  assertThrows(() => table.add(IpInterface.parse("ff02::1")), RangeError, "multicast");
});

Deno.test("the source is the address on the destination's network, whatever the order", () => {
  const table = tableOf("10.6.0.1/24", "10.7.0.1/24", "10.7.0.9/30", "fd06::1/64", "fd07::1/64");
  const routes = new RouteTable();
  assertEquals(source(table, routes, "10.7.0.200"), "10.7.0.1");
  assertEquals(source(table, routes, "10.7.0.10"), "10.7.0.9");
  assertEquals(source(table, routes, "10.7.0.9"), "10.7.0.9");
  assertEquals(source(table, routes, "fd07::99"), "fd07::1");
  assertEquals(source(table, routes, "192.0.2.1"), "10.6.0.1");
});

Deno.test("then the address inside the route's prefix, then the first of the family", () => {
  const table = tableOf("10.6.0.1/32", "10.7.0.1/32", "fd06::1/128");
  const routes = new RouteTable();
  routes.add(IpPrefix.parse("10.7.0.0/16"), 1);
  routes.add(IpPrefix.parse("0.0.0.0/0"), 1);
  assertEquals(source(table, routes, "10.7.5.5"), "10.7.0.1");
  assertEquals(source(table, routes, "10.9.0.1"), "10.6.0.1");
  assertEquals(source(table, routes, "2001:db8::1"), "fd06::1");
  assertEquals(source(tableOf("10.7.0.1/24"), routes, "fd07::1"), "null");
});

Deno.test("IPv6: the scope of the destination goes before all but equality, then the longest common prefix", () => {
  const table = tableOf("fe80::1/64", "fd07::1/64", "2001:db8::1/64");
  const routes = new RouteTable();
  assertEquals(source(table, routes, "fe80::2"), "fe80::1");
  assertEquals(source(table, routes, "2001:db8:1::2"), "2001:db8::1");
  assertEquals(source(table, routes, "fd99::2"), "fd07::1");
});

Deno.test("IPv6: the examples of RFC 6724 section 10.1, as far as there is one kind of address", () => {
  const routes = new RouteTable();
  const cases: [string, string[], string][] = [
    ["2001:db8:1::1", ["2001:db8:3::1/64", "fe80::1/64"], "2001:db8:3::1"],
    ["2001:db8:1::1", ["fe80::1/64", "2001:db8:3::1/64"], "2001:db8:3::1"],
    ["2001:db8:1::1", ["2001:db8:1::1/64", "2001:db8:3::1/64"], "2001:db8:1::1"],
    ["fe80::1", ["fe80::2/64", "2001:db8:1::1/64"], "fe80::2"],
    ["2001:db8:1::1", ["2001:db8:1::2/64", "2001:db8:3::2/64"], "2001:db8:1::2"],
    [
      "2002:c633:6401::1",
      ["2002:c633:6401::d5e3:7953:13eb:22e8/64", "2001:db8:1::2/64"],
      "2002:c633:6401:0:d5e3:7953:13eb:22e8",
    ],
    // Labels: unique local to unique local, global to global, whatever more bits say.
    ["fd01::1", ["2001:db8::1/64", "fd99::1/64"], "fd99::1"],
    ["3000::1", ["fd00::1/64", "2001:db8::1/64"], "2001:db8::1"],
    // The common prefix counts only as far as the prefix of the address reaches.
    ["2001:db8::ffff:2", ["2001:db8:0:1::1/64", "2001:db8::ffff:1/40"], "2001:db8::ffff:1"],
  ];
  for (const [to, own, expected] of cases) {
    assertEquals(source(tableOf(...own), routes, to), expected, `${own} to ${to}`);
    assertEquals(source(tableOf(...own.toReversed()), routes, to), expected, `${own} to ${to}, the other way round`);
  }
});
