/**
 * A UDP socket in the shape of `Deno.DatagramConn`, without multicast.
 *
 * Without an address it is bound to every address of the host, in both families; then two sockets of the core stand
 * behind it, on the same port. Datagrams wait in a buffer of bounded bytes; one that comes while it is full is lost,
 * and counted. Nothing is fragmented unless that was asked for: a datagram larger than the path carries is refused.
 *
 * @module
 */

import { SocketErrorKind } from "../base/errors.ts";
import type { PathMtuDiscovery, UdpSocket } from "../udp/udp_socket.ts";
import type { IpAddr } from "../wire/ip_addr.ts";
import { type NetAddr, parseHostname } from "./address.ts";
import { bindAll, explainBind } from "./bind.ts";
import { requireBytes } from "./bytes.ts";
import type { Engine, OpenSocket } from "./engine.ts";
import type { Duration } from "../base/time.ts";
import { PendingQueue } from "./pending.ts";

/** Texts of addresses that are remembered, each way. */
const ADDRESSES = 256;

/** A UDP socket. */
export class UdpConn implements AsyncIterable<[Uint8Array<ArrayBuffer>, NetAddr]>, Disposable, AsyncDisposable {
  /** The address that it is bound to: `0.0.0.0` or `::` for all; `::` also if that is all of both families. */
  readonly addr: NetAddr;
  readonly #engine: Engine;
  readonly #sockets: readonly UdpSocket[];
  readonly #receives: PendingQueue;
  readonly #open: OpenSocket;
  readonly #addresses = new Map<string, IpAddr>();
  #closedBy: Error | null = null;
  #failed = false;
  #turn = 0;

  /**
   * Made by `Host.listenDatagram`.
   *
   * @internal
   */
  constructor(engine: Engine, sockets: readonly UdpSocket[]) {
    this.#engine = engine;
    this.#sockets = sockets;
    this.#receives = new PendingQueue(engine);
    const { localAddress, localPort } = sockets.at(-1)!;
    this.addr = { transport: "udp", hostname: localAddress.toString(), port: localPort };
    this.#open = {
      finish: () => {
        this.close();
        return Promise.resolve();
      },
      fail: (reason) => {
        this.#failed = true;
        this.#end(reason);
      },
    };
    const user = { onEvents: () => this.#receives.poll() };
    for (const socket of sockets) socket.user = user;
    engine.add(this.#open);
  }

  /**
   * Waits for the next datagram.
   *
   * @param buffer where its bytes go, what does not fit being lost; by default a new array that fits
   * @param options `signal` gives up waiting, with its reason
   * @returns the bytes and where they came from
   */
  async receive(
    buffer?: Uint8Array,
    options: { signal?: AbortSignal } = {},
  ): Promise<[Uint8Array<ArrayBuffer>, NetAddr]> {
    if (buffer !== undefined) requireBytes(buffer, "the buffer to receive into");
    return await this.#receives.run(() => this.#receiveNow(buffer), options.signal);
  }

  /**
   * Sends one datagram.
   *
   * @param bytes its data; may be used again at once
   * @param addr where to: an IP address as text, and a port
   * @param options `departIn`: how long after now it may depart at the earliest, in ns (default 0; at most the horizon of
   * the scheduler, 10 s by default, beyond which it is dropped and counted)
   * @returns how many bytes were sent: all of them
   */
  send(bytes: Uint8Array, addr: NetAddr, options: { departIn?: Duration } = {}): Promise<number> {
    return new Promise((resolve) => resolve(this.#sendNow(bytes, addr, options.departIn ?? 0)));
  }

  /**
   * The most that the socket sends, in bytes of data per second; datagrams beyond it depart later.
   *
   * @throws {RangeError} if it is not above 0
   */
  setMaxPacingRate(bytesPerSec: number): void {
    if (!(bytesPerSec > 0)) throw new RangeError(`the pacing rate must be above 0, got ${bytesPerSec}`);
    for (const socket of this.#sockets) socket.maxPacingRateBytesPerSec = bytesPerSec;
  }

  /** Closes the socket; waiting calls of `receive` are rejected, datagrams that nobody received are lost. */
  close(): void {
    this.#end(
      this.#engine.error(SocketErrorKind.BadResource, `the UDP socket on port ${this.addr.port} was closed`),
    );
  }

  /** Has waiting calls of `receive` keep the process alive, as they do from the start. */
  ref(): void {
    this.#receives.setReferenced(true);
  }

  /** Has waiting calls of `receive` not keep the process alive. An open host still does unless it is unref'd itself. */
  unref(): void {
    this.#receives.setReferenced(false);
  }

  /** The datagrams as they come; ends when the socket is closed. */
  async *[Symbol.asyncIterator](): AsyncGenerator<[Uint8Array<ArrayBuffer>, NetAddr], void, undefined> {
    try {
      for (;;) yield await this.receive();
    } catch (error) {
      if (this.#failed || error !== this.#closedBy) throw error;
    }
  }

  /** Closes the socket. */
  [Symbol.dispose](): void {
    this.close();
  }

  /** Closes the socket. */
  [Symbol.asyncDispose](): Promise<void> {
    this.close();
    return Promise.resolve();
  }

  #receiveNow(buffer: Uint8Array | undefined): [Uint8Array<ArrayBuffer>, NetAddr] | undefined {
    if (this.#closedBy !== null) throw this.#closedBy;
    for (let i = 0; i < this.#sockets.length; i++) {
      const socket = this.#sockets[this.#turn++ % this.#sockets.length]!;
      if (socket.nextDatagramBytes < 0) continue;
      const target = buffer ?? new Uint8Array(socket.nextDatagramBytes);
      const length = Math.min(target.length, socket.receive(target));
      const from: NetAddr = {
        transport: "udp",
        hostname: socket.receivedAddress.toString(),
        port: socket.receivedPort,
      };
      return [target.subarray(0, length) as Uint8Array<ArrayBuffer>, from];
    }
    return undefined;
  }

  #sendNow(bytes: Uint8Array, addr: NetAddr, departIn: Duration): number {
    if (this.#closedBy !== null) throw this.#closedBy;
    requireBytes(bytes, "what is sent");
    const remote = this.#parse(addr.hostname);
    const socket = this.#sockets.find((socket) => socket.localAddress.version === remote.version);
    if (socket === undefined) {
      throw new TypeError(`a socket on ${this.addr.hostname} cannot send to ${addr.hostname}: not the same IP version`);
    }
    const now = this.#engine.now();
    const error = socket.send(bytes, remote, addr.port, now, departIn > 0 ? now + Math.round(departIn) : 0);
    if (error !== SocketErrorKind.None) throw this.#engine.error(error, explain(error, bytes.length, remote));
    this.#engine.wake();
    return bytes.length;
  }

  #parse(hostname: string): IpAddr {
    let address = this.#addresses.get(hostname);
    if (address === undefined) {
      address = parseHostname(hostname);
      if (this.#addresses.size >= ADDRESSES) this.#addresses.clear();
      this.#addresses.set(hostname, address);
    }
    return address;
  }

  #end(reason: Error): void {
    if (this.#closedBy !== null) return;
    this.#closedBy = reason;
    for (const socket of this.#sockets) socket.close();
    this.#receives.fail(reason);
    this.#engine.remove(this.#open);
  }
}

function explain(error: SocketErrorKind, bytes: number, remote: IpAddr): string {
  switch (error) {
    case SocketErrorKind.MessageTooLong:
      return `a datagram of ${bytes} bytes to ${remote} is larger than the MTU allows`;
    case SocketErrorKind.HostUnreachable:
      return `no route leads to ${remote}`;
    case SocketErrorKind.AddrNotAvailable:
      return `this host has no address to send to ${remote} from`;
    case SocketErrorKind.NoBufferSpace:
      return `too many packets are in use to send to ${remote}`;
    default:
      return `cannot send to ${remote}`;
  }
}

/**
 * Binds a UDP socket; see `Host.listenDatagram`.
 *
 * @param local the addresses to bind: one, or the unspecified ones of both families
 * @param port 0 for a free one, the same in both families
 * @param pathMtuDiscovery what becomes of datagrams that are larger than the path carries
 */
export function bindUdp(
  engine: Engine,
  local: readonly IpAddr[],
  port: number,
  pathMtuDiscovery: PathMtuDiscovery,
): UdpConn {
  if (engine.closedBy !== null) throw engine.closedBy;
  const { udp } = engine.stack;
  const sockets = bindAll(
    local,
    port,
    (address, port) => udp.bind(address, port),
    (socket: UdpSocket) => socket.close(),
  );
  if (typeof sockets !== "number") {
    for (const socket of sockets) socket.pathMtuDiscovery = pathMtuDiscovery;
    return new UdpConn(engine, sockets);
  }
  throw engine.error(sockets, `cannot bind UDP port ${port} of ${local.join(" and ")}: ${explainBind(sockets)}`);
}
