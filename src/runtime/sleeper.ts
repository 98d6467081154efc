/**
 * Waiting for the next deadline, never waking before it.
 *
 * The runtime's timer is about 1 ms late in the median, which is far more than the gap between two paced packets. The
 * `hop` sleeper therefore arms it 2 ms early and bridges the rest with turns of the event loop, each of some
 * microseconds, in which input still comes in. The `timeout` sleeper only uses the timer: it costs no CPU while it
 * waits and is a millisecond or two late.
 *
 * A sleeper holds at most one timer. A deadline that moves away leaves the timer armed, since moving it at every
 * acknowledgment would cost more than one wake-up too many; that wake-up only arms it again. Without a deadline nothing
 * is armed and nothing runs. Timers do not keep the process alive; turns do, for as long as they last.
 *
 * @module
 */

import { clearImmediate, clearTimeout, setImmediate, setTimeout } from "node:timers";
import { type Duration, type Instant, MILLISECOND, NEVER } from "../base/time.ts";
import type { Clock } from "./clock.ts";

/** The longest timeout that the runtime's timers take, in milliseconds. */
const LONGEST_TIMEOUT = 2 ** 31 - 1;

/** How early the `hop` sleeper arms its timer. */
const EARLY: Duration = 2 * MILLISECOND;

/** Ways to wait: see {@linkcode Sleeper}. */
export type SleeperKind = "hop" | "timeout";

/** Calls once a deadline is reached. */
export class Sleeper {
  /** How it waits. */
  readonly kind: SleeperKind;
  readonly #clock: Clock;
  readonly #onDue: () => void;
  readonly #check: () => void;
  #deadline: Instant = NEVER;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #timerAt: Instant = NEVER;
  #turn: ReturnType<typeof setImmediate> | null = null;

  /**
   * Makes a sleeper that waits for nothing.
   *
   * @param onDue called at or after the deadline, which is then forgotten
   */
  constructor(kind: SleeperKind, clock: Clock, onDue: () => void) {
    this.kind = kind;
    this.#clock = clock;
    this.#onDue = onDue;
    this.#check = () => this.#wait();
  }

  /** The deadline being waited for, or `NEVER`. */
  get deadline(): Instant {
    return this.#deadline;
  }

  /** True while a timer or a turn of the event loop is pending. */
  get armed(): boolean {
    return this.#timer !== null || this.#turn !== null;
  }

  /** Waits for `deadline` instead of any earlier one; `NEVER` for none. */
  sleepUntil(deadline: Instant, now: Instant): void {
    this.#deadline = deadline;
    if (deadline === NEVER) {
      this.cancel();
    } else if (this.#turn === null) {
      this.#arm(now);
    }
  }

  /** Forgets the deadline; nothing is pending afterwards. */
  cancel(): void {
    this.#deadline = NEVER;
    this.#clearTimer();
    if (this.#turn !== null) {
      clearImmediate(this.#turn);
      this.#turn = null;
    }
  }

  #wait(): void {
    this.#timer = null;
    this.#timerAt = NEVER;
    this.#turn = null;
    const now = this.#clock.now();
    if (now < this.#deadline) return this.#arm(now);
    this.#deadline = NEVER;
    this.#onDue();
  }

  #arm(now: Instant): void {
    if (this.#deadline === NEVER) return;
    const wait = (this.#deadline - now) / MILLISECOND;
    const milliseconds = this.kind === "hop" ? Math.floor(wait - EARLY / MILLISECOND) : Math.ceil(wait);
    if (milliseconds <= 0) {
      this.#clearTimer();
      this.#turn = setImmediate(this.#check);
      return;
    }
    const timerAt = now + milliseconds * MILLISECOND;
    if (this.#timer !== null && this.#timerAt < timerAt + MILLISECOND) return;
    this.#clearTimer();
    this.#timerAt = timerAt;
    this.#timer = setTimeout(this.#check, Math.min(LONGEST_TIMEOUT, milliseconds));
    this.#timer.unref();
  }

  #clearTimer(): void {
    if (this.#timer !== null) {
      clearTimeout(this.#timer);
      this.#timer = null;
      this.#timerAt = NEVER;
    }
  }
}
