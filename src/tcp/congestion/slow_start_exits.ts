/**
 * The ways to end slow start, by name.
 *
 * @module
 */

import { HyStartJiffies } from "./hystart_jiffies.ts";
import { HyStartLinux } from "./hystart_linux.ts";
import { HyStartPlusPlus } from "./hystart_plus_plus.ts";
import { NoExit, type SlowStartExit } from "./slow_start_exit.ts";

const FACTORIES: ReadonlyMap<string, () => SlowStartExit> = new Map<string, () => SlowStartExit>([
  ["off", () => new NoExit()],
  ["hystart++", () => new HyStartPlusPlus()],
  ["hystart-2008", () => new HyStartJiffies(2008)],
  ["hystart-2011", () => new HyStartJiffies(2011)],
  ["hystart-linux", () => new HyStartLinux()],
]);

/** The names that {@linkcode makeSlowStartExit} knows. */
export const SLOW_START_EXITS: readonly string[] = [...FACTORIES.keys()];

/**
 * Makes the one called `name`.
 *
 * @throws {TypeError} if there is none of that name
 */
export function makeSlowStartExit(name: string): SlowStartExit {
  const factory = FACTORIES.get(name);
  if (factory === undefined) {
    throw new TypeError(`no way to end slow start "${name}": expected one of ${SLOW_START_EXITS.join(", ")}`);
  }
  return factory();
}
