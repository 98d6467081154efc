/**
 * Opening a TCP connection and listening for them, with errors in words.
 *
 * @module
 */

import { SocketErrorKind } from "../base/errors.ts";
import { formatEndpoint } from "../stack/options.ts";
import type { TcpListener as CoreListener } from "../tcp/listener.ts";
import { TcpState } from "../tcp/state.ts";
import type { TcpConnectOptions } from "../tcp/tcp.ts";
import type { IpAddr } from "../wire/ip_addr.ts";
import { bindAll, explainBind } from "./bind.ts";
import type { Engine, OpenSocket } from "./engine.ts";
import { PendingQueue } from "./pending.ts";
import { TcpConn } from "./tcp_conn.ts";
import { TcpListener } from "./tcp_listener.ts";

const CONNECT_REFUSALS: Readonly<Partial<Record<SocketErrorKind, string>>> = {
  [SocketErrorKind.HostUnreachable]: "no route leads there",
  [SocketErrorKind.AddrNotAvailable]: "the local address is not one of this host for that family, or no port is free",
  [SocketErrorKind.AddrInUse]: "there is a connection with these addresses and ports already",
  [SocketErrorKind.NoBufferSpace]: "this host has as many connections as it may have",
};

/**
 * Opens a connection; see `Host.connect`.
 *
 * @param signal gives the attempt up, with its reason; nothing is left behind
 */
export async function connectTcp(
  engine: Engine,
  remote: IpAddr,
  port: number,
  options: TcpConnectOptions,
  signal?: AbortSignal,
): Promise<TcpConn> {
  if (engine.closedBy !== null) throw engine.closedBy;
  signal?.throwIfAborted();
  const name = formatEndpoint(remote, port);
  const tcb = engine.stack.tcp.connect(remote, port, options, engine.now());
  if (typeof tcb === "number") throw engine.error(tcb, `cannot connect to ${name}: ${CONNECT_REFUSALS[tcb]}`);
  const pending = new PendingQueue(engine);
  const abort = (why: string) => {
    tcb.abort(engine.now(), SocketErrorKind.ConnectionAborted, why);
    engine.wake();
  };
  const open: OpenSocket = {
    finish: () => {
      open.fail(engine.error(SocketErrorKind.BadResource, `cannot connect to ${name}: the host was closed`));
      return Promise.resolve();
    },
    fail: (reason) => {
      pending.fail(reason);
      abort(reason.message);
    },
  };
  engine.add(open);
  tcb.user = { onEvents: () => pending.poll() };
  engine.wake();
  try {
    await pending.run(() => {
      switch (tcb.state) {
        case TcpState.SynSent:
        case TcpState.SynReceived:
          return undefined;
        case TcpState.Closed:
          throw engine.error(tcb.error, `cannot connect to ${name}: ${tcb.errorText}`);
        default:
          return true;
      }
    }, signal);
  } catch (error) {
    abort("the attempt was given up");
    throw error;
  } finally {
    tcb.user = null;
    engine.remove(open);
  }
  return new TcpConn(engine, tcb);
}

/**
 * Listens on a port; see `Host.listen`.
 *
 * @param local the addresses to listen on: one, or the unspecified ones of both families
 * @param port 0 for a free one, the same in both families
 */
export function listenTcp(engine: Engine, local: readonly IpAddr[], port: number, backlog: number): TcpListener {
  if (engine.closedBy !== null) throw engine.closedBy;
  const { tcp } = engine.stack;
  const listeners = bindAll(
    local,
    port,
    (address, port) => tcp.listen(address, port, backlog),
    (listener: CoreListener) => listener.close(engine.now()),
  );
  if (typeof listeners !== "number") return new TcpListener(engine, listeners);
  throw engine.error(listeners, `cannot listen on port ${port} of ${local.join(" and ")}: ${explainBind(listeners)}`);
}
