/**
 * The configuration of an impairment, in netem's terms.
 *
 * What is meant is what the words say, not what Linux makes of them: a correlation leaves the probability, or the
 * distribution of the delay, as it is (draw.ts), and a copy is not impaired again. With `compat` the stage does what
 * Linux does, faults included (linux_decisions.ts).
 *
 * What is wrong with a configuration is said by check.ts.
 *
 * @module
 */

import type { Duration } from "../base/time.ts";
import { checkNetem } from "./check.ts";
import type { TraceRow } from "./trace.ts";

/** A distribution of one's own. */
export interface DistributionTable {
  /** What it is called in the text: the name of its file. */
  readonly name: string;
  /** Its inverse in 8,192ths of the jitter, −32,768 to 32,767, at most 16,384 entries. */
  readonly values: readonly number[];
}

/** How jitter is distributed. */
export type NetemDistribution = "uniform" | "normal" | "pareto" | "paretonormal" | DistributionTable;

/**
 * The loss model of four states: 1 between bursts, 2 within a burst, 3 within a burst and lost, 4 lost alone. `pNM` is
 * the probability with which a packet goes from state N to state M.
 */
export interface LossState {
  /** From good to a burst of losses. */
  readonly p13: number;
  /** From lost in a burst to good. */
  readonly p31: number;
  /** From lost in a burst to received in a burst. */
  readonly p32: number;
  /** From received in a burst to lost in a burst. */
  readonly p23: number;
  /** From good to a loss alone. */
  readonly p14: number;
}

/** The loss model of Gilbert and Elliott: two states, each with a probability of loss. */
export interface LossGemodel {
  /** From good to bad. */
  readonly p: number;
  /** From bad to good. */
  readonly r: number;
  /** Probability of loss in the bad state: tc's 1-h. */
  readonly badLoss: number;
  /** Probability of loss in the good state: tc's 1-k. */
  readonly goodLoss: number;
}

/** Packets leave in slots: a link that is granted to us from time to time. */
export interface NetemSlot {
  /** Least time to the next slot, in ns; unless there is a distribution. */
  readonly min: Duration;
  /** Longest time to the next slot, in ns. */
  readonly max: Duration;
  /** How the time to the next slot is distributed around `delay`; `null` for uniform from `min` to `max`. */
  readonly distribution: NetemDistribution | null;
  /** Middle of the distribution, in ns. */
  readonly delay: Duration;
  /** Jitter of the distribution, in ns. */
  readonly jitter: Duration;
  /** The most packets of a slot; 0 for any number. */
  readonly packets: number;
  /** Bytes after which a slot ends, at a whole packet; 0 for any number. */
  readonly bytes: number;
}

/** A recording of delay, loss and rate over time, which takes their place. */
export interface NetemTrace {
  /** What it is called in the text: the name of its file. */
  readonly name: string;
  /** What holds from when, in order. */
  readonly rows: readonly TraceRow[];
  /** Begin anew at the time of the last row; otherwise that row holds for ever. */
  readonly loop: boolean;
}

/** A recording of when a link delivered packets, in Mahimahi's form; it takes the place of the rate, and repeats. */
export interface NetemDelivery {
  /** What it is called in the text: the name of its file. */
  readonly name: string;
  /** Times at which 1,504 bytes can be delivered, in ms, not descending; the last one is the period. */
  readonly opportunities: readonly number[];
}

/** What an impairment does to the packets of one direction. Probabilities and correlations are fractions, 0 to 1. */
export interface NetemConfig {
  /** The most packets held (default 1,000); those on their way count too. */
  limit: number;
  /** Delay of each packet in ns (default 0). */
  delay: Duration;
  /** How far the delay strays, in ns (default 0): see `distribution`. Without a rate it reorders. */
  jitter: Duration;
  /** Correlation of the ranks of neighbouring delays (default 0). */
  delayCorrelation: number;
  /** How the delay strays (default `"uniform"`: from `delay − jitter` to just below `delay + jitter`). */
  distribution: NetemDistribution;
  /** Packets do not overtake each other because of jitter: each waits for the one before (default false). */
  keepOrder: boolean;
  /** Probability that a packet is lost (default 0). */
  loss: number;
  /** Correlation of neighbouring losses (default 0). */
  lossCorrelation: number;
  /** The model of four states in place of `loss`, or `null` (default). */
  lossState: LossState | null;
  /** The model of Gilbert and Elliott in place of `loss`, or `null` (default). */
  lossGemodel: LossGemodel | null;
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
  /** Packets leave in slots, or `null` (default). */
  slot: NetemSlot | null;
  /** Seed of all random draws of this impairment, 0 to 2^53 − 1; `null` (default) for that of the host. */
  seed: number | null;
  /** Delay, loss and rate from a recording, or `null` (default). */
  trace: NetemTrace | null;
  /** Times of delivery from a recording, or `null` (default). */
  delivery: NetemDelivery | null;
  /** `"linux"` to do what Linux does even where it is wrong; `null` (default) for what the words say. */
  compat: "linux" | null;
}

/** A configuration that impairs nothing: the default of every field. */
export const NETEM_DEFAULTS: Readonly<NetemConfig> = Object.freeze({
  limit: 1000,
  delay: 0,
  jitter: 0,
  delayCorrelation: 0,
  distribution: "uniform",
  keepOrder: false,
  loss: 0,
  lossCorrelation: 0,
  lossState: null,
  lossGemodel: null,
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
  slot: null,
  seed: null,
  trace: null,
  delivery: null,
  compat: null,
});

/**
 * Completes a configuration with the defaults and checks it.
 *
 * @param fields what differs from {@linkcode NETEM_DEFAULTS}; one that is `undefined` does not
 * @throws {RangeError} naming the field and what it must be, or a field that there is not
 * @throws {TypeError} if `fields` is no object of fields
 */
export function netemConfig(fields: Partial<NetemConfig>): NetemConfig {
  if (typeof fields !== "object" || fields === null || Array.isArray(fields)) {
    throw new TypeError(`an impairment must be an object of netem's fields, got ${JSON.stringify(fields)}`);
  }
  const config: NetemConfig = { ...NETEM_DEFAULTS };
  for (const [field, value] of Object.entries(fields)) {
    if (!Object.hasOwn(NETEM_DEFAULTS, field)) {
      throw new RangeError(`there is no "${field}" in netem: expected ${Object.keys(NETEM_DEFAULTS).join(", ")}`);
    }
    if (value !== undefined) Object.assign(config, { [field]: value });
  }
  const problem = checkNetem(config);
  if (problem === null) return config;
  const value: unknown = config[problem.field];
  const isPlain = value === null || (typeof value !== "object" && typeof value !== "function");
  throw new RangeError(`netem ${problem.field} ${problem.must}${isPlain ? `, got ${String(value)}` : ""}`);
}
