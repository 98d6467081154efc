/**
 * A snapshot of a connection in the manner of Linux's `tcp_info`, as `ss -ti` shows it.
 *
 * @module
 */

import { toMilliseconds } from "../base/time.ts";
import { seqDiff } from "../wire/seq.ts";
import type { Tcb } from "./tcb.ts";
import { tcpStateName } from "./state.ts";
import { receiveWindow } from "./window.ts";

/** Facts about a connection; times in milliseconds, windows in bytes unless said. */
export interface TcpInfo {
  /** State by its RFC 9293 name. */
  state: string;
  /** `open`, `recovery` or `loss`. */
  caState: string;
  /** Name of the congestion control. */
  congestion: string;
  /** Retransmission timeout, back-off included. */
  rto: number;
  /** Smoothed round-trip time; 0 before the first sample. */
  rtt: number;
  /** Mean deviation of the round-trip time. */
  rttvar: number;
  /** Smallest round-trip time; 0 before the first sample. */
  minRtt: number;
  /** Data bytes in a full segment. */
  mss: number;
  /** Congestion window in segments, as `ss` shows it. */
  cwnd: number;
  /** Slow-start threshold in segments; −1 before the first congestion. */
  ssthresh: number;
  /** Peer's window. */
  sndWnd: number;
  /** Our window. */
  rcvWnd: number;
  /** Window shift that the peer announced. */
  sndWscale: number;
  /** Window shift that we announced. */
  rcvWscale: number;
  /** Timestamps are in use. */
  ts: boolean;
  /** SACK is in use. */
  sack: boolean;
  /** Bytes sent and not acknowledged. */
  unacked: number;
  /** Bytes written and not sent. */
  notsent: number;
  /** Timeouts since the last round-trip time. */
  backoff: number;
  /** Segments received. */
  segsIn: number;
  /** Segments sent. */
  segsOut: number;
  /** Data bytes sent for the first time. */
  bytesSent: number;
  /** Data bytes acknowledged. */
  bytesAcked: number;
  /** Data bytes received in sequence. */
  bytesReceived: number;
  /** Data bytes sent again. */
  bytesRetrans: number;
  /** Segments sent again, by kind. */
  retransmits: {
    /** Fast retransmit. */
    fast: number;
    /** On partial acknowledgments. */
    partialAck: number;
    /** On timeout. */
    timeout: number;
    /** In the slow start after a timeout. */
    loss: number;
    /** SYN and SYN-ACK. */
    syn: number;
  };
  /** Probes of a closed window. */
  windowProbes: number;
  /** Duplicate acknowledgments received. */
  dupAcksIn: number;
  /** Segments received out of order. */
  outOfOrderIn: number;
}

const RECOVERY_NAMES = ["open", "recovery", "loss"] as const;

/** Reads the snapshot off a connection. */
export function tcpInfo(t: Tcb): TcpInfo {
  const c = t.counters;
  const { cwnd, ssthresh } = t.congestion;
  return {
    state: tcpStateName(t.state),
    caState: RECOVERY_NAMES[t.recovery]!,
    congestion: t.congestion.name,
    rto: toMilliseconds(t.rtt.rto),
    rtt: toMilliseconds(t.rtt.srtt),
    rttvar: toMilliseconds(t.rtt.rttvar),
    minRtt: t.rtt.minRtt === Infinity ? 0 : toMilliseconds(t.rtt.minRtt),
    mss: t.mss,
    cwnd: Math.floor(cwnd / t.mss),
    ssthresh: ssthresh === Infinity ? -1 : Math.floor(ssthresh / t.mss),
    sndWnd: t.sndWnd,
    rcvWnd: receiveWindow(t),
    sndWscale: t.sndWndShift,
    rcvWscale: t.rcvWndShift,
    ts: t.timestampsOn,
    sack: t.sackOn,
    unacked: seqDiff(t.sndNxt, t.sndUna),
    notsent: t.unsentBytes,
    backoff: t.rtt.backoff,
    segsIn: c.segmentsIn,
    segsOut: c.segmentsOut,
    bytesSent: c.bytesSent,
    bytesAcked: c.bytesAcked,
    bytesReceived: c.bytesReceived,
    bytesRetrans: c.bytesRetransmitted,
    retransmits: {
      fast: c.fastRetransmits,
      partialAck: c.partialAckRetransmits,
      timeout: c.timeoutRetransmits,
      loss: c.lossRetransmits,
      syn: c.synRetransmits,
    },
    windowProbes: c.windowProbes,
    dupAcksIn: c.dupAcksIn,
    outOfOrderIn: c.outOfOrderIn,
  };
}
