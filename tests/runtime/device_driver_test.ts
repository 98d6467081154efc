/**
 * The driver over a stack with a device: what goes to the device and what to the peers, and when the device is looked at.
 *
 * @module
 */

import { assertEquals, assertInstanceOf, assertRejects, assertStringIncludes } from "@std/assert";
import { DropCounters } from "../../src/base/drop.ts";
import { type Packet, PacketPool } from "../../src/base/packet.ts";
import { NEVER } from "../../src/base/time.ts";
import { MonotonicClock } from "../../src/runtime/clock.ts";
import { type DrivenStack, Driver } from "../../src/runtime/driver.ts";
import { MemoryNetwork } from "../../src/runtime/memory_port.ts";
import { openHost, openHostOver } from "../../src/runtime/open_host.ts";
import type { PacketDevice } from "../../src/runtime/packet_device.ts";
import { Peer } from "../../src/tunnel/peer_table.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";

/** A device that gives the packets that a test puts into it, and keeps what it is sent. */
class TestDevice implements PacketDevice {
  readonly name = "test0";
  readonly ifindex = 2;
  readonly fd = 7;
  readonly isBlocked = false;
  onReadable: () => void = () => {};
  /** Packets that came by now, and how many each `receive` gave. */
  arrived = 0;
  readonly given: number[] = [];
  /** Lengths of the packets sent. */
  readonly sent: number[] = [];
  fills = 0;
  closes = 0;

  constructor(readonly pool: PacketPool) {}

  get waiting(): number {
    return this.arrived;
  }

  receive(limit: number): number {
    const n = Math.min(limit, this.arrived);
    this.arrived -= n;
    if (n > 0) this.given.push(n);
    return n;
  }

  fill(): void {
    this.fills++;
  }

  look(): boolean {
    return this.arrived > 0;
  }

  send(p: Packet): void {
    this.sent.push(p.length);
    this.pool.release(p);
  }

  stats() {
    return { sendErrors: 0, tooBig: 0 };
  }

  close(): void {
    this.closes++;
  }
}

function driven(hasTunnel: boolean) {
  const pool = new PacketPool(256);
  const drops = new DropCounters();
  const queue: Packet[] = [];
  const encapsulated: number[] = [];
  const address = IpAddr.parse("127.0.0.1");
  const network = new MemoryNetwork();
  const context = { pool, drops, fault: () => {} };
  const ports = hasTunnel ? [network.open(address, 1, context)] : [];
  const peer = new Peer({ name: "p", ifindex: 1, address, port: 9, allowed: [] });
  const stack: DrivenStack = {
    pool,
    drops,
    tunnel: !hasTunnel ? null : {
      output: (p) => {
        encapsulated.push(p.ifindex);
        return peer;
      },
    },
    inputDatagram: (p) => pool.release(p),
    timeout: () => {},
    setLateness: () => {},
    pull: () => queue.shift() ?? null,
    nextAt: () => queue.length > 0 ? 0 : NEVER,
    pollEvent: () => null,
  };
  const device = new TestDevice(pool);
  const driver = new Driver({
    stack,
    clock: new MonotonicClock(),
    ports,
    device,
    onFault: (error) => {
      throw error;
    },
  });
  const enqueue = (ifindex: number, length: number): void => {
    const p = pool.acquire()!;
    p.ifindex = ifindex;
    p.end = p.start + length;
    queue.push(p);
  };
  return { driver, device, pool, encapsulated, enqueue };
}

const turns = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 10));

for (const hasTunnel of [true, false]) {
  Deno.test(`driver with a device ${hasTunnel ? "and a tunnel" : "only"}: each packet goes where its interface leads`, async () => {
    const { driver, device, pool, encapsulated, enqueue } = driven(hasTunnel);
    enqueue(2, 40);
    if (hasTunnel) enqueue(1, 50);
    enqueue(2, 60);
    driver.wake();
    await turns();
    assertEquals(device.sent, [40, 60]);
    assertEquals(encapsulated, hasTunnel ? [1] : []);
    assertEquals(driver.stats().packetsOut, hasTunnel ? 3 : 2);
    await driver.stop(new Error("the test is over"));
    assertEquals([device.closes, pool.inUse], [1, 0]);
  });
}

Deno.test("driver with a device: packets come 64 a turn, without a pause while more wait", async () => {
  const { driver, device } = driven(false);
  await turns();
  device.arrived = 150;
  device.onReadable();
  await turns();
  assertEquals(device.given, [64, 64, 22]);
  assertEquals(driver.stats().datagramsIn, 150);
  // Each turn looks for more at its end.
  assertEquals(device.fills, driver.stats().turns);
  await driver.stop(new Error("the test is over"));
});

const TUN = { address: "10.9.0.1/24", tun: { addresses: "10.9.0.2/24" } };

Deno.test({
  name: "host with a TUN device: without FFI it is refused in one line, and nothing stays open",
  permissions: { ffi: false, net: true },
  fn: async () => {
    const error = await assertRejects(() => openHost(TUN));
    assertInstanceOf(error, Deno.build.os === "linux" ? Deno.errors.NotCapable : Deno.errors.NotSupported);
    assertStringIncludes(error.message, 'the TUN device "culv%d" cannot be made: ');
    assertEquals(error.message.includes("\n"), false);
  },
});

Deno.test("host with a TUN device: not over ports in memory", async () => {
  const open = () => {
    throw new Error("not reached");
  };
  await assertRejects(() => openHostOver(TUN, open), TypeError, "a TUN device is for the ports of the system");
});
