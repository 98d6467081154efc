/**
 * UDP ports joined in memory: for tests that want hosts without sockets.
 *
 * A datagram is in the receiver's queue as soon as it is sent, if somebody is bound to its destination; otherwise it
 * is lost, as a datagram to nobody is. A port can be told to hold what it is handed, so that running out of room can
 * be tried.
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import type { IpAddr } from "../wire/ip_addr.ts";
import { QueuedPort } from "./queued_port.ts";
import type { PortContext } from "./udp_port.ts";

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
export class MemoryPort extends QueuedPort {
  readonly kind = "memory";
  /** Hold what is sent until {@linkcode MemoryPort.releaseHeld}. */
  hold = false;
  readonly #network: MemoryNetwork;
  readonly #hostname: string;
  #held: { p: Packet; to: IpAddr; port: number } | null = null;

  /** Made by {@linkcode MemoryNetwork.open}. */
  constructor(network: MemoryNetwork, address: IpAddr, port: number, context: PortContext) {
    super(address, port, context);
    this.#network = network;
    this.#hostname = address.toString();
  }

  /** Lets everything go that is held, and holds no more. */
  releaseHeld(): void {
    this.hold = false;
    const held = this.#held;
    this.#held = null;
    if (held !== null) this.#deliver(held.p, held.to, held.port);
  }

  override close(): Promise<void> {
    this.releaseHeld();
    return super.close();
  }

  protected transmit(p: Packet, to: IpAddr, port: number): void {
    if (this.hold) this.#held = { p, to, port };
    else this.#deliver(p, to, port);
  }

  protected closeSocket(): Promise<void> {
    this.#network.remove(this);
    return Promise.resolve();
  }

  #deliver(p: Packet, to: IpAddr, port: number): void {
    this.#network.find(to, port)?.received(p.toBytes(), this.#hostname, this.port);
    this.settled();
  }
}

function key(address: IpAddr, port: number): string {
  return `${address} ${port}`;
}
