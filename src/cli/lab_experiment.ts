/**
 * What an experiment of `culvert lab` is.
 *
 * An experiment is one file, `lab_NAME.ts`, that exports one {@linkcode Experiment}; the table in `lab.ts` lists them.
 *
 * @module
 */

import { type Flags, type FlagSpecs, formatFlags } from "./flags.ts";

/** One experiment. */
export interface Experiment {
  /** The word that selects it. */
  readonly name: string;
  /** What it shows, in one line. */
  readonly summary: string;
  /** The text of `--help`, with examples; see {@linkcode experimentHelp}. */
  readonly help: string;
  /** Its flags. */
  readonly flags: FlagSpecs;
  /** Runs it with the flags given, prints the result and returns the exit code. */
  run(flags: Flags): Promise<number>;
}

/** A help text of the usual form: usage, what it does, its flags, examples (one a line, without indentation). */
export function experimentHelp(name: string, text: string, flags: FlagSpecs, examples: readonly string[]): string {
  return `Usage: culvert lab ${name} [OPTIONS]

${text}

Options:
${formatFlags(flags)}

Examples:
${examples.map((line) => `  ${line}`).join("\n")}
`;
}
