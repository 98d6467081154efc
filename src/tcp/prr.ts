/**
 * Proportional rate reduction: the window in a recovery (RFC 9937).
 *
 * While more is in flight than `ssthresh`, for each byte delivered `ssthresh / RecoverFS` bytes are sent, so that the window
 * is down when the recovery has gone through a round trip. Below it the window grows back: by what is delivered, and in the
 * absence of new loss by a segment more. At least one segment leaves at once.
 *
 * The RFC counts bytes and rounds up; data leaves in segments, so it is whole segments that are rounded up to here.
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
    const { mss } = t;
    // RFC 9937 section 6: without SACK duplicates are believed up to what was in flight, whoever makes them up.
    const delivered = t.sackOn
      ? deliveredBytes
      : Math.max(0, Math.min(deliveredBytes, this.recoverFs - this.delivered));
    this.delivered += delivered;
    let sndcnt: number;
    if (inFlight > ssthresh) {
      sndcnt = Math.ceil(this.delivered * ssthresh / this.recoverFs / mss) * mss - this.out;
    } else {
      sndcnt = Math.max(this.delivered - this.out, delivered);
      if (safe) sndcnt += mss;
      sndcnt = Math.min(ssthresh - inFlight, sndcnt);
    }
    if (this.out === 0) sndcnt = Math.max(sndcnt, mss);
    this.cwnd = inFlight + Math.max(0, sndcnt);
  }
}
