/**
 * ICMP (RFC 792) and ICMPv6 (RFC 4443): echo, and the errors that quote a packet.
 *
 * ```text
 *  |     Type      |     Code      |           Checksum            |
 *  |   echo: identifier, sequence number; errors: a 32-bit word    |
 *  |   echo: data; errors: as much of the offending packet as fits |
 * ```
 *
 * The two protocols share this layout and differ in their type numbers and in the checksum, which in ICMPv6 covers a
 * pseudo-header.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import { checksumFinish, checksumSum } from "./checksum.ts";
import { type IpHeader, IpProtocol } from "./ip_header.ts";

/** Bytes in front of an echo's data or an error's quotation. */
export const ICMP_HEADER_BYTES = 8;

/** Types of ICMP for IPv4 (RFC 792). */
export enum Icmpv4Type {
  /** Echo reply. */
  EchoReply = 0,
  /** Destination unreachable. */
  Unreachable = 3,
  /** Echo request. */
  EchoRequest = 8,
  /** Time exceeded. */
  TimeExceeded = 11,
  /** Parameter problem. */
  ParameterProblem = 12,
}

/** Types of ICMPv6 (RFC 4443). */
export enum Icmpv6Type {
  /** Destination unreachable. */
  Unreachable = 1,
  /** Packet too big. */
  PacketTooBig = 2,
  /** Time exceeded. */
  TimeExceeded = 3,
  /** Parameter problem. */
  ParameterProblem = 4,
  /** Echo request. */
  EchoRequest = 128,
  /** Echo reply. */
  EchoReply = 129,
}

/** The fields of an ICMP or ICMPv6 message. */
export class IcmpHeader {
  /** Message type. */
  type = 0;
  /** Message code. */
  code = 0;
  /** Echo: identifier. Errors: high half of the 32-bit word. */
  id = 0;
  /** Echo: sequence number. Errors: low half of the 32-bit word (next-hop MTU in "fragmentation needed"). */
  seq = 0;
}

/** True for the ICMP messages that report an error: these are never answered (RFC 1122 section 3.2.2, RFC 4443 2.4). */
export function isIcmpError(version: number, type: number): boolean {
  if (version === 6) return type < 128;
  return type === Icmpv4Type.Unreachable || type === 4 || type === 5 || type === Icmpv4Type.TimeExceeded ||
    type === Icmpv4Type.ParameterProblem;
}

const UNREACHABLE_V4: readonly string[] = [
  "network unreachable",
  "host unreachable",
  "protocol unreachable",
  "port unreachable",
  "fragmentation needed",
  "source route failed",
];
const UNREACHABLE_V6: readonly string[] = [
  "no route to destination",
  "administratively prohibited",
  "beyond the scope of the source address",
  "address unreachable",
  "port unreachable",
];

/** What an ICMP or ICMPv6 error says, in words. */
export function icmpErrorText(version: 4 | 6, type: number, code: number): string {
  if (version === 4) {
    if (type === Icmpv4Type.Unreachable) return UNREACHABLE_V4[code] ?? `destination unreachable, code ${code}`;
    if (type === Icmpv4Type.TimeExceeded) return code === 0 ? "TTL exceeded on the way" : "reassembly took too long";
    if (type === Icmpv4Type.ParameterProblem) return "parameter problem";
  } else {
    if (type === Icmpv6Type.Unreachable) return UNREACHABLE_V6[code] ?? `destination unreachable, code ${code}`;
    if (type === Icmpv6Type.PacketTooBig) return "packet too big";
    if (type === Icmpv6Type.TimeExceeded) {
      return code === 0 ? "hop limit exceeded on the way" : "reassembly took too long";
    }
    if (type === Icmpv6Type.ParameterProblem) return "parameter problem";
  }
  return `ICMP type ${type}, code ${code}`;
}

/** Reads and checks the message in `[start, end)`, its checksum included. */
export function parseIcmp(view: DataView, start: number, end: number, ip: IpHeader, out: IcmpHeader): DropReason {
  if (end - start < ICMP_HEADER_BYTES) return DropReason.Truncated;
  if (checksumFinish(checksumSum(view, start, end, pseudoSum(ip, end - start))) !== 0) {
    return DropReason.BadIcmpChecksum;
  }
  out.type = view.getUint8(start);
  out.code = view.getUint8(start + 1);
  out.id = view.getUint16(start + 4);
  out.seq = view.getUint16(start + 6);
  return DropReason.None;
}

/** Writes the header at `at`, in front of data up to `end` that is in place already, with the checksum over both. */
export function emitIcmp(view: DataView, at: number, end: number, ip: IpHeader, h: IcmpHeader): void {
  view.setUint8(at, h.type);
  view.setUint8(at + 1, h.code);
  view.setUint16(at + 2, 0);
  view.setUint16(at + 4, h.id);
  view.setUint16(at + 6, h.seq);
  view.setUint16(at + 2, checksumFinish(checksumSum(view, at, end, pseudoSum(ip, end - at))));
}

function pseudoSum(ip: IpHeader, length: number): number {
  return ip.version === 6 ? ip.pseudoHeaderSum(IpProtocol.Icmpv6, length) : 0;
}
