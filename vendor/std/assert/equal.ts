/**
 * Deep equality as `@std/assert` defines it.
 *
 * Two values are equal when they are the same value (with `NaN` equal to `NaN`
 * and `0` to `-0`), or objects of one kind whose contents are equal. A plain
 * object and an object without prototype are of one kind. Functions are equal
 * only to themselves, and a key that holds `undefined` differs from no key.
 * Instances of classes are compared by every key they have or inherit, so that
 * getters over private fields count. Cycles end where a pair is met again.
 *
 * @module
 */

type Keyed = Record<PropertyKey, unknown>;

/** Are `a` and `b` deeply equal? Throws `TypeError` for a `WeakMap` or `WeakSet`: nobody can look inside. */
export function equal(a: unknown, b: unknown): boolean {
  return compare(a, b, new Map());
}

function compare(a: unknown, b: unknown, met: Map<object, object>): boolean {
  if (a === b || (a !== a && b !== b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (kindOf(a) !== kindOf(b)) return false;

  if (ArrayBuffer.isView(a) && !(a instanceof DataView)) return equalElements(a as Uint8Array, b as Uint8Array);
  if (a instanceof ArrayBuffer || a instanceof SharedArrayBuffer) {
    return equalElements(new Uint8Array(a), new Uint8Array(b as ArrayBuffer));
  }
  if (a instanceof Date) return compare(a.getTime(), (b as Date).getTime(), met);
  if (a instanceof WeakRef) return compare(a.deref(), (b as WeakRef<WeakKey>).deref(), met);
  if (a instanceof WeakMap || a instanceof WeakSet) {
    throw new TypeError(`Cannot compare two instances of ${a.constructor.name}`);
  }
  if (isKnownByItsText(a)) return String(a) === String(b);

  if (met.get(a) === b) return true;
  met.set(a, b);
  if (Object.keys(a).length !== Object.keys(b).length) return false;
  if (a instanceof Map) return equalMaps(a, b as Map<unknown, unknown>, met);
  if (a instanceof Set) return equalSets(a, b as Set<unknown>, met);

  for (const key of new Set([...keysOf(a), ...keysOf(b)])) {
    if (!(key in a && key in b)) return false;
    if (!compare((a as Keyed)[key], (b as Keyed)[key], met)) return false;
  }
  return true;
}

/** The prototype, with a missing one standing for that of plain objects. */
function kindOf(value: object): object {
  return Object.getPrototypeOf(value) ?? Object.prototype;
}

/** Every key, own or inherited, up to (not including) the two prototypes that all plain values share. */
function keysOf(value: object): Set<PropertyKey> {
  const keys = new Set<PropertyKey>();
  for (
    let at: object | null = value;
    at !== null && at !== Object.prototype && at !== Array.prototype;
    at = Object.getPrototypeOf(at)
  ) {
    for (const key of Reflect.ownKeys(at)) keys.add(key);
  }
  return keys;
}

function isKnownByItsText(value: object): boolean {
  if (value instanceof RegExp || value instanceof URL || value instanceof URLSearchParams) return true;
  const tag = (value as Keyed)[Symbol.toStringTag];
  return typeof tag === "string" && tag.startsWith("Temporal.");
}

function equalElements(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) {
    const x = a[i];
    const y = b[i];
    if (x !== y && !(x !== x && y !== y)) return false;
  }
  return true;
}

function equalMaps(a: Map<unknown, unknown>, b: Map<unknown, unknown>, met: Map<object, object>): boolean {
  if (a.size !== b.size) return false;
  const left = new Map(b);
  for (const [key, value] of a) {
    const match = left.has(key) && trial(value, left.get(key), met)
      ? key
      : find(left.keys(), (other) => trial(key, other, met) && trial(value, left.get(other), met));
    if (match === NONE) return false;
    left.delete(match);
  }
  return true;
}

function equalSets(a: Set<unknown>, b: Set<unknown>, met: Map<object, object>): boolean {
  if (a.size !== b.size) return false;
  const left = new Set(b);
  for (const value of a) {
    const match = left.has(value) ? value : find(left, (other) => trial(value, other, met));
    if (match === NONE) return false;
    left.delete(match);
  }
  return true;
}

const NONE: unique symbol = Symbol("none");

function find(values: Iterable<unknown>, matches: (value: unknown) => boolean): unknown {
  for (const value of values) if (matches(value)) return value;
  return NONE;
}

/** Compares without keeping the pairs of a failed attempt. */
function trial(a: unknown, b: unknown, met: Map<object, object>): boolean {
  return compare(a, b, new Map(met));
}
