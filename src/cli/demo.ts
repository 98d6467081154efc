/**
 * `culvert demo`: two peers as two processes on this machine, with a shaped and impaired path between them.
 *
 * The parent starts the peers, passes their progress on, and puts their findings together. A peer that ends before its
 * time ends the demo at once with an error.
 *
 * @module
 */

import { parseNetem } from "../impair/parse.ts";
import { requireNet } from "../runtime/errors.ts";
import { ChildPeer, freeUdpPorts } from "./child_peer.ts";
import { type Command, Failure, messageOf, UsageError } from "./command.ts";
import type { PeerEvent, PeerSettings } from "./demo_peer.ts";
import { type DemoReport, formatDemoReport, type PeerSummary, type RttSummary } from "./demo_report.ts";
import { Flags, type FlagSpecs, formatFlags } from "./flags.ts";
import { Progress } from "./terminal.ts";

const IMPAIRMENT = "delay 20ms 2ms loss 0.5% rate 50mbit";
const BULK_SECONDS = 3;
const REQUESTS = 200;
const CONNECTIONS = 2;
const PING_INTERVAL_MS = 200;
/** The demo is stopped so long after the program was started, whatever happens. */
const LIMIT_SECONDS = 19;

const FLAGS: FlagSpecs = {
  json: { help: "print one JSON object instead of the table" },
  seed: { value: "N", help: "seed of all randomness (default 1)" },
  impair: { value: "TEXT", help: `impairment each way in tc-netem's words (default "${IMPAIRMENT}")` },
  "6": { help: "IPv6 inside the tunnel" },
  pcap: { value: "FILE", help: "capture what each peer sees: NAME.pcapng becomes NAME.a.pcapng and NAME.b.pcapng" },
};

const HELP = `Usage: culvert demo [OPTIONS]

Starts two peers as two processes on loopback UDP, with "${IMPAIRMENT}" each way between
them: pings all through, a bulk transfer each way with every byte verified, then ${REQUESTS} one-byte requests. Ends within 20 s.

Options:
${formatFlags(FLAGS)}

Examples:
  deno task demo
  deno task demo --json | jq .requests
  deno task demo --impair "delay 5ms rate 20mbit"
  deno task demo --pcap demo.pcapng

Permissions: --allow-net=127.0.0.1 --allow-run
`;

/** The command `demo`. */
export const demo: Command = {
  name: "demo",
  summary: "two peers on this machine over a shaped and impaired path",
  help: HELP,
  async run(args, started) {
    const options = parseDemoArgs(args);
    const progress = new Progress(false);
    const peers = await startPeers(options);
    const kill = (): void => Object.values(peers).forEach((p) => p.kill());
    const timer = setTimeout(() => {
      for (const peer of Object.values(peers)) peer.fail(new Error(`the demo did not end within ${LIMIT_SECONDS} s`));
    }, started + LIMIT_SECONDS * 1000 - performance.now());
    try {
      const report = await conduct(peers, options, progress);
      report.seconds = Math.round(performance.now() - started) / 1000;
      progress.clear();
      console.log(options.json ? JSON.stringify(report) : formatDemoReport(report));
      const { aToB, bToA } = report.bulk;
      return aToB.verified && bToA.verified ? 0 : 1;
    } catch (error) {
      progress.clear();
      if (error instanceof UsageError) throw error;
      throw new Failure(`demo: ${messageOf(error)}`);
    } finally {
      clearTimeout(timer);
      kill();
      await Promise.all(Object.values(peers).map((p) => p.ended));
    }
  },
};

interface DemoOptions {
  json: boolean;
  seed: number;
  impairment: string;
  family: 4 | 6;
  pcap: string | null;
}

function parseDemoArgs(args: string[]): DemoOptions {
  const flags = new Flags({ command: "demo", flags: FLAGS }, args);
  const impairment = flags.text("impair") ?? IMPAIRMENT;
  try {
    parseNetem(impairment);
  } catch (error) {
    throw flags.fault(`--impair: found ${JSON.stringify(impairment)}: ${messageOf(error)}`);
  }
  return {
    json: flags.has("json"),
    seed: flags.integer("seed", 0, Number.MAX_SAFE_INTEGER - 2, 1),
    impairment,
    family: flags.has("6") ? 6 : 4,
    pcap: captureName(flags),
  };
}

/** A name without a file in it would become that of hidden files. */
function captureName(flags: Flags): string | null {
  const name = flags.text("pcap");
  if (name !== undefined && /[/\\]$/.test(name)) flags.wrong("pcap", name, "the name of a file, like demo.pcapng");
  return name ?? null;
}

/** The capture of one peer: `demo.pcapng` becomes `demo.a.pcapng`. */
function captureOf(role: "a" | "b", path: string): string {
  const match = /^(.*?)(\.[^./\\]*)?$/s.exec(path)!;
  return `${match[1]}.${role}${match[2] ?? ""}`;
}

/** One of the two processes. */
class PeerProcess extends ChildPeer<PeerEvent> {
  constructor(name: "a" | "b", settings: PeerSettings) {
    const write = settings.pcap === null ? [] : [`--allow-write=${settings.pcap}`];
    super({ command: "demo-peer", flags: ["--allow-net=127.0.0.1", ...write], name, settings });
  }

  async finish(): Promise<PeerSummary> {
    this.say("finish", "finishing");
    const { summary } = await this.wait("summary");
    this.release();
    return summary;
  }
}

async function startPeers(options: DemoOptions): Promise<{ a: PeerProcess; b: PeerProcess }> {
  await requireNet("127.0.0.1");
  const [portA, portB] = await freeUdpPorts();
  const settings = (role: "a" | "b"): PeerSettings => ({
    role,
    listen: `127.0.0.1:${role === "a" ? portA : portB}`,
    peer: `127.0.0.1:${role === "a" ? portB : portA}`,
    family: options.family,
    impairment: options.impairment,
    seed: options.seed,
    bulkSeconds: BULK_SECONDS,
    requests: REQUESTS,
    connections: CONNECTIONS,
    pingIntervalMs: PING_INTERVAL_MS,
    pcap: options.pcap === null ? null : captureOf(role, options.pcap),
  });
  return { a: new PeerProcess("a", settings("a")), b: new PeerProcess("b", settings("b")) };
}

async function conduct(
  peers: { a: PeerProcess; b: PeerProcess },
  options: DemoOptions,
  progress: Progress,
): Promise<DemoReport> {
  const { a, b } = peers;
  progress.show("starting two peers");
  const refuse = (event: PeerEvent): void => {
    if (event.event === "unwritable") throw new UsageError(`demo: --pcap: ${event.text}`);
  };
  await Promise.all([a.wait("ready", refuse), b.wait("ready", refuse)]);
  a.say("start", "running the demo");
  b.say(null, "serving the demo");
  const client = await Promise.race([
    a.wait("client", (event) => event.event === "progress" && progress.show(event.text)),
    b.lost,
  ]) as { ping: RttSummary; requests: RttSummary };
  const [summaryA, summaryB] = await Promise.all([a.finish(), b.finish()]);
  if (summaryA.received === null || summaryB.received === null) throw new Error("a bulk transfer did not take place");
  return {
    impairment: options.impairment,
    seed: options.seed,
    seconds: 0,
    ping: client.ping,
    requests: client.requests,
    bulk: { aToB: summaryB.received, bToA: summaryA.received },
    retransmits: { a: summaryA.retransmits, b: summaryB.retransmits },
    drops: { a: summaryA.drops, b: summaryB.drops },
    senders: { a: summaryA.sender, b: summaryB.sender },
  };
}
