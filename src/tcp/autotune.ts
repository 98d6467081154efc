/**
 * Buffers that grow with what a connection can use: enough for any path, little for most connections.
 *
 * The receive buffer (dynamic right-sizing): once in a round-trip time it is looked at how much the application has read
 * in that time. If that is more than ever before, the sender is still growing, and the buffer is made large enough for
 * what may come in the next but one round-trip time: twice as much, and more in the proportion in which it has grown. The
 * window follows the buffer. An application that does not read does not make it grow. A receiver knows the round-trip time
 * from echoed timestamps, and from how long it takes the sender to use up a window, which is never shorter.
 *
 * The send buffer: twice the congestion window, so that the next window can be written while one is acknowledged.
 *
 * Buffers never shrink. A size that is given by an option stays as it is, as with SO_RCVBUF and SO_SNDBUF. The window
 * shift, which is announced in the SYN and can never change, is chosen for the bound.
 *
 * Reference: Linux's tcp_rcv_space_adjust and tcp_sndbuf_expand, by behaviour; here a buffer holds as many bytes as it
 * says, since nothing but data lies in it. Not here: a bound for the buffers of all connections together.
 *
 * @module
 */

import { SocketEvent } from "../base/event_queue.ts";
import type { Duration, Instant } from "../base/time.ts";
import { seqAdd, seqGe } from "../wire/seq.ts";
import type { TcpOptions } from "./options.ts";
import type { Tcb } from "./tcb.ts";
import { echoedRtt } from "./timestamps.ts";
import { receiveWindow } from "./window.ts";

/** A receive buffer that grows begins with so much; as Linux. */
export const FIRST_RECEIVE_BUFFER_BYTES = 131072;

/** A send buffer that grows begins with so much: four initial windows. */
export const FIRST_SEND_BUFFER_BYTES = 65536;

/** Segments of an initial window (RFC 6928): the sender's first round-trip time is expected to bring so much. */
const INITIAL_SEGMENTS = 10;

/** Segments of cushion on top of what is expected. */
const CUSHION_SEGMENTS = 16;

/** What a receive buffer begins with in bytes. */
export function firstReceiveBuffer(options: TcpOptions): number {
  return options.receiveBufferBytes || Math.min(FIRST_RECEIVE_BUFFER_BYTES, options.receiveBufferMaxBytes);
}

/** What a send buffer begins with in bytes. */
export function firstSendBuffer(options: TcpOptions): number {
  return options.sendBufferBytes || Math.min(FIRST_SEND_BUFFER_BYTES, options.sendBufferMaxBytes);
}

/** The most that a receive buffer may ever hold in bytes. */
export function receiveBufferBound(options: TcpOptions): number {
  return options.receiveBufferBytes || options.receiveBufferMaxBytes;
}

/** What the receiver of one connection has seen. */
export class ReceiveTuning {
  /** Round-trip time as the receiver sees it; 0 before the first sample. */
  rtt: Duration = 0;
  /** The most bytes read in a round-trip time. */
  spaceBytes: number;
  /** Bytes read when the present round-trip time began. */
  readBytes: number;
  /** When that was. */
  beganAt: Instant;
  /** The window that is measured is used up when RCV.NXT gets here. */
  windowSeq = 0;
  /** When its measuring began. */
  windowAt: Instant = 0;
  /** The latest echoed timestamp looked at. */
  tsEcr = 0;

  /** Begins with the first data. */
  constructor(t: Tcb, now: Instant) {
    this.spaceBytes = Math.max(1, Math.min(receiveWindow(t), INITIAL_SEGMENTS * t.localMss));
    this.readBytes = t.counters.bytesReceived - t.receiveRing.length;
    this.beganAt = now;
    startWindow(t, this, now);
  }
}

/** Data has come in sequence (RCV.NXT has moved); the segment is in `tcp.segment`. */
export function tuneReceiveBuffer(t: Tcb, now: Instant): void {
  const r = t.receiveTuning;
  if (r === null) {
    t.receiveTuning = new ReceiveTuning(t, now);
    return;
  }
  measureRtt(t, r, now);
  if (r.rtt === 0 || now - r.beganAt < r.rtt) return;
  const readBytes = t.counters.bytesReceived - t.receiveRing.length;
  const copied = readBytes - r.readBytes;
  if (copied > r.spaceBytes) {
    const expected = 2 * copied + CUSHION_SEGMENTS * t.localMss;
    const grown = (copied - r.spaceBytes) / r.spaceBytes;
    t.receiveRing.growTo(Math.min(expected * (1 + 2 * grown), t.tcp.options.receiveBufferMaxBytes));
    r.spaceBytes = copied;
  }
  r.readBytes = readBytes;
  r.beganAt = now;
}

function startWindow(t: Tcb, r: ReceiveTuning, now: Instant): void {
  r.windowSeq = seqAdd(t.rcvNxt, Math.max(1, receiveWindow(t)));
  r.windowAt = now;
}

function measureRtt(t: Tcb, r: ReceiveTuning, now: Instant): void {
  if (seqGe(t.rcvNxt, r.windowSeq)) {
    const sample = Math.max(1, now - r.windowAt);
    if (r.rtt === 0 || sample < r.rtt) r.rtt = sample;
    startWindow(t, r, now);
  }
  const s = t.tcp.segment;
  if (!t.timestampsOn || s.tsEcr === r.tsEcr || s.payloadLength < t.rcvMss) return;
  r.tsEcr = s.tsEcr;
  const sample = echoedRtt(t, now);
  if (sample > 0) r.rtt = r.rtt === 0 ? sample : r.rtt + (sample - r.rtt) / 8;
}

/** New data was acknowledged: the congestion window may have grown. */
export function tuneSendBuffer(t: Tcb): void {
  const ring = t.sendRing;
  const wanted = Math.min(2 * Math.max(t.congestion.cwnd, INITIAL_SEGMENTS * t.mss), t.tcp.options.sendBufferMaxBytes);
  if (wanted < ring.capacity + t.mss) return;
  ring.growTo(wanted);
  if (ring.room * 4 >= ring.capacity) t.raise(SocketEvent.Writable);
}
