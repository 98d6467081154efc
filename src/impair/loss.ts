/**
 * Loss, or a congestion mark in its place: independent or correlated, or by a Markov chain.
 *
 * A model says of each packet whether it is to be lost; what comes of that is the same for all. The models that have a
 * state draw a fixed number of times a packet.
 *
 * References: S. Salsano et al., Definition of a general and intuitive loss model for packet networks and its
 * implementation in the Netem module in the Linux kernel (2012); E. O. Elliott, Bell System Technical Journal 42 (1963).
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import { markCe } from "../wire/ip_header.ts";
import type { LossGemodel, LossState, NetemConfig } from "./config.ts";
import type { Chance, UniformSource } from "./draw.ts";
import type { Impairment, Verdict } from "./impairment.ts";

/** Says of one packet after the other whether it is to be lost. */
export interface LossModel {
  /** Whether the next packet is to be lost. */
  loses(): boolean;
}

/** Packets are lost at random. */
export class RandomLoss implements LossModel {
  readonly #chance: Chance;

  /** Loses when `chance` says so. */
  constructor(chance: Chance) {
    this.#chance = chance;
  }

  /** Draws once. */
  loses(): boolean {
    return this.#chance.happens();
  }
}

/** The states of {@linkcode StateLoss}; the first is where it begins. */
enum State {
  Good = 1,
  BurstGood,
  BurstLost,
  LostAlone,
}

/** The model of four states; a packet is lost by the state that it leads to. */
export class StateLoss implements LossModel {
  /** The probabilities of change. */
  parameters: LossState;
  readonly #rng: UniformSource;
  #state = State.Good;

  /** Begins in the good state. */
  constructor(parameters: LossState, rng: UniformSource) {
    this.parameters = parameters;
    this.#rng = rng;
  }

  /** Draws once and goes to the next state. */
  loses(): boolean {
    const { p13, p31, p32, p23, p14 } = this.parameters;
    const r = this.#rng.unit();
    switch (this.#state) {
      case State.Good:
        if (r < p14) this.#state = State.LostAlone;
        else if (r < p14 + p13) this.#state = State.BurstLost;
        break;
      case State.BurstGood:
        if (r < p23) this.#state = State.BurstLost;
        break;
      case State.BurstLost:
        if (r < p32) this.#state = State.BurstGood;
        else if (r < p32 + p31) this.#state = State.Good;
        break;
      case State.LostAlone:
        this.#state = State.Good;
        break;
    }
    return this.#state === State.BurstLost || this.#state === State.LostAlone;
  }
}

/** The model of Gilbert and Elliott; a packet is lost by the state in which it comes. */
export class GemodelLoss implements LossModel {
  /** The probabilities of change and of loss. */
  parameters: LossGemodel;
  readonly #rng: UniformSource;
  readonly #isLinux: boolean;
  #isBad = false;

  /**
   * Begins in the good state.
   *
   * @param isLinux in the bad state the highest draws lose, as in Linux, which compares with h where tc says 1-h (default
   * false: always the lowest)
   */
  constructor(parameters: LossGemodel, rng: UniformSource, isLinux = false) {
    this.parameters = parameters;
    this.#rng = rng;
    this.#isLinux = isLinux;
  }

  /** Draws twice: for the state of the next packet, then for this packet by the state before. */
  loses(): boolean {
    const wasBad = this.#isBad;
    if (this.#changes(wasBad)) this.#isBad = !wasBad;
    return this.#losesIn(wasBad);
  }

  #changes(isBad: boolean): boolean {
    const { p, r } = this.parameters;
    return this.#rng.unit() < (isBad ? r : p);
  }

  #losesIn(isBad: boolean): boolean {
    const { badLoss, goodLoss } = this.parameters;
    const draw = this.#rng.unit();
    if (!isBad) return draw < goodLoss;
    return this.#isLinux ? draw > 1 - badLoss : draw < badLoss;
  }
}

/** Loses packets as a model says, or marks them. */
export class Loss implements Impairment {
  /** The model. */
  model: LossModel;
  /** Packets that can be marked are marked instead. */
  ecn: boolean;

  /** Begins with `model`. */
  constructor(model: LossModel, ecn: boolean) {
    this.model = model;
    this.ecn = ecn;
  }

  /** Takes one copy away, so that a packet both duplicated and lost arrives once; or marks it. */
  apply(p: Packet, verdict: Verdict): void {
    if (!this.model.loses()) return;
    verdict.lost = true;
    if (this.ecn && markCe(p.view, p.start, p.end)) verdict.marked = true;
    else verdict.copies--;
  }
}

/**
 * The share of packets that the model of `config` loses in the long run; `null` if that changes with time, and for what
 * Linux makes of a correlation.
 */
export function expectedLoss(config: NetemConfig): number | null {
  const { loss, lossCorrelation, lossState, lossGemodel, trace, compat } = config;
  if (trace !== null || (compat !== null && lossCorrelation > 0)) return null;
  if (lossState !== null) return expectedStateLoss(lossState);
  if (lossGemodel === null) return loss;
  const { p, r, badLoss, goodLoss } = lossGemodel;
  return p + r === 0 ? goodLoss : (r * goodLoss + p * badLoss) / (p + r);
}

function expectedStateLoss({ p13, p31, p32, p23, p14 }: LossState): number {
  if (p13 === 0) return p14 / (1 + p14);
  // A chain that never leaves its bursts is in them for ever; one that never leaves their middle, loses nothing then.
  if (p31 === 0) return p32 === 0 ? 1 : p23 / (p32 + p23);
  if (p23 === 0 && p32 > 0) return 0;
  const bursts = p13 / p31;
  const within = p32 === 0 ? 0 : p32 / p23;
  return (bursts + p14) / (1 + bursts * (1 + within) + p14);
}
