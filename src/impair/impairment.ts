/**
 * The deciding parts of an impairment and what they decide.
 *
 * A part decides and never holds a packet: it writes into the verdict, which the stage then carries out. Each part has
 * a random stream of its own and draws once for every packet, whatever the parts before it have decided. So adding or
 * removing one part leaves the decisions of all others, packet by packet, as they were.
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import type { Duration } from "../base/time.ts";
import type { NetemConfig } from "./config.ts";

/** What is to happen to one packet. One record is used for all packets of a stage. */
export class Verdict {
  /** How many of it go on: 0 if it is lost, 2 if it is duplicated. */
  copies = 1;
  /** It was to be lost. */
  lost = false;
  /** It was marked CE instead of being lost. */
  marked = false;
  /** The bit of the live range to be flipped, counted from its first byte; −1 for none. */
  corruptBit = -1;
  /** It goes ahead of the packets held, without delay. */
  ahead = false;
  /** Its delay. */
  delay: Duration = 0;
  /** The delay of its copy. */
  copyDelay: Duration = 0;

  /** Back to "goes on at once, as it is". */
  reset(): void {
    this.copies = 1;
    this.lost = false;
    this.marked = false;
    this.corruptBit = -1;
    this.ahead = false;
    this.delay = 0;
    this.copyDelay = 0;
  }
}

/** A part that decides. */
export interface Impairment {
  /** Decides about `p` and adds that to what the parts before it have decided. */
  apply(p: Packet, verdict: Verdict): void;
}

/** All parts together, in one of the two ways: as asked for, or as Linux does it. */
export interface Decisions {
  /** Decides by `config` from now on; what has not changed goes on as it was. */
  change(config: NetemConfig): void;
  /** From now on `delay` and `loss` hold, which come from a recording. */
  follow(delay: Duration, loss: number): void;
  /** Decides whether and how a packet goes on. */
  fate(p: Packet, verdict: Verdict, isCopy: boolean): void;
  /** Decides when. */
  timing(p: Packet, verdict: Verdict): void;
}
