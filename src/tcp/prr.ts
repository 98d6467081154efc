/**
 * Proportional rate reduction: the window in a recovery (RFC 9937).
 *
 * While more is in flight than `ssthresh`, for each byte delivered `ssthresh / RecoverFS` bytes are sent, so that the window
 * is down when the recovery has gone through a round trip. Below it the window grows back: by what is delivered, and in the
 * absence of new loss by a segment more. At least one segment leaves at once.
 *
 * @module
 */

import type { Tcb } from "./tcb.ts";

/** PRR's state of one connection, under the names of RFC 9937 section 5. */
export class Prr {
  /** Bytes delivered since the recovery began. */
  delivered = 0;
  /** Bytes sent since. */
  out = 0;
  /** Bytes in flight when it began (RecoverFS). */
  recoverFs = 1;
  /** The window now, in bytes. */
  cwnd = 0;

  /** A recovery begins with `recoverFs` bytes in flight. */
  start(recoverFs: number): void {
    this.delivered = 0;
    this.out = 0;
    this.recoverFs = Math.max(1, recoverFs);
    this.cwnd = 0;
  }

  /** An acknowledgment in a recovery (RFC 9937 section 6): `safe` if it advances SND.UNA and finds no further loss. */
  update(t: Tcb, deliveredBytes: number, safe: boolean): void {
    const inFlight = t.inFlightBytes;
    const { ssthresh } = t.congestion;
    this.delivered += deliveredBytes;
    let sndcnt: number;
    if (inFlight > ssthresh) {
      sndcnt = Math.ceil(this.delivered * ssthresh / this.recoverFs) - this.out;
    } else {
      sndcnt = Math.max(this.delivered - this.out, deliveredBytes);
      if (safe) sndcnt += t.mss;
      sndcnt = Math.min(ssthresh - inFlight, sndcnt);
    }
    if (this.out === 0) sndcnt = Math.max(sndcnt, t.mss);
    this.cwnd = inFlight + Math.max(0, sndcnt);
  }
}
