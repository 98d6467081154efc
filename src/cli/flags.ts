/**
 * The flags of a command: declared once, read strictly, and listed in its help.
 *
 * Whatever is wrong becomes a {@linkcode UsageError} of one line: which command, which flag, what was found, what was
 * expected. A flag that is unknown is wrong, and so is a value that is missing, or one given twice.
 *
 * @module
 */

import { parseArgs } from "@std/cli/parse-args";
import type { Duration } from "../base/time.ts";
import { nearest } from "../stack/config_faults.ts";
import { UsageError } from "./command.ts";
import { parseBitRate, parseByteCount, parseSeconds } from "./quantities.ts";

/** The longest time that a flag takes, in ns. */
const SECONDS_MAX = 3.6e15;

/** The highest rate that a flag takes, in bits per second; servers of `perf` take less than that. */
const BIT_RATE_MAX = 999e12;

/** Forms of flags that are longer than this have their help on a line of its own. */
const FORM_WIDTH = 24;

/** A flag. */
export interface FlagSpec {
  /** What stands for its value in the help; a flag without one is on or off. */
  readonly value?: string;
  /** True if it may be given several times. */
  readonly isList?: boolean;
  /** The letter of its short form. */
  readonly short?: string;
  /** What it does, in a line. */
  readonly help: string;
}

/** The flags of a command by name. */
export type FlagSpecs = Readonly<Record<string, FlagSpec>>;

/** What the arguments of a command are. */
export interface CommandArgs {
  /** The command's name, for messages. */
  readonly command: string;
  /** Its flags. */
  readonly flags: FlagSpecs;
  /** Names of the words that it takes beside flags, in order; none of them has to be there. */
  readonly words?: readonly string[];
}

/** The value of a flag as text, as a message shows it. */
function quote(text: string): string {
  return text === "" ? "nothing" : JSON.stringify(text.length <= 60 ? text : `${text.slice(0, 57)}...`);
}

/** A flag as it is written: `--count`, `-4`. */
function formOf(name: string): string {
  return name.length === 1 ? `-${name}` : `--${name}`;
}

/** The flags that a command was given. */
export class Flags {
  /** The command's name. */
  readonly command: string;
  /** The words beside the flags. */
  readonly words: readonly string[];
  readonly #values: Record<string, unknown>;

  /** Reads `args`. Throws a {@linkcode UsageError} for what is not declared. */
  constructor(spec: CommandArgs, args: readonly string[]) {
    this.command = spec.command;
    const names = Object.keys(spec.flags);
    const takesValue = (name: string) => spec.flags[name]!.value !== undefined;
    this.#values = parseArgs(joinNegatives(spec.flags, args), {
      boolean: names.filter((name) => !takesValue(name)),
      string: [...names.filter(takesValue), "_"],
      collect: names.filter(takesValue),
      alias: Object.fromEntries(names.flatMap((name) => {
        const { short } = spec.flags[name]!;
        return short === undefined ? [] : [[name, short]];
      })),
      unknown: (arg, key) => {
        if (key !== undefined || /^-./.test(arg)) this.#refuseFlag(arg, names);
      },
    });
    for (const name of names) {
      const { isList } = spec.flags[name]!;
      if (!takesValue(name)) this.#checkSwitch(name, args);
      else if (isList !== true && this.list(name).length > 1) {
        throw this.fault(`${formOf(name)}: given twice, expected once`);
      } else {for (const value of this.list(name)) {
          if (value === "") this.wrong(name, "", `a value: ${spec.flags[name]!.value}`);
        }}
    }
    this.words = (this.#values["_"] as (string | number)[]).map(String);
    const most = spec.words?.length ?? 0;
    if (this.words.length > most) {
      const wanted = most === 0 ? "flags only" : `only ${spec.words!.join(" ")}`;
      throw this.fault(`found ${quote(this.words[most]!)}, expected ${wanted}`);
    }
  }

  /** True if the flag was given. */
  has(name: string): boolean {
    const value = this.#values[name];
    return Array.isArray(value) ? value.length > 0 : value === true;
  }

  /** All values of a flag, in order. */
  list(name: string): string[] {
    return (this.#values[name] as string[] | false | undefined) || [];
  }

  /** The value of a flag, if it was given. */
  text(name: string): string | undefined {
    return this.list(name)[0];
  }

  /** A whole number from `least` to `most`, or `standard`. */
  integer<T>(name: string, least: number, most: number, standard: T): number | T {
    const parse = (text: string): number => /^-?\d+$/.test(text) ? Number(text) : NaN;
    const isOpen = most === Number.MAX_SAFE_INTEGER && !(parse(this.text(name) ?? "") > most);
    const expected = isOpen ? `a whole number of at least ${least}` : `a whole number from ${least} to ${most}`;
    return this.#number(name, parse, least, most, expected, standard);
  }

  /** A number from `least` to `most`, or `standard`. */
  number<T>(name: string, least: number, most: number, standard: T): number | T {
    const expected = `a number from ${least} to ${most}`;
    return this.#number(name, (text) => /^[\d.]+$/.test(text) ? Number(text) : NaN, least, most, expected, standard);
  }

  /** A time of at least `least` and at most an hour times a thousand, or `standard`. */
  seconds<T>(name: string, least: Duration, standard: T): Duration | T {
    const isLong = parseSeconds(this.text(name) ?? "") > SECONDS_MAX;
    const bound = isLong ? `at most ${SECONDS_MAX / 1e9} s` : `at least ${least / 1e9} s`;
    const expected = `seconds like 0.2, or a time with its unit like 200ms, ${bound}`;
    return this.#number(name, parseSeconds, least, SECONDS_MAX, expected, standard);
  }

  /** A rate in bits per second, or `standard`. */
  bitRate<T>(name: string, standard: T): number | T {
    const isFast = parseBitRate(this.text(name) ?? "") > BIT_RATE_MAX;
    const bound = isFast ? `, at most ${BIT_RATE_MAX / 1e12}T` : "";
    const expected = `bits per second like 500K, 10M or 1G${bound}`;
    return this.#number(name, parseBitRate, 0, BIT_RATE_MAX, expected, standard);
  }

  /** A number of bytes, or `standard`. */
  bytes<T>(name: string, least: number, most: number, standard: T): number | T {
    const expected = `bytes from ${least} to ${most}, like 1400 or 64K`;
    return this.#number(name, parseByteCount, least, most, expected, standard);
  }

  /** Refuses a value: what was found, what was expected. */
  wrong(name: string, found: string, expected: string): never {
    throw this.fault(`${formOf(name)}: found ${quote(found)}, expected ${expected}`);
  }

  /** The error that says what is wrong with the call. */
  fault(text: string): UsageError {
    return new UsageError(`${this.command}: ${text}`);
  }

  #number<T>(
    name: string,
    parse: (text: string) => number,
    least: number,
    most: number,
    expected: string,
    standard: T,
  ): number | T {
    const text = this.text(name);
    if (text === undefined) return standard;
    const n = parse(text);
    return n >= least && n <= most ? n : this.wrong(name, text, expected);
  }

  #refuseFlag(arg: string, names: readonly string[]): never {
    const name = /^--([^=]+)/.exec(arg)?.[1];
    const near = name === undefined ? null : nearest(name, names);
    const hint = near === null ? `expected flags that ${this.command} --help lists` : `did you mean --${near}?`;
    throw this.fault(`unknown flag ${quote(arg)}, ${hint}`);
  }

  #checkSwitch(name: string, args: readonly string[]): void {
    const end = args.indexOf("--");
    const given = args.find((arg, i) => (end < 0 || i < end) && arg.startsWith(`--${name}=`));
    if (given !== undefined) throw this.fault(`--${name}: found a value in ${quote(given)}, expected none`);
  }
}

/** The arguments with negative numbers joined to the flag before them, for which they are values, not flags. */
function joinNegatives(specs: FlagSpecs, args: readonly string[]): string[] {
  const byForm = new Map<string, string>();
  for (const [name, { short, value }] of Object.entries(specs)) {
    if (value === undefined) continue;
    byForm.set(`--${name}`, name);
    if (short !== undefined) byForm.set(`-${short}`, name);
  }
  const out: string[] = [];
  for (let i = 0; i < args.length; i++) {
    const name = byForm.get(args[i]!);
    if (name !== undefined && /^-[\d.]/.test(args[i + 1] ?? "")) out.push(`--${name}=${args[++i]}`);
    else out.push(args[i]!);
  }
  return out;
}

/** The flags as lines of a help text; below a form that is too long for its column, what the flag does is on the next line. */
export function formatFlags(specs: FlagSpecs): string {
  const rows = Object.entries(specs).map(([name, { short, value, help }]) => {
    const form = `${short === undefined ? "" : `-${short}, `}${formOf(name)}${value === undefined ? "" : ` ${value}`}`;
    return [form, help] as const;
  });
  const width = Math.max(...rows.map(([form]) => form.length).filter((length) => length <= FORM_WIDTH));
  return rows.map(([form, help]) =>
    form.length > width ? `  ${form}\n  ${"".padEnd(width)}  ${help}` : `  ${form.padEnd(width)}  ${help}`
  ).join("\n");
}
