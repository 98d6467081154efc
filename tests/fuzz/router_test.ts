/**
 * Mutated captures into a router: whatever comes, nothing throws, nothing leaks, every packet is forwarded, delivered, held
 * as a fragment or counted as dropped; and what is forwarded is what came, but for TTL and checksum.
 *
 * FUZZ_PACKETS says how many packets (default 100,000, which takes a few seconds).
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { DropReason } from "../../src/base/drop.ts";
import { Rng } from "../../src/base/rng.ts";
import { MILLISECOND, SECOND } from "../../src/base/time.ts";
import { ENCAPSULATIONS } from "../../src/tunnel/make_encapsulation.ts";
import { parseHostConfig } from "../../src/stack/config.ts";
import { Stack } from "../../src/stack/stack.ts";
import { checksumFinish, checksumSum } from "../../src/wire/checksum.ts";
import { IpAddr, IpPrefix } from "../../src/wire/ip_addr.ts";
import { IpHeader, parseIp } from "../../src/wire/ip_header.ts";
import { RouteKind } from "../../src/ip/route_table.ts";
import { fromHex } from "../testing/bytes.ts";
import { IpBench } from "../testing/ip_bench.ts";
import { icmpPacket, ipPacket, type IpPacketOptions, pattern, TestPool, udpPacket } from "../testing/ip_packets.ts";
import { KERNEL_PACKETS } from "../testing/kernel_packets.ts";

const PACKETS = Number(Deno.env.get("FUZZ_PACKETS") ?? 100_000);

/** Good packets of each kind. */
function corpus(): Uint8Array<ArrayBuffer>[] {
  const memory = new TestPool();
  const all: Uint8Array<ArrayBuffer>[] = KERNEL_PACKETS.map(({ hex }) => fromHex(hex));
  const add = (options: IpPacketOptions): number => all.push(ipPacket(memory.pool, options).toBytes().slice());
  const ends = [["10.7.0.2", "10.7.0.1", "10.8.0.2"], ["fd07::2", "fd07::1", "fd08::2"]];
  for (const [src, here, there] of ends as [string, string, string][]) {
    const v4 = !src.includes(":");
    for (const dst of [here, there]) {
      for (const bytes of [0, 9, 1000, 1400]) {
        const ports = { src, dst, srcPort: 5000, dstPort: 53, payload: pattern(bytes) };
        for (const dontFragment of [true, false]) {
          all.push(udpPacket(memory.pool, { ...ports, dontFragment }).toBytes().slice());
        }
        all.push(udpPacket(memory.pool, { ...ports, ttl: 1 }).toBytes().slice());
      }
      for (const type of v4 ? [0, 3, 5, 8, 11, 12, 13] : [1, 2, 3, 4, 128, 129, 133, 137]) {
        const quote = ipPacket(memory.pool, { src: dst, dst: src, protocol: 17, payload: pattern(16) }).toBytes();
        all.push(icmpPacket(memory.pool, { src, dst, type, payload: quote }).toBytes().slice());
      }
      for (const offset of [0, 8, 16]) {
        const more = offset < 16;
        if (v4) {
          const facts = { dontFragment: false, moreFragments: more, fragmentOffset: offset, id: 77, protocol: 253 };
          add({ src, dst, ...facts, payload: pattern(8) });
        } else {
          add({
            src,
            dst,
            protocol: 44,
            payload: Uint8Array.of(253, 0, 0, offset | (more ? 1 : 0), 0, 0, 0, 77, 1, 2, 3, 4, 5, 6, 7, 8),
          });
        }
      }
      if (v4) {
        const options = ipPacket(memory.pool, {
          src,
          dst,
          payload: Uint8Array.of(148, 4, 0, 0, 7, 7, 4, 0, 0, 0, 0, 1, 9),
        });
        options.view.setUint8(options.start, 0x48);
        const bytes = options.toBytes().slice();
        fixIpv4(bytes);
        all.push(bytes);
      } else {
        add({
          src,
          dst,
          protocol: 0,
          payload: Uint8Array.of(
            60,
            0,
            5,
            2,
            0,
            0,
            1,
            0,
            43,
            0,
            1,
            4,
            0,
            0,
            0,
            0,
            17,
            0,
            3,
            0,
            0,
            0,
            0,
            0,
            0,
            1,
            0,
            2,
            0,
            8,
            0,
            0,
          ),
        });
      }
    }
  }
  return all;
}

/** Gives an IPv4 packet a right header checksum and a total length that fits. */
function fixIpv4(bytes: Uint8Array<ArrayBuffer>): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const headerBytes = Math.min(bytes.length, (bytes[0]! & 15) * 4);
  if (bytes.length < 20 || headerBytes < 20) return;
  if (view.getUint16(2) > bytes.length) view.setUint16(2, bytes.length);
  view.setUint16(10, 0);
  view.setUint16(10, checksumFinish(checksumSum(view, 0, headerBytes)));
}

const ADDRESSES = [
  "10.7.0.1",
  "10.7.0.2",
  "10.8.0.2",
  "10.8.0.255",
  "10.7.0.255",
  "10.9.0.1",
  "10.10.0.1",
  "224.0.0.1",
  "127.0.0.1",
  "fd07::1",
  "fd07::2",
  "fd08::2",
  "fd09::1",
  "fd10::1",
  "ff02::1",
  "::1",
  "fe80::1",
  "::",
]
  .map((text) => IpAddr.parse(text));

/** One of the good packets, changed in some way; most of them so that the first checks are passed. */
function mutant(rng: Rng, good: readonly Uint8Array<ArrayBuffer>[]): Uint8Array<ArrayBuffer> {
  let bytes = good[rng.below(good.length)]!.slice();
  for (let n = rng.below(4); n > 0; n--) {
    switch (rng.below(6)) {
      case 0: // a bit, near the front more often
        if (bytes.length > 0) {
          bytes[rng.below(Math.min(bytes.length, rng.below(2) === 0 ? 64 : 2000))]! ^= 1 << rng.below(8);
        }
        break;
      case 1: // a byte
        if (bytes.length > 0) bytes[rng.below(Math.min(bytes.length, 80))] = rng.below(256);
        break;
      case 2: // cut
        bytes = bytes.slice(0, rng.below(bytes.length + 1));
        break;
      case 3: { // longer
        const longer = new Uint8Array(Math.min(1800, bytes.length + rng.below(300)));
        longer.set(bytes);
        bytes = longer;
        break;
      }
      case 4: { // another address
        const address = ADDRESSES[rng.below(ADDRESSES.length)]!;
        const isSource = rng.below(2) === 0;
        const view = new DataView(bytes.buffer);
        if (bytes[0]! >>> 4 === 4 && bytes.length >= 20) view.setInt32(isSource ? 12 : 16, address.w3);
        else if (bytes.length >= 40 && !address.isV4) {
          [address.w0, address.w1, address.w2, address.w3].forEach((word, i) =>
            view.setInt32((isSource ? 8 : 24) + 4 * i, word)
          );
        }
        break;
      }
      case 5: // random altogether
        if (rng.below(10) === 0) bytes = Uint8Array.from({ length: rng.below(200) }, () => rng.below(256));
        break;
    }
  }
  if (rng.below(8) !== 0 && bytes.length > 0) {
    if (bytes[0]! >>> 4 === 4) fixIpv4(bytes);
    else if (bytes.length >= 40 && rng.below(4) !== 0) {
      new DataView(bytes.buffer).setUint16(4, bytes.length - 40);
    }
  }
  return bytes;
}

/** Checks that `out` is `before` with one hop less. */
function assertForwarded(before: Uint8Array, out: Uint8Array, what: string): void {
  const v4 = before[0]! >>> 4 === 4;
  const ttlAt = v4 ? 8 : 7;
  assertEquals(out[ttlAt], before[ttlAt]! - 1, what);
  for (let i = 0; i < out.length; i++) {
    if (i !== ttlAt && !(v4 && (i === 10 || i === 11)) && out[i] !== before[i]) {
      throw new Error(`${what}: byte ${i} was ${before[i]}, is ${out[i]}`);
    }
  }
}

Deno.test(`${PACKETS} mutated packets into a router: each has one fate, and what is forwarded is what came`, () => {
  const rng = new Rng(2024);
  const good = corpus();
  const bench = new IpBench();
  const { memory, ip } = bench;
  ip.routes.add(IpPrefix.parse("10.9.0.0/16"), 0, { kind: RouteKind.Blackhole });
  ip.routes.add(IpPrefix.parse("fd09::/16"), 0, { kind: RouteKind.Prohibit });
  const header = new IpHeader();
  const fates = { forwarded: 0, cut: 0, up: 0, dropped: 0, held: 0 };
  let now = 0;
  for (let n = 0; n < PACKETS; n++) {
    const bytes = mutant(rng, good);
    now += rng.below(3) === 0 ? MILLISECOND * rng.below(200) : 1000;
    ip.timeout(now);
    for (let q = bench.down.shift(); q !== null; q = bench.down.shift()) memory.pool.release(q);
    const before = {
      drops: memory.drops.total(),
      forwarded: ip.forwarded,
      held: ip.reassembly.size,
      sent: ip.errors.sent,
    };
    const { completed, duplicates } = ip.reassembly;
    const p = memory.pool.acquire()!;
    p.bytes.set(bytes, p.start);
    p.end = p.start + bytes.length;
    p.ifindex = 1 + rng.below(2);
    ip.input(p, now);
    const what = `packet ${n}`;
    const forwarded = ip.forwarded - before.forwarded;
    const dropped = memory.drops.total() - before.drops;
    const ups = bench.up.packets;
    if (forwarded > 0) {
      assertEquals([forwarded, dropped, ups, ip.errors.sent], [1, 0, 0, before.sent], what);
      assertEquals(parseIp(new DataView(bytes.buffer), 0, bytes.length, header), DropReason.None);
      const whole = bytes.subarray(0, header.headerLength + header.payloadLength);
      const isCut = bench.down.packets > 1;
      if (isCut) fates.cut++;
      else fates.forwarded++;
      let data = 0;
      for (let q = bench.down.shift(); q !== null; q = bench.down.shift()) {
        assert(q.length <= ip.mtuOf(q.ifindex), what);
        const out = q.toBytes();
        assertEquals(parseIp(q.view, q.start, q.end, header), DropReason.None, what);
        if (!isCut) {
          assertEquals(out.length, whole.length, what);
          assertForwarded(whole, out, what);
        } else {
          const from = (whole[0]! & 15) * 4 + data;
          assertEquals(out.subarray(header.headerLength), whole.subarray(from, from + header.payloadLength), what);
          data += header.payloadLength;
        }
        memory.pool.release(q);
      }
      if (isCut) assertEquals(data, whole.length - (whole[0]! & 15) * 4, what);
      continue;
    }
    if (ups > 0) {
      assertEquals(ups, 1, what);
      fates.up++;
      const up = bench.up.shift()!;
      assert(up.start < up.l4 && up.l4 <= up.end, what);
      memory.pool.release(up);
    } else if (dropped > 0) fates.dropped++;
    else {
      // Held: it began a datagram, joined one, or repeats what is there.
      fates.held++;
      assert(ip.reassembly.size >= before.held && ip.reassembly.completed === completed, what);
      assert(ip.reassembly.size > 0 || ip.reassembly.duplicates > duplicates, what);
    }
    for (let q = bench.down.shift(); q !== null; q = bench.down.shift()) {
      assert(q.length <= (q.view.getUint8(q.start) >>> 4 === 4 ? 576 : 1280), "only an error is answered here");
      memory.pool.release(q);
    }
  }
  ip.close(now);
  assertEquals(memory.pool.inUse, 0);
  const { forwarded, cut, up, dropped, held } = fates;
  assertEquals(forwarded + cut + up + dropped + held, PACKETS);
  for (const [fate, count] of Object.entries(fates)) assert(count > PACKETS / 1000, `${fate} ${count}: no test of it`);
  const reasons = Object.keys(memory.drops.toJSON());
  assert(reasons.length >= 18, `only ${reasons}`);
  if (Deno.env.has("FUZZ_PACKETS")) console.log(fates, memory.drops.toJSON());
});

for (const encapsulation of ENCAPSULATIONS) {
  Deno.test(`${encapsulation}: mutated datagrams into a whole router: nothing throws, leaks or exceeds an MTU`, () => {
    const rng = new Rng(99);
    const good = corpus();
    const stack = new Stack(parseHostConfig({
      address: ["10.7.0.1/24", "fd07::1/64"],
      listen: "192.0.2.1:4790",
      peers: [
        {
          name: "a",
          endpoint: "192.0.2.2:4790",
          allowed: ["10.7.0.2", "fd07::2"],
          accept: ["10.8.0.0/16", "fd08::/16"],
        },
        { name: "b", endpoint: "192.0.2.3:4790", allowed: ["10.8.0.0/24", "fd08::/64"], mtu: 1280 },
      ],
      routes: [{ to: "10.8.0.0/24", via: "a" }, { to: "10.8.0.0/24", via: "b" }, {
        to: "10.9.0.0/16",
        type: "prohibit",
      }],
      rpFilter: "loose",
      clampMss: true,
      forward: true,
      encapsulation,
      seed: 5,
    }));
    stack.tcp.listen(IpAddr.parse("10.7.0.1"), 80);
    const mtus = stack.options.peers.map(({ mtu }) => mtu);
    let now = 0;
    let out = 0;
    for (let n = 0; n < PACKETS / 4; n++) {
      const p = stack.pool.acquire()!;
      const bytes = mutant(rng, good);
      p.bytes.set(bytes, p.start);
      p.end = p.start + bytes.length;
      // A datagram of it, of which a byte of the header may be wrong.
      if (p.length > 0) stack.tunnel!.encapsulation.emit(p, 0);
      if (rng.below(20) === 0 && p.length > 0) p.bytes[p.start + rng.below(Math.min(p.length, 8))] = rng.below(256);
      now += rng.below(4) === 0 ? rng.below(100) * MILLISECOND : 1000;
      stack.inputDatagram(p, 0, 0, 0xffff, IpAddr.parse(rng.below(2) === 0 ? "192.0.2.2" : "192.0.2.3").w3, 4790, now);
      stack.timeout(now);
      for (let q = stack.pull(now); q !== null; q = stack.pull(now)) {
        assert(q.length <= mtus[q.ifindex - 1]!);
        stack.tunnel!.output(q);
        stack.pool.release(q);
        out++;
      }
      while (stack.pollEvent() !== null);
    }
    stack.timeout(now + 1000 * SECOND);
    stack.close(now + 1000 * SECOND);
    assertEquals(stack.pool.inUse, 0);
    assert(out > PACKETS / 50, `${out}`);
  });
}
