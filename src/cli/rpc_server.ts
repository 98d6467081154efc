/**
 * The serving end of `rpc`.
 *
 * Nothing of a request is kept but its length, and a reply is written when its request is complete; while a client does
 * not read its replies, nothing more is read from it.
 *
 * @module
 */

import type { Host } from "../runtime/host.ts";
import type { TcpConn } from "../socket/tcp_conn.ts";
import type { TcpListener } from "../socket/tcp_listener.ts";
import { messageOf } from "./command.ts";
import { readFull, within, writeAll } from "./conn_io.ts";
import { HEAD_BYTES, parseRpcHead } from "./rpc_protocol.ts";

/** How long a connection may take to say what it is. */
const SETUP_MILLISECONDS = 10_000;

/** Bytes of replies that are written at once. */
const CHUNK_BYTES = 65536;

/** What a server tells of. */
export interface RpcServerEvents {
  /** A connection begins. */
  onClient?(client: string): void;
  /** A connection has ended: how many requests were answered, and why if it failed. */
  onEnd?(client: string, answered: number, failure: string | null): void;
}

/** Answers requests on one port. */
export class RpcServer {
  /** The port. */
  readonly port: number;
  readonly #listener: TcpListener;
  readonly #events: RpcServerEvents;

  /**
   * Begins to serve.
   *
   * @param port 0 for any
   * @throws {Deno.errors.AddrInUse} if the port is taken
   */
  constructor(host: Host, port: number, events: RpcServerEvents = {}) {
    this.#listener = host.listen({ port });
    this.port = this.#listener.addr.port;
    this.#events = events;
    // A fault that ends the host is told by the host.
    this.#accept().catch(() => {});
  }

  /** Takes no more connections. */
  close(): void {
    this.#listener.close();
  }

  async #accept(): Promise<void> {
    for await (const conn of this.#listener) this.#serve(conn);
  }

  async #serve(conn: TcpConn): Promise<void> {
    const client = conn.remoteAddr.hostname;
    let answered = 0;
    try {
      const bytes = new Uint8Array(HEAD_BYTES);
      const isThere = await within(SETUP_MILLISECONDS, "it did not say what it is", readFull(conn, bytes));
      const head = isThere ? parseRpcHead(bytes) : null;
      if (head === null) return conn.close();
      this.#events.onClient?.(client);
      conn.setNoDelay(true);
      const buffer = new Uint8Array(CHUNK_BYTES);
      const reply = new Uint8Array(CHUNK_BYTES);
      let received = 0;
      for (let n = await conn.read(buffer); n !== null; n = await conn.read(buffer)) {
        received += n;
        const complete = Math.floor(received / head.requestBytes);
        for (let rest = (complete - answered) * head.replyBytes; rest > 0;) {
          const size = Math.min(rest, CHUNK_BYTES);
          await writeAll(conn, reply.subarray(0, size));
          rest -= size;
        }
        answered = complete;
      }
      conn.close();
      this.#events.onEnd?.(client, answered, null);
    } catch (error) {
      conn.abort();
      this.#events.onEnd?.(client, answered, messageOf(error));
    }
  }
}
