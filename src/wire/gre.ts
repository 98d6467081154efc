/**
 * The GRE header (RFC 2784, RFC 2890), as it stands in a UDP datagram (RFC 8086):
 *
 * ```text
 *  |C| |K|S| Reserved0       | Ver |         Protocol Type         |
 *  |      Checksum (if C)          |       Reserved1 (if C)        |
 *  |                         Key (if K)                            |
 *  |                   Sequence Number (if S)                      |
 * ```
 *
 * A checksum is verified and never written, since UDP has one (RFC 8086 section 3.2); a sequence number is passed over. The bits
 * that RFC 1701 had a use for must be zero (RFC 2784 section 2.3), and the version 0.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import { checksumFinish, checksumSum } from "./checksum.ts";

/** Length of the header without optional fields. */
export const GRE_HEADER_BYTES = 4;
/** Length of the key. */
export const GRE_KEY_BYTES = 4;

/** EtherType of IPv4. */
export const ETHERTYPE_IPV4 = 0x0800;
/** EtherType of IPv6. */
export const ETHERTYPE_IPV6 = 0x86dd;

const CHECKSUM = 0x8000;
const KEY = 0x2000;
const SEQUENCE = 0x1000;
/** Routing, strict source route and recursion control of RFC 1701, and the version. */
const MUST_BE_ZERO = 0x4000 | 0x0c00 | 0x0007;

/** What a GRE header says. */
export class GreHeader {
  /** EtherType of what follows. */
  protocol = 0;
  /** Length of the header in bytes. */
  length: number = GRE_HEADER_BYTES;
  /** True if there is a key. */
  hasKey = false;
  /** The key, from 0 to 2^32 − 1; 0 if there is none. */
  key = 0;
  /** True if there is a checksum (which then is right). */
  hasChecksum = false;
  /** True if there is a sequence number. */
  hasSequence = false;
}

/** Reads and checks the header in `[start, end)`. */
export function parseGre(view: DataView, start: number, end: number, out: GreHeader): DropReason {
  if (end - start < GRE_HEADER_BYTES) return DropReason.BadEncapsulation;
  const flags = view.getUint16(start);
  if ((flags & MUST_BE_ZERO) !== 0) return DropReason.BadEncapsulation;
  out.protocol = view.getUint16(start + 2);
  out.hasChecksum = (flags & CHECKSUM) !== 0;
  out.hasKey = (flags & KEY) !== 0;
  out.hasSequence = (flags & SEQUENCE) !== 0;
  out.length = GRE_HEADER_BYTES + (out.hasChecksum ? 4 : 0) + (out.hasKey ? GRE_KEY_BYTES : 0) +
    (out.hasSequence ? 4 : 0);
  if (out.length > end - start) return DropReason.BadEncapsulation;
  if (out.hasChecksum && checksumFinish(checksumSum(view, start, end)) !== 0) return DropReason.BadEncapsulation;
  out.key = out.hasKey ? view.getUint32(start + GRE_HEADER_BYTES + (out.hasChecksum ? 4 : 0)) : 0;
  return DropReason.None;
}

/** Writes a header with this EtherType, without a key if `key` is 0; returns its length, for which there must be room. */
export function emitGre(view: DataView, at: number, protocol: number, key: number): number {
  view.setUint16(at, key === 0 ? 0 : KEY);
  view.setUint16(at + 2, protocol);
  if (key === 0) return GRE_HEADER_BYTES;
  view.setUint32(at + GRE_HEADER_BYTES, key);
  return GRE_HEADER_BYTES + GRE_KEY_BYTES;
}

/** Length of the header that {@linkcode emitGre} writes. */
export function greBytes(key: number): number {
  return key === 0 ? GRE_HEADER_BYTES : GRE_HEADER_BYTES + GRE_KEY_BYTES;
}
