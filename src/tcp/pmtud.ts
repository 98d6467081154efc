/**
 * Path MTU discovery: by ICMP (RFC 1191, RFC 8201), and by probing where ICMP is silent (RFC 4821, RFC 8899).
 *
 * All our packets carry DF. "Fragmentation needed" or "packet too big" about a segment in flight lowers the path MTU; what
 * was too large is cut and sent again at once, and the congestion window stays as it was, for nothing was congested. After
 * ten minutes the MTU of the link is tried again.
 *
 * What is learnt, by an error or by a search, goes to IP's memory of paths too, where the next connection to the same address
 * begins, and whatever else sends there. A connection itself believes less than that memory does over IPv4, down to what
 * every link carries: its errors have quoted a sequence number in flight, and with DF there is no other way.
 *
 * Where large segments time out again and again and nobody says why (a black hole), the segment size falls to a base that
 * nearly every path carries, and then by halves. From there a search goes up: one larger segment of real data at a time, whose
 * loss says only that it was too large.
 *
 * Always holds: a segment that is sent again is no larger than the present MSS; only a probe is.
 *
 * Not here: the MTU of what is fragmented (there is nothing: DF).
 *
 * @module
 */

import { type Duration, type Instant, NEVER, SECOND } from "../base/time.ts";
import { ipHeaderBytes } from "../wire/ip_header.ts";
import { IPV4_MTU_MIN } from "../wire/ipv4.ts";
import { IPV6_MTU_MIN } from "../wire/ipv6.ts";
import { seqDiff, seqGe } from "../wire/seq.ts";
import { TCP_HEADER_BYTES } from "../wire/tcp.ts";
import { LOST, RETRANSMITTED, SACKED } from "./retransmit_queue.ts";
import { recount } from "./scoreboard.ts";
import { RecoveryState } from "./state.ts";
import type { Tcb } from "./tcb.ts";

/** When packets larger than the path MTU said to be are found out by probes. */
export type MtuProbing = "off" | "black-hole" | "always";

/** The ways to probe, for messages. */
export const MTU_PROBING: readonly MtuProbing[] = ["off", "black-hole", "always"];

/** Bytes that the timestamps option takes in each segment. */
const TIMESTAMPS_BYTES = 12;

/** The least data in a segment, however small the path says it is. */
const LEAST_MSS = 1;

/** After so long a larger MTU is tried (RFC 1191 section 6.3, RFC 8201 section 4; RFC 8899: PMTU_RAISE_TIMER). */
const RAISE_TIME: Duration = 600 * SECOND;

/** What a router that does not say its MTU may have meant (RFC 1191 section 7.1). */
const PLATEAUS: readonly number[] = [32000, 17914, 8166, 4352, 2002, 1492, 1006, 508, 296, 68];

/** Timeouts in a row after which a black hole is suspected (R1 of RFC 9293 section 3.8.3; Linux's tcp_retries1). */
const BLACK_HOLE_TIMEOUTS = 3;

/** The same where segments of that size have arrived before: then the path is more likely to be lossy than to have changed. */
const BLACK_HOLE_TIMEOUTS_PROVEN = 6;

/** Lost probes of one size after which it counts as too large (RFC 8899 section 5.1.2: MAX_PROBES). */
const MAX_PROBES = 3;

/** Data bytes of a segment that nearly every path carries (RFC 4821 section 7.2), and the floor below it; as Linux. */
const BASE_MSS = 1024;
const FLOOR_MSS = 48;

/** The search ends when what is left is less than this. */
const SEARCH_STEP = 8;

/** What is known of the path of one connection. */
export class PathMtu {
  /** The largest packet that is sent, in bytes; 0 before the first SYN. */
  mtu = 0;
  /** When the link's MTU is tried again. */
  expiresAt: Instant = NEVER;
  /** The search is on. */
  isSearching = false;
  /** The largest packet known to arrive. */
  low = 0;
  /** The largest that may. */
  high = 0;
  /** Data bytes of the largest segment that has ever arrived. */
  provenBytes = 0;
  /** The size that is probed for at present, and how many probes of it were lost. */
  targetBytes = 0;
  /** Probes of that size that were lost. */
  lostProbes = 0;
  /** Size of the packet of the probe in flight, or 0. */
  probeBytes = 0;
  /** Its sequence numbers. */
  probeSeq = 0;
  /** One past its last. */
  probeEnd = 0;
  /** No probe before this. */
  nextProbeAt: Instant = 0;
}

/** Bytes of a packet of data that are not data. */
export function headerBytes(t: Tcb): number {
  return ipHeaderBytes(t.remoteAddress.version) + TCP_HEADER_BYTES + (t.timestampsOn ? TIMESTAMPS_BYTES : 0);
}

/** A connection begins: takes what is known of its path. */
export function startPathMtu(t: Tcb, now: Instant): void {
  const path = t.path;
  const link = t.tcp.network.mtuTo(t.remoteAddress);
  path.mtu = t.tcp.network.pathMtuTo(t.remoteAddress, now);
  path.expiresAt = path.mtu < link ? now + RAISE_TIME : NEVER;
  if (t.tcp.options.mtuProbing === "always") startSearch(t, Math.min(path.mtu, BASE_MSS + headerBytes(t)), link, now);
}

/** Data bytes of a full segment: what the peer takes, as far as the path carries it, less options (RFC 6691). */
export function pathMss(t: Tcb): number {
  const options = t.timestampsOn ? TIMESTAMPS_BYTES : 0;
  const mtu = t.path.isSearching ? Math.min(t.path.mtu, t.path.low) : t.path.mtu;
  return Math.max(LEAST_MSS, Math.min(t.peerMss - options, mtu - headerBytes(t)));
}

/**
 * A router said that a packet of ours was larger than `mtu`, which is 0 if it did not say; false if it is not believed
 * (RFC 1191 section 5, RFC 8201 section 4).
 */
export function packetTooBig(t: Tcb, mtu: number, now: Instant): boolean {
  const v4 = t.remoteAddress.isV4;
  if (!v4 && mtu < IPV6_MTU_MIN) return false;
  const sent = t.path.probeBytes > 0 ? t.path.probeBytes : t.path.mtu;
  let learnt = mtu;
  if (mtu === 0) learnt = PLATEAUS.find((plateau) => plateau < Math.min(sent, t.mss + headerBytes(t))) ?? IPV4_MTU_MIN;
  learnt = Math.max(learnt, v4 ? IPV4_MTU_MIN : IPV6_MTU_MIN);
  if (learnt >= sent) return false;
  if (t.path.probeBytes > learnt) {
    t.path.high = learnt;
    endProbe(t);
  }
  if (t.path.isSearching) {
    t.path.high = Math.min(t.path.high, learnt);
    t.path.low = Math.min(t.path.low, learnt);
  }
  lower(t, learnt, now);
  share(t, learnt, sent, now);
  t.note(now, `path MTU ${learnt}: a router said so`);
  return true;
}

/** Tells the host what was found out about the path, so that others to the same address begin with it. */
function share(t: Tcb, mtu: number, sent: number, now: Instant): void {
  const { w0, w1, w2, w3 } = t.remoteAddress;
  t.tcp.network.learnPathMtu(w0, w1, w2, w3, mtu, sent, now);
}

/** Lowers the path MTU: what is too large is cut and waits to be sent again; windows stay. */
function lower(t: Tcb, mtu: number, now: Instant): void {
  if (mtu < t.path.mtu) {
    t.path.mtu = mtu;
    t.path.expiresAt = now + RAISE_TIME;
  }
  setMss(t);
  if (cutLarge(t) && t.recovery < RecoveryState.Recovery) {
    // Lost, but not by congestion: sent again as after a timeout, without what a timeout does to the window.
    t.recovery = RecoveryState.Loss;
    t.recover = t.sndNxt;
    t.undoActive = false;
    t.frto = false;
    t.frtoNewData = false;
  }
  t.dupAcks = 0;
  t.retransmitForced = t.pendingBytes > 0;
  t.tcp.makeReady(t);
}

function setMss(t: Tcb): void {
  const mss = pathMss(t);
  if (mss === t.mss) return;
  t.mss = mss;
  t.congestion.onMss(mss);
}

/** Marks every outstanding segment of more than the MSS lost, and cuts it; false if there is none. */
function cutLarge(t: Tcb): boolean {
  const queue = t.retransmitQueue;
  let found = false;
  for (let i = 0; i < queue.size; i++) {
    const flags = queue.flags(i);
    if ((flags & SACKED) !== 0 || seqDiff(queue.end(i), queue.seq(i)) <= t.mss) continue;
    if (t.finSent && seqDiff(queue.end(i), queue.seq(i)) === t.mss + 1 && queue.end(i) === t.sndNxt) continue;
    queue.setFlags(i, (flags | LOST) & ~RETRANSMITTED);
    found = true;
  }
  if (!found) return false;
  queue.split(t.mss);
  recount(t);
  return true;
}

/** Data is about to be sent for the first time: is it time to try a larger MTU again? */
export function refreshPathMtu(t: Tcb, now: Instant): void {
  const { path } = t;
  if (now < path.expiresAt) return;
  const link = t.tcp.network.mtuTo(t.remoteAddress);
  if (link === 0) return; // no way there just now
  path.expiresAt = NEVER;
  if (path.isSearching) {
    path.high = link;
    path.mtu = link;
    return;
  }
  // Another connection may have tried already.
  path.mtu = t.tcp.network.pathMtuTo(t.remoteAddress, now);
  if (path.mtu < link) path.expiresAt = now + RAISE_TIME;
  setMss(t);
}

/** The retransmission timer ran out for data: after several times in a row a black hole is suspected. */
export function suspectBlackHole(t: Tcb, now: Instant): void {
  const { path } = t;
  const queue = t.retransmitQueue;
  const size = queue.size === 0 ? 0 : seqDiff(queue.end(0), queue.seq(0));
  const enough = size > path.provenBytes ? BLACK_HOLE_TIMEOUTS : BLACK_HOLE_TIMEOUTS_PROVEN;
  if (t.tcp.options.mtuProbing === "off" || t.retries < enough) return;
  // Only where what is not answered is larger than what goes through anyway.
  const least = t.remoteAddress.isV4 ? FLOOR_MSS : IPV6_MTU_MIN - headerBytes(t);
  if (size <= least) return;
  const wanted = size > BASE_MSS ? BASE_MSS : size >> 1;
  const mss = Math.max(least, Math.min(wanted, t.mss));
  if (mss >= t.mss) return;
  startSearch(t, mss + headerBytes(t), Math.max(path.mtu, path.high), now);
  setMss(t);
  cutLarge(t);
  t.note(now, `path MTU ${path.low}: a black hole is suspected`);
}

function startSearch(t: Tcb, low: number, high: number, now: Instant): void {
  const { path } = t;
  endProbe(t);
  path.isSearching = true;
  path.low = low;
  path.high = Math.max(low, high);
  path.nextProbeAt = now;
  // What was used before is tried first: if it was only loss, that is all there is to find out.
  path.targetBytes = path.high;
  path.lostProbes = 0;
}

/**
 * Data bytes of a probe that may be sent now with `unsent` bytes waiting and room for `usable`; 0 if none may, −1 if
 * one may as soon as the windows have room for it, for which it is worth to wait (RFC 4821 section 7.4).
 */
export function probeLength(t: Tcb, unsent: number, usable: number, now: Instant): number {
  const { path } = t;
  if (!path.isSearching || path.probeBytes > 0 || now < path.nextProbeAt) return 0;
  if (t.recovery !== RecoveryState.Open) return 0;
  const most = Math.min(path.high, t.peerMss + headerBytes(t) - (t.timestampsOn ? TIMESTAMPS_BYTES : 0));
  if (most - path.low < SEARCH_STEP) {
    // Found: looked at again when a path may have changed.
    const link = t.tcp.network.mtuTo(t.remoteAddress);
    if (path.high < link && path.high - path.low < SEARCH_STEP) share(t, path.low, link, now);
    path.nextProbeAt = now + RAISE_TIME;
    path.high = Math.max(path.high, link);
    return 0;
  }
  if (path.targetBytes <= path.low || path.targetBytes > most) {
    path.targetBytes = (path.low + most + 1) >> 1;
    path.lostProbes = 0;
  }
  const length = path.targetBytes - headerBytes(t);
  if (length <= t.mss || unsent < length || t.sndWnd < length) return 0;
  // With nothing in flight one segment may always go, and that is one of the size that it was before.
  if (t.inFlightBytes === 0) return length;
  // Windows that are full have room for the next segment, not for more: room must be waited for; where loss keeps the window
  // below the size of a probe, until nothing is in flight.
  const isFull = usable < length || t.inFlightBytes + length > t.congestion.cwnd;
  return isFull ? -1 : length;
}

/** A probe with the data `[seq, end)` was sent. */
export function probeSent(t: Tcb, seq: number, end: number): void {
  t.path.probeBytes = seqDiff(end, seq) + headerBytes(t);
  t.path.probeSeq = seq;
  t.path.probeEnd = end;
}

function endProbe(t: Tcb): void {
  t.path.probeBytes = 0;
}

/** SND.UNA has moved: perhaps over the probe, which then has arrived. */
export function probeArrived(t: Tcb, now: Instant): void {
  const { path } = t;
  if (path.probeBytes === 0 || !seqGe(t.sndUna, path.probeEnd)) return;
  path.low = path.probeBytes;
  path.mtu = Math.max(path.mtu, path.low);
  path.targetBytes = 0;
  endProbe(t);
  setMss(t);
  t.note(now, `path MTU ${path.low}: a probe arrived`);
}

/**
 * Loss was found: if it is the probe that is lost, it was too large; it is cut and sent again.
 *
 * @returns true if nothing else is lost, so that there is no congestion
 */
export function probeLost(t: Tcb, now: Instant): boolean {
  const { path } = t;
  if (path.probeBytes === 0) return false;
  const queue = t.retransmitQueue;
  const i = queue.find(path.probeSeq);
  if (i >= queue.size || (queue.flags(i) & LOST) === 0) return false;
  const alone = t.pendingBytes === seqDiff(queue.end(i), queue.seq(i));
  path.nextProbeAt = now + t.rtt.srtt;
  countLostProbe(t);
  cutLarge(t);
  return alone;
}

function countLostProbe(t: Tcb): void {
  const { path } = t;
  if (++path.lostProbes >= MAX_PROBES) {
    path.high = path.probeBytes - 1;
    path.targetBytes = 0;
  }
  endProbe(t);
}

/** Segment `i` is to be sent again: if it is larger than a segment may be now it is cut first. */
export function fitSegment(t: Tcb, i: number): void {
  const queue = t.retransmitQueue;
  const length = seqDiff(queue.end(i), queue.seq(i));
  if (length <= t.mss || (t.finSent && length === t.mss + 1 && queue.end(i) === t.sndNxt)) return;
  queue.split(t.mss);
  recount(t);
  if (t.path.probeBytes > 0) countLostProbe(t);
}
