/**
 * Reno: slow start, congestion avoidance and halving (RFC 5681), counting acknowledged bytes (RFC 3465).
 *
 * In congestion avoidance the window grows by one segment for each window acknowledged. Loss leaves half of the bytes in
 * flight. What it has in common with CUBIC is in loss_based.ts.
 *
 * Not here: which segment is lost and what leaves in a recovery, and the inflation of the window by duplicate
 * acknowledgments (RFC 6582), which is done by counting them out of the bytes in flight.
 *
 * @module
 */

import type { AckSample } from "./control.ts";
import { LossBasedControl } from "./loss_based.ts";

/** The Reno congestion control. */
export class Reno extends LossBasedControl {
  readonly name: string = "reno";
  protected readonly beta: number = 0.5;
  /** Bytes acknowledged towards the next segment. */
  #ackedBytes = 0;
  #undoAckedBytes = 0;

  protected override avoid(sample: AckSample, acked: number): void {
    if (!sample.isCwndLimited) return;
    this.#ackedBytes += acked;
    // RFC 3465 section 2.1: at most one segment at a time.
    if (this.#ackedBytes < this.cwnd) return;
    this.#ackedBytes = Math.min(this.#ackedBytes - this.cwnd, this.cwnd);
    this.grow(this.mss);
  }

  protected override reduce(): void {
    this.#undoAckedBytes = this.#ackedBytes;
    this.#ackedBytes = 0;
  }

  protected override restore(): void {
    this.#ackedBytes = this.#undoAckedBytes;
  }
}
