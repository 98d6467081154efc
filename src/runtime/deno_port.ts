/**
 * A UDP port over `Deno.listenDatagram`: about twice as fast as `node:dgram`, and there only under `--unstable-net`.
 *
 * One receive is pending at any time, into one buffer of the port's own; the bytes are copied into a packet. Whatever
 * is waiting in the socket comes in one turn of the event loop.
 *
 * @module
 */

import { setTimeout } from "node:timers";
import type { Packet } from "../base/packet.ts";
import { formatEndpoint } from "../stack/options.ts";
import type { IpAddr } from "../wire/ip_addr.ts";
import { systemError } from "./errors.ts";
import { QueuedPort } from "./queued_port.ts";
import type { PortContext } from "./udp_port.ts";

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
export class DenoPort extends QueuedPort {
  override readonly kind = "deno";
  readonly #conn: DatagramConn;
  readonly #endpoints = new Map<IpAddr, Endpoint>();
  readonly #sent: () => void = () => this.settled();
  readonly #receiving: Promise<void>;

  private constructor(conn: DatagramConn, address: IpAddr, context: PortContext) {
    super(address, conn.addr.port, context);
    this.#conn = conn;
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

  protected override transmit(p: Packet, to: IpAddr, port: number): void {
    this.#conn.send(p.bytes.subarray(p.start, p.end), this.#endpoint(to, port)).then(this.#sent, this.settled);
  }

  protected override async closeSocket(): Promise<void> {
    this.#conn.close();
    await this.#receiving;
  }

  async #receiveAll(): Promise<void> {
    const target = new Uint8Array(this.context.pool.slotBytes);
    while (!this.isClosing) {
      try {
        const [bytes, from] = await this.#conn.receive(target);
        this.received(bytes, from.hostname, from.port);
      } catch {
        if (this.isClosing) return;
        this.counters.receiveErrors++;
        await new Promise<void>((resolve) => setTimeout(resolve, 1).unref());
      }
    }
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
