/**
 * What a sender spends its time on, as `ss -ti` shows it: busy, of that limited by the peer's window, of that limited by the
 * send buffer.
 *
 * @module
 */

import type { Duration, Instant } from "../base/time.ts";

/** What holds a sender that has something to send. */
export enum Limit {
  /** It has nothing to send and nothing unacknowledged. */
  Idle,
  /** The network, or nothing. */
  Busy,
  /** The peer's window. */
  ReceiveWindow,
  /** The send buffer: all of it is in flight, and more would fit into the windows. */
  SendBuffer,
}

/** The clocks of one connection. */
export class BusyTime {
  #limit: Limit = Limit.Idle;
  #since: Instant = 0;
  #busy: Duration = 0;
  #receiveWindow: Duration = 0;
  #sendBuffer: Duration = 0;

  /** From now on `limit` holds the sender. */
  set(limit: Limit, now: Instant): void {
    if (limit === this.#limit) return;
    this.#busy = this.busy(now);
    this.#receiveWindow = this.receiveWindow(now);
    this.#sendBuffer = this.sendBuffer(now);
    this.#limit = limit;
    this.#since = now;
  }

  /** How long something was unacknowledged or waiting. */
  busy(now: Instant): Duration {
    return this.#limit === Limit.Idle ? this.#busy : this.#busy + now - this.#since;
  }

  /** How long the peer's window was what held it back. */
  receiveWindow(now: Instant): Duration {
    return this.#limit === Limit.ReceiveWindow ? this.#receiveWindow + now - this.#since : this.#receiveWindow;
  }

  /** How long the send buffer was. */
  sendBuffer(now: Instant): Duration {
    return this.#limit === Limit.SendBuffer ? this.#sendBuffer + now - this.#since : this.#sendBuffer;
  }
}
