/**
 * What happens to peers: they are heard of, fall silent, and move.
 *
 * The events wait here, in a bounded list whose oldest goes first when it is full, for whoever polls the events of the
 * stack: this is a source like a socket.
 *
 * @module
 */

import { type EventQueue, type EventSource, SocketEvent } from "../base/event_queue.ts";
import { type Instant, toMilliseconds } from "../base/time.ts";
import type { LearnedBy, Peer } from "../tunnel/peer_table.ts";
import { formatEndpoint } from "./options.ts";

/** The most events that wait. */
const LIMIT = 1024;

/** Something that happened to a peer. */
export interface PeerEvent {
  /** When it happened, in milliseconds since the stack's start. */
  time: number;
  /** Name of the peer. */
  peer: string;
  /** `"alive"`: heard of, first or again; `"dead"`: not heard of for too long; `"moved"`: it has another endpoint. */
  kind: "alive" | "dead" | "moved";
  /** Its endpoint now. */
  endpoint: string;
  /** Where that is known from. */
  learnedBy: LearnedBy;
}

/** The events of the peers of one stack. */
export class PeerEvents implements EventSource {
  /** Bits raised and not yet polled. */
  events = 0;
  /** True while it is in the queue. */
  eventQueued = false;
  /** Whoever wants to know. */
  user: unknown = null;
  readonly #queue: EventQueue;
  #list: PeerEvent[] = [];

  /** Makes an empty list that raises its events in `queue`. */
  constructor(queue: EventQueue) {
    this.#queue = queue;
  }

  /** Tells of a peer. */
  add(peer: Peer, kind: PeerEvent["kind"], now: Instant): void {
    const { name, address, port, learnedBy } = peer;
    if (this.#list.length === LIMIT) this.#list.shift();
    const endpoint = formatEndpoint(address, port);
    this.#list.push({ time: toMilliseconds(now), peer: name, kind, endpoint, learnedBy });
    this.#queue.raise(this, SocketEvent.Readable);
  }

  /** The events that wait, the oldest first; they do not any more. */
  take(): PeerEvent[] {
    const list = this.#list;
    this.#list = [];
    return list;
  }
}
