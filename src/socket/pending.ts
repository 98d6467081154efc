/**
 * Calls that wait for something: a read for data, a write for room, an accept for a connection.
 *
 * An operation is a function that is tried again and again until it answers something else than `undefined`. It is
 * tried at once if no earlier one waits, so that operations of one kind finish in the order of their calls; then at
 * each event. A signal takes a waiting operation out of the queue without having been carried out.
 *
 * While operations wait they keep the process alive, unless their socket was unref'd.
 *
 * @module
 */

import type { Engine } from "./engine.ts";

interface Operation {
  /** Tries; true when it is settled. */
  attempt(): boolean;
  reject(reason: unknown): void;
  previous: Operation | null;
  next: Operation | null;
}

/** The waiting operations of one kind on one socket, first come, first served. */
export class PendingQueue {
  readonly #engine: Engine;
  #head: Operation | null = null;
  #tail: Operation | null = null;
  #size = 0;
  #referenced = true;

  /** Makes an empty queue. */
  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** Number of operations waiting. */
  get size(): number {
    return this.#size;
  }

  /**
   * Tries an operation, now or when those before it are done.
   *
   * @param attempt returns the result, or `undefined` to be tried again after the next event; throws to reject
   * @param signal rejects a waiting operation with its reason
   */
  run<T>(attempt: () => T | undefined, signal?: AbortSignal): Promise<T> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (this.#head === null) {
      try {
        const result = attempt();
        if (result !== undefined) return Promise.resolve(result);
      } catch (error) {
        return Promise.reject(error);
      }
    }
    return new Promise<T>((resolve, reject) => {
      const onAbort = () => {
        this.#remove(operation);
        reject(signal?.reason);
      };
      const operation: Operation = {
        attempt: () => {
          try {
            const result = attempt();
            if (result === undefined) return false;
            resolve(result);
          } catch (error) {
            reject(error);
          }
          signal?.removeEventListener("abort", onAbort);
          return true;
        },
        reject: (reason) => {
          signal?.removeEventListener("abort", onAbort);
          reject(reason);
        },
        previous: null,
        next: null,
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#append(operation);
    });
  }

  /** Tries the waiting operations in order, up to the first that has to go on waiting. */
  poll(): void {
    for (let operation = this.#head; operation !== null && operation.attempt(); operation = this.#head) {
      // The attempt may have emptied the queue itself, by `fail`.
      if (operation === this.#head) this.#remove(operation);
    }
  }

  /** Rejects all waiting operations. */
  fail(reason: unknown): void {
    while (this.#head !== null) {
      const operation = this.#head;
      this.#remove(operation);
      operation.reject(reason);
    }
  }

  /** Says whether waiting operations keep the process alive. They do from the start. */
  setReferenced(referenced: boolean): void {
    if (referenced === this.#referenced) return;
    this.#referenced = referenced;
    if (this.#size === 0) return;
    if (referenced) this.#engine.hold();
    else this.#engine.letGo();
  }

  #append(operation: Operation): void {
    operation.previous = this.#tail;
    if (this.#tail === null) this.#head = operation;
    else this.#tail.next = operation;
    this.#tail = operation;
    if (this.#size++ === 0 && this.#referenced) this.#engine.hold();
  }

  #remove(operation: Operation): void {
    const { previous, next } = operation;
    if (previous === null) this.#head = next;
    else previous.next = next;
    if (next === null) this.#tail = previous;
    else next.previous = previous;
    if (--this.#size === 0 && this.#referenced) this.#engine.letGo();
  }
}
