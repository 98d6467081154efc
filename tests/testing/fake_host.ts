/**
 * A host without a stack, for tests of the simulator: it sends numbered packets when told and remembers what came in.
 *
 * @module
 */

import { type EventSource, SocketEvent } from "../../src/base/event_queue.ts";
import { type Packet, PacketPool } from "../../src/base/packet.ts";
import type { Instant } from "../../src/base/time.ts";
import { TimeQueue } from "../../src/base/time_queue.ts";
import type { SimHost } from "../../src/netsim/topology.ts";

/** A packet that came in. */
export interface Received {
  /** When. */
  at: Instant;
  /** By which interface. */
  ifindex: number;
  /** Its bytes. */
  bytes: number[];
}

/** The host; it is also the one source of its events. */
export class FakeHost implements SimHost, EventSource {
  /** Its packets. */
  readonly pool: PacketPool;
  /** What came in, oldest first. */
  readonly received: Received[] = [];
  /** When it was run, each time once. */
  readonly runs: Instant[] = [];
  /** Called with each packet that comes in. */
  onInput: ((p: Packet, now: Instant) => void) | null = null;
  events = 0;
  eventQueued = false;
  user: unknown = null;
  readonly #queue = new TimeQueue();

  /** Makes a host whose pool holds `packets`. */
  constructor(packets = 1000) {
    this.pool = new PacketPool(packets);
  }

  /** Sends `bytes` by interface `ifindex` at `departAt`. */
  send(ifindex: number, bytes: readonly number[], departAt: Instant): void {
    const p = this.pool.acquire()!;
    p.bytes.set(bytes, p.start);
    p.end = p.start + bytes.length;
    p.ifindex = ifindex;
    p.flow = 12;
    p.departAt = departAt;
    p.releaseAt = departAt;
    this.#queue.push(p);
  }

  input(ifindex: number, p: Packet, now: Instant): void {
    this.received.push({ at: now, ifindex, bytes: [...p.toBytes()] });
    this.onInput?.(p, now);
    this.pool.release(p);
    this.events |= SocketEvent.Readable;
    this.eventQueued = true;
  }

  timeout(now: Instant): void {
    this.runs.push(now);
  }

  pull(now: Instant): Packet | null {
    return this.#queue.shift(now);
  }

  nextAt(): Instant {
    return this.eventQueued ? 0 : this.#queue.nextAt();
  }

  pollEvent(): EventSource | null {
    if (!this.eventQueued) return null;
    this.eventQueued = false;
    return this;
  }
}
