/**
 * The decisions as Linux makes them, for `compat linux`.
 *
 * All of them draw from one generator, each only where Linux draws: so adding one part shifts the draws of all others,
 * and with the same seed the uncorrelated draws are those of a kernel from 6.5 on. Correlated draws are averaged in
 * 32-bit fixed point, which squeezes them towards one half; small probabilities then almost vanish. The jitter is the
 * remainder of such a draw, which undoes most of its correlation, except for jitters of about a second. A delay may be
 * negative. What Linux takes from elsewhere than its seed (which bit is flipped, where an averaged draw begins) comes
 * from a stream of its own here, so that runs repeat.
 *
 * References: net/sched/sch_netem.c (6.12).
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import type { Rng } from "../base/rng.ts";
import type { Duration } from "../base/time.ts";
import { hasLoss } from "./check.ts";
import { NETEM_DEFAULTS, type NetemConfig } from "./config.ts";
import { Corrupt } from "./corrupt.ts";
import { DISTRIBUTION_SCALE, distributionTable } from "./distribution.ts";
import type { Chance } from "./draw.ts";
import { Duplicate } from "./duplicate.ts";
import type { Decisions, Verdict } from "./impairment.ts";
import { Lfsr113 } from "./lfsr113.ts";
import { GemodelLoss, Loss, RandomLoss, StateLoss } from "./loss.ts";

const UINT32_MAX = 2 ** 32 - 1;
const JITTER_MAX: Duration = 2 ** 31 - 1;

/** Draws from the one generator, each averaged with the one before. */
class AveragedDraw {
  readonly #prng: Lfsr113;
  #last: number;
  #weight = 1;

  constructor(prng: Lfsr113, last: number) {
    this.#prng = prng;
    this.#last = last;
  }

  set correlation(correlation: number) {
    this.#weight = Math.round(correlation * UINT32_MAX) + 1;
  }

  next(): number {
    const value = this.#prng.u32();
    if (this.#weight === 1) return value;
    // value + floor((last − value) · weight / 2^32), the product in two halves, each of them exact.
    const difference = this.#last - value;
    const high = Math.floor(this.#weight / 65_536);
    const low = this.#weight % 65_536;
    this.#last = value + Math.floor((difference * high + Math.floor(difference * low / 65_536)) / 65_536);
    return this.#last;
  }
}

/** Happens if a draw does not exceed the probability. */
class LinuxChance implements Chance {
  readonly #draw: AveragedDraw;
  #probability = 0;

  constructor(draw: AveragedDraw) {
    this.#draw = draw;
  }

  set(probability: number, correlation: number): void {
    this.#probability = Math.round(probability * UINT32_MAX);
    this.#draw.correlation = correlation;
  }

  happens(): boolean {
    return this.#probability > 0 && this.#probability >= this.#draw.next();
  }
}

/** The parts, Linux's way. */
export class LinuxDecisions implements Decisions {
  readonly #prng: Lfsr113;
  readonly #duplicateChance: LinuxChance;
  readonly #lossChance: LinuxChance;
  readonly #corruptChance: LinuxChance;
  readonly #reorderChance: LinuxChance;
  readonly #delayDraw: AveragedDraw;
  readonly #duplicate: Duplicate;
  readonly #loss: Loss;
  readonly #corrupt: Corrupt;
  #config: NetemConfig = NETEM_DEFAULTS;
  #loses = false;
  #table: Int16Array | null = null;
  #counter = 0;

  /**
   * Begins as Linux does with `seed`.
   *
   * @param rng for the seed, if there is none, and for what Linux takes from elsewhere
   */
  constructor(rng: Rng, seed: number | null) {
    const own = rng.fork("linux");
    const prng = this.#prng = new Lfsr113(seed ?? own.u32());
    const averaged = () => new AveragedDraw(prng, own.u32());
    this.#duplicateChance = new LinuxChance(averaged());
    this.#lossChance = new LinuxChance(averaged());
    this.#corruptChance = new LinuxChance(averaged());
    this.#reorderChance = new LinuxChance(averaged());
    this.#delayDraw = averaged();
    this.#duplicate = new Duplicate(this.#duplicateChance);
    this.#loss = new Loss(new RandomLoss(this.#lossChance), false);
    this.#corrupt = new Corrupt(this.#corruptChance, own.fork("bit"));
  }

  /** Decides by `config` from now on. */
  change(config: NetemConfig): void {
    const { lossState, lossGemodel } = config;
    this.#config = config;
    this.#loses = hasLoss(config);
    this.#table = distributionTable(config.distribution);
    this.#duplicateChance.set(config.duplicate, config.duplicateCorrelation);
    this.#lossChance.set(config.loss, config.lossCorrelation);
    this.#corruptChance.set(config.corrupt, config.corruptCorrelation);
    this.#reorderChance.set(config.reorder, config.reorderCorrelation);
    this.#delayDraw.correlation = config.delayCorrelation;
    this.#loss.ecn = config.ecn;
    // Linux begins a loss model anew at each change.
    this.#loss.model = lossState !== null
      ? new StateLoss(lossState, this.#prng)
      : lossGemodel !== null
      ? new GemodelLoss(lossGemodel, this.#prng, true)
      : new RandomLoss(this.#lossChance);
  }

  /** Linux has no recordings. */
  follow(_delay: Duration, _loss: number): void {}

  /** Duplicate, unless this is a copy; lose or mark; corrupt what is left. */
  fate(p: Packet, verdict: Verdict, isCopy: boolean): void {
    if (!isCopy && this.#config.duplicate > 0) this.#duplicate.apply(p, verdict);
    if (this.#loses) this.#loss.apply(p, verdict);
    if (verdict.copies > 0 && this.#config.corrupt > 0) this.#corrupt.apply(p, verdict);
  }

  /** Reorder; else delay. */
  timing(_p: Packet, verdict: Verdict): void {
    const { reorder, gap } = this.#config;
    if (reorder > 0 && this.#counter >= gap - 1 && this.#reorderChance.happens()) {
      this.#counter = 0;
      verdict.ahead = true;
      return;
    }
    this.#counter++;
    verdict.delay = this.#delay();
  }

  #delay(): Duration {
    const { delay } = this.#config;
    const jitter = Math.min(this.#config.jitter, JITTER_MAX);
    if (jitter === 0) return delay;
    const draw = this.#delayDraw.next();
    if (this.#table === null) return draw % (2 * jitter) + delay - jitter;
    const entry = this.#table[draw % this.#table.length]!;
    const low = (jitter % DISTRIBUTION_SCALE) * entry;
    const half = low >= 0 ? DISTRIBUTION_SCALE / 2 : -DISTRIBUTION_SCALE / 2;
    return Math.trunc((low + half) / DISTRIBUTION_SCALE) + Math.floor(jitter / DISTRIBUTION_SCALE) * entry + delay;
  }
}
