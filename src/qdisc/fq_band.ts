/**
 * The bands of {@linkcode Fq}: which one a packet belongs to, and the lists and the credit of each.
 *
 * A packet's priority comes from the traffic class in its IP header as Linux derives it from the TOS byte (`ip_tos2prio`
 * of net/ipv4/route.c): that table is older than DSCP and looks at its low three bits only. IPv6 is treated alike.
 *
 * | DSCP & 7 | priority                 | band by default | among others                                  |
 * | -------- | ------------------------ | --------------- | --------------------------------------------- |
 * | 0, 1     | 0, best effort           | 1               | default, CS1 to CS7, LE                       |
 * | 2, 3     | 2, bulk                  | 2               | TOS "throughput" (0x08), AF11, AF21, AF31, AF41 |
 * | 4, 5     | 6, interactive           | 0               | TOS "low delay" (0x10), AF12, AF22, AF32, AF42, VA |
 * | 6, 7     | 4, interactive and bulk  | 1               | AF13, AF23, AF33, AF43, EF                    |
 *
 * The priority is then an index into `priomap`. Only the entries 0, 2, 4 and 6 of it can be reached here: a program that
 * wants EF in the first band sets entry 4.
 *
 * @module
 */

import { FlowList, type FqFlows } from "./fq_flow.ts";

/** Number of bands; 0 has the greatest weight. */
export const FQ_BANDS = 3;

/** The band of each priority, if not said otherwise. */
export const FQ_PRIOMAP: readonly number[] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];

/** Bytes that each band may send in a round, if not said otherwise: 9 to 3 to 1. */
export const FQ_WEIGHTS: readonly number[] = [589_824, 196_608, 65_536];

/** The least weight of a band. */
export const FQ_WEIGHT_MIN = 16_384;

/** Priority by the low three bits of the DSCP. */
const PRIORITIES: readonly number[] = [0, 0, 2, 2, 6, 6, 4, 4];

/** The band of each traffic class. */
export function bandTable(priomap: readonly number[]): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, trafficClass) => priomap[PRIORITIES[(trafficClass >>> 2) & 7]!]!);
}

/** One band: its flows that have something to send, and what it may still send in this round. */
export class FqBand {
  /** Bytes a round. */
  readonly weight: number;
  /** Bytes that it may still send in this round; may be negative by less than a packet. */
  credit: number;
  /** Flows that were idle. */
  readonly newFlows: FlowList;
  /** Flows that had their first turn. */
  readonly oldFlows: FlowList;
  /** Packets held of this band, the fast path not counted. */
  packets = 0;
  /** Packets refused because the band was full. */
  drops = 0;

  /** A band of `flows` that has none yet, at the beginning of its round. */
  constructor(weight: number, flows: FqFlows) {
    this.weight = weight;
    this.credit = weight;
    this.newFlows = new FlowList(flows);
    this.oldFlows = new FlowList(flows);
  }
}
