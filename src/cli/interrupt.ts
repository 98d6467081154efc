/**
 * SIGINT and SIGTERM as a request to come to an end in good order.
 *
 * @module
 */

const SIGNALS: readonly Deno.Signal[] = Deno.build.os === "windows" ? ["SIGINT"] : ["SIGINT", "SIGTERM"];

/** Exit code of a program that a second SIGINT ended. */
const INTERRUPTED = 130;

/** Listens for signals until it is disposed of. The first one asks for an end, a second one ends the process. */
export class Interrupt implements Disposable {
  readonly #controller = new AbortController();
  readonly #other: AbortSignal | undefined;
  readonly #onOther = (): void => this.#raise();
  readonly #onSignal = (): void => {
    if (this.#controller.signal.aborted) Deno.exit(INTERRUPTED);
    this.#raise();
  };

  /** Begins to listen; `other` asks for an end as a signal of the system does. */
  constructor(other?: AbortSignal) {
    this.#other = other;
    other?.addEventListener("abort", this.#onOther);
    for (const signal of SIGNALS) Deno.addSignalListener(signal, this.#onSignal);
  }

  /** Aborted by the first signal. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** True after the first signal. */
  get raised(): boolean {
    return this.#controller.signal.aborted;
  }

  /** Resolves at the first signal. */
  wait(): Promise<void> {
    if (this.raised) return Promise.resolve();
    return new Promise((resolve) => this.signal.addEventListener("abort", () => resolve(), { once: true }));
  }

  /** Listens no longer. */
  [Symbol.dispose](): void {
    this.#other?.removeEventListener("abort", this.#onOther);
    for (const signal of SIGNALS) Deno.removeSignalListener(signal, this.#onSignal);
  }

  #raise(): void {
    this.#controller.abort(new DOMException("interrupted", "AbortError"));
  }
}
