/**
 * What ends slow start before there is loss: an observer of acknowledgments in slow start.
 *
 * It is asked once for each acknowledgment that comes in slow start, before the window grows. It may end slow start there
 * (then `ssthresh` becomes the window), and it says by how much the window grows otherwise.
 *
 * @module
 */

import type { AckSample, CongestionSignal } from "./control.ts";

/** Watches slow start for signs that the path is full. */
export interface SlowStartExit {
  /** The name it is chosen by. */
  readonly name: string;
  /** Why it last ended slow start or changed its pace: a constant; empty if it has not. */
  readonly why: string;
  /**
   * An acknowledgment in slow start.
   *
   * @param cwnd the window in bytes
   * @param mss bytes of a full segment
   * @param isFirst no congestion has been met yet: `ssthresh` is still arbitrarily high
   * @returns true if slow start ends with the window as it is
   */
  onAck(sample: AckSample, cwnd: number, mss: number, isFirst: boolean): boolean;
  /** By how many bytes the window grows when standard slow start would grow by `bytes`. */
  growth(bytes: number, sample: AckSample, mss: number): number;
  /** Congestion was met, in slow start or after it. */
  onCongestion(signal: CongestionSignal): void;
}

/** Slow start that goes on until there is loss (RFC 5681). */
export class NoExit implements SlowStartExit {
  readonly name: string = "off";
  readonly why: string = "";

  onAck(): boolean {
    return false;
  }

  growth(bytes: number): number {
    return bytes;
  }

  onCongestion(): void {}
}
