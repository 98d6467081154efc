/**
 * The queueing disciplines as a part of their own: packets of any kind, by a clock that you give them.
 *
 * `fq` shares a link between flows and keeps the earliest departure time of each packet; `pfifo` is one line for all. A
 * discipline looks at nothing in a packet but its length, its `flow` and its `departAt`, except for the band (`priomap`)
 * and for marking congestion (`ceThreshold`), for which it has to be an IP packet.
 *
 * ```ts
 * import { DropReason, Fq, MILLISECOND, PacketPool } from "@culvert/culvert/qdisc";
 *
 * const pool = new PacketPool();
 * const fq = new Fq({ rateBytesPerSec: 1_250_000 }, { drop: (p) => pool.release(p) });
 *
 * for (let i = 0; i < 100; i++) {
 *   const p = pool.acquire()!;
 *   p.end = p.start + 1000;
 *   p.flow = i % 10 < 9 ? 2 : 4; // nine packets of one flow to one of the other
 *   p.departAt = p.flow === 4 ? 5 * MILLISECOND : 0;
 *   if (fq.push(p, 0) !== DropReason.None) pool.release(p);
 * }
 * const order: number[] = [];
 * for (let at = fq.nextAt(); fq.backlogPackets > 0; at = fq.nextAt()) {
 *   const p = fq.pull(at);
 *   if (p === null) continue;
 *   order.push(p.flow);
 *   pool.release(p);
 * }
 * console.log(order.join(" "), fq.stats());
 * ```
 *
 * @module
 */

export { DropCounters, DropReason, dropReasonName, type DropSink } from "../base/drop.ts";
export { HEADROOM_BYTES, Packet, PacketPool } from "../base/packet.ts";
export { type Stage } from "../base/stage.ts";
export { type Duration, type Instant, MICROSECOND, MILLISECOND, NEVER, SECOND } from "../base/time.ts";
export { Fq, type FqOptions } from "./fq.ts";
export { Pfifo, type PfifoOptions } from "./pfifo.ts";
export { type Qdisc } from "./qdisc.ts";
