/**
 * Services that a host offers by itself: the classic echo (RFC 862) and discard (RFC 863), over TCP and UDP, and the
 * serving ends of `perf` and `rpc`.
 *
 * @module
 */

import type { Host } from "../runtime/host.ts";
import type { TcpConn } from "../socket/tcp_conn.ts";
import { readToEnd, writeAll } from "./conn_io.ts";
import { PerfServer } from "./perf_server.ts";
import { RpcServer } from "./rpc_server.ts";

/** The services that there are. */
export const SERVICE_NAMES = ["echo", "discard", "perf", "rpc"] as const;

/** The ports of services. */
export type Services = { readonly [Name in typeof SERVICE_NAMES[number]]?: number };

/** Begins to offer services; they end with the host. */
export function startServices(host: Host, services: Services): void {
  const { echo, discard, perf, rpc } = services;
  if (echo !== undefined) {
    serveTcp(host, echo, async (conn) => {
      conn.setNoDelay(true);
      const buffer = new Uint8Array(65536);
      for (let n = await conn.read(buffer); n !== null; n = await conn.read(buffer)) {
        await writeAll(conn, buffer.subarray(0, n));
      }
    });
    serveUdp(host, echo, true);
  }
  if (discard !== undefined) {
    serveTcp(host, discard, readToEnd);
    serveUdp(host, discard, false);
  }
  if (perf !== undefined) new PerfServer(host, perf);
  if (rpc !== undefined) new RpcServer(host, rpc);
}

function serveTcp(host: Host, port: number, serve: (conn: TcpConn) => Promise<void>): void {
  const listener = host.listen({ port });
  (async () => {
    for await (const conn of listener) serve(conn).then(() => conn.close(), () => conn.abort());
  })();
}

function serveUdp(host: Host, port: number, answers: boolean): void {
  const socket = host.listenDatagram({ port });
  const buffer = new Uint8Array(65536);
  (async () => {
    try {
      for (;;) {
        const [bytes, from] = await socket.receive(buffer);
        // What cannot be sent back is lost, as anything over UDP may be.
        if (answers) await socket.send(bytes, from).catch(() => {});
      }
    } catch {
      // The host was closed.
    }
  })();
}
