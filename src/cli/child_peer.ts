/**
 * A process that a command starts and talks to: settings and words go to its standard input, events come from its
 * standard output, one JSON value a line. One that ends before its time makes every wait for it fail.
 *
 * @module
 */

import { createSocket } from "node:dgram";
import { DenoPort } from "../runtime/deno_port.ts";
import { acquireLibc } from "../runtime/linux/libc.ts";
import { JsonLineWriter, readJsonLines } from "./json_lines.ts";

/** What such a process tells; `failed` ends the wait for anything else. */
export type ChildEvent = { event: string } | { event: "failed"; text: string };

/** How to start one. */
export interface ChildPeerOptions {
  /** The internal command that it runs. */
  command: string;
  /** Flags of the runtime, permissions above all. */
  flags: readonly string[];
  /** What it is called in messages. */
  name: string;
  /** The first line that it is told. */
  settings: unknown;
}

/** A child process and what it says. */
export class ChildPeer<E extends ChildEvent> {
  readonly name: string;
  /** Resolves when the process has ended. */
  readonly ended: Promise<void>;
  readonly #child: Deno.ChildProcess;
  readonly #in: JsonLineWriter;
  readonly #events: AsyncGenerator<unknown>;
  readonly #failure = Promise.withResolvers<never>();
  #phase = "starting";
  #finished = false;

  /** Starts it. */
  constructor({ command, flags, name, settings }: ChildPeerOptions) {
    this.name = name;
    this.#child = new Deno.Command(Deno.execPath(), {
      args: ["run", "--quiet", ...flags, new URL("./main.ts", import.meta.url).href, command],
      stdin: "piped",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    this.#in = new JsonLineWriter(this.#child.stdin);
    this.#events = readJsonLines(this.#child.stdout);
    this.#failure.promise.catch(() => {});
    this.ended = this.#child.status.then((status) => {
      if (this.#finished) return;
      const how = status.signal !== null ? `was ended by ${status.signal}` : `ended with code ${status.code}`;
      this.fail(new Error(`peer ${name} (pid ${this.#child.pid}) ${how} while ${this.#phase}`));
    });
    this.say(settings);
  }

  /** Makes every present and later wait for this peer fail. */
  fail(error: Error): void {
    this.#failure.reject(error);
  }

  /** Tells it something; `phase` is what it does from now on, for messages. */
  say(line: unknown, phase: string = this.#phase): void {
    this.#phase = phase;
    // A peer that is gone is reported by its status.
    this.#in.write(line).catch(() => {});
  }

  /** The next event of the kind wanted; others go to `onOther`. Rejects as soon as the peer has ended. */
  async wait<K extends E["event"]>(
    kind: K,
    onOther: (event: E) => void = () => {},
  ): Promise<Extract<E, { event: K }>> {
    const next = async (): Promise<Extract<E, { event: K }>> => {
      for (;;) {
        const { value, done } = await this.#events.next();
        if (done) return await this.#failure.promise;
        const event = value as E;
        if (event.event === kind) return event as Extract<E, { event: K }>;
        if (event.event === "failed" && "text" in event) throw new Error(`peer ${this.name}: ${event.text}`);
        onOther(event);
      }
    };
    return await Promise.race([next(), this.#failure.promise]);
  }

  /** Resolves never; rejects when the peer ends before its time. */
  get lost(): Promise<never> {
    return this.#failure.promise;
  }

  /** It may end from now on. */
  release(): void {
    this.#finished = true;
  }

  /** Ends it, if it has not ended. */
  kill(): void {
    this.#finished = true;
    // It may be gone, or have stopped reading.
    this.#in.abort().catch(() => {});
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // It has ended already.
    }
  }
}

/** The flags with which a child can use the same UDP ports of the system as this process. */
export function portFlags(): string[] {
  const flags = DenoPort.exists() ? ["--unstable-net"] : [];
  const libc = acquireLibc();
  if (typeof libc !== "string") {
    flags.push(libc.path.startsWith("/") ? `--allow-ffi=${libc.path}` : "--allow-ffi");
    libc.release();
  }
  return flags;
}

/** Two UDP ports of loopback that are free now. */
export async function freeUdpPorts(): Promise<[number, number]> {
  const sockets = [createSocket("udp4"), createSocket("udp4")];
  const ports = await Promise.all(sockets.map((socket) =>
    new Promise<number>((resolve, reject) => {
      socket.once("error", reject);
      socket.bind(0, "127.0.0.1", () => resolve(socket.address().port));
    })
  ));
  await Promise.all(sockets.map((socket) => new Promise<void>((resolve) => socket.close(() => resolve()))));
  return [ports[0]!, ports[1]!];
}
