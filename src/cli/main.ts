/**
 * The command line of Culvert.
 *
 * ```sh
 * deno run jsr:@culvert/culvert/cli --help
 * ```
 *
 * @module
 */

import { type Command, UsageError } from "./command.ts";
import { demo } from "./demo.ts";
import { runDemoPeer } from "./demo_peer.ts";

const COMMANDS: readonly Command[] = [demo];

/** Used by `demo` for the processes it starts; not for people. */
const INTERNAL: ReadonlyMap<string, () => Promise<number>> = new Map([["demo-peer", runDemoPeer]]);

function help(): string {
  const width = Math.max(...COMMANDS.map((c) => c.name.length));
  return `Culvert: a userspace router and TCP/IP host whose link layer is IP in UDP between peers.

Usage: culvert COMMAND [ARGUMENTS]

Commands:
${COMMANDS.map((c) => `  ${c.name.padEnd(width)}  ${c.summary}`).join("\n")}

culvert COMMAND --help tells more, with examples.
`;
}

/**
 * Runs one command.
 *
 * @param args the words after the program's name
 * @returns the exit code: 0 success, 1 failure, 2 wrong call
 */
export async function main(args: readonly string[]): Promise<number> {
  const [name, ...rest] = args;
  try {
    if (name === undefined || name === "--help" || name === "-h" || name === "help") {
      console.log(help());
      return name === undefined ? 2 : 0;
    }
    const internal = INTERNAL.get(name);
    if (internal !== undefined) return await internal();
    const command = COMMANDS.find((c) => c.name === name);
    if (command === undefined) {
      throw new UsageError(
        `no command "${name}": expected one of ${COMMANDS.map((c) => c.name).join(", ")}, or --help`,
      );
    }
    if (rest.includes("--help") || rest.includes("-h")) {
      console.log(command.help);
      return 0;
    }
    return await command.run(rest);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    console.error(`culvert: ${error.message}`);
    return 2;
  }
}

if (import.meta.main) Deno.exit(await main(Deno.args));
