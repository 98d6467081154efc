/**
 * Whole IP packets for tests: built by the codecs, and read through all codecs at once.
 *
 * @module
 */

import { DropReason } from "../../src/base/drop.ts";
import { ICMP_HEADER_BYTES, IcmpHeader, parseIcmp } from "../../src/wire/icmp.ts";
import { emitIcmp } from "../../src/wire/icmp.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { emitIp, IpHeader, ipHeaderBytes, IpProtocol, parseIp } from "../../src/wire/ip_header.ts";
import { emitTcp, parseTcp, TcpHeader, tcpHeaderLength } from "../../src/wire/tcp.ts";
import { emitUdp, parseUdp, UDP_HEADER_BYTES, UdpHeader } from "../../src/wire/udp.ts";

/** A fresh IP header between two addresses given as text, with whatever else is set. */
export function ipHeader(source: string, destination: string, fields: Partial<IpHeader> = {}): IpHeader {
  const ip = new IpHeader();
  ip.setAddresses(IpAddr.parse(source), IpAddr.parse(destination));
  ip.setDefaults(0, 0);
  return Object.assign(ip, fields);
}

/** A fresh TCP header with these fields; SACK edges are given in turn. */
export function tcpHeader(
  fields: Partial<Omit<TcpHeader, "sackEdges">> & { sack?: readonly number[] } = {},
): TcpHeader {
  const { sack, ...rest } = fields;
  const h = Object.assign(new TcpHeader(), rest);
  if (sack !== undefined) {
    h.sackEdges.set(sack);
    h.sackCount = sack.length / 2;
  }
  return h;
}

/** Puts an IP header in front of a transport part, whose header `emit` writes. */
function packet(
  ip: IpHeader,
  protocol: number,
  headerLength: number,
  payload: Uint8Array,
  emit: (view: DataView, at: number, end: number) => void,
): Uint8Array<ArrayBuffer> {
  ip.protocol = protocol;
  ip.payloadLength = headerLength + payload.length;
  const l4 = ipHeaderBytes(ip.version);
  // Memory that held something else, as a pooled slot does.
  const bytes = new Uint8Array(l4 + ip.payloadLength).fill(0xa5);
  const view = new DataView(bytes.buffer);
  bytes.set(payload, l4 + headerLength);
  emit(view, l4, bytes.length);
  emitIp(view, 0, ip);
  return bytes;
}

/** A TCP segment in an IP packet. */
export function tcpPacket(ip: IpHeader, tcp: TcpHeader, payload = new Uint8Array(0)): Uint8Array<ArrayBuffer> {
  return packet(
    ip,
    IpProtocol.Tcp,
    tcpHeaderLength(tcp),
    payload,
    (view, at, end) => emitTcp(view, at, end, ip, tcp),
  );
}

/** A UDP datagram in an IP packet. */
export function udpPacket(
  ip: IpHeader,
  srcPort: number,
  dstPort: number,
  payload = new Uint8Array(0),
): Uint8Array<ArrayBuffer> {
  const udp = Object.assign(new UdpHeader(), { srcPort, dstPort, length: UDP_HEADER_BYTES + payload.length });
  return packet(ip, IpProtocol.Udp, UDP_HEADER_BYTES, payload, (view, at) => emitUdp(view, at, ip, udp));
}

/** An ICMP or ICMPv6 message, by the version of `ip`, in an IP packet. */
export function icmpPacket(
  ip: IpHeader,
  fields: Partial<IcmpHeader>,
  payload = new Uint8Array(0),
): Uint8Array<ArrayBuffer> {
  const icmp = Object.assign(new IcmpHeader(), fields);
  const protocol = ip.version === 4 ? IpProtocol.Icmp : IpProtocol.Icmpv6;
  return packet(
    ip,
    protocol,
    ICMP_HEADER_BYTES,
    payload,
    (view, at, end) => emitIcmp(view, at, end, ip, icmp),
  );
}

/** What the codecs say to a packet; the record of a codec that was not reached is in its initial state. */
export interface Parsed {
  /** None if IP and transport header are good. */
  reason: DropReason;
  /** The IP header. */
  ip: IpHeader;
  /** The TCP header. */
  tcp: TcpHeader;
  /** The UDP header. */
  udp: UdpHeader;
  /** The ICMP header. */
  icmp: IcmpHeader;
}

/** Reads a packet as a host would: IP header, then the transport header that it names. */
export function parsePacket(view: DataView, start = 0, end: number = view.byteLength): Parsed {
  const out: Parsed = {
    reason: DropReason.None,
    ip: new IpHeader(),
    tcp: new TcpHeader(),
    udp: new UdpHeader(),
    icmp: new IcmpHeader(),
  };
  out.reason = parseIp(view, start, end, out.ip);
  if (out.reason !== DropReason.None) return out;
  const { ip } = out;
  const l4 = start + ip.headerLength;
  const l4End = l4 + ip.payloadLength;
  if (ip.moreFragments || ip.fragmentOffset > 0) out.reason = DropReason.Fragment;
  else if (ip.protocol === IpProtocol.Tcp) out.reason = parseTcp(view, l4, l4End, ip, out.tcp);
  else if (ip.protocol === IpProtocol.Udp) out.reason = parseUdp(view, l4, l4End, ip, out.udp);
  else if (ip.protocol === (ip.version === 4 ? IpProtocol.Icmp : IpProtocol.Icmpv6)) {
    out.reason = parseIcmp(view, l4, l4End, ip, out.icmp);
  } else out.reason = DropReason.UnknownProtocol;
  return out;
}
