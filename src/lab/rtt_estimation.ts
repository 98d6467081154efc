/**
 * The experiment `rtt-estimation`: what a retransmission timeout that knows the round-trip time is worth.
 *
 * ```text
 *   a ──── delay 100ms 40ms (uniform, so that packets overtake each other) ──── b, and the same back
 * ```
 *
 * One bulk flow, nothing is ever lost. With a fixed timeout of 100 ms every round trip is longer than the timeout: the SYN
 * and the first segments are sent again for nothing, until acknowledgments come so often that each restarts the timer
 * before it runs out; the window of a flow whose slow start that ended is long in growing again. The estimator of RFC 6298
 * is to keep the timer quiet, however much the path jitters and reorders.
 *
 * @module
 */

import { type Duration, MILLISECOND, SECOND } from "../base/time.ts";
import { Simulator } from "../netsim/simulator.ts";
import { BulkSink, BulkSource, openBulk } from "./bulk.ts";

/** How the retransmission timeout comes about: always 100 ms, or by RFC 6298. */
export type RtoKind = "fixed" | "estimator";

/** The timeout of `"fixed"`. */
export const FIXED_RTO: Duration = 100 * MILLISECOND;

/** Delay and jitter of each direction, in netem's words. */
export const RTT_ESTIMATION_PATH = "delay 100ms 40ms limit 1000000";

/** One run. */
export interface RttEstimationCell {
  /** How the retransmission timeout comes about. */
  rto: RtoKind;
  /** Seed of all randomness. */
  seed: number;
  /** Virtual seconds, handshake included. */
  seconds: number;
  /** Congestion control by name (default TCP's own). */
  control?: string;
}

/** What a run gave. */
export interface RttEstimationResult {
  /** Data segments sent, retransmissions included. */
  segments: number;
  /** Segments sent again because the timer ran out, and in the slow start after that. */
  timeoutRetransmits: number;
  /** The same of a thousand segments. */
  timeoutRetransmitsPerThousand: number;
  /** Segments sent again for other reasons; these too are in vain, since nothing is lost. */
  otherRetransmits: number;
  /** SYNs sent again. */
  synRetransmits: number;
  /** Bytes received in order in a second. */
  goodputBytesPerSec: number;
  /** Smoothed round-trip time at the end in milliseconds. */
  srtt: number;
  /** Mean deviation of it at the end in milliseconds. */
  rttvar: number;
  /** Retransmission timeout at the end in milliseconds, back-off included. */
  rto: number;
}

/** Runs one cell. */
export function runRttEstimationCell({ rto, seed, seconds, control }: RttEstimationCell): RttEstimationResult {
  const sim = new Simulator({ seed });
  const sink = new BulkSink();
  const tcp = {
    fixedRto: rto === "fixed" ? FIXED_RTO : 0,
    retries: 1 << 30,
    ...(control === undefined ? {} : { congestion: control }),
  };
  const address = "10.0.0.2";
  const a = sim.addStack(
    "a",
    { address: "10.0.0.1/24", peers: [{ name: "b", allowed: address }], tcp },
    new BulkSource(),
  );
  const b = sim.addStack("b", { address: `${address}/24`, peers: [{ name: "a", allowed: "10.0.0.1" }], tcp }, sink);
  sim.link(["a", 1], ["b", 1], { impair: RTT_ESTIMATION_PATH });
  const t = openBulk(a, b, address, sim.now);
  sim.run(seconds * SECOND);
  const info = t.info();
  const { timeout, loss, syn, ...others } = info.retransmits;
  const timeoutRetransmits = timeout + loss;
  const otherRetransmits = Object.values(others).reduce((sum, n) => sum + n, 0);
  const segments = t.dataSegmentsOut;
  return {
    segments,
    timeoutRetransmits,
    timeoutRetransmitsPerThousand: segments === 0 ? 0 : 1000 * timeoutRetransmits / segments,
    otherRetransmits,
    synRetransmits: syn,
    goodputBytesPerSec: sink.bytes / seconds,
    srtt: info.rtt,
    rttvar: info.rttvar,
    rto: info.rto,
  };
}
