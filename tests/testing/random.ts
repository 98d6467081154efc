/**
 * Random choices of property tests.
 *
 * @module
 */

import type { Rng } from "../../src/base/rng.ts";

/** One of `values`, each as likely as the others. */
export function pick<T>(rng: Rng, values: readonly T[]): T {
  return values[rng.below(values.length)]!;
}
