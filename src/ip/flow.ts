/**
 * The flow that a packet without a local connection belongs to, for the queueing discipline.
 *
 * TCP and UDP: addresses, protocol and ports. ICMP echo: the identifier in place of the ports. Fragments: the
 * identification, so that all fragments of a datagram stay together. All else: the flow label, 0 in IPv4. What stands
 * behind IPv6 extension headers counts as if it stood alone. The hash is seeded, so that nobody outside can aim at
 * another's queue, and odd, so that it never equals the even number of a connection.
 *
 * @module
 */

import { hashTuple } from "../base/hash.ts";
import type { Packet } from "../base/packet.ts";
import { Icmpv4Type, Icmpv6Type } from "../wire/icmp.ts";
import { type IpHeader, IpProtocol } from "../wire/ip_header.ts";
import { Ipv6Chain, isIpv6Extension, walkIpv6Extensions } from "../wire/ipv6_extension.ts";

const chain = new Ipv6Chain();

/** Hash of the addresses of `ip` and of two words that tell apart what goes between them. */
export function hashPair(seed: number, ip: IpHeader, word: number, protocol: number): number {
  return hashTuple(
    seed,
    ip.src0,
    ip.src1,
    ip.src2,
    ip.src3,
    ip.dst0,
    ip.dst1,
    ip.dst2,
    ip.dst3,
    word,
    protocol,
  );
}

/** The odd flow number of `p`, whose header is `ip` and whose transport header begins at `p.l4`. */
export function packetFlow(seed: number, p: Packet, ip: IpHeader): number {
  return hashPair(seed, ip, discriminator(p, ip), chain.protocol) | 1;
}

/** What tells flows between two hosts apart; their protocol is in `chain` then. */
function discriminator(p: Packet, ip: IpHeader): number {
  chain.protocol = ip.protocol;
  if (ip.moreFragments || ip.fragmentOffset !== 0) return ip.id;
  let { l4 } = p;
  if (ip.version === 6 && isIpv6Extension(ip.protocol)) {
    const isWhole = walkIpv6Extensions(p.view, l4, p.end, ip.protocol, chain);
    if (chain.isFragment) {
      // Only the first fragment knows its protocol.
      chain.protocol = 0;
      return chain.fragmentId;
    }
    if (!isWhole) {
      chain.protocol = 0;
      return ip.flowLabel;
    }
    l4 = chain.at;
  }
  if (p.end - l4 < 8) return ip.flowLabel;
  switch (chain.protocol) {
    case IpProtocol.Tcp:
    case IpProtocol.Udp:
      return p.view.getInt32(l4);
    case IpProtocol.Icmp: {
      const type = p.view.getUint8(l4);
      return type === Icmpv4Type.EchoRequest || type === Icmpv4Type.EchoReply ? p.view.getUint16(l4 + 4) : 0;
    }
    case IpProtocol.Icmpv6: {
      const type = p.view.getUint8(l4);
      return type === Icmpv6Type.EchoRequest || type === Icmpv6Type.EchoReply ? p.view.getUint16(l4 + 4) : 0;
    }
    default:
      return ip.flowLabel;
  }
}
