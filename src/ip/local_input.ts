/**
 * Packets for this host, between the IP header and the transports: fragments, and the extension headers of IPv6.
 *
 * Extension headers are worked off in the order in which they stand (RFC 8200 section 4), at most eight. Options that are not
 * known are passed over, or the packet is dropped and perhaps answered, as their types ask; no option has a meaning here. A
 * routing header with segments left is refused, of whichever type it is (RFC 5095 for type 0): this host is the end of
 * the way. A fragment header of an unfragmented packet is passed over, and the packet never meets fragments (RFC 6946).
 * The first fragment must have all headers, the transport's included (RFC 7112).
 *
 * @module
 */

import { DropReason, type DropSink } from "../base/drop.ts";
import type { Packet, PacketPool } from "../base/packet.ts";
import type { Instant } from "../base/time.ts";
import { Icmpv4Type, Icmpv6Type } from "../wire/icmp.ts";
import { IpHeader, IpProtocol, parseIp } from "../wire/ip_header.ts";
import { IPV6_HEADER_BYTES } from "../wire/ipv6.ts";
import {
  EXTENSION_HEADERS_MAX,
  findBadOption,
  FRAGMENT_HEADER_BYTES,
  FragmentHeader,
  Ipv6Chain,
  Ipv6Extension,
  ipv6ExtensionBytes,
  isIpv6Extension,
  OptionAction,
  optionAction,
  parseFragmentHeader,
  walkIpv6Extensions,
} from "../wire/ipv6_extension.ts";
import { TCP_HEADER_BYTES } from "../wire/tcp.ts";
import { CODE_FIELD, CODE_INCOMPLETE_CHAIN, type IcmpErrors } from "./icmp_errors.ts";
import type { IpUpper } from "./network.ts";
import { FragmentFacts, Reassembly, type ReassemblyUpper } from "./reassembly.ts";

const DATAGRAM_BYTES_MAX = 65_535;
/** The code of "time exceeded" for reassembly. */
const CODE_REASSEMBLY = 1;
/** Codes of ICMPv6's "parameter problem": a next header or an option is unknown. */
const CODE_NEXT_HEADER = 1;
const CODE_OPTION = 2;
/** Where the payload length stands in an IPv6 header. */
const PAYLOAD_LENGTH_AT = 4;
/** The least of UDP's and ICMPv6's headers. */
const TRANSPORT_HEADER_BYTES = 8;

/** The way of packets that are for this host. */
export class LocalInput implements ReassemblyUpper {
  /** Incomplete datagrams. */
  readonly reassembly: Reassembly;
  readonly #sink: DropSink;
  readonly #upper: IpUpper;
  readonly #errors: IcmpErrors;
  readonly #facts = new FragmentFacts();
  readonly #fragment = new FragmentHeader();
  readonly #chain = new Ipv6Chain();
  readonly #quoted = new IpHeader();

  /** Joins the parts. */
  constructor(pool: PacketPool, sink: DropSink, upper: IpUpper, errors: IcmpErrors, seed: number) {
    this.#sink = sink;
    this.#upper = upper;
    this.#errors = errors;
    this.reassembly = new Reassembly(pool, sink, this, seed);
  }

  /** Takes a packet for this host, whose header has been checked. */
  input(p: Packet, ip: IpHeader, now: Instant): void {
    if (ip.version === 6) {
      if (isIpv6Extension(ip.protocol) || ip.protocol === Ipv6Extension.NoNext) return this.#extensions(p, ip, now);
    } else if (ip.moreFragments || ip.fragmentOffset !== 0) {
      const whole = this.#ipv4Fragment(p, ip, now);
      if (whole !== null) this.#upper.input(whole, ip, now);
      return;
    }
    this.#upper.input(p, ip, now);
  }

  /** Answers a datagram that was not completed, if its first fragment came (RFC 1122 section 3.3.2, RFC 8200 section 4.5). */
  reassemblyTimedOut(first: Packet, now: Instant): void {
    const ip = this.#quoted;
    if (parseIp(first.view, first.start, first.end, ip) !== DropReason.None) return;
    first.l4 = first.start + ip.headerLength;
    const type = ip.version === 4 ? Icmpv4Type.TimeExceeded : Icmpv6Type.TimeExceeded;
    this.#errors.send(first, ip, type, CODE_REASSEMBLY, 0, now);
  }

  #ipv4Fragment(p: Packet, ip: IpHeader, now: Instant): Packet | null {
    const facts = this.#facts;
    facts.id = ip.id;
    facts.protocol = ip.protocol;
    facts.offset = ip.fragmentOffset;
    facts.more = ip.moreFragments;
    facts.dataAt = p.l4;
    facts.headersEnd = p.l4;
    facts.nextHeaderAt = p.start;
    return this.#join(p, ip, now);
  }

  /** Gives a fragment to the others; a packet that is whole then has its header in `ip`. */
  #join(p: Packet, ip: IpHeader, now: Instant): Packet | null {
    const whole = this.reassembly.input(p, ip, this.#facts, now);
    if (whole === null) return null;
    const reason = parseIp(whole.view, whole.start, whole.end, ip);
    if (reason !== DropReason.None) {
      this.#sink.drop(whole, reason, now);
      return null;
    }
    whole.l4 = whole.start + ip.headerLength;
    return whole;
  }

  #extensions(packet: Packet, ip: IpHeader, now: Instant): void {
    let p = packet;
    let at = p.l4;
    let kind = ip.protocol;
    let namedAt = ip.protocolAt;
    let isWhole = false;
    for (let n = 0; isIpv6Extension(kind); n++) {
      if (n === EXTENSION_HEADERS_MAX) return this.#sink.drop(p, DropReason.BadExtensionHeader, now);
      const length = at + 8 > p.end ? Infinity : ipv6ExtensionBytes(p.view, at, kind);
      if (at + length > p.end) return this.#sink.drop(p, DropReason.Truncated, now);
      if (kind === Ipv6Extension.Fragment) {
        const h = this.#fragment;
        parseFragmentHeader(p.view, at, h);
        if (h.offset !== 0 || h.more) {
          // Fragments within a datagram made of fragments: nobody sends that.
          if (isWhole) return this.#sink.drop(p, DropReason.BadExtensionHeader, now);
          const whole = this.#ipv6Fragment(p, ip, at, namedAt, now);
          if (whole === null) return;
          isWhole = true;
          p = whole;
          at = p.l4;
          kind = ip.protocol;
          namedAt = ip.protocolAt;
          n = -1;
          continue;
        }
      } else if (kind === Ipv6Extension.Routing) {
        if (p.view.getUint8(at + 3) !== 0) {
          return this.#refuse(p, ip, CODE_FIELD, at + 2 - p.start, DropReason.SourceRoute, now);
        }
      } else {
        if (kind === Ipv6Extension.HopByHop && namedAt !== ip.protocolAt) {
          return this.#refuse(p, ip, CODE_NEXT_HEADER, namedAt, DropReason.BadExtensionHeader, now);
        }
        const bad = findBadOption(p.view, at + 2, at + length);
        if (bad !== 0) {
          const action = bad < 0 ? OptionAction.Drop : optionAction(p.view.getUint8(bad));
          if (action === OptionAction.Drop) return this.#sink.drop(p, DropReason.BadIpOption, now);
          return this.#refuse(p, ip, CODE_OPTION, bad - p.start, DropReason.BadIpOption, now);
        }
      }
      namedAt = at - p.start;
      kind = p.view.getUint8(at);
      at += length;
    }
    if (kind === Ipv6Extension.NoNext) return this.#sink.drop(p, DropReason.NoNextHeader, now);
    p.l4 = at;
    ip.protocol = kind;
    ip.protocolAt = namedAt;
    ip.headerLength = at - p.start;
    ip.payloadLength = p.end - at;
    this.#upper.input(p, ip, now);
  }

  /** Takes the fragment whose fragment header is at `at`, and has been read. */
  #ipv6Fragment(p: Packet, ip: IpHeader, at: number, namedAt: number, now: Instant): Packet | null {
    const h = this.#fragment;
    const data = at + FRAGMENT_HEADER_BYTES;
    const bytes = p.end - data;
    if (h.more && (bytes & 7) !== 0) {
      this.#refuse(p, ip, CODE_FIELD, PAYLOAD_LENGTH_AT, DropReason.Fragment, now);
      return null;
    }
    if (at - p.start - IPV6_HEADER_BYTES + h.offset + bytes > DATAGRAM_BYTES_MAX) {
      this.#refuse(p, ip, CODE_FIELD, at + 2 - p.start, DropReason.Fragment, now);
      return null;
    }
    if (h.offset === 0 && !this.#hasWholeChain(p, data)) {
      this.#refuse(p, ip, CODE_INCOMPLETE_CHAIN, 0, DropReason.BadExtensionHeader, now);
      return null;
    }
    const facts = this.#facts;
    facts.id = h.id;
    facts.protocol = 0;
    facts.offset = h.offset;
    facts.more = h.more;
    facts.dataAt = data;
    facts.headersEnd = at;
    facts.nextHeaderAt = p.start + namedAt;
    facts.nextHeader = h.nextHeader;
    return this.#join(p, ip, now);
  }

  /** True if the first fragment, whose data begins at `data`, has all headers up to the transport's. */
  #hasWholeChain(p: Packet, data: number): boolean {
    const chain = this.#chain;
    if (!walkIpv6Extensions(p.view, data, p.end, this.#fragment.nextHeader, chain)) return false;
    const rest = p.end - chain.at;
    if (chain.protocol === IpProtocol.Tcp) return rest >= TCP_HEADER_BYTES;
    if (chain.protocol === IpProtocol.Udp || chain.protocol === IpProtocol.Icmpv6) {
      return rest >= TRANSPORT_HEADER_BYTES;
    }
    return true;
  }

  /** Drops a packet and tells its source what is wrong with it, and where. */
  #refuse(p: Packet, ip: IpHeader, code: number, pointer: number, reason: DropReason, now: Instant): void {
    this.#errors.send(p, ip, Icmpv6Type.ParameterProblem, code, pointer, now);
    this.#sink.drop(p, reason, now);
  }
}
