/**
 * The congestion controls by name.
 *
 * @module
 */

import type { CongestionControl } from "./control.ts";
import { NoControl } from "./none.ts";
import { Reno } from "./reno.ts";

/** Makes a control for a new connection. */
export type CongestionFactory = (mssBytes: number, initialCwndSegments: number) => CongestionControl;

const FACTORIES: ReadonlyMap<string, CongestionFactory> = new Map<string, CongestionFactory>([
  ["reno", (mss, initial) => new Reno(mss, initial)],
  ["none", () => new NoControl()],
]);

/** The names that {@linkcode makeCongestionControl} knows. */
export const CONGESTION_CONTROLS: readonly string[] = [...FACTORIES.keys()];

/**
 * Makes the control called `name`.
 *
 * @throws {TypeError} if there is none of that name
 */
export function makeCongestionControl(name: string, mssBytes: number, initialCwndSegments: number): CongestionControl {
  const factory = FACTORIES.get(name);
  if (factory === undefined) {
    throw new TypeError(`no congestion control "${name}": expected one of ${CONGESTION_CONTROLS.join(", ")}`);
  }
  return factory(mssBytes, initialCwndSegments);
}
