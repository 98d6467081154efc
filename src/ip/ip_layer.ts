/**
 * The IP layer of both versions: input, output and forwarding.
 *
 * ```text
 *   input ─ valid? ─ martian? way back? ─ ours? ── yes ─ fragments, extension headers ─→ upper (transports)
 *                                            └──── no ── forwarding? TTL? route? size? ─→ lower (queueing discipline)
 *   output ─ ours? ── no ── route? size? ─→ lower
 *              └───── yes ─→ lower, by the loopback interface, from where it comes in again
 * ```
 *
 * What always holds: a packet is given on or freed, with its reason; nothing from the network throws; a packet from a
 * wire has a source that is one host and not this one; no packet is given to an interface whose MTU it exceeds (a fault
 * of the program, which throws). The order when forwarding is TTL, route, size (RFC 1812 section 5.2.1): a packet whose TTL
 * runs out here is answered even if there is no route for it. A packet that came in is not copied; its TTL and checksum
 * are changed in place, and with `clampMss` the MSS option of a SYN.
 *
 * A packet that is too large is cut if it is IPv4 and may be, else answered with the MTU (RFC 1191, RFC 4443 section 3.2). Extension
 * headers of packets for others are not looked at (RFC 8200 section 4).
 *
 * Left out: multicast; redirects, since an interface is point to point and its other end no better known to the source;
 * record route, timestamp and router alert options, which pass as they are.
 *
 * @module
 */

import { DropReason, type DropSink } from "../base/drop.ts";
import { hashFinish } from "../base/hash.ts";
import { HEADROOM_BYTES, type Packet, type PacketPool } from "../base/packet.ts";
import { copyBytes } from "../base/ring_buffer.ts";
import type { Instant } from "../base/time.ts";
import { Icmpv4Type, Icmpv6Type } from "../wire/icmp.ts";
import type { IpAddr, IpInterface } from "../wire/ip_addr.ts";
import { emitIp, IpHeader, ipHeaderBytes, IpProtocol, parseIp } from "../wire/ip_header.ts";
import { decrementIpv4Ttl, IPV4_HEADER_BYTES, IPV4_MTU_MIN } from "../wire/ipv4.ts";
import { checkIpv4Options, OPTIONS_GOOD, OPTIONS_SOURCE_ROUTE } from "../wire/ipv4_options.ts";
import { decrementIpv6HopLimit } from "../wire/ipv6.ts";
import { TCP_HEADER_BYTES } from "../wire/tcp.ts";
import { AddressKind, addressKind, isWireKind } from "./address_kind.ts";
import { AddressTable } from "./address_select.ts";
import { packetFlow } from "./flow.ts";
import { Fragmenter } from "./fragment.ts";
import { CODE_FRAGMENTATION_NEEDED, IcmpErrors } from "./icmp_errors.ts";
import { LocalInput } from "./local_input.ts";
import { clampMss } from "./mss_clamp.ts";
import { type IpLower, type IpUpper, LOOPBACK_IFINDEX, type NetInterface } from "./network.ts";
import { PacketIds } from "./packet_id.ts";
import { PathMtus } from "./path_mtu.ts";
import { type ReversePathMode, wayBackExists } from "./reverse_path.ts";
import { type Route, RouteKind, RouteTable } from "./route_table.ts";

/** The MTU of the way from a host to itself. */
export const LOOPBACK_MTU = 1500;

/** Codes of ICMP's "destination unreachable". */
const V4_HOST_UNREACHABLE = 1;
const V4_SOURCE_ROUTE_FAILED = 5;
const V4_PROHIBITED = 13;
const V6_PROHIBITED = 1;

/** Makes the hash that chooses among routes another one than that of the queueing discipline. */
const ECMP_SALT = 0x2545f491;

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
  /** True to lower the MSS option of SYNs that are forwarded to what the links carry (default false). */
  readonly clampMss?: boolean;
}

/** The IP layer of one host. */
export class IpLayer {
  /** The routes; a host's own addresses are not among them. */
  readonly routes: RouteTable = new RouteTable();
  /** Packets forwarded. */
  forwarded = 0;
  /** True to forward packets that are for others. */
  forward: boolean;
  /** True to lower the MSS option of SYNs that are forwarded to what the links that they come and leave by carry. */
  clampMss: boolean;
  /** SYNs whose MSS option was lowered. */
  clamped = 0;
  readonly #pool: PacketPool;
  readonly #sink: DropSink;
  readonly #upper: IpUpper;
  readonly #lower: IpLower;
  readonly #hashSeed: number;
  readonly #addresses: AddressTable;
  readonly #errors: IcmpErrors;
  readonly #interfaces: NetInterface[] = [];
  readonly #mtus: number[] = [LOOPBACK_MTU];
  readonly #reversePath: (ReversePathMode | null)[] = [null];
  readonly #in = new IpHeader();
  readonly #local: LocalInput;
  readonly #fragmenter: Fragmenter;
  readonly #ids: PacketIds;
  readonly #pathMtus: PathMtus;

  /** Makes a layer without addresses, interfaces or routes. */
  constructor(options: IpLayerOptions) {
    this.#sink = options.sink;
    this.#upper = options.upper;
    this.#lower = options.lower;
    this.#hashSeed = options.hashSeed;
    this.forward = options.forward;
    this.clampMss = options.clampMss ?? false;
    this.#pool = options.pool;
    this.#addresses = new AddressTable(options.hashSeed);
    this.#errors = new IcmpErrors(
      options.pool,
      options.sink,
      this.#addresses,
      this.routes,
      this,
      options.hashSeed,
    );
    this.#local = new LocalInput(options.pool, options.sink, options.upper, this.#errors, options.hashSeed);
    this.#fragmenter = new Fragmenter(options.pool, options.lower);
    this.#ids = new PacketIds(hashFinish(options.hashSeed ^ 0x1d));
    this.#pathMtus = new PathMtus(options.hashSeed);
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

  /** Packets cut into fragments, and the fragments made of them. */
  get fragmented(): { readonly packets: number; readonly fragments: number } {
    return this.#fragmenter;
  }

  /** Datagrams put together of fragments, those not completed in time, those incomplete now, and fragments that came twice. */
  get reassembly(): {
    readonly completed: number;
    readonly timedOut: number;
    readonly size: number;
    readonly duplicates: number;
  } {
    return this.#local.reassembly;
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
    if (this.mtuOf(link.ifindex) > 0) {
      throw new RangeError(`interface ${link.ifindex} is there already`);
    }
    while (this.#mtus.length <= link.ifindex) {
      this.#mtus.push(0);
      this.#reversePath.push(null);
    }
    this.#mtus[link.ifindex] = link.mtu;
    this.#reversePath[link.ifindex] = link.reversePath ?? null;
    this.#interfaces.push(link);
  }

  /**
   * Changes the MTU of an interface: what the underlay carries less the tunnel's headers. Packets that are queued keep
   * their size.
   *
   * @throws {RangeError} if there is no such interface, or the MTU is no integer of at least 68
   */
  setMtu(ifindex: number, mtu: number): void {
    if (ifindex === LOOPBACK_IFINDEX || this.mtuOf(ifindex) === 0) throw new RangeError(`no interface ${ifindex}`);
    if (!Number.isInteger(mtu) || mtu < IPV4_MTU_MIN) {
      throw new RangeError(`the MTU must be an integer of at least ${IPV4_MTU_MIN}, got ${mtu}`);
    }
    this.#mtus[ifindex] = mtu;
  }

  /** Takes a packet that came in by interface `p.ifindex`, its IP header at `p.start`. */
  input(p: Packet, now: Instant): void {
    const ip = this.#in;
    const reason = parseIp(p.view, p.start, p.end, ip);
    if (reason !== DropReason.None) return this.#sink.drop(p, reason, now);
    p.l4 = p.start + ip.headerLength;
    p.end = p.l4 + ip.payloadLength;
    if (p.ifindex !== LOOPBACK_IFINDEX) {
      if (this.#isMartian(ip)) return this.#sink.drop(p, DropReason.Martian, now);
      const mode = this.#reversePath[p.ifindex] ?? null;
      if (mode !== null && !wayBackExists(this.routes, ip, p.ifindex, mode)) {
        return this.#sink.drop(p, DropReason.ReversePath, now);
      }
    }
    const isForUs = this.#addresses.isLocal(ip.dst0, ip.dst1, ip.dst2, ip.dst3);
    if (!isForUs && !this.forward) return this.#sink.drop(p, DropReason.NotForwarding, now);
    if (ip.version === 4 && ip.headerLength > IPV4_HEADER_BYTES && !this.#optionsPass(p, ip, now)) return;
    if (isForUs) this.#local.input(p, ip, now);
    else this.#forward(p, ip, now);
  }

  /** Gives up datagrams whose fragments did not all come. */
  timeout(now: Instant): void {
    this.#local.reassembly.timeout(now);
  }

  /** When {@linkcode IpLayer.timeout} has something to do. */
  nextAt(): Instant {
    return this.#local.reassembly.nextAt();
  }

  /** Drops the fragments that are held. */
  close(now: Instant): void {
    this.#local.reassembly.close(now);
  }

  /**
   * Sends a packet of this host: prepends the IP header, routes it and gives it to the queue below.
   *
   * @param p starts at its transport header (`p.start = p.l4`), with room in front; `p.flow` 0 means "by hash"
   * @param ip addresses, protocol, TTL, traffic class and whether it may be fragmented; call `setDefaults` on it before,
   * which says that it may not. All else about lengths and fragments is filled in here
   * @returns `None` if the packet was taken, else why not, and the caller keeps it as it was
   */
  output(p: Packet, ip: IpHeader, now: Instant): DropReason {
    const headerLength = ipHeaderBytes(ip.version);
    let ifindex = LOOPBACK_IFINDEX;
    let mtu = LOOPBACK_MTU;
    if (!this.#addresses.isLocal(ip.dst0, ip.dst1, ip.dst2, ip.dst3)) {
      if (
        !isWireKind(addressKind(ip.version, ip.src0, ip.src1, ip.src2, ip.src3)) ||
        !isWireKind(addressKind(ip.version, ip.dst0, ip.dst1, ip.dst2, ip.dst3)) ||
        this.#addresses.isBroadcast(ip.dst0, ip.dst1, ip.dst2, ip.dst3)
      ) return DropReason.Martian;
      let route = this.routes.lookup(ip.dst0, ip.dst1, ip.dst2, ip.dst3);
      if (route === null) return DropReason.NoRoute;
      if (route.kind !== RouteKind.Unicast) return dropReasonOf(route.kind);
      if (route.group !== null) {
        p.l4 = p.start;
        ip.moreFragments = false;
        ip.fragmentOffset = 0;
        route = this.#spread(route, p.flow === 0 ? packetFlow(this.#hashSeed, p, ip) : p.flow);
      }
      ifindex = route.ifindex;
      mtu = this.mtuOf(ifindex);
    }
    const payloadLength = p.length;
    const isTooBig = headerLength + payloadLength > mtu;
    if (isTooBig && ip.dontFragment) return DropReason.TooBig;
    ip.headerLength = headerLength;
    ip.payloadLength = payloadLength;
    ip.moreFragments = false;
    ip.fragmentOffset = 0;
    ip.id = 0;
    const id = ip.dontFragment ? 0 : this.#ids.next(ip);
    if (ip.version === 4) ip.id = id & 0xffff;
    const pathMtu = ip.dontFragment ? mtu : this.#pathMtus.get(ip.dst0, ip.dst1, ip.dst2, ip.dst3, mtu, now);
    p.l4 = p.start;
    p.start -= headerLength;
    emitIp(p.view, p.start, ip);
    p.ifindex = ifindex;
    if (p.flow === 0) p.flow = packetFlow(this.#hashSeed, p, ip);
    if (p.length > pathMtu) return this.#outputFragments(p, ip, id, pathMtu, now);
    if (p.bytes.length > this.#pool.slotBytes) return this.#outputLarge(p, mtu, now);
    this.#transmit(p, mtu, now);
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
  mtuTo({ w0, w1, w2, w3 }: IpAddr): number {
    return this.#linkMtu(w0, w1, w2, w3);
  }

  #linkMtu(w0: number, w1: number, w2: number, w3: number): number {
    if (this.#addresses.isLocal(w0, w1, w2, w3)) return LOOPBACK_MTU;
    const route = this.routes.lookup(w0, w1, w2, w3);
    if (route === null || route.kind !== RouteKind.Unicast) return 0;
    if (route.group === null) return this.mtuOf(route.ifindex);
    return route.group.reduce((least, { ifindex }) => Math.min(least, this.mtuOf(ifindex)), Infinity);
  }

  /**
   * The largest IP packet in bytes that is known to get to `destination`: that of the link, or what an ICMP error said of
   * the way behind it; 0 if no route leads there.
   */
  pathMtuTo(destination: IpAddr, now: Instant): number {
    return this.pathMtuToWords(destination.w0, destination.w1, destination.w2, destination.w3, now);
  }

  /** What {@linkcode IpLayer.pathMtuTo} says of the address of these words. */
  pathMtuToWords(w0: number, w1: number, w2: number, w3: number, now: Instant): number {
    const link = this.#linkMtu(w0, w1, w2, w3);
    return link === 0 ? 0 : this.#pathMtus.get(w0, w1, w2, w3, link, now);
  }

  /**
   * Learns that packets of more than `mtu` bytes do not get to the address of these words, since one of `bytes` did not. The
   * caller has checked that who says so saw a packet of ours.
   *
   * @param mtu what an error says, 0 if it does not say, or what a transport has found out itself (RFC 8899)
   * @param bytes size of the packet: what it was smaller than is not believed
   * @returns true if it is believed, and news
   */
  learnPathMtu(w0: number, w1: number, w2: number, w3: number, mtu: number, bytes: number, now: Instant): boolean {
    if (this.#addresses.isLocal(w0, w1, w2, w3)) return false;
    return this.#pathMtus.learn(w0, w1, w2, w3, mtu, Math.min(bytes, this.#linkMtu(w0, w1, w2, w3)), now);
  }

  /** The MTU of an interface in bytes, or 0 if there is none of this index. */
  mtuOf(ifindex: number): number {
    return this.#mtus[ifindex] ?? 0;
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

  #isMartian(ip: IpHeader): boolean {
    return !isWireKind(addressKind(ip.version, ip.src0, ip.src1, ip.src2, ip.src3)) ||
      !isWireKind(addressKind(ip.version, ip.dst0, ip.dst1, ip.dst2, ip.dst3)) ||
      this.#addresses.isLocal(ip.src0, ip.src1, ip.src2, ip.src3) ||
      this.#addresses.isBroadcast(ip.src0, ip.src1, ip.src2, ip.src3) ||
      this.#addresses.isBroadcast(ip.dst0, ip.dst1, ip.dst2, ip.dst3);
  }

  #forward(p: Packet, ip: IpHeader, now: Instant): void {
    // RFC 3927 section 2.7, RFC 4291 section 2.5.6.
    if (
      addressKind(ip.version, ip.src0, ip.src1, ip.src2, ip.src3) === AddressKind.LinkLocal ||
      addressKind(ip.version, ip.dst0, ip.dst1, ip.dst2, ip.dst3) === AddressKind.LinkLocal
    ) return this.#sink.drop(p, DropReason.Martian, now);
    if (ip.ttl <= 1) {
      this.#errors.send(p, ip, ip.version === 4 ? Icmpv4Type.TimeExceeded : Icmpv6Type.TimeExceeded, 0, 0, now);
      return this.#sink.drop(p, DropReason.TtlExceeded, now);
    }
    let route = this.routes.lookup(ip.dst0, ip.dst1, ip.dst2, ip.dst3);
    if (route === null) {
      this.#errors.send(p, ip, ip.version === 4 ? Icmpv4Type.Unreachable : Icmpv6Type.Unreachable, 0, 0, now);
      return this.#sink.drop(p, DropReason.NoRoute, now);
    }
    if (route.kind !== RouteKind.Unicast) return this.#refuse(p, ip, route.kind, now);
    const flow = packetFlow(this.#hashSeed, p, ip);
    if (route.group !== null) route = this.#spread(route, flow);
    const cameBy = p.ifindex;
    const mtu = this.mtuOf(route.ifindex);
    const isTooBig = p.length > mtu;
    if (isTooBig && (ip.version === 6 || ip.dontFragment)) {
      if (ip.version === 4) this.#errors.send(p, ip, Icmpv4Type.Unreachable, CODE_FRAGMENTATION_NEEDED, mtu, now);
      else this.#errors.send(p, ip, Icmpv6Type.PacketTooBig, 0, mtu, now);
      return this.#sink.drop(p, DropReason.TooBig, now);
    }
    if (ip.version === 4) decrementIpv4Ttl(p.view, p.start);
    else decrementIpv6HopLimit(p.view, p.start);
    p.ifindex = route.ifindex;
    p.flow = flow;
    p.departAt = 0;
    if (isTooBig) {
      const reason = this.#fragmenter.sendIpv4(p, ip, mtu, now);
      if (reason !== DropReason.None) return this.#sink.drop(p, reason, now);
      this.forwarded++;
      return this.#pool.release(p);
    }
    if (this.clampMss && ip.protocol === IpProtocol.Tcp && ip.fragmentOffset === 0 && !ip.moreFragments) {
      const least = Math.min(mtu, this.mtuOf(cameBy));
      if (clampMss(p.view, p.l4, p.end, least - ipHeaderBytes(ip.version) - TCP_HEADER_BYTES)) this.clamped++;
    }
    this.forwarded++;
    this.#transmit(p, mtu, now);
  }

  /** Drops a packet that the routes refuse to forward, and answers it if the route says so. */
  #refuse(p: Packet, ip: IpHeader, kind: RouteKind, now: Instant): void {
    const type = ip.version === 4 ? Icmpv4Type.Unreachable : Icmpv6Type.Unreachable;
    if (kind === RouteKind.Unreachable) {
      this.#errors.send(p, ip, type, ip.version === 4 ? V4_HOST_UNREACHABLE : 0, 0, now);
    } else if (kind === RouteKind.Prohibit) {
      this.#errors.send(p, ip, type, ip.version === 4 ? V4_PROHIBITED : V6_PROHIBITED, 0, now);
    }
    this.#sink.drop(p, dropReasonOf(kind), now);
  }

  /** Looks at the options of an IPv4 header; false if the packet was dropped for them. */
  #optionsPass(p: Packet, ip: IpHeader, now: Instant): boolean {
    const result = checkIpv4Options(p.view, p.start + IPV4_HEADER_BYTES, p.l4);
    if (result === OPTIONS_GOOD) return true;
    if (result === OPTIONS_SOURCE_ROUTE) {
      this.#errors.send(p, ip, Icmpv4Type.Unreachable, V4_SOURCE_ROUTE_FAILED, 0, now);
      this.#sink.drop(p, DropReason.SourceRoute, now);
    } else {
      this.#errors.send(p, ip, Icmpv4Type.ParameterProblem, 0, result << 24, now);
      this.#sink.drop(p, DropReason.BadIpOption, now);
    }
    return false;
  }

  /** Which of the routes that share the traffic a flow goes by. */
  #spread(route: Route, flow: number): Route {
    return this.routes.select(route, hashFinish(flow ^ this.#hashSeed ^ ECMP_SALT));
  }

  /** Sends a packet of this host, with its header, in fragments; on a reason it is again as it was before. */
  #outputFragments(p: Packet, ip: IpHeader, id: number, mtu: number, now: Instant): DropReason {
    const reason = ip.version === 4
      ? this.#fragmenter.sendIpv4(p, ip, mtu, now)
      : this.#fragmenter.sendIpv6(p, ip, id, mtu, now);
    if (reason === DropReason.None) this.#pool.release(p);
    else p.start = p.l4;
    return reason;
  }

  /** Sends a packet that is small enough for a link but stands in a large slot, for which the link may have no room. */
  #outputLarge(large: Packet, mtu: number, now: Instant): DropReason {
    const p = this.#pool.acquire(HEADROOM_BYTES);
    if (p === null) {
      large.start = large.l4;
      return DropReason.PoolExhausted;
    }
    copyBytes(large.bytes, large.start, p.bytes, p.start, large.length);
    p.end = p.start + large.length;
    p.l4 = p.start + (large.l4 - large.start);
    p.ifindex = large.ifindex;
    p.flow = large.flow;
    p.departAt = large.departAt;
    this.#pool.release(large);
    this.#transmit(p, mtu, now);
    return DropReason.None;
  }

  /** Gives a packet to the queue below. */
  #transmit(p: Packet, mtu: number, now: Instant): void {
    if (p.length > mtu) {
      throw new Error(`a packet of ${p.length} bytes for interface ${p.ifindex} with an MTU of ${mtu}`);
    }
    this.#lower.send(p, now);
  }
}

function dropReasonOf(kind: RouteKind): DropReason {
  if (kind === RouteKind.Blackhole) return DropReason.Blackhole;
  return kind === RouteKind.Prohibit ? DropReason.Prohibited : DropReason.Unreachable;
}
