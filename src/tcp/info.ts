/**
 * A snapshot of a connection in the manner of Linux's `tcp_info`, as `ss -ti` shows it.
 *
 * @module
 */

import { type Instant, toMilliseconds } from "../base/time.ts";
import { seqDiff } from "../wire/seq.ts";
import { ackDelay } from "./delayed_ack.ts";
import { RECOVERY_NAMES, tcpStateName } from "./state.ts";
import type { Tcb } from "./tcb.ts";
import { receiveWindow } from "./window.ts";

/**
 * Facts about a connection, under the names of `tcp_info` in camel case; times in milliseconds, rates in bit/s, windows and
 * amounts of data in bytes, all else in segments or by number.
 */
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
  /** Smallest round-trip time of the last five minutes; 0 before the first sample. */
  minRtt: number;
  /** How long an acknowledgment may wait. */
  ato: number;
  /** Data bytes in a full segment. */
  mss: number;
  /** Largest packet that the path is known to carry. */
  pmtu: number;
  /** Data bytes in a full segment of the peer, as far as seen. */
  rcvMss: number;
  /** MSS that we announced. */
  advMss: number;
  /** Congestion window in segments. */
  cwnd: number;
  /** Slow-start threshold in segments; −1 before the first congestion. */
  ssthresh: number;
  /** Rate at which data departs; 0 if it is not limited. */
  pacingRate: number;
  /** Latest delivery-rate sample; 0 before the first. */
  deliveryRate: number;
  /** The delivery rate was limited by the application. */
  appLimited: boolean;
  /** How departures are spaced. */
  pacing: string;
  /** Peer's window. */
  sndWnd: number;
  /** Our window. */
  rcvWnd: number;
  /** Receive buffer: what may be received and not read. */
  rcvSpace: number;
  /** Window shift that the peer announced. */
  sndWscale: number;
  /** Window shift that we announced. */
  rcvWscale: number;
  /** Timestamps are in use. */
  ts: boolean;
  /** SACK is in use. */
  sack: boolean;
  /** ECN is in use. */
  ecn: boolean;
  /** A CE mark has arrived, or an echo of one. */
  ecnSeen: boolean;
  /** Segments sent and not acknowledged. */
  unacked: number;
  /** Segments selectively acknowledged; without SACK, duplicate acknowledgments. */
  sacked: number;
  /** Segments believed lost. */
  lost: number;
  /** Segments of which a second copy is in flight. */
  retrans: number;
  /** Segments sent again since the beginning. */
  totalRetrans: number;
  /** Bytes believed to be in the network. */
  inFlight: number;
  /** Bytes written and not sent. */
  notsent: number;
  /** How far segments were seen to be reordered, at least 3. */
  reordering: number;
  /** Reordering has been seen. */
  reordSeen: boolean;
  /** Segments reported as duplicates by the peer. */
  dsackDups: number;
  /** Timeouts since the last round-trip time. */
  backoff: number;
  /** Segments received. */
  segsIn: number;
  /** Segments sent. */
  segsOut: number;
  /** Segments with data received. */
  dataSegsIn: number;
  /** Segments with data sent, those sent again included. */
  dataSegsOut: number;
  /** Data bytes sent for the first time. */
  bytesSent: number;
  /** Data bytes acknowledged. */
  bytesAcked: number;
  /** Data bytes received in sequence. */
  bytesReceived: number;
  /** Data bytes sent again. */
  bytesRetrans: number;
  /** Data bytes known to have been delivered, selectively acknowledged ones included. */
  delivered: number;
  /** Data segments that arrived here with a CE mark. */
  ceIn: number;
  /** Acknowledgments that echoed a CE mark. */
  ecnEchoes: number;
  /** Time since data was last sent. */
  lastSnd: number;
  /** Time since data was last received; −1 if none was. */
  lastRcv: number;
  /** Time with something unacknowledged or waiting. */
  busy: number;
  /** Of that, time in which the peer's window held us back. */
  rwndLimited: number;
  /** Of that, time in which the send buffer did. */
  sndbufLimited: number;
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
  /** Timeouts of the retransmission timer. */
  timeouts: number;
  /** Of those, timeouts found to have been spurious. */
  spuriousTimeouts: number;
  /** Fast recoveries. */
  recoveries: number;
  /** Reductions of the window that were taken back. */
  undos: number;
  /** Tail-loss probes sent. */
  tailLossProbes: number;
  /** Probes of a closed window. */
  windowProbes: number;
  /** Duplicate acknowledgments received. */
  dupAcksIn: number;
  /** Segments received out of order. */
  outOfOrderIn: number;
}

/** Reads the snapshot off a connection. */
export function tcpInfo(t: Tcb, now: Instant): TcpInfo {
  const c = t.counters;
  const { ssthresh } = t.congestion;
  const { cwnd } = t;
  const since = (at: Instant): number => at > 0 ? toMilliseconds(Math.max(0, now - at)) : -1;
  return {
    state: tcpStateName(t.state),
    caState: RECOVERY_NAMES[t.recovery]!,
    congestion: t.congestion.name,
    rto: toMilliseconds(t.rtt.rto),
    rtt: toMilliseconds(t.rtt.srtt),
    rttvar: toMilliseconds(t.rtt.rttvar),
    minRtt: t.rtt.minRtt === Infinity ? 0 : toMilliseconds(t.rtt.minRtt),
    ato: toMilliseconds(ackDelay(t)),
    mss: t.mss,
    pmtu: t.path.isSearching ? t.path.low : t.path.mtu,
    rcvMss: t.rcvMss,
    advMss: t.localMss,
    cwnd: Math.floor(cwnd / t.mss),
    ssthresh: ssthresh === Infinity ? -1 : Math.floor(ssthresh / t.mss),
    pacingRate: t.pacingRateBytesPerSec === Infinity ? 0 : Math.round(t.pacingRateBytesPerSec * 8),
    deliveryRate: Math.round(t.rate.rateBytesPerSec * 8),
    appLimited: t.rate.isAppLimited,
    pacing: t.pacing,
    sndWnd: t.sndWnd,
    rcvWnd: receiveWindow(t),
    rcvSpace: t.receiveRing.capacity,
    sndWscale: t.sndWndShift,
    rcvWscale: t.rcvWndShift,
    ts: t.timestampsOn,
    sack: t.sackOn,
    ecn: t.ecnOn,
    ecnSeen: c.ceIn + c.ecnEchoes > 0,
    unacked: Math.ceil(seqDiff(t.sndNxt, t.sndUna) / t.mss),
    sacked: t.sackOn ? t.sackedSegments : t.dupAcks,
    lost: Math.ceil(t.lostBytes / t.mss),
    retrans: Math.ceil(t.retransmittedBytes / t.mss),
    totalRetrans: t.retransmitCount + c.synRetransmits,
    inFlight: t.inFlightBytes,
    notsent: t.unsentBytes,
    reordering: t.rack.reordering,
    reordSeen: t.rack.reorderingSeen,
    dsackDups: t.dsackSegments,
    backoff: t.rtt.backoff,
    segsIn: c.segmentsIn,
    segsOut: c.segmentsOut,
    dataSegsIn: c.dataSegmentsIn,
    dataSegsOut: t.dataSegmentsOut,
    bytesSent: c.bytesSent,
    bytesAcked: c.bytesAcked,
    bytesReceived: c.bytesReceived,
    bytesRetrans: c.bytesRetransmitted,
    delivered: t.rate.deliveredBytes,
    ceIn: c.ceIn,
    ecnEchoes: c.ecnEchoes,
    lastSnd: since(t.lastSentAt),
    lastRcv: since(t.lastDataInAt),
    busy: toMilliseconds(t.busyTime.busy(now)),
    rwndLimited: toMilliseconds(t.busyTime.receiveWindow(now)),
    sndbufLimited: toMilliseconds(t.busyTime.sendBuffer(now)),
    retransmits: {
      fast: c.fastRetransmits,
      probe: c.probeRetransmits,
      timeout: c.timeoutRetransmits,
      loss: c.lossRetransmits,
      syn: c.synRetransmits,
    },
    timeouts: c.timeouts,
    spuriousTimeouts: c.spuriousTimeouts,
    recoveries: c.recoveries,
    undos: c.undos,
    tailLossProbes: c.tailLossProbes,
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
  const share = (n: number): string => `${ms(Math.round(n))}ms(${(100 * n / i.busy).toFixed(1)}%)`;
  return [
    i.ts ? "ts" : "",
    i.sack ? "sack" : "",
    i.ecn ? "ecn" : "",
    i.ecnSeen ? "ecnseen" : "",
    i.congestion,
    `wscale:${i.sndWscale},${i.rcvWscale}`,
    `rto:${ms(i.rto)}`,
    i.backoff > 0 ? `backoff:${i.backoff}` : "",
    i.rtt > 0 ? `rtt:${ms(i.rtt)}/${ms(i.rttvar)}` : "",
    i.bytesReceived > 0 ? `ato:${ms(i.ato)}` : "",
    `mss:${i.mss}`,
    i.pmtu > 0 ? `pmtu:${i.pmtu}` : "",
    `rcvmss:${i.rcvMss}`,
    `advmss:${i.advMss}`,
    `cwnd:${i.cwnd}`,
    i.ssthresh >= 0 ? `ssthresh:${i.ssthresh}` : "",
    i.bytesSent + i.bytesRetrans > 0 ? `bytes_sent:${i.bytesSent + i.bytesRetrans}` : "",
    i.bytesRetrans > 0 ? `bytes_retrans:${i.bytesRetrans}` : "",
    i.bytesAcked > 0 ? `bytes_acked:${i.bytesAcked}` : "",
    i.bytesReceived > 0 ? `bytes_received:${i.bytesReceived}` : "",
    `segs_out:${i.segsOut}`,
    `segs_in:${i.segsIn}`,
    i.dataSegsOut > 0 ? `data_segs_out:${i.dataSegsOut}` : "",
    i.dataSegsIn > 0 ? `data_segs_in:${i.dataSegsIn}` : "",
    i.rtt > 0 ? `send ${rate(i.cwnd * i.mss * 8000 / i.rtt)}` : "",
    i.lastSnd > 0 ? `lastsnd:${Math.round(i.lastSnd)}` : "",
    i.lastRcv > 0 ? `lastrcv:${Math.round(i.lastRcv)}` : "",
    i.pacingRate > 0 ? `pacing_rate ${rate(i.pacingRate)}` : "",
    i.deliveryRate > 0 ? `delivery_rate ${rate(i.deliveryRate)}` : "",
    i.delivered > 0 ? `delivered:${Math.ceil(i.delivered / i.mss)}` : "",
    i.ecnEchoes > 0 ? `delivered_ce:${i.ecnEchoes}` : "",
    i.appLimited ? "app_limited" : "",
    i.busy > 0 ? `busy:${Math.round(i.busy)}ms` : "",
    i.rwndLimited > 0 ? `rwnd_limited:${share(i.rwndLimited)}` : "",
    i.sndbufLimited > 0 ? `sndbuf_limited:${share(i.sndbufLimited)}` : "",
    i.unacked > 0 ? `unacked:${i.unacked}` : "",
    i.totalRetrans > 0 ? `retrans:${i.retrans}/${i.totalRetrans}` : "",
    i.lost > 0 ? `lost:${i.lost}` : "",
    i.sacked > 0 ? `sacked:${i.sacked}` : "",
    i.dsackDups > 0 ? `dsack_dups:${i.dsackDups}` : "",
    i.reordering !== 3 ? `reordering:${i.reordering}` : "",
    i.reordSeen ? "reord_seen:1" : "",
    `rcv_space:${i.rcvSpace}`,
    i.notsent > 0 ? `notsent:${i.notsent}` : "",
    i.minRtt > 0 ? `minrtt:${ms(i.minRtt)}` : "",
    i.outOfOrderIn > 0 ? `rcv_ooopack:${i.outOfOrderIn}` : "",
    i.sndWnd > 0 ? `snd_wnd:${i.sndWnd}` : "",
  ].filter((word) => word !== "").join(" ");
}
