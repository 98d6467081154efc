/**
 * A packet as one line of text, in the manner of `tcpdump -n -S`: for traces and for the messages of failing tests.
 *
 * ```text
 * IP 10.7.0.1.40000 > 10.7.0.2.80: Flags [S], seq 1, win 65535, options [mss 1460,nop,wscale 7], length 0
 * IP6 fd07::1 > fd07::2: ICMP6, echo request, id 7, seq 1, length 24
 * ```
 *
 * It takes anything and never throws: what is wrong with a packet stands in the line, followed by whatever can still
 * be read. To that end the packet is copied, and in the copy each fault found (a wrong checksum, a length beyond the
 * end) is put right, so that the ordinary parsers can be used on it. Slow; not for the hot path.
 *
 * Left out: IPv6 extension headers, payloads, and whatever `tcpdump` tells only with `-v` (TTL, DSCP, ids), except for
 * checksums, which are shown when they are wrong.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import type { Packet } from "../base/packet.ts";
import { checksumFinish, checksumSum } from "./checksum.ts";
import { ICMP_HEADER_BYTES, IcmpHeader, Icmpv4Type, Icmpv6Type, isIcmpError, parseIcmp } from "./icmp.ts";
import { IpAddr } from "./ip_addr.ts";
import { IpHeader, IpProtocol, parseIp } from "./ip_header.ts";
import { IPV4_HEADER_BYTES } from "./ipv4.ts";
import { IPV6_HEADER_BYTES } from "./ipv6.ts";
import { ACK, CWR, ECE, FIN, parseTcp, PSH, RST, SYN, TCP_HEADER_BYTES, TcpHeader, URG } from "./tcp.ts";
import { TcpOptionKind } from "./tcp_options.ts";
import { parseUdp, UDP_HEADER_BYTES, UdpHeader } from "./udp.ts";

/** Describes the live range of a packet, which is to begin with an IP header, in one line. */
export function describe(packet: Packet): string;
/** Describes the IP packet in `bytes[start, end)`; by default all of `bytes`. */
export function describe(bytes: Uint8Array, start?: number, end?: number): string;
/** The two forms in one. */
export function describe(packet: Packet | Uint8Array, start?: number, end?: number): string {
  const range = packet instanceof Uint8Array ? packet.subarray(start, end) : packet.toBytes();
  const copy = new Uint8Array(range);
  return describeIp(new DataView(copy.buffer));
}

function describeIp(view: DataView): string {
  const length = view.byteLength;
  if (length === 0) return "empty packet";
  const version = view.getUint8(0) >>> 4;
  if (version !== 4 && version !== 6) return `unknown IP version ${version}, length ${length}`;
  const name = version === 4 ? "IP" : "IP6";
  const ip = new IpHeader();
  const read = readIp(view, 0, length, ip);
  if (!read.usable) return `${name} ${read.faults}`;
  const l4 = ip.headerLength;
  const complete = read.missingBytes === 0 && !ip.moreFragments;
  return `${name} ${read.faults}${describePayload(view, l4, l4 + ip.payloadLength, ip, complete)}`;
}

/** What was found when reading an IP header leniently. */
interface IpReading {
  /** True if the header could be read. */
  usable: boolean;
  /** What is wrong, each with a blank behind; or, if it is not usable, just what is wrong. */
  faults: string;
  /** Bytes that the length field promises and that are not there. */
  missingBytes: number;
}

/** Reads the IP header at `start`, after putting right what is wrong in place. */
function readIp(view: DataView, start: number, end: number, out: IpHeader): IpReading {
  const available = end - start;
  const unusable = (faults: string): IpReading => ({ usable: false, faults, missingBytes: 0 });
  if (available < 1) return unusable("truncated (no header)");
  const version = view.getUint8(start) >>> 4;
  const fixedLength = version === 4 ? IPV4_HEADER_BYTES : IPV6_HEADER_BYTES;
  if (available < fixedLength) return unusable(`truncated (${available} of ${fixedLength} header bytes)`);
  let faults = "";
  let missingBytes = 0;
  if (version === 4) {
    const headerLength = (view.getUint8(start) & 0xf) * 4;
    if (headerLength < IPV4_HEADER_BYTES) return unusable(`bad header length ${headerLength}`);
    if (headerLength > available) return unusable(`truncated (${available} of ${headerLength} header bytes)`);
    const totalLength = view.getUint16(start + 2);
    if (totalLength < headerLength) return unusable(`bad length ${totalLength}`);
    const wrong = repairChecksum(view, start + 10, start, start + headerLength, 0);
    if (wrong !== "") faults += `bad cksum ${wrong}! `;
    missingBytes = Math.max(0, totalLength - available);
    if (missingBytes > 0) view.setUint16(start + 2, available);
    repairChecksum(view, start + 10, start, start + headerLength, 0);
  } else {
    const payloadLength = view.getUint16(start + 4);
    missingBytes = Math.max(0, payloadLength - (available - IPV6_HEADER_BYTES));
    if (missingBytes > 0) view.setUint16(start + 4, available - IPV6_HEADER_BYTES);
  }
  if (missingBytes > 0) faults += `truncated-ip - ${missingBytes} bytes missing! `;
  const reason = parseIp(view, start, end, out);
  // Martian: an IPv4-mapped address in IPv6, which the parser reads and refuses.
  if (reason === DropReason.Martian) faults += "martian ";
  else if (reason !== DropReason.None) return unusable(`bad header (${DropReason[reason]})`);
  return { usable: true, faults, missingBytes };
}

/** Puts the checksum of `[start, end)` at `at` right; says what was wrong with it, or "". */
function repairChecksum(view: DataView, at: number, start: number, end: number, pseudoSum: number): string {
  if (checksumFinish(checksumSum(view, start, end, pseudoSum)) === 0) return "";
  const found = view.getUint16(at);
  view.setUint16(at, 0);
  const right = checksumFinish(checksumSum(view, start, end, pseudoSum));
  view.setUint16(at, right);
  return `${hex16(found)} (->${hex16(right)})`;
}

function hex16(n: number): string {
  return `0x${n.toString(16).padStart(4, "0")}`;
}

/** The text of four words; IPv4-mapped in an IPv6 packet is shown as such. */
function addressText(ip: IpHeader, w0: number, w1: number, w2: number, w3: number): string {
  const address = new IpAddr(w0, w1, w2, w3);
  return ip.version === 6 && address.isV4 ? `::ffff:${address}` : `${address}`;
}

function sourceText(ip: IpHeader): string {
  return addressText(ip, ip.src0, ip.src1, ip.src2, ip.src3);
}

function destinationText(ip: IpHeader): string {
  return addressText(ip, ip.dst0, ip.dst1, ip.dst2, ip.dst3);
}

function describePayload(view: DataView, l4: number, end: number, ip: IpHeader, complete: boolean): string {
  const addresses = `${sourceText(ip)} > ${destinationText(ip)}:`;
  const fragment = ip.moreFragments || ip.fragmentOffset > 0
    ? ` (frag ${ip.id}:${end - l4}@${ip.fragmentOffset}${ip.moreFragments ? "+" : ""})`
    : "";
  if (ip.fragmentOffset > 0) return `${addresses} ${protocolName(ip.protocol)}${fragment}`;
  switch (ip.protocol) {
    case IpProtocol.Tcp:
      return describeTcp(view, l4, end, ip, complete) + fragment;
    case IpProtocol.Udp:
      return describeUdp(view, l4, end, ip, complete) + fragment;
    case IpProtocol.Icmp:
    case IpProtocol.Icmpv6:
      if ((ip.protocol === IpProtocol.Icmp) === (ip.version === 4)) {
        return `${addresses} ${describeIcmp(view, l4, end, ip, complete)}${fragment}`;
      }
  }
  return `${addresses} ip-proto-${ip.protocol}, length ${end - l4}${fragment}`;
}

function protocolName(protocol: number): string {
  switch (protocol) {
    case IpProtocol.Tcp:
      return "tcp";
    case IpProtocol.Udp:
      return "udp";
    case IpProtocol.Icmp:
      return "icmp";
    case IpProtocol.Icmpv6:
      return "icmp6";
    default:
      return `ip-proto-${protocol}`;
  }
}

/** Addresses with the ports at `l4`, if these are there. */
function endpointsText(view: DataView, l4: number, end: number, ip: IpHeader): string {
  if (end - l4 < 4) return `${sourceText(ip)} > ${destinationText(ip)}:`;
  return `${sourceText(ip)}.${view.getUint16(l4)} > ${destinationText(ip)}.${view.getUint16(l4 + 2)}:`;
}

const FLAG_LETTERS: readonly (readonly [number, string])[] = [
  [FIN, "F"],
  [SYN, "S"],
  [RST, "R"],
  [PSH, "P"],
  [ACK, "."],
  [URG, "U"],
  [ECE, "E"],
  [CWR, "W"],
];

function describeTcp(view: DataView, l4: number, end: number, ip: IpHeader, complete: boolean): string {
  const endpoints = endpointsText(view, l4, end, ip);
  const available = end - l4;
  if (available < TCP_HEADER_BYTES) return `${endpoints} tcp truncated (${available} of ${TCP_HEADER_BYTES} bytes)`;
  const headerLength = (view.getUint8(l4 + 12) >>> 4) * 4;
  if (headerLength < TCP_HEADER_BYTES) return `${endpoints} tcp, bad header length ${headerLength}`;
  if (headerLength > available) return `${endpoints} tcp truncated (${available} of ${headerLength} header bytes)`;
  const pseudoSum = ip.pseudoHeaderSum(IpProtocol.Tcp, available);
  const wrong = repairChecksum(view, l4 + 16, l4, end, pseudoSum);
  const h = new TcpHeader();
  parseTcp(view, l4, end, ip, h);

  const flags = FLAG_LETTERS.map(([bit, letter]) => (h.flags & bit) !== 0 ? letter : "").join("");
  const parts = [`Flags [${flags || "none"}]`];
  if (complete && wrong !== "") parts.push(`bad cksum ${wrong}!`);
  const seq = h.seq >>> 0;
  if (h.payloadLength > 0) parts.push(`seq ${seq}:${(seq + h.payloadLength) >>> 0}`);
  else if ((h.flags & (SYN | FIN | RST)) !== 0) parts.push(`seq ${seq}`);
  if ((h.flags & ACK) !== 0) parts.push(`ack ${h.ack >>> 0}`);
  parts.push(`win ${h.window}`);
  if ((h.flags & URG) !== 0) parts.push(`urg ${h.urgent}`);
  if (headerLength > TCP_HEADER_BYTES) {
    parts.push(`options [${optionTexts(view, l4 + TCP_HEADER_BYTES, l4 + headerLength).join(",")}]`);
  }
  parts.push(`length ${h.payloadLength}`);
  return `${endpoints} ${parts.join(", ")}`;
}

/** The options in `[start, end)` in their order, padding included. */
function optionTexts(view: DataView, start: number, end: number): string[] {
  const texts: string[] = [];
  let at = start;
  while (at < end) {
    const kind = view.getUint8(at);
    if (kind === TcpOptionKind.End) return [...texts, "eol"];
    if (kind === TcpOptionKind.Nop) {
      texts.push("nop");
      at++;
      continue;
    }
    const length = at + 1 < end ? view.getUint8(at + 1) : 0;
    if (length < 2 || at + length > end) return [...texts, `bad option ${kind} length ${length}`];
    texts.push(optionText(view, at, kind, length));
    at += length;
  }
  return texts;
}

function optionText(view: DataView, at: number, kind: number, length: number): string {
  const bad = (name: string): string => `bad ${name} length ${length}`;
  const u32 = (offset: number): number => view.getUint32(at + offset);
  switch (kind) {
    case TcpOptionKind.Mss:
      return length === 4 ? `mss ${view.getUint16(at + 2)}` : bad("mss");
    case TcpOptionKind.WindowScale:
      return length === 3 ? `wscale ${view.getUint8(at + 2)}` : bad("wscale");
    case TcpOptionKind.SackPermitted:
      return length === 2 ? "sackOK" : bad("sackOK");
    case TcpOptionKind.Timestamps:
      return length === 10 ? `TS val ${u32(2)} ecr ${u32(6)}` : bad("TS");
    case TcpOptionKind.Sack: {
      const count = (length - 2) / 8;
      if (count < 1 || !Number.isInteger(count)) return bad("sack");
      const blocks = Array.from({ length: count }, (_, i) => `{${u32(2 + 8 * i)}:${u32(6 + 8 * i)}}`);
      return `sack ${count} ${blocks.join("")}`;
    }
    default: {
      let data = "";
      for (let i = 2; i < length; i++) data += view.getUint8(at + i).toString(16).padStart(2, "0");
      return `unknown-${kind}${data === "" ? "" : ` 0x${data}`}`;
    }
  }
}

function describeUdp(view: DataView, l4: number, end: number, ip: IpHeader, complete: boolean): string {
  const endpoints = endpointsText(view, l4, end, ip);
  const available = end - l4;
  if (available < UDP_HEADER_BYTES) return `${endpoints} udp truncated (${available} of ${UDP_HEADER_BYTES} bytes)`;
  const length = view.getUint16(l4 + 4);
  if (length < UDP_HEADER_BYTES) return `${endpoints} UDP, bad length ${length}`;
  if (!complete) return `${endpoints} UDP, length ${length - UDP_HEADER_BYTES}`;
  if (length > available) return `${endpoints} UDP, bad length ${length} > ${available}`;
  const h = new UdpHeader();
  let wrong = "";
  if (parseUdp(view, l4, end, ip, h) !== DropReason.None) {
    const found = view.getUint16(l4 + 6);
    view.setUint16(l4 + 6, 0);
    const right = checksumFinish(checksumSum(view, l4, l4 + length, ip.pseudoHeaderSum(IpProtocol.Udp, length)));
    wrong = `bad cksum ${hex16(found)} (->${hex16(right === 0 ? 0xffff : right)})! `;
  }
  return `${endpoints} ${wrong}UDP, length ${length - UDP_HEADER_BYTES}`;
}

function describeIcmp(view: DataView, l4: number, end: number, ip: IpHeader, complete: boolean): string {
  const name = ip.version === 4 ? "ICMP" : "ICMP6";
  const length = end - l4;
  if (length < ICMP_HEADER_BYTES) return `${name} truncated (${length} of ${ICMP_HEADER_BYTES} bytes)`;
  const pseudoSum = ip.version === 4 ? 0 : ip.pseudoHeaderSum(IpProtocol.Icmpv6, length);
  const wrong = repairChecksum(view, l4 + 2, l4, end, pseudoSum);
  const h = new IcmpHeader();
  parseIcmp(view, l4, end, ip, h);
  const quoted = isIcmpError(ip.version, h.type) ? readQuoted(view, l4 + ICMP_HEADER_BYTES, end) : NOTHING_QUOTED;
  const message = ip.version === 4 ? `ICMP ${icmpv4Text(h, quoted)}` : `ICMP6, ${icmpv6Text(h, quoted)}`;
  return `${message}, length ${length}${complete && wrong !== "" ? ` (bad cksum ${wrong}!)` : ""}`;
}

/** Of the packet that an ICMP error quotes, what the text of the error names. */
interface Quoted {
  /** Destination address, or "?". */
  destination: string;
  /** Protocol number, or −1. */
  protocol: number;
  /** Protocol and destination port in words. */
  port: string;
}

const NOTHING_QUOTED: Quoted = { destination: "?", protocol: -1, port: "? port ?" };

function readQuoted(view: DataView, start: number, end: number): Quoted {
  const version = start < end ? view.getUint8(start) >>> 4 : 0;
  if (version !== 4 && version !== 6) return NOTHING_QUOTED;
  const ip = new IpHeader();
  if (!readIp(view, start, end, ip).usable) return NOTHING_QUOTED;
  const l4 = start + ip.headerLength;
  const port = end - l4 >= 4 && ip.fragmentOffset === 0 ? `${view.getUint16(l4 + 2)}` : "?";
  return {
    destination: destinationText(ip),
    protocol: ip.protocol,
    port: `${protocolName(ip.protocol)} port ${port}`,
  };
}

function icmpv4Text(h: IcmpHeader, quoted: Quoted): string {
  switch (h.type) {
    case Icmpv4Type.EchoRequest:
      return `echo request, id ${h.id}, seq ${h.seq}`;
    case Icmpv4Type.EchoReply:
      return `echo reply, id ${h.id}, seq ${h.seq}`;
    case Icmpv4Type.Unreachable:
      return unreachableText(h, quoted);
    case Icmpv4Type.TimeExceeded:
      if (h.code > 1) break;
      return h.code === 0 ? "time exceeded in-transit" : "ip reassembly time exceeded";
    case Icmpv4Type.ParameterProblem:
      if (h.code > 0) break;
      return `parameter problem - octet ${h.id >>> 8}`;
  }
  return `type ${h.type} code ${h.code}`;
}

function unreachableText(h: IcmpHeader, quoted: Quoted): string {
  const { destination, protocol, port } = quoted;
  switch (h.code) {
    case 0:
      return `net ${destination} unreachable`;
    case 1:
      return `host ${destination} unreachable`;
    case 2:
      return `${destination} protocol ${protocol < 0 ? "?" : protocol} unreachable`;
    case 3:
      return `${destination} ${port} unreachable`;
    case 4:
      return `${destination} unreachable - need to frag${h.seq > 0 ? ` (mtu ${h.seq})` : ""}`;
    case 9:
      return `net ${destination} unreachable - admin prohibited`;
    case 10:
      return `host ${destination} unreachable - admin prohibited`;
    case 13:
      return `host ${destination} unreachable - admin prohibited filter`;
    default:
      return `${destination} unreachable - code ${h.code}`;
  }
}

const NEIGHBOUR_DISCOVERY: readonly string[] = [
  "router solicitation",
  "router advertisement",
  "neighbor solicitation",
  "neighbor advertisement",
];

function icmpv6Text(h: IcmpHeader, quoted: Quoted): string {
  switch (h.type) {
    case Icmpv6Type.EchoRequest:
      return `echo request, id ${h.id}, seq ${h.seq}`;
    case Icmpv6Type.EchoReply:
      return `echo reply, id ${h.id}, seq ${h.seq}`;
    case Icmpv6Type.Unreachable:
      return `destination unreachable, ${unreachable6Text(h, quoted)}`;
    case Icmpv6Type.PacketTooBig:
      return `packet too big, mtu ${h.id * 0x10000 + h.seq}`;
    case Icmpv6Type.TimeExceeded:
      if (h.code > 1) break;
      return h.code === 0
        ? `time exceeded in-transit for ${quoted.destination}`
        : "time exceeded in-transit (reassembly)";
    case Icmpv6Type.ParameterProblem: {
      const what = ["erroneous", "next header", "option"][h.code];
      if (what === undefined) break;
      return `parameter problem, ${what} - octet ${h.id * 0x10000 + h.seq}`;
    }
  }
  return NEIGHBOUR_DISCOVERY[h.type - 133] ?? `type ${h.type} code ${h.code}`;
}

function unreachable6Text(h: IcmpHeader, quoted: Quoted): string {
  switch (h.code) {
    case 0:
      return `unreachable route ${quoted.destination}`;
    case 1:
      return `unreachable prohibited ${quoted.destination}`;
    case 3:
      return `unreachable address ${quoted.destination}`;
    case 4:
      return `unreachable port, ${quoted.destination} ${quoted.port}`;
    default:
      return `${quoted.destination} code ${h.code}`;
  }
}
