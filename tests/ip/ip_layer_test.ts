import { assert, assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { DropReason } from "../../src/base/drop.ts";
import type { Packet } from "../../src/base/packet.ts";
import { MILLISECOND, SECOND } from "../../src/base/time.ts";
import { LOOPBACK_MTU } from "../../src/ip/ip_layer.ts";
import { checksumFinish, checksumSum } from "../../src/wire/checksum.ts";
import { IpAddr, IpInterface } from "../../src/wire/ip_addr.ts";
import { IpHeader, ipHeaderBytes } from "../../src/wire/ip_header.ts";
import { IpBench as Bench } from "../testing/ip_bench.ts";
import { hex, icmpPacket, ipPacket, pattern, udpPacket } from "../testing/ip_packets.ts";

const families = [
  { name: "IPv4", here: "10.7.0.1", left: "10.7.0.2", right: "10.8.0.2", nowhere: "10.9.0.1" },
  { name: "IPv6", here: "fd07::1", left: "fd07::2", right: "fd08::2", nowhere: "fd09::1" },
];

for (const { name, here, left, right, nowhere } of families) {
  const v4 = name === "IPv4";

  Deno.test(`${name}: a packet for us goes up, trimmed to its stated length`, () => {
    const bench = new Bench();
    const p = ipPacket(bench.memory.pool, { src: left, dst: here, payload: pattern(11) });
    p.end += 7;
    assertEquals(bench.input(p), "up");
    assertEquals(p.end - p.l4, 11);
    assertEquals(p.l4 - p.start, ipHeaderBytes(v4 ? 4 : 6));
    bench.done();
  });

  Deno.test(`${name}: a packet for another host is forwarded with one hop less and all else unchanged`, () => {
    const bench = new Bench();
    const p = ipPacket(bench.memory.pool, { src: left, dst: right, ttl: 2, payload: pattern(99), trafficClass: 0xb9 });
    const before = p.toBytes().slice();
    p.flow = 8;
    p.departAt = 77;
    assertEquals(bench.input(p), "down");
    const { ip } = bench.sent();
    assertEquals(ip.ttl, 1);
    assertEquals(p.ifindex, 2);
    assertEquals(p.departAt, 0);
    assertEquals(p.flow & 1, 1);
    const after = p.toBytes();
    const changed = Array.from(after.keys()).filter((i) => after[i] !== before[i]);
    assertEquals(changed, v4 ? [8, 10] : [7]);
    assertEquals(bench.ip.forwarded, 1);
    bench.memory.pool.release(p);
    bench.done();
  });

  Deno.test(`${name}: without forwarding, a packet for another host is counted and not answered`, () => {
    const bench = new Bench(false);
    assertEquals(bench.send({ src: left, dst: right }), "not-forwarding");
    assertEquals(bench.send({ src: left, dst: nowhere }), "not-forwarding");
    bench.done();
  });

  for (const ttl of [0, 1]) {
    Deno.test(`${name}: TTL ${ttl} is answered with time exceeded, before the route is looked at`, () => {
      for (const dst of [right, nowhere]) {
        const bench = new Bench();
        assertEquals(bench.send({ src: left, dst, ttl, payload: pattern(16) }), "ttl-exceeded down");
        const { p, ip, icmp, quote } = bench.sent();
        assertEquals([icmp.type, icmp.code, icmp.id, icmp.seq], [v4 ? 11 : 3, 0, 0, 0]);
        assertEquals(`${new IpAddr(ip.src0, ip.src1, ip.src2, ip.src3)}`, here);
        assertEquals(`${new IpAddr(ip.dst0, ip.dst1, ip.dst2, ip.dst3)}`, left);
        assertEquals(p.ifindex, 1);
        assertEquals(quote.length, (v4 ? 20 : 40) + 16);
        bench.memory.pool.release(p);
        bench.done();
      }
    });
  }

  Deno.test(`${name}: a TTL of 1 is enough for a packet for us`, () => {
    const bench = new Bench();
    assertEquals(bench.send({ src: left, dst: here, ttl: 1 }), "up");
    bench.done();
  });

  Deno.test(`${name}: no route is answered with destination unreachable, code 0`, () => {
    const bench = new Bench();
    assertEquals(bench.send({ src: left, dst: nowhere }), "no-route down");
    const { p, icmp } = bench.sent();
    assertEquals([icmp.type, icmp.code], [v4 ? 3 : 1, 0]);
    bench.memory.pool.release(p);
    bench.done();
  });

  Deno.test(`${name}: a packet of exactly the MTU passes, one byte more is answered with the MTU`, () => {
    const room = 1300 - ipHeaderBytes(v4 ? 4 : 6);
    for (const dontFragment of v4 ? [true] : [true, false]) {
      const bench = new Bench();
      assertEquals(bench.send({ src: left, dst: right, payload: pattern(room), dontFragment }), "down");
      bench.memory.pool.release(bench.sent().p);
      assertEquals(bench.send({ src: left, dst: right, payload: pattern(room + 1), dontFragment }), "too-big down");
      const { p, icmp } = bench.sent();
      assertEquals([icmp.type, icmp.code, icmp.id, icmp.seq], [v4 ? 3 : 2, v4 ? 4 : 0, 0, 1300]);
      bench.memory.pool.release(p);
      bench.done();
    }
  });

  Deno.test(`${name}: an error quotes the packet as it came and stays within its size`, () => {
    const bench = new Bench();
    const p = ipPacket(bench.memory.pool, { src: left, dst: nowhere, payload: pattern(1400) });
    const before = p.toBytes().slice();
    assertEquals(bench.input(p), "no-route down");
    const sent = bench.sent();
    assertEquals(sent.p.length, v4 ? 576 : 1280);
    assertEquals(hex(sent.quote), hex(before.subarray(0, sent.quote.length)));
    bench.memory.pool.release(sent.p);
    bench.done();
  });

  Deno.test(`${name}: an error is no larger than the way to its receiver carries, and may be cut further on`, () => {
    for (const mtu of v4 ? [575, 300, 68] : [1280]) {
      const bench = new Bench();
      bench.ip.setMtu(1, mtu);
      assertEquals(bench.send({ src: left, dst: nowhere, payload: pattern(1400) }), "no-route down");
      const { p, ip } = bench.sent();
      assertEquals([p.length, ip.dontFragment], [mtu, !v4]);
      bench.memory.pool.release(p);
      bench.done();
    }
    // And than what is known of the path behind it.
    const bench = new Bench();
    const { w0, w1, w2, w3 } = IpAddr.parse(left);
    assertEquals(bench.ip.learnPathMtu(w0, w1, w2, w3, v4 ? 552 : 1280, 1500, 0), true);
    assertEquals(bench.send({ src: left, dst: nowhere, payload: pattern(1400) }), "no-route down");
    const { p } = bench.sent();
    assertEquals(p.length, v4 ? 552 : 1280);
    bench.memory.pool.release(p);
    bench.done();
  });

  Deno.test(`${name}: a source that is no single host, or our own, is a martian and never answered`, () => {
    const bench = new Bench();
    const bad = v4
      ? ["0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "10.7.0.255", here]
      : ["::", "::1", "ff02::1", "::2", here];
    for (const src of bad) {
      for (const dst of [here, right, nowhere]) {
        assertEquals(bench.send({ src, dst, ttl: 1 }), "martian", `${src} to ${dst}`);
      }
    }
    bench.done();
  });

  Deno.test(`${name}: a destination that is no single host is a martian and never answered`, () => {
    const bench = new Bench();
    const bad = v4
      ? ["0.0.0.0", "127.0.0.1", "224.0.0.5", "255.255.255.255", "10.7.0.255", "240.0.0.1"]
      : ["::", "::1", "ff02::1", "ff02::16", "ff02::2"];
    for (const dst of bad) assertEquals(bench.send({ src: left, dst, ttl: 1 }), "martian", dst);
    bench.done();
  });

  Deno.test(`${name}: link-local addresses are not forwarded`, () => {
    const bench = new Bench();
    const local = v4 ? "169.254.1.1" : "fe80::1";
    assertEquals(bench.send({ src: local, dst: right }), "martian");
    assertEquals(bench.send({ src: left, dst: local }), "martian");
    assertEquals(bench.send({ src: local, dst: here }), "up");
    bench.done();
  });

  Deno.test(`${name}: errors and unknown ICMP types are never answered, echo is`, () => {
    const bench = new Bench();
    const answered = (type: number): boolean => {
      const p = icmpPacket(bench.memory.pool, { src: left, dst: nowhere, type });
      return bench.input(p, type * SECOND) === "no-route down";
    };
    const types = Array.from({ length: 256 }, (_, type) => type).filter(answered);
    const expected = v4
      ? [0, 8, 13, 14, 15, 16, 17, 18]
      : Array.from({ length: 128 }, (_, i) => 128 + i).filter((type) => type !== 137);
    assertEquals(types, expected);
    bench.done();
  });

  Deno.test(`${name}: seven errors to one host in a burst are six; another host still gets its own`, () => {
    const bench = new Bench();
    const results: string[] = [];
    for (let i = 0; i < 7; i++) results.push(bench.send({ src: left, dst: right, ttl: 1 }));
    assertEquals(results.filter((r) => r === "ttl-exceeded down").length, 6);
    assertEquals(results[6], "ttl-exceeded");
    assertEquals(bench.ip.errors.limited, 1);
    assertEquals(bench.ip.errors.sent, 6);
    assertEquals(bench.send({ src: v4 ? "10.7.0.3" : "fd07::3", dst: right, ttl: 1 }), "ttl-exceeded down");
    assertEquals(bench.send({ src: left, dst: right, ttl: 1 }, SECOND), "ttl-exceeded down");
    bench.done();
  });

  Deno.test(`${name}: "too big" is not limited for one host`, () => {
    const bench = new Bench();
    for (let i = 0; i < 200; i++) {
      assertEquals(bench.send({ src: left, dst: right, payload: pattern(1400) }, i * MILLISECOND), "too-big down");
    }
    assertEquals(bench.ip.errors.sent, 200);
    bench.done();
  });

  Deno.test(`${name}: an error that has no way back is not charged`, () => {
    const bench = new Bench();
    for (let i = 0; i < 100; i++) assertEquals(bench.send({ src: nowhere, dst: right, ttl: 1 }), "ttl-exceeded");
    assertEquals(bench.ip.errors.limited, 0);
    for (let i = 0; i < 6; i++) assertEquals(bench.send({ src: left, dst: right, ttl: 1 }), "ttl-exceeded down");
    bench.done();
  });

  Deno.test(`${name}: output prepends the header, routes, and sets interface and flow`, () => {
    const bench = new Bench();
    const p = bench.memory.pool.acquire()!;
    p.bytes.set(pattern(20), p.start);
    p.end += 20;
    const ip = new IpHeader();
    ip.setAddresses(IpAddr.parse(here), IpAddr.parse(right));
    ip.setDefaults(17, 0);
    ip.ttl = 33;
    ip.trafficClass = 0x10;
    assertEquals(bench.ip.output(p, ip, 0), DropReason.None);
    const sent = bench.sent();
    assertEquals(sent.p, p);
    assertEquals([sent.ip.ttl, sent.ip.trafficClass, sent.ip.payloadLength, sent.ip.protocol], [33, 0x10, 20, 17]);
    assertEquals(p.ifindex, 2);
    assertEquals(p.flow & 1, 1);
    assertEquals(hex(p.bytes.subarray(p.l4, p.end)), hex(pattern(20)));
    bench.memory.pool.release(p);
    bench.done();
  });

  Deno.test(`${name}: output keeps a flow that is set, and refuses without touching the packet`, () => {
    const bench = new Bench();
    const p = bench.memory.pool.acquire()!;
    p.end += 1300;
    p.flow = 42;
    const start = p.start;
    const ip = new IpHeader();
    const output = (dst: string): DropReason => {
      ip.setAddresses(IpAddr.parse(here), IpAddr.parse(dst));
      ip.setDefaults(17, 0);
      return bench.ip.output(p, ip, 0);
    };
    assertEquals(output(right), DropReason.TooBig);
    assertEquals(output(nowhere), DropReason.NoRoute);
    assertEquals(output(v4 ? "224.0.0.1" : "ff02::1"), DropReason.Martian);
    assertEquals(output(v4 ? "127.0.0.1" : "::1"), DropReason.Martian);
    if (v4) assertEquals(output("10.7.0.255"), DropReason.Martian);
    assertEquals([p.start, p.length, p.flow], [start, 1300, 42]);
    assertEquals(output(left), DropReason.None);
    assertEquals(p.flow, 42);
    assertEquals(p.ifindex, 1);
    bench.done();
  });

  Deno.test(`${name}: a loopback address is no source of what leaves the host`, () => {
    const bench = new Bench();
    const loopback = v4 ? "127.0.0.1" : "::1";
    bench.ip.addAddress(IpInterface.parse(loopback));
    const output = (src: string, dst: string): string => {
      const p = bench.memory.pool.acquire()!;
      p.end += 20;
      const ip = new IpHeader();
      ip.setAddresses(IpAddr.parse(src), IpAddr.parse(dst));
      ip.setDefaults(17, 0);
      const reason = bench.ip.output(p, ip, 0);
      if (reason !== DropReason.None) assertEquals([p.start, p.length], [128, 20]);
      bench.memory.pool.release(reason === DropReason.None ? bench.down.shift()! : p);
      return DropReason[reason]!;
    };
    assertEquals([output(loopback, right), output(loopback, here), output(here, loopback), output(here, right)], [
      "Martian",
      "None",
      "None",
      "None",
    ]);
    bench.done();
  });

  Deno.test(`${name}: a packet to an own address leaves by the loopback interface and may come in again`, () => {
    const bench = new Bench();
    const p = bench.memory.pool.acquire()!;
    p.end += 100;
    const ip = new IpHeader();
    ip.setAddresses(IpAddr.parse(here), IpAddr.parse(here));
    ip.setDefaults(17, 0);
    assertEquals(bench.ip.output(p, ip, 0), DropReason.None);
    assertEquals(bench.down.shift(), p);
    assertEquals(p.ifindex, 0);
    assertEquals(bench.input(p), "up");
    bench.done();
  });

  Deno.test(`${name}: the MTU on the way to a destination`, () => {
    const bench = new Bench();
    const mtus = [left, right, here, nowhere].map((text) => bench.ip.mtuTo(IpAddr.parse(text)));
    assertEquals(mtus, [1500, 1300, LOOPBACK_MTU, 0]);
    bench.done();
  });

  Deno.test(`${name}: packets of one flow share their number, others do not`, () => {
    const bench = new Bench();
    const flow = (srcPort: number, dstPort: number): number => {
      bench.input(udpPacket(bench.memory.pool, { src: left, dst: right, srcPort, dstPort, payload: pattern(4) }));
      const { p } = bench.sent();
      bench.memory.pool.release(p);
      return p.flow;
    };
    assertEquals(flow(1000, 2000), flow(1000, 2000));
    assertNotEquals(flow(1000, 2000), flow(1001, 2000));
    assertNotEquals(flow(1000, 2000), flow(1000, 2001));
    const echo = (id: number, seq: number): number => {
      bench.input(icmpPacket(bench.memory.pool, { src: left, dst: right, type: v4 ? 8 : 128, id, seq }));
      const { p } = bench.sent();
      bench.memory.pool.release(p);
      return p.flow;
    };
    assertEquals(echo(7, 1), echo(7, 2));
    assertNotEquals(echo(7, 1), echo(8, 1));
    bench.done();
  });

  Deno.test(`${name}: with an empty pool the error is left out, the packet still counted`, () => {
    const bench = new Bench();
    const p = ipPacket(bench.memory.pool, { src: left, dst: nowhere });
    const held: Packet[] = [];
    for (let q = bench.memory.pool.acquire(); q !== null; q = bench.memory.pool.acquire()) held.push(q);
    assertEquals(bench.input(p), "no-route");
    for (const q of held) bench.memory.pool.release(q);
    bench.done();
  });
}

Deno.test("IPv4 fragments for us wait for the others, for others they pass as one flow", () => {
  const bench = new Bench();
  const first = {
    src: "10.7.0.2",
    id: 5,
    moreFragments: true,
    dontFragment: false,
    payload: pattern(16),
    protocol: 17,
  };
  const last = { ...first, moreFragments: false, fragmentOffset: 16 };
  assertEquals(bench.send({ ...first, dst: "10.7.0.1" }), "");
  assertEquals(bench.send({ ...last, dst: "10.7.0.1" }), "up");
  assertEquals(bench.send({ ...first, dst: "10.8.0.2" }), "down");
  assertEquals(bench.send({ ...last, dst: "10.8.0.2" }), "down");
  const a = bench.down.shift()!;
  const b = bench.down.shift()!;
  assertEquals(a.flow, b.flow);
  bench.memory.pool.release(a);
  bench.memory.pool.release(b);
  bench.done();
});

Deno.test("a fragment other than the first is never answered", () => {
  const bench = new Bench();
  const options = { src: "10.7.0.2", dst: "10.9.0.1", dontFragment: false, payload: pattern(16) };
  assertEquals(bench.send({ ...options, fragmentOffset: 8 }), "no-route");
  assertEquals(bench.send({ ...options, moreFragments: true }), "no-route down");
  bench.done();
});

Deno.test("IPv6: an ICMPv6 error behind extension headers is not answered, an echo there is", () => {
  const bench = new Bench();
  const send = (protocol: number, ...bytes: number[]): string =>
    bench.send({ src: "fd07::2", dst: "fd09::1", protocol, payload: Uint8Array.from(bytes) });
  const options = [58, 0, 1, 4, 0, 0, 0, 0];
  assertEquals(send(60, ...options, 1, 0, 0, 0), "no-route");
  assertEquals(send(60, ...options, 128, 0, 0, 0), "no-route down");
  assertEquals(send(0, 60, 0, 1, 4, 0, 0, 0, 0, ...options, 3, 0), "no-route");
  assertEquals(send(44, 58, 0, 0, 1, 0, 0, 0, 0, 128, 0, 0, 0), "no-route down");
  assertEquals(send(44, 58, 0, 0, 9, 0, 0, 0, 0, 128, 0, 0, 0), "no-route");
  assertEquals(send(60, 58, 200, 0, 0), "no-route");
  assertEquals(send(60, 6), "no-route");
  bench.done();
});

Deno.test("IPv6: every fragment that is too big is answered with the MTU, but for one of ICMPv6; an IPv4 one only as the first", () => {
  const bench = new Bench();
  const send = (next: number, offset: number): string => {
    const payload = Uint8Array.from([next, 0, offset >> 8, (offset & 0xf8) | 1, 0, 0, 0, 1, ...pattern(1400)]);
    return bench.send({ src: "fd07::2", dst: "fd08::2", protocol: 44, payload });
  };
  for (const offset of [0, 8, 2800]) {
    assertEquals(send(17, offset), "too-big down");
    const { p, icmp } = bench.sent();
    assertEquals([icmp.type, icmp.seq], [2, 1300]);
    bench.memory.pool.release(p);
  }
  assertEquals(send(58, 8), "too-big", "it might be of an error");
  for (const fragmentOffset of [0, 8]) {
    const piece = { src: "10.7.0.2", dst: "10.8.0.2", payload: pattern(1400), moreFragments: true, fragmentOffset };
    assertEquals(bench.send(piece), fragmentOffset === 0 ? "too-big down" : "too-big");
  }
  bench.done();
});

Deno.test("an IPv6 packet cannot pass for an IPv4 one by mapped addresses", () => {
  const bench = new Bench();
  const p = ipPacket(bench.memory.pool, { src: "fd07::2", dst: "fd07::1" });
  const at = p.start + 8;
  p.bytes.set([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 7, 0, 2], at);
  assertEquals(bench.input(p), "martian");
  const q = ipPacket(bench.memory.pool, { src: "fd07::2", dst: "fd07::1" });
  q.bytes.set([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 7, 0, 1], q.start + 24);
  assertEquals(bench.input(q), "martian");
  bench.done();
});

Deno.test("golden: time exceeded over IPv4", () => {
  const bench = new Bench();
  bench.input(udpPacket(bench.memory.pool, {
    src: "10.7.0.2",
    dst: "10.8.0.2",
    ttl: 1,
    srcPort: 33434,
    dstPort: 33435,
    payload: pattern(2),
  }));
  const { p } = bench.sent();
  assertEquals(
    hex(p.toBytes()),
    [
      "45 c0 00 3a c1 61 00 00 40 01 a4 91 0a 07 00 01 0a 07 00 02",
      "0b 00 09 2e 00 00 00 00",
      "45 00 00 1e 00 00 40 00 01 11 65 bd 0a 07 00 02 0a 08 00 02",
      "82 9a 82 9b 00 0a e6 90 00 01",
    ].join(" "),
  );
  bench.memory.pool.release(p);
  bench.done();
});

Deno.test("the TTL's checksum update is right for any header, and stays right at each hop", () => {
  fc.assert(
    fc.property(fc.integer({ min: 2, max: 255 }), fc.nat(0xffff), fc.nat(0xff), (ttl, id, trafficClass) => {
      const bench = new Bench();
      const p = ipPacket(bench.memory.pool, { src: "10.7.0.2", dst: "10.8.0.2", ttl, id, trafficClass });
      for (let hops = ttl; hops > 1; hops--) {
        assertEquals(bench.input(p), "down");
        bench.down.shift();
        assertEquals(checksumFinish(checksumSum(p.view, p.start, p.start + 20)), 0);
        assertEquals(p.view.getUint8(p.start + 8), hops - 1);
      }
      bench.memory.pool.release(p);
      bench.done();
    }),
    { numRuns: 20 },
  );
});

Deno.test("any bytes: nothing throws, and every packet ends up, down or counted", () => {
  const bench = new Bench();
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 120 }), fc.boolean(), fc.nat(5), (bytes, v6, fix) => {
      const p = bench.memory.pool.acquire()!;
      p.bytes.set(bytes, p.start);
      p.end = p.start + bytes.length;
      p.ifindex = 1;
      if (bytes.length > 20 && fix > 0) {
        // Make it pass the first checks, so that the later ones are reached.
        p.view.setUint8(p.start, v6 ? 0x60 : 0x45);
        if (v6) {
          p.view.setUint16(p.start + 4, Math.max(0, bytes.length - 40));
          if (fix > 2 && bytes.length >= 40) p.bytes.set([0xfd, 7, 0, 0, 0, 0, 0, 0], p.start + 8);
        } else {
          p.view.setUint16(p.start + 2, bytes.length);
          p.view.setUint16(p.start + 10, 0);
          p.view.setUint16(p.start + 10, checksumFinish(checksumSum(p.view, p.start, p.start + 20)));
        }
      }
      const dropped = bench.memory.drops.total();
      bench.ip.input(p, 0);
      const ups = bench.up.packets;
      const downs = bench.down.packets;
      assert(bench.memory.drops.total() - dropped + ups + downs >= 1);
      bench.done();
    }),
    { numRuns: 2000 },
  );
});

Deno.test("interfaces need an index above 0 that is free", () => {
  const bench = new Bench();
  assertThrows(() => bench.ip.addInterface({ ifindex: 0, name: "x", mtu: 1500 }), RangeError, "above 0");
  assertThrows(() => bench.ip.addInterface({ ifindex: 2, name: "x", mtu: 1500 }), RangeError, "there already");
});
