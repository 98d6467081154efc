/**
 * UDP ports joined in memory: for tests that want hosts without sockets.
 *
 * A datagram is in the receiver's queue as soon as it is sent, if somebody is bound to its destination; otherwise it
 * is lost, as a datagram to nobody is. A port can be told to hold what it is handed, so that running out of room can
 * be tried.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import type { Packet } from "../base/packet.ts";
import type { Instant } from "../base/time.ts";
import type { IpAddr } from "../wire/ip_addr.ts";
import {
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

/** What memory ports are attached to. */
export class MemoryNetwork {
  readonly #ports = new Map<string, MemoryPort>();
  #ephemeral = 49152;

  /**
   * Binds a port to `address` and `port` (0 for any).
   *
   * @throws {TypeError} if that is taken
   */
  open(address: IpAddr, port: number, context: PortContext): MemoryPort {
    let chosen = port;
    if (chosen === 0) {
      do chosen = this.#ephemeral++; while (this.find(address, chosen) !== null);
    }
    if (this.find(address, chosen) !== null) throw new TypeError(`${address} port ${chosen} is taken`);
    const made = new MemoryPort(this, address, chosen, context);
    this.#ports.set(key(address, chosen), made);
    return made;
  }

  /** The port that is bound to this endpoint, or `null`. */
  find(address: IpAddr, port: number): MemoryPort | null {
    return this.#ports.get(key(address, port)) ?? null;
  }

  /** Takes a port off the network. */
  remove(port: MemoryPort): void {
    this.#ports.delete(key(port.address, port.port));
  }
}

/** A UDP port in memory. */
export class MemoryPort implements UdpPort {
  readonly kind = "memory";
  readonly address: IpAddr;
  readonly port: number;
  onReadable: () => void = () => {};
  onWritable: () => void = () => {};
  /** Hold what is sent until {@linkcode MemoryPort.releaseHeld}. */
  hold = false;
  readonly #network: MemoryNetwork;
  readonly #context: PortContext;
  readonly #queue: ReceiveQueue;
  readonly #stats = newPortStats();
  readonly #sends: SendQueue;
  #held: { p: Packet; to: IpAddr; port: number } | null = null;
  #closed = false;

  /** Made by {@linkcode MemoryNetwork.open}. */
  constructor(network: MemoryNetwork, address: IpAddr, port: number, context: PortContext) {
    this.#network = network;
    this.#context = context;
    this.#queue = new ReceiveQueue(context);
    this.#sends = new SendQueue(context, this.#stats, (p, to, port) => {
      if (this.hold) this.#held = { p, to, port };
      else this.#deliver(p, to, port);
    });
    this.#sends.onRoom = () => this.onWritable();
    this.address = address;
    this.port = port;
  }

  get waiting(): number {
    return this.#queue.size;
  }

  room(): number {
    return this.#closed ? 0 : this.#sends.room;
  }

  send(p: Packet, to: IpAddr, port: number): void {
    if (this.#closed) dropPacket(this.#context, p, DropReason.PortSend);
    else this.#sends.push(p, to, port);
  }

  /** Lets everything go that is held, and holds no more. */
  releaseHeld(): void {
    this.hold = false;
    const held = this.#held;
    this.#held = null;
    if (held !== null) this.#deliver(held.p, held.to, held.port);
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
    if (!this.#closed) {
      this.#closed = true;
      this.#network.remove(this);
      this.releaseHeld();
      this.#queue.clear();
    }
    return Promise.resolve();
  }

  #deliver(p: Packet, to: IpAddr, port: number): void {
    const target = this.#network.find(to, port);
    if (target !== null) target.#receive(p, this);
    this.#sends.settled();
  }

  #receive(p: Packet, from: MemoryPort): void {
    const copy = packetOf(p.toBytes(), this.#context);
    if (copy === null) return;
    this.#stats.datagramsIn++;
    this.#stats.bytesIn += copy.length;
    this.#queue.push(copy, from.address, from.port);
    if (this.#queue.size === 1) this.onReadable();
  }
}

function key(address: IpAddr, port: number): string {
  return `${address} ${port}`;
}
