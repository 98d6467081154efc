/**
 * Waiting for an instant more precisely than the runtime's timers do, for programs that send at a rate.
 *
 * @module
 */

import type { Instant } from "../base/time.ts";
import type { Clock } from "../runtime/clock.ts";
import { TimerSleeper } from "../runtime/sleeper.ts";

/** Waits for one instant at a time. */
export class Pacer implements Disposable {
  readonly #clock: Clock;
  readonly #sleeper: TimerSleeper;
  #wake: (() => void) | null = null;

  /** Waits by `clock`. */
  constructor(clock: Clock) {
    this.#clock = clock;
    this.#sleeper = new TimerSleeper("hop", clock, () => this.#ring());
  }

  /** Resolves at or after `at`, and never in this turn of the event loop; earlier if {@linkcode Pacer.wake} is called. */
  waitUntil(at: Instant): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
      this.#sleeper.sleepUntil(at, this.#clock.now());
    });
  }

  /** Ends the present wait. */
  wake(): void {
    this.#sleeper.cancel();
    this.#ring();
  }

  /** Ends the present wait. */
  [Symbol.dispose](): void {
    this.wake();
  }

  #ring(): void {
    const wake = this.#wake;
    this.#wake = null;
    wake?.();
  }
}
