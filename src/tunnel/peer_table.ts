/**
 * The peers of a tunnel: found by where a datagram comes from, and by the interface that a packet leaves by.
 *
 * @module
 */

import { DropCounters, type DropReason } from "../base/drop.ts";
import { type Instant, NEVER } from "../base/time.ts";
import { hashAddress, hashMix } from "../base/hash.ts";
import { HashTable } from "../base/hash_table.ts";
import type { IpAddr, IpPrefix } from "../wire/ip_addr.ts";

/** Where an endpoint is known from: what was configured, a name that was looked up, or packets of a peer that moved. */
export type LearnedBy = "config" | "dns" | "roaming";

/** What a peer is made of. */
export interface PeerOptions {
  /** Its name, for people. */
  readonly name: string;
  /** The interface that it is, an integer of at least 1. */
  readonly ifindex: number;
  /** Its address on the underlay. */
  readonly address: IpAddr;
  /** Its UDP port on the underlay: datagrams go there, and in `raw` come from there. */
  readonly port: number;
  /** Inner source addresses that it may use. */
  readonly allowed: readonly IpPrefix[];
  /** Network identifier (the VNI); 0 if left out. */
  readonly networkId?: number;
  /** True if the ECN field is shown outside (RFC 6040, normal mode); false if left out. */
  readonly isEcnNormal?: boolean;
  /** The prefixes by which it is known if it sends from elsewhere, and followed; none if left out. */
  readonly roamsBy?: readonly IpPrefix[];
  /** Where the endpoint is known from; `"config"` if left out. */
  readonly learnedBy?: LearnedBy;
}

/** A neighbour at the other end of a tunnel, with its counters. */
export class Peer {
  /** Its name, for people. */
  readonly name: string;
  /** The interface that it is. */
  readonly ifindex: number;
  /** Its address on the underlay; changed by {@linkcode PeerTable.move} only. */
  address: IpAddr;
  /** Its UDP port on the underlay; changed by {@linkcode PeerTable.move} only. */
  port: number;
  /** Where these two are known from. */
  learnedBy: LearnedBy;
  /** When it moved last; −`NEVER` if it did not. */
  movedAt: Instant = -NEVER;
  /** How often it moved. */
  moves = 0;
  /** Network identifier. */
  readonly networkId: number;
  /** Inner source addresses that it may use. */
  readonly allowed: readonly IpPrefix[];
  /** True if the ECN field is shown outside (RFC 6040, normal mode). */
  readonly isEcnNormal: boolean;
  /** Packets received from it and let in. */
  packetsIn = 0;
  /** Bytes of these packets, from the inner IP header on. */
  bytesIn = 0;
  /** Packets sent to it. */
  packetsOut = 0;
  /** Bytes of these packets, from the inner IP header on. */
  bytesOut = 0;
  #drops: DropCounters | null = null;

  /** Makes a peer with its counters at 0. */
  constructor(options: PeerOptions) {
    this.name = options.name;
    this.ifindex = options.ifindex;
    this.address = options.address;
    this.port = options.port;
    this.learnedBy = options.learnedBy ?? "config";
    this.networkId = options.networkId ?? 0;
    this.allowed = options.allowed;
    this.isEcnNormal = options.isEcnNormal ?? false;
  }

  /** Counts a packet from it that was not let in. */
  countDrop(reason: DropReason): void {
    this.#drops ??= new DropCounters();
    this.#drops.count(reason);
  }

  /** Packets from it that were not let in, by reason. */
  get drops(): Record<string, number> {
    return this.#drops === null ? {} : this.#drops.toJSON();
  }

  /**
   * True if an inner packet may come from this peer with the source of these words. Prefixes are tried one after the
   * other: a peer has a handful.
   */
  allows(w0: number, w1: number, w2: number, w3: number): boolean {
    const allowed = this.allowed;
    for (let i = 0; i < allowed.length; i++) {
      if (allowed[i]!.containsWords(w0, w1, w2, w3)) return true;
    }
    return false;
  }
}

/** A bounded table of peers. */
export class PeerTable {
  readonly #seed: number;
  readonly #matchPort: boolean;
  readonly #byEndpoint: HashTable<Peer>;
  readonly #byIfindex: (Peer | null)[] = [];

  /**
   * Makes an empty table.
   *
   * @param seed seed of its hash
   * @param matchPort true if peers are told apart by port, false if by network identifier
   * @param limit the most peers (default 65,536)
   */
  constructor(seed: number, matchPort: boolean, limit = 1 << 16) {
    this.#seed = seed;
    this.#matchPort = matchPort;
    this.#byEndpoint = new HashTable<Peer>(limit);
  }

  /** Number of peers. */
  get size(): number {
    return this.#byEndpoint.size;
  }

  /**
   * Adds a peer.
   *
   * @throws {RangeError} if its interface or its endpoint is taken, or the table is full
   */
  add(peer: Peer): void {
    const { w0, w1, w2, w3 } = peer.address;
    const key = this.#keyOf(peer);
    if (!Number.isInteger(peer.ifindex) || peer.ifindex < 1) {
      throw new RangeError(`ifindex of peer ${peer.name} must be an integer above 0, got ${peer.ifindex}`);
    }
    if (this.byIfindex(peer.ifindex) !== null) throw new RangeError(`interface ${peer.ifindex} is a peer already`);
    const other = this.byEndpoint(w0, w1, w2, w3, key);
    if (other !== null) {
      const what = this.#matchPort ? "address and port" : "address and network identifier";
      throw new RangeError(`peers ${other.name} and ${peer.name} have the same ${what}: ${peer.address} ${key}`);
    }
    if (!this.#byEndpoint.insert(this.#hash(w0, w1, w2, w3, key), peer)) {
      throw new RangeError(`too many peers: at most ${this.#byEndpoint.limit}`);
    }
    while (this.#byIfindex.length <= peer.ifindex) this.#byIfindex.push(null);
    this.#byIfindex[peer.ifindex] = peer;
  }

  /**
   * Gives a peer another endpoint. What is on its way to it by its interface goes there.
   *
   * @returns false if another peer has that endpoint; then nothing is changed
   */
  move(peer: Peer, address: IpAddr, port: number, by: LearnedBy, now: Instant): boolean {
    const from = peer.address;
    const other = this.byEndpoint(
      address.w0,
      address.w1,
      address.w2,
      address.w3,
      this.#matchPort ? port : peer.networkId,
    );
    if (other !== null && other !== peer) return false;
    this.#byEndpoint.remove(this.#hash(from.w0, from.w1, from.w2, from.w3, this.#keyOf(peer)), peer);
    peer.address = address;
    peer.port = port;
    peer.learnedBy = by;
    peer.movedAt = now;
    peer.moves++;
    this.#byEndpoint.insert(this.#hash(address.w0, address.w1, address.w2, address.w3, this.#keyOf(peer)), peer);
    return true;
  }

  /** The peer at the address of these words with this port or network identifier, or `null`. */
  byEndpoint(w0: number, w1: number, w2: number, w3: number, key: number): Peer | null {
    const table = this.#byEndpoint;
    for (let i = table.first(this.#hash(w0, w1, w2, w3, key)); i >= 0; i = table.following(i)) {
      const peer = table.at(i);
      if (this.#keyOf(peer) === key && peer.address.equalsWords(w0, w1, w2, w3)) return peer;
    }
    return null;
  }

  /** The peer of an interface, or `null`. */
  byIfindex(ifindex: number): Peer | null {
    return this.#byIfindex[ifindex] ?? null;
  }

  /** All peers by interface; for inspection. */
  *[Symbol.iterator](): IterableIterator<Peer> {
    for (const peer of this.#byIfindex) if (peer !== null) yield peer;
  }

  #keyOf(peer: Peer): number {
    return this.#matchPort ? peer.port : peer.networkId;
  }

  #hash(w0: number, w1: number, w2: number, w3: number, key: number): number {
    return hashAddress(hashMix(this.#seed, key), w0, w1, w2, w3);
  }
}
