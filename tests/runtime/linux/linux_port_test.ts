/**
 * The Linux port on real sockets: trains both ways, the outer traffic class, drops of the system, and what is done
 * without when the kernel lacks something. What all ports have in common is in udp_port_test.ts.
 *
 * @module
 */

import { assert, assertEquals, assertGreater, assertGreaterOrEqual, assertLess, assertThrows } from "@std/assert";
import { DropCounters, DropReason } from "../../../src/base/drop.ts";
import { type Packet, PacketPool } from "../../../src/base/packet.ts";
import { MILLISECOND } from "../../../src/base/time.ts";
import { MonotonicClock } from "../../../src/runtime/clock.ts";
import { Errno, Level, SocketOption, UdpOption } from "../../../src/runtime/linux/abi.ts";
import type { Libc } from "../../../src/runtime/linux/libc.ts";
import { LinuxPort, type LinuxPortOptions, UnsupportedError } from "../../../src/runtime/linux/linux_port.ts";
import { IpAddr } from "../../../src/wire/ip_addr.ts";
import { FakeLibc } from "../../testing/fake_libc.ts";
import { NO_LINUX_PORT } from "../../testing/host_pair.ts";
import { libcForTest } from "../../testing/port_poll.ts";

const ignore = NO_LINUX_PORT !== "";

function contextOf(packets = 4096) {
  return { pool: new PacketPool(packets), drops: new DropCounters(), fault: () => {} };
}

type Context = ReturnType<typeof contextOf>;

function openAt(address: string, context: Context, options: LinuxPortOptions = {}): LinuxPort {
  return LinuxPort.open(libcForTest(), IpAddr.parse(address), 0, context, options);
}

function packetOf(context: Context, length: number, fill: number, trafficClass = 0): Packet {
  const p = context.pool.acquire()!;
  p.end = p.start + length;
  p.bytes.fill(fill, p.start, p.end);
  p.outerTrafficClass = trafficClass;
  return p;
}

interface Got {
  length: number;
  fill: number;
  trafficClass: number;
}

/** Everything that comes within a while. */
async function receiveAll(port: LinuxPort, context: Context, wanted: number): Promise<Got[]> {
  const got: Got[] = [];
  const sink = {
    inputDatagram: (p: Packet) => {
      got.push({ length: p.length, fill: p.bytes[p.start]!, trafficClass: p.outerTrafficClass });
      context.pool.release(p);
    },
  };
  for (let tries = 0; got.length < wanted; tries++) {
    assert(tries < 2000, `${got.length} of ${wanted}`);
    port.look();
    if (port.receive(64, sink, 0) === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  return got;
}

for (const address of ["127.0.0.1", "::1"]) {
  Deno.test({
    name: `linux port: lengths and order survive every mixture of trains, over ${address}`,
    ignore,
    async fn() {
      const context = contextOf();
      const settings = [{}, { segment: false }, { gro: false }, { segment: false, gro: false }];
      const lengths = Array.from({ length: 300 }, (_, i) => i % 17 === 0 ? 52 : i % 23 === 0 ? 1 + i : 1400);
      for (const sending of settings) {
        for (const receiving of settings) {
          const a = openAt(address, context, sending);
          const b = openAt(address, context, receiving);
          assertEquals(a.notes.length, sending.segment === false ? 1 : 0);
          lengths.forEach((length, i) => {
            a.send(packetOf(context, length, i & 255), b.address, b.port);
            if (a.room() === 0) a.flush();
          });
          a.flush();
          const got = await receiveAll(b, context, lengths.length);
          assertEquals(got.map(({ length }) => length), lengths);
          assertEquals(got.map(({ fill }) => fill), lengths.map((_, i) => i & 255));
          assertEquals(a.stats().datagramsOut, 300);
          assertEquals(b.stats().datagramsIn, 300);
          assertEquals(b.stats().bytesIn, a.stats().bytesOut);
          await Promise.all([a.close(), b.close()]);
        }
      }
      assertEquals(context.pool.inUse, 0);
      assertEquals(context.drops.total(), 0);
    },
  });

  Deno.test({
    name: `linux port: the outer traffic class is written and read, train by train, over ${address}`,
    ignore,
    async fn() {
      const context = contextOf();
      const a = openAt(address, context);
      const b = openAt(address, context);
      const classes = [0, 0, 2, 2, 2, 3, 1, 0xb8, 0xb9, 0, 0];
      classes.forEach((trafficClass, i) => a.send(packetOf(context, 500, i, trafficClass), b.address, b.port));
      a.flush();
      const got = await receiveAll(b, context, classes.length);
      assertEquals(got.map(({ trafficClass }) => trafficClass), classes);
      assertEquals(got.map(({ fill }) => fill), classes.map((_, i) => i));
      await Promise.all([a.close(), b.close()]);
    },
  });
}

Deno.test({
  name: "linux port: what the system dropped since nobody read is counted",
  ignore,
  async fn() {
    const context = contextOf();
    const a = openAt("127.0.0.1", context);
    const b = openAt("127.0.0.1", context, { receiveBufferBytes: 8192, gro: false });
    for (let i = 0; i < 500; i++) {
      a.send(packetOf(context, 1000, 0), b.address, b.port);
      a.flush();
    }
    const dropped = b.stats().socketDrops!;
    assertGreater(dropped, 400);
    await receiveAll(b, context, 500 - dropped);
    assertEquals(b.stats().datagramsIn, 500 - dropped);
    assertEquals(a.stats().socketDrops, 0);
    await Promise.all([a.close(), b.close()]);
    assertEquals(b.stats().socketDrops, dropped);
  },
});

Deno.test({
  name: "linux port: many datagrams wait in the socket while nobody reads",
  ignore,
  async fn() {
    const context = contextOf();
    const a = openAt("127.0.0.1", context);
    const b = openAt("127.0.0.1", context);
    for (let i = 0; i < 2000; i++) {
      a.send(packetOf(context, 1400, i & 255), b.address, b.port);
      if (a.room() === 0) a.flush();
    }
    a.flush();
    const { socketDrops } = b.stats();
    // None but where a user may not go beyond the system's limit.
    assertLess(socketDrops!, 1900);
    assertEquals((await receiveAll(b, context, 2000 - socketDrops!)).length, 2000 - socketDrops!);
    await Promise.all([a.close(), b.close()]);
  },
});

Deno.test({
  name: "linux port: departure times are taken, and change nothing where no queueing discipline keeps them",
  ignore,
  async fn() {
    const context = contextOf();
    const clock = new MonotonicClock();
    const a = openAt("127.0.0.1", context, { txTime: clock });
    const b = openAt("127.0.0.1", context);
    assertEquals(a.notes, []);
    for (let i = 0; i < 20; i++) {
      const p = packetOf(context, 300, i);
      p.departAt = clock.now() + (i >> 1) * MILLISECOND / 100;
      a.send(p, b.address, b.port);
    }
    a.flush();
    assertEquals((await receiveAll(b, context, 20)).map(({ fill }) => fill), Array.from({ length: 20 }, (_, i) => i));
    await Promise.all([a.close(), b.close()]);
  },
});

Deno.test({
  name: "linux port: closing sends what waits and gives everything back",
  ignore,
  async fn() {
    const open = new Set<number>();
    const context = contextOf();
    const openCounted = (): LinuxPort => {
      const libc = libcForTest();
      const counted = new Proxy(libc, {
        get(target, name: keyof Libc) {
          if (name === "close") return (fd: number) => (open.delete(fd), target.close(fd));
          const member = target[name];
          return typeof member === "function" ? member.bind(target) : member;
        },
      });
      const port = LinuxPort.open(counted, IpAddr.parse("127.0.0.1"), 0, context);
      open.add(port.fd);
      return port;
    };
    for (let i = 0; i < 50; i++) {
      const a = openCounted();
      const b = openCounted();
      a.send(packetOf(context, 100, i), b.address, b.port);
      const closed = a.close();
      a.send(packetOf(context, 100, i), b.address, b.port);
      a.flush();
      await closed;
      assertEquals(a.room(), 0);
      assertEquals((await receiveAll(b, context, 1))[0]!.fill, i);
      assertEquals(a.look(), false);
      assertEquals(a.receive(64, { inputDatagram: () => {} }, 0), 0);
      await b.close();
    }
    assertEquals(open.size, 0);
    assertEquals(context.drops.toJSON(), { "port-send": 50 });
    assertEquals(context.pool.inUse, 0);
  },
});

function openFake(libc: FakeLibc, options: LinuxPortOptions = {}, context: Context = contextOf()): LinuxPort {
  return LinuxPort.open(libc, IpAddr.parse("127.0.0.1"), 4790, context, options);
}

Deno.test("linux port: an old kernel is done without what it lacks, and that is told", () => {
  const lacks = (...names: string[]) => {
    const libc = new FakeLibc();
    libc.onOption = (level, option) => names.includes(`${level}/${option}`) ? Errno.ENOPROTOOPT : 0;
    return libc;
  };
  const gro = `${Level.Udp}/${UdpOption.Gro}`;
  const segment = `${Level.Udp}/${UdpOption.Segment}`;
  assertEquals(openFake(lacks()).notes, []);
  assertEquals(openFake(lacks(gro)).notes, ["no UDP_GRO (ENOPROTOOPT)"]);
  assertEquals(openFake(lacks("0/13")).notes, ["the outer traffic class is not read (ENOPROTOOPT)"]);
  const libc = lacks(segment, gro);
  const context = contextOf();
  const port = openFake(libc, {}, context);
  assertEquals(port.notes, ["no UDP_GRO (ENOPROTOOPT)", "no UDP_SEGMENT (ENOPROTOOPT)", "no trains: not asked for"]);
  for (let i = 0; i < 5; i++) port.send(packetOf(context, 100, i), IpAddr.parse("127.0.0.1"), 9);
  port.flush();
  assertEquals(libc.sent.map(({ bytes, control }) => [bytes.length, control.length]), new Array(5).fill([100, 0]));
  const txTime = lacks(`${Level.Socket}/${SocketOption.TxTime}`);
  assertEquals(openFake(txTime, { txTime: new MonotonicClock() }).notes, ["no SO_TXTIME (ENOPROTOOPT)"]);
});

Deno.test("linux port: buffers are sized beyond the limit where that is allowed, else up to it", () => {
  const root = new FakeLibc();
  openFake(root, { receiveBufferBytes: 111, sendBufferBytes: 222 });
  assertEquals(root.options.slice(0, 2), ["1/33=111", "1/32=222"]);
  const user = new FakeLibc();
  user.onOption = (level, option) => level === 1 && (option === 33 || option === 32) ? Errno.EPERM : 0;
  openFake(user, { receiveBufferBytes: 111, sendBufferBytes: 222 });
  assertEquals(user.options.slice(0, 4), ["1/33=111", "1/8=111", "1/32=222", "1/7=222"]);
});

Deno.test("linux port: a system without the calls is told as such, and everything is given back", () => {
  const noSocket = new FakeLibc();
  noSocket.socketResult = -Errno.EAFNOSUPPORT;
  assertThrows(() => openFake(noSocket), UnsupportedError, "EAFNOSUPPORT");
  assertEquals([noSocket.releases, noSocket.closed.length], [1, 0]);
  const noCall = new FakeLibc();
  noCall.emptyResult = -Errno.ENOSYS;
  assertThrows(() => openFake(noCall), UnsupportedError, "recvmmsg");
  assertEquals([noCall.releases, noCall.closed], [1, [3]]);
});

Deno.test("linux port: a full socket blocks it, and a look sends the rest", async () => {
  const libc = new FakeLibc();
  const context = contextOf();
  const port = openFake(libc, {}, context);
  let writable = 0;
  port.onWritable = () => writable++;
  const to = IpAddr.parse("127.0.0.1");
  libc.onSend = () => Errno.EAGAIN;
  for (let i = 0; i < 64; i++) port.send(packetOf(context, 100 + i % 2, i), to, 9);
  port.flush();
  assertEquals([port.isBlocked, port.room()], [true, 0]);
  assertEquals(context.pool.inUse, 0);
  port.send(packetOf(context, 100, 99), to, 9);
  assertEquals(context.drops.get(DropReason.PortSend), 1);
  assertEquals(port.look(), false);
  assertEquals(writable, 0);
  libc.onSend = () => 0;
  assertEquals(port.look(), false);
  assertEquals([port.isBlocked, port.room(), writable], [false, 64, 1]);
  assertEquals(port.stats().datagramsOut, 64);
  await port.close();
  assertEquals([libc.releases, libc.closed], [1, [3]]);
});

Deno.test("linux port: a destination of the other family is a counted drop", () => {
  const context = contextOf();
  const port = openFake(new FakeLibc(), {}, context);
  port.send(packetOf(context, 10, 0), IpAddr.parse("fd00::1"), 9);
  assertEquals(context.drops.get(DropReason.PortSend), 1);
  assertEquals(port.stats().sendErrors, 1);
  assertEquals(context.pool.inUse, 0);
});

Deno.test("linux port: a look tells while datagrams wait, and a receive that empties a full call goes on", () => {
  const libc = new FakeLibc();
  const context = contextOf();
  const port = openFake(libc, {}, context);
  let readable = 0;
  port.onReadable = () => readable++;
  const message = { name: [2, 0, 1, 1, 127, 0, 0, 1, ...new Array(8).fill(0)], bytes: new Uint8Array(9) };
  libc.incoming = Array.from({ length: 100 }, () => ({ ...message, control: new Uint8Array(0) }));
  assertEquals([port.look(), port.look(), readable, port.waiting], [true, true, 2, 64]);
  let got = 0;
  const sink = {
    inputDatagram: (p: Packet) => {
      got++;
      context.pool.release(p);
    },
  };
  assertEquals(port.receive(64, sink, 0), 64);
  assertEquals([port.waiting, readable], [36, 2]);
  assertEquals(port.receive(64, sink, 0), 36);
  assertEquals([port.receive(64, sink, 0), got], [0, 100]);
  assertGreaterOrEqual(port.stats().socketDrops!, 7);
});
