/**
 * The user timeout (RFC 9293 section 3.9.1, RFC 5482; TCP_USER_TIMEOUT): how long data may make no progress before the
 * connection is given up.
 *
 * It runs only while something waits: a SYN, data or a FIN that is sent and not acknowledged, or unsent data in front of a
 * closed window, even if the peer answers the probes. It counts from when that began to wait, or from the last
 * acknowledgment of something new, and takes the place of the number of retransmissions and probes (a SYN has both). An idle connection has
 * none; that is what keep-alive is for.
 *
 * @module
 */

import { SocketErrorKind } from "../base/errors.ts";
import { type Instant, NEVER, toMilliseconds } from "../base/time.ts";
import { destroyConnection } from "./close.ts";
import type { Tcb } from "./tcb.ts";

/** When the connection is given up if nothing moves, or `NEVER`. */
export function userTimeoutAt(t: Tcb): Instant {
  if (t.userTimeout === 0 || (t.rtoAt === NEVER && t.persistAt === NEVER)) return NEVER;
  return t.stalledSince + t.userTimeout;
}

/** Gives the connection up. */
export function userTimedOut(t: Tcb, now: Instant): void {
  const time = `${toMilliseconds(t.userTimeout) / 1000} s`;
  const cause = t.softError === "" ? "" : `; ICMP: ${t.softError}`;
  destroyConnection(t, now, SocketErrorKind.TimedOut, `nothing was acknowledged for ${time}${cause}`);
}
