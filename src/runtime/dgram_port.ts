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

import { createSocket, type Socket } from "node:dgram";
import type { Packet } from "../base/packet.ts";
import { formatEndpoint } from "../stack/options.ts";
import type { IpAddr } from "../wire/ip_addr.ts";
import { systemError } from "./errors.ts";
import { QueuedPort } from "./queued_port.ts";
import type { PortContext } from "./udp_port.ts";

/** What Deno's implementation answers as the size of a receive buffer that was never set. */
const EMULATED_BUFFER_BYTES = 65536;

/** What is asked of a real socket buffer. */
const SOCKET_BUFFER_BYTES = 4 << 20;

/** A UDP port over `node:dgram`. */
export class DgramPort extends QueuedPort {
  override readonly kind = "dgram";
  readonly #socket: Socket;

  private constructor(socket: Socket, address: IpAddr, context: PortContext) {
    super(address, socket.address().port, context);
    this.#socket = socket;
    socket.on("message", (bytes, from) => this.received(bytes, from.address, from.port));
    socket.on("error", () => this.counters.receiveErrors++);
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

  protected override transmit(p: Packet, to: IpAddr, port: number): void {
    this.#socket.send(p.bytes, p.start, p.length, port, this.addresses.format(to), this.settled);
  }

  protected override closeSocket(): Promise<void> {
    return new Promise((resolve) => this.#socket.close(resolve));
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
