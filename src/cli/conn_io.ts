/**
 * Reading and writing whole pieces over a TCP connection.
 *
 * @module
 */

import type { ConnectOptions, Host } from "../runtime/host.ts";
import type { TcpConn } from "../socket/tcp_conn.ts";

/** How long a connection may take to come about, in milliseconds. */
const CONNECT_MILLISECONDS = 15_000;

/**
 * Connects, and gives up sooner than TCP does.
 *
 * @throws {Deno.errors.TimedOut} if nobody has answered after 15 s
 */
export async function connectSoon(host: Host, options: ConnectOptions & { signal: AbortSignal }): Promise<TcpConn> {
  const { hostname, port, signal } = options;
  const late = new AbortController();
  const timer = setTimeout(() => {
    const what = `${hostname} port ${port} does not answer within ${CONNECT_MILLISECONDS / 1000} s`;
    late.abort(new Deno.errors.TimedOut(what));
  }, CONNECT_MILLISECONDS);
  try {
    return await host.connect({ ...options, signal: AbortSignal.any([signal, late.signal]) });
  } finally {
    clearTimeout(timer);
  }
}

/** Writes all of `bytes`. */
export async function writeAll(conn: TcpConn, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await conn.write(at === 0 ? bytes : bytes.subarray(at));
}

/** Fills `target`; false if the stream ends before. */
export async function readFull(conn: TcpConn, target: Uint8Array): Promise<boolean> {
  for (let at = 0; at < target.length;) {
    const n = await conn.read(target.subarray(at));
    if (n === null) return false;
    at += n;
  }
  return true;
}

/** Reads and forgets everything to the end of the stream. */
export async function readToEnd(conn: TcpConn): Promise<void> {
  const buffer = new Uint8Array(65536);
  while (await conn.read(buffer) !== null);
}

/** Resolves after `milliseconds`, or rejects with the signal's reason. */
export function delay(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(signal!.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

/** What `promise` gives; rejects with a `Deno.errors.TimedOut` that says `what` after `milliseconds`. */
export async function within<T>(milliseconds: number, what: string, promise: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Deno.errors.TimedOut(what)), milliseconds);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
