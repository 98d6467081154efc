/**
 * A UDP socket: bound to a port of one own address or of all of a family, connected or not.
 *
 * Received datagrams wait in a queue of bounded bytes; one that does not fit is dropped and counted. A connected socket
 * hears only its remote end, and learns from ICMP that nobody listens there.
 *
 * @module
 */

import { SocketErrorKind } from "../base/errors.ts";
import type { EventSource } from "../base/event_queue.ts";
import { type Instant, SECOND } from "../base/time.ts";
import { IpAddr } from "../wire/ip_addr.ts";
import { DatagramQueue } from "./datagram_queue.ts";

/**
 * What becomes of datagrams that are larger than the path carries (Linux: `IP_MTU_DISCOVER`; RFC 8085 section 3.2).
 *
 * | here         | Linux              | don't fragment      | larger than the path MTU  | larger than the link's MTU |
 * | ------------ | ------------------ | ------------------- | ------------------------- | -------------------------- |
 * | `"dont"`     | `IP_PMTUDISC_DONT` | never               | cut to the path MTU       | cut                        |
 * | `"want"`     | `IP_PMTUDISC_WANT` | unless it is cut    | cut to the path MTU       | cut                        |
 * | `"do"`       | `IP_PMTUDISC_DO`   | always              | `MessageTooLong`          | `MessageTooLong`           |
 * | `"probe"`    | `IP_PMTUDISC_PROBE`| always              | sent                      | `MessageTooLong`           |
 *
 * Linux's default is "want", the one here is "do": nothing is fragmented unless asked for. Where an IPv4 path carries no more
 * than 552 bytes "want" leaves cutting to the routers, since no error that says less is believed.
 */
export type PathMtuDiscovery = "dont" | "want" | "do" | "probe";

/** The words of {@linkcode PathMtuDiscovery}. */
export const PATH_MTU_DISCOVERIES: readonly PathMtuDiscovery[] = ["dont", "want", "do", "probe"];

/** What a socket needs of the UDP layer that made it. */
export interface UdpHost {
  /** Sends one datagram of `socket`. */
  sendDatagram(
    socket: UdpSocket,
    bytes: Uint8Array,
    remote: IpAddr,
    port: number,
    departAt: Instant,
    now: Instant,
  ): SocketErrorKind;
  /** The address that datagrams to `remote` come from, or `null`. */
  sourceFor(remote: IpAddr): IpAddr | null;
  /** Moves a socket that was bound to all addresses to one. */
  rebind(socket: UdpSocket, local: IpAddr): void;
  /** Forgets `socket`. */
  closeSocket(socket: UdpSocket): void;
}

/** A UDP socket. Made by {@linkcode Udp.bind}. */
export class UdpSocket implements EventSource {
  /** Bits raised and not yet polled. */
  events = 0;
  /** True while the socket is in the event queue. */
  eventQueued = false;
  /** Whoever wants to know. */
  user: unknown = null;
  /** The own address, or the unspecified address of the family for all of them. */
  localAddress: IpAddr;
  /** The own port. */
  readonly localPort: number;
  /** The remote address of a connected socket, else `null`. */
  remoteAddress: IpAddr | null = null;
  /** The remote port of a connected socket, else 0. */
  remotePort = 0;
  /** TTL or hop limit of what is sent. */
  ttl = 64;
  /** Traffic class of what is sent. */
  trafficClass = 0;
  /** What becomes of datagrams that are larger than the path carries. */
  pathMtuDiscovery: PathMtuDiscovery = "do";
  /** The most that is sent, in bytes of data per second: datagrams beyond it depart later (as SO_MAX_PACING_RATE). */
  maxPacingRateBytesPerSec: number = Infinity;
  /** Where the datagram last received came from. */
  receivedAddress: IpAddr;
  /** Port that the datagram last received came from. */
  receivedPort = 0;
  /** When the datagram last received arrived. */
  receivedAt: Instant = 0;
  /** Datagrams sent. */
  sentDatagrams = 0;
  /** Length in bytes of the largest IP packet sent, or of the largest fragment of one. */
  largestPacketBytes = 0;
  /** Datagrams received into the queue. */
  receivedDatagrams = 0;
  /** Datagrams dropped since the queue was full. */
  droppedDatagrams = 0;
  /** True once closed. */
  closed = false;
  #nextDepartAt: Instant = 0;
  readonly #host: UdpHost;
  readonly #queue: DatagramQueue;
  #error: SocketErrorKind = SocketErrorKind.None;

  /** Made by the UDP layer only. */
  constructor(host: UdpHost, local: IpAddr, port: number, receiveBufferBytes: number) {
    this.#host = host;
    this.#queue = new DatagramQueue(receiveBufferBytes);
    this.localAddress = local;
    this.localPort = port;
    this.receivedAddress = local.isV4 ? IpAddr.ANY_V4 : IpAddr.ANY_V6;
  }

  /** Number of datagrams waiting. */
  get queuedDatagrams(): number {
    return this.#queue.count;
  }

  /** Length in bytes of the datagram that {@linkcode UdpSocket.receive} would give next, or −1. */
  get nextDatagramBytes(): number {
    return this.#queue.nextBytes;
  }

  /**
   * Sends one datagram.
   *
   * @param bytes its data; copied
   * @param remote where to, of the socket's family
   * @param port where to, 1 to 65,535
   * @param now the time
   * @param departAt earliest departure (as SO_TXTIME), by default at once; the scheduler drops what lies beyond its horizon
   * @returns `None`, or why it was not sent: `MessageTooLong` (more than the MTU − 28 bytes over IPv4, − 48 over IPv6, unless
   * {@linkcode UdpSocket.pathMtuDiscovery} lets it be fragmented; never more than 65,507 and 65,487), `HostUnreachable`, `AddrNotAvailable` (no own address of the family), `NoBufferSpace`, `BadResource` (closed)
   * @throws {TypeError} for an address of the other family
   * @throws {RangeError} for a port out of range
   */
  send(bytes: Uint8Array, remote: IpAddr, port: number, now: Instant, departAt: Instant = 0): SocketErrorKind {
    this.#check(remote, port);
    if (this.closed) return SocketErrorKind.BadResource;
    const rate = this.maxPacingRateBytesPerSec;
    if (rate === Infinity) return this.#host.sendDatagram(this, bytes, remote, port, departAt, now);
    const stamp = Math.max(now, departAt, this.#nextDepartAt);
    const error = this.#host.sendDatagram(this, bytes, remote, port, stamp, now);
    if (error === SocketErrorKind.None) {
      // At most half of a gap is made up for, as in TCP.
      const gap = bytes.length / rate * SECOND;
      this.#nextDepartAt = stamp + Math.round(gap - Math.min(gap / 2, stamp - this.#nextDepartAt));
    }
    return error;
  }

  /**
   * Connects: from now on only datagrams from this remote end are received, and errors of its host are heard. A socket
   * bound to all addresses is bound to the one that leads there.
   *
   * @returns `None`, `AddrNotAvailable` if there is no own address of the family, or `BadResource` (closed)
   * @throws {TypeError} for an address of the other family
   * @throws {RangeError} for a port out of range
   */
  connect(remote: IpAddr, port: number): SocketErrorKind {
    this.#check(remote, port);
    if (this.closed) return SocketErrorKind.BadResource;
    if (this.localAddress.isUnspecified) {
      const local = this.#host.sourceFor(remote);
      if (local === null) return SocketErrorKind.AddrNotAvailable;
      this.#host.rebind(this, local);
    }
    this.remoteAddress = remote;
    this.remotePort = port;
    return SocketErrorKind.None;
  }

  /**
   * Takes the oldest datagram that waits. Its source and time of arrival are in {@linkcode UdpSocket.receivedAddress},
   * {@linkcode UdpSocket.receivedPort} and {@linkcode UdpSocket.receivedAt} then.
   *
   * @param target where its data goes; what does not fit is lost
   * @returns the length of the datagram (more than `target.length` if it was cut), or −1 if none waits
   */
  receive(target: Uint8Array): number {
    const queue = this.#queue;
    const length = queue.take(target);
    if (length < 0) return length;
    // Datagrams tend to come from the same host: then the address is the same object.
    if (!this.receivedAddress.equalsWords(queue.src0, queue.src1, queue.src2, queue.src3)) {
      this.receivedAddress = new IpAddr(queue.src0, queue.src1, queue.src2, queue.src3);
    }
    this.receivedPort = queue.srcPort;
    this.receivedAt = queue.arrivedAt;
    return length;
  }

  /**
   * The pending error of a connected socket or `None`; reading it clears it. `ConnectionRefused`: nobody listens there;
   * `MessageTooLong`: a datagram was too large for the path, as an ICMP error said.
   */
  takeError(): SocketErrorKind {
    const error = this.#error;
    this.#error = SocketErrorKind.None;
    return error;
  }

  /** Closes the socket: its port is free at once, datagrams that wait are lost. */
  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.#queue.clear();
    this.#host.closeSocket(this);
  }

  /** Offered a datagram for this socket; false if there is no room for it. */
  onDatagram(
    src0: number,
    src1: number,
    src2: number,
    src3: number,
    srcPort: number,
    bytes: Uint8Array,
    from: number,
    to: number,
    now: Instant,
  ): boolean {
    if (!this.#queue.push(src0, src1, src2, src3, srcPort, bytes, from, to, now)) {
      this.droppedDatagrams++;
      return false;
    }
    this.receivedDatagrams++;
    return true;
  }

  /** Told of an error. */
  onError(error: SocketErrorKind): void {
    this.#error = error;
  }

  #check(remote: IpAddr, port: number): void {
    if (remote.version !== this.localAddress.version) {
      throw new TypeError(`an IPv${this.localAddress.version} socket cannot reach ${remote}`);
    }
    if (!Number.isInteger(port) || port < 1 || port > 65535) {
      throw new RangeError(`the port must be an integer from 1 to 65535, got ${port}`);
    }
  }
}
