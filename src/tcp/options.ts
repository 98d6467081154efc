/**
 * The settings of a TCP, with their defaults. All durations in nanoseconds.
 *
 * @module
 */

import { type Duration, MILLISECOND, SECOND } from "../base/time.ts";
import type { PacingMode } from "./pacing.ts";
import type { MtuProbing } from "./pmtud.ts";
import type { RtoModel } from "./rtt.ts";

/** How a TCP stands to ECN. */
export type EcnOption = "off" | "accept" | "on";

/** The ways to stand to ECN, for messages. */
export const ECN_OPTIONS: readonly EcnOption[] = ["off", "accept", "on"];

/** Settings of all connections of a host. */
export interface TcpOptions {
  /** Send buffer of a connection in bytes; 0 to have it grow with the congestion window. Default 0. */
  sendBufferBytes: number;
  /** The most that a send buffer grows to by itself. Default 4 MiB, as Linux. */
  sendBufferMaxBytes: number;
  /**
   * Receive buffer of a connection in bytes; the window is at most this. 0 to have it grow with what the application
   * reads in a round-trip time. Default 0.
   */
  receiveBufferBytes: number;
  /** The most that a receive buffer grows to by itself. Default 6 MiB, as Linux. */
  receiveBufferMaxBytes: number;
  /** Retransmission timeout before the first round-trip time (RFC 6298 section 2.1). Default 1 s. */
  initialRto: Duration;
  /** Least variance term of the retransmission timeout. Default 200 ms, as Linux. */
  minRto: Duration;
  /** How the timeout is made of round-trip times: `"linux"` or `"rfc6298"`. Default `"linux"`. */
  rtoModel: RtoModel;
  /** A timeout that round-trip times do not change, for experiments; 0 for none. Default 0. */
  fixedRto: Duration;
  /** Greatest retransmission timeout. Default 120 s. */
  maxRto: Duration;
  /** Acknowledge a SYN-ACK at once, or for experiments only with the first data or after the delay. Default `"now"`. */
  handshakeAck: "now" | "delayed";
  /**
   * How long an acknowledgment may wait for data to ride on (RFC 9293 section 3.8.6.3: < 0.5 s): always as long, or 40
   * to 200 ms as data comes. Default `"adaptive"`.
   */
  delayedAck: Duration | "adaptive";
  /**
   * The most acknowledgments that do not wait, at the start of a connection and after disorder, until we answer with
   * data; 0 for none. Default 16, as Linux.
   */
  quickAcks: number;
  /** Acknowledge every second segment at once, however small it is. Default false: every second full-sized one. */
  ackEverySecondSegment: boolean;
  /** Let the acknowledgment of a FIN wait like one of data, if the connection is still open in our direction. Default false. */
  delayFinAck: boolean;
  /** A reset does not end TIME-WAIT (RFC 1337 section 3). Default false, as Linux. */
  rfc1337: boolean;
  /** Report duplicates in SACK blocks (RFC 2883). Default true. */
  dsack: boolean;
  /** The most data in a segment that is announced and sent; 0 for what the MTU allows. Default 0. */
  maxSegmentBytes: number;
  /** How long a closed connection is remembered: 2 MSL. Default 60 s. */
  timeWait: Duration;
  /** How long FIN-WAIT-2 may last once the application is gone. Default 60 s. */
  finWait2: Duration;
  /** Timeouts of a SYN before the attempt is given up. Default 6. */
  synRetries: number;
  /** Timeouts of a SYN-ACK before the attempt is given up. Default 5. */
  synAckRetries: number;
  /** Timeouts of data in a row before the connection is given up. Default 15. */
  retries: number;
  /**
   * How long data may stay unacknowledged, or wait for the peer's window, before the connection is given up; 0 to count
   * `retries` instead (RFC 5482). Default 0.
   */
  userTimeout: Duration;
  /** Probe connections on which nothing comes (RFC 9293 section 3.8.4). Default false. */
  keepAlive: boolean;
  /** How long nothing has come before the first probe. Default 2 h. */
  keepAliveIdle: Duration;
  /** Time between probes that are not answered. Default 75 s. */
  keepAliveInterval: Duration;
  /** Probes without an answer before the connection is given up. Default 9. */
  keepAliveProbes: number;
  /** Answer SYNs that the backlog has no room for without remembering them (RFC 4987 section 3.6). Default true. */
  synCookies: boolean;
  /** Connect from a port in TIME-WAIT if timestamps tell the two connections apart, a second later. Default true. */
  timeWaitReuse: boolean;
  /** Name of the congestion control. Default `"cubic"`. */
  congestion: string;
  /** How slow start ends before there is loss, by name. Default `"hystart++"` (RFC 9406). */
  slowStartExit: string;
  /** In slow start the window grows by the bytes acknowledged, or by a segment for each acknowledgment. Default `"bytes"`. */
  slowStartGrowth: "bytes" | "acks";
  /** How departures are spaced. Default `"edt"`. */
  pacing: PacingMode;
  /** The most that a connection may be paced at, in bytes per second. Default `Infinity`. */
  maxPacingRateBytesPerSec: number;
  /** Initial window in segments; 0 for RFC 6928. Default 0. */
  initialCwndSegments: number;
  /** Offer window scaling (RFC 7323). Default true. */
  windowScale: boolean;
  /** Window shift to announce; -1 to take it from what the receive buffer may grow to. Default -1. */
  windowShift: number;
  /** Offer timestamps (RFC 7323). Default true. */
  timestamps: boolean;
  /** Offer selective acknowledgments (RFC 2018). Default true. */
  sack: boolean;
  /** What fast retransmit sends again: what is known to be lost, or for experiments all. Default `"oldest"`. */
  fastRetransmit: "oldest" | "whole-buffer";
  /** Find out by F-RTO whether a timeout was spurious (RFC 5682). Default true. */
  frto: boolean;
  /** Probe for losses at the tail (RFC 8985 section 7). Default true. */
  tailLossProbe: boolean;
  /** Look for the path's MTU by larger segments: never, where a black hole is suspected, or always. Default `"black-hole"`. */
  mtuProbing: MtuProbing;
  /** ECN (RFC 3168): offer it (`"on"`), accept it (`"accept"`, as Linux) or neither (`"off"`). Default `"accept"`. */
  ecn: EcnOption;
  /** Restart with a small window after idleness (RFC 5681 section 4.1). Default true. */
  slowStartAfterIdle: boolean;
  /** Switch Nagle's algorithm off on new connections. Default false. */
  noDelay: boolean;
  /** The most connections of the host. Default 65,536. */
  connectionLimit: number;
  /** The most bytes of one connection in the queueing discipline (TCP small queues). Default 128 KiB. */
  smallQueueBytes: number;
}

/** The defaults. */
export const DEFAULT_TCP_OPTIONS: TcpOptions = {
  sendBufferBytes: 0,
  sendBufferMaxBytes: 4 << 20,
  receiveBufferBytes: 0,
  receiveBufferMaxBytes: 6 << 20,
  initialRto: SECOND,
  minRto: 200 * MILLISECOND,
  rtoModel: "linux",
  fixedRto: 0,
  maxRto: 120 * SECOND,
  delayedAck: "adaptive",
  handshakeAck: "now",
  quickAcks: 16,
  rfc1337: false,
  ackEverySecondSegment: false,
  delayFinAck: false,
  dsack: true,
  maxSegmentBytes: 0,
  timeWait: 60 * SECOND,
  finWait2: 60 * SECOND,
  synRetries: 6,
  synAckRetries: 5,
  retries: 15,
  userTimeout: 0,
  keepAlive: false,
  keepAliveIdle: 7200 * SECOND,
  keepAliveInterval: 75 * SECOND,
  keepAliveProbes: 9,
  synCookies: true,
  timeWaitReuse: true,
  congestion: "cubic",
  slowStartExit: "hystart++",
  slowStartGrowth: "bytes",
  pacing: "edt",
  maxPacingRateBytesPerSec: Infinity,
  initialCwndSegments: 0,
  windowScale: true,
  windowShift: -1,
  timestamps: true,
  sack: true,
  fastRetransmit: "oldest",
  frto: true,
  tailLossProbe: true,
  mtuProbing: "black-hole",
  ecn: "accept",
  slowStartAfterIdle: true,
  noDelay: false,
  connectionLimit: 65536,
  smallQueueBytes: 128 << 10,
};
