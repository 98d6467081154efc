/**
 * UDP of a host (RFC 768): which socket a datagram is for, and how datagrams leave.
 *
 * Sockets are found by own address and port, first with the very address, then with "all of the family". Two sockets may
 * share a port only on different addresses; one bound to all of a family takes the port for the family. A connected
 * socket is found the same way and then has to match the remote end.
 *
 * A datagram that finds no socket is refused with `NoSocket`, which the stack answers by "port unreachable"; one that
 * finds a full socket is `ReceiveBufferFull` and never answered.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import { SocketErrorKind } from "../base/errors.ts";
import { SocketEvent } from "../base/event_queue.ts";
import { hashAddress, hashMix } from "../base/hash.ts";
import { HashTable } from "../base/hash_table.ts";
import type { Packet } from "../base/packet.ts";
import type { Rng } from "../base/rng.ts";
import type { Instant } from "../base/time.ts";
import { Icmpv4Type, Icmpv6Type } from "../wire/icmp.ts";
import type { IpAddr } from "../wire/ip_addr.ts";
import { IpHeader, ipHeaderBytes, IpProtocol } from "../wire/ip_header.ts";
import { IPV4_PATH_MTU_MIN } from "../wire/ipv4.ts";
import { IPV6_MTU_MIN } from "../wire/ipv6.ts";
import { emitUdp, parseUdp, UDP_HEADER_BYTES, UdpHeader } from "../wire/udp.ts";
import type { UdpError, UdpNetwork } from "./network.ts";
import { type UdpHost, UdpSocket } from "./udp_socket.ts";

/** First ephemeral port (RFC 6335 section 6). */
export const EPHEMERAL_PORT_FIRST = 49152;

/** Last ephemeral port. */
export const EPHEMERAL_PORT_LAST = 65535;

/** Settings of a host's UDP. */
export interface UdpOptions {
  /** Receive buffer of a socket in bytes, 28 bytes a datagram included (default 212,992, as Linux). */
  readonly receiveBufferBytes: number;
  /** The most sockets (default 65,536). */
  readonly socketLimit: number;
}

/** The defaults. */
export const DEFAULT_UDP_OPTIONS: UdpOptions = { receiveBufferBytes: 212_992, socketLimit: 65_536 };

/** The largest IP packet. */
const DATAGRAM_BYTES_MAX = 65_535;

const V4_FRAGMENTATION_NEEDED = 4;
const V4_PORT_UNREACHABLE = 3;
const V4_PROTOCOL_UNREACHABLE = 2;
const V6_PORT_UNREACHABLE = 4;

/** UDP of one host. */
export class Udp implements UdpHost {
  readonly #network: UdpNetwork;
  readonly #rng: Rng;
  readonly #seed: number;
  readonly #options: UdpOptions;
  readonly #sockets: HashTable<UdpSocket>;
  /** Sockets by port, and by port + 65,536 for IPv6. */
  readonly #portUse = new Map<number, number>();
  readonly #header = new UdpHeader();
  readonly #out = new IpHeader();

  /**
   * Makes the UDP of a host.
   *
   * @param network the stack
   * @param rng stream for ephemeral ports
   * @param options sizes
   */
  constructor(network: UdpNetwork, rng: Rng, options: UdpOptions = DEFAULT_UDP_OPTIONS) {
    this.#network = network;
    this.#rng = rng;
    this.#seed = rng.u32() | 0;
    this.#options = options;
    this.#sockets = new HashTable<UdpSocket>(options.socketLimit);
  }

  /** Takes a datagram that came for us. On a reason other than `None` the caller keeps the packet. */
  input(p: Packet, ip: IpHeader, now: Instant): DropReason {
    const h = this.#header;
    const reason = parseUdp(p.view, p.l4, p.end, ip, h);
    if (reason !== DropReason.None) return reason;
    const socket = this.#find(ip.dst0, ip.dst1, ip.dst2, ip.dst3, h.dstPort);
    if (socket === null) return DropReason.NoSocket;
    if (
      socket.remoteAddress !== null &&
      (socket.remotePort !== h.srcPort || !socket.remoteAddress.equalsWords(ip.src0, ip.src1, ip.src2, ip.src3))
    ) return DropReason.NoSocket;
    const from = p.l4 + UDP_HEADER_BYTES;
    const to = p.l4 + h.length;
    if (!socket.onDatagram(ip.src0, ip.src1, ip.src2, ip.src3, h.srcPort, p.bytes, from, to, now)) {
      return DropReason.ReceiveBufferFull;
    }
    this.#network.events.raise(socket, SocketEvent.Readable);
    this.#network.release(p);
    return DropReason.None;
  }

  /**
   * Binds a socket.
   *
   * @param local an own address, or the unspecified address for all of its family
   * @param port 1 to 65,535, or 0 for a free ephemeral port
   * @returns the socket, or `AddrInUse`, `AddrNotAvailable` (no own address, or no port free), `NoBufferSpace`
   * @throws {RangeError} for a port out of range
   */
  bind(local: IpAddr, port: number): UdpSocket | SocketErrorKind {
    if (!Number.isInteger(port) || port < 0 || port > 65535) {
      throw new RangeError(`the port must be an integer from 0 to 65535, got ${port}`);
    }
    if (!local.isUnspecified && !this.#network.isLocal(local)) return SocketErrorKind.AddrNotAvailable;
    const chosen = port === 0 ? this.#ephemeralPort(local) : port;
    if (chosen === 0) return SocketErrorKind.AddrNotAvailable;
    if (this.#isTaken(local, chosen)) return SocketErrorKind.AddrInUse;
    const socket = new UdpSocket(this, local, chosen, this.#options.receiveBufferBytes);
    return this.#insert(socket) ? socket : SocketErrorKind.NoBufferSpace;
  }

  /** The sockets that are open; for inspection. */
  sockets(): UdpSocket[] {
    return [...this.#sockets.values()];
  }

  /**
   * Told of an ICMP error about a datagram of ours. "Nobody there" and "too big" reach a connected socket; of the latter the
   * path MTU is learnt too, also for a socket that is not connected (which then finds it out when it sends).
   */
  icmpError(e: UdpError, now: Instant): void {
    const error = kindOf(e);
    if (error === SocketErrorKind.None) return;
    const socket = this.#find(e.src0, e.src1, e.src2, e.src3, e.srcPort);
    if (socket === null) return;
    const { remoteAddress } = socket;
    if (
      remoteAddress !== null &&
      (socket.remotePort !== e.dstPort || !remoteAddress.equalsWords(e.dst0, e.dst1, e.dst2, e.dst3))
    ) return;
    if (error === SocketErrorKind.MessageTooLong) {
      // It cannot have been too big for a link that carries it (RFC 5927 section 7.2), and IPv6 has no smaller links.
      const bytes = socket.largestPacketBytes;
      if (e.mtu >= bytes || (e.version === 6 && e.mtu < IPV6_MTU_MIN)) return;
      this.#network.learnPathMtu(e.dst0, e.dst1, e.dst2, e.dst3, e.mtu, bytes, now);
      if (socket.pathMtuDiscovery === "dont" || socket.pathMtuDiscovery === "want") return;
    }
    if (remoteAddress === null) return;
    socket.onError(error);
    this.#network.events.raise(socket, SocketEvent.Readable);
  }

  /** Sends one datagram of `socket`; see {@linkcode UdpSocket.send}. */
  sendDatagram(
    socket: UdpSocket,
    bytes: Uint8Array,
    remote: IpAddr,
    port: number,
    departAt: Instant,
    now: Instant,
  ): SocketErrorKind {
    const source = socket.localAddress.isUnspecified ? this.#network.sourceFor(remote) : socket.localAddress;
    if (source === null) return SocketErrorKind.AddrNotAvailable;
    const mtu = this.#network.mtuTo(remote);
    if (mtu === 0) return SocketErrorKind.HostUnreachable;
    const discovery = socket.pathMtuDiscovery;
    const length = UDP_HEADER_BYTES + bytes.length;
    const total = ipHeaderBytes(remote.version) + length;
    const most = discovery === "probe" || discovery === "dont" ? mtu : this.#network.pathMtuTo(remote, now);
    const mayCut = discovery === "dont" || discovery === "want";
    if (total > (mayCut ? DATAGRAM_BYTES_MAX : most)) return SocketErrorKind.MessageTooLong;
    const p = total > most ? this.#network.acquireLarge() : this.#network.acquire();
    if (p === null) return SocketErrorKind.NoBufferSpace;
    p.bytes.set(bytes, p.start + UDP_HEADER_BYTES);
    p.end = p.start + length;
    const ip = this.#out;
    ip.setAddresses(source, remote);
    ip.setDefaults(IpProtocol.Udp, length);
    ip.ttl = socket.ttl;
    ip.trafficClass = socket.trafficClass;
    // At the floor no smaller path MTU is believed: a router must be free to cut (Linux: a "locked" MTU).
    const isAtFloor = discovery === "want" && most <= IPV4_PATH_MTU_MIN;
    ip.dontFragment = discovery !== "dont" && total <= most && !isAtFloor;
    const h = this.#header;
    h.srcPort = socket.localPort;
    h.dstPort = port;
    h.length = length;
    emitUdp(p.view, p.start, ip, h);
    p.departAt = departAt;
    const reason = this.#network.output(p, ip, now);
    if (reason !== DropReason.None) {
      this.#network.drop(p, reason, now);
      if (reason === DropReason.PoolExhausted) return SocketErrorKind.NoBufferSpace;
      return reason === DropReason.TooBig ? SocketErrorKind.MessageTooLong : SocketErrorKind.HostUnreachable;
    }
    socket.sentDatagrams++;
    socket.largestPacketBytes = Math.max(socket.largestPacketBytes, Math.min(total, most));
    return SocketErrorKind.None;
  }

  /** The address that datagrams to `remote` come from. */
  sourceFor(remote: IpAddr): IpAddr | null {
    return this.#network.sourceFor(remote);
  }

  /** Moves a socket that was bound to all addresses of its family, and so has the port for itself, to one. */
  rebind(socket: UdpSocket, local: IpAddr): void {
    this.closeSocket(socket);
    socket.localAddress = local;
    this.#insert(socket);
  }

  /** Forgets a socket. */
  closeSocket(socket: UdpSocket): void {
    const a = socket.localAddress;
    if (!this.#sockets.remove(this.#hash(a.w0, a.w1, a.w2, a.w3, socket.localPort), socket)) return;
    const key = portKey(a, socket.localPort);
    const left = this.#portUse.get(key)! - 1;
    if (left === 0) this.#portUse.delete(key);
    else this.#portUse.set(key, left);
  }

  #insert(socket: UdpSocket): boolean {
    const a = socket.localAddress;
    if (!this.#sockets.insert(this.#hash(a.w0, a.w1, a.w2, a.w3, socket.localPort), socket)) return false;
    const key = portKey(a, socket.localPort);
    this.#portUse.set(key, (this.#portUse.get(key) ?? 0) + 1);
    return true;
  }

  #find(w0: number, w1: number, w2: number, w3: number, port: number): UdpSocket | null {
    return this.#exact(w0, w1, w2, w3, port) ?? this.#exact(0, 0, w2 === 0xffff && (w0 | w1) === 0 ? w2 : 0, 0, port);
  }

  #exact(w0: number, w1: number, w2: number, w3: number, port: number): UdpSocket | null {
    const sockets = this.#sockets;
    for (let i = sockets.first(this.#hash(w0, w1, w2, w3, port)); i >= 0; i = sockets.following(i)) {
      const socket = sockets.at(i);
      if (socket.localPort === port && socket.localAddress.equalsWords(w0, w1, w2, w3)) return socket;
    }
    return null;
  }

  #isTaken(local: IpAddr, port: number): boolean {
    if (!this.#portUse.has(portKey(local, port))) return false;
    return local.isUnspecified || this.#find(local.w0, local.w1, local.w2, local.w3, port) !== null;
  }

  /** A free ephemeral port by linear probing from a random one, or 0 (RFC 6056 section 3.3.1). */
  #ephemeralPort(local: IpAddr): number {
    const ports = EPHEMERAL_PORT_LAST - EPHEMERAL_PORT_FIRST + 1;
    const start = this.#rng.below(ports);
    for (let i = 0; i < ports; i++) {
      const port = EPHEMERAL_PORT_FIRST + (start + i) % ports;
      if (!this.#isTaken(local, port)) return port;
    }
    return 0;
  }

  #hash(w0: number, w1: number, w2: number, w3: number, port: number): number {
    return hashAddress(hashMix(this.#seed, port), w0, w1, w2, w3);
  }
}

/** What an ICMP error means to a socket. */
function kindOf({ version, type, code }: UdpError): SocketErrorKind {
  if (version === 4) {
    if (type !== Icmpv4Type.Unreachable) return SocketErrorKind.None;
    if (code === V4_FRAGMENTATION_NEEDED) return SocketErrorKind.MessageTooLong;
    return code === V4_PORT_UNREACHABLE || code === V4_PROTOCOL_UNREACHABLE
      ? SocketErrorKind.ConnectionRefused
      : SocketErrorKind.None;
  }
  if (type === Icmpv6Type.PacketTooBig) return SocketErrorKind.MessageTooLong;
  return type === Icmpv6Type.Unreachable && code === V6_PORT_UNREACHABLE
    ? SocketErrorKind.ConnectionRefused
    : SocketErrorKind.None;
}

function portKey(local: IpAddr, port: number): number {
  return local.isV4 ? port : port + 65536;
}
