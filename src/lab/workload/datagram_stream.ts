/**
 * A stream of numbered datagrams, and what its receiver can tell from them: loss, order, jitter.
 *
 * ```text
 *   | magic | stream | sequence number | time of sending (ns, a double) | padding … |
 *   |   4   |   4    |        4        |               8                |           |
 * ```
 *
 * Jitter is that of RFC 3550 section 6.4.1: a moving average, with weight 1/16, of how much the time on the way differs
 * between one datagram and the next that arrives. The clocks of both ends need not agree, as long as they run alike.
 *
 * A datagram counts once. The last {@linkcode WINDOW} numbers are remembered to tell a duplicate from one that comes
 * late; what is older than that counts as a duplicate.
 *
 * @module
 */

import type { Duration, Instant } from "../../base/time.ts";

/** Bytes at the head of each datagram: the least length of one. */
export const DATAGRAM_HEADER_BYTES = 20;

const MAGIC = 0x63767374;

/** How many sequence numbers are remembered; a multiple of 32. */
const WINDOW = 8192;

/** The head of a datagram; filled again for each. */
export class DatagramHeader {
  /** Which stream. */
  stream = 0;
  /** Number within the stream, from 0 on. */
  seq = 0;
  /** When it was sent, by the sender's clock. */
  sentAt: Instant = 0;

  /** Writes the head at the beginning of `view`. */
  emit(view: DataView): void {
    view.setUint32(0, MAGIC);
    view.setUint32(4, this.stream);
    view.setUint32(8, this.seq);
    view.setFloat64(12, this.sentAt);
  }

  /** Reads the head of a datagram of `length` bytes; false if it is none of a stream. */
  parse(view: DataView, length: number): boolean {
    if (length < DATAGRAM_HEADER_BYTES || view.getUint32(0) !== MAGIC) return false;
    this.stream = view.getUint32(4);
    this.seq = view.getUint32(8);
    this.sentAt = view.getFloat64(12);
    return Number.isFinite(this.sentAt);
  }
}

/** The receiving end of a stream. */
export class DatagramReceiver {
  /** Datagrams received, each once. */
  packets = 0;
  /** Their bytes. */
  bytes = 0;
  /** Datagrams that came after one with a higher number. */
  outOfOrder = 0;
  /** Datagrams that came again, or too late to tell. */
  duplicates = 0;
  /** Jitter of RFC 3550. */
  jitter: Duration = 0;
  /** The highest number received; −1 before the first datagram. */
  highest = -1;
  readonly #seen = new Uint32Array(WINDOW / 32);
  #lastTransit: Duration = NaN;

  /** Takes note of a datagram. */
  onDatagram(seq: number, sentAt: Instant, receivedAt: Instant, bytes: number): void {
    const transit = receivedAt - sentAt;
    if (!this.#isNew(seq)) {
      this.duplicates++;
      return;
    }
    this.packets++;
    this.bytes += bytes;
    if (!Number.isNaN(this.#lastTransit)) this.jitter += (Math.abs(transit - this.#lastTransit) - this.jitter) / 16;
    this.#lastTransit = transit;
  }

  /** How many of the first `sent` datagrams are missing; by default of those up to the highest number seen. */
  lost(sent: number = this.highest + 1): number {
    return Math.max(0, sent - this.packets);
  }

  #isNew(seq: number): boolean {
    if (seq > this.highest) {
      // Numbers that the window now stands for have not been seen.
      const from = Math.max(this.highest + 1, seq - WINDOW + 1);
      for (let n = from; n <= seq; n++) this.#seen[(n % WINDOW) >>> 5]! &= ~(1 << (n & 31));
      this.highest = seq;
    } else {
      if (seq <= this.highest - WINDOW) return false;
      if ((this.#seen[(seq % WINDOW) >>> 5]! & (1 << (seq & 31))) !== 0) return false;
      this.outOfOrder++;
    }
    this.#seen[(seq % WINDOW) >>> 5]! |= 1 << (seq & 31);
    return true;
  }
}
