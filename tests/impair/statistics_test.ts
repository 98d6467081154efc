/**
 * The distributions of what is decided, over a million packets of five seeds together, against closed forms: within four
 * standard errors, the variance being that of the chain and not that of independent packets.
 *
 * Decisions are run without a stage, so that a million takes a part of a second. Seeds are fixed: a run always gives the same.
 *
 * @module
 */

import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { Packet } from "../../src/base/packet.ts";
import { Rng } from "../../src/base/rng.ts";
import { SECOND } from "../../src/base/time.ts";
import { NETEM_DEFAULTS, type NetemConfig, type NetemDistribution } from "../../src/impair/config.ts";
import { distributionTable, jitterMoments, jitterQuantile } from "../../src/impair/distribution.ts";
import { RandomChance, RandomRanks } from "../../src/impair/draw.ts";
import { type Decisions, Verdict } from "../../src/impair/impairment.ts";
import { LinuxDecisions } from "../../src/impair/linux_decisions.ts";
import { expectedLoss } from "../../src/impair/loss.ts";
import { bothBelow, normalCorrelationOfDecisions } from "../../src/impair/normal.ts";
import { OwnDecisions } from "../../src/impair/own_decisions.ts";
import { parseNetem } from "../../src/impair/parse.ts";
import { Wire } from "../testing/wire.ts";

const SEEDS = [1, 2, 3, 4, 5] as const;
const COUNT = 200_000;

const packet = new Packet(new Uint8Array(2048));
packet.end = packet.start + 100;

function makeDecisions(config: NetemConfig, seed: number): Decisions {
  const decisions = config.compat === null ? new OwnDecisions(new Rng(seed)) : new LinuxDecisions(new Rng(seed), seed);
  decisions.change(config);
  return decisions;
}

/** How often `what` is true of the verdicts over `config`, over all seeds. */
function share(config: NetemConfig, what: (verdict: Verdict) => boolean, count = COUNT): number {
  const verdict = new Verdict();
  let n = 0;
  for (const seed of SEEDS) {
    const decisions = makeDecisions(config, seed);
    for (let i = 0; i < count; i++) {
      verdict.reset();
      decisions.fate(packet, verdict, false);
      decisions.timing(packet, verdict);
      if (what(verdict)) n++;
    }
  }
  return n / (SEEDS.length * count);
}

/** The product of a row and a square matrix. */
function times(row: readonly number[], matrix: readonly (readonly number[])[]): number[] {
  return matrix[0]!.map((_, j) => row.reduce((sum, x, i) => sum + x * matrix[i]![j]!, 0));
}

/** Mean, and variance of a packet's contribution to it, of a chain that loses by `loss[state]`. */
function chain(matrix: readonly (readonly number[])[], loss: readonly number[]): { mean: number; variance: number } {
  let stationary: number[] = matrix.map((_, i) => i === 0 ? 1 : 0);
  for (let i = 0; i < 20_000; i++) stationary = times(stationary, matrix);
  const mean = stationary.reduce((sum, x, i) => sum + x * loss[i]!, 0);
  let variance = mean * (1 - mean);
  let row = stationary.map((x, i) => x * loss[i]!);
  for (let k = 0; k < 20_000; k++) {
    row = times(row, matrix);
    variance += 2 * (row.reduce((sum, x, i) => sum + x * loss[i]!, 0) - mean * mean);
  }
  return { mean, variance };
}

Deno.test("netem statistics: independent loss, duplication, corruption and reordering have their probabilities", () => {
  const config = parseNetem("delay 1ms loss 1% duplicate 2% corrupt 0.1% reorder 25%");
  const cases: [number, (verdict: Verdict) => boolean][] = [
    [0.01, ({ lost }) => lost],
    [0.02 * 0.99, ({ copies }) => copies === 2],
    [0.001, ({ corruptBit }) => corruptBit >= 0],
    [0.25 * (1 - 0.01 * 0.98), ({ ahead }) => ahead],
  ];
  for (const [expected, what] of cases) {
    const error = Math.sqrt(expected * (1 - expected) / (SEEDS.length * COUNT));
    assertAlmostEquals(share(config, what), expected, 4 * error);
  }
});

Deno.test("netem statistics: the model of four states loses as its chain does", () => {
  const cases = ["1% 30% 20% 50% 0.5%", "0.1% 10%", "5% 40% 40% 20% 10%"];
  for (const text of cases) {
    const config = parseNetem(`loss state ${text}`);
    const { p13, p31, p32, p23, p14 } = config.lossState!;
    // By the state after the packet's own step.
    const { mean, variance } = chain([
      [1 - p13 - p14, 0, p13, p14],
      [0, 1 - p23, p23, 0],
      [p31, p32, 1 - p31 - p32, 0],
      [1, 0, 0, 0],
    ], [0, 0, 1, 1]);
    assertAlmostEquals(expectedLoss(config)!, mean, 1e-12);
    assertAlmostEquals(share(config, ({ lost }) => lost), mean, 4 * Math.sqrt(variance / (SEEDS.length * COUNT)), text);
  }
  assertAlmostEquals(expectedLoss(parseNetem("loss state 1% 30% 20% 50% 0.5%"))!, 0.03645, 5e-6);
});

Deno.test("netem statistics: the model of Gilbert and Elliott loses as its chain does", () => {
  const cases = ["1% 10%", "2% 20% 50% 1%", "0.1% 25%", "30%"];
  for (const text of cases) {
    const config = parseNetem(`loss gemodel ${text}`);
    const { p, r, badLoss, goodLoss } = config.lossGemodel!;
    const { mean, variance } = chain([[1 - p, p], [r, 1 - r]], [goodLoss, badLoss]);
    assertAlmostEquals(expectedLoss(config)!, mean, 1e-12);
    assertAlmostEquals(share(config, ({ lost }) => lost), mean, 4 * Math.sqrt(variance / (SEEDS.length * COUNT)), text);
  }
  assertAlmostEquals(expectedLoss(parseNetem("loss gemodel 1% 10%"))!, 0.0909, 5e-5);
  assertAlmostEquals(expectedLoss(parseNetem("loss gemodel 2% 20% 50% 1%"))!, 0.0545, 5e-5);
});

Deno.test("netem statistics: a burst of the model of four states lasts 1 / (p31 + p32) packets", () => {
  const verdict = new Verdict();
  const decisions = makeDecisions(parseNetem("loss state 1% 30% 20% 50%"), 1);
  let [runs, lost, wasLost] = [0, 0, false];
  for (let i = 0; i < COUNT; i++) {
    verdict.reset();
    decisions.fate(packet, verdict, false);
    if (verdict.lost && !wasLost) runs++;
    if (verdict.lost) lost++;
    wasLost = verdict.lost;
  }
  // Geometric with 0.5: the standard deviation of a length is √2.
  assertAlmostEquals(lost / runs, 2, 4 * Math.SQRT2 / Math.sqrt(runs));
});

Deno.test("netem statistics: correlated decisions keep their probability and have exactly their correlation", () => {
  for (const [p, correlation] of [[0.01, 0.25], [0.1, 0.5], [0.001, 0.9], [0.5, 0.25], [0.9, 0.3]] as const) {
    const rho = normalCorrelationOfDecisions(p, correlation);
    const small = Math.min(p, 1 - p);
    let variance = p * (1 - p);
    for (let k = 1; k < 400 && rho ** k > 1e-4; k++) variance += 2 * (bothBelow(small, rho ** k) - small * small);
    let [happened, both] = [0, 0];
    for (const seed of SEEDS) {
      const chance = new RandomChance(new Rng(seed));
      chance.set(p, correlation);
      let before = false;
      for (let i = 0; i < COUNT; i++) {
        const happens = chance.happens();
        if (happens) happened++;
        if (happens && before) both++;
        before = happens;
      }
    }
    const count = SEEDS.length * COUNT;
    const what = `${p} ${correlation}`;
    assertAlmostEquals(happened / count, p, 4 * Math.sqrt(variance / count), what);
    // What both happen in has a variance of about the same kind; eight of its independent errors are ample.
    const expected = p * p + correlation * p * (1 - p);
    assertAlmostEquals(both / count, expected, 8 * Math.sqrt(expected * variance / (p * count)), what);
  }
});

Deno.test("netem statistics: correlated ranks are uniform and have exactly their correlation", () => {
  for (const correlation of [0, 0.25, 0.5, 0.9]) {
    const cells = new Array<number>(100).fill(0);
    let [sum, product, before] = [0, 0, 0.5];
    for (const seed of SEEDS) {
      const ranks = new RandomRanks(new Rng(seed));
      ranks.correlation = correlation;
      for (let i = 0; i < COUNT; i++) {
        const rank = (ranks.next(1 << 20) + 0.5) / (1 << 20);
        cells[Math.floor(rank * 100)]!++;
        sum += rank;
        product += (rank - 0.5) * (before - 0.5);
        before = rank;
      }
    }
    const count = SEEDS.length * COUNT;
    const inflation = (1 + correlation) / (1 - correlation);
    assertAlmostEquals(sum / count, 0.5, 4 * Math.sqrt(inflation / 12 / count));
    assertAlmostEquals(product / count * 12, correlation, 4 * Math.sqrt(2 * inflation / count));
    for (const n of cells) assertAlmostEquals(n / count, 0.01, 4.5 * Math.sqrt(0.01 * inflation / count));
  }
});

/**
 * Mean and standard deviation of the jitter that is drawn, in units of it, and for each of `near` the shares of it that
 * are below that by more than 0.01, and at most 0.01 above it.
 */
function drawnJitter(text: string, near: readonly number[]): { mean: number; sd: number; shares: [number, number][] } {
  const jitter = 1_000_000;
  const config = parseNetem(`delay 10ms 1ms ${text}`);
  const verdict = new Verdict();
  const below = near.map(() => 0);
  const upTo = near.map(() => 0);
  let [n, sum, squares] = [0, 0, 0];
  for (const seed of SEEDS) {
    const decisions = makeDecisions(config, seed);
    for (let i = 0; i < COUNT; i++) {
      decisions.timing(packet, verdict);
      const x = (verdict.delay - 10 * jitter) / jitter;
      n++;
      sum += x;
      squares += x * x;
      for (let k = 0; k < near.length; k++) {
        if (x < near[k]! - 0.01) below[k]!++;
        if (x <= near[k]! + 0.01) upTo[k]!++;
      }
    }
  }
  const mean = sum / n;
  const shares = near.map((_, k): [number, number] => [below[k]! / n, upTo[k]! / n]);
  return { mean, sd: Math.sqrt(squares / n - mean * mean), shares };
}

Deno.test("netem statistics: moments and quantiles of the distributions are within 0.01 of the jitter", () => {
  // Mean, standard deviation, and the quantiles of 1, 50 and 99 %.
  const cases: [string, number, number, number, number, number][] = [
    ["distribution uniform", 0, 1 / Math.sqrt(3), -0.98, 0, 0.98],
    ["distribution normal", -0.0008, 1.0001, -2.3263, 0, 2.3263],
    ["distribution pareto", -0.0335, 0.82, -0.6622, -0.32, 4],
    ["distribution paretonormal", -0.0253, 0.834, -1.0782, -0.24, 3.5816],
    ["50% distribution pareto", -0.0335, 0.82, -0.6622, -0.32, 4],
    ["25%", 0, 1 / Math.sqrt(3), -0.98, 0, 0.98],
  ];
  for (const [text, mean, sd, ...near] of cases) {
    const drawn = drawnJitter(text, near);
    assertAlmostEquals(drawn.mean, mean, 0.01, text);
    assertAlmostEquals(drawn.sd, sd, 0.01, text);
    [0.01, 0.5, 0.99].forEach((share, k) => {
      const [below, upTo] = drawn.shares[k]!;
      assert(below <= share && share <= upTo, `${text}: quantile ${share}: ${below} to ${upTo}`);
    });
  }
});

Deno.test("netem statistics: the tables are those of tc", () => {
  const edges: [NetemDistribution, number, number][] = [
    ["normal", -4, 3.523],
    ["pareto", -0.667, 4],
    ["paretonormal", -1.502, 3.88],
  ];
  for (const [name, least, most] of edges) {
    const table = distributionTable(name)!;
    assertEquals(table.length, 4096);
    assert(table.every((entry, i) => i === 0 || entry >= table[i - 1]!), "not ascending");
    assertAlmostEquals(table[0]! / 8192, least, 0.0025);
    assertAlmostEquals(table.at(-1)! / 8192, most, 0.001);
  }
  const normal = distributionTable("normal")!;
  assertEquals([0, 1, 4094, 4095].map((i) => normal[i]), [-32_768, -28_307, 27_159, 28_858]);
  assertEquals(distributionTable("pareto")!.filter((entry) => entry === 32_767).length, 44);
  assertAlmostEquals(jitterMoments("paretonormal").mean, -0.0253, 0.0005);
  assertAlmostEquals(jitterQuantile("pareto", 0.5), -0.32, 0.001);
  const own: NetemDistribution = { name: "x", values: [8192, -8192] };
  assertEquals([jitterQuantile(own, 0.2), jitterQuantile(own, 0.7)], [-1, 1]);
  assertEquals(own.values, [8192, -8192]);
});

Deno.test("netem statistics: a saturated rate is within a thousandth, and no packet is unaccounted for", () => {
  for (const text of ["", "compat linux "]) {
    let [bytes, time, pulled] = [0, 0, 0];
    const sums: Record<string, number> = {};
    for (const seed of SEEDS) {
      const wire = new Wire(
        `${text}rate 100mbit delay 5ms 4ms distribution normal loss gemodel 1% 20% duplicate 2% corrupt 1% limit 400`,
        seed,
      );
      let first = 0;
      let last = 0;
      // Twice as much as the link can carry.
      for (let i = 0; i < 200_000; i++) {
        const now = i * 40_000;
        for (let p = wire.stage.pull(now); p !== null; p = wire.stage.pull(now)) {
          // Once there is a queue.
          if (first > 0) bytes += p.length;
          else if (p.releaseAt >= SECOND) first = p.releaseAt;
          last = p.releaseAt;
          pulled++;
          wire.bench.pool.release(p);
        }
        wire.send(now, 1000);
      }
      time += last - first;
      for (const [name, n] of Object.entries(wire.stage.stats())) sums[name] = (sums[name] ?? 0) + n;
      wire.stage.close(0);
      assertEquals(wire.bench.pool.inUse, 0);
    }
    assertAlmostEquals(bytes / (time / SECOND) / 12_500_000, 1, 0.001, text);
    const { pushed, duplicated, lost, limit_drops, qlen, packets } = sums;
    assertEquals([pushed, packets], [1_000_000, pulled]);
    assertEquals(pushed! + duplicated!, pulled + lost! + limit_drops! + qlen!);
    assert(limit_drops! > 400_000);
  }
});

Deno.test("netem statistics: with compat linux, averaging makes correlated losses almost vanish", () => {
  const cases: [string, number, number][] = [
    ["1% 25%", 0.000002, 0.000004],
    ["10% 25%", 0.0175, 0.0005],
    ["10% 50%", 0.0011, 0.0001],
    ["25% 50%", 0.07, 0.001],
    ["50% 50%", 0.5, 0.002],
  ];
  for (const [text, expected, tolerance] of cases) {
    const config = parseNetem(`compat linux loss ${text}`);
    assertAlmostEquals(share(config, ({ lost }) => lost), expected, tolerance, text);
  }
  const plain = share({ ...NETEM_DEFAULTS, compat: "linux", loss: 0.01 }, ({ lost }) => lost);
  assertAlmostEquals(plain, 0.01, 4 * Math.sqrt(0.0099 / (SEEDS.length * COUNT)));
});

Deno.test("netem statistics: with compat linux, the loss models and distributions are the same", () => {
  for (const [text, variance] of [["loss gemodel 1% 10%", 1.42], ["loss state 1% 30% 20% 50% 0.5%", 0.16]] as const) {
    const config = parseNetem(`compat linux ${text}`);
    const error = Math.sqrt(variance / (SEEDS.length * COUNT));
    assertAlmostEquals(share(config, ({ lost }) => lost), expectedLoss(config)!, 4 * error, text);
  }
  const normal = drawnJitter("distribution normal compat linux", []);
  assertAlmostEquals(normal.mean, -0.0008, 0.01);
  assertAlmostEquals(normal.sd, 1.0001, 0.01);
  // A remainder of an averaged draw has lost what averaging did to it.
  assertAlmostEquals(drawnJitter("50% compat linux", []).sd, 1 / Math.sqrt(3), 0.01);
});
