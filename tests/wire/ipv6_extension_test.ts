/**
 * IPv6 extension headers and the options of IPv4, byte by byte.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import {
  checkIpv4Options,
  copyFragmentOptions,
  OPTIONS_GOOD,
  OPTIONS_SOURCE_ROUTE,
} from "../../src/wire/ipv4_options.ts";
import {
  emitFragmentHeader,
  findBadOption,
  FragmentHeader,
  Ipv6Chain,
  parseFragmentHeader,
  walkIpv6Extensions,
} from "../../src/wire/ipv6_extension.ts";

function viewOf(bytes: readonly number[]): DataView {
  return new DataView(Uint8Array.from(bytes).buffer);
}

Deno.test("fragment header: every field in its place, both ways", () => {
  const h = new FragmentHeader();
  const view = viewOf([58, 0, 0x05, 0xa9, 0xde, 0xad, 0xbe, 0xef]);
  parseFragmentHeader(view, 0, h);
  assertEquals({ ...h }, { nextHeader: 58, offset: 0x5a8, more: true, id: 0xdeadbeef | 0 });
  const out = viewOf(new Array(8).fill(0xa5));
  emitFragmentHeader(out, 0, h);
  assertEquals(new Uint8Array(out.buffer), new Uint8Array(view.buffer));
});

Deno.test("a chain is walked to the transport header, or to a later fragment, or not at all", () => {
  const walk = (first: number, ...bytes: number[]): string => {
    const chain = new Ipv6Chain();
    const isWhole = walkIpv6Extensions(viewOf(bytes), 0, bytes.length, first, chain);
    const { protocol, at, isFragment, isLaterFragment, fragmentId } = chain;
    return `${isWhole} ${protocol} ${at} ${isFragment} ${isLaterFragment} ${fragmentId}`;
  };
  const rest = [0, 0, 0, 0, 0, 0];
  assertEquals(walk(6), "true 6 0 false false 0");
  assertEquals(walk(0, 60, 0, ...rest, 17, 1, ...rest, ...rest, 0, 0), "true 17 24 false false 0");
  assertEquals(walk(44, 17, 0, 0, 0, 0, 0, 0, 9), "true 17 8 false false 9");
  assertEquals(walk(44, 17, 0, 0, 1, 0, 0, 0, 9), "true 17 8 true false 9");
  assertEquals(walk(44, 60, 0, 0, 8, 0, 0, 0, 9), "true 60 8 true true 9");
  assertEquals(walk(60, 17, 1, ...rest), "false 60 0 false false 0");
  assertEquals(walk(60, 17), "false 60 0 false false 0");
  assertEquals(walk(60, ...Array.from({ length: 9 }, () => [60, 0, ...rest]).flat()).slice(0, 5), "false");
});

Deno.test("options of IPv6: any bytes are walked within their bounds", () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const at = findBadOption(view, 0, bytes.length);
    assert(at >= -1 && at < Math.max(1, bytes.length));
    if (at > 0) assert(bytes[at]! >= 0x40);
  }));
});

Deno.test("options of IPv4: any bytes are good, have a source route, or are pointed at; a copy of good ones is good", () => {
  const option = fc.oneof(
    fc.constant([1]),
    fc.tuple(fc.integer({ min: 2, max: 255 }), fc.uint8Array({ maxLength: 6 })).map(([type, data]) => [
      type,
      data.length + 2,
      ...data,
    ]),
  );
  fc.assert(fc.property(fc.array(option, { maxLength: 6 }), (list) => {
    const bytes = list.flat().slice(0, 40);
    while (bytes.length % 4 !== 0) bytes.push(0);
    const view = viewOf(bytes);
    const result = checkIpv4Options(view, 0, bytes.length);
    const whole = list.flat().length <= 40;
    if (whole) {
      const hasRoute = list.some(([type]) => type === 131 || type === 137);
      assertEquals(result, hasRoute ? OPTIONS_SOURCE_ROUTE : OPTIONS_GOOD);
      const copy = viewOf(new Array(44).fill(0xa5));
      const length = copyFragmentOptions(view, 0, bytes.length, copy, 0);
      assertEquals(length % 4, 0);
      const expected = list.filter(([type]) => type! >= 128).flat();
      assertEquals([...new Uint8Array(copy.buffer, 0, expected.length)], expected);
      assertEquals(length, Math.ceil(expected.length / 4) * 4);
    } else assert(result <= 0 || (result >= 20 && result < 20 + bytes.length));
  }));
});
