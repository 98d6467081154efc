/**
 * The host's own addresses: which packets are for us, and which address a packet of ours comes from.
 *
 * Source selection for IPv6 follows RFC 6724 section 5, rule by rule; those that need what there is not here (deprecated,
 * home and temporary addresses) have nothing to decide:
 *
 * 1. the destination itself, if it is an own address;
 * 2. the smallest scope that reaches the destination's;
 * 5. an address whose network, or whose route, is the way to the destination (interfaces here have no addresses of their
 *    own);
 * 6. an address with the destination's label in the default policy table;
 * 8. the longest common prefix, as far as the address's own prefix reaches; then the first configured.
 *
 * For IPv4: the destination itself, its scope, the address whose network contains it (the longest prefix first), one inside
 * the route's prefix, the first configured.
 *
 * @module
 */

import { hashAddress } from "../base/hash.ts";
import { HashTable } from "../base/hash_table.ts";
import { type IpAddr, type IpInterface, isV4Words } from "../wire/ip_addr.ts";
import { AddressKind, addressKind, isWireKind } from "./address_kind.ts";
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

  /**
   * The own address to send from to the address of these words, or `null` if there is none of its family. A loopback address is
   * one only to itself: it never leaves the host (RFC 1122 section 3.2.1.3, RFC 4291 section 2.5.3).
   */
  sourceFor(w0: number, w1: number, w2: number, w3: number, routes: RouteTable): IpAddr | null {
    const version = isV4Words(w0, w1, w2) ? 4 : 6;
    const route = routes.lookup(w0, w1, w2, w3);
    const scope = scopeOf(version, w0, w1, w2, w3);
    const label = version === 6 ? labelOf(w0, w1, w2, w3) : 0;
    let best: IpAddr | null = null;
    let bestScore = -1;
    for (const own of this.#list) {
      const a = own.address;
      if (a.version !== version) continue;
      if (a.equalsWords(w0, w1, w2, w3)) return a;
      if (!isWireKind(addressKind(version, a.w0, a.w1, a.w2, a.w3))) continue;
      const ownScope = scopeOf(version, a.w0, a.w1, a.w2, a.w3);
      // Rule 2: the smallest scope of those that are at least the destination's, else the largest of the others.
      let score = ownScope >= scope ? 32 - ownScope : ownScope - 16;
      // Rule 5.
      const isOnNetwork = own.prefix.containsWords(w0, w1, w2, w3);
      const isOnRoute = route !== null && route.prefix.length > 0 && route.prefix.contains(a);
      score = score * 256 + (isOnNetwork ? 64 + own.prefix.length : isOnRoute ? 1 : 0);
      if (version === 6) {
        // Rules 6 and 8.
        score = score * 2 + (labelOf(a.w0, a.w1, a.w2, a.w3) === label ? 1 : 0);
        score = score * 256 + Math.min(own.prefix.length, commonPrefix(a, w0, w1, w2, w3));
      }
      if (best === null || score > bestScore) {
        bestScore = score;
        best = a;
      }
    }
    return best;
  }

  #hash(w0: number, w1: number, w2: number, w3: number): number {
    return hashAddress(this.#seed, w0, w1, w2, w3);
  }
}

/** Scopes by the numbers of RFC 4007 (RFC 6724 section 3.1). */
const SCOPE_LINK = 2;
const SCOPE_SITE = 5;
const SCOPE_GLOBAL = 14;

function scopeOf(version: number, w0: number, w1: number, w2: number, w3: number): number {
  const kind = addressKind(version, w0, w1, w2, w3);
  if (kind === AddressKind.LinkLocal || kind === AddressKind.Loopback) return SCOPE_LINK;
  return version === 6 && w0 >>> 22 === 0x3fb ? SCOPE_SITE : SCOPE_GLOBAL;
}

/** The label of an IPv6 address in the default policy table (RFC 6724 section 2.1). */
function labelOf(w0: number, w1: number, w2: number, w3: number): number {
  if (w0 === 0 && w1 === 0 && w2 === 0) return w3 === 1 ? 0 : 3;
  const first = w0 >>> 16;
  if (first === 0x2002) return 2;
  if (w0 === 0x2001_0000) return 5;
  if (first === 0x3ffe) return 12;
  if (first >>> 9 === 0xfc >>> 1) return 13;
  return first >>> 6 === 0x3fb ? 11 : 1;
}

function commonPrefix(a: IpAddr, w0: number, w1: number, w2: number, w3: number): number {
  if (a.w0 !== w0) return Math.clz32(a.w0 ^ w0);
  if (a.w1 !== w1) return 32 + Math.clz32(a.w1 ^ w1);
  if (a.w2 !== w2) return 64 + Math.clz32(a.w2 ^ w2);
  return 96 + Math.clz32(a.w3 ^ w3);
}
