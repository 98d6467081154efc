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
  /** Statistics by tc's names. */
  stats(): Record<string, number>;
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
