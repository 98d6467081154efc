/**
 * What a command of the command line is, and how it refuses bad input.
 *
 * A command is given its arguments and returns the exit code: 0 for success, 1 if what it tried failed, 2 if it was
 * called wrongly. Wrong calls are reported in one line that says what was found and what was expected, before anything
 * was done.
 *
 * @module
 */

/** The command was called wrongly; the message is the one line that the user sees. */
export class UsageError extends Error {
  override readonly name: string = "UsageError";
}

/** The command was called rightly and could not do what it was to do; the message is the one line that the user sees. */
export class Failure extends Error {
  override readonly name: string = "Failure";
}

/** One command of the command line. */
export interface Command {
  /** The word that selects it. */
  readonly name: string;
  /** What it does, in one line. */
  readonly summary: string;
  /** The text of `--help`, with examples. */
  readonly help: string;
  /** The text of `--help` behind `args`, where it depends on them. */
  helpFor?(args: readonly string[]): string;
  /**
   * Runs it and returns the exit code.
   *
   * @param args the words after the command's name
   * @param started when the program was started, on the scale of `performance.now()`
   */
  run(args: string[], started: number): Promise<number>;
}

/** Text on one line. */
export function inOneLine(text: string): string {
  return text.replaceAll(/\s+/g, " ").trim();
}

/** What an error says, on one line. */
export function messageOf(error: unknown): string {
  return inOneLine(error instanceof Error ? error.message : String(error));
}
