/**
 * What every queueing discipline offers beyond being a stage.
 *
 * @module
 */

import type { Stage } from "../base/stage.ts";
import type { Instant } from "../base/time.ts";

/** A queueing discipline in front of the host's tunnel socket. */
export interface Qdisc extends Stage {
  /** The discipline's name in tc's words: `"fq"`, `"pfifo"`. */
  readonly kind: string;
  /** Packets held. */
  readonly backlogPackets: number;
  /** Bytes held. */
  readonly backlogBytes: number;
  /** Bytes held of one flow, so that TCP can hold the flow back (TCP small queues). */
  flowBacklog(flow: number): number;
  /**
   * The rate at which a local connection wants to send: a discipline that paces spaces the connection's packets that
   * have no departure time by it. It holds, also while nothing is queued, until it is set again or the flow is reset.
   *
   * @param flow the flow of a local connection, which is even
   * @param rateBytesPerSec above 0; `Infinity` for no bound, which is what every flow begins with
   * @throws {RangeError} if either is out of range
   */
  setFlowRate(flow: number, rateBytesPerSec: number): void;
  /** A new connection got the number of a former one: what was remembered of that one (credit, rate) is forgotten. */
  resetFlow(flow: number): void;
  /**
   * Statistics by tc's names.
   *
   * @param now what times are told relative to (default 0)
   */
  stats(now?: Instant): Record<string, number>;
  /** Drops all packets held, as `DropReason.Closed`; afterwards the discipline is empty and can be used again. */
  close(now: Instant): void;
}

/**
 * Checks an option that has to be an integer.
 *
 * @param kind the discipline's name, for the message
 * @param option the option's name, for the message
 * @returns `value`
 * @throws {RangeError} if it is no integer from `least` to `most`
 */
export function checkOption(kind: string, option: string, value: number, least: number, most: number): number {
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  throw new RangeError(`${kind} ${option} must be an integer from ${least} to ${most}, got ${value}`);
}

/**
 * Checks a rate in bytes per second.
 *
 * @returns `rateBytesPerSec`
 * @throws {RangeError} if it is no number above 0; `Infinity` is one
 */
export function checkRate(kind: string, option: string, rateBytesPerSec: number): number {
  if (rateBytesPerSec > 0) return rateBytesPerSec;
  throw new RangeError(`${kind} ${option} must be above 0 bytes per second, got ${rateBytesPerSec}`);
}
