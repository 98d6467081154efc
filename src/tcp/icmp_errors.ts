/**
 * What an ICMP error about one of our segments does to its connection (RFC 9293 section 3.9.2.2).
 *
 * Only an error that quotes a sequence number in flight is looked at: others can be forged without seeing our packets
 * (RFC 5927 section 4). "Protocol unreachable" and "port unreachable" end a connection that is being opened; once it is
 * open nothing ends it, since then it is more likely that the error is forged or passes (RFC 5927 section 5.2). All other
 * errors are soft: they are remembered, and told if the connection times out.
 *
 * "Fragmentation needed" and "packet too big" lower the path MTU (pmtud.ts).
 *
 * @module
 */

import { SocketErrorKind } from "../base/errors.ts";
import type { Instant } from "../base/time.ts";
import { icmpErrorText, Icmpv4Type, Icmpv6Type } from "../wire/icmp.ts";
import { seqGe, seqLt } from "../wire/seq.ts";
import { destroyConnection } from "./close.ts";
import { packetTooBig } from "./pmtud.ts";
import { isSynchronized } from "./state.ts";
import type { Tcb } from "./tcb.ts";

/** An ICMP error about a segment of ours: `src` is our side. */
export interface SegmentError {
  /** 4 or 6: tells ICMP from ICMPv6. */
  readonly version: number;
  /** Message type. */
  readonly type: number;
  /** Message code. */
  readonly code: number;
  /** Source of the segment. */
  readonly src0: number;
  /** Source of the segment, second word. */
  readonly src1: number;
  /** Source of the segment, third word. */
  readonly src2: number;
  /** Source of the segment, last word. */
  readonly src3: number;
  /** Destination of the segment. */
  readonly dst0: number;
  /** Destination of the segment, second word. */
  readonly dst1: number;
  /** Destination of the segment, third word. */
  readonly dst2: number;
  /** Destination of the segment, last word. */
  readonly dst3: number;
  /** Source port. */
  readonly srcPort: number;
  /** Destination port. */
  readonly dstPort: number;
  /** MTU of the next hop, if that is what was too small and the router said so; else 0. */
  readonly mtu: number;
  /** Sequence number, int32. */
  readonly seq: number;
}

/** Takes an error about a segment of `t`; false if it was not looked at. */
export function segmentError(t: Tcb, e: SegmentError, now: Instant): boolean {
  if (!seqGe(e.seq, t.sndUna) || !seqLt(e.seq, t.sndNxt)) return false;
  if (isTooBig(e)) return packetTooBig(t, e.mtu, now);
  const text = icmpErrorText(e.version === 6 ? 6 : 4, e.type, e.code);
  if (isHard(e) && !isSynchronized(t.state)) {
    destroyConnection(t, now, SocketErrorKind.ConnectionRefused, `ICMP: ${text}`);
  } else {
    t.softError = text;
  }
  return true;
}

/** "Fragmentation needed" (RFC 1191), or "packet too big" (RFC 8201). */
function isTooBig(e: SegmentError): boolean {
  return e.version === 6 ? e.type === Icmpv6Type.PacketTooBig : e.type === Icmpv4Type.Unreachable && e.code === 4;
}

function isHard(e: SegmentError): boolean {
  if (e.version === 6) {
    return (e.type === Icmpv6Type.Unreachable && e.code === 4) ||
      (e.type === Icmpv6Type.ParameterProblem && e.code === 1);
  }
  return e.type === Icmpv4Type.Unreachable && (e.code === 2 || e.code === 3);
}
