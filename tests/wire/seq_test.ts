/**
 * Sequence numbers, above all where they wrap at 2^32 and where int32 wraps at 2^31.
 *
 * @module
 */

import { assert, assertStrictEquals } from "@std/assert";
import * as fc from "fast-check";
import { seqAdd, seqDiff, seqGe, seqGt, seqLe, seqLt, seqMax, seqMin } from "../../src/wire/seq.ts";
import { i32 } from "../testing/arbitraries.ts";

/** Numbers around every wrap, as int32. */
const AROUND_WRAPS = [0, 0x7fffffff, 0x80000000, 0xffffffff].flatMap((n) => [n - 2, n - 1, n, n + 1, n + 2]).map((n) =>
  n | 0
);

Deno.test("seq: n bytes later is later, across every wrap", () => {
  for (const a of AROUND_WRAPS) {
    for (const n of [1, 2, 5, 1460, 65_535, 1 << 30, 0x7fffffff]) {
      const b = seqAdd(a, n);
      assertStrictEquals(b, b | 0);
      assertStrictEquals(seqDiff(b, a), n);
      assertStrictEquals(seqDiff(a, b), -n);
      assert(seqLt(a, b) && seqLe(a, b) && !seqGt(a, b) && !seqGe(a, b), `${a} before ${b}`);
      assert(!seqLt(b, a) && !seqLe(b, a) && seqGt(b, a) && seqGe(b, a), `${b} after ${a}`);
      assertStrictEquals(seqMax(a, b), b);
      assertStrictEquals(seqMax(b, a), b);
      assertStrictEquals(seqMin(a, b), a);
      assertStrictEquals(seqMin(b, a), a);
    }
  }
});

Deno.test("seq: a number is neither before nor after itself", () => {
  for (const a of AROUND_WRAPS) {
    assert(!seqLt(a, a) && seqLe(a, a) && !seqGt(a, a) && seqGe(a, a));
    assertStrictEquals(seqDiff(a, a), 0);
    assertStrictEquals(seqMax(a, a), a);
    assertStrictEquals(seqMin(a, a), a);
  }
});

Deno.test("seq: known neighbours at the wrap of 2^32", () => {
  const last = 0xffffffff | 0;
  assertStrictEquals(seqAdd(last, 1), 0);
  assertStrictEquals(seqAdd(0, -1), last);
  assertStrictEquals(seqAdd(0x7fffffff, 1), -0x80000000);
  assert(seqLt(last, 0) && seqGt(0, last) && seqLt(0xfffffff0 | 0, 0x10));
  assertStrictEquals(seqDiff(0x10, 0xfffffff0 | 0), 0x20);
});

Deno.test("seq: exactly 2^31 apart, each is before the other", () => {
  for (const a of AROUND_WRAPS) {
    const b = seqAdd(a, 2 ** 31);
    assert(seqLt(a, b) && seqLt(b, a) && !seqGt(a, b) && !seqGt(b, a));
  }
});

Deno.test("seq: agrees with arithmetic modulo 2^32", () => {
  fc.assert(fc.property(i32, i32, (a, b) => {
    const ahead = Number(BigInt.asUintN(32, BigInt(b) - BigInt(a)));
    assertStrictEquals(seqLt(a, b), ahead > 0 && ahead <= 2 ** 31);
    assertStrictEquals(seqDiff(b, a), ahead < 2 ** 31 ? ahead : ahead - 2 ** 32);
    assertStrictEquals(seqAdd(a, ahead), b);
    assertStrictEquals(seqLe(a, b), seqLt(a, b) || a === b);
    assertStrictEquals(seqGe(a, b), seqGt(a, b) || a === b);
    if (ahead !== 2 ** 31) assertStrictEquals(seqGt(a, b), seqLt(b, a));
  }));
});
