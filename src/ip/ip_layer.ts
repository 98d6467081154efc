/**
 * The IP layer of both versions: input, output and forwarding.
 *
 * ```text
 *   input ─ valid? ─ ours? ── yes ─ fragment? ─→ upper (transports)
 *                      └───── no ── forwarding? TTL? route? size? ─→ lower (queueing discipline)
 *   output ─ ours? ── no ── route? size? ─→ lower
 *              └───── yes ─→ lower, by the loopback interface, from where it comes in again
 * ```
 *
 * What always holds: a packet is given on or freed, with its reason; nothing from the network throws; a packet from a
 * wire has a source that is one host and not this one. The order when forwarding is TTL, route, size (RFC 1812 section
 * 5.2.1): a packet whose TTL runs out here is answered even if there is no route for it. A packet that came in is not
 * copied; its TTL and checksum are changed in place.
 *
 * Left out: reassembly and fragmentation (fragments for us are dropped; fragments for others pass like any packet),
 * multicast, IPv6 extension headers of packets for us, redirects.
 *
 * @module
 */

import { DropReason, type DropSink } from "../base/drop.ts";
import type { Packet, PacketPool } from "../base/packet.ts";
import type { Instant } from "../base/time.ts";
import { Icmpv4Type, Icmpv6Type } from "../wire/icmp.ts";
import type { IpAddr, IpInterface } from "../wire/ip_addr.ts";
import { emitIp, IpHeader, ipHeaderBytes, parseIp } from "../wire/ip_header.ts";
import { decrementIpv4Ttl } from "../wire/ipv4.ts";
import { decrementIpv6HopLimit } from "../wire/ipv6.ts";
import { AddressKind, addressKind, isWireKind } from "./address_kind.ts";
import { AddressTable } from "./address_select.ts";
import { packetFlow } from "./flow.ts";
import { CODE_FRAGMENTATION_NEEDED, IcmpErrors } from "./icmp_errors.ts";
import { type IpLower, type IpUpper, LOOPBACK_IFINDEX, type NetInterface } from "./network.ts";
import { RouteTable } from "./route_table.ts";

/** The MTU of the way from a host to itself. */
export const LOOPBACK_MTU = 1500;

const IPV6_FRAGMENT = 44;

/** What an {@linkcode IpLayer} is made of. */
export interface IpLayerOptions {
  /** Where packets for ICMP errors come from. */
  readonly pool: PacketPool;
  /** Where dropped packets go. */
  readonly sink: DropSink;
  /** The transports. */
  readonly upper: IpUpper;
  /** The queue that packets leave by. */
  readonly lower: IpLower;
  /** Seed of the hashes over addresses. */
  readonly hashSeed: number;
  /** True to forward packets that are for others. */
  readonly forward: boolean;
}

/** The IP layer of one host. */
export class IpLayer {
  /** The routes; a host's own addresses are not among them. */
  readonly routes: RouteTable = new RouteTable();
  /** Packets forwarded. */
  forwarded = 0;
  /** True to forward packets that are for others. */
  forward: boolean;
  readonly #sink: DropSink;
  readonly #upper: IpUpper;
  readonly #lower: IpLower;
  readonly #hashSeed: number;
  readonly #addresses: AddressTable;
  readonly #errors: IcmpErrors;
  readonly #interfaces: NetInterface[] = [];
  readonly #mtus: number[] = [LOOPBACK_MTU];
  readonly #in = new IpHeader();

  /** Makes a layer without addresses, interfaces or routes. */
  constructor(options: IpLayerOptions) {
    this.#sink = options.sink;
    this.#upper = options.upper;
    this.#lower = options.lower;
    this.#hashSeed = options.hashSeed;
    this.forward = options.forward;
    this.#addresses = new AddressTable(options.hashSeed);
    this.#errors = new IcmpErrors(
      options.pool,
      options.sink,
      this.#addresses,
      this.routes,
      this,
      options.hashSeed,
    );
  }

  /** The host's own addresses, in the order in which they were added. */
  get addresses(): readonly IpInterface[] {
    return this.#addresses.list;
  }

  /** The interfaces, in the order in which they were added. */
  get interfaces(): readonly NetInterface[] {
    return this.#interfaces;
  }

  /** ICMP errors sent, and not sent because of their rate limit. */
  get errors(): { readonly sent: number; readonly limited: number } {
    return this.#errors;
  }

  /**
   * Adds an own address.
   *
   * @throws {RangeError} if it is there already or no host can have it
   */
  addAddress(own: IpInterface): void {
    this.#addresses.add(own);
  }

  /**
   * Adds an interface; packets leave by it once a route names it.
   *
   * @throws {RangeError} if the index is taken, or no integer above 0
   */
  addInterface(link: NetInterface): void {
    if (!Number.isInteger(link.ifindex) || link.ifindex <= LOOPBACK_IFINDEX) {
      throw new RangeError(`ifindex must be an integer above ${LOOPBACK_IFINDEX}, got ${link.ifindex}`);
    }
    if (this.#mtuOf(link.ifindex) > 0) {
      throw new RangeError(`interface ${link.ifindex} is there already`);
    }
    while (this.#mtus.length <= link.ifindex) this.#mtus.push(0);
    this.#mtus[link.ifindex] = link.mtu;
    this.#interfaces.push(link);
  }

  /** Takes a packet that came in by interface `p.ifindex`, its IP header at `p.start`. */
  input(p: Packet, now: Instant): void {
    const ip = this.#in;
    const reason = parseIp(p.view, p.start, p.end, ip);
    if (reason !== DropReason.None) return this.#sink.drop(p, reason, now);
    p.l4 = p.start + ip.headerLength;
    p.end = p.l4 + ip.payloadLength;
    if (p.ifindex !== LOOPBACK_IFINDEX && this.#isMartian(ip)) return this.#sink.drop(p, DropReason.Martian, now);
    if (!this.#addresses.isLocal(ip.dst0, ip.dst1, ip.dst2, ip.dst3)) return this.#forward(p, ip, now);
    if (ip.moreFragments || ip.fragmentOffset !== 0 || (ip.version === 6 && ip.protocol === IPV6_FRAGMENT)) {
      return this.#sink.drop(p, DropReason.Fragment, now);
    }
    this.#upper.input(p, ip, now);
  }

  /**
   * Sends a packet of this host: prepends the IP header, routes it and gives it to the queue below.
   *
   * @param p starts at its transport header (`p.start = p.l4`), with room in front; `p.flow` 0 means "by hash"
   * @param ip addresses, protocol, TTL and traffic class; call `setDefaults` on it before. Payload length and the
   * fields about fragments are filled in here: no packet of ours is a fragment, and none may be made into one
   * @returns `None` if the packet was taken, else why not, and the caller keeps it as it was
   */
  output(p: Packet, ip: IpHeader, now: Instant): DropReason {
    let ifindex = LOOPBACK_IFINDEX;
    if (!this.#addresses.isLocal(ip.dst0, ip.dst1, ip.dst2, ip.dst3)) {
      if (
        !isWireKind(addressKind(ip.version, ip.dst0, ip.dst1, ip.dst2, ip.dst3)) ||
        this.#addresses.isBroadcast(ip.dst0, ip.dst1, ip.dst2, ip.dst3)
      ) return DropReason.Martian;
      const route = this.routes.lookup(ip.dst0, ip.dst1, ip.dst2, ip.dst3);
      if (route === null) return DropReason.NoRoute;
      ifindex = route.ifindex;
    }
    const headerLength = ipHeaderBytes(ip.version);
    const payloadLength = p.length;
    if (headerLength + payloadLength > this.#mtuOf(ifindex)) return DropReason.TooBig;
    ip.headerLength = headerLength;
    ip.payloadLength = payloadLength;
    ip.id = 0;
    ip.dontFragment = true;
    ip.moreFragments = false;
    ip.fragmentOffset = 0;
    p.l4 = p.start;
    p.start -= headerLength;
    emitIp(p.view, p.start, ip);
    p.ifindex = ifindex;
    if (p.flow === 0) p.flow = packetFlow(this.#hashSeed, p, ip);
    this.#lower.send(p, now);
    return DropReason.None;
  }

  /** True if the address of these four words is our own. */
  isLocal(w0: number, w1: number, w2: number, w3: number): boolean {
    return this.#addresses.isLocal(w0, w1, w2, w3);
  }

  /** The own address to send from to `destination`, or `null` if the host has none of its family. */
  sourceFor(destination: IpAddr): IpAddr | null {
    return this.#addresses.sourceFor(destination.w0, destination.w1, destination.w2, destination.w3, this.routes);
  }

  /** The largest IP packet in bytes that leaves for `destination`, or 0 if no route leads there. */
  mtuTo(destination: IpAddr): number {
    const { w0, w1, w2, w3 } = destination;
    if (this.#addresses.isLocal(w0, w1, w2, w3)) return LOOPBACK_MTU;
    const route = this.routes.lookup(w0, w1, w2, w3);
    return route === null ? 0 : this.#mtuOf(route.ifindex);
  }

  /**
   * Answers a packet that came in with an ICMP error (ICMPv6 for IPv6) to its source, if the rules and the rate limit
   * allow it. The packet stays with the caller.
   *
   * @param type message type, of the family of `p`
   * @param code message code
   * @param word the 32-bit word behind the checksum: MTU or pointer, else 0
   * @returns true if an error was queued
   */
  sendError(p: Packet, ip: IpHeader, type: number, code: number, word: number, now: Instant): boolean {
    return this.#errors.send(p, ip, type, code, word, now);
  }

  #mtuOf(ifindex: number): number {
    return this.#mtus[ifindex] ?? 0;
  }

  #isMartian(ip: IpHeader): boolean {
    return !isWireKind(addressKind(ip.version, ip.src0, ip.src1, ip.src2, ip.src3)) ||
      !isWireKind(addressKind(ip.version, ip.dst0, ip.dst1, ip.dst2, ip.dst3)) ||
      this.#addresses.isLocal(ip.src0, ip.src1, ip.src2, ip.src3) ||
      this.#addresses.isBroadcast(ip.src0, ip.src1, ip.src2, ip.src3) ||
      this.#addresses.isBroadcast(ip.dst0, ip.dst1, ip.dst2, ip.dst3);
  }

  #forward(p: Packet, ip: IpHeader, now: Instant): void {
    if (!this.forward) return this.#sink.drop(p, DropReason.NotForwarding, now);
    // RFC 3927 section 2.7, RFC 4291 section 2.5.6.
    if (
      addressKind(ip.version, ip.src0, ip.src1, ip.src2, ip.src3) === AddressKind.LinkLocal ||
      addressKind(ip.version, ip.dst0, ip.dst1, ip.dst2, ip.dst3) === AddressKind.LinkLocal
    ) return this.#sink.drop(p, DropReason.Martian, now);
    if (ip.ttl <= 1) {
      this.#errors.send(p, ip, ip.version === 4 ? Icmpv4Type.TimeExceeded : Icmpv6Type.TimeExceeded, 0, 0, now);
      return this.#sink.drop(p, DropReason.TtlExceeded, now);
    }
    const route = this.routes.lookup(ip.dst0, ip.dst1, ip.dst2, ip.dst3);
    if (route === null) {
      this.#errors.send(p, ip, ip.version === 4 ? Icmpv4Type.Unreachable : Icmpv6Type.Unreachable, 0, 0, now);
      return this.#sink.drop(p, DropReason.NoRoute, now);
    }
    const mtu = this.#mtuOf(route.ifindex);
    if (p.length > mtu) {
      // Without DF too, as long as nothing here fragments.
      if (ip.version === 4) {
        this.#errors.send(p, ip, Icmpv4Type.Unreachable, CODE_FRAGMENTATION_NEEDED, mtu, now);
      } else {
        this.#errors.send(p, ip, Icmpv6Type.PacketTooBig, 0, mtu, now);
      }
      return this.#sink.drop(p, DropReason.TooBig, now);
    }
    if (ip.version === 4) decrementIpv4Ttl(p.view, p.start);
    else decrementIpv6HopLimit(p.view, p.start);
    p.ifindex = route.ifindex;
    p.flow = packetFlow(this.#hashSeed, p, ip);
    p.departAt = 0;
    this.forwarded++;
    this.#lower.send(p, now);
  }
}
