/**
 * The world as the transports see it: the IP layer, the pool, the queues and the events of one stack.
 *
 * @module
 */

import { type DropCounters, DropReason, type DropSink } from "../base/drop.ts";
import type { EventQueue } from "../base/event_queue.ts";
import type { Packet, PacketPool } from "../base/packet.ts";
import type { Rng } from "../base/rng.ts";
import type { Duration, Instant } from "../base/time.ts";
import type { IcmpNetwork } from "../icmp/network.ts";
import type { IpLayer } from "../ip/ip_layer.ts";
import type { Qdisc } from "../qdisc/qdisc.ts";
import type { TcpNetwork } from "../tcp/network.ts";
import type { UdpNetwork } from "../udp/network.ts";
import type { IpAddr } from "../wire/ip_addr.ts";
import type { IpHeader } from "../wire/ip_header.ts";

/** The parts of a stack that transports use. */
export interface StackNetworkParts {
  /** Packets. */
  readonly pool: PacketPool;
  /** Drops. */
  readonly sink: DropSink;
  /** Their counters; what could not be sent since the pool was at its bound is counted here. */
  readonly drops: DropCounters;
  /** Events of sockets. */
  readonly events: EventQueue;
  /** IP. */
  readonly ip: IpLayer;
  /** The queue to the outside. */
  readonly qdisc: Qdisc;
  /** The queue to the host itself. */
  readonly loopback: Qdisc;
  /** TCP's random stream. */
  readonly tcpRng: Rng;
  /** The key of what of TCP nobody may guess, if it is not to come from that stream. */
  readonly tcpSecret: Int32Array | undefined;
}

/** What TCP, UDP and ICMP need of a stack. */
export class StackNetwork implements TcpNetwork, UdpNetwork, IcmpNetwork {
  /** Events of sockets. */
  readonly events: EventQueue;
  /** TCP's random stream. */
  readonly rng: Rng;
  /** The key of what of TCP nobody may guess. */
  readonly secret: Int32Array | undefined;
  /** What {@linkcode StackNetwork.lateness} says; whoever drives the stack in real time sets it. */
  departureLateness: Duration = 0;
  readonly #parts: StackNetworkParts;

  /** Joins the parts. */
  constructor(parts: StackNetworkParts) {
    this.events = parts.events;
    this.rng = parts.tcpRng;
    this.secret = parts.tcpSecret;
    this.#parts = parts;
  }

  /** An empty packet, or `null` when the pool is at its bound. */
  acquire(): Packet | null {
    const p = this.#parts.pool.acquire();
    if (p === null) this.#parts.drops.count(DropReason.PoolExhausted);
    return p;
  }

  /** Frees a packet that served its purpose. */
  release(p: Packet): void {
    this.#parts.pool.release(p);
  }

  /** Counts and frees a packet. */
  drop(p: Packet, reason: DropReason, now: Instant): void {
    this.#parts.sink.drop(p, reason, now);
  }

  /** Sends what stands in `p` from its transport header on. */
  output(p: Packet, ip: IpHeader, now: Instant): DropReason {
    return this.#parts.ip.output(p, ip, now);
  }

  /** The address to send from to reach `destination`. */
  sourceFor(destination: IpAddr): IpAddr | null {
    return this.#parts.ip.sourceFor(destination);
  }

  /** True for an address of this host. */
  isLocal(address: IpAddr): boolean {
    return this.#parts.ip.isLocal(address.w0, address.w1, address.w2, address.w3);
  }

  /** The largest IP packet towards `destination` in bytes; 0 without a route. */
  mtuTo(destination: IpAddr): number {
    return this.#parts.ip.mtuTo(destination);
  }

  /** The largest IP packet in bytes that is known to get to `destination`; 0 without a route. */
  pathMtuTo(destination: IpAddr, now: Instant): number {
    return this.#parts.ip.pathMtuTo(destination, now);
  }

  /** Learns that packets of more than `mtu` bytes do not get to the address of these words, since one of `bytes` did not. */
  learnPathMtu(w0: number, w1: number, w2: number, w3: number, mtu: number, bytes: number, now: Instant): void {
    this.#parts.ip.learnPathMtu(w0, w1, w2, w3, mtu, bytes, now);
  }

  /** An empty packet with room for the largest datagram, or `null` when the bound of these is reached. */
  acquireLarge(): Packet | null {
    const p = this.#parts.pool.acquireLarge();
    if (p === null) this.#parts.drops.count(DropReason.PoolExhausted);
    return p;
  }

  /** Has the queues space a flow whose packets are not stamped at this rate. */
  setFlowRate(flow: number, rateBytesPerSec: number): void {
    this.#parts.qdisc.setFlowRate(flow, rateBytesPerSec);
    this.#parts.loopback.setFlowRate(flow, rateBytesPerSec);
  }

  /** Has the queues forget what they know of a flow. */
  resetFlow(flow: number): void {
    this.#parts.qdisc.resetFlow(flow);
    this.#parts.loopback.resetFlow(flow);
  }

  /** How late departures are, by measurement. */
  lateness(): Duration {
    return this.departureLateness;
  }

  /** Bytes of a flow that the queues hold. */
  flowBacklog(flow: number): number {
    return this.#parts.qdisc.flowBacklog(flow) + this.#parts.loopback.flowBacklog(flow);
  }
}
