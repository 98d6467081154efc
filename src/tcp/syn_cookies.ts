/**
 * SYN cookies (RFC 4987 section 3.6): a SYN that the backlog has no room for is answered without being remembered.
 *
 * The initial sequence number of the SYN-ACK says what has to be known when the handshake is completed; the acknowledgment
 * brings it back, less one:
 *
 * ```text
 *   cookie = hash(addresses, ports) + SEG.SEQ + count · 2^24 + (hash(addresses, ports, count, SEG.SEQ) + mss) mod 2^24
 * ```
 *
 * `count` counts periods of 64 s, `mss` is one of eight values not above the peer's. If the SYN has timestamps, the lowest
 * six bits of TSval, which comes back as TSecr, hold the peer's window shift (15: none), SACK and ECN; without timestamps
 * those options are not offered. A cookie is valid for the period in which it was made and the next. Both hashes are keyed
 * (SipHash), so that nobody can complete a handshake of which he has not seen the SYN-ACK, except by guessing: 16
 * numbers out of 2^32 are right at a time.
 *
 * A SYN-ACK with a cookie is not repeated; that is up to the peer's SYN. Each SYN costs two hashes and one segment, each
 * acknowledgment at most three hashes, and these only while a cookie may be on its way. As long as the listener has room,
 * cookies are not used, and so what they leave out (an exact MSS, options without timestamps) is missed by nobody else.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import { type Instant, SECOND } from "../base/time.ts";
import { IpAddr } from "../wire/ip_addr.ts";
import { type IpHeader, IpProtocol } from "../wire/ip_header.ts";
import { seqAdd, seqDiff } from "../wire/seq.ts";
import { ACK, CWR, ECE, emitTcp, SYN, tcpHeaderLength } from "../wire/tcp.ts";
import { firstReceiveBuffer, receiveBufferBound } from "./autotune.ts";
import type { TcpListener } from "./listener.ts";
import { announcedMss, localMss } from "./handshake.ts";
import { HashUse } from "./secrets.ts";
import type { Tcp } from "./tcp.ts";
import { clockTicks } from "./timestamps.ts";
import { windowShiftFor } from "./window.ts";

/** How long a count lasts; a cookie is good for at most two of them. */
const COUNT_PERIOD = 64 * SECOND;
const COUNTS_VALID = 2;

/** The MSS values that a cookie can tell: the least there is, the usual ones, and those of tunnels over Ethernet. */
const MSS_TABLE: readonly number[] = [48, 536, 1220, 1300, 1380, 1404, 1440, 1460];

/** The lowest bits of TSval: the peer's window shift, SACK, ECN. */
const SHIFT_MASK = 15;
const NO_SHIFT = 15;
const SACK_BIT = 16;
const ECN_BIT = 32;
const OPTION_BITS = 6;

/** Counters of SYN cookies. */
export class SynCookieCounters {
  /** SYN-ACKs with a cookie. */
  sent = 0;
  /** Valid cookies that came back. */
  accepted = 0;
  /** Acknowledgments that were no valid cookie, while there might have been one. */
  failed = 0;
}

/** Answers the SYN in `tcp.segment` with a cookie. */
export function sendCookie(tcp: Tcp, listener: TcpListener, ip: IpHeader, now: Instant): DropReason {
  const s = tcp.segment;
  const { network, options, header: h } = tcp;
  const remote = new IpAddr(ip.src0, ip.src1, ip.src2, ip.src3);
  const mtu = network.mtuTo(remote);
  if (mtu === 0) return DropReason.NoRoute;
  const p = network.acquire();
  if (p === null) return DropReason.TcpBacklog;
  listener.cookieAt = now;
  tcp.synCookies.sent++;
  const useTimestamps = options.timestamps && s.hasTimestamps;
  const useShift = useTimestamps && options.windowScale && s.windowScale >= 0;
  const useSack = useTimestamps && options.sack && s.sackPermitted;
  const useEcn = useTimestamps && options.ecn !== "off" && (s.flags & (ECE | CWR)) === (ECE | CWR);
  h.srcPort = s.dstPort;
  h.dstPort = s.srcPort;
  h.seq = cookie(tcp, ip, s.seq, mssIndex(ip, s.mss), countAt(now));
  h.ack = seqAdd(s.seq, 1);
  h.flags = SYN | ACK | (useEcn ? ECE : 0);
  h.window = Math.min(0xffff, firstReceiveBuffer(options));
  h.urgent = 0;
  h.clearOptions();
  h.mss = localMss(options, ip.version, mtu);
  h.sackPermitted = useSack;
  if (useShift) h.windowScale = windowShiftFor(receiveBufferBound(options), options.windowShift);
  if (useTimestamps) {
    const shift = useShift ? Math.min(14, s.windowScale) : NO_SHIFT;
    const bits = shift | (useSack ? SACK_BIT : 0) | (useEcn ? ECN_BIT : 0);
    h.hasTimestamps = true;
    h.tsVal = (cookieTicks(now, bits) + offset(tcp, ip)) | 0;
    h.tsEcr = s.tsVal;
  }
  p.end = p.start + tcpHeaderLength(h);
  const out = tcp.ipHeader;
  out.setReply(ip);
  out.setDefaults(IpProtocol.Tcp, p.length);
  emitTcp(p.view, p.start, p.end, out, h);
  p.departAt = now;
  const reason = network.output(p, out, now);
  if (reason !== DropReason.None) network.drop(p, reason, now);
  return DropReason.None;
}

/** True while a cookie of this listener may be on its way back. */
export function mayHaveCookie(tcp: Tcp, listener: TcpListener, now: Instant): boolean {
  return tcp.options.synCookies &&
    now - listener.cookieAt < COUNTS_VALID * COUNT_PERIOD;
}

/**
 * Looks whether the acknowledgment in `tcp.segment` brings a valid cookie back, and if so writes the SYN that it stands
 * for into `tcp.cookieSyn`; the window there is 0.
 */
export function takeCookie(tcp: Tcp, ip: IpHeader, now: Instant): boolean {
  const s = tcp.segment;
  const isn = seqAdd(s.ack, -1);
  const irs = seqAdd(s.seq, -1);
  const mss = MSS_TABLE[cookieData(tcp, ip, irs, isn, countAt(now))];
  if (mss === undefined) {
    tcp.synCookies.failed++;
    return false;
  }
  const syn = tcp.cookieSyn;
  syn.seq = irs;
  syn.ack = 0;
  syn.flags = SYN;
  syn.window = 0;
  syn.clearOptions();
  syn.mss = mss;
  if (tcp.options.timestamps && s.hasTimestamps) {
    const bits = (s.tsEcr - offset(tcp, ip)) & ((1 << OPTION_BITS) - 1);
    syn.hasTimestamps = true;
    syn.tsVal = s.tsVal;
    syn.sackPermitted = (bits & SACK_BIT) !== 0;
    if ((bits & ECN_BIT) !== 0) syn.flags |= ECE | CWR;
    if ((bits & SHIFT_MASK) !== NO_SHIFT) syn.windowScale = bits & SHIFT_MASK;
  }
  tcp.synCookies.accepted++;
  return true;
}

function countAt(now: Instant): number {
  return Math.floor(now / COUNT_PERIOD) | 0;
}

/** The clock of timestamps with `bits` as its lowest bits, not later than it is. */
function cookieTicks(now: Instant, bits: number): number {
  const ticks = clockTicks(now);
  const marked = ((ticks >> OPTION_BITS) << OPTION_BITS) | bits;
  return seqDiff(marked, ticks) > 0 ? marked - (1 << OPTION_BITS) : marked;
}

/** What the connection will add to its clock, too. */
function offset(tcp: Tcp, ip: IpHeader): number {
  return tcp.secrets.hashOfInput(HashUse.TimestampOffset, ip, 0, 0);
}

function mssIndex(ip: IpHeader, announced: number): number {
  const mss = announcedMss(announced, ip.version);
  let index = MSS_TABLE.length - 1;
  while (index > 0 && MSS_TABLE[index]! > mss) index--;
  return index;
}

/** The ports of the segment at hand, which came from the peer. */
function ports(tcp: Tcp): number {
  return (tcp.segment.dstPort << 16) | tcp.segment.srcPort;
}

function cookie(tcp: Tcp, ip: IpHeader, irs: number, data: number, count: number): number {
  const fixed = tcp.secrets.hashOfInput(HashUse.Cookie, ip, ports(tcp), 0);
  const timed = tcp.secrets.hashOfInput(HashUse.TimedCookie, ip, ports(tcp), count, irs);
  return (fixed + irs + (count << 24) + ((timed + data) & 0xffffff)) | 0;
}

/** What a cookie says, if it is one: a small number; else any other. */
function cookieData(tcp: Tcp, ip: IpHeader, irs: number, isn: number, count: number): number {
  const rest = (isn - tcp.secrets.hashOfInput(HashUse.Cookie, ip, ports(tcp), 0) - irs) | 0;
  const age = (count - (rest >>> 24)) & 0xff;
  if (age >= COUNTS_VALID) return -1;
  return (rest - tcp.secrets.hashOfInput(HashUse.TimedCookie, ip, ports(tcp), count - age, irs)) & 0xffffff;
}
