/**
 * The TUN device over a C library that plays the kernel: what is asked of it, packets each way, and what goes wrong.
 *
 * @module
 */

import { assert, assertEquals, assertInstanceOf, assertStringIncludes, assertThrows } from "@std/assert";
import { DropCounters, DropReason } from "../../../src/base/drop.ts";
import { type Packet, PacketPool } from "../../../src/base/packet.ts";
import type { Instant } from "../../../src/base/time.ts";
import type { Libc, Memory } from "../../../src/runtime/linux/libc.ts";
import { openTun, TunDevice } from "../../../src/runtime/linux/tun_device.ts";
import type { PortContext } from "../../../src/runtime/udp_port.ts";
import { SystemUnderlay } from "../../../src/runtime/underlay.ts";
import { parseHostConfig } from "../../../src/stack/config.ts";
import { DeviceInterface } from "../../../src/stack/device_interface.ts";
import type { TunConfig } from "../../../src/stack/options.ts";
import { FakeLibc } from "../../testing/fake_libc.ts";
import { NO_LINUX_PORT } from "../../testing/host_pair.ts";

const TUN_FD = 5;
const NETLINK_FD = 6;
const EAGAIN = 11;

/** A kernel with TUN devices. */
class TunLibc extends FakeLibc {
  /** Path and flags of each `open`. */
  readonly opened: [path: string, flags: number][] = [];
  /** Requests of `ioctl`, with the name in them. */
  readonly requests: [fd: number, request: number, name: string, flags: number][] = [];
  /** What was written to netlink. */
  readonly messages: number[][] = [];
  /** What was written to the device. */
  readonly packets: number[][] = [];
  /** What the device gives to be read: a packet, or an error number. */
  readonly arrivals: (number[] | number)[] = [];
  /** Says what becomes of a call: a result below 0 is one. */
  onOpen = 0;
  onIoctl: (request: number) => number = () => 0;
  /** Says how the kernel answers the netlink message of a type. */
  onMessage: (type: number) => number = () => 0;
  onPacket: () => number = () => 0;
  /** Sequence number of the answers; that of the request, if it is `null`. */
  sequence: number | null = null;
  /** Attributes of the answer about a link. */
  linkAttributes: number[] = [];
  /** What netlink gives to be read. */
  readonly answers: number[][] = [];

  override open(path: Memory, flags: number): number {
    this.opened.push([text(path), flags]);
    return this.onOpen < 0 ? this.onOpen : TUN_FD;
  }

  override socket(): number {
    return NETLINK_FD;
  }

  override ioctl(fd: number, request: number, data: Memory): number {
    const view = new DataView(data.buffer);
    this.requests.push([fd, request, text(data), view.getUint16(16, true)]);
    const result = this.onIoctl(request);
    if (result < 0) return result;
    if (request === 0x400454ca) data.set([..."culv7\0"].map((c) => c.charCodeAt(0)), 0);
    else view.setInt32(16, 77, true);
    return 0;
  }

  override write(fd: number, source: Memory, length: number = source.length): number {
    const bytes = [...source.subarray(0, length)];
    if (fd === TUN_FD) {
      const result = this.onPacket();
      if (result < 0) return result;
      this.packets.push(bytes);
      return length;
    }
    const view = new DataView(new Uint8Array(bytes).buffer);
    assertEquals(view.getUint32(0, true), length, "the length that a message states");
    const type = view.getUint16(4, true);
    const sequence = this.sequence ?? view.getUint32(8, true);
    const link = [...new Array<number>(16).fill(0), ...this.linkAttributes];
    if (type === 18) this.answers.push(message(16, link, sequence));
    else this.messages.push(bytes);
    this.answers.push(message(2, i32(this.onMessage(type)), sequence));
    return length;
  }

  override read(fd: number, target: Memory): number {
    const next = fd === NETLINK_FD ? this.answers.shift() : this.arrivals.shift();
    if (next === undefined) return -EAGAIN;
    if (typeof next === "number") return -next;
    target.set(next);
    return next.length;
  }
}

function text(bytes: Memory): string {
  return String.fromCharCode(...bytes.subarray(0, bytes.indexOf(0)));
}

function i32(value: number): number[] {
  return [value & 255, (value >> 8) & 255, (value >> 16) & 255, (value >> 24) & 255];
}

function message(type: number, data: number[], sequence: number): number[] {
  return [...i32(16 + data.length), type, 0, 0, 0, ...i32(sequence), ...i32(0), ...data];
}

function configOf(tun: Record<string, unknown> = {}): TunConfig {
  const options = { addresses: ["10.9.0.2/24", "fd09::2/64"], routes: ["10.7.0.0/16", "fd07::/64"], mtu: 1400, ...tun };
  return parseHostConfig({ address: ["10.9.0.1/24", "fd09::1/64"], tun: options }).tun!;
}

/** A device over a kernel, and the stack that takes its packets. */
function deviceOver(libc: TunLibc, poolPackets = 64) {
  const pool = new PacketPool(poolPackets);
  const drops = new DropCounters();
  const faults: string[] = [];
  const context: PortContext = { pool, drops, fault: (error) => faults.push((error as Error).message) };
  const taken: number[][] = [];
  const config = configOf();
  const sink = {
    input(ifindex: number, p: Packet, _now: Instant): void {
      assertEquals(ifindex, 3);
      taken.push([...p.toBytes()]);
      pool.release(p);
    },
  };
  const link = new DeviceInterface(3, config);
  const device = new TunDevice(openTun(libc, config), context, sink, link);
  return { device, link, pool, drops, faults, taken };
}

Deno.test("tun: the device is new, not persistent, and never waited for", () => {
  const libc = new TunLibc();
  const tun = openTun(libc, configOf({ name: "culv%d" }));
  assertEquals(libc.opened, [["/dev/net/tun", 0x80802]]);
  assertEquals(libc.requests, [
    // IFF_TUN, IFF_NO_PI, IFF_TUN_EXCL.
    [TUN_FD, 0x400454ca, "culv%d", 0x9001],
    [NETLINK_FD, 0x8933, "culv7", 0x9001],
  ]);
  assertEquals([tun.name, tun.systemIndex, tun.fd], ["culv7", 77, TUN_FD]);
  assertEquals([libc.closed, libc.releases], [[], 0]);
});

Deno.test("tun: MTU, addresses and routes as rtnetlink has them", () => {
  const libc = new TunLibc();
  openTun(libc, configOf());
  const v6 = (last: number, second: number) => [0xfd, second, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
  const header = (
    length: number,
    type: number,
    flags: number,
    sequence: number,
  ) => [...i32(length), type, 0, flags & 255, flags >> 8, ...i32(sequence), ...i32(0)];
  const create = 0x605;
  assertEquals(libc.messages, [
    [
      ...header(48, 16, 0x5, 1),
      ...[0, 0, 0, 0, 77, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0],
      ...[8, 0, 4, 0, ...i32(1400), 8, 0, 13, 0, ...i32(1000)],
    ],
    [
      ...header(40, 20, create, 2),
      ...[2, 24, 0, 0, 77, 0, 0, 0],
      ...[8, 0, 2, 0, 10, 9, 0, 2, 8, 0, 1, 0, 10, 9, 0, 2],
    ],
    [
      ...header(64, 20, create, 3),
      ...[10, 64, 2, 0, 77, 0, 0, 0],
      ...[20, 0, 2, 0, ...v6(2, 9), 20, 0, 1, 0, ...v6(2, 9)],
    ],
    [
      ...header(44, 24, create, 4),
      ...[2, 16, 0, 0, 254, 4, 253, 1, 0, 0, 0, 0],
      ...[8, 0, 1, 0, 10, 7, 0, 0, 8, 0, 4, 0, 77, 0, 0, 0],
    ],
    [
      ...header(56, 24, create, 5),
      ...[10, 64, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0],
      ...[20, 0, 1, 0, ...v6(0, 7), 8, 0, 4, 0, 77, 0, 0, 0],
    ],
  ]);
});

Deno.test("tun: what the system refuses is told in one line, and nothing stays open", () => {
  type Case = [
    name: string,
    set: (libc: TunLibc) => void,
    type: new (message: string) => Error,
    part: string,
    closed: number[],
  ];
  const cases: Case[] = [
    ["no root", (l) => l.onIoctl = (r) => r === 0x400454ca ? -1 : 0, Deno.errors.PermissionDenied, "needs root", [
      TUN_FD,
    ]],
    ["no access", (l) => l.onOpen = -13, Deno.errors.PermissionDenied, "needs root", []],
    ["no driver", (l) => l.onOpen = -2, Deno.errors.NotSupported, "no TUN devices", []],
    ["taken", (l) => l.onIoctl = () => -16, Deno.errors.AlreadyExists, "a device of that name exists", [TUN_FD]],
    ["no index", (l) => l.onIoctl = (r) => r === 0x8933 ? -19 : 0, Deno.errors.NotSupported, "ENODEV", [
      NETLINK_FD,
      TUN_FD,
    ]],
    [
      "address",
      (l) => l.onMessage = (t) => t === 20 ? -99 : 0,
      Error,
      "adding the address 10.9.0.2/24 failed with EADDRNOTAVAIL",
      [
        NETLINK_FD,
        TUN_FD,
      ],
    ],
    [
      "route",
      (l) => l.onMessage = (t) => t === 24 ? -17 : 0,
      Error,
      "adding the route to 10.7.0.0/16 failed with EEXIST",
      [
        NETLINK_FD,
        TUN_FD,
      ],
    ],
  ];
  for (const [name, set, type, part, closed] of cases) {
    const libc = new TunLibc();
    set(libc);
    const error = assertThrows(() => openTun(libc, configOf({ name: "culv0" })), type, undefined, name);
    assertInstanceOf(error, Error);
    assertStringIncludes(error.message, part);
    assertEquals(error.message.includes("\n"), false, name);
    assertEquals([libc.closed, libc.releases], [closed, 1], name);
  }
});

Deno.test("tun: refused without FFI, and where the system is not Linux", () => {
  const underlay = (why: string) => new SystemUnderlay({ kind: "auto" }, null, (): Libc | string => why);
  const error = assertThrows(() =>
    underlay("FFI is not granted: run with --allow-ffi=/lib/libc.so.6").openTun(configOf())
  );
  assertInstanceOf(error, Deno.errors.NotCapable);
  assertEquals(
    error.message,
    'the TUN device "culv%d" cannot be made: FFI is not granted: run with --allow-ffi=/lib/libc.so.6',
  );
  assertThrows(
    () => underlay("the operating system is darwin, not Linux").openTun(configOf()),
    Deno.errors.NotSupported,
    "not Linux",
  );
});

Deno.test("tun: the kernel's packets come in order, as many as are wanted", () => {
  const libc = new TunLibc();
  const { device, link, pool, taken } = deviceOver(libc);
  let told = 0;
  device.onReadable = () => told++;
  assertEquals(device.receive(64, 0), 0);
  assertEquals([device.look(), told, device.waiting], [false, 0, 0]);
  libc.arrivals.push([69, 1], [69, 2, 2], 4, [69, 3], [69, 4]);
  assertEquals([device.look(), told, device.waiting], [true, 1, 1]);
  assertEquals([device.look(), told], [true, 2]);
  // The second read after EINTR happens at the next look.
  assertEquals(device.receive(64, 0), 2);
  assertEquals(device.waiting, 0);
  // The turn that gave something does not look again at its end, the next one does.
  device.fill();
  assertEquals(device.waiting, 0);
  device.fill();
  assertEquals(device.waiting, 1);
  assertEquals([device.receive(1, 0), device.waiting], [1, 1]);
  assertEquals([device.receive(1, 0), device.waiting], [1, 0]);
  assertEquals(taken, [[69, 1], [69, 2, 2], [69, 3], [69, 4]]);
  assertEquals([link.packetsIn, link.bytesIn, pool.inUse], [4, 9, 0]);
});

Deno.test("tun: a packet too large for a slot, and one for which there is no slot, are counted and gone", () => {
  const libc = new TunLibc();
  const { device, pool, drops, taken } = deviceOver(libc, 1);
  libc.arrivals.push(new Array<number>(1921).fill(1), new Array<number>(1920).fill(2));
  assertEquals([device.look(), device.receive(64, 0)], [true, 2]);
  assertEquals(taken.map(({ length }) => length), [1920]);
  assertEquals([drops.get(DropReason.TooBig), device.stats().tooBig], [1, 1]);
  const held = pool.acquire()!;
  libc.arrivals.push([69]);
  assertEquals([device.look(), device.receive(64, 0)], [true, 1]);
  assertEquals([drops.get(DropReason.PoolExhausted), taken.length], [1, 1]);
  pool.release(held);
});

Deno.test("tun: packets for the kernel are written whole; what it does not take is counted", () => {
  const libc = new TunLibc();
  const { device, link, pool, drops } = deviceOver(libc);
  const send = (...bytes: number[]): void => {
    const p = pool.acquire()!;
    p.bytes.set(bytes, p.start);
    p.end = p.start + bytes.length;
    device.send(p);
  };
  send(69, 1, 2);
  // A packet whose start was lowered and that is longer than what is copied byte by byte.
  const long = Array.from({ length: 1400 }, (_, i) => i & 255);
  send(...long);
  libc.onPacket = () => -5;
  send(69, 9);
  assertEquals(libc.packets, [[69, 1, 2], long]);
  assertEquals([link.packetsOut, link.bytesOut], [2, 1403]);
  assertEquals([drops.get(DropReason.PortSend), device.stats().sendErrors, pool.inUse], [1, 1, 0]);
});

Deno.test("tun: what the kernel drops is in its counters, and is kept when the device is closed", () => {
  const libc = new TunLibc();
  const { device } = deviceOver(libc);
  assertEquals(device.stats(), { sendErrors: 0, tooBig: 0 });
  const stats = new Array<number>(24 * 8).fill(0);
  stats[7 * 8] = 42;
  libc.linkAttributes = [...[7, 0, 3, 0, 97, 98, 0, 0], ...[4 + stats.length, 0, 23, 0, ...stats]];
  assertEquals(device.stats().systemDrops, 42);
  device.close();
  libc.linkAttributes = [];
  assertEquals(device.stats().systemDrops, 42);
  // An attribute that runs out of the message is not read.
  const other = deviceOver(libc);
  libc.linkAttributes = [255, 255, 23, 0, 1, 2, 3, 4];
  assertEquals(other.device.stats().systemDrops, undefined);
  libc.linkAttributes = [0, 0, 0, 0];
  assertEquals(other.device.stats().systemDrops, undefined);
});

Deno.test("tun: an answer to another request is not taken for the one that is waited for", () => {
  const EPERM = 1;
  const refusal = message(2, i32(-EPERM), 0x7fff);
  const stats = new Array<number>(24 * 8).fill(9);
  const link = message(16, [...new Array<number>(16).fill(0), ...[4 + stats.length, 0, 23, 0, ...stats]], 0x7fff);
  const libc = new TunLibc();
  libc.answers.push(refusal, link, []);
  const { device } = deviceOver(libc);
  assertEquals(libc.messages.length, 5);
  libc.answers.push(link, refusal);
  assertEquals(device.stats().systemDrops, undefined);
  device.close();
  // Nor does an acknowledgment that is too old hide a refusal, or an answer that never comes look like one.
  const refusing = new TunLibc();
  refusing.answers.push(message(2, i32(0), 0x7fff));
  refusing.onMessage = () => -EPERM;
  assertThrows(() => deviceOver(refusing), Deno.errors.PermissionDenied);
  const stale = new TunLibc();
  stale.sequence = 0x7fff;
  assertThrows(() => deviceOver(stale), Error, "EAGAIN");
  for (const gone of [refusing, stale]) assertEquals([gone.closed, gone.releases], [[NETLINK_FD, TUN_FD], 1]);
});

Deno.test("tun: a device that is taken away is a fault of the host, told once; closing gives everything back once", () => {
  const libc = new TunLibc();
  const { device, pool, faults, drops } = deviceOver(libc);
  libc.arrivals.push([69, 1], 77);
  assertEquals([device.look(), device.receive(64, 0)], [true, 1]);
  assertEquals(faults, ["the TUN device culv7 is gone: read failed with EBADFD"]);
  assertEquals([device.fd, device.waiting, libc.closed, libc.releases], [-1, 0, [NETLINK_FD, TUN_FD], 1]);
  assertEquals([device.look(), device.receive(64, 0)], [false, 0]);
  const p = pool.acquire()!;
  p.end = p.start + 20;
  device.send(p);
  assertEquals([drops.get(DropReason.PortSend), pool.inUse], [1, 0]);
  device.close();
  assertEquals([libc.closed.length, libc.releases, faults.length], [2, 1, 1]);
  assert(libc.packets.length === 0);
});

/** A host whose device is taken away: it is closed for that, and nothing of it runs on. */
const PROGRAM = `
import { openHost } from "./mod.ts";
import process from "node:process";
const tun = { name: "culv7", addresses: ["10.9.0.1/24"] };
const peers = [{ endpoint: "127.0.0.1:9", allowed: "10.7.0.2" }];
const host = await openHost({ address: "10.7.0.1/24", listen: "127.0.0.1:0", peers, tun });
const waiting = host.listen({ port: 80 }).accept().catch((error) => error.name);
if (Deno.args[0] === "unref") host.unref();
await new Promise((resolve) => setTimeout(resolve, 50));
await new Deno.Command("ip", { args: ["link", "del", "culv7"] }).output();
const end = await host.closed;
await host.close();
const before = process.cpuUsage();
await new Promise((resolve) => setTimeout(resolve, 200));
const { user, system } = process.cpuUsage(before);
console.log(JSON.stringify({ name: end.name, message: end.message, waited: await waiting, busy: (user + system) / 2e5 }));
`;

const canMakeTun = await new Deno.Command("unshare", {
  args: ["--net", "sh", "-c", "ip link set lo up && ip tuntap add culv7 mode tun"],
  stdout: "null",
  stderr: "null",
}).output().then(({ success }) => success, () => false);

for (const how of ["ref", "unref"]) {
  Deno.test({
    name: `tun: a host whose real device is taken away is closed with that fault, ${how}'d`,
    // Needs root, to have a network of its own.
    ignore: !canMakeTun || NO_LINUX_PORT !== "",
    async fn() {
      const file = await Deno.makeTempFile({ dir: new URL("../../..", import.meta.url).pathname, suffix: ".ts" });
      try {
        await Deno.writeTextFile(file, PROGRAM);
        const run = [Deno.execPath(), "run", "-A", "--no-check", file, how];
        const { success, stdout, stderr } = await new Deno.Command("unshare", {
          args: ["--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", ...run],
        }).output();
        assert(success, new TextDecoder().decode(stderr));
        const { name, message, waited, busy } = JSON.parse(new TextDecoder().decode(stdout));
        assertEquals([name, waited], ["NotConnected", "NotConnected"]);
        assertStringIncludes(message, "the TUN device culv7 is gone");
        assert(busy < 0.2, `a closed host takes ${busy} of a processor`);
      } finally {
        await Deno.remove(file);
      }
    },
  });
}
