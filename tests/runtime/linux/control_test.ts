/**
 * Control messages: what is written can be read, and nothing that is read can do harm.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { IpOption, Ipv6Option, Level, SocketOption, UdpOption } from "../../../src/runtime/linux/abi.ts";
import {
  emitSegment,
  emitTrafficClass,
  emitTxTime,
  ReceivedControl,
  SEND_CONTROL_BYTES,
} from "../../../src/runtime/linux/control.ts";
import { controlMessage, int } from "../../testing/fake_libc.ts";

function parse(bytes: Uint8Array<ArrayBuffer>, length = bytes.length) {
  const control = new ReceivedControl();
  const isWhole = control.parse(new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), 0, length);
  return { isWhole, segment: control.segmentBytes, trafficClass: control.trafficClass };
}

function join(...parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(parts.reduce((n, part) => n + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

const gro = (bytes: number): Uint8Array => controlMessage(Level.Udp, UdpOption.Gro, int(bytes));
const tos = (value: number): Uint8Array => controlMessage(Level.Ip, IpOption.Tos, [value]);

Deno.test("control: segment size and traffic class are found in any order, among others", () => {
  assertEquals(parse(new Uint8Array(0)), { isWhole: true, segment: 0, trafficClass: 0 });
  const other = controlMessage(Level.Socket, 40, int(17));
  const class6 = controlMessage(Level.Ipv6, Ipv6Option.TrafficClass, int(0xb9));
  assertEquals(parse(join(gro(1472), tos(0x2e))), { isWhole: true, segment: 1472, trafficClass: 0x2e });
  assertEquals(parse(join(other, class6, other, gro(52))), { isWhole: true, segment: 52, trafficClass: 0xb9 });
  assertEquals(parse(controlMessage(Level.Udp, UdpOption.Gro, [0xc0, 5])), {
    isWhole: true,
    segment: 1472,
    trafficClass: 0,
  });
});

Deno.test("control: the last message may come without its padding", () => {
  const bytes = join(gro(1000), tos(3));
  assertEquals(parse(bytes, bytes.length - 7), { isWhole: true, segment: 1000, trafficClass: 3 });
});

Deno.test("control: a segment size that is no size is refused", () => {
  for (const size of [0, -1, -(2 ** 31)]) assertEquals(parse(join(gro(size))).isWhole, false);
  assertEquals(parse(join(gro(2 ** 31 - 1))), { isWhole: true, segment: 2 ** 31 - 1, trafficClass: 0 });
  assertEquals(parse(controlMessage(Level.Udp, UdpOption.Gro, [1])).isWhole, false);
  assertEquals(parse(controlMessage(Level.Ip, IpOption.Tos, [])).isWhole, false);
});

Deno.test("control: cut off anywhere, it says so, or what it says was whole", () => {
  const bytes = join(gro(1472), tos(2), controlMessage(1, 40, int(9)));
  for (let length = 0; length < bytes.length; length++) {
    const { isWhole, segment, trafficClass } = parse(bytes.slice(0, length));
    assert(segment === 0 || (segment === 1472 && length >= 20), `${length}`);
    assert(trafficClass === 0 || (trafficClass === 2 && length >= 41), `${length}`);
    const ends = [0, 20, 21, 22, 23, 24, 41, 42, 43, 44, 45, 46, 47, 48, 68, 69, 70, 71];
    assertEquals(isWhole, ends.includes(length), `${length}`);
  }
});

Deno.test("control: a message whose length is a lie ends it", () => {
  for (const length of [0, 1, 15, 25, 2 ** 31, 2 ** 32, 2 ** 40, 2 ** 63, 2 ** 64 - 1]) {
    const bytes = join(gro(1472));
    new DataView(bytes.buffer).setBigUint64(0, BigInt(Math.min(length, 2 ** 64 - 2048)), true);
    assertEquals(parse(bytes), { isWhole: false, segment: 0, trafficClass: 0 });
  }
  assertEquals(parse(new Uint8Array(64), 80).isWhole, false);
  assertEquals(parse(new Uint8Array(64), -8).isWhole, false);
});

Deno.test("control: arbitrary bytes never make it read outside, nor give a size below 1", () => {
  fc.assert(fc.property(
    fc.uint8Array({ maxLength: 128 }),
    fc.array(
      fc.record({
        at: fc.nat(15),
        length: fc.oneof(fc.nat(40), fc.maxSafeNat()),
        level: fc.constantFrom(0, 1, 17, 41),
        type: fc.constantFrom(1, 40, 67, 103, 104),
      }),
      { maxLength: 4 },
    ),
    (random, headers) => {
      // Followed by bytes that would be found if it read on.
      const bytes = new Uint8Array(256).fill(0x66);
      bytes.set(random);
      const view = new DataView(bytes.buffer);
      for (const { at, length, level, type } of headers) {
        view.setBigUint64(at * 8, BigInt(length), true);
        view.setInt32(at * 8 + 8, level, true);
        view.setInt32(at * 8 + 12, type, true);
      }
      const seen = parse(bytes.slice(0, random.length));
      assertEquals(parse(bytes, random.length), seen);
      assert(seen.segment >= 0);
      assert(seen.trafficClass >= 0 && seen.trafficClass <= 255);
    },
  ));
});

Deno.test("control: what is to be sent has the layout of the kernel", () => {
  const bytes = new Uint8Array(SEND_CONTROL_BYTES).fill(0xff);
  const view = new DataView(bytes.buffer);
  let end = emitTrafficClass(view, 0, true, 0xb8);
  end = emitTxTime(view, end, 1_000_000_000_123);
  end = emitSegment(view, end, 1472);
  assertEquals(end, SEND_CONTROL_BYTES);
  const ids = [[Level.Ip, IpOption.Tos], [Level.Socket, SocketOption.TxTime], [Level.Udp, UdpOption.Segment]];
  assertEquals(
    [0, 24, 48].map((
      at,
    ) => [Number(view.getBigUint64(at, true)), view.getInt32(at + 8, true), view.getInt32(at + 12, true)]),
    [[20, ...ids[0]!], [24, ...ids[1]!], [18, ...ids[2]!]],
  );
  assertEquals(view.getInt32(16, true), 0xb8);
  assertEquals(view.getBigUint64(40, true), 1_000_000_000_123n);
  assertEquals(view.getUint16(64, true), 1472);
  emitTrafficClass(view, 0, false, 0x03);
  assertEquals([view.getInt32(8, true), view.getInt32(12, true)], [Level.Ipv6, Ipv6Option.TrafficClass]);
});
