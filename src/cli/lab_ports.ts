/**
 * Which UDP ports and sleepers an experiment in real time can use here.
 *
 * @module
 */

import { DenoPort } from "../runtime/deno_port.ts";
import { acquireLibc } from "../runtime/linux/libc.ts";
import type { Flags } from "./flags.ts";

/** Why a UDP port or a sleeper of this name cannot be used here; empty if it can. */
export function whyNot(kind: string): string {
  if (kind === "deno") return DenoPort.exists() ? "" : "Deno.listenDatagram needs --unstable-net";
  if (kind !== "linux" && kind !== "ppoll") return "";
  const libc = acquireLibc();
  if (typeof libc === "string") return libc;
  libc.release();
  return "";
}

/** The kinds that a flag names, checked. */
export function kindsOf<T extends string>(flags: Flags, name: string, all: readonly T[]): T[] {
  return flags.list(name).map((kind) => {
    if (!all.includes(kind as T)) flags.wrong(name, kind, `one of ${all.join(", ")}`);
    const why = whyNot(kind);
    if (why !== "") throw flags.fault(`--${name} ${kind}: ${why}`);
    return kind as T;
  });
}
