/**
 * The conformance runner: plays every script of a directory on the real stack in virtual time and reports.
 *
 * ```text
 * deno task conformance --dir DIR [--json] [--only TEXT] [--require SELECTION] [--trace]
 * ```
 *
 * Exit code 0 when it ran, whatever it found; with `--require`, 1 if a script of the selection fails; 2 for a bad
 * argument or directory, with one line that says what was expected.
 *
 * @module
 */

import { parseArgs } from "@std/cli/parse-args";
import { type Entry, loadDirectory, LoadError } from "./load.ts";
import { play } from "./player.ts";
import { reportText, type Result, summarize } from "./report.ts";
import { SELECTIONS } from "./select.ts";

const HELP = `Plays conformance scripts on the stack in virtual time.

  --dir DIR            the directory with index.json; by default that of CONFORMANCE_DIR, or ../shared/conformance
  --json               print one object: scripts, passed, failed, leftovers
  --only TEXT          play only the scripts whose file has TEXT in its name
  --require SELECTION  exit with 1 if one of these scripts fails: ${[...SELECTIONS.keys()].join(", ")}, noted (scored
                       and all without a line in NOTES.md), or a file with a script's name on each line
  --trace              print every event and packet of the scripts that fail

  deno task conformance --dir ../shared/conformance --require noted
  deno task conformance --only rst-syn-recv --trace`;

/** The scripts that must pass, and those that are said to fail. */
interface Selection {
  title: string;
  entries: Set<Entry>;
  failing?: Set<Entry>;
}

/** A bad argument. */
class UsageError extends Error {}

/** Runs the program; returns its exit code. */
export function main(args: string[]): number {
  try {
    return run(args);
  } catch (error) {
    if (!(error instanceof UsageError || error instanceof LoadError)) throw error;
    console.error(`conformance: ${error.message}`);
    return 2;
  }
}

function run(args: string[]): number {
  const flags = parseArgs(args, {
    boolean: ["json", "help", "trace"],
    string: ["dir", "only", "require"],
    unknown: (arg: string) => {
      throw new UsageError(`${arg} is not known: expected --dir, --json, --only, --require, --trace or --help`);
    },
  });
  if (flags.help) {
    console.log(HELP);
    return 0;
  }
  for (const name of ["dir", "only", "require"] as const) {
    if (flags[name] === "") throw new UsageError(`--${name} needs a value`);
  }
  const directory = flags.dir ?? defaultDirectory();
  const all = loadDirectory(directory);
  const { only } = flags;
  const entries = only === undefined ? all : all.filter(({ file }) => file.includes(only));
  if (entries.length === 0) throw new UsageError(`--only ${only}: no script of ${directory} has that in its name`);
  const required = flags.require === undefined ? null : selection(flags.require, entries);
  const results = entries.map((entry) => ({ entry, outcome: play(entry.script) }));
  if (flags.json) console.log(JSON.stringify(summarize(results), null, 2));
  else console.log(reportText(results));
  if (flags.trace) { for (const result of results) printTrace(result); }
  return required === null ? 0 : gate(required, results, flags.json);
}

/** Where the scripts are if nobody says: CONFORMANCE_DIR, or next to the project. */
export function defaultDirectory(): string {
  return Deno.env.get("CONFORMANCE_DIR") ??
    decodeURIComponent(new URL("../../../shared/conformance", import.meta.url).pathname);
}

/** A selection by name, or by a file of script names. */
function selection(name: string, entries: readonly Entry[]): Selection {
  if (name === "noted") return noted(entries);
  const known = SELECTIONS.get(name);
  if (known !== undefined) return { title: known.title, entries: new Set(entries.filter(known.includes)) };
  let names: string[];
  try {
    names = Deno.readTextFileSync(name).split("\n").map((line) => line.trim()).filter((line) => line !== "");
  } catch {
    throw new UsageError(
      `--require ${name}: expected ${[...SELECTIONS.keys()].join(", ")}, noted or a file of script names`,
    );
  }
  const byFile = new Map(entries.map((entry) => [entry.file, entry]));
  const selected = names.map((file) => {
    const entry = byFile.get(file);
    if (entry === undefined) throw new UsageError(`--require ${name}: there is no script ${file}`);
    return entry;
  });
  return { title: `in ${name}`, entries: new Set(selected) };
}

/** All but those of which NOTES.md says why they do not pass; scored ones always. */
function noted(entries: readonly Entry[]): Selection {
  const notes = Deno.readTextFileSync(new URL("./NOTES.md", import.meta.url));
  const excused = new Set(Array.from(notes.matchAll(/^\| `([^`]+)`/gm), ([, file]) => file!));
  const required = entries.filter(({ scored, file }) => scored || !excused.has(file));
  const failing = entries.filter((entry) => !required.includes(entry));
  return { title: "scored, and all without a line in NOTES.md", entries: new Set(required), failing: new Set(failing) };
}

function gate(
  required: Selection,
  results: readonly Result[],
  json: boolean,
): number {
  const inside = results.filter(({ entry }) => required.entries.has(entry));
  const failed = inside.filter(({ outcome }) => outcome.failure !== null);
  const print = json ? console.error : console.log;
  print(`required (${required.title}): ${inside.length} scripts, ${inside.length - failed.length} passed`);
  for (const { entry } of failed) print(`  failed: ${entry.file}`);
  const stale = results.filter(({ entry, outcome }) =>
    outcome.failure === null && required.failing?.has(entry) === true
  );
  for (const { entry } of stale) print(`  passed, but has a line in NOTES.md: ${entry.file}`);
  return failed.length + stale.length === 0 ? 0 : 1;
}

function printTrace({ entry, outcome }: Result): void {
  if (outcome.failure === null) return;
  console.error(`\n${entry.file}`);
  for (const line of outcome.trace) console.error(`  ${line}`);
}

if (import.meta.main) Deno.exit(main(Deno.args));
