/**
 * The driver over ports that read their sockets themselves, without a kernel.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { DropCounters } from "../../../src/base/drop.ts";
import { type Packet, PacketPool } from "../../../src/base/packet.ts";
import { NEVER } from "../../../src/base/time.ts";
import { MonotonicClock } from "../../../src/runtime/clock.ts";
import { type DrivenStack, Driver } from "../../../src/runtime/driver.ts";
import { LinuxPort } from "../../../src/runtime/linux/linux_port.ts";
import { PollSleeper } from "../../../src/runtime/linux/poll_sleeper.ts";
import { Peer } from "../../../src/tunnel/peer_table.ts";
import { IpAddr } from "../../../src/wire/ip_addr.ts";
import { FakeLibc, type ReceivedMessage, sockaddrIn } from "../../testing/fake_libc.ts";

const NOTHING = new Uint8Array(0);
const V4: ReceivedMessage = { name: sockaddrIn([192, 0, 2, 7], 9), bytes: new Uint8Array(100), control: NOTHING };
const V6: ReceivedMessage = {
  name: [10, 0, 0, 9, 0, 0, 0, 0, 0xfd, ...new Array(14).fill(0), 7, 0, 0, 0, 0],
  bytes: new Uint8Array(200),
  control: NOTHING,
};

function drivenPorts() {
  const pool = new PacketPool(256);
  const drops = new DropCounters();
  const queue: Packet[] = [];
  const lengths: number[] = [];
  const peer = new Peer({ name: "p", ifindex: 1, address: IpAddr.parse("192.0.2.7"), port: 9, allowed: [] });
  const stack: DrivenStack = {
    pool,
    drops,
    tunnel: { output: () => peer },
    inputDatagram: (p) => {
      lengths.push(p.length);
      pool.release(p);
    },
    timeout: () => {},
    setLateness: () => {},
    pull: () => queue.shift() ?? null,
    nextAt: () => queue.length > 0 ? 0 : NEVER,
    pollEvent: () => null,
  };
  const context = { pool, drops, fault: () => {} };
  const open = (address: string) => {
    const libc = new FakeLibc();
    return { libc, port: LinuxPort.open(libc, IpAddr.parse(address), 9, context) };
  };
  const [four, six] = [open("0.0.0.0"), open("::")];
  const pollLibc = new FakeLibc();
  pollLibc.ppoll = () => new Promise((resolve) => pollLibc.write = () => (resolve(1), 8));
  const ports = [four.port, six.port];
  const driver = new Driver({
    stack,
    clock: new MonotonicClock(),
    ports,
    sleeper: (clock, onDue) => new PollSleeper("ppoll", pollLibc, ports, clock, onDue),
    onFault: (error) => {
      throw error;
    },
  });
  driver.hold();
  return {
    stack,
    driver,
    four,
    six,
    lengths,
    enqueue(length: number) {
      const p = pool.acquire()!;
      p.end = p.start + length;
      queue.push(p);
    },
    async [Symbol.asyncDispose]() {
      await driver.stop(new Error("the test is over"));
      assertEquals(pool.inUse, 0);
      assertEquals([four, six].map(({ libc }) => libc.releases), [1, 1]);
      assertEquals(pollLibc.releases, 1);
    },
  };
}

const turns = async (n: number): Promise<void> => {
  for (let i = 0; i < n; i++) await new Promise<void>((resolve) => setImmediate(resolve));
};

Deno.test("driver of polled ports: a busy one does not keep another from being heard", async () => {
  await using d = drivenPorts();
  d.four.libc.recvmmsg = ((recvmmsg) => (fd, messages, count) => {
    d.four.libc.incoming = new Array(count).fill(V4);
    return recvmmsg(fd, messages, count);
  })(d.four.libc.recvmmsg.bind(d.four.libc));
  await turns(5);
  d.six.libc.incoming = [V6];
  await turns(10);
  assertEquals(d.lengths.filter((length) => length === 200).length, 1);
  assert(d.lengths.filter((length) => length === 100).length >= 5 * 64);
});

Deno.test("driver of polled ports: what one turn sends is one call, and goes before the socket is read", async () => {
  await using d = drivenPorts();
  await turns(3);
  const calls: string[] = [];
  const { libc } = d.four;
  const { sendmmsg, recvmmsg } = libc;
  libc.sendmmsg = (...args) => (calls.push("send"), sendmmsg.apply(libc, args));
  libc.recvmmsg = (...args) => (calls.push("receive"), recvmmsg.apply(libc, args));
  for (let i = 0; i < 40; i++) d.enqueue(1000);
  d.driver.wake();
  calls.length = 0;
  await turns(1);
  assertEquals(calls.slice(0, 2), ["send", "receive"]);
  assertEquals(calls.filter((call) => call === "send").length, 1);
  assertEquals(libc.sent.map(({ bytes }) => bytes.length), [40_000]);
});

Deno.test("driver of polled ports: a full socket stops pulling, and room in it goes on", async () => {
  await using d = drivenPorts();
  const { libc } = d.four;
  let isFull = true;
  libc.onSend = () => isFull ? 11 : 0;
  for (let i = 0; i < 200; i++) d.enqueue(500 + i);
  d.driver.wake();
  await turns(20);
  assertEquals(libc.sent.length, 0);
  assertEquals(d.four.port.room(), 0);
  isFull = false;
  for (let tries = 0; libc.sent.length < 200; tries++) {
    assert(tries < 1000);
    d.four.port.look();
    await turns(1);
  }
  assertEquals(libc.sent.map(({ bytes }) => bytes.length), Array.from({ length: 200 }, (_, i) => 500 + i));
  assertEquals(d.stack.drops.total(), 0);
});

Deno.test("driver of polled ports: a datagram that comes when turns seem to do nothing is not slept upon", async () => {
  for (let n = 1; n <= 8; n++) {
    await using d = drivenPorts();
    let seen = 0;
    Object.assign(d.stack, {
      nextAt: () => 0, // packets move from one stage to the next: work that nobody counts
      timeout: () => {
        if (++seen === n) d.four.libc.incoming = [V4];
      },
    });
    d.driver.wake();
    for (let tries = 0; d.lengths.length === 0; tries++) {
      assert(tries < 2000, `asleep after ${n} turns`);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }
});
