/**
 * What sockets have to tell their users: readable, writable, connected, closed.
 *
 * The core calls nobody back. It raises bits on the socket concerned and puts it into a queue, once, however many
 * bits are raised; the driver polls the queue after each batch. The queue is therefore bounded by the number of
 * sockets, and no event can be lost or delivered twice.
 *
 * @module
 */

/** Bits of {@linkcode EventSource.events}. */
export enum SocketEvent {
  /** Data, an incoming connection, or the end of the stream can be read. */
  Readable = 1,
  /** There is room to write again. */
  Writable = 2,
  /** The connection is established. */
  Connected = 4,
  /** The connection is over; the socket's error says why. */
  Closed = 8,
}

/** Anything that can raise events. */
export interface EventSource {
  /** Bits raised and not yet polled. */
  events: number;
  /** True while the source is in the queue. */
  eventQueued: boolean;
  /** Whoever wants to know: set by the layer above, opaque to the core. */
  user: unknown;
}

/** The sources with events, oldest first. */
export class EventQueue {
  #queue: EventSource[] = [];
  #head = 0;

  /** Number of sources waiting to be polled. */
  get size(): number {
    return this.#queue.length - this.#head;
  }

  /** Raises `bits` on `source`. */
  raise(source: EventSource, bits: number): void {
    source.events |= bits;
    if (source.eventQueued) return;
    source.eventQueued = true;
    this.#queue.push(source);
  }

  /**
   * The next source with events, or `null`. Its bits stay in `events` for the caller to read and are to be cleared by
   * the caller (`source.events = 0`).
   */
  poll(): EventSource | null {
    if (this.#head === this.#queue.length) {
      if (this.#head > 0) {
        this.#queue.length = 0;
        this.#head = 0;
      }
      return null;
    }
    const source = this.#queue[this.#head++]!;
    if (this.#head > 1024 && this.#head * 2 > this.#queue.length) {
      this.#queue.splice(0, this.#head);
      this.#head = 0;
    }
    source.eventQueued = false;
    return source;
  }
}
