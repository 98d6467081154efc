/**
 * Two TCPs joined by a hostile link under virtual time.
 *
 * Each host has a first-in, first-out queue that drains at a rate and keeps departure stamps, so that there is a backlog
 * and packets depart; behind it the wire loses, duplicates, delays, reorders, flips bits and marks what is ECN-capable,
 * each with a chance of its own. A host may also run out of packets and its queue may refuse some. All chance comes from one seed.
 *
 * @module
 */

import { assertEquals, fail } from "@std/assert";
import { DropCounters, DropReason } from "../../src/base/drop.ts";
import { EventQueue } from "../../src/base/event_queue.ts";
import { type Packet, PacketPool } from "../../src/base/packet.ts";
import type { Rng } from "../../src/base/rng.ts";
import { type Duration, type Instant, NEVER } from "../../src/base/time.ts";
import type { TcpNetwork } from "../../src/tcp/network.ts";
import type { TcpOptions } from "../../src/tcp/options.ts";
import { Tcp } from "../../src/tcp/tcp.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { IpHeader, ipHeaderBytes } from "../../src/wire/ip_header.ts";
import { checkInvariants } from "./tcp_invariants.ts";

/** What one direction does to packets; chances from 0 to 1. */
export interface LinkOptions {
  /** Time on the wire. */
  delay: Duration;
  /** Up to so much more, drawn for each packet: packets overtake one another. */
  jitter: Duration;
  /** Rate at which the sender's queue drains; 0 for no limit. */
  rateBytesPerSec: number;
  /** Chance of being lost. */
  loss: number;
  /** Chance of coming twice. */
  duplicate: number;
  /** Chance that one bit is flipped. */
  corrupt: number;
  /** Chance that an ECN-capable packet is marked. */
  mark: number;
  /** Chance that the host has no packet to build a segment in. */
  noPacket: number;
  /** Chance that the queue refuses a packet. */
  refuse: number;
}

/** A link that does nothing but take 10 ms. */
export const GOOD_LINK: LinkOptions = {
  delay: 10e6,
  jitter: 0,
  rateBytesPerSec: 0,
  loss: 0,
  duplicate: 0,
  corrupt: 0,
  mark: 0,
  noPacket: 0,
  refuse: 0,
};

/** A TCP that begins its sequence numbers shortly before the wrap at 2^32. */
class WrappingTcp extends Tcp {
  protected override generateSequence(): number {
    return -1 - this.network.rng.below(20_000);
  }
}

interface OnTheWire {
  at: Instant;
  order: number;
  bytes: Uint8Array<ArrayBuffer>;
  trafficClass: number;
  to: PairHost;
}

/** One of the two hosts. */
export class PairHost implements TcpNetwork {
  readonly events = new EventQueue();
  readonly drops = new DropCounters();
  readonly pool = new PacketPool(4096);
  readonly queue: Packet[] = [];
  /** Traffic classes of the packets in the queue. */
  readonly trafficClasses: number[] = [];
  readonly tcp: Tcp;
  /** When the queue may send its next packet, as far as the rate is concerned. */
  freeAt: Instant = 0;

  constructor(
    readonly pair: TcpPair,
    readonly address: IpAddr,
    readonly mtu: number,
    public link: LinkOptions,
    readonly rng: Rng,
    options: Partial<TcpOptions>,
  ) {
    this.tcp = new WrappingTcp(this, options);
  }

  acquire(): Packet | null {
    return this.pair.chance(this.link.noPacket) ? null : this.pool.acquire();
  }
  release(p: Packet): void {
    this.pool.release(p);
  }
  drop(p: Packet, reason: DropReason): void {
    this.drops.count(reason);
    this.pool.release(p);
  }
  sourceFor(): IpAddr {
    return this.address;
  }
  isLocal(address: IpAddr): boolean {
    return address.equals(this.address);
  }
  mtuTo(): number {
    return this.mtu;
  }
  pathMtuTo(): number {
    return this.mtu;
  }
  learnPathMtu(): void {}
  setFlowRate(): void {}
  resetFlow(): void {}
  lateness(): number {
    return 0;
  }
  flowBacklog(flow: number): number {
    return this.queue.reduce((sum, p) => sum + (p.flow === flow ? p.length : 0), 0);
  }
  output(p: Packet, ip: IpHeader): DropReason {
    assertEquals(p.length + ipHeaderBytes(ip.version) <= this.mtu, true, "packet larger than the MTU");
    if (this.pair.chance(this.link.refuse)) return DropReason.QdiscLimit;
    this.queue.push(p);
    this.trafficClasses.push(ip.trafficClass);
    return DropReason.None;
  }

  /** When the queue's next packet leaves. */
  get departsAt(): Instant {
    return this.queue.length === 0 ? NEVER : Math.max(this.queue[0]!.departAt, this.freeAt);
  }
}

/** Two hosts and the link between them. */
export class TcpPair {
  now: Instant = 0;
  readonly a: PairHost;
  readonly b: PairHost;
  /** Packets delivered so far. */
  delivered = 0;
  readonly #wire: OnTheWire[] = [];
  readonly #rng: Rng;
  readonly #ip = new IpHeader();
  #order = 0;

  constructor(
    rng: Rng,
    family: 4 | 6,
    mtu: number,
    links: readonly [LinkOptions, LinkOptions],
    options: readonly [Partial<TcpOptions>, Partial<TcpOptions>],
  ) {
    this.#rng = rng.fork("wire");
    const [a, b] = family === 4 ? ["10.7.0.1", "10.7.0.2"] : ["fd07::1", "fd07::2"];
    this.a = new PairHost(this, IpAddr.parse(a!), mtu, links[0], rng.fork("a"), options[0]);
    this.b = new PairHost(this, IpAddr.parse(b!), mtu, links[1], rng.fork("b"), options[1]);
  }

  /** Draws from the link's stream. */
  chance(p: number): boolean {
    return p > 0 && this.#rng.chance(p);
  }

  /** When something happens next by itself. */
  nextAt(): Instant {
    let at = Math.min(this.a.tcp.nextAt(), this.b.tcp.nextAt(), this.a.departsAt, this.b.departsAt);
    for (const w of this.#wire) if (w.at < at) at = w.at;
    return at;
  }

  /** Lets everything happen that is due at `now`, and checks both hosts. */
  step(now: Instant): void {
    this.now = now;
    for (let turns = 0; this.nextAt() <= now; turns++) {
      if (turns > 2000) fail("the pair does not come to rest");
      this.#deliver();
      for (const host of [this.a, this.b]) {
        host.tcp.timeout(now);
        this.#depart(host);
      }
    }
    for (const host of [this.a, this.b]) {
      for (const t of host.tcp.connections()) checkInvariants(t);
      if (host.tcp.nextAt() <= now) fail("nextAt is not in the future");
    }
  }

  /** Packets that are nowhere: neither free nor in a queue. */
  get leaked(): number {
    return [this.a, this.b].reduce((sum, host) => sum + host.pool.inUse - host.queue.length, 0);
  }

  #depart(host: PairHost): void {
    while (host.departsAt <= this.now) {
      const p = host.queue.shift()!;
      const trafficClass = host.trafficClasses.shift()!;
      const { link } = host;
      if (link.rateBytesPerSec > 0) {
        host.freeAt = this.now + Math.ceil(p.length / link.rateBytesPerSec * 1e9);
      }
      this.#transmit(host, p.toBytes(), trafficClass);
      if (this.chance(link.duplicate)) this.#transmit(host, p.toBytes(), trafficClass);
      const flow = p.flow;
      host.pool.release(p);
      host.tcp.departed(flow);
    }
  }

  #transmit(from: PairHost, bytes: Uint8Array<ArrayBuffer>, trafficClass: number): void {
    const { link } = from;
    if (this.chance(link.loss)) return;
    const copy = bytes.slice();
    if (this.chance(link.corrupt)) copy[this.#rng.below(copy.length)]! ^= 1 << this.#rng.below(8);
    const at = this.now + link.delay + (link.jitter > 0 ? this.#rng.below(link.jitter) : 0);
    const marked = (trafficClass & 3) !== 0 && this.chance(link.mark) ? trafficClass | 3 : trafficClass;
    this.#wire.push({
      at,
      order: this.#order++,
      bytes: copy,
      trafficClass: marked,
      to: from === this.a ? this.b : this.a,
    });
  }

  #deliver(): void {
    const due = this.#wire.filter((w) => w.at <= this.now).sort((x, y) => x.at - y.at || x.order - y.order);
    if (due.length === 0) return;
    this.#wire.splice(0, this.#wire.length, ...this.#wire.filter((w) => w.at > this.now));
    for (const { bytes, trafficClass, to } of due) {
      const p = to.pool.acquire()!;
      p.end = p.start + bytes.length;
      p.bytes.set(bytes, p.start);
      const from = to === this.a ? this.b : this.a;
      this.#ip.setAddresses(from.address, to.address);
      this.#ip.setDefaults(6, bytes.length);
      this.#ip.trafficClass = trafficClass;
      this.delivered++;
      to.tcp.input(p, this.#ip, this.now);
    }
  }
}
