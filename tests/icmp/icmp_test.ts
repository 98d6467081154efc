import { assert, assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { DropReason } from "../../src/base/drop.ts";
import { SocketErrorKind } from "../../src/base/errors.ts";
import { SocketEvent } from "../../src/base/event_queue.ts";
import type { Packet } from "../../src/base/packet.ts";
import { Rng } from "../../src/base/rng.ts";
import { MILLISECOND, NEVER } from "../../src/base/time.ts";
import { Icmp, PING_SOCKETS_MAX } from "../../src/icmp/icmp.ts";
import { IcmpError } from "../../src/icmp/network.ts";
import { PING_RESULTS_MAX, PING_SLOTS, PingOutcome, type PingResult, PingSocket } from "../../src/icmp/ping_socket.ts";
import { IcmpHeader, parseIcmp } from "../../src/wire/icmp.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { hex, icmpPacket, pattern, udpPacket } from "../testing/ip_packets.ts";
import { TransportNetwork } from "../testing/transport_network.ts";

class Bench {
  readonly network = new TransportNetwork();
  readonly errors: IcmpError[] = [];
  readonly icmp = new Icmp(
    this.network,
    { icmpError: (e) => this.errors.push(Object.assign(new IcmpError(), e)) },
    new Rng(1).fork("icmp"),
  );

  input(p: Packet, now = 0): void {
    this.icmp.input(p, this.network.parse(p), now);
  }

  open(remote: string): PingSocket {
    const socket = this.icmp.openPing(IpAddr.parse(remote));
    if (!(socket instanceof PingSocket)) throw new Error(SocketErrorKind[socket]);
    return socket;
  }

  /** The packet sent last, taken off the list. */
  sent(): { p: Packet; icmp: IcmpHeader; src: string; dst: string } {
    const p = this.network.sent.shift();
    assert(p !== null, "nothing was sent");
    const ip = this.network.parse(p);
    const icmp = new IcmpHeader();
    assertEquals(parseIcmp(p.view, p.l4, p.end, ip, icmp), DropReason.None);
    const src = `${new IpAddr(ip.src0, ip.src1, ip.src2, ip.src3)}`;
    return { p, icmp, src, dst: `${new IpAddr(ip.dst0, ip.dst1, ip.dst2, ip.dst3)}` };
  }

  done(): void {
    this.network.freeSent();
    assertEquals(this.network.pool.inUse, 0);
  }
}

const families = [
  { name: "IPv4", here: "10.7.0.1", there: "10.7.0.2", router: "10.9.0.9", other: "10.7.0.3" },
  { name: "IPv6", here: "fd07::1", there: "fd07::2", router: "fd09::9", other: "fd07::3" },
];

for (const { name, here, there, router, other } of families) {
  const v4 = name === "IPv4";
  const request = v4 ? 8 : 128;
  const reply = v4 ? 0 : 129;
  const unreachable = v4 ? 3 : 1;
  const timeExceeded = v4 ? 11 : 3;

  Deno.test(`${name}: an echo request comes back with the same id, sequence number and data`, () => {
    const bench = new Bench();
    const p = icmpPacket(bench.network.pool, {
      src: there,
      dst: here,
      type: request,
      id: 0x1234,
      seq: 0xfffe,
      payload: pattern(33),
      trafficClass: 0x13,
    });
    p.departAt = 77;
    p.flow = 5;
    bench.input(p);
    const sent = bench.sent();
    assertEquals(sent.p, p);
    assertEquals([sent.src, sent.dst], [here, there]);
    assertEquals([sent.icmp.type, sent.icmp.code, sent.icmp.id, sent.icmp.seq], [reply, 0, 0x1234, 0xfffe]);
    assertEquals(hex(p.bytes.subarray(p.l4 + 8, p.end)), hex(pattern(33)));
    assertEquals([p.departAt, p.flow], [0, 0]);
    assertEquals(bench.network.parse(p).trafficClass, 0x10);
    assertEquals(bench.network.parse(p).ttl, 64);
    bench.network.release(p);
    bench.done();
  });

  Deno.test(`${name}: a reply that cannot leave is counted`, () => {
    const bench = new Bench();
    bench.network.answer = DropReason.NoRoute;
    bench.input(icmpPacket(bench.network.pool, { src: there, dst: here, type: request }));
    assertEquals(bench.network.drops.toJSON(), { "no-route": 1 });
    bench.done();
  });

  Deno.test(`${name}: a wrong checksum, a cut header and other types are counted and not answered`, () => {
    const bench = new Bench();
    const bad = icmpPacket(bench.network.pool, { src: there, dst: here, type: request, payload: pattern(4) });
    bad.bytes[bad.end - 1]! ^= 1;
    bench.input(bad);
    const p = icmpPacket(bench.network.pool, { src: there, dst: here, type: request });
    const ip = bench.network.parse(p);
    p.end -= 1;
    bench.icmp.input(p, ip, 0);
    for (const type of v4 ? [4, 5, 9, 10, 13, 17, 42, 255] : [2, 4, 130, 133, 134, 135, 136, 143, 255]) {
      bench.input(icmpPacket(bench.network.pool, { src: there, dst: here, type, payload: pattern(24) }));
    }
    bench.input(icmpPacket(bench.network.pool, { src: there, dst: here, type: request, code: 1 }));
    assertEquals(bench.network.drops.toJSON(), {
      "bad-icmp-checksum": 1,
      truncated: 1,
      "icmp-ignored": (v4 ? 8 : 9) + 1,
    });
    assertEquals(bench.network.sent.packets, 0);
    bench.done();
  });

  Deno.test(`${name}: a ping's round trip is counted from its departure stamp`, () => {
    const bench = new Bench();
    const socket = bench.open(there);
    assertEquals(socket.send(7, 56, 64, 1000), SocketErrorKind.None);
    const { p, icmp, src, dst } = bench.sent();
    assertEquals([src, dst], [here, there]);
    assertEquals([icmp.type, icmp.code, icmp.id, icmp.seq], [request, 0, socket.id, 7]);
    assertEquals(p.end - p.l4, 64);
    assertEquals(p.departAt, 1000);
    bench.network.release(p);
    assertEquals(socket.receive(), null);
    bench.input(
      icmpPacket(bench.network.pool, {
        src: there,
        dst: here,
        type: reply,
        id: socket.id,
        seq: 7,
        payload: pattern(56),
        ttl: 61,
      }),
      1000 + 20 * MILLISECOND,
    );
    assertEquals(bench.network.events.poll(), socket);
    assertEquals(socket.events, SocketEvent.Readable);
    const result = socket.receive();
    assertEquals(result, {
      outcome: PingOutcome.Reply,
      seq: 7,
      rtt: 20 * MILLISECOND,
      from: IpAddr.parse(there),
      ttl: 61,
      dataBytes: 56,
      type: reply,
      code: 0,
      mtu: 0,
      duplicate: false,
    });
    assertEquals([socket.sent, socket.received], [1, 1]);
    assertEquals(socket.receive(), null);
    bench.done();
  });

  Deno.test(`${name}: a second reply is a duplicate; one from elsewhere, with another id or seq, is ignored`, () => {
    const bench = new Bench();
    const socket = bench.open(there);
    socket.send(1, 0, 64, 0);
    const answer = (src: string, id: number, seq: number, dst = here): void =>
      bench.input(icmpPacket(bench.network.pool, { src, dst, type: reply, id, seq }), 5);
    answer(other, socket.id, 1);
    answer(there, (socket.id + 1) & 0xffff, 1);
    answer(there, socket.id, 2);
    answer(there, socket.id, 1 + PING_SLOTS);
    answer(there, socket.id, 1, other);
    assertEquals(bench.network.drops.toJSON(), { "icmp-ignored": 5 });
    answer(there, socket.id, 1);
    answer(there, socket.id, 1);
    assertEquals([socket.receive()?.duplicate, socket.receive()?.duplicate], [false, true]);
    assertEquals([socket.received, socket.duplicates], [1, 1]);
    bench.done();
  });

  Deno.test(`${name}: an ICMP error that quotes a request ends it, and says who sent it`, () => {
    const bench = new Bench();
    const socket = bench.open(there);
    for (const [seq, type, code] of [[1, timeExceeded, 0], [2, unreachable, 1]] as const) {
      socket.send(seq, 32, 3, 0);
      const { p } = bench.sent();
      const quote = p.bytes.slice(p.start, p.l4 + 8);
      bench.network.release(p);
      const error = { src: router, dst: here, type, code, payload: quote, ttl: 250 };
      bench.input(icmpPacket(bench.network.pool, error), 9 * MILLISECOND);
      const result = socket.receive()!;
      assertEquals([result.outcome, result.seq, `${result.from}`, result.type, result.code, result.ttl, result.rtt], [
        PingOutcome.Error,
        seq,
        router,
        type,
        code,
        250,
        9 * MILLISECOND,
      ]);
      bench.input(icmpPacket(bench.network.pool, error), 10 * MILLISECOND);
      assertEquals(socket.receive(), null);
    }
    assertEquals(socket.errors, 2);
    assertEquals(bench.network.drops.toJSON(), { "icmp-ignored": 2 });
    bench.done();
  });

  Deno.test(`${name}: "too big" is believed only of a request that waits and was larger; its MTU is passed on, and learnt`, () => {
    const bench = new Bench();
    const socket = bench.open(there);
    const headers = (v4 ? 20 : 40) + 8;
    const quotes = [1400, 1401, 1401].map((bytes, i) => {
      socket.send(i, bytes - headers, 64, 0, 5);
      const { p } = bench.sent();
      const quote = p.bytes.slice(p.start, p.l4 + 8);
      bench.network.release(p);
      return quote;
    });
    bench.icmp.timeout(5);
    for (let i = 0; i < 3; i++) assertEquals(socket.receive()?.outcome, PingOutcome.Timeout);
    const tooBig = (quote: Uint8Array, mtu: number): number => {
      const [type, code] = v4 ? [3, 4] : [2, 0];
      const error = { src: router, dst: here, type, code, id: mtu >>> 16, seq: mtu & 0xffff, payload: quote };
      bench.input(icmpPacket(bench.network.pool, error), 6);
      return bench.network.pathMtu;
    };
    assertEquals(tooBig(quotes[1]!, 1400), Infinity, "nobody waits any more");
    for (const [i, bytes] of [1400, 1401].entries()) socket.send(i, bytes - headers, 64, 6);
    bench.network.freeSent();
    assertEquals(tooBig(quotes[0]!, 1400), Infinity, "1,400 bytes are not too big for 1,400");
    assertEquals(tooBig(quotes[2]!, 1400), Infinity, "such a request was not sent again");
    if (!v4) assertEquals(tooBig(quotes[1]!, 0x10000 + 1300), Infinity, "all 32 bits are read");
    assertEquals(socket.receive(), null);
    assertEquals(tooBig(quotes[1]!, 1400), 1400);
    assertEquals(bench.network.tooBigBytes, 1401);
    assertEquals(socket.receive()?.mtu, 1400);
    bench.done();
  });

  Deno.test(`${name}: a redirect or a source quench that quotes a packet of ours ends nothing`, () => {
    const bench = new Bench();
    const socket = bench.open(there);
    socket.send(1, 32, 64, 0);
    const { p } = bench.sent();
    const quote = p.bytes.slice(p.start, p.l4 + 8);
    bench.network.release(p);
    const q = udpPacket(bench.network.pool, { src: here, dst: there, srcPort: 5000, dstPort: 53 });
    const datagram = q.toBytes().slice();
    bench.network.release(q);
    const types = v4 ? [4, 5] : [137];
    for (const payload of [quote, datagram]) {
      for (const type of types) bench.input(icmpPacket(bench.network.pool, { src: router, dst: here, type, payload }));
    }
    assertEquals(bench.network.drops.toJSON(), { "icmp-ignored": 2 * types.length });
    assertEquals([socket.receive(), bench.errors.length], [null, 0]);
    bench.input(icmpPacket(bench.network.pool, { src: there, dst: here, type: reply, id: socket.id, seq: 1 }), 9);
    assertEquals([socket.receive()?.duplicate, socket.errors], [false, 0]);
    bench.done();
  });

  Deno.test(`${name}: the reply to a request that might have been cut may be cut, and so may a large one`, () => {
    for (const [bytes, dontFragment] of [[100, true], [100, false], [1000, true], [1000, false]] as const) {
      const bench = new Bench();
      const p = icmpPacket(bench.network.pool, {
        src: there,
        dst: here,
        type: request,
        payload: pattern(bytes),
        dontFragment,
      });
      const ip = bench.network.parse(p);
      let mayBeCut: boolean | null = null;
      bench.network.output = (q, out) => {
        mayBeCut = !out.dontFragment;
        bench.network.release(q);
        return DropReason.None;
      };
      bench.icmp.input(p, ip, 0);
      assertEquals(mayBeCut, bytes > 576 || (v4 && !dontFragment), `${bytes} ${dontFragment}`);
      bench.done();
    }
  });

  Deno.test(`${name}: an error about a UDP datagram of ours goes to the transports`, () => {
    const bench = new Bench();
    const q = udpPacket(bench.network.pool, { src: here, dst: there, srcPort: 5000, dstPort: 53, payload: pattern(9) });
    const quote = q.toBytes().slice();
    bench.network.release(q);
    const error = { src: router, dst: here, type: unreachable, code: v4 ? 3 : 4, payload: quote, seq: 99 };
    bench.input(icmpPacket(bench.network.pool, error));
    assertEquals(bench.errors.length, 1);
    const e = bench.errors[0]!;
    assertEquals([e.version, e.type, e.code, e.mtu, e.protocol], [v4 ? 4 : 6, unreachable, v4 ? 3 : 4, 0, 17]);
    assertEquals(`${new IpAddr(e.src0, e.src1, e.src2, e.src3)} ${e.srcPort}`, `${here} 5000`);
    assertEquals(`${new IpAddr(e.dst0, e.dst1, e.dst2, e.dst3)} ${e.dstPort}`, `${there} 53`);
    assertEquals(`${new IpAddr(e.from0, e.from1, e.from2, e.from3)}`, router);
    // With eight bytes of it, but not with seven.
    const least = (v4 ? 20 : 40) + 8;
    bench.input(icmpPacket(bench.network.pool, { ...error, payload: quote.subarray(0, least) }));
    assertEquals(bench.errors.length, 2);
    for (let n = 0; n < least; n++) {
      bench.input(icmpPacket(bench.network.pool, { ...error, payload: quote.subarray(0, n) }));
    }
    assertEquals(bench.errors.length, 2);
    assertEquals(bench.network.drops.toJSON(), { "icmp-ignored": least });
    bench.done();
  });

  Deno.test(`${name}: an error about a packet that we did not send is ignored`, () => {
    const bench = new Bench();
    const error = (src: string): void => {
      const q = udpPacket(bench.network.pool, { src, dst: there, srcPort: 5000, dstPort: 53 });
      const payload = q.toBytes().slice();
      bench.network.release(q);
      bench.input(icmpPacket(bench.network.pool, { src: router, dst: here, type: unreachable, payload }));
    };
    error(other);
    // Nor does one about a packet of another address of ours, sent to this one.
    error(v4 ? "11.7.0.1" : "fe07::1");
    error(v4 ? "10.7.0.2" : "fd07:0:0:1::1");
    assertEquals(bench.errors.length, 0);
    error(here);
    assertEquals(bench.errors.length, 1);
    bench.done();
  });

  Deno.test(`${name}: a request that nobody answers in time ends in a timeout, and a late reply is ignored`, () => {
    const bench = new Bench();
    const socket = bench.open(there);
    assertEquals(bench.icmp.nextAt(), NEVER);
    socket.send(1, 0, 64, 0, 300 * MILLISECOND);
    socket.send(2, 0, 64, 0, 200 * MILLISECOND);
    assertEquals(bench.icmp.nextAt(), 200 * MILLISECOND);
    bench.icmp.timeout(200 * MILLISECOND - 1);
    assertEquals(socket.receive(), null);
    bench.icmp.timeout(200 * MILLISECOND);
    const result = socket.receive()!;
    assertEquals([result.outcome, result.seq, result.rtt], [PingOutcome.Timeout, 2, 200 * MILLISECOND]);
    bench.input(icmpPacket(bench.network.pool, { src: there, dst: here, type: reply, id: socket.id, seq: 2 }));
    assertEquals(bench.network.drops.toJSON(), { "icmp-ignored": 1 });
    bench.input(icmpPacket(bench.network.pool, { src: there, dst: here, type: reply, id: socket.id, seq: 1 }));
    assertEquals(socket.receive()?.outcome, PingOutcome.Reply);
    assertEquals(bench.icmp.nextAt(), NEVER);
    bench.icmp.timeout(NEVER);
    assertEquals(socket.receive(), null);
    assertEquals(socket.timeouts, 1);
    bench.done();
  });

  Deno.test(`${name}: what cannot be sent says why and leaves no request behind`, () => {
    const bench = new Bench();
    const socket = bench.open(there);
    const room = 1500 - (v4 ? 20 : 40) - 8;
    assertEquals(socket.send(1, room + 1, 64, 0), SocketErrorKind.MessageTooLong);
    assertEquals(socket.send(1, room, 64, 0), SocketErrorKind.None);
    bench.network.mtu = 0;
    assertEquals(socket.send(2, 0, 64, 0), SocketErrorKind.HostUnreachable);
    bench.network.mtu = 1500;
    bench.network.answer = DropReason.NoRoute;
    assertEquals(socket.send(2, 0, 64, 0), SocketErrorKind.HostUnreachable);
    assertEquals(socket.sent, 1);
    assertThrows(() => socket.send(65536, 0, 64, 0), RangeError, "sequence number");
    assertThrows(() => socket.send(1, 0, 0, 0), RangeError, "TTL");
    assertThrows(() => socket.send(1, -1, 64, 0), RangeError, "data bytes");
    bench.done();
  });
}

Deno.test("requests and results are bounded: the oldest request is given up, surplus results are counted", () => {
  const bench = new Bench();
  const socket = bench.open("10.7.0.2");
  for (let seq = 0; seq < PING_SLOTS; seq++) socket.send(seq, 0, 64, 0);
  bench.network.freeSent();
  assertEquals(socket.receive(), null);
  for (let seq = PING_SLOTS; seq < 3 * PING_SLOTS; seq++) socket.send(seq, 0, 64, 0);
  bench.network.freeSent();
  assertEquals(socket.timeouts, 2 * PING_SLOTS);
  assertEquals(socket.overflowed, 2 * PING_SLOTS - PING_RESULTS_MAX);
  const results: PingResult[] = [];
  for (let r = socket.receive(); r !== null; r = socket.receive()) results.push(r);
  assertEquals(results.length, PING_RESULTS_MAX);
  assertEquals(results[0]?.seq, 0);
  bench.done();
});

Deno.test("identifiers are unique, sockets bounded, and a closed one hears and sends nothing", () => {
  const bench = new Bench();
  const sockets = Array.from({ length: PING_SOCKETS_MAX }, () => bench.open("10.7.0.2"));
  assertEquals(new Set(sockets.map((s) => s.id)).size, PING_SOCKETS_MAX);
  assertEquals(bench.icmp.openPing(IpAddr.parse("10.7.0.2")), SocketErrorKind.NoBufferSpace);
  const socket = sockets[100]!;
  socket.send(1, 0, 64, 0, 5);
  socket.close();
  socket.close();
  assertEquals(bench.icmp.nextAt(), NEVER);
  bench.input(icmpPacket(bench.network.pool, { src: "10.7.0.2", dst: "10.7.0.1", type: 0, id: socket.id, seq: 1 }));
  assertEquals(bench.network.drops.toJSON(), { "icmp-ignored": 1 });
  assertEquals(socket.send(2, 0, 64, 0), SocketErrorKind.BadResource);
  assertNotEquals(bench.open("10.7.0.2"), socket);
  assertEquals(bench.icmp.sockets().length, PING_SOCKETS_MAX);
  bench.network.own.length = 1;
  assertEquals(bench.icmp.openPing(IpAddr.parse("fd07::2")), SocketErrorKind.AddrNotAvailable);
  bench.done();
});

Deno.test("golden: an echo request over IPv6 and its reply", () => {
  const bench = new Bench();
  const image = (text: string): Uint8Array => Uint8Array.from(text.split(" "), (byte) => parseInt(byte, 16));
  const p = bench.network.acquire()!;
  const request = image(
    "60 00 00 00 00 0d 3a 40 fd 07 00 00 00 00 00 00 00 00 00 00 00 00 00 02 fd 07 00 00 00 00 00 00 00 00 00 00 00 00 00 01 " +
      "80 00 c0 b0 be ef 00 01 00 01 02 03 04",
  );
  p.bytes.set(request, p.start);
  p.end = p.start + request.length;
  bench.input(p);
  assertEquals(
    hex(p.toBytes()),
    "60 00 00 00 00 0d 3a 40 fd 07 00 00 00 00 00 00 00 00 00 00 00 00 00 01 fd 07 00 00 00 00 00 00 00 00 00 00 00 00 00 02 " +
      "81 00 bf b0 be ef 00 01 00 01 02 03 04",
  );
  bench.done();
});

Deno.test("any message with a good checksum: nothing throws and no packet is lost", () => {
  const bench = new Bench();
  const socket = bench.open("10.7.0.2");
  fc.assert(
    fc.property(fc.nat(255), fc.nat(5), fc.uint8Array({ maxLength: 80 }), fc.boolean(), (type, code, bytes, v6) => {
      const payload = Uint8Array.from(bytes);
      if (payload.length > 0) payload[0] = v6 ? 0x60 : 0x45;
      const [src, dst] = v6 ? ["fd07::2", "fd07::1"] : ["10.7.0.2", "10.7.0.1"];
      bench.input(icmpPacket(bench.network.pool, { src, dst, type, code, id: socket.id, payload }));
      bench.network.freeSent();
      assertEquals(bench.network.pool.inUse, 0);
    }),
    { numRuns: 1000 },
  );
});
