/**
 * Who looks on at the packets of a stack, and where it can look.
 *
 * ```text
 *   qdisc ──Out──▶ impairment ──OutWire──▶ tunnel          tunnel ──InWire──▶ impairment ──In──▶ IP
 * ```
 *
 * Where an interface has no impairment in a direction, the two points are one: `Out` or `In`.
 *
 * @module
 */

import type { DropReason } from "../base/drop.ts";
import type { Packet } from "../base/packet.ts";
import type { Instant } from "../base/time.ts";

/** A place where packets pass. */
export enum TapPoint {
  /** Behind the queueing discipline. */
  Out = 0,
  /** Behind the impairment of what goes out. */
  OutWire,
  /** In front of IP; packets to the host itself pass here too, by interface 0. */
  In,
  /** In front of the impairment of what comes in. */
  InWire,
}

/** Looks on. It may read a packet and may not change or keep it. */
export interface PacketTap {
  /** `p`, an IP packet from `p.start` to `p.end`, passes `point` of interface `p.ifindex`. */
  packet(point: TapPoint, p: Packet, now: Instant): void;
  /** `p` is dropped on its way out (`TapPoint.Out`) or in (`TapPoint.In`). */
  drop(point: TapPoint, p: Packet, reason: DropReason, now: Instant): void;
}
