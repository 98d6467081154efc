/**
 * The UDP header (RFC 768; IPv6: RFC 8200 section 8.1).
 *
 * ```text
 *  |          Source Port          |       Destination Port        |
 *  |            Length             |           Checksum            |
 * ```
 *
 * We always send a checksum. A zero checksum is accepted over IPv4 ("not computed") and refused over IPv6.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import { checksumFinish, checksumSum } from "./checksum.ts";
import { type IpHeader, IpProtocol } from "./ip_header.ts";

/** Length of the header. */
export const UDP_HEADER_BYTES = 8;

/** The fields of a UDP header. */
export class UdpHeader {
  /** Source port. */
  srcPort = 0;
  /** Destination port. */
  dstPort = 0;
  /** Length of header and payload in bytes. */
  length: number = UDP_HEADER_BYTES;
}

/** Reads and checks the datagram in `[start, end)`, its checksum included. */
export function parseUdp(view: DataView, start: number, end: number, ip: IpHeader, out: UdpHeader): DropReason {
  if (end - start < UDP_HEADER_BYTES) return DropReason.Truncated;
  const length = view.getUint16(start + 4);
  if (length < UDP_HEADER_BYTES) return DropReason.BadLength;
  if (length > end - start) return DropReason.Truncated;
  if (view.getUint16(start + 6) === 0) {
    if (ip.version === 6) return DropReason.BadUdpChecksum;
  } else if (
    checksumFinish(checksumSum(view, start, start + length, ip.pseudoHeaderSum(IpProtocol.Udp, length))) !== 0
  ) {
    return DropReason.BadUdpChecksum;
  }
  out.srcPort = view.getUint16(start);
  out.dstPort = view.getUint16(start + 2);
  out.length = length;
  return DropReason.None;
}

/** Writes the header at `at`, in front of a payload that is in place already, with the checksum over both. */
export function emitUdp(view: DataView, at: number, ip: IpHeader, h: UdpHeader): void {
  view.setUint16(at, h.srcPort);
  view.setUint16(at + 2, h.dstPort);
  view.setUint16(at + 4, h.length);
  view.setUint16(at + 6, 0);
  const sum = checksumSum(view, at, at + h.length, ip.pseudoHeaderSum(IpProtocol.Udp, h.length));
  const checksum = checksumFinish(sum);
  view.setUint16(at + 6, checksum === 0 ? 0xffff : checksum);
}
