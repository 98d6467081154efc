/**
 * Challenge acknowledgments: the answer to what cannot be right (RFC 5961), at most two a second for a connection.
 *
 * @module
 */

import type { DropReason } from "../base/drop.ts";
import { type Instant, MILLISECOND } from "../base/time.ts";
import { sendAck } from "./output.ts";
import type { Tcb } from "./tcb.ts";

/** Least time between two challenge acknowledgments of a connection (RFC 5961 section 7 asks for a limit). */
const CHALLENGE_INTERVAL = 500 * MILLISECOND;

/** Answers what cannot be right with an acknowledgment, and drops it. */
export function challenge(t: Tcb, now: Instant, reason: DropReason, hasData: boolean): DropReason {
  // Segments with data are answered each time: the peer repeats them because our acknowledgment was lost.
  if (!hasData) {
    if (now - t.challengeAt < CHALLENGE_INTERVAL) return reason;
    t.challengeAt = now;
  }
  sendAck(t, now);
  return reason;
}
