/**
 * Bulk throughput over an impaired path: from our TCP to the kernel's, and from the kernel's (CUBIC) to ours, in turn.
 *
 * ```text
 *   deno run --allow-all tests/interop/kernel_throughput.ts [--json] [--pairs N] [--seconds N] …
 * ```
 *
 * Both directions go over the same path of an IPv4 underlay with IPv4 inside; the impairment is our own, in front of our
 * host and the same in each direction. Each transfer has a host and a connection of its own, which we open; what the
 * kernel remembers of earlier ones is switched off. Throughput is what the receiving program has read in so many seconds
 * after its first byte. Buffers at both ends are far larger than what is in flight on the default path. Which packets are
 * lost depends on the seed of the pair and on the direction, so two transfers of a pair lose different ones: single
 * figures stray, and the medians are what counts.
 *
 * The result is the ratio of the medians, ours to the kernel's; the exit code is 0 if it is at least 0.9, 1 if not, and 2
 * if nothing could be measured. Nothing is left behind and nothing is changed outside, see `namespaces.ts`: root may
 * choose CUBIC for a socket, whatever the system allows to others.
 *
 * @module
 */

import { Flags, type FlagSpecs, formatFlags } from "../../src/cli/flags.ts";
import { messageOf, UsageError } from "../../src/cli/command.ts";
import { parseNetem } from "../../src/impair/parse.ts";
import { CONGESTION_CONTROLS } from "../../src/tcp/congestion/registry.ts";
import type { BulkReport, HostSettings, WireCounters } from "./interop_host.ts";
import { linesOf, Site, socketFact, UNDERLAYS, watchSockets } from "./namespaces.ts";
import { OurHost } from "./our_host.ts";

/** Ours has to reach this share of the kernel's. */
const GOAL = 0.9;

/** The kernel's port. */
const PORT = 5001;

/** How much longer than it should take a transfer is waited for. */
const PATIENCE_SECONDS = 90;

/** Most that each end may buffer, in bytes. */
const BUFFER_BYTES = 16 << 20;

const PORTS: readonly HostSettings["port"][] = ["linux", "deno", "dgram"];

const FLAGS: FlagSpecs = {
  json: { help: "one JSON object in place of a table" },
  trace: { help: "with --json: the connections each second and our congestion events" },
  pairs: { value: "N", help: "pairs of transfers, one each way (default 5)" },
  seconds: { value: "N", help: "seconds of a transfer (default 30)" },
  impair: { value: "NETEM", help: 'the path each way (default "delay 20ms loss 0.1% rate 100mbit")' },
  congestion: { value: "NAME", help: `ours: ${CONGESTION_CONTROLS.join(", ")} (default cubic)` },
  port: { value: "KIND", help: `what carries our datagrams: ${PORTS.join(", ")} (default linux)` },
  seed: { value: "N", help: "seed of the first pair's losses; each pair has the next one (default 1)" },
  help: { help: "this text" },
};

interface Settings {
  readonly pairs: number;
  readonly seconds: number;
  readonly impairment: string;
  readonly congestion: string;
  readonly port: HostSettings["port"];
  readonly seed: number;
}

/** Who sends. */
type Sender = "ours" | "kernel";

/** One transfer. */
interface Transfer {
  readonly sender: Sender;
  /** Bytes that the receiving program has read, and in how long. */
  readonly bytes: number;
  readonly seconds: number;
  readonly bitsPerSec: number;
  /** What the path did with the packets of the sender. */
  readonly wire: WireCounters;
  /** What the sender's end said of the connection shortly before its end, in the manner of `ss -ti`. */
  readonly info: string;
  readonly drops: Record<string, number>;
  readonly trace: { readonly ours: string[]; readonly kernel: string[]; readonly events: BulkReport["events"] };
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

async function transfer(site: Site, settings: Settings, sender: Sender, seed: number): Promise<Transfer> {
  const [underlay] = UNDERLAYS;
  const [local, address] = underlay.inner4;
  const { seconds, congestion } = settings;
  const script = new URL("./kernel_bulk.py", import.meta.url).pathname;
  const what = sender === "ours"
    ? ["receive", address, `${PORT}`, `${seconds}`]
    : ["send", address, `${PORT}`, "cubic"];
  const child = site.kernel
    .command({ stdin: "null", stdout: "piped", stderr: "inherit" }, "python3", script, ...what)
    .spawn();
  const lines = linesOf(child.stdout);
  if ((await lines.next()).value !== "ready") throw new Error("the kernel's end did not start");
  await using host = new OurHost(site.ours, underlay, {
    port: settings.port,
    impairment: settings.impairment,
    seed,
    tcp: { congestion, sendBufferBytes: BUFFER_BYTES, receiveBufferBytes: BUFFER_BYTES },
  });
  await host.ask({ ask: "ready" });
  const asking = host.ask(
    sender === "ours" ? { ask: "send", address, port: PORT } : { ask: "receive", address, port: PORT, seconds },
    seconds + PATIENCE_SECONDS,
  );
  const kernel = await watchSockets(site.kernel, `sport = :${PORT} and dst ${local}`, asking, 1000);
  const { bulk } = await asking;
  const { value } = await lines.next();
  await child.status;
  if (bulk === undefined || value === undefined) throw new Error("the transfer was cut short");
  const read: { bytes: number; seconds: number } = sender === "ours" ? JSON.parse(value) : bulk;
  return {
    sender,
    bytes: read.bytes,
    seconds: read.seconds,
    bitsPerSec: 8 * read.bytes / read.seconds,
    wire: sender === "ours" ? bulk.out : bulk.in,
    info: sender === "ours" ? bulk.info : kernel.at(-1) ?? "",
    drops: bulk.drops,
    trace: { ours: bulk.every, kernel, events: bulk.events },
  };
}

/** Measures all pairs, the one that goes first taking turns. */
async function measure(settings: Settings, tell: (pair: number, t: Transfer) => void): Promise<Transfer[]> {
  await using site = await Site.open();
  await site.kernel.set({
    "net.ipv4.tcp_no_metrics_save": 1,
    "net.ipv4.tcp_rmem": `4096 131072 ${BUFFER_BYTES}`,
    "net.ipv4.tcp_wmem": `4096 131072 ${BUFFER_BYTES}`,
  });
  const transfers: Transfer[] = [];
  for (let pair = 0; pair < settings.pairs; pair++) {
    const order: Sender[] = pair % 2 === 0 ? ["ours", "kernel"] : ["kernel", "ours"];
    for (const sender of order) {
      const t = await transfer(site, settings, sender, settings.seed + pair);
      transfers.push(t);
      tell(pair, t);
    }
  }
  return transfers;
}

const mbit = (bitsPerSec: number): string => (bitsPerSec / 1e6).toFixed(2).padStart(8);

function formatTransfer(pair: number, { sender, bitsPerSec, wire, info }: Transfer): string {
  const { packets, lost, limit_drops } = wire;
  const facts = ["rtt", "cwnd", "retrans"].map((name) => `${name} ${socketFact(info, name) ?? "-"}`);
  const share = (100 * lost / (packets + lost)).toFixed(3);
  return `${pair + 1}  ${sender.padEnd(6)}  ${mbit(bitsPerSec)} Mbit/s  ` +
    `lost ${lost} (${share} %), full ${limit_drops}  ${facts.join(", ")}`;
}

function readFlags(): { settings: Settings; flags: Flags } {
  const flags = new Flags({ command: "kernel_throughput", flags: FLAGS }, Deno.args);
  const oneOf = <T extends string>(name: string, words: readonly T[], standard: T): T => {
    const text = flags.text(name) ?? standard;
    return words.find((word) => word === text) ?? flags.wrong(name, text, words.join(", "));
  };
  const impairment = flags.text("impair") ?? "delay 20ms loss 0.1% rate 100mbit";
  try {
    parseNetem(impairment);
  } catch (error) {
    flags.wrong("impair", impairment, messageOf(error));
  }
  return {
    flags,
    settings: {
      pairs: flags.integer("pairs", 1, 1000, 5),
      seconds: flags.number("seconds", 1, 3600, 30),
      impairment,
      congestion: oneOf("congestion", CONGESTION_CONTROLS, "cubic"),
      port: oneOf("port", PORTS, "linux"),
      seed: flags.integer("seed", 0, 2 ** 40, 1),
    },
  };
}

async function main(): Promise<number> {
  const { settings, flags } = readFlags();
  if (flags.has("help")) {
    console.log(`kernel_throughput: bulk from us to the kernel and from the kernel to us\n\n${formatFlags(FLAGS)}`);
    return 0;
  }
  if (Deno.build.os !== "linux" || Deno.uid() !== 0) {
    throw new UsageError("kernel_throughput: network namespaces need root on Linux");
  }
  const isJson = flags.has("json");
  const transfers = await measure(settings, (pair, t) => {
    if (!isJson) console.log(formatTransfer(pair, t));
  });
  const of = (sender: Sender): number => median(transfers.filter((t) => t.sender === sender).map((t) => t.bitsPerSec));
  const ours = of("ours");
  const kernel = of("kernel");
  const ratio = ours / kernel;
  const isReached = ratio >= GOAL;
  if (isJson) {
    const rows = transfers.map(({ trace, ...t }) => flags.has("trace") ? { ...t, trace } : t);
    const medians = { oursBitsPerSec: ours, kernelBitsPerSec: kernel };
    console.log(JSON.stringify({ ...settings, transfers: rows, medians, ratio, goal: GOAL, isReached }));
  } else {
    console.log(`medians: ours ${mbit(ours).trim()}, the kernel's ${mbit(kernel).trim()} Mbit/s`);
    console.log(`ratio ${ratio.toFixed(3)}, ${isReached ? "at least" : "below"} ${GOAL}`);
  }
  return isReached ? 0 : 1;
}

if (import.meta.main) {
  Deno.exit(
    await main().catch((error) => {
      console.error(error instanceof UsageError ? error.message : error);
      return 2;
    }),
  );
}
