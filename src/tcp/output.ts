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
import { IpProtocol } from "../wire/ip_header.ts";
import { seqAdd, seqDiff, seqGt, seqLt } from "../wire/seq.ts";
import { ACK, emitTcp, FIN, PSH, RST, SYN, tcpHeaderLength } from "../wire/tcp.ts";
import { endBurst, isTooEarly, onDataSent, smallQueueLimit, stampSegment } from "./pacing.ts";
import { EVER_RETRANSMITTED, LOST, RETRANSMITTED } from "./retransmit_queue.ts";
import type { Tcb } from "./tcb.ts";
import { TcpState } from "./state.ts";
import type { Tcp } from "./tcp.ts";
import { timestamp } from "./timestamps.ts";
import { advertiseWindow } from "./window.ts";

/** When new data for which there was no packet is tried again. */
const NO_PACKET_RETRY: Duration = MILLISECOND;

/** Which counter a retransmission belongs to. */
export enum RetransmitKind {
  /** Fast retransmit. */
  Fast,
  /** Partial acknowledgment. */
  PartialAck,
  /** The timer ran out. */
  Timeout,
  /** Slow start after a timeout. */
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
      if (t.lostBytes > t.retransmittedBytes) retransmitLost(t, now);
      // New data waits until what is lost has been sent again.
      if (t.lostBytes <= t.retransmittedBytes) sendData(t, now);
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
  t.delayedAckAt = now + t.tcp.options.delayedAck;
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

/**
 * Sends the oldest segment again, whatever the congestion window says: the retransmission that begins a recovery, or
 * follows a partial acknowledgment, is exempt (RFC 5681 section 3.2, RFC 6582 section 3.2).
 */
export function retransmitHead(t: Tcb, kind: RetransmitKind, now: Instant): void {
  if (t.retransmitQueue.size === 0) return;
  const flags = t.retransmitQueue.flags(0);
  const length = seqDiff(t.retransmitQueue.end(0), t.retransmitQueue.seq(0));
  if ((flags & LOST) === 0) {
    t.lostBytes += length;
  } else if ((flags & RETRANSMITTED) !== 0) {
    t.retransmittedBytes -= length;
  }
  t.retransmitQueue.setFlags(0, (flags | LOST) & ~RETRANSMITTED);
  retransmit(t, 0, kind, now);
}

/** Sends lost segments again in sequence order, as the congestion window allows. */
function retransmitLost(t: Tcb, now: Instant): void {
  const queue = t.retransmitQueue;
  for (let i = t.retransmitHint; i < queue.size; i++) {
    if ((queue.flags(i) & (LOST | RETRANSMITTED)) === LOST) {
      const inFlight = t.inFlightBytes;
      if (inFlight > 0 && inFlight + seqDiff(queue.end(i), queue.seq(i)) > t.congestion.cwnd) {
        t.cwndLimited = true;
        return;
      }
      if (isHeldBack(t) || isTooEarly(t, now)) return;
      if (!retransmit(t, i, RetransmitKind.Loss, now)) return;
    }
    t.retransmitHint = i + 1;
  }
}

function retransmit(t: Tcb, i: number, kind: RetransmitKind, now: Instant): boolean {
  const queue = t.retransmitQueue;
  const seq = queue.seq(i);
  const end = queue.end(i);
  const fin = t.finSent && end === seqAdd(t.sndFin, 1);
  const length = seqDiff(end, seq) - (fin ? 1 : 0);
  stampSegment(t, now);
  const stamp = t.departAt;
  if (!sendSegment(t, fin ? ACK | FIN : ACK | PSH, seq, seqDiff(seq, t.sndUna), length, now)) {
    t.retransmitHint = Math.min(t.retransmitHint, i);
    return false;
  }
  queue.setFlags(i, queue.flags(i) | RETRANSMITTED | EVER_RETRANSMITTED);
  queue.setDepartAt(i, stamp, t.rate);
  t.retransmittedBytes += seqDiff(end, seq);
  const c = t.counters;
  c.bytesRetransmitted += length;
  if (kind === RetransmitKind.Fast) c.fastRetransmits++;
  else if (kind === RetransmitKind.PartialAck) c.partialAckRetransmits++;
  else if (kind === RetransmitKind.Timeout) c.timeoutRetransmits++;
  else c.lossRetransmits++;
  if (t.rtoAt === NEVER) t.rtoAt = stamp + t.rtt.rto;
  return true;
}

function isHeldBack(t: Tcb): boolean {
  t.heldBack = t.tcp.network.flowBacklog(t.flow) >= smallQueueLimit(t);
  return t.heldBack;
}

/** Sends new data and the FIN. */
function sendData(t: Tcb, now: Instant): void {
  if (t.finSent) return;
  const before = t.sndNxt;
  sendNewData(t, now);
  if (!t.cwndLimited && t.unsentBytes === 0) t.rate.onAppLimited(t);
  if (t.sndNxt === before && !t.cwndLimited) return;
  // RFC 7661: what a window of data used counts, not what is left of it when its acknowledgments come.
  if (!seqLt(t.sndUna, t.windowEnd) || t.inFlightBytes > t.maxInFlightBytes) {
    t.maxInFlightBytes = t.inFlightBytes;
    t.windowEnd = t.sndNxt;
  }
}

function sendNewData(t: Tcb, now: Instant): void {
  const idle = now - t.lastSentAt;
  if (!t.hasOutstanding && t.sendRing.length > 0 && idle > t.rtt.rto) {
    t.congestion.onIdle(now, idle, t.rtt.rto);
  }
  t.cwndLimited = false;
  for (;;) {
    const unsent = seqDiff(t.sndEnd, t.sndNxt);
    if (unsent === 0 && !t.finQueued) return;
    if (isHeldBack(t) || isTooEarly(t, now)) return;
    const usable = usableWindow(t);
    let length = Math.min(unsent, t.mss);
    if (usable <= 0 || usable < length) {
      // RFC 9293 section 3.8.6.2.1: less than a segment only if it is half of what the peer ever offered.
      if (usable <= 0 || usable < t.sndWndMax >> 1) {
        if (!t.hasOutstanding && t.persistAt === NEVER) t.persistAt = now + t.rtt.rto;
        return;
      }
      length = usable;
    }
    const fin = t.finQueued && length === unsent && usable > length;
    if (length < t.mss && !fin && !t.noDelay && seqGt(t.sndSml, t.sndUna)) return; // Nagle, Minshall
    if (length === 0 && !fin) return;
    const inFlight = t.inFlightBytes;
    if (inFlight > 0 && inFlight + length > t.congestion.cwnd) {
      t.cwndLimited = true;
      return;
    }
    if (!sendNew(t, length, length === unsent, fin, now)) return;
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
  if (!t.hasOutstanding) t.rate.startFlight(stamp);
  if (!t.retransmitQueue.push(seq, end, stamp, t.rate)) {
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
  sendSegment(t, flags, seq, seqDiff(seq, t.sndUna), length, now, p);
  t.counters.bytesSent += length;
  t.lastSentAt = now;
  t.persistAt = NEVER;
  if (t.rtoAt === NEVER) t.rtoAt = stamp + t.rtt.rto;
  t.congestion.onSent(now, length, t.inFlightBytes);
  return true;
}

/**
 * Builds one segment and gives it to the network.
 *
 * @param offset where its data begins in the send ring
 * @param packet the packet to build it in, by default one of the pool
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
): boolean {
  const tcp = t.tcp;
  const p = packet ?? tcp.network.acquire();
  if (p === null) return false;
  const h = tcp.header;
  stampSegment(t, now);
  h.srcPort = t.localPort;
  h.dstPort = t.remotePort;
  h.seq = seq;
  h.ack = (flags & ACK) !== 0 ? t.rcvNxt : 0;
  h.flags = flags;
  h.urgent = 0;
  h.clearOptions();
  const syn = (flags & SYN) !== 0;
  if (syn) {
    h.mss = t.localMss;
    h.sackPermitted = t.sackOn;
    h.windowScale = t.windowScaleOn ? t.rcvWndShift : -1;
  }
  if (t.timestampsOn) {
    h.hasTimestamps = true;
    h.tsVal = timestamp(t, t.departAt);
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
  emitTcp(p.view, p.start, p.end, ip, h);
  p.departAt = t.pacing === "qdisc" ? 0 : t.departAt;
  p.flow = t.flow;
  t.counters.segmentsOut++;
  if (length > 0) onDataSent(t, length);
  if ((flags & ACK) !== 0) {
    if (t.quickAcksLeft > 0) {
      if (length === 0) t.quickAcksLeft--;
      // An answer: from now on acknowledgments can ride on data.
      else if (now - t.lastDataInAt < tcp.options.delayedAck) t.quickAcksLeft = 0;
    }
    t.unackedSegmentsIn = 0;
    t.ackNow = false;
    t.delayedAckAt = NEVER;
    t.lastAckSent = t.rcvNxt;
  }
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
  ip.version = from.version;
  ip.src0 = from.dst0;
  ip.src1 = from.dst1;
  ip.src2 = from.dst2;
  ip.src3 = from.dst3;
  ip.dst0 = from.src0;
  ip.dst1 = from.src1;
  ip.dst2 = from.src2;
  ip.dst3 = from.src3;
  ip.setDefaults(IpProtocol.Tcp, p.length);
  emitTcp(p.view, p.start, p.end, ip, h);
  p.departAt = now;
  const reason = tcp.network.output(p, ip, now);
  if (reason !== DropReason.None) tcp.network.drop(p, reason, now);
}
