/**
 * `culvert lab departure`: how late packets leave in real time, by sleeper, UDP port and load.
 *
 * @module
 */

import { cpuUsage } from "node:process";
import { MICROSECOND, MILLISECOND, SECOND } from "../base/time.ts";
import {
  DEPARTURE_LOADS,
  DEPARTURE_PORTS,
  DEPARTURE_SLEEPERS,
  type DepartureEnvironment,
  type DeparturePort,
  type DepartureResult,
  type IdleResult,
  runDeparture,
  runIdle,
} from "../lab/departure.ts";
import { requireNet } from "../runtime/errors.ts";
import type { SleeperKind } from "../runtime/sleeper.ts";
import { drawSvg } from "./chart.ts";
import { messageOf } from "./command.ts";
import { delay } from "./conn_io.ts";
import type { Flags, FlagSpecs } from "./flags.ts";
import { type Experiment, experimentHelp } from "./lab_experiment.ts";
import { kindsOf, whyNot } from "./lab_ports.ts";
import { SinkProcess } from "./lab_sink.ts";
import { bold, Progress, table } from "./terminal.ts";

const FLAGS: FlagSpecs = {
  seconds: { short: "t", value: "SECONDS", help: "how long each load is measured (default 1)" },
  port: { value: "KIND", isList: true, help: "only this UDP port: dgram, deno or linux; may be repeated" },
  sleeper: { value: "KIND", isList: true, help: "only this sleeper: timeout, hop, ppoll or spin; may be repeated" },
  svg: { value: "FILE", help: "draw the distributions of lateness into an SVG file" },
  json: { help: "print one JSON object" },
};

/** The longest that a load is measured, in nanoseconds. */
const SECONDS_MAX = 600 * SECOND;

/** The experiment `departure`. */
export const departure: Experiment = {
  name: "departure",
  summary: "how late packets leave in real time, by sleeper, UDP port and load",
  help: experimentHelp(
    "departure",
    `Queues datagrams with departure times of an absolute schedule in FQ and measures how late the UDP socket is given each:
one flow with a packet every 100 µs up to 1,000 flows with one every 50 ms, for each sleeper and each UDP port that can
be used here, and what a host without traffic costs. Takes a minute or so; each of the two ports adds half of that.
Of the lateness "woke" is how late the host awoke, which is the sleeper's; the rest is what the stack and the call of the
socket take. The exit code is 1 if any packet left before its time. The goals hold on an idle machine.

The port "linux" needs --allow-ffi (and so does the sleeper "ppoll"), "deno" needs --unstable-net.`,
    FLAGS,
    [
      "culvert lab departure",
      "culvert lab departure --port linux --sleeper ppoll --seconds 10",
      "culvert lab departure --svg lateness.svg",
      "culvert lab departure --json | jq '.loads[] | {port, sleeper, flows, p99}'",
    ],
  ) + `
Permissions: --allow-net=127.0.0.1 --allow-run; with --svg also --allow-write=FILE
`,
  flags: FLAGS,
  async run(flags) {
    const seconds = flags.seconds("seconds", 10 * MILLISECOND, SECOND) / SECOND;
    if (seconds * SECOND > SECONDS_MAX) flags.wrong("seconds", flags.text("seconds")!, "at most 600 s");
    const skipped: Record<string, string> = {};
    const ports = chooseOf(flags, "port", DEPARTURE_PORTS, skipped);
    const sleepers = chooseOf(flags, "sleeper", DEPARTURE_SLEEPERS, skipped);
    const svg = flags.text("svg");
    if (svg !== undefined) await requireWritable(flags, svg);
    const results = await measure(ports, sleepers, seconds);
    if (svg !== undefined) await Deno.writeTextFile(svg, await drawLateness(results.loads));
    console.log(flags.has("json") ? JSON.stringify({ seconds, ...results, skipped }) : format(results, skipped));
    return results.loads.some((load) => load.early > 0) ? 1 : 0;
  },
};

interface Results {
  loads: DepartureResult[];
  idle: IdleResult[];
}

/** What was asked for, or everything that can be used. */
function chooseOf<T extends string>(
  flags: Flags,
  name: string,
  all: readonly T[],
  skipped: Record<string, string>,
): T[] {
  const asked = kindsOf(flags, name, all);
  return all.filter((kind) => {
    if (asked.length > 0) return asked.includes(kind);
    const why = whyNot(kind);
    if (why !== "") skipped[`${name} ${kind}`] = why;
    return why === "";
  });
}

async function requireWritable(flags: Flags, path: string): Promise<void> {
  try {
    (await Deno.open(path, { write: true, create: true })).close();
  } catch (error) {
    flags.wrong("svg", path, `a file that can be written (${messageOf(error)})`);
  }
}

async function measure(ports: DeparturePort[], sleepers: SleeperKind[], seconds: number): Promise<Results> {
  await requireNet("127.0.0.1");
  const progress = new Progress(false);
  const results: Results = { loads: [], idle: [] };
  const cells = ports.length * sleepers.length * (DEPARTURE_LOADS.length + 1);
  const show = (port: string, sleeper: string, what: string): void => {
    const done = results.loads.length + results.idle.length;
    progress.show(`${done + 1} of ${cells}: port ${port}, sleeper ${sleeper}, ${what}, ${seconds} s`);
  };
  progress.show("starting");
  await using sink = await SinkProcess.start();
  const environment: DepartureEnvironment = {
    sinkPort: sink.port,
    cpuTime() {
      const { user, system } = cpuUsage();
      return (user + system) * MICROSECOND;
    },
    delay,
  };
  try {
    for (const port of ports) {
      for (const sleeper of sleepers) {
        show(port, sleeper, "no traffic");
        results.idle.push(await runIdle(port, sleeper, seconds, environment));
        for (const load of DEPARTURE_LOADS) {
          show(port, sleeper, `${load.flows} flows`);
          results.loads.push(await runDeparture(port, sleeper, load, seconds, environment));
        }
      }
    }
  } finally {
    progress.clear();
  }
  return results;
}

function format({ loads, idle }: Results, skipped: Record<string, string>): string {
  const ms = (n: number): string => n.toFixed(3);
  const percent = (share: number, digits: number): string => `${(share * 100).toFixed(digits)} %`;
  const head = ["port, sleeper", "flows", "gap ms", "packets/s", "woke p99", "p50 ms", "p99 ms", "max ms", "goal p99"];
  const rows = loads.map((r) => [
    `${r.port}, ${r.sleeper}`,
    `${r.flows}`,
    `${r.gap}`,
    `${r.packetsPerSec}`,
    ms(r.wokeP99),
    ms(r.p50),
    ms(r.p99),
    ms(r.max),
    r.goal === null ? "-" : `${r.p99 <= r.goal ? "met" : "above"} ${r.goal}`,
    `${r.early}`,
    `${r.missing}`,
    percent(r.rateError, 3),
    percent(r.cpuShare, 1),
  ]);
  const lines = [
    table([[...head, "early", "missing", "rate error", "CPU"].map(bold), ...rows]),
    "",
    table([
      ["no traffic", "CPU"].map(bold),
      ...idle.map((r) => [`${r.port}, ${r.sleeper}`, percent(r.cpuShare, 2)]),
    ]),
  ];
  const left = Object.entries(skipped).map(([what, why]) => `not measured: ${what} (${why})`);
  return [...lines, ...(left.length > 0 ? ["", ...left] : [])].join("\n");
}

/** The distributions of lateness: a row a sleeper, a column a port, a colour a load. */
async function drawLateness(loads: readonly DepartureResult[]): Promise<string> {
  const bins = loads.flatMap((r) =>
    r.histogram.map(({ from, to, count }) => ({
      from: Math.max(from, to / 2),
      to,
      share: count / r.packets,
      port: r.port,
      sleeper: r.sleeper,
      load: `${r.flows} ${r.flows === 1 ? "flow" : "flows"}, a packet every ${r.gap} ms`,
    }))
  );
  const ports = [...new Set(loads.map((r) => r.port))];
  const sleepers = [...new Set(loads.map((r) => r.sleeper))];
  const names = [...new Set(bins.map((bin) => bin.load))];
  return await drawSvg((plot) => ({
    width: 120 + 260 * ports.length,
    height: 80 + 130 * sleepers.length,
    marginLeft: 50,
    marginRight: 70,
    style: { background: "white", fontFamily: "sans-serif" },
    x: { type: "log", label: "lateness of departures (ms)", tickFormat: (n: number) => `${n}`, ticks: 5 },
    y: { label: "share of packets (%)", percent: true, grid: true },
    fx: { label: null, domain: ports },
    fy: { label: null, domain: sleepers },
    color: { domain: names },
    marks: [
      plot.frame({ stroke: "#ccc" }),
      plot.rectY(bins, {
        x1: "from",
        x2: "to",
        y1: () => 0,
        y2: "share",
        fx: "port",
        fy: "sleeper",
        fill: "load",
        fillOpacity: 0.5,
        mixBlendMode: "multiply",
      }),
      // A legend of the library's own would be no SVG.
      ...names.map((load, i) =>
        plot.text([{ load, port: ports.at(-1), sleeper: sleepers[0] }], {
          text: "load",
          fill: "load",
          fx: "port",
          fy: "sleeper",
          frameAnchor: "top-right",
          dx: -4,
          dy: 6 + 12 * i,
        })
      ),
    ],
  }));
}
