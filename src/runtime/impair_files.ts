/**
 * Files that impairments name: tables of jitter, recordings of delay, loss and rate, and of deliveries.
 *
 * The core takes their contents; here they are read. Names are relative to the current directory. Only texts that name
 * files are touched, so whatever else is wrong is told by those who check the whole configuration.
 *
 * @module
 */

import { type NetemConfig, netemConfig } from "../impair/config.ts";
import { netemFiles, parseNetem } from "../impair/parse.ts";
import type { NetemOption } from "../stack/config.ts";

function readFile(name: string): string {
  return Deno.readTextFileSync(name);
}

/**
 * Reads an impairment as a user writes it, with the files that it names.
 *
 * @throws {TypeError} naming the word, its position and what was expected
 * @throws {RangeError} if a field is out of range
 */
export function readNetem(option: NetemOption): NetemConfig {
  return typeof option === "string" ? parseNetem(option, { readFile }) : netemConfig(option);
}

/** An impairment's text with its files read, if it names any and they can be; anything else as it is. */
function withFiles(option: unknown): unknown {
  if (typeof option !== "string" || netemFiles(option).length === 0) return option;
  return parseNetem(option, { readFile });
}

/** The same of each direction, which `begin` is told before it is read. */
function withFilesBothWays(impair: unknown, begin: (way: "in" | "out") => void): unknown {
  if (typeof impair === "string") return { out: withFiles(impair) };
  if (typeof impair !== "object" || impair === null || Array.isArray(impair)) return impair;
  const ways = { ...impair } as Record<string, unknown>;
  for (const way of ["in", "out"] as const) {
    if (!(way in ways)) continue;
    begin(way);
    ways[way] = withFiles(ways[way]);
  }
  return ways;
}

/** The options of a host with each impairment replaced by what `map` makes of it and of its path. */
function mapImpairments<T>(options: T, map: (impair: unknown, path: (string | number)[]) => unknown): T {
  if (typeof options !== "object" || options === null) return options;
  const mapped = { ...options } as Record<string, unknown>;
  if ("impair" in mapped) mapped["impair"] = map(mapped["impair"], ["impair"]);
  if (Array.isArray(mapped["peers"])) {
    mapped["peers"] = mapped["peers"].map((peer, i) =>
      typeof peer === "object" && peer !== null && "impair" in peer
        ? { ...peer, impair: map(peer.impair, ["peers", i, "impair"]) }
        : peer
    );
  }
  return mapped as T;
}

/**
 * The options of a host with the files read that its impairments name.
 *
 * @param fault is told the path of an impairment whose file cannot be read or is wrong, and why
 */
export function readImpairFiles<T>(options: T, fault: (path: (string | number)[], why: string) => void): T {
  return mapImpairments(options, (impair, path) => {
    let at = path;
    try {
      return withFilesBothWays(impair, (way) => at = [...path, way]);
    } catch (error) {
      fault(at, error instanceof Error ? error.message : String(error));
      return impair;
    }
  });
}
