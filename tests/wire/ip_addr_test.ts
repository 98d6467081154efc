/**
 * Addresses and prefixes: text both ways, what is refused and in which words, membership against a bitwise model.
 *
 * @module
 */

import { isIPv4, isIPv6 } from "node:net";
import { assert, assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import * as fc from "fast-check";
import { IpAddr, IpInterface, IpPrefix, isV4Words } from "../../src/wire/ip_addr.ts";
import { i32, ipv4Addr, ipv6Addr } from "../testing/arbitraries.ts";

const anyAddr = fc.oneof(ipv4Addr, ipv6Addr);

/** The 128 bits of an address. */
function bits(a: IpAddr): string {
  return [a.w0, a.w1, a.w2, a.w3].map((w) => (w >>> 0).toString(2).padStart(32, "0")).join("");
}

Deno.test("ip_addr: known texts and their words", () => {
  const words = (text: string) => {
    const a = IpAddr.parse(text);
    return [a.w0, a.w1, a.w2, a.w3].map((w) => w >>> 0);
  };
  assertEquals(words("10.7.0.1"), [0, 0, 0xffff, 0x0a070001]);
  assertEquals(words("255.255.255.255"), [0, 0, 0xffff, 0xffffffff]);
  assertEquals(words("0.0.0.0"), [0, 0, 0xffff, 0]);
  assertEquals(words("fd07::1"), [0xfd070000, 0, 0, 1]);
  assertEquals(words("::"), [0, 0, 0, 0]);
  assertEquals(words("2001:db8:1:2:3:4:5:6"), [0x20010db8, 0x00010002, 0x00030004, 0x00050006]);
  assertEquals(words("FFFF:ffff:FFFF:ffff:FFFF:ffff:FFFF:ffff"), Array(4).fill(0xffffffff));
  assertEquals(words("64:ff9b::192.0.2.33"), [0x0064ff9b, 0, 0, 0xc0000221]);
  assertEquals(words("::10.7.0.1"), [0, 0, 0, 0x0a070001]);
  // An IPv4-mapped address is the IPv4 address.
  assertEquals(words("::ffff:10.7.0.1"), words("10.7.0.1"));
  assertEquals(words("::ffff:a07:1"), words("10.7.0.1"));
});

Deno.test("ip_addr: all ways to write an IPv6 address mean the same", () => {
  // Groups with leading zeros and in capitals, "::" for any run of zeros, the last 32 bits dotted.
  const spelling = fc.record({ zeros: fc.nat(3), capitals: fc.boolean(), dotted: fc.boolean(), run: fc.nat(8) });
  const groups = fc.array(fc.oneof(fc.constant(0), fc.nat(0xffff)), { minLength: 8, maxLength: 8 });
  fc.assert(
    fc.property(groups, spelling, (parts, { zeros, capitals, dotted, run }) => {
      const texts = parts.map((n) => {
        const hex = n.toString(16).padStart(zeros + 1, "0");
        return capitals ? hex.toUpperCase() : hex;
      });
      const last = parts.slice(6).flatMap((n) => [n >> 8, n & 255]).join(".");
      if (dotted) texts.splice(6, 2, last);
      let text = texts.join(":");
      const limit = dotted ? 6 : 8;
      let end = run;
      while (end < limit && parts[end] === 0) end++;
      if (end > run) text = `${texts.slice(0, run).join(":")}::${texts.slice(end).join(":")}`;
      const a = IpAddr.parse(text);
      const words = [a.w0, a.w1, a.w2, a.w3].flatMap((w) => [w >>> 16, w & 0xffff]);
      assertEquals(words, parts, text);
    }),
    { numRuns: 1000 },
  );
});

Deno.test("ip_addr: formats IPv6 as RFC 5952 section 4 says", () => {
  for (
    const [text, canonical] of [
      ["2001:0db8:0000:0000:0000:0000:0000:0001", "2001:db8::1"],
      ["2001:DB8::ABCD", "2001:db8::abcd"],
      ["2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"],
      ["2001:0:0:1:0:0:0:1", "2001:0:0:1::1"],
      ["2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"],
      ["0:0:0:0:0:0:0:0", "::"],
      ["::1", "::1"],
      ["fe80:0:0:0:0:0:0:0", "fe80::"],
      ["10.7.0.1", "10.7.0.1"],
      ["::ffff:10.7.0.1", "10.7.0.1"],
    ]
  ) assertStrictEquals(IpAddr.parse(text!).toString(), canonical);
});

Deno.test("ip_addr: parse(format(x)) = x", () => {
  fc.assert(
    fc.property(anyAddr, (address) => {
      const again = IpAddr.parse(address.toString());
      assert(again.equals(address), `${address} became ${again}`);
      assertStrictEquals(again.version, address.version);
      for (const w of [again.w0, again.w1, again.w2, again.w3]) assertStrictEquals(w, w | 0);
    }),
    { numRuns: 500 },
  );
});

Deno.test("ip_addr: accepts exactly what the platform accepts, zones apart", () => {
  const check = (text: string) => {
    let accepted = true;
    try {
      IpAddr.parse(text);
    } catch (error) {
      assert(error instanceof TypeError);
      accepted = false;
    }
    assertStrictEquals(accepted, isIPv4(text) || isIPv6(text), JSON.stringify(text));
  };
  const piece = fc.constantFrom(
    "0",
    "1",
    "10",
    "255",
    "256",
    "00",
    "01",
    "0x1",
    "f",
    "ffff",
    "12345",
    "g",
    " ",
    "-1",
    "",
  );
  const separator = fc.constantFrom(".", ":", "::", ":::", "/");
  const nearly = fc.array(fc.tuple(piece, separator), { minLength: 1, maxLength: 9 }).map((pairs) =>
    pairs.map(([p, s], i) => i === pairs.length - 1 ? p : p + s).join("")
  );
  const oneKind = fc.tuple(fc.constantFrom(".", ":"), fc.array(piece, { minLength: 3, maxLength: 9 })).map(([s, p]) =>
    p.join(s)
  );
  const mutated = fc.tuple(anyAddr, fc.nat(40), fc.constantFrom("", ":", ".", "0", "g", " ")).map(([a, at, s]) => {
    const text = a.toString();
    return text.slice(0, at) + s + text.slice(at + 1);
  });
  fc.assert(fc.property(fc.oneof(nearly, oneKind, mutated, fc.string()), check), { numRuns: 2000 });
});

Deno.test("ip_addr: what is no address is refused with the text and an example", () => {
  for (
    const text of [
      "",
      " ",
      "10.7.0",
      "10.7.0.1.2",
      "10.7.0.256",
      "010.7.0.1",
      "0x0a.7.0.1",
      "168230913",
      " 10.7.0.1",
      "10.7.0.1\n",
    ]
  ) {
    assertThrows(
      () => IpAddr.parse(text),
      TypeError,
      `"${text}" is no IP address: expected one like 10.7.0.1 or fd07::1`,
    );
  }
  for (
    const text of [
      "fd07::1%eth0",
      ":",
      ":::",
      "1::2::3",
      "fd07:::1",
      "12345::",
      "::010.1.1.1",
      "::0x10.1.1.1",
      "::1.2.3",
      "1.2.3.4::",
      "1:2:3:4:5:6:7:8:9",
      "[::1]",
      "::/0",
    ]
  ) {
    assertThrows(() => IpAddr.parse(text), TypeError, `"${text}" is no IP address`);
  }
});

Deno.test("ip_addr: families, unspecified, equality", () => {
  assertStrictEquals(IpAddr.parse("10.7.0.1").version, 4);
  assertStrictEquals(IpAddr.parse("::10.7.0.1").version, 6);
  assertStrictEquals(IpAddr.parse("::1").version, 6);
  assert(IpAddr.ANY_V4.isUnspecified && IpAddr.ANY_V4.isV4 && IpAddr.ANY_V4.toString() === "0.0.0.0");
  assert(IpAddr.ANY_V6.isUnspecified && !IpAddr.ANY_V6.isV4 && IpAddr.ANY_V6.toString() === "::");
  assert(!IpAddr.ANY_V4.equals(IpAddr.ANY_V6));
  for (const text of ["0.0.0.1", "::1", "1::", "0:0:0:1::", "::1:0:0"]) assert(!IpAddr.parse(text).isUnspecified, text);
  fc.assert(fc.property(anyAddr, anyAddr, (a, b) => {
    assertStrictEquals(a.equals(b), bits(a) === bits(b));
    assertStrictEquals(a.equalsWords(b.w0, b.w1, b.w2, b.w3), bits(a) === bits(b));
    assert(a.equals(new IpAddr(a.w0 >>> 0, a.w1 >>> 0, a.w2 >>> 0, a.w3 >>> 0)));
    assertStrictEquals(isV4Words(a.w0, a.w1, a.w2), a.isV4);
  }));
});

Deno.test("ip prefix: clears host bits and formats", () => {
  for (
    const [text, canonical] of [
      ["10.7.0.77/24", "10.7.0.0/24"],
      ["10.7.0.77/32", "10.7.0.77/32"],
      ["10.7.0.77", "10.7.0.77/32"],
      ["255.255.255.255/1", "128.0.0.0/1"],
      ["10.7.0.1/0", "0.0.0.0/0"],
      ["10.7.3.1/22", "10.7.0.0/22"],
      ["fd07::1/64", "fd07::/64"],
      ["fd07::1", "fd07::1/128"],
      ["fd07:1:2:3:4:5:6:7/33", "fd07:1::/33"],
      ["ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/97", "ffff:ffff:ffff:ffff:ffff:ffff:8000:0/97"],
      ["fd07::1/0", "::/0"],
    ]
  ) {
    assertStrictEquals(IpPrefix.parse(text!).toString(), canonical);
    assertStrictEquals(IpPrefix.parse(canonical!).toString(), canonical);
  }
});

Deno.test("ip prefix: holds the addresses of its family whose leading bits agree", () => {
  const near = fc.tuple(anyAddr, fc.nat(127)).map(([a, bit]): [IpAddr, IpAddr] => {
    // The same address with one bit flipped, in the part that the family has.
    const at = a.isV4 ? 96 + bit % 32 : bit;
    const words = [a.w0, a.w1, a.w2, a.w3] as [number, number, number, number];
    words[at >> 5]! ^= 1 << (31 - (at & 31));
    return [a, new IpAddr(...words)];
  });
  fc.assert(
    fc.property(fc.oneof(near, fc.tuple(anyAddr, anyAddr)), fc.nat(128), ([a, b], length) => {
      if (a.isV4) length %= 33;
      const significant = a.isV4 ? 96 + length : length;
      const prefix = new IpPrefix(a, length);
      const expected = a.version === b.version && bits(a).slice(0, significant) === bits(b).slice(0, significant);
      assertStrictEquals(prefix.contains(b), expected, `${prefix} and ${b}`);
      assertStrictEquals(prefix.containsWords(b.w0, b.w1, b.w2, b.w3), expected);
      assert(prefix.contains(a) && prefix.contains(prefix.address));
      assertStrictEquals(bits(prefix.address).slice(significant), "0".repeat(128 - significant));
      assertStrictEquals(prefix.length, length);
    }),
    { numRuns: 1000 },
  );
});

Deno.test("ip prefix: the default of one family is not that of the other", () => {
  const v4 = IpAddr.parse("10.7.0.1");
  for (const text of ["::/0", "::/1", "::/80"]) assert(!IpPrefix.parse(text).contains(v4), text);
  assert(!IpPrefix.parse("0.0.0.0/0").contains(IpAddr.parse("fd07::1")));
  assert(!IpPrefix.parse("0.0.0.0/0").contains(IpAddr.ANY_V6));
  assert(IpPrefix.parse("0.0.0.0/0").contains(v4));
  assert(IpPrefix.parse("::/0").contains(IpAddr.parse("::1")));
});

Deno.test("ip prefix and interface: bad lengths are refused in words", () => {
  for (const parse of [IpPrefix.parse, IpInterface.parse]) {
    assertThrows(() => parse("10.7.0.1/33"), RangeError, "prefix length of 10.7.0.1 must be 0 to 32, got 33");
    assertThrows(() => parse("fd07::1/129"), RangeError, "prefix length of fd07::1 must be 0 to 128, got 129");
    for (
      const text of [
        "10.7.0.1/",
        "10.7.0.1/x",
        "10.7.0.1/-1",
        "10.7.0.1/+1",
        "10.7.0.1/1.5",
        "10.7.0.1/ 24",
        "10.7.0.1/24/8",
      ]
    ) {
      assertThrows(() => parse(text), TypeError, `"${text}" has no prefix length after "/": expected a number`);
    }
    assertThrows(() => parse("/24"), TypeError, `"" is no IP address`);
    assertThrows(() => parse("10.7/16"), TypeError, `"10.7" is no IP address`);
  }
  for (const length of [-1, 33, 1.5, NaN]) {
    assertThrows(() => new IpPrefix(IpAddr.parse("10.7.0.1"), length), RangeError, "must be 0 to 32");
  }
});

Deno.test("ip interface: keeps the host address beside its network", () => {
  const i = IpInterface.parse("10.7.0.1/24");
  assertEquals([`${i}`, `${i.address}`, `${i.prefix}`], ["10.7.0.1/24", "10.7.0.1", "10.7.0.0/24"]);
  assertEquals([`${IpInterface.parse("10.7.0.1")}`, `${IpInterface.parse("fd07::1")}`], ["10.7.0.1/32", "fd07::1/128"]);
  fc.assert(fc.property(i32, fc.nat(32), (word, length) => {
    const address = IpAddr.v4(word);
    const again = IpInterface.parse(`${new IpInterface(address, length)}`);
    assert(again.address.equals(address) && again.prefix.length === length && again.prefix.contains(address));
  }));
});
