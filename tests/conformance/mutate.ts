/**
 * Scripts with one thing in them changed, each of which a judge has to fail.
 *
 * @module
 */

import type { Script } from "./format.ts";
import { ACK, FIN, RST } from "./segment.ts";

/** A changed script. */
export interface Mutant {
  /** The line that was changed. */
  line: number;
  /** What was changed there. */
  what: string;
  script: Script;
}

/**
 * Every change of one checked number or flag of an expected packet, or of the result of a call, by one. Of calls that
 * name a new socket only "fails" makes a difference.
 */
export function mutants(script: Script): Mutant[] {
  const out: Mutant[] = [];
  script.events.forEach((event, i) => {
    const add = (what: string, change: (copy: Script["events"][number]) => void): void => {
      const copy = structuredClone(script);
      change(copy.events[i]!);
      out.push({ line: event.line, what, script: copy });
    };
    if (event.kind === "expect" && event.packet.proto === "tcp") {
      const { ack } = event.packet;
      add("seq", (copy) => {
        const packet = tcpOf(copy);
        packet.seq = [packet.seq[0] + 1, packet.seq[1] + 1];
      });
      add("len", (copy) => {
        const packet = tcpOf(copy);
        packet.len += 1;
        packet.seq = [packet.seq[0], packet.seq[1] + 1];
      });
      if (ack !== null) add("ack", (copy) => tcpOf(copy).ack = ack + 1);
      for (const [what, bit] of [["FIN", FIN], ["RST", RST], ["ACK", ACK]] as const) {
        add(`flag ${what}`, (copy) => tcpOf(copy).flags ^= bit);
      }
    }
    if (event.kind === "syscall" && typeof event.call.result === "number") {
      const { result, name } = event.call;
      const changed = name === "socket" || name === "accept" ? -1 : result + 1;
      add(`result of ${name}`, (copy) => {
        if (copy.kind === "syscall") copy.call.result = changed;
      });
    }
  });
  return out;
}

function tcpOf(
  event: Script["events"][number],
): { seq: [number, number]; len: number; ack: number | null; flags: number } {
  if (event.kind !== "expect" || event.packet.proto !== "tcp") throw new Error("not an expected segment");
  return event.packet;
}
