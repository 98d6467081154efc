/**
 * The flow that a packet without a local connection belongs to, for the queueing discipline.
 *
 * TCP and UDP: addresses, protocol and ports. ICMP echo: the identifier in place of the ports. Fragments: the IPv4
 * identification, so that all fragments of a datagram stay together. IPv6 behind extension headers: the flow label. The
 * hash is seeded, so that nobody outside can aim at another's queue, and odd, so that it never equals the even number
 * of a connection.
 *
 * @module
 */

import { hashTuple } from "../base/hash.ts";
import type { Packet } from "../base/packet.ts";
import { Icmpv4Type, Icmpv6Type } from "../wire/icmp.ts";
import { type IpHeader, IpProtocol } from "../wire/ip_header.ts";

/** The odd flow number of `p`, whose header is `ip` and whose transport header begins at `p.l4`. */
export function packetFlow(seed: number, p: Packet, ip: IpHeader): number {
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
    discriminator(p, ip),
    ip.protocol,
  ) | 1;
}

function discriminator(p: Packet, ip: IpHeader): number {
  if (ip.moreFragments || ip.fragmentOffset !== 0) return ip.id;
  if (p.end - p.l4 < 8) return ip.flowLabel;
  switch (ip.protocol) {
    case IpProtocol.Tcp:
    case IpProtocol.Udp:
      return p.view.getInt32(p.l4);
    case IpProtocol.Icmp: {
      const type = p.view.getUint8(p.l4);
      return type === Icmpv4Type.EchoRequest || type === Icmpv4Type.EchoReply ? p.view.getUint16(p.l4 + 4) : 0;
    }
    case IpProtocol.Icmpv6: {
      const type = p.view.getUint8(p.l4);
      return type === Icmpv6Type.EchoRequest || type === Icmpv6Type.EchoReply ? p.view.getUint16(p.l4 + 4) : 0;
    }
    default:
      return ip.flowLabel;
  }
}
