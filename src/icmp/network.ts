/**
 * What ICMP needs of the stack that it is part of, and what it gives to the transports: the errors about their packets.
 *
 * @module
 */

import type { DropReason, DropSink } from "../base/drop.ts";
import type { EventQueue } from "../base/event_queue.ts";
import type { Packet } from "../base/packet.ts";
import type { Instant } from "../base/time.ts";
import type { IpAddr } from "../wire/ip_addr.ts";
import type { IpHeader } from "../wire/ip_header.ts";

/** The world as ICMP sees it. */
export interface IcmpNetwork extends DropSink {
  /** Where events of ping sockets are raised. */
  readonly events: EventQueue;
  /** An empty packet, or `null` when the pool is at its bound. */
  acquire(): Packet | null;
  /** Frees a packet that served its purpose (this is no drop). */
  release(p: Packet): void;
  /** Sends a message that stands in `p` from its ICMP header on; on a reason other than `None` the caller keeps `p`. */
  output(p: Packet, ip: IpHeader, now: Instant): DropReason;
  /** The address to send from to reach `destination`, or `null` without one of its family. */
  sourceFor(destination: IpAddr): IpAddr | null;
  /** The largest IP packet towards `destination` in bytes; 0 without a route. */
  mtuTo(destination: IpAddr): number;
  /** Learns that packets of more than `mtu` bytes do not get to the address of these words, since one of `bytes` did not. */
  learnPathMtu(w0: number, w1: number, w2: number, w3: number, mtu: number, bytes: number, now: Instant): void;
}

/** An ICMP error about a packet of ours. One record is filled again for each error: copy what is to last. */
export class IcmpError {
  /** 4 or 6: tells ICMP from ICMPv6. */
  version = 4;
  /** Message type. */
  type = 0;
  /** Message code. */
  code = 0;
  /** The next hop's MTU in "fragmentation needed" and "packet too big", else 0. */
  mtu = 0;
  /** Who sent the error, four words. */
  from0 = 0;
  /** Who sent the error, second word. */
  from1 = 0;
  /** Who sent the error, third word. */
  from2 = 0;
  /** Who sent the error, last word. */
  from3 = 0;
  /** Protocol of the packet of ours. */
  protocol = 0;
  /** Its source: an address of ours. */
  src0 = 0;
  /** Its source, second word. */
  src1 = 0;
  /** Its source, third word. */
  src2 = 0;
  /** Its source, last word. */
  src3 = 0;
  /** Its destination. */
  dst0 = 0;
  /** Its destination, second word. */
  dst1 = 0;
  /** Its destination, third word. */
  dst2 = 0;
  /** Its destination, last word. */
  dst3 = 0;
  /** TCP and UDP: its source port. ICMP: type and code. */
  srcPort = 0;
  /** TCP and UDP: its destination port. ICMP: the checksum. */
  dstPort = 0;
  /** TCP: its sequence number, int32. ICMP echo: identifier and sequence number. */
  seq = 0;
}

/** The transports, told about errors. */
export interface IcmpErrorSink {
  /** An error quotes a packet that came from an address of ours, by TCP or UDP. `error` is valid until the return. */
  icmpError(error: IcmpError, now: Instant): void;
}
