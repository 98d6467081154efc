/**
 * netem as a part of its own: a stage that delays, loses, duplicates, reorders and corrupts packets of any kind, by a
 * clock that you give it.
 *
 * A stage is pushed to and pulled from, and says when pulling is next useful. It looks at nothing in a packet but its
 * length, except to mark congestion (`ecn`), for which it has to be an IP packet.
 *
 * ```ts
 * import { DropReason, MILLISECOND, NetemStage, NEVER, PacketPool, parseNetem, Rng } from "@culvert/culvert/netem";
 *
 * const pool = new PacketPool();
 * const lost = { drop: (p: Parameters<typeof pool.release>[0]) => pool.release(p) };
 * const link = new NetemStage(parseNetem("delay 20ms 5ms loss gemodel 1% 25% rate 10mbit"), new Rng(1), pool, lost);
 *
 * for (let i = 0; i < 1000; i++) {
 *   const p = pool.acquire()!;
 *   p.end = p.start + 1200;
 *   if (link.push(p, i * MILLISECOND) !== DropReason.None) pool.release(p);
 * }
 * link.change(parseNetem("profile lte"), 1000 * MILLISECOND);
 * for (let at = link.nextAt(); at < NEVER; at = link.nextAt()) {
 *   const p = link.pull(at);
 *   if (p !== null) pool.release(p);
 * }
 * console.log(link.stats());
 * ```
 *
 * @module
 */

export { DropCounters, DropReason, dropReasonName, type DropSink } from "../base/drop.ts";
export { HEADROOM_BYTES, Packet, PacketPool } from "../base/packet.ts";
export { Rng } from "../base/rng.ts";
export { type Stage } from "../base/stage.ts";
export { type Duration, type Instant, MICROSECOND, MILLISECOND, NEVER, SECOND } from "../base/time.ts";
export { type NetemProblem, netemWarnings } from "./check.ts";
export {
  type DistributionTable,
  type LossGemodel,
  type LossState,
  NETEM_DEFAULTS,
  type NetemConfig,
  netemConfig,
  type NetemDelivery,
  type NetemDistribution,
  type NetemSlot,
  type NetemTrace,
} from "./config.ts";
export { parseDistribution } from "./distribution.ts";
export { formatNetem } from "./format.ts";
export { expectedLoss } from "./loss.ts";
export { type NetemDelays, netemDelays, type NetemFigure, type NetemReport } from "./meter.ts";
export { NetemStage } from "./netem_stage.ts";
export { netemFiles, type NetemTextOptions, type NetemWarning, parseNetem } from "./parse.ts";
export { PROFILE_NAMES, type ProfileName, profileText } from "./profile.ts";
export { parseDelivery, parseTrace, type TraceRow } from "./trace.ts";
