/**
 * Waiting in the kernel, on another thread, until a socket can be used or a time has passed: one `ppoll` at a time.
 *
 * An event descriptor stands first among those that are polled, so that a poll that is under way can be ended. A poll
 * that is under way keeps the process alive, and what it points to must not be touched until it has returned.
 *
 * The runtime has 32 threads for calls that block. A call beyond that waits until one of them is free, be it a poll, which
 * then learns of nothing, or the reading of a file or the look-up of a name. So at most {@linkcode POLLS_AT_ONCE} polls
 * are under way in a process (in a worker, which has threads of its own); more are refused, and their hosts have to look.
 *
 * @module
 */

import { setTimeout } from "node:timers";
import { type Duration, NEVER, SECOND } from "../../base/time.ts";
import type { PolledSource } from "../packet_device.ts";
import { PollEvent, POLLFD_BYTES, setU64 } from "./abi.ts";
import { callError, type Libc, type Memory } from "./libc.ts";

/** How long a poll lasts that failed, so that one that always fails does not take the whole processor. */
const ERROR_MILLISECONDS = 2;

/** Polls under way at a time. */
export const POLLS_AT_ONCE = 16;

let pollsUnderWay = 0;

/** Waits for sockets and for a time. */
export class Poller {
  readonly #libc: Libc;
  readonly #ports: readonly PolledSource[];
  readonly #onReturn: () => void;
  readonly #eventFd: number;
  readonly #fds: Memory;
  readonly #fdsView: DataView;
  readonly #timeout: Memory = new Uint8Array(new ArrayBuffer(256), 0, 16);
  readonly #timeoutView: DataView = new DataView(this.#timeout.buffer);
  readonly #counter: Memory = new Uint8Array(new ArrayBuffer(256), 0, 8);
  readonly #returned: (found: number) => void;
  #isPending = false;
  #isKicked = false;
  #watchesRoom = false;
  #onIdle: (() => void) | null = null;

  /**
   * Makes a poller at rest.
   *
   * @param libc the C library, which the poller releases when it is closed
   * @param ports whose sockets are polled
   * @param onReturn called when a poll has returned, for whatever reason
   * @throws {Error} if the system has no event descriptor to give; then `libc` is released
   */
  constructor(libc: Libc, ports: readonly PolledSource[], onReturn: () => void) {
    this.#libc = libc;
    this.#ports = ports;
    this.#onReturn = onReturn;
    this.#eventFd = libc.eventfd();
    if (this.#eventFd < 0) {
      libc.release();
      throw callError("eventfd", this.#eventFd);
    }
    const bytes = (1 + ports.length) * POLLFD_BYTES;
    this.#fds = new Uint8Array(new ArrayBuffer(Math.max(256, bytes)), 0, bytes);
    this.#fdsView = new DataView(this.#fds.buffer);
    setU64(new DataView(this.#counter.buffer), 0, 1);
    this.#returned = (found) => {
      pollsUnderWay--;
      if (found >= 0) this.#return();
      else setTimeout(() => this.#return(), ERROR_MILLISECONDS);
    };
  }

  /** True while a poll is under way. */
  get isPending(): boolean {
    return this.#isPending;
  }

  /** True if a port waits for room in its socket and the poll that is under way does not watch for that. */
  get isStale(): boolean {
    return !this.#watchesRoom && this.#ports.some((port) => port.isBlocked);
  }

  /**
   * Begins to wait, for `timeout` at most; no poll may be under way.
   *
   * @returns false if it does not, since as many polls of others are under way as there may be
   */
  start(timeout: Duration): boolean {
    if (pollsUnderWay >= POLLS_AT_ONCE) return false;
    this.#watchesRoom = false;
    this.#writeFd(0, this.#eventFd, PollEvent.In);
    for (let i = 0; i < this.#ports.length; i++) {
      const { fd, isBlocked } = this.#ports[i]!;
      this.#writeFd(1 + i, fd, isBlocked ? PollEvent.In | PollEvent.Out : PollEvent.In);
      this.#watchesRoom ||= isBlocked;
    }
    const isTimed = timeout < NEVER;
    if (isTimed) {
      setU64(this.#timeoutView, 0, Math.floor(timeout / SECOND));
      setU64(this.#timeoutView, 8, timeout % SECOND);
    }
    const polling = this.#libc.ppoll(this.#fds, 1 + this.#ports.length, isTimed ? this.#timeout : null);
    this.#isPending = true;
    pollsUnderWay++;
    polling.then(this.#returned);
    return true;
  }

  /** Has the poll that is under way, if there is one, return soon. */
  kick(): void {
    if (!this.#isPending || this.#isKicked) return;
    this.#isKicked = true;
    this.#writeCounter();
  }

  /** Waits for the poll that is under way and gives everything back. */
  async close(): Promise<void> {
    if (this.#isPending) {
      const idle = new Promise<void>((resolve) => this.#onIdle = resolve);
      this.kick();
      await idle;
    }
    this.#libc.close(this.#eventFd);
    this.#libc.release();
  }

  #return(): void {
    this.#isPending = false;
    if (this.#isKicked) {
      this.#isKicked = false;
      this.#libc.read(this.#eventFd, this.#counter);
    }
    if (this.#onIdle === null) this.#onReturn();
    else this.#onIdle();
  }

  #writeFd(i: number, fd: number, events: number): void {
    this.#fdsView.setInt32(i * POLLFD_BYTES, fd, true);
    this.#fdsView.setInt16(i * POLLFD_BYTES + 4, events, true);
  }

  /** Adds 1 to the event descriptor; reading it leaves the number read, which is 1, in the same place. */
  #writeCounter(): void {
    this.#libc.write(this.#eventFd, this.#counter);
  }
}
