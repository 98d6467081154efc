/**
 * The map from prefixes against a linear scan.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { IpAddr, IpPrefix } from "../../src/wire/ip_addr.ts";
import { PrefixMap } from "../../src/wire/prefix_map.ts";

Deno.test("the longest prefix that holds an address is found, as by a linear scan", () => {
  const word = fc.oneof(fc.constantFrom(0x0a070000, 0x0a070001, 0x0a0700ff, -1, 0), fc.integer());
  const prefix = fc.tuple(fc.boolean(), word, word, fc.nat(32)).map(([v4, a, b, n]) =>
    v4 ? new IpPrefix(IpAddr.v4(a), n) : new IpPrefix(new IpAddr(0xfd070000 | 0, a, 0, b), n * 4)
  );
  fc.assert(
    fc.property(fc.array(prefix, { maxLength: 30 }), fc.array(fc.tuple(fc.boolean(), word, word)), (all, asks) => {
      const map = new PrefixMap<number>(7);
      const list = all.map((p, i) => ({ p, i }))
        .filter(({ p }, i) => all.findIndex((other) => `${other}` === `${p}`) === i);
      for (const { p, i } of list) map.add(p, i);
      assertEquals(map.isEmpty, list.length === 0);
      for (const [v4, a, b] of asks) {
        const address = v4 ? IpAddr.v4(a) : new IpAddr(0xfd070000 | 0, a, 0, b);
        const best = list.filter(({ p }) => p.contains(address)).sort((x, y) => y.p.length - x.p.length)[0];
        const found = map.find(address.w0, address.w1, address.w2, address.w3);
        assertEquals(found, best?.i ?? null);
      }
    }),
  );
});
