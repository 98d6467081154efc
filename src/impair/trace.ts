/**
 * Replay of a recorded link: what its delay, loss and rate were from when on.
 *
 * ```text
 *   time   delay  loss   rate         # the header may be left out; blanks or commas between the fields
 *   0s     20ms   0%     50mbit
 *   1.5s   35ms   0.5%   12mbit
 *   4s     35ms   0%     0bit         # the link stands still
 *   5s     20ms   0%     unlimited
 * ```
 *
 * Times count from the stack's start, or from when the impairment was changed to this one, so that the two directions of
 * a path stay together. A row holds from its time on until that of the next; the last holds for ever, or with `loop`
 * ends the recording, which then begins anew. A packet has the delay and the loss of the moment in which it comes; it is
 * transmitted by the rates of the moments in which it is, also if they change meanwhile.
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import { type Duration, type Instant, NEVER, SECOND } from "../base/time.ts";
import type { NetemDelivery, NetemTrace } from "./config.ts";
import type { Transmitter } from "./rate.ts";
import { parsePercent, parseRate, parseTime } from "./units.ts";

/** What holds from a time on. */
export interface TraceRow {
  /** From when on, in ns since the beginning. */
  readonly time: Duration;
  /** Delay in ns. */
  readonly delay: Duration;
  /** Probability of loss, 0 to 1. */
  readonly loss: number;
  /** Rate of the link; 0 if it stands still, `Infinity` if it has none. */
  readonly rateBytesPerSec: number;
}

/** The most rows, or opportunities, of a recording. */
export const TRACE_ROWS_MAX = 1 << 24;

const ROW_FIELDS = ["time", "delay", "loss", "rateBytesPerSec"] as const;

const FIELDS = "TIME DELAY LOSS RATE, like 1.5s 20ms 0.1% 50mbit (the rate may be unlimited)";

/**
 * Reads a recording.
 *
 * @param name what it is called in the text of an impairment
 * @throws {TypeError} naming the line and what was expected
 */
export function parseTrace(name: string, text: string, loop: boolean): NetemTrace {
  const rows: TraceRow[] = [];
  text.split("\n").forEach((line, i) => {
    const words = line.replace(/#.*/, "").split(/[\s,]+/).filter((word) => word !== "");
    if (words.length === 0 || (rows.length === 0 && words[0]!.toLowerCase() === "time")) return;
    const [time, delay, loss, rate] = words;
    const row = words.length !== 4 ? null : {
      time: parseTime(time!),
      delay: parseTime(delay!),
      loss: parsePercent(loss!),
      rateBytesPerSec: rate === "unlimited" ? Infinity : parseRate(rate!),
    };
    if (row === null || Object.values(row).some(Number.isNaN)) {
      throw new TypeError(`${name}: line ${i + 1} "${words.join(" ")}": expected ${FIELDS}`);
    }
    rows.push(row);
  });
  const trace: NetemTrace = { name, rows, loop };
  const problem = traceProblem(trace);
  if (problem !== null) throw new TypeError(`${name}: a trace ${problem}`);
  return trace;
}

/** What is wrong with a recording, as the end of a sentence; `null` if nothing is. */
export function traceProblem({ name, rows, loop }: NetemTrace): string | null {
  if (typeof name !== "string" || !/^\S+$/.test(name) || !Array.isArray(rows) || typeof loop !== "boolean") {
    return "must have a name, rows, and whether it is to loop";
  }
  if (rows.length < (loop ? 2 : 1) || rows.length > TRACE_ROWS_MAX) {
    return `must have ${loop ? "2" : "1"} to ${TRACE_ROWS_MAX} rows`;
  }
  for (const [i, row] of rows.entries()) {
    const at = `(row ${i + 1})`;
    if (typeof row !== "object" || row === null || !ROW_FIELDS.every((field) => typeof row[field] === "number")) {
      return `must have rows of the numbers ${ROW_FIELDS.join(", ")} ${at}`;
    }
    const { time, delay, loss, rateBytesPerSec } = row;
    if (i === 0 ? time !== 0 : !(time > rows[i - 1]!.time)) return `must have ascending times from 0s ${at}`;
    if (!Number.isSafeInteger(time) || !Number.isSafeInteger(delay) || delay < 0) {
      return `must have times in whole nanoseconds, and delays of at least 0 ${at}`;
    }
    if (!(loss >= 0 && loss <= 1)) return `must have losses from 0 to 100% ${at}`;
    if (rateBytesPerSec !== 0 && !(rateBytesPerSec >= 1)) return `must have rates of 0 or from 8bit ${at}`;
  }
  const moves = loop ? rows.slice(0, -1).some((row) => row.rateBytesPerSec > 0) : rows.at(-1)!.rateBytesPerSec > 0;
  return moves ? null : "must not stand still for ever";
}

/** The last place in `times` (ascending, the first not above `at`) whose time is not after `at`; looks near `hint` first. */
function placeOf(times: Float64Array, at: number, hint: number): number {
  const last = times.length - 1;
  if (times[hint]! <= at) {
    if (hint === last || at < times[hint + 1]!) return hint;
    if (hint + 1 === last || at < times[hint + 2]!) return hint + 1;
  }
  let [low, high] = [0, last];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (times[middle]! <= at) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Plays a recording. */
export class TracePlayer implements Transmitter {
  /** Row that holds for packets that come now; −1 before the first. */
  row = -1;
  /** When the last packet has been transmitted. */
  freeAt: Instant = -1;
  readonly #trace: NetemTrace;
  readonly #origin: Instant;
  readonly #times: Float64Array;
  readonly #period: Duration;
  /** What a whole period carries. */
  readonly #periodBytes: number;
  #linkRow = 0;

  /** Begins at `origin`. */
  constructor(trace: NetemTrace, origin: Instant) {
    const { rows, loop } = trace;
    const played = loop ? rows.slice(0, -1) : rows;
    this.#trace = trace;
    this.#origin = origin;
    this.#times = Float64Array.from(played, ({ time }) => time);
    this.#period = loop ? rows.at(-1)!.time : NEVER;
    this.#periodBytes = played.reduce((sum, { time, rateBytesPerSec }, i) => {
      const seconds = (rows[i + 1]?.time ?? NEVER) - time;
      return sum + (rateBytesPerSec === 0 ? 0 : rateBytesPerSec * (seconds / SECOND));
    }, 0);
  }

  /** Delay of packets that come now. */
  get delay(): Duration {
    return this.#trace.rows[this.row]!.delay;
  }

  /** Loss of packets that come now. */
  get loss(): number {
    return this.#trace.rows[this.row]!.loss;
  }

  /** Goes on to `now`; true if another row holds. */
  follow(now: Instant): boolean {
    const row = placeOf(this.#times, this.#inPeriod(now), Math.max(this.row, 0));
    if (row === this.row) return false;
    this.row = row;
    return true;
  }

  /** Transmits `p`. */
  transmit(p: Packet): void {
    p.releaseAt = this.#finish(p.length, Math.max(p.readyAt, this.freeAt));
    this.freeAt = p.releaseAt;
  }

  /** When so many bytes have been transmitted that were begun at `begin`. */
  #finish(lengthBytes: number, begin: Instant): Instant {
    let at = begin;
    let bytes = lengthBytes;
    if (bytes > this.#periodBytes) {
      const periods = Math.floor(bytes / this.#periodBytes);
      at += periods * this.#period;
      bytes -= periods * this.#periodBytes;
    }
    while (bytes > 0) {
      const from = this.#inPeriod(at);
      const row = this.#linkRow = placeOf(this.#times, from, this.#linkRow);
      const rate = this.#trace.rows[row]!.rateBytesPerSec;
      if (rate === Infinity) return at;
      const left = (row + 1 < this.#times.length ? this.#times[row + 1]! : this.#period) - from;
      const time = Math.ceil(bytes / rate * SECOND);
      if (time <= left) return at + time;
      bytes -= rate * left / SECOND;
      at += left;
    }
    return at;
  }

  #inPeriod(at: Instant): Duration {
    const since = Math.max(0, at - this.#origin);
    return this.#period === NEVER ? since : since % this.#period;
  }
}

/**
 * Reads Mahimahi's packet-delivery format: a time in ms a line, not descending, each an opportunity.
 *
 * @param name what it is called in the text of an impairment
 * @throws {TypeError} naming the line and what was expected
 */
export function parseDelivery(name: string, text: string): NetemDelivery {
  const opportunities: number[] = [];
  text.split("\n").forEach((line, i) => {
    const word = line.trim();
    if (word === "" || word.startsWith("#")) return;
    const value = /^\d+$/.test(word) ? Number(word) : NaN;
    if (!(value >= (opportunities.at(-1) ?? 0))) {
      throw new TypeError(
        `${name}: line ${i + 1} "${word}": expected a time in ms, not before that of the line before`,
      );
    }
    opportunities.push(value);
  });
  const delivery: NetemDelivery = { name, opportunities };
  const problem = deliveryProblem(delivery);
  if (problem !== null) throw new TypeError(`${name}: a recording of deliveries ${problem}`);
  return delivery;
}

/** What is wrong with a recording of deliveries, as the end of a sentence; `null` if nothing is. */
export function deliveryProblem({ name, opportunities }: NetemDelivery): string | null {
  if (typeof name !== "string" || !/^\S+$/.test(name) || !Array.isArray(opportunities)) {
    return "must have a name and opportunities";
  }
  const { length } = opportunities;
  if (length === 0 || length > TRACE_ROWS_MAX) return `must have 1 to ${TRACE_ROWS_MAX} opportunities`;
  let last = 0;
  for (const ms of opportunities) {
    if (!Number.isInteger(ms) || !Number.isSafeInteger(ms * 1e6) || ms < last) {
      return "must have whole milliseconds from 0 that do not descend";
    }
    last = ms;
  }
  return last === 0 ? "must last for more than 0 ms" : null;
}
