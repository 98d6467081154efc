/**
 * A snapshot of a stack as plain values: what `ip addr`, `ip route`, `tc -s qdisc`, `ss` and `nstat` would say.
 *
 * @module
 */

import { type Instant, NEVER, toMilliseconds } from "../base/time.ts";
import { formatNetem } from "../impair/format.ts";
import { RouteKind } from "../ip/route_table.ts";
import type { NetemReport } from "../impair/meter.ts";
import type { CongestionEvent } from "../tcp/congestion_trace.ts";
import type { TcpInfo } from "../tcp/info.ts";
import type { PeerState } from "../tunnel/keepalive.ts";
import type { LearnedBy } from "../tunnel/peer_table.ts";
import type { InterfaceStages } from "./interface_stages.ts";
import { formatEndpoint } from "./options.ts";
import type { Stack } from "./stack.ts";

/** An impairment and its counters. */
export interface ImpairSnapshot {
  /** What it does, as netem's text. */
  netem: string;
  /** Its counters; none before its first packet. */
  stats: Record<string, number>;
  /** What it was asked for and what it gave since it was last changed; `null` before its first packet. */
  report: NetemReport | null;
}

/** An interface, which is a peer or the kernel of this machine, and its counters. */
export interface InterfaceSnapshot {
  /** Index. */
  ifindex: number;
  /** Name of the peer, or of the TUN device. */
  name: string;
  /** Largest inner packet in bytes. */
  mtu: number;
  /** Where the peer is on the underlay, or `null`; `null` for the kernel. */
  endpoint: string | null;
  /** Where that is known from, or `null`. */
  learnedBy: LearnedBy | null;
  /** The name by which it is looked up, or `null`. */
  hostname: string | null;
  /** How often the peer moved. */
  moves: number;
  /** The inner addresses behind it. */
  allowed: string[];
  /** Packets received and let in. */
  packetsIn: number;
  /** Their bytes, from the inner IP header on. */
  bytesIn: number;
  /** Packets sent. */
  packetsOut: number;
  /** Their bytes, from the inner IP header on. */
  bytesOut: number;
  /** What keepalives say of the peer; `null` if it gets none. */
  state: PeerState | null;
  /** When something was heard of the peer last, in milliseconds since the start; `null` if nothing was, or it gets no keepalives. */
  lastHeard: number | null;
  /** Packets of the peer that were not let in, by reason. */
  drops: Record<string, number>;
  /** Impairment of what comes in, or `null`. */
  impairIn: ImpairSnapshot | null;
  /** Impairment of what goes out, or `null`. */
  impairOut: ImpairSnapshot | null;
}

/** A TCP connection. */
export interface ConnectionSnapshot {
  /** Own address and port. */
  local: string;
  /** Remote address and port. */
  remote: string;
  /** Its state, timers, windows and counters. */
  info: TcpInfo;
  /** The latest congestion events, the oldest first. */
  congestionEvents: CongestionEvent[];
}

/** A UDP socket. */
export interface UdpSnapshot {
  /** Own address and port. */
  local: string;
  /** Remote address and port of a connected socket, or `null`. */
  remote: string | null;
  /** Datagrams waiting to be received. */
  queued: number;
  /** Datagrams sent. */
  sent: number;
  /** Datagrams received. */
  received: number;
  /** Datagrams dropped since the receive buffer was full. */
  dropped: number;
}

/** A ping socket. */
export interface PingSnapshot {
  /** Own address. */
  local: string;
  /** The host that is pinged. */
  remote: string;
  /** Requests sent. */
  sent: number;
  /** Requests answered. */
  received: number;
  /** Further answers. */
  duplicates: number;
  /** Requests that ended in an ICMP error. */
  errors: number;
  /** Requests that nobody answered in time. */
  timeouts: number;
}

/** Everything about a stack. */
export interface StackSnapshot {
  /** When the snapshot was taken, in milliseconds since the stack's start. */
  time: number;
  /** Own addresses with their prefix lengths. */
  addresses: string[];
  /** The interfaces. */
  interfaces: InterfaceSnapshot[];
  /** The routes: destination, peer (`""` for what leads to none), metric, type and share. */
  routes: { to: string; via: string; metric: number; type: string; weight: number }[];
  /** True if packets for others are forwarded. */
  forward: boolean;
  /** Packets forwarded. */
  forwarded: number;
  /** Datagrams: cut and the fragments made of them, put together, given up since fragments were missing, incomplete now. */
  fragments: { cut: number; made: number; joined: number; timedOut: number; incomplete: number };
  /** SYNs whose MSS option was lowered. */
  clamped: number;
  /** ICMP errors sent, and not sent because of the rate limit. */
  icmpErrors: { sent: number; limited: number };
  /** SYN cookies sent, those that came back and opened a connection, and acknowledgments that were none. */
  synCookies: { sent: number; accepted: number; failed: number };
  /** The queueing discipline and its counters, by tc's names. */
  qdisc: { kind: string; stats: Record<string, number> };
  /** Packets in use and the most there may be. */
  pool: { inUse: number; limit: number };
  /** Drops by reason, of all layers. */
  drops: Record<string, number>;
  /** TCP connections. */
  tcp: ConnectionSnapshot[];
  /** UDP sockets. */
  udp: UdpSnapshot[];
  /** Ping sockets. */
  ping: PingSnapshot[];
}

/** Takes the snapshot. */
export function inspectStack(stack: Stack, now: Instant): StackSnapshot {
  const names = new Map(stack.ip.interfaces.map((link) => [link.ifindex, link.name]));
  return {
    time: toMilliseconds(now),
    addresses: stack.ip.addresses.map(String),
    interfaces: stack.ip.interfaces.map(({ ifindex, name }) => {
      const peer = stack.tunnel?.peers.byIfindex(ifindex) ?? null;
      const keepalives = stack.keepalives?.has(ifindex) ? stack.keepalives : null;
      const heardAt = keepalives?.heardAt(ifindex) ?? -NEVER;
      const { device } = stack;
      const counted = peer ?? (device?.ifindex === ifindex ? device : null);
      const { allowed } = device?.ifindex === ifindex ? device : stack.options.peers[ifindex - 1]!;
      return {
        ifindex,
        name,
        mtu: stack.ip.mtuOf(ifindex),
        endpoint: peer === null ? null : formatEndpoint(peer.address, peer.port),
        learnedBy: peer?.learnedBy ?? null,
        hostname: stack.options.peers[ifindex - 1]?.hostname ?? null,
        moves: peer?.moves ?? 0,
        allowed: allowed.map(String),
        packetsIn: counted?.packetsIn ?? 0,
        bytesIn: counted?.bytesIn ?? 0,
        packetsOut: counted?.packetsOut ?? 0,
        bytesOut: counted?.bytesOut ?? 0,
        state: keepalives?.state(ifindex) ?? null,
        lastHeard: heardAt === -NEVER ? null : toMilliseconds(heardAt),
        drops: peer?.drops ?? {},
        impairIn: inspectImpair(stack.ingress, ifindex, now),
        impairOut: inspectImpair(stack.egress, ifindex, now),
      };
    }),
    routes: Array.from(stack.ip.routes, ({ prefix, ifindex, metric, kind, weight }) => ({
      to: `${prefix}`,
      via: names.get(ifindex) ?? "",
      metric,
      type: RouteKind[kind]!.toLowerCase(),
      weight,
    })),
    forward: stack.ip.forward,
    forwarded: stack.ip.forwarded,
    fragments: {
      cut: stack.ip.fragmented.packets,
      made: stack.ip.fragmented.fragments,
      joined: stack.ip.reassembly.completed,
      timedOut: stack.ip.reassembly.timedOut,
      incomplete: stack.ip.reassembly.size,
    },
    clamped: stack.ip.clamped,
    icmpErrors: { sent: stack.ip.errors.sent, limited: stack.ip.errors.limited },
    synCookies: { ...stack.tcp.synCookies },
    qdisc: { kind: stack.qdisc.kind, stats: stack.qdisc.stats(now) },
    pool: { inUse: stack.pool.inUse, limit: stack.pool.limit },
    drops: stack.drops.toJSON(),
    tcp: Array.from(stack.tcp.connections(), (t) => ({
      local: formatEndpoint(t.localAddress, t.localPort),
      remote: formatEndpoint(t.remoteAddress, t.remotePort),
      info: t.info(),
      congestionEvents: t.trace?.events() ?? [],
    })),
    udp: stack.udp.sockets().map((s) => ({
      local: formatEndpoint(s.localAddress, s.localPort),
      remote: s.remoteAddress === null ? null : formatEndpoint(s.remoteAddress, s.remotePort),
      queued: s.queuedDatagrams,
      sent: s.sentDatagrams,
      received: s.receivedDatagrams,
      dropped: s.droppedDatagrams,
    })),
    ping: stack.icmp.sockets().map((s) => ({
      local: `${s.localAddress}`,
      remote: `${s.remoteAddress}`,
      sent: s.sent,
      received: s.received,
      duplicates: s.duplicates,
      errors: s.errors,
      timeouts: s.timeouts,
    })),
  };
}

function inspectImpair(stages: InterfaceStages, ifindex: number, now: Instant): ImpairSnapshot | null {
  const config = stages.config(ifindex);
  const stage = stages.get(ifindex);
  if (config === null) return null;
  return { netem: formatNetem(config), stats: stage?.stats() ?? {}, report: stage?.report(now) ?? null };
}
