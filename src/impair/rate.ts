/**
 * The rate of a link: how long it takes to put a packet on the wire.
 *
 * A packet counts with its own length (the IP packet; Linux's netem counts the link-layer header too), plus an overhead
 * a packet. A link with cells sends whole ones, each with an overhead of its own.
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import { type Duration, type Instant, SECOND } from "../base/time.ts";

/** Puts one packet after the other on the wire. */
export interface Transmitter {
  /** When the last packet has been transmitted; no packet is begun before. */
  freeAt: Instant;
  /** Transmits `p`, which came to the link at `p.readyAt`: sets `p.releaseAt` and `freeAt`. */
  transmit(p: Packet): void;
}

/** A link whose rate does not change. */
export class Rate implements Transmitter {
  /** When the last packet has been transmitted. */
  freeAt: Instant = -1;
  readonly #time: Duration;
  readonly #packetOverheadBytes: number;
  readonly #cellBytes: number;
  readonly #cellOverheadBytes: number;

  /** A link of `rateBytesPerSec`; `cellBytes` of 0 means that it has no cells. */
  constructor(rateBytesPerSec: number, packetOverheadBytes: number, cellBytes: number, cellOverheadBytes: number) {
    this.#time = SECOND / rateBytesPerSec;
    this.#packetOverheadBytes = packetOverheadBytes;
    this.#cellBytes = cellBytes;
    this.#cellOverheadBytes = cellOverheadBytes;
  }

  /** What a packet of `lengthBytes` is on the link, overheads included; at least 0. */
  linkBytes(lengthBytes: number): number {
    let bytes = lengthBytes + this.#packetOverheadBytes;
    if (this.#cellBytes > 0) bytes = Math.ceil(bytes / this.#cellBytes) * (this.#cellBytes + this.#cellOverheadBytes);
    return Math.max(bytes, 0);
  }

  /** How long the link is busy with a packet of `lengthBytes`, rounded up so that the rate is never exceeded. */
  transmissionTime(lengthBytes: number): Duration {
    return Math.ceil(this.linkBytes(lengthBytes) * this.#time);
  }

  /** Transmits `p`. */
  transmit(p: Packet): void {
    const begin = this.freeAt > p.readyAt ? this.freeAt : p.readyAt;
    p.releaseAt = begin + this.transmissionTime(p.length);
    this.freeAt = p.releaseAt;
  }
}
