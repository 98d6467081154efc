/**
 * The options of {@linkcode Fq}, by tc's names, and their defaults.
 *
 * @module
 */

import { type Duration, MILLISECOND, NEVER, SECOND } from "../base/time.ts";
import { FQ_BANDS, FQ_PRIOMAP, FQ_WEIGHT_MIN, FQ_WEIGHTS } from "./fq_band.ts";
import { checkOption, checkRate } from "./qdisc.ts";

/** Options of {@linkcode Fq}, by tc's names; rates are in bytes per second, times in ns. */
export interface FqOptions {
  /** The most packets held of each band (default 10,000). */
  limit?: number;
  /** The most packets held of one flow (default 100). */
  flowLimit?: number;
  /** Bytes that a flow may send in a turn (default 3,028: two Ethernet frames). */
  quantum?: number;
  /** Bytes that a flow may send in its first turn (default 15,140: ten Ethernet frames). */
  initialQuantum?: number;
  /** The most that one flow may send, stamped or not (default no bound). */
  maxrateBytesPerSec?: number;
  /** The most that all flows together may send: the bottleneck that this queue stands in front of (default no bound). */
  rateBytesPerSec?: number;
  /** Flows without stamps are spaced packet by packet up to this rate, quantum by quantum above (default 68,750). */
  lowRateThresholdBytesPerSec?: number;
  /** Enforce the rates of flows (default true); departure times and the total rate hold in any case. */
  pacing?: boolean;
  /** A packet that leaves so much later than it was due is marked CE, if its sender is ECN-capable (default never). */
  ceThreshold?: Duration;
  /** How far ahead a departure time may lie (default 10 s). */
  horizon?: Duration;
  /** What to do beyond the horizon: drop (default), or `false` for departure at the horizon. */
  horizonDrop?: boolean;
  /** Idle time after which a flow gets a quantum of credit again (default 40 ms). */
  refillDelay?: Duration;
  /** Band (0 to 2) of each of the 16 priorities (default 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1); see fq_band.ts. */
  priomap?: readonly number[];
  /** Bytes that each of the three bands may send in a round (default 589,824, 196,608 and 65,536; at least 16,384). */
  weights?: readonly number[];
  /** Which bits of a flow hash count (default 1,023, for 1,024 flows); local connections are not concerned. */
  orphanMask?: number;
  /** Bytes added to the length of each packet for the headers that it will get further down (default 0). */
  overheadBytes?: number;
}

/** The greatest weight of a band. */
const WEIGHT_MAX = 2 ** 31 - 1;

/**
 * Checks options and completes them with their defaults; a rate without a bound is `Infinity`.
 *
 * @throws {RangeError} if an option is out of range
 */
export function completeFqOptions(options: FqOptions): Required<FqOptions> {
  const integer = (name: keyof FqOptions, value: number, least: number, most: number): number =>
    checkOption("fq", name, value, least, most);
  const time = (name: keyof FqOptions, value: Duration): Duration => integer(name, value, 0, Number.MAX_SAFE_INTEGER);
  const list = (name: keyof FqOptions, values: readonly number[], length: number, least: number, most: number) => {
    if (values.length !== length) throw new RangeError(`fq ${name} must have ${length} entries, got ${values.length}`);
    return values.map((value) => integer(name, value, least, most));
  };
  const { ceThreshold } = options;
  return {
    limit: integer("limit", options.limit ?? 10_000, 1, 1 << 24),
    flowLimit: integer("flowLimit", options.flowLimit ?? 100, 1, 1 << 24),
    quantum: integer("quantum", options.quantum ?? 3028, 1, 1 << 20),
    initialQuantum: integer("initialQuantum", options.initialQuantum ?? 15_140, 0, 2 ** 31 - 1),
    maxrateBytesPerSec: checkRate("fq", "maxrate", options.maxrateBytesPerSec ?? Infinity),
    rateBytesPerSec: checkRate("fq", "rate", options.rateBytesPerSec ?? Infinity),
    lowRateThresholdBytesPerSec: checkRate("fq", "lowRateThreshold", options.lowRateThresholdBytesPerSec ?? 68_750),
    pacing: options.pacing ?? true,
    ceThreshold: ceThreshold === undefined || ceThreshold === NEVER ? NEVER : time("ceThreshold", ceThreshold),
    horizon: time("horizon", options.horizon ?? 10 * SECOND),
    horizonDrop: options.horizonDrop ?? true,
    refillDelay: time("refillDelay", options.refillDelay ?? 40 * MILLISECOND),
    priomap: list("priomap", options.priomap ?? FQ_PRIOMAP, FQ_PRIOMAP.length, 0, FQ_BANDS - 1),
    weights: list("weights", options.weights ?? FQ_WEIGHTS, FQ_BANDS, FQ_WEIGHT_MIN, WEIGHT_MAX),
    orphanMask: integer("orphanMask", options.orphanMask ?? 1023, 0, 0xffff),
    overheadBytes: integer("overheadBytes", options.overheadBytes ?? 0, 0, 1024),
  };
}
