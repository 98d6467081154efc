/**
 * The timers of a connection: retransmission, persist, delayed acknowledgment, keep-alive, user timeout, and the end of
 * TIME-WAIT.
 *
 * Deadlines are fields of the connection; the heap of the host holds for each connection one entry that may be too early
 * and is never too late. So restarting a timer on each acknowledgment costs a store.
 *
 * @module
 */

import { SocketErrorKind } from "../base/errors.ts";
import { type Duration, type Instant, MILLISECOND, NEVER } from "../base/time.ts";
import { abortConnection, destroyConnection } from "./close.ts";
import { onDelayedAckTimer } from "./delayed_ack.ts";
import { keepAliveTimeout } from "./keepalive.ts";
import { sendIntoSmallWindow, sendSyn, sendWindowProbe } from "./output.ts";
import { isHeldHere } from "./pacing.ts";
import { suspectBlackHole } from "./pmtud.ts";
import { onReorderTimeout, onRetransmissionTimeout } from "./recovery.ts";
import { TcpState } from "./state.ts";
import type { Tcb } from "./tcb.ts";
import { onProbeTimeout } from "./tlp.ts";
import { userTimedOut, userTimeoutAt } from "./user_timeout.ts";

/** The earliest deadline of the connection. */
export function nextDeadline(t: Tcb): Instant {
  const deadline = Math.min(
    t.rtoAt,
    t.probeAt,
    t.reorderAt,
    t.persistAt,
    t.delayedAckAt,
    t.timeWaitAt,
    t.paceAt,
    t.keepAliveAt,
  );
  return t.userTimeout === 0 ? deadline : Math.min(deadline, userTimeoutAt(t));
}

/** Runs what is due at `now`. */
export function runTimers(t: Tcb, now: Instant): void {
  if (t.timeWaitAt <= now) {
    destroyConnection(t, now, SocketErrorKind.None, "");
    return;
  }
  if (t.userTimeout !== 0 && userTimeoutAt(t) <= now) return userTimedOut(t, now);
  if (t.delayedAckAt <= now) {
    t.delayedAckAt = NEVER;
    onDelayedAckTimer(t);
  }
  if (t.paceAt <= now) {
    t.paceAt = NEVER;
    t.tcp.makeReady(t);
  }
  if (t.keepAliveAt <= now) {
    keepAliveTimeout(t, now);
    if (t.state === TcpState.Closed) return;
  }
  if (t.persistAt <= now) probeWindow(t, now);
  if (t.reorderAt <= now) onReorderTimeout(t, now);
  if (t.probeAt <= now) onProbeTimeout(t, now);
  if (t.rtoAt <= now) retransmissionTimeout(t, now);
}

/** How long at most the retransmission timer waits for what has not left this host yet; as Linux. */
const HELD_RETRY: Duration = 500 * MILLISECOND;

/** Unanswered or not, so often is a closed window probed for an application that is gone; as Linux. */
const ORPHAN_PROBES = 8;

/**
 * The window has been too small for a while: send what fits, or if nothing does probe (RFC 9293 section 3.8.6.1), for as
 * long as the peer answers and the application is there, doubling the interval.
 */
function probeWindow(t: Tcb, now: Instant): void {
  t.persistAt = NEVER;
  if (t.hasOutstanding || (t.unsentBytes === 0 && !(t.finQueued && !t.finSent))) return;
  if (t.userTimeout === 0 && t.retries >= t.tcp.options.retries) {
    destroyConnection(t, now, SocketErrorKind.TimedOut, `the peer did not answer ${t.retries} window probes`);
    return;
  }
  if (t.orphaned && t.persistBackoff >= ORPHAN_PROBES) {
    abortConnection(t, now, SocketErrorKind.TimedOut, "the peer kept its window closed after the connection was");
    return;
  }
  if (sendIntoSmallWindow(t, now)) return;
  t.retries++;
  t.persistBackoff++;
  sendWindowProbe(t, now);
  t.persistAt = now + Math.min(t.rtt.rto * 2 ** t.persistBackoff, t.tcp.options.maxRto);
}

function retransmissionTimeout(t: Tcb, now: Instant): void {
  if (isHeldHere(t)) {
    t.rtoAt = now + Math.min(t.rtt.rto, HELD_RETRY);
    return;
  }
  t.rtoAt = NEVER;
  const options = t.tcp.options;
  const opening = t.state === TcpState.SynSent || t.state === TcpState.SynReceived;
  const most = t.state === TcpState.SynSent
    ? options.synRetries
    : t.state === TcpState.SynReceived
    ? options.synAckRetries
    : options.retries;
  if (t.retries >= most && (opening || t.userTimeout === 0)) {
    const what = opening ? "connection attempt" : "data";
    // A soft error that ICMP reported meanwhile says more than the timeout (RFC 1122 section 4.2.3.9).
    const unreachable = opening && t.softError !== "";
    const kind = unreachable ? SocketErrorKind.HostUnreachable : SocketErrorKind.TimedOut;
    const cause = t.softError === "" ? "" : `; ICMP: ${t.softError}`;
    destroyConnection(t, now, kind, `no answer to ${t.retries} retransmissions of the ${what}${cause}`);
    return;
  }
  t.retries++;
  if (opening) {
    t.counters.synRetransmits++;
    t.counters.timeouts++;
    t.rtt.timedOut();
    sendSyn(t, now);
    t.rtoAt = Math.max(now, t.departAt) + t.rtt.rto;
  } else if (t.retransmitQueue.size > 0) {
    suspectBlackHole(t, now);
    onRetransmissionTimeout(t, now);
  }
  t.tcp.makeReady(t);
}
