/**
 * What the IP layer needs of its neighbours: the transports above and the queue below. The stack joins them.
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import type { Instant } from "../base/time.ts";
import type { IpHeader } from "../wire/ip_header.ts";
import type { ReversePathMode } from "./reverse_path.ts";

/** The interface index that stands for the host itself: packets to an own address leave and come in by it. */
export const LOOPBACK_IFINDEX = 0;

/** The transports: given each packet that is for this host. */
export interface IpUpper {
  /**
   * Takes a packet for this host. `p.start` is at the IP header, `p.l4` at the transport header, `p.end` at the end
   * that the IP header states.
   *
   * @param p the packet; the callee passes it on or frees it
   * @param ip its header, valid until the call returns
   * @param now the time
   */
  input(p: Packet, ip: IpHeader, now: Instant): void;
}

/** The queue below: given each packet that is to leave. */
export interface IpLower {
  /**
   * Takes a complete IP packet with `ifindex` ({@linkcode LOOPBACK_IFINDEX} for the host itself), `flow` and
   * `departAt` set.
   */
  send(p: Packet, now: Instant): void;
}

/** A point-to-point interface, as the IP layer knows it. */
export interface NetInterface {
  /** Its index, a small integer of at least 1. */
  readonly ifindex: number;
  /** Its name, for people. */
  readonly name: string;
  /** The largest IP packet that it carries, in bytes. */
  readonly mtu: number;
  /** Whether the way back to the source of what comes by it is checked; not, if `null` or left out. */
  readonly reversePath?: ReversePathMode | null;
}
