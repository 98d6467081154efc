/**
 * A listening port and its backlog.
 *
 * Connections that are being opened and connections that wait to be accepted count against the backlog together. A SYN
 * beyond it is answered by a cookie (syn_cookies.ts), as long as those that wait leave room; else it is dropped and
 * counted, and the peer will repeat it. A peer whose cookie comes back believes that the connection is open, so a few more
 * of those are kept than the backlog says; there is a bound to them too.
 *
 * @module
 */

import { SocketErrorKind } from "../base/errors.ts";
import { type EventSource, SocketEvent } from "../base/event_queue.ts";
import { type Instant, NEVER } from "../base/time.ts";
import type { IpAddr } from "../wire/ip_addr.ts";
import type { Tcb } from "./tcb.ts";
import type { Tcp } from "./tcp.ts";

/** Connections opened by cookies that may wait to be accepted beyond the backlog. */
const COOKIE_SLACK = 64;

/** A port that accepts connections. */
export class TcpListener implements EventSource {
  events = 0;
  eventQueued = false;
  user: unknown = null;

  /** The address listened on; unspecified for any address of its family. */
  readonly localAddress: IpAddr;
  /** The port. */
  readonly localPort: number;
  /** The most connections being opened or waiting to be accepted. */
  readonly backlog: number;
  /** True once closed. */
  closed = false;
  /** When a SYN was last answered by a cookie. */
  cookieAt: Instant = -NEVER;
  readonly #tcp: Tcp;
  readonly #opening: Set<Tcb> = new Set();
  #accepted: Tcb[] = [];

  /** Made by {@linkcode Tcp.listen} only. */
  constructor(tcp: Tcp, localAddress: IpAddr, localPort: number, backlog: number) {
    this.#tcp = tcp;
    this.localAddress = localAddress;
    this.localPort = localPort;
    this.backlog = backlog;
  }

  /** True if no further SYN is remembered. */
  get isFull(): boolean {
    return this.#opening.size + this.#accepted.length >= this.backlog;
  }

  /** True if so many wait to be accepted that no cookie is sent either. */
  get isQueueFull(): boolean {
    return this.#accepted.length >= this.backlog;
  }

  /** True if not even a connection whose cookie came back may wait to be accepted. */
  get isOverfull(): boolean {
    return this.#accepted.length >= this.backlog + COOKIE_SLACK;
  }

  /** Connections waiting to be accepted. */
  get pending(): number {
    return this.#accepted.length;
  }

  /** The oldest connection that waits, or `null`. */
  accept(): Tcb | null {
    const t = this.#accepted.shift() ?? null;
    if (t !== null) t.listener = null;
    return t;
  }

  /** Stops listening; connections not accepted yet are reset. */
  close(now: Instant): void {
    if (this.closed) return;
    this.closed = true;
    this.#tcp.unlisten(this);
    for (const t of [...this.#opening, ...this.#accepted]) {
      t.listener = null;
      t.abort(now, SocketErrorKind.ConnectionAborted, "the listener was closed");
    }
    this.#opening.clear();
    this.#accepted = [];
    this.#tcp.network.events.raise(this, SocketEvent.Closed);
  }

  /** A SYN was taken. */
  onOpening(t: Tcb): void {
    t.listener = this;
    this.#opening.add(t);
  }

  /** The handshake is complete. */
  onEstablished(t: Tcb): void {
    this.#opening.delete(t);
    this.#accepted.push(t);
    this.#tcp.network.events.raise(this, SocketEvent.Readable);
  }

  /** The connection ended before it was accepted. */
  onGone(t: Tcb): void {
    if (this.#opening.delete(t)) return;
    // An established connection that was reset while it waited is still handed out: it may hold data.
  }
}
