/**
 * A listening TCP port in the shape of `Deno.TcpListener`.
 *
 * Without an address it listens on every address of the host, in both families; then two listeners of the core stand
 * behind it, on the same port. Calls of `accept` are served in order, and may wait side by side. What the backlog does
 * not hold, the peer has to ask for again.
 *
 * @module
 */

import { SocketErrorKind } from "../base/errors.ts";
import type { TcpListener as CoreListener } from "../tcp/listener.ts";
import type { NetAddr } from "./address.ts";
import type { Engine, OpenSocket } from "./engine.ts";
import { PendingQueue } from "./pending.ts";
import { TcpConn } from "./tcp_conn.ts";

/** A listening TCP port. */
export class TcpListener implements AsyncIterable<TcpConn>, Disposable, AsyncDisposable {
  /** The address listened on: `0.0.0.0` or `::` for all; `::` also if that is all of both families. */
  readonly addr: NetAddr;
  readonly #engine: Engine;
  readonly #listeners: readonly CoreListener[];
  readonly #accepts: PendingQueue;
  readonly #open: OpenSocket;
  #closedBy: Error | null = null;
  #failed = false;
  #turn = 0;

  /**
   * Made by `Host.listen`.
   *
   * @internal
   */
  constructor(engine: Engine, listeners: readonly CoreListener[]) {
    this.#engine = engine;
    this.#listeners = listeners;
    this.#accepts = new PendingQueue(engine);
    const { localAddress, localPort } = listeners.at(-1)!;
    this.addr = { transport: "tcp", hostname: localAddress.toString(), port: localPort };
    this.#open = {
      finish: () => {
        this.close();
        return Promise.resolve();
      },
      fail: (reason) => {
        this.#failed = true;
        this.#end(reason);
      },
    };
    const user = { onEvents: () => this.#accepts.poll() };
    for (const listener of listeners) listener.user = user;
    engine.add(this.#open);
  }

  /**
   * Waits for the next connection.
   *
   * @param options `signal` gives up waiting, with its reason
   */
  accept(options: { signal?: AbortSignal } = {}): Promise<TcpConn> {
    return this.#accepts.run(() => {
      if (this.#closedBy !== null) throw this.#closedBy;
      for (let i = 0; i < this.#listeners.length; i++) {
        const tcb = this.#listeners[this.#turn++ % this.#listeners.length]!.accept();
        if (tcb !== null) return new TcpConn(this.#engine, tcb);
      }
      return undefined;
    }, options.signal);
  }

  /** Stops listening. Connections that nobody accepted are reset, waiting calls of `accept` rejected. */
  close(): void {
    this.#end(
      this.#engine.error(SocketErrorKind.BadResource, `the listener on port ${this.addr.port} was closed`),
    );
  }

  /** Has waiting calls of `accept` keep the process alive, as they do from the start. */
  ref(): void {
    this.#accepts.setReferenced(true);
  }

  /** Has waiting calls of `accept` not keep the process alive. An open host still does unless it is unref'd itself. */
  unref(): void {
    this.#accepts.setReferenced(false);
  }

  /** The connections as they come; ends when the listener is closed. Leaving the loop closes it, as in Deno. */
  async *[Symbol.asyncIterator](): AsyncGenerator<TcpConn, void, undefined> {
    try {
      for (;;) yield await this.accept();
    } catch (error) {
      if (this.#failed || error !== this.#closedBy) throw error;
    } finally {
      this.close();
    }
  }

  /** Closes the listener. */
  [Symbol.dispose](): void {
    this.close();
  }

  /** Closes the listener. */
  [Symbol.asyncDispose](): Promise<void> {
    this.close();
    return Promise.resolve();
  }

  #end(reason: Error): void {
    if (this.#closedBy !== null) return;
    this.#closedBy = reason;
    const now = this.#engine.now();
    for (const listener of this.#listeners) listener.close(now);
    this.#accepts.fail(reason);
    this.#engine.remove(this.#open);
    this.#engine.wake();
  }
}
