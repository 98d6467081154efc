/**
 * A small stand-in for `@std/cli/parse-args`, for machines that cannot reach JSR.
 *
 * npm `minimist` does the parsing; this module bends it to the rules of the real
 * `parseArgs`: the last of several values wins unless the option is in `collect`,
 * `--no-x` denies `x` only where `x` is in `negatable`, and `unknown` hears the
 * name of the option too. The result has precise types: what the real one infers for
 * the same call, or something narrower, so code that compiles here compiles there.
 *
 * Left out: dotted option names, `boolean: true`, options that are boolean and in
 * `collect` at once, a value after `--no-x=`, the third argument of `unknown`, and
 * the types `Args` and `ParseOptions`.
 *
 * @module
 */

// @ts-types="@types/minimist"
import minimist from "minimist";

/** A name, or several. */
type Names<T extends string> = T | readonly T[];

/** The literal names in `T`; none where `T` is just `string`. */
type Literal<T> = T extends string ? (string extends T ? never : T) : never;

/** The further names that `alias` gives to `Name`. */
type AliasesOf<Name, Aliases> = Name extends keyof Aliases
  ? Aliases[Name] extends readonly string[] ? Literal<Aliases[Name][number]> : Literal<Aliases[Name]>
  : never;

/** The same record with each value under its aliases too. */
type WithAliases<Values, Aliases> = { [Name in keyof Values as Name | AliasesOf<Name, Aliases>]: Values[Name] };

/** One option's type, before its default is looked at. `undefined` stands for "may be absent". */
type Value<
  Name extends string,
  Booleans extends string,
  Strings extends string,
  Collect extends string,
  Negatable extends string,
> =
  | (Name extends Booleans ? boolean
    : Name extends Strings ? (Name extends Collect ? string[] : string | undefined)
    : unknown[])
  | (Name extends Negatable ? (Name extends Booleans ? never : false) : never);

/** Every declared option, `undefined` excluded where a default exists. */
type Declared<
  Booleans extends string,
  Strings extends string,
  Collect extends string,
  Negatable extends string,
  Defaults,
> = {
  [Name in Booleans | Strings | Collect]: Name extends keyof Defaults
    ? NonNullable<Value<Name, Booleans, Strings, Collect, Negatable>> | Defaults[Name]
    : Value<Name, Booleans, Strings, Collect, Negatable>;
};

/** Options that may be absent become optional properties. */
type Presence<Values> =
  & { [Name in keyof Values as undefined extends Values[Name] ? never : Name]: Values[Name] }
  & { [Name in keyof Values as undefined extends Values[Name] ? Name : never]?: NonNullable<Values[Name]> };

/** What {@linkcode parseArgs} returns. */
type Result<Values, DoubleDash> =
  & Record<string, unknown>
  & Values
  & {
    /** The arguments that belong to no option. Those that look like numbers are numbers. */
    _: (string | number)[];
  }
  & (DoubleDash extends true ? {
      /** The arguments after the first `--`. */
      "--": string[];
    }
    : Record<never, never>);

/** What {@linkcode parseArgs} is told about the options. */
interface Options<
  Booleans extends string,
  Strings extends string,
  Collect extends string,
  Negatable extends string,
  Defaults extends Record<string, unknown>,
  Aliases extends Readonly<Record<string, Names<string>>>,
  DoubleDash extends boolean,
> {
  /** Options without a value; `false` where not given. */
  boolean?: Names<Booleans>;
  /** Options whose value stays text even where it looks like a number. */
  string?: Names<Strings>;
  /** Options that may be given several times; their values form an array. */
  collect?: Names<Collect>;
  /** Options that `--no-NAME` sets to `false`. */
  negatable?: Names<Negatable>;
  /** Values of options that are not given. */
  default?: Defaults;
  /** Further names of options. */
  alias?: Aliases;
  /** Stop at the first argument that is no option; the rest goes to `_` as it is. */
  stopEarly?: boolean;
  /** Put what follows `--` under `"--"` instead of at the end of `_`. */
  "--"?: DoubleDash;
  /**
   * Hears of every argument that is not declared: `key` is the option's name, or
   * missing where the argument is no option. `false` leaves the argument out.
   */
  unknown?: (arg: string, key?: string) => unknown;
}

/** Stands before names that minimist would take for something else: denials, and what every object inherits. */
const VEIL = "\0";

function veil(name: string): string {
  return name.startsWith("no-") || name in Object.prototype ? VEIL + name : name;
}

function unveil(text: string): string {
  return text.replace(VEIL, "");
}

function list(names: Names<string> | undefined): readonly string[] {
  return names === undefined ? [] : typeof names === "string" ? [names] : names;
}

function toNumberIfNumeric(text: string): string | number {
  return /\S/.test(text) && Number.isFinite(Number(text)) ? Number(text) : text;
}

/** The values of an option in `collect`, of which a denial forgets the earlier ones. */
function collected(values: unknown[]): unknown[] | false {
  const kept = values.slice(values.lastIndexOf(false) + 1);
  return kept.length === 0 ? false : kept;
}

/**
 * Reads command line arguments: `--name value`, `--name=value`, `-n value`,
 * `-abc`, and everything else into `_`. What follows `--` is never an option.
 *
 * Options are declared by `options`; without a declaration, a value that looks
 * like a number becomes one, and an option without a value is `true`. Throws
 * `TypeError` for an option declared as boolean and in `collect` at once.
 */
export function parseArgs<
  Booleans extends string = never,
  Strings extends string = never,
  Collect extends string = never,
  Negatable extends string = never,
  Defaults extends Record<string, unknown> = Record<never, never>,
  const Aliases extends Readonly<Record<string, Names<string>>> = Record<never, never>,
  DoubleDash extends boolean = false,
>(
  args: readonly string[],
  options: Options<Booleans, Strings, Collect, Negatable, Defaults, Aliases, DoubleDash> = {},
): Result<Presence<WithAliases<Declared<Booleans, Strings, Collect, Negatable, Defaults>, Aliases>>, DoubleDash> {
  const aliases = new Map<string, string[]>();
  for (const [name, others] of Object.entries<Names<string>>(options.alias ?? {})) {
    const group = [name, ...list(others)];
    for (const member of group) aliases.set(member, group.filter((other) => other !== member));
  }
  const withAliases = (name: string) => [name, ...aliases.get(name) ?? []];
  const allNames = (names: Names<string> | undefined) => new Set(list(names).flatMap(withAliases));
  const booleans = allNames(options.boolean);
  const strings = allNames(options.string);
  const collect = allNames(options.collect);
  const negatable = allNames(options.negatable);
  const both = [...collect].find((name) => booleans.has(name));
  if (both !== undefined) throw new TypeError(`Option "${both}" cannot be boolean and in collect at once`);

  const isDenial = (name: string) => name.startsWith("no-") && negatable.has(name.slice(3));
  const nameIn = (arg: string) => /^--([^=]+)/.exec(arg)?.[1];
  const isDeclared = (name: string) =>
    booleans.has(name) || strings.has(name) || collect.has(name) || aliases.has(name);
  const mayStay = (veiledArg: string): boolean => {
    const arg = unveil(veiledArg);
    const name = nameIn(arg);
    const key = name !== undefined
      ? (isDenial(name) && !arg.includes("=") ? name.slice(3) : name)
      : /^-[^-]/.test(arg)
      ? [...arg.slice(1)].find((letter) => !isDeclared(letter)) ?? ""
      : undefined;
    if (key === undefined) return options.unknown?.(arg) !== false;
    return key === "" || isDeclared(key) || options.unknown?.(arg, key) !== false;
  };

  const end = args.indexOf("--");
  const veiledArgs = args.map((arg, i) => {
    const name = end === -1 || i < end ? nameIn(arg) : undefined;
    if (name === undefined || (isDenial(name) && !arg.includes("="))) return arg;
    return "--" + veil(name) + arg.slice(2 + name.length);
  });

  const { _: positional, "--": rest = [], ...found } = minimist(veiledArgs, {
    boolean: [...booleans].map(veil),
    string: ["_", ...[...strings].map(veil)],
    alias: Object.fromEntries([...aliases].map(([name, others]) => [veil(name), others.map(veil)])),
    // Not `false`, so that an absent option can be told from a denied one.
    default: Object.fromEntries([...booleans].map((name) => [veil(name), null])),
    stopEarly: options.stopEarly ?? false,
    "--": true,
    unknown: mayStay,
  });

  const result: Record<string, unknown> = {};
  for (const [veiledName, value] of Object.entries<unknown>(found)) {
    const name = unveil(veiledName);
    if (value === null || name === "__proto__" || name === "constructor") continue;
    const values = Array.isArray(value) ? value : [value];
    result[name] = collect.has(name) ? collected(values) : values.at(-1);
  }
  for (const [name, value] of Object.entries(options.default ?? {})) {
    if (Object.hasOwn(result, name)) continue;
    for (const each of withAliases(name)) result[each] = value;
  }
  for (const name of booleans) if (!Object.hasOwn(result, name)) result[name] = false;
  for (const name of strings) if (collect.has(name) && !Object.hasOwn(result, name)) result[name] = [];

  const words: (string | number)[] = positional.map(unveil).map((word, i) =>
    strings.has("_") || (options.stopEarly === true && i > 0) ? word : toNumberIfNumeric(word)
  );
  if (options["--"] === true) result["--"] = rest;
  else words.push(...rest);
  return Object.assign(result, { _: words }) as never;
}
