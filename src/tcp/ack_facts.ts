/**
 * What one acknowledgment says to the sender: a record a stack, filled again for each.
 *
 * @module
 */

import type { Duration, Instant } from "../base/time.ts";

/** The facts of the acknowledgment at hand. */
export class AckFacts {
  /** When it came. */
  now: Instant = 0;
  /** SND.UNA before it. */
  priorUna = 0;
  /** How far SND.UNA moved. */
  ackedBytes = 0;
  /** Segments acknowledged whole. */
  ackedSegments = 0;
  /** It acknowledges what the one before did, has no data and the same window. */
  isPure = false;
  /** It is a duplicate by RFC 5681 section 2: that, with something outstanding. */
  isDuplicate = false;
  /** The highest sequence number delivered before it. */
  priorFack = 0;
  /** Bytes in flight before it. */
  priorInFlightBytes = 0;
  /** Bytes selectively acknowledged before it. */
  priorSackedBytes = 0;
  /** Bytes lost before it. */
  priorLostBytes = 0;
  /** Bytes of lost segments sent again and in flight, before it. */
  priorRetransmittedBytes = 0;
  /** It selectively acknowledged something for the first time. */
  hasNewSack = false;
  /** It reports a duplicate (RFC 2883). */
  hasDsack = false;
  /** That duplicate is the segment that a tail-loss probe sent again. */
  isProbeDsacked = false;
  /** It carries ECE. */
  hasEce = false;
  /** It delivers something, sent before the recovery began, that was never sent again. */
  hasOriginal = false;
  /** A segment at the head had been selectively acknowledged and is not acknowledged: the receiver dropped it. */
  isReneged = false;
  /** Departure of the first segment acknowledged that was sent only once, or −1. */
  firstDepartAt: Instant = -1;
  /** The same of the last. */
  lastDepartAt: Instant = -1;
  /** Departure of the segment newly selectively acknowledged that departed last and was sent only once, or −1. */
  sackLastDepartAt: Instant = -1;
  /** A segment that was sent more than once is selectively acknowledged. */
  isSackAmbiguous = false;
  /** A segment that was sent more than once is acknowledged. */
  isAmbiguous = false;
  /** The round-trip time that it gave, or −1. */
  rtt: Duration = -1;

  /** Starts a new acknowledgment. */
  reset(now: Instant, sndUna: number): void {
    this.now = now;
    this.priorUna = sndUna;
    this.ackedBytes = 0;
    this.ackedSegments = 0;
    this.isPure = false;
    this.isDuplicate = false;
    this.hasNewSack = false;
    this.hasDsack = false;
    this.isProbeDsacked = false;
    this.hasEce = false;
    this.hasOriginal = false;
    this.isReneged = false;
    this.firstDepartAt = -1;
    this.lastDepartAt = -1;
    this.isSackAmbiguous = false;
    this.sackLastDepartAt = -1;
    this.isAmbiguous = false;
    this.rtt = -1;
  }
}
