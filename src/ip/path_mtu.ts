/**
 * What is known of paths that carry less than their first link does (RFC 1191, RFC 8201): one memory for all transports of
 * a host (RFC 8201 section 5.2), by destination.
 *
 * A smaller MTU is believed for ten minutes (RFC 1191 section 6.3, RFC 8201 section 4); then the MTU of the link is tried
 * again. Nothing makes it larger before. IPv4 paths are not believed to carry less than 552 bytes, whatever a router says or
 * leaves out (Linux: `min_pmtu`); a "packet too big" with less than 1,280 is ignored (RFC 8201 section 4). Nor is believed
 * that a packet was too big for more than it had: whoever learns of an MTU says how large the packet was, and has checked
 * that who says so saw a packet of ours (RFC 5927 section 7).
 *
 * The memory has a fixed size (destination_cache.ts); what expires first makes room.
 *
 * Left out: different MTUs of several paths to one address, and telling those who are sending already. TCP asks when a
 * connection begins and when what it believes has grown old; in between it goes by errors that quote its own sequence numbers,
 * for which others' errors are no match.
 *
 * @module
 */

import { type Duration, type Instant, SECOND } from "../base/time.ts";
import { isV4Words } from "../wire/ip_addr.ts";
import { IPV4_PATH_MTU_MIN } from "../wire/ipv4.ts";
import { IPV6_MTU_MIN } from "../wire/ipv6.ts";
import { DestinationCache } from "./destination_cache.ts";

/** How long a smaller MTU is believed. */
export const PATH_MTU_TIME: Duration = 600 * SECOND;

/** Paths that a host remembers. */
export const PATH_MTUS_MAX = 1024;

/** Path MTUs by destination. */
export class PathMtus {
  /** The time of a place is when it expires. */
  readonly #paths: DestinationCache;
  readonly #mtus: Int32Array<ArrayBuffer>;
  #isEmpty = true;

  /** Makes an empty memory for `paths` destinations (rounded up to a power of two, default {@linkcode PATH_MTUS_MAX}). */
  constructor(seed: number, paths: number = PATH_MTUS_MAX) {
    this.#paths = new DestinationCache(seed, paths);
    this.#mtus = new Int32Array(this.#paths.places);
  }

  /** The MTU of the path to the address of these words, at most `link`, the MTU of its first link in bytes. */
  get(w0: number, w1: number, w2: number, w3: number, link: number, now: Instant): number {
    if (this.#isEmpty) return link;
    const place = this.#paths.find(w0, w1, w2, w3);
    return place >= 0 && this.#paths.times[place]! > now ? Math.min(link, this.#mtus[place]!) : link;
  }

  /**
   * Learns that the path to an address carries `mtu` bytes (0 if the router did not say how many), since a packet of
   * `bytes` was too large for it.
   *
   * @returns false if that is not believed, or nothing new
   */
  learn(w0: number, w1: number, w2: number, w3: number, mtu: number, bytes: number, now: Instant): boolean {
    const isV4 = isV4Words(w0, w1, w2);
    if (!isV4 && mtu < IPV6_MTU_MIN) return false;
    const believed = isV4 ? Math.max(mtu, IPV4_PATH_MTU_MIN) : mtu;
    if (believed >= this.get(w0, w1, w2, w3, bytes, now)) return false;
    const place = this.#paths.take(w0, w1, w2, w3);
    this.#mtus[place] = believed;
    this.#paths.times[place] = now + PATH_MTU_TIME;
    this.#isEmpty = false;
    return true;
  }
}
