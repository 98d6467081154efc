/**
 * Opening a connection: SYN, SYN-ACK, the options in them, and simultaneous open (RFC 9293 sections 3.5, 3.7.1, 3.10.7.2
 * and 3.10.7.3; RFC 7323 section 2; RFC 2018 section 2).
 *
 * The SYN-ACK is acknowledged at once and by a segment of its own, whether or not there is data to send, and ahead of any
 * data: a server that speaks first would otherwise wait for an acknowledgment that waits for data.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import { SocketErrorKind } from "../base/errors.ts";
import { SocketEvent } from "../base/event_queue.ts";
import { type Instant, NEVER } from "../base/time.ts";
import { ipHeaderBytes } from "../wire/ip_header.ts";
import { seqAdd, seqGt, seqLe } from "../wire/seq.ts";
import { ACK, RST, SYN, TCP_HEADER_BYTES, type TcpHeader } from "../wire/tcp.ts";
import { receiveBufferBound } from "./autotune.ts";
import { destroyConnection } from "./close.ts";
import { ackDelay, startDelayedAck } from "./delayed_ack.ts";
import { ecnSynInput } from "./ecn.ts";
import { startKeepAlive } from "./keepalive.ts";
import { sendAck, sendResetFor, sendSyn } from "./output.ts";
import { signalCongestion } from "./recovery.ts";
import { CongestionSignal } from "./congestion/control.ts";
import { updatePacingRate } from "./pacing.ts";
import type { TcpOptions } from "./options.ts";
import { pathMss, startPathMtu } from "./pmtud.ts";
import { TcpState } from "./state.ts";
import type { Tcb } from "./tcb.ts";
import type { Tcp } from "./tcp.ts";
import { echoedRtt } from "./timestamps.ts";
import { receiveWindow, windowShiftFor } from "./window.ts";

/** The least data that a segment carries, whatever the peer announces; as Linux. */
const LEAST_MSS = 48;

/** Begins an active open: sends the SYN. */
export function startConnect(t: Tcb, now: Instant): void {
  startSequence(t, t.tcp.initialSequence(t, now), now);
  t.state = TcpState.SynSent;
  sendSyn(t, now);
  t.rtoAt = Math.max(now, t.departAt) + t.rtt.rto;
}

/** The initial sequence number, timestamp offset and announced MSS of a new connection. */
function startSequence(t: Tcb, iss: number, now: Instant): void {
  t.iss = iss;
  t.sndUna = t.iss;
  t.sndNxt = seqAdd(t.iss, 1);
  t.recover = t.iss;
  t.sndSml = t.iss;
  t.rack.start(t.iss);
  t.windowEnd = t.iss;
  t.tsOffset = t.tcp.timestampOffset(t);
  const { options } = t.tcp;
  t.localMss = localMss(options, t.remoteAddress.version, t.tcp.network.mtuTo(t.remoteAddress));
  if (t.windowScaleOn) t.rcvWndShift = windowShiftFor(receiveBufferBound(options), options.windowShift);
  t.synSentAt = now;
  t.stalledSince = now;
}

/** The MSS that is announced on a link of that MTU (RFC 9293 section 3.7.1). */
export function localMss({ maxSegmentBytes }: TcpOptions, version: number, mtu: number): number {
  const mss = mtu - ipHeaderBytes(version) - TCP_HEADER_BYTES;
  return maxSegmentBytes > 0 ? Math.min(mss, maxSegmentBytes) : mss;
}

/** The MSS that a SYN announces: without the option 536, or 1,220 over IPv6 (RFC 9293 section 3.7.1); 0 counts as absent. */
export function announcedMss(mss: number, version: number): number {
  return mss > 0 ? mss : version === 4 ? 536 : 1220;
}

/** Takes what the peer's SYN says: sequence number, options, window. */
function takeSyn(t: Tcb, s: TcpHeader, now: Instant): void {
  const window = receiveWindow(t);
  t.irs = s.seq;
  t.rcvNxt = seqAdd(s.seq, 1);
  t.rcvAdv = seqAdd(t.rcvNxt, window);
  t.lastAckSent = t.rcvNxt;
  // An option is on only if both SYNs carry it.
  t.windowScaleOn &&= s.windowScale >= 0;
  t.timestampsOn &&= s.hasTimestamps;
  t.sackOn &&= s.sackPermitted;
  ecnSynInput(t, s.flags, (s.flags & ACK) !== 0);
  t.sndWndShift = t.windowScaleOn ? Math.min(14, s.windowScale) : 0; // RFC 7323 section 2.3
  if (!t.windowScaleOn) t.rcvWndShift = 0;
  if (t.timestampsOn) {
    t.tsRecent = s.tsVal;
    t.tsRecentAt = now;
  }
  const announced = announcedMss(s.mss, t.remoteAddress.version);
  t.peerMss = Math.min(Math.max(LEAST_MSS, announced), t.localMss);
  startPathMtu(t, now);
  t.mss = pathMss(t);
  t.congestion.onMss(t.mss);
  // The window of a SYN is not scaled (RFC 7323 section 2.2).
  t.sndWnd = s.window;
  t.sndWndMax = s.window;
  t.sndWl1 = s.seq;
  t.sndWl2 = (s.flags & ACK) !== 0 ? s.ack : t.iss;
  startDelayedAck(t);
}

/** A segment for a listener (RFC 9293 section 3.10.7.2); the segment is in `tcp.segment`. */
export function listenInput(tcp: Tcp, t: Tcb | null, backlogFull: boolean, now: Instant): DropReason {
  const s = tcp.segment;
  if ((s.flags & RST) !== 0) return DropReason.TcpNoConnection;
  if ((s.flags & ACK) !== 0) {
    sendResetFor(tcp, now);
    return DropReason.TcpBadFlags;
  }
  if ((s.flags & SYN) === 0) return DropReason.TcpBadFlags;
  if (backlogFull || t === null) return DropReason.TcpBacklog;
  startSequence(t, tcp.initialSequence(t, now), now);
  takeSyn(t, s, now);
  t.state = TcpState.SynReceived;
  sendSyn(t, now);
  t.rtoAt = Math.max(now, t.departAt) + t.rtt.rto;
  return DropReason.None;
}

/**
 * The acknowledgment in `tcp.segment` has brought a valid cookie back: makes `t` what it would be if the SYN that the
 * cookie stands for (`tcp.cookieSyn`) had been remembered. What the acknowledgment itself says is still to be looked at.
 */
export function openByCookie(t: Tcb, now: Instant): void {
  const { segment, cookieSyn } = t.tcp;
  startSequence(t, seqAdd(segment.ack, -1), now);
  t.synSentAt = NEVER; // nobody knows
  takeSyn(t, cookieSyn, now);
  t.rcvAdv = seqAdd(t.rcvNxt, Math.min(0xffff, t.receiveRing.room));
  t.state = TcpState.SynReceived;
}

/**
 * A segment in SYN-SENT (RFC 9293 section 3.10.7.3).
 *
 * @returns `None` with the state changed to ESTABLISHED if data or a FIN in the same segment are still to be looked at
 */
export function synSentInput(t: Tcb, now: Instant): DropReason {
  const s = t.tcp.segment;
  const hasAck = (s.flags & ACK) !== 0;
  const ackOk = hasAck && seqGt(s.ack, t.iss) && seqLe(s.ack, t.sndNxt);
  if (hasAck && !ackOk) {
    sendResetFor(t.tcp, now);
    return DropReason.TcpBadAck;
  }
  if ((s.flags & RST) !== 0) {
    if (!ackOk) return DropReason.TcpBadReset;
    destroyConnection(t, now, SocketErrorKind.ConnectionRefused, "the peer answered the SYN with a reset");
    return DropReason.None;
  }
  if ((s.flags & SYN) === 0) return DropReason.TcpBadFlags;
  takeSyn(t, s, now);
  if (ackOk) {
    sampleHandshake(t, now);
    t.sndUna = s.ack;
    establish(t, now);
    if (t.tcp.options.handshakeAck === "now") sendAck(t, now);
    else t.delayedAckAt = now + ackDelay(t);
    return DropReason.None;
  }
  // Simultaneous open (RFC 9293 section 3.5, figure 7).
  t.state = TcpState.SynReceived;
  sendSyn(t, now);
  t.rtoAt = Math.max(now, t.departAt) + t.rtt.rto;
  return DropReason.None;
}

/** Takes the round-trip time of SYN and SYN-ACK; Karn: none if they were repeated, unless timestamps tell. */
export function sampleHandshake(t: Tcb, now: Instant): void {
  if (t.synSentAt === NEVER) return;
  if (t.counters.synRetransmits === 0) t.rtt.sample(now - t.synSentAt, now, t.sndUna, t.sndNxt);
  else if (!t.rtt.sample(echoedRtt(t, now), now, t.sndUna, t.sndNxt) && t.retries > 0) t.rtt.restartAfterSynLoss();
}

/** The connection is open: both SYNs are acknowledged. */
export function establish(t: Tcb, now: Instant): void {
  t.state = t.finQueued ? TcpState.FinWait1 : TcpState.Established;
  t.wasEstablished = true;
  t.rtoAt = NEVER;
  // RFC 5681 section 3.1: if the SYN or SYN-ACK was lost the initial window is one segment.
  if (t.retries > 0) signalCongestion(t, CongestionSignal.TimeoutAgain, t.sndUna, now);
  t.retries = 0;
  t.lastSentAt = now;
  t.lastSegmentInAt = now;
  if (t.keepAlive) startKeepAlive(t, now);
  updatePacingRate(t);
  if (t.listener !== null) t.listener.onEstablished(t);
  t.raise(SocketEvent.Connected | SocketEvent.Writable);
  t.tcp.makeReady(t);
}
