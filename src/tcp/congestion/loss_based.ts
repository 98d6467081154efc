/**
 * What Reno and CUBIC have in common: slow start, the reduction on congestion and its undoing, and the restart after
 * idleness. How the window grows in congestion avoidance and how far it falls is theirs.
 *
 * Windows are whole bytes, at least one segment. The window grows only while it is what holds the sender back.
 *
 * In slow start it grows by the bytes acknowledged (RFC 3465), or by a segment for each acknowledgment if the settings say
 * so; what ends slow start before there is loss is chosen by name. With selective acknowledgments only what an acknowledgment
 * newly delivers counts: the rest of what it covers left the network before. Without, at most one segment counts in the slow
 * start after a timeout (RFC 3465 section 2.3).
 *
 * Congestion sets `ssthresh` to a part of FlightSize (RFC 5681 section 3.1), at least two segments. In a fast recovery the
 * window comes from PRR and ends at `ssthresh`; a timeout leaves one segment; an ECN signal leaves at least one (RFC 3168
 * section 6.1.2). All of that is taken back if it was a false alarm (RFC 4015, RFC 9438 section 4.9), unless the window has
 * outgrown what it was or congestion of another kind came since.
 *
 * After idleness the window is halved for each retransmission timeout that passed, down to the initial window (RFC 5681
 * section 4.1, RFC 2861 section 3.1).
 *
 * @module
 */

import type { Duration, Instant } from "../../base/time.ts";
import {
  type AckSample,
  type CongestionControl,
  type CongestionSettings,
  CongestionSignal,
  initialWindow,
  MAX_CWND,
} from "./control.ts";
import type { SlowStartExit } from "./slow_start_exit.ts";
import { makeSlowStartExit } from "./slow_start_exits.ts";

/** A congestion control whose window falls on loss and otherwise grows. */
export abstract class LossBasedControl implements CongestionControl {
  abstract readonly name: string;
  readonly pacingRateBytesPerSec: number = 0;
  readonly ownsRecovery: boolean = false;
  why = "";
  cwnd: number;
  ssthresh: number = Infinity;
  /** Bytes of a full segment. */
  protected mss: number;
  /** Part of FlightSize that is left after congestion. */
  protected abstract readonly beta: number;
  readonly #initialCwndSegments: number;
  readonly #growsByAcks: boolean;
  readonly #exit: SlowStartExit;
  /** Nothing was sent and no congestion met: the window is still the initial one. */
  #isInitial = true;
  /** A fast recovery is going on, at the end of which the window is `ssthresh`. */
  #isFastRecovery = false;
  #canUndo = false;
  #priorCwnd = 0;
  #priorSsthresh: number = Infinity;

  /**
   * Starts with the initial window of the settings.
   *
   * @throws {TypeError} if there is no way to end slow start of the name in the settings
   */
  constructor(settings: CongestionSettings) {
    this.#initialCwndSegments = settings.initialCwndSegments;
    this.#growsByAcks = settings.slowStartGrowth === "acks";
    this.#exit = makeSlowStartExit(settings.slowStartExit);
    this.mss = settings.mssBytes;
    this.cwnd = this.#initial();
  }

  onSent(_now: Instant, _bytes: number, _inFlightBytes: number): void {
    this.#isInitial = false;
  }

  onLost(): void {}

  onAck(sample: AckSample): void {
    let acked = countedBytes(sample, this.mss);
    if (this.cwnd < this.ssthresh) {
      acked = this.#slowStart(sample);
      if (acked <= 0) return;
    }
    this.avoid(sample, acked);
  }

  onCongestion(signal: CongestionSignal, sample: AckSample): void {
    this.#isInitial = false;
    this.#exit.onCongestion(signal);
    this.#isFastRecovery = signal === CongestionSignal.Loss;
    if (signal === CongestionSignal.TimeoutAgain) {
      this.cwnd = this.mss;
      this.why = "timeout again";
      return;
    }
    this.#priorCwnd = this.cwnd;
    this.#priorSsthresh = this.ssthresh;
    this.#canUndo = signal !== CongestionSignal.Ecn;
    this.reduce(signal, sample);
    const part = Math.floor(sample.priorInFlightBytes * this.beta);
    this.ssthresh = Math.max(part, 2 * this.mss);
    if (signal === CongestionSignal.Loss) {
      this.cwnd = this.ssthresh;
      this.why = "loss";
    } else if (signal === CongestionSignal.Ecn) {
      this.cwnd = Math.min(this.cwnd, Math.max(part, this.mss));
      this.why = "ecn";
    } else {
      this.cwnd = this.mss;
      this.why = "timeout";
    }
  }

  onRecovered(_sample: AckSample): void {
    // RFC 9937 section 6: a fast recovery ends at ssthresh. After a timeout slow start goes on from where it is.
    if (this.#isFastRecovery) this.cwnd = this.ssthresh;
    this.#isFastRecovery = false;
  }

  onSpurious(): void {
    if (!this.#canUndo) return;
    this.#canUndo = false;
    this.#isFastRecovery = false;
    if (this.cwnd >= this.#priorCwnd) return;
    this.cwnd = this.#priorCwnd;
    this.ssthresh = this.#priorSsthresh;
    this.why = "undo";
    this.restore();
  }

  onIdle(_now: Instant, idle: Duration, rto: Duration): void {
    const before = this.cwnd;
    const restart = Math.min(this.#initial(), before);
    if (this.ssthresh !== Infinity) this.ssthresh = Math.max(this.ssthresh, Math.floor(0.75 * this.cwnd));
    for (let left = idle; left > rto && this.cwnd > restart; left -= rto) this.cwnd = Math.floor(this.cwnd / 2);
    this.cwnd = Math.max(this.cwnd, restart);
    if (this.cwnd < before) this.why = "idle";
  }

  onMss(mssBytes: number): void {
    const before = this.mss;
    if (mssBytes === before) return;
    this.mss = mssBytes;
    if (this.#isInitial) {
      this.cwnd = this.#initial();
      return;
    }
    this.cwnd = this.#scaled(this.cwnd, before);
    this.#priorCwnd = this.#scaled(this.#priorCwnd, before);
    if (this.ssthresh !== Infinity) this.ssthresh = Math.max(this.#scaled(this.ssthresh, before), 2 * mssBytes);
    if (this.#priorSsthresh !== Infinity) this.#priorSsthresh = this.#scaled(this.#priorSsthresh, before);
  }

  /** Congestion avoidance: `acked` bytes were acknowledged beyond what slow start took. */
  protected abstract avoid(sample: AckSample, acked: number): void;

  /** Congestion is about to reduce the window: what the control remembers of it is brought up to date, and saved. */
  protected abstract reduce(signal: CongestionSignal, sample: AckSample): void;

  /** What `reduce` has saved is taken back. */
  protected abstract restore(): void;

  /** The window grows by whole bytes. */
  protected grow(bytes: number): void {
    this.cwnd = Math.min(this.cwnd + bytes, MAX_CWND);
  }

  /** @returns bytes that go beyond `ssthresh` and count for congestion avoidance */
  #slowStart(sample: AckSample): number {
    const exit = this.#exit;
    const before = exit.why;
    if (exit.onAck(sample, this.cwnd, this.mss, this.ssthresh === Infinity)) {
      this.ssthresh = this.cwnd;
      this.why = exit.why;
      return countedBytes(sample, this.mss);
    }
    if (exit.why !== before) this.why = exit.why;
    if (!sample.isCwndLimited) return 0;
    const counted = this.#growsByAcks ? this.mss : countedBytes(sample, this.mss);
    const growth = exit.growth(counted, sample, this.mss);
    const room = this.ssthresh - this.cwnd;
    this.grow(Math.min(growth, room));
    return growth - room;
  }

  #initial(): number {
    return this.#initialCwndSegments > 0 ? this.#initialCwndSegments * this.mss : initialWindow(this.mss);
  }

  #scaled(window: number, mssBefore: number): number {
    return Math.max(Math.floor(window / mssBefore * this.mss), this.mss);
  }
}

/**
 * Bytes by which the window may grow: what this acknowledgment newly delivered. What had been selectively acknowledged
 * before left the network then, and new segments have taken its place.
 */
function countedBytes(sample: AckSample, mss: number): number {
  if (sample.hasSack) return Math.min(sample.ackedBytes, sample.deliveredBytes);
  return sample.isInRecovery ? Math.min(sample.ackedBytes, mss) : sample.ackedBytes;
}
