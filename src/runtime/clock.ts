/**
 * The clock of a running host: integer nanoseconds since it was made, never going back.
 *
 * It stands on `performance.now()`, a monotonic clock. Everything below takes the time as an argument, so one reading
 * serves a whole batch.
 *
 * @module
 */

import { type Instant, MILLISECOND } from "../base/time.ts";

/** Where the runtime reads the time. */
export interface Clock {
  /** The present instant; never less than an earlier answer. */
  now(): Instant;
}

/** The machine's monotonic clock. */
export class MonotonicClock implements Clock {
  readonly #origin: number = performance.now();
  #last: Instant = 0;

  /** Nanoseconds since this clock was made. */
  now(): Instant {
    const now = Math.round((performance.now() - this.#origin) * MILLISECOND);
    if (now > this.#last) this.#last = now;
    return this.#last;
  }
}
