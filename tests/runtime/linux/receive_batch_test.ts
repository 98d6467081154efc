/**
 * Reception: trains are cut where they were joined, and a kernel that says nonsense does no harm.
 *
 * @module
 */

import { assert, assertEquals, assertLessOrEqual } from "@std/assert";
import fc from "fast-check";
import { DropCounters, DropReason } from "../../../src/base/drop.ts";
import { HEADROOM_BYTES, PacketPool, SLOT_BYTES } from "../../../src/base/packet.ts";
import { IpOption, Ipv6Option, Level, UdpOption } from "../../../src/runtime/linux/abi.ts";
import { ReceiveBatch } from "../../../src/runtime/linux/receive_batch.ts";
import { IpAddr } from "../../../src/wire/ip_addr.ts";
import { controlMessage, FakeLibc, int, type ReceivedMessage, sockaddrIn } from "../../testing/fake_libc.ts";

const LARGEST = SLOT_BYTES - HEADROOM_BYTES;
const NAME = sockaddrIn([192, 0, 2, 7], 4790);
const NOTHING = new Uint8Array(0);

function batchOf(packets = 10_000) {
  const libc = new FakeLibc();
  const context = { pool: new PacketPool(packets), drops: new DropCounters(), fault: () => {} };
  const counts = { datagrams: 0, bytes: 0, errors: [] as number[] };
  const batch = new ReceiveBatch(libc, context, {
    received: (datagrams, bytes) => {
      counts.datagrams += datagrams;
      counts.bytes += bytes;
    },
    failed: (errno) => counts.errors.push(errno),
  });
  const received: { length: number; fill: number; from: string; trafficClass: number }[] = [];
  const drain = (limit: number): number =>
    batch.drain(limit, {
      inputDatagram: (p, w0, w1, w2, w3, port) => {
        const bytes = p.toBytes();
        assertEquals(p.start, HEADROOM_BYTES);
        assert(bytes.every((byte) => byte === bytes[0]), "pieces ran into each other");
        const from = `${new IpAddr(w0, w1, w2, w3)} ${port}`;
        received.push({ length: bytes.length, fill: bytes[0]!, from, trafficClass: p.outerTrafficClass });
        context.pool.release(p);
      },
    }, 0);
  return { libc, context, counts, batch, received, drain };
}

/** A message of pieces, each filled with its number. */
function train(lengths: readonly number[], control: Uint8Array): ReceivedMessage {
  const bytes = new Uint8Array(lengths.reduce((n, length) => n + length, 0));
  let at = 0;
  lengths.forEach((length, i) => {
    bytes.fill(i, at, at + length);
    at += length;
  });
  return { name: NAME, bytes, control };
}

const gro = (bytes: number): Uint8Array => controlMessage(Level.Udp, UdpOption.Gro, int(bytes));

Deno.test("receive batch: a train is cut, a single datagram is not, both with their source and traffic class", () => {
  const { libc, batch, received, drain, counts, context } = batchOf();
  const tos = controlMessage(Level.Ip, IpOption.Tos, [0xb9]);
  const both = new Uint8Array([...gro(1400), ...tos]);
  libc.incoming = [train([1400, 1400, 1400, 3], both), train([52], NOTHING), train([900], gro(1400))];
  assertEquals(batch.fill(3), 3);
  assertEquals(batch.waiting, 6);
  assertEquals(drain(2), 2);
  assertEquals(batch.waiting, 4);
  assertEquals(batch.fill(3), 0);
  assertEquals(drain(64), 4);
  assertEquals(received.map(({ length }) => length), [1400, 1400, 1400, 3, 52, 900]);
  assertEquals(received.map(({ fill }) => fill), [0, 1, 2, 3, 0, 0]);
  assertEquals(received.map(({ trafficClass }) => trafficClass), [0xb9, 0xb9, 0xb9, 0xb9, 0, 0]);
  assertEquals(new Set(received.map(({ from }) => from)), new Set(["192.0.2.7 4790"]));
  assertEquals(counts, { datagrams: 6, bytes: 5155, errors: [] });
  assertEquals(context.drops.total(), 0);
  assertEquals(batch.fill(3), -11);
  assertEquals(counts.errors, []);
});

Deno.test("receive batch: IPv6 sources and traffic classes", () => {
  const { libc, batch, received, drain } = batchOf();
  const address = [0xfd, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
  libc.incoming = [{
    name: [10, 0, 0x12, 0x34, 1, 2, 3, 4, ...address, 9, 0, 0, 0],
    bytes: new Uint8Array(20),
    control: controlMessage(Level.Ipv6, Ipv6Option.TrafficClass, int(3)),
  }];
  batch.fill(3);
  drain(1);
  assertEquals(received, [{ length: 20, fill: 0, from: "fd00:9::2 4660", trafficClass: 3 }]);
});

Deno.test("receive batch: how much is asked for follows from the length of trains", () => {
  const { libc, batch, drain } = batchOf();
  let offered = 0;
  const recvmmsg = libc.recvmmsg.bind(libc);
  libc.recvmmsg = (fd, messages, count) => {
    offered = count;
    return recvmmsg(fd, messages, count);
  };
  libc.incoming = Array.from({ length: 100 }, () => train([100], NOTHING));
  batch.fill(3);
  assertEquals([offered, batch.waiting, batch.isMore], [64, 64, true]);
  drain(64);
  libc.incoming = Array.from({ length: 3 }, () => train(new Array(40).fill(100), gro(100)));
  batch.fill(3);
  assertEquals([offered, batch.waiting, batch.isMore], [64, 120, false]);
  drain(120);
  batch.fill(3);
  assertEquals(offered, 2);
});

Deno.test("receive batch: too large is dropped piece by piece, a last piece that fits is not", () => {
  const { libc, batch, received, drain, context, counts } = batchOf();
  libc.incoming = [
    train([LARGEST + 1], NOTHING),
    train([LARGEST], NOTHING),
    train([3000, 3000, 7], gro(3000)),
    train([3000, 2000], gro(3000)),
    { ...train([65536], NOTHING), bytes: new Uint8Array(70_000) },
    { ...train([10], NOTHING), flags: 0x20 },
  ];
  batch.fill(3);
  drain(64);
  assertEquals(received.map(({ length, fill }) => [length, fill]), [[LARGEST, 0], [7, 2]]);
  assertEquals(context.drops.toJSON(), { "too-big": 7 });
  assertEquals(counts.datagrams, 2);
  assertEquals(batch.waiting, 0);
});

Deno.test("receive batch: an empty pool is a counted drop, and the others still come", () => {
  const { libc, batch, drain, context } = batchOf(1);
  const held = context.pool.acquire()!;
  libc.incoming = [train([100, 100], gro(100))];
  batch.fill(3);
  assertEquals(drain(64), 2);
  assertEquals(context.drops.get(DropReason.PoolExhausted), 2);
  context.pool.release(held);
});

Deno.test("receive batch: errors of the system are told, but for those that mean nothing is there", () => {
  const { libc, batch, counts } = batchOf();
  for (const errno of [11, 4, 111, 9]) {
    libc.emptyResult = -errno;
    assertEquals(batch.fill(3), -errno);
  }
  assertEquals(counts.errors, [111, 9]);
});

Deno.test("receive batch: what waits at the end is counted as dropped", () => {
  const { libc, batch, context, drain } = batchOf();
  libc.incoming = [train([100, 100, 100], gro(100))];
  batch.fill(3);
  drain(1);
  batch.clear();
  assertEquals(context.drops.get(DropReason.Closed), 2);
  assertEquals(batch.waiting, 0);
  libc.incoming = [train([5], NOTHING)];
  assertEquals(batch.fill(3), 1);
});

Deno.test("receive batch: a hostile kernel cannot make it throw, leak or read outside", () => {
  const anySize = fc.oneof(fc.nat(3000), fc.constantFrom(0, 1, 2, 65535, 65536, 65537, 2 ** 31, 2 ** 32 - 1));
  const anyControl = fc.oneof(
    fc.constant(NOTHING),
    anySize.map((size) => gro(size)),
    fc.uint8Array({ maxLength: 200 }),
    fc.tuple(fc.nat(40), anySize).map(([cut, size]) => gro(size).slice(0, cut)),
  );
  const anyMessage = fc.record({
    name: fc.oneof(fc.constant(NAME), fc.array(fc.nat(255), { maxLength: 40 })),
    bytes: fc.nat(70_000).map((length) => new Uint8Array(length)),
    control: anyControl,
    flags: fc.constantFrom(0, 0, 0, 0x8, 0x20, -1),
    claim: fc.record({ moved: anySize, control: anySize, name: anySize }, { requiredKeys: [] }),
  });
  fc.assert(
    fc.property(fc.array(fc.array(anyMessage, { maxLength: 8 }), { maxLength: 5 }), (calls) => {
      const { libc, batch, context, received, drain, counts } = batchOf(50);
      for (const messages of calls) {
        libc.incoming = [...messages] as ReceivedMessage[];
        batch.fill(3);
        assertLessOrEqual(batch.waiting, messages.length * 65536);
        let n = 0;
        for (let got = drain(64); got > 0; got = drain(64)) n += got;
        assertLessOrEqual(n, messages.length * 65536);
        assertEquals(batch.waiting, 0);
      }
      assertEquals(received.length, counts.datagrams);
      assertEquals(received.reduce((n, { length }) => n + length, 0), counts.bytes);
      for (const { length } of received) assert(length > 0 && length <= LARGEST);
      assertEquals(context.pool.inUse, 0);
    }),
    { numRuns: 60 },
  );
});
