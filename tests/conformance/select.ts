/**
 * Which scripts a gate is about, by what is in them.
 *
 * @module
 */

import type { Entry } from "./load.ts";

/** The bits ECE and CWR. */
const ECN_FLAGS = 0x40 | 0x80;

/** Selections by name. */
export const SELECTIONS: ReadonlyMap<string, { title: string; includes: (entry: Entry) => boolean }> = new Map([
  ["basic", {
    title: "scored, without SACK blocks, assertions on tcp_info, ECE or CWR, and not named for RACK or PRR",
    includes: isBasic,
  }],
  ["scored", { title: "scored", includes: (entry: Entry) => entry.scored }],
  ["all", { title: "all", includes: () => true }],
]);

/** True for a scored script about states, SYN, RST, FIN and ACK alone. */
export function isBasic({ scored, file, script }: Entry): boolean {
  return scored && !/rack|prr/i.test(file) && !script.events.some((event) => {
    if (event.kind === "code") return true;
    if (event.kind !== "inject" && event.kind !== "expect" || event.packet.proto !== "tcp") return false;
    const { flags, options } = event.packet;
    return (flags & ECN_FLAGS) !== 0 || (options ?? []).some(({ k }) => k === "sack");
  });
}
