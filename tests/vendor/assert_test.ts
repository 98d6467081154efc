/**
 * The stand-in for `@std/assert`: every assertion passes what it should and fails what it should not.
 *
 * Failures are caught with plain `try`, so that a broken assertion cannot hide itself.
 *
 * @module
 */

import {
  assert,
  assertAlmostEquals,
  assertEquals,
  assertExists,
  assertGreater,
  assertGreaterOrEqual,
  assertInstanceOf,
  AssertionError,
  assertLess,
  assertLessOrEqual,
  assertMatch,
  assertNotEquals,
  assertRejects,
  assertStrictEquals,
  assertStringIncludes,
  assertThrows,
  equal,
  fail,
} from "@std/assert";

/** Runs `fn` and returns the message of the AssertionError that it must throw. */
function messageOf(fn: () => void): string {
  try {
    fn();
  } catch (error) {
    if (error instanceof AssertionError && error.name === "AssertionError") return error.message;
    throw error;
  }
  throw new Error(`did not fail: ${fn}`);
}

function check(condition: boolean, what: string): void {
  if (!condition) throw new Error(what);
}

class Point {
  #x: number;
  constructor(x: number) {
    this.#x = x;
  }
  get x(): number {
    return this.#x;
  }
}

function ring(value: number): Record<string, unknown> {
  const object: Record<string, unknown> = { value };
  object.self = object;
  return object;
}

const same: [unknown, unknown][] = [
  [NaN, NaN],
  [0, -0],
  ["a", "a"],
  [null, null],
  [{ a: [1, { b: 2 }] }, { a: [1, { b: 2 }] }],
  [{ a: 1, b: 2 }, { b: 2, a: 1 }],
  [Object.create(null), {}],
  [Uint8Array.of(1, 2), Uint8Array.of(1, 2)],
  [Float64Array.of(NaN, 0), Float64Array.of(NaN, -0)],
  [Uint8Array.of(9, 1, 2).subarray(1), Uint8Array.of(1, 2)],
  [Uint8Array.of(1, 2).buffer, Uint8Array.of(1, 2).buffer],
  [new DataView(Uint8Array.of(1, 2).buffer), new DataView(Uint8Array.of(1, 2).buffer)],
  [new Date(5), new Date(5)],
  [/a/g, /a/g],
  [new URL("a:b"), new URL("a:b")],
  [new Map([["a", { b: 1 }], ["c", { d: 2 }]]), new Map([["c", { d: 2 }], ["a", { b: 1 }]])],
  [new Map([[{ a: 1 }, 1], [{ b: 2 }, 2]]), new Map([[{ b: 2 }, 2], [{ a: 1 }, 1]])],
  [new Set([{ a: 1 }, 2]), new Set([2, { a: 1 }])],
  [new Point(1), new Point(1)],
  [ring(1), ring(1)],
];

const different: [unknown, unknown][] = [
  [1, "1"],
  [1n, 1],
  [null, undefined],
  [{ a: undefined }, {}],
  [{ a: undefined }, { b: undefined }],
  [{ a: 1 }, { a: 1, b: 2 }],
  [[1, 2], [2, 1]],
  [[1, 2], [1, 2, 3]],
  [[1], { 0: 1, length: 1 }],
  [new Array(1), [undefined]],
  [Uint8Array.of(1, 2), Uint8Array.of(1, 3)],
  [Uint8Array.of(1, 2), Uint8Array.of(1, 2, 0)],
  [Uint8Array.of(1, 2), Int8Array.of(1, 2)],
  [Uint8Array.of(1, 2).buffer, Uint8Array.of(1, 3).buffer],
  [new DataView(Uint8Array.of(1, 2).buffer), new DataView(Uint8Array.of(1, 3).buffer)],
  [new Date(5), new Date(6)],
  [/a/g, /a/i],
  [new URL("a:b"), new URL("a:c")],
  [new Map([["a", { b: 1 }]]), new Map([["a", { b: 2 }]])],
  [new Map([["a", undefined]]), new Map([["b", undefined]])],
  [new Map([[{ a: 1 }, 1], [{ b: 2 }, 2]]), new Map([[{ a: 1 }, 2], [{ b: 2 }, 1]])],
  [new Set([1]), new Set([2])],
  [new Set([1]), new Map([[1, 1]])],
  [new Point(1), new Point(2)],
  [new Point(1), { x: 1 }],
  [new Error("a"), new Error("b")],
  [ring(1), ring(2)],
  [() => {}, () => {}],
  [{ [Symbol.for("a")]: 1 }, { [Symbol.for("a")]: 2 }],
  [new WeakRef(Point), new WeakRef(AssertionError)],
];

Deno.test("assert: equal", () => {
  for (const [a, b] of same) {
    check(equal(a, b) && equal(b, a), `not equal: ${Deno.inspect([a, b])}`);
    assertEquals(a, b);
    messageOf(() => assertNotEquals(a, b));
  }
  for (const [a, b] of different) {
    check(!equal(a, b) && !equal(b, a), `equal: ${Deno.inspect([a, b])}`);
    assertNotEquals(a, b);
    messageOf(() => assertEquals(a, b));
  }
  for (const weak of [() => new WeakMap(), () => new WeakSet()]) {
    try {
      equal(weak(), weak());
    } catch (error) {
      check(error instanceof TypeError, "not a TypeError");
      continue;
    }
    throw new Error("compared what cannot be compared");
  }
});

Deno.test("assert: one that fails says why", () => {
  const of = messageOf;
  const cases: [string, string[]][] = [
    [of(() => assert(0, "why")), ["why"]],
    [of(() => fail("why")), ["Failed assertion: why"]],
    [of(() => assertEquals({ a: 1 }, { a: 2 }, "why")), ["Values are not equal: why", "a: 1", "a: 2"]],
    [of(() => assertNotEquals(1, 1, "why")), ["not to be: 1: why"]],
    [of(() => assertStrictEquals(1, 2, "why")), ["Values are not strictly equal: why"]],
    [of(() => assertStrictEquals(0, -0)), ["Values are not strictly equal."]],
    [of(() => assertExists(null, "why")), ["null", "why"]],
    [of(() => assertExists(undefined)), ["undefined"]],
    [of(() => assertInstanceOf(new Error(), TypeError, "why")), [`"TypeError" but was "Error": why`]],
    [of(() => assertInstanceOf(null, TypeError)), [`"null"`]],
    [of(() => assertInstanceOf(5, TypeError)), [`"number"`]],
    [of(() => assertAlmostEquals(1, 2, 0.5, "why")), ["close to", "why"]],
    [of(() => assertAlmostEquals(1, 1 + 2e-7)), ["close to"]],
    [of(() => assertAlmostEquals(NaN, 1)), ["close to"]],
    [of(() => assertGreater(1, 1)), ["1 > 1"]],
    [of(() => assertGreater(NaN, 1)), ["NaN > 1"]],
    [of(() => assertGreaterOrEqual(0, 1)), ["0 >= 1"]],
    [of(() => assertLess(1, 1, "why")), ["why"]],
    [of(() => assertLessOrEqual(2, 1)), ["2 <= 1"]],
    [of(() => assertStringIncludes("abc", "d", "why")), ["abc", "d", "why"]],
    [of(() => assertMatch("abc", /d/, "why")), ["abc", "/d/", "why"]],
  ];
  for (const [message, parts] of cases) {
    for (const part of parts) check(message.includes(part), `${JSON.stringify(message)} lacks ${part}`);
  }
});

Deno.test("assert: one that holds says nothing", () => {
  assert(1);
  assertStrictEquals(NaN, NaN);
  assertExists(0);
  assertInstanceOf(new TypeError(), Error);
  assertAlmostEquals(0.1 + 0.2, 0.3);
  assertAlmostEquals(Infinity, Infinity);
  assertAlmostEquals(1, 2, 1);
  assertGreater(2, 1);
  assertGreaterOrEqual(1, 1);
  assertLess("a", "b");
  assertLessOrEqual(1n, 1n);
  assertStringIncludes("abc", "b");
  assertMatch("abc", /b/);
});

Deno.test("assert: assertThrows", () => {
  const error = new RangeError("too far");
  const throws = () => {
    throw error;
  };
  const throwsText = () => {
    throw "text";
  };
  check(assertThrows(throws) === error, "returns what was thrown");
  check(assertThrows(throws, RangeError, "far") === error, "returns the error");
  check(assertThrows(throwsText) === "text", "returns what was thrown");
  messageOf(() => assertThrows(() => {}));
  messageOf(() => assertThrows(() => {}, Error));
  check(messageOf(() => assertThrows(() => {}, "why")).includes("why"), "says why");
  check(messageOf(() => assertThrows(throws, TypeError, "", "why")).includes("why"), "says why");
  messageOf(() => assertThrows(throws, Error, "near"));
  messageOf(() => assertThrows(throwsText, Error));
});

Deno.test("assert: assertRejects", async () => {
  const error = new RangeError("too far");
  const rejects = () => Promise.reject(error);
  const failing = async (promise: Promise<unknown>) => {
    const outcome = await promise.then(() => undefined, (reason) => reason);
    check(outcome instanceof AssertionError, `did not fail: ${outcome}`);
    return (outcome as AssertionError).message;
  };
  check(await assertRejects(rejects) === error, "resolves to the reason");
  check(await assertRejects(rejects, RangeError, "far") === error, "resolves to the error");
  await failing(assertRejects(() => Promise.resolve()));
  await failing(assertRejects(rejects, TypeError));
  await failing(assertRejects(rejects, Error, "near"));
  await failing(assertRejects(() => Promise.reject("text"), Error));
  check((await failing(assertRejects(() => Promise.resolve(), "why"))).includes("why"), "says why");
  await failing(assertRejects(() => {
    throw error;
  }));
});

Deno.test("assert: types are narrowed", () => {
  const text: unknown = "a";
  assert(typeof text === "string");
  const length: number = text.length;
  const maybe = [1, 2].find((n) => n > length);
  assertExists(maybe);
  const found: number = maybe;
  const error: unknown = new TypeError("a");
  assertInstanceOf(error, TypeError);
  assertStrictEquals(error.message, "a");
  const thrown: RangeError = assertThrows(() => {
    throw new RangeError();
  }, RangeError);
  assertEquals([found, thrown.message], [2, ""]);
});
