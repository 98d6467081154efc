/**
 * Identifications of fragments of this host (RFC 6864, RFC 7739).
 *
 * They have to differ among packets that may be on their way at once between two hosts, and nobody should be able to tell
 * from those that he gets what others get. So each pair of addresses is hashed to one of some counters, from which a
 * keyed hash of the pair keeps the distance.
 *
 * @module
 */

import type { IpHeader } from "../wire/ip_header.ts";
import { hashPair } from "./flow.ts";

const COUNTERS = 1024;

/** Counters of identifications. */
export class PacketIds {
  readonly #seed: number;
  readonly #counters = new Int32Array(COUNTERS);

  /** Makes counters whose beginnings depend on `seed`. */
  constructor(seed: number) {
    this.#seed = seed;
  }

  /** The next identification for a packet with the addresses and protocol of `ip`: 32 bits, of which IPv4 has room for 16. */
  next(ip: IpHeader): number {
    const hash = hashPair(this.#seed, ip, 0, ip.protocol);
    const at = (hash >>> 7) & (COUNTERS - 1);
    const n = this.#counters[at]! + 1;
    this.#counters[at] = n;
    return (hash + n) | 0;
  }
}
