/**
 * Control messages: what a socket tells and is told about a datagram beside its bytes and its address.
 *
 * Received are the size of the pieces that the kernel glued together (`UDP_GRO`) and the traffic class of the outer
 * header (`IP_TOS`, `IPV6_TCLASS`). Sent are the size of the pieces to cut into (`UDP_SEGMENT`), the traffic class and
 * the departure time (`SCM_TXTIME`).
 *
 * The kernel is not trusted to be the one that is known today: a length that makes no sense ends the reading, unknown
 * messages are skipped, and nothing is read outside the bytes given.
 *
 * References: RFC 3542 section 20 (the layout), cmsg(3), udp(7).
 *
 * @module
 */

import { CMSGHDR_BYTES, getU64, IpOption, Ipv6Option, Level, setU64, SocketOption, UdpOption } from "./abi.ts";

/** Bytes kept for the control messages of a datagram that is received. */
export const RECEIVE_CONTROL_BYTES = 128;

/** Bytes that the control messages of a datagram to be sent need at most. */
export const SEND_CONTROL_BYTES: number = 3 * (CMSGHDR_BYTES + 8);

/** What the control messages of a received datagram said. One record serves for all. */
export class ReceivedControl {
  /** Size of each piece but the last one in bytes; 0 if nothing was glued together. */
  segmentBytes = 0;
  /** Traffic class (TOS) of the outer header; 0 if nothing was said. */
  trafficClass = 0;

  /**
   * Reads the control messages in `[at, at + length)`, which lie in `view` at a multiple of 8.
   *
   * @returns false if they make no sense or are cut off; what was read before that is kept
   */
  parse(view: DataView, at: number, length: number): boolean {
    this.segmentBytes = 0;
    this.trafficClass = 0;
    const end = at + length;
    if (length < 0 || end > view.byteLength) return false;
    while (end - at >= CMSGHDR_BYTES) {
      const bytes = getU64(view, at);
      if (bytes < CMSGHDR_BYTES || bytes > end - at) return false;
      if (!this.#take(view, at, bytes - CMSGHDR_BYTES)) return false;
      at += (bytes + 7) & ~7;
    }
    return at >= end;
  }

  #take(view: DataView, at: number, dataBytes: number): boolean {
    const level = view.getInt32(at + 8, true);
    const type = view.getInt32(at + 12, true);
    const data = at + CMSGHDR_BYTES;
    if (level === Level.Udp && type === UdpOption.Gro) {
      // A u16 in the first kernels that had it, an int in all since.
      if (dataBytes >= 4) this.segmentBytes = view.getInt32(data, true);
      else if (dataBytes >= 2) this.segmentBytes = view.getUint16(data, true);
      else return false;
      if (this.segmentBytes <= 0) {
        this.segmentBytes = 0;
        return false;
      }
    } else if (
      (level === Level.Ip && type === IpOption.Tos) || (level === Level.Ipv6 && type === Ipv6Option.TrafficClass)
    ) {
      if (dataBytes < 1) return false;
      this.trafficClass = view.getUint8(data);
    }
    return true;
  }
}

/** Writes an `UDP_SEGMENT` message at `at`; returns where it ends. */
export function emitSegment(view: DataView, at: number, segmentBytes: number): number {
  setU64(view, at, CMSGHDR_BYTES + 2);
  view.setInt32(at + 8, Level.Udp, true);
  view.setInt32(at + 12, UdpOption.Segment, true);
  view.setUint16(at + CMSGHDR_BYTES, segmentBytes, true);
  return at + CMSGHDR_BYTES + 8;
}

/** Writes an `IP_TOS` or `IPV6_TCLASS` message at `at`; returns where it ends. */
export function emitTrafficClass(view: DataView, at: number, v4: boolean, trafficClass: number): number {
  setU64(view, at, CMSGHDR_BYTES + 4);
  view.setInt32(at + 8, v4 ? Level.Ip : Level.Ipv6, true);
  view.setInt32(at + 12, v4 ? IpOption.Tos : Ipv6Option.TrafficClass, true);
  view.setInt32(at + CMSGHDR_BYTES, trafficClass, true);
  return at + CMSGHDR_BYTES + 8;
}

/** Writes an `SCM_TXTIME` message at `at`, the time in ns of the socket's clock; returns where it ends. */
export function emitTxTime(view: DataView, at: number, time: number): number {
  setU64(view, at, CMSGHDR_BYTES + 8);
  view.setInt32(at + 8, Level.Socket, true);
  view.setInt32(at + 12, SocketOption.TxTime, true);
  setU64(view, at + CMSGHDR_BYTES, time);
  return at + CMSGHDR_BYTES + 8;
}
