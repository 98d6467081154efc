/**
 * The text form of an impairment: what follows `netem` in a tc command.
 *
 * ```text
 *   limit PACKETS
 *   delay TIME [JITTER [CORRELATION]]
 *   loss [random] PERCENT [CORRELATION]
 *   duplicate PERCENT [CORRELATION]
 *   reorder PERCENT [CORRELATION] [gap DISTANCE]
 *   corrupt PERCENT [CORRELATION]
 *   rate RATE [PACKET-OVERHEAD [CELL-SIZE [CELL-OVERHEAD]]]
 *   ecn
 * ```
 *
 * Options may stand in any order, each at most once; a `gap` without `reorder` means `reorder 100%`. Refused besides
 * nonsense: a time without a unit, reordering without a delay, jitter above the delay, `ecn` without a loss. Known and
 * not supported yet: `distribution`, `slot`, `seed`, and the loss models `state` and `gemodel`. What correlations mean
 * here is said in config.ts.
 *
 * References: tc-netem(8).
 *
 * @module
 */

import { NETEM_DEFAULTS, type NetemConfig, netemProblem } from "./config.ts";
import {
  formatPercent,
  formatRate,
  formatTime,
  looksNumeric,
  parseInteger,
  parsePercent,
  parseRate,
  parseTime,
} from "./units.ts";

const OPTIONS = "limit, delay, loss, duplicate, reorder, gap, corrupt, rate or ecn";

/** How to read an argument, and what to expect where it cannot be read. */
interface Kind {
  parse(text: string): number;
  expected: string;
}

const TIME: Kind = { parse: parseTime, expected: "a time with its unit (s, ms, us or ns), like 20ms" };
const PERCENT: Kind = { parse: parsePercent, expected: "a percentage, like 0.5%" };
const CORRELATION: Kind = { parse: parsePercent, expected: "a correlation as a percentage, like 25%" };
const RATE: Kind = {
  parse: parseRate,
  expected: "a rate with its unit (bit, kbit, mbit, gbit, tbit, Kibit … or bps … for bytes), like 50mbit",
};
const INTEGER: Kind = { parse: parseInteger, expected: "a whole number" };

type NumberField = Exclude<keyof NetemConfig, "ecn">;

/** Arguments of each option, in order; the first is required. */
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

const NOT_YET: ReadonlySet<string> = new Set(["distribution", "slot", "seed"]);
const LOSS_MODELS_NOT_YET: ReadonlySet<string> = new Set(["state", "gemodel"]);

/**
 * Reads an impairment as it follows `netem` in a tc command, such as `"delay 20ms 2ms loss 0.5% rate 50mbit"`. The
 * empty text impairs nothing.
 *
 * @throws {TypeError} naming the word, its position (from 1) and what was expected
 */
export function parseNetem(text: string): NetemConfig {
  const words = text.split(/\s+/).filter((word) => word !== "");
  const config: NetemConfig = { ...NETEM_DEFAULTS };
  const places = new Map<keyof NetemConfig, number>();
  const seen = new Set<string>();
  let at = 0;
  while (at < words.length) {
    const option = words[at]!;
    const place = at++;
    if (NOT_YET.has(option)) throw problemAt(words, place, `not supported yet: expected ${OPTIONS}`);
    const args = ARGUMENTS.get(option);
    if (option !== "ecn" && args === undefined) throw problemAt(words, place, `expected ${OPTIONS}`);
    if (seen.has(option)) throw problemAt(words, place, "given twice: expected each option once");
    seen.add(option);
    if (args === undefined) {
      config.ecn = true;
      places.set("ecn", place);
      continue;
    }
    if (option === "loss") {
      if (LOSS_MODELS_NOT_YET.has(words[at] ?? "")) {
        throw problemAt(words, at, "this loss model is not supported yet: expected random or a percentage, like 0.5%");
      }
      if (words[at] === "random") at++;
    }
    for (const [field, kind] of args) {
      const isFirst = field === args[0]![0];
      if (!isFirst && (at === words.length || !looksNumeric(words[at]!))) break;
      const value = at === words.length ? NaN : kind.parse(words[at]!);
      if (Number.isNaN(value)) throw problemAt(words, at, `expected ${kind.expected}`);
      config[field] = value;
      places.set(field, at++);
    }
  }
  if (seen.has("gap") && !seen.has("reorder")) {
    config.reorder = 1;
    places.set("reorder", places.get("gap")!);
  }
  const problem = netemProblem(config);
  if (problem === null) return config;
  throw problemAt(words, places.get(problem.field)!, `${problem.field} ${problem.must}`);
}

/**
 * Writes an impairment so that {@linkcode parseNetem} reads the same again; fields that have their default are left
 * out.
 */
export function formatNetem(config: NetemConfig): string {
  const c = config;
  const out: string[] = [];
  const add = (option: string, values: readonly number[], texts: readonly string[]) => {
    const last = values.findLastIndex((value) => value !== 0);
    if (last >= 0) out.push(option, ...texts.slice(0, last + 1));
  };
  const chance = (option: string, probability: number, correlation: number) =>
    add(option, [probability, correlation], [formatPercent(probability), formatPercent(correlation)]);
  add("delay", [c.delay, c.jitter, c.delayCorrelation], [
    formatTime(c.delay),
    formatTime(c.jitter),
    formatPercent(c.delayCorrelation),
  ]);
  chance("loss", c.loss, c.lossCorrelation);
  if (c.ecn) out.push("ecn");
  chance("duplicate", c.duplicate, c.duplicateCorrelation);
  chance("reorder", c.reorder, c.reorderCorrelation);
  if (c.gap !== 1) {
    if (c.reorder === 0 && c.reorderCorrelation === 0) out.push("reorder", "0%");
    out.push("gap", `${c.gap}`);
  }
  chance("corrupt", c.corrupt, c.corruptCorrelation);
  add("rate", [c.rateBytesPerSec, c.packetOverheadBytes, c.cellBytes, c.cellOverheadBytes], [
    formatRate(c.rateBytesPerSec),
    `${c.packetOverheadBytes}`,
    `${c.cellBytes}`,
    `${c.cellOverheadBytes}`,
  ]);
  if (c.limit !== NETEM_DEFAULTS.limit) out.push("limit", `${c.limit}`);
  return out.join(" ");
}

function problemAt(words: readonly string[], place: number, message: string): TypeError {
  const where = place < words.length
    ? `word ${place + 1} "${words[place]}"`
    : `word ${place + 1} is missing after "${words[place - 1]}"`;
  return new TypeError(`netem: ${where}: ${message}`);
}
