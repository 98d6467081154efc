/**
 * The sleeper of ports that read their sockets themselves: it waits for a deadline and for datagrams.
 *
 * ```text
 *   traffic ──► spin: look at the sockets, with turns of the event loop in between, for 0.5 ms at most
 *           ──► ppoll on another thread, until a datagram comes or shortly before the deadline
 *           ──► turns of the event loop until the deadline
 * ```
 *
 * A poll costs two changes of threads, a tenth of a millisecond in all, which is long compared with an answer on the
 * same machine and short compared with one from elsewhere. So the spin follows what was seen: while at least half of the
 * waits after traffic ended with a datagram within 0.5 ms, it lasts so long, and a pause now and then does not change
 * that; while only some did, it lasts for 0.05 ms; and while hardly any did, there is none. A host without traffic waits
 * in the kernel only.
 *
 * As the `ppoll` sleeper the kernel keeps the deadline too, and the last moments, for as long as polls were late of late,
 * are turns of the event loop, in place of the 2 ms that `hop` spends on them. With the other kinds, timers keep the
 * deadline and the kernel watches the sockets.
 *
 * A poll that is under way keeps the process alive. Where that is not wanted, or where as many polls of other sleepers are
 * under way as there may be, the sockets are looked at every 2 ms.
 *
 * @module
 */

import { clearImmediate, clearTimeout, setImmediate, setTimeout } from "node:timers";
import { type Duration, type Instant, MICROSECOND, MILLISECOND, NEVER } from "../../base/time.ts";
import type { Clock } from "../clock.ts";
import { type Sleeper, type SleeperKind, TimerSleeper } from "../sleeper.ts";
import type { PolledSource } from "../packet_device.ts";
import type { Libc } from "./libc.ts";
import { Poller } from "./poller.ts";

/**
 * How long before the deadline a poll is to return: at first, at least and at most. Half of them are 150 µs late, 19 of 20
 * less than 300 µs; the rest depends on the machine and its load.
 */
const EARLY: Duration = 300 * MICROSECOND;
const EARLY_MIN: Duration = 200 * MICROSECOND;
const EARLY_MAX: Duration = MILLISECOND;

/**
 * How far it goes up with a poll that was later, and down with each deadline: where one poll in a hundred is later by
 * 0.2 ms, the two are even 0.25 ms above the least.
 */
const EARLY_GAIN = 1 / 2;
const EARLY_DECAY = 1 / 256;

/** How long it spins at most after traffic, and how soon after it a datagram is one for which that was worth it. */
const SPIN_MAX: Duration = 500 * MICROSECOND;

/** How long it spins while datagrams come so soon now and then. */
const SPIN_MIN: Duration = 50 * MICROSECOND;

/** What share of waits has to end so soon for the long spin, and for the short one. */
const OFTEN = 0.5;
const SOMETIMES = 1 / 16;

/** The weight of one wait in the moving average of that share. */
const WEIGHT = 1 / 8;

/** How long the spin looks at the sockets before other work of the event loop has its turn. */
const SLICE: Duration = 20 * MICROSECOND;

/** How often it does in that time, at most. */
const SLICE_LOOKS = 16;

/** How often sockets are looked at while there is no poll, in milliseconds. */
const LOOK_MILLISECONDS = 2;

/** Waits for a deadline and for datagrams. */
export class PollSleeper implements Sleeper {
  readonly kind: SleeperKind;
  readonly #clock: Clock;
  readonly #ports: readonly PolledSource[];
  readonly #poller: Poller;
  readonly #timers: TimerSleeper;
  readonly #onDue: () => void;
  readonly #onTurn: () => void;
  readonly #onLookTimer: () => void;
  #deadline: Instant = NEVER;
  #isSleeping = false;
  /** True if it was cancelled since the present look began. */
  #isCancelled = false;
  #closing: Promise<void> | null = null;
  /** True until whoever was woken by the last traffic had a turn of the event loop: an answer goes before any look. */
  #isFirst = false;
  #keepsAlive = false;
  #turn: ReturnType<typeof setImmediate> | null = null;
  #lookTimer: ReturnType<typeof setTimeout> | null = null;
  /** When the poll under way ends by itself. */
  #pollUntil: Instant = NEVER;
  /** How long before the deadline that is. */
  #early: Duration = EARLY;
  /** The share of waits after traffic that ended with a datagram within the longest spin, as a moving average. */
  #soonShare = OFTEN;
  /** When there was traffic last, if what came after it is not known yet. */
  #trafficAt: Instant = NEVER;
  #spinUntil: Instant = 0;

  /**
   * Makes a sleeper that waits for nothing.
   *
   * @param kind what keeps the deadline
   * @param libc the C library, which is released when the sleeper is closed
   * @param ports whose sockets are watched while it sleeps; when datagrams come, the port says so itself
   * @param onDue called at or after the deadline, which is then forgotten
   */
  constructor(kind: SleeperKind, libc: Libc, ports: readonly PolledSource[], clock: Clock, onDue: () => void) {
    this.kind = kind;
    this.#clock = clock;
    this.#ports = ports;
    this.#onDue = onDue;
    this.#onTurn = () => {
      this.#turn = null;
      this.#wake(this.#clock.now());
    };
    this.#onLookTimer = () => {
      this.#lookTimer = null;
      // A turn that is to come looks, too.
      if (this.#turn === null) this.#wake(this.#clock.now());
    };
    this.#timers = new TimerSleeper(kind === "ppoll" ? "hop" : kind, clock, () => this.#due());
    this.#poller = new Poller(libc, ports, () => this.#polled());
  }

  get deadline(): Instant {
    return this.#deadline;
  }

  sleepUntil(deadline: Instant, now: Instant): void {
    this.#deadline = deadline;
    this.#isSleeping = true;
    this.#isFirst = true;
    if (this.#usesTimers) this.#timers.sleepUntil(deadline, now);
    if (this.#turn === null) this.#arm(now);
  }

  traffic(now: Instant): void {
    this.#trafficAt = now;
    const share = this.#soonShare;
    this.#spinUntil = now + (share >= OFTEN ? SPIN_MAX : share >= SOMETIMES ? SPIN_MIN : 0);
  }

  keepAlive(isWanted: boolean): void {
    this.#keepsAlive = isWanted;
    if (!isWanted) this.#poller.kick();
    else if (this.kind === "ppoll") this.#timers.cancel();
    if (this.#isSleeping) this.sleepUntil(this.#deadline, this.#clock.now());
  }

  cancel(): void {
    this.#deadline = NEVER;
    this.#isSleeping = false;
    this.#isCancelled = true;
    this.#timers.cancel();
    if (this.#turn !== null) clearImmediate(this.#turn);
    if (this.#lookTimer !== null) clearTimeout(this.#lookTimer);
    this.#turn = null;
    this.#lookTimer = null;
  }

  close(): Promise<void> {
    this.cancel();
    return this.#closing ??= this.#poller.close();
  }

  /** True if timers keep the deadline. */
  get #usesTimers(): boolean {
    return this.kind !== "ppoll" || !this.#keepsAlive;
  }

  /** The deadline has come. */
  #due(): void {
    this.#deadline = NEVER;
    this.#isSleeping = false;
    this.#early -= (this.#early - EARLY_MIN) * EARLY_DECAY;
    this.#onDue();
  }

  /** Looks at the sockets; true if a port told of datagrams, or if nobody sleeps any more. */
  #look(now: Instant): boolean {
    // Whoever is told of datagrams may go to sleep again before this returns, and whoever is told that a device is gone
    // may close this.
    this.#isSleeping = false;
    this.#isCancelled = false;
    const trafficAt = this.#trafficAt;
    for (let i = 0; i < this.#ports.length; i++) {
      if (this.#ports[i]!.look()) {
        if (trafficAt < NEVER) this.#learn(now - trafficAt <= SPIN_MAX);
        return true;
      }
      if (this.#isCancelled) return true;
    }
    this.#isSleeping = true;
    if (now - trafficAt > SPIN_MAX) {
      this.#trafficAt = NEVER;
      this.#learn(false);
    }
    return false;
  }

  /** Takes note of a wait after traffic: whether a datagram ended it soon. */
  #learn(isSoon: boolean): void {
    this.#soonShare += ((isSoon ? 1 : 0) - this.#soonShare) * WEIGHT;
  }

  /** Takes note of a poll that returned so late: later ones are to return earlier. */
  #learnLate(late: Duration): void {
    if (late > this.#early) this.#early += (Math.min(late, EARLY_MAX) - this.#early) * EARLY_GAIN;
  }

  /** What is to be done now, if it sleeps. */
  #wake(now: Instant): void {
    if (!this.#isSleeping) return;
    const isFirst = this.#isFirst;
    this.#isFirst = false;
    if (isFirst && now < this.#spinUntil) return this.#arm(now);
    const until = Math.min(now + SLICE, this.#spinUntil);
    let at = now;
    for (let looks = 0; looks === 0 || (looks < SLICE_LOOKS && at < until); looks++) {
      if (at >= this.#deadline) {
        this.#timers.cancel();
        return this.#due();
      }
      if (this.#look(at)) return;
      at = this.#clock.now();
    }
    this.#arm(at);
  }

  #polled(): void {
    if (!this.#isSleeping) return;
    const now = this.#clock.now();
    if (now >= this.#pollUntil) {
      this.#learnLate(now - this.#pollUntil);
      if (this.#turn === null) this.#wake(now);
    } else if (!this.#look(now)) {
      // The poll was ended to begin another one, or somebody else has read the socket.
      if (this.#turn === null) this.#arm(now);
    }
  }

  #arm(now: Instant): void {
    const wakeAt = this.#usesTimers ? NEVER : this.#deadline - this.#early;
    if (now < this.#spinUntil || wakeAt <= now) {
      this.#turn = setImmediate(this.#onTurn);
    } else if (this.#keepsAlive && this.#poller.isPending) {
      if (this.#pollUntil > wakeAt || this.#poller.isStale) this.#poller.kick();
    } else if (this.#keepsAlive && this.#poller.start(wakeAt - now)) {
      this.#pollUntil = wakeAt;
    } else if (wakeAt - now < LOOK_MILLISECONDS * MILLISECOND) {
      // A timer would be late.
      this.#turn = setImmediate(this.#onTurn);
    } else if (this.#ports.length > 0 || wakeAt < NEVER) {
      const milliseconds = Math.min(LOOK_MILLISECONDS, Math.floor((wakeAt - now) / MILLISECOND) - 1);
      this.#lookTimer ??= setTimeout(this.#onLookTimer, milliseconds).unref();
    }
  }
}
