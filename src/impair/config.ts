/**
 * The configuration of an impairment, in netem's terms.
 *
 * Correlations mean something else than in Linux. There each draw is averaged with the one before, which squeezes the
 * distribution towards its middle: a loss of 1 % with a correlation of 25 % loses almost nothing. Here a draw repeats
 * the one before with probability `correlation`, so that neighbouring decisions have exactly that correlation and the
 * configured probability, or the distribution of the delay, stays what it is.
 *
 * @module
 */

import { type Duration, SECOND } from "../base/time.ts";

/** What an impairment does to the packets of one direction. Probabilities and correlations are fractions, 0 to 1. */
export interface NetemConfig {
  /** The most packets held (default 1,000); those on their way count too. */
  limit: number;
  /** Delay of each packet in ns (default 0). */
  delay: Duration;
  /** Half the width of the uniform distribution around `delay`, in ns (default 0). Without a rate it reorders. */
  jitter: Duration;
  /** Correlation of neighbouring delays (default 0). */
  delayCorrelation: number;
  /** Probability that a packet is lost (default 0). */
  loss: number;
  /** Correlation of neighbouring losses (default 0). */
  lossCorrelation: number;
  /** Mark CE instead of losing a packet, if its sender is ECN-capable (default false). */
  ecn: boolean;
  /** Probability that a packet arrives twice (default 0). */
  duplicate: number;
  /** Correlation of neighbouring duplications (default 0). */
  duplicateCorrelation: number;
  /** Probability that a packet goes ahead without any delay (default 0). */
  reorder: number;
  /** Correlation of neighbouring reorderings (default 0). */
  reorderCorrelation: number;
  /** Only each `gap`-th packet may go ahead (default 1). */
  gap: number;
  /** Probability that one bit of a packet is flipped (default 0). */
  corrupt: number;
  /** Correlation of neighbouring corruptions (default 0). */
  corruptCorrelation: number;
  /** Rate of the link; 0 for unlimited (default). */
  rateBytesPerSec: number;
  /** Bytes that each packet has on the link beyond its own; may be negative (default 0). */
  packetOverheadBytes: number;
  /** Size of the link's cells; 0 for none (default). */
  cellBytes: number;
  /** Bytes that each cell has beyond its size; may be negative (default 0). */
  cellOverheadBytes: number;
}

/** A configuration that impairs nothing: the default of every field. */
export const NETEM_DEFAULTS: Readonly<NetemConfig> = Object.freeze({
  limit: 1000,
  delay: 0,
  jitter: 0,
  delayCorrelation: 0,
  loss: 0,
  lossCorrelation: 0,
  ecn: false,
  duplicate: 0,
  duplicateCorrelation: 0,
  reorder: 0,
  reorderCorrelation: 0,
  gap: 1,
  corrupt: 0,
  corruptCorrelation: 0,
  rateBytesPerSec: 0,
  packetOverheadBytes: 0,
  cellBytes: 0,
  cellOverheadBytes: 0,
});

/** What is wrong with a configuration. */
export interface NetemProblem {
  /** The field that is wrong. */
  field: keyof NetemConfig;
  /** What it must be, as the end of a sentence that begins with the field: `"must be …"`. */
  must: string;
}

/** The longest delay: a day. */
const DELAY_MAX: Duration = 86_400 * SECOND;

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

/** Looks for the first thing that is wrong with `config`; `null` if nothing is. */
export function netemProblem(config: NetemConfig): NetemProblem | null {
  for (const [field, least, most] of INTEGER_RANGES) {
    const value = config[field];
    if (!Number.isInteger(value) || Number(value) < least || Number(value) > most) {
      return { field, must: `must be an integer from ${least} to ${most}` };
    }
  }
  for (const field of PROBABILITIES) {
    if (!(config[field] >= 0 && config[field] <= 1)) return { field, must: "must be a probability from 0 to 100%" };
  }
  for (const field of CORRELATIONS) {
    if (!(config[field] >= 0 && config[field] < 1)) {
      return { field, must: "must be from 0 to below 100% (at 100% the first draw would be the only one)" };
    }
  }
  const rate = config.rateBytesPerSec;
  if (rate !== 0 && !(rate >= 1 && rate <= 1e12)) {
    return { field: "rateBytesPerSec", must: "must be from 8bit to 8000gbit" };
  }
  if (config.jitter > config.delay) {
    return { field: "jitter", must: "must not exceed the delay (no packet arrives before it was sent)" };
  }
  if (config.reorder > 0 && config.delay === 0) {
    return { field: "reorder", must: "needs a delay for other packets to go ahead of" };
  }
  if (config.ecn && config.loss === 0) return { field: "ecn", must: "needs a loss to mark packets instead of" };
  return null;
}

/**
 * Completes a configuration with the defaults and checks it.
 *
 * @param fields what differs from {@linkcode NETEM_DEFAULTS}
 * @throws {RangeError} naming the field and what it must be
 */
export function netemConfig(fields: Partial<NetemConfig>): NetemConfig {
  const config = { ...NETEM_DEFAULTS, ...fields };
  const problem = netemProblem(config);
  if (problem === null) return config;
  throw new RangeError(`netem ${problem.field} ${problem.must}, got ${config[problem.field]}`);
}
