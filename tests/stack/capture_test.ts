/**
 * Captures of stacks: which packets are recorded where, in which order, with which time and reason; and what happens
 * when nobody takes them away.
 *
 * @module
 */

import { assert, assertEquals, assertThrows } from "@std/assert";
import { DropReason } from "../../src/base/drop.ts";
import { Packet } from "../../src/base/packet.ts";
import { MILLISECOND, SECOND } from "../../src/base/time.ts";
import { PacketCapture, StackCapture } from "../../src/stack/capture.ts";
import { Tcb } from "../../src/tcp/tcb.ts";
import { TcpListener } from "../../src/tcp/listener.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { PcapngClock, PcapngDirection } from "../../src/wire/pcapng.ts";
import { type Captured, readPcapng } from "../testing/pcapng_reader.ts";
import { StackNet, type StackNode } from "../testing/stack_net.ts";

/** Takes away all that a capture has gathered, with its end. */
function finish(capture: PacketCapture): Captured {
  const parts: Uint8Array[] = [];
  for (let part = capture.take(); part !== null; part = capture.take()) parts.push(part.slice());
  parts.push(capture.statistics());
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return readPcapng(all);
}

function count(captured: Captured): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { name } of captured.packets) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}

interface Pair {
  net: StackNet;
  a: StackNode;
  b: StackNode;
  capture: PacketCapture;
}

/** Two stacks, the first of which is captured. */
function pair(impair: { in?: string; out?: string } | undefined, options: Record<string, unknown> = {}): Pair {
  const net = new StackNet(MILLISECOND);
  const a = net.add({
    address: ["10.7.0.1/24", "fd07::1/64"],
    listen: "192.0.2.1:7001",
    peers: [{
      name: "b",
      endpoint: "192.0.2.2:7002",
      allowed: ["10.7.0.2", "fd07::2"],
      ...(impair === undefined ? {} : { impair }),
    }],
    seed: 3,
    ...options,
  });
  const b = net.add({
    address: ["10.7.0.2/24", "fd07::2/64"],
    listen: "192.0.2.2:7002",
    peers: [{ name: "a", endpoint: "192.0.2.1:7001", allowed: ["10.7.0.1", "fd07::1"] }],
    seed: 4,
  });
  const capture = new PacketCapture();
  a.stack.tap = new StackCapture(capture, a.stack.ip.interfaces, 1_700_000_000_000.25);
  return { net, a, b, capture };
}

function ping({ net, a }: Pair, destination: string, times: number): void {
  const socket = a.stack.icmp.openPing(IpAddr.parse(destination));
  assert(typeof socket !== "number");
  for (let seq = 1; seq <= times; seq++) {
    socket.send(seq, 20, 64, net.now, net.now + SECOND);
    net.run(net.now + 10 * MILLISECOND);
  }
}

for (const destination of ["10.7.0.2", "fd07::2"]) {
  Deno.test(`capture: without an impairment every packet is recorded once each way (${destination})`, () => {
    const p = pair(undefined);
    ping(p, destination, 2);
    const captured = finish(p.capture);
    assertEquals(captured.interfaces, ["b:out", "b:in"]);
    assertEquals(captured.packets.map(({ name, flags, comment }) => [name, flags, comment]), [
      ["b:out", 2, ""],
      ["b:in", 1, ""],
      ["b:out", 2, ""],
      ["b:in", 1, ""],
    ]);
    // The echo comes back two milliseconds later, on wall time.
    const times = captured.packets.map(({ at }) => at - 1_700_000_000_000_250_000n);
    assertEquals(times, [0n, 2_000_000n, 10_000_000n, 12_000_000n]);
    const version = destination.includes(":") ? 6 : 4;
    for (const { bytes } of captured.packets) {
      assertEquals([bytes[0]! >>> 4, bytes.length], [version, (version === 4 ? 20 : 40) + 8 + 20]);
    }
    assertEquals(captured.statistics, {
      "b:out": { received: 2, dropped: 0 },
      "b:in": { received: 2, dropped: 0 },
    });
  });
}

Deno.test("capture: before the impairment and behind it, both ways", () => {
  const p = pair({ out: "delay 3ms", in: "delay 5ms" });
  ping(p, "10.7.0.2", 1);
  const captured = finish(p.capture);
  const origin = 1_700_000_000_000_250_000n;
  assertEquals(captured.packets.map(({ name, at, flags }) => [name, Number(at - origin) / MILLISECOND, flags]), [
    ["b:out", 0, 2],
    ["b:out:wire", 3, 2],
    ["b:in:wire", 5, 1],
    ["b:in", 10, 1],
  ]);
  assertEquals(captured.packets[0]!.bytes, captured.packets[1]!.bytes);
  assertEquals(captured.packets[2]!.bytes, captured.packets[3]!.bytes);
});

Deno.test("capture: what the impairment loses is recorded with its reason, each way", () => {
  const out = pair({ out: "loss 100%" });
  ping(out, "10.7.0.2", 3);
  const lost = finish(out.capture);
  assertEquals(count(lost), { "b:out": 3, "b:out:drop": 3 });
  assertEquals(lost.packets[1]!.comment, "dropped: impair-loss");
  assertEquals([lost.packets[1]!.flags, lost.packets[1]!.bytes], [2, lost.packets[0]!.bytes]);

  const into = pair({ in: "delay 50ms limit 1" });
  ping(into, "fd07::2", 3);
  into.net.run(SECOND);
  const full = finish(into.capture);
  assertEquals(count(full), { "b:out": 3, "b:in:wire": 3, "b:in:drop": 2, "b:in": 1 });
  const drop = full.packets.find(({ name }) => name === "b:in:drop")!;
  assertEquals([drop.comment, drop.flags], ["dropped: impair-limit", 1]);
});

Deno.test("capture: what the qdisc refuses, and what is left when the stack closes", () => {
  const p = pair(undefined, { qdisc: { kind: "pfifo", limit: 2 } });
  const socket = p.a.stack.udp.bind(IpAddr.ANY_V4, 0);
  assert(typeof socket !== "number");
  for (let i = 0; i < 5; i++) socket.send(new Uint8Array(100), IpAddr.parse("10.7.0.2"), 9, p.net.now);
  p.a.stack.close(p.net.now);
  const captured = finish(p.capture);
  assertEquals(captured.packets.map(({ name, comment }) => `${name} ${comment}`), [
    ...Array(3).fill("b:out:drop dropped: qdisc-limit"),
    ...Array(2).fill("b:out:drop dropped: closed"),
  ]);
  p.net.noLeak();
});

Deno.test("capture: what transports drop is recorded; what never became a packet is not", () => {
  const p = pair(undefined);
  const socket = p.a.stack.udp.bind(IpAddr.ANY_V4, 0);
  assert(typeof socket !== "number");
  // To itself, where nobody has that port: the datagram, and its drop.
  socket.send(new Uint8Array(10), IpAddr.parse("10.7.0.1"), 9999, p.net.now);
  // Without a route the datagram never gets an IP header.
  socket.send(new Uint8Array(10), IpAddr.parse("198.51.100.1"), 9, p.net.now);
  p.net.run(SECOND);
  const captured = finish(p.capture);
  assertEquals(captured.packets.slice(0, 2).map(({ name, comment }) => `${name} ${comment}`), [
    "lo:in ",
    "lo:in:drop dropped: no-socket",
  ]);
  for (const { bytes } of captured.packets) assertEquals(bytes[0], 0x45);
});

Deno.test("capture: a whole connection is the same before and behind an impairment that only delays", () => {
  const p = pair({ out: "delay 1ms", in: "delay 1ms" });
  const listener = p.b.stack.tcp.listen(IpAddr.parse("10.7.0.2"), 80, 4);
  assert(listener instanceof TcpListener);
  const tcb = p.a.stack.tcp.connect(IpAddr.parse("10.7.0.2"), 80, {}, p.net.now);
  assert(tcb instanceof Tcb);
  p.net.run(SECOND);
  tcb.write(new Uint8Array(20_000), 0, 20_000);
  p.net.run(2 * SECOND);
  assertEquals(listener.accept()!.readableBytes, 20_000);
  const { packets } = finish(p.capture);
  for (const way of ["b:out", "b:in"]) {
    const inside = packets.filter(({ name }) => name === way);
    const outside = packets.filter(({ name }) => name === `${way}:wire`);
    assert(inside.length > 2);
    assertEquals(inside.map(({ bytes }) => bytes), outside.map(({ bytes }) => bytes));
  }
  const times = packets.map(({ at }) => at);
  assertEquals(times, times.toSorted((x, y) => Number(x - y)));
});

Deno.test("capture: a tap that is taken away sees nothing more", () => {
  const p = pair({ out: "loss 100%" });
  ping(p, "10.7.0.2", 1);
  p.a.stack.tap = null;
  ping(p, "10.7.0.2", 1);
  assertEquals(count(finish(p.capture)), { "b:out": 1, "b:out:drop": 1 });
});

/** A packet of `length` bytes. */
function packet(length: number): Packet {
  const p = new Packet(new Uint8Array(2048));
  p.start = p.l4 = 100;
  p.end = 100 + length;
  return p;
}

Deno.test("capture: what does not fit is counted, and there is room again after a take", () => {
  const capture = new PacketCapture(65536);
  let calls = 0;
  capture.onData = () => calls++;
  const clock = new PcapngClock(0);
  const id = capture.addInterface("x", clock);
  const p = packet(1400);
  for (let i = 0; i < 60; i++) capture.record(id, p, PcapngDirection.Outbound, DropReason.None, i);
  assertEquals(calls, 0, "the section header is there already");
  const [recorded, dropped] = [capture.recordedPackets, capture.droppedPackets];
  assertEquals(recorded + dropped, 60);
  // 65,536 bytes less the head, in blocks of 1,444.
  assertEquals(recorded, Math.floor((65536 - 44 - 44) / 1444));
  const first = capture.take()!.slice();
  assertEquals(capture.take(), null);
  capture.record(id, p, PcapngDirection.Outbound, DropReason.None, 100);
  assertEquals(calls, 1);
  const second = capture.take()!.slice();
  const end = capture.statistics();
  const all = new Uint8Array([...first, ...second, ...end]);
  const captured = readPcapng(all);
  assertEquals(captured.packets.map(({ at }) => Number(at)), [...Array(recorded).keys(), 100]);
  assertEquals(captured.statistics, { x: { received: 61, dropped } });
  assert(dropped > 0);
});

Deno.test("capture: an interface for which there is no room is described later", () => {
  const capture = new PacketCapture(65536);
  const clock = new PcapngClock(0);
  const id = capture.addInterface("x", clock);
  const small = packet(4);
  while (capture.droppedPackets === 0) capture.record(id, small, PcapngDirection.Inbound, DropReason.None, 1);
  const tap = new StackCapture(capture, [{ ifindex: 1, name: "late" }]);
  small.ifindex = 1;
  tap.packet(0, small, 2);
  assertEquals(capture.droppedPackets, 2);
  const first = capture.take()!.slice();
  tap.packet(0, small, 3);
  const captured = readPcapng(new Uint8Array([...first, ...capture.take()!]));
  assertEquals(captured.interfaces, ["x", "late:out"]);
  assertEquals(captured.packets.at(-1)!.name, "late:out");
});

Deno.test("capture: a buffer that is too small is refused", () => {
  assertThrows(() => new PacketCapture(1000), RangeError, "at least 65536");
});
