/**
 * The IPv4 header (RFC 791).
 *
 * ```text
 *  0                   1                   2                   3
 *  |Version|  IHL  |      TOS      |          Total Length         |
 *  |         Identification        |0|D|M|     Fragment Offset     |
 *  |      TTL      |    Protocol   |        Header Checksum        |
 *  |                         Source Address                        |
 *  |                       Destination Address                     |
 * ```
 *
 * Options are skipped when reading and never written. The header checksum is always verified.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import { checksumFinish, checksumSum, checksumUpdate } from "./checksum.ts";
import type { IpHeader } from "./ip_header.ts";

/** Length of the header without options. */
export const IPV4_HEADER_BYTES = 20;

/** What every link carries that IPv4 goes by, in bytes (RFC 791 section 3.2). */
export const IPV4_MTU_MIN = 68;

/** The least MTU of a path that is believed of an ICMP error, in bytes (Linux: `min_pmtu`). */
export const IPV4_PATH_MTU_MIN = 552;

/** Reads and checks an IPv4 header at `start`; bytes behind the total length are ignored (RFC 1812 section 5.2.2). */
export function parseIpv4(view: DataView, start: number, end: number, out: IpHeader): DropReason {
  if (end - start < IPV4_HEADER_BYTES) return DropReason.Truncated;
  const first = view.getUint32(start);
  if (first >>> 28 !== 4) return DropReason.BadVersion;
  const headerLength = ((first >>> 24) & 0xf) * 4;
  if (headerLength < IPV4_HEADER_BYTES) return DropReason.BadHeaderLength;
  const totalLength = first & 0xffff;
  if (totalLength < headerLength) return DropReason.BadLength;
  if (totalLength > end - start) return DropReason.Truncated;
  if (checksumFinish(checksumSum(view, start, start + headerLength)) !== 0) return DropReason.BadIpChecksum;
  const fragment = view.getUint16(start + 6);
  out.version = 4;
  out.headerLength = headerLength;
  out.trafficClass = (first >>> 16) & 0xff;
  out.flowLabel = 0;
  out.payloadLength = totalLength - headerLength;
  out.id = view.getUint16(start + 4);
  out.dontFragment = (fragment & 0x4000) !== 0;
  out.moreFragments = (fragment & 0x2000) !== 0;
  out.fragmentOffset = (fragment & 0x1fff) * 8;
  out.ttl = view.getUint8(start + 8);
  out.protocol = view.getUint8(start + 9);
  out.protocolAt = 9;
  out.src0 = 0;
  out.src1 = 0;
  out.src2 = 0xffff;
  out.src3 = view.getInt32(start + 12);
  out.dst0 = 0;
  out.dst1 = 0;
  out.dst2 = 0xffff;
  out.dst3 = view.getInt32(start + 16);
  return DropReason.None;
}

/** Writes the 20-byte header with its checksum. */
export function emitIpv4(view: DataView, at: number, h: IpHeader): void {
  const flags = (h.dontFragment ? 0x4000 : 0) | (h.moreFragments ? 0x2000 : 0) | (h.fragmentOffset >>> 3);
  view.setUint16(at, 0x4500 | h.trafficClass);
  view.setUint16(at + 2, IPV4_HEADER_BYTES + h.payloadLength);
  view.setUint16(at + 4, h.id);
  view.setUint16(at + 6, flags);
  view.setUint16(at + 8, (h.ttl << 8) | h.protocol);
  view.setUint16(at + 10, 0);
  view.setInt32(at + 12, h.src3);
  view.setInt32(at + 16, h.dst3);
  view.setUint16(at + 10, checksumFinish(checksumSum(view, at, at + IPV4_HEADER_BYTES)));
}

/** Lowers the TTL by one in place and updates the checksum incrementally (RFC 1624). */
export function decrementIpv4Ttl(view: DataView, at: number): void {
  const before = view.getUint16(at + 8);
  view.setUint16(at + 8, before - 0x100);
  view.setUint16(at + 10, checksumUpdate(view.getUint16(at + 10), before, before - 0x100));
}

/** Sets the two ECN bits in place and updates the checksum incrementally. */
export function setIpv4Ecn(view: DataView, at: number, ecn: number): void {
  const before = view.getUint16(at);
  const after = (before & ~3) | ecn;
  view.setUint16(at, after);
  view.setUint16(at + 10, checksumUpdate(view.getUint16(at + 10), before, after));
}
