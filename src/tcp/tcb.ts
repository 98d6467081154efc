/**
 * The transmission control block: all that TCP knows about one connection, under the names of RFC 9293 section 3.3.1,
 * and what the application may do with it.
 *
 * The block itself decides nothing about segments: input.ts, output.ts, recovery.ts, timers.ts and close.ts do. Calls of
 * the application change buffers and flags and put the connection on the ready list; the next `Tcp.timeout` writes out
 * what there is to say.
 *
 * ```text
 *   send:     sndUna ── sent, unacknowledged ── sndNxt ── written, unsent ── end of sendRing (── FIN)
 *   receive:  read by the application ── receiveRing ── rcvNxt ── (out-of-order ranges) ── rcvAdv
 * ```
 *
 * @module
 */

import { SocketErrorKind } from "../base/errors.ts";
import type { EventSource, SocketEvent } from "../base/event_queue.ts";
import { RingBuffer } from "../base/ring_buffer.ts";
import { type Duration, type Instant, NEVER } from "../base/time.ts";
import type { IpAddr } from "../wire/ip_addr.ts";
import { seqDiff, seqGt } from "../wire/seq.ts";
import { BusyTime } from "./busy_time.ts";
import type { CongestionControl } from "./congestion/control.ts";
import { firstReceiveBuffer, firstSendBuffer, type ReceiveTuning } from "./autotune.ts";
import { abortConnection, closeConnection } from "./close.ts";
import { onRead } from "./delayed_ack.ts";
import { type TcpInfo, tcpInfo } from "./info.ts";
import { setKeepAlive } from "./keepalive.ts";
import type { TcpListener } from "./listener.ts";
import { CongestionTrace } from "./congestion_trace.ts";
import type { PacingMode } from "./pacing.ts";
import { PathMtu } from "./pmtud.ts";
import { Prr } from "./prr.ts";
import { Rack } from "./rack.ts";
import { RateSampler } from "./rate_sample.ts";
import { Reassembly } from "./reassembly.ts";
import { RetransmitQueue } from "./retransmit_queue.ts";
import { RttEstimator } from "./rtt.ts";
import { isSynchronized, mayReceive, maySend, RecoveryState, TcpState } from "./state.ts";
import type { Tcp } from "./tcp.ts";
import { shouldUpdateWindow } from "./window.ts";

/** Counters of one connection. */
export class TcpCounters {
  /** Segments received. */
  segmentsIn = 0;
  /** Segments sent, retransmissions included. */
  segmentsOut = 0;
  /** Segments with data received. */
  dataSegmentsIn = 0;
  /** Bytes of data sent for the first time. */
  bytesSent = 0;
  /** Bytes of data acknowledged. */
  bytesAcked = 0;
  /** Bytes of data received in sequence. */
  bytesReceived = 0;
  /** Bytes sent again. */
  bytesRetransmitted = 0;
  /** Segments sent again in fast recovery. */
  fastRetransmits = 0;
  /** Segments sent again because the retransmission timer ran out, at once. */
  timeoutRetransmits = 0;
  /** Segments sent again in the slow start after a timeout. */
  lossRetransmits = 0;
  /** Segments sent again as tail-loss probes. */
  probeRetransmits = 0;
  /** Tail-loss probes, new segments and old. */
  tailLossProbes = 0;
  /** Fast recoveries. */
  recoveries = 0;
  /** Reductions of the window that were taken back. */
  undos = 0;
  /** Timeouts that turned out to be spurious. */
  spuriousTimeouts = 0;
  /** Acknowledgments that echoed congestion (RFC 3168). */
  ecnEchoes = 0;
  /** Data segments received with a CE mark. */
  ceIn = 0;
  /** SYN and SYN-ACK sent again. */
  synRetransmits = 0;
  /** Probes of a closed window. */
  windowProbes = 0;
  /** Keep-alive probes. */
  keepAliveProbes = 0;
  /** Times the retransmission timer ran out. */
  timeouts = 0;
  /** Duplicate acknowledgments received. */
  dupAcksIn = 0;
  /** Segments received out of order. */
  outOfOrderIn = 0;
  /** Segments received that held nothing new. */
  duplicatesIn = 0;
}

/** One TCP connection. */
export class Tcb implements EventSource {
  events = 0;
  eventQueued = false;
  user: unknown = null;

  /** Small integer, unique among the connections of the host that exist now. */
  readonly id: number;
  /** Flow id in the queueing discipline. */
  readonly flow: number;
  /** Our address. */
  readonly localAddress: IpAddr;
  /** Our port. */
  readonly localPort: number;
  /** The peer's address. */
  readonly remoteAddress: IpAddr;
  /** The peer's port. */
  readonly remotePort: number;
  /** Hash of addresses and ports in the connection table. */
  readonly hash: number;
  /** The TCP that it belongs to. */
  readonly tcp: Tcp;
  /** The listener that made it and has not handed it out yet, or `null`. */
  listener: TcpListener | null = null;

  /** State of RFC 9293 section 3.3.2. */
  state: TcpState = TcpState.Closed;
  /** Why the connection ended. */
  error: SocketErrorKind = SocketErrorKind.None;
  /** The same in words. */
  errorText = "";
  /** What ICMP said about a segment, without ending the connection; empty if nothing. */
  softError = "";
  /** True once the connection has been established. */
  wasEstablished = false;

  /** Initial send sequence number. */
  iss = 0;
  /** Oldest unacknowledged sequence number. */
  sndUna = 0;
  /** Next sequence number to send. */
  sndNxt = 0;
  /** Peer's window in bytes. */
  sndWnd = 0;
  /** Segment sequence number of the last window update. */
  sndWl1 = 0;
  /** Segment acknowledgment number of the last window update. */
  sndWl2 = 0;
  /** The largest window the peer ever offered. */
  sndWndMax = 0;
  /** Shift count for windows that we receive. */
  sndWndShift = 0;
  /** End of the last segment smaller than the MSS (Minshall's Nagle). */
  sndSml = 0;
  /** Sequence number of our FIN, valid if `finSent`. */
  sndFin = 0;
  /** Initial receive sequence number. */
  irs = 0;
  /** Next sequence number expected. */
  rcvNxt = 0;
  /** Right edge of the window that we advertised. */
  rcvAdv = 0;
  /** Shift count for windows that we send. */
  rcvWndShift = 0;
  /** Sequence number of the peer's FIN, valid if `finReceived`. */
  rcvFin = 0;
  /** A FIN of the peer has come, perhaps with data before it missing. */
  finReceived = false;

  /** Bytes of data in a full segment to the peer, options taken off. */
  mss = 536;
  /** The MSS that the peer announced, at most ours: data and options. */
  peerMss = 536;
  /** What is known of the path's MTU. */
  readonly path: PathMtu = new PathMtu();
  /** What we announced, or will announce, as MSS. */
  localMss = 536;
  /** Bytes of data that count as a full segment from this peer. */
  rcvMss = 1;
  /** We offer window scaling or, once the peer's SYN has come, both sides use it. */
  windowScaleOn: boolean;
  /** The same of timestamps. */
  timestampsOn: boolean;
  /** The same of SACK. */
  sackOn: boolean;
  /** TS.Recent. */
  tsRecent = 0;
  /** When TS.Recent was set. */
  tsRecentAt: Instant = 0;
  /** Added to the clock for TSval. */
  tsOffset = 0;
  /** Acknowledgment number last sent. */
  lastAckSent = 0;

  /** Data from sndUna on: sent and unacknowledged, then unsent. */
  readonly sendRing: RingBuffer;
  /** Data received in sequence and not read yet; out-of-order data lies behind. */
  readonly receiveRing: RingBuffer;
  /** Unacknowledged segments. */
  readonly retransmitQueue: RetransmitQueue = new RetransmitQueue();
  /** The receive buffer grows by itself. */
  readonly isReceiveTuned: boolean;
  /** The send buffer does. */
  readonly isSendTuned: boolean;
  /** What that of the receive buffer goes by; made with the first data. */
  receiveTuning: ReceiveTuning | null = null;
  /** Out-of-order ranges. */
  readonly reassembly: Reassembly = new Reassembly();
  /** Round-trip time and timeout. */
  readonly rtt: RttEstimator;
  /** The congestion control. */
  congestion: CongestionControl;
  /** Counters. */
  readonly counters: TcpCounters = new TcpCounters();

  /** The application closed its side; a FIN follows the data. */
  finQueued = false;
  /** The FIN has been sent at least once. */
  finSent = false;
  /** The application is gone: incoming data is answered by a reset. */
  orphaned = false;
  /** Nagle's algorithm is off. */
  noDelay: boolean;

  /** How the sender stands to loss. */
  recovery: RecoveryState = RecoveryState.Open;
  /** SND.NXT when the recovery began. */
  recover = 0;
  /** Duplicate acknowledgments in a row, each a segment that has left the network. */
  dupAcks = 0;
  /** Bytes of unacknowledged segments marked lost. */
  lostBytes = 0;
  /** Bytes of segments of which a second copy is in flight. */
  retransmittedBytes = 0;
  /** Bytes of lost segments that wait to be sent again. */
  pendingBytes = 0;
  /** Bytes of segments selectively acknowledged. */
  sackedBytes = 0;
  /** Their number. */
  sackedSegments = 0;
  /** Loss by time. */
  readonly rack: Rack = new Rack();
  /** The window in a recovery. */
  readonly prr: Prr = new Prr();
  /** The retransmission that begins a recovery is still to be sent, whatever the window says. */
  retransmitForced = false;
  /** Segments sent again since the connection began. */
  retransmitCount = 0;
  /** Segments reported as duplicates since the connection began. */
  dsackSegments = 0;
  /** The reduction at hand may be taken back. */
  undoActive = false;
  /** SND.UNA when it was made. */
  undoMarker = 0;
  /** The highest end of a segment sent again since then. */
  undoHigh = 0;
  /** When the episode is over: it may be taken back until this is acknowledged. */
  undoUntil = 0;
  /** Retransmissions since then that were not reported as duplicates; −1 before the first. */
  undoRetransmits: number = -1;
  /** Departure of the first retransmission of the episode; `NEVER` before it. */
  retransmitAt: Instant = NEVER;
  /** F-RTO is finding out whether the timeout was spurious. */
  frto = false;
  /** It wants new data to be sent next. */
  frtoNewData = false;
  /** A tail-loss probe is out. */
  tlpActive = false;
  /** SND.NXT when it was sent. */
  tlpSeq = 0;
  /** It was a segment sent again. */
  tlpIsRetransmission = false;
  /** There was no round-trip time since the latest probe. */
  tlpWantsRtt = false;
  /** ECN is in use (RFC 3168). */
  ecnOn = false;
  /** The next new data carries CWR. */
  ecnSendCwr = false;
  /** CE marks of the peer's data are echoed: the peer may believe that ECN is in use although we do not send by it. */
  ecnHeedsCe = false;
  /** Acknowledgments carry ECE until the peer says CWR. */
  ecnSendEce = false;
  /** What the sender spends its time on. */
  readonly busyTime: BusyTime = new BusyTime();
  /** The peer's window was what held us back when last something was to be sent. */
  rwndLimited = false;
  /** What happened to the window and why; `null` before the first event. */
  trace: CongestionTrace | null = null;
  /** The control's reason for its last change that was noted. */
  noticedWhy = "";
  /** Index in the retransmit queue before which no segment waits to be sent again. */
  retransmitHint = 0;
  /** The window was what held us back when last something was to be sent. */
  cwndLimited = false;
  /** The most bytes in flight in the present window of data: how far the congestion window is made use of. */
  maxInFlightBytes = 0;
  /** Where the present window of data ends. */
  windowEnd = 0;
  /** The unsent data was held back by the small-queue limit. */
  heldBack = false;
  /** How departures are spaced. */
  pacing: PacingMode;
  /** Rate at which data departs; infinite before the first round-trip time. */
  pacingRateBytesPerSec: number = Infinity;
  /** The most that it may be. */
  maxPacingRateBytesPerSec: number;
  /** Data segments sent, retransmissions included. */
  dataSegmentsOut = 0;
  /** Data segments that have the present stamp. */
  burstSegments = 0;
  /** Their bytes. */
  burstBytes = 0;
  /** Time that had gone by unused when the burst began. */
  pacingCredit: Duration = 0;
  /** Delivery-rate samples. */
  readonly rate: RateSampler = new RateSampler();
  /** When data was last sent. */
  lastSentAt: Instant = 0;
  /** Departure stamp of the next segment, if it has not passed by then. */
  departAt: Instant = 0;
  /** Departure stamp of the latest segment that was no bare acknowledgment. */
  lastDepartAt: Instant = 0;
  /** Bytes of the bare acknowledgments, as IP packets, that were handed over behind it. */
  bareBytesBehind = 0;
  /** Departure stamp of the first SYN or SYN-ACK. */
  synSentAt: Instant = 0;
  /** Timeouts in a row without progress. */
  retries = 0;

  /** Acknowledgments that are still sent at once, unless they can ride on answers. */
  quickAcksLeft = 0;
  /** Data goes back and forth: acknowledgments ride on answers. */
  pingPong = false;
  /** How long an adaptive acknowledgment waits; 0 before the first data. */
  ato: Duration = 0;
  /** Data segments received since the last acknowledgment. */
  unackedSegmentsIn = 0;
  /** Those of them that were not full, counted up to two. */
  shortSegments = 0;
  /** Bytes of data in the latest segment that was not full. */
  shortSegmentBytes = 0;
  /** When data was last received. */
  lastDataInAt: Instant = -NEVER;
  /** The duplicate to report in the next SACK option, empty if left and right are equal. */
  dsackLeft = 0;
  /** Its right edge. */
  dsackRight = 0;
  /** An acknowledgment is to be sent with the next output. */
  ackNow = false;
  /** When a delayed acknowledgment is due. */
  delayedAckAt: Instant = NEVER;
  /** When the retransmission timer runs out. */
  rtoAt: Instant = NEVER;
  /** When a tail-loss probe is sent. */
  probeAt: Instant = NEVER;
  /** When what is missing, and may be late, counts as lost. */
  reorderAt: Instant = NEVER;
  /** When internal pacing lets the next segment go. */
  paceAt: Instant = NEVER;
  /** When the closed window is probed. */
  persistAt: Instant = NEVER;
  /** Probes of the closed window since it closed. */
  persistBackoff = 0;
  /** When TIME-WAIT or an orphaned FIN-WAIT-2 ends. */
  timeWaitAt: Instant = NEVER;
  /** When an acceptable segment last came. */
  lastSegmentInAt: Instant = 0;
  /** Keep-alive is on. */
  keepAlive: boolean;
  /** How long nothing has come before the first probe. */
  keepAliveIdle: Duration;
  /** Time between probes that are not answered. */
  keepAliveInterval: Duration;
  /** Probes without an answer before the connection is given up. */
  keepAliveProbes: number;
  /** Probes since something last came. */
  keepAliveProbesSent = 0;
  /** When keep-alive looks again. */
  keepAliveAt: Instant = NEVER;
  /** How long what waits may make no progress; 0 for any time. */
  userTimeout: Duration;
  /** Since when what is outstanding, or waits for the window, has made no progress. */
  stalledSince: Instant = 0;
  /** When the last challenge acknowledgment was sent. */
  challengeAt: Instant = -NEVER;
  /** True while on the ready list. */
  ready = false;

  /** Made by {@linkcode Tcp} only. */
  constructor(
    tcp: Tcp,
    id: number,
    localAddress: IpAddr,
    localPort: number,
    remoteAddress: IpAddr,
    remotePort: number,
    hash: number,
    congestion: CongestionControl,
  ) {
    const options = tcp.options;
    this.tcp = tcp;
    this.id = id;
    this.flow = id * 2;
    this.localAddress = localAddress;
    this.localPort = localPort;
    this.remoteAddress = remoteAddress;
    this.remotePort = remotePort;
    this.hash = hash;
    this.congestion = congestion;
    this.noDelay = options.noDelay;
    this.pacing = options.pacing;
    this.maxPacingRateBytesPerSec = options.maxPacingRateBytesPerSec;
    this.keepAlive = options.keepAlive;
    this.keepAliveIdle = options.keepAliveIdle;
    this.keepAliveInterval = options.keepAliveInterval;
    this.keepAliveProbes = options.keepAliveProbes;
    this.userTimeout = options.userTimeout;
    this.windowScaleOn = options.windowScale;
    this.timestampsOn = options.timestamps;
    this.sackOn = options.sack;
    this.isSendTuned = options.sendBufferBytes === 0;
    this.isReceiveTuned = options.receiveBufferBytes === 0;
    this.sendRing = new RingBuffer(firstSendBuffer(options));
    this.receiveRing = new RingBuffer(firstReceiveBuffer(options));
    this.rtt = new RttEstimator(options);
  }

  /** Bytes that can be read now. */
  get readableBytes(): number {
    return this.receiveRing.length;
  }

  /** True when the peer has closed its side and everything was read. */
  get readEnded(): boolean {
    return this.receiveRing.length === 0 && !mayReceive(this.state);
  }

  /** True once everything up to the peer's FIN has come, whatever became of the connection since. */
  get finReached(): boolean {
    return this.finReceived && seqGt(this.rcvNxt, this.rcvFin);
  }

  /** Room in the send buffer; 0 when the write side is closed. */
  get writableBytes(): number {
    return this.finQueued || !maySend(this.state) ? 0 : this.sendRing.room;
  }

  /** Bytes written that the peer has not acknowledged. */
  get unackedBytes(): number {
    return this.sendRing.length;
  }

  /** Bytes written and not sent yet. */
  get unsentBytes(): number {
    if (!isSynchronized(this.state)) return this.sendRing.length;
    return Math.max(0, seqDiff(this.sndEnd, this.sndNxt));
  }

  /**
   * Takes bytes to send.
   *
   * @returns how many bytes of `source[from, to)` were taken (0 when the buffer is full), or −1 if the write side is
   * closed
   */
  write(source: Uint8Array, from: number, to: number): number {
    if (this.finQueued || !maySend(this.state)) return -1;
    const n = this.sendRing.write(source, from, to);
    if (n > 0) this.tcp.makeReady(this);
    return n;
  }

  /** Copies received bytes to `target`; returns how many (0 if there are none now). */
  read(target: Uint8Array): number {
    const n = this.receiveRing.read(target);
    // Nothing will follow: the memory is not needed through TIME-WAIT.
    if (this.receiveRing.length === 0 && !mayReceive(this.state)) this.receiveRing.clear();
    if (n > 0 && mayReceive(this.state)) {
      if (shouldUpdateWindow(this)) {
        this.ackNow = true;
        this.tcp.makeReady(this);
      } else {
        onRead(this);
      }
    }
    return n;
  }

  /** Switches keep-alive on or off; it probes a connection on which nothing comes. */
  setKeepAlive(on: boolean, now: Instant): void {
    setKeepAlive(this, on, now);
  }

  /** Sets how long what waits may make no progress before the connection is given up; 0 for no such limit. */
  setUserTimeout(timeout: Duration): void {
    this.userTimeout = timeout;
    this.tcp.schedule(this);
  }

  /** Closes the write side: a FIN follows what was written. */
  shutdownWrite(now: Instant): void {
    closeConnection(this, now, false);
  }

  /** Closes both sides. Unread data makes it a reset (RFC 2525 section 2.17, RFC 9293 section 3.6.1). */
  close(now: Instant): void {
    closeConnection(this, now, true);
  }

  /** Ends the connection at once with a reset. */
  abort(now: Instant, kind: SocketErrorKind = SocketErrorKind.ConnectionAborted, text = "aborted"): void {
    abortConnection(this, now, kind, text);
  }

  /** A snapshot in the manner of Linux's `tcp_info`, as of when TCP last had its turn. */
  info(): TcpInfo {
    return tcpInfo(this, this.tcp.now);
  }

  /** Bytes believed to be in the network (RFC 6675's pipe; without SACK a duplicate acknowledgment is a segment less). */
  get inFlightBytes(): number {
    const outstanding = seqDiff(this.sndNxt, this.sndUna);
    const arrived = this.sackOn
      ? this.sackedBytes
      : Math.min(this.dupAcks * this.mss, Math.max(0, outstanding - this.lostBytes));
    return outstanding - this.lostBytes + this.retransmittedBytes - arrived;
  }

  /** The congestion window in force, in bytes: in a recovery PRR's, unless the control owns it. */
  get cwnd(): number {
    const reducing = this.recovery === RecoveryState.Recovery || this.recovery === RecoveryState.Cwr;
    return reducing && !this.congestion.ownsRecovery ? this.prr.cwnd : this.congestion.cwnd;
  }

  /** Notes a congestion event. */
  note(now: Instant, why: string): void {
    (this.trace ??= new CongestionTrace()).note(this, now, why);
  }

  /** True if something is sent and not acknowledged. */
  get hasOutstanding(): boolean {
    return seqGt(this.sndNxt, this.sndUna);
  }

  /** One past the last byte written, valid once the SYN is acknowledged: where a FIN goes. */
  get sndEnd(): number {
    return (this.sndUna + this.sendRing.length) | 0;
  }

  /** The smoothed round-trip time, or 0. */
  get srtt(): Duration {
    return this.rtt.srtt;
  }

  /** Tells the application. */
  raise(bits: SocketEvent): void {
    this.tcp.network.events.raise(this, bits);
  }
}
