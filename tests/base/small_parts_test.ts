/**
 * Drop reasons and counters, the arena, errors as values, time.
 *
 * @module
 */

import { assert, assertEquals, assertMatch, assertStrictEquals } from "@std/assert";
import { Arena } from "../../src/base/arena.ts";
import { DropCounters, DropReason, dropReasonName } from "../../src/base/drop.ts";
import { plainError, SocketErrorKind } from "../../src/base/errors.ts";
import { fromMilliseconds, MICROSECOND, MILLISECOND, NEVER, SECOND, toMilliseconds } from "../../src/base/time.ts";

Deno.test("drop reasons: each has a kebab-case name of its own", () => {
  const names = new Set<string>();
  for (let reason = DropReason.None; reason < DropReason.Count; reason++) {
    assertMatch(dropReasonName(reason), /^[a-z0-9]+(-[a-z0-9]+)*$/);
    names.add(dropReasonName(reason));
  }
  assertStrictEquals(names.size, DropReason.Count);
  assertStrictEquals(dropReasonName(DropReason.UnknownPeer), "unknown-peer");
  assertStrictEquals(dropReasonName(DropReason.BadTcpChecksum), "bad-tcp-checksum");
  assertStrictEquals(dropReasonName(DropReason.TtlExceeded), "ttl-exceeded");
  assertStrictEquals(dropReasonName(999 as DropReason), "reason-999");
});

Deno.test("drop counters: count, total, and show only what happened", () => {
  const counters = new DropCounters();
  assertEquals(counters.toJSON(), {});
  assertStrictEquals(counters.total(), 0);
  counters.count(DropReason.ImpairLoss);
  counters.count(DropReason.ImpairLoss);
  counters.count(DropReason.Closed);
  assertStrictEquals(counters.get(DropReason.ImpairLoss), 2);
  assertStrictEquals(counters.get(DropReason.NoRoute), 0);
  assertStrictEquals(counters.get(999 as DropReason), 0);
  assertStrictEquals(counters.total(), 3);
  assertEquals(JSON.parse(JSON.stringify(counters)), { "impair-loss": 2, "closed": 1 });
});

Deno.test("arena: hands out zeroed, aligned pieces that do not overlap, then null", () => {
  const arena = new Arena(256);
  const a = arena.allocate(1)!;
  const b = arena.allocate(64)!;
  const c = arena.allocate(100)!;
  assertEquals([a.length, b.length, c.length], [1, 64, 100]);
  assertEquals([a.byteOffset, b.byteOffset, c.byteOffset], [0, 64, 128]);
  assertStrictEquals(arena.freeBytes, 0);
  assertStrictEquals(arena.allocate(1), null);
  assert(arena.bytes.every((byte) => byte === 0));
  for (const piece of [a, b, c]) assertStrictEquals(piece.buffer, arena.bytes.buffer);
  // What does not fit is refused and takes nothing.
  const other = new Arena(128);
  assertStrictEquals(other.allocate(129), null);
  assertStrictEquals(other.allocate(128)?.length, 128);
});

Deno.test("errors: the plain factory names the kind and keeps the sentence", () => {
  const error = plainError(SocketErrorKind.ConnectionRefused, "10.7.0.2:80 answered with a reset");
  assert(error instanceof Error);
  assertStrictEquals(error.name, "ConnectionRefused");
  assertStrictEquals(error.message, "10.7.0.2:80 answered with a reset");
});

Deno.test("time: units are whole nanoseconds, and NEVER is later than all of them", () => {
  assertEquals([MICROSECOND, MILLISECOND, SECOND], [1e3, 1e6, 1e9]);
  assertStrictEquals(fromMilliseconds(1.0000004), 1_000_000);
  assertStrictEquals(fromMilliseconds(0.5), 500_000);
  assertStrictEquals(toMilliseconds(1_500_000), 1.5);
  assert(NEVER > Number.MAX_SAFE_INTEGER && NEVER === NEVER + SECOND);
});
