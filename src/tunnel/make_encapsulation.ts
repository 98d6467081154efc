/**
 * The encapsulations by name.
 *
 * @module
 */

import { type Encapsulation, RawEncapsulation, VxlanGpeEncapsulation } from "./encapsulation.ts";
import { GreEncapsulation } from "./gre_encapsulation.ts";
import { GueEncapsulation } from "./gue_encapsulation.ts";

/** The names. */
export type EncapsulationKind = "raw" | "vxlan-gpe" | "gue" | "gre";

/** The names, for messages. */
export const ENCAPSULATIONS: readonly EncapsulationKind[] = ["raw", "vxlan-gpe", "gue", "gre"];

/** Makes the encapsulation of this name. */
export function makeEncapsulation(kind: EncapsulationKind): Encapsulation {
  switch (kind) {
    case "raw":
      return new RawEncapsulation();
    case "vxlan-gpe":
      return new VxlanGpeEncapsulation();
    case "gue":
      return new GueEncapsulation();
    case "gre":
      return new GreEncapsulation();
  }
}
