/**
 * Checking the byte arrays that users hand over.
 *
 * Only `Uint8Array` and what is derived from it, such as Node's `Buffer`, is taken: a string would be copied as zeros,
 * and an array of wider elements would lose their upper bytes.
 *
 * @module
 */

/**
 * Makes sure that a user's argument is an array of bytes.
 *
 * @param what what it is, for the message
 * @throws {TypeError} if it is anything else than a `Uint8Array`
 */
export function requireBytes(value: unknown, what: string): asserts value is Uint8Array {
  if (!(value instanceof Uint8Array)) throw new TypeError(`${what} must be a Uint8Array, got ${kindOf(value)}`);
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (typeof value !== "object") return `a ${typeof value}`;
  const name: unknown = value.constructor?.name;
  return typeof name === "string" && name !== "" ? `an object of class ${name}` : "an object";
}
