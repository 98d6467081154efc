/**
 * Drop reasons and counters, errors as values, time.
 *
 * @module
 */

import { assert, assertEquals, assertMatch, assertStrictEquals } from "@std/assert";
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
