/**
 * The experiment `fast-retransmit`: a few cells with short transfers, and the arithmetic of its tables.
 *
 * @module
 */

import { assert, assertAlmostEquals, assertEquals, assertNotEquals } from "@std/assert";
import {
  type FastRetransmitCell,
  type FastRetransmitResult,
  type MultiFlowCell,
  runFastRetransmitCell,
  type SingleFlowCell,
} from "../../src/lab/fast_retransmit.ts";
import {
  fastRetransmitCells,
  type FastRetransmitPlan,
  reportFastRetransmit,
} from "../../src/lab/fast_retransmit_report.ts";
import {
  BUFFERS_BYTES,
  FLOWS,
  LOSSES,
  mathisBound,
  ns3Single,
  smoltcpMulti,
  smoltcpSingle,
  smoltcpWholeBufferChange,
} from "../../src/lab/smoltcp_tables.ts";

function single(options: Partial<SingleFlowCell>): FastRetransmitResult {
  return runFastRetransmitCell({
    kind: "single",
    control: "reno",
    bufferBytes: 8192,
    loss: 0,
    seed: 1,
    pacing: "edt",
    fastRetransmit: "oldest",
    transferBytes: 1 << 18,
    ...options,
  });
}

function multi(options: Partial<MultiFlowCell>): FastRetransmitResult {
  return runFastRetransmitCell({
    kind: "multi",
    control: "reno",
    flows: 4,
    seed: 1,
    pacing: "edt",
    fastRetransmit: "oldest",
    transferBytes: 1 << 18,
    ...options,
  });
}

Deno.test("lab fast-retransmit: without loss a window a round trip is reached, and never more", () => {
  for (const bufferBytes of [128, 1024, 8192, 32768]) {
    const { throughputBytesPerSec, retransmittedRatio, timeouts } = single({
      bufferBytes,
      transferBytes: bufferBytes * 100,
    });
    const bound = bufferBytes / 0.1;
    // The handshake and the way to the first window take a little; 100 windows make that visible.
    assert(throughputBytesPerSec > 0.85 * bound, `${throughputBytesPerSec} B/s at ${bufferBytes}`);
    assert(throughputBytesPerSec <= bound, `${throughputBytesPerSec} B/s at ${bufferBytes}`);
    assertEquals([retransmittedRatio, timeouts], [0, 0]);
  }
});

Deno.test("lab fast-retransmit: one flow under loss is as fast as smoltcp at least", () => {
  for (
    const [control, bufferBytes, loss] of [["none", 1024, 0.1], ["reno", 16384, 0.05], ["none", 32768, 0.02]] as const
  ) {
    const { throughputBytesPerSec, retransmittedRatio } = single({
      control,
      bufferBytes,
      loss,
      transferBytes: 1 << 19,
    });
    assert(throughputBytesPerSec > smoltcpSingle(control, bufferBytes, loss)!, `${throughputBytesPerSec} B/s`);
    assert(retransmittedRatio > loss / 4 && retransmittedRatio < 1, `${retransmittedRatio} sent again`);
  }
});

Deno.test("lab fast-retransmit: the whole buffer sent again is more than what was lost", () => {
  const options = { control: "none", bufferBytes: 32768, loss: 0.05 };
  const oldest = single({ ...options, fastRetransmit: "oldest" });
  const whole = single({ ...options, fastRetransmit: "whole-buffer" });
  assert(
    whole.retransmittedRatio > 2 * oldest.retransmittedRatio,
    `${whole.retransmittedRatio}, ${oldest.retransmittedRatio}`,
  );
});

Deno.test("lab fast-retransmit: many flows share the link, and the sum of their shares is what arrived", () => {
  const one = multi({ flows: 1 });
  assertEquals([one.fairness, one.dropRatio, one.leastBytesPerSec], [1, 0, one.mostBytesPerSec]);
  const many = multi({ flows: 16 });
  assert(many.throughputBytesPerSec < 25_000_000 && many.throughputBytesPerSec > 4 * one.throughputBytesPerSec);
  assert(
    many.leastBytesPerSec <= many.throughputBytesPerSec / 16 && many.mostBytesPerSec >= many.throughputBytesPerSec / 16,
  );
  assertAlmostEquals(many.leastBytesPerSec * many.seconds, 1 << 18, 65536);
  const greedy = multi({ flows: 16, control: "none" });
  assert(greedy.dropRatio > 0.1, `${greedy.dropRatio} dropped without congestion control`);
});

Deno.test("lab fast-retransmit: the same cell gives the same result, another seed another one", () => {
  const lossy = { loss: 0.02, control: "none" };
  assertEquals(single(lossy), single(lossy));
  assertNotEquals(single(lossy).seconds, single({ ...lossy, seed: 2 }).seconds);
  assertEquals(multi({}), multi({}));
  assertNotEquals(multi({}).seconds, multi({ seed: 2 }).seconds);
});

Deno.test("lab fast-retransmit: reference figures stand where they belong", () => {
  assertEquals(smoltcpSingle("none", 128, 0.3), 7.18);
  assertEquals(smoltcpSingle("reno", 32768, 0), 312391.44);
  assertEquals(smoltcpSingle("cubic", 4096, 0.2), 1218.53);
  assertEquals([smoltcpSingle("bbr", 4096, 0.2), smoltcpSingle("reno", 4096, 0.07)], [null, null]);
  for (const control of ["none", "reno", "cubic"]) {
    for (const bufferBytes of BUFFERS_BYTES) {
      const row = LOSSES.map((loss) => smoltcpSingle(control, bufferBytes, loss)!);
      assert(
        row.every((value, i) => value > 0 && (i === 0 || value < row[i - 1]!)),
        `${control} ${bufferBytes}: ${row}`,
      );
      assert(row[0]! <= bufferBytes / 0.1);
    }
    for (const flows of FLOWS) assert(smoltcpMulti(control, flows)!.throughputBytesPerSec < 25_000_000);
  }
  assertEquals(smoltcpMulti("bbr", 1), null);
  // The percentages that its authors would see.
  assertAlmostEquals(smoltcpWholeBufferChange("none", 32768, 0.05)!, -50.8, 0.05);
  assertAlmostEquals(smoltcpWholeBufferChange("none", 8192, 0.2)!, 25.7, 0.05);
  assertEquals(smoltcpWholeBufferChange("reno", 8192, 0.2), null);
  assertEquals([ns3Single("reno", 0.01), ns3Single("cubic", 0.02), ns3Single("bbr", 0.02)], [106054, 111941, null]);
  assertAlmostEquals(mathisBound(32768, 0.01), 178_813, 1);
  assertEquals([mathisBound(32768, 0), mathisBound(128, 0.01)], [327_680, 1280]);
});

const PLAN: FastRetransmitPlan = {
  controls: ["none", "cubic"],
  pacings: ["edt", "off"],
  buffersBytes: [128, 32768],
  losses: [0, 0.01],
  flows: [16],
  seeds: [1, 2, 3],
  wholeBuffer: true,
};

function result(throughputBytesPerSec: number, more: Partial<FastRetransmitResult> = {}): FastRetransmitResult {
  return {
    throughputBytesPerSec,
    leastBytesPerSec: 1,
    mostBytesPerSec: 2,
    fairness: 0.9,
    dropRatio: 0.01,
    seconds: 1,
    retransmittedRatio: 0,
    timeouts: 0,
    ...more,
  };
}

/** Enough for every bound, whichever the seed. */
function good(cell: FastRetransmitCell): FastRetransmitResult {
  if (cell.kind === "multi") return result(18_000_000 + cell.seed);
  return result(
    (cell.fastRetransmit === "oldest" ? 0.99 : 0.66) * cell.bufferBytes / 0.1 + [0, 50, 0, 9000][cell.seed]!,
  );
}

Deno.test("lab fast-retransmit: a plan makes each cell once, the costly ones first", () => {
  const cells = fastRetransmitCells(PLAN);
  // Each control: four single-flow cells, a multi-flow one, the whole buffer where it can matter; cubic again unpaced.
  assertEquals(cells.length, (2 * (4 + 1 + 1) + 2 + 1) * 3);
  assertEquals(new Set(cells.map((cell) => JSON.stringify(cell))).size, cells.length);
  assert(cells[0]!.kind === "multi" || cells[0]!.bufferBytes === 128);
  assert(
    cells.every((cell) => cell.kind === "multi" || cell.fastRetransmit === "oldest" || cell.bufferBytes === 32768),
  );
});

Deno.test("lab fast-retransmit: tables hold medians over the seeds, ratios and changes", () => {
  const cells = fastRetransmitCells(PLAN);
  const report = reportFastRetransmit(PLAN, cells, cells.map(good));
  assertEquals(report.single.map((t) => [t.control, t.pacing]), [
    ["none", "edt"],
    ["cubic", "edt"],
    ["cubic", "off"],
  ]);
  const entry = report.single[1]!.rows[1]!.cells[1]!;
  assertAlmostEquals(entry.throughputBytesPerSec, 0.99 * 327_680 + 50);
  assertAlmostEquals(entry.range[1] - entry.range[0], 9000);
  assertAlmostEquals(entry.ratio!, (0.99 * 327_680 + 50) / 59_813.37);
  assertAlmostEquals(entry.ns3Ratio!, (0.99 * 327_680 + 50) / 139_528);
  assertEquals(report.wholeBuffer.map((t) => [t.control, t.rows.length]), [["none", 1], ["cubic", 1]]);
  assertAlmostEquals(report.wholeBuffer[0]!.rows[0]!.cells[0]!.changePercent, 50, 0.1);
  assertAlmostEquals(report.wholeBuffer[0]!.rows[0]!.cells[0]!.smoltcpChangePercent!, -17.4, 0.05);
  const [row] = report.multi[1]!.rows;
  assertEquals([row!.throughputBytesPerSec, row!.utilisation], [18_000_002, 18_000_002 / 25_000_000]);
  assertAlmostEquals(row!.ratio!, 18_000_002 / 7_924_059.72);
});

Deno.test("lab fast-retransmit: a bound that is missed is named with the worst cell", () => {
  const cells = fastRetransmitCells(PLAN);
  const report = (of: (cell: FastRetransmitCell) => FastRetransmitResult) =>
    reportFastRetransmit(PLAN, cells, cells.map(of)).checks;
  const all = report(good);
  assertEquals(all.filter((check) => !check.passed), []);
  assert(all.length >= 7 && all.every((check) => !check.name.includes("off")));
  const missed = (of: (cell: FastRetransmitCell) => FastRetransmitResult) =>
    report(of).filter((check) => !check.passed).map(({ name, found }) => `${name}: ${found}`);
  const bend = (is: (cell: FastRetransmitCell) => boolean, to: FastRetransmitResult) => (cell: FastRetransmitCell) =>
    is(cell) ? to : good(cell);
  const singleCell = (control: string, loss: number) => (cell: FastRetransmitCell) =>
    cell.kind === "single" && cell.control === control && cell.bufferBytes === 32768 && cell.loss === loss;
  assertEquals(missed(bend(singleCell("none", 0.01), result(219_670))), [
    "single flow, none, pacing edt: ratio to smoltcp: 1.000 at 32768 bytes, loss 0.01",
  ]);
  assertEquals(missed(bend(singleCell("cubic", 0), result(309_000))), [
    "single flow, cubic, pacing edt: ratio to smoltcp: 0.989 at 32768 bytes, loss 0",
    "single flow, cubic, pacing edt: ratio to the lower of ns-3: 0.968 at 32768 bytes, loss 0",
  ]);
  assertEquals(missed(bend(singleCell("cubic", 0.01), result(143_000))), [
    "single flow, cubic, pacing edt: share of the Mathis bound: 0.800 at 32768 bytes, loss 0.01",
  ]);
  const isMulti = (cell: FastRetransmitCell) => cell.kind === "multi";
  assertEquals(missed(bend(isMulti, result(17_000_000, { fairness: 0.7, dropRatio: 0.03 }))), [
    "multi flow, cubic, pacing edt: share of the link: 0.680 at 16 flows",
    "multi flow, cubic, pacing edt: Jain's index: 0.700 at 16 flows",
    "multi flow, cubic, pacing edt: drops: 0.030 at 16 flows",
  ]);
});
