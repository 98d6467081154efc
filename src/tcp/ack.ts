/**
 * The acknowledgment of a segment: RFC 9293 section 3.10.7.4, fifth, and what follows from it for the sender.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import { SocketErrorKind } from "../base/errors.ts";
import { SocketEvent } from "../base/event_queue.ts";
import { type Instant, NEVER } from "../base/time.ts";
import { seqAdd, seqDiff, seqGt, seqLe, seqLt } from "../wire/seq.ts";
import { FIN, SYN } from "../wire/tcp.ts";
import { challenge } from "./challenge.ts";
import { destroyConnection, enterTimeWait } from "./close.ts";
import { updatePacingRate } from "./pacing.ts";
import { onDupAck, onNewAck } from "./recovery.ts";
import { EVER_RETRANSMITTED, LOST, RETRANSMITTED } from "./retransmit_queue.ts";
import { TcpState } from "./state.ts";
import type { Tcb } from "./tcb.ts";
import { echoedRtt } from "./timestamps.ts";

/** ACK in a synchronised state. */
export function ackInput(t: Tcb, now: Instant): DropReason {
  const s = t.tcp.segment;
  if (seqGt(s.ack, t.sndNxt)) return challenge(t, now, DropReason.TcpBadAck, s.payloadLength > 0);
  // RFC 5961 section 5.2: older than any acknowledgment still on its way can be.
  const lookBack = Math.min(t.sndWndMax, t.counters.bytesAcked);
  if (seqLt(s.ack, seqAdd(t.sndUna, -lookBack))) return challenge(t, now, DropReason.TcpBadAck, false);

  const newWindow = s.window << t.sndWndShift;
  const acked = seqDiff(s.ack, t.sndUna);
  if (acked < 0) return DropReason.None; // old, harmless; its data is still looked at
  // RFC 5681 section 2: same acknowledgment, no data, no SYN or FIN, same window, something outstanding.
  const isDuplicate = acked === 0 && t.hasOutstanding && s.payloadLength === 0 && (s.flags & (SYN | FIN)) === 0 &&
    newWindow === t.sndWnd;

  // Window update (RFC 9293 section 3.10.7.4).
  if (seqLt(t.sndWl1, s.seq) || (t.sndWl1 === s.seq && seqLe(t.sndWl2, s.ack))) {
    if (newWindow > t.sndWnd || acked > 0) {
      t.persistAt = NEVER;
      t.persistBackoff = 0;
    }
    if (newWindow !== t.sndWnd || acked > 0) t.tcp.makeReady(t);
    t.sndWnd = newWindow;
    if (newWindow > t.sndWndMax) t.sndWndMax = newWindow;
    t.sndWl1 = s.seq;
    t.sndWl2 = s.ack;
  }
  // The answer to a probe, or to data sent into a window that closed meanwhile, shows that the peer lives.
  // Not once the application is gone: a peer could keep the rest of its data here for ever.
  if (!t.orphaned && (!t.hasOutstanding || t.sndWnd === 0)) t.retries = 0;

  if (acked > 0) newDataAcked(t, acked, now);
  else if (isDuplicate) {
    onDupAck(t, now);
    t.tcp.makeReady(t);
  }
  if (!t.finSent || t.sndUna !== seqAdd(t.sndFin, 1)) return DropReason.None;

  // Our FIN is acknowledged.
  switch (t.state) {
    case TcpState.FinWait1:
      t.state = TcpState.FinWait2;
      if (t.orphaned) t.timeWaitAt = now + t.tcp.options.finWait2;
      break;
    case TcpState.Closing:
      enterTimeWait(t, now);
      break;
    case TcpState.LastAck:
      destroyConnection(t, now, SocketErrorKind.None, "");
      break;
    default:
      break;
  }
  return DropReason.None;
}

/** SND.UNA moves by `acked`. */
function newDataAcked(t: Tcb, acked: number, now: Instant): void {
  const s = t.tcp.segment;
  const sample = t.tcp.sample;
  sample.now = now;
  sample.priorInFlightBytes = t.inFlightBytes;
  sample.isCwndLimited = t.cwndLimited ||
    (t.congestion.cwnd < t.congestion.ssthresh && t.congestion.cwnd < 2 * t.maxInFlightBytes);

  const queue = t.retransmitQueue;
  let firstDepartAt = -1;
  let lastDepartAt = -1;
  let ambiguous = false;
  let segments = 0;
  while (queue.size > 0 && seqLt(queue.seq(0), s.ack)) {
    const end = queue.end(0);
    const whole = seqLe(end, s.ack);
    const bytes = seqDiff(whole ? end : s.ack, queue.seq(0));
    const flags = queue.flags(0);
    if ((flags & LOST) !== 0) t.lostBytes -= bytes;
    if ((flags & RETRANSMITTED) !== 0) t.retransmittedBytes -= bytes;
    if ((flags & EVER_RETRANSMITTED) !== 0) {
      ambiguous = true;
    } else {
      if (firstDepartAt < 0) firstDepartAt = queue.departAt(0);
      lastDepartAt = queue.departAt(0);
    }
    t.rate.onDelivered(t, 0, bytes);
    if (!whole) {
      queue.trimHead(s.ack);
      break;
    }
    queue.shift();
    segments++;
    if (t.retransmitHint > 0) t.retransmitHint--;
  }
  const finAcked = t.finSent && s.ack === seqAdd(t.sndFin, 1);
  const dataAcked = acked - (finAcked ? 1 : 0);
  t.sendRing.consume(dataAcked);
  t.sndUna = s.ack;
  if (seqLt(t.sndSml, t.sndUna)) t.sndSml = t.sndUna;
  t.counters.bytesAcked += dataAcked;

  // Round-trip time: Karn's rule, else timestamps (RFC 7323 section 4.3).
  sample.rtt = -1;
  if (!ambiguous && firstDepartAt >= 0) {
    if (t.rtt.sample(now - firstDepartAt)) sample.rtt = Math.max(-1, now - lastDepartAt);
  } else if (t.rtt.sample(echoedRtt(t, now))) {
    sample.rtt = t.rtt.latest;
  }
  t.rate.onAckDone(t, now);
  t.retries = 0;
  sample.ackedBytes = acked;
  sample.inFlightBytes = t.inFlightBytes;
  sample.srtt = t.rtt.srtt;
  onNewAck(t, segments, now);
  updatePacingRate(t);
  // RFC 6298 sections 5.2 and 5.3, from the departure of what is now the oldest segment if that lies ahead.
  t.rtoAt = t.hasOutstanding ? Math.max(now, queue.departAt(0)) + t.rtt.rto : NEVER;
  // Worth waking the writer for: a quarter of the buffer. Less would cut the stream into small segments.
  if (t.sendRing.room * 4 >= t.sendRing.capacity) t.raise(SocketEvent.Writable);
  t.tcp.makeReady(t);
}
