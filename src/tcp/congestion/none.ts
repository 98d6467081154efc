/**
 * No congestion control: only the peer's window and the send buffer limit what is in flight.
 *
 * For experiments and for links that cannot be congested; a peer on a shared network should never run it.
 *
 * @module
 */

import type { CongestionControl } from "./control.ts";

/** The congestion control that never holds anything back. */
export class NoControl implements CongestionControl {
  readonly name: string = "none";
  readonly cwnd: number = 2 ** 31;
  readonly ssthresh: number = Infinity;
  readonly pacingRateBytesPerSec: number = 0;
  readonly ownsRecovery: boolean = true;
  readonly why: string = "";

  onSent(): void {}
  onLost(): void {}
  onAck(): void {}
  onCongestion(): void {}
  onRecovered(): void {}
  onSpurious(): void {}
  onIdle(): void {}
  onMss(): void {}
}
