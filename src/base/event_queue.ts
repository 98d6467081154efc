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

/** The sources with events, oldest first. Its memory stays as large as the queue ever was. */
export class EventQueue {
  /** A ring; its length is a power of two. */
  #queue: (EventSource | null)[] = new Array<EventSource | null>(16).fill(null);
  #head = 0;
  #size = 0;

  /** Number of sources waiting to be polled. */
  get size(): number {
    return this.#size;
  }

  /** Raises `bits` on `source`. */
  raise(source: EventSource, bits: number): void {
    source.events |= bits;
    if (source.eventQueued) return;
    source.eventQueued = true;
    if (this.#size === this.#queue.length) this.#grow();
    this.#queue[(this.#head + this.#size++) & (this.#queue.length - 1)] = source;
  }

  /**
   * The next source with events, or `null`. Its bits stay in `events` for the caller to read and are to be cleared by
   * the caller (`source.events = 0`).
   */
  poll(): EventSource | null {
    if (this.#size === 0) return null;
    const source = this.#queue[this.#head]!;
    this.#queue[this.#head] = null;
    this.#head = (this.#head + 1) & (this.#queue.length - 1);
    this.#size--;
    source.eventQueued = false;
    return source;
  }

  #grow(): void {
    const old = this.#queue;
    this.#queue = new Array<EventSource | null>(2 * old.length).fill(null);
    for (let i = 0; i < old.length; i++) this.#queue[i] = old[(this.#head + i) & (old.length - 1)]!;
    this.#head = 0;
  }
}
