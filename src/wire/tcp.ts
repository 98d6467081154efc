/**
 * The TCP header (RFC 9293 section 3.1) with the options of tcp_options.ts.
 *
 * ```text
 *  |          Source Port          |       Destination Port        |
 *  |                        Sequence Number                        |
 *  |                    Acknowledgment Number                      |
 *  | Off.  |Rsrvd|AE|C|E|U|A|P|R|S|F|            Window            |
 *  |           Checksum            |         Urgent Pointer        |
 *  |                        options, padded                        |
 * ```
 *
 * One {@linkcode TcpHeader} record is filled again for each segment. `window` is the field as sent, not scaled.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import { checksumFinish, checksumSum } from "./checksum.ts";
import { type IpHeader, IpProtocol } from "./ip_header.ts";
import { emitTcpOptions, parseTcpOptions, tcpOptionsLength } from "./tcp_options.ts";

/** Length of the header without options. */
export const TCP_HEADER_BYTES = 20;

/** No more data from the sender. */
export const FIN = 0x01;
/** Synchronise sequence numbers. */
export const SYN = 0x02;
/** Reset the connection. */
export const RST = 0x04;
/** Push. */
export const PSH = 0x08;
/** The acknowledgment field is valid. */
export const ACK = 0x10;
/** The urgent pointer is valid. */
export const URG = 0x20;
/** ECN echo (RFC 3168). */
export const ECE = 0x40;
/** Congestion window reduced (RFC 3168). */
export const CWR = 0x80;

/** The fields of a TCP header and its options. */
export class TcpHeader {
  /** Source port. */
  srcPort = 0;
  /** Destination port. */
  dstPort = 0;
  /** Sequence number, int32. */
  seq = 0;
  /** Acknowledgment number, int32. */
  ack = 0;
  /** Flag bits, see {@linkcode FIN} and the others. */
  flags = 0;
  /** Window field, not scaled. */
  window = 0;
  /** Urgent pointer. */
  urgent = 0;
  /** Length of header and options in bytes, set by parsing. */
  headerLength: number = TCP_HEADER_BYTES;
  /** Bytes of data behind the header, set by parsing. */
  payloadLength = 0;
  /** Maximum segment size option, or −1. */
  mss: number = -1;
  /** Window scale option, or −1. */
  windowScale: number = -1;
  /** SACK-permitted option. */
  sackPermitted = false;
  /** Timestamps option present. */
  hasTimestamps = false;
  /** TSval, int32. */
  tsVal = 0;
  /** TSecr, int32. */
  tsEcr = 0;
  /** Number of SACK blocks, 0 to 4. */
  sackCount = 0;
  /** SACK blocks: left and right edges in turn. */
  readonly sackEdges: Int32Array<ArrayBuffer> = new Int32Array(8);

  /** Sets all options to absent. */
  clearOptions(): void {
    this.mss = -1;
    this.windowScale = -1;
    this.sackPermitted = false;
    this.hasTimestamps = false;
    this.tsVal = 0;
    this.tsEcr = 0;
    this.sackCount = 0;
  }
}

/** Reads and checks the segment in `[start, end)`, its checksum included. */
export function parseTcp(view: DataView, start: number, end: number, ip: IpHeader, out: TcpHeader): DropReason {
  const length = end - start;
  if (length < TCP_HEADER_BYTES) return DropReason.Truncated;
  const word = view.getUint16(start + 12);
  const headerLength = (word >>> 12) * 4;
  if (headerLength < TCP_HEADER_BYTES) return DropReason.BadHeaderLength;
  if (headerLength > length) return DropReason.Truncated;
  if (checksumFinish(checksumSum(view, start, end, ip.pseudoHeaderSum(IpProtocol.Tcp, length))) !== 0) {
    return DropReason.BadTcpChecksum;
  }
  out.srcPort = view.getUint16(start);
  out.dstPort = view.getUint16(start + 2);
  out.seq = view.getInt32(start + 4);
  out.ack = view.getInt32(start + 8);
  out.flags = word & 0xff;
  out.window = view.getUint16(start + 14);
  out.urgent = view.getUint16(start + 18);
  out.headerLength = headerLength;
  out.payloadLength = length - headerLength;
  return parseTcpOptions(view, start + TCP_HEADER_BYTES, start + headerLength, out);
}

/** Length of the header that {@linkcode emitTcp} would write for `h`, options included. */
export function tcpHeaderLength(h: TcpHeader): number {
  return TCP_HEADER_BYTES + tcpOptionsLength(h);
}

/**
 * Writes header and options at `at`, in front of data up to `end` that is in place already (there must be exactly
 * {@linkcode tcpHeaderLength} bytes between), with the checksum over both.
 */
export function emitTcp(view: DataView, at: number, end: number, ip: IpHeader, h: TcpHeader): void {
  const headerLength = tcpHeaderLength(h);
  view.setUint16(at, h.srcPort);
  view.setUint16(at + 2, h.dstPort);
  view.setInt32(at + 4, h.seq);
  view.setInt32(at + 8, h.ack);
  view.setUint16(at + 12, (headerLength << 10) | h.flags);
  view.setUint16(at + 14, h.window);
  view.setUint16(at + 16, 0);
  view.setUint16(at + 18, h.urgent);
  emitTcpOptions(view, at + TCP_HEADER_BYTES, h);
  const sum = checksumSum(view, at, end, ip.pseudoHeaderSum(IpProtocol.Tcp, end - at));
  view.setUint16(at + 16, checksumFinish(sum));
}
