/**
 * What a run of the scripts found: as one object, and as a table for people.
 *
 * @module
 */

import type { Entry } from "./load.ts";
import type { Outcome } from "./player.ts";

/** A script that failed. */
export interface FailedScript {
  /** Its file, as in the index. */
  script: string;
  /** Line of the original script. */
  line: number;
  /** What was to happen there. */
  expected: string;
  /** What did. */
  got: string;
}

/** What `--json` prints. */
export interface Report {
  /** Scripts played. */
  scripts: number;
  /** How many of them passed. */
  passed: number;
  /** The others. */
  failed: FailedScript[];
  /** Packets that the stack sent and that no script was about. */
  leftovers: number;
}

/** A script with how it ended. */
export interface Result {
  entry: Entry;
  outcome: Outcome;
}

/** Sums up. */
export function summarize(results: readonly Result[]): Report {
  const failed = results.flatMap(({ entry, outcome: { failure } }) =>
    failure === null ? [] : [{ script: entry.file, ...failure }]
  );
  return {
    scripts: results.length,
    passed: results.length - failed.length,
    failed,
    leftovers: results.reduce((sum, { outcome }) => sum + outcome.leftovers, 0),
  };
}

/** The report as text: a table by suite and subject, and why each script failed. */
export function reportText(results: readonly Result[]): string {
  const report = summarize(results);
  const rows = [["suite", "subject", "passed", "scored", ""]];
  for (const [key, group] of groupBy(results, ({ entry }) => `${entry.suite}\n${entry.file.split("__")[0]}`)) {
    const [suite, subject] = key.split("\n");
    const scored = group.filter(({ entry }) => entry.scored);
    rows.push([suite!, subject!, ratio(group), scored.length === 0 ? "-" : ratio(scored), ""]);
  }
  for (const [suite, group] of groupBy(results, ({ entry }) => entry.suite)) {
    rows.push([suite, "all", ratio(group), ratio(group.filter(({ entry }) => entry.scored)), ""]);
  }
  const widths = [0, 1, 2, 3].map((column) => Math.max(...rows.map((row) => row[column]!.length)));
  const lines = rows.map((row) =>
    row.slice(0, 4).map((cell, i) => i < 2 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!)).join("  ")
  );
  for (const { script, line, expected, got } of report.failed) {
    lines.push("", `${script}:${line}`, `  expected ${expected}`, `  got      ${got}`);
  }
  lines.push("", `${report.passed} of ${report.scripts} scripts passed; ${report.leftovers} packets left over`);
  return lines.join("\n");
}

function ratio(results: readonly Result[]): string {
  return `${results.filter(({ outcome }) => outcome.failure === null).length}/${results.length}`;
}

function groupBy(results: readonly Result[], key: (result: Result) => string): Map<string, Result[]> {
  const groups = new Map<string, Result[]>();
  for (const result of results) {
    const name = key(result);
    const group = groups.get(name);
    if (group === undefined) groups.set(name, [result]);
    else group.push(result);
  }
  return groups;
}
