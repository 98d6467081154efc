/**
 * What the fair queue costs a packet, by the number of flows that are active.
 *
 * As under a driver, packets leave in batches and come in batches, and what happens to them in between (here their
 * headers are written anew, elsewhere they are sent and made) is not counted. *Busy*: every flow always has packets that
 * are due, and they take turns. *Paced*: every packet has a departure time, 50 µs from one to the next over all flows,
 * and the clock goes from one departure to the next; so the flow of each packet is throttled and comes back, and every
 * second pull gives nothing. *Rated*: the queue itself paces flows without stamps, and has a total rate.
 *
 * @module
 */

import { DropReason } from "../src/base/drop.ts";
import { type Packet, PacketPool } from "../src/base/packet.ts";
import { type Duration, type Instant, MICROSECOND, SECOND } from "../src/base/time.ts";
import { Fq } from "../src/qdisc/fq.ts";
import type { Bench } from "./bench.ts";

type Kind = "busy" | "paced" | "rated";

const LENGTH = 1500;
const BATCH = 64;
const GAP = 50 * MICROSECOND;
const SPELL = 50 * BATCH;
const FLOWS: readonly number[] = [10, 100, 1000, 10_000];

/** A queue in which each of `flows` flows has at least two packets, those of the batch under way included. */
class Load {
  /** Packets that left and came. */
  packets = 0;
  /** What pushing and pulling took, in ms. */
  time = 0;
  readonly #fq: Fq;
  readonly #batch: Packet[] = [];
  readonly #kind: Kind;
  /** The least that the clock advances by when nothing is due. */
  readonly #step: Duration;
  /** From the departure of a packet to its next one: as many packets of its flow later as the flow has. */
  readonly #gaps: Float64Array;
  /** Having once held null, it holds numbers on the heap: one is made when the clock is set, none for each call. */
  #now: Instant | null = null;

  constructor(flows: number, kind: Kind, step: Duration = 0) {
    const each = Math.max(2, Math.ceil(2 * BATCH / flows));
    const pool = new PacketPool(each * flows);
    const rateBytesPerSec = kind === "rated" ? LENGTH * SECOND / GAP : Infinity;
    this.#fq = new Fq({ limit: each * flows, rateBytesPerSec }, { drop: () => {} });
    this.#kind = kind;
    this.#step = step;
    // From half to one and a half of the mean, so that flows overtake each other.
    const gaps = Array.from({ length: flows }, (_, i) => Math.round((flows / 2 + (i * 48_271) % flows) * GAP));
    this.#gaps = Float64Array.from(gaps, (gap) => each * gap);
    this.#now = SECOND;
    for (let i = 0; i < flows && kind === "rated"; i++) this.#fq.setFlowRate(2 * i + 2, LENGTH * SECOND / gaps[i]!);
    for (let k = 0; k < each; k++) {
      for (let i = 0; i < flows; i++) {
        const p = pool.acquire()!;
        p.end = p.start + LENGTH;
        p.flow = 2 * i + 2;
        p.view.setUint16(p.start, 0x4500);
        p.departAt = kind === "paced" ? this.#now + k * gaps[i]! + i * GAP + 1 : 0;
        this.#fq.push(p, this.#now);
      }
    }
  }

  /** One batch out and in. */
  turn(): void {
    const fq = this.#fq;
    const batch = this.#batch;
    const from = performance.now();
    if (this.#kind === "busy") this.#now = this.#now! + BATCH * MICROSECOND;
    for (let n = 0; n < BATCH;) {
      const p = fq.pull(this.#now!);
      if (p === null) this.#now = Math.max(fq.nextAt(), this.#now! + this.#step);
      else batch[n++] = p;
    }
    const between = performance.now();
    for (const p of batch) {
      p.view.setUint16(p.start, 0x4500);
      if (this.#kind === "paced") p.departAt += this.#gaps[(p.flow >> 1) - 1]!;
    }
    const again = performance.now();
    for (const p of batch) {
      if (fq.push(p, this.#now!) !== DropReason.None) throw new Error("the queue refused a packet");
    }
    this.time += between - from + performance.now() - again;
    this.packets += BATCH;
  }
}

/** Runs `load` for so long, by the wall. */
function runFor(load: Load, seconds: number): void {
  const until = performance.now() + seconds * 1000;
  while (performance.now() < until) load.turn();
}

function median(values: number[]): number {
  return values.sort((a, b) => a - b)[values.length >> 1]!;
}

function cost(flows: number, kind: "busy" | "paced"): Bench {
  return {
    name: `fq ${flows} ${kind} flows`,
    what: `push and pull of a packet, ${flows} flows ${kind === "busy" ? "that take turns" : "with departure times"}`,
    unit: "ns",
    run(seconds) {
      const load = new Load(flows, kind);
      runFor(load, seconds / 3);
      // The median of short spells: whatever else the machine does, most of them are not interrupted.
      const costs: number[] = [];
      for (const until = performance.now() + seconds * 1000; performance.now() < until;) {
        load.packets = 0;
        load.time = 0;
        while (load.packets < SPELL) load.turn();
        costs.push(load.time * 1e6 / load.packets);
      }
      return median(costs);
    },
  };
}

/** The cost of a packet under load. */
export const busy: readonly Bench[] = FLOWS.map((flows) => cost(flows, "busy"));

/** The cost of a packet that waits for its departure time. */
export const paced: readonly Bench[] = FLOWS.map((flows) => cost(flows, "paced"));

/** Bytes that a packet costs on the heap, once everything has its size; the readings of the clock are part of it. */
export const heap: Bench = {
  name: "fq heap",
  what: "bytes allocated a packet, the worst of 1,000 busy, paced and rated flows",
  unit: "B",
  run(seconds) {
    let most = 0;
    for (const kind of ["busy", "paced", "rated"] as const) {
      const load = new Load(1000, kind, BATCH * GAP);
      runFor(load, seconds / 2);
      const sizes = Array.from({ length: 15 }, () => {
        const before = Deno.memoryUsage().heapUsed;
        const start = load.packets;
        while (load.packets - start < 50_000) load.turn();
        return (Deno.memoryUsage().heapUsed - before) / 50_000;
      });
      // A collection between two readings would hide something; there is none in most pairs.
      most = Math.max(most, median(sizes));
    }
    return most;
  },
};
