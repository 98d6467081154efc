/**
 * Flags that several experiments have: seeds, lists of names, ranges of numbers, threads.
 *
 * @module
 */

import { messageOf } from "./command.ts";
import type { Flags, FlagSpec } from "./flags.ts";
import { Progress } from "./terminal.ts";

/** `--seeds`. */
export const SEEDS_FLAG: FlagSpec = {
  value: "LIST",
  help: "seeds, like 1-5 or 1,7,9; medians are shown (default 1-5)",
};

/** `--jobs`. */
export const JOBS_FLAG: FlagSpec = { short: "j", value: "N", help: "threads (default one a core)" };

/** `--json`. */
export const JSON_FLAG: FlagSpec = { help: "print one JSON object" };

/** The most seeds of one call. */
const SEEDS_MAX = 1000;

/** The seeds asked for, in order. */
export function seedsOf(flags: Flags): number[] {
  const text = flags.text("seeds") ?? "1-5";
  const seeds: number[] = [];
  const refuse = () => flags.wrong("seeds", text, `up to ${SEEDS_MAX} whole numbers like 1-5 or 1,7,9`);
  for (const part of text.split(",")) {
    const match = /^(\d{1,15})(?:-(\d{1,15}))?$/.exec(part);
    if (match === null) return refuse();
    const first = Number(match[1]);
    const last = Number(match[2] ?? match[1]);
    if (last < first || seeds.length + last - first >= SEEDS_MAX) return refuse();
    for (let seed = first; seed <= last; seed++) seeds.push(seed);
  }
  return [...new Set(seeds)];
}

/** Names of `all`, separated by commas; `standard` if the flag was not given. */
export function namesOf<T extends string>(
  flags: Flags,
  name: string,
  all: readonly T[],
  standard: readonly T[] = all,
): T[] {
  const text = flags.text(name);
  if (text === undefined) return [...standard];
  const names = [...new Set(text.split(","))];
  for (const found of names) {
    if (!all.includes(found as T)) flags.wrong(name, found, `some of ${all.join(",")}`);
  }
  return names as T[];
}

/** Those of `all` that a list of numbers and ranges names: `2048-`, `-1024`, `1,16-64`, `none`; all by default. */
export function rangeOf(flags: Flags, name: string, all: readonly number[]): number[] {
  const text = flags.text(name);
  if (text === undefined) return [...all];
  if (text === "none") return [];
  const chosen = new Set<number>();
  for (const part of text.split(",")) {
    const match = /^([\d.]*)(-?)([\d.]*)$/.exec(part);
    const from = match?.[1] === "" ? -Infinity : Number(match?.[1]);
    const to = match?.[2] === "" ? from : match?.[3] === "" ? Infinity : Number(match?.[3]);
    const found = part === "" || part === "-" ? [] : all.filter((n) => n >= from && n <= to);
    if (found.length === 0) {
      return flags.wrong(name, part, `a range like ${all[1]}- or some of ${all.join(",")}, or none`);
    }
    for (const n of found) chosen.add(n);
  }
  return all.filter((n) => chosen.has(n));
}

/** How many threads to use; `undefined` for one a core. */
export function jobsOf(flags: Flags): { jobs?: number } {
  const jobs = flags.integer("jobs", 1, 256, undefined);
  return jobs === undefined ? {} : { jobs };
}

/** The file that `--svg` names, opened once so that a wrong name is told before anything is run. */
export async function svgOf(flags: Flags): Promise<string | undefined> {
  const path = flags.text("svg");
  if (path === undefined) return undefined;
  try {
    (await Deno.open(path, { write: true, create: true })).close();
  } catch (error) {
    flags.wrong("svg", path, `a file that can be written (${messageOf(error)})`);
  }
  return path;
}

/** Shows how many runs are done and for how long it has been going on. */
export class RunProgress {
  readonly #progress = new Progress(false);
  readonly #what: string;
  readonly #total: number;
  readonly #started = performance.now();

  /** Begins with none done. */
  constructor(what: string, total: number) {
    this.#what = what;
    this.#total = total;
    this.onDone(0);
  }

  /** So many are done. */
  readonly onDone = (done: number): void => {
    const seconds = Math.round((performance.now() - this.#started) / 1000);
    this.#progress.show(`${this.#what}: ${done} of ${this.#total} runs, ${seconds} s`);
  };

  /** Takes the line away. */
  clear(): void {
    this.#progress.clear();
  }
}
