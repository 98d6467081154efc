/**
 * Bulk flows in a simulation: a sender that always has more to send, a receiver that reads at once, and the connection
 * between them.
 *
 * Neither application is ever the limit. What is sent is zeros: the simulator's tests check bytes, experiments count
 * them.
 *
 * @module
 */

import { type EventSource, SocketEvent } from "../base/event_queue.ts";
import { type Instant, NEVER } from "../base/time.ts";
import type { SimApp } from "../netsim/topology.ts";
import type { Stack } from "../stack/stack.ts";
import type { TcpConnectOptions } from "../tcp/tcp.ts";
import { TcpListener } from "../tcp/listener.ts";
import { Tcb } from "../tcp/tcb.ts";
import { IpAddr } from "../wire/ip_addr.ts";

/** The port that {@linkcode openBulk} connects to. */
export const BULK_PORT = 5001;

/** Shared by all: what it holds is never looked at. */
const scratch = new Uint8Array(65536);

/** A connection of an experiment ended, which none may. */
function lost(t: Tcb): never {
  throw new Error(`the connection to ${t.remoteAddress} ended: ${t.errorText || "closed"}`);
}

/**
 * Keeps the send buffers of all connections of its host full: whatever room there is, is written to at once, however
 * small, and not only once TCP thinks that waking a writer is worth it.
 */
export class BulkSource implements SimApp {
  readonly #conns: Tcb[] = [];

  onEvent(source: EventSource, events: number): void {
    if (!(source instanceof Tcb)) return;
    if ((events & SocketEvent.Closed) !== 0) lost(source);
    if ((events & SocketEvent.Connected) !== 0) this.#conns.push(source);
    fill(source);
  }

  timeout(): void {
    for (const t of this.#conns) fill(t);
  }

  nextAt(): Instant {
    for (const t of this.#conns) if (t.writableBytes > 0) return 0;
    return NEVER;
  }
}

function fill(t: Tcb): void {
  while (t.writableBytes > 0 && t.write(scratch, 0, scratch.length) > 0);
}

/** Accepts connections, reads what comes and counts it. */
export class BulkSink implements SimApp {
  /** Bytes read so far. */
  bytes = 0;

  onEvent(source: EventSource, events: number): void {
    if (source instanceof TcpListener) source.accept();
    if (!(source instanceof Tcb)) return;
    if ((events & SocketEvent.Closed) !== 0) lost(source);
    for (let n = source.read(scratch); n > 0; n = source.read(scratch)) this.bytes += n;
  }
}

/** Has `to` listen at `address`, and `from` connect there. */
export function openBulk(from: Stack, to: Stack, address: string, now: Instant, options: TcpConnectOptions = {}): Tcb {
  const remote = IpAddr.parse(address);
  const listener = to.tcp.listen(remote, BULK_PORT);
  if (!(listener instanceof TcpListener)) throw new Error(`no listener at ${address}: error ${listener}`);
  const t = from.tcp.connect(remote, BULK_PORT, options, now);
  if (!(t instanceof Tcb)) throw new Error(`no connection to ${address}: error ${t}`);
  return t;
}
