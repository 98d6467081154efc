/**
 * The packet that an ICMP error quotes: its IP header and the first eight bytes behind it, cut off anywhere after those.
 *
 * Lengths and checksum of a quoted packet prove nothing (routers cut it, and some change it), so only what is needed to
 * find its sender is read. A fragment of ours counts if it is the first; IPv6 extension headers other than that of a fragment
 * are not ours.
 *
 * @module
 */

import { isV4Words } from "../wire/ip_addr.ts";
import { IPV4_HEADER_BYTES } from "../wire/ipv4.ts";
import { IPV6_HEADER_BYTES } from "../wire/ipv6.ts";
import { FRAGMENT_HEADER_BYTES, Ipv6Extension } from "../wire/ipv6_extension.ts";
import type { IcmpError } from "./network.ts";

const TRANSPORT_BYTES = 8;

/** Reads the packet quoted in `[start, end)`, of the version that `out` says, into `out`; false if it is of no use. */
export function parseQuoted(view: DataView, start: number, end: number, out: IcmpError): boolean {
  const l4 = out.version === 4 ? quotedIpv4(view, start, end, out) : quotedIpv6(view, start, end, out);
  if (l4 < 0 || end - l4 < TRANSPORT_BYTES) return false;
  out.srcPort = view.getUint16(l4);
  out.dstPort = view.getUint16(l4 + 2);
  out.seq = view.getInt32(l4 + 4);
  return true;
}

function quotedIpv4(view: DataView, start: number, end: number, out: IcmpError): number {
  if (end - start < IPV4_HEADER_BYTES) return -1;
  const first = view.getUint8(start);
  const headerLength = (first & 0xf) * 4;
  if (first >>> 4 !== 4 || headerLength < IPV4_HEADER_BYTES) return -1;
  if ((view.getUint16(start + 6) & 0x1fff) !== 0) return -1;
  out.protocol = view.getUint8(start + 9);
  out.src0 = 0;
  out.src1 = 0;
  out.src2 = 0xffff;
  out.src3 = view.getInt32(start + 12);
  out.dst0 = 0;
  out.dst1 = 0;
  out.dst2 = 0xffff;
  out.dst3 = view.getInt32(start + 16);
  return start + headerLength;
}

function quotedIpv6(view: DataView, start: number, end: number, out: IcmpError): number {
  if (end - start < IPV6_HEADER_BYTES || view.getUint8(start) >>> 4 !== 6) return -1;
  out.protocol = view.getUint8(start + 6);
  out.src0 = view.getInt32(start + 8);
  out.src1 = view.getInt32(start + 12);
  out.src2 = view.getInt32(start + 16);
  out.src3 = view.getInt32(start + 20);
  out.dst0 = view.getInt32(start + 24);
  out.dst1 = view.getInt32(start + 28);
  out.dst2 = view.getInt32(start + 32);
  out.dst3 = view.getInt32(start + 36);
  if (isV4Words(out.src0, out.src1, out.src2) || isV4Words(out.dst0, out.dst1, out.dst2)) return -1;
  const l4 = start + IPV6_HEADER_BYTES;
  if (out.protocol !== Ipv6Extension.Fragment) return l4;
  if (end - l4 < FRAGMENT_HEADER_BYTES || (view.getUint16(l4 + 2) & 0xfff8) !== 0) return -1;
  out.protocol = view.getUint8(l4);
  return l4 + FRAGMENT_HEADER_BYTES;
}
