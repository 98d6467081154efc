/**
 * What UDP needs of the stack that it is part of.
 *
 * @module
 */

import type { DropReason, DropSink } from "../base/drop.ts";
import type { EventQueue } from "../base/event_queue.ts";
import type { Packet } from "../base/packet.ts";
import type { Instant } from "../base/time.ts";
import type { IpAddr } from "../wire/ip_addr.ts";
import type { IpHeader } from "../wire/ip_header.ts";

/** The world as UDP sees it. */
export interface UdpNetwork extends DropSink {
  /** Where events of sockets are raised. */
  readonly events: EventQueue;
  /** An empty packet, or `null` when the pool is at its bound. */
  acquire(): Packet | null;
  /** Frees a packet that served its purpose (this is no drop). */
  release(p: Packet): void;
  /** Sends a datagram that stands in `p` from its UDP header on; on a reason other than `None` the caller keeps `p`. */
  output(p: Packet, ip: IpHeader, now: Instant): DropReason;
  /** True for an address of this host. */
  isLocal(address: IpAddr): boolean;
  /** The address to send from to reach `destination`, or `null` without one of its family. */
  sourceFor(destination: IpAddr): IpAddr | null;
  /** The largest IP packet towards `destination` in bytes; 0 without a route. */
  mtuTo(destination: IpAddr): number;
  /** The largest IP packet that is known to get to `destination`, in bytes; 0 without a route. */
  pathMtuTo(destination: IpAddr, now: Instant): number;
  /** Learns that packets of more than `mtu` bytes do not get to the address of these words, since one of `bytes` did not. */
  learnPathMtu(w0: number, w1: number, w2: number, w3: number, mtu: number, bytes: number, now: Instant): void;
  /** An empty packet with room for the largest datagram, or `null` when the bound of these is reached. */
  acquireLarge(): Packet | null;
}

/** An ICMP error about a datagram of ours, as far as UDP needs it. */
export interface UdpError {
  /** 4 or 6: tells ICMP from ICMPv6. */
  readonly version: number;
  /** Message type. */
  readonly type: number;
  /** Message code. */
  readonly code: number;
  /** The next hop's MTU in "fragmentation needed" and "packet too big", else 0. */
  readonly mtu: number;
  /** Source address of the datagram: ours. */
  readonly src0: number;
  /** Its source, second word. */
  readonly src1: number;
  /** Its source, third word. */
  readonly src2: number;
  /** Its source, last word. */
  readonly src3: number;
  /** Its destination address. */
  readonly dst0: number;
  /** Its destination, second word. */
  readonly dst1: number;
  /** Its destination, third word. */
  readonly dst2: number;
  /** Its destination, last word. */
  readonly dst3: number;
  /** Its source port. */
  readonly srcPort: number;
  /** Its destination port. */
  readonly dstPort: number;
}
