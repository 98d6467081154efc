/**
 * Our stack in a process and a namespace of its own, asked by lines; the other end is `interop_host.ts`.
 *
 * @module
 */

import type { HostAnswer, HostQuestion, HostSettings } from "./interop_host.ts";
import { bracket, linesOf, type Namespace, type Underlay } from "./namespaces.ts";

/** How long a host may take to end, with connections that are still open. */
const CLOSE_SECONDS = 20;

/** What a host is to be, beside where it is. */
export type HostChoice = Pick<HostSettings, "port" | "impairment" | "tcp" | "seed">;

/** A host of ours. */
export class OurHost implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #in: WritableStreamDefaultWriter<Uint8Array<ArrayBuffer>>;
  readonly #lines: AsyncIterator<string>;
  #busy: Promise<unknown> = Promise.resolve();

  /** Starts the process in `ns`; the host is there once it has answered something. */
  constructor(ns: Namespace, u: Underlay, choice: HostChoice) {
    const settings: HostSettings = {
      ...choice,
      listen: `${bracket(u.local)}:4790`,
      endpoint: `${bracket(u.remote)}:4790`,
      vni: u.vni,
      addresses: [`${u.inner4[0]}/24`, `${u.inner6[0]}/64`],
      allowed: [u.inner4[1], u.inner6[1]],
    };
    this.#child = ns.command(
      { stdin: "piped", stdout: "piped", stderr: "inherit" },
      Deno.execPath(),
      "run",
      "--quiet",
      "--allow-all",
      "--unstable-net",
      new URL("./interop_host.ts", import.meta.url).href,
      JSON.stringify(settings),
    ).spawn();
    this.#in = this.#child.stdin.getWriter();
    this.#lines = linesOf(this.#child.stdout);
  }

  /**
   * Sends one question and waits for its answer, for so many seconds at most; answers come in order. Throws what went
   * wrong.
   */
  async ask(question: HostQuestion, patienceSeconds = 600): Promise<HostAnswer> {
    const answer = this.#busy.then(async () => {
      await this.#in.write(new TextEncoder().encode(JSON.stringify(question) + "\n"));
      const { value, done } = await this.#lines.next();
      if (done) throw new Error("our host ended");
      return JSON.parse(value) as HostAnswer;
    });
    this.#busy = answer.catch(() => {});
    const { error, ...facts } = await within(patienceSeconds, answer, `our host did not answer to "${question.ask}"`);
    if (error !== undefined) throw new Error(error);
    return facts;
  }

  /** Ends the process in good order. One that does not end is left to the end of its namespace. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#in.close().catch(() => {});
    await within(CLOSE_SECONDS, this.#child.status, "our host does not end").catch((error) =>
      console.error(error.message)
    );
  }
}

/** What `promise` gives, or an error after so many seconds. */
async function within<T>(seconds: number, promise: Promise<T>, otherwise: string): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`${otherwise} within ${seconds} s`)), 1000 * seconds);
  return await Promise.race([promise, late.promise]).finally(() => clearTimeout(timer));
}
