/**
 * Trains: what leaves is what was handed over, in order and with its boundaries, whatever the kernel refuses.
 *
 * @module
 */

import { assert, assertEquals, assertLessOrEqual } from "@std/assert";
import fc from "fast-check";
import { Packet } from "../../../src/base/packet.ts";
import { Errno } from "../../../src/runtime/linux/abi.ts";
import { SEND_LIMIT, SendBatch, type SendBatchOptions } from "../../../src/runtime/linux/send_batch.ts";
import { IpAddr } from "../../../src/wire/ip_addr.ts";
import { FakeLibc, int, type SentMessage } from "../../testing/fake_libc.ts";

const A = IpAddr.parse("192.0.2.1");
const B = IpAddr.parse("192.0.2.2");

function batchOf(options: Partial<SendBatchOptions> = {}) {
  const libc = new FakeLibc();
  const counts = { datagrams: 0, bytes: 0, refused: 0 };
  const tooBig: string[] = [];
  const batch = new SendBatch(libc, {
    sent: (datagrams, bytes) => {
      counts.datagrams += datagrams;
      counts.bytes += bytes;
    },
    refused: () => counts.refused++,
    tooBig: (to) => tooBig.push(`${to}`),
  }, { v4: true, datagramBytes: 2048, trains: true, txTimeOffset: null, ...options });
  return { libc, batch, counts, tooBig };
}

interface Datagram {
  length: number;
  fill: number;
  to?: IpAddr;
  port?: number;
  trafficClass?: number;
  departAt?: number;
}

function append(batch: SendBatch, d: Datagram): void {
  const p = new Packet(new Uint8Array(2048));
  p.start = 100;
  p.end = 100 + d.length;
  p.bytes.fill(d.fill, p.start, p.end);
  p.outerTrafficClass = d.trafficClass ?? 0;
  p.departAt = d.departAt ?? 0;
  batch.append(p, d.to ?? A, d.port ?? 4790);
}

function segmentOf(message: SentMessage): number {
  const segment = message.control.find(({ kind }) => kind === "17/103");
  return segment === undefined ? 0 : segment.data[0]! + segment.data[1]! * 256;
}

/** The datagrams that a kernel would put on the wire. */
function datagramsOf(messages: readonly SentMessage[]) {
  return messages.flatMap((message) => {
    const segment = segmentOf(message) || Math.max(1, message.bytes.length);
    const pieces = [];
    for (let at = 0; at < Math.max(1, message.bytes.length); at += segment) {
      const bytes = message.bytes.slice(at, at + segment);
      const [, , high, low, ...address] = message.name;
      const tos = message.control.find(({ kind }) => kind === "0/1")?.data[0] ?? 0;
      pieces.push({
        length: bytes.length,
        fill: bytes[0] ?? -1,
        to: address.slice(0, 4).join("."),
        port: high! * 256 + low!,
        tos,
      });
    }
    return pieces;
  });
}

function expected(datagrams: readonly Datagram[]) {
  return datagrams.map(({ length, fill, to = A, port = 4790, trafficClass = 0 }) => ({
    length,
    fill: length === 0 ? -1 : fill,
    to: `${to}`,
    port,
    tos: trafficClass,
  }));
}

Deno.test("send batch: equal lengths to one place are one message, a shorter one ends it", () => {
  const { libc, batch, counts } = batchOf();
  const lengths = [1472, 1472, 1472, 610, 52, 1472, 1472];
  lengths.forEach((length, i) => append(batch, { length, fill: i }));
  batch.flush(3);
  assertEquals(libc.sends, 1);
  assertEquals(libc.sent.map((m) => [m.bytes.length, segmentOf(m)]), [[5026, 1472], [52, 0], [2944, 1472]]);
  assertEquals(counts, { datagrams: 7, bytes: 8022, refused: 0 });
  assertEquals(batch.size, 0);
});

Deno.test("send batch: destination, port, traffic class and departure time part trains", () => {
  const { libc, batch } = batchOf({ txTimeOffset: 1_000_000 });
  const same = IpAddr.parse("192.0.2.1");
  const all: Datagram[] = [
    { length: 100, fill: 1 },
    { length: 100, fill: 2, to: same },
    { length: 100, fill: 3, to: B },
    { length: 100, fill: 4, to: B, port: 9 },
    { length: 100, fill: 5, to: B, port: 9, trafficClass: 1 },
    { length: 100, fill: 6, to: B, port: 9, trafficClass: 1, departAt: 5 },
    { length: 100, fill: 7, to: B, port: 9, trafficClass: 1, departAt: 5 },
  ];
  for (const d of all) append(batch, d);
  batch.flush(3);
  assertEquals(libc.sent.map(({ bytes }) => bytes.length / 100), [2, 1, 1, 1, 2]);
  assertEquals(datagramsOf(libc.sent), expected(all));
  const last = libc.sent.at(-1)!;
  assertEquals(last.control.map(({ kind }) => kind), ["0/1", "1/61", "17/103"]);
  assertEquals(last.control[1]!.data, [...int(1_000_005), 0, 0, 0, 0]);
});

Deno.test("send batch: an IPv6 destination stands where the kernel looks for it", () => {
  const { libc, batch } = batchOf({ v4: false });
  append(batch, { length: 3, fill: 7, to: IpAddr.parse("fd00:9::2"), port: 0x1234, trafficClass: 0xb9 });
  batch.flush(3);
  const address = [0xfd, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
  assertEquals(libc.sent[0]!.name, [10, 0, 0x12, 0x34, 0, 0, 0, 0, ...address, 0, 0, 0, 0]);
  assertEquals(libc.sent[0]!.control, [{ kind: "41/67", data: int(0xb9) }]);
});

const anyDatagram: fc.Arbitrary<Datagram> = fc.record({
  length: fc.oneof(fc.constantFrom(1472, 1472, 1472, 52), fc.integer({ min: 0, max: 2048 })),
  fill: fc.nat(255),
  to: fc.constantFrom(A, A, A, B),
  port: fc.constantFrom(4790, 4790, 4791),
  trafficClass: fc.constantFrom(0, 0, 0, 3, 0xb8),
});

Deno.test("send batch: what arrives is what was handed over, and as few messages as can be", () => {
  fc.assert(
    fc.property(fc.array(anyDatagram, { maxLength: SEND_LIMIT }), fc.boolean(), (datagrams, trains) => {
      const { libc, batch, counts } = batchOf({ trains });
      for (const d of datagrams) append(batch, d);
      assertEquals(batch.size, datagrams.length);
      batch.flush(3);
      assertEquals(datagramsOf(libc.sent), expected(datagrams));
      assertEquals(counts.datagrams, datagrams.length);
      for (const message of libc.sent) assertLessOrEqual(message.bytes.length, 65507);
      if (!trains) assertEquals(libc.sent.length, datagrams.length);
      else {
        for (const [i, message] of libc.sent.slice(1).entries()) {
          const before = libc.sent[i]!;
          const segment = segmentOf(before) || before.bytes.length;
          const isShort = before.bytes.length % (segment || 1) !== 0;
          const same = `${before.name}` === `${message.name}` &&
            `${before.control.filter(({ kind }) => kind !== "17/103").map(({ data }) => data)}` ===
              `${message.control.filter(({ kind }) => kind !== "17/103").map(({ data }) => data)}`;
          const first = segmentOf(message) || message.bytes.length;
          const fits = before.bytes.length + segment <= 65507;
          const isEmpty = segment === 0 || message.bytes.length === 0;
          assert(!same || isShort || first > segment || isEmpty || !fits, "could have been one train");
        }
      }
    }),
    { numRuns: 300 },
  );
});

Deno.test("send batch: refusals, full sockets and pieces one by one lose nothing but what is refused", () => {
  const anyRefusal = fc.constantFrom(
    0,
    0,
    0,
    Errno.EAGAIN,
    Errno.EINTR,
    Errno.EIO,
    Errno.EINVAL,
    Errno.EMSGSIZE,
    1,
    105,
  );
  fc.assert(
    fc.property(
      fc.array(fc.array(anyDatagram, { maxLength: 30 }), { minLength: 1, maxLength: 8 }),
      fc.array(anyRefusal, { maxLength: 40 }),
      (turns, refusals) => {
        const { libc, batch, counts } = batchOf();
        const left = [...refusals];
        const refusedDatagrams: unknown[] = [];
        libc.onSend = (message, isFirst) => {
          const errno = left.shift() ?? 0;
          const isOne = segmentOf(message) === 0;
          const isFinal = errno !== 0 && errno !== Errno.EAGAIN && errno !== Errno.EINTR;
          if (isFinal && isOne && isFirst) refusedDatagrams.push(...datagramsOf([message]));
          return errno;
        };
        const handed: Datagram[] = [];
        for (const datagrams of turns) {
          for (const d of datagrams) {
            assertEquals(batch.isFull, batch.room === 0);
            if (batch.isFull) break;
            append(batch, d);
            handed.push(d);
          }
          const before = batch.size;
          batch.flush(3);
          assertLessOrEqual(batch.size, before);
        }
        for (let tries = 0; batch.size > 0; tries++) {
          assert(tries < 100, "it never ends");
          batch.flush(3);
        }
        assertEquals(counts.refused, refusedDatagrams.length);
        assertEquals(counts.datagrams + counts.refused, handed.length);
        const arrived = datagramsOf(libc.sent);
        assertEquals(counts.bytes, arrived.reduce((n, { length }) => n + length, 0));
        // In order: taking the arrived ones out of those handed over leaves exactly the refused ones, in order.
        const rest = [];
        let at = 0;
        for (const d of expected(handed)) {
          if (at < arrived.length && JSON.stringify(arrived[at]) === JSON.stringify(d)) at++;
          else rest.push(d);
        }
        if (new Set(handed.map((d) => JSON.stringify(d.fill))).size === handed.length) {
          assertEquals(at, arrived.length);
          assertEquals(rest, refusedDatagrams);
        }
        assertEquals(batch.room, SEND_LIMIT);
      },
    ),
    { numRuns: 300 },
  );
});

Deno.test("send batch: a device that cannot finish checksums ends trains, and nothing is lost", () => {
  const { libc, batch, counts } = batchOf();
  libc.onSend = (message) => segmentOf(message) > 0 ? Errno.EIO : 0;
  for (let i = 0; i < 5; i++) append(batch, { length: 1000, fill: i });
  append(batch, { length: 1200, fill: 9 });
  append(batch, { length: 1200, fill: 10 });
  batch.flush(3);
  assertEquals(datagramsOf(libc.sent).map(({ fill }) => fill), [0, 1, 2, 3, 4, 9, 10]);
  assertEquals(libc.sent.every((message) => segmentOf(message) === 0), true);
  assert(batch.noTrains.includes("EIO"));
  libc.sends = 0;
  for (let i = 0; i < 5; i++) append(batch, { length: 1000, fill: i });
  batch.flush(3);
  assertEquals(libc.sends, 1);
  assertEquals(counts, { datagrams: 12, bytes: 12_400, refused: 0 });
});

Deno.test("send batch: pieces larger than the path takes go one by one, smaller ones still in trains", () => {
  for (const errno of [Errno.EINVAL, Errno.EMSGSIZE]) {
    const { libc, batch } = batchOf();
    libc.onSend = (message) => segmentOf(message) > 1400 ? errno : 0;
    for (let turn = 0; turn < 2; turn++) {
      for (let i = 0; i < 3; i++) append(batch, { length: 1472, fill: i });
      for (let i = 0; i < 3; i++) append(batch, { length: 1400, fill: i });
      libc.sends = 0;
      batch.flush(3);
    }
    assertEquals(libc.sends, 1);
    assertEquals(libc.sent.map(({ bytes }) => bytes.length), [1472, 1472, 1472, 1400, 2800, 1472, 1472, 1472, 4200]);
    assertEquals(batch.noTrains, "");
  }
});

Deno.test("send batch: a destination that takes no datagram of a size does not end the trains to others", () => {
  for (const errno of [Errno.EINVAL, Errno.EMSGSIZE, Errno.EPERM]) {
    for (const [near, far] of [["192.0.2.1", "192.0.2.2"], ["2001:db8::1", "2001:db8::2"]]) {
      const [to, lost] = [IpAddr.parse(near!), IpAddr.parse(far!)];
      const { libc, batch, counts } = batchOf({ v4: to.isV4 });
      const lastByte = to.isV4 ? 7 : 23;
      // As the kernel: a train is refused, and so is each of its pieces that is too large.
      libc.onSend = (message) =>
        message.name[lastByte] === 2 && (errno !== Errno.EMSGSIZE || message.bytes.length > 900) ? errno : 0;
      for (let turn = 0; turn < 3; turn++) {
        for (let i = 0; i < 3; i++) append(batch, { length: 1400, fill: i, to: lost });
        append(batch, { length: 800, fill: 3, to: lost });
        batch.flush(3);
        libc.sent.length = 0;
        for (let i = 0; i < 4; i++) append(batch, { length: 1400, fill: i, to });
        batch.flush(3);
        assertEquals(libc.sent.map(({ bytes }) => bytes.length), [5600]);
      }
      assertEquals([counts.refused, counts.datagrams], errno === Errno.EMSGSIZE ? [9, 15] : [12, 12]);
      assertEquals(batch.noTrains, "");
    }
  }
});

Deno.test("send batch: a full socket keeps order and room is told truly", () => {
  const { libc, batch } = batchOf();
  let isFull = true;
  libc.onSend = () => isFull ? Errno.EAGAIN : 0;
  for (let i = 0; i < SEND_LIMIT; i++) append(batch, { length: i % 2 === 0 ? 500 : 600, fill: i });
  assertEquals(batch.room, 0);
  batch.flush(3);
  assertEquals(batch.room, 0);
  isFull = false;
  let taken = 0;
  libc.onSend = () => ++taken > 10 ? Errno.EAGAIN : 0;
  batch.flush(3);
  assertEquals(batch.size, SEND_LIMIT - datagramsOf(libc.sent).length);
  libc.onSend = () => 0;
  batch.flush(3);
  assertEquals(datagramsOf(libc.sent).map(({ fill }) => fill), Array.from({ length: SEND_LIMIT }, (_, i) => i));
  assertEquals(batch.room, SEND_LIMIT);
});

Deno.test("send batch: who a datagram is for that is too large is told, in both families", () => {
  for (const to of ["192.0.2.2", "2001:db8:1:2:3:4:5:6"].map((text) => IpAddr.parse(text))) {
    const { libc, batch, counts, tooBig } = batchOf({ v4: to.isV4 });
    libc.onSend = (message, isFirst) => isFirst && message.bytes.length >= 1200 ? Errno.EMSGSIZE : 0;
    for (const length of [1400, 1400, 1000, 1200]) append(batch, { length, fill: 1, to });
    batch.flush(3);
    assertEquals(tooBig, [`${to}`, `${to}`, `${to}`]);
    assertEquals([counts.datagrams, counts.refused, batch.size], [1, 3, 0]);
  }
});
