/**
 * The MTU of the tunnel from that of the underlay: each peer's interface carries what the system's way to the peer leaves,
 * and no more than was configured.
 *
 * The system is asked when the host is opened, when a peer has moved, when a datagram was refused as too large, and, as long
 * as a way is narrower than configured, every minute, since the system forgets what it learned of a path. Only narrower
 * ways count: the system knows the first link of the way and what it was told, not that all of the way is wider.
 *
 * Datagrams that were queued with the larger MTU are lost when they are refused; nothing is fragmented.
 *
 * @module
 */

import { type Duration, type Instant, MILLISECOND, NEVER, SECOND } from "../base/time.ts";
import type { Stack } from "../stack/stack.ts";
import type { Peer } from "../tunnel/peer_table.ts";
import type { IpAddr } from "../wire/ip_addr.ts";
import type { SystemRoute } from "./linux/route_probe.ts";

/** How often narrow ways are looked at again. */
const REFRESH: Duration = 60 * SECOND;

/** How long after an answer the system is not asked again, however many datagrams are too large. */
const HOLD: Duration = 10 * MILLISECOND;

/** Asks the system for its way to an address; `null` if it has none. */
export interface RouteSource {
  /** The way. */
  route(to: IpAddr): SystemRoute | null;
}

/** Keeps the MTUs of a stack's peers. */
export class UnderlayMtu {
  readonly #stack: Stack;
  readonly #routes: RouteSource;
  /** Interfaces whose MTU is less than configured. */
  readonly #narrow = new Set<number>();
  /** Addresses to which a datagram was too large, until they have been looked at. */
  readonly #tooBig = new Map<string, IpAddr>();
  #refreshAt: Instant = NEVER;
  #askedAt: Instant = -NEVER;

  /** Knows nothing yet. */
  constructor(stack: Stack, routes: RouteSource) {
    this.#stack = stack;
    this.#routes = routes;
  }

  /** Asks for the ways to all peers. */
  start(now: Instant): void {
    this.#askAll(this.#stack.tunnel?.peers ?? [], now);
  }

  /** A peer is somewhere else. */
  peerMoved(peer: Peer, now: Instant): void {
    this.#askAll([peer], now);
  }

  /** A datagram to this address was too large; it will be looked into by the next `timeout`. */
  tooBig(to: IpAddr): void {
    this.#tooBig.set(to.toString(), to);
    this.#refreshAt = Math.min(this.#refreshAt, this.#askedAt + HOLD);
  }

  /** Asks again for what is due. */
  timeout(now: Instant): void {
    if (now < this.#refreshAt) return;
    const peers = [...this.#stack.tunnel?.peers ?? []]
      .filter(({ ifindex, address }) => this.#narrow.has(ifindex) || this.#tooBig.has(`${address}`));
    this.#tooBig.clear();
    this.#askAll(peers, now);
  }

  /** When {@linkcode UnderlayMtu.timeout} has something to do. */
  nextAt(): Instant {
    return this.#refreshAt;
  }

  #askAll(peers: Iterable<Peer>, now: Instant): void {
    const known = new Map<string, number>();
    for (const peer of peers) {
      const text = peer.address.toString();
      let mtu = known.get(text);
      if (mtu === undefined) {
        mtu = this.#routes.route(peer.address)?.mtu ?? Infinity;
        known.set(text, mtu);
      }
      const set = this.#stack.setUnderlayMtu(peer.ifindex, mtu, now);
      if (set < this.#stack.options.peers[peer.ifindex - 1]!.mtu) this.#narrow.add(peer.ifindex);
      else this.#narrow.delete(peer.ifindex);
    }
    for (const text of known.keys()) this.#tooBig.delete(text);
    this.#refreshAt = this.#tooBig.size > 0 ? now + HOLD : this.#narrow.size > 0 ? now + REFRESH : NEVER;
    this.#askedAt = now;
  }
}
