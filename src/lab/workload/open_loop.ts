/**
 * An open loop: operations start at fixed times, whether or not those before them have ended.
 *
 * Operation `k` is to start at `k` intervals after the beginning. Its latency is counted from that time, not from when
 * it really started: while the system under test, or the one that measures, stands still, the operations that should
 * have started meanwhile wait, and that wait is theirs. So a stall is seen by all of them and not by one (the error of
 * leaving them out is known as coordinated omission).
 *
 * The schedule is a function of the index: nothing has to be remembered for operations under way.
 *
 * @module
 */

import { type Duration, type Instant, NEVER, SECOND } from "../../base/time.ts";

/** When operations start. */
export class OpenLoop {
  /** When the first operation starts. */
  readonly start: Instant;
  /** Time between two operations. */
  readonly interval: Duration;
  /** Number of operations of the whole run. */
  readonly count: number;

  /**
   * Makes a schedule.
   *
   * @param start when the first operation starts
   * @param perSecond operations a second, more than 0
   * @param duration how long operations start; at least one does
   */
  constructor(start: Instant, perSecond: number, duration: Duration) {
    if (!(perSecond > 0)) throw new RangeError(`an open loop needs a rate above 0, got ${perSecond}`);
    this.start = start;
    this.interval = SECOND / perSecond;
    this.count = Math.max(1, Math.floor(duration / this.interval + 1e-9));
  }

  /** When operation `index` is to start. */
  startOf(index: number): Instant {
    return this.start + Math.round(index * this.interval);
  }

  /** How many operations are to have started by `now`. */
  dueBy(now: Instant): number {
    if (now < this.start) return 0;
    let due = Math.min(this.count, Math.floor((now - this.start) / this.interval) + 1);
    // Times are rounded to whole nanoseconds.
    while (due < this.count && this.startOf(due) <= now) due++;
    while (due > 0 && this.startOf(due - 1) > now) due--;
    return due;
  }

  /** When the operation behind the first `started` is to start; `NEVER` if there is none. */
  nextAt(started: number): Instant {
    return started >= this.count ? NEVER : this.startOf(started);
  }
}
