/**
 * What TCP needs of the layers below and of the stack that it is part of.
 *
 * @module
 */

import type { DropReason, DropSink } from "../base/drop.ts";
import type { EventQueue } from "../base/event_queue.ts";
import type { Packet } from "../base/packet.ts";
import type { Rng } from "../base/rng.ts";
import type { Duration, Instant } from "../base/time.ts";
import type { IpAddr } from "../wire/ip_addr.ts";
import type { IpHeader } from "../wire/ip_header.ts";

/** The world as TCP sees it. */
export interface TcpNetwork extends DropSink {
  /** Where events for the layer above are raised. */
  readonly events: EventQueue;
  /** TCP's own random stream, for initial sequence numbers, ports and timestamp offsets. */
  readonly rng: Rng;
  /** Four words that nobody can guess, the key of what must not be predictable; without it they are drawn from `rng`. */
  readonly secret?: Int32Array | undefined;
  /** An empty packet, or `null` when the pool is at its bound. */
  acquire(): Packet | null;
  /** Frees a packet that served its purpose (this is no drop). */
  release(p: Packet): void;
  /**
   * Sends a segment that stands in `p` from its TCP header on, with the addresses and the protocol in `ip`. On a
   * reason other than `None` the packet stays with TCP.
   */
  output(p: Packet, ip: IpHeader, now: Instant): DropReason;
  /** The address to send from to reach `destination`, or `null` without a route. */
  sourceFor(destination: IpAddr): IpAddr | null;
  /** True for an address of this host. */
  isLocal(address: IpAddr): boolean;
  /** MTU of the link towards `destination` in bytes; 0 without a route. */
  mtuTo(destination: IpAddr): number;
  /** The largest IP packet that is known to get to `destination`, in bytes; 0 without a route. */
  pathMtuTo(destination: IpAddr, now: Instant): number;
  /** Learns that packets of more than `mtu` bytes do not get to the address of these words, since one of `bytes` did not. */
  learnPathMtu(w0: number, w1: number, w2: number, w3: number, mtu: number, bytes: number, now: Instant): void;
  /** Bytes of a flow that the queueing discipline holds. */
  flowBacklog(flow: number): number;
  /** Tells the queueing discipline the rate at which it is to space a flow whose packets are not stamped. */
  setFlowRate(flow: number, rateBytesPerSec: number): void;
  /** Has the queueing discipline forget what it knows of a flow: a new connection has its id. */
  resetFlow(flow: number): void;
  /** How late departures are, by measurement (99th percentile); 0 under a virtual clock. */
  lateness(): Duration;
}
