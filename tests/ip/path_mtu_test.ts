/**
 * What IP remembers of paths, and whom it believes.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { SECOND } from "../../src/base/time.ts";
import { DestinationCache } from "../../src/ip/destination_cache.ts";
import { PATH_MTUS_MAX, PathMtus } from "../../src/ip/path_mtu.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { IpBench } from "../testing/ip_bench.ts";

type Words = [number, number, number, number];

function words(text: string): Words {
  const { w0, w1, w2, w3 } = IpAddr.parse(text);
  return [w0, w1, w2, w3];
}

const MINUTES = 60 * SECOND;

const families = [
  { name: "IPv4", there: "10.7.0.2", other: "10.7.0.3", floor: 552 },
  { name: "IPv6", there: "fd07::2", other: "fd07::3", floor: 1280 },
];

for (const { name, there, other, floor } of families) {
  const v4 = name === "IPv4";
  const to = words(there);

  Deno.test(`${name}: a path MTU is that of the link until something smaller is learnt, for ten minutes`, () => {
    const paths = new PathMtus(1);
    assertEquals(paths.get(...to, 1500, 0), 1500);
    assert(paths.learn(...to, 1400, 1500, 5));
    assertEquals(paths.get(...to, 1500, 5), 1400);
    assertEquals(paths.get(...to, 1300, 5), 1300, "never more than the link");
    assertEquals(paths.get(...words(other), 1500, 5), 1500);
    assertEquals(paths.get(...to, 1500, 10 * MINUTES + 4), 1400);
    assertEquals(paths.get(...to, 1500, 10 * MINUTES + 5), 1500);
  });

  Deno.test(`${name}: an error lowers the path MTU, and never raises or prolongs it`, () => {
    const paths = new PathMtus(1);
    assert(paths.learn(...to, 1400, 1500, 0));
    for (const mtu of [1400, 1401, 1499]) assert(!paths.learn(...to, mtu, 1500, 5 * MINUTES), `${mtu}`);
    assertEquals(paths.get(...to, 1500, 10 * MINUTES), 1500, "not prolonged");
    assert(paths.learn(...to, 1450, 1500, 10 * MINUTES), "as new as if nothing had been known");
    assert(paths.learn(...to, 1350, 1500, 11 * MINUTES));
    assertEquals(paths.get(...to, 1500, 20 * MINUTES), 1350);
  });

  Deno.test(`${name}: not believed: less than there can be, or that a packet was too big for more than it had`, () => {
    const paths = new PathMtus(1);
    for (const mtu of v4 ? [] : [0, 1, 67, 68, 551, 552, 1279]) assert(!paths.learn(...to, mtu, 1500, 0), `${mtu}`);
    for (const [mtu, bytes] of [[1400, 1400], [1400, 1399], [1280, 100], [2 ** 32 - 1, 1500], [0, 552], [300, 400]]) {
      assert(!paths.learn(...to, mtu!, bytes!, 0), `${mtu} of ${bytes}`);
    }
    assertEquals(paths.get(...to, 1500, 0), 1500);
    for (const mtu of v4 ? [551, 68, 0] : [1280]) {
      const fresh = new PathMtus(1);
      assert(fresh.learn(...to, mtu, 1500, 0), `${mtu}`);
      assertEquals(fresh.get(...to, 1500, 0), floor);
      assert(!fresh.learn(...to, floor, 1500, 1), "the floor is the floor");
    }
  });

  Deno.test(`${name}: the IP layer learns nothing of the way to itself, nor what the link says anyway`, () => {
    const bench = new IpBench();
    const here = v4 ? "10.7.0.1" : "fd07::1";
    const right = words(v4 ? "10.8.0.2" : "fd08::2"); // MTU 1300
    assert(!bench.ip.learnPathMtu(...words(here), 1280, 1500, 0));
    assertEquals(bench.ip.pathMtuTo(IpAddr.parse(here), 0), 1500);
    assert(!bench.ip.learnPathMtu(...right, 1300, 65_535, 0));
    assert(!bench.ip.learnPathMtu(...right, 1400, 65_535, 0));
    assert(!bench.ip.learnPathMtu(...words(v4 ? "10.9.0.1" : "fd09::1"), 1280, 1500, 0), "no route");
    bench.ip.setMtu(2, 1500);
    assertEquals(bench.ip.pathMtuTo(new IpAddr(...right), 0), 1500, "the link had changed, not the path");
    assert(bench.ip.learnPathMtu(...right, 1400, 65_535, 0));
    assertEquals(bench.ip.pathMtuTo(new IpAddr(...right), 0), 1400);
    bench.done();
  });

  Deno.test(`${name}: the memory is bounded: what expires first makes room`, () => {
    const paths = new PathMtus(3);
    const at = (i: number): Words => v4 ? [0, 0, 0xffff, 0x0a000000 + i] : [0xfd070000 | 0, i, -i, 2];
    const n = 4 * PATH_MTUS_MAX;
    for (let i = 0; i < n; i++) assert(paths.learn(...at(i), 1300, 1500, i));
    const known = Array.from({ length: n }, (_, i) => paths.get(...at(i), 1500, n) === 1300);
    const count = known.filter((is) => is).length;
    assert(count <= PATH_MTUS_MAX && count > PATH_MTUS_MAX * 0.9, `${count}`);
    assert(known.slice(-50).every((is) => is), "the latest are there");
    const early = known.slice(0, n / 4).filter((is) => is).length;
    assert(early < PATH_MTUS_MAX / 50, `${early} of the first are still there`);
  });
}

Deno.test("a destination cache of four places is a map from which the entry with the earliest time goes", () => {
  const operation = fc.record({ take: fc.boolean(), n: fc.integer({ min: 1, max: 7 }), time: fc.nat(1000) });
  fc.assert(fc.property(fc.integer(), fc.array(operation, { maxLength: 100 }), (seed, operations) => {
    const cache = new DestinationCache(seed, 1);
    assertEquals(cache.places, 4);
    const model = new Map<number, number>();
    operations.forEach(({ take, n, time }, i) => {
      const address: Words = [n & 1, 0, n >> 1, n];
      if (!take) {
        const place = cache.find(...address);
        assertEquals(place < 0 ? undefined : cache.times[place], model.get(n));
        return;
      }
      const place = cache.take(...address);
      assertEquals(cache.times[place], model.get(n) ?? 0);
      if (!model.has(n) && model.size === 4) model.delete([...model].sort((x, y) => x[1] - y[1])[0]![0]);
      const unique = 1 + time * 100 + i;
      cache.times[place] = unique;
      model.set(n, unique);
    });
  }));
});
