/**
 * Events for whoever iterates over them, each from when they asked for them.
 *
 * What nobody has taken yet is kept, the latest {@linkcode LIMIT} events for each of them.
 *
 * @module
 */

/** The most events that wait for one reader. */
const LIMIT = 1024;

/** One reader. */
class Reader<T> {
  readonly queue: T[] = [];
  wake: (() => void) | null = null;
  isGone = false;

  push(event: T): void {
    if (this.queue.length === LIMIT) this.queue.shift();
    this.queue.push(event);
    this.wake?.();
  }
}

/** A source of events. */
export class EventStream<T> {
  readonly #readers = new Set<Reader<T>>();
  #isOver = false;

  /** Gives an event to all that read. */
  emit(event: T): void {
    for (const reader of this.#readers) reader.push(event);
  }

  /** There will be no more: all who read come to the end when they have taken what waits. */
  end(): void {
    this.#isOver = true;
    for (const reader of this.#readers) reader.wake?.();
  }

  /**
   * The events from now on.
   *
   * @param signal ends the iteration with its reason
   */
  read(signal?: AbortSignal): AsyncGenerator<T, void> {
    const reader = new Reader<T>();
    this.#readers.add(reader);
    const events = this.#iterate(reader, signal);
    // A generator that waits, or has not begun, is not told of its end.
    const end = events.return.bind(events);
    events.return = (value) => {
      this.#readers.delete(reader);
      reader.isGone = true;
      reader.wake?.();
      return end(value);
    };
    return events;
  }

  async *#iterate(reader: Reader<T>, signal: AbortSignal | undefined): AsyncGenerator<T, void> {
    const onAbort = () => reader.wake?.();
    signal?.addEventListener("abort", onAbort);
    try {
      for (;;) {
        signal?.throwIfAborted();
        if (reader.isGone) return;
        if (reader.queue.length > 0) yield reader.queue.shift()!;
        else if (this.#isOver) return;
        else await new Promise<void>((resolve) => reader.wake = resolve);
      }
    } finally {
      signal?.removeEventListener("abort", onAbort);
      this.#readers.delete(reader);
    }
  }
}
