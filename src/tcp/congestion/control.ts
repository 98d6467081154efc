/**
 * What a congestion control is to the rest of TCP.
 *
 * A controller is told facts and holds three results: `cwnd`, `ssthresh` and `pacingRateBytesPerSec`. It never sees the
 * connection. Which segments are lost, how many bytes are in flight and when to leave recovery is decided outside; a
 * controller only says how much may be in flight. During a recovery the window comes from PRR (RFC 9937) and goes from
 * what it was to `ssthresh`, unless the controller says that it does that itself.
 *
 * All windows are in bytes.
 *
 * @module
 */

import type { Rng } from "../../base/rng.ts";
import type { Duration, Instant } from "../../base/time.ts";

/** Why the path is believed to be congested. */
export enum CongestionSignal {
  /** Loss found by acknowledgments: fast retransmit, or a tail-loss probe that repaired a loss. */
  Loss,
  /** The retransmission timer ran out. */
  Timeout,
  /** The retransmission timer ran out again for the same segment, or for a SYN: `ssthresh` stays as it is. */
  TimeoutAgain,
  /** The peer echoed a CE mark (RFC 3168 section 6.1.2). */
  Ecn,
}

/** The facts of one acknowledgment; one record a stack, filled again each time. */
export class AckSample {
  /** When the acknowledgment came. */
  now: Instant = 0;
  /** Bytes newly acknowledged: how far SND.UNA moved. */
  ackedBytes = 0;
  /** Bytes newly delivered: acknowledged or selectively acknowledged for the first time. */
  deliveredBytes = 0;
  /** Bytes newly found to be lost. */
  lostBytes = 0;
  /** Bytes in flight before this acknowledgment; of a congestion, FlightSize (RFC 5681 section 2). */
  priorInFlightBytes = 0;
  /** Bytes in flight after it. */
  inFlightBytes = 0;
  /** Round-trip time of the last segment acknowledged, or −1 without a sample. */
  rtt: Duration = -1;
  /** The smallest round-trip time of the last five minutes, or `Infinity`. */
  minRtt: Duration = Infinity;
  /** Smoothed round-trip time, or 0 before the first sample. */
  srtt: Duration = 0;
  /** True if the window has been what held the sender back. */
  isCwndLimited = false;
  /** SND.UNA after the acknowledgment. */
  sndUna = 0;
  /** SND.NXT. */
  sndNxt = 0;
  /** The acknowledgment carried ECE. */
  hasEce = false;
  /** A recovery from loss (fast or after a timeout) is going on. */
  isInRecovery = false;
  /** The peer acknowledges selectively, so that more than one loss a round trip is seen (C.has_selective_acks). */
  hasSack = false;
  /** Rate at which the connection is paced in bytes per second; `Infinity` if it is not. */
  pacingRateBytesPerSec: number = Infinity;

  /** Bytes delivered since the connection began (C.delivered of the BBR draft). */
  totalDeliveredBytes = 0;
  /** Bytes lost since the connection began (C.lost). */
  totalLostBytes = 0;
  /** Delivery rate of this acknowledgment in bytes per second, or 0 without a sample (RS.delivery_rate). */
  deliveryRateBytesPerSec = 0;
  /** The rate sample was limited by the application (RS.is_app_limited). */
  isAppLimited = false;
  /** `totalDeliveredBytes` when the newest segment acknowledged was sent, or −1 if none was (RS.prior_delivered). */
  priorDeliveredBytes: number = -1;
  /** Bytes in flight when that segment was sent, itself included (RS.tx_in_flight). */
  txInFlightBytes = 0;
  /** Bytes lost between its being sent and its acknowledgment (RS.lost). */
  sampleLostBytes = 0;
}

/** The facts of one segment found to be lost (packet P of the BBR draft); one record a stack, filled again each time. */
export class LossSample {
  /** When it was found to be lost. */
  now: Instant = 0;
  /** Sequence number of its first byte. */
  seq = 0;
  /** Its bytes. */
  bytes = 0;
  /** Bytes in flight when it was last sent, itself included (P.tx_in_flight). */
  txInFlightBytes = 0;
  /** Bytes lost since it was last sent, itself included (C.lost − P.lost). */
  lostSinceSentBytes = 0;
  /** It was sent while the application held the sender back (P.is_app_limited). */
  isAppLimited = false;
  /** Bytes delivered since the connection began (C.delivered). */
  totalDeliveredBytes = 0;
  /** The peer acknowledges selectively (C.has_selective_acks). */
  hasSack = false;
}

/** What a congestion control is made with. */
export interface CongestionSettings {
  /** Bytes of data in a full segment. */
  readonly mssBytes: number;
  /** Initial window in segments; 0 for RFC 6928. */
  readonly initialCwndSegments: number;
  /** How slow start ends before there is loss, by name: one of `SLOW_START_EXITS`. Not looked at by `none` and `bbr`. */
  readonly slowStartExit: string;
  /** In slow start the window grows by the bytes acknowledged, or by one segment for each acknowledgment. */
  readonly slowStartGrowth: "bytes" | "acks";
  /** Random stream for controls that probe at random times. */
  readonly rng: Rng;
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
  /**
   * True if the control sets its window in a recovery too: then PRR is not used, and `onAck` is called for each
   * acknowledgment that delivers something or finds something lost, whatever the state.
   */
  readonly ownsRecovery: boolean;
  /** Why the window, the threshold or the state last changed by the control's own decision, in a few words; a constant. */
  readonly why: string;
  /** A segment leaves: `inFlightBytes` with it. */
  onSent(now: Instant, bytes: number, inFlightBytes: number): void;
  /**
   * A segment was found to be lost: called for each, in order of sequence, before the `onCongestion` and `onAck` of the
   * same acknowledgment or timeout.
   */
  onLost(loss: LossSample): void;
  /** New data was acknowledged and no fast recovery is going on (see `ownsRecovery`). */
  onAck(sample: AckSample): void;
  /** Congestion: called once an episode (and again when a timer runs out for new data). */
  onCongestion(signal: CongestionSignal, sample: AckSample): void;
  /** The episode is over: everything sent before it began is acknowledged. */
  onRecovered(sample: AckSample): void;
  /** The episode was a false alarm: take back what `onCongestion` did. Never called after an ECN signal. */
  onSpurious(): void;
  /** Nothing was in flight for `idle` and now data is to be sent. */
  onIdle(now: Instant, idle: Duration, rto: Duration): void;
  /** The segment size is now `mssBytes`; windows keep their number of segments. */
  onMss(mssBytes: number): void;
}

/** No window grows beyond this: the largest that TCP can announce (RFC 7323 section 2.3). */
export const MAX_CWND: number = 2 ** 30;

/** Initial window in bytes: RFC 6928 section 2. */
export function initialWindow(mssBytes: number): number {
  return Math.min(10 * mssBytes, Math.max(2 * mssBytes, 14600));
}
