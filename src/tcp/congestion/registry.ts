/**
 * The congestion controls by name.
 *
 * @module
 */

import { Bbr } from "./bbr.ts";
import type { CongestionControl, CongestionSettings } from "./control.ts";
import { Cubic } from "./cubic.ts";
import { NoControl } from "./none.ts";
import { Reno } from "./reno.ts";
import { SLOW_START_EXITS as EXITS } from "./slow_start_exits.ts";

/** Makes a control for a new connection. */
export type CongestionFactory = (settings: CongestionSettings) => CongestionControl;

const FACTORIES: ReadonlyMap<string, CongestionFactory> = new Map<string, CongestionFactory>([
  ["none", () => new NoControl()],
  ["reno", (settings) => new Reno(settings)],
  ["cubic", (settings) => new Cubic(settings)],
  ["bbr", (settings) => new Bbr(settings)],
]);

/** The names that {@linkcode makeCongestionControl} knows. */
export const CONGESTION_CONTROLS: readonly string[] = [...FACTORIES.keys()];

/** How slow start may end before there is loss, by name. */
export const SLOW_START_EXITS: readonly string[] = EXITS;

/**
 * Makes the control called `name`.
 *
 * @throws {TypeError} if there is none of that name, or no way to end slow start of the name in the settings
 */
export function makeCongestionControl(name: string, settings: CongestionSettings): CongestionControl {
  const factory = FACTORIES.get(name);
  if (factory === undefined) {
    throw new TypeError(`no congestion control "${name}": expected one of ${CONGESTION_CONTROLS.join(", ")}`);
  }
  return factory(settings);
}
