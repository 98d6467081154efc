/**
 * A TCP connection as a `node:stream` Duplex that looks enough like a `net.Socket` for ready-made clients and servers:
 * HTTP, databases, whatever takes a stream.
 *
 * ```ts ignore
 * serve(host.listen({ port: 80 }), createServer((request, response) => response.end("hello")));
 * request({ host: "10.7.0.2", path: "/", createConnection: connector(host) });
 * ```
 *
 * Backpressure goes through in both directions: nothing is read from the connection while the stream's own buffer is
 * full, and a write calls back when the connection has taken all of it. Ending the stream closes the write side.
 * Destroying it closes the connection, which still sends what it has taken; what was not read makes that a reset, and
 * `resetAndDestroy` always is one. An error of the connection destroys the stream and has the `code` that Node programs
 * look for.
 *
 * Left out: `connect` on the object itself (it is connected from the start), file descriptors, keep-alive probes.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { Duplex } from "node:stream";
import { clearTimeout, setTimeout } from "node:timers";
import { MILLISECOND } from "../base/time.ts";
import type { Host } from "../runtime/host.ts";
import type { TcpConn } from "../socket/tcp_conn.ts";
import type { TcpListener } from "../socket/tcp_listener.ts";

/** Size of the buffer that is read into. */
const READ_BYTES = 65536;

/** The longest that a timer takes, in milliseconds. */
const LONGEST_TIMEOUT = 2 ** 31 - 1;

/** How a Duplex behaves. */
export interface TcpDuplexOptions {
  /**
   * Keep the write side open when the peer ends its own. Default true, as in any Duplex, and what a server wants; false
   * ends the stream by itself then, as `net.connect` does for clients.
   */
  allowHalfOpen?: boolean;
}

/** A connection as a `node:stream` Duplex. */
export class TcpDuplex extends Duplex {
  /** Always false: the connection is there from the start. */
  readonly connecting: boolean = false;
  /** Always false. */
  readonly pending: boolean = false;
  /** Bytes handed to the program. */
  bytesRead = 0;
  /** Bytes taken from the program. */
  bytesWritten = 0;
  /** The idle time in milliseconds after which `timeout` is emitted, or 0. */
  timeout = 0;
  readonly #conn: TcpConn;
  #scratch: Buffer<ArrayBuffer> | null = null;
  #reading = false;
  #idleTimer: ReturnType<typeof setTimeout> | null = null;
  #activeAt = 0;

  /** Wraps a connection, which then belongs to the stream. */
  constructor(conn: TcpConn, options: TcpDuplexOptions = {}) {
    super({ allowHalfOpen: options.allowHalfOpen ?? true });
    this.#conn = conn;
  }

  /** Our address. */
  get localAddress(): string {
    return this.#conn.localAddr.hostname;
  }

  /** Our port. */
  get localPort(): number {
    return this.#conn.localAddr.port;
  }

  /** `"IPv4"` or `"IPv6"`. */
  get localFamily(): string {
    return familyOf(this.localAddress);
  }

  /** The peer's address. */
  get remoteAddress(): string {
    return this.#conn.remoteAddr.hostname;
  }

  /** The peer's port. */
  get remotePort(): number {
    return this.#conn.remoteAddr.port;
  }

  /** `"IPv4"` or `"IPv6"`. */
  get remoteFamily(): string {
    return familyOf(this.remoteAddress);
  }

  /** What may still be done, in the words of `net.Socket`. */
  get readyState(): string {
    const reads = !this.destroyed && !this.readableEnded;
    const writes = !this.destroyed && !this.writableEnded;
    if (reads) return writes ? "open" : "readOnly";
    return writes ? "writeOnly" : "closed";
  }

  /** Our address, as `net.Socket` tells it. */
  address(): { address: string; family: string; port: number } {
    return { address: this.localAddress, family: this.localFamily, port: this.localPort };
  }

  /**
   * Emits `timeout` whenever nothing was read or written for this many milliseconds; 0 for never.
   *
   * @throws {RangeError} if it is no finite time of at least 0
   */
  setTimeout(milliseconds: number, onTimeout?: () => void): this {
    if (!(Number.isFinite(milliseconds) && milliseconds >= 0)) {
      throw new RangeError(`the timeout must be a finite time in ms of at least 0, got ${milliseconds}`);
    }
    this.timeout = milliseconds;
    this.#clearIdleTimer();
    if (onTimeout !== undefined) {
      if (milliseconds === 0) this.removeListener("timeout", onTimeout);
      else this.once("timeout", onTimeout);
    }
    this.#onActive();
    return this;
  }

  /** Switches Nagle's algorithm off or on. */
  setNoDelay(noDelay = true): this {
    this.#conn.setNoDelay(noDelay);
    return this;
  }

  /** Probes the peer when nothing has come for `initialDelay` milliseconds (0: as it was before), or stops that. */
  setKeepAlive(enable = false, initialDelay = 0): this {
    if (initialDelay > 0) this.#conn.setKeepAlive(enable, initialDelay * MILLISECOND);
    else this.#conn.setKeepAlive(enable);
    return this;
  }

  /** Has pending reads and writes keep the process alive. */
  ref(): this {
    this.#conn.ref();
    return this;
  }

  /** Has pending reads and writes not keep the process alive. */
  unref(): this {
    this.#conn.unref();
    return this;
  }

  /** Ends the stream and destroys it once everything is written. */
  destroySoon(): void {
    if (this.writable) this.end();
    if (this.writableFinished) this.destroy();
    else this.once("finish", () => this.destroy());
  }

  /** Resets the connection and destroys the stream. */
  resetAndDestroy(): this {
    this.#conn.abort();
    return this.destroy();
  }

  /** Part of the stream's inner interface. */
  override _read(_size: number): void {
    if (this.#reading) return;
    this.#reading = true;
    this.#readAll();
  }

  /** Part of the stream's inner interface. */
  override _write(chunk: Uint8Array, _encoding: string, callback: (error?: Error | null) => void): void {
    this.#writeAll(chunk).then(() => callback(), (error) => callback(withCode(error)));
  }

  /** Part of the stream's inner interface. */
  override _final(callback: (error?: Error | null) => void): void {
    this.#conn.closeWrite().then(() => callback(), (error) => callback(withCode(error)));
  }

  /** Part of the stream's inner interface. */
  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#clearIdleTimer();
    // As closing a descriptor does: what was written still goes out; what was not read makes it a reset.
    this.#conn.close();
    callback(error);
  }

  async #readAll(): Promise<void> {
    try {
      for (let more = true; more;) {
        const scratch = this.#scratch ??= Buffer.from(new ArrayBuffer(READ_BYTES));
        const n = await this.#conn.read(scratch);
        this.#onActive();
        if (n === null) {
          this.#scratch = null;
          this.push(null);
          return;
        }
        this.bytesRead += n;
        if (n * 2 > READ_BYTES) {
          this.#scratch = null;
          more = this.push(scratch.subarray(0, n));
        } else {
          more = this.push(Buffer.from(scratch.subarray(0, n)));
        }
      }
      this.#reading = false;
    } catch (error) {
      if (!this.destroyed) this.destroy(withCode(error));
    }
  }

  async #writeAll(bytes: Uint8Array): Promise<void> {
    for (let from = 0; from < bytes.length;) {
      const n = await this.#conn.write(from === 0 ? bytes : bytes.subarray(from));
      this.#onActive();
      this.bytesWritten += n;
      from += n;
    }
  }

  #onActive(): void {
    if (this.timeout === 0 || this.destroyed) return;
    this.#activeAt = performance.now();
    if (this.#idleTimer === null) this.#armIdleTimer(this.timeout);
  }

  #armIdleTimer(milliseconds: number): void {
    this.#idleTimer = setTimeout(() => {
      this.#idleTimer = null;
      const left = this.timeout - (performance.now() - this.#activeAt);
      if (left > 0) this.#armIdleTimer(left);
      else this.emit("timeout");
    }, Math.min(LONGEST_TIMEOUT, Math.ceil(milliseconds)));
    this.#idleTimer.unref();
  }

  #clearIdleTimer(): void {
    if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
    this.#idleTimer = null;
  }
}

/** Wraps a connection as a Duplex, which it then belongs to. */
export function toDuplex(conn: TcpConn, options: TcpDuplexOptions = {}): TcpDuplex {
  return new TcpDuplex(conn, options);
}

/** Whatever takes streams as connections: a server of `node:http`, for one. */
export interface ConnectionServer {
  /** True while it accepts connections. */
  readonly listening?: boolean;
  /** Told of a new connection. */
  emit(event: "connection", stream: Duplex): boolean;
}

/**
 * Hands every connection of a listener to a server, until the listener is closed.
 *
 * Meanwhile the server counts as listening, which it is: one of `node:http` would otherwise end each connection after
 * its first response.
 *
 * @returns resolves when the listener is closed
 */
export async function serve(listener: TcpListener, server: ConnectionServer): Promise<void> {
  Object.defineProperty(server, "listening", { value: true, configurable: true });
  try {
    for await (const conn of listener) server.emit("connection", toDuplex(conn));
  } finally {
    delete (server as { listening?: boolean }).listening;
  }
}

/** Where to connect, in the words of `node:http` and `node:net`. */
export interface ConnectorOptions {
  /** IP address of the peer. */
  host?: string | null | undefined;
  /** The same; `host` comes first. */
  hostname?: string | null | undefined;
  /** Port of the peer. Default 80. */
  port?: number | string | null | undefined;
}

/** A function that fits the option `createConnection` of `node:http`. */
export type Connector = (
  options: ConnectorOptions,
  callback: (error: Error | null, stream: Duplex) => void,
) => undefined;

/**
 * Makes the `createConnection` by which `node:http` fetches through `host`. Give no `agent` beside it, not even `false`:
 * `node:http` then ignores `createConnection` and uses the system's network.
 */
export function connector(host: Host): Connector {
  return (options, callback) => {
    const hostname = options.host ?? options.hostname ?? "";
    host.connect({ hostname, port: Number(options.port ?? 80) }).then(
      (conn) => callback(null, toDuplex(conn, { allowHalfOpen: false })),
      (error) => callback(withCode(error), undefined as unknown as Duplex),
    );
    return undefined;
  };
}

function familyOf(address: string): string {
  return address.includes(":") ? "IPv6" : "IPv4";
}

const CODES: readonly [new (message: string) => Error, string][] = [
  [Deno.errors.ConnectionRefused, "ECONNREFUSED"],
  [Deno.errors.ConnectionReset, "ECONNRESET"],
  [Deno.errors.ConnectionAborted, "ECONNABORTED"],
  [Deno.errors.TimedOut, "ETIMEDOUT"],
  [Deno.errors.BrokenPipe, "EPIPE"],
  [Deno.errors.NetworkUnreachable, "EHOSTUNREACH"],
];

/** The error, with the `code` that Node would give it. */
function withCode(error: unknown): Error {
  if (!(error instanceof Error)) return new Error(String(error));
  if ("code" in error && error.code !== undefined) return error;
  const code = CODES.find(([kind]) => error instanceof kind)?.[1];
  return code === undefined ? error : Object.assign(error, { code });
}
