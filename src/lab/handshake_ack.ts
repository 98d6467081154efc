/**
 * The experiment `handshake-ack`: how long it takes from the SYN to the first byte of the server, if the SYN-ACK is
 * acknowledged at once and if the acknowledgment waits for data to ride on.
 *
 * A server that speaks first (SSH, SMTP, a database) may not send before the handshake is complete: an acknowledgment
 * that waits costs the whole delay. With a client that speaks first the acknowledgment rides on its request anyhow, and
 * nothing is gained or lost but a packet.
 *
 * @module
 */

import { type EventSource, SocketEvent } from "../base/event_queue.ts";
import { type Duration, type Instant, MILLISECOND, NEVER, SECOND } from "../base/time.ts";
import { Simulator } from "../netsim/simulator.ts";
import { type SimApp, TraceKind } from "../netsim/topology.ts";
import { TcpListener } from "../tcp/listener.ts";
import { Tcb } from "../tcp/tcb.ts";
import { openBulk } from "./bulk.ts";

/** Who sends the first data. */
export type Speaker = "server" | "client";

/** When the client acknowledges the SYN-ACK. */
export type HandshakeAck = "now" | "delayed";

/** One run. */
export interface HandshakeAckCell {
  /** Who sends the first data. */
  speaker: Speaker;
  /** When the client acknowledges the SYN-ACK. */
  ack: HandshakeAck;
  /** Round-trip time of the path. */
  rtt: Duration;
  /** Seed of all randomness. */
  seed: number;
}

/** What a run gave. */
export interface HandshakeAckResult {
  /** From the SYN to the first byte of the server, in milliseconds. */
  firstByte: number;
  /** Packets that the client has sent until then. */
  clientPackets: number;
}

const MESSAGE = new TextEncoder().encode("220 ready\r\n");
const scratch = new Uint8Array(256);

/** A run that takes longer has failed. */
const PATIENCE: Duration = 10 * SECOND;

/** Runs one cell. */
export function runHandshakeAckCell({ speaker, ack, rtt, seed }: HandshakeAckCell): HandshakeAckResult {
  const sim = new Simulator({ seed });
  const client = new Client(speaker === "client");
  const server = new Server(speaker === "server");
  const address = "10.0.0.2";
  const a = sim.addStack("client", {
    address: "10.0.0.1/24",
    peers: [{ name: "server", allowed: address }],
    tcp: { handshakeAck: ack },
  }, client);
  const b = sim.addStack(
    "server",
    { address: `${address}/24`, peers: [{ name: "client", allowed: "10.0.0.1" }] },
    server,
  );
  sim.link(["client", 1], ["server", 1], { delay: Math.round(rtt / 2) });
  let clientPackets = 0;
  sim.tracer = (_time, from, _to, _p, kind) => {
    if (kind === TraceKind.Departure && from === "client" && client.firstByteAt === NEVER) clientPackets++;
  };
  openBulk(a, b, address, sim.now);
  if (!sim.run(4 * rtt + PATIENCE, () => client.firstByteAt !== NEVER)) throw new Error("the server was not heard of");
  return { firstByte: client.firstByteAt / MILLISECOND, clientPackets };
}

class Client implements SimApp {
  firstByteAt: Instant = NEVER;
  readonly #speaksFirst: boolean;

  constructor(speaksFirst: boolean) {
    this.#speaksFirst = speaksFirst;
  }

  onEvent(source: EventSource, events: number, now: Instant): void {
    if (!(source instanceof Tcb)) return;
    if ((events & SocketEvent.Connected) !== 0 && this.#speaksFirst) source.write(MESSAGE, 0, MESSAGE.length);
    if (source.read(scratch) > 0 && this.firstByteAt === NEVER) this.firstByteAt = now;
  }
}

class Server implements SimApp {
  readonly #speaksFirst: boolean;

  constructor(speaksFirst: boolean) {
    this.#speaksFirst = speaksFirst;
  }

  onEvent(source: EventSource): void {
    if (source instanceof TcpListener) {
      const t = source.accept();
      if (t === null) return;
      if (this.#speaksFirst) t.write(MESSAGE, 0, MESSAGE.length);
      else this.#answer(t);
    }
    if (source instanceof Tcb && !this.#speaksFirst) this.#answer(source);
  }

  #answer(t: Tcb): void {
    if (t.read(scratch) > 0) t.write(MESSAGE, 0, MESSAGE.length);
  }
}
