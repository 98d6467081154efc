/**
 * A process with a UDP socket of the loopback that nobody reads: where experiments send what is not to be answered.
 *
 * What comes waits in the socket, as much as the system keeps, and the rest is dropped by the system. The process stands
 * still meanwhile, so it takes no CPU time from what is measured. It ends when it is killed or its parent is gone.
 *
 * @module
 */

import { createSocket } from "node:dgram";
import { Failure } from "./command.ts";
import { readJsonLines } from "./json_lines.ts";

/** How often the process looks whether its parent is there, in milliseconds. */
const LOOK_MILLISECONDS = 500;

/** Runs the process: tells its port as a line, then stands still. */
export async function runSink(): Promise<number> {
  const socket = createSocket("udp4");
  await new Promise<void>((resolve, reject) => {
    socket.once("error", reject);
    socket.bind(0, "127.0.0.1", resolve);
  });
  console.log(JSON.stringify({ port: socket.address().port }));
  const parent = Deno.ppid;
  const never = new Int32Array(new SharedArrayBuffer(4));
  while (Deno.ppid === parent) Atomics.wait(never, 0, 0, LOOK_MILLISECONDS);
  return 0;
}

/** Such a process, from its parent's side. */
export class SinkProcess implements AsyncDisposable {
  /** The port of 127.0.0.1 that it has. */
  readonly port: number;
  readonly #child: Deno.ChildProcess;

  private constructor(child: Deno.ChildProcess, port: number) {
    this.#child = child;
    this.port = port;
  }

  /** Starts it. */
  static async start(): Promise<SinkProcess> {
    const child = new Deno.Command(Deno.execPath(), {
      args: ["run", "--quiet", "--allow-net=127.0.0.1", new URL("./main.ts", import.meta.url).href, "lab-sink"],
      stdin: "null",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    const { value } = await readJsonLines(child.stdout).next();
    const port = (value as { port: number } | undefined)?.port;
    if (port !== undefined) return new SinkProcess(child, port);
    await child.status;
    throw new Failure("the process that takes the packets did not start");
  }

  /** Ends it. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.status;
  }
}
