/**
 * The text form of an impairment: what follows `netem` in a tc command, and more.
 *
 * ```text
 *   limit PACKETS
 *   delay TIME [JITTER [CORRELATION]]
 *   distribution uniform | normal | pareto | paretonormal | FILE
 *   loss [random] PERCENT [CORRELATION]
 *   loss state P13 [P31 [P32 [P23 [P14]]]]
 *   loss gemodel P [R [1-H [1-K]]]
 *   ecn
 *   duplicate PERCENT [CORRELATION]
 *   reorder PERCENT [CORRELATION] [gap DISTANCE]
 *   corrupt PERCENT [CORRELATION]
 *   rate RATE [PACKET-OVERHEAD [CELL-SIZE [CELL-OVERHEAD]]]
 *   slot MIN [MAX] [packets N] [bytes N]
 *   slot distribution uniform | normal | pareto | paretonormal | FILE DELAY JITTER [packets N] [bytes N]
 *   seed N
 *                                             what tc does not have:
 *   jitter keep-order | reorder               packets that jitter wait for each other, or overtake (default)
 *   profile NAME [up | down]                  the options of a profile, beneath the others (default down)
 *   trace FILE [loop]                         delay, loss and rate over time
 *   delivery FILE                             Mahimahi's packet deliveries
 *   compat linux                              do what Linux does, and read what tc reads
 * ```
 *
 * Options may stand in any order, each at most once; a `gap` without `reorder` means `reorder 100%`; `latency` and
 * `drop` are other names of `delay` and `loss`. Refused besides nonsense: a time without a unit (except with `compat
 * linux`, where it is in microseconds), reordering without a delay, jitter above the delay (a warning with `compat
 * linux`), `ecn` without a loss. Files are read by whoever calls: here they are names. What correlations mean is said in
 * draw.ts.
 *
 * References: tc-netem(8).
 *
 * @module
 */

import { checkNetem, netemWarnings } from "./check.ts";
import { NETEM_DEFAULTS, type NetemConfig, type NetemDistribution, type NetemSlot } from "./config.ts";
import { DISTRIBUTION_NAMES, parseDistribution } from "./distribution.ts";
import { PROFILE_NAMES, profileText } from "./profile.ts";
import { parseDelivery, parseTrace } from "./trace.ts";
import { looksNumeric, parseBareTime, parseInteger, parsePercent, parseRate, parseTime } from "./units.ts";

export { formatNetem } from "./format.ts";

/** What reading an impairment may need. */
export interface NetemTextOptions {
  /**
   * The text of a file that is named (default: no file can be named).
   *
   * @throws {Error} if there is none; its message becomes part of the refusal
   */
  readFile?: (name: string) => string;
  /** Is told of what is allowed and yet rarely meant. */
  warn?: (warning: NetemWarning) => void;
}

/** What is allowed and yet rarely meant. */
export interface NetemWarning {
  /** The word that it is about. */
  word: string;
  /** Its position, from 1. */
  position: number;
  /** What is to be known of it. */
  text: string;
}

const OPTIONS =
  "limit, delay, distribution, jitter, loss, ecn, duplicate, reorder, gap, corrupt, rate, slot, profile, " +
  "trace, delivery, seed or compat";

/** How to read an argument, and what to expect where it cannot be read. */
interface Kind {
  parse(text: string): number;
  expected: string;
}

const TIME: Kind = { parse: parseTime, expected: "a time with its unit (s, ms, us or ns), like 20ms" };
const BARE_TIME: Kind = { parse: parseBareTime, expected: "a time, in microseconds if it has no unit" };
const PERCENT: Kind = { parse: parsePercent, expected: "a percentage, like 0.5%" };
const CORRELATION: Kind = { parse: parsePercent, expected: "a correlation as a percentage, like 25%" };
const RATE: Kind = {
  parse: parseRate,
  expected: "a rate with its unit (bit, kbit, mbit, gbit, tbit, Kibit … or bps … for bytes), like 50mbit",
};
const INTEGER: Kind = { parse: parseInteger, expected: "a whole number" };

/** The fields of a configuration that are numbers. */
type NumberField = { [F in keyof NetemConfig]: NetemConfig[F] extends number ? F : never }[keyof NetemConfig];

/** Arguments of the options that have only numbers, in order; the first is required. */
const ARGUMENTS: ReadonlyMap<string, readonly (readonly [NumberField, Kind])[]> = new Map([
  ["limit", [["limit", INTEGER]]],
  ["delay", [["delay", TIME], ["jitter", TIME], ["delayCorrelation", CORRELATION]]],
  ["loss", [["loss", PERCENT], ["lossCorrelation", CORRELATION]]],
  ["duplicate", [["duplicate", PERCENT], ["duplicateCorrelation", CORRELATION]]],
  ["reorder", [["reorder", PERCENT], ["reorderCorrelation", CORRELATION]]],
  ["gap", [["gap", INTEGER]]],
  ["corrupt", [["corrupt", PERCENT], ["corruptCorrelation", CORRELATION]]],
  ["rate", [
    ["rateBytesPerSec", RATE],
    ["packetOverheadBytes", INTEGER],
    ["cellBytes", INTEGER],
    ["cellOverheadBytes", INTEGER],
  ]],
]);

/** Other names that tc has for an option. */
const OTHER_NAMES: ReadonlyMap<string, string> = new Map([["latency", "delay"], ["drop", "loss"]]);

/**
 * Reads an impairment as it follows `netem` in a tc command, such as `"delay 20ms 2ms loss 0.5% rate 50mbit"`. The
 * empty text impairs nothing.
 *
 * @throws {TypeError} naming the word, its position (from 1) and what was expected
 */
export function parseNetem(text: string, options: NetemTextOptions = {}): NetemConfig {
  return new Reader(text, options).read();
}

/** The names of the files that an impairment needs, in the order in which they are named; a fault is not told. */
export function netemFiles(text: string): string[] {
  const names = new Set<string>();
  const readFile = (name: string): string => {
    names.add(name);
    throw new Error("not read yet");
  };
  const reader = new Reader(text, { readFile });
  reader.skipsFiles = true;
  try {
    reader.read();
  } catch {
    // Told by whoever reads it with its files.
  }
  return [...names];
}

/** Reads one text, word by word. */
class Reader {
  /** Files are asked for and not used. */
  skipsFiles = false;
  readonly #words: readonly string[];
  readonly #options: NetemTextOptions;
  readonly #config: NetemConfig = { ...NETEM_DEFAULTS };
  readonly #places = new Map<keyof NetemConfig, number>();
  readonly #seen = new Set<string>();
  #at = 0;

  constructor(text: string, options: NetemTextOptions) {
    this.#words = text.split(/\s+/).filter((word) => word !== "");
    this.#options = options;
  }

  read(): NetemConfig {
    const config = this.#config;
    if (this.#words.some((word, i) => word === "compat" && this.#words[i + 1] === "linux")) config.compat = "linux";
    this.#profile();
    while (this.#at < this.#words.length) this.#option();
    if (this.#seen.has("gap") && !this.#seen.has("reorder")) {
      config.reorder = 1;
      this.#places.set("reorder", this.#places.get("gap")!);
    }
    const problem = checkNetem(config);
    if (problem !== null) throw this.#fault(this.#placeOf(problem.field), `${inText(problem.field)} ${problem.must}`);
    const { warn } = this.#options;
    if (warn !== undefined) this.#warn(warn);
    return config;
  }

  #warn(warn: (warning: NetemWarning) => void): void {
    for (const { field, must } of netemWarnings(this.#config)) {
      if (field === "jitter" && this.#seen.has("jitter") && must.startsWith("makes")) continue;
      const place = this.#placeOf(field);
      warn({ word: this.#words[place]!, position: place + 1, text: `${inText(field)} ${must}` });
    }
  }

  /** Where a field was given, or the rate, which it then has to do with; else the last word. */
  #placeOf(field: keyof NetemConfig): number {
    return this.#places.get(field) ?? this.#places.get("rateBytesPerSec") ?? this.#words.length - 1;
  }

  /** Puts the profile, if one is named, beneath everything else. */
  #profile(): void {
    const place = this.#words.indexOf("profile");
    if (place < 0) return;
    const name = this.#words[place + 1] ?? "";
    const text = profileText(name, this.#words[place + 2] === "up" ? "up" : "down");
    if (text === null) throw this.#fault(place + 1, `expected a profile: ${PROFILE_NAMES.join(", ")}`);
    Object.assign(this.#config, new Reader(text, {}).read(), { compat: this.#config.compat });
    for (const field of Object.keys(NETEM_DEFAULTS)) this.#places.set(field as keyof NetemConfig, place + 1);
  }

  #option(): void {
    const place = this.#at++;
    const word = this.#words[place]!;
    const option = OTHER_NAMES.get(word) ?? word;
    const args = ARGUMENTS.get(option);
    const other = OTHER_OPTIONS.has(option);
    if (args === undefined && !other) throw this.#fault(place, `expected ${OPTIONS}`);
    if (this.#seen.has(option)) throw this.#fault(place, "given twice: expected each option once");
    this.#seen.add(option);
    if (option === "loss" && this.#loss(place)) return;
    if (args !== undefined) this.#numbers(args);
    else this.#other(option, place);
  }

  #numbers(args: readonly (readonly [NumberField, Kind])[]): void {
    // Of a profile's own nothing is left, such as the jitter of its delay.
    for (const [field] of args) this.#config[field] = NETEM_DEFAULTS[field];
    for (const [field, kind] of args) {
      const isFirst = field === args[0]![0];
      if (!isFirst && !this.#hasNumber()) break;
      this.#places.set(field, this.#at);
      this.#config[field] = this.#number(kind);
    }
  }

  #other(option: string, place: number): void {
    const config = this.#config;
    switch (option) {
      case "ecn":
        this.#set("ecn", place, true);
        break;
      case "distribution":
        this.#set("distribution", place, this.#distribution(config.distribution));
        break;
      case "jitter":
        this.#set("keepOrder", place, this.#word(["keep-order", "reorder"]) === "keep-order");
        break;
      case "slot":
        this.#set("slot", place, this.#slot());
        break;
      case "seed":
        this.#set("seed", this.#at, this.#number(INTEGER));
        break;
      case "compat":
        this.#word(["linux"]);
        this.#places.set("compat", place);
        break;
      case "profile":
        this.#at++;
        if (this.#words[this.#at] === "up" || this.#words[this.#at] === "down") this.#at++;
        break;
      case "trace":
        this.#trace(place);
        break;
      case "delivery":
        this.#set("delivery", place, this.#file(parseDelivery, config.delivery));
        break;
    }
  }

  /** Reads a model of loss, if it is one that has a name. */
  #loss(place: number): boolean {
    const config = this.#config;
    Object.assign(config, { loss: 0, lossCorrelation: 0, lossState: null, lossGemodel: null });
    const model = this.#words[this.#at];
    if (model === "random") this.#at++;
    if (model !== "state" && model !== "gemodel") return false;
    this.#at++;
    const given = [this.#number(PERCENT)];
    const most = model === "state" ? 5 : 4;
    while (given.length < most && this.#hasNumber()) given.push(this.#number(PERCENT));
    const [first = 0, second = 1 - first, third, fourth, fifth] = given;
    if (model === "state") {
      this.#set("lossState", place, { p13: first, p31: second, p32: third ?? 0, p23: fourth ?? 1, p14: fifth ?? 0 });
    } else {
      this.#set("lossGemodel", place, { p: first, r: second, badLoss: third ?? 1, goodLoss: fourth ?? 0 });
    }
    return true;
  }

  #slot(): NetemSlot {
    const slot = { min: 0, max: 0, distribution: null as NetemDistribution | null };
    const times = { delay: 0, jitter: 0 };
    const sizes = { packets: 0, bytes: 0 };
    if (this.#words[this.#at] === "distribution") {
      this.#at++;
      slot.distribution = this.#distribution("uniform");
      times.delay = this.#number(TIME);
      times.jitter = this.#number(TIME);
    } else {
      slot.min = slot.max = this.#number(TIME);
      if (this.#hasNumber()) slot.max = this.#number(TIME);
    }
    for (const seen = new Set<string>();;) {
      const word = this.#words[this.#at];
      if ((word !== "packets" && word !== "bytes") || seen.has(word)) break;
      seen.add(word);
      this.#at++;
      sizes[word] = this.#number(INTEGER);
    }
    return { ...slot, ...times, ...sizes };
  }

  #trace(place: number): void {
    const loop = this.#words[this.#at + 1] === "loop";
    const trace = this.#file((name, text) => parseTrace(name, text, loop), null);
    if (loop) this.#at++;
    this.#set("trace", place, trace);
  }

  #distribution(otherwise: NetemDistribution): NetemDistribution {
    const name = DISTRIBUTION_NAMES.find((known) => known === this.#words[this.#at]);
    if (name === undefined) return this.#file(parseDistribution, otherwise);
    this.#at++;
    return name;
  }

  /** Reads what a file has; `otherwise` if files are not to be used. */
  #file<T>(parse: (name: string, text: string) => T, otherwise: T): T {
    const place = this.#at++;
    const name = this.#words[place];
    const { readFile } = this.#options;
    const isDistribution = parse as unknown === parseDistribution;
    const expected = `expected ${isDistribution ? `${DISTRIBUTION_NAMES.join(", ")} or ` : ""}the name of a file`;
    if (name === undefined) throw this.#fault(place, expected);
    if (readFile === undefined) throw this.#fault(place, `${expected}, and files cannot be read here`);
    try {
      return parse(name, readFile(name));
    } catch (error) {
      if (this.skipsFiles) return otherwise;
      throw this.#fault(place, `${expected} that can be read (${error instanceof Error ? error.message : error})`);
    }
  }

  #set<F extends keyof NetemConfig>(field: F, place: number, value: NetemConfig[F]): void {
    this.#places.set(field, place);
    this.#config[field] = value;
  }

  #hasNumber(): boolean {
    return this.#at < this.#words.length && looksNumeric(this.#words[this.#at]!);
  }

  #number(kind: Kind): number {
    const asked = kind === TIME && this.#config.compat === "linux" ? BARE_TIME : kind;
    const value = this.#at === this.#words.length ? NaN : asked.parse(this.#words[this.#at]!);
    if (Number.isNaN(value)) throw this.#fault(this.#at, `expected ${asked.expected}`);
    this.#at++;
    return value;
  }

  #word(known: readonly string[]): string {
    const word = this.#words[this.#at];
    if (word === undefined || !known.includes(word)) throw this.#fault(this.#at, `expected ${known.join(" or ")}`);
    this.#at++;
    return word;
  }

  #fault(place: number, message: string): TypeError {
    const words = this.#words;
    const where = place < words.length
      ? `word ${place + 1} "${words[place]}"`
      : `word ${place + 1} is missing after "${words[place - 1]}"`;
    return new TypeError(`netem: ${where}: ${message}`);
  }
}

/** The options that have other arguments than numbers. */
const OTHER_OPTIONS: ReadonlySet<string> = new Set([
  "ecn",
  "distribution",
  "jitter",
  "slot",
  "seed",
  "compat",
  "profile",
  "trace",
  "delivery",
]);

/** The words of a text for fields that have another name than there. */
const WORDS: Readonly<Partial<Record<keyof NetemConfig, string>>> = {
  delayCorrelation: "correlation",
  lossCorrelation: "correlation",
  duplicateCorrelation: "correlation",
  reorderCorrelation: "correlation",
  corruptCorrelation: "correlation",
  keepOrder: "keep-order",
  lossState: "loss state",
  lossGemodel: "loss gemodel",
  rateBytesPerSec: "rate",
  packetOverheadBytes: "packet overhead",
  cellBytes: "cell size",
  cellOverheadBytes: "cell overhead",
};

/** A field by the word that it has in a text. */
function inText(field: keyof NetemConfig): string {
  return WORDS[field] ?? field;
}
