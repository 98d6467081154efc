/**
 * The rate of a link: how long it takes to put a packet on the wire.
 *
 * A packet counts with its own length (the IP packet; Linux's netem counts the link-layer header too), plus an overhead
 * a packet. A link with cells sends whole ones, each with an overhead of its own.
 *
 * @module
 */

import { type Duration, SECOND } from "../base/time.ts";

/** Transmission times of a link. */
export class Rate {
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

  /** How long the link is busy with a packet of `lengthBytes`, rounded up so that the rate is never exceeded. */
  transmissionTime(lengthBytes: number): Duration {
    let bytes = lengthBytes + this.#packetOverheadBytes;
    if (this.#cellBytes > 0) bytes = Math.ceil(bytes / this.#cellBytes) * (this.#cellBytes + this.#cellOverheadBytes);
    return Math.ceil(Math.max(bytes, 0) * this.#time);
  }
}
