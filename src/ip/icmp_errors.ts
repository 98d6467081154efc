/**
 * ICMP and ICMPv6 errors: whether a packet may be answered by one, and the error itself.
 *
 * Never answered are an ICMP error or an ICMP message of unknown type, a redirect, a fragment other than the first, a
 * packet to a multicast or broadcast address, and a packet whose source is no single host (RFC 1122 section 3.2.2, RFC 1812
 * section 4.3.2.7, RFC 4443 section 2.4 e). An IPv6 packet is searched for an ICMPv6 error behind its extension headers too;
 * one whose chain of headers cannot be walked is not answered. IPv6 makes exceptions: that headers are wrong or missing is
 * told even if the packet cannot be searched to its end (RFC 8200 section 4.5, RFC 7112), and a later fragment, unless it is
 * one of ICMPv6, is answered if that is wrong with it or it is too big, as a router must (RFC 4443 section 3.2). No packet
 * to a group gets as far as this: none is spoken.
 *
 * An error quotes as much of the packet as fits in 576 bytes of IPv4 or 1,280 of IPv6, and in what the way back carries; over
 * IPv4 it may be cut, since it is never answered itself. It comes from the address that
 * the packet was sent to, if that is ours, else from the one that source selection gives for its receiver. Sending is
 * bounded by {@linkcode IcmpRateLimit}; only errors that really leave are charged.
 *
 * @module
 */

import { DropReason, type DropSink } from "../base/drop.ts";
import { HEADROOM_BYTES, type Packet, type PacketPool } from "../base/packet.ts";
import type { Instant } from "../base/time.ts";
import { emitIcmp, ICMP_HEADER_BYTES, IcmpHeader, Icmpv4Type, Icmpv6Type, isIcmpError } from "../wire/icmp.ts";
import { IpHeader, ipHeaderBytes, IpProtocol } from "../wire/ip_header.ts";
import { IPV6_MTU_MIN } from "../wire/ipv6.ts";
import { Ipv6Chain, walkIpv6Extensions } from "../wire/ipv6_extension.ts";
import { AddressKind, addressKind, isWireKind } from "./address_kind.ts";
import type { AddressTable } from "./address_select.ts";
import { IcmpRateLimit } from "./rate_limit.ts";
import type { RouteTable } from "./route_table.ts";

/** "Fragmentation needed": a code of ICMP type 3. */
export const CODE_FRAGMENTATION_NEEDED = 4;

/** "Erroneous header field encountered": a code of ICMPv6 type 4. */
export const CODE_FIELD = 0;

/** "IPv6 first fragment has incomplete header chain": a code of ICMPv6 type 4 (RFC 7112). */
export const CODE_INCOMPLETE_CHAIN = 3;

/** Longest IPv4 error, IP header included (RFC 1812 section 4.3.2.3). */
export const ICMPV4_ERROR_BYTES_MAX = 576;

/** Longest IPv6 error, IP header included: the least MTU of IPv6 (RFC 4443 section 2.4 c). */
export const ICMPV6_ERROR_BYTES_MAX: number = IPV6_MTU_MIN;

/** Internetwork control: the precedence of ICMP errors over IPv4 (RFC 1812 section 4.3.2.5). */
const TOS_INTERNETWORK_CONTROL = 0xc0;

/** "Redirect" of ICMPv6: not an error by its number, but never answered either (RFC 4443 section 2.4 e.2). */
const ICMPV6_REDIRECT = 137;

const chain = new Ipv6Chain();

/** How errors get on their way: the IP layer's output. */
export interface ErrorOutput {
  /** Routes and queues `p`; on a reason the caller keeps it. */
  output(p: Packet, ip: IpHeader, now: Instant): DropReason;
  /** The largest packet that is known to get to the address of these words, in bytes; 0 without a route. */
  pathMtuToWords(w0: number, w1: number, w2: number, w3: number, now: Instant): number;
}

/** Makes ICMP errors within their limits. */
export class IcmpErrors {
  /** Errors sent. */
  sent = 0;
  /** Errors not sent because of the rate limit. */
  limited = 0;
  readonly #pool: PacketPool;
  readonly #sink: DropSink;
  readonly #addresses: AddressTable;
  readonly #routes: RouteTable;
  readonly #below: ErrorOutput;
  readonly #limit: IcmpRateLimit;
  readonly #ip = new IpHeader();
  readonly #icmp = new IcmpHeader();

  /** Joins the parts of an IP layer. */
  constructor(
    pool: PacketPool,
    sink: DropSink,
    addresses: AddressTable,
    routes: RouteTable,
    below: ErrorOutput,
    seed: number,
  ) {
    this.#pool = pool;
    this.#sink = sink;
    this.#addresses = addresses;
    this.#routes = routes;
    this.#below = below;
    this.#limit = new IcmpRateLimit(seed);
  }

  /**
   * Answers `p`, whose header is `ip`, with an error if that is allowed. `p` stays with the caller.
   *
   * @param type message type, of the family of `p`
   * @param code message code
   * @param word the 32-bit word behind the checksum: MTU or pointer, else 0
   * @returns true if an error was queued
   */
  send(p: Packet, ip: IpHeader, type: number, code: number, word: number, now: Instant): boolean {
    if (!this.#mayAnswer(p, ip, type, code)) return false;
    const out = this.#ip;
    if (!this.#address(out, ip)) return false;
    const room = this.#below.pathMtuToWords(out.dst0, out.dst1, out.dst2, out.dst3, now);
    if (room === 0) return false;
    const reply = this.#pool.acquire(HEADROOM_BYTES);
    if (reply === null) return false;
    if (!this.#mayAfford(ip, type, code, now)) {
      this.#pool.release(reply);
      this.limited++;
      return false;
    }
    const most = ip.version === 4 ? ICMPV4_ERROR_BYTES_MAX : ICMPV6_ERROR_BYTES_MAX;
    this.#quote(reply, p, Math.min(most, room), ip.version);
    const h = this.#icmp;
    h.type = type;
    h.code = code;
    h.id = word >>> 16;
    h.seq = word & 0xffff;
    emitIcmp(reply.view, reply.start, reply.end, out, h);
    out.setDefaults(ip.version === 4 ? IpProtocol.Icmp : IpProtocol.Icmpv6, reply.length);
    if (ip.version === 4) {
      out.trafficClass = TOS_INTERNETWORK_CONTROL;
      // Nobody would tell us that it is too large.
      out.dontFragment = false;
    }
    const reason = this.#below.output(reply, out, now);
    if (reason !== DropReason.None) {
      this.#sink.drop(reply, reason, now);
      return false;
    }
    this.sent++;
    return true;
  }

  /** True if the rules allow this error in answer to `p`. */
  #mayAnswer(p: Packet, ip: IpHeader, type: number, code: number): boolean {
    if (ip.fragmentOffset !== 0) return false;
    const source = addressKind(ip.version, ip.src0, ip.src1, ip.src2, ip.src3);
    const ownSource = source === AddressKind.Loopback && this.#addresses.isLocal(ip.src0, ip.src1, ip.src2, ip.src3);
    if (!isWireKind(source) && !ownSource) return false;
    if (this.#addresses.isBroadcast(ip.src0, ip.src1, ip.src2, ip.src3)) return false;
    const destination = addressKind(ip.version, ip.dst0, ip.dst1, ip.dst2, ip.dst3);
    if (destination === AddressKind.Multicast || destination === AddressKind.Reserved) return false;
    if (this.#addresses.isBroadcast(ip.dst0, ip.dst1, ip.dst2, ip.dst3)) return false;
    return ip.version === 4 ? mayAnswerIpv4(p, ip) : mayAnswerIpv6(p, ip, type, code);
  }

  /** Addresses an answer to the packet of `ip`; false if it has no source. */
  #address(out: IpHeader, ip: IpHeader): boolean {
    const { src0, src1, src2, src3 } = ip;
    out.setReply(ip);
    if (!this.#addresses.isLocal(out.src0, out.src1, out.src2, out.src3)) {
      const source = this.#addresses.sourceFor(src0, src1, src2, src3, this.#routes);
      if (source === null) return false;
      out.src0 = source.w0;
      out.src1 = source.w1;
      out.src2 = source.w2;
      out.src3 = source.w3;
    }
    return true;
  }

  /** Takes an error from the budget; errors from the host to itself are free. */
  #mayAfford(ip: IpHeader, type: number, code: number, now: Instant): boolean {
    if (this.#addresses.isLocal(ip.src0, ip.src1, ip.src2, ip.src3)) return true;
    const tooBig = ip.version === 4
      ? type === Icmpv4Type.Unreachable && code === CODE_FRAGMENTATION_NEEDED
      : type === Icmpv6Type.PacketTooBig;
    return tooBig || this.#limit.take(ip.src0, ip.src1, ip.src2, ip.src3, now);
  }

  /** Copies the head of `p` behind the room for an ICMP header, for an error of at most `most` bytes. */
  #quote(reply: Packet, p: Packet, most: number, version: number): void {
    const n = Math.min(p.length, most - ipHeaderBytes(version) - ICMP_HEADER_BYTES);
    const at = reply.start + ICMP_HEADER_BYTES;
    reply.bytes.set(p.bytes.subarray(p.start, p.start + n), at);
    reply.end = at + n;
    reply.l4 = reply.start;
  }
}

function mayAnswerIpv4(p: Packet, ip: IpHeader): boolean {
  if (ip.protocol !== IpProtocol.Icmp) return true;
  if (p.l4 >= p.end) return false;
  const type = p.view.getUint8(p.l4);
  // The queries of RFC 792 and RFC 950; an unknown type might be an error.
  return !isIcmpError(4, type) && (type === 0 || type === 8 || (type >= 13 && type <= 18));
}

function mayAnswerIpv6(p: Packet, ip: IpHeader, type: number, code: number): boolean {
  const isAboutHeaders = type === Icmpv6Type.ParameterProblem &&
    (code === CODE_INCOMPLETE_CHAIN || code === CODE_FIELD);
  if (!walkIpv6Extensions(p.view, p.l4, p.end, ip.protocol, chain)) return isAboutHeaders;
  if (chain.isLaterFragment) {
    return (isAboutHeaders || type === Icmpv6Type.PacketTooBig) && chain.protocol !== IpProtocol.Icmpv6;
  }
  if (chain.protocol !== IpProtocol.Icmpv6) return true;
  if (chain.at >= p.end) return false;
  const asked = p.view.getUint8(chain.at);
  return !isIcmpError(6, asked) && asked !== ICMPV6_REDIRECT;
}
