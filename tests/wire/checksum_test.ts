/**
 * The Internet checksum: RFC 1071's and RFC 1624's examples, a slow reference, and every corner of the update.
 *
 * @module
 */

import { assertStrictEquals } from "@std/assert";
import * as fc from "fast-check";
import { Rng } from "../../src/base/rng.ts";
import { checksumFinish, checksumFold, checksumSum, checksumUpdate, sum32 } from "../../src/wire/checksum.ts";
import { exactView, fromHex } from "../testing/bytes.ts";
import { slowChecksum, slowSum } from "../testing/slow_checksum.ts";

const checksum = (bytes: Uint8Array): number => checksumFinish(checksumSum(exactView(bytes), 0, bytes.length));

Deno.test("checksum: the worked example of RFC 1071 section 3", () => {
  const bytes = fromHex("0001 f203 f4f5 f6f7");
  const sum = checksumSum(exactView(bytes), 0, 8);
  assertStrictEquals(sum, 0x2ddf0);
  assertStrictEquals(checksumFold(sum), 0xddf2);
  assertStrictEquals(checksumFinish(sum), 0x220d);
  // With its checksum appended, the range is correct.
  assertStrictEquals(checksum(fromHex("0001 f203 f4f5 f6f7 220d")), 0);
});

Deno.test("checksum: the textbook IPv4 header", () => {
  assertStrictEquals(checksum(fromHex("4500 0073 0000 4000 4011 0000 c0a8 0001 c0a8 00c7")), 0xb861);
  assertStrictEquals(checksum(fromHex("4500 0073 0000 4000 4011 b861 c0a8 0001 c0a8 00c7")), 0);
});

Deno.test("checksum: empty, zero and all ones", () => {
  assertStrictEquals(checksum(new Uint8Array(0)), 0xffff);
  assertStrictEquals(checksum(new Uint8Array(40)), 0xffff);
  assertStrictEquals(checksum(new Uint8Array(40).fill(0xff)), 0);
  assertStrictEquals(checksum(new Uint8Array(65_536).fill(0xff)), 0);
  assertStrictEquals(checksum(fromHex("ab")), 0xffff - 0xab00);
});

Deno.test("checksum: every offset and every length agree with the slow reference", () => {
  const rng = new Rng(1).fork("checksum");
  const bytes = Uint8Array.from({ length: 140 }, () => rng.below(256));
  const view = exactView(bytes);
  for (let start = 0; start <= 33; start++) {
    for (let end = start; end <= bytes.length; end++) {
      assertStrictEquals(checksumFold(checksumSum(view, start, end)), slowSum(bytes.subarray(start, end)));
    }
  }
});

Deno.test("checksum: any bytes agree with the slow reference, from any initial sum", () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 1600, size: "max" }),
      fc.nat(2 ** 32 - 1),
      (bytes, initial) => {
        const expected = slowChecksum(
          new Uint8Array([initial >>> 24, (initial >>> 16) & 255, (initial >>> 8) & 255, initial & 255, ...bytes]),
        );
        const sum = checksumSum(exactView(bytes), 0, bytes.length, sum32(initial));
        assertStrictEquals(checksumFinish(sum), expected);
        assertStrictEquals(checksumFinish(checksumSum(exactView(bytes), 0, bytes.length) + sum32(initial)), expected);
      },
    ),
    { numRuns: 300 },
  );
});

Deno.test("checksum: parts of even length may be summed apart", () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 200, size: "max" }), fc.nat(100), (bytes, half) => {
    const cut = Math.min(2 * half, bytes.length & ~1);
    const view = exactView(bytes);
    const parts = checksumSum(view, cut, bytes.length, checksumSum(view, 0, cut));
    assertStrictEquals(checksumFinish(parts), slowChecksum(bytes));
  }));
});

Deno.test("checksum: fold brings any sum below 2^53 to 16 bits", () => {
  fc.assert(fc.property(fc.maxSafeInteger().map(Math.abs), (sum) => {
    const folded = checksumFold(sum);
    // 2^16 = 1 modulo 65,535: a sum keeps its residue, and only zero folds to zero.
    assertStrictEquals(folded % 0xffff, sum % 0xffff);
    assertStrictEquals(folded === 0, sum === 0);
    assertStrictEquals(folded <= 0xffff, true);
  }));
});

Deno.test("checksum update: the example of RFC 1624 section 4", () => {
  // A full computation gives 0x0000 here, where the older equation of RFC 1141 gives 0xffff.
  assertStrictEquals(checksumUpdate(0xdd2f, 0x5555, 0x3285), 0x0000);
});

Deno.test("checksum update: equals a full recomputation for all corner values over all other data", () => {
  const corners = [0x0000, 0x0001, 0x00ff, 0x0100, 0x7fff, 0x8000, 0xff00, 0xfffe, 0xffff];
  for (const before of corners) {
    for (const after of corners) {
      // `rest`: the folded sum of everything else that the checksum covers.
      for (let rest = 0; rest <= 0xffff; rest++) {
        const updated = checksumUpdate(checksumFinish(rest + before), before, after);
        const full = checksumFinish(rest + after);
        if (updated === full) continue;
        // Of data that is all zero, the two zeros of ones' complement are the same sum; no IP header is all zero.
        if (rest === 0 && after === 0 && updated === 0 && full === 0xffff) continue;
        throw new Error(`rest ${rest}, ${before} -> ${after}: updated ${updated}, full ${full}`);
      }
    }
  }
});

Deno.test("checksum update: a change of any word of any data is followed", () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 4, maxLength: 60 }), fc.nat(), fc.nat(0xffff), (bytes, at, after) => {
      // A first byte that is not zero, as in every IP header.
      bytes[0] = 0x45;
      const word = 2 * (1 + at % ((bytes.length >> 1) - 1));
      const before = bytes[word]! * 256 + bytes[word + 1]!;
      const old = slowChecksum(bytes);
      bytes[word] = after >> 8;
      bytes[word + 1] = after & 255;
      assertStrictEquals(checksumUpdate(old, before, after), slowChecksum(bytes));
    }),
  );
});

Deno.test("checksum: sum32 adds the halves of int32 and uint32 alike", () => {
  assertStrictEquals(sum32(0x12345678), 0x1234 + 0x5678);
  assertStrictEquals(sum32(-1), 0x1fffe);
  assertStrictEquals(sum32(0x80000000 | 0), 0x8000);
});
