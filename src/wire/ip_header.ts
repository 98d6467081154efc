/**
 * The IP header of either version as one reusable record, and what both versions share.
 *
 * A layer owns one {@linkcode IpHeader} and fills it again for each packet; nothing is allocated. Addresses are four
 * words each, IPv4 in mapped form (see ip_addr.ts).
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import type { IpAddr } from "./ip_addr.ts";
import { sum32 } from "./checksum.ts";
import { emitIpv4, IPV4_HEADER_BYTES, parseIpv4, setIpv4Ecn } from "./ipv4.ts";
import { emitIpv6, IPV6_HEADER_BYTES, parseIpv6, setIpv6Ecn } from "./ipv6.ts";

/** IP protocol numbers (IPv6 next headers) in use here. */
export enum IpProtocol {
  /** ICMP for IPv4. */
  Icmp = 1,
  /** TCP. */
  Tcp = 6,
  /** UDP. */
  Udp = 17,
  /** ICMP for IPv6. */
  Icmpv6 = 58,
}

/** The two ECN bits of the traffic class (RFC 3168). */
export enum Ecn {
  /** Not ECN-capable. */
  NotEct = 0,
  /** ECN-capable, ECT(1). */
  Ect1 = 1,
  /** ECN-capable, ECT(0). */
  Ect0 = 2,
  /** Congestion experienced. */
  Ce = 3,
}

/** The fields of an IPv4 or IPv6 header. */
export class IpHeader {
  /** 4 or 6. */
  version = 4;
  /** Length of the header in bytes, options (and extension headers that were walked) included. */
  headerLength = 20;
  /** Traffic class: DSCP and ECN. */
  trafficClass = 0;
  /** Flow label, 20 bits; 0 in IPv4. */
  flowLabel = 0;
  /** Length of what follows the header, in bytes. */
  payloadLength = 0;
  /** Identification; 0 in IPv6. */
  id = 0;
  /** Don't fragment; always true in IPv6. */
  dontFragment = true;
  /** More fragments follow. */
  moreFragments = false;
  /** Fragment offset in bytes. */
  fragmentOffset = 0;
  /** TTL or hop limit. */
  ttl = 64;
  /** Protocol or next header. */
  protocol = 0;
  /** Where in the packet the field stands that `protocol` was read from, in bytes from its beginning. */
  protocolAt = 9;
  /** Source address. */
  src0 = 0;
  /** Source address, second word. */
  src1 = 0;
  /** Source address, third word. */
  src2 = 0;
  /** Source address, last word. */
  src3 = 0;
  /** Destination address. */
  dst0 = 0;
  /** Destination address, second word. */
  dst1 = 0;
  /** Destination address, third word. */
  dst2 = 0;
  /** Destination address, last word. */
  dst3 = 0;

  /** Sets both addresses, and the version with them. */
  setAddresses(source: IpAddr, destination: IpAddr): void {
    this.version = destination.isV4 ? 4 : 6;
    this.src0 = source.w0;
    this.src1 = source.w1;
    this.src2 = source.w2;
    this.src3 = source.w3;
    this.dst0 = destination.w0;
    this.dst1 = destination.w1;
    this.dst2 = destination.w2;
    this.dst3 = destination.w3;
  }

  /** Sets version and addresses for an answer to the packet with header `from`. */
  setReply(from: IpHeader): void {
    this.version = from.version;
    this.src0 = from.dst0;
    this.src1 = from.dst1;
    this.src2 = from.dst2;
    this.src3 = from.dst3;
    this.dst0 = from.src0;
    this.dst1 = from.src1;
    this.dst2 = from.src2;
    this.dst3 = from.src3;
  }

  /** Sets the fields for a packet of our own: no fragment, don't fragment, TTL 64, traffic class 0. */
  setDefaults(protocol: number, payloadLength: number): void {
    this.headerLength = this.version === 4 ? IPV4_HEADER_BYTES : IPV6_HEADER_BYTES;
    this.trafficClass = 0;
    this.flowLabel = 0;
    this.payloadLength = payloadLength;
    this.id = 0;
    this.dontFragment = true;
    this.moreFragments = false;
    this.fragmentOffset = 0;
    this.ttl = 64;
    this.protocol = protocol;
    this.protocolAt = this.version === 4 ? 9 : 6;
  }

  /**
   * Sum of the pseudo-header for the transport checksum (RFC 9293 section 3.1, RFC 8200 section 8.1).
   *
   * @param protocol transport protocol number
   * @param length length of transport header and data in bytes
   */
  pseudoHeaderSum(protocol: number, length: number): number {
    const low = sum32(this.src3) + sum32(this.dst3) + protocol + length;
    if (this.version === 4) return low;
    return low + sum32(this.src0) + sum32(this.src1) + sum32(this.src2) + sum32(this.dst0) + sum32(this.dst1) +
      sum32(this.dst2);
  }
}

/** Bytes that an IP header of `version` without options takes. */
export function ipHeaderBytes(version: number): number {
  return version === 4 ? IPV4_HEADER_BYTES : IPV6_HEADER_BYTES;
}

/** Reads a header of either version, by the version nibble of the first byte. */
export function parseIp(view: DataView, start: number, end: number, out: IpHeader): DropReason {
  if (end <= start) return DropReason.Truncated;
  const version = view.getUint8(start) >>> 4;
  if (version === 4) return parseIpv4(view, start, end, out);
  if (version === 6) return parseIpv6(view, start, end, out);
  return DropReason.BadVersion;
}

/** Writes the header in `h`, without options, at `at`. */
export function emitIp(view: DataView, at: number, h: IpHeader): void {
  if (h.version === 4) emitIpv4(view, at, h);
  else emitIpv6(view, at, h);
}

/** The traffic class of the IP header at `at`, read without a check of anything else; 0 if it is of neither version. */
export function trafficClassAt(view: DataView, at: number): number {
  const first = view.getUint16(at);
  const version = first >>> 12;
  if (version === 4) return first & 0xff;
  return version === 6 ? (first >>> 4) & 0xff : 0;
}

/**
 * Sets CE in the IP header at `start` if the sender is ECN-capable (RFC 3168 section 5).
 *
 * @returns true if it is, and the packet is marked now
 */
export function markCe(view: DataView, start: number, end: number): boolean {
  const version = end > start ? view.getUint8(start) >>> 4 : 0;
  if (version !== 4 && version !== 6) return false;
  if (end - start < ipHeaderBytes(version) || (trafficClassAt(view, start) & 3) === Ecn.NotEct) return false;
  if (version === 4) setIpv4Ecn(view, start, Ecn.Ce);
  else setIpv6Ecn(view, start, Ecn.Ce);
  return true;
}
