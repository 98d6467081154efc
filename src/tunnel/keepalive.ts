/**
 * Keepalives, and peers that are no longer heard of.
 *
 * A peer to whom nothing was sent for an interval is sent a keepalive; one of whom nothing was heard for `deadAfter`, be it a
 * packet or a keepalive, counts as dead until something is heard again. Both sides have to send keepalives for that, so a
 * peer that is no culvert (a kernel) is dead whenever it is silent: give it none.
 *
 * What counts is what left the impairment of its direction, or was let out by it: a wire that loses everything kills a
 * peer. Nothing is done per packet but to note the time: a deadline that is due looks at it and moves on. Peers are known
 * by their interface. A peer is told of in each list once at most.
 *
 * @module
 */

import { DeadlineHeap } from "../base/deadline_heap.ts";
import { type Duration, type Instant, NEVER } from "../base/time.ts";

/** When keepalives are sent, and peers given up. */
export interface KeepaliveOptions {
  /** How long nothing may be sent to a peer. */
  readonly interval: Duration;
  /** After how long a silence a peer is dead; `NEVER` for never. */
  readonly deadAfter: Duration;
}

/** What is known of a peer: nothing since the start, that it was heard of lately, or that it was not. */
export type PeerState = "unheard" | "alive" | "dead";

/** The peers of a tunnel that get keepalives. */
export class Keepalives {
  /** Keepalives given out to be sent. */
  sent = 0;
  /** How often a peer died. */
  deaths = 0;
  readonly #interval: Duration;
  readonly #deadAfter: Duration;
  readonly #sentAt: Instant[] = [];
  readonly #heardAt: Instant[] = [];
  /** From when silence counts. */
  readonly #silentFrom: Instant[] = [];
  readonly #states: PeerState[] = [];
  readonly #isToSend: boolean[] = [];
  readonly #sendAt = new DeadlineHeap();
  readonly #dieAt = new DeadlineHeap();
  readonly #toSend: number[] = [];
  readonly #changed = new Set<number>();

  /**
   * Makes one without peers.
   *
   * @throws {RangeError} if the interval is not above 0, or a peer would be dead before a keepalive of it can have come
   */
  constructor({ interval, deadAfter }: KeepaliveOptions) {
    if (!(interval > 0)) throw new RangeError(`the interval of keepalives must be above 0, got ${interval}`);
    if (!(deadAfter > interval)) {
      throw new RangeError(`a peer is dead after more than the interval of ${interval} ns, got ${deadAfter}`);
    }
    this.#interval = interval;
    this.#deadAfter = deadAfter;
  }

  /** Begins with the peer of an interface: a keepalive is sent at once, so that it knows of us. */
  add(ifindex: number, now: Instant): void {
    while (this.#sentAt.length <= ifindex) {
      this.#sentAt.push(-this.#interval);
      this.#heardAt.push(-NEVER);
      this.#silentFrom.push(0);
      this.#states.push("unheard");
      this.#isToSend.push(false);
    }
    this.#sentAt[ifindex] = now - this.#interval;
    this.#silentFrom[ifindex] = now;
    this.#sendAt.set(ifindex, now);
    if (this.#deadAfter !== NEVER) this.#dieAt.set(ifindex, now + this.#deadAfter);
  }

  /** True if the peer of an interface gets keepalives. */
  has(ifindex: number): boolean {
    return this.#sendAt.get(ifindex) !== NEVER;
  }

  /** Has the peer of an interface be sent a keepalive at once, if it gets any: it is at a new place. */
  sendNow(ifindex: number, now: Instant): void {
    if (!this.has(ifindex)) return;
    this.#sentAt[ifindex] = now - this.#interval;
    this.#sendAt.set(ifindex, now);
  }

  /** Told that something was sent to the peer of an interface. */
  onSent(ifindex: number, now: Instant): void {
    if (ifindex < this.#sentAt.length) this.#sentAt[ifindex] = now;
  }

  /** Told that something came from the peer of an interface. */
  onHeard(ifindex: number, now: Instant): void {
    if (ifindex >= this.#heardAt.length) return;
    this.#heardAt[ifindex] = now;
    if (this.#states[ifindex] !== "alive" && this.has(ifindex)) this.#revive(ifindex, now);
  }

  /** True if nothing was heard of the peer of an interface for too long. */
  isDead(ifindex: number): boolean {
    return this.#states[ifindex] === "dead";
  }

  /** What is known of the peer of an interface. */
  state(ifindex: number): PeerState {
    return this.#states[ifindex] ?? "unheard";
  }

  /** When something was heard of the peer of an interface last; −`NEVER` if nothing was. */
  heardAt(ifindex: number): Instant {
    return this.#heardAt[ifindex] ?? -NEVER;
  }

  /** Finds out who needs a keepalive, and who is dead. */
  timeout(now: Instant): void {
    for (let i = this.#sendAt.popDue(now); i >= 0; i = this.#sendAt.popDue(now)) {
      const dueAt = this.#sentAt[i]! + this.#interval;
      if (dueAt <= now) {
        if (!this.#isToSend[i]) this.#toSend.push(i);
        this.#isToSend[i] = true;
        this.#sentAt[i] = now;
        this.#sendAt.set(i, now + this.#interval);
      } else this.#sendAt.set(i, dueAt);
    }
    for (let i = this.#dieAt.popDue(now); i >= 0; i = this.#dieAt.popDue(now)) {
      const dueAt = Math.max(this.#heardAt[i]!, this.#silentFrom[i]!) + this.#deadAfter;
      if (dueAt > now) this.#dieAt.set(i, dueAt);
      else {
        this.deaths++;
        this.#states[i] = "dead";
        this.#changed.add(i);
      }
    }
  }

  /** The interface of the next peer that is to be sent a keepalive, or −1. */
  pollSend(): number {
    const ifindex = this.#toSend.pop();
    if (ifindex === undefined) return -1;
    this.#isToSend[ifindex] = false;
    this.sent++;
    return ifindex;
  }

  /** The interface of the next peer whose state has changed, or −1. */
  pollChange(): number {
    for (const ifindex of this.#changed) {
      this.#changed.delete(ifindex);
      return ifindex;
    }
    return -1;
  }

  /** When {@linkcode Keepalives.timeout} has something to do; a time that has passed if something is to be polled. */
  nextAt(): Instant {
    if (this.#toSend.length > 0 || this.#changed.size > 0) return 0;
    return Math.min(this.#sendAt.nextAt(), this.#dieAt.nextAt());
  }

  #revive(ifindex: number, now: Instant): void {
    const wasDead = this.#states[ifindex] === "dead";
    this.#states[ifindex] = "alive";
    this.#changed.add(ifindex);
    if (wasDead) this.#dieAt.set(ifindex, now + this.#deadAfter);
  }
}
