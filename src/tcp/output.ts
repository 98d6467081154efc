/**
 * What a connection sends: retransmissions first, then new data as far as windows allow, then a bare acknowledgment if
 * one is due and nothing carried it.
 *
 * Every segment is stamped with its departure time; the stamp is what the round-trip time and TSval are taken from. How
 * much may leave is decided by the peer's window, the congestion window, Nagle's algorithm in Minshall's form (at most
 * one partial segment unacknowledged), the sender's silly window rule, and the small-queue limit: a connection never has
 * more than so many bytes in the queueing discipline, and goes on when one of its packets has left.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import { HEADROOM_BYTES, type Packet } from "../base/packet.ts";
import { type Duration, type Instant, MILLISECOND, NEVER } from "../base/time.ts";
import { ipHeaderBytes, IpProtocol } from "../wire/ip_header.ts";
import { seqAdd, seqDiff, seqGt, seqLt, seqMax } from "../wire/seq.ts";
import { ACK, emitTcp, FIN, PSH, RST, SYN, tcpHeaderLength } from "../wire/tcp.ts";
import { Limit } from "./busy_time.ts";
import { ackDelay, onAckSent } from "./delayed_ack.ts";
import { ecnFlags, ecnSynFlags, markEct } from "./ecn.ts";
import { endBurst, isTooEarly, onDataSent, smallQueueLimit, stampSegment } from "./pacing.ts";
import { fitSegment, probeLength, probeSent, refreshPathMtu } from "./pmtud.ts";
import { isFrtoProbing } from "./recovery.ts";
import { LOST, RETRANSMITTED } from "./retransmit_queue.ts";
import { markLost } from "./scoreboard.ts";
import { RecoveryState, TcpState } from "./state.ts";
import type { Tcb } from "./tcb.ts";
import type { Tcp } from "./tcp.ts";
import { timestamp } from "./timestamps.ts";
import { scheduleProbe } from "./tlp.ts";
import { advertiseWindow } from "./window.ts";

/** After so long, at the earliest, something is tried again for which there was no packet. */
const NO_PACKET_RETRY: Duration = MILLISECOND;

/** More bytes of bare acknowledgments than any queue holds are not counted: an int32 stays one. */
const BARE_BYTES_MAX = 1 << 30;

/** Which counter a retransmission belongs to. */
export enum RetransmitKind {
  /** In fast recovery. */
  Fast,
  /** As a tail-loss probe. */
  Probe,
  /** The timer ran out. */
  Timeout,
  /** In the slow start after a timeout. */
  Loss,
}

/** Writes out what the connection has to say. */
export function output(t: Tcb, now: Instant): void {
  switch (t.state) {
    case TcpState.Established:
    case TcpState.FinWait1:
    case TcpState.CloseWait:
    case TcpState.Closing:
    case TcpState.LastAck:
      if (t.frtoNewData) sendForFrto(t, now);
      if (t.pendingBytes > 0 && !isFrtoProbing(t)) retransmitLost(t, now);
      // New data waits until what is lost has been sent again.
      if (t.pendingBytes === 0) sendData(t, now);
      t.busyTime.set(limitOf(t), now);
      break;
    case TcpState.FinWait2:
    case TcpState.TimeWait:
      break;
    default:
      return;
  }
  endBurst(t);
  if (t.ackNow) sendAck(t, now);
}

/** Sends a bare acknowledgment at once, or a little later if there is no packet to be had now. */
export function sendAck(t: Tcb, now: Instant): void {
  if (sendSegment(t, ACK, t.sndNxt, 0, 0, now)) return;
  t.ackNow = true;
  t.delayedAckAt = now + Math.max(ackDelay(t), NO_PACKET_RETRY);
}

/** Sends a SYN, or in SYN-RECEIVED a SYN-ACK. */
export function sendSyn(t: Tcb, now: Instant): void {
  sendSegment(t, t.state === TcpState.SynReceived ? SYN | ACK : SYN, t.iss, 0, 0, now);
}

/** Sends a reset from SND.NXT. */
export function sendReset(t: Tcb, now: Instant): void {
  sendSegment(t, RST | ACK, t.sndNxt, 0, 0, now);
}

/** Probes a closed window: an empty segment with an old sequence number, which the peer must acknowledge. */
export function sendWindowProbe(t: Tcb, now: Instant): void {
  t.counters.windowProbes++;
  sendSegment(t, ACK, seqAdd(t.sndUna, -1), 0, 0, now);
}

/** Asks whether the peer is still there, in the same way. */
export function sendKeepAliveProbe(t: Tcb, now: Instant): void {
  t.counters.keepAliveProbes++;
  sendSegment(t, ACK, seqAdd(t.sndUna, -1), 0, 0, now);
}

/** Sends the oldest segment again, whatever the congestion window says. */
export function retransmitHead(t: Tcb, kind: RetransmitKind, now: Instant): void {
  if (t.retransmitQueue.size === 0) return;
  markLost(t, 0, now);
  retransmit(t, 0, kind, now);
}

/**
 * Sends a tail-loss probe: new data if there is some and the peer's window has room for it, else the last segment again
 * (RFC 8985 section 7.3); it may exceed the congestion window.
 *
 * @returns false if nothing could be sent
 */
export function sendProbe(t: Tcb, now: Instant): boolean {
  const length = Math.min(t.unsentBytes, t.mss);
  if (length > 0 && !t.finSent && usableWindow(t) >= length) {
    return sendNew(t, length, length === t.unsentBytes, false, now);
  }
  const last = t.retransmitQueue.size - 1;
  return last >= 0 && retransmit(t, last, RetransmitKind.Probe, now);
}

/** Sends lost segments again in sequence order, as the congestion window allows. */
function retransmitLost(t: Tcb, now: Instant): void {
  const queue = t.retransmitQueue;
  for (let i = t.retransmitHint; i < queue.size && t.pendingBytes > 0; i++) {
    if ((queue.flags(i) & (LOST | RETRANSMITTED)) === LOST) {
      const inFlight = t.inFlightBytes;
      // The one that begins a recovery is exempt (RFC 5681 section 3.2, RFC 9937 section 6).
      const exempt = t.retransmitForced || inFlight === 0;
      if (!exempt && inFlight + seqDiff(queue.end(i), queue.seq(i)) > t.cwnd) {
        t.cwndLimited = true;
        return;
      }
      if (!t.retransmitForced && isHeldBack(t)) return;
      if (isTooEarly(t, now)) {
        // The timer is for the answer to what is about to be sent again.
        if (i === 0) t.rtoAt = Math.max(t.rtoAt, t.departAt + t.rtt.rto);
        return;
      }
      const kind = t.recovery === RecoveryState.Loss ? RetransmitKind.Loss : RetransmitKind.Fast;
      if (!retransmit(t, i, kind, now)) return;
      t.retransmitForced = false;
    }
    t.retransmitHint = i + 1;
  }
}

function retransmit(t: Tcb, i: number, kind: RetransmitKind, now: Instant): boolean {
  const queue = t.retransmitQueue;
  fitSegment(t, i);
  const seq = queue.seq(i);
  const end = queue.end(i);
  const fin = t.finSent && end === seqAdd(t.sndFin, 1);
  const length = seqDiff(end, seq) - (fin ? 1 : 0);
  stampSegment(t, now);
  const stamp = t.departAt;
  if (!sendSegment(t, fin ? ACK | FIN : ACK | PSH, seq, seqDiff(seq, t.sndUna), length, now)) {
    t.retransmitHint = Math.min(t.retransmitHint, i);
    // Tried again when there may be a packet.
    if (t.pendingBytes > 0) t.paceAt = now + NO_PACKET_RETRY;
    return false;
  }
  const bytes = seqDiff(end, seq);
  const flags = queue.flags(i);
  if ((flags & RETRANSMITTED) !== 0) t.retransmittedBytes -= bytes;
  else if ((flags & LOST) !== 0) t.pendingBytes -= bytes;
  t.retransmittedBytes += bytes;
  queue.setRetransmitted(i, stamp, t.rate, t.inFlightBytes);
  t.prr.out += bytes;
  t.retransmitCount++;
  if (t.retransmitAt === NEVER) t.retransmitAt = stamp;
  if (t.undoActive) {
    t.undoRetransmits = Math.max(0, t.undoRetransmits) + 1;
    t.undoHigh = seqMax(t.undoHigh, end);
  }
  const c = t.counters;
  c.bytesRetransmitted += length;
  if (kind === RetransmitKind.Fast) c.fastRetransmits++;
  else if (kind === RetransmitKind.Probe) c.probeRetransmits++;
  else if (kind === RetransmitKind.Timeout) c.timeoutRetransmits++;
  else c.lossRetransmits++;
  if (i === 0 || t.rtoAt === NEVER) t.rtoAt = stamp + t.rtt.rto;
  return true;
}

/** What holds the sender now. */
function limitOf(t: Tcb): Limit {
  if (!t.hasOutstanding && t.unsentBytes === 0) return Limit.Idle;
  if (t.rwndLimited) return Limit.ReceiveWindow;
  return t.unsentBytes === 0 && t.sendRing.room === 0 && !t.cwndLimited ? Limit.SendBuffer : Limit.Busy;
}

function isHeldBack(t: Tcb): boolean {
  t.heldBack = t.tcp.network.flowBacklog(t.flow) >= smallQueueLimit(t);
  return t.heldBack;
}

/**
 * After a timeout: sends up to two new segments instead of what is lost, to find out whether that is (RFC 5682 section 3.1
 * step 2 b). If there is nothing to send, or it may not be sent now, what is lost is.
 */
function sendForFrto(t: Tcb, now: Instant): void {
  t.frtoNewData = false;
  if (!t.finSent) sendNewData(t, now, 2);
  if (!isFrtoProbing(t)) t.frto = false;
}

/** Sends new data and the FIN. */
function sendData(t: Tcb, now: Instant): void {
  if (t.finSent) return;
  const before = t.sndNxt;
  sendNewData(t, now);
  if (!t.cwndLimited && t.unsentBytes < t.mss && t.inFlightBytes < t.cwnd) t.rate.onAppLimited(t);
  if (t.sndNxt === before && !t.cwndLimited) return;
  // RFC 7661: what a window of data used counts, not what is left of it when its acknowledgments come.
  if (!seqLt(t.sndUna, t.windowEnd) || t.inFlightBytes > t.maxInFlightBytes) {
    t.maxInFlightBytes = t.inFlightBytes;
    t.windowEnd = t.sndNxt;
  }
}

/** Sends at most so many new segments as windows and pacing allow; to find something out, partial ones too. */
function sendNewData(t: Tcb, now: Instant, most = Infinity): void {
  const idle = now - t.lastSentAt;
  if (!t.hasOutstanding && t.sendRing.length > 0 && idle > t.rtt.rto) {
    if (t.tcp.options.slowStartAfterIdle) t.congestion.onIdle(now, idle, t.rtt.rto);
  }
  if (now >= t.path.expiresAt) refreshPathMtu(t, now);
  t.cwndLimited = false;
  t.rwndLimited = false;
  for (let sent = 0; sent < most; sent++) {
    const unsent = seqDiff(t.sndEnd, t.sndNxt);
    if (unsent === 0 && !t.finQueued) return;
    if (isHeldBack(t) || isTooEarly(t, now)) return;
    const usable = usableWindow(t);
    const probe = t.path.isSearching ? probeLength(t, unsent, usable, now) : 0;
    if (probe < 0) {
      t.cwndLimited = true;
      return;
    }
    let length = Math.min(unsent, probe > 0 ? probe : t.mss);
    if (usable <= 0 || usable < length) {
      // RFC 9293 section 3.8.6.2.1: less than a segment only if it is half of what the peer ever offered.
      if (usable <= 0 || usable < t.sndWndMax >> 1) {
        t.rwndLimited = true;
        if (!t.hasOutstanding && t.persistAt === NEVER) {
          t.persistAt = now + t.rtt.rto;
          t.stalledSince = now;
        }
        return;
      }
      length = usable;
    }
    const fin = t.finQueued && length === unsent && usable > length;
    if (length < t.mss && !fin && !t.noDelay && most === Infinity && seqGt(t.sndSml, t.sndUna)) return; // Nagle, Minshall
    if (length === 0 && !fin) return;
    const inFlight = t.inFlightBytes;
    if (inFlight > 0 && inFlight + length > t.cwnd) {
      t.cwndLimited = true;
      return;
    }
    if (!sendNew(t, length, length === unsent, fin, now)) return;
    if (probe > 0) probeSent(t, seqAdd(t.sndNxt, -length), t.sndNxt);
    if (fin) return;
  }
}

/** Bytes that the peer's window has room for beyond SND.NXT; negative if the peer has taken room back. */
function usableWindow(t: Tcb): number {
  return seqDiff(seqAdd(t.sndUna, t.sndWnd), t.sndNxt);
}

/**
 * The override of the silly window rule (RFC 9293 section 3.8.6.2.1): a small window has stayed as it is, so what fits
 * into it is sent.
 *
 * @returns false if the window has no room at all
 */
export function sendIntoSmallWindow(t: Tcb, now: Instant): boolean {
  const length = Math.min(usableWindow(t), t.unsentBytes, t.mss);
  return length > 0 && sendNew(t, length, length === t.unsentBytes, false, now);
}

function sendNew(t: Tcb, length: number, last: boolean, fin: boolean, now: Instant): boolean {
  const seq = t.sndNxt;
  const end = seqAdd(seq, length + (fin ? 1 : 0));
  const p = t.tcp.network.acquire();
  if (p === null) {
    // Not lost, only not sent yet: tried again when there may be a packet.
    t.paceAt = now + NO_PACKET_RETRY;
    return false;
  }
  stampSegment(t, now);
  const stamp = t.departAt;
  if (!t.hasOutstanding) {
    t.rate.startFlight(stamp);
    t.stalledSince = now;
  }
  if (!t.retransmitQueue.push(seq, end, stamp, t.rate, t.inFlightBytes + seqDiff(end, seq))) {
    t.tcp.network.release(p);
    return false;
  }
  t.sndNxt = end;
  const flags = ACK | (last && length > 0 ? PSH : 0) | (fin ? FIN : 0);
  if (fin) {
    t.finSent = true;
    t.sndFin = seqAdd(end, -1);
  }
  if (length > 0 && length < t.mss) t.sndSml = end;
  sendSegment(t, flags, seq, seqDiff(seq, t.sndUna), length, now, p, length > 0);
  t.prr.out += length;
  t.counters.bytesSent += length;
  t.lastSentAt = now;
  t.persistAt = NEVER;
  if (t.rtoAt === NEVER) t.rtoAt = stamp + t.rtt.rto;
  if (t.recovery <= RecoveryState.Cwr) scheduleProbe(t, now);
  t.congestion.onSent(now, length, t.inFlightBytes);
  return true;
}

/**
 * Builds one segment and gives it to the network.
 *
 * @param offset where its data begins in the send ring
 * @param packet the packet to build it in, by default one of the pool
 * @param isNewData it is data sent for the first time
 * @returns false if there was no packet to be had
 */
function sendSegment(
  t: Tcb,
  flags: number,
  seq: number,
  offset: number,
  length: number,
  now: Instant,
  packet: Packet | null = null,
  isNewData = false,
): boolean {
  const tcp = t.tcp;
  const p = packet ?? tcp.network.acquire();
  if (p === null) {
    tcp.refusal = DropReason.None; // nobody was asked
    return false;
  }
  const h = tcp.header;
  const isBare = length === 0 && (flags & (SYN | FIN | RST)) === 0;
  if (!isBare) {
    stampSegment(t, now);
    t.lastDepartAt = t.departAt;
  }
  // Pacing is for data: an acknowledgment that waited for the next turn would slow down what the peer sends.
  const departAt = isBare ? Math.max(now, t.lastDepartAt) : t.departAt;
  h.srcPort = t.localPort;
  h.dstPort = t.remotePort;
  h.seq = seq;
  h.ack = (flags & ACK) !== 0 ? t.rcvNxt : 0;
  const syn = (flags & SYN) !== 0;
  h.flags = flags;
  if (syn) h.flags |= ecnSynFlags(t, (flags & ACK) !== 0);
  else if ((flags & RST) === 0) h.flags |= ecnFlags(t, isNewData);
  h.urgent = 0;
  h.clearOptions();
  if (syn) {
    h.mss = t.localMss;
    h.sackPermitted = t.sackOn;
    h.windowScale = t.windowScaleOn ? t.rcvWndShift : -1;
  }
  if (t.timestampsOn) {
    h.hasTimestamps = true;
    h.tsVal = timestamp(t, departAt);
    h.tsEcr = (flags & ACK) !== 0 ? t.tsRecent : 0;
  }
  const dsack = t.dsackLeft !== t.dsackRight;
  if (t.sackOn && !syn && (t.reassembly.count > 0 || dsack) && (flags & RST) === 0) {
    // As many blocks as fit beside the timestamps, and beside the data within the MSS.
    const room = Math.min(t.timestampsOn ? 3 : 4, (t.mss - length - 4) >> 3);
    if (room > 0) {
      if (dsack) {
        h.sackEdges[0] = t.dsackLeft;
        h.sackEdges[1] = t.dsackRight;
        t.dsackRight = t.dsackLeft;
      }
      const first = dsack ? 1 : 0;
      h.sackCount = first + t.reassembly.blocks(h.sackEdges, room - first, first);
    }
  }
  h.window = (flags & RST) !== 0 && (flags & ACK) === 0 ? 0 : advertiseWindow(t, !syn);
  const headerLength = tcpHeaderLength(h);
  p.reset(HEADROOM_BYTES);
  p.end = p.start + headerLength + length;
  if (length > 0) t.sendRing.peek(offset, p.bytes, p.start + headerLength, p.end);
  const ip = tcp.ipHeader;
  ip.setAddresses(t.localAddress, t.remoteAddress);
  ip.setDefaults(IpProtocol.Tcp, p.length);
  if (isNewData && t.ecnOn) markEct(ip);
  emitTcp(p.view, p.start, p.end, ip, h);
  p.departAt = t.pacing === "qdisc" ? 0 : departAt;
  p.flow = t.flow;
  t.bareBytesBehind = isBare ? Math.min(BARE_BYTES_MAX, t.bareBytesBehind + ipHeaderBytes(ip.version) + p.length) : 0;
  t.counters.segmentsOut++;
  if (length > 0) onDataSent(t, length);
  if ((flags & ACK) !== 0) onAckSent(t, length, now);
  const reason = tcp.network.output(p, ip, now);
  if (reason !== DropReason.None) tcp.network.drop(p, reason, now);
  tcp.refusal = reason;
  return true;
}

/**
 * Answers the segment in `tcp.segment` (addresses in `ip`), which belongs to no connection, with a reset (RFC 9293
 * section 3.10.7.1).
 */
export function sendResetFor(tcp: Tcp, now: Instant): void {
  const s = tcp.segment;
  if ((s.flags & RST) !== 0) return;
  const p = tcp.network.acquire();
  if (p === null) return;
  const h = tcp.header;
  h.srcPort = s.dstPort;
  h.dstPort = s.srcPort;
  h.window = 0;
  h.urgent = 0;
  h.clearOptions();
  if ((s.flags & ACK) !== 0) {
    h.seq = s.ack;
    h.ack = 0;
    h.flags = RST;
  } else {
    h.seq = 0;
    h.ack = seqAdd(s.seq, s.payloadLength + ((s.flags & SYN) !== 0 ? 1 : 0) + ((s.flags & FIN) !== 0 ? 1 : 0));
    h.flags = RST | ACK;
  }
  p.end = p.start + tcpHeaderLength(h);
  const ip = tcp.ipHeader;
  const from = tcp.segmentIp;
  ip.setReply(from);
  ip.setDefaults(IpProtocol.Tcp, p.length);
  emitTcp(p.view, p.start, p.end, ip, h);
  p.departAt = now;
  const reason = tcp.network.output(p, ip, now);
  if (reason !== DropReason.None) tcp.network.drop(p, reason, now);
}
