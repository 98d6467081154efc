/**
 * The host's own addresses: which packets are for us, and which address a packet of ours comes from.
 *
 * Source selection follows RFC 6724 as far as a host with addresses of one scope and no preference flags needs it: an
 * own address for itself (rule 1), the destination's scope (rule 2), then the address whose network contains the
 * destination, then one inside the route's prefix, then the longest common prefix (rule 8) for IPv6, then the first
 * configured.
 *
 * @module
 */

import { hashFinish, hashMix } from "../base/hash.ts";
import { HashTable } from "../base/hash_table.ts";
import { type IpAddr, type IpInterface, isV4Words } from "../wire/ip_addr.ts";
import { AddressKind, addressKind } from "./address_kind.ts";
import type { RouteTable } from "./route_table.ts";

/** The addresses of one host. */
export class AddressTable {
  readonly #seed: number;
  readonly #list: IpInterface[] = [];
  readonly #own: HashTable<IpInterface>;
  readonly #broadcasts = new Set<number>();

  /** Makes an empty table for at most `limit` addresses (default 65,536). */
  constructor(seed: number, limit = 1 << 16) {
    this.#seed = seed;
    this.#own = new HashTable<IpInterface>(limit);
  }

  /** All addresses in the order in which they were added. */
  get list(): readonly IpInterface[] {
    return this.#list;
  }

  /**
   * Adds an address.
   *
   * @throws {RangeError} if it is there already, the table is full, or no host can have such an address
   */
  add(own: IpInterface): void {
    const a = own.address;
    const kind = addressKind(a.version, a.w0, a.w1, a.w2, a.w3);
    if (kind !== AddressKind.Unicast && kind !== AddressKind.LinkLocal && kind !== AddressKind.Loopback) {
      throw new RangeError(`${a} cannot be a host's address: it is ${AddressKind[kind]!.toLowerCase()}`);
    }
    if (this.isLocal(a.w0, a.w1, a.w2, a.w3)) throw new RangeError(`the address ${a} is there already`);
    if (!this.#own.insert(this.#hash(a.w0, a.w1, a.w2, a.w3), own)) {
      throw new RangeError(`too many addresses: at most ${this.#own.limit}`);
    }
    this.#list.push(own);
    if (a.isV4 && own.prefix.length < 31) {
      this.#broadcasts.add(own.prefix.address.w3 | (0xffffffff >>> own.prefix.length));
    }
  }

  /** True if the address of these four words is our own. */
  isLocal(w0: number, w1: number, w2: number, w3: number): boolean {
    const own = this.#own;
    for (let i = own.first(this.#hash(w0, w1, w2, w3)); i >= 0; i = own.following(i)) {
      if (own.at(i).address.equalsWords(w0, w1, w2, w3)) return true;
    }
    return false;
  }

  /** True for the directed broadcast address of a network that we are on (RFC 2644: neither answered nor forwarded). */
  isBroadcast(w0: number, w1: number, w2: number, w3: number): boolean {
    return this.#broadcasts.size > 0 && isV4Words(w0, w1, w2) && this.#broadcasts.has(w3);
  }

  /** The own address to send from to the address of these words, or `null` if there is none of its family. */
  sourceFor(w0: number, w1: number, w2: number, w3: number, routes: RouteTable): IpAddr | null {
    const version = isV4Words(w0, w1, w2) ? 4 : 6;
    const linkLocal = addressKind(version, w0, w1, w2, w3) === AddressKind.LinkLocal;
    const route = routes.lookup(w0, w1, w2, w3);
    let best: IpAddr | null = null;
    let bestScore = -1;
    for (const own of this.#list) {
      const a = own.address;
      if (a.version !== version) continue;
      if (a.equalsWords(w0, w1, w2, w3)) return a;
      let score = 0;
      if ((addressKind(version, a.w0, a.w1, a.w2, a.w3) === AddressKind.LinkLocal) === linkLocal) score += 10_000;
      if (own.prefix.containsWords(w0, w1, w2, w3)) score += 1_000 + own.prefix.length;
      else if (route !== null && route.prefix.length > 0 && route.prefix.contains(a)) score += 500;
      else if (version === 6) score += commonPrefix(a, w0, w1, w2, w3);
      if (score > bestScore) {
        bestScore = score;
        best = a;
      }
    }
    return best;
  }

  #hash(w0: number, w1: number, w2: number, w3: number): number {
    return hashFinish(hashMix(hashMix(hashMix(hashMix(this.#seed, w3), w2), w1), w0));
  }
}

function commonPrefix(a: IpAddr, w0: number, w1: number, w2: number, w3: number): number {
  if (a.w0 !== w0) return Math.clz32(a.w0 ^ w0);
  if (a.w1 !== w1) return 32 + Math.clz32(a.w1 ^ w1);
  if (a.w2 !== w2) return 64 + Math.clz32(a.w2 ^ w2);
  return 96 + Math.clz32(a.w3 ^ w3);
}
