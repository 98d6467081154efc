import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { DropReason } from "../../src/base/drop.ts";
import { SocketErrorKind } from "../../src/base/errors.ts";
import { SocketEvent } from "../../src/base/event_queue.ts";
import type { Packet } from "../../src/base/packet.ts";
import { Rng } from "../../src/base/rng.ts";
import { DATAGRAM_OVERHEAD_BYTES, DatagramQueue } from "../../src/udp/datagram_queue.ts";
import type { UdpError } from "../../src/udp/network.ts";
import { EPHEMERAL_PORT_FIRST, EPHEMERAL_PORT_LAST, Udp } from "../../src/udp/udp.ts";
import { UdpSocket } from "../../src/udp/udp_socket.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { parseUdp, UdpHeader } from "../../src/wire/udp.ts";
import { hex, pattern, udpPacket } from "../testing/ip_packets.ts";
import { TransportNetwork } from "../testing/transport_network.ts";

class Bench {
  readonly network = new TransportNetwork();
  readonly udp: Udp;

  constructor(receiveBufferBytes = 4096, socketLimit = 40_000, seed = 1) {
    this.udp = new Udp(this.network, new Rng(seed), { receiveBufferBytes, socketLimit });
  }

  bind(local: string, port = 0): UdpSocket {
    const socket = this.udp.bind(IpAddr.parse(local), port);
    if (!(socket instanceof UdpSocket)) throw new Error(SocketErrorKind[socket]);
    return socket;
  }

  refusal(local: string, port = 0): string {
    const socket = this.udp.bind(IpAddr.parse(local), port);
    return socket instanceof UdpSocket ? "bound" : SocketErrorKind[socket]!;
  }

  /** Delivers a packet as the stack does: frees it if UDP did not take it. */
  input(p: Packet, now = 0): string {
    const reason = this.udp.input(p, this.network.parse(p), now);
    if (reason !== DropReason.None) this.network.release(p);
    return DropReason[reason]!;
  }

  done(): void {
    this.network.freeSent();
    assertEquals(this.network.pool.inUse, 0);
  }
}

function* drain(bench: Bench): Iterable<Packet> {
  for (let p = bench.network.sent.shift(); p !== null; p = bench.network.sent.shift()) yield p;
}

const families = [
  { name: "IPv4", any: "0.0.0.0", here: "10.7.0.1", there: "10.7.0.2", other: "10.7.0.3", header: 20 },
  { name: "IPv6", any: "::", here: "fd07::1", there: "fd07::2", other: "fd07::3", header: 40 },
];

for (const { name, any, here, there, other, header } of families) {
  const v4 = name === "IPv4";

  Deno.test(`${name}: a datagram reaches the socket on its port with source, port, data and time`, () => {
    const bench = new Bench();
    for (const local of [any, here]) {
      const socket = bench.bind(local, 53);
      const options = { src: there, dst: here, srcPort: 4000, dstPort: 53, payload: pattern(100) };
      assertEquals(bench.input(udpPacket(bench.network.pool, options), 1234), "None");
      assertEquals(bench.network.events.poll(), socket);
      assertEquals(socket.events, SocketEvent.Readable);
      assertEquals([socket.queuedDatagrams, socket.nextDatagramBytes], [1, 100]);
      const target = new Uint8Array(200);
      assertEquals(socket.receive(target), 100);
      assertEquals(hex(target.subarray(0, 101)), `${hex(pattern(100))} 00`);
      assertEquals([`${socket.receivedAddress}`, socket.receivedPort, socket.receivedAt], [there, 4000, 1234]);
      assertEquals(socket.receive(target), -1);
      assertEquals(socket.nextDatagramBytes, -1);
      socket.close();
    }
    bench.done();
  });

  Deno.test(`${name}: a socket with room for less gets the front of the datagram and its length, then the next`, () => {
    const bench = new Bench();
    const socket = bench.bind(here, 53);
    for (const n of [10, 0, 3]) {
      const payload = pattern(n);
      bench.input(udpPacket(bench.network.pool, { src: there, dst: here, srcPort: n + 1, dstPort: 53, payload }));
    }
    const target = new Uint8Array(4);
    assertEquals(socket.receive(target), 10);
    assertEquals(hex(target), "00 01 02 03");
    assertEquals([socket.receive(target), socket.receivedPort], [0, 1]);
    assertEquals([socket.receive(target), socket.receivedPort], [3, 4]);
    bench.done();
  });

  Deno.test(`${name}: no socket, wrong port and closed socket are refused with NoSocket`, () => {
    const bench = new Bench();
    const socket = bench.bind(here, 53);
    const send = (dstPort: number): string =>
      bench.input(udpPacket(bench.network.pool, { src: there, dst: here, srcPort: 9, dstPort }));
    assertEquals(send(54), "NoSocket");
    assertEquals(send(0), "NoSocket");
    assertEquals(send(53), "None");
    socket.close();
    assertEquals([socket.receive(new Uint8Array(9)), socket.nextDatagramBytes], [-1, -1]);
    assertEquals(send(53), "NoSocket");
    assertEquals(bench.refusal(here, 53), "bound");
    bench.done();
  });

  Deno.test(`${name}: a full receive buffer is its own reason, and reading makes room`, () => {
    const bench = new Bench(2 * (DATAGRAM_OVERHEAD_BYTES + 100));
    const socket = bench.bind(here, 53);
    const send = (n: number): string =>
      bench.input(
        udpPacket(bench.network.pool, { src: there, dst: here, srcPort: 9, dstPort: 53, payload: pattern(n) }),
      );
    assertEquals([send(100), send(101), send(100), send(0)], [
      "None",
      "ReceiveBufferFull",
      "None",
      "ReceiveBufferFull",
    ]);
    assertEquals([socket.receivedDatagrams, socket.droppedDatagrams], [2, 2]);
    socket.receive(new Uint8Array(0));
    assertEquals(send(100), "None");
    bench.done();
  });

  Deno.test(`${name}: datagrams without data are bounded too`, () => {
    const bench = new Bench(1000);
    const socket = bench.bind(here, 53);
    for (let i = 0; i < 100; i++) {
      bench.input(udpPacket(bench.network.pool, { src: there, dst: here, srcPort: 9, dstPort: 53 }));
    }
    assertEquals(socket.queuedDatagrams, Math.floor(1000 / DATAGRAM_OVERHEAD_BYTES));
    bench.done();
  });

  Deno.test(`${name}: a wrong checksum, a zero one, and a length beyond the packet`, () => {
    const bench = new Bench();
    bench.bind(here, 53);
    const make = (): Packet =>
      udpPacket(bench.network.pool, { src: there, dst: here, srcPort: 9, dstPort: 53, payload: pattern(8) });
    const bad = make();
    bad.bytes[bad.end - 1]! ^= 0x80;
    assertEquals(bench.input(bad), "BadUdpChecksum");
    const zero = make();
    zero.view.setUint16(zero.l4 + 6, 0);
    assertEquals(bench.input(zero), v4 ? "None" : "BadUdpChecksum");
    const long = make();
    long.view.setUint16(long.l4 + 4, 17);
    assertEquals(bench.input(long), "Truncated");
    bench.done();
  });

  Deno.test(`${name}: sends with the chosen source, ports and a right checksum`, () => {
    const bench = new Bench();
    for (const local of [any, here]) {
      const socket = bench.bind(local, 4000);
      socket.ttl = 7;
      socket.trafficClass = 0x2e << 2;
      assertEquals(socket.send(pattern(33), IpAddr.parse(there), 53, 0), SocketErrorKind.None);
      const p = bench.network.sent.shift()!;
      const ip = bench.network.parse(p);
      const h = new UdpHeader();
      assertEquals(parseUdp(p.view, p.l4, p.end, ip, h), DropReason.None);
      assertEquals([h.srcPort, h.dstPort, h.length], [4000, 53, 41]);
      assertEquals([ip.ttl, ip.trafficClass, ip.protocol], [7, 0xb8, 17]);
      assertEquals(`${new IpAddr(ip.src0, ip.src1, ip.src2, ip.src3)}`, here);
      assertEquals(`${new IpAddr(ip.dst0, ip.dst1, ip.dst2, ip.dst3)}`, there);
      assertEquals(hex(p.bytes.subarray(p.l4 + 8, p.end)), hex(pattern(33)));
      assertEquals(p.departAt, 0);
      bench.network.release(p);
      socket.close();
    }
    bench.done();
  });

  Deno.test(`${name}: a datagram fills the MTU exactly, and one byte more is too long`, () => {
    const bench = new Bench();
    const socket = bench.bind(here);
    const room = 1500 - header - 8;
    assertEquals(socket.send(pattern(room), IpAddr.parse(there), 53, 0), SocketErrorKind.None);
    assertEquals(socket.send(pattern(room + 1), IpAddr.parse(there), 53, 0), SocketErrorKind.MessageTooLong);
    assertEquals(bench.network.sent.head?.length, 1500);
    bench.done();
  });

  Deno.test(`${name}: what cannot be sent says why and leaks nothing`, () => {
    const bench = new Bench();
    const socket = bench.bind(any);
    const send = (): string => SocketErrorKind[socket.send(pattern(1), IpAddr.parse(there), 53, 0)]!;
    bench.network.mtu = 0;
    assertEquals(send(), "HostUnreachable");
    bench.network.mtu = 1500;
    bench.network.answer = DropReason.NoRoute;
    assertEquals(send(), "HostUnreachable");
    bench.network.answer = DropReason.TooBig;
    assertEquals(send(), "MessageTooLong");
    bench.network.answer = DropReason.None;
    bench.network.own.length = 0;
    assertEquals(send(), "AddrNotAvailable");
    assertThrows(() => socket.send(pattern(1), IpAddr.parse(v4 ? "fd07::2" : "10.7.0.2"), 53, 0), TypeError, "socket");
    assertThrows(() => socket.send(pattern(1), IpAddr.parse(there), 0, 0), RangeError, "port");
    assertThrows(() => socket.send(pattern(1), IpAddr.parse(there), 65536, 0), RangeError, "port");
    socket.close();
    bench.network.own.push(IpAddr.parse(here));
    assertEquals(send(), "BadResource");
    assertEquals(socket.sentDatagrams, 0);
    bench.done();
  });

  Deno.test(`${name}: a connected socket hears only its remote end`, () => {
    const bench = new Bench();
    const socket = bench.bind(any, 4000);
    assertEquals(socket.connect(IpAddr.parse(there), 53), SocketErrorKind.None);
    assertEquals(`${socket.localAddress}`, here);
    const send = (src: string, srcPort: number): string =>
      bench.input(udpPacket(bench.network.pool, { src, dst: here, srcPort, dstPort: 4000 }));
    assertEquals([send(there, 53), send(there, 54), send(other, 53)], ["None", "NoSocket", "NoSocket"]);
    bench.done();
  });

  Deno.test(`${name}: port unreachable is an error of the connected socket that it quotes, and of no other`, () => {
    const bench = new Bench();
    const socket = bench.bind(any, 4000);
    const src = IpAddr.parse(here);
    const error = (changes: Partial<UdpError> & { to?: string }): string => {
      const dst = IpAddr.parse(changes.to ?? there);
      bench.udp.icmpError({
        version: v4 ? 4 : 6,
        type: v4 ? 3 : 1,
        code: v4 ? 3 : 4,
        mtu: 0,
        src0: src.w0,
        src1: src.w1,
        src2: src.w2,
        src3: src.w3,
        dst0: dst.w0,
        dst1: dst.w1,
        dst2: dst.w2,
        dst3: dst.w3,
        srcPort: 4000,
        dstPort: 53,
        ...changes,
      }, 0);
      return SocketErrorKind[socket.takeError()]!;
    };
    assertEquals(error({}), "None");
    socket.connect(IpAddr.parse(there), 53);
    assertEquals(error({}), "ConnectionRefused");
    assertEquals(bench.network.events.poll(), socket);
    assertEquals(SocketErrorKind[socket.takeError()], "None");
    assertEquals(error({ dstPort: 54 }), "None");
    assertEquals(error({ srcPort: 4001 }), "None");
    assertEquals(error({ to: other }), "None");
    assertEquals(error({ code: 0 }), "None");
    assertEquals(error({ type: v4 ? 11 : 3 }), "None");
    assertEquals(bench.network.events.poll(), null);
    bench.done();
  });

  Deno.test(`${name}: "too big" lowers the path MTU of the socket that sent, and is its error unless it may fragment`, () => {
    const bench = new Bench();
    const socket = bench.bind(any, 4000);
    const remote = IpAddr.parse(there);
    const src = IpAddr.parse(here);
    const error = (mtu: number): string => {
      bench.udp.icmpError({
        version: v4 ? 4 : 6,
        type: v4 ? 3 : 2,
        code: v4 ? 4 : 0,
        mtu,
        src0: src.w0,
        src1: src.w1,
        src2: src.w2,
        src3: src.w3,
        dst0: remote.w0,
        dst1: remote.w1,
        dst2: remote.w2,
        dst3: remote.w3,
        srcPort: 4000,
        dstPort: 53,
      }, 0);
      return SocketErrorKind[socket.takeError()]!;
    };
    const headers = v4 ? 28 : 48;
    const send = (bytes: number): string => SocketErrorKind[socket.send(new Uint8Array(bytes), remote, 53, 0)]!;
    assertEquals(error(1400), "None");
    assertEquals(bench.network.pathMtu, Infinity, "believed, although nothing was sent");
    assertEquals(send(1500 - headers), "None");
    assertEquals(error(1400), "None");
    assertEquals(bench.network.pathMtu, 1400);
    assertEquals([send(1400 - headers), send(1401 - headers)], ["None", "MessageTooLong"]);
    socket.connect(remote, 53);
    assertEquals(error(1300), "MessageTooLong");
    assertEquals(bench.network.events.poll(), socket);
    bench.network.freeSent();
    const flags = (): boolean[] =>
      [...drain(bench)].map((p) => {
        const { dontFragment } = bench.network.parse(p);
        bench.network.release(p);
        return dontFragment;
      });
    socket.pathMtuDiscovery = "probe";
    assertEquals([send(1500 - headers), send(1501 - headers)], ["None", "MessageTooLong"]);
    assertEquals(flags(), [true]);
    socket.pathMtuDiscovery = "want";
    assertEquals(error(1290), "None");
    assertEquals([send(100), send(1400), send(65_535 - headers), send(65_536 - headers)], [
      "None",
      "None",
      "None",
      "MessageTooLong",
    ]);
    if (v4) assertEquals(flags(), [true, false, false]);
    else bench.network.freeSent();
    socket.pathMtuDiscovery = "dont";
    assertEquals([send(100), send(1400), send(1600)], ["None", "None", "None"]);
    if (v4) assertEquals(flags(), [false, false, false]);
    bench.done();
  });

  Deno.test(`${name}: "too big" is believed only if so much was sent, and told only then`, () => {
    const bench = new Bench();
    const socket = bench.bind(any, 4000);
    const remote = IpAddr.parse(there);
    socket.connect(remote, 53);
    const src = IpAddr.parse(here);
    const from = { src0: src.w0, src1: src.w1, src2: src.w2, src3: src.w3, srcPort: 4000 };
    const to = { dst0: remote.w0, dst1: remote.w1, dst2: remote.w2, dst3: remote.w3, dstPort: 53 };
    const error = (mtu: number): [string, number] => {
      const kind = v4 ? { version: 4, type: 3, code: 4 } : { version: 6, type: 2, code: 0 };
      bench.udp.icmpError({ ...kind, mtu, ...from, ...to }, 0);
      return [SocketErrorKind[socket.takeError()]!, bench.network.pathMtu];
    };
    const headers = v4 ? 28 : 48;
    const send = (bytes: number): SocketErrorKind => socket.send(new Uint8Array(bytes - headers), remote, 53, 0);
    assertEquals(error(0), ["None", Infinity]);
    assertEquals(send(1350), SocketErrorKind.None);
    for (const mtu of [1350, 1351, 1500, 9000, 0x10000 + 1300, 0xffffffff, ...(v4 ? [] : [0, 68, 1279])]) {
      assertEquals(error(mtu), ["None", Infinity], `${mtu}`);
    }
    assertEquals(error(1349), ["MessageTooLong", 1349]);
    assertEquals(bench.network.tooBigBytes, 1350);
    // What was cut says no more than its fragments: those are of the path's MTU.
    socket.pathMtuDiscovery = "want";
    assertEquals(send(3000), SocketErrorKind.None);
    error(1300);
    assertEquals(bench.network.tooBigBytes, 1350);
    bench.done();
  });

  Deno.test(`${name}: two sockets share a port only on different addresses`, () => {
    const bench = new Bench();
    const second = v4 ? "10.7.0.9" : "fd07::9";
    bench.network.own.push(IpAddr.parse(second));
    const a = bench.bind(here, 53);
    assertEquals(bench.refusal(here, 53), "AddrInUse");
    assertEquals(bench.refusal(any, 53), "AddrInUse");
    const b = bench.bind(second, 53);
    a.close();
    assertEquals(bench.refusal(any, 53), "AddrInUse");
    b.close();
    bench.bind(any, 53);
    assertEquals(bench.refusal(any, 53), "AddrInUse");
    assertEquals(bench.refusal(here, 53), "AddrInUse");
    assertEquals(bench.refusal(v4 ? "::" : "0.0.0.0", 53), "bound");
    assertEquals(bench.refusal(there, 99), "AddrNotAvailable");
    assertThrows(() => bench.udp.bind(IpAddr.parse(here), 65536), RangeError, "port");
    assertThrows(() => bench.udp.bind(IpAddr.parse(here), 1.5), RangeError, "port");
    bench.done();
  });
}

Deno.test("ephemeral ports come from their range, follow the seed, and run out one by one", () => {
  const ports = (seed: number, n: number): number[] => {
    const bench = new Bench(64, 40_000, seed);
    return Array.from({ length: n }, () => bench.bind("10.7.0.1").localPort);
  };
  assertEquals(ports(5, 20), ports(5, 20));
  assert(ports(5, 5).join() !== ports(6, 5).join());
  const range = EPHEMERAL_PORT_LAST - EPHEMERAL_PORT_FIRST + 1;
  const bench = new Bench(64);
  const all = Array.from({ length: range }, () => bench.bind("10.7.0.1"));
  const numbers = all.map((s) => s.localPort);
  assertEquals([Math.min(...numbers), Math.max(...numbers)], [EPHEMERAL_PORT_FIRST, EPHEMERAL_PORT_LAST]);
  assertEquals(new Set(numbers).size, range);
  assertEquals(bench.refusal("10.7.0.1"), "AddrNotAvailable");
  assertEquals(bench.refusal("0.0.0.0"), "AddrNotAvailable");
  all[777]!.close();
  assertEquals(bench.bind("0.0.0.0").localPort, all[777]!.localPort);
  bench.done();
});

Deno.test("the number of sockets is bounded", () => {
  const bench = new Bench(64, 3);
  for (let i = 0; i < 3; i++) bench.bind("10.7.0.1");
  assertEquals(bench.refusal("10.7.0.1"), "NoBufferSpace");
  bench.udp.sockets()[0]!.close();
  assertEquals(bench.refusal("10.7.0.1"), "bound");
});

Deno.test("with an empty pool, sending says so", () => {
  const bench = new Bench();
  const held: Packet[] = [];
  for (let p = bench.network.acquire(); p !== null; p = bench.network.acquire()) held.push(p);
  const socket = bench.bind("10.7.0.1");
  assertEquals(socket.send(pattern(1), IpAddr.parse("10.7.0.2"), 53, 0), SocketErrorKind.NoBufferSpace);
  for (const p of held) bench.network.release(p);
  bench.done();
});

Deno.test("the datagram queue behaves as a list that is bounded by bytes, round and round its ring", () => {
  const operation = fc.oneof(
    fc.record({ push: fc.nat(90) }),
    fc.record({ take: fc.nat(90) }),
  );
  fc.assert(fc.property(fc.array(operation, { maxLength: 200, size: "max" }), (operations) => {
    const capacity = 400;
    const queue = new DatagramQueue(capacity);
    const model: { bytes: Uint8Array; port: number }[] = [];
    let used = 0;
    let port = 0;
    for (const o of operations) {
      if ("push" in o) {
        port = (port + 1) & 0xffff;
        const bytes = Uint8Array.from({ length: o.push }, (_, i) => (i * 7 + port) & 0xff);
        const fits = used + DATAGRAM_OVERHEAD_BYTES + o.push <= capacity;
        assertEquals(queue.push(-1, port, 0, 1, port, bytes, 0, bytes.length, port * 1000), fits);
        if (!fits) continue;
        used += DATAGRAM_OVERHEAD_BYTES + o.push;
        model.push({ bytes, port });
      } else {
        const target = new Uint8Array(o.take);
        const length = queue.take(target);
        const expected = model.shift();
        assertEquals(length, expected?.bytes.length ?? -1);
        if (expected === undefined) continue;
        used -= DATAGRAM_OVERHEAD_BYTES + length;
        const n = Math.min(length, o.take);
        assertEquals(hex(target.subarray(0, n)), hex(expected.bytes.subarray(0, n)));
        assertEquals([queue.src0, queue.src1, queue.srcPort, queue.arrivedAt], [
          -1,
          expected.port,
          expected.port,
          expected.port * 1000,
        ]);
      }
      assertEquals([queue.count, queue.bytes, queue.nextBytes], [model.length, used, model[0]?.bytes.length ?? -1]);
    }
  }));
});

Deno.test("IPv4: where nothing smaller would be believed, what may be cut leaves without don't-fragment", () => {
  const sent = (pathMtu: number, discovery: "want" | "do" | "probe"): boolean => {
    const bench = new Bench();
    bench.network.pathMtu = pathMtu;
    const socket = bench.bind("10.7.0.1", 4000);
    socket.pathMtuDiscovery = discovery;
    assertEquals(socket.send(pattern(400), IpAddr.parse("10.7.0.2"), 53, 0), SocketErrorKind.None);
    const { dontFragment } = bench.network.parse(bench.network.sent.head!);
    bench.done();
    return dontFragment;
  };
  assertEquals([sent(552, "want"), sent(553, "want"), sent(1500, "want")], [false, true, true]);
  assertEquals([sent(552, "do"), sent(552, "probe")], [true, true]);
});

Deno.test("golden: a datagram over IPv4", () => {
  const bench = new Bench();
  bench.bind("10.7.0.1", 4000).send(pattern(3), IpAddr.parse("10.7.0.2"), 53, 0);
  assertEquals(
    hex(bench.network.sent.head!.toBytes()),
    "45 00 00 1f 00 00 40 00 40 11 26 be 0a 07 00 01 0a 07 00 02 0f a0 00 35 00 0b d9 f1 00 01 02",
  );
  bench.done();
});
