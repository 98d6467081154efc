/**
 * What a stack is made of, checked and complete. {@linkcode parseHostConfig} makes this of what a user wrote.
 *
 * @module
 */

import type { Duration } from "../base/time.ts";
import type { NetemConfig } from "../impair/config.ts";
import { AddressKind, addressKind } from "../ip/address_kind.ts";
import type { ReversePathMode } from "../ip/reverse_path.ts";
import type { FqOptions } from "../qdisc/fq.ts";
import type { PfifoOptions } from "../qdisc/pfifo.ts";
import type { TcpOptions } from "../tcp/options.ts";
import type { KeepaliveOptions } from "../tunnel/keepalive.ts";
import type { LearnedBy } from "../tunnel/peer_table.ts";
import type { UdpOptions } from "../udp/udp.ts";
import type { IpAddr, IpInterface, IpPrefix } from "../wire/ip_addr.ts";

/** Metric of the routes to what the peers are allowed: static routes of the same prefix go first. */
export const ALLOWED_METRIC = 1024;

/** A UDP endpoint of the underlay. */
export interface Endpoint {
  /** IP address. */
  readonly address: IpAddr;
  /** Port; 0 for any when binding. */
  readonly port: number;
}

/**
 * How IP packets travel between peers; `none` for hosts of a simulator, whose interfaces are joined by links. The key of `gre`
 * is 0 for none.
 */
export type EncapsulationConfig =
  | { readonly kind: "raw" }
  | { readonly kind: "vxlan-gpe"; readonly vni: number }
  | { readonly kind: "gue" }
  | { readonly kind: "gre"; readonly key: number }
  | { readonly kind: "none" };

/** What becomes of the packets of a route, by iproute2's names. */
export type RouteType = "unicast" | "blackhole" | "unreachable" | "prohibit";

/** The queueing discipline and its options, by tc's names. */
export type QdiscConfig =
  | { readonly kind: "fq"; readonly options: FqOptions }
  | { readonly kind: "pfifo"; readonly options: PfifoOptions };

/** Settings of the Linux UDP port. */
export interface LinuxPortConfig {
  /** Send consecutive datagrams of one length to one peer as one message (`UDP_SEGMENT`). Default true. */
  readonly segment?: boolean;
  /** Let the kernel join datagrams that belong together before they are read (`UDP_GRO`). Default true. */
  readonly gro?: boolean;
  /** Bytes of the socket's receive buffer. Default 4 MiB. */
  readonly receiveBufferBytes?: number;
  /** Bytes of the socket's send buffer. Default 512 KiB. */
  readonly sendBufferBytes?: number;
}

/**
 * What sends and receives the datagrams: Linux's own calls by FFI, `node:dgram`, `Deno.listenDatagram`, or the first of
 * these that there is (where `Deno.listenDatagram` goes before `node:dgram`).
 */
export type PortConfig =
  | { readonly kind: "auto" | "dgram" | "deno" }
  | { readonly kind: "linux" } & LinuxPortConfig;

/** How a host waits for the next deadline. */
export type SleeperConfig = "timeout" | "hop" | "ppoll" | "spin";

/** Whether the ECN field of a packet is shown outside the tunnel (RFC 6040 section 4.1). */
export type EcnMode = "compatibility" | "normal";

/** Impairments of the two directions of a peer. */
export interface ImpairConfig {
  /** Of what comes from the peer, or `null`. */
  readonly in: NetemConfig | null;
  /** Of what goes to the peer, or `null`. */
  readonly out: NetemConfig | null;
}

/** A peer: a point-to-point interface. The first one has ifindex 1, and so on. */
export interface PeerConfig {
  /** Its name. */
  readonly name: string;
  /** Where it is on the underlay; `null` without encapsulation. */
  readonly endpoint: Endpoint | null;
  /** The inner addresses behind it: what it may send from, and what is routed to it. */
  readonly allowed: readonly IpPrefix[];
  /** The inner addresses that it may send from beside those (default none). */
  readonly accept?: readonly IpPrefix[];
  /** The largest inner packet in bytes. */
  readonly mtu: number;
  /** VXLAN network identifier, or key of GRE; 0 if the encapsulation has none. */
  readonly vni: number;
  /** Whether the routes have to know a way back to the source of what comes from it; not, if `null` (default). */
  readonly reversePath?: ReversePathMode | null;
  /** Whether the ECN field is shown outside the tunnel. */
  readonly ecn: EcnMode;
  /** Whether it is followed when it sends from elsewhere (default false). */
  readonly roaming?: boolean;
  /** Whether it gets keepalives, if the stack sends any (default true). */
  readonly keepalive?: boolean;
  /** Where its endpoint is known from (default `"config"`). */
  readonly learnedBy?: LearnedBy;
  /** The name by which its address is looked up, or `null` (default). */
  readonly hostname?: string | null;
  /** Impairments. */
  readonly impair: ImpairConfig;
}

/**
 * A TUN device of the system: an interface that leads to the kernel of this machine. Its ifindex is one above that of the last
 * peer.
 */
export interface TunConfig {
  /** Its name; `%d` in it is for the first free number. */
  readonly name: string;
  /** The kernel's addresses on the device, with their networks. */
  readonly addresses: readonly IpInterface[];
  /** What is routed to the kernel: its addresses, and what is behind it. */
  readonly allowed: readonly IpPrefix[];
  /** What the kernel routes to the device beside the networks of its addresses. */
  readonly routes: readonly IpPrefix[];
  /** The largest packet in bytes. */
  readonly mtu: number;
  /** Whether the routes have to know a way back to the source of what comes from the kernel; not, if `null`. */
  readonly reversePath: ReversePathMode | null;
}

/** A static route. */
export interface RouteConfig {
  /** The destinations. */
  readonly to: IpPrefix;
  /** Name of the peer that leads there; `null` if, and only if, the route is no unicast route. */
  readonly via: string | null;
  /** Preference among routes of one prefix, the lowest first. */
  readonly metric: number;
  /** What becomes of the packets (default unicast). */
  readonly kind?: RouteType;
  /** Share among unicast routes of one prefix and metric (default 1). */
  readonly weight?: number;
}

/** What a stack is made of. */
export interface StackOptions {
  /** The host's own inner addresses with their networks. */
  readonly addresses: readonly IpInterface[];
  /** The peers. */
  readonly peers: readonly PeerConfig[];
  /** The interface to the kernel of this machine; none, if `null` (default). */
  readonly tun?: TunConfig | null;
  /** Routes beside those to what the peers are allowed. */
  readonly routes: readonly RouteConfig[];
  /** True to forward packets for others. */
  readonly forward: boolean;
  /** True to lower the MSS option of SYNs that are forwarded to what the links carry (default false). */
  readonly clampMss?: boolean;
  /** How packets travel between peers. */
  readonly encapsulation: EncapsulationConfig;
  /** Keepalives to all peers, and when a silent one counts as dead; none, if `null` (default). */
  readonly keepalive?: KeepaliveOptions | null;
  /** The queueing discipline. */
  readonly qdisc: QdiscConfig;
  /** Settings of TCP; the defaults for what is left out. */
  readonly tcp: Partial<TcpOptions>;
  /** Settings of UDP. */
  readonly udp: UdpOptions;
  /** The most packets in use at once. */
  readonly poolPackets: number;
  /** Seed of all random streams; `null` if it is to be drawn. */
  readonly seed: number | null;
}

/** The configuration of a host: its stack, and the endpoints that it is bound to. */
export interface HostConfig extends StackOptions {
  /** Endpoints to bind, at most one of each family; empty for any port of each family that a peer needs. */
  readonly listen: readonly Endpoint[];
  /** How often the names of peers are looked up again. */
  readonly lookupInterval: Duration;
  /** What sends and receives the datagrams. */
  readonly port: PortConfig;
  /** How to wait; `null` for what suits the port. */
  readonly sleeper: SleeperConfig | null;
}

/** True if what is sent to `endpoint` comes to a socket that is bound to `own`, as far as the two tell by themselves. */
export function isSamePlace(own: Endpoint, endpoint: Endpoint): boolean {
  if (own.port === 0 || own.port !== endpoint.port) return false;
  const { address } = endpoint;
  if (own.address.equals(address)) return true;
  const { version, w0, w1, w2, w3 } = address;
  return own.address.isUnspecified && own.address.version === version &&
    addressKind(version, w0, w1, w2, w3) === AddressKind.Loopback;
}

/** An address and a port as text: `10.7.0.2:80`, `[fd07::2]:80`. */
export function formatEndpoint(address: IpAddr, port: number): string {
  return address.isV4 ? `${address}:${port}` : `[${address}]:${port}`;
}
