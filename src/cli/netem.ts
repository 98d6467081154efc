/**
 * `culvert netem`: what an impairment means, before it is used.
 *
 * @module
 */

import { DeliveryPlayer } from "../impair/delivery.ts";
import { formatNetem } from "../impair/format.ts";
import { expectedLoss } from "../impair/loss.ts";
import { type NetemDelays, netemDelays } from "../impair/meter.ts";
import { type NetemWarning, parseNetem } from "../impair/parse.ts";
import { PROFILE_NAMES, profileText } from "../impair/profile.ts";
import type { NetemConfig } from "../impair/config.ts";
import { formatPercent, formatRate } from "../impair/units.ts";
import { toMilliseconds } from "../base/time.ts";
import { type Command, messageOf, UsageError } from "./command.ts";
import { Flags, type FlagSpecs, formatFlags } from "./flags.ts";
import { bold } from "./terminal.ts";

const FLAGS: FlagSpecs = {
  profiles: { help: "list the profiles" },
  json: { help: "print a JSON object" },
};

const HELP = `Usage: culvert netem [OPTIONS] TEXT
       culvert netem --profiles

Reads an impairment as --impair does, and tells what it is in full, what is to be expected of it, and what about it is
rarely meant. TEXT is what follows "netem" in a tc command, in one argument; files that it names are read.

Options:
${formatFlags(FLAGS)}

Examples:
  culvert netem "delay 20ms 5ms loss gemodel 1% 25%"
  culvert netem "profile lte loss 0.1%"
  culvert netem "compat linux delay 20ms loss 1% 25%"
  culvert netem "delay 10ms delivery verizon.down"

Permissions: --allow-read=FILE for the files that TEXT names
`;

/** The command `netem`. */
export const netem: Command = {
  name: "netem",
  summary: "what an impairment means",
  help: HELP,
  run(args) {
    const flags = new Flags({ command: "netem", flags: FLAGS, words: ["TEXT"] }, args);
    const [text] = flags.words;
    const isJson = flags.has("json");
    if (flags.has("profiles")) {
      if (text !== undefined) throw flags.fault(`found ${JSON.stringify(text)} with --profiles, expected one of both`);
      console.log(isJson ? JSON.stringify(profiles()) : formatProfiles());
    } else {
      if (text === undefined) throw flags.fault('found no impairment, expected one like "delay 20ms loss 1%"');
      const warnings: NetemWarning[] = [];
      const config = read(text, (warning) => warnings.push(warning));
      console.log(isJson ? JSON.stringify(explainJson(config, warnings)) : explain(config, warnings));
    }
    return Promise.resolve(0);
  },
};

function read(text: string, warn: (warning: NetemWarning) => void): NetemConfig {
  try {
    return parseNetem(text, { warn, readFile: (name) => Deno.readTextFileSync(name) });
  } catch (error) {
    throw new UsageError(messageOf(error));
  }
}

/** What is to be expected, in plain values; `null` for what changes with time or depends on the traffic. */
function explainJson(config: NetemConfig, warnings: readonly NetemWarning[]): Record<string, unknown> {
  return {
    netem: formatNetem(config),
    delay: netemDelays(config),
    loss: expectedLoss(config),
    rateBytesPerSec: rateOf(config),
    limit: config.limit,
    warnings,
  };
}

function rateOf({ rateBytesPerSec, delivery }: NetemConfig): number | null {
  if (delivery !== null) return DeliveryPlayer.meanRate(delivery);
  return rateBytesPerSec > 0 ? rateBytesPerSec : null;
}

function explain(config: NetemConfig, warnings: readonly NetemWarning[]): string {
  const loss = expectedLoss(config);
  const rate = rateOf(config);
  const delays = netemDelays(config);
  const rows = [
    ["netem", formatNetem(config) || "nothing"],
    ["delay", delays === null ? "changes with time" : formatDelays(delays)],
    ["loss", loss === null ? "not known beforehand" : formatPercent(Number(loss.toPrecision(6)))],
    ["rate", rate === null ? config.trace === null ? "unlimited" : "changes with time" : formatRate(Math.round(rate))],
    ["limit", `${config.limit} packets`],
  ];
  for (const { word, position, text } of warnings) rows.push(["warning", `word ${position} "${word}": ${text}`]);
  const width = Math.max(...rows.map(([name]) => name!.length));
  return rows.map(([name, text]) => `${bold(name!.padEnd(width))}  ${text}`).join("\n");
}

function formatDelays({ mean, sd, quantiles }: NetemDelays): string {
  const ms = (time: number) => `${Number(toMilliseconds(time).toPrecision(4))}`;
  const { p1, p50, p99 } = quantiles;
  const spread = sd === 0 ? "" : `, sd ${ms(sd)}, 1 % ${ms(p1)}, 50 % ${ms(p50)}, 99 % ${ms(p99)}`;
  return `mean ${ms(mean)}${spread} ms`;
}

function profiles(): { name: string; down: string; up: string }[] {
  return PROFILE_NAMES.map((name) => ({ name, down: profileText(name, "down")!, up: profileText(name, "up")! }));
}

function formatProfiles(): string {
  const width = Math.max(...PROFILE_NAMES.map((name) => name.length));
  const line = (name: string, way: string, text: string) => `${name.padEnd(width)}  ${way.padEnd(4)}  ${text}`;
  return profiles().flatMap(({ name, down, up }) => [line(name, "down", down), line("", "up", up)]).join("\n");
}
