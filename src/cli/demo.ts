/**
 * `culvert demo`: two peers as two processes on this machine, with a shaped and impaired path between them.
 *
 * The parent starts the peers, passes their progress on, and puts their findings together. A peer that ends before its
 * time ends the demo at once with an error.
 *
 * @module
 */

import { createSocket } from "node:dgram";
import { parseArgs } from "@std/cli/parse-args";
import { parseNetem } from "../impair/parse.ts";
import { type Command, UsageError } from "./command.ts";
import type { PeerEvent, PeerSettings } from "./demo_peer.ts";
import { type DemoReport, formatDemoReport, type PeerSummary, type RttSummary } from "./demo_report.ts";
import { JsonLineWriter, readJsonLines } from "./json_lines.ts";
import { Progress } from "./terminal.ts";

const IMPAIRMENT = "delay 20ms 2ms loss 0.5% rate 50mbit";
const BULK_SECONDS = 4;
const REQUESTS = 200;
const CONNECTIONS = 2;
const PING_INTERVAL_MS = 200;
/** The demo is stopped after so long, whatever happens. */
const LIMIT_SECONDS = 19;

const HELP = `Usage: culvert demo [--json] [--seed N] [--impair TEXT] [-6]

Starts two peers as two processes on loopback UDP, with "${IMPAIRMENT}" each way between
them: pings all through, a bulk transfer each way with every byte verified, then ${REQUESTS} one-byte requests. Ends within 20 s.

Options:
  --json         print one JSON object instead of the table
  --seed N       seed of all randomness (default 1)
  --impair TEXT  impairment each way in tc-netem's words (default "${IMPAIRMENT}")
  -6             IPv6 inside the tunnel
  --help         this text

Examples:
  deno task demo
  deno task demo --json | jq .requests
  deno task demo --impair "delay 5ms rate 20mbit"

Permissions: --allow-net=127.0.0.1 --allow-run --allow-env=LOG_TOKENS,LOG_STREAM
`;

/** The command `demo`. */
export const demo: Command = {
  name: "demo",
  summary: "two peers on this machine over a shaped and impaired path",
  help: HELP,
  async run(args) {
    const options = parseDemoArgs(args);
    const progress = new Progress(false);
    const started = performance.now();
    const peers = await startPeers(options);
    const kill = (): void => Object.values(peers).forEach((p) => p.kill());
    const timer = setTimeout(() => {
      for (const peer of Object.values(peers)) peer.fail(new Error(`the demo did not end within ${LIMIT_SECONDS} s`));
    }, LIMIT_SECONDS * 1000);
    try {
      const report = await conduct(peers, options, progress);
      report.seconds = Math.round(performance.now() - started) / 1000;
      progress.clear();
      console.log(options.json ? JSON.stringify(report) : formatDemoReport(report));
      const { aToB, bToA } = report.bulk;
      return aToB.verified && bToA.verified ? 0 : 1;
    } catch (error) {
      progress.clear();
      console.error(`culvert demo: ${error instanceof Error ? error.message : error}`);
      return 1;
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
}

function parseDemoArgs(args: string[]): DemoOptions {
  const flags = parseArgs(args, {
    boolean: ["json", "6"],
    string: ["seed", "impair"],
    unknown: (arg) => {
      throw new UsageError(`demo: unknown argument "${arg}": expected --json, --seed, --impair or -6`);
    },
  });
  const seedText = flags.seed ?? "1";
  const seed = Number(seedText);
  if (!/^\d+$/.test(seedText) || !Number.isSafeInteger(seed)) {
    throw new UsageError(`demo: --seed "${seedText}": expected a whole number`);
  }
  const impairment = flags.impair ?? IMPAIRMENT;
  try {
    parseNetem(impairment);
  } catch (error) {
    throw new UsageError(`demo: --impair: ${(error as Error).message}`);
  }
  return { json: flags.json, seed, impairment, family: flags["6"] ? 6 : 4 };
}

/** A child process and what it says. */
class PeerProcess {
  readonly name: "a" | "b";
  readonly ended: Promise<void>;
  readonly #child: Deno.ChildProcess;
  readonly #in: JsonLineWriter;
  readonly #events: AsyncGenerator<unknown>;
  readonly #failure = Promise.withResolvers<never>();
  #phase = "starting";
  #finished = false;

  constructor(name: "a" | "b", settings: PeerSettings) {
    this.name = name;
    this.#child = new Deno.Command(Deno.execPath(), {
      args: ["run", "--quiet", "--allow-net=127.0.0.1", "--allow-env=LOG_TOKENS,LOG_STREAM", mainModule(), "demo-peer"],
      stdin: "piped",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    this.#in = new JsonLineWriter(this.#child.stdin);
    this.#events = readJsonLines(this.#child.stdout);
    this.#failure.promise.catch(() => {});
    this.ended = this.#child.status.then((status) => {
      if (this.#finished) return;
      const how = status.signal !== null ? `was ended by ${status.signal}` : `ended with code ${status.code}`;
      this.fail(new Error(`peer ${name} (pid ${this.#child.pid}) ${how} while ${this.#phase}`));
    });
    this.say(settings);
  }

  /** Makes every present and later wait for this peer fail. */
  fail(error: Error): void {
    this.#failure.reject(error);
  }

  say(line: unknown, phase = this.#phase): void {
    this.#phase = phase;
    // A peer that is gone is reported by its status.
    this.#in.write(line).catch(() => {});
  }

  /** The next event of the kind wanted; others go to `onOther`. Rejects as soon as the peer has ended. */
  async wait<K extends PeerEvent["event"]>(
    kind: K,
    onOther: (event: PeerEvent) => void = () => {},
  ): Promise<Extract<PeerEvent, { event: K }>> {
    const next = async (): Promise<Extract<PeerEvent, { event: K }>> => {
      for (;;) {
        const { value, done } = await this.#events.next();
        if (done) return await this.#failure.promise;
        const event = value as PeerEvent;
        if (event.event === kind) return event as Extract<PeerEvent, { event: K }>;
        onOther(event);
      }
    };
    return await Promise.race([next(), this.#failure.promise]);
  }

  /** Resolves never; rejects when the peer ends. */
  get lost(): Promise<never> {
    return this.#failure.promise;
  }

  async finish(): Promise<PeerSummary> {
    this.say("finish", "finishing");
    const { summary } = await this.wait("summary");
    this.#finished = true;
    return summary;
  }

  kill(): void {
    this.#finished = true;
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // It has ended already.
    }
  }
}

function mainModule(): string {
  return new URL("./main.ts", import.meta.url).href;
}

async function startPeers(options: DemoOptions): Promise<{ a: PeerProcess; b: PeerProcess }> {
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
  await Promise.all([a.wait("ready"), b.wait("ready")]);
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

/** Two UDP ports of loopback that are free now. */
async function freeUdpPorts(): Promise<[number, number]> {
  const sockets = [createSocket("udp4"), createSocket("udp4")];
  const ports = await Promise.all(sockets.map((socket) =>
    new Promise<number>((resolve, reject) => {
      socket.once("error", reject);
      socket.bind(0, "127.0.0.1", () => resolve(socket.address().port));
    })
  ));
  await Promise.all(sockets.map((socket) => new Promise<void>((resolve) => socket.close(() => resolve()))));
  return [ports[0]!, ports[1]!];
}
