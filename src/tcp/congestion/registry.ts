/**
 * The congestion controls by name.
 *
 * @module
 */

import type { CongestionControl, CongestionSettings } from "./control.ts";
import { NoControl } from "./none.ts";
import { Reno } from "./reno.ts";

/** Makes a control for a new connection. */
export type CongestionFactory = (settings: CongestionSettings) => CongestionControl;

const FACTORIES: ReadonlyMap<string, CongestionFactory> = new Map<string, CongestionFactory>([
  ["reno", (settings) => new Reno(settings)],
  ["none", () => new NoControl()],
]);

/** The names that {@linkcode makeCongestionControl} knows. */
export const CONGESTION_CONTROLS: readonly string[] = [...FACTORIES.keys()];

/** How slow start may end before there is loss, by name. */
export const SLOW_START_EXITS: readonly string[] = ["hystart++", "off"];

/**
 * Makes the control called `name`.
 *
 * @throws {TypeError} if there is none of that name
 */
export function makeCongestionControl(name: string, settings: CongestionSettings): CongestionControl {
  const factory = FACTORIES.get(name);
  if (factory === undefined) {
    throw new TypeError(`no congestion control "${name}": expected one of ${CONGESTION_CONTROLS.join(", ")}`);
  }
  return factory(settings);
}
