/**
 * What a router does beside passing a packet on: kinds of routes, equal paths, the way back, options, MSS.
 *
 * @module
 */

import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { DropReason } from "../../src/base/drop.ts";
import { SECOND } from "../../src/base/time.ts";
import { RouteKind } from "../../src/ip/route_table.ts";
import { checksumFinish, checksumSum } from "../../src/wire/checksum.ts";
import { IpAddr, IpPrefix } from "../../src/wire/ip_addr.ts";
import type { IpHeader } from "../../src/wire/ip_header.ts";
import { parseTcp, TcpHeader } from "../../src/wire/tcp.ts";
import { IpBench } from "../testing/ip_bench.ts";
import { hex, ipPacket, pattern, udpPacket } from "../testing/ip_packets.ts";
import { ipHeader, tcpHeader, tcpPacket } from "../testing/packets.ts";

const families = [
  { name: "IPv4", left: "10.7.0.2", right: "10.8.0.2", nowhere: "10.9.0.1", all: "10.9.0.0/16" },
  { name: "IPv6", left: "fd07::2", right: "fd08::2", nowhere: "fd09::1", all: "fd09::/16" },
];

for (const { name, left, right, nowhere, all } of families) {
  const v4 = name === "IPv4";

  Deno.test(`${name}: blackhole is silent, unreachable and prohibit answer, each with its own reason`, () => {
    const expected: [RouteKind, string, number[] | null][] = [
      [RouteKind.Blackhole, "blackhole", null],
      [RouteKind.Unreachable, "unreachable down", v4 ? [3, 1] : [1, 0]],
      [RouteKind.Prohibit, "prohibited down", v4 ? [3, 13] : [1, 1]],
    ];
    for (const [kind, result, message] of expected) {
      const bench = new IpBench();
      bench.ip.routes.add(IpPrefix.parse(all), 0, { kind });
      assertEquals(bench.send({ src: left, dst: nowhere, payload: pattern(8) }), result);
      if (message !== null) {
        const { p, icmp } = bench.sent();
        assertEquals([icmp.type, icmp.code], message);
        bench.memory.pool.release(p);
      }
      const p = bench.memory.pool.acquire()!;
      p.end += 20;
      const ip = ipHeader(v4 ? "10.7.0.1" : "fd07::1", nowhere);
      assertEquals(DropReason[bench.ip.output(p, ip, 0)]!.toLowerCase(), result.split(" ")[0]);
      assertEquals(bench.ip.mtuTo(IpAddr.parse(nowhere)), 0);
      bench.memory.pool.release(p);
      bench.done();
    }
  });

  Deno.test(`${name}: equal paths share the flows by the inner five, a flow stays on its path`, () => {
    const bench = new IpBench();
    for (const ifindex of [1, 2]) bench.ip.routes.add(IpPrefix.parse(all), ifindex);
    const way = (srcPort: number, dstPort: number): number => {
      bench.input(udpPacket(bench.memory.pool, { src: left, dst: nowhere, srcPort, dstPort, payload: pattern(4) }));
      const { p } = bench.sent();
      bench.memory.pool.release(p);
      return p.ifindex;
    };
    const ways = Array.from({ length: 400 }, (_, i) => way(1000 + i, 53));
    assertEquals(Array.from({ length: 400 }, (_, i) => way(1000 + i, 53)), ways);
    const first = ways.filter((ifindex) => ifindex === 1).length;
    assert(first > 140 && first < 260, `${first}`);
    assertEquals(bench.ip.mtuTo(IpAddr.parse(nowhere)), 1300);
    bench.done();
  });

  Deno.test(`${name}: fragments of a datagram stay together on equal paths`, () => {
    const bench = new IpBench();
    for (const ifindex of [1, 2]) bench.ip.routes.add(IpPrefix.parse(all), ifindex);
    for (let id = 1; id <= 40; id++) {
      const ways = [0, 16, 32].map((offset) => {
        const more = offset < 32;
        const header = [17, 0, offset >> 8, (offset & 0xff) | (more ? 1 : 0), 0, 0, 0, id];
        const p = v4
          ? ipPacket(bench.memory.pool, {
            src: left,
            dst: nowhere,
            id,
            dontFragment: false,
            moreFragments: more,
            fragmentOffset: offset,
            protocol: 17,
            payload: pattern(16),
          })
          : ipPacket(bench.memory.pool, {
            src: left,
            dst: nowhere,
            protocol: 44,
            payload: Uint8Array.from([...header, ...pattern(16)]),
          });
        assertEquals(bench.input(p), "down");
        bench.memory.pool.release(bench.down.shift()!);
        return p.ifindex;
      });
      assertEquals(new Set(ways).size, 1);
    }
    bench.done();
  });

  Deno.test(`${name}: the way back: strict by the same interface, loose by any, link-local free, blackholes are none`, () => {
    const modes = { strict: "reverse-path", loose: "down" } as const;
    for (const mode of ["strict", "loose"] as const) {
      const bench = new IpBench();
      bench.ip.addInterface({ ifindex: 3, name: "checked", mtu: 1500, reversePath: mode });
      bench.ip.routes.add(IpPrefix.parse(all), 3);
      const send = (src: string): string => {
        const p = ipPacket(bench.memory.pool, { src, dst: right });
        p.ifindex = 3;
        const result = bench.input(p);
        if (result === "down") bench.memory.pool.release(bench.down.shift()!);
        return result;
      };
      assertEquals(send(nowhere), "down");
      assertEquals(send(left), modes[mode]);
      assertEquals(send(v4 ? "192.0.2.1" : "2001:db8::1"), "reverse-path");
      bench.ip.routes.add(IpPrefix.parse(v4 ? "192.0.2.0/24" : "2001:db8::/32"), 0, { kind: RouteKind.Blackhole });
      assertEquals(send(v4 ? "192.0.2.1" : "2001:db8::1"), "reverse-path");
      // Of several ways that share, each will do.
      bench.ip.routes.add(IpPrefix.parse(v4 ? "10.7.0.0/24" : "fd07::/64"), 3);
      assertEquals(send(left), "down");
      assertEquals(send(v4 ? "169.254.1.1" : "fe80::1"), "martian", "not forwarded, but not for the way back");
      bench.done();
    }
  });

  Deno.test(`${name}: the MSS of a forwarded SYN is lowered to the smaller link, its checksum stays right`, () => {
    const sizes = [[536, 536], [1200, 1200], [1460, v4 ? 1260 : 1240], [9000, v4 ? 1260 : 1240]];
    for (const clampMss of [true, false]) {
      for (const [mss, expected] of sizes) {
        for (const flags of [0x02, 0x12]) {
          for (const [src, dst, ifindex] of [[left, right, 1], [right, left, 2]] as const) {
            const bench = new IpBench(true, { clampMss });
            const tcp = tcpHeader({ srcPort: 5, dstPort: 80, flags, mss: mss!, windowScale: 7, sackPermitted: true });
            const p = bench.memory.pool.acquire()!;
            const bytes = tcpPacket(ipHeader(src, dst, { ttl: 64 }), tcp);
            p.bytes.set(bytes, p.start);
            p.end = p.start + bytes.length;
            p.ifindex = ifindex;
            assertEquals(bench.input(p), "down");
            const { ip } = bench.sent();
            const out = new TcpHeader();
            assertEquals(parseTcp(p.view, p.start + ip.headerLength, p.end, ip, out), DropReason.None);
            assertEquals(out.mss, clampMss ? expected : mss);
            bench.memory.pool.release(p);
            bench.done();
          }
        }
      }
    }
  });

  Deno.test(`${name}: seven errors to one host are six, "too big" knows no limit`, () => {
    const bench = new IpBench();
    const send = (bytes: number, ttl: number): string =>
      bench.send({ src: left, dst: right, payload: pattern(bytes), ttl });
    const exceeded = Array.from({ length: 7 }, () => send(8, 1));
    assertEquals(exceeded.filter((result) => result === "ttl-exceeded down").length, 6);
    for (let i = 0; i < 1000; i++) assertEquals(send(1400, 64), "too-big down");
    bench.done();
  });
}

Deno.test("an MSS option at any place and a segment of any bytes: only the option and the checksum change", () => {
  fc.assert(fc.property(fc.nat(5), fc.integer({ min: 0, max: 65535 }), fc.nat(3), (padding, mss, trailing) => {
    const bench = new IpBench(true, { clampMss: true });
    const options = [...new Array(padding).fill(1), 2, 4, mss >> 8, mss & 0xff, ...new Array(trailing).fill(1)];
    while (options.length % 4 !== 0) options.push(0);
    const segment = new Uint8Array(20 + options.length);
    segment.set([0, 5, 0, 80, 1, 2, 3, 4, 0, 0, 0, 0, (segment.length / 4) << 4, 2, 0xff, 0xff]);
    segment.set(options, 20);
    const p = ipPacket(bench.memory.pool, { src: "10.7.0.2", dst: "10.8.0.2", protocol: 6, payload: segment });
    const ip = ipHeader("10.7.0.2", "10.8.0.2");
    const sum = (): number =>
      checksumFinish(checksumSum(p.view, p.start + 20, p.end, ip.pseudoHeaderSum(6, segment.length)));
    p.view.setUint16(p.start + 36, sum());
    const before = p.toBytes().slice();
    assertEquals(bench.input(p), "down");
    assertEquals(sum(), 0);
    const after = p.toBytes();
    const changed = Array.from(after.keys()).filter((i) => after[i] !== before[i] && i >= 20);
    const at = 40 + padding + 2;
    assert(changed.every((i) => i === 36 || i === 37 || i === at || i === at + 1), `${changed}`);
    assertEquals((after[at]! << 8) | after[at + 1]!, Math.min(mss, 1260));
    bench.memory.pool.release(bench.down.shift()!);
    bench.done();
  }));
});

/** An IPv4 packet with these option bytes. */
function withOptions(bench: IpBench, dst: string, options: number[], bytes = 8, extra: Partial<IpHeader> = {}) {
  const p = ipPacket(bench.memory.pool, { src: "10.7.0.2", dst, payload: new Uint8Array(options.length + bytes) });
  const { view, start } = p;
  p.bytes.set(options, start + 20);
  p.bytes.set(pattern(bytes), start + 20 + options.length);
  view.setUint8(start, 0x40 | ((20 + options.length) >> 2));
  view.setUint16(start + 6, extra.dontFragment === false ? 0 : 0x4000);
  view.setUint16(start + 10, 0);
  view.setUint16(start + 10, checksumFinish(checksumSum(view, start, start + 20 + options.length)));
  return p;
}

Deno.test("IPv4 options: good ones pass untouched, source routes are refused, bad ones are pointed at", () => {
  const recordRoute = [7, 7, 4, 0, 0, 0, 0, 1];
  for (const dst of ["10.8.0.2", "10.7.0.1"]) {
    const bench = new IpBench();
    const good = withOptions(bench, dst, recordRoute);
    const before = hex(good.bytes.subarray(good.start + 20, good.end));
    assertEquals(bench.input(good), dst === "10.8.0.2" ? "down" : "up");
    assertEquals(hex(good.bytes.subarray(good.start + 20, good.end)), before);
    bench.memory.pool.release((bench.down.shift() ?? bench.up.shift())!);
    for (const type of [131, 137]) {
      assertEquals(bench.input(withOptions(bench, dst, [type, 7, 4, 10, 8, 0, 9, 0])), "source-route down");
      const { p, icmp } = bench.sent();
      assertEquals([icmp.type, icmp.code], [3, 5]);
      bench.memory.pool.release(p);
    }
    const bad: [number[], number][] = [
      [[1, 1, 1, 7], 23],
      [[7, 1, 0, 0], 21],
      [[1, 7, 9, 4, 0, 0, 0, 0], 22],
      [[7, 9, 4, 0, 0, 0, 0, 0], 21],
    ];
    for (const [options, pointer] of bad) {
      assertEquals(bench.input(withOptions(bench, dst, options), SECOND * 100), "bad-ip-option down");
      const { p, icmp } = bench.sent();
      assertEquals([icmp.type, icmp.code, icmp.id >> 8], [12, 0, pointer]);
      bench.memory.pool.release(p);
    }
    bench.done();
  }
});

Deno.test("IPv4 options of a packet that is for nobody here are not looked at, nor answered", () => {
  const bench = new IpBench(false);
  for (const options of [[131, 7, 4, 10, 8, 0, 9, 0], [7, 9, 4, 0, 0, 0, 0, 0], [7, 7, 4, 0, 0, 0, 0, 1]]) {
    assertEquals(bench.input(withOptions(bench, "10.8.0.2", options)), "not-forwarding");
  }
  bench.done();
});

Deno.test("the MTU of an interface can change, not to nonsense", () => {
  const bench = new IpBench();
  bench.ip.setMtu(2, 1280);
  assertEquals(bench.send({ src: "10.7.0.2", dst: "10.8.0.2", payload: pattern(1261) }), "too-big down");
  const { p, icmp } = bench.sent();
  assertEquals(icmp.seq, 1280);
  bench.memory.pool.release(p);
  assertThrows(() => bench.ip.setMtu(7, 1280), RangeError, "no interface 7");
  assertThrows(() => bench.ip.setMtu(0, 1280), RangeError, "no interface 0");
  assertThrows(() => bench.ip.setMtu(1, 67), RangeError, "at least 68");
  bench.done();
});
