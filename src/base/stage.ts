/**
 * The one interface of every place where a packet can rest: queueing discipline, impairment, link.
 *
 * A stage is pushed to and pulled from, and says when pulling is useful. The same stages serve the real runtime and
 * the simulator. A stage that may drop packets it has already taken, or make copies, is given a drop sink and the
 * pool when it is made.
 *
 * @module
 */

import type { DropReason } from "./drop.ts";
import type { Packet } from "./packet.ts";
import type { Instant } from "./time.ts";

/** A place where packets rest until they may leave. */
export interface Stage {
  /**
   * Offers a packet.
   *
   * @returns `DropReason.None` if the stage took it; any other reason leaves the packet with the caller, who counts
   * the drop and frees it
   */
  push(p: Packet, now: Instant): DropReason;
  /** A packet that may leave at `now`, or `null`. */
  pull(now: Instant): Packet | null;
  /** When a pull can next succeed; an early call does no harm. `NEVER` when the stage is empty. */
  nextAt(): Instant;
}
