/**
 * A TCP connection in the shape of `Deno.TcpConn`.
 *
 * ```text
 *   read(buf)  ◄── receive buffer ◄── network      the window closes when nobody reads
 *   write(buf) ──► send buffer    ──► network      a write waits while the buffer is full
 * ```
 *
 * Calls of one kind are served in order. `readable` and `writable` are made when first asked for and take nothing
 * ahead of their reader: what waits, waits in the connection's own buffers, so backpressure reaches the peer.
 *
 * Where this differs from Deno: `close()` may be called twice; `closed`, `info()`, `abort()` and disposal with
 * `await using` are additions.
 *
 * @module
 */

import { SocketErrorKind } from "../base/errors.ts";
import { SocketEvent } from "../base/event_queue.ts";
import { type Duration, SECOND } from "../base/time.ts";
import { formatEndpoint } from "../stack/options.ts";
import type { CongestionEvent } from "../tcp/congestion_trace.ts";
import type { TcpInfo } from "../tcp/info.ts";
import { TcpState } from "../tcp/state.ts";
import type { Tcb } from "../tcp/tcb.ts";
import type { NetAddr } from "./address.ts";
import { requireBytes } from "./bytes.ts";
import type { Engine, OpenSocket } from "./engine.ts";
import { PendingQueue } from "./pending.ts";

/** The most that one chunk of `readable` holds. */
const CHUNK_BYTES = 65536;

/** How long disposal waits while nothing moves. */
const PATIENCE: Duration = 3 * SECOND;

/**
 * Checks a user timeout, in ns.
 *
 * @throws {RangeError} if it is negative or not a number
 */
export function requireUserTimeout(timeout: Duration): Duration {
  if (timeout >= 0) return timeout;
  throw new RangeError(`the user timeout must be a time in ns of at least 0, got ${timeout}`);
}

/** A TCP connection. */
export class TcpConn implements Disposable, AsyncDisposable {
  /** Our address. */
  readonly localAddr: NetAddr;
  /** The peer's address. */
  readonly remoteAddr: NetAddr;
  readonly #engine: Engine;
  readonly #tcb: Tcb;
  readonly #reads: PendingQueue;
  readonly #writes: PendingQueue;
  readonly #open: OpenSocket;
  #registered = true;
  #closedBy: Error | null = null;
  #failedBy: Error | null = null;
  #writeEnded = false;
  #readCancelled = false;
  #closed: PromiseWithResolvers<Error | null> | null = null;
  #finished: PromiseWithResolvers<void> | null = null;
  #readable: ReadableStream<Uint8Array<ArrayBuffer>> | null = null;
  #writable: WritableStream<Uint8Array<ArrayBufferLike>> | null = null;

  /**
   * Made by `Host.connect` and `TcpListener.accept`.
   *
   * @internal
   */
  constructor(engine: Engine, tcb: Tcb) {
    this.#engine = engine;
    this.#tcb = tcb;
    this.localAddr = { transport: "tcp", hostname: tcb.localAddress.toString(), port: tcb.localPort };
    this.remoteAddr = { transport: "tcp", hostname: tcb.remoteAddress.toString(), port: tcb.remotePort };
    this.#reads = new PendingQueue(engine);
    this.#writes = new PendingQueue(engine);
    this.#open = {
      // Until the peer has ended its side, too: the host will be gone, and could only reset what is still open then.
      finish: (patience) => {
        this.close();
        return this.#waitFor(this.closed, patience);
      },
      fail: (reason) => this.#fail(reason),
    };
    tcb.user = { onEvents: (events: number) => this.#onEvents(events) };
    engine.add(this.#open);
    if (this.#isOver) this.#over();
  }

  /**
   * Reads what has come, waiting until there is something.
   *
   * @param buffer where the bytes go
   * @returns how many bytes were read, or `null` at the end of the stream
   */
  async read(buffer: Uint8Array): Promise<number | null> {
    requireBytes(buffer, "the buffer to read into");
    return await this.#reads.run(() => this.#readNow(buffer));
  }

  /**
   * Writes as much as there is room for in the send buffer, waiting until there is some.
   *
   * @param bytes what to write; may be used again once the promise has resolved
   * @returns how many bytes were taken, as in Deno perhaps fewer than given
   */
  async write(bytes: Uint8Array): Promise<number> {
    requireBytes(bytes, "what is written");
    return await this.#writes.run(() => {
      const n = this.#writeNow(bytes, 0);
      return n === 0 && bytes.length > 0 ? undefined : n;
    });
  }

  /** Says that nothing more will be written; what was written before is still sent. The other direction stays open. */
  async closeWrite(): Promise<void> {
    await this.#writes.run(() => {
      if (this.#closedBy !== null) throw this.#closedBy;
      this.#throwIfFailed();
      this.#endWriting();
      return null;
    });
    if (this.#readCancelled) this.close();
  }

  /**
   * Closes the connection. What was written is still sent in the background; pending calls are rejected. If data has
   * come that was never read, the peer is told by a reset.
   */
  close(): void {
    if (this.#closedBy !== null) return;
    this.#end(this.#engine.error(SocketErrorKind.BadResource, `${this.#name}: the connection was closed`));
    this.#tcb.close(this.#engine.now());
    this.#engine.wake();
    if (this.#isOver) this.#over();
  }

  /**
   * Ends the connection at once by a reset; what was not sent yet is lost.
   *
   * @param reason what pending and later calls are rejected with; by default an error that says so
   */
  abort(reason?: unknown): void {
    if (this.#isOver) return this.close();
    const why = reason instanceof Error
      ? reason
      : this.#engine.error(SocketErrorKind.ConnectionAborted, `${this.#name}: the connection was aborted`);
    this.#fail(why);
  }

  /** The incoming bytes as a stream; also a byte stream for readers that bring their own buffer. */
  get readable(): ReadableStream<Uint8Array<ArrayBuffer>> {
    return this.#readable ??= this.#makeReadable();
  }

  /** Where outgoing bytes go; closing it closes the write side, aborting it resets the connection. */
  get writable(): WritableStream<Uint8Array<ArrayBufferLike>> {
    return this.#writable ??= new WritableStream({
      write: (chunk, controller) => this.#writeAll(chunk, controller.signal),
      close: () => this.closeWrite(),
      abort: (reason) => this.abort(reason),
    });
  }

  /**
   * Resolves, and never rejects, when the connection is over in both directions: with `null` after an orderly end,
   * else with the error that ended it.
   */
  get closed(): Promise<Error | null> {
    this.#closed ??= Promise.withResolvers<Error | null>();
    if (this.#isOver) this.#over();
    return this.#closed.promise;
  }

  /** Switches Nagle's algorithm off (the default of this call) or on. */
  setNoDelay(noDelay = true): void {
    this.#tcb.noDelay = noDelay;
    if (noDelay) this.#engine.wake();
  }

  /**
   * Probes the peer when nothing comes for long, or stops that.
   *
   * @param keepAlive default true
   * @param idle how long nothing has come before the first probe, in ns (default as the host is configured: 2 h)
   * @throws {RangeError} if that is not above 0
   */
  setKeepAlive(keepAlive = true, idle?: Duration): void {
    if (idle !== undefined && !(idle > 0)) {
      throw new RangeError(`the idle time must be a time in ns above 0, got ${idle}`);
    }
    if (idle !== undefined) this.#tcb.keepAliveIdle = idle;
    this.#tcb.setKeepAlive(keepAlive, this.#engine.now());
    this.#engine.wake();
  }

  /**
   * Sets how long data may stay unacknowledged, or wait for the peer's window, before the connection is given up.
   *
   * @param timeout in ns; 0 to count retransmissions instead
   * @throws {RangeError} if it is negative or not a number
   */
  setUserTimeout(timeout: Duration): void {
    this.#tcb.setUserTimeout(requireUserTimeout(timeout));
    this.#engine.wake();
  }

  /** Bytes written and not yet acknowledged by the peer. */
  get unackedBytes(): number {
    return this.#tcb.unackedBytes;
  }

  /** A snapshot of the connection's state, estimates and counters, in the manner of Linux's `tcp_info`. */
  info(): TcpInfo {
    return this.#tcb.info();
  }

  /** What happened to the congestion window and why, the oldest event first; a bounded number is kept. */
  congestionEvents(): CongestionEvent[] {
    return this.#tcb.trace?.events() ?? [];
  }

  /** Has pending calls keep the process alive, as they do from the start. */
  ref(): void {
    this.#reads.setReferenced(true);
    this.#writes.setReferenced(true);
  }

  /** Has pending calls not keep the process alive. An open host still does unless it is unref'd itself. */
  unref(): void {
    this.#reads.setReferenced(false);
    this.#writes.setReferenced(false);
  }

  /** Closes the connection as {@linkcode TcpConn.close} does. */
  [Symbol.dispose](): void {
    this.close();
  }

  /**
   * Closes the connection and waits until the peer has acknowledged everything. Waits no longer when nothing has moved
   * for three seconds; the rest then goes on in the background.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
    if (this.#isFinished) return;
    this.#finished ??= Promise.withResolvers<void>();
    await this.#waitFor(this.#finished.promise, PATIENCE);
  }

  get #name(): string {
    return formatEndpoint(this.#tcb.remoteAddress, this.#tcb.remotePort);
  }

  /** True when no more can be said in either direction. */
  get #isOver(): boolean {
    return this.#tcb.state === TcpState.Closed || this.#tcb.state === TcpState.TimeWait;
  }

  /** True when the peer has acknowledged all that we will ever send. */
  get #isFinished(): boolean {
    return this.#isOver || this.#tcb.state === TcpState.FinWait2;
  }

  #readNow(buffer: Uint8Array): number | null | undefined {
    if (this.#closedBy !== null) throw this.#closedBy;
    if (this.#readCancelled) {
      throw this.#engine.error(SocketErrorKind.BadResource, `${this.#name}: reading was cancelled`);
    }
    if (buffer.length === 0) return 0;
    const n = this.#tcb.read(buffer);
    if (n > 0) {
      this.#engine.wake();
      return n;
    }
    // The stream is whole, also if the peer reset the connection afterwards because it is gone.
    if (this.#tcb.finReached) return null;
    this.#throwIfFailed();
    return this.#tcb.readEnded ? null : undefined;
  }

  #writeNow(bytes: Uint8Array, from: number): number {
    if (this.#closedBy !== null) throw this.#closedBy;
    this.#throwIfFailed();
    const n = this.#writeEnded ? -1 : this.#tcb.write(bytes, from, bytes.length);
    if (n < 0) throw this.#engine.error(SocketErrorKind.BrokenPipe, `${this.#name}: the write side is closed`);
    if (n > 0) this.#engine.wake();
    return n;
  }

  /** @param signal gives up what has not been taken: a stream is aborted only when its present write is over */
  async #writeAll(bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    requireBytes(bytes, "a chunk of the writable stream");
    let from = 0;
    await this.#writes.run(() => {
      from += this.#writeNow(bytes, from);
      return from < bytes.length ? undefined : null;
    }, signal);
  }

  #endWriting(): void {
    if (this.#writeEnded) return;
    this.#writeEnded = true;
    this.#tcb.shutdownWrite(this.#engine.now());
    this.#engine.wake();
  }

  #throwIfFailed(): void {
    const error = this.#failure;
    if (error !== null) throw error;
  }

  get #failure(): Error | null {
    const { error, errorText } = this.#tcb;
    return error === SocketErrorKind.None ? null : this.#engine.error(error, `${this.#name}: ${errorText}`);
  }

  #makeReadable(): ReadableStream<Uint8Array<ArrayBuffer>> {
    return new ReadableStream({
      type: "bytes",
      pull: async (controller: ReadableByteStreamController) => {
        const request = controller.byobRequest;
        const view = request?.view;
        if (request && view) {
          const n = await this.read(new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
          if (n === null) controller.close();
          request.respond(n ?? 0);
          return;
        }
        const chunk = await this.#reads.run(() => this.#readChunk());
        if (chunk === null) controller.close();
        else controller.enqueue(chunk);
      },
      cancel: () => {
        this.#readCancelled = true;
        this.#reads.poll(); // one that waits would hold up those after it, and the process
        if (this.#writeEnded) this.close();
      },
    });
  }

  #readChunk(): Uint8Array<ArrayBuffer> | null | undefined {
    const size = Math.min(CHUNK_BYTES, Math.max(1, this.#tcb.readableBytes));
    const chunk = new Uint8Array(size);
    const n = this.#readNow(chunk);
    return typeof n === "number" ? chunk.subarray(0, n) : n;
  }

  #onEvents(events: number): void {
    const all = (events & SocketEvent.Closed) !== 0;
    if (all || (events & SocketEvent.Readable) !== 0) this.#reads.poll();
    if (all || (events & (SocketEvent.Writable | SocketEvent.Connected)) !== 0) this.#writes.poll();
    if (this.#isFinished) this.#finished?.resolve();
    if (this.#isOver) this.#over();
  }

  /** Rejects every pending and later call with `reason`. */
  #end(reason: Error): void {
    this.#closedBy = reason;
    this.#reads.fail(reason);
    this.#writes.fail(reason);
  }

  #over(): void {
    if (this.#registered) {
      this.#registered = false;
      this.#engine.remove(this.#open);
    }
    this.#finished?.resolve();
    this.#closed?.resolve(this.#failedBy ?? this.#failure);
  }

  /** Waits for `event`, but no longer than `patience` while the peer acknowledges nothing. */
  async #waitFor(event: Promise<unknown>, patience: Duration): Promise<void> {
    const done = new AbortController();
    const finished = event.then(() => true);
    try {
      for (let before = Infinity; this.#tcb.unackedBytes < before;) {
        before = this.#tcb.unackedBytes;
        const waited = this.#engine.sleepUntil(this.#engine.now() + patience, done.signal).then(
          () => false,
          () => true,
        );
        if (await Promise.race([finished, waited])) return;
      }
    } finally {
      done.abort();
    }
  }

  #fail(reason: Error): void {
    this.#end(reason);
    if (!this.#isOver) {
      this.#failedBy = reason;
      this.#tcb.abort(this.#engine.now(), SocketErrorKind.ConnectionAborted, reason.message);
      this.#engine.wake();
    }
    this.#over();
  }
}
