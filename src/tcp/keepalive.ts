/**
 * Keep-alive (RFC 9293 section 3.8.4): a connection on which nothing comes is probed, so that one whose peer is gone does
 * not stay open for ever.
 *
 * Off by default. When nothing has come for the idle time, an empty segment with an old sequence number is sent, which the
 * peer must acknowledge. Probes that are not answered follow one another at the interval; after so many the connection is
 * reset. Any acceptable segment of the peer begins the idle time anew. While data is outstanding or waits for the window, the
 * timers of that data look after the connection, and no probe is sent.
 *
 * @module
 */

import { SocketErrorKind } from "../base/errors.ts";
import { type Instant, NEVER } from "../base/time.ts";
import { abortConnection } from "./close.ts";
import { sendKeepAliveProbe } from "./output.ts";
import { isSynchronized, TcpState } from "./state.ts";
import type { Tcb } from "./tcb.ts";

/** Switches keep-alive on or off. */
export function setKeepAlive(t: Tcb, on: boolean, now: Instant): void {
  t.keepAlive = on;
  startKeepAlive(t, now);
}

/** The connection is open, or its settings have changed: the idle time begins, or counts from the last segment. */
export function startKeepAlive(t: Tcb, now: Instant): void {
  t.keepAliveProbesSent = 0;
  const runs = t.keepAlive && isSynchronized(t.state) && t.state !== TcpState.TimeWait;
  t.keepAliveAt = runs ? Math.max(now, t.lastSegmentInAt + t.keepAliveIdle) : NEVER;
  t.tcp.schedule(t);
}

/** The timer has run out: perhaps too early, since what comes does not move it. */
export function keepAliveTimeout(t: Tcb, now: Instant): void {
  t.keepAliveAt = NEVER;
  if (t.hasOutstanding || t.unsentBytes > 0) {
    t.keepAliveProbesSent = 0;
    t.keepAliveAt = now + t.keepAliveIdle;
    return;
  }
  const due = t.lastSegmentInAt + t.keepAliveIdle;
  if (due > now) {
    t.keepAliveAt = due;
    return;
  }
  if (t.keepAliveProbesSent >= t.keepAliveProbes) {
    const text = `the peer did not answer ${t.keepAliveProbesSent} keep-alive probes`;
    abortConnection(t, now, SocketErrorKind.TimedOut, text);
    return;
  }
  t.keepAliveProbesSent++;
  sendKeepAliveProbe(t, now);
  t.keepAliveAt = now + t.keepAliveInterval;
}
