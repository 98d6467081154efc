/**
 * The fixed IPv6 header (RFC 8200 section 3).
 *
 * ```text
 *  |Version| Traffic Class |           Flow Label                  |
 *  |         Payload Length        |  Next Header  |   Hop Limit   |
 *  |                    Source Address (16 bytes)                  |
 *  |                 Destination Address (16 bytes)                |
 * ```
 *
 * Extension headers are left to the layer above (ipv6_extension.ts): `protocol` is the first next-header value. An
 * IPv4-mapped address may not appear on a wire (RFC 6890 section 2.2.3); it is refused here, since in words it cannot be
 * told from the IPv4 address, whose routes, sockets and permissions it would get.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import { isV4Words } from "./ip_addr.ts";
import type { IpHeader } from "./ip_header.ts";

/** Length of the fixed header. */
export const IPV6_HEADER_BYTES = 40;

/** What every link carries that IPv6 goes by, in bytes (RFC 8200 section 5). */
export const IPV6_MTU_MIN = 1280;

/** Reads and checks the fixed header at `start`. */
export function parseIpv6(view: DataView, start: number, end: number, out: IpHeader): DropReason {
  if (end - start < IPV6_HEADER_BYTES) return DropReason.Truncated;
  const first = view.getUint32(start);
  if (first >>> 28 !== 6) return DropReason.BadVersion;
  const payloadLength = view.getUint16(start + 4);
  if (payloadLength > end - start - IPV6_HEADER_BYTES) return DropReason.Truncated;
  out.version = 6;
  out.headerLength = IPV6_HEADER_BYTES;
  out.trafficClass = (first >>> 20) & 0xff;
  out.flowLabel = first & 0xfffff;
  out.payloadLength = payloadLength;
  out.id = 0;
  out.dontFragment = true;
  out.moreFragments = false;
  out.fragmentOffset = 0;
  out.protocol = view.getUint8(start + 6);
  out.protocolAt = 6;
  out.ttl = view.getUint8(start + 7);
  out.src0 = view.getInt32(start + 8);
  out.src1 = view.getInt32(start + 12);
  out.src2 = view.getInt32(start + 16);
  out.src3 = view.getInt32(start + 20);
  out.dst0 = view.getInt32(start + 24);
  out.dst1 = view.getInt32(start + 28);
  out.dst2 = view.getInt32(start + 32);
  out.dst3 = view.getInt32(start + 36);
  if (isV4Words(out.src0, out.src1, out.src2) || isV4Words(out.dst0, out.dst1, out.dst2)) return DropReason.Martian;
  return DropReason.None;
}

/** Writes the 40-byte header. */
export function emitIpv6(view: DataView, at: number, h: IpHeader): void {
  view.setInt32(at, 0x60000000 | (h.trafficClass << 20) | h.flowLabel);
  view.setUint16(at + 4, h.payloadLength);
  view.setUint8(at + 6, h.protocol);
  view.setUint8(at + 7, h.ttl);
  view.setInt32(at + 8, h.src0);
  view.setInt32(at + 12, h.src1);
  view.setInt32(at + 16, h.src2);
  view.setInt32(at + 20, h.src3);
  view.setInt32(at + 24, h.dst0);
  view.setInt32(at + 28, h.dst1);
  view.setInt32(at + 32, h.dst2);
  view.setInt32(at + 36, h.dst3);
}

/** Lowers the hop limit by one in place. */
export function decrementIpv6HopLimit(view: DataView, at: number): void {
  view.setUint8(at + 7, view.getUint8(at + 7) - 1);
}

/** Sets the two ECN bits in place. */
export function setIpv6Ecn(view: DataView, at: number, ecn: number): void {
  view.setUint16(at, (view.getUint16(at) & ~0x30) | (ecn << 4));
}
