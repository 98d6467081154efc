/**
 * Waiting for the next deadline, never waking before it.
 *
 * The runtime's timer is about 1 ms late in the median, which is far more than the gap between two paced packets. The
 * `hop` sleeper therefore arms it 2 ms early and bridges the rest with turns of the event loop, each of some
 * microseconds, in which input still comes in. The `spin` sleeper does that too, and watches the clock without a pause
 * for the last tenth of a millisecond, in which nothing else runs. The `timeout` sleeper only uses the timer: it costs
 * no CPU while it waits and is a millisecond or two late. A fourth kind, `ppoll`, has the kernel wait; it is in
 * `linux/poll_sleeper.ts`.
 *
 * A sleeper holds at most one timer. A deadline that moves away leaves the timer armed, since moving it at every
 * acknowledgment would cost more than one wake-up too many; that wake-up only arms it again. Without a deadline nothing
 * is armed and nothing runs. Timers do not keep the process alive; turns do, for as long as they last.
 *
 * @module
 */

import { clearImmediate, clearTimeout, setImmediate, setTimeout } from "node:timers";
import { type Duration, type Instant, MICROSECOND, MILLISECOND, NEVER } from "../base/time.ts";
import type { Clock } from "./clock.ts";

/** The longest timeout that the runtime's timers take, in milliseconds. */
const LONGEST_TIMEOUT = 2 ** 31 - 1;

/** How early the `hop` and `spin` sleepers arm their timer. */
const EARLY: Duration = 2 * MILLISECOND;

/** How long before the deadline the `spin` sleeper begins to do nothing but look at the clock. */
const SPIN: Duration = 100 * MICROSECOND;

/** Ways to wait with nothing but timers and turns of the event loop. */
export type TimerSleeperKind = "timeout" | "hop" | "spin";

/** Ways to wait. */
export type SleeperKind = TimerSleeperKind | "ppoll";

/** Calls once a deadline is reached. */
export interface Sleeper {
  /** How it waits. */
  readonly kind: SleeperKind;
  /** The deadline being waited for, or `NEVER`. */
  readonly deadline: Instant;
  /** Waits for `deadline` instead of any earlier one; `NEVER` for none. */
  sleepUntil(deadline: Instant, now: Instant): void;
  /** Told that packets came or went at `now`: an answer may be near. */
  traffic(now: Instant): void;
  /** Whether what it waits by may keep the process alive; it may not, until this is called. */
  keepAlive(isWanted: boolean): void;
  /** Forgets the deadline; nothing is called afterwards. */
  cancel(): void;
  /** Cancels, and gives back what it holds. */
  close(): Promise<void>;
}

/** Makes the sleeper of a driver; `onDue` is called at or after the deadline, which is then forgotten. */
export type MakeSleeper = (clock: Clock, onDue: () => void) => Sleeper;

/** A sleeper of timers and turns of the event loop. */
export class TimerSleeper implements Sleeper {
  readonly kind: TimerSleeperKind;
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
  constructor(kind: TimerSleeperKind, clock: Clock, onDue: () => void) {
    this.kind = kind;
    this.#clock = clock;
    this.#onDue = onDue;
    this.#check = () => this.#wait();
  }

  get deadline(): Instant {
    return this.#deadline;
  }

  /** True while a timer or a turn of the event loop is pending. */
  get armed(): boolean {
    return this.#timer !== null || this.#turn !== null;
  }

  sleepUntil(deadline: Instant, now: Instant): void {
    this.#deadline = deadline;
    if (deadline === NEVER) {
      this.cancel();
    } else if (this.#turn === null) {
      this.#arm(now);
    }
  }

  /** Does nothing: the event loop tells of datagrams. */
  traffic(_now: Instant): void {}

  /** Does nothing: neither timers nor the short time of turns are to keep the process alive. */
  keepAlive(_isWanted: boolean): void {}

  cancel(): void {
    this.#deadline = NEVER;
    this.#clearTimer();
    if (this.#turn !== null) {
      clearImmediate(this.#turn);
      this.#turn = null;
    }
  }

  close(): Promise<void> {
    this.cancel();
    return Promise.resolve();
  }

  #wait(): void {
    this.#timer = null;
    this.#timerAt = NEVER;
    this.#turn = null;
    const deadline = this.#deadline;
    let now = this.#clock.now();
    if (now < deadline) {
      if (this.kind !== "spin" || deadline - now > SPIN) return this.#arm(now);
      do now = this.#clock.now(); while (now < deadline);
    }
    this.#deadline = NEVER;
    this.#onDue();
  }

  #arm(now: Instant): void {
    if (this.#deadline === NEVER) return;
    const wait = (this.#deadline - now) / MILLISECOND;
    const milliseconds = this.kind === "timeout" ? Math.ceil(wait) : Math.floor(wait - EARLY / MILLISECOND);
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
