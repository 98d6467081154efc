/**
 * Segment arrives: RFC 9293 section 3.10.7.4, for connections that are past SYN-SENT.
 *
 * The order is that of the RFC: sequence number (and PAWS before it, RFC 7323 section 5.3), RST, SYN, ACK, data, FIN.
 * RST, SYN and old acknowledgments are treated as RFC 5961 says: what is not exactly right gets a challenge
 * acknowledgment, at most two a second. Urgent data is delivered in line.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import { SocketErrorKind } from "../base/errors.ts";
import { SocketEvent } from "../base/event_queue.ts";
import type { Packet } from "../base/packet.ts";
import type { Instant } from "../base/time.ts";
import { seqAdd, seqDiff, seqGe, seqGt, seqLe, seqLt, seqMax, seqMin } from "../wire/seq.ts";
import { ACK, FIN, PSH, RST, SYN } from "../wire/tcp.ts";
import { ackInput } from "./ack.ts";
import { tuneReceiveBuffer, tuneSendBuffer } from "./autotune.ts";
import { challenge } from "./challenge.ts";
import { destroyConnection, enterTimeWait } from "./close.ts";
import { onDataSegment, onDisorder, quickAck, scheduleAck } from "./delayed_ack.ts";
import { ecnDataInput } from "./ecn.ts";
import { establish, sampleHandshake } from "./handshake.ts";
import { startKeepAlive } from "./keepalive.ts";
import { sendAck, sendResetFor, sendSyn } from "./output.ts";
import { TcpState } from "./state.ts";
import type { Tcb } from "./tcb.ts";
import { isOldTimestamp, updateTsRecent } from "./timestamps.ts";
import { receiveWindow } from "./window.ts";

/** Acknowledgments that do not wait after a CE mark: the sender is to know soon how it goes on; as Linux. */
const CE_QUICK_ACKS = 2;

const RESET_TEXT = "the peer reset the connection";

/** Takes the segment in `tcp.segment`, whose data lies in `p`. */
export function segmentInput(t: Tcb, p: Packet, now: Instant): DropReason {
  const s = t.tcp.segment;
  const hasRst = (s.flags & RST) !== 0;
  let windowShift = t.sndWndShift;

  // The SYN-ACK that crosses ours in a simultaneous open stands just before the window (RFC 9293 section 3.5, figure 7).
  if (
    t.state === TcpState.SynReceived && (s.flags & (SYN | ACK | RST)) === (SYN | ACK) && s.seq === t.irs &&
    s.ack === t.sndNxt
  ) {
    s.flags &= ~SYN;
    s.seq = seqAdd(s.seq, 1);
    windowShift = 0; // RFC 7323 section 2.2
  }

  // PAWS (RFC 7323 section 5.3); resets are exempt.
  if (t.timestampsOn && !hasRst) {
    if (!s.hasTimestamps) {
      // Section 3.2: silently. But a SYN may be of a peer that has begun anew: RFC 5961 section 4.2 has it answered.
      if ((s.flags & SYN) === 0) return DropReason.TcpPaws;
    } else if (isOldTimestamp(t, now)) return challenge(t, now, DropReason.TcpPaws, s.payloadLength > 0);
  }

  // Sequence number.
  const window = receiveWindow(t);
  // A reset stands where its sequence number does: what it carries says why (RFC 9293 section 3.5.3), and is no data.
  const length = hasRst ? 0 : s.payloadLength + ((s.flags & SYN) !== 0 ? 1 : 0) + ((s.flags & FIN) !== 0 ? 1 : 0);
  if (!isAcceptable(t, s.seq, length, window)) {
    if (hasRst) return DropReason.TcpOutOfWindow;
    // With a closed window valid acknowledgments are still taken (RFC 9293 section 3.10.7.4).
    if (window === 0 && s.seq === t.rcvNxt && (s.flags & (SYN | ACK)) === ACK && t.state !== TcpState.SynReceived) {
      const reason = takeAck(t, now);
      if (reason !== DropReason.None || isClosed(t)) return reason;
      sendAck(t, now);
      return DropReason.TcpOutOfWindow;
    }
    if (t.state === TcpState.SynReceived && (s.flags & (SYN | ACK)) === SYN && s.seq === t.irs) {
      t.counters.synRetransmits++;
      sendSyn(t, now); // the SYN again: our SYN-ACK was lost
      return DropReason.TcpOutOfWindow;
    }
    if (t.state === TcpState.TimeWait && (s.flags & FIN) !== 0) t.timeWaitAt = now + t.tcp.options.timeWait;
    t.counters.duplicatesIn++;
    // RFC 5961 section 4.2 asks for an answer to a SYN wherever it stands, but section 7 for few of them.
    if ((s.flags & SYN) !== 0) return challenge(t, now, DropReason.TcpOutOfWindow, false);
    noteDuplicate(t, s.seq, seqAdd(s.seq, s.payloadLength));
    return challenge(t, now, DropReason.TcpOutOfWindow, length > 0);
  }

  if (hasRst) {
    // Just behind the window, where a bare acknowledgment may stand, is outside for a reset (RFC 5961 section 3.2).
    if (window > 0 && s.seq === seqAdd(t.rcvNxt, window)) return DropReason.TcpOutOfWindow;
    return resetInput(t, now);
  }

  if ((s.flags & SYN) !== 0) {
    // RFC 5961 section 4.2; a listener's half-open connection is given up (RFC 9293 section 3.10.7.4).
    if (t.state === TcpState.SynReceived && t.listener !== null) {
      destroyConnection(t, now, SocketErrorKind.ConnectionReset, "a second SYN came in SYN-RECEIVED");
      return DropReason.TcpBadSyn;
    }
    return challenge(t, now, DropReason.TcpBadSyn, false);
  }
  if ((s.flags & ACK) === 0) return DropReason.TcpBadFlags;

  if (t.state === TcpState.SynReceived) {
    if (!seqGt(s.ack, t.sndUna) || seqGt(s.ack, t.sndNxt)) {
      sendResetFor(t.tcp, now);
      return DropReason.TcpBadAck;
    }
    sampleHandshake(t, now);
    t.sndUna = seqAdd(t.iss, 1);
    t.sndWnd = s.window << windowShift;
    t.sndWndMax = Math.max(t.sndWndMax, t.sndWnd);
    t.sndWl1 = s.seq;
    t.sndWl2 = s.ack;
    establish(t, now);
  } else {
    const reason = takeAck(t, now);
    if (reason !== DropReason.None) return reason;
    if (isClosed(t)) return DropReason.None;
  }

  updateTsRecent(t, now);
  return dataInput(t, p, now);
}

/** The acknowledgment of a segment that is acceptable, and what the timers and buffers of this end make of it. */
function takeAck(t: Tcb, now: Instant): DropReason {
  const before = t.sndUna;
  const reason = ackInput(t, now);
  if (reason !== DropReason.None) return reason;
  t.lastSegmentInAt = now;
  if (t.keepAliveProbesSent > 0) startKeepAlive(t, now);
  if (t.sndUna !== before) {
    t.stalledSince = now;
    if (t.isSendTuned && !isClosed(t)) tuneSendBuffer(t);
  }
  return reason;
}

/** RFC 9293 section 3.10.7.4, first: the four cases. */
function isAcceptable(t: Tcb, seq: number, length: number, window: number): boolean {
  if (length === 0) {
    if (window === 0) return seq === t.rcvNxt;
    // One past the right edge is taken too: a bare acknowledgment sent when the window was just used up.
    return seqLe(t.rcvNxt, seq) && seqLe(seq, seqAdd(t.rcvNxt, window));
  }
  if (window === 0) return false;
  const last = seqAdd(seq, length - 1);
  return seqLt(seq, seqAdd(t.rcvNxt, window)) && seqGe(last, t.rcvNxt);
}

function isClosed(t: Tcb): boolean {
  return t.state === TcpState.Closed;
}

/** RST (RFC 5961 section 3.2): only the exact sequence number resets. */
function resetInput(t: Tcb, now: Instant): DropReason {
  const s = t.tcp.segment;
  if (t.state === TcpState.TimeWait && t.tcp.options.rfc1337) return DropReason.TcpBadReset;
  if (s.seq !== t.rcvNxt) return challenge(t, now, DropReason.TcpBadReset, false);
  switch (t.state) {
    case TcpState.SynReceived:
      destroyConnection(t, now, SocketErrorKind.ConnectionRefused, "the peer reset the connection attempt");
      break;
    case TcpState.Closing:
    case TcpState.LastAck:
    case TcpState.TimeWait:
      // In order only if the peer has all that was written before the close.
      if (t.unackedBytes === 0) destroyConnection(t, now, SocketErrorKind.None, "");
      else destroyConnection(t, now, SocketErrorKind.ConnectionReset, RESET_TEXT);
      break;
    default:
      destroyConnection(t, now, SocketErrorKind.ConnectionReset, RESET_TEXT);
  }
  return DropReason.None;
}

/** Data and FIN of the segment in `tcp.segment`. */
export function dataInput(t: Tcb, p: Packet, now: Instant): DropReason {
  const s = t.tcp.segment;
  const hasFin = (s.flags & FIN) !== 0;
  if (s.payloadLength === 0 && !hasFin) return DropReason.None;
  switch (t.state) {
    case TcpState.Established:
    case TcpState.FinWait1:
    case TcpState.FinWait2:
      break;
    default:
      // The peer has sent its FIN: nothing can follow it.
      return challenge(t, now, DropReason.TcpOutOfWindow, s.payloadLength > 0);
  }
  if (t.orphaned && s.payloadLength > 0 && seqGt(seqAdd(s.seq, s.payloadLength), t.rcvNxt)) {
    // Nobody will read it (RFC 9293 section 3.6.1): tell the peer.
    t.abort(now, SocketErrorKind.None, "");
    return DropReason.NoSocket;
  }

  // Cut off what came before and what lies beyond the window; what is within the window has room in the buffer.
  const edge = seqAdd(t.rcvNxt, receiveWindow(t));
  let left = s.seq;
  let right = seqAdd(s.seq, s.payloadLength);
  let from = p.l4 + s.headerLength;
  if (hasFin && !t.finReceived && seqLe(right, edge) && !t.reassembly.reaches(right)) {
    t.finReceived = true;
    t.rcvFin = right;
  }
  if (s.payloadLength > 0) {
    onDataSegment(t, s.payloadLength, (s.flags & PSH) !== 0, now);
    if (ecnDataInput(t, t.tcp.segmentIp, s.flags)) quickAck(t, CE_QUICK_ACKS);
    noteDuplicate(t, left, right);
  }
  if (seqLt(left, t.rcvNxt)) {
    from += seqDiff(t.rcvNxt, left);
    left = t.rcvNxt;
  }
  if (seqGt(right, edge)) right = edge;
  if (t.finReceived && seqGt(right, t.rcvFin)) right = t.rcvFin;
  const length = seqDiff(right, left);

  if (length > 0 && left === t.rcvNxt) {
    const hadHole = t.reassembly.count > 0;
    t.receiveRing.write(p.bytes, from, from + length);
    advanceReceive(t, right);
    if (t.isReceiveTuned) tuneReceiveBuffer(t, now);
    if (hadHole) t.ackNow = true; // RFC 5681 section 4.2: a segment that fills a gap is acknowledged at once
    t.raise(SocketEvent.Readable);
  } else if (length > 0) {
    t.counters.outOfOrderIn++;
    const offset = seqDiff(left, t.rcvNxt);
    const remembered = t.reassembly.add(left, right);
    if (remembered) t.receiveRing.writeAt(offset, p.bytes, from, from + length);
    onDisorder(t);
    // RFC 5681 section 4.2: an out-of-order segment is acknowledged at once, each one.
    sendAck(t, now);
    return remembered ? DropReason.None : DropReason.TcpReassemblyFull;
  } else if (s.payloadLength > 0) {
    // Nothing new in it: our acknowledgment was lost, perhaps.
    t.counters.duplicatesIn++;
    onDisorder(t);
    t.ackNow = true;
  }

  if (t.finReceived && t.rcvNxt === t.rcvFin) finInput(t, now);
  else if (hasFin) t.ackNow = true; // data before the FIN is missing
  scheduleAck(t, now);
  return DropReason.None;
}

/** Notes the first part of `[left, right)` that has come before, to report it (RFC 2883 section 4). */
function noteDuplicate(t: Tcb, left: number, right: number): void {
  if (!t.sackOn || !t.tcp.options.dsack || !seqLt(left, right)) return;
  if (seqLt(left, t.rcvNxt)) {
    t.ackNow = true; // what holds something old is acknowledged at once
    t.dsackLeft = left;
    t.dsackRight = seqLt(right, t.rcvNxt) ? right : t.rcvNxt;
    return;
  }
  const i = t.reassembly.firstOverlap(left, right);
  if (i < 0) return;
  t.ackNow = true;
  t.dsackLeft = seqMax(left, t.reassembly.left(i));
  t.dsackRight = seqMin(right, t.reassembly.right(i));
}

/** RCV.NXT moves to `next`, and on over ranges that are there already. */
function advanceReceive(t: Tcb, next: number): void {
  const reached = t.reassembly.advance(next);
  const joined = seqDiff(reached, next);
  if (joined > 0) t.receiveRing.commit(joined);
  t.counters.bytesReceived += seqDiff(reached, t.rcvNxt);
  t.rcvNxt = reached;
}

/** The peer's FIN is next in sequence. */
function finInput(t: Tcb, now: Instant): void {
  t.rcvNxt = seqAdd(t.rcvFin, 1);
  if (seqLt(t.rcvAdv, t.rcvNxt)) t.rcvAdv = t.rcvNxt;
  if (t.state !== TcpState.Established || !t.tcp.options.delayFinAck) t.ackNow = true;
  t.pingPong = true;
  t.raise(SocketEvent.Readable);
  switch (t.state) {
    case TcpState.Established:
      t.state = TcpState.CloseWait;
      break;
    case TcpState.FinWait1:
      t.state = TcpState.Closing;
      break;
    case TcpState.FinWait2:
      enterTimeWait(t, now);
      sendAck(t, now); // at once: nothing will follow that it could ride on
      break;
    default:
      break;
  }
}
