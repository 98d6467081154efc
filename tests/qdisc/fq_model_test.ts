/**
 * The fair queue against a slow model, packet by packet, under any options.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { DropReason } from "../../src/base/drop.ts";
import type { Packet } from "../../src/base/packet.ts";
import { MILLISECOND, NEVER, SECOND } from "../../src/base/time.ts";
import { Fq, type FqOptions } from "../../src/qdisc/fq.ts";
import { completeFqOptions } from "../../src/qdisc/fq_options.ts";
import { StageBench } from "../testing/stage_bench.ts";
import { SlowFq } from "./slow_fq.ts";

type Step =
  | { kind: "push"; flow: number; length: number; ahead: number; trafficClass: number; v6: boolean; times: number }
  | { kind: "pull"; times: number }
  | { kind: "wait"; time: number }
  | { kind: "wake" }
  | { kind: "rate"; flow: number; rate: number }
  | { kind: "reset"; flow: number };

const LOCAL = [2, 4, 6];
const HASHES = [7, 9, 11, 13];
const rates = fc.oneof(fc.constantFrom(Infinity, 500), fc.integer({ min: 2000, max: 2_000_000 }));
const times = fc.integer({ min: 0, max: 20_000 }).map((us) => us * 1000);

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant("push" as const),
      flow: fc.constantFrom(...LOCAL, ...HASHES),
      length: fc.integer({ min: 2, max: 1500 }),
      // No stamp, or one up to 5 ms ago or 30 ms ahead.
      ahead: fc.oneof(
        fc.constant(NEVER),
        fc.constant(0),
        fc.integer({ min: -5, max: 30 }).map((ms) => ms * MILLISECOND),
      ),
      trafficClass: fc.oneof(
        fc.constant(0),
        fc.constantFrom(0x08, 0x10, 0xb9, 0x02, 0x11),
        fc.integer({ min: 0, max: 255 }),
      ),
      v6: fc.boolean(),
      times: fc.constantFrom(1, 1, 1, 12),
    }),
  },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant("pull" as const), times: fc.constantFrom(1, 2, 30) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("wait" as const), time: times }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("wake" as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("rate" as const), flow: fc.constantFrom(...LOCAL), rate: rates }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("reset" as const), flow: fc.constantFrom(...LOCAL) }) },
);

const options: fc.Arbitrary<FqOptions> = fc.record({
  limit: fc.integer({ min: 1, max: 60 }),
  flowLimit: fc.integer({ min: 1, max: 30 }),
  quantum: fc.integer({ min: 100, max: 4000 }),
  initialQuantum: fc.integer({ min: 0, max: 6000 }),
  maxrateBytesPerSec: fc.oneof({ weight: 3, arbitrary: fc.constant(Infinity) }, { weight: 1, arbitrary: rates }),
  rateBytesPerSec: fc.oneof({ weight: 3, arbitrary: fc.constant(Infinity) }, { weight: 1, arbitrary: rates }),
  lowRateThresholdBytesPerSec: fc.constantFrom(1, 68_750, 1_000_000),
  pacing: fc.constantFrom(true, true, true, false),
  ceThreshold: fc.oneof(fc.constant(NEVER), times),
  horizon: fc.integer({ min: 5, max: 40 }).map((ms) => ms * MILLISECOND),
  horizonDrop: fc.boolean(),
  refillDelay: fc.constant(10 * MILLISECOND),
  priomap: fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 16, maxLength: 16 }),
  weights: fc.array(fc.integer({ min: 16_384, max: 20_000 }), { minLength: 3, maxLength: 3 }),
  orphanMask: fc.constant(1023),
  overheadBytes: fc.constantFrom(0, 50, 1024),
}, { requiredKeys: [] });

/** Runs the same steps on both. */
class Pair {
  readonly bench = new StageBench();
  readonly fq: Fq;
  readonly slow: SlowFq;
  readonly numbers = new Map<Packet, number>();
  now = SECOND;
  pushed = 0;
  refused = 0;
  pulled = 0;
  marked = 0;

  constructor(readonly options: FqOptions) {
    options.rateBytesPerSec ??= Infinity;
    this.fq = new Fq(options, this.bench);
    this.slow = new SlowFq(completeFqOptions(options));
  }

  run(s: Step): void {
    switch (s.kind) {
      case "push":
        for (let i = 0; i < s.times; i++) this.#push(s);
        break;
      case "pull":
        for (let i = 0; i < s.times && this.#pull(); i++);
        break;
      case "wait":
        this.now += s.time;
        break;
      case "wake":
        while (this.#pull());
        if (this.fq.nextAt() < NEVER) this.now = this.fq.nextAt();
        break;
      case "rate":
        this.fq.setFlowRate(s.flow, s.rate);
        this.slow.setFlowRate(s.flow, s.rate);
        break;
      case "reset":
        this.fq.resetFlow(s.flow);
        this.slow.resetFlow(s.flow);
        break;
    }
    this.check();
  }

  check(): void {
    const { fq, slow } = this;
    assertEquals(fq.backlogPackets, slow.packets);
    assertEquals(this.pushed, this.refused + this.pulled + fq.backlogPackets);
    let bytes = 0;
    for (const flow of [...LOCAL, ...HASHES]) {
      assertEquals(fq.flowBacklog(flow), slow.bytesOf(flow), `backlog of flow ${flow}`);
      bytes += slow.bytesOf(flow);
    }
    assertEquals(fq.backlogBytes, bytes);
    const stats = fq.stats(this.now);
    const counters: Record<string, number> = { ...slow.counters };
    for (const band of [0, 1, 2]) {
      counters[`band_pkt_count_${band}`] = slow.bandPackets(band);
      counters[`band_drops_${band}`] = slow.bandDrops[band]!;
    }
    for (const [name, value] of Object.entries(counters)) assertEquals(stats[name], value, name);
    assertEquals([stats["drops"], stats["packets"], stats["ce_mark"]], [this.refused, this.pulled, this.marked]);
    const waiting = [...slow.flows.values()].filter((f) => f.state === "throttled");
    const next = Math.min(...waiting.map((f) => f.wakeAt));
    assertEquals(stats["time_next_delayed_flow"], waiting.length === 0 ? 0 : next - this.now);
  }

  #push(s: Step & { kind: "push" }): void {
    const departAt = s.ahead === NEVER ? 0 : this.now + s.ahead;
    const p = this.bench.packet(s.flow, s.length, departAt, s.trafficClass);
    if (s.v6) p.view.setUint16(p.start, 0x6000 | (s.trafficClass << 4));
    // A header that is cut short is not marked.
    const canMark = s.length >= (s.v6 ? 40 : 20);
    const trafficClass = canMark ? s.trafficClass : s.trafficClass & ~3;
    const reason = this.fq.push(p, this.now);
    assertEquals(reason, this.slow.push(this.pushed, s.flow, s.length, departAt, trafficClass, this.now));
    this.numbers.set(p, this.pushed++);
    if (reason !== DropReason.None) {
      this.refused++;
      this.bench.pool.release(p);
    }
  }

  #pull(): boolean {
    const marked = this.slow.counters.ce_mark;
    const p = this.fq.pull(this.now);
    const expected = this.slow.pull(this.now);
    assertEquals(p === null ? null : this.numbers.get(p), expected?.n ?? null);
    if (p === null) {
      assert(this.fq.nextAt() > this.now, "nothing left, yet a pull is said to be useful");
      // A flow in line that the total rate keeps from being looked at counts as due.
      if (this.options.rateBytesPerSec === Infinity) assertEquals(this.fq.nextAt(), this.slow.nextAt());
      else assert(this.fq.nextAt() <= this.slow.nextAt());
      return false;
    }
    assert(p.departAt <= this.now || this.options.horizonDrop === false, "left before its stamp");
    const first = p.view.getUint16(p.start);
    const ecn = (first >>> 12 === 6 ? first >>> 4 : first) & 3;
    const isMarked = this.slow.counters.ce_mark > marked;
    assertEquals(ecn, isMarked ? 3 : ecn, "not marked");
    if (!isMarked && p.length >= 40) assertEquals(ecn, expected!.ecn, "marked without need");
    if (isMarked) this.marked++;
    this.pulled++;
    this.bench.pool.release(p);
    return true;
  }
}

Deno.test("fq: decides packet by packet as the slow model does, under any options", () => {
  const seen: Record<string, number> = {};
  fc.assert(
    fc.property(options, fc.array(step, { maxLength: 120, size: "max" }), (o, steps) => {
      const pair = new Pair(o);
      for (const s of steps) {
        if (pair.now > 3.9 * SECOND) break; // The model collects no flows.
        pair.run(s);
      }
      for (const [name, n] of Object.entries(pair.fq.stats(pair.now))) seen[name] = (seen[name] ?? 0) + n;
      pair.fq.close(pair.now);
      assertEquals([pair.bench.pool.inUse, pair.fq.backlogPackets, pair.fq.backlogBytes], [0, 0, 0]);
      assertEquals(pair.fq.nextAt(), NEVER);
      for (const band of [0, 1, 2]) assertEquals(pair.fq.stats()[`band_pkt_count_${band}`], 0);
    }),
    { numRuns: 400 },
  );
  // Each branch was taken.
  for (
    const name of [
      ...["throttled", "flows_plimit", "pkts_too_long", "ce_mark", "horizon_drops", "horizon_caps"],
      ...["fastpath_packets", "overlimits", "band_drops_0", "band_drops_1", "band_drops_2"],
    ]
  ) assert(seen[name]! > 0, `no run had ${name}`);
});

Deno.test("fq: a driver that sleeps until nextAt sends every packet exactly at its stamp, in order", () => {
  fc.assert(fc.property(
    fc.array(fc.record({ flow: fc.integer({ min: 1, max: 9 }), at: fc.integer({ min: 1, max: 500 }) }), {
      maxLength: 80,
    }),
    (stamps) => {
      const bench = new StageBench();
      const fq = new Fq({}, bench);
      for (const { flow, at } of stamps) fq.push(bench.packet(flow, 200, at), 0);
      const sent: number[] = [];
      let now = 0;
      for (;;) {
        for (let p = fq.pull(now); p !== null; p = fq.pull(now)) {
          assertEquals(p.departAt, now);
          sent.push(now);
        }
        const next = fq.nextAt();
        if (next === NEVER) break;
        assert(next > now);
        now = next;
      }
      assertEquals(sent, stamps.map((s) => s.at).sort((a, b) => a - b));
    },
  ));
});
