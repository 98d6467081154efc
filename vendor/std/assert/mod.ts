/**
 * A small stand-in for `@std/assert`, for machines that cannot reach JSR.
 *
 * It has the assertions that this project uses, with the signatures of the real
 * package; `deno.json` puts it in place by `links`, and whoever imports the
 * published package gets the real one. Failure messages come from `node:assert`,
 * deep equality from {@linkcode equal}.
 *
 * Left out: every assertion and sub-path that no test here needs.
 *
 * @module
 */

import { AssertionError as Described } from "node:assert";
import { equal } from "./equal.ts";

export { equal };

/** Some class of errors, abstract or not. */
// deno-lint-ignore no-explicit-any
type ErrorConstructor<E extends Error> = abstract new (...args: any[]) => E;

/** What every assertion throws when it does not hold. */
export class AssertionError extends Error {
  /** An error with this message. `options.cause` is kept. */
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "AssertionError";
  }
}

/** `msg` as the end of a sentence. */
function suffix(msg: string | undefined): string {
  return msg ? `: ${msg}` : ".";
}

/** The difference between two values, in lines. */
function difference(actual: unknown, expected: unknown): string {
  return new Described({ actual, expected, operator: "deepStrictEqual" }).message.split("\n").slice(1).join("\n");
}

/** Always fails. */
export function fail(msg?: string): never {
  throw new AssertionError(`Failed assertion${suffix(msg)}`);
}

/** `expr` is truthy. */
export function assert(expr: unknown, msg = ""): asserts expr {
  if (!expr) throw new AssertionError(msg);
}

/** `actual` and `expected` are deeply equal, in the sense of {@linkcode equal}. */
export function assertEquals<T>(actual: T, expected: T, msg?: string): void {
  if (equal(actual, expected)) return;
  throw new AssertionError(`Values are not equal${suffix(msg)}\n${difference(actual, expected)}`);
}

/** `actual` and `expected` are not deeply equal. */
export function assertNotEquals<T>(actual: T, expected: T, msg?: string): void {
  if (!equal(actual, expected)) return;
  throw new AssertionError(
    `Expected actual: ${Deno.inspect(actual)} not to be: ${Deno.inspect(expected)}${suffix(msg)}`,
  );
}

/** `actual` is the same value as `expected`, as `Object.is` says. */
export function assertStrictEquals<T>(actual: unknown, expected: T, msg?: string): asserts actual is T {
  if (Object.is(actual, expected)) return;
  throw new AssertionError(`Values are not strictly equal${suffix(msg)}\n${difference(actual, expected)}`);
}

/** `actual` is neither `null` nor `undefined`. */
export function assertExists<T>(actual: T, msg?: string): asserts actual is NonNullable<T> {
  if (actual !== undefined && actual !== null) return;
  throw new AssertionError(`Expected actual: "${actual}" to not be null or undefined${suffix(msg)}`);
}

/** `actual` is an instance of `expectedType`. */
// deno-lint-ignore no-explicit-any
export function assertInstanceOf<T extends abstract new (...args: any[]) => any>(
  actual: unknown,
  expectedType: T,
  msg = "",
): asserts actual is InstanceType<T> {
  if (actual instanceof expectedType) return;
  throw new AssertionError(
    `Expected object to be an instance of "${expectedType.name}" but was "${nameOfType(actual)}"${suffix(msg)}`,
  );
}

function nameOfType(value: unknown): string {
  if (value === null) return "null";
  return typeof value === "object" ? value.constructor?.name ?? "Object" : typeof value;
}

/**
 * `actual` lies within `tolerance` of `expected`; without one, within one part in
 * ten million of `expected` (or 1e-7 where `expected` is not finite).
 */
export function assertAlmostEquals(actual: number, expected: number, tolerance?: number, msg?: string): void {
  if (Object.is(actual, expected)) return;
  const delta = Math.abs(expected - actual);
  const allowed = tolerance ?? (Number.isFinite(expected) ? Math.abs(expected) * 1e-7 : 1e-7);
  if (delta <= allowed) return;
  throw new AssertionError(
    `Expected actual: "${actual}" to be close to "${expected}": delta "${delta}" is greater than "${allowed}"${
      suffix(msg)
    }`,
  );
}

/** `actual > expected`. */
export function assertGreater<T>(actual: T, expected: T, msg?: string): void {
  if (!(actual > expected)) {
    throw new AssertionError(msg ?? `Expect ${Deno.inspect(actual)} > ${Deno.inspect(expected)}`);
  }
}

/** `actual >= expected`. */
export function assertGreaterOrEqual<T>(actual: T, expected: T, msg?: string): void {
  if (!(actual >= expected)) {
    throw new AssertionError(msg ?? `Expect ${Deno.inspect(actual)} >= ${Deno.inspect(expected)}`);
  }
}

/** `actual < expected`. */
export function assertLess<T>(actual: T, expected: T, msg?: string): void {
  if (!(actual < expected)) {
    throw new AssertionError(msg ?? `Expect ${Deno.inspect(actual)} < ${Deno.inspect(expected)}`);
  }
}

/** `actual <= expected`. */
export function assertLessOrEqual<T>(actual: T, expected: T, msg?: string): void {
  if (!(actual <= expected)) {
    throw new AssertionError(msg ?? `Expect ${Deno.inspect(actual)} <= ${Deno.inspect(expected)}`);
  }
}

/** `actual` contains the text `expected`. */
export function assertStringIncludes(actual: string, expected: string, msg?: string): void {
  if (actual.includes(expected)) return;
  throw new AssertionError(`Expected actual: "${actual}" to contain: "${expected}"${suffix(msg)}`);
}

/** `actual` matches the regular expression `expected`. */
export function assertMatch(actual: string, expected: RegExp, msg?: string): void {
  if (expected.test(actual)) return;
  throw new AssertionError(`Expected actual: "${actual}" to match: "${expected}"${suffix(msg)}`);
}

/** What a thrown value must be, sorted out of the arguments of {@linkcode assertThrows} and {@linkcode assertRejects}. */
interface Expectation {
  ErrorClass: ErrorConstructor<Error> | undefined;
  msgIncludes: string | undefined;
  msg: string | undefined;
}

function expectation(
  classOrMsg: ErrorConstructor<Error> | string | undefined,
  msgIncludes: string | undefined,
  msg: string | undefined,
): Expectation {
  if (typeof classOrMsg === "string") return { ErrorClass: undefined, msgIncludes: undefined, msg: classOrMsg };
  return { ErrorClass: classOrMsg, msgIncludes, msg };
}

function checkThrown(error: unknown, verb: string, { ErrorClass, msgIncludes, msg }: Expectation): void {
  if (ErrorClass === undefined) return;
  if (!(error instanceof Error)) throw new AssertionError(`A non-Error object was ${verb}${suffix(msg)}`);
  if (!(error instanceof ErrorClass)) {
    throw new AssertionError(
      `Expected error to be instance of "${ErrorClass.name}", but was "${nameOfType(error)}"${suffix(msg)}`,
      { cause: error },
    );
  }
  if (msgIncludes && !error.message.includes(msgIncludes)) {
    throw new AssertionError(
      `Expected error message to include ${JSON.stringify(msgIncludes)}, but got ${JSON.stringify(error.message)}${
        suffix(msg)
      }`,
      { cause: error },
    );
  }
}

/** `fn` throws. Returns what it threw. */
export function assertThrows(fn: () => unknown, msg?: string): unknown;
/** `fn` throws an `ErrorClass` whose message contains `msgIncludes`. Returns the error. */
export function assertThrows<E extends Error = Error>(
  fn: () => unknown,
  ErrorClass: ErrorConstructor<E>,
  msgIncludes?: string,
  msg?: string,
): E;
/** The two forms in one. */
export function assertThrows(
  fn: () => unknown,
  classOrMsg?: ErrorConstructor<Error> | string,
  msgIncludes?: string,
  msg?: string,
): unknown {
  const expected = expectation(classOrMsg, msgIncludes, msg);
  try {
    fn();
  } catch (error) {
    checkThrown(error, "thrown", expected);
    return error;
  }
  throw new AssertionError(`Expected function to throw${suffix(expected.msg)}`);
}

/** The promise that `fn` returns rejects. Resolves to the reason. */
export function assertRejects(fn: () => PromiseLike<unknown>, msg?: string): Promise<unknown>;
/** The promise that `fn` returns rejects with an `ErrorClass` whose message contains `msgIncludes`. Resolves to the error. */
export function assertRejects<E extends Error = Error>(
  fn: () => PromiseLike<unknown>,
  ErrorClass: ErrorConstructor<E>,
  msgIncludes?: string,
  msg?: string,
): Promise<E>;
/** The two forms in one. */
export async function assertRejects(
  fn: () => PromiseLike<unknown>,
  classOrMsg?: ErrorConstructor<Error> | string,
  msgIncludes?: string,
  msg?: string,
): Promise<unknown> {
  const expected = expectation(classOrMsg, msgIncludes, msg);
  let promise: PromiseLike<unknown> | undefined;
  try {
    promise = fn();
  } catch {
    promise = undefined;
  }
  if (typeof promise?.then !== "function") {
    throw new AssertionError(`Function throws when expected to reject${suffix(expected.msg)}`);
  }
  try {
    await promise;
  } catch (error) {
    checkThrown(error, "rejected", expected);
    return error;
  }
  throw new AssertionError(`Expected function to reject${suffix(expected.msg)}`);
}
