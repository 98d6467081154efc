/**
 * Tunnels within tunnels: how many headers of our encapsulation are in a packet, one within the other.
 *
 * A datagram of a tunnel that is routed into the same or another tunnel is wrapped again, and each time round a loop once
 * more; TTLs end only those loops in which somebody forwards the packet itself. So what comes out of a tunnel with
 * more tunnels in it than {@linkcode NESTING_MAX} is dropped (RFC 2473 section 4.1.1 has the sender count, with the same default).
 *
 * Only what is certainly a datagram of a tunnel counts: a whole UDP datagram to the port that our peers have, whose header
 * can be read.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import type { Packet } from "../base/packet.ts";
import { IpProtocol } from "../wire/ip_header.ts";
import { IPV4_HEADER_BYTES } from "../wire/ipv4.ts";
import { IPV6_HEADER_BYTES } from "../wire/ipv6.ts";
import { UDP_HEADER_BYTES } from "../wire/udp.ts";
import type { Encapsulation } from "./encapsulation.ts";

/** How many tunnels there may be within a packet that comes out of one. */
export const NESTING_MAX = 4;

/**
 * True if the IP packet in `p` has more than {@linkcode NESTING_MAX} headers of the encapsulation in it. What the encapsulation
 * remembers of the datagram parsed last is lost.
 *
 * @param port the UDP port of the tunnel
 */
export function isNestedTooDeep(p: Packet, encapsulation: Encapsulation, port: number): boolean {
  const { start } = p;
  let depth = 0;
  while (depth <= NESTING_MAX && enterTunnel(p, port) && encapsulation.parse(p) === DropReason.None) depth++;
  p.start = start;
  return depth > NESTING_MAX;
}

/** Moves `p.start` from the IP header to the payload of the UDP datagram to `port` that it carries, if it does. */
function enterTunnel(p: Packet, port: number): boolean {
  const { view, start, end } = p;
  const bytes = end - start;
  if (bytes < IPV4_HEADER_BYTES + UDP_HEADER_BYTES) return false;
  const first = view.getUint8(start);
  let at = start;
  if (first >>> 4 === 4) {
    if (view.getUint8(start + 9) !== IpProtocol.Udp || (view.getUint16(start + 6) & 0x3fff) !== 0) return false;
    at += (first & 0xf) * 4;
  } else {
    if (first >>> 4 !== 6 || bytes < IPV6_HEADER_BYTES || view.getUint8(start + 6) !== IpProtocol.Udp) return false;
    at += IPV6_HEADER_BYTES;
  }
  if (at + UDP_HEADER_BYTES > end || view.getUint16(at + 2) !== port) return false;
  p.start = at + UDP_HEADER_BYTES;
  return true;
}
