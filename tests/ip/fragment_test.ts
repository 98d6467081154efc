/**
 * Fragments: made on the way through and on the way out, and put together again.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { DropReason } from "../../src/base/drop.ts";
import type { Packet } from "../../src/base/packet.ts";
import { SECOND } from "../../src/base/time.ts";
import { REASSEMBLIES_MAX } from "../../src/ip/reassembly.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { checksumFinish, checksumSum } from "../../src/wire/checksum.ts";
import { IpBench } from "../testing/ip_bench.ts";
import { hex, ipPacket, pattern } from "../testing/ip_packets.ts";
import { ipHeader } from "../testing/packets.ts";

const families = [
  { name: "IPv4", here: "10.7.0.1", left: "10.7.0.2", right: "10.8.0.2" },
  { name: "IPv6", here: "fd07::1", left: "fd07::2", right: "fd08::2" },
];

interface FragmentOptions {
  src: string;
  dst: string;
  id?: number;
  offset: number;
  more: boolean;
  payload: Uint8Array;
  ecn?: number;
  protocol?: number;
}

/** A fragment of either version. */
function fragment(bench: IpBench, options: FragmentOptions): Packet {
  const { src, dst, id = 7, offset, more, payload, ecn = 0, protocol = 253 } = options;
  const both = { src, dst, trafficClass: ecn };
  if (!src.includes(":")) {
    const facts = { id, dontFragment: false, moreFragments: more, fragmentOffset: offset, protocol };
    return ipPacket(bench.memory.pool, { ...both, ...facts, payload });
  }
  const header = [protocol, 0, offset >> 8, (offset & 0xf8) | (more ? 1 : 0), id >>> 24, id >>> 16, id >>> 8, id];
  return ipPacket(bench.memory.pool, { ...both, protocol: 44, payload: Uint8Array.from([...header, ...payload]) });
}

/** A permutation of 0 … n − 1. */
function shuffled(n: number): fc.Arbitrary<number[]> {
  return fc.shuffledSubarray(Array.from({ length: n }, (_, i) => i), { minLength: n });
}

for (const { name, here, left, right } of families) {
  const v4 = name === "IPv4";

  Deno.test(`${name}: fragments in any order, some of them twice, make the datagram`, () => {
    const cases = fc.tuple(fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 2, maxLength: 12 }), fc.nat(7))
      .chain(([sizes, odd]) => fc.tuple(fc.constant(sizes), fc.constant(odd), shuffled(sizes.length), fc.nat(11)));
    fc.assert(fc.property(cases, ([sizes, odd, order, again]) => {
      const bench = new IpBench();
      const total = sizes.reduce((sum, n) => sum + 8 * n, 0) - odd;
      const whole = pattern(total).map((byte, i) => byte ^ (i >> 8));
      const pieces = sizes.map((n, i) => {
        const offset = sizes.slice(0, i).reduce((sum, m) => sum + 8 * m, 0);
        const more = i < sizes.length - 1;
        return { offset, more, payload: whole.subarray(offset, more ? offset + 8 * n : total) };
      });
      const arrivals = order.flatMap((n, i) => i === again && i < order.length - 1 ? [n, n] : [n]);
      arrivals.forEach((n, i) => {
        const result = bench.input(fragment(bench, { src: left, dst: here, ...pieces[n]! }));
        assertEquals(result, i === arrivals.length - 1 ? "up" : "");
      });
      const p = bench.up.shift()!;
      assertEquals(hex(p.bytes.subarray(p.l4, p.end)), hex(whole));
      if (v4) {
        assertEquals(p.view.getUint16(p.start + 2), p.length);
        assertEquals(p.view.getUint16(p.start + 6), 0);
        assertEquals(checksumFinish(checksumSum(p.view, p.start, p.l4)), 0);
      } else assertEquals([p.view.getUint16(p.start + 4), p.view.getUint8(p.start + 6)], [total, 253]);
      bench.memory.pool.release(p);
      assertEquals(bench.ip.reassembly.size, 0);
      bench.done();
    }));
  });

  Deno.test(`${name}: the largest datagram goes out in fragments of the MTU and comes together again`, () => {
    const out = new IpBench();
    const at = new IpBench();
    const bytes = 65_535 - (v4 ? 20 : 40);
    const p = out.memory.pool.acquireLarge()!;
    p.bytes.set(pattern(bytes).map((byte, i) => byte ^ (i >> 8)), p.start);
    p.end = p.start + bytes;
    const sum = hex(p.toBytes());
    const ip = ipHeader(right, left, { protocol: 253, dontFragment: false });
    assertEquals(out.ip.output(p, ip, 0), DropReason.None);
    let last = "";
    let fragments = 0;
    for (let q = out.down.shift(); q !== null; q = out.down.shift()) {
      assert(q.length <= 1500 && (q.length > 1480 || out.down.packets === 0), `${q.length}`);
      // To the host that has the address here.
      q.bytes.set(q.bytes.slice(0));
      const copy = at.memory.pool.acquire()!;
      copy.bytes.set(q.toBytes(), copy.start);
      copy.end = copy.start + q.length;
      retarget(copy, here);
      copy.ifindex = 1;
      out.memory.pool.release(q);
      last = at.input(copy);
      fragments++;
    }
    assertEquals(last, "up");
    assertEquals(fragments, Math.ceil(bytes / (v4 ? 1480 : 1448)));
    const whole = at.up.shift()!;
    assertEquals(hex(whole.bytes.subarray(whole.l4, whole.end)), sum);
    at.memory.pool.release(whole);
    at.done();
    out.done();
  });

  Deno.test(`${name}: what may not be cut is not, and what is refused is as it was`, () => {
    const bench = new IpBench();
    const p = bench.memory.pool.acquireLarge()!;
    p.end = p.start + 3000;
    const { start } = p;
    assertEquals(bench.ip.output(p, ipHeader(here, left), 0), DropReason.TooBig);
    const held: Packet[] = [];
    for (let q = bench.memory.pool.acquire(); q !== null; q = bench.memory.pool.acquire()) held.push(q);
    assertEquals(bench.ip.output(p, ipHeader(here, left, { dontFragment: false }), 0), DropReason.PoolExhausted);
    assertEquals([p.start, p.length], [start, 3000]);
    for (const q of held) bench.memory.pool.release(q);
    assertEquals(bench.ip.output(p, ipHeader(here, left, { dontFragment: false }), 0), DropReason.None);
    assertEquals(bench.down.packets, 3);
    bench.done();
  });

  Deno.test(`${name}: a packet in a large slot that fits a link leaves in an ordinary one`, () => {
    const bench = new IpBench();
    const p = bench.memory.pool.acquireLarge(500)!;
    p.end = p.start + 1400;
    assertEquals(bench.ip.output(p, ipHeader(here, left, { dontFragment: false }), 0), DropReason.None);
    const { p: q } = bench.sent();
    assertEquals(q.bytes.length, 2048);
    assertEquals(q.length, 1400 + (v4 ? 20 : 40));
    bench.memory.pool.release(q);
    bench.done();
  });

  Deno.test(`${name}: the path MTU that was learnt counts for what may be cut, until it is ten minutes old`, () => {
    const bench = new IpBench();
    const to = IpAddr.parse(left);
    const lengths = (now: number): number[] => {
      const p = bench.memory.pool.acquireLarge()!;
      p.end = p.start + 1400;
      assertEquals(bench.ip.output(p, ipHeader(here, left, { dontFragment: false }), now), DropReason.None);
      const all: number[] = [];
      for (let q = bench.down.shift(); q !== null; q = bench.down.shift()) {
        all.push(q.length);
        bench.memory.pool.release(q);
      }
      return all;
    };
    assertEquals(lengths(0).length, 1);
    assertEquals(bench.ip.learnPathMtu(to.w0, to.w1, to.w2, to.w3, 1300, 1500, 5), true);
    assertEquals(bench.ip.pathMtuTo(to, 6), 1300);
    assertEquals(lengths(6).length, 2);
    assert(lengths(6).every((n) => n <= 1300));
    assertEquals(bench.ip.learnPathMtu(to.w0, to.w1, to.w2, to.w3, 1400, 1500, 7), false, "a larger one is no news");
    assertEquals(bench.ip.learnPathMtu(to.w0, to.w1, to.w2, to.w3, 100, 1500, 7), v4);
    assertEquals(bench.ip.pathMtuTo(to, 8), v4 ? 552 : 1300);
    assertEquals(bench.ip.mtuTo(to), 1500);
    assertEquals(bench.ip.pathMtuTo(to, 600 * SECOND + 7), 1500);
    bench.done();
  });

  Deno.test(`${name}: a datagram that is not complete in time is answered if its first fragment came`, () => {
    const time = (v4 ? 30 : 60) * SECOND;
    for (const hasFirst of [true, false]) {
      const bench = new IpBench();
      const piece = { src: left, dst: here, payload: pattern(24) };
      assertEquals(bench.input(fragment(bench, { ...piece, offset: 24, more: true }), 100), "");
      if (hasFirst) assertEquals(bench.input(fragment(bench, { ...piece, offset: 0, more: true }), 200), "");
      assertEquals(bench.ip.nextAt(), time + 100);
      bench.ip.timeout(time + 99);
      assertEquals(bench.ip.reassembly.size, 1);
      bench.ip.timeout(time + 100);
      assertEquals(bench.ip.reassembly.size, 0);
      assertEquals(bench.memory.drops.toJSON(), { "fragment-timeout": 1 });
      assertEquals(bench.down.packets, hasFirst ? 1 : 0);
      if (hasFirst) {
        const { p, icmp, quote } = bench.sent();
        assertEquals([icmp.type, icmp.code], [v4 ? 11 : 3, 1]);
        assertEquals(quote.length, (v4 ? 20 : 48) + 24);
        bench.memory.pool.release(p);
      }
      assertEquals(bench.ip.nextAt(), Infinity);
      bench.done();
    }
  });

  Deno.test(`${name}: fragments that overlap or contradict each other take the datagram and its rest with them`, () => {
    const base = { src: left, dst: here };
    const good = [
      { offset: 0, more: true, payload: pattern(24) },
      { offset: 48, more: false, payload: pattern(10) },
    ];
    const bad = [
      { offset: 16, more: true, payload: pattern(16) },
      { offset: 8, more: true, payload: pattern(8).map((byte) => byte ^ 1) },
      { offset: 0, more: true, payload: pattern(32) },
      { offset: 40, more: true, payload: pattern(16) },
      { offset: 48, more: true, payload: pattern(24) },
      { offset: 64, more: true, payload: pattern(8) },
      { offset: 24, more: false, payload: pattern(5) },
      { offset: 56, more: false, payload: pattern(5) },
    ];
    for (const piece of bad) {
      const bench = new IpBench();
      for (const g of good) assertEquals(bench.input(fragment(bench, { ...base, ...g })), "");
      assertEquals(bench.input(fragment(bench, { ...base, ...piece })), "fragment-overlap", JSON.stringify(piece));
      const rest = { offset: 24, more: true, payload: pattern(24) };
      assertEquals(bench.input(fragment(bench, { ...base, ...rest })), "fragment-overlap");
      for (const g of good) assertEquals(bench.input(fragment(bench, { ...base, ...g })), "fragment-overlap");
      // Another datagram is another matter.
      for (const g of [...good, rest]) bench.input(fragment(bench, { ...base, ...g, id: 8 }));
      assertEquals(bench.up.packets, 1);
      bench.ip.timeout(100 * SECOND);
      assertEquals(bench.down.packets, 0, "an overlap is not answered");
      bench.done();
    }
  });

  Deno.test(`${name}: impossible fragments are dropped at once`, () => {
    const bench = new IpBench();
    const base = { src: left, dst: here };
    const send = (offset: number, more: boolean, bytes: number, now = 0): string =>
      bench.input(fragment(bench, { ...base, offset, more, payload: pattern(bytes) }), now);
    assertEquals(send(0, true, 0), "fragment");
    assertEquals(send(8, true, 9), v4 ? "fragment" : "fragment down");
    assertEquals(send(65_528, false, 100), v4 ? "fragment" : "fragment down");
    if (!v4) {
      const a = bench.sent();
      assertEquals([a.icmp.type, a.icmp.code, a.icmp.seq], [4, 0, 4]);
      const b = bench.sent();
      assertEquals([b.icmp.type, b.icmp.code, b.icmp.seq], [4, 0, 42]);
      bench.memory.pool.release(a.p);
      bench.memory.pool.release(b.p);
    }
    assertEquals(bench.ip.reassembly.size, 0);
    bench.done();
  });

  Deno.test(`${name}: memory is bounded: the oldest goes, and no interface can take more than half`, () => {
    const bench = new IpBench();
    const start = (id: number, ifindex: number): string => {
      const p = fragment(bench, { src: left, dst: here, id, offset: 8, more: true, payload: pattern(8) });
      p.ifindex = ifindex;
      return bench.input(p, id);
    };
    const half = REASSEMBLIES_MAX / 2;
    for (let id = 1; id <= half; id++) assertEquals(start(id, 2), "");
    for (let id = 1000; id < 3000; id++) assertEquals(start(id, 1), id < 1000 + half ? "" : "fragment-limit");
    assertEquals(bench.ip.reassembly.size, REASSEMBLIES_MAX);
    // Those of the other interface are all there: what completes them is a first and a last fragment.
    for (let id = 1; id <= half; id++) {
      const rest = { src: left, dst: here, id };
      bench.input(fragment(bench, { ...rest, offset: 0, more: true, payload: pattern(8) }), 3000);
      assertEquals(bench.input(fragment(bench, { ...rest, offset: 16, more: false, payload: pattern(8) }), 3000), "up");
      bench.memory.pool.release(bench.up.shift()!);
    }
    bench.ip.close(3000);
    assertEquals(bench.ip.reassembly.size, 0);
    bench.done();
  });

  Deno.test(`${name}: more holes than anybody makes are too many`, () => {
    const bench = new IpBench();
    const results = Array.from(
      { length: 40 },
      (_, i) =>
        bench.input(fragment(bench, { src: left, dst: here, offset: 16 * i + 8, more: true, payload: pattern(8) })),
    );
    assertEquals(results.indexOf("fragment-limit"), 32);
    assert(results.slice(33).every((result) => result === "fragment-overlap"));
    bench.ip.close(0);
    bench.done();
  });

  Deno.test(`${name}: CE on one fragment is CE on the datagram, with Not-ECT beside it nothing`, () => {
    for (
      const [ecns, expected] of [[[2, 2], 2], [[2, 3], 3], [[1, 3], 3], [[0, 0], 0], [[0, 3], -1], [
        [3, 0],
        -1,
      ]] as const
    ) {
      const bench = new IpBench();
      const base = { src: left, dst: here };
      bench.input(fragment(bench, { ...base, offset: 0, more: true, payload: pattern(8), ecn: ecns[0] }));
      const result = bench.input(
        fragment(bench, { ...base, offset: 8, more: false, payload: pattern(8), ecn: ecns[1] }),
      );
      assertEquals(result, expected < 0 ? "ce-not-ect" : "up");
      if (expected >= 0) {
        const p = bench.up.shift()!;
        const tos = v4 ? p.view.getUint8(p.start + 1) : p.view.getUint16(p.start) >> 4;
        assertEquals(tos & 3, expected);
        if (v4) assertEquals(checksumFinish(checksumSum(p.view, p.start, p.l4)), 0);
        bench.memory.pool.release(p);
      }
      bench.done();
    }
  });
}

/** Gives a packet another destination, with a right checksum. */
function retarget(p: Packet, to: string): void {
  const { w0, w1, w2, w3 } = IpAddr.parse(to);
  if (to.includes(":")) [w0, w1, w2, w3].forEach((word, i) => p.view.setInt32(p.start + 24 + 4 * i, word));
  else {
    p.view.setInt32(p.start + 16, w3);
    p.view.setUint16(p.start + 10, 0);
    p.view.setUint16(p.start + 10, checksumFinish(checksumSum(p.view, p.start, p.start + 20)));
  }
  const src = IpAddr.parse(to.includes(":") ? "fd07::2" : "10.7.0.2");
  if (to.includes(":")) p.view.setInt32(p.start + 20, src.w3);
  if (to.includes(":")) {
    p.view.setInt32(p.start + 8, src.w0);
    p.view.setInt32(p.start + 12, src.w1);
    p.view.setInt32(p.start + 16, src.w2);
  }
}

Deno.test("forwarded without don't-fragment, an IPv4 packet is cut to the MTU, and again, and comes together", () => {
  fc.assert(fc.property(fc.integer({ min: 600, max: 1480 }), fc.nat(3), fc.boolean(), (bytes, copied, isMore) => {
    const bench = new IpBench();
    const options = [
      ...new Array(copied).fill([0x94, 4, 0, 0]).flat(),
      ...(copied > 0 ? [7, 7, 4, 0, 0, 0, 0, 1] : []),
    ];
    const whole = pattern(bytes - (bytes % 8)).map((byte, i) => byte ^ (i >> 8));
    if (options.length + whole.length + 20 > 1500) return;
    const p = ipPacket(bench.memory.pool, {
      src: "10.7.0.2",
      dst: "10.8.0.2",
      dontFragment: false,
      moreFragments: isMore,
      fragmentOffset: 800,
      id: 9,
      protocol: 17,
      payload: Uint8Array.from([...options, ...whole]),
    });
    p.view.setUint8(p.start, 0x45 + options.length / 4);
    p.view.setUint16(p.start + 10, 0);
    p.view.setUint16(p.start + 10, checksumFinish(checksumSum(p.view, p.start, p.start + 20 + options.length)));
    bench.ip.setMtu(2, 576);
    const isCut = p.length > 576;
    assertEquals(bench.input(p), "down");
    if (isCut) assertEquals(bench.ip.fragmented.packets, 1);
    const seen = new Uint8Array(whole.length);
    let n = 0;
    const flows = new Set<number>();
    for (let q = bench.down.shift(); q !== null; q = bench.down.shift(), n++) {
      const { view, start } = q;
      const headerBytes = (view.getUint8(start) & 15) * 4;
      assert(q.length <= 576);
      assertEquals(checksumFinish(checksumSum(view, start, start + headerBytes)), 0);
      assertEquals(view.getUint16(start + 2), q.length);
      assertEquals([view.getUint16(start + 4), view.getUint8(start + 8), view.getUint8(start + 9)], [9, 63, 17]);
      const field = view.getUint16(start + 6);
      const offset = (field & 0x1fff) * 8 - 800;
      const isLast = offset + q.length - headerBytes === whole.length;
      assertEquals(field >> 13, isLast && !isMore ? 0 : 1);
      if (isCut) assertEquals(headerBytes, n === 0 ? 20 + options.length : 20 + 4 * copied);
      seen.set(q.bytes.subarray(start + headerBytes, q.end), offset);
      flows.add(q.flow);
      bench.memory.pool.release(q);
    }
    assertEquals(hex(seen), hex(whole));
    assertEquals(flows.size, 1);
    bench.done();
  }));
});

Deno.test("IPv6: a fragment header of a whole packet is passed over, even beside fragments with its identification", () => {
  const bench = new IpBench();
  const base = { src: "fd07::2", dst: "fd07::1", id: 5 };
  assertEquals(bench.input(fragment(bench, { ...base, offset: 0, more: true, payload: pattern(8) })), "");
  assertEquals(bench.input(fragment(bench, { ...base, offset: 0, more: false, payload: pattern(11) })), "up");
  const p = bench.up.shift()!;
  assertEquals(p.end - p.l4, 11);
  bench.memory.pool.release(p);
  assertEquals(bench.input(fragment(bench, { ...base, offset: 8, more: false, payload: pattern(8) })), "up");
  bench.done();
});

/** A datagram over IPv6 of so many bytes behind the first headers, cut by hand, with `options` in front of each fragment header. */
function ipv6Datagram(bench: IpBench, bytes: number, optionsOf: (offset: number) => number, order: number[]): string[] {
  const pieces = Array.from({ length: Math.ceil(bytes / 1200) }, (_, i) => i * 1200);
  return order.map((n) => {
    const offset = pieces.at(n)!;
    const more = offset + 1200 < bytes;
    const header = [253, 0, offset >> 8, (offset & 0xf8) | (more ? 1 : 0), 0, 0, 0, 7];
    const options = optionsOf(offset);
    const extension = options === 0 ? [] : [44, options / 8 - 1, 1, options - 4, ...new Array(options - 4).fill(0)];
    const payload = [...extension, ...header, ...pattern(more ? 1200 : bytes - offset)];
    const facts = { src: "fd07::2", dst: "fd07::1", protocol: options === 0 ? 44 : 60 };
    return bench.input(ipPacket(bench.memory.pool, { ...facts, payload: Uint8Array.from(payload) }));
  });
}

Deno.test("IPv6: a datagram may have 65,535 bytes behind its header, and one more is too many, in whatever order they come", () => {
  const rest = Array.from({ length: 53 }, (_, i) => i + 1);
  for (const order of [[...rest, -1, 0], [0, ...rest, -1], [-1, 0, ...rest]]) {
    for (const options of [0, 8, 200]) {
      for (const over of [0, 1, 8]) {
        // Only the first fragment has options: the others do not tell how long the whole will be.
        const bench = new IpBench();
        const bytes = 65_535 - options + over;
        const isPossible = bytes <= 65_535;
        const results = ipv6Datagram(bench, bytes, (offset) => offset === 0 ? options : 0, order);
        const what = `${bytes} behind ${options}, ${order[0]} first`;
        assertEquals(results.includes("up"), over === 0, what);
        if (over === 0) {
          const p = bench.up.shift()!;
          assertEquals([p.end - p.start - 40, p.view.getUint16(p.start + 4)], [65_535, 65_535], what);
          bench.memory.pool.release(p);
        } else if (isPossible) assertEquals(results.at(-1), "fragment", what);
        bench.ip.close(0);
        bench.done();
      }
    }
  }
});

Deno.test("IPv4: a datagram whose first header is longer than the others' cannot grow beyond 65,535 bytes", () => {
  for (const over of [0, 1, 40]) {
    const bench = new IpBench();
    const bytes = 65_535 - 60 + over;
    const piece = (offset: number, options: number): string => {
      const end = Math.min(bytes, offset + 1200);
      const p = ipPacket(bench.memory.pool, {
        src: "10.7.0.2",
        dst: "10.7.0.1",
        id: 3,
        dontFragment: false,
        moreFragments: end < bytes,
        fragmentOffset: offset,
        payload: Uint8Array.from([...new Array(options).fill(1), ...pattern(end - offset)]),
      });
      p.view.setUint8(p.start, 0x45 + options / 4);
      p.view.setUint16(p.start + 10, 0);
      p.view.setUint16(p.start + 10, checksumFinish(checksumSum(p.view, p.start, p.start + 20 + options)));
      return bench.input(p);
    };
    const results: string[] = [];
    for (let offset = 1200; offset < bytes; offset += 1200) results.push(piece(offset, 0));
    results.push(piece(0, 40));
    assertEquals(results.at(-1), over === 0 ? "up" : "fragment");
    assertEquals(bench.ip.reassembly.completed, over === 0 ? 1 : 0);
    if (over === 0) assertEquals(bench.up.head!.length, 65_535);
    bench.ip.close(0);
    bench.done();
  }
});

Deno.test("identifications differ between packets in a row and begin elsewhere for other destinations", () => {
  const bench = new IpBench();
  const ids = (dst: string): number[] =>
    Array.from({ length: 5 }, () => {
      const p = bench.memory.pool.acquire()!;
      p.end += 20;
      assertEquals(bench.ip.output(p, ipHeader("10.7.0.1", dst, { dontFragment: false }), 0), DropReason.None);
      const { ip } = bench.sent();
      bench.memory.pool.release(p);
      assertEquals(ip.dontFragment, false);
      return ip.id;
    });
  const a = ids("10.7.0.2");
  assertEquals(new Set(a).size, 5);
  assert(Math.abs(ids("10.7.0.3")[0]! - a[4]!) > 16);
  bench.done();
});
