/**
 * A simulated network: the same stack, queueing and impairments as in the real runtime, under a virtual clock.
 *
 * A run of an hour takes seconds, and the same seed gives the same packets to the byte. Programs on the hosts are
 * sans-IO: they call the stack's sockets and are told of events and times; nothing waits.
 *
 * ```ts ignore
 * import { MILLISECOND, SECOND, Simulator } from "@culvert/culvert/netsim";
 *
 * const sim = new Simulator({ seed: 1 });
 * sim.addHost("a", a); // a and b are stacks
 * sim.addHost("b", b);
 * sim.link(["a", 1], ["b", 1], { delay: 20 * MILLISECOND, impair: "loss 0.5% rate 50mbit" });
 * sim.run(10 * SECOND);
 * console.log(sim.now, sim.digest);
 * ```
 *
 * @module
 */

export { DropCounters, DropReason, dropReasonName, type DropSink } from "../base/drop.ts";
export { type EventSource, SocketEvent } from "../base/event_queue.ts";
export { Packet, PacketPool } from "../base/packet.ts";
export { Rng } from "../base/rng.ts";
export { type Stage } from "../base/stage.ts";
export {
  type Duration,
  fromMilliseconds,
  type Instant,
  MICROSECOND,
  MILLISECOND,
  NEVER,
  SECOND,
  toMilliseconds,
} from "../base/time.ts";
export { NETEM_DEFAULTS, type NetemConfig, netemConfig } from "../impair/config.ts";
export { NetemStage } from "../impair/netem_stage.ts";
export { formatNetem, parseNetem } from "../impair/parse.ts";
export { Simulator, type SimulatorOptions } from "./simulator.ts";
export {
  type SimApp,
  SimDirection,
  type SimDirectionOptions,
  type SimHost,
  SimLink,
  SimNode,
  type SimPort,
  type SimTracer,
  TraceKind,
} from "./topology.ts";
