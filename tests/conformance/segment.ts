/**
 * TCP segments and ICMP errors as bytes, for the conformance runner.
 *
 * The judge has a codec of its own, apart from `src/wire`, so that a fault there cannot hide itself. It is plain and
 * slow, keeps options in their order with all padding, and throws nothing: {@linkcode parsePacket} says in words what
 * is wrong with a packet.
 *
 * @module
 */

import { pseudoHeader, slowChecksum, slowSum } from "../testing/slow_checksum.ts";

/** A TCP option. SACK edges, and timestamps that we send, are raw numbers of the wire. */
export type TcpOption =
  | { k: "mss"; v: number }
  | { k: "wscale"; v: number }
  | { k: "sackOK" }
  | { k: "ts"; val: number; ecr: number }
  | { k: "sack"; blocks: [left: number, right: number][] }
  | { k: "nop" }
  | { k: "eol" }
  | { k: "unknown"; v: number };

/** The flags by name, in the order in which they are shown, with bit and letter. */
export const FLAGS: readonly (readonly [name: string, bit: number, letter: string])[] = [
  ["FIN", 0x01, "F"],
  ["SYN", 0x02, "S"],
  ["RST", 0x04, "R"],
  ["PSH", 0x08, "P"],
  ["ACK", 0x10, "."],
  ["URG", 0x20, "U"],
  ["ECE", 0x40, "E"],
  ["CWR", 0x80, "W"],
  ["AE", 0x100, "A"],
];

/** The bit of one flag. */
export const FIN = 0x01, SYN = 0x02, RST = 0x04, PSH = 0x08, ACK = 0x10;

/** A TCP segment with raw numbers. */
export interface Segment {
  srcPort: number;
  dstPort: number;
  seq: number;
  ack: number;
  flags: number;
  window: number;
  urgent: number;
  options: TcpOption[];
  payload: Uint8Array<ArrayBuffer>;
  /** The two ECN bits of the IP header. */
  ecn: number;
}

/** The flags as letters, or `-` for none. */
export function flagText(flags: number): string {
  return FLAGS.filter(([, bit]) => (flags & bit) !== 0).map(([, , letter]) => letter).join("") || "-";
}

/** An IP packet from `source` to `destination` (4 or 16 bytes each). */
export function buildIp(
  source: Uint8Array,
  destination: Uint8Array,
  protocol: number,
  ecn: number,
  body: Uint8Array,
): Uint8Array<ArrayBuffer> {
  const isV4 = source.length === 4;
  const header = isV4 ? 20 : 40;
  const bytes = new Uint8Array(header + body.length);
  const view = new DataView(bytes.buffer);
  if (isV4) {
    view.setUint16(0, 0x4500 | ecn);
    view.setUint16(2, bytes.length);
    view.setUint16(6, 0x4000);
    view.setUint16(8, 64 << 8 | protocol);
    bytes.set(source, 12);
    bytes.set(destination, 16);
    view.setUint16(10, slowChecksum(bytes.subarray(0, 20)));
  } else {
    view.setUint32(0, 0x60000000 | ecn << 20);
    view.setUint16(4, body.length);
    view.setUint16(6, protocol << 8 | 64);
    bytes.set(source, 8);
    bytes.set(destination, 24);
  }
  bytes.set(body, header);
  return bytes;
}

/** The IP packet that holds `s`. */
export function buildPacket(source: Uint8Array, destination: Uint8Array, s: Segment): Uint8Array<ArrayBuffer> {
  const options = s.options.flatMap(optionBytes);
  while (options.length % 4 !== 0) options.push(0);
  const tcp = new Uint8Array(20 + options.length + s.payload.length);
  const view = new DataView(tcp.buffer);
  view.setUint16(0, s.srcPort);
  view.setUint16(2, s.dstPort);
  view.setUint32(4, s.seq >>> 0);
  view.setUint32(8, s.ack >>> 0);
  view.setUint16(12, (5 + options.length / 4) << 12 | s.flags);
  view.setUint16(14, s.window);
  view.setUint16(18, s.urgent);
  tcp.set(options, 20);
  tcp.set(s.payload, 20 + options.length);
  const sum = [...pseudoHeader(source, destination, 6, tcp.length)];
  view.setUint16(16, slowChecksum(new Uint8Array([...sum, ...tcp])));
  return buildIp(source, destination, 6, s.ecn, tcp);
}

/** The ICMP (of IPv6: ICMPv6) error of `type` and `code` that `router` sends to `host` about the packet `quoted`. */
export function buildIcmp(
  router: Uint8Array,
  host: Uint8Array,
  type: number,
  code: number,
  word: number,
  quoted: Uint8Array,
): Uint8Array<ArrayBuffer> {
  const isV4 = host.length === 4;
  const message = new Uint8Array(8 + quoted.length);
  const view = new DataView(message.buffer);
  view.setUint8(0, type);
  view.setUint8(1, code);
  view.setUint32(4, word);
  message.set(quoted, 8);
  const pseudo = isV4 ? [] : [...pseudoHeader(router, host, 58, message.length)];
  view.setUint16(2, slowChecksum(new Uint8Array([...pseudo, ...message])));
  return buildIp(router, host, isV4 ? 1 : 58, 0, message);
}

function optionBytes(option: TcpOption): number[] {
  switch (option.k) {
    case "mss":
      return [2, 4, ...word(option.v).slice(2)];
    case "wscale":
      return [3, 3, option.v];
    case "sackOK":
      return [4, 2];
    case "ts":
      return [8, 10, ...word(option.val), ...word(option.ecr)];
    case "sack":
      return [5, 2 + 8 * option.blocks.length, ...option.blocks.flat().flatMap(word)];
    case "nop":
      return [1];
    case "eol":
      return [0];
    case "unknown":
      return [option.v, 2];
  }
}

function word(n: number): number[] {
  return [n >>> 24 & 255, n >>> 16 & 255, n >>> 8 & 255, n & 255];
}

/** Reads an IP packet with a TCP segment; a text says what is wrong with it. */
export function parsePacket(bytes: Uint8Array<ArrayBuffer>): Segment | string {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const isV4 = bytes[0]! >>> 4 === 4;
  const header = isV4 ? (bytes[0]! & 15) * 4 : 40;
  if (bytes.length < header + 20) return "a packet too short for a TCP segment";
  if ((isV4 ? view.getUint16(2) : view.getUint16(4) + 40) !== bytes.length) return "a packet with a wrong length field";
  if (isV4 && slowSum(bytes.subarray(0, header)) !== 0xffff) return "a packet with a wrong IP checksum";
  const protocol = bytes[isV4 ? 9 : 6]!;
  if (protocol !== 6) return `a packet of IP protocol ${protocol}`;
  const source = isV4 ? bytes.subarray(12, 16) : bytes.subarray(8, 24);
  const destination = isV4 ? bytes.subarray(16, 20) : bytes.subarray(24, 40);
  const tcp = bytes.subarray(header);
  const pseudo = pseudoHeader(source, destination, 6, tcp.length);
  if (slowSum(new Uint8Array([...pseudo, ...tcp])) !== 0xffff) return "a segment with a wrong checksum";
  const offset = tcp[12]! >>> 4 << 2;
  if (offset < 20 || offset > tcp.length) return "a segment with a wrong data offset";
  const options = parseOptions(tcp.subarray(20, offset));
  if (typeof options === "string") return options;
  return {
    srcPort: view.getUint16(header),
    dstPort: view.getUint16(header + 2),
    seq: view.getUint32(header + 4),
    ack: view.getUint32(header + 8),
    flags: view.getUint16(header + 12) & 0x1ff,
    window: view.getUint16(header + 14),
    urgent: view.getUint16(header + 18),
    options,
    payload: tcp.slice(offset),
    ecn: isV4 ? bytes[1]! & 3 : bytes[1]! >>> 4 & 3,
  };
}

function parseOptions(bytes: Uint8Array): TcpOption[] | string {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const options: TcpOption[] = [];
  for (let at = 0; at < bytes.length;) {
    const kind = bytes[at]!;
    if (kind < 2) {
      options.push({ k: kind === 0 ? "eol" : "nop" });
      at++;
      continue;
    }
    const length = bytes[at + 1] ?? 0;
    if (length < 2 || at + length > bytes.length) return "a segment with a broken option";
    if (kind === 2 && length === 4) options.push({ k: "mss", v: view.getUint16(at + 2) });
    else if (kind === 3 && length === 3) options.push({ k: "wscale", v: view.getUint8(at + 2) });
    else if (kind === 4 && length === 2) options.push({ k: "sackOK" });
    else if (kind === 8 && length === 10) {
      options.push({ k: "ts", val: view.getUint32(at + 2), ecr: view.getUint32(at + 6) });
    } else if (kind === 5 && length % 8 === 2) {
      const blocks: [number, number][] = [];
      for (let i = at + 2; i < at + length; i += 8) blocks.push([view.getUint32(i), view.getUint32(i + 4)]);
      options.push({ k: "sack", blocks });
    } else options.push({ k: "unknown", v: kind });
    at += length;
  }
  return options;
}

/** What an option says, as in a script. */
export function optionText(option: TcpOption): string {
  switch (option.k) {
    case "mss":
    case "wscale":
      return `${option.k} ${option.v}`;
    case "ts":
      return `TS val ${option.val} ecr ${option.ecr}`;
    case "sack":
      return `sack ${option.blocks.map(([left, right]) => `${left}:${right}`).join(" ")}`;
    case "unknown":
      return `option ${option.v}`;
    default:
      return option.k;
  }
}
