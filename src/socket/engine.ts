/**
 * What sockets need of the runtime that drives their stack.
 *
 * A socket calls the stack directly, then says {@linkcode Engine.wake} so that what it caused is sent. The stack tells
 * it what happened through the `user` field of the core's object: the engine polls the event queue after each batch
 * and calls {@linkcode SocketUser.onEvents}. Sockets only settle promises there; the program runs afterwards.
 *
 * @module
 */

import type { ErrorFactory } from "../base/errors.ts";
import type { Duration, Instant } from "../base/time.ts";
import type { Stack } from "../stack/stack.ts";

/** Who is told of a socket's events: the `user` of an event source. */
export interface SocketUser {
  /** Something happened; `events` are bits of `SocketEvent`. */
  onEvents(events: number, now: Instant): void;
}

/** A socket that is open, as its host sees it. */
export interface OpenSocket {
  /**
   * Closes it in good order and resolves when it is over, on the peer's side too. Gives up, and leaves the rest to the stack,
   * when nothing has moved for `patience`.
   */
  finish(patience: Duration): Promise<void>;
  /** Ends it at once; every pending and later call is rejected with `reason`. */
  fail(reason: Error): void;
}

/** The runtime under the sockets of one host. */
export interface Engine {
  /** The stack. */
  readonly stack: Stack;
  /** Makes errors of the runtime's classes. */
  readonly error: ErrorFactory;
  /** Why the host takes no more calls, or `null` while it does. */
  readonly closedBy: Error | null;
  /** The present instant. */
  now(): Instant;
  /** Something was done that may have to be sent: have the stack run soon. Many calls make one run. */
  wake(): void;
  /** Resolves at or after `at`; rejects with the signal's reason, or because the host is closed. */
  sleepUntil(at: Instant, signal?: AbortSignal): Promise<void>;
  /** Registers an open socket. */
  add(socket: OpenSocket): void;
  /** Takes a socket off the register. */
  remove(socket: OpenSocket): void;
  /** Keeps the process alive, also if the host does not, until {@linkcode Engine.letGo} was called as often. */
  hold(): void;
  /** Undoes one {@linkcode Engine.hold}. */
  letGo(): void;
}
