/**
 * Closing, aborting and forgetting connections (RFC 9293 sections 3.6, 3.10.4 and 3.10.5).
 *
 * @module
 */

import { SocketErrorKind } from "../base/errors.ts";
import { SocketEvent } from "../base/event_queue.ts";
import { type Instant, NEVER } from "../base/time.ts";
import { sendReset } from "./output.ts";
import { RecoveryState, TcpState } from "./state.ts";
import type { Tcb } from "./tcb.ts";

/**
 * CLOSE (RFC 9293 section 3.10.4): a FIN follows the data.
 *
 * @param both true if the application is gone altogether: unread data makes it a reset (RFC 2525 section 2.17), and
 * data that still comes will be answered by one
 */
export function closeConnection(t: Tcb, now: Instant, both: boolean): void {
  if (both) {
    if (t.state === TcpState.SynSent) {
      destroyConnection(t, now, SocketErrorKind.None, "");
      return;
    }
    if (t.receiveRing.length > 0 && t.state !== TcpState.Closed && t.state !== TcpState.TimeWait) {
      abortConnection(t, now, SocketErrorKind.None, "");
      return;
    }
    t.orphaned = true;
    if (t.state === TcpState.FinWait2) {
      t.timeWaitAt = now + t.tcp.options.finWait2;
      t.tcp.schedule(t);
    }
  }
  switch (t.state) {
    case TcpState.SynSent:
    case TcpState.SynReceived:
      t.finQueued = true; // sent once established (RFC 9293 section 3.10.4)
      return;
    case TcpState.Established:
      t.state = TcpState.FinWait1;
      break;
    case TcpState.CloseWait:
      t.state = TcpState.LastAck;
      break;
    default:
      return;
  }
  t.finQueued = true;
  t.tcp.makeReady(t);
}

/** ABORT (RFC 9293 section 3.10.5): a reset if the peer may know of the connection; then nothing is left. */
export function abortConnection(t: Tcb, now: Instant, kind: SocketErrorKind, text: string): void {
  switch (t.state) {
    case TcpState.Closed:
      return;
    case TcpState.SynReceived:
    case TcpState.Established:
    case TcpState.FinWait1:
    case TcpState.FinWait2:
    case TcpState.CloseWait:
    case TcpState.Closing:
    case TcpState.LastAck:
      sendReset(t, now);
      break;
    default:
      break;
  }
  destroyConnection(t, now, kind, text);
}

/** Both sides are closed: wait for old segments to die out (RFC 9293 section 3.6.1). */
export function enterTimeWait(t: Tcb, now: Instant): void {
  t.state = TcpState.TimeWait;
  stopSendTimers(t);
  t.keepAliveAt = NEVER;
  t.timeWaitAt = now + t.tcp.options.timeWait;
  t.sendRing.clear();
  t.retransmitQueue.clear();
  t.reassembly.clear();
  if (t.receiveRing.length === 0) t.receiveRing.clear();
  t.tcp.noteTimeWait(t);
  t.raise(SocketEvent.Closed | SocketEvent.Readable | SocketEvent.Writable);
}

/** Nothing will be sent any more but acknowledgments. */
function stopSendTimers(t: Tcb): void {
  t.rtoAt = NEVER;
  t.probeAt = NEVER;
  t.reorderAt = NEVER;
  t.persistAt = NEVER;
  t.paceAt = NEVER;
}

/** The connection ends here: it leaves the tables, its timers stop. Data received and not read stays readable. */
export function destroyConnection(t: Tcb, _now: Instant, kind: SocketErrorKind, text: string): void {
  if (t.state === TcpState.Closed) return;
  const listener = t.listener;
  const wasOver = t.state === TcpState.TimeWait;
  t.state = TcpState.Closed;
  if (wasOver) t.tcp.noteTimeWaitOver();
  if (t.error === SocketErrorKind.None) {
    t.error = kind;
    t.errorText = text;
  }
  stopSendTimers(t);
  t.delayedAckAt = NEVER;
  t.timeWaitAt = NEVER;
  t.keepAliveAt = NEVER;
  t.ackNow = false;
  t.recovery = RecoveryState.Open;
  t.sendRing.clear();
  t.retransmitQueue.clear();
  t.reassembly.clear();
  if (t.receiveRing.length === 0) t.receiveRing.clear();
  t.sndNxt = t.sndUna;
  t.lostBytes = 0;
  t.pendingBytes = 0;
  t.sackedBytes = 0;
  t.sackedSegments = 0;
  t.retransmittedBytes = 0;
  t.tcp.forget(t);
  if (listener !== null) listener.onGone(t);
  if (wasOver) return; // the application was told when TIME-WAIT began
  t.raise(SocketEvent.Closed | SocketEvent.Readable | SocketEvent.Writable);
}
