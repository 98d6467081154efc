/**
 * The UDP socket under a host, as the driver sees it, and what every implementation shares.
 *
 * ```text
 *   driver ──send(p)──►  handed over, not completed (bounded: room())  ──► socket
 *   driver ◄─receive()── ReceiveQueue (bounded, a drop is counted)     ◄── socket
 * ```
 *
 * Sockets queue without bound below the runtime, so a port counts what it handed over and was not told about yet;
 * `room()` says how many packets more it takes, and the driver pulls no more than that from the queueing discipline.
 * A port owns a packet from `send` until the socket has taken the bytes. Nothing here throws for what the network does:
 * a datagram that the socket refuses is dropped as `PortSend`.
 *
 * Addresses are four words in the stack and text in the runtime; {@linkcode AddressCache} remembers both ways.
 *
 * @module
 */

import { type DropCounters, DropReason } from "../base/drop.ts";
import { HEADROOM_BYTES, type Packet, type PacketPool } from "../base/packet.ts";
import type { Instant } from "../base/time.ts";
import { IpAddr } from "../wire/ip_addr.ts";

/** Takes datagrams, each with the endpoint that it came from. */
export interface DatagramSink {
  /** Takes `p`, a datagram from address `w0`–`w3` and `port`. */
  inputDatagram(p: Packet, w0: number, w1: number, w2: number, w3: number, port: number, now: Instant): void;
}

/** Counters of a port. */
export interface UdpPortStats {
  /** Datagrams received and queued. */
  datagramsIn: number;
  /** Their bytes. */
  bytesIn: number;
  /** Datagrams that the socket took. */
  datagramsOut: number;
  /** Their bytes. */
  bytesOut: number;
  /** Datagrams that the socket refused. */
  sendErrors: number;
  /** Errors reported while receiving. */
  receiveErrors: number;
  /** Datagrams that the system dropped since nobody read them in time; absent where the port cannot know. */
  socketDrops?: number;
}

/** A bound UDP socket of one address family. */
export interface UdpPort {
  /** Which implementation this is. */
  readonly kind: "dgram" | "deno" | "linux" | "memory";
  /** The address that it is bound to. */
  readonly address: IpAddr;
  /** The port that it is bound to. */
  readonly port: number;
  /** Called when the first datagram since the queue was empty has come. */
  onReadable: () => void;
  /** Called when there is room again after there was none. */
  onWritable: () => void;
  /** Called when all that was handed over has been sent, some time after `send`; never, where `flush` sends. */
  onSent?: () => void;
  /** Called when a datagram was larger than the way to `to` is known to carry; never, where the port cannot know. */
  onTooBig?: (to: IpAddr) => void;
  /** How many packets may be handed over now. */
  room(): number;
  /** Takes `p`, whose live range is to be sent to an endpoint, at the latest at the next `flush`. */
  send(p: Packet, to: IpAddr, port: number): void;
  /** Sends what waits to be sent together with more. */
  flush(): void;
  /** Hands at most `limit` datagrams to `sink`; returns how many. */
  receive(limit: number, sink: DatagramSink, now: Instant): number;
  /** Datagrams received and waiting. */
  readonly waiting: number;
  /** The counters. */
  stats(): UdpPortStats;
  /** Closes the socket once it has taken what it was handed; all packets are free afterwards. */
  close(): Promise<void>;
}

/** A port that reads and writes its socket itself, when it is called. */
export interface PolledPort extends UdpPort {
  /** The descriptor of the socket. */
  readonly fd: number;
  /** True while packets wait for the socket to have room. */
  readonly isBlocked: boolean;
  /** What it has to do without, each in a few words. */
  readonly notes: readonly string[];
  /**
   * To be called at the end of a turn: takes datagrams from the socket if none wait, and if `receive` handed out none since
   * the last call. Nobody is told. `receive` alone takes none but to go on with what it hands out.
   */
  fill(): void;
  /**
   * Sends what waits, if the socket has room again, and takes datagrams from the socket if none wait; if some wait then,
   * `onReadable` is called.
   *
   * @returns true if datagrams wait
   */
  look(): boolean;
}

/** True for a port that has to be looked at, false for one that is told by the event loop. */
export function isPolled(port: UdpPort): port is PolledPort {
  return port.kind === "linux";
}

/** What a port needs of the host that it belongs to. */
export interface PortContext {
  /** Where the packets live. */
  readonly pool: PacketPool;
  /** Where drops are counted. */
  readonly drops: DropCounters;
  /** Told of an exception in a callback of the socket, where the runtime would swallow it. */
  fault(error: unknown): void;
  /** Told when the socket has been given a packet, in their order: the packet's departure time. For measurements. */
  departed?(departAt: Instant): void;
}

/** Counts the drop of `p` and frees it. */
export function dropPacket(context: PortContext, p: Packet, reason: DropReason): void {
  context.drops.count(reason);
  context.pool.release(p);
}

/** The most datagrams that wait for the driver. */
const RECEIVE_LIMIT = 1024;

/** Datagrams received and not yet taken by the driver, each with its source. */
export class ReceiveQueue {
  readonly #context: PortContext;
  readonly #packets: (Packet | null)[];
  readonly #words: Int32Array;
  readonly #ports: Uint16Array;
  #head = 0;
  #size = 0;

  /** Makes a queue for at most `limit` datagrams (default 1,024). */
  constructor(context: PortContext, limit: number = RECEIVE_LIMIT) {
    this.#context = context;
    this.#packets = new Array<Packet | null>(limit).fill(null);
    this.#words = new Int32Array(limit * 4);
    this.#ports = new Uint16Array(limit);
  }

  /** Datagrams waiting. */
  get size(): number {
    return this.#size;
  }

  /** Queues `p`, which it takes; when the queue is full, `p` is dropped. */
  push(p: Packet, from: IpAddr, port: number): void {
    const limit = this.#packets.length;
    if (this.#size === limit) {
      dropPacket(this.#context, p, DropReason.ReceiveBufferFull);
      return;
    }
    const at = (this.#head + this.#size) % limit;
    this.#packets[at] = p;
    this.#words[at * 4] = from.w0;
    this.#words[at * 4 + 1] = from.w1;
    this.#words[at * 4 + 2] = from.w2;
    this.#words[at * 4 + 3] = from.w3;
    this.#ports[at] = port;
    this.#size++;
  }

  /** Hands the oldest datagrams, at most `limit`, to `sink`; returns how many. */
  drain(limit: number, sink: DatagramSink, now: Instant): number {
    const n = Math.min(limit, this.#size);
    const words = this.#words;
    for (let i = 0; i < n; i++) {
      const at = this.#head;
      const p = this.#packets[at]!;
      this.#packets[at] = null;
      this.#head = (at + 1) % this.#packets.length;
      this.#size--;
      const w = at * 4;
      sink.inputDatagram(p, words[w]!, words[w + 1]!, words[w + 2]!, words[w + 3]!, this.#ports[at]!, now);
    }
    return n;
  }

  /** Frees everything that waits. */
  clear(): void {
    for (; this.#size > 0; this.#size--) {
      dropPacket(this.#context, this.#packets[this.#head]!, DropReason.Closed);
      this.#packets[this.#head] = null;
      this.#head = (this.#head + 1) % this.#packets.length;
    }
  }
}

/** The most packets that wait to be sent; their bytes are bounded by the size of a slot. */
const SEND_LIMIT = 64;

/**
 * The packets on their way through a socket, one at a time.
 *
 * Handing a socket many datagrams at once is no faster, and when it has to wait for the kernel it sends those that
 * wait in reverse order. So the next one goes when the one before it has gone, and order is kept.
 */
export class SendQueue {
  /** Called when there is room after there was none. */
  onRoom: () => void = () => {};
  /** Called when the last packet has gone. */
  onSent: () => void = () => {};
  /** To be called when the socket took the packet that it was given, with an error if it refused it. */
  readonly settled: (error?: unknown) => void;
  readonly #context: PortContext;
  readonly #stats: UdpPortStats;
  readonly #transmit: (p: Packet, to: IpAddr, port: number) => void;
  readonly #packets: (Packet | null)[] = new Array<Packet | null>(SEND_LIMIT).fill(null);
  readonly #addresses: IpAddr[] = new Array<IpAddr>(SEND_LIMIT).fill(IpAddr.ANY_V4);
  readonly #ports = new Uint16Array(SEND_LIMIT);
  #head = 0;
  #size = 0;
  #isBusy = false;
  #isPumping = false;
  #onEmpty: (() => void) | null = null;

  /**
   * Makes an empty queue.
   *
   * @param stats where what was sent is counted
   * @param transmit gives one packet to the socket, which is to answer by {@linkcode SendQueue.settled}; may throw
   */
  constructor(
    context: PortContext,
    stats: UdpPortStats,
    transmit: (p: Packet, to: IpAddr, port: number) => void,
  ) {
    this.#context = context;
    this.#stats = stats;
    this.#transmit = transmit;
    this.settled = (error) => this.#settle(error === undefined || error === null);
  }

  /** How many packets more it takes. */
  get room(): number {
    return SEND_LIMIT - this.#size;
  }

  /** Takes `p`, to be sent to an endpoint after those before it; drops it when the queue is full. */
  push(p: Packet, to: IpAddr, port: number): void {
    if (this.#size === SEND_LIMIT) {
      this.#stats.sendErrors++;
      dropPacket(this.#context, p, DropReason.PortSend);
      return;
    }
    const at = (this.#head + this.#size) % SEND_LIMIT;
    this.#packets[at] = p;
    this.#addresses[at] = to;
    this.#ports[at] = port;
    this.#size++;
    this.#pump();
  }

  /** Resolves when every packet has been sent or refused. */
  empty(): Promise<void> {
    if (this.#size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#onEmpty = resolve);
  }

  #pump(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    while (this.#size > 0 && !this.#isBusy) {
      this.#isBusy = true;
      const at = this.#head;
      try {
        const p = this.#packets[at]!;
        const { departAt } = p;
        this.#transmit(p, this.#addresses[at]!, this.#ports[at]!);
        if (this.#context.departed !== undefined) this.#context.departed(departAt);
      } catch {
        this.#settle(false);
      }
    }
    this.#isPumping = false;
  }

  #settle(sent: boolean): void {
    if (!this.#isBusy) return;
    this.#isBusy = false;
    const p = this.#packets[this.#head]!;
    this.#packets[this.#head] = null;
    this.#head = (this.#head + 1) % SEND_LIMIT;
    this.#size--;
    try {
      if (sent) {
        this.#stats.datagramsOut++;
        this.#stats.bytesOut += p.length;
        this.#context.pool.release(p);
      } else {
        this.#stats.sendErrors++;
        dropPacket(this.#context, p, DropReason.PortSend);
      }
    } catch (error) {
      this.#context.fault(error);
    }
    if (this.#size === SEND_LIMIT - 1) this.onRoom();
    this.#pump();
    if (this.#size > 0) return;
    if (this.#onEmpty === null) this.onSent();
    else this.#onEmpty();
  }
}

/** Counters at zero. */
export function newPortStats(): UdpPortStats {
  return { datagramsIn: 0, bytesIn: 0, datagramsOut: 0, bytesOut: 0, sendErrors: 0, receiveErrors: 0 };
}

/**
 * Copies a datagram that the runtime delivered into a packet with headroom.
 *
 * @returns the packet, or `null` if it was dropped and counted: too big for a slot, or no slot free
 */
export function packetOf(bytes: Uint8Array, context: PortContext): Packet | null {
  const p = context.pool.acquire(HEADROOM_BYTES);
  if (p === null) {
    context.drops.count(DropReason.PoolExhausted);
    return null;
  }
  if (bytes.length > p.bytes.length - HEADROOM_BYTES) {
    dropPacket(context, p, DropReason.TooBig);
    return null;
  }
  p.bytes.set(bytes, HEADROOM_BYTES);
  p.end = HEADROOM_BYTES + bytes.length;
  return p;
}

/** Addresses as text and as words, each way remembered for a bounded number of addresses. */
export class AddressCache {
  readonly #limit: number;
  readonly #byText = new Map<string, IpAddr | null>();
  readonly #byAddress = new Map<IpAddr, string>();

  /** Makes a cache that forgets everything whenever it holds `limit` addresses (default 1,024). */
  constructor(limit = 1024) {
    this.#limit = limit;
  }

  /** The address that the runtime wrote as `text`, without a zone, or `null` if it is none. */
  parse(text: string): IpAddr | null {
    let address = this.#byText.get(text);
    if (address === undefined) {
      const zone = text.indexOf("%");
      try {
        address = IpAddr.parse(zone < 0 ? text : text.slice(0, zone));
      } catch {
        address = null;
      }
      if (this.#byText.size >= this.#limit) this.#byText.clear();
      this.#byText.set(text, address);
    }
    return address;
  }

  /** The text of an address; remembered by object, so pass the same one each time. */
  format(address: IpAddr): string {
    let text = this.#byAddress.get(address);
    if (text === undefined) {
      text = address.toString();
      if (this.#byAddress.size >= this.#limit) this.#byAddress.clear();
      this.#byAddress.set(address, text);
    }
    return text;
  }
}
