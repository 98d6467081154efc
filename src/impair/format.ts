/**
 * Writing an impairment as text.
 *
 * @module
 */

import { NETEM_DEFAULTS, type NetemConfig, type NetemDistribution, type NetemSlot } from "./config.ts";
import { formatPercent, formatRate, formatTime } from "./units.ts";

/**
 * Writes an impairment so that `parseNetem` reads the same again, given the same files; fields that have their default
 * are left out.
 */
export function formatNetem(config: NetemConfig): string {
  const c = config;
  const out: string[] = [];
  const add = (option: string, values: readonly number[], texts: readonly string[]) => {
    const last = values.findLastIndex((value) => value !== 0);
    if (last >= 0) out.push(option, ...texts.slice(0, last + 1));
  };
  const chance = (option: string, probability: number, correlation: number) =>
    add(option, [probability, correlation], [formatPercent(probability), formatPercent(correlation)]);
  if (c.compat !== null) out.push("compat", c.compat);
  add("delay", [c.delay, c.jitter, c.delayCorrelation], [
    formatTime(c.delay),
    formatTime(c.jitter),
    formatPercent(c.delayCorrelation),
  ]);
  if (c.distribution !== "uniform") out.push("distribution", nameOf(c.distribution));
  if (c.keepOrder) out.push("jitter", "keep-order");
  chance("loss", c.loss, c.lossCorrelation);
  if (c.lossState !== null) {
    const { p13, p31, p32, p23, p14 } = c.lossState;
    out.push("loss", "state", ...[p13, p31, p32, p23, p14].map(formatPercent));
  }
  if (c.lossGemodel !== null) {
    const { p, r, badLoss, goodLoss } = c.lossGemodel;
    out.push("loss", "gemodel", ...[p, r, badLoss, goodLoss].map(formatPercent));
  }
  if (c.ecn) out.push("ecn");
  chance("duplicate", c.duplicate, c.duplicateCorrelation);
  chance("reorder", c.reorder, c.reorderCorrelation);
  if (c.gap !== 1) {
    if (c.reorder === 0 && c.reorderCorrelation === 0) out.push("reorder", "0%");
    out.push("gap", `${c.gap}`);
  }
  chance("corrupt", c.corrupt, c.corruptCorrelation);
  add("rate", [c.rateBytesPerSec, c.packetOverheadBytes, c.cellBytes, c.cellOverheadBytes], [
    formatRate(c.rateBytesPerSec),
    `${c.packetOverheadBytes}`,
    `${c.cellBytes}`,
    `${c.cellOverheadBytes}`,
  ]);
  if (c.slot !== null) out.push(...slotWords(c.slot));
  if (c.trace !== null) out.push("trace", c.trace.name, ...(c.trace.loop ? ["loop"] : []));
  if (c.delivery !== null) out.push("delivery", c.delivery.name);
  if (c.limit !== NETEM_DEFAULTS.limit) out.push("limit", `${c.limit}`);
  if (c.seed !== null) out.push("seed", `${c.seed}`);
  return out.join(" ");
}

function nameOf(distribution: NetemDistribution): string {
  return typeof distribution === "string" ? distribution : distribution.name;
}

function slotWords({ min, max, distribution, delay, jitter, packets, bytes }: NetemSlot): string[] {
  const words = distribution === null
    ? ["slot", formatTime(min), formatTime(max)]
    : ["slot", "distribution", nameOf(distribution), formatTime(delay), formatTime(jitter)];
  if (packets > 0) words.push("packets", `${packets}`);
  if (bytes > 0) words.push("bytes", `${bytes}`);
  return words;
}
