/**
 * The timestamps option (RFC 7323): our clock, what the peer echoes of it, TS.Recent and PAWS.
 *
 * @module
 */

import { type Duration, type Instant, MILLISECOND, SECOND } from "../base/time.ts";
import { seqDiff, seqLe } from "../wire/seq.ts";
import type { Tcb } from "./tcb.ts";

/** After so long without a segment TS.Recent says nothing any more (RFC 7323 section 5.5). */
const TS_RECENT_VALID = 24 * 24 * 3600 * SECOND;

/** TSval for a segment that departs at `departAt`: a clock of 1 ms with an offset of the connection's own. */
export function timestamp(t: Tcb, departAt: Instant): number {
  return (clockTicks(departAt) + t.tsOffset) | 0;
}

/** The clock without an offset, int32. */
export function clockTicks(now: Instant): number {
  return Math.floor(now / MILLISECOND) | 0;
}

/**
 * Round-trip time by TSecr of the segment in `tcp.segment`, which acknowledges something new (RFC 7323 section 4.1);
 * −1 if it does not tell. It tells which copy was acknowledged, so Karn's rule does not apply.
 */
export function echoedRtt(t: Tcb, now: Instant): Duration {
  const s = t.tcp.segment;
  if (!t.timestampsOn || s.tsEcr === 0) return -1;
  const ticks = seqDiff(timestamp(t, now), s.tsEcr);
  return ticks < 0 ? -1 : Math.max(1, ticks) * MILLISECOND;
}

/**
 * PAWS (RFC 7323 section 5.3): the segment in `tcp.segment` is older than one that was taken already. Rule R1 excepts resets
 * only: a bare acknowledgment that was overtaken is dropped too. (Linux takes some; with reordered acknowledgments that made
 * no difference to throughput, by measurement.)
 */
export function isOldTimestamp(t: Tcb, now: Instant): boolean {
  return seqDiff(t.tcp.segment.tsVal, t.tsRecent) < 0 && now - t.tsRecentAt < TS_RECENT_VALID;
}

/** Keeps TS.Recent from the segment that holds the left edge of what is acknowledged (RFC 7323 section 4.3). */
export function updateTsRecent(t: Tcb, now: Instant): void {
  const s = t.tcp.segment;
  if (!t.timestampsOn || !seqLe(s.seq, t.lastAckSent)) return;
  t.tsRecent = s.tsVal;
  t.tsRecentAt = now;
}
