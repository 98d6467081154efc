/**
 * The header of generic UDP encapsulation (draft-ietf-intarea-gue), variant 0, as Linux has it:
 *
 * ```text
 *  | 0 |C|   Hlen  |  Proto/ctype  |             Flags             |
 *  |   fields for the flags, and private data: Hlen × 4 bytes …
 * ```
 *
 * Variant 1 is no header at all: the two highest bits of an IP packet, whichever its version, are 01. Variants 2 and 3 are not
 * defined. Control messages (C) are not for us; a flag changes the meaning of what follows, and none is known here, so a
 * header with one is refused. Private data is skipped.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";

/** Length of the header without fields. */
export const GUE_HEADER_BYTES = 4;

/** Protocol number of IPv4 in another protocol. */
export const PROTOCOL_IPV4 = 4;
/** Protocol number of IPv6 in another protocol. */
export const PROTOCOL_IPV6 = 41;
/** Protocol number that says that nothing follows. */
export const PROTOCOL_NONE = 59;

const CONTROL = 0x20;

/** What a GUE header says. */
export class GueHeader {
  /** 0 or 1. */
  variant = 0;
  /** Protocol number of what follows; in variant 1 by the version of the IP packet. */
  protocol = 0;
  /** Length of the header in bytes; 0 in variant 1. */
  length = 0;
}

/** Reads the header in `[start, end)`. */
export function parseGue(view: DataView, start: number, end: number, out: GueHeader): DropReason {
  if (end <= start) return DropReason.BadEncapsulation;
  const first = view.getUint8(start);
  if (first >>> 6 === 1) {
    const version = first >>> 4;
    if (version !== 4 && version !== 6) return DropReason.BadVersion;
    out.variant = 1;
    out.protocol = version === 4 ? PROTOCOL_IPV4 : PROTOCOL_IPV6;
    out.length = 0;
    return DropReason.None;
  }
  if (first >>> 6 !== 0 || (first & CONTROL) !== 0 || end - start < GUE_HEADER_BYTES) {
    return DropReason.BadEncapsulation;
  }
  const length = GUE_HEADER_BYTES + 4 * (first & 0x1f);
  if (length > end - start || view.getUint16(start + 2) !== 0) return DropReason.BadEncapsulation;
  out.variant = 0;
  out.protocol = view.getUint8(start + 1);
  out.length = length;
  return DropReason.None;
}

/** Writes the four bytes of variant 0 in front of what `protocol` names. */
export function emitGue(view: DataView, at: number, protocol: number): void {
  view.setUint32(at, protocol << 16);
}
