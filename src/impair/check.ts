/**
 * What can be wrong with an impairment, and what is allowed and yet rarely meant.
 *
 * @module
 */

import { SECOND } from "../base/time.ts";
import type { LossGemodel, LossState, NetemConfig, NetemDistribution, NetemSlot } from "./config.ts";
import { DISTRIBUTION_ENTRIES_MAX, DISTRIBUTION_NAMES } from "./distribution.ts";
import { deliveryProblem, traceProblem } from "./trace.ts";

/** What is wrong with a configuration, or what is to be warned of. */
export interface NetemProblem {
  /** The field that it is about. */
  field: keyof NetemConfig;
  /** What it must be, or what is to be known of it, as the end of a sentence that begins with the field. */
  must: string;
}

/** The longest delay: a day. */
const DELAY_MAX = 86_400 * SECOND;

/** The longest jitter that Linux does not cut off. */
const LINUX_JITTER_MAX = 2 ** 31 - 1;

const INTEGER_RANGES: readonly [keyof NetemConfig, number, number][] = [
  ["limit", 1, 1 << 24],
  ["delay", 0, DELAY_MAX],
  ["jitter", 0, DELAY_MAX],
  ["gap", 1, 1 << 24],
  ["packetOverheadBytes", -65_535, 65_535],
  ["cellBytes", 0, 65_535],
  ["cellOverheadBytes", -65_535, 65_535],
];

const PROBABILITIES = ["loss", "duplicate", "reorder", "corrupt"] as const;

const CORRELATIONS = [
  "delayCorrelation",
  "lossCorrelation",
  "duplicateCorrelation",
  "reorderCorrelation",
  "corruptCorrelation",
] as const;

const FLAGS = ["ecn", "keepOrder"] as const;

/** Looks for the first thing that is wrong with `config`; `null` if nothing is. */
export function checkNetem(config: NetemConfig): NetemProblem | null {
  return checkNumbers(config) ?? checkParts(config) ?? checkTogether(config) ?? checkCompat(config);
}

function isWhole(value: unknown, least: number, most: number): boolean {
  return Number.isInteger(value) && Number(value) >= least && Number(value) <= most;
}

function isProbability(value: unknown): boolean {
  return typeof value === "number" && value >= 0 && value <= 1;
}

function checkNumbers(config: NetemConfig): NetemProblem | null {
  for (const [field, least, most] of INTEGER_RANGES) {
    if (isWhole(config[field], least, most)) continue;
    const range = most === DELAY_MAX
      ? "a time from 0 to 86400s, whole nanoseconds"
      : `an integer from ${least} to ${most}`;
    return { field, must: `must be ${range}` };
  }
  for (const field of PROBABILITIES) {
    if (!isProbability(config[field])) return { field, must: "must be a probability from 0 to 100%" };
  }
  for (const field of CORRELATIONS) {
    if (!(isProbability(config[field]) && config[field] < 1)) {
      return { field, must: "must be from 0 to below 100% (at 100% the first draw would be the only one)" };
    }
  }
  for (const field of FLAGS) {
    if (typeof config[field] !== "boolean") return { field, must: "must be true or false" };
  }
  const rate = config.rateBytesPerSec;
  if (rate !== 0 && !(typeof rate === "number" && rate >= 1 && rate <= 1e12)) {
    return { field: "rateBytesPerSec", must: "must be from 8bit to 8000gbit" };
  }
  if (config.seed !== null && !isWhole(config.seed, 0, Number.MAX_SAFE_INTEGER)) {
    return { field: "seed", must: "must be an integer from 0 to 9007199254740991" };
  }
  if (config.compat !== null && config.compat !== "linux") return { field: "compat", must: 'must be "linux"' };
  return null;
}

function checkParts({ distribution, lossState, lossGemodel, slot, trace, delivery }: NetemConfig): NetemProblem | null {
  if (!isDistribution(distribution)) return { field: "distribution", must: DISTRIBUTION_MUST };
  const state = lossState === null ? null : stateProblem(lossState);
  if (state !== null) return { field: "lossState", must: state };
  if (lossGemodel !== null && !isGemodel(lossGemodel)) {
    return { field: "lossGemodel", must: "must be four probabilities from 0 to 100% (p, r, 1-h, 1-k)" };
  }
  const slots = slot === null ? null : slotProblem(slot);
  if (slots !== null) return { field: "slot", must: slots };
  const traced = trace === null ? null : traceProblem(trace);
  if (traced !== null) return { field: "trace", must: traced };
  const delivered = delivery === null ? null : deliveryProblem(delivery);
  return delivered === null ? null : { field: "delivery", must: delivered };
}

const DISTRIBUTION_MUST = `must be ${DISTRIBUTION_NAMES.join(", ")}, or a name with 1 to ${DISTRIBUTION_ENTRIES_MAX} ` +
  "integers from -32768 to 32767";

function isDistribution(distribution: NetemDistribution): boolean {
  if (typeof distribution === "string") return DISTRIBUTION_NAMES.includes(distribution);
  const { name, values } = distribution ?? {};
  return isName(name) && Array.isArray(values) && values.length > 0 && values.length <= DISTRIBUTION_ENTRIES_MAX &&
    values.every((value) => isWhole(value, -32_768, 32_767));
}

/** True if `name` can stand in the text of an impairment. */
function isName(name: unknown): boolean {
  return typeof name === "string" && /^\S+$/.test(name);
}

function stateProblem({ p13, p31, p32, p23, p14 }: LossState): string | null {
  if (![p13, p31, p32, p23, p14].every(isProbability)) {
    return "must be five probabilities from 0 to 100% (p13, p31, p32, p23, p14)";
  }
  if (p13 + p14 > 1) return "must leave good with at most 100% (p13 + p14)";
  if (p31 + p32 > 1) return "must leave lost in a burst with at most 100% (p31 + p32)";
  return null;
}

function isGemodel({ p, r, badLoss, goodLoss }: LossGemodel): boolean {
  return [p, r, badLoss, goodLoss].every(isProbability);
}

function slotProblem({ min, max, distribution, delay, jitter, packets, bytes }: NetemSlot): string | null {
  if (![min, max, delay, jitter].every((time) => isWhole(time, 0, DELAY_MAX))) {
    return "must have times from 0 to 86400s in whole nanoseconds";
  }
  if (![packets, bytes].every((n) => isWhole(n, 0, 2 ** 31 - 1))) return "must have numbers from 0 to 2147483647";
  if (distribution === null) {
    if (max < min) return "must not be longer at the least than at the most";
    if (max === 0) return "must have a time above 0";
  } else {
    if (!isDistribution(distribution)) return `needs a distribution, which ${DISTRIBUTION_MUST}`;
    if (delay === 0) return "must have a delay above 0";
  }
  return null;
}

function checkTogether(config: NetemConfig): NetemProblem | null {
  const { trace, delivery } = config;
  if (trace !== null) {
    for (const field of ["delay", "jitter", "loss", "lossCorrelation", "rateBytesPerSec"] as const) {
      if (config[field] !== 0) return { field, must: "must be left out: the trace says it" };
    }
    for (const field of ["lossState", "lossGemodel", "delivery"] as const) {
      if (config[field] !== null) return { field, must: "must be left out: the trace says it" };
    }
  }
  if (delivery !== null && config.rateBytesPerSec !== 0) {
    return { field: "rateBytesPerSec", must: "must be left out: the times of delivery say it" };
  }
  if (config.lossState !== null && (config.loss !== 0 || config.lossGemodel !== null)) {
    return { field: "lossState", must: "must be the only loss" };
  }
  if (config.lossGemodel !== null && config.loss !== 0) {
    return { field: "lossGemodel", must: "must be the only loss" };
  }
  if (config.jitter > config.delay && config.compat === null) {
    return { field: "jitter", must: "must not exceed the delay (no packet arrives before it was sent)" };
  }
  if (config.reorder > 0 && config.delay === 0 && trace === null) {
    return { field: "reorder", must: "needs a delay for other packets to go ahead of" };
  }
  if (config.ecn && !hasLoss(config)) return { field: "ecn", must: "needs a loss to mark packets instead of" };
  return null;
}

/** True if packets can be lost. */
export function hasLoss({ loss, lossState, lossGemodel, trace }: NetemConfig): boolean {
  return loss > 0 || lossState !== null || lossGemodel !== null || trace !== null;
}

function checkCompat(config: NetemConfig): NetemProblem | null {
  if (config.compat === null) return null;
  for (const field of ["keepOrder", "trace", "delivery"] as const) {
    if (config[field]) return { field, must: "must be left out: Linux does not have it" };
  }
  return null;
}

/** What is allowed and yet rarely meant, each by the field that it is about. */
export function netemWarnings(config: NetemConfig): NetemProblem[] {
  const { delay, jitter, rateBytesPerSec, limit, compat } = config;
  const warnings: NetemProblem[] = [];
  const warn = (field: keyof NetemConfig, must: string) => void warnings.push({ field, must });
  if (jitter > 0 && rateBytesPerSec === 0 && config.delivery === null && !config.keepOrder) {
    warn("jitter", 'makes packets overtake each other: "jitter keep-order" or a rate prevents that');
  }
  if (jitter === 0 && config.distribution !== "uniform") warn("distribution", "does nothing without a jitter");
  const inFlight = Math.ceil(rateBytesPerSec * delay / SECOND / 1500);
  if (inFlight >= limit) {
    warn("limit", `is full with packets in flight: the rate times the delay are ${inFlight} packets of 1500 bytes`);
  }
  if (compat === null) return warnings;
  if (jitter > delay) warn("jitter", "exceeds the delay: Linux sends a packet that is due in the past at once");
  if (jitter > LINUX_JITTER_MAX) warn("jitter", "is cut off at 2147483647ns by Linux");
  if (config.lossCorrelation > 0) {
    warn("lossCorrelation", "changes the loss itself in Linux, which averages draws: 1% with 25% loses almost nothing");
  }
  return warnings;
}
