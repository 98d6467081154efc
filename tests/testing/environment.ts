/**
 * Sizes of long tests: small by default, larger if the environment says so.
 *
 * @module
 */

/** The positive integer in the environment variable `name`, or `otherwise` if it is not set or may not be read. */
export function fromEnvironment(name: string, otherwise: number): number {
  if (Deno.permissions.querySync({ name: "env", variable: name }).state !== "granted") return otherwise;
  const text = Deno.env.get(name);
  if (text === undefined || text === "") return otherwise;
  if (!/^[1-9][0-9]*$/.test(text)) throw new TypeError(`${name}=${text}: expected a positive integer`);
  return Number(text);
}
