/**
 * The simulator: hosts under a virtual clock.
 *
 * It is the driver's loop with a clock that jumps. In each step the earliest thing happens: an action of the scenario,
 * the arrival of a packet, or the deadline of a host or of an impairment. At one instant actions come first, in the
 * order in which they were asked for, then arrivals, in the order in which the packets began to propagate, then
 * deadlines, in the order in which they were set. So a host takes in all that arrives at an instant and then runs once: its
 * program if its time has come, its events, `timeout`, `pull` until nothing more leaves, and again its events. Since its
 * program has seen what came in before anything leaves, an acknowledgment tells of the room that reading has made, as
 * with an application that is faster than the wire. A program that has acted on an event after that makes the host run
 * again at the same instant.
 *
 * What always holds: the same seed, hosts and calls give the same digest; random streams depend on the seed and on the
 * names of hosts and links only, so that adding a host or a link leaves those of all others as they are; time never
 * goes back; packets sent into a direction + duplicated = arrived + dropped + on the way.
 *
 * A simulation that makes no progress in time is a fault of a program or of the stack, not of the network: after
 * `stepLimit` steps at one instant it throws.
 *
 * @module
 */

import { DeadlineHeap } from "../base/deadline_heap.ts";
import { DropCounters, DropReason, type DropSink } from "../base/drop.ts";
import { type Packet, PacketPool, SLOT_BYTES } from "../base/packet.ts";
import { copyBytes } from "../base/ring_buffer.ts";
import { Rng } from "../base/rng.ts";
import { type Instant, NEVER } from "../base/time.ts";
import { TimeQueue } from "../base/time_queue.ts";
import { NETEM_DEFAULTS, type NetemConfig, netemConfig } from "../impair/config.ts";
import { NetemStage } from "../impair/netem_stage.ts";
import { parseNetem } from "../impair/parse.ts";
import { type HostOptions, parseHostConfig } from "../stack/config.ts";
import { Stack } from "../stack/stack.ts";
import { SimBottleneck, type SimBottleneckOptions } from "./bottleneck.ts";
import { EventDigest } from "./digest.ts";
import {
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

/** Options of {@linkcode Simulator}. */
export interface SimulatorOptions {
  /** Seed of all random streams; any integer up to 2^53 in size. */
  seed: number;
  /** Slot size of the hosts' pools in bytes (default that of {@linkcode PacketPool}). */
  slotBytes?: number;
  /** The most packets on all links together (default 262,144); beyond it they are dropped as `pool-exhausted`. */
  wirePackets?: number;
  /** The most steps at one instant (default 100,000). */
  stepLimit?: number;
  /** Keep a digest of all events (default true). It looks at every byte that arrives, which takes a sixth of the time. */
  digest?: boolean;
}

interface Action {
  when: Instant;
  run: (now: Instant) => void;
}

/** A simulated network. */
export class Simulator {
  /** The root of all random streams. */
  readonly rng: Rng;
  /** Packets dropped between hosts, on all links together. */
  readonly drops: DropCounters = new DropCounters();
  /** Looks on, if set. */
  tracer: SimTracer | null = null;
  readonly #slotBytes: number;
  readonly #stepLimit: number;
  readonly #wire: PacketPool;
  readonly #nodes = new Map<string, SimNode>();
  readonly #directions: SimDirection[] = [];
  /** Whatever has a deadline, by id. */
  readonly #actors: (SimNode | SimDirection | SimBottleneck)[] = [];
  readonly #deadlines = new DeadlineHeap();
  /** Packets that propagate; their `ifindex` is the index of the direction. */
  readonly #arrivals = new TimeQueue();
  /** Earliest last. */
  readonly #actions: Action[] = [];
  readonly #digest: EventDigest | null;
  #now: Instant = 0;
  #steps = 0;
  #stepsAtNow = 0;

  /**
   * Makes an empty network at time 0.
   *
   * @throws {RangeError} if `seed` is no safe integer
   */
  constructor(options: SimulatorOptions) {
    this.rng = new Rng(options.seed);
    this.#slotBytes = options.slotBytes ?? SLOT_BYTES;
    this.#stepLimit = options.stepLimit ?? 100_000;
    this.#digest = options.digest === false ? null : new EventDigest();
    this.#wire = new PacketPool(options.wirePackets ?? 1 << 18, this.#slotBytes);
  }

  /** The virtual time. */
  get now(): Instant {
    return this.#now;
  }

  /** Steps done so far. */
  get steps(): number {
    return this.#steps;
  }

  /** The digest of all events so far, as 16 hexadecimal digits; see {@linkcode EventDigest}. Empty if none is kept. */
  get digest(): string {
    return this.#digest?.toString() ?? "";
  }

  /** The random stream of the host that has or will have this name: for its hash seeds and sequence numbers. */
  hostRng(name: string): Rng {
    return this.rng.fork("host").fork(name);
  }

  /**
   * Adds a host.
   *
   * @param name by which links, tracer and random streams know it
   * @param host a `Stack`, or anything else that behaves like a host
   * @param app its program
   * @throws {TypeError} if the name is taken, {RangeError} if its pool has slots of another size than the simulator
   */
  addHost(name: string, host: SimHost, app: SimApp | null = null): void {
    if (this.#nodes.has(name)) throw new TypeError(`host "${name}" is there already: expected another name`);
    if (host.pool.slotBytes !== this.#slotBytes) {
      throw new RangeError(
        `host "${name}" has packet slots of ${host.pool.slotBytes} bytes: expected ${this.#slotBytes}, the simulator's`,
      );
    }
    const node = new SimNode(name, this.#actors.length, host, app);
    this.#actors.push(node);
    this.#nodes.set(name, node);
    this.#deadlines.set(node.id, this.#now);
  }

  /**
   * Makes a stack and adds it as a host. Its interfaces are its peers in their order, from 1 on; links join them.
   *
   * @param options as for `openHost`, without endpoints; random streams come from the simulator's seed and the name
   * @throws {TypeError} if the options are wrong or the name is taken
   */
  addStack(name: string, options: Omit<HostOptions, "encapsulation" | "listen" | "seed">, app?: SimApp): Stack {
    const config = parseHostConfig({ ...options, encapsulation: "none" });
    const stack = new Stack(config, this.hostRng(name));
    this.addHost(name, stack, app ?? null);
    return stack;
  }

  /**
   * Makes a transmitter with a queue of its own, through which the directions of links send that name it.
   *
   * @param name for messages
   * @throws {RangeError} if an option is out of range
   */
  addBottleneck(name: string, options: SimBottleneckOptions): SimBottleneck {
    const bottleneck = new SimBottleneck(name, this.#actors.length, options);
    this.#actors.push(bottleneck);
    return bottleneck;
  }

  /**
   * Joins an interface of one host to an interface of another (or of the same).
   *
   * @param from one end
   * @param to the other end
   * @param forth the direction from `from` to `to`
   * @param back the direction from `to` to `from` (default: like `forth`, with random streams of its own)
   * @throws {TypeError} if a host is unknown, an interface is taken or a bottleneck is not of this simulator, {RangeError}
   * if a delay is negative; and what `parseNetem` and `netemConfig` throw
   */
  link(from: SimPort, to: SimPort, forth: SimDirectionOptions = {}, back: SimDirectionOptions = forth): SimLink {
    const a = this.#freePort(from);
    const b = this.#freePort(to);
    if (a === b && from[1] === to[1]) throw new TypeError(`host "${a.name}": expected two interfaces, got one twice`);
    // Both directions are checked before either is made, so that a mistake leaves no half of a link.
    const forthName = `${from[0]}:${from[1]}>${to[0]}:${to[1]}`;
    const backName = `${to[0]}:${to[1]}>${from[0]}:${from[1]}`;
    const forthConfig = this.#checkDirection(forthName, forth);
    const backConfig = this.#checkDirection(backName, back);
    return new SimLink(
      this.#join(forthName, a, from[1], b, to[1], forth, forthConfig),
      this.#join(backName, b, to[1], a, from[1], back, backConfig),
    );
  }

  /**
   * Has `action` called when the time comes, or at once if it has passed; the hosts run after it.
   *
   * @param when rounded up to a whole nanosecond
   * @throws {RangeError} if it is NaN
   */
  at(when: Instant, action: (now: Instant) => void): void {
    requireTime("an action", when);
    const at = Math.ceil(when);
    let place = this.#actions.length;
    while (place > 0 && this.#actions[place - 1]!.when <= at) place--;
    this.#actions.splice(place, 0, { when: at, run: action });
  }

  /** When the next step happens; `NEVER` if nothing is left to happen. */
  nextAt(): Instant {
    const action = this.#actions.at(-1);
    const at = Math.min(action?.when ?? NEVER, this.#arrivals.nextAt(), this.#deadlines.nextAt());
    return Math.max(at, this.#now);
  }

  /**
   * Advances the clock to the next event and lets that happen. It does not look whether hosts were used from outside
   * since; `run` does, and so does the end of an action.
   *
   * @returns false if nothing is left to happen
   * @throws {Error} after `stepLimit` steps at one instant
   */
  step(): boolean {
    const now = this.nextAt();
    if (now === NEVER) return false;
    if (now > this.#now) this.#stepsAtNow = 0;
    this.#now = now;
    const action = this.#actions.at(-1);
    if (action !== undefined && action.when <= now) {
      this.#count("an action");
      this.#actions.pop();
      action.run(now);
      this.#settleAll(now);
      return true;
    }
    const p = this.#arrivals.shift(now);
    if (p !== null) {
      this.#arrive(p, now);
      return true;
    }
    const actor = this.#actors[this.#deadlines.popDue(now)]!;
    if (actor instanceof SimNode) this.#runHost(actor, now);
    else if (actor instanceof SimDirection) this.#runDirection(actor, now);
    else this.#runBottleneck(actor, now);
    return true;
  }

  /**
   * Runs until nothing is left to happen by `until`, which is then the time.
   *
   * @param until the last instant that still happens (default: no end), rounded down to a whole nanosecond
   * @param done asked before each step; ends the run when it says true
   * @returns true if `done` ended the run
   * @throws {RangeError} if `until` is NaN
   */
  run(until: Instant = NEVER, done: (() => boolean) | null = null): boolean {
    requireTime("the end of a run", until);
    until = Math.floor(until);
    this.#settleAll(this.#now);
    for (;;) {
      if (done !== null && done()) return true;
      const next = this.nextAt();
      if (next === NEVER || next > until) break;
      this.step();
    }
    if (until !== NEVER && until > this.#now) {
      this.#now = until;
      this.#stepsAtNow = 0;
    }
    return false;
  }

  /**
   * Impairs a direction of a link otherwise from now on; what is on its way is neither lost nor overtaken, unless that is
   * what the impairment is to do.
   *
   * @param impair netem's text, a configuration, or `null` for no impairment
   * @throws {TypeError} if the direction is not of this simulator; and what `parseNetem` and `netemConfig` throw
   */
  setImpairment(direction: SimDirection, impair: string | NetemConfig | null): void {
    if (this.#directions[direction.index] !== direction) {
      throw new TypeError("the direction of a link belongs to another simulator");
    }
    const { stage, from, to, toIfindex } = direction;
    const config = impair === null ? null : readImpair(impair);
    if (stage !== null) {
      stage.change(config ?? { ...NETEM_DEFAULTS, limit: 1 << 24 }, this.#now);
      this.#deadlines.set(direction.id, stage.nextAt());
    } else if (config !== null) {
      const [fromIfindex] = [...from.ports].find(([, port]) => port === direction)!;
      direction.stage = this.#makeStage(direction, `${from.name}:${fromIfindex}>${to.name}:${toIfindex}`, config);
    }
  }

  #freePort([name, ifindex]: SimPort): SimNode {
    const node = this.#nodes.get(name);
    if (node === undefined) throw new TypeError(`there is no host "${name}": expected one that was added before`);
    if (node.ports.has(ifindex)) throw new TypeError(`interface ${ifindex} of host "${name}" has a link already`);
    return node;
  }

  /** Checks the options of a direction and returns its impairment, or `null` if it has none. */
  #checkDirection(name: string, { delay = 0, impair, bottleneck }: SimDirectionOptions): NetemConfig | null {
    if (!Number.isSafeInteger(delay) || delay < 0) {
      throw new RangeError(`delay of link ${name} must be a whole number of nanoseconds from 0, got ${delay}`);
    }
    if (bottleneck !== undefined && this.#actors[bottleneck.id] !== bottleneck) {
      throw new TypeError(`bottleneck "${bottleneck.name}" of link ${name} belongs to another simulator`);
    }
    return impair === undefined ? null : readImpair(impair);
  }

  #join(
    name: string,
    from: SimNode,
    fromIfindex: number,
    to: SimNode,
    toIfindex: number,
    { delay = 0, bottleneck }: SimDirectionOptions,
    config: NetemConfig | null,
  ): SimDirection {
    const index = this.#directions.length;
    const direction = new SimDirection(this.#actors.length, index, from, to, toIfindex, delay, bottleneck ?? null);
    if (config !== null) direction.stage = this.#makeStage(direction, name, config);
    this.#actors.push(direction);
    this.#directions.push(direction);
    from.ports.set(fromIfindex, direction);
    return direction;
  }

  #makeStage(direction: SimDirection, name: string, config: NetemConfig): NetemStage {
    const sink: DropSink = { drop: (p, reason, now) => this.#drop(direction, p, reason, now) };
    return new NetemStage(config, this.rng.fork("link").fork(name), this.#wire, sink, this.#now);
  }

  #runHost(node: SimNode, now: Instant): void {
    const { host, app } = node;
    this.#count(node.name);
    if (app?.timeout !== undefined && app.nextAt !== undefined && app.nextAt() <= now) app.timeout(now);
    this.#deliver(node, now);
    host.timeout(now);
    for (let p = host.pull(now); p !== null; p = host.pull(now)) {
      this.#count(node.name);
      this.#depart(node, p, now);
    }
    this.#settle(node, now);
  }

  /** Delivers the events of a host and sets its deadline; a deadline that stays the same keeps its place. */
  #settle(node: SimNode, now: Instant): void {
    const acted = this.#deliver(node, now);
    // Programs may reckon in fractions; the clock does not.
    const at = acted ? now : Math.ceil(node.nextAt());
    if (Number.isNaN(at)) throw new Error(`host "${node.name}" says that it is next useful at NaN`);
    this.#deadlines.set(node.id, at > now ? at : now);
  }

  /** Delivers the events of a host; true if there was one. */
  #deliver(node: SimNode, now: Instant): boolean {
    let acted = false;
    for (let source = node.host.pollEvent(); source !== null; source = node.host.pollEvent()) {
      this.#count(node.name);
      const events = source.events;
      source.events = 0;
      node.app?.onEvent(source, events, now);
      acted = true;
    }
    return acted;
  }

  #settleAll(now: Instant): void {
    for (const node of this.#nodes.values()) this.#settle(node, now);
  }

  #runDirection(direction: SimDirection, now: Instant): void {
    const stage = direction.stage!;
    this.#count(direction.from.name);
    for (let p = stage.pull(now); p !== null; p = stage.pull(now)) this.#propagate(direction, p, now);
    this.#deadlines.set(direction.id, stage.nextAt());
  }

  #depart(node: SimNode, p: Packet, now: Instant): void {
    const direction = node.ports.get(p.ifindex) ?? null;
    this.tracer?.(now, node.name, direction?.to.name ?? "", p, TraceKind.Departure, DropReason.None);
    this.#event(TraceKind.Departure, node, now);
    this.#digest?.word(p.length);
    const w = direction === null ? null : this.#wire.acquire();
    if (direction === null || w === null) {
      const reason = direction === null ? DropReason.LinkDown : DropReason.PoolExhausted;
      this.#countDrop(node, direction, p, reason, now);
      node.host.pool.release(p);
      return;
    }
    carry(p, w);
    node.host.pool.release(p);
    direction.sentPackets++;
    direction.sentBytes += w.length;
    w.ifindex = direction.index;
    if (!direction.up) return this.#drop(direction, w, DropReason.LinkDown, now);
    const { bottleneck } = direction;
    if (bottleneck === null) return this.#impair(direction, w, now);
    const reason = bottleneck.push(w, now);
    if (reason !== DropReason.None) return this.#drop(direction, w, reason, now);
    this.#deadlines.set(bottleneck.id, bottleneck.nextAt());
  }

  #runBottleneck(bottleneck: SimBottleneck, now: Instant): void {
    this.#count(bottleneck.name);
    for (let w = bottleneck.pull(now); w !== null; w = bottleneck.pull(now)) {
      const direction = this.#directions[w.ifindex]!;
      if (direction.up) this.#impair(direction, w, now);
      else this.#drop(direction, w, DropReason.LinkDown, now);
    }
    this.#deadlines.set(bottleneck.id, bottleneck.nextAt());
  }

  #impair(direction: SimDirection, w: Packet, now: Instant): void {
    if (direction.stage === null) return this.#propagate(direction, w, now);
    const reason = direction.stage.push(w, now);
    if (reason !== DropReason.None) return this.#drop(direction, w, reason, now);
    this.#deadlines.set(direction.id, direction.stage.nextAt());
  }

  #propagate(direction: SimDirection, p: Packet, now: Instant): void {
    p.releaseAt = now + direction.delay;
    this.#arrivals.push(p);
  }

  #arrive(w: Packet, now: Instant): void {
    const direction = this.#directions[w.ifindex]!;
    const { to } = direction;
    this.#count(to.name);
    if (!direction.up) return this.#drop(direction, w, DropReason.LinkDown, now);
    const p = to.host.pool.acquire();
    if (p === null) return this.#drop(direction, w, DropReason.PoolExhausted, now);
    carry(w, p);
    this.#wire.release(w);
    direction.arrivedPackets++;
    direction.arrivedBytes += p.length;
    p.ifindex = direction.toIfindex;
    this.tracer?.(now, direction.from.name, to.name, p, TraceKind.Arrival, DropReason.None);
    this.#event(TraceKind.Arrival, to, now);
    this.#digest?.bytes(p);
    to.host.input(direction.toIfindex, p, now);
    this.#deadlines.set(to.id, now);
  }

  #drop(direction: SimDirection, p: Packet, reason: DropReason, now: Instant): void {
    this.#countDrop(direction.from, direction, p, reason, now);
    this.#wire.release(p);
  }

  #countDrop(from: SimNode, direction: SimDirection | null, p: Packet, reason: DropReason, now: Instant): void {
    this.tracer?.(now, from.name, direction?.to.name ?? "", p, TraceKind.Drop, reason);
    this.#event(TraceKind.Drop, from, now);
    this.#digest?.word(reason);
    this.drops.count(reason);
    direction?.drops.count(reason);
  }

  #event(kind: TraceKind, node: SimNode, now: Instant): void {
    const digest = this.#digest;
    if (digest === null) return;
    digest.word(kind);
    digest.time(now);
    digest.word(node.nameHash);
  }

  #count(who: string): void {
    this.#steps++;
    if (++this.#stepsAtNow <= this.#stepLimit) return;
    throw new Error(
      `the simulation stands still at ${this.#now} ns: more than ${this.#stepLimit} steps at one instant, the last by ${who}`,
    );
  }
}

function requireTime(what: string, time: Instant): void {
  if (Number.isNaN(time)) throw new RangeError(`the time of ${what} must be a number of nanoseconds, got NaN`);
}

function readImpair(impair: string | NetemConfig): NetemConfig {
  return typeof impair === "string" ? parseNetem(impair) : netemConfig(impair);
}

/** Copies the bytes of `from` into `to` and nothing else, as a wire does. */
function carry(from: Packet, to: Packet): void {
  copyBytes(from.bytes, from.start, to.bytes, from.start, from.length);
  to.start = from.start;
  to.l4 = from.start;
  to.end = from.end;
}
