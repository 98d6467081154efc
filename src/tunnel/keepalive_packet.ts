/**
 * The keepalive: an IP packet without a payload that only says that its sender is there.
 *
 * Protocol (next header) 59, "no next header", nothing behind the header, TTL 1, and source and destination both an
 * address of the sender. So it looks the same in every encapsulation, passes the impairments like any packet, and tells
 * who sent it, by which a peer that has moved is known again (tunnel.ts). It is never given to the IP layer. A kernel has no
 * use for it and drops it: where it does not forward, in silence.
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import type { IpAddr } from "../wire/ip_addr.ts";
import { emitIp, IpHeader } from "../wire/ip_header.ts";
import { IPV4_HEADER_BYTES } from "../wire/ipv4.ts";
import { IPV6_HEADER_BYTES } from "../wire/ipv6.ts";

const NO_NEXT_HEADER = 59;

const header = new IpHeader();

/** Makes a keepalive from `sender` of the empty packet `p`. */
export function emitKeepalive(p: Packet, sender: IpAddr): void {
  header.setAddresses(sender, sender);
  header.setDefaults(NO_NEXT_HEADER, 0);
  header.ttl = 1;
  p.l4 = p.start;
  p.start -= header.headerLength;
  emitIp(p.view, p.start, header);
}

/** True if the IP packet in `p` is a keepalive. */
export function isKeepalive(p: Packet): boolean {
  const { view, start } = p;
  const bytes = p.end - start;
  if (bytes === IPV4_HEADER_BYTES) {
    return view.getUint8(start) === 0x45 && view.getUint8(start + 9) === NO_NEXT_HEADER &&
      view.getInt32(start + 12) === view.getInt32(start + 16);
  }
  if (bytes !== IPV6_HEADER_BYTES || view.getUint8(start) >>> 4 !== 6) return false;
  if (view.getUint8(start + 6) !== NO_NEXT_HEADER) return false;
  for (let at = start + 8; at < start + 24; at += 4) {
    if (view.getInt32(at) !== view.getInt32(at + 16)) return false;
  }
  return true;
}
