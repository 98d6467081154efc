/**
 * What a simulated network is made of: hosts, the programs that run on them, and links.
 *
 * A link joins an interface of one host to an interface of another. Each of its two directions has an optional
 * bottleneck, which it may share with other links, behind it an optional impairment, the same stage that the real
 * runtime uses, and behind that a plain propagation delay. The packets on a link
 * lie in a pool of the simulator: a wire carries bytes and nothing else, and what is in flight does not use up the
 * memory of the host that sent it.
 *
 * @module
 */

import { DropCounters, type DropReason } from "../base/drop.ts";
import type { EventSource } from "../base/event_queue.ts";
import type { Packet, PacketPool } from "../base/packet.ts";
import { type Duration, type Instant, NEVER } from "../base/time.ts";
import type { NetemConfig } from "../impair/config.ts";
import type { NetemStage } from "../impair/netem_stage.ts";
import type { SimBottleneck } from "./bottleneck.ts";
import { hashName } from "./digest.ts";

/** What the simulator needs of a host; a `Stack` has it. */
export interface SimHost {
  /** Where packets given to `input` come from and packets got from `pull` go back to. */
  readonly pool: PacketPool;
  /** Takes a packet that came in by interface `ifindex`. */
  input(ifindex: number, p: Packet, now: Instant): void;
  /** Runs what is due. */
  timeout(now: Instant): void;
  /** The next packet that leaves now by interface `p.ifindex`, or `null`. */
  pull(now: Instant): Packet | null;
  /** When `timeout` or `pull` is next useful. */
  nextAt(): Instant;
  /** The next socket that has something to tell, or `null`. */
  pollEvent(): EventSource | null;
}

/** A program on a host: it uses the host's sockets, never waits, and is told the time. */
export interface SimApp {
  /** `source` has raised `events` (bits of `SocketEvent`, already cleared at the source). */
  onEvent(source: EventSource, events: number, now: Instant): void;
  /** The time said by `nextAt` has come. */
  timeout?(now: Instant): void;
  /** When `timeout` is to be called; asked again each time the host has run. */
  nextAt?(): Instant;
}

/** One end of a link: the name of a host and one of its interfaces. */
export type SimPort = readonly [host: string, ifindex: number];

/** One direction of a link. */
export interface SimDirectionOptions {
  /** The transmitter that it sends through first, made by `Simulator.addBottleneck` (default none). */
  bottleneck?: SimBottleneck;
  /** Propagation delay behind the impairment (default 0). */
  delay?: Duration;
  /** The impairment, as netem's text or as a configuration (default none). */
  impair?: string | NetemConfig;
}

/** What the tracer is told of. */
export enum TraceKind {
  /** A host sent the packet. */
  Departure = 1,
  /** A host is about to receive the packet. */
  Arrival,
  /** The packet was dropped between two hosts. */
  Drop,
}

/**
 * Looks on: called with each packet that leaves a host, arrives at one or is dropped in between, before anything is
 * done with it. It may read the packet and may not keep it.
 *
 * @param time now
 * @param from name of the sending host
 * @param to name of the receiving host; empty if the interface leads nowhere
 * @param reason why it was dropped; `None` if it was not
 */
export type SimTracer = (
  time: Instant,
  from: string,
  to: string,
  p: Packet,
  kind: TraceKind,
  reason: DropReason,
) => void;

/** A host in its place. */
export class SimNode {
  /** Its name. */
  readonly name: string;
  /** Hash of its name, for the digest. */
  readonly nameHash: number;
  /** Its deadline's id. */
  readonly id: number;
  /** The host itself. */
  readonly host: SimHost;
  /** Its program. */
  readonly app: SimApp | null;
  /** The directions that lead away from it, by ifindex. */
  readonly ports: Map<number, SimDirection> = new Map();

  /** Puts `host` in its place. */
  constructor(name: string, id: number, host: SimHost, app: SimApp | null) {
    this.name = name;
    this.nameHash = hashName(name);
    this.id = id;
    this.host = host;
    this.app = app;
  }

  /** When the host or its program has something to do. */
  nextAt(): Instant {
    return Math.min(this.host.nextAt(), this.app?.nextAt?.() ?? NEVER);
  }
}

/** One direction of a link, with its counters. */
export class SimDirection {
  /** Its deadline's id. */
  readonly id: number;
  /** Its place among all directions. */
  readonly index: number;
  /** Where it begins. */
  readonly from: SimNode;
  /** Where it ends. */
  readonly to: SimNode;
  /** The interface at its end. */
  readonly toIfindex: number;
  /** Propagation delay. */
  readonly delay: Duration;
  /** The transmitter that it sends through, if it has one. */
  readonly bottleneck: SimBottleneck | null;
  /** The impairment, if it has one. */
  stage: NetemStage | null = null;
  /** False while it is cut: what is sent or would arrive then is dropped. */
  up = true;
  /** Packets sent into it. */
  sentPackets = 0;
  /** Bytes sent into it. */
  sentBytes = 0;
  /** Packets that arrived. */
  arrivedPackets = 0;
  /** Bytes that arrived. */
  arrivedBytes = 0;
  /** Packets dropped on the way. */
  readonly drops: DropCounters = new DropCounters();

  /** Leads from `from` to interface `toIfindex` of `to`. */
  constructor(
    id: number,
    index: number,
    from: SimNode,
    to: SimNode,
    toIfindex: number,
    delay: Duration,
    bottleneck: SimBottleneck | null,
  ) {
    this.id = id;
    this.index = index;
    this.from = from;
    this.to = to;
    this.toIfindex = toIfindex;
    this.delay = delay;
    this.bottleneck = bottleneck;
  }

  /** Its counters and those of its impairment. */
  stats(): Record<string, unknown> {
    return {
      sent_packets: this.sentPackets,
      sent_bytes: this.sentBytes,
      arrived_packets: this.arrivedPackets,
      arrived_bytes: this.arrivedBytes,
      drops: this.drops.toJSON(),
      impairment: this.stage?.stats() ?? null,
    };
  }
}

/** A link between two hosts. */
export class SimLink {
  /** From the host named first to the one named second. */
  readonly forth: SimDirection;
  /** The other way. */
  readonly back: SimDirection;

  /** Joins two directions. */
  constructor(forth: SimDirection, back: SimDirection) {
    this.forth = forth;
    this.back = back;
  }

  /** True unless a direction is cut. */
  get up(): boolean {
    return this.forth.up && this.back.up;
  }

  /** Cuts or mends both directions. */
  set up(up: boolean) {
    this.forth.up = up;
    this.back.up = up;
  }
}
