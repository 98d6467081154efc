/**
 * The congestion events of a connection: when its state, its window's limit or the control's mind changed, and why.
 *
 * The newest events are kept, up to a bound; what was dropped is counted. Nothing is kept for a connection that has none.
 *
 * @module
 */

import { type Instant, toMilliseconds } from "../base/time.ts";
import { RECOVERY_NAMES } from "./state.ts";
import type { Tcb } from "./tcb.ts";

/** One event. */
export interface CongestionEvent {
  /** When, in milliseconds since the stack's start. */
  time: number;
  /** How the sender stands to loss: `open`, `disorder`, `cwr`, `recovery` or `loss`. */
  state: string;
  /** Congestion window in bytes. */
  cwnd: number;
  /** Slow-start threshold in bytes; −1 before the first congestion. */
  ssthresh: number;
  /** Smoothed round-trip time in milliseconds; 0 before the first sample. */
  srtt: number;
  /** Bytes in flight. */
  inFlight: number;
  /** What happened. */
  why: string;
}

/** Events kept of a connection. */
export const CONGESTION_EVENTS_LIMIT = 256;

/** The newest events of one connection. */
export class CongestionTrace {
  /** Events that were dropped because newer ones came. */
  dropped = 0;
  #events: CongestionEvent[] = [];
  #next = 0;

  /** Notes that something happened. */
  note(t: Tcb, now: Instant, why: string): void {
    const { cwnd, ssthresh } = t.congestion;
    const event: CongestionEvent = {
      time: toMilliseconds(now),
      state: RECOVERY_NAMES[t.recovery]!,
      cwnd: Math.min(cwnd, Number.MAX_SAFE_INTEGER),
      ssthresh: ssthresh === Infinity ? -1 : ssthresh,
      srtt: toMilliseconds(t.rtt.srtt),
      inFlight: t.inFlightBytes,
      why,
    };
    if (this.#events.length < CONGESTION_EVENTS_LIMIT) {
      this.#events.push(event);
      return;
    }
    this.#events[this.#next] = event;
    this.#next = (this.#next + 1) % CONGESTION_EVENTS_LIMIT;
    this.dropped++;
  }

  /** The events, the oldest first. */
  events(): CongestionEvent[] {
    return [...this.#events.slice(this.#next), ...this.#events.slice(0, this.#next)];
  }
}

/** Events as NDJSON: an object a line. */
export function formatCongestionEvents(events: readonly CongestionEvent[]): string {
  return events.map((e) => `${JSON.stringify(e)}\n`).join("");
}
