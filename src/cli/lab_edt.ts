/**
 * `culvert lab edt`: departures spaced by the queueing discipline against departures stamped by TCP.
 *
 * @module
 */

import { MILLISECOND, SECOND } from "../base/time.ts";
import { type EdtResult, runEdt } from "../lab/edt.ts";
import type { PortConfig, SleeperConfig } from "../stack/options.ts";
import type { PacingMode } from "../tcp/pacing.ts";
import type { Flags, FlagSpecs } from "./flags.ts";
import { type RealEdtOptions, type RealEdtResult, runRealEdt } from "./lab_edt_real.ts";
import { kindsOf } from "./lab_ports.ts";
import { type Experiment, experimentHelp } from "./lab_experiment.ts";
import { bold, Progress, table } from "./terminal.ts";

const FLAGS: FlagSpecs = {
  seconds: {
    short: "t",
    value: "SECONDS",
    help: "time of the bulk flow; requests take four times that for each size (default 10, with --real 3)",
  },
  seed: { value: "N", help: "seed of all randomness in virtual time (default 1)" },
  real: { help: "in real time, between two processes over loopback UDP" },
  port: {
    value: "KIND",
    help: "with --real: the UDP port, dgram, deno or linux (default the first of these that there is)",
  },
  sleeper: {
    value: "KIND",
    help: "with --real: the sleeper, timeout, hop, ppoll or spin (default what suits the port)",
  },
  json: { help: "print one JSON object" },
};

const MODES: readonly PacingMode[] = ["qdisc", "edt"];
const PORTS: readonly PortConfig["kind"][] = ["auto", "linux", "deno", "dgram"];
const SLEEPERS: readonly SleeperConfig[] = ["timeout", "hop", "ppoll", "spin"];

/** The longest that the bulk flow takes, in real time. */
const REAL_MAX = 600 * SECOND;

/** The experiment `edt`. */
export const edt: Experiment = {
  name: "edt",
  summary: "what departure stamps change in the round-trip time and in request times",
  help: experimentHelp(
    "edt",
    `One flow of 24 Mbit/s on a path of 0.1 ms, and requests beside eight paced flows, with departures spaced by the queueing
discipline ("qdisc") and stamped by TCP ("edt"): in virtual time, or with --real between two processes, where the path
is the loopback and takes about a minute.`,
    FLAGS,
    [
      "culvert lab edt",
      "culvert lab edt --seconds 30 --seed 7",
      "culvert lab edt --real",
      "culvert lab edt --real --port dgram --sleeper hop",
      "culvert lab edt --json | jq '.edt.info.rtt'",
    ],
  ) + `
Permissions: none in virtual time; with --real --allow-net=127.0.0.1 --allow-run, and --allow-ffi for the port "linux"
`,
  flags: FLAGS,
  async run(flags) {
    const isReal = flags.has("real");
    const seconds = flags.seconds("seconds", MILLISECOND, (isReal ? 3 : 10) * SECOND) / SECOND;
    if (isReal && seconds * SECOND > REAL_MAX) {
      flags.wrong("seconds", flags.text("seconds")!, "at most 600 s with --real");
    }
    return isReal ? await runReal(flags, seconds) : runVirtual(flags, seconds);
  },
};

function runVirtual(flags: Flags, seconds: number): number {
  for (const name of ["port", "sleeper"]) {
    if (flags.has(name)) throw flags.fault(`--${name}: expected with --real only`);
  }
  const seed = flags.integer("seed", 0, Number.MAX_SAFE_INTEGER, 1);
  const progress = new Progress(false);
  const results = MODES.map((pacing) => {
    progress.show(
      `departures by ${pacing}: ${seconds} s of virtual time for the flow, ${4 * seconds} s a request size`,
    );
    return runEdt(pacing, { seed, seconds });
  });
  progress.clear();
  const [qdisc, edt] = results as [EdtResult, EdtResult];
  console.log(flags.has("json") ? JSON.stringify({ seed, seconds, qdisc, edt }) : formatEdt(results));
  return 0;
}

async function runReal(flags: Flags, seconds: number): Promise<number> {
  if (flags.has("seed")) throw flags.fault("--seed: expected without --real only: real time does not repeat");
  const options: RealEdtOptions = {
    seconds,
    port: kindsOf(flags, "port", PORTS)[0] ?? "auto",
    sleeper: kindsOf(flags, "sleeper", SLEEPERS)[0] ?? null,
  };
  const progress = new Progress(false);
  const results: RealEdtResult[] = [];
  try {
    for (const pacing of MODES) results.push(await runRealEdt(pacing, options, progress));
  } finally {
    progress.clear();
  }
  const [qdisc, edt] = results as [RealEdtResult, RealEdtResult];
  console.log(
    flags.has("json")
      ? JSON.stringify({ real: true, seconds, qdisc, edt })
      : `${
        formatEdt(results)
      }\n\nboth ends: ${edt.underlay}; base RTT: median of pings; delivery rate: median of samples`,
  );
  return 0;
}

function formatEdt(results: readonly (EdtResult & { deliveryRate?: number })[]): string {
  const ms = (n: number): string => `${n.toFixed(3)} ms`;
  return [
    ...results.map((r) => `${bold(r.pacing.padEnd(5))}  ${r.line}`),
    "",
    table([
      ["one flow at 24 Mbit/s", "base RTT", "srtt", "rttvar", "min_rtt", "delivery rate", "goodput"].map(bold),
      ...results.map((r) => [
        r.pacing,
        ms(r.baseRtt),
        ms(r.info.rtt),
        ms(r.info.rttvar),
        ms(r.info.minRtt),
        `${((r.deliveryRate ?? r.info.deliveryRate) / 1e6).toFixed(2)} Mbit/s`,
        `${r.goodputMbitPerSec.toFixed(2)} Mbit/s`,
      ]),
    ]),
    "",
    table([
      ["requests beside 8 flows", "answers", "p50", "p99", "± p99", "p99.9", "the flows"].map(bold),
      ...results.flatMap((r) =>
        ([["1 byte", r.small], ["20 kB", r.large]] as const).map(([size, times]) => [
          `${r.pacing}, answers of ${size}`,
          `${times.count}`,
          ms(times.p50),
          ms(times.p99),
          `${times.p99Error.toFixed(4)} ms`,
          ms(times.p999),
          `${times.bulkMbitPerSec.toFixed(2)} Mbit/s`,
        ])
      ),
    ]),
  ].join("\n");
}
