/**
 * What an impairment costs a packet.
 *
 * Packets come in batches of 64, 50 µs apart on average, and leave in batches; only pushing and pulling are counted.
 * *Everything* is jitter of a distribution, correlated draws, a loss model with marks, duplication, reordering with a
 * gap, corruption, a rate with overheads and cells, and slots, with the report that goes with it.
 *
 * @module
 */

import { DropReason } from "../src/base/drop.ts";
import { type Packet, PacketPool } from "../src/base/packet.ts";
import { Rng } from "../src/base/rng.ts";
import { type Duration, type Instant, MICROSECOND, NEVER } from "../src/base/time.ts";
import { NetemStage } from "../src/impair/netem_stage.ts";
import { parseNetem } from "../src/impair/parse.ts";
import type { Bench } from "./bench.ts";

const LENGTH = 1500;
const BATCH = 64;
const GAP: Duration = 50 * MICROSECOND;
const SPELL = 100 * BATCH;

const TEXTS = {
  delay: "delay 20ms limit 10000",
  jitter: "delay 20ms 5ms loss 1% limit 10000",
  everything: "delay 20ms 5ms 25% distribution paretonormal loss gemodel 1% 10% 50% 0.1% ecn duplicate 1% 10% " +
    "reorder 5% 50% gap 5 corrupt 1% 10% rate 1gbit 20 48 5 slot 100us 300us packets 100 bytes 100000 limit 10000",
};

/** Packets that go through one stage again and again. */
class Load {
  /** Packets that came and left. */
  packets = 0;
  /** What pushing and pulling took, in ms. */
  time = 0;
  readonly #pool = new PacketPool(1 << 14);
  readonly #stage: NetemStage;
  readonly #batch: Packet[] = [];
  /** Having once held null, it holds numbers on the heap: one is made when the clock is set, none for each call. */
  #now: Instant | null = null;

  constructor(text: string) {
    const drop = (p: Packet) => this.#pool.release(p);
    this.#stage = new NetemStage(parseNetem(text), new Rng(1), this.#pool, { drop });
    this.#now = 0;
  }

  /** One batch in, and what is due out. */
  turn(): void {
    const stage = this.#stage;
    const batch = this.#batch;
    for (let i = 0; i < BATCH; i++) {
      const p = this.#pool.acquire()!;
      p.end = p.start + LENGTH;
      p.view.setUint16(p.start, 0x4502);
      batch[i] = p;
    }
    this.#now = this.#now! + BATCH * GAP;
    const now = this.#now;
    const from = performance.now();
    for (let i = 0; i < BATCH; i++) {
      if (stage.push(batch[i]!, now) !== DropReason.None) throw new Error("the stage refused a packet");
    }
    let n = 0;
    for (let p = stage.pull(now); p !== null; p = stage.pull(now)) batch[n++] = p;
    if (stage.nextAt() === NEVER) throw new Error("nothing is on its way");
    this.time += performance.now() - from;
    this.packets += BATCH;
    while (n > 0) this.#pool.release(batch[--n]!);
  }
}

function median(values: number[]): number {
  return values.sort((a, b) => a - b)[values.length >> 1]!;
}

function cost(name: keyof typeof TEXTS, what: string): Bench {
  return {
    name: `netem ${name}`,
    what: `push and pull of a packet, ${what}`,
    unit: "ns",
    run(seconds) {
      const load = new Load(TEXTS[name]);
      for (const until = performance.now() + seconds * 333; performance.now() < until;) load.turn();
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

/** The cost of a packet. */
export const costs: readonly Bench[] = [
  cost("delay", "a constant delay"),
  cost("jitter", "uniform jitter and loss"),
  cost("everything", "everything on"),
];

/** Bytes that a packet costs on the heap, once everything has its size; the readings of the clock are part of it. */
export const heap: Bench = {
  name: "netem heap",
  what: "bytes allocated a packet, everything on",
  unit: "B",
  run(seconds) {
    const load = new Load(TEXTS.everything);
    for (const until = performance.now() + seconds * 500; performance.now() < until;) load.turn();
    const sizes = Array.from({ length: 15 }, () => {
      const before = Deno.memoryUsage().heapUsed;
      const start = load.packets;
      while (load.packets - start < 50_000) load.turn();
      return (Deno.memoryUsage().heapUsed - before) / 50_000;
    });
    // A collection between two readings would hide something; there is none in most pairs.
    return median(sizes);
  },
};
