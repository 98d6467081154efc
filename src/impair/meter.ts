/**
 * What an impaired link was asked for and what it gave.
 *
 * The delay is measured from when a packet came until it was pulled, so it also has in it how late that was. `own` is
 * what the delay would have been without waiting for the link, for a slot or for packets ahead: that is what was asked
 * for, and can be compared with it. The rate is measured while the link was busy: over the packets that were ready when
 * the one before them left. Reordering is that of RFC 4737: packets that arrive after one that was sent later; copies do
 * not count.
 *
 * What always holds: memory is bounded; nothing is allocated a packet, once each size of delay has occurred.
 *
 * References: RFC 4737 section 3.
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import { type Duration, type Instant, SECOND } from "../base/time.ts";
import type { NetemConfig } from "./config.ts";
import { DeliveryPlayer } from "./delivery.ts";
import { jitterMoments, jitterQuantile } from "./distribution.ts";
import { RatioEstimate } from "./estimate.ts";
import { formatNetem } from "./format.ts";
import { DurationHistogram } from "./histogram.ts";
import type { Verdict } from "./impairment.ts";
import { expectedLoss } from "./loss.ts";

/** A share or a rate: what was asked for, what was given, and how far that may be from the truth. */
export interface NetemFigure {
  /** What was asked for; `null` if that follows from the traffic or changes with time. */
  asked: number | null;
  /** What was given; `null` if there was nothing to measure. */
  given: number | null;
  /** Standard error of what was given, neighbours being alike or not; `null` if there was too little. */
  standardError: number | null;
  /** Packets measured. */
  packets: number;
}

/** A distribution of durations, in ns. */
export interface NetemDelays {
  /** Mean. */
  mean: Duration;
  /** Standard deviation. */
  sd: Duration;
  /** Quantiles by their share in percent. */
  quantiles: Record<"p1" | "p10" | "p50" | "p90" | "p99" | "p99.9", Duration>;
}

/** What an impairment was asked for and what it gave. */
export interface NetemReport {
  /** What was asked for, as text. */
  netem: string;
  /** When the measurement began, with the first packet or the last change, in ns; −1 before that. */
  since: Instant;
  /** Packets that came; the copies too if these are decided about like packets of their own. */
  pushed: number;
  /** Packets that left of those that came since. */
  pulled: number;
  /** Delay without waiting for the link, for slots or for packets ahead. */
  own: {
    /** What was asked for; `null` if it changes with time. */
    asked: NetemDelays | null;
    /** What was given; `null` if no packet left. */
    given: NetemDelays | null;
    /** Standard errors of what was given; `null` if there was too little. */
    standardError: NetemDelays | null;
  };
  /** Delay with all waiting; `null` if no packet left. */
  total: NetemDelays | null;
  /** How late packets were pulled; `null` if no packet left. */
  late: NetemDelays | null;
  /** Share of packets that were lost, or marked instead. */
  loss: NetemFigure;
  /** Share of packets that were duplicated. */
  duplicate: NetemFigure;
  /** Share of packets that were corrupted, of those not lost. */
  corrupt: NetemFigure;
  /** Share of packets that went ahead, of those not lost. */
  ahead: NetemFigure;
  /** Share of packets that arrived after one that was sent later. */
  reordered: NetemFigure;
  /** Rate while the link was busy, in bytes per second, without overheads. */
  rate: NetemFigure;
  /** How near the link is to its limits. */
  saturation: {
    /** Packets held now, as a share of the limit. */
    queue: number;
    /** The most packets held, as a share of the limit. */
    queuePeak: number;
    /** Share of the time in which the link was busy; `null` if it has no rate. */
    link: number | null;
    /** Packets that the limit refused. */
    refused: number;
  };
}

const SHARES = { p1: 0.01, p10: 0.1, p50: 0.5, p90: 0.9, p99: 0.99, "p99.9": 0.999 } as const;
type Share = keyof typeof SHARES;

/** Measures one impairment from `since` on: what came before does not count. */
export class Meter {
  #since: Instant;
  readonly #own = new DurationHistogram();
  readonly #total = new DurationHistogram();
  readonly #late = new DurationHistogram();
  readonly #ownMean = new RatioEstimate();
  readonly #lost = new RatioEstimate();
  readonly #duplicated = new RatioEstimate();
  readonly #corrupted = new RatioEstimate();
  readonly #ahead = new RatioEstimate();
  readonly #reordered = new RatioEstimate();
  readonly #rate = new RatioEstimate();
  #peak = 0;
  #refused = 0;
  #busy: Duration = 0;
  #lastOrder = 0;
  #lastRelease: Instant = -1;
  #lastPull: Instant = 0;

  /** Begins at `since`. */
  constructor(since: Instant) {
    this.#since = since;
  }

  /** Begins at `since` instead. */
  begin(since: Instant): void {
    this.#since = since;
  }

  /** The fate of a packet was decided, whether or not there is room for it. */
  fated({ copies, lost, marked, corruptBit }: Verdict): void {
    const loss = lost && !marked ? 1 : 0;
    this.#lost.add(lost ? 1 : 0, 1);
    this.#duplicated.add(copies + loss > 1 ? 1 : 0, 1);
    if (copies > 0) this.#corrupted.add(corruptBit >= 0 ? 1 : 0, 1);
  }

  /** A packet is to be held; with it and its copy, `held` packets are. */
  taken(isAhead: boolean, held: number): void {
    this.#ahead.add(isAhead ? 1 : 0, 1);
    if (held > this.#peak) this.#peak = held;
  }

  /** The limit refused a packet. */
  refused(): void {
    this.#refused++;
  }

  /** The link is busy with `p`, which is about to be held, from when it had been free until then. */
  transmits(p: Packet, freeAt: Instant): void {
    this.#busy += p.releaseAt - (freeAt > p.readyAt ? freeAt : p.readyAt);
  }

  /** The link is busy for so long from the beginning. */
  begunBusy(time: Duration): void {
    this.#busy += time;
  }

  /** A packet was pulled, of a link that has a rate or not. */
  pulled(p: Packet, hasRate: boolean, now: Instant): void {
    // It came under another configuration.
    if (p.heldAt < this.#since) return;
    const late = now - p.releaseAt;
    const own = Math.max(0, p.readyAt - p.heldAt) + late;
    this.#late.add(late);
    this.#own.add(own);
    this.#ownMean.add(own, 1);
    this.#total.add(now - p.heldAt);
    // A packet that went ahead was not transmitted.
    if (hasRate && p.releaseAt > p.readyAt) {
      // The first packet of a busy spell began when it was ready, not when the one before left.
      if (p.readyAt <= this.#lastRelease) this.#rate.add(p.length, now - this.#lastPull);
      this.#lastRelease = p.releaseAt;
      this.#lastPull = now;
    }
    if (p.duplicate) return;
    // Orders are compared modulo 2^32.
    const isLate = this.#reordered.count > 0 && ((p.order - this.#lastOrder) | 0) < 0;
    this.#reordered.add(isLate ? 1 : 0, 1);
    if (!isLate) this.#lastOrder = p.order;
  }

  /**
   * What there is to say at `now`.
   *
   * @param config what is asked for
   * @param held packets held
   * @param busyUntil when the link has transmitted what it has taken; that may be in the future
   */
  report(config: NetemConfig, held: number, busyUntil: Instant, now: Instant): NetemReport {
    const elapsed = now - this.#since;
    const hasRate = config.rateBytesPerSec > 0 || config.trace !== null || config.delivery !== null;
    const busy = this.#busy - Math.max(0, busyUntil - now);
    return {
      netem: formatNetem(config),
      since: this.#since,
      pushed: this.#lost.count,
      pulled: this.#total.count,
      own: { asked: netemDelays(config), given: delaysOf(this.#own), standardError: this.#errors() },
      total: delaysOf(this.#total),
      late: delaysOf(this.#late),
      loss: figure(expectedLoss(config), this.#lost),
      duplicate: figure(config.duplicate, this.#duplicated),
      corrupt: figure(config.corrupt, this.#corrupted),
      ahead: figure(askedAhead(config), this.#ahead),
      reordered: figure(null, this.#reordered),
      rate: figure(askedRate(config), this.#rate, SECOND),
      saturation: {
        queue: held / config.limit,
        queuePeak: this.#peak / config.limit,
        link: hasRate && elapsed > 0 ? Math.min(1, Math.max(0, busy / elapsed)) : null,
        refused: this.#refused,
      },
    };
  }

  /** Standard errors of the own delay. Quantiles are as uncertain as their rank among so many independent packets. */
  #errors(): NetemDelays | null {
    const own = this.#own;
    const mean = this.#ownMean.standardError;
    if (!(mean >= 0)) return null;
    const { sd } = own;
    const independent = mean > 0 ? Math.min(own.count, (sd / mean) ** 2) : own.count;
    const error = (share: number) => {
      const rank = Math.sqrt(share * (1 - share) / independent);
      return (own.quantile(share + rank) - own.quantile(Math.max(0, share - rank))) / 2;
    };
    return { mean, sd: sd / Math.sqrt(2 * independent), quantiles: quantiles(error) };
  }
}

function figure(asked: number | null, estimate: RatioEstimate, unit = 1): NetemFigure {
  const { value, standardError, count } = estimate;
  return {
    asked,
    given: Number.isFinite(value) ? value * unit : null,
    standardError: Number.isFinite(standardError) ? standardError * unit : null,
    packets: count,
  };
}

function quantiles(at: (share: number) => Duration): Record<Share, Duration> {
  return Object.fromEntries(Object.entries(SHARES).map(([name, share]) => [name, at(share)])) as Record<
    Share,
    Duration
  >;
}

function delaysOf(histogram: DurationHistogram): NetemDelays | null {
  const { count, mean, sd } = histogram;
  return count === 0 ? null : { mean, sd, quantiles: quantiles((share) => histogram.quantile(share)) };
}

/** Delays as they are asked for; `null` if they change with time or depend on the traffic. */
export function netemDelays(config: NetemConfig): NetemDelays | null {
  const { delay, jitter, distribution, trace } = config;
  const ahead = askedAhead(config);
  if (trace !== null || ahead === null) return null;
  const moments = jitterMoments(distribution);
  const [mean, sd] = [delay + jitter * moments.mean, jitter * moments.sd];
  const kept = 1 - ahead;
  return {
    mean: kept * mean,
    sd: Math.sqrt(kept * (sd * sd + mean * mean) - (kept * mean) ** 2),
    quantiles: quantiles((share) =>
      share < ahead
        ? 0
        : Math.max(0, delay + (jitter === 0 ? 0 : jitter * jitterQuantile(distribution, (share - ahead) / kept)))
    ),
  };
}

/** The share that goes ahead: one packet in `gap − 1` and as many as it takes on average until one may. */
function askedAhead({ reorder, gap, reorderCorrelation }: NetemConfig): number | null {
  if (reorder === 0) return 0;
  if (reorderCorrelation > 0 && gap > 1) return null;
  return 1 / (gap - 1 + 1 / reorder);
}

function askedRate({ rateBytesPerSec, packetOverheadBytes, cellBytes, delivery }: NetemConfig): number | null {
  if (delivery !== null) return DeliveryPlayer.meanRate(delivery);
  return rateBytesPerSec > 0 && packetOverheadBytes === 0 && cellBytes === 0 ? rateBytesPerSec : null;
}
