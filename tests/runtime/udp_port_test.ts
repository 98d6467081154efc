/**
 * UDP ports: the same behaviour of every implementation, in both address families.
 *
 * @module
 */

import { assert, assertEquals, assertInstanceOf, assertLessOrEqual, assertRejects } from "@std/assert";
import { DropCounters, DropReason } from "../../src/base/drop.ts";
import { HEADROOM_BYTES, PacketPool, SLOT_BYTES } from "../../src/base/packet.ts";
import { DenoPort } from "../../src/runtime/deno_port.ts";
import { DgramPort } from "../../src/runtime/dgram_port.ts";
import { LinuxPort } from "../../src/runtime/linux/linux_port.ts";
import { MemoryNetwork, type MemoryPort } from "../../src/runtime/memory_port.ts";
import {
  AddressCache,
  type DatagramSink,
  isPolled,
  packetOf,
  type PortContext,
  ReceiveQueue,
  type UdpPort,
} from "../../src/runtime/udp_port.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { NO_LINUX_PORT } from "../testing/host_pair.ts";
import { libcForTest, pollPort } from "../testing/port_poll.ts";

interface Received {
  bytes: number[];
  from: string;
  port: number;
}

function contextOf(limit = 256): PortContext {
  return {
    pool: new PacketPool(limit),
    drops: new DropCounters(),
    fault: (error) => {
      throw error;
    },
  };
}

function sinkOf(context: PortContext, received: Received[]): DatagramSink {
  return {
    inputDatagram: (p, w0, w1, w2, w3, port) => {
      assertEquals(p.start, HEADROOM_BYTES);
      received.push({ bytes: [...p.toBytes()], from: new IpAddr(w0, w1, w2, w3).toString(), port });
      context.pool.release(p);
    },
  };
}

function send(port: UdpPort, context: PortContext, bytes: number[], to: UdpPort): void {
  const p = context.pool.acquire()!;
  p.bytes.set(bytes, p.start);
  p.end = p.start + bytes.length;
  port.send(p, to.address, to.port);
}

/** Waits until `done`, for ten seconds at most. */
async function until(done: () => boolean): Promise<void> {
  for (let i = 0; i < 10_000 && !done(); i++) await new Promise((resolve) => setTimeout(resolve, 1));
  assert(done());
}

const memory = new MemoryNetwork();

/** How to open each implementation; `Deno.listenDatagram` only where the flag makes it exist, FFI where it is granted. */
const OPEN: Record<string, (address: IpAddr, context: PortContext) => Promise<UdpPort>> = {
  dgram: (address, context) => DgramPort.open(address, 0, context),
  memory: (address, context) => Promise.resolve(memory.open(address, 0, context)),
};
if (DenoPort.serves(IpAddr.parse("127.0.0.1"))) {
  OPEN.deno = (address, context) => Promise.resolve(DenoPort.open(address, 0, context));
}

if (NO_LINUX_PORT === "") {
  OPEN.linux = (address, context) => Promise.resolve(LinuxPort.open(libcForTest(), address, 0, context));
}

/** Opens a port that tells of datagrams, whatever its kind; what it was looked at by ends with it. */
async function openTelling(
  open: (address: IpAddr, context: PortContext) => Promise<UdpPort>,
  address: string,
  context: PortContext,
): Promise<UdpPort> {
  const port = await open(IpAddr.parse(address), context);
  if (isPolled(port)) {
    const poll = pollPort(port);
    const close = port.close.bind(port);
    let closed: Promise<void> | null = null;
    // The port ends at once, and is not looked at any more when that is done.
    const closeBoth = async (): Promise<void> => {
      const portClosed = close();
      await poll[Symbol.asyncDispose]();
      await portClosed;
    };
    port.close = () => closed ??= closeBoth();
  }
  return port;
}

/** Ports do not keep the process alive; the test does. */
async function withPorts(
  open: (address: IpAddr, context: PortContext) => Promise<UdpPort>,
  address: string,
  body: (a: UdpPort, b: UdpPort, context: PortContext) => Promise<void>,
): Promise<void> {
  const keepAlive = setInterval(() => {}, 1000);
  const context = contextOf();
  const a = await openTelling(open, address, context);
  const b = await openTelling(open, address, context);
  try {
    await body(a, b, context);
  } finally {
    await Promise.all([a.close(), b.close()]);
    clearInterval(keepAlive);
  }
  assertEquals(context.pool.inUse, 0);
}

for (const [kind, open] of Object.entries(OPEN)) {
  for (const address of ["127.0.0.1", "::1"]) {
    Deno.test(`port ${kind}: carries datagrams over ${address}, with their source`, () =>
      withPorts(open, address, async (a, b, context) => {
        assertEquals(a.kind, kind);
        let readable = 0;
        b.onReadable = () => readable++;
        const received: Received[] = [];
        for (let i = 0; i < 50; i++) send(a, context, [i, 1, 2, 3], b);
        a.flush();
        await until(() => b.waiting === 50);
        assertEquals(readable, 1);
        assertEquals(b.receive(20, sinkOf(context, received), 0), 20);
        assertEquals(b.waiting, 30);
        assertEquals(b.receive(64, sinkOf(context, received), 0), 30);
        assertEquals(received.map(({ bytes }) => bytes[0]), Array.from({ length: 50 }, (_, i) => i));
        assertEquals(received[7], { bytes: [7, 1, 2, 3], from: address, port: a.port });
        assertEquals(a.stats().datagramsOut, 50);
        assertEquals(a.stats().bytesOut, 200);
        assertEquals(b.stats().datagramsIn, 50);
        assertEquals(b.stats().bytesIn, 200);
        send(b, context, [9], a);
        b.flush();
        await until(() => a.waiting === 1);
        assertEquals(readable, 1);
      }));

    Deno.test(`port ${kind}: tells of each packet that the socket was given, over ${address}`, () =>
      withPorts(open, address, async (a, b, context) => {
        const departed: number[] = [];
        context.departed = (departAt) => departed.push(departAt);
        for (let i = 1; i <= 150; i++) {
          await until(() => a.room() > 0);
          const p = context.pool.acquire()!;
          p.end = p.start + (i % 7 === 0 ? 10 : 20);
          p.departAt = i;
          a.send(p, b.address, b.port);
          if (a.room() === 0 || i % 40 === 0) a.flush();
          assert(departed.length <= i);
        }
        a.flush();
        await until(() => departed.length === 150);
        assertEquals(departed, Array.from({ length: 150 }, (_, i) => i + 1));
        await until(() => b.waiting > 0);
        while (b.receive(64, sinkOf(context, []), 0) > 0);
      }));

    Deno.test(`port ${kind}: room shrinks with what is handed over and comes back, over ${address}`, () =>
      withPorts(open, address, async (a, b, context) => {
        const room = a.room();
        let writable = 0;
        a.onWritable = () => writable++;
        if (kind === "memory") (a as MemoryPort).hold = true;
        for (let i = 0; i < room; i++) send(a, context, [i], b);
        if (kind === "memory") {
          assertEquals(a.room(), 0);
          send(a, context, [0], b);
          assertEquals(context.drops.get(DropReason.PortSend), 1);
          (a as MemoryPort).releaseHeld();
          assertEquals(writable, 1);
        }
        a.flush();
        await until(() => a.room() === room);
        assertLessOrEqual(writable, 1);
      }));

    Deno.test(`port ${kind}: a datagram larger than a slot is dropped as too big, over ${address}`, () =>
      withPorts(open, address, async (a, b, context) => {
        const other: PortContext = { ...context, pool: new PacketPool(4, 8192) };
        const sender = await openTelling(open, address, other);
        for (const length of [SLOT_BYTES - HEADROOM_BYTES + 1, SLOT_BYTES, 3000]) {
          send(sender, other, new Array(length).fill(1), b);
        }
        send(sender, other, [7], b);
        sender.flush();
        await until(() => b.waiting === 1);
        assertEquals(context.drops.get(DropReason.TooBig), 3);
        await sender.close();
        assertEquals(a.waiting, 0);
      }));
  }

  Deno.test(`port ${kind}: what is handed over before the end is sent, what comes after it is dropped`, async () => {
    const keepAlive = setInterval(() => {}, 1000);
    const context = contextOf();
    const a = await openTelling(open, "127.0.0.1", context);
    const b = await openTelling(open, "127.0.0.1", context);
    send(a, context, [1, 2], b);
    const closed = a.close();
    assertEquals(a.close() === closed || kind === "memory", true);
    assertEquals(a.room(), 0);
    send(a, context, [3], b);
    await closed;
    await until(() => b.waiting === 1);
    assertEquals(context.drops.get(DropReason.PortSend), 1);
    await b.close();
    assertEquals(context.drops.get(DropReason.Closed), 1);
    assertEquals(context.pool.inUse, 0);
    clearInterval(keepAlive);
  });
}

for (const kind of ["dgram", "linux"]) {
  const open = OPEN[kind];
  if (open === undefined) continue;

  Deno.test(`port ${kind}: a datagram that the system refuses is a counted drop`, () =>
    withPorts(open, "127.0.0.1", async (a, b, context) => {
      const p = context.pool.acquire()!;
      p.end = p.start + 100;
      a.send(p, IpAddr.parse("240.0.0.1"), 9);
      send(a, context, [1], b);
      a.flush();
      await until(() => context.drops.get(DropReason.PortSend) === 1 && b.waiting === 1);
      assertEquals(a.stats().sendErrors, 1);
      assertEquals(a.stats().datagramsOut, 1);
    }));

  Deno.test(`port ${kind}: a taken port and a foreign address are errors of Deno's classes`, async () => {
    const context = contextOf();
    const openAt = (address: string, port: number): Promise<UdpPort> => {
      if (kind === "dgram") return DgramPort.open(IpAddr.parse(address), port, context);
      return new Promise((resolve) => {
        resolve(LinuxPort.open(libcForTest(), IpAddr.parse(address), port, context));
      });
    };
    const a = await openAt("127.0.0.1", 0);
    const error = await assertRejects(() => openAt("127.0.0.1", a.port), Error, `127.0.0.1:${a.port}`);
    assertInstanceOf(error, Deno.errors.AddrInUse);
    await assertRejects(() => openAt("203.0.113.77", 0), Deno.errors.AddrNotAvailable);
    await a.close();
  });

  Deno.test(`port ${kind}: both families can share a port, each hears its own`, async () => {
    const keepAlive = setInterval(() => {}, 1000);
    const context = contextOf();
    const openAt = async (address: IpAddr, port: number): Promise<UdpPort> =>
      kind === "dgram"
        ? await DgramPort.open(address, port, context)
        : LinuxPort.open(libcForTest(), address, port, context);
    const six = await openAt(IpAddr.ANY_V6, 0);
    const four = await openAt(IpAddr.ANY_V4, six.port);
    const sender = await open(IpAddr.parse("127.0.0.1"), context);
    const p = context.pool.acquire()!;
    p.end = p.start + 3;
    sender.send(p, IpAddr.parse("127.0.0.1"), six.port);
    sender.flush();
    await until(() => {
      for (const port of [six, four]) if (isPolled(port)) port.look();
      return four.waiting === 1;
    });
    assertEquals(six.waiting, 0);
    await Promise.all([six.close(), four.close(), sender.close()]);
    clearInterval(keepAlive);
  });
}

Deno.test("receive queue: keeps order, wraps, drops the newest when full", () => {
  const context = contextOf();
  const queue = new ReceiveQueue(context, 4);
  const from = IpAddr.parse("fd07::1");
  const received: Received[] = [];
  const push = (n: number) => queue.push(packetOf(new Uint8Array([n]), context)!, from, 1000 + n);
  for (let round = 0; round < 5; round++) {
    received.length = 0;
    for (let n = 0; n < 6; n++) push(n);
    assertEquals(queue.drain(3, sinkOf(context, received), 0), 3);
    push(7);
    assertEquals(queue.drain(10, sinkOf(context, received), 0), 2);
    assertEquals(received.map(({ bytes, port }) => [bytes[0], port]), [[0, 1000], [1, 1001], [2, 1002], [3, 1003], [
      7,
      1007,
    ]]);
    assertEquals(received[0]!.from, "fd07::1");
  }
  assertEquals(context.drops.get(DropReason.ReceiveBufferFull), 10);
  assertEquals(context.pool.inUse, 0);
});

Deno.test("packetOf: an empty pool is a counted drop", () => {
  const context = contextOf(1);
  const p = packetOf(new Uint8Array([1]), context)!;
  assertEquals(packetOf(new Uint8Array([2]), context), null);
  assertEquals(context.drops.get(DropReason.PoolExhausted), 1);
  context.pool.release(p);
});

Deno.test("address cache: zones are cut off, nonsense is null, the bound holds", () => {
  const cache = new AddressCache(8);
  assertEquals(cache.parse("fe80::1%eth0")?.toString(), "fe80::1");
  assertEquals(cache.parse("127.0.0.1"), cache.parse("127.0.0.1"));
  assertEquals(cache.parse("nobody"), null);
  for (let i = 0; i < 100; i++) assertEquals(cache.parse(`10.0.0.${i}`)?.toString(), `10.0.0.${i}`);
  const address = IpAddr.parse("::1");
  assertEquals(cache.format(address), "::1");
  assertEquals(cache.format(address), "::1");
});
