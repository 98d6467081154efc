/**
 * The command line, called in this process or run as another.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { main } from "../../src/cli/main.ts";
import { freePort } from "./host_pair.ts";

/** What a command printed, and its exit code. */
export interface CliResult {
  /** Exit code. */
  code: number;
  /** Standard output. */
  out: string;
  /** Standard error. */
  err: string;
}

/** Calls a command in this process. */
export async function callCli(...args: string[]): Promise<CliResult> {
  const { log, error } = console;
  let out = "";
  let err = "";
  console.log = (...values: unknown[]) => void (out += `${values.join(" ")}\n`);
  console.error = (...values: unknown[]) => void (err += `${values.join(" ")}\n`);
  try {
    return { code: await main(args), out, err };
  } finally {
    Object.assign(console, { log, error });
  }
}

/** A command that runs as a process of its own. */
export class CliProcess implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #out: Reader;
  readonly #err: Reader;

  /** Starts a command with these permissions and no others. */
  constructor(permissions: readonly string[], args: readonly string[]) {
    const url = new URL("../../src/cli/main.ts", import.meta.url).href;
    this.#child = new Deno.Command(Deno.execPath(), {
      args: ["run", "--quiet", "--no-prompt", ...permissions, url, ...args],
      env: { NO_COLOR: "1" },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    this.#out = new Reader(this.#child.stdout);
    this.#err = new Reader(this.#child.stderr);
  }

  /** Resolves when one of the two outputs has a text; rejects with both if the process ends without it. */
  async waitFor(text: string): Promise<void> {
    const found = Promise.withResolvers<boolean>();
    const searches = [this.#out, this.#err].map((reader) => reader.has(text).then((has) => has && found.resolve(true)));
    Promise.all(searches).then(() => found.resolve(false));
    if (await found.promise) return;
    throw new Error(`"${text}" was never printed:\n${this.#out.text}${this.#err.text}`);
  }

  /** Sends a signal. */
  kill(signal: Deno.Signal): void {
    this.#child.kill(signal);
  }

  /** What it printed, when it has ended. */
  async result(): Promise<CliResult> {
    const [{ code }] = await Promise.all([this.#child.status, this.#out.ended, this.#err.ended]);
    return { code, out: this.#out.text, err: this.#err.text };
  }

  /** Ends it if it still runs. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.#child.kill("SIGKILL");
    } catch { /* it has ended */ }
    await this.result();
  }
}

/** Gathers the text of a stream. */
class Reader {
  text = "";
  readonly ended: Promise<void>;
  #isOver = false;
  readonly #waiting: (() => void)[] = [];

  constructor(stream: ReadableStream<Uint8Array<ArrayBuffer>>) {
    this.ended = this.#read(stream);
  }

  async has(text: string): Promise<boolean> {
    while (!this.text.includes(text)) {
      if (this.#isOver) return false;
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    return true;
  }

  async #read(stream: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<void> {
    for await (const part of stream.pipeThrough(new TextDecoderStream())) {
      this.text += part;
      this.#wake();
    }
    this.#isOver = true;
    this.#wake();
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}

/** The flags of two hosts that are peers over the loopback, with addresses in both families. */
export async function hostFlags(): Promise<{ a: string[]; b: string[] }> {
  const [portA, portB] = [await freePort(), await freePort()];
  const flags = (own: number, ownPort: number, other: number, otherPort: number) => [
    ...["--address", `10.7.0.${own}/24`, "--address", `fd07::${own}/64`],
    ...["--listen", `127.0.0.1:${ownPort}`],
    ...["--peer", `${other === 1 ? "a" : "b"}=127.0.0.1:${otherPort},10.7.0.${other},fd07::${other}`],
  ];
  return { a: flags(1, portA, 2, portB), b: flags(2, portB, 1, portA) };
}

/** The permission that commands on the loopback need. */
export const LOOPBACK: readonly string[] = ["--allow-net=127.0.0.1"];

/** Checks that a call was refused: code 2, one line that has all these texts, and nothing else. */
export function assertRefused({ code, out, err }: CliResult, ...texts: string[]): void {
  assertEquals([code, out], [2, ""], err);
  assert(/^culvert: [^\n]+\n$/.test(err), `not one line:\n${err}`);
  for (const text of texts) assert(err.includes(text), `"${text}" is not in ${err}`);
}

/** A folder that is there while it is used. */
export async function withFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await use(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** A host in a file, with all services, as a process; and the flags of its peer. */
export async function startUp(folder: string, ...more: string[]): Promise<{ up: CliProcess; peer: string[] }> {
  const { a, b } = await hostFlags();
  const flag = (name: string) => b.flatMap((text, i) => b[i - 1] === name ? [text] : []);
  const [, endpoint, ...allowed] = /^a=([^,]*),(.*),(.*)$/.exec(flag("--peer")[0]!)!;
  const path = `${folder}/b.yaml`;
  await Deno.writeTextFile(
    path,
    JSON.stringify({
      address: flag("--address"),
      listen: flag("--listen"),
      peers: [{ name: "a", endpoint, allowed }],
      services: { echo: 7, discard: 9, perf: 5201, rpc: 5202 },
    }),
  );
  const permissions = [
    ...LOOPBACK,
    `--allow-read=${path}`,
    "--allow-env=LOG_TOKENS,LOG_STREAM",
    `--allow-write=${folder}`,
  ];
  const up = new CliProcess(permissions, ["up", path, ...more]);
  await up.waitFor("up");
  return { up, peer: a };
}

/** Runs a client command to its end. */
export async function runCli(args: string[], ...permissions: string[]): Promise<CliResult> {
  await using child = new CliProcess([...LOOPBACK, ...permissions], args);
  return await child.result();
}
