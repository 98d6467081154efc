/**
 * A sender, a bottleneck and a receiver without TCP: enough to see how a congestion control behaves.
 *
 * The sender has an endless stream, or one that pauses; segments are numbered as they are sent and what is lost is not sent
 * again. The bottleneck has a rate and a queue that drops at its tail, and may lose at random; it keeps order. The receiver
 * acknowledges each second segment, or the first after 40 ms, and at once after a gap. Acknowledgments keep their order,
 * each is late by a random time within bounds. A segment is lost when three after it have arrived. During a recovery the
 * window is the control's. When nothing more can come, a timeout follows.
 *
 * @module
 */

import { Rng } from "../../../src/base/rng.ts";
import { type Duration, type Instant, MILLISECOND, NEVER, SECOND } from "../../../src/base/time.ts";
import {
  AckSample,
  type CongestionControl,
  type CongestionSettings,
  CongestionSignal,
  LossSample,
} from "../../../src/tcp/congestion/control.ts";

/** Settings as TCP makes them. */
export function settings(change: Partial<CongestionSettings> = {}): CongestionSettings {
  return {
    mssBytes: 1448,
    initialCwndSegments: 10,
    slowStartExit: "off",
    slowStartGrowth: "bytes",
    rng: new Rng(1),
    ...change,
  };
}

/** What the path and the application are like. */
export interface ModelOptions {
  /** Bytes a second on the wire at the bottleneck. */
  rateBytesPerSec: number;
  /** Round-trip time without queueing. */
  rtt: Duration;
  /** Packets that the bottleneck holds. */
  queuePackets: number;
  /** Bytes of payload of a segment. Default 1,448. */
  mssBytes?: number;
  /** Bytes of a segment beyond that on the wire. Default 90: headers, preamble and gap. */
  overheadBytes?: number;
  /** Up to so much is each acknowledgment late. Default 0. */
  ackNoise?: Duration;
  /** Acknowledge each second segment only. Default true. */
  delayedAck?: boolean;
  /** Chance that a segment is lost at random. Default 0. */
  loss?: number;
  /** Pace as TCP does if the control does not say at which rate. Default false. */
  paced?: boolean;
  /** The application has nothing to send from the one instant to the other. */
  pause?: readonly [Instant, Instant];
  /** Acknowledgments tell of all losses (SACK). Default true. */
  hasSack?: boolean;
  /** Seed of losses and lateness. Default 1. */
  seed?: number;
}

interface Sent {
  number: number;
  sentAt: Instant;
  delivered: number;
  deliveredAt: Instant;
  firstSentAt: Instant;
  txInFlight: number;
  lost: number;
  isAppLimited: boolean;
  isDropped: boolean;
}

/** One flow over one bottleneck. */
export class LinkModel {
  now: Instant = 0;
  readonly sample = new AckSample();
  /** Called after each acknowledgment. */
  onAck: () => void = () => {};
  /** Segments sent, lost so far. */
  sentSegments = 0;
  lostSegments = 0;
  /** Bytes delivered, in flight. */
  delivered = 0;
  inFlight = 0;
  timeouts = 0;
  episodes = 0;
  /** Instant of the first drop at the bottleneck, and the window then. */
  firstDropAt: Instant = NEVER;
  firstDropCwnd = 0;
  /** Packets in the bottleneck's queue. */
  get queueLength(): number {
    while (this.#departHead < this.#departs.length && this.#departs[this.#departHead]! <= this.now) this.#departHead++;
    if (this.#departHead > 4096) {
      this.#departs.splice(0, this.#departHead);
      this.#departHead = 0;
    }
    return this.#departs.length - this.#departHead;
  }
  /** The bottleneck's rate may be changed on the way. */
  rateBytesPerSec: number;
  /** So may the chance of loss. */
  loss: number;
  readonly mss: number;
  readonly #loss = new LossSample();
  readonly #o: ModelOptions;
  readonly #rng: Rng;
  readonly #overhead: number;
  readonly #outstanding: Sent[] = [];
  #outstandingHead = 0;
  readonly #gaps: Sent[] = [];
  readonly #departs: Instant[] = [];
  #departHead = 0;
  #freeAt: Instant = 0;
  readonly #acks: { at: Instant; number: number }[] = [];
  #ackHead = 0;
  #lastAckAt: Instant = 0;
  #delayedNumber = -1;
  #delayedAt: Instant = NEVER;
  #hasGap = false;
  #next = 0;
  #acked = 0;
  #recover = -1;
  #inRecovery = false;
  #paceAt: Instant = 0;
  #srtt = 0;
  #minRtt: Duration = Infinity;
  #deliveredAt: Instant = 0;
  #firstSentAt: Instant = 0;
  #appLimitedUntil = 0;
  #lost = 0;
  #windowEnd = 0;
  #maxInFlight = 0;
  #wasLimited = false;
  #isLimited = false;
  #lastProgressAt: Instant = 0;
  #backoff = 1;

  constructor(readonly control: CongestionControl, options: ModelOptions) {
    this.#o = options;
    this.rateBytesPerSec = options.rateBytesPerSec;
    this.loss = options.loss ?? 0;
    this.mss = options.mssBytes ?? 1448;
    this.#overhead = options.overheadBytes ?? 90;
    this.#rng = new Rng(options.seed ?? 1);
  }

  /** Window in segments. */
  get cwnd(): number {
    return this.control.cwnd / this.mss;
  }

  /** Most segments that rate and round-trip time hold without a queue. */
  get bdp(): number {
    return this.rateBytesPerSec * this.#o.rtt / SECOND / (this.mss + this.#overhead);
  }

  /** Payload bytes a second at the bottleneck's rate. */
  get goodput(): number {
    return this.rateBytesPerSec * this.mss / (this.mss + this.#overhead);
  }

  /** Runs until the instant. */
  run(until: Instant): void {
    for (;;) {
      const sendAt = this.#sendAt();
      const delayedAckAt = this.#delayedAt === NEVER ? NEVER : this.#delayedAt + 40 * MILLISECOND;
      const ackAt = this.#ackHead < this.#acks.length ? this.#acks[this.#ackHead]!.at : NEVER;
      const timeoutAt = this.inFlight > 0 || this.#gaps.length > 0
        ? this.#lastProgressAt +
          this.#backoff * (this.#srtt === 0 ? SECOND : Math.max(200 * MILLISECOND, 3 * this.#srtt))
        : NEVER;
      const at = Math.max(this.now, Math.min(sendAt, ackAt, delayedAckAt, timeoutAt));
      if (at > until) {
        this.now = until;
        return;
      }
      this.now = at;
      if (ackAt <= at) this.#ackArrives();
      else if (delayedAckAt <= at) this.#emitAck(this.#delayedNumber, delayedAckAt);
      else if (sendAt <= at) this.#send();
      else this.#timeout();
    }
  }

  #isPaused(): boolean {
    const { pause } = this.#o;
    return pause !== undefined && this.now >= pause[0] && this.now < pause[1];
  }

  #sendAt(): Instant {
    if (this.inFlight > 0 && this.inFlight + this.mss > this.control.cwnd) {
      this.#isLimited = true;
      return NEVER;
    }
    if (this.#isPaused()) {
      this.#appLimitedUntil = Math.max(1, this.delivered + this.inFlight);
      this.#isLimited = false;
      return this.#o.pause![1];
    }
    return Math.max(this.now, this.#paceAt);
  }

  #pacingRate(): number {
    const { control } = this;
    if (control.pacingRateBytesPerSec > 0) return control.pacingRateBytesPerSec;
    if (this.#o.paced !== true || this.#srtt === 0) return Infinity;
    return control.cwnd / this.#srtt * SECOND * (control.cwnd < control.ssthresh / 2 ? 2 : 1.2);
  }

  #send(): void {
    const { now, mss } = this;
    if (this.inFlight === 0) {
      this.#firstSentAt = now;
      this.#deliveredAt = now;
      this.#lastProgressAt = now;
    }
    this.inFlight += mss;
    const number = this.#next++;
    this.sentSegments++;
    const isDropped = this.#pass(number);
    this.#outstanding.push({
      number,
      sentAt: now,
      delivered: this.delivered,
      deliveredAt: this.#deliveredAt,
      firstSentAt: this.#firstSentAt,
      txInFlight: this.inFlight,
      lost: this.#lost,
      isAppLimited: this.#appLimitedUntil !== 0,
      isDropped,
    });
    if (this.sentSegments > 10) {
      this.#paceAt = Math.max(this.#paceAt, now) + Math.round(mss / this.#pacingRate() * SECOND);
    }
    this.control.onSent(now, mss, this.inFlight);
    const isFull = this.inFlight + mss > this.control.cwnd;
    if (this.#acked >= this.#windowEnd || this.inFlight > this.#maxInFlight || isFull) {
      this.#maxInFlight = this.inFlight;
      this.#wasLimited = isFull;
      this.#windowEnd = this.#next;
    }
  }

  /** @returns true if the packet is dropped */
  #pass(number: number): boolean {
    const { now } = this;
    const isTailDrop = this.queueLength > this.#o.queuePackets;
    if (isTailDrop && this.firstDropAt === NEVER) {
      this.firstDropAt = now;
      this.firstDropCwnd = this.cwnd;
    }
    if (isTailDrop || this.loss > 0 && this.#rng.chance(this.loss)) {
      this.#hasGap = true;
      return true;
    }
    this.#freeAt = Math.max(now, this.#freeAt) +
      Math.round((this.mss + this.#overhead) / this.rateBytesPerSec * SECOND);
    this.#departs.push(this.#freeAt);
    const at = this.#freeAt + this.#o.rtt;
    if (this.#delayedAt !== NEVER && this.#delayedAt + 40 * MILLISECOND < at) {
      this.#emitAck(this.#delayedNumber, this.#delayedAt + 40 * MILLISECOND);
    }
    if (this.#o.delayedAck === false || this.#hasGap || this.#delayedAt !== NEVER) {
      this.#hasGap = false;
      this.#emitAck(number, at);
    } else {
      this.#delayedNumber = number;
      this.#delayedAt = at;
    }
    return false;
  }

  #emitAck(number: number, at: Instant): void {
    this.#delayedAt = NEVER;
    const noise = this.#o.ackNoise ?? 0;
    this.#lastAckAt = Math.max(this.#lastAckAt, at + (noise > 0 ? this.#rng.below(noise) : 0));
    this.#acks.push({ at: this.#lastAckAt, number });
  }

  #ackArrives(): void {
    const { now, mss, sample, control } = this;
    const { number } = this.#acks[this.#ackHead++]!;
    if (this.#ackHead > 4096) {
      this.#acks.splice(0, this.#ackHead);
      this.#ackHead = 0;
    }
    this.#lastProgressAt = now;
    this.#backoff = 1;
    sample.now = now;
    sample.priorInFlightBytes = this.inFlight;
    let newest: Sent | null = null;
    let delivered = 0;
    while (this.#outstandingHead < this.#outstanding.length) {
      const p = this.#outstanding[this.#outstandingHead]!;
      if (p.number > number) break;
      this.#outstandingHead++;
      if (p.isDropped) {
        this.#gaps.push(p);
        continue;
      }
      delivered += mss;
      newest = p;
    }
    if (this.#outstandingHead > 4096) {
      this.#outstanding.splice(0, this.#outstandingHead);
      this.#outstandingHead = 0;
    }
    const isLimited = this.#isLimited || this.#wasLimited ||
      control.cwnd < control.ssthresh && control.cwnd < 2 * this.#maxInFlight;
    const before = this.#acked;
    this.#acked = Math.max(this.#acked, number + 1);
    this.delivered += delivered;
    this.inFlight -= delivered;
    if (newest !== null) {
      this.#firstSentAt = newest.sentAt;
      this.#deliveredAt = now;
      const rtt = now - newest.sentAt;
      this.#minRtt = Math.min(this.#minRtt, rtt);
      this.#srtt = this.#srtt === 0 ? rtt : this.#srtt + (rtt - this.#srtt) / 8;
      sample.rtt = rtt;
    } else {
      sample.rtt = -1;
    }
    let lost = 0;
    let isNew = false;
    while (this.#gaps.length > 0 && this.#gaps[0]!.number <= number - 3) {
      const p = this.#gaps.shift()!;
      lost += mss;
      isNew ||= p.number > this.#recover;
      this.#declareLost(p);
    }
    this.#fill(newest, delivered, lost, isLimited);
    sample.ackedBytes = (this.#acked - before) * mss;
    if (isNew) {
      this.episodes++;
      this.#recover = this.#next - 1;
      this.#inRecovery = true;
      control.onCongestion(CongestionSignal.Loss, sample);
    } else if (this.#inRecovery && number > this.#recover) {
      this.#inRecovery = false;
      control.onRecovered(sample);
    }
    sample.isInRecovery = this.#inRecovery;
    if (control.ownsRecovery || !this.#inRecovery && !isNew) control.onAck(sample);
    this.onAck();
  }

  #declareLost(p: Sent): void {
    const loss = this.#loss;
    this.inFlight -= this.mss;
    this.#lost += this.mss;
    this.lostSegments++;
    loss.now = this.now;
    loss.seq = (p.number * this.mss) | 0;
    loss.bytes = this.mss;
    loss.txInFlightBytes = p.txInFlight;
    loss.lostSinceSentBytes = this.#lost - p.lost;
    loss.isAppLimited = p.isAppLimited;
    loss.totalDeliveredBytes = this.delivered;
    loss.hasSack = this.#o.hasSack ?? true;
    this.control.onLost(loss);
  }

  #fill(newest: Sent | null, delivered: number, lost: number, isLimited: boolean): void {
    const { sample, now } = this;
    sample.deliveredBytes = delivered;
    sample.lostBytes = lost;
    sample.inFlightBytes = this.inFlight;
    sample.minRtt = this.#minRtt;
    sample.srtt = this.#srtt;
    sample.isCwndLimited = isLimited;
    sample.sndUna = (this.#acked * this.mss) | 0;
    sample.sndNxt = (this.#next * this.mss) | 0;
    sample.hasSack = this.#o.hasSack ?? true;
    const rate = this.#pacingRate();
    sample.pacingRateBytesPerSec = rate;
    sample.totalDeliveredBytes = this.delivered;
    sample.totalLostBytes = this.#lost;
    sample.priorDeliveredBytes = -1;
    sample.deliveryRateBytesPerSec = 0;
    if (this.#appLimitedUntil !== 0 && this.delivered > this.#appLimitedUntil) this.#appLimitedUntil = 0;
    if (newest === null) return;
    sample.isAppLimited = newest.isAppLimited;
    sample.priorDeliveredBytes = newest.delivered;
    sample.txInFlightBytes = newest.txInFlight;
    sample.sampleLostBytes = this.#lost - newest.lost;
    const interval = Math.max(newest.sentAt - newest.firstSentAt, now - newest.deliveredAt);
    if (interval < this.#minRtt) return;
    sample.deliveryRateBytesPerSec = (this.delivered - newest.delivered) / interval * SECOND;
  }

  #timeout(): void {
    const { control, sample } = this;
    this.timeouts++;
    sample.now = this.now;
    sample.priorInFlightBytes = Math.min(this.inFlight, control.cwnd);
    for (const p of this.#gaps.splice(0)) this.#declareLost(p);
    while (this.#outstandingHead < this.#outstanding.length) {
      this.#declareLost(this.#outstanding[this.#outstandingHead++]!);
    }
    this.#recover = this.#next - 1;
    this.#fill(null, 0, 0, true);
    this.#inRecovery = false;
    control.onCongestion(this.#backoff > 1 ? CongestionSignal.TimeoutAgain : CongestionSignal.Timeout, sample);
    this.#backoff *= 2;
    this.#lastProgressAt = this.now;
    this.#paceAt = this.now;
  }
}
