/**
 * Explicit congestion notification (RFC 3168): what the SYNs agree on, the echo, and what is marked.
 *
 * Data sent for the first time is ECT(0); retransmissions, window probes, pure acknowledgments, SYN and RST are not. A CE mark
 * on data that arrives is echoed by ECE on every acknowledgment until the peer says CWR. The sender's answer to ECE is one
 * reduction a window of data (recovery.ts), and CWR on the next new data.
 *
 * @module
 */

import type { IpHeader } from "../wire/ip_header.ts";
import { CWR, ECE, SYN } from "../wire/tcp.ts";
import type { Tcb } from "./tcb.ts";

/** The ECN field of the traffic class: ECN-capable, and congestion experienced (RFC 3168 section 5). */
const ECT0 = 2;
const CE = 3;

/** Flags to add to a SYN, or in SYN-RECEIVED to a SYN-ACK (RFC 3168 section 6.1.1). */
export function ecnSynFlags(t: Tcb, isReply: boolean): number {
  if (isReply) return t.ecnOn ? ECE : 0;
  // Section 6.1.1.1: a SYN that got no answer is sent again without, since it may have been dropped for it.
  return t.tcp.options.ecn === "on" && t.counters.synRetransmits === 0 ? ECE | CWR : 0;
}

/**
 * The peer's SYN or SYN-ACK has these flags.
 *
 * Having sent a SYN that does not ask for ECN we may not mark data, but the peer may have seen the one before, that did: its
 * marks are heeded (RFC 3168 section 6.1.1).
 */
export function ecnSynInput(t: Tcb, flags: number, isReply: boolean): void {
  const asked = (flags & (ECE | CWR)) === (ECE | CWR);
  const agreed = (flags & (ECE | CWR)) === ECE;
  t.ecnHeedsCe = isReply ? t.tcp.options.ecn === "on" && agreed : t.tcp.options.ecn !== "off" && asked;
  t.ecnOn = t.ecnHeedsCe && t.counters.synRetransmits === 0;
}

/** A data segment arrived: notes CE and CWR (RFC 3168 section 6.1.3). Returns true if it must be acknowledged at once. */
export function ecnDataInput(t: Tcb, ip: IpHeader, flags: number): boolean {
  if (!t.ecnHeedsCe || (flags & SYN) !== 0) return false;
  if ((flags & CWR) !== 0) t.ecnSendEce = false;
  if ((ip.trafficClass & 3) !== CE) return false;
  t.counters.ceIn++;
  const news = !t.ecnSendEce;
  t.ecnSendEce = true;
  return news;
}

/** True if the acknowledgment with these flags echoes congestion. */
export function isEcnEcho(t: Tcb, flags: number): boolean {
  return t.ecnOn && (flags & (ECE | SYN)) === ECE;
}

/** Flags to add to a segment; new data takes CWR with it. */
export function ecnFlags(t: Tcb, isNewData: boolean): number {
  let flags = t.ecnSendEce ? ECE : 0;
  if (isNewData && t.ecnSendCwr) {
    flags |= CWR;
    t.ecnSendCwr = false;
  }
  return flags;
}

/** Marks the header of new data as ECN-capable. */
export function markEct(ip: IpHeader): void {
  ip.trafficClass = (ip.trafficClass & ~3) | ECT0;
}
