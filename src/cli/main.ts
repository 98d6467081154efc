/**
 * The command line of Culvert.
 *
 * ```sh
 * deno run jsr:@culvert/culvert/cli --help
 * ```
 *
 * @module
 */

import { nearest } from "../stack/config_faults.ts";
import { type Command, Failure, inOneLine, UsageError } from "./command.ts";
import { demo } from "./demo.ts";
import { runDemoPeer } from "./demo_peer.ts";
import { refusalOf } from "./failure.ts";
import { lab } from "./lab.ts";
import { runEdtPeer } from "./lab_edt_peer.ts";
import { runSink } from "./lab_sink.ts";
import { netem } from "./netem.ts";
import { writeLinesDirectly } from "./output.ts";
import { perf } from "./perf.ts";
import { ping } from "./ping.ts";
import { rpc } from "./rpc.ts";
import { up } from "./up.ts";

const COMMANDS: readonly Command[] = [up, ping, perf, rpc, demo, lab, netem];

/** The version of the package, as in `deno.json`. */
const VERSION = "0.1.0";

/** Used by `demo` and `lab` for the processes they start; not for people. */
const INTERNAL: ReadonlyMap<string, () => Promise<number>> = new Map([
  ["demo-peer", runDemoPeer],
  ["lab-edt-peer", runEdtPeer],
  ["lab-sink", runSink],
]);

function help(): string {
  const width = Math.max(...COMMANDS.map((c) => c.name.length));
  return `Culvert: a userspace router and TCP/IP host whose link layer is IP in UDP between peers.

Usage: culvert COMMAND [ARGUMENTS]

Commands:
${COMMANDS.map((c) => `  ${c.name.padEnd(width)}  ${c.summary}`).join("\n")}

culvert COMMAND --help tells more, with examples; culvert --version the version.`;
}

/**
 * Runs one command.
 *
 * @param args the words after the program's name
 * @param started when the program was started, on the scale of `performance.now()` (default now)
 * @returns the exit code: 0 success, 1 failure, 2 wrong call
 */
export async function main(args: readonly string[], started: number = performance.now()): Promise<number> {
  const [name, ...rest] = args;
  try {
    if (name === undefined || name === "--help" || name === "-h" || name === "help") {
      console.log(help());
      return name === undefined ? 2 : 0;
    }
    if (name === "--version" || name === "-V") {
      console.log(`culvert ${VERSION}`);
      return 0;
    }
    const internal = INTERNAL.get(name);
    if (internal !== undefined) return await internal();
    const command = COMMANDS.find((c) => c.name === name);
    if (command === undefined) {
      const names = COMMANDS.map((c) => c.name);
      const near = nearest(name, names);
      const hint = near === null ? `expected one of ${names.join(", ")}, or --help` : `did you mean "${near}"?`;
      throw new UsageError(`no command "${name}": ${hint}`);
    }
    if (rest.includes("--help") || rest.includes("-h")) {
      console.log((command.helpFor?.(rest) ?? command.help).trimEnd());
      return 0;
    }
    return await command.run(rest, started);
  } catch (thrown) {
    const error = refusalOf(name ?? "", thrown);
    const code = error instanceof UsageError ? 2 : error instanceof Failure ? 1 : undefined;
    if (code === undefined) throw error;
    const message = inOneLine((error as Error).message);
    console.error(`culvert: ${message}`);
    // A script gets an object also if there is no result.
    if (code === 1 && rest.some((arg) => arg === "--json" || arg === "-J")) {
      try {
        console.log(JSON.stringify({ error: message }));
      } catch {
        // The standard output is what failed.
      }
    }
    return code;
  }
}

if (import.meta.main) {
  writeLinesDirectly();
  // The scale of performance.now() begins with the process.
  Deno.exit(await main(Deno.args, 0));
}
