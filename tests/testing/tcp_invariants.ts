/**
 * What always holds of a connection between two entries into its TCP. Traces and simulations check it after each step,
 * so that a test about one thing also finds what it breaks elsewhere.
 *
 * @module
 */

import { fail } from "@std/assert";
import { NEVER } from "../../src/base/time.ts";
import { LOST, RETRANSMITTED, SACKED } from "../../src/tcp/retransmit_queue.ts";
import { isSynchronized, RecoveryState, TcpState, tcpStateName } from "../../src/tcp/state.ts";
import type { Tcb } from "../../src/tcp/tcb.ts";
import { nextDeadline } from "../../src/tcp/timers.ts";
import { seqAdd, seqDiff, seqLe } from "../../src/wire/seq.ts";

/** Fails if `t`, which has had its turn to send, is in a state that it may not be in. */
export function checkInvariants(t: Tcb): void {
  const problem = problemOf(t);
  if (problem !== null) fail(`${tcpStateName(t.state)}: ${problem}`);
}

function problemOf(t: Tcb): string | null {
  if (t.state === TcpState.Closed) return nextDeadline(t) === NEVER ? null : "a timer of a closed connection runs";
  const within = (x: number, from: number, to: number) => seqLe(from, x) && seqLe(x, to);
  if (!within(t.rcvNxt, t.rcvNxt, t.rcvAdv)) return `rcvAdv ${t.rcvAdv} before rcvNxt ${t.rcvNxt}`;
  const offered = seqDiff(t.rcvAdv, t.rcvNxt);
  if (t.state !== TcpState.SynSent && offered > t.receiveRing.room) {
    return `${offered} bytes offered with room for ${t.receiveRing.room}`;
  }
  return sendProblem(t) ?? receiveProblem(t) ?? timerProblem(t);
}

function sendProblem(t: Tcb): string | null {
  const queue = t.retransmitQueue;
  if (!isSynchronized(t.state)) return queue.size === 0 ? null : "data in flight before the handshake is complete";
  const outstanding = seqDiff(t.sndNxt, t.sndUna);
  if (outstanding < 0) return `sndNxt ${t.sndNxt} before sndUna ${t.sndUna}`;
  let at = t.sndUna;
  let lost = 0;
  let retransmitted = 0;
  let pending = 0;
  let sacked = 0;
  let sackedSegments = 0;
  let inFlightSegments = 0;
  for (let i = 0; i < queue.size; i++) {
    if (queue.seq(i) !== at) return `gap before segment ${i} of the retransmit queue`;
    const length = seqDiff(queue.end(i), at);
    if (length <= 0) return `segment ${i} of the retransmit queue has length ${length}`;
    const flags = queue.flags(i);
    if ((flags & SACKED) !== 0 && (flags & (LOST | RETRANSMITTED)) !== 0) return `segment ${i} arrived, but is lost`;
    if ((flags & SACKED) !== 0) {
      sacked += length;
      sackedSegments++;
    } else if ((flags & (LOST | RETRANSMITTED)) === LOST) pending += length;
    else inFlightSegments++;
    if ((flags & LOST) !== 0) lost += length;
    if ((flags & RETRANSMITTED) !== 0) retransmitted += length;
    if (i < t.retransmitHint && (flags & (LOST | RETRANSMITTED)) === LOST) {
      return `segment ${i} waits to be sent again, but the hint is ${t.retransmitHint}`;
    }
    at = queue.end(i);
  }
  if (at !== t.sndNxt) return `the retransmit queue ends at ${at}, not at sndNxt ${t.sndNxt}`;
  if (lost !== t.lostBytes) return `lostBytes ${t.lostBytes}, but ${lost} are marked`;
  if (retransmitted !== t.retransmittedBytes) {
    return `retransmittedBytes ${t.retransmittedBytes}, but ${retransmitted} are marked`;
  }
  if (pending !== t.pendingBytes) return `pendingBytes ${t.pendingBytes}, but ${pending} are marked`;
  if (sacked !== t.sackedBytes || sackedSegments !== t.sackedSegments) {
    return `sackedBytes ${t.sackedBytes} in ${t.sackedSegments}, but ${sacked} in ${sackedSegments} are marked`;
  }
  let departed = -Infinity;
  let linked = 0;
  for (let i = queue.earliest(); i >= 0; i = queue.departedAfter(i)) {
    if (++linked > queue.size) return "the list of departures is a ring";
    if (queue.departAt(i) < departed) return "the list of departures is out of order";
    departed = queue.departAt(i);
  }
  if (linked !== inFlightSegments) return `${linked} segments in the list of departures, ${inFlightSegments} in flight`;
  const inFlight = t.inFlightBytes;
  if (inFlight < 0 || inFlight > outstanding + retransmitted) {
    return `${inFlight} bytes in flight of ${outstanding} outstanding`;
  }
  if (t.state !== TcpState.TimeWait && outstanding > t.sendRing.length + (t.finSent ? 1 : 0)) {
    return `${outstanding} bytes outstanding, ${t.sendRing.length} in the buffer`;
  }
  // Numbers that are compared with later ones may not fall behind, or the comparison turns over after 2^31 bytes.
  const before = seqAdd(t.sndUna, -1);
  if (seqDiff(t.sndSml, before) < 0 || seqDiff(t.sndSml, t.sndNxt) > 0) return `sndSml ${t.sndSml} has fallen behind`;
  if (seqDiff(t.recover, before) < 0 || seqDiff(t.recover, t.sndNxt) > 0) {
    return `recover ${t.recover} has fallen behind`;
  }
  if (t.recovery > RecoveryState.Cwr && outstanding === 0) return "a recovery with nothing outstanding";
  return null;
}

function receiveProblem(t: Tcb): string | null {
  const edges = new Int32Array(8);
  const n = t.reassembly.blocks(edges, 4);
  for (let i = 0; i < n; i++) {
    const [left, right] = [edges[2 * i]!, edges[2 * i + 1]!];
    if (seqDiff(left, t.rcvNxt) <= 0 || seqDiff(right, left) <= 0 || seqDiff(right, t.rcvAdv) > 0) {
      return `range ${left}..${right} is not within the window ${t.rcvNxt}..${t.rcvAdv}`;
    }
  }
  return null;
}

function timerProblem(t: Tcb): string | null {
  if (nextDeadline(t) < t.tcp.nextAt()) return "a deadline is not scheduled";
  if (!isSynchronized(t.state)) return t.rtoAt < NEVER ? null : "no timer for the handshake";
  if (t.state === TcpState.TimeWait) return t.timeWaitAt < NEVER ? null : "TIME-WAIT without end";
  if (t.hasOutstanding !== (t.rtoAt < NEVER)) return `${t.hasOutstanding ? "no" : "a"} retransmission timer`;
  if (t.ready) return null;
  if (t.ackNow && t.delayedAckAt === NEVER) return "an acknowledgment was not sent";
  if (t.rcvNxt !== t.lastAckSent && t.delayedAckAt === NEVER) return "an acknowledgment is owed and no timer runs";
  const waiting = t.unsentBytes > 0 || (t.finQueued && !t.finSent);
  if (waiting && !t.hasOutstanding && !t.heldBack && t.persistAt === NEVER && t.paceAt === NEVER) {
    return "data waits, but for nothing";
  }
  return null;
}
