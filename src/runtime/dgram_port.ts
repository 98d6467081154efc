/**
 * A UDP port over `node:dgram`: works without flags, needs only the permission for the network.
 *
 * Of Deno's implementation two things matter here. Its receive "buffer size" is no socket option but the size of a
 * fresh array for each datagram, so a small one makes receiving faster by half and a large one stops the event loop;
 * the kernel's buffer cannot be set. And `unref` does not reach the receive that is pending, so the socket is unref'd
 * before it is bound and the driver keeps the process alive by other means.
 *
 * @module
 */

import { createSocket, type RemoteInfo, type Socket } from "node:dgram";
import { DropReason } from "../base/drop.ts";
import type { Packet } from "../base/packet.ts";
import type { Instant } from "../base/time.ts";
import { formatEndpoint } from "../stack/options.ts";
import type { IpAddr } from "../wire/ip_addr.ts";
import { systemError } from "./errors.ts";
import {
  AddressCache,
  type DatagramSink,
  dropPacket,
  newPortStats,
  packetOf,
  type PortContext,
  ReceiveQueue,
  SendQueue,
  type UdpPort,
  type UdpPortStats,
} from "./udp_port.ts";

/** What Deno's implementation answers as the size of a receive buffer that was never set. */
const EMULATED_BUFFER_BYTES = 65536;

/** What is asked of a real socket buffer. */
const SOCKET_BUFFER_BYTES = 4 << 20;

/** A UDP port over `node:dgram`. */
export class DgramPort implements UdpPort {
  readonly kind = "dgram";
  readonly address: IpAddr;
  readonly port: number;
  onReadable: () => void = () => {};
  onWritable: () => void = () => {};
  readonly #socket: Socket;
  readonly #context: PortContext;
  readonly #queue: ReceiveQueue;
  readonly #addresses = new AddressCache();
  readonly #stats = newPortStats();
  readonly #sends: SendQueue;
  #closed: Promise<void> | null = null;

  private constructor(socket: Socket, address: IpAddr, context: PortContext) {
    this.#socket = socket;
    this.#context = context;
    this.#queue = new ReceiveQueue(context);
    this.#sends = new SendQueue(context, this.#stats, (p, to, port) => {
      socket.send(p.bytes, p.start, p.length, port, this.#addresses.format(to), this.#sends.settled);
    });
    this.#sends.onRoom = () => this.onWritable();
    this.address = address;
    this.port = socket.address().port;
    socket.on("message", (bytes, from) => this.#received(bytes, from));
    socket.on("error", () => this.#stats.receiveErrors++);
  }

  /**
   * Binds a socket to `address` and `port` (0 for any); an IPv6 socket takes IPv6 only.
   *
   * @throws {Deno.errors.AddrInUse} or what else the operating system says, by its class
   */
  static async open(address: IpAddr, port: number, context: PortContext): Promise<DgramPort> {
    const v4 = address.isV4;
    const socket = createSocket({
      type: v4 ? "udp4" : "udp6",
      ipv6Only: !v4,
      lookup: (name, _options, callback) => callback(null, name, v4 ? 4 : 6),
    });
    socket.unref();
    try {
      await new Promise<void>((resolve, reject) => {
        socket.once("error", reject);
        socket.bind({ address: address.toString(), port }, () => {
          socket.off("error", reject);
          resolve();
        });
      });
    } catch (error) {
      try {
        socket.close();
      } catch { /* a socket that was never bound is closed already */ }
      throw systemError(error, `cannot bind UDP to ${formatEndpoint(address, port)}`);
    }
    sizeBuffers(socket, context);
    return new DgramPort(socket, address, context);
  }

  get waiting(): number {
    return this.#queue.size;
  }

  room(): number {
    return this.#closed === null ? this.#sends.room : 0;
  }

  send(p: Packet, to: IpAddr, port: number): void {
    if (this.#closed === null) this.#sends.push(p, to, port);
    else dropPacket(this.#context, p, DropReason.PortSend);
  }

  /** Does nothing: each packet goes by itself. */
  flush(): void {}

  receive(limit: number, sink: DatagramSink, now: Instant): number {
    return this.#queue.drain(limit, sink, now);
  }

  stats(): UdpPortStats {
    return { ...this.#stats };
  }

  close(): Promise<void> {
    return this.#closed ??= this.#close();
  }

  async #close(): Promise<void> {
    await this.#sends.empty();
    await new Promise<void>((resolve) => this.#socket.close(resolve));
    this.#queue.clear();
  }

  #received(bytes: Uint8Array, from: RemoteInfo): void {
    if (this.#closed !== null) return;
    const address = this.#addresses.parse(from.address);
    if (address === null) {
      this.#stats.receiveErrors++;
      return;
    }
    const p = packetOf(bytes, this.#context);
    if (p === null) return;
    this.#stats.datagramsIn++;
    this.#stats.bytesIn += bytes.length;
    this.#queue.push(p, address, from.port);
    if (this.#queue.size === 1) this.onReadable();
  }
}

function sizeBuffers(socket: Socket, context: PortContext): void {
  try {
    if (socket.getRecvBufferSize() === EMULATED_BUFFER_BYTES) {
      socket.setRecvBufferSize(context.pool.slotBytes);
    } else {
      socket.setRecvBufferSize(SOCKET_BUFFER_BYTES);
      socket.setSendBufferSize(SOCKET_BUFFER_BYTES);
    }
  } catch { /* the sizes that the system chose serve, too */ }
}
