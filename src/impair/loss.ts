/**
 * Loss at random, or a congestion mark in its place.
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import type { Rng } from "../base/rng.ts";
import { Ecn } from "../wire/ip_header.ts";
import { IPV4_HEADER_BYTES, setIpv4Ecn } from "../wire/ipv4.ts";
import { IPV6_HEADER_BYTES, setIpv6Ecn } from "../wire/ipv6.ts";
import { CorrelatedDraw } from "./draw.ts";
import type { Impairment, Verdict } from "./impairment.ts";

/** Loses packets. */
export class Loss implements Impairment {
  readonly #probability: number;
  readonly #ecn: boolean;
  readonly #draw: CorrelatedDraw;

  /** Loses with `probability`; with `ecn` it marks packets that can be marked instead. */
  constructor(probability: number, correlation: number, ecn: boolean, rng: Rng) {
    this.#probability = probability;
    this.#ecn = ecn;
    this.#draw = new CorrelatedDraw(rng, correlation);
  }

  /** Takes one copy away, so that a packet both duplicated and lost arrives once; or marks it. */
  apply(p: Packet, verdict: Verdict): void {
    if (this.#draw.next() >= this.#probability) return;
    if (this.#ecn && markCe(p)) verdict.marked = true;
    else verdict.copies--;
  }
}

/** Sets CE in the IP header at `p.start` if the sender is ECN-capable (RFC 3168 section 5); says whether it is. */
function markCe(p: Packet): boolean {
  const version = p.length > 0 ? p.view.getUint8(p.start) >>> 4 : 0;
  if (version === 4 && p.length >= IPV4_HEADER_BYTES) {
    if ((p.view.getUint8(p.start + 1) & 3) === Ecn.NotEct) return false;
    setIpv4Ecn(p.view, p.start, Ecn.Ce);
    return true;
  }
  if (version === 6 && p.length >= IPV6_HEADER_BYTES) {
    if (((p.view.getUint8(p.start + 1) >>> 4) & 3) === Ecn.NotEct) return false;
    setIpv6Ecn(p.view, p.start, Ecn.Ce);
    return true;
  }
  return false;
}
