/**
 * A snapshot of a connection in the manner of Linux's `tcp_info`, as `ss -ti` shows it.
 *
 * @module
 */

import { toMilliseconds } from "../base/time.ts";
import { seqDiff } from "../wire/seq.ts";
import type { Tcb } from "./tcb.ts";
import { RECOVERY_NAMES, tcpStateName } from "./state.ts";
import { receiveWindow } from "./window.ts";

/** Facts about a connection; times in milliseconds, windows in bytes unless said. */
export interface TcpInfo {
  /** State by its RFC 9293 name. */
  state: string;
  /** How the sender stands to loss: `open`, `disorder`, `cwr`, `recovery` or `loss`. */
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
  /** Rate at which data departs, in bit/s; 0 if it is not limited. */
  pacingRate: number;
  /** Latest delivery-rate sample in bit/s; 0 before the first. */
  deliveryRate: number;
  /** The delivery rate was limited by the application. */
  appLimited: boolean;
  /** How departures are spaced. */
  pacing: string;
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
  /** Segments selectively acknowledged. */
  sacked: number;
  /** Segments believed lost. */
  lost: number;
  /** Segments of which a second copy is in flight. */
  retrans: number;
  /** How far segments were seen to be reordered, at least 3. */
  reordering: number;
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
    /** In fast recovery. */
    fast: number;
    /** As tail-loss probes. */
    probe: number;
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

/** Reads the snapshot off a connection. */
export function tcpInfo(t: Tcb): TcpInfo {
  const c = t.counters;
  const { ssthresh } = t.congestion;
  const { cwnd } = t;
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
    pacingRate: t.pacingRateBytesPerSec === Infinity ? 0 : Math.round(t.pacingRateBytesPerSec * 8),
    deliveryRate: Math.round(t.rate.rateBytesPerSec * 8),
    appLimited: t.rate.isAppLimited,
    pacing: t.pacing,
    sndWnd: t.sndWnd,
    rcvWnd: receiveWindow(t),
    sndWscale: t.sndWndShift,
    rcvWscale: t.rcvWndShift,
    ts: t.timestampsOn,
    sack: t.sackOn,
    unacked: seqDiff(t.sndNxt, t.sndUna),
    notsent: t.unsentBytes,
    sacked: t.sackOn ? t.sackedSegments : t.dupAcks,
    lost: Math.ceil(t.lostBytes / t.mss),
    retrans: Math.ceil(t.retransmittedBytes / t.mss),
    reordering: t.rack.reordering,
    backoff: t.rtt.backoff,
    segsIn: c.segmentsIn,
    segsOut: c.segmentsOut,
    bytesSent: c.bytesSent,
    bytesAcked: c.bytesAcked,
    bytesReceived: c.bytesReceived,
    bytesRetrans: c.bytesRetransmitted,
    retransmits: {
      fast: c.fastRetransmits,
      probe: c.probeRetransmits,
      timeout: c.timeoutRetransmits,
      loss: c.lossRetransmits,
      syn: c.synRetransmits,
    },
    windowProbes: c.windowProbes,
    dupAcksIn: c.dupAcksIn,
    outOfOrderIn: c.outOfOrderIn,
  };
}

/** The snapshot as a line in the form of `ss -ti`. */
export function formatTcpInfo(i: TcpInfo): string {
  const ms = (n: number): string => String(Math.round(n * 1000) / 1000);
  const rate = (bitsPerSec: number): string =>
    bitsPerSec >= 1e9 ? `${(bitsPerSec / 1e9).toFixed(2)}Gbps` : `${(bitsPerSec / 1e6).toFixed(1)}Mbps`;
  const retransmitted = Object.values(i.retransmits).reduce((sum, n) => sum + n, 0);
  return [
    i.ts ? "ts" : "",
    i.sack ? "sack" : "",
    i.congestion,
    `wscale:${i.sndWscale},${i.rcvWscale}`,
    `rto:${ms(i.rto)}`,
    i.backoff > 0 ? `backoff:${i.backoff}` : "",
    `rtt:${ms(i.rtt)}/${ms(i.rttvar)}`,
    `mss:${i.mss}`,
    `cwnd:${i.cwnd}`,
    i.ssthresh >= 0 ? `ssthresh:${i.ssthresh}` : "",
    `bytes_sent:${i.bytesSent}`,
    i.bytesRetrans > 0 ? `bytes_retrans:${i.bytesRetrans}` : "",
    `bytes_acked:${i.bytesAcked}`,
    i.bytesReceived > 0 ? `bytes_received:${i.bytesReceived}` : "",
    `segs_out:${i.segsOut}`,
    `segs_in:${i.segsIn}`,
    i.rtt > 0 ? `send ${rate(i.cwnd * i.mss * 8000 / i.rtt)}` : "",
    i.pacingRate > 0 ? `pacing_rate ${rate(i.pacingRate)}` : "",
    i.deliveryRate > 0 ? `delivery_rate ${rate(i.deliveryRate)}` : "",
    i.appLimited ? "app_limited" : "",
    i.unacked > 0 ? `unacked:${Math.ceil(i.unacked / i.mss)}` : "",
    retransmitted > 0 ? `retrans:0/${retransmitted}` : "",
    i.notsent > 0 ? `notsent:${i.notsent}` : "",
    i.minRtt > 0 ? `minrtt:${ms(i.minRtt)}` : "",
  ].filter((word) => word !== "").join(" ");
}
