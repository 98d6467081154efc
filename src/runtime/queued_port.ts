/**
 * What UDP ports share that hand packets to the runtime one at a time and are told of datagrams by the event loop.
 *
 * A port of a kind says how one packet is given to its socket and how the socket is closed, and passes on what comes;
 * the two queues, the counters and the order of closing are here.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import type { Packet } from "../base/packet.ts";
import type { Instant } from "../base/time.ts";
import type { IpAddr } from "../wire/ip_addr.ts";
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

/** A UDP port between two queues. */
export abstract class QueuedPort implements UdpPort {
  abstract readonly kind: "dgram" | "deno" | "memory";
  readonly address: IpAddr;
  readonly port: number;
  onReadable: () => void = () => {};
  onWritable: () => void = () => {};
  onSent: () => void = () => {};
  /** The host that it belongs to. */
  protected readonly context: PortContext;
  /** Addresses as text and as words. */
  protected readonly addresses: AddressCache = new AddressCache();
  /** The counters. */
  protected readonly counters: UdpPortStats = newPortStats();
  /** To be called when the socket took the packet of the last `transmit`, with an error if it refused it. */
  protected readonly settled: (error?: unknown) => void;
  readonly #queue: ReceiveQueue;
  readonly #sends: SendQueue;
  #closed: Promise<void> | null = null;

  /** Makes a port for a socket that is bound to `address` and `port`. */
  protected constructor(address: IpAddr, port: number, context: PortContext) {
    this.address = address;
    this.port = port;
    this.context = context;
    this.#queue = new ReceiveQueue(context);
    this.#sends = new SendQueue(context, this.counters, (p, to, port) => this.transmit(p, to, port));
    this.#sends.onRoom = () => this.onWritable();
    this.#sends.onSent = () => this.onSent();
    this.settled = this.#sends.settled;
  }

  /** Gives one packet to the socket, which answers by {@linkcode QueuedPort.settled}; may throw. */
  protected abstract transmit(p: Packet, to: IpAddr, port: number): void;

  /** Closes the socket, which has taken everything by then. */
  protected abstract closeSocket(): Promise<void>;

  get waiting(): number {
    return this.#queue.size;
  }

  room(): number {
    return this.#closed === null ? this.#sends.room : 0;
  }

  send(p: Packet, to: IpAddr, port: number): void {
    if (this.#closed === null) this.#sends.push(p, to, port);
    else dropPacket(this.context, p, DropReason.PortSend);
  }

  /** Does nothing: each packet goes by itself. */
  flush(): void {}

  receive(limit: number, sink: DatagramSink, now: Instant): number {
    return this.#queue.drain(limit, sink, now);
  }

  stats(): UdpPortStats {
    return { ...this.counters };
  }

  close(): Promise<void> {
    return this.#closed ??= this.#close();
  }

  /** True once `close` was called. */
  protected get isClosing(): boolean {
    return this.#closed !== null;
  }

  /** A datagram has come from `port` of the address that the runtime writes as `hostname`. */
  protected received(bytes: Uint8Array, hostname: string, port: number): void {
    if (this.#closed !== null) return;
    const address = this.addresses.parse(hostname);
    if (address === null) {
      this.counters.receiveErrors++;
      return;
    }
    const p = packetOf(bytes, this.context);
    if (p === null) return;
    this.counters.datagramsIn++;
    this.counters.bytesIn += bytes.length;
    this.#queue.push(p, address, port);
    if (this.#queue.size === 1) this.onReadable();
  }

  async #close(): Promise<void> {
    await this.#sends.empty();
    await this.closeSocket();
    this.#queue.clear();
  }
}
