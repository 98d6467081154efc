/**
 * The decisions as they are asked for, each part with a random stream of its own.
 *
 * Parts are made once. Changing the configuration changes their parameters: their streams go on, and so do the states
 * of loss models and the count of a gap. A part that is switched off draws nothing.
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import type { Rng } from "../base/rng.ts";
import type { Duration } from "../base/time.ts";
import { hasLoss } from "./check.ts";
import { NETEM_DEFAULTS, type NetemConfig } from "./config.ts";
import { Corrupt } from "./corrupt.ts";
import { Delay } from "./delay.ts";
import { RandomChance, RandomRanks } from "./draw.ts";
import { Duplicate } from "./duplicate.ts";
import type { Decisions, Verdict } from "./impairment.ts";
import { GemodelLoss, Loss, type LossModel, RandomLoss, StateLoss } from "./loss.ts";
import { Reorder } from "./reorder.ts";

/** The parts. */
export class OwnDecisions implements Decisions {
  readonly #lossRng: Rng;
  readonly #duplicateChance: RandomChance;
  readonly #lossChance: RandomChance;
  readonly #corruptChance: RandomChance;
  readonly #reorderChance: RandomChance;
  readonly #duplicate: Duplicate;
  readonly #loss: Loss;
  readonly #corrupt: Corrupt;
  readonly #reorder: Reorder;
  readonly #delay: Delay;
  #config: NetemConfig = NETEM_DEFAULTS;
  #duplicates = false;
  #loses = false;
  #corrupts = false;
  #reorders = false;
  #delays = false;

  /** Forks `rng` under the names of the parts. */
  constructor(rng: Rng) {
    const corruptRng = rng.fork("corrupt");
    const delayRng = rng.fork("delay");
    this.#lossRng = rng.fork("loss");
    this.#duplicateChance = new RandomChance(rng.fork("duplicate"));
    this.#lossChance = new RandomChance(this.#lossRng);
    this.#corruptChance = new RandomChance(corruptRng);
    this.#reorderChance = new RandomChance(rng.fork("reorder"));
    this.#duplicate = new Duplicate(this.#duplicateChance);
    this.#loss = new Loss(new RandomLoss(this.#lossChance), false);
    this.#corrupt = new Corrupt(this.#corruptChance, corruptRng.fork("bit"));
    this.#reorder = new Reorder(this.#reorderChance);
    this.#delay = new Delay(new RandomRanks(delayRng), new RandomRanks(delayRng.fork("copy")));
  }

  /** Decides by `config` from now on. */
  change(config: NetemConfig): void {
    this.#config = config;
    this.#duplicates = config.duplicate > 0;
    this.#loses = hasLoss(config);
    this.#corrupts = config.corrupt > 0;
    this.#reorders = config.reorder > 0;
    this.#delays = config.delay > 0 || config.trace !== null;
    this.#duplicateChance.set(config.duplicate, config.duplicateCorrelation);
    this.#lossChance.set(config.loss, config.lossCorrelation);
    this.#corruptChance.set(config.corrupt, config.corruptCorrelation);
    this.#reorderChance.set(config.reorder, config.reorderCorrelation);
    this.#loss.model = this.#lossModel(config);
    this.#loss.ecn = config.ecn;
    this.#reorder.gap = config.gap;
    this.#delay.set(config.delay, config.jitter, config.delayCorrelation, config.distribution);
  }

  /** From now on `delay` and `loss` hold. */
  follow(delay: Duration, loss: number): void {
    this.#lossChance.set(loss, 0);
    this.#delay.set(delay, 0, 0, this.#config.distribution);
  }

  /** Duplicate, lose or mark, corrupt. */
  fate(p: Packet, verdict: Verdict): void {
    if (this.#duplicates) this.#duplicate.apply(p, verdict);
    if (this.#loses) this.#loss.apply(p, verdict);
    if (this.#corrupts) this.#corrupt.apply(p, verdict);
  }

  /** Reorder, delay. */
  timing(p: Packet, verdict: Verdict): void {
    if (this.#reorders) this.#reorder.apply(p, verdict);
    if (this.#delays) this.#delay.apply(p, verdict);
  }

  #lossModel({ lossState, lossGemodel }: NetemConfig): LossModel {
    const { model } = this.#loss;
    if (lossState !== null) {
      if (!(model instanceof StateLoss)) return new StateLoss(lossState, this.#lossRng);
      model.parameters = lossState;
    } else if (lossGemodel !== null) {
      if (!(model instanceof GemodelLoss)) return new GemodelLoss(lossGemodel, this.#lossRng);
      model.parameters = lossGemodel;
    } else if (!(model instanceof RandomLoss)) {
      return new RandomLoss(this.#lossChance);
    }
    return model;
  }
}
