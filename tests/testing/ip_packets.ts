/**
 * Packets for tests: built by the codecs of `src/wire`, with a pool and a drop sink that counts.
 *
 * @module
 */

import { DropCounters, type DropReason, type DropSink } from "../../src/base/drop.ts";
import { type Packet, PacketPool } from "../../src/base/packet.ts";
import { emitIcmp, ICMP_HEADER_BYTES, IcmpHeader } from "../../src/wire/icmp.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { emitIp, IpHeader, ipHeaderBytes, IpProtocol } from "../../src/wire/ip_header.ts";
import { emitUdp, UDP_HEADER_BYTES, UdpHeader } from "../../src/wire/udp.ts";

/** A pool and the sink that counts drops and frees into it. */
export class TestPool implements DropSink {
  /** The pool. */
  readonly pool: PacketPool;
  /** What was dropped. */
  readonly drops: DropCounters = new DropCounters();

  /** Makes a pool of at most `limit` packets. */
  constructor(limit = 4096) {
    this.pool = new PacketPool(limit);
  }

  /** Counts and frees. */
  drop(p: Packet, reason: DropReason): void {
    this.drops.count(reason);
    this.pool.release(p);
  }
}

/** What {@linkcode ipPacket} may be told. */
export interface IpPacketOptions {
  /** Source address. */
  src: string;
  /** Destination address. */
  dst: string;
  /** Protocol (default 253, "for experimentation"). */
  protocol?: number;
  /** TTL (default 64). */
  ttl?: number;
  /** Bytes behind the IP header (default none). */
  payload?: Uint8Array;
  /** Don't fragment (default true). */
  dontFragment?: boolean;
  /** More fragments (default false). */
  moreFragments?: boolean;
  /** Fragment offset in bytes (default 0). */
  fragmentOffset?: number;
  /** Identification (default 0). */
  id?: number;
  /** Traffic class (default 0). */
  trafficClass?: number;
}

/** An IP packet as it comes from a wire, starting at its IP header. */
export function ipPacket(pool: PacketPool, options: IpPacketOptions): Packet {
  const p = pool.acquire()!;
  const payload = options.payload ?? new Uint8Array(0);
  const ip = new IpHeader();
  ip.setAddresses(IpAddr.parse(options.src), IpAddr.parse(options.dst));
  ip.setDefaults(options.protocol ?? 253, payload.length);
  ip.ttl = options.ttl ?? 64;
  ip.dontFragment = options.dontFragment ?? true;
  ip.moreFragments = options.moreFragments ?? false;
  ip.fragmentOffset = options.fragmentOffset ?? 0;
  ip.id = options.id ?? 0;
  ip.trafficClass = options.trafficClass ?? 0;
  emitIp(p.view, p.start, ip);
  p.l4 = p.start + ipHeaderBytes(ip.version);
  p.bytes.set(payload, p.l4);
  p.end = p.l4 + payload.length;
  p.ifindex = 1;
  return p;
}

/** An IP packet that carries a UDP datagram. */
export function udpPacket(
  pool: PacketPool,
  options: Omit<IpPacketOptions, "protocol"> & { srcPort: number; dstPort: number },
): Packet {
  const data = options.payload ?? new Uint8Array(0);
  const payload = new Uint8Array(UDP_HEADER_BYTES + data.length);
  payload.set(data, UDP_HEADER_BYTES);
  const p = ipPacket(pool, { ...options, protocol: IpProtocol.Udp, payload });
  const ip = new IpHeader();
  ip.setAddresses(IpAddr.parse(options.src), IpAddr.parse(options.dst));
  const h = new UdpHeader();
  h.srcPort = options.srcPort;
  h.dstPort = options.dstPort;
  h.length = payload.length;
  emitUdp(p.view, p.l4, ip, h);
  return p;
}

/** An IP packet that carries an ICMP (or, to an IPv6 address, ICMPv6) message. */
export function icmpPacket(
  pool: PacketPool,
  options: Omit<IpPacketOptions, "protocol"> & { type: number; code?: number; id?: number; seq?: number },
): Packet {
  const data = options.payload ?? new Uint8Array(0);
  const payload = new Uint8Array(ICMP_HEADER_BYTES + data.length);
  payload.set(data, ICMP_HEADER_BYTES);
  const ip = new IpHeader();
  ip.setAddresses(IpAddr.parse(options.src), IpAddr.parse(options.dst));
  const protocol = ip.version === 4 ? IpProtocol.Icmp : IpProtocol.Icmpv6;
  const p = ipPacket(pool, { ...options, id: 0, protocol, payload });
  const h = new IcmpHeader();
  h.type = options.type;
  h.code = options.code ?? 0;
  h.id = options.id ?? 0;
  h.seq = options.seq ?? 0;
  emitIcmp(p.view, p.l4, p.end, ip, h);
  return p;
}

/** Bytes 0, 1, 2 … as data. */
export function pattern(length: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length }, (_, i) => i & 0xff);
}

/** Spaced hexadecimal text of bytes, for golden images. */
export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join(" ");
}
