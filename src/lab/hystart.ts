/**
 * The experiment `hystart`: where slow start ends on a fast link before anything is lost, by the rule that ends it.
 *
 * ```text
 *   a ── queue of 1,225 packets ── 1 Gbit/s ── 5.65 ms ──► b
 *   a ◄── 5.65 ms + 0 … 1 ms, never reordered ──────────── b      delayed acknowledgments
 * ```
 *
 * The path of the patch mail "Make CUBIC Hystart more robust to RTT variations" (netdev, 8 March 2011): the sender's own
 * interface is the bottleneck, and the noise on acknowledgments is what moderated interrupts make of them. A window of
 * one bandwidth-delay product is 942 packets; with the queue full, 2,167 are on the way. `hystart-2008` is the rule as it
 * was merged, with its clock of jiffies at HZ 250; `hystart-2011` that of the patch; both with a window that grows by a
 * segment for each acknowledgment, as then. The others are as they are today, and grow by the bytes acknowledged.
 *
 * The rule of 2008 ends slow start at the first tick, 4 ms apart, that falls into a train of acknowledgments. With the
 * noise a round trip is about three ticks long, so that every round begins at about the same time between two ticks:
 * where the flow begins there (`phase`) decides whether that happens at 16 segments or at 350.
 *
 * @module
 */

import { type Duration, type Instant, MICROSECOND, MILLISECOND, NEVER, SECOND } from "../base/time.ts";
import type { SimBottleneck } from "../netsim/bottleneck.ts";
import { Simulator } from "../netsim/simulator.ts";
import type { Tcb } from "../tcp/tcb.ts";
import type { PacingMode } from "../tcp/pacing.ts";
import { BulkSink, BulkSource, openBulk } from "./bulk.ts";

/** Rate of the bottleneck: 1 Gbit/s. */
const RATE_BYTES_PER_SEC = 125_000_000;

/** Round-trip time of the empty path, without the noise. */
export const HYSTART_RTT: Duration = 11_300 * MICROSECOND;

const QUEUE_PACKETS = 1225;
const PACKET_BYTES = 1500;
const PAYLOAD_BYTES = 1448;

/** Uniform between 0 and 1 ms; netem with a rate keeps packets in order. */
const ACK_NOISE = "delay 500us 500us rate 1000gbit limit 1000000";

/** Buffers, so large that they are never the limit. */
const BUFFER_BYTES = 32 << 20;

/** The bandwidth-delay product in segments of 1,448 bytes. */
export const HYSTART_BDP_SEGMENTS: number = RATE_BYTES_PER_SEC * HYSTART_RTT / SECOND / PAYLOAD_BYTES;

/** The most data that the bottleneck lets through, in bytes a second. */
export const HYSTART_PAYLOAD_BYTES_PER_SEC: number = RATE_BYTES_PER_SEC * PAYLOAD_BYTES / PACKET_BYTES;

/** The rate that counts as having been reached, of what the bottleneck lets through. */
const REACHED = 0.9;

/** Over so many samples a rate is taken: 102 ms. */
const RATE_SAMPLES = 9;

/** One run. */
export interface HystartCell {
  /** How slow start ends, by name. */
  exit: string;
  /** How departures are spaced. */
  pacing: PacingMode;
  /** Seed of all randomness. */
  seed: number;
  /** Virtual seconds. */
  seconds: number;
  /** Congestion control by name (default `"cubic"`). */
  control?: string;
  /** When the flow begins after a tick of the jiffy clock, less than 4 ms (default 0). */
  phase?: Duration;
}

/** How slow start ended: by its rule, by loss, or not at all. */
export type SlowStartEnd = "exit" | "overflow" | "none";

/** The state at one time; one is taken each round-trip time. */
export interface HystartSample {
  /** Virtual time since the SYN, in milliseconds. */
  time: number;
  /** Congestion window in segments. */
  cwnd: number;
  /** Packets in the queue. */
  queue: number;
  /** Data received since the sample before, in bytes a second. */
  rate: number;
}

/** What a run gave. */
export interface HystartResult {
  /** How slow start ended. */
  end: SlowStartEnd;
  /** Congestion window when it ended, in segments; at the end of the run if it did not. */
  exitCwnd: number;
  /** When it ended, in milliseconds since the SYN; `null` if it did not. */
  exitTime: number | null;
  /** When 90 % of the bottleneck's rate was reached, over a tenth of a second, in milliseconds; `null` if never. */
  reachedTime: number | null;
  /** Packets that found the queue full. */
  lostPackets: number;
  /** The same of all that came to it. */
  lossRatio: number;
  /** Bytes received in a second. */
  goodputBytesPerSec: number;
  /** One sample each round-trip time. */
  samples: HystartSample[];
}

/** Runs one cell. */
export function runHystartCell(cell: HystartCell): HystartResult {
  const sim = new Simulator({ seed: cell.seed, digest: false });
  const sink = new BulkSink();
  const isOld = cell.exit === "hystart-2008" || cell.exit === "hystart-2011";
  const tcp = {
    congestion: cell.control ?? "cubic",
    pacing: cell.pacing,
    slowStartExit: cell.exit,
    slowStartGrowth: isOld ? "acks" as const : "bytes" as const,
    initialCwndSegments: 10,
    sendBufferBytes: BUFFER_BYTES,
    receiveBufferBytes: BUFFER_BYTES,
  };
  const address = "10.0.0.2";
  const a = sim.addStack(
    "a",
    { address: "10.0.0.1/24", peers: [{ name: "b", allowed: address }], tcp },
    new BulkSource(),
  );
  const b = sim.addStack("b", { address: `${address}/24`, peers: [{ name: "a", allowed: "10.0.0.1" }], tcp }, sink);
  const bottleneck = sim.addBottleneck("interface of a", {
    rateBytesPerSec: RATE_BYTES_PER_SEC,
    queuePackets: QUEUE_PACKETS,
  });
  sim.link(["a", 1], ["b", 1], { bottleneck, delay: HYSTART_RTT / 2 }, { impair: ACK_NOISE, delay: HYSTART_RTT / 2 });
  const startAt = cell.phase ?? 0;
  sim.run(startAt);
  const watch = new Watch(sim, openBulk(a, b, address, startAt), sink, bottleneck);
  sim.run(startAt + cell.seconds * SECOND, () => watch.step(sim.now));
  return {
    ...watch.end(),
    lostPackets: bottleneck.droppedPackets,
    lossRatio: bottleneck.droppedPackets / bottleneck.offeredPackets,
    goodputBytesPerSec: sink.bytes / cell.seconds,
    samples: watch.samples,
  };
}

/** Looks on: at each step for the end of slow start, once a round-trip time for a sample. */
class Watch {
  readonly samples: HystartSample[] = [];
  readonly #t: Tcb;
  readonly #sink: BulkSink;
  readonly #bottleneck: SimBottleneck;
  readonly #startAt: Instant;
  #end: SlowStartEnd = "none";
  #exitAt: Instant = NEVER;
  #cwnd = 0;
  #exitCwnd = 0;
  #reachedAt: Instant = NEVER;
  #bytes = 0;

  constructor(sim: Simulator, t: Tcb, sink: BulkSink, bottleneck: SimBottleneck) {
    this.#t = t;
    this.#sink = sink;
    this.#bottleneck = bottleneck;
    this.#startAt = sim.now;
    const sample = (now: Instant): void => {
      this.#sample(now);
      sim.at(now + HYSTART_RTT, sample);
    };
    sim.at(sim.now + HYSTART_RTT, sample);
  }

  /** Called before each step; never ends the run. */
  step(now: Instant): boolean {
    if (this.#end !== "none") return false;
    const { cwnd, ssthresh } = this.#t.congestion;
    if (ssthresh === Infinity) {
      this.#cwnd = cwnd;
      return false;
    }
    const { caState } = this.#t.info();
    const isLoss = caState === "recovery" || caState === "loss";
    this.#end = isLoss ? "overflow" : "exit";
    this.#exitCwnd = isLoss ? this.#cwnd : cwnd;
    this.#exitAt = now;
    return false;
  }

  /** How slow start ended, and when the rate was reached. */
  end(): Pick<HystartResult, "end" | "exitCwnd" | "exitTime" | "reachedTime"> {
    const time = (at: Instant): number | null => at === NEVER ? null : this.#sinceStart(at);
    return {
      end: this.#end,
      exitCwnd: Math.round((this.#end === "none" ? this.#cwnd : this.#exitCwnd) / this.#t.mss),
      exitTime: time(this.#exitAt),
      reachedTime: time(this.#reachedAt),
    };
  }

  /** Milliseconds since the SYN. */
  #sinceStart(at: Instant): number {
    return (at - this.#startAt) / MILLISECOND;
  }

  #sample(now: Instant): void {
    const rate = (this.#sink.bytes - this.#bytes) * SECOND / HYSTART_RTT;
    this.#bytes = this.#sink.bytes;
    const cwnd = Math.round(this.#t.congestion.cwnd / this.#t.mss);
    this.samples.push({ time: this.#sinceStart(now), cwnd, queue: this.#bottleneck.heldPackets, rate });
    if (this.#reachedAt !== NEVER || this.samples.length < RATE_SAMPLES) return;
    const mean = this.samples.slice(-RATE_SAMPLES).reduce((sum, s) => sum + s.rate, 0) / RATE_SAMPLES;
    if (mean >= REACHED * HYSTART_PAYLOAD_BYTES_PER_SEC) this.#reachedAt = now;
  }
}
