/**
 * What a congestion control is to the rest of TCP.
 *
 * A controller is told facts and holds three results: `cwnd`, `ssthresh` and `pacingRateBytesPerSec`. It never sees the
 * connection. Which segments are lost, how many bytes are in flight and when to leave recovery is decided outside; a
 * controller only says how much may be in flight.
 *
 * All windows are in bytes.
 *
 * @module
 */

import type { Duration, Instant } from "../../base/time.ts";

/** Why the path is believed to be congested. */
export enum CongestionSignal {
  /** Loss found by duplicate acknowledgments: fast retransmit. */
  Loss,
  /** The retransmission timer ran out. */
  Timeout,
  /** The retransmission timer ran out again for the same segment, or for a SYN: `ssthresh` stays as it is. */
  TimeoutAgain,
}

/** The facts of one acknowledgment; one record a stack, filled again each time. */
export class AckSample {
  /** When the acknowledgment came. */
  now: Instant = 0;
  /** Bytes newly acknowledged. */
  ackedBytes = 0;
  /** Bytes in flight before this acknowledgment; of a congestion, FlightSize (RFC 5681 section 2). */
  priorInFlightBytes = 0;
  /** Bytes in flight after it. */
  inFlightBytes = 0;
  /** Round-trip time of the last segment acknowledged, or −1 without a sample. */
  rtt: Duration = -1;
  /** Smoothed round-trip time, or 0 before the first sample. */
  srtt: Duration = 0;
  /** True if the window has been what held the sender back. */
  isCwndLimited = false;
}

/** Decides how much may be in flight. */
export interface CongestionControl {
  /** The control's name: `"reno"`, `"none"`. */
  readonly name: string;
  /** Congestion window in bytes. */
  readonly cwnd: number;
  /** Slow-start threshold in bytes; `Infinity` until the first congestion. */
  readonly ssthresh: number;
  /** Rate for departure stamps in bytes per second, or 0 to leave it to TCP (cwnd over SRTT). */
  readonly pacingRateBytesPerSec: number;
  /** A segment of new data leaves. */
  onSent(now: Instant, bytes: number, inFlightBytes: number): void;
  /** New data was acknowledged and no recovery is going on, or the recovery from a timeout is. */
  onAck(sample: AckSample): void;
  /** Congestion: called once an episode (and again when a timer runs out for new data). */
  onCongestion(signal: CongestionSignal, sample: AckSample): void;
  /** The episode is over: everything sent before it began is acknowledged. */
  onRecovered(sample: AckSample): void;
  /** The episode was a false alarm: take back what `onCongestion` did. */
  onSpurious(): void;
  /** Nothing was in flight for `idle`, longer than a retransmission timeout `rto`, and now data is to be sent. */
  onIdle(idle: Duration, rto: Duration): void;
  /** The segment size is now `mssBytes`; called before anything is sent. */
  onMss(mssBytes: number): void;
}

/** Initial window in bytes: RFC 6928 section 2. */
export function initialWindow(mssBytes: number): number {
  return Math.min(10 * mssBytes, Math.max(2 * mssBytes, 14600));
}
