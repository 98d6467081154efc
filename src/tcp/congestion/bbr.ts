/**
 * BBR, version 3 (draft-ietf-ccwg-bbr): sends at the rate at which the path delivers.
 *
 * It keeps a model of the path: the highest delivery rate of this and the last probing cycle (`maxBw`), the smallest
 * round-trip time of the last ten seconds, how much acknowledgments come in lumps, and from loss the volume in flight that
 * was too much (`inflightLongterm`) and, until the next probe, the rate and volume that were lately delivered
 * (`bwShortterm`, `inflightShortterm`). The pacing rate is the rate of the model times a gain, and the window is about twice
 * rate times round-trip time within the volumes.
 *
 * States: Startup doubles the rate each round until it grows no more, or loss is heavy; Drain sends at half the rate until
 * the queue is gone. Then it goes round: Down lets the queue run empty, Cruise sends at the rate, and after 2 to 3 s or some
 * 60 round trips Refill fills the pipe for a round and Up probes for more. If the smallest round-trip time was not seen
 * again for 5 s, ProbeRTT halves what is in flight for 200 ms. State lasts across episodes of loss: the window is saved
 * when one begins and restored when it ends.
 *
 * The draft leaves open what a CE mark does: here it counts as loss above the threshold. Deviations: state to go back to
 * after a false alarm is saved once an episode, not once a round (as its section 5.5.11.1 says, not its pseudocode), and
 * that ProbeRTT must not count as a low rate is kept here instead of in the rate sampler.
 *
 * What always holds: the window is whole bytes and at least four segments, except after a timeout; the pacing rate is
 * positive and finite.
 *
 * Names are those of the draft, section numbers too.
 *
 * @module
 */

import type { Rng } from "../../base/rng.ts";
import { type Duration, type Instant, MILLISECOND, SECOND } from "../../base/time.ts";
import { seqAdd } from "../../wire/seq.ts";
import {
  type AckSample,
  type CongestionControl,
  type CongestionSettings,
  CongestionSignal,
  initialWindow,
  type LossSample,
  MAX_CWND,
} from "./control.ts";
import { BETA, FullPipe, MaxBandwidth, MinRtt, ShortTerm } from "./bbr_model.ts";
import { AckPhase, BbrState, CWND_GAIN, PACING_GAIN, STATE_WHY } from "./bbr_states.ts";
import { WindowedMax } from "./windowed_max.ts";

const LOSS_THRESH = 0.02;
const HEADROOM = 0.15;
const PACING_MARGIN = 0.99;
const MIN_PIPE_SEGMENTS = 4;
const STARTUP_FULL_LOSS_COUNT = 6;
const DRAIN_ROUNDS = 3;
const EXTRA_ACKED_ROUNDS = 10;
const RENO_ROUNDS = 63;
const MAX_UP_ROUNDS = 30;
const PROBE_RTT_DURATION: Duration = 200 * MILLISECOND;
const PROBE_WAIT: Duration = 2 * SECOND;
const MAX_QUANTUM_BYTES = 65536;
const OFFLOAD_QUANTA = 3;

/** The BBR congestion control. */
export class Bbr implements CongestionControl {
  readonly name: string = "bbr";
  readonly ssthresh: number = Infinity;
  readonly ownsRecovery: boolean = true;
  why: string = STATE_WHY[BbrState.Startup]!;
  cwnd: number;
  pacingRateBytesPerSec: number;
  readonly #rng: Rng;
  readonly #initialCwndSegments: number;
  #mss: number;
  #hasStarted = false;
  #hasRtt = false;
  #state: BbrState = BbrState.Startup;

  // The acknowledgment at hand (RS), and totals.
  #now: Instant = 0;
  #delivered = 0;
  #inFlight = 0;
  #rsDelivered = 0;
  #rsDeliveryRate = 0;
  #rsIsAppLimited = false;
  #rsTxInFlight = 0;
  #rsLost = 0;
  #hasSack = false;

  // Rounds: section 5.5.1.
  #nextRoundDelivered = 0;
  #roundStart = false;
  #roundCount = 0;
  #drainStartRound = 0;
  /** The window was full in this round, in the one before. */
  #wasFullNow = false;
  #wasFullBefore = false;

  // The model.
  readonly #maxBw = new MaxBandwidth();
  readonly #fullPipe = new FullPipe();
  readonly #minRtt = new MinRtt();
  readonly #shortTerm = new ShortTerm();
  #bw = 0;
  #fullBwReached = false;

  #probeRttDoneStamp: Instant = 0;
  #probeRttRoundDone = false;
  /** A segment sent when between these many bytes were delivered was sent in ProbeRTT. */
  #limitedFrom = Infinity;
  #limitedUntil = -1;
  #idleRestart = false;

  // Volumes, in bytes.
  #inflightLongterm: number = Infinity;
  #maxInflight = 0;
  #sendQuantum = 0;
  #extraAckedIntervalStart: Instant = 0;
  #extraAckedDelivered = 0;
  readonly #extraAcked = new WindowedMax();

  // ProbeBW: section 5.3.3.
  #ackPhase: AckPhase = AckPhase.Init;
  #isBwProbeSample = false;
  #cycleStamp: Instant = 0;
  #bwProbeWait: Duration = 0;
  #roundsSinceProbeUp = 0;
  #bwProbeUpRounds = 0;
  #bwProbeUpAcked = 0;
  #probeUpAckedPerInc = Infinity;
  #prevProbeTooHigh = false;
  #prevProbePrecautionary = false;

  // Loss: section 5.5.10.
  #lossRangesInRound = 0;
  #lastLostEnd = 0;
  #isInRecovery = false;
  #isFastRecovery = false;
  /** A fast recovery ended with the acknowledgment at hand. */
  #hasRecovered = false;
  /** When state to go back to was last saved, or −1. */
  #savedAt: Instant = -1;
  #priorCwnd = 0;
  /** −1 for none. */
  #undoState: BbrState | -1 = -1;
  #undoBwShortterm = Infinity;
  #undoInflightShortterm = Infinity;
  #undoInflightLongterm = Infinity;

  /** Starts in Startup with the initial window of the settings. */
  constructor(settings: CongestionSettings) {
    this.#rng = settings.rng;
    this.#initialCwndSegments = settings.initialCwndSegments;
    this.#mss = settings.mssBytes;
    this.cwnd = this.#initialCwnd();
    // Section 5.6.2: until there is a round-trip time, as if it were 1 ms.
    this.pacingRateBytesPerSec = this.#nominalRate(MILLISECOND);
    this.#updateSendQuantum();
  }

  /** The present state. */
  get state(): BbrState {
    return this.#state;
  }

  /** The highest delivery rate of this probing cycle and the last in bytes per second; 0 before the first sample. */
  get maxBwBytesPerSec(): number {
    return this.#maxBw.value;
  }

  /** The smallest round-trip time of the last ten seconds, or `Infinity`. */
  get minRtt(): Duration {
    return this.#minRtt.value;
  }

  /** The volume in flight that was too much, in bytes, or `Infinity`. */
  get inflightLongtermBytes(): number {
    return this.#inflightLongterm;
  }

  /** The most bytes that may leave in one burst: section 5.6.3. */
  get sendQuantumBytes(): number {
    return this.#sendQuantum;
  }

  onSent(now: Instant, bytes: number, inFlightBytes: number): void {
    this.#now = now;
    if (!this.#hasStarted) {
      this.#hasStarted = true;
      this.#minRtt.start(now);
      this.#extraAckedIntervalStart = now;
    } else if (inFlightBytes <= bytes && !this.#isInRecovery) {
      this.#restartFromIdle();
    }
    if (inFlightBytes + this.#mss > this.cwnd) this.#wasFullNow = true;
  }

  // Sections 5.5.10.2 and 5.5.10.3: HandleLostPacket.
  onLost(loss: LossSample): void {
    this.#now = loss.now;
    this.#delivered = loss.totalDeliveredBytes;
    this.#hasSack = loss.hasSack;
    if (!this.#isInRecovery && this.#savedAt !== loss.now) this.#saveStateUponLoss();
    if (loss.seq !== this.#lastLostEnd || this.#lossRangesInRound === 0) this.#lossRangesInRound++;
    this.#lastLostEnd = seqAdd(loss.seq, loss.bytes);
    this.#shortTerm.noteLoss(this.#delivered);
    if (!this.#isBwProbeSample) return;
    this.#rsTxInFlight = loss.txInFlightBytes;
    this.#rsLost = loss.lostSinceSentBytes;
    this.#rsIsAppLimited = loss.isAppLimited;
    if (!this.#isInflightTooHigh()) return;
    // At which volume did the losses exceed the threshold? Somewhere within this segment.
    const inflightPrev = loss.txInFlightBytes - loss.bytes;
    const lostPrev = loss.lostSinceSentBytes - loss.bytes;
    this.#rsTxInFlight = inflightPrev + Math.max(0, (LOSS_THRESH * inflightPrev - lostPrev) / (1 - LOSS_THRESH));
    this.#handleInflightTooHigh();
  }

  // Section 5.2.3.
  onAck(sample: AckSample): void {
    // A loss that was repaired at once begins an episode that nobody ends.
    if (this.#isInRecovery && !sample.isInRecovery) this.onRecovered(sample);
    this.#takeSample(sample);
    const { priorDeliveredBytes } = sample;
    this.#shortTerm.update(this.#rsDeliveryRate, this.#rsDelivered, priorDeliveredBytes, this.#delivered);
    this.#updateMaxBw(sample);
    if (this.#shortTerm.isRoundStart) {
      this.#shortTerm.endRound(this.#isProbingBw(), this.#maxBw.value, this.cwnd);
    }
    this.#updateAckAggregation(sample);
    this.#checkFullBwReached();
    this.#checkStartupDone();
    this.#checkDrainDone();
    this.#updateProbeBwCyclePhase(sample);
    this.#minRtt.update(sample.rtt, this.#now);
    this.#checkProbeRtt();
    this.#shortTerm.advance(this.#rsDeliveryRate, this.#rsDelivered);
    this.#bw = Math.min(this.#maxBw.value, this.#shortTerm.bw);
    this.#setPacingRate(PACING_GAIN[this.#state]!);
    this.#updateSendQuantum();
    this.#setCwnd(sample.deliveredBytes);
    this.#hasRecovered = false;
  }

  onCongestion(signal: CongestionSignal, sample: AckSample): void {
    this.#now = sample.now;
    if (signal === CongestionSignal.Ecn) {
      this.#onEcn();
      return;
    }
    // Section 5.6.4.4. The loss that led here may have saved the state already.
    if (this.#savedAt !== sample.now) this.#saveStateUponLoss();
    this.#isInRecovery = true;
    this.#isFastRecovery = signal === CongestionSignal.Loss;
    if (this.#isFastRecovery) {
      this.#shortTerm.noteLoss(this.#delivered);
    } else {
      this.cwnd = sample.inFlightBytes + this.#mss;
    }
  }

  onRecovered(sample: AckSample): void {
    this.#now = sample.now;
    this.#inFlight = sample.inFlightBytes;
    this.#hasRecovered = this.#isFastRecovery;
    this.#endEpisode();
    this.#restoreCwnd();
    this.#boundCwnd();
  }

  // Section 5.5.11.2.
  onSpurious(): void {
    this.#endEpisode();
    this.#restoreCwnd();
    this.#shortTerm.isLossInRound = false;
    this.#fullPipe.reset();
    this.#shortTerm.bw = Math.max(this.#shortTerm.bw, this.#undoBwShortterm);
    this.#shortTerm.inflight = Math.max(this.#shortTerm.inflight, this.#undoInflightShortterm);
    this.#inflightLongterm = Math.max(this.#inflightLongterm, this.#undoInflightLongterm);
    if (this.#undoState === BbrState.Startup && this.#state !== BbrState.Startup) {
      this.#fullBwReached = false;
      if (this.#state !== BbrState.ProbeRtt) this.#enter(BbrState.Startup);
    } else if (this.#undoState === BbrState.Up && this.#state !== BbrState.Up) {
      if (this.#state !== BbrState.ProbeRtt) this.#startRefill();
    }
    this.#undoState = -1;
    this.#boundCwnd();
  }

  // Section 5.4.1: a pause is seen by onSent, and the window stays.
  onIdle(): void {}

  onMss(mssBytes: number): void {
    const before = this.#mss;
    if (mssBytes === before) return;
    const isInitial = !this.#hasStarted && !this.#isInRecovery;
    this.#mss = mssBytes;
    this.cwnd = isInitial ? this.#initialCwnd() : Math.max(Math.floor(this.cwnd / before * mssBytes), mssBytes);
    this.#priorCwnd = Math.floor(this.#priorCwnd / before * mssBytes);
    if (!this.#hasRtt) this.pacingRateBytesPerSec = this.#nominalRate(MILLISECOND);
    this.#updateSendQuantum();
  }

  #initialCwnd(): number {
    return this.#initialCwndSegments > 0 ? this.#initialCwndSegments * this.#mss : initialWindow(this.#mss);
  }

  #nominalRate(rtt: Duration): number {
    return PACING_GAIN[BbrState.Startup]! * this.#initialCwnd() / rtt * SECOND;
  }

  #enter(state: BbrState): void {
    this.#state = state;
    this.why = STATE_WHY[state]!;
  }

  #isInProbeBw(): boolean {
    return this.#state >= BbrState.Down && this.#state <= BbrState.Up;
  }

  #isProbingBw(): boolean {
    return this.#state === BbrState.Startup || this.#state === BbrState.Refill || this.#state === BbrState.Up;
  }

  #isCwndLimited(): boolean {
    return this.#wasFullNow || this.#wasFullBefore;
  }

  #takeSample(sample: AckSample): void {
    const prior = sample.priorDeliveredBytes;
    const hasSample = prior >= 0;
    this.#now = sample.now;
    this.#delivered = sample.totalDeliveredBytes;
    this.#inFlight = sample.inFlightBytes;
    this.#hasSack = sample.hasSack;
    this.#rsDelivered = hasSample ? sample.totalDeliveredBytes - prior : 0;
    this.#rsDeliveryRate = hasSample ? sample.deliveryRateBytesPerSec : 0;
    this.#rsIsAppLimited = sample.isAppLimited || prior >= this.#limitedFrom && prior <= this.#limitedUntil;
    this.#rsTxInFlight = hasSample ? sample.txInFlightBytes : 0;
    this.#rsLost = hasSample ? sample.sampleLostBytes : 0;
    if (!this.#hasRtt && sample.srtt > 0) {
      this.#hasRtt = true;
      this.pacingRateBytesPerSec = this.#nominalRate(sample.srtt);
    }
  }

  // Section 5.5.1.
  #startRound(): void {
    this.#nextRoundDelivered = this.#delivered;
  }

  #updateRound(sample: AckSample): void {
    this.#roundStart = sample.priorDeliveredBytes >= 0 && sample.priorDeliveredBytes >= this.#nextRoundDelivered;
    if (!this.#roundStart) return;
    this.#startRound();
    this.#roundCount++;
    this.#roundsSinceProbeUp++;
    this.#wasFullBefore = this.#wasFullNow;
    this.#wasFullNow = false;
  }

  // Sections 5.5.5 and 5.5.6: the two cycles of the filter.
  #updateMaxBw(sample: AckSample): void {
    this.#updateRound(sample);
    const rate = this.#rsDeliveryRate;
    if (rate > 0 && (rate >= this.#maxBw.value || !this.#rsIsAppLimited)) this.#maxBw.update(rate);
  }

  // Section 5.5.9.
  #updateAckAggregation(sample: AckSample): void {
    let expected = this.#bw * (this.#now - this.#extraAckedIntervalStart) / SECOND;
    if (this.#extraAckedDelivered <= expected) {
      this.#extraAckedDelivered = 0;
      this.#extraAckedIntervalStart = this.#now;
      expected = 0;
    }
    this.#extraAckedDelivered += sample.deliveredBytes;
    const extra = Math.min(this.#extraAckedDelivered - expected, this.cwnd);
    this.#extraAcked.update(this.#roundCount, extra, this.#fullBwReached ? EXTRA_ACKED_ROUNDS : 1);
  }

  // Section 5.3.1.2.
  #checkFullBwReached(): void {
    if (!this.#roundStart || this.#rsIsAppLimited || this.#rsDeliveryRate <= 0) return;
    this.#fullPipe.onRound(this.#rsDeliveryRate);
    if (this.#fullPipe.isFull) this.#fullBwReached = true;
  }

  // Sections 5.3.1.1 and 5.3.1.3.
  #checkStartupDone(): void {
    this.#checkStartupHighLoss();
    if (this.#state === BbrState.Startup && this.#fullBwReached) this.#enterDrain();
  }

  #checkStartupHighLoss(): void {
    const ranges = this.#lossRangesInRound;
    if (this.#shortTerm.isRoundStart) this.#lossRangesInRound = 0;
    if (this.#state !== BbrState.Startup || this.#fullBwReached) return;
    if (!this.#isFastRecovery && !this.#hasRecovered) return;
    if (this.#hasSack) {
      // A round that ends in a fast recovery began at or after its first loss: it was whole.
      if (!this.#shortTerm.isRoundStart || ranges < STARTUP_FULL_LOSS_COUNT || !this.#isInflightTooHigh()) return;
    }
    this.#leaveStartupByLoss();
  }

  #leaveStartupByLoss(): void {
    this.#undoState = BbrState.Startup;
    this.#fullBwReached = true;
    this.#inflightLongterm = Math.max(this.#bdp(), this.#shortTerm.inflightLatest);
    this.#enterDrain();
  }

  // Section 5.3.2.
  #enterDrain(): void {
    this.#enter(BbrState.Drain);
    this.#drainStartRound = this.#roundCount;
  }

  #checkDrainDone(): void {
    if (this.#state !== BbrState.Drain) return;
    if (this.#inFlight <= this.#inflight(this.#bw) || this.#roundCount > this.#drainStartRound + DRAIN_ROUNDS) {
      this.#startDown();
    }
  }

  // Section 5.3.3.9.
  #startDown(): void {
    this.#shortTerm.resetSignals();
    this.#probeUpAckedPerInc = Infinity;
    // PickProbeWait.
    this.#roundsSinceProbeUp = this.#rng.below(2);
    this.#bwProbeWait = PROBE_WAIT + this.#rng.unit() * SECOND;
    this.#cycleStamp = this.#now;
    this.#ackPhase = AckPhase.ProbeStopping;
    this.#startRound();
    this.#enter(BbrState.Down);
  }

  #startRefill(): void {
    this.#shortTerm.resetBounds();
    this.#bwProbeUpRounds = 0;
    this.#bwProbeUpAcked = 0;
    this.#prevProbePrecautionary = false;
    this.#ackPhase = AckPhase.Refilling;
    this.#startRound();
    this.#enter(BbrState.Refill);
  }

  #startUp(): void {
    this.#ackPhase = AckPhase.ProbeStarting;
    this.#startRound();
    this.#fullPipe.reset(this.#rsDeliveryRate);
    this.#enter(BbrState.Up);
    this.#raiseInflightLongtermSlope();
  }

  #updateProbeBwCyclePhase(sample: AckSample): void {
    if (!this.#fullBwReached) return;
    if (this.#adaptLongTermModel(sample)) return;
    switch (this.#state) {
      case BbrState.Down:
        if (!this.#checkTimeToProbeBw() && this.#isTimeToCruise()) this.#enter(BbrState.Cruise);
        return;
      case BbrState.Cruise:
        this.#checkTimeToProbeBw();
        return;
      case BbrState.Refill:
        if (!this.#roundStart) return;
        this.#isBwProbeSample = true;
        this.#startUp();
        return;
      case BbrState.Up:
        if (!this.#isTimeToGoDown()) return;
        this.#prevProbeTooHigh = false;
        this.#startDown();
        return;
      default:
        return;
    }
  }

  // Section 5.3.3.8.
  #checkTimeToProbeBw(): boolean {
    const renoRounds = Math.min(this.#targetInflight() / this.#mss, RENO_ROUNDS);
    if (this.#now <= this.#cycleStamp + this.#bwProbeWait && this.#roundsSinceProbeUp < renoRounds) return false;
    this.#startRefill();
    return true;
  }

  #isTimeToCruise(): boolean {
    return this.#inFlight <= this.#inflightWithHeadroom() && this.#inFlight <= this.#inflight(this.#maxBw.value);
  }

  #isTimeToGoDown(): boolean {
    if (this.#prevProbeTooHigh && this.#inFlight >= this.#inflightLongterm) {
      this.#prevProbePrecautionary = true;
      return true;
    }
    if (this.#isCwndLimited() && this.cwnd >= this.#inflightLongterm) {
      this.#fullPipe.reset(this.#rsDeliveryRate);
      return false;
    }
    return this.#fullPipe.isFull;
  }

  #inflightWithHeadroom(): number {
    if (this.#inflightLongterm === Infinity) return Infinity;
    const headroom = Math.max(this.#mss, HEADROOM * this.#inflightLongterm);
    return Math.max(this.#inflightLongterm - headroom, this.#minPipeCwnd());
  }

  #raiseInflightLongtermSlope(): void {
    const growth = 2 ** this.#bwProbeUpRounds;
    this.#bwProbeUpRounds = Math.min(this.#bwProbeUpRounds + 1, MAX_UP_ROUNDS);
    this.#probeUpAckedPerInc = Math.max(this.cwnd / growth, this.#mss);
  }

  #probeInflightLongtermUpward(sample: AckSample): void {
    if (!this.#isCwndLimited() || this.cwnd < this.#inflightLongterm) return;
    this.#bwProbeUpAcked += sample.deliveredBytes;
    if (this.#bwProbeUpAcked >= this.#probeUpAckedPerInc) {
      const delta = Math.floor(this.#bwProbeUpAcked / this.#probeUpAckedPerInc);
      this.#bwProbeUpAcked -= delta * this.#probeUpAckedPerInc;
      this.#inflightLongterm += delta * this.#mss;
    }
    if (this.#roundStart) this.#raiseInflightLongtermSlope();
  }

  /** @returns true if it decided on a state */
  #adaptLongTermModel(sample: AckSample): boolean {
    if (this.#ackPhase === AckPhase.ProbeStarting && this.#roundStart) this.#ackPhase = AckPhase.ProbeFeedback;
    if (this.#ackPhase === AckPhase.ProbeStopping && this.#roundStart) {
      this.#isBwProbeSample = false;
      this.#ackPhase = AckPhase.Init;
      if (this.#isInProbeBw()) {
        if (!this.#rsIsAppLimited) this.#maxBw.advance();
        // Section 5.3.3.6: the cautious probe went well, so the next one need not be.
        if (this.#prevProbePrecautionary && !this.#prevProbeTooHigh) {
          this.#startRefill();
          return true;
        }
      }
    }
    if (this.#isInflightTooHigh() || this.#inflightLongterm === Infinity) return false;
    this.#inflightLongterm = Math.max(this.#inflightLongterm, this.#rsTxInFlight);
    if (this.#state === BbrState.Up) this.#probeInflightLongtermUpward(sample);
    return false;
  }

  // Section 5.5.10.2.
  #isInflightTooHigh(): boolean {
    return this.#rsLost > this.#rsTxInFlight * LOSS_THRESH || this.#rsLost > 0 && !this.#hasSack;
  }

  #handleInflightTooHigh(): void {
    this.#prevProbeTooHigh = true;
    this.#isBwProbeSample = false;
    if (!this.#rsIsAppLimited) {
      this.#inflightLongterm = Math.max(this.#rsTxInFlight, this.#targetInflight() * BETA);
    }
    if (this.#state !== BbrState.Up) return;
    this.#undoState = BbrState.Up;
    this.#startDown();
  }

  /** A CE mark: what loss above the threshold does. */
  #onEcn(): void {
    this.#shortTerm.noteLoss(this.#delivered);
    if (this.#state === BbrState.Startup) {
      this.#leaveStartupByLoss();
      this.#undoState = -1;
    } else if (this.#isBwProbeSample) {
      this.#handleInflightTooHigh();
      this.#undoState = -1;
    }
  }

  // Section 5.3.4.3.
  #checkProbeRtt(): void {
    if (this.#state !== BbrState.ProbeRtt && this.#minRtt.isExpired && !this.#idleRestart) {
      this.#saveCwnd();
      this.#enter(BbrState.ProbeRtt);
      this.#probeRttDoneStamp = 0;
      this.#ackPhase = AckPhase.ProbeStopping;
      this.#startRound();
      this.#limitedFrom = this.#delivered;
    }
    if (this.#state === BbrState.ProbeRtt) this.#handleProbeRtt();
    if (this.#rsDelivered > 0) this.#idleRestart = false;
  }

  #handleProbeRtt(): void {
    this.#limitedUntil = this.#delivered + this.#inFlight;
    if (this.#probeRttDoneStamp === 0) {
      if (this.#inFlight > this.#probeRttCwnd()) return;
      this.#probeRttDoneStamp = this.#now + PROBE_RTT_DURATION;
      this.#probeRttRoundDone = false;
      this.#startRound();
      return;
    }
    if (this.#roundStart) this.#probeRttRoundDone = true;
    if (this.#probeRttRoundDone) this.#checkProbeRttDone();
  }

  #checkProbeRttDone(): void {
    if (this.#probeRttDoneStamp === 0 || this.#now <= this.#probeRttDoneStamp) return;
    this.#minRtt.schedule(this.#now);
    this.#restoreCwnd();
    // Section 5.3.4.4.
    this.#shortTerm.resetBounds();
    if (!this.#fullBwReached) {
      this.#enter(BbrState.Startup);
      return;
    }
    this.#startDown();
    this.#enter(BbrState.Cruise);
  }

  // Section 5.4.1.
  #restartFromIdle(): void {
    this.#idleRestart = true;
    this.#extraAckedIntervalStart = this.#now;
    if (this.#isInProbeBw()) this.#setPacingRate(1);
    else if (this.#state === BbrState.ProbeRtt) this.#checkProbeRttDone();
  }

  // Section 5.5.11.1 and 5.6.4.4.
  #saveStateUponLoss(): void {
    this.#saveCwnd();
    this.#savedAt = this.#now;
    this.#undoState = -1;
    this.#undoBwShortterm = this.#shortTerm.bw;
    this.#undoInflightShortterm = this.#shortTerm.inflight;
    this.#undoInflightLongterm = this.#inflightLongterm;
  }

  #endEpisode(): void {
    this.#isInRecovery = false;
    this.#isFastRecovery = false;
    this.#savedAt = -1;
  }

  #saveCwnd(): void {
    const isUnmodulated = !this.#isInRecovery && this.#state !== BbrState.ProbeRtt;
    this.#priorCwnd = isUnmodulated ? this.cwnd : Math.max(this.#priorCwnd, this.cwnd);
  }

  #restoreCwnd(): void {
    this.cwnd = Math.max(this.cwnd, this.#priorCwnd);
  }

  // Section 5.6.2.
  #setPacingRate(gain: number): void {
    const rate = gain * this.#bw * PACING_MARGIN;
    if (rate > 0 && (this.#fullBwReached || rate > this.pacingRateBytesPerSec)) this.pacingRateBytesPerSec = rate;
  }

  // Section 5.6.3.
  #updateSendQuantum(): void {
    const quantum = this.pacingRateBytesPerSec * MILLISECOND / SECOND;
    this.#sendQuantum = Math.max(Math.min(quantum, MAX_QUANTUM_BYTES), 2 * this.#mss);
  }

  // Sections 5.6.4.2 and 5.6.4.3.
  #minPipeCwnd(): number {
    return MIN_PIPE_SEGMENTS * this.#mss;
  }

  #bdp(): number {
    return this.#minRtt.value === Infinity ? 0 : this.#bw * this.#minRtt.value / SECOND;
  }

  #bdpMultiple(bw: number, gain: number): number {
    return this.#minRtt.value === Infinity ? this.#initialCwnd() : gain * bw * this.#minRtt.value / SECOND;
  }

  #quantizationBudget(inflightCap: number): number {
    const cap = Math.max(inflightCap, OFFLOAD_QUANTA * this.#sendQuantum, this.#minPipeCwnd());
    return this.#state === BbrState.Up ? cap + 2 * this.#mss : cap;
  }

  #inflight(bw: number): number {
    return this.#quantizationBudget(this.#bdpMultiple(bw, 1));
  }

  #targetInflight(): number {
    return Math.min(this.#bdp(), this.cwnd);
  }

  #probeRttCwnd(): number {
    return Math.max(this.#bdpMultiple(this.#bw, CWND_GAIN[BbrState.ProbeRtt]!), this.#minPipeCwnd());
  }

  // Section 5.6.4.6.
  #setCwnd(newlyAcked: number): void {
    const cap = this.#bdpMultiple(this.#bw, CWND_GAIN[this.#state]!) + this.#extraAcked.value;
    this.#maxInflight = this.#quantizationBudget(cap);
    if (this.#fullBwReached) {
      this.cwnd = Math.min(this.cwnd + newlyAcked, this.#maxInflight);
    } else if (this.cwnd < this.#maxInflight || this.#delivered < this.#initialCwnd()) {
      this.cwnd += newlyAcked;
    }
    this.cwnd = Math.max(this.cwnd, this.#minPipeCwnd());
    this.#boundCwnd();
  }

  // Sections 5.6.4.5 and 5.6.4.7.
  #boundCwnd(): void {
    if (this.#state === BbrState.ProbeRtt) this.cwnd = Math.min(this.cwnd, this.#probeRttCwnd());
    let cap = Infinity;
    if (this.#state === BbrState.Cruise || this.#state === BbrState.ProbeRtt) cap = this.#inflightWithHeadroom();
    else if (this.#isInProbeBw()) cap = this.#inflightLongterm;
    cap = Math.max(Math.min(cap, this.#shortTerm.inflight), this.#minPipeCwnd());
    this.cwnd = Math.floor(Math.min(this.cwnd, cap, MAX_CWND));
  }
}
