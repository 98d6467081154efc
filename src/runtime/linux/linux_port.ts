/**
 * A UDP port over the C library's socket calls: many datagrams a call, consecutive ones as one train.
 *
 * The port reads and writes the socket itself and is never told by the event loop. Somebody has to {@linkcode
 * LinuxPort.look} when the socket can be read, or can be written again while the port is blocked: the driver's sleeper
 * does that. Everything else (what is sent and received how) is in the two batches.
 *
 * What the kernel does not know is done without, and `why` says so: trains (`UDP_SEGMENT`), joined reception (`UDP_GRO`),
 * the traffic class of the outer header. Datagrams are never fragmented: what is larger than the path is known to carry is refused,
 * and `onTooBig` called. A system that lacks the calls altogether is an {@linkcode UnsupportedError}.
 *
 * @module
 */

import { setTimeout } from "node:timers";
import { DropReason } from "../../base/drop.ts";
import type { Packet } from "../../base/packet.ts";
import { type Instant, SECOND } from "../../base/time.ts";
import { formatEndpoint } from "../../stack/options.ts";
import type { IpAddr } from "../../wire/ip_addr.ts";
import type { Clock } from "../clock.ts";
import { systemError } from "../errors.ts";
import {
  type DatagramSink,
  dropPacket,
  newPortStats,
  type PolledPort,
  type PortContext,
  type UdpPortStats,
} from "../udp_port.ts";
import {
  AddressFamily,
  Errno,
  errnoName,
  IpOption,
  Ipv6Option,
  Level,
  MemInfo,
  MTU_DISCOVER_DO,
  SOCKADDR_IN6_BYTES,
  SOCKADDR_IN_BYTES,
  SOCKET_TYPE,
  SocketOption,
  UdpOption,
} from "./abi.ts";
import { callError, type Libc, type Memory } from "./libc.ts";
import { ReceiveBatch } from "./receive_batch.ts";
import { SEND_LIMIT, SendBatch } from "./send_batch.ts";

/** What is asked of the socket for datagrams that wait to be read; the kernel doubles it. */
const RECEIVE_BUFFER_BYTES = 4 << 20;

/** The same for those that wait to be sent. Small, since what waits there is behind every queueing discipline of ours. */
const SEND_BUFFER_BYTES = 512 << 10;

/** The longest that closing waits for a socket without room, in milliseconds. */
const CLOSE_PATIENCE = 1000;

/** How a port is to work. */
export interface LinuxPortOptions {
  /** Bytes of the socket's receive buffer. Default 4 MiB. */
  receiveBufferBytes?: number;
  /** Bytes of the socket's send buffer. Default 512 KiB. */
  sendBufferBytes?: number;
  /** Join datagrams on the way out (`UDP_SEGMENT`). Default true. */
  segment?: boolean;
  /** Let the kernel join datagrams on the way in (`UDP_GRO`). Default true. */
  gro?: boolean;
  /**
   * The clock of departure times, to have the kernel keep those of packets that are handed over before their time
   * (`SO_TXTIME`). It does where the device has the `fq` queueing discipline; `etf` drops what comes late, and elsewhere
   * it goes at once. The driver hands nothing over early. Default: the kernel is told no departure times.
   */
  txTime?: Clock | null;
}

/** The system lacks what the port cannot do without. */
export class UnsupportedError extends Error {
  override name = "UnsupportedError";
}

/** A UDP port over the C library's socket calls. */
export class LinuxPort implements PolledPort {
  readonly kind = "linux";
  readonly address: IpAddr;
  readonly port: number;
  readonly fd: number;
  onReadable: () => void = () => {};
  onWritable: () => void = () => {};
  onTooBig: (to: IpAddr) => void = () => {};
  readonly #libc: Libc;
  readonly #context: PortContext;
  readonly #sends: SendBatch;
  readonly #receives: ReceiveBatch;
  readonly #stats: UdpPortStats = { ...newPortStats(), socketDrops: 0 };
  /** Departure times of the datagrams that wait to be sent, for whoever wants to be told; the oldest is `#sentStamps`. */
  readonly #stamps = new Float64Array(SEND_LIMIT);
  #givenStamps = 0;
  #sentStamps = 0;
  readonly #memInfo: Memory = new Uint8Array(new ArrayBuffer(4 * MemInfo.Words));
  readonly #notes: readonly string[];
  #isBlocked = false;
  #hasHanded = false;
  #closed: Promise<void> | null = null;
  #isOpen = true;

  private constructor(libc: Libc, fd: number, address: IpAddr, context: PortContext, options: LinuxPortOptions) {
    const v4 = address.isV4;
    const stats = this.#stats;
    const socket = new SocketOptions(libc, fd);
    socket.size("receive", options.receiveBufferBytes ?? RECEIVE_BUFFER_BYTES);
    socket.size("send", options.sendBufferBytes ?? SEND_BUFFER_BYTES);
    socket.set(
      "the outer traffic class is not read",
      v4 ? Level.Ip : Level.Ipv6,
      v4 ? IpOption.ReceiveTos : Ipv6Option.ReceiveTrafficClass,
      1,
    );
    socket.set(
      "the system may fragment datagrams",
      v4 ? Level.Ip : Level.Ipv6,
      v4 ? IpOption.MtuDiscover : Ipv6Option.MtuDiscover,
      MTU_DISCOVER_DO,
    );
    if (options.gro ?? true) socket.set("no UDP_GRO", Level.Udp, UdpOption.Gro, 1);
    const segment = options.segment ?? true;
    const trains = segment && socket.set("no UDP_SEGMENT", Level.Udp, UdpOption.Segment, 0);
    const txTimeOffset = options.txTime ? socket.txTime(options.txTime) : null;
    this.#notes = socket.notes;
    this.#libc = libc;
    this.#context = context;
    this.fd = fd;
    this.address = address;
    this.port = boundPort(libc, fd, v4);
    this.#sends = new SendBatch(libc, {
      sent: (datagrams, bytes) => {
        stats.datagramsOut += datagrams;
        stats.bytesOut += bytes;
        if (context.departed !== undefined) this.#tellDeparted(datagrams);
      },
      refused: () => {
        stats.sendErrors++;
        this.#sentStamps++;
        context.drops.count(DropReason.PortSend);
      },
      tooBig: (to) => this.onTooBig(to),
    }, { v4, datagramBytes: context.pool.slotBytes, trains, txTimeOffset });
    this.#receives = new ReceiveBatch(libc, context, {
      received: (datagrams, bytes) => {
        stats.datagramsIn += datagrams;
        stats.bytesIn += bytes;
      },
      failed: () => stats.receiveErrors++,
    });
  }

  /**
   * Binds a socket to `address` and `port` (0 for any); an IPv6 socket takes IPv6 only.
   *
   * @param libc the C library, which the port releases when it is closed
   * @throws {Deno.errors.AddrInUse} or what else the operating system says, by its class; then `libc` is released
   * @throws {UnsupportedError} if the system lacks what the port needs
   */
  static open(
    libc: Libc,
    address: IpAddr,
    port: number,
    context: PortContext,
    options: LinuxPortOptions = {},
  ): LinuxPort {
    let fd = -1;
    try {
      fd = openSocket(libc, address, port);
      const made = new LinuxPort(libc, fd, address, context, options);
      const first = made.#receives.fill(fd);
      if (first === -Errno.ENOSYS || first === -Errno.EPERM) {
        throw new UnsupportedError(`recvmmsg failed with ${errnoName(-first)}`);
      }
      return made;
    } catch (error) {
      if (fd >= 0) libc.close(fd);
      libc.release();
      throw error;
    }
  }

  /** What it has to do without, each in a few words. */
  get notes(): string[] {
    const { noTrains } = this.#sends;
    return noTrains === "" ? [...this.#notes] : [...this.#notes, `no trains: ${noTrains}`];
  }

  get waiting(): number {
    return this.#receives.waiting;
  }

  get isBlocked(): boolean {
    return this.#isBlocked;
  }

  room(): number {
    return this.#closed === null ? this.#sends.room : 0;
  }

  send(p: Packet, to: IpAddr, port: number): void {
    if (this.#closed !== null || to.isV4 !== this.address.isV4) return this.#refuse(p);
    if (this.#sends.isFull) {
      this.flush();
      if (this.#sends.isFull) return this.#refuse(p);
    }
    this.#sends.append(p, to, port);
    if (this.#context.departed !== undefined) this.#stamps[this.#givenStamps++ % SEND_LIMIT] = p.departAt;
    this.#context.pool.release(p);
  }

  flush(): void {
    if (this.#sends.size === 0 || !this.#isOpen) return;
    const hadRoom = this.#sends.room > 0;
    this.#sends.flush(this.fd);
    this.#isBlocked = this.#sends.size > 0;
    if (!hadRoom && this.#sends.room > 0) this.onWritable();
  }

  receive(limit: number, sink: DatagramSink, now: Instant): number {
    if (!this.#isOpen) return 0;
    const receives = this.#receives;
    if (receives.waiting === 0) return 0;
    this.#hasHanded = true;
    let n = receives.drain(limit, sink, now);
    // A few times at most: what is dropped as soon as it comes must not hold up the host.
    for (let fills = 0; fills < 4 && receives.waiting === 0 && receives.isMore; fills++) {
      receives.fill(this.fd);
      n += receives.drain(limit - n, sink, now);
    }
    return n;
  }

  fill(): void {
    if (!this.#hasHanded) this.#fill();
    this.#hasHanded = false;
  }

  look(): boolean {
    if (this.#isBlocked) this.flush();
    if (this.waiting === 0) this.#fill();
    if (this.waiting === 0) return false;
    this.onReadable();
    return true;
  }

  stats(): UdpPortStats {
    if (this.#isOpen) this.#countDrops();
    return { ...this.#stats };
  }

  close(): Promise<void> {
    return this.#closed ??= this.#close();
  }

  async #close(): Promise<void> {
    this.flush();
    for (let tries = 0; this.#sends.size > 0 && tries < CLOSE_PATIENCE; tries++) {
      await new Promise<void>((resolve) => setTimeout(resolve, 1));
      this.flush();
    }
    this.#stats.sendErrors += this.#sends.size;
    for (let n = this.#sends.size; n > 0; n--) this.#context.drops.count(DropReason.PortSend);
    this.#sends.clear();
    this.#receives.clear();
    this.#countDrops();
    this.#isOpen = false;
    this.#libc.close(this.fd);
    this.#libc.release();
  }

  #fill(): void {
    if (this.#isOpen && this.#receives.waiting === 0) this.#receives.fill(this.fd);
  }

  #tellDeparted(datagrams: number): void {
    for (let n = 0; n < datagrams; n++) {
      this.#context.departed!(this.#stamps[this.#sentStamps++ % SEND_LIMIT]!);
    }
  }

  #refuse(p: Packet): void {
    this.#stats.sendErrors++;
    dropPacket(this.#context, p, DropReason.PortSend);
  }

  #countDrops(): void {
    const bytes = this.#libc.getsockopt(this.fd, Level.Socket, SocketOption.MemInfo, this.#memInfo);
    if (bytes < 4 * MemInfo.Words) return;
    this.#stats.socketDrops = new DataView(this.#memInfo.buffer).getUint32(4 * MemInfo.Drops, true);
  }
}

/** Sets options of a socket and remembers which of them it refused. */
class SocketOptions {
  readonly notes: string[] = [];
  readonly #libc: Libc;
  readonly #fd: number;
  readonly #value: Memory = new Uint8Array(new ArrayBuffer(8));
  readonly #view: DataView = new DataView(this.#value.buffer);

  constructor(libc: Libc, fd: number) {
    this.#libc = libc;
    this.#fd = fd;
  }

  /** Sets an integer; on failure notes `otherwise` and returns false. */
  set(otherwise: string, level: number, option: number, value: number): boolean {
    this.#view.setInt32(0, value, true);
    const result = this.#libc.setsockopt(this.#fd, level, option, this.#value.subarray(0, 4));
    if (result < 0) this.notes.push(`${otherwise} (${errnoName(-result)})`);
    return result >= 0;
  }

  /** Sizes a buffer, beyond the system's limit where that is allowed. */
  size(which: "receive" | "send", bytes: number): void {
    const isReceive = which === "receive";
    this.#view.setInt32(0, bytes, true);
    const value = this.#value.subarray(0, 4);
    const force = isReceive ? SocketOption.ReceiveBufferForce : SocketOption.SendBufferForce;
    if (this.#libc.setsockopt(this.#fd, Level.Socket, force, value) >= 0) return;
    this.#libc.setsockopt(
      this.#fd,
      Level.Socket,
      isReceive ? SocketOption.ReceiveBuffer : SocketOption.SendBuffer,
      value,
    );
  }

  /** Has the socket take departure times of `clock`; returns what to add to one, or `null` if it does not. */
  txTime(clock: Clock): Instant | null {
    const CLOCK_MONOTONIC = 1;
    this.#view.setInt32(0, CLOCK_MONOTONIC, true);
    this.#view.setInt32(4, 0, true);
    const result = this.#libc.setsockopt(this.#fd, Level.Socket, SocketOption.TxTime, this.#value);
    if (result < 0) {
      this.notes.push(`no SO_TXTIME (${errnoName(-result)})`);
      return null;
    }
    const time: Memory = new Uint8Array(new ArrayBuffer(16));
    const view = new DataView(time.buffer);
    this.#libc.monotonic(time);
    const now = clock.now();
    return Number(view.getBigInt64(0, true)) * SECOND + Number(view.getBigInt64(8, true)) - now;
  }
}

/** An endpoint as a socket address. */
export function socketAddress(address: IpAddr, port: number): Memory {
  const bytes: Memory = new Uint8Array(new ArrayBuffer(address.isV4 ? SOCKADDR_IN_BYTES : SOCKADDR_IN6_BYTES));
  const view = new DataView(bytes.buffer);
  view.setUint16(0, address.isV4 ? AddressFamily.Inet : AddressFamily.Inet6, true);
  view.setUint16(2, port);
  if (address.isV4) {
    view.setInt32(4, address.w3);
  } else {
    [address.w0, address.w1, address.w2, address.w3].forEach((word, i) => view.setInt32(8 + 4 * i, word));
  }
  return bytes;
}

function openSocket(libc: Libc, address: IpAddr, port: number): number {
  const fd = libc.socket(address.isV4 ? AddressFamily.Inet : AddressFamily.Inet6, SOCKET_TYPE);
  if (fd < 0) throw new UnsupportedError(`socket failed with ${errnoName(-fd)}`);
  if (!address.isV4) new SocketOptions(libc, fd).set("", Level.Ipv6, Ipv6Option.V6Only, 1);
  const bound = libc.bind(fd, socketAddress(address, port));
  if (bound >= 0) return fd;
  libc.close(fd);
  throw systemError(callError("bind", bound), `cannot bind UDP to ${formatEndpoint(address, port)}`);
}

function boundPort(libc: Libc, fd: number, v4: boolean): number {
  const bytes: Memory = new Uint8Array(new ArrayBuffer(v4 ? SOCKADDR_IN_BYTES : SOCKADDR_IN6_BYTES));
  const result = libc.getsockname(fd, bytes);
  if (result < 0) throw callError("getsockname", result);
  return new DataView(bytes.buffer).getUint16(2);
}
