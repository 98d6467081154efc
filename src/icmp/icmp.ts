/**
 * ICMP and ICMPv6 of a host: echo replies, ping sockets, and errors about packets of ours.
 *
 * An echo request is turned round in its own packet; the reply may be fragmented, as the request may have been. A request of
 * ours is not (it finds out what a path carries, up to the MTU of the link). An echo reply goes to the ping socket with its
 * identifier, if it comes from the host that the socket pings. An error is read as far as the packet that it quotes; it
 * counts only if that packet came from the very address that the error was sent to (RFC 5927 section 4), and then goes to the
 * ping socket or the transport that sent it. All other messages (source quench, redirects, router and neighbour discovery,
 * group membership, …) are ignored and counted: an interface here is point to point and configured.
 *
 * @module
 */

import { DeadlineHeap } from "../base/deadline_heap.ts";
import { DropReason } from "../base/drop.ts";
import { SocketErrorKind } from "../base/errors.ts";
import { SocketEvent } from "../base/event_queue.ts";
import type { Packet } from "../base/packet.ts";
import type { Rng } from "../base/rng.ts";
import { type Instant, NEVER } from "../base/time.ts";
import {
  emitIcmp,
  ICMP_HEADER_BYTES,
  IcmpHeader,
  Icmpv4Type,
  Icmpv6Type,
  isIcmpError,
  parseIcmp,
} from "../wire/icmp.ts";
import { IpAddr } from "../wire/ip_addr.ts";
import { IpHeader, ipHeaderBytes, IpProtocol } from "../wire/ip_header.ts";
import { IcmpError, type IcmpErrorSink, type IcmpNetwork } from "./network.ts";
import { PING_SLOTS, type PingHost, PingSocket } from "./ping_socket.ts";
import { parseQuoted } from "./quoted.ts";

/** The most ping sockets of a host. */
export const PING_SOCKETS_MAX = 256;

const CODE_FRAGMENTATION_NEEDED = 4;
const ICMPV4_SOURCE_QUENCH = 4;
const ICMPV4_REDIRECT = 5;

/** An echo reply of at most this many bytes is not cut, unless its request might have been. */
const ECHO_UNFRAGMENTED_BYTES = 576;

/** ICMP and ICMPv6 of one host. */
export class Icmp implements PingHost {
  readonly #network: IcmpNetwork;
  readonly #errorSink: IcmpErrorSink;
  readonly #rng: Rng;
  readonly #byId = new Map<number, PingSocket>();
  readonly #sockets: (PingSocket | null)[] = [];
  readonly #deadlines = new DeadlineHeap();
  readonly #header = new IcmpHeader();
  readonly #out = new IpHeader();
  readonly #error = new IcmpError();

  /**
   * Makes the ICMP of a host.
   *
   * @param network the stack
   * @param errorSink where errors about TCP and UDP packets go
   * @param rng stream for the identifiers of ping sockets
   */
  constructor(network: IcmpNetwork, errorSink: IcmpErrorSink, rng: Rng) {
    this.#network = network;
    this.#errorSink = errorSink;
    this.#rng = rng;
  }

  /** Takes a message that came for us; `p.l4` is at its header. */
  input(p: Packet, ip: IpHeader, now: Instant): void {
    const h = this.#header;
    const reason = parseIcmp(p.view, p.l4, p.end, ip, h);
    if (reason !== DropReason.None) return this.#network.drop(p, reason, now);
    if (h.type === (ip.version === 4 ? Icmpv4Type.EchoRequest : Icmpv6Type.EchoRequest)) {
      if (h.code === 0) return this.#reply(p, ip, now);
    } else if (h.type === (ip.version === 4 ? Icmpv4Type.EchoReply : Icmpv6Type.EchoReply)) {
      if (this.#onReply(p, ip, now)) return;
    } else if (isIcmpError(ip.version, h.type) && !isAdvice(ip.version, h.type)) {
      if (this.#onError(p, ip, now)) return;
    }
    this.#network.drop(p, DropReason.IcmpIgnored, now);
  }

  /**
   * Opens a socket to ping `remote`.
   *
   * @param remote the host
   * @param local the own address to send from (default: by source selection)
   * @returns the socket, or `AddrNotAvailable` without an own address of the family, or `NoBufferSpace` when there are
   * {@linkcode PING_SOCKETS_MAX} sockets already
   */
  openPing(remote: IpAddr, local?: IpAddr): PingSocket | SocketErrorKind {
    const source = local ?? this.#network.sourceFor(remote);
    if (source === null || source.version !== remote.version) return SocketErrorKind.AddrNotAvailable;
    let index = this.#sockets.indexOf(null);
    if (index < 0) index = this.#sockets.length;
    if (index >= PING_SOCKETS_MAX) return SocketErrorKind.NoBufferSpace;
    let id = this.#rng.below(0x10000);
    while (this.#byId.has(id)) id = (id + 1) & 0xffff;
    const socket = new PingSocket(this, index, id, source, remote);
    this.#sockets[index] = socket;
    this.#byId.set(id, socket);
    return socket;
  }

  /** The ping sockets that are open; for inspection. */
  sockets(): PingSocket[] {
    return this.#sockets.filter((socket) => socket !== null);
  }

  /** Ends the requests whose time is up. */
  timeout(now: Instant): void {
    for (let id = this.#deadlines.popDue(now); id >= 0; id = this.#deadlines.popDue(now)) {
      this.#sockets[Math.floor(id / PING_SLOTS)]?.timeOut(id % PING_SLOTS, now);
    }
  }

  /** When {@linkcode Icmp.timeout} has something to do. */
  nextAt(): Instant {
    return this.#deadlines.nextAt();
  }

  /** Sends one echo request of `socket`; see {@linkcode PingSocket.send}. */
  sendEcho(socket: PingSocket, seq: number, dataBytes: number, ttl: number, now: Instant): SocketErrorKind {
    if (socket.closed) return SocketErrorKind.BadResource;
    const { localAddress, remoteAddress, id } = socket;
    const mtu = this.#network.mtuTo(remoteAddress);
    if (mtu === 0) return SocketErrorKind.HostUnreachable;
    if (ipHeaderBytes(remoteAddress.version) + ICMP_HEADER_BYTES + dataBytes > mtu) {
      return SocketErrorKind.MessageTooLong;
    }
    const p = this.#network.acquire();
    if (p === null) return SocketErrorKind.NoBufferSpace;
    p.end = p.start + ICMP_HEADER_BYTES + dataBytes;
    for (let i = 0, at = p.start + ICMP_HEADER_BYTES; at < p.end; i++, at++) p.bytes[at] = i;
    const ip = this.#out;
    ip.setAddresses(localAddress, remoteAddress);
    ip.setDefaults(ip.version === 4 ? IpProtocol.Icmp : IpProtocol.Icmpv6, p.length);
    ip.ttl = ttl;
    const h = this.#header;
    h.type = ip.version === 4 ? Icmpv4Type.EchoRequest : Icmpv6Type.EchoRequest;
    h.code = 0;
    h.id = id;
    h.seq = seq;
    emitIcmp(p.view, p.start, p.end, ip, h);
    p.departAt = now;
    const reason = this.#network.output(p, ip, now);
    if (reason === DropReason.None) return SocketErrorKind.None;
    this.#network.drop(p, reason, now);
    return reason === DropReason.TooBig ? SocketErrorKind.MessageTooLong : SocketErrorKind.HostUnreachable;
  }

  /** Sets or clears the deadline of a request. */
  setDeadline(socket: PingSocket, slot: number, deadline: Instant): void {
    if (deadline === NEVER) this.#deadlines.clear(socket.index * PING_SLOTS + slot);
    else this.#deadlines.set(socket.index * PING_SLOTS + slot, deadline);
  }

  /** Raises "readable" on a socket. */
  raiseReadable(socket: PingSocket): void {
    this.#network.events.raise(socket, SocketEvent.Readable);
  }

  /** Forgets a socket. */
  closePing(socket: PingSocket): void {
    if (this.#sockets[socket.index] !== socket) return;
    this.#sockets[socket.index] = null;
    this.#byId.delete(socket.id);
  }

  /** Turns an echo request into its reply (RFC 1122 section 3.2.2.6, RFC 4443 section 4.2). */
  #reply(p: Packet, ip: IpHeader, now: Instant): void {
    const out = this.#out;
    out.setReply(ip);
    p.start = p.l4;
    out.setDefaults(ip.protocol, p.length);
    out.trafficClass = ip.trafficClass & ~3;
    // What came in fragments, or might have, may have to leave in fragments.
    out.dontFragment = ip.dontFragment && ipHeaderBytes(ip.version) + p.length <= ECHO_UNFRAGMENTED_BYTES;
    p.flow = 0;
    p.departAt = 0;
    const h = this.#header;
    h.type = ip.version === 4 ? Icmpv4Type.EchoReply : Icmpv6Type.EchoReply;
    emitIcmp(p.view, p.start, p.end, out, h);
    const reason = this.#network.output(p, out, now);
    if (reason !== DropReason.None) this.#network.drop(p, reason, now);
  }

  /** Gives a reply to its socket and frees the packet; false (and the packet is kept) if nobody waits for it. */
  #onReply(p: Packet, ip: IpHeader, now: Instant): boolean {
    const { type, id, seq } = this.#header;
    const socket = this.#byId.get(id);
    if (
      socket === undefined || !socket.remoteAddress.equalsWords(ip.src0, ip.src1, ip.src2, ip.src3) ||
      !socket.localAddress.equalsWords(ip.dst0, ip.dst1, ip.dst2, ip.dst3)
    ) return false;
    const dataBytes = p.end - p.l4 - ICMP_HEADER_BYTES;
    if (!socket.onReply(seq, socket.remoteAddress, ip.ttl, type, dataBytes, now)) return false;
    this.#network.release(p);
    return true;
  }

  /** Gives an error to whom it concerns and frees the packet; false (and the packet is kept) if it concerns nobody. */
  #onError(p: Packet, ip: IpHeader, now: Instant): boolean {
    const h = this.#header;
    const e = this.#error;
    e.version = ip.version;
    if (!parseQuoted(p.view, p.l4 + ICMP_HEADER_BYTES, p.end, e)) return false;
    if (e.src0 !== ip.dst0 || e.src1 !== ip.dst1 || e.src2 !== ip.dst2 || e.src3 !== ip.dst3) return false;
    e.type = h.type;
    e.code = h.code;
    e.mtu = nextHopMtu(ip.version, h);
    e.from0 = ip.src0;
    e.from1 = ip.src1;
    e.from2 = ip.src2;
    e.from3 = ip.src3;
    if (e.protocol === IpProtocol.Tcp || e.protocol === IpProtocol.Udp) {
      this.#errorSink.icmpError(e, now);
    } else if (!this.#onPingError(e, ip.ttl, now)) {
      return false;
    }
    this.#network.release(p);
    return true;
  }

  #onPingError(e: IcmpError, ttl: number, now: Instant): boolean {
    const request = e.version === 4 ? Icmpv4Type.EchoRequest : Icmpv6Type.EchoRequest;
    if (e.protocol !== (e.version === 4 ? IpProtocol.Icmp : IpProtocol.Icmpv6) || e.srcPort >>> 8 !== request) {
      return false;
    }
    const socket = this.#byId.get(e.seq >>> 16);
    if (socket === undefined || !socket.remoteAddress.equalsWords(e.dst0, e.dst1, e.dst2, e.dst3)) return false;
    if (!socket.localAddress.equalsWords(e.src0, e.src1, e.src2, e.src3)) return false;
    const seq = e.seq & 0xffff;
    if (isTooBig(e)) {
      const bytes = socket.waitingBytes(seq);
      // It cannot have been too big for a link that carries it (RFC 5927 section 7.2).
      if (e.mtu >= bytes) return false;
      this.#network.learnPathMtu(e.dst0, e.dst1, e.dst2, e.dst3, e.mtu, bytes, now);
    }
    const from = new IpAddr(e.from0, e.from1, e.from2, e.from3);
    return socket.onError(seq, from, ttl, e.type, e.code, e.mtu, now);
  }
}

/** Source quench (RFC 6633: to be discarded) and redirect say nothing of what became of a packet. */
function isAdvice(version: number, type: number): boolean {
  return version === 4 && (type === ICMPV4_SOURCE_QUENCH || type === ICMPV4_REDIRECT);
}

function isTooBig({ version, type, code }: IcmpError): boolean {
  return version === 4
    ? type === Icmpv4Type.Unreachable && code === CODE_FRAGMENTATION_NEEDED
    : type === Icmpv6Type.PacketTooBig;
}

function nextHopMtu(version: number, h: IcmpHeader): number {
  if (version === 4) return h.type === Icmpv4Type.Unreachable && h.code === CODE_FRAGMENTATION_NEEDED ? h.seq : 0;
  return h.type === Icmpv6Type.PacketTooBig ? h.id * 0x10000 + h.seq : 0;
}
