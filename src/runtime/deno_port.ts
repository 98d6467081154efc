/**
 * A UDP port over `Deno.listenDatagram`: about twice as fast as `node:dgram`, and there only under `--unstable-net`.
 *
 * One receive is pending at any time, into one buffer of the port's own; the bytes are copied into a packet. Whatever
 * is waiting in the socket comes in one turn of the event loop.
 *
 * @module
 */

import { setTimeout } from "node:timers";
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

interface Endpoint {
  transport: "udp";
  hostname: string;
  port: number;
}

interface DatagramConn {
  readonly addr: Endpoint;
  receive(target: Uint8Array): Promise<[Uint8Array, Endpoint]>;
  send(bytes: Uint8Array, to: Endpoint): Promise<number>;
  close(): void;
  unref?(): void;
}

type ListenDatagram = (options: Endpoint) => DatagramConn;

/** `Deno.listenDatagram`, where it exists. */
function listenDatagram(): ListenDatagram | undefined {
  const runtime = (globalThis as unknown as { Deno?: { listenDatagram?: ListenDatagram } }).Deno;
  return typeof runtime?.listenDatagram === "function" ? runtime.listenDatagram : undefined;
}

/** A UDP port over `Deno.listenDatagram`. */
export class DenoPort implements UdpPort {
  readonly kind = "deno";
  readonly address: IpAddr;
  readonly port: number;
  onReadable: () => void = () => {};
  onWritable: () => void = () => {};
  readonly #conn: DatagramConn;
  readonly #context: PortContext;
  readonly #queue: ReceiveQueue;
  readonly #addresses = new AddressCache();
  readonly #endpoints = new Map<IpAddr, Endpoint>();
  readonly #stats = newPortStats();
  readonly #sends: SendQueue;
  readonly #receiving: Promise<void>;
  #closed: Promise<void> | null = null;

  private constructor(conn: DatagramConn, address: IpAddr, context: PortContext) {
    this.#conn = conn;
    this.#context = context;
    this.#queue = new ReceiveQueue(context);
    const sent = () => this.#sends.settled();
    this.#sends = new SendQueue(context, this.#stats, (p, to, port) => {
      const { settled } = this.#sends;
      conn.send(p.bytes.subarray(p.start, p.end), this.#endpoint(to, port)).then(sent, settled);
    });
    this.#sends.onRoom = () => this.onWritable();
    this.address = address;
    this.port = conn.addr.port;
    this.#receiving = this.#receiveAll();
  }

  /** True if this runtime has `Deno.listenDatagram`. */
  static exists(): boolean {
    return listenDatagram() !== undefined;
  }

  /** True if this runtime has `Deno.listenDatagram` and it can serve `address` (it cannot bind `::` to IPv6 only). */
  static serves(address: IpAddr): boolean {
    return DenoPort.exists() && (address.isV4 || !address.isUnspecified);
  }

  /**
   * Binds a socket to `address` and `port` (0 for any).
   *
   * @throws {Deno.errors.AddrInUse} or what else the operating system says, by its class
   */
  static open(address: IpAddr, port: number, context: PortContext): DenoPort {
    const listen = listenDatagram();
    if (listen === undefined) throw new TypeError("Deno.listenDatagram needs the flag --unstable-net");
    try {
      const conn = listen({ transport: "udp", hostname: address.toString(), port });
      conn.unref?.();
      return new DenoPort(conn, address, context);
    } catch (error) {
      throw systemError(error, `cannot bind UDP to ${formatEndpoint(address, port)}`);
    }
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
    this.#conn.close();
    await this.#receiving;
    this.#queue.clear();
  }

  async #receiveAll(): Promise<void> {
    const target = new Uint8Array(this.#context.pool.slotBytes);
    while (this.#closed === null) {
      try {
        const [bytes, from] = await this.#conn.receive(target);
        this.#received(bytes, from);
      } catch {
        if (this.#closed !== null) return;
        this.#stats.receiveErrors++;
        await new Promise<void>((resolve) => setTimeout(resolve, 1).unref());
      }
    }
  }

  #received(bytes: Uint8Array, from: Endpoint): void {
    if (this.#closed !== null) return;
    const address = this.#addresses.parse(from.hostname);
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

  #endpoint(to: IpAddr, port: number): Endpoint {
    let endpoint = this.#endpoints.get(to);
    if (endpoint === undefined || endpoint.port !== port) {
      endpoint = { transport: "udp", hostname: to.toString(), port };
      if (this.#endpoints.size >= 1024) this.#endpoints.clear();
      this.#endpoints.set(to, endpoint);
    }
    return endpoint;
  }
}
