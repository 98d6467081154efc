/**
 * The MSS option of SYNs that are forwarded, lowered to what a link carries (RFC 4459 section 3.2; iptables' TCPMSS).
 *
 * A crutch for paths on which "fragmentation needed" is swallowed. Only SYNs (with or without ACK) that are not fragments are
 * touched; a SYN without the option stays as it is, for then the other side sends 536 bytes at most (IPv6: 1,220).
 *
 * @module
 */

import { checksumUpdate } from "../wire/checksum.ts";
import { TCP_HEADER_BYTES } from "../wire/tcp.ts";

const FLAGS = 13;
const CHECKSUM = 16;
const SYN = 0x02;
const OPTION_END = 0;
const OPTION_NONE = 1;
const OPTION_MSS = 2;
const OPTION_MSS_BYTES = 4;

/**
 * Lowers the MSS option of the TCP segment in `[l4, end)` to `mss` if it is a SYN whose option is larger, and updates the
 * checksum.
 *
 * @returns true if it was changed
 */
export function clampMss(view: DataView, l4: number, end: number, mss: number): boolean {
  if (end - l4 < TCP_HEADER_BYTES || (view.getUint8(l4 + FLAGS) & SYN) === 0) return false;
  const optionsEnd = l4 + (view.getUint8(l4 + 12) >>> 4) * 4;
  if (optionsEnd > end) return false;
  for (let at = l4 + TCP_HEADER_BYTES; at < optionsEnd;) {
    const kind = view.getUint8(at);
    if (kind === OPTION_END) return false;
    if (kind === OPTION_NONE) {
      at++;
      continue;
    }
    if (at + 2 > optionsEnd) return false;
    const length = view.getUint8(at + 1);
    if (length < 2 || at + length > optionsEnd) return false;
    if (kind !== OPTION_MSS || length !== OPTION_MSS_BYTES) {
      at += length;
      continue;
    }
    const before = view.getUint16(at + 2);
    if (before <= mss) return false;
    view.setUint16(at + 2, mss);
    const isOdd = ((at + 2 - l4) & 1) !== 0;
    const checksum = view.getUint16(l4 + CHECKSUM);
    // Across two words, the halves of the value change places.
    view.setUint16(
      l4 + CHECKSUM,
      isOdd ? checksumUpdate(checksum, swap(before), swap(mss)) : checksumUpdate(checksum, before, mss),
    );
    return true;
  }
  return false;
}

function swap(word: number): number {
  return ((word & 0xff) << 8) | (word >>> 8);
}
