/**
 * Why a packet was dropped. Every drop in Culvert has one of these reasons, and every reason has a counter that a
 * user can read.
 *
 * `DropReason.None` is 0 and means "taken": functions that may refuse a packet return a reason, and the caller who
 * still owns the packet counts and frees it. Nothing coming from the network ever throws.
 *
 * @module
 */

import type { Packet } from "./packet.ts";

/** The reasons for which a packet can be dropped; 0 means that it was not. */
export enum DropReason {
  /** Taken, not dropped. */
  None = 0,
  /** Shorter than its header says or needs. */
  Truncated,
  /** The IP version nibble is neither 4 nor 6, or not the expected one. */
  BadVersion,
  /** A header length field is out of range. */
  BadHeaderLength,
  /** A length field contradicts the packet. */
  BadLength,
  /** The IPv4 header checksum is wrong. */
  BadIpChecksum,
  /** The TCP checksum is wrong. */
  BadTcpChecksum,
  /** The UDP checksum is wrong, or zero where zero is not allowed. */
  BadUdpChecksum,
  /** The ICMP or ICMPv6 checksum is wrong. */
  BadIcmpChecksum,
  /** A TCP option runs past the header or has an impossible length. */
  BadTcpOption,
  /** The tunnel header is not one that we speak. */
  BadEncapsulation,
  /** The datagram came from an endpoint that is no peer. */
  UnknownPeer,
  /** Congestion was marked outside the tunnel on a packet whose transport knows no ECN (RFC 6040). */
  CeNotEct,
  /** The inner source address is not among the peer's allowed prefixes. */
  SourceNotAllowed,
  /** Source or destination that no packet on a wire may have (loopback, multicast or unspecified source, …). */
  Martian,
  /** No route leads to the destination. */
  NoRoute,
  /** For another host, and this host does not forward. */
  NotForwarding,
  /** TTL or hop limit ran out on the way. */
  TtlExceeded,
  /** Larger than the MTU of the link that it would leave by. */
  TooBig,
  /** A fragment that is impossible: of a length that no fragment has, or beyond the end of its datagram. */
  Fragment,
  /** The IP protocol is not one that this host speaks. */
  UnknownProtocol,
  /** An ICMP message of a type that is ignored. */
  IcmpIgnored,
  /** No socket is bound to the destination port. */
  NoSocket,
  /** The socket's receive buffer is full. */
  ReceiveBufferFull,
  /** The packet pool had no free slot. */
  PoolExhausted,
  /** The queueing discipline as a whole is full. */
  QdiscLimit,
  /** The flow's queue is full. */
  FlowLimit,
  /** The departure time lies beyond the horizon. */
  Horizon,
  /** Lost by the impairment, as asked. */
  ImpairLoss,
  /** The impairment's queue is full. */
  ImpairLimit,
  /** Thrown away by a link of the simulator that is down. */
  LinkDown,
  /** A bottleneck of the simulator has no room left in its queue. */
  LinkFull,
  /** The UDP socket below refused the datagram. */
  PortSend,
  /** TCP: the timestamp is older than TS.Recent (RFC 7323 PAWS). */
  TcpPaws,
  /** TCP: the sequence number is outside the receive window. */
  TcpOutOfWindow,
  /** TCP: the acknowledgment number is not acceptable. */
  TcpBadAck,
  /** TCP: a reset that is not exactly in sequence (RFC 5961). */
  TcpBadReset,
  /** TCP: a SYN inside an established connection (RFC 5961). */
  TcpBadSyn,
  /** TCP: flags that make no sense in this state. */
  TcpBadFlags,
  /** TCP: the listener's backlog is full. */
  TcpBacklog,
  /** TCP: no connection and no listener matches. */
  TcpNoConnection,
  /** TCP: out-of-order data for which there is no room to remember it. */
  TcpReassemblyFull,
  /** Still queued when the stack was closed. */
  Closed,
  /** The route to the destination is a blackhole. */
  Blackhole,
  /** The route to the destination says that it is unreachable. */
  Unreachable,
  /** The route to the destination says that it is prohibited. */
  Prohibited,
  /** No route, or one by another interface, leads back to the source (reverse-path filter). */
  ReversePath,
  /** An IP option, or an option of an IPv6 extension header, that is malformed or asks for the packet to be dropped. */
  BadIpOption,
  /** The packet asks for a route of its own (IPv4 source route, IPv6 routing header), which is refused. */
  SourceRoute,
  /** An IPv6 extension header is malformed, or there are too many. */
  BadExtensionHeader,
  /** An IPv6 packet, or a GUE header, that says that nothing follows. */
  NoNextHeader,
  /** A fragment that overlaps another of its datagram, or belongs to a datagram with such fragments. */
  FragmentOverlap,
  /** A fragment of a datagram of which not all came in time. */
  FragmentTimeout,
  /** A fragment for which there is no room, or one too many of its datagram. */
  FragmentLimit,
  /** Tunnels within tunnels, too deep. */
  TunnelNesting,
  /** A packet of a peer that only says that the peer is there. */
  Keepalive,
  /** Number of reasons; not a reason. */
  Count,
}

const NAMES: readonly string[] = Array.from(
  { length: DropReason.Count },
  (_, reason) => DropReason[reason]!.replace(/(?<=[a-z0-9])(?=[A-Z])/g, "-").toLowerCase(),
);

/** The reason's name in kebab-case, as shown in statistics: `"unknown-peer"`. */
export function dropReasonName(reason: DropReason): string {
  return NAMES[reason] ?? `reason-${reason}`;
}

/** Takes ownership of a packet that is dropped: counts the reason and frees the packet. */
export interface DropSink {
  /** Drops `p` for `reason` at `now`; the caller may not touch `p` afterwards. */
  drop(p: Packet, reason: DropReason, now: number): void;
}

/** One counter a reason. */
export class DropCounters {
  readonly #counts = new Float64Array(DropReason.Count);

  /** Counts one drop. */
  count(reason: DropReason): void {
    this.#counts[reason]! += 1;
  }

  /** How often `reason` was counted. */
  get(reason: DropReason): number {
    return this.#counts[reason] ?? 0;
  }

  /** All drops together. */
  total(): number {
    return this.#counts.reduce((sum, n) => sum + n, 0);
  }

  /** The reasons that occurred, by name. */
  toJSON(): Record<string, number> {
    const out: Record<string, number> = {};
    this.#counts.forEach((n, reason) => {
      if (n > 0) out[dropReasonName(reason)] = n;
    });
    return out;
  }
}
