/**
 * `culvert ping`: whether an address inside the tunnel answers, and how fast.
 *
 * @module
 */

import { MILLISECOND, SECOND } from "../base/time.ts";
import type { PingOptions } from "../socket/ping.ts";
import type { Command } from "./command.ts";
import { failureOf } from "./failure.ts";
import { Flags, type FlagSpecs, formatFlags } from "./flags.ts";
import {
  type CliHost,
  HOST_FLAGS,
  HOST_HELP,
  innerAddress,
  permissionHelp,
  planHost,
  requireFamily,
} from "./host_flags.ts";
import { Interrupt } from "./interrupt.ts";
import { readerGone } from "./output.ts";
import { formatPingAnswer, formatPingHeader, formatPingSummary, PingTally } from "./ping_report.ts";
import { Progress } from "./terminal.ts";

const FLAGS: FlagSpecs = {
  count: { short: "c", value: "N", help: "stop after so many requests (default: at SIGINT)" },
  interval: { short: "i", value: "SECONDS", help: "time between two requests (default 1)" },
  timeout: { short: "W", value: "SECONDS", help: "how long to wait for each answer (default 5)" },
  size: { short: "s", value: "BYTES", help: "data bytes in each request (default 56)" },
  ttl: { short: "t", value: "N", help: "TTL or hop limit of the requests (default 64)" },
  quiet: { short: "q", help: "print the summary only" },
  "4": { help: "the destination has to be IPv4" },
  "6": { help: "the destination has to be IPv6" },
  json: { help: "print one JSON object with every answer" },
};

const HELP = `Usage: culvert ping [OPTIONS] HOST DESTINATION

Sends ICMP echo requests to an address inside the tunnel and prints the answers in the line forms of ping(8). SIGINT
ends it with the statistics. Ends with code 0 if anything was answered, else with 1.

Options:
${formatFlags(FLAGS)}

${HOST_HELP}

Examples:
  culvert ping -c 3 10.7.0.2 --address 10.7.0.1/24 --listen 127.0.0.1:7001 --peer b=127.0.0.1:7002,10.7.0.2
  culvert ping --config a.yaml -i 0.2 fd07::2
  culvert ping --config a.yaml -c 100 -i 10ms -q --pcap ping.pcapng --impair "delay 20ms 5ms loss 1%" 10.7.0.2
  culvert ping --config a.yaml -c 10 --json 10.7.0.2 | jq .rttMs.avg

${permissionHelp()}
  deno run --allow-net=127.0.0.1 jsr:@culvert/culvert/cli ping ...
`;

/** The command `ping`. */
export const ping: Command = {
  name: "ping",
  summary: "whether an address inside the tunnel answers, and how fast",
  help: HELP,
  async run(args) {
    const flags = new Flags({ command: "ping", flags: { ...FLAGS, ...HOST_FLAGS }, words: ["DESTINATION"] }, args);
    const [word] = flags.words;
    if (word === undefined) throw flags.fault("found no destination, expected an IP address inside the tunnel");
    const destination = innerAddress(flags, "destination", word);
    for (const version of ["4", "6"]) {
      if (flags.has(version) && destination.includes(":") !== (version === "6")) {
        throw flags.fault(
          `destination: found ${JSON.stringify(word)} with -${version}, expected an IPv${version} address`,
        );
      }
    }
    const options = {
      count: flags.integer("count", 1, Number.MAX_SAFE_INTEGER, Infinity),
      interval: flags.seconds("interval", MILLISECOND, SECOND),
      timeout: flags.seconds("timeout", MILLISECOND, 5 * SECOND),
      sizeBytes: flags.integer("size", 0, 65507, 56),
      ttl: flags.integer("ttl", 1, 255, 64),
    };
    const [isQuiet, isJson] = [flags.has("quiet"), flags.has("json")];
    const plan = await planHost(flags);
    requireFamily(flags, plan, "destination", destination);
    return await run(await plan.open(), destination, options, isQuiet, isJson);
  },
};

type CheckedOptions = Required<Omit<PingOptions, "signal">>;

async function run(
  cli: CliHost,
  destination: string,
  options: CheckedOptions,
  isQuiet: boolean,
  isJson: boolean,
): Promise<number> {
  using interrupt = new Interrupt(readerGone);
  const { host } = cli;
  const tally = new PingTally();
  const started = performance.now();
  let transmitted = 0;
  const readTransmitted = (): void => {
    const [socket] = host.inspect().ping;
    if (socket !== undefined) transmitted = socket.sent;
  };
  // Before the pinging ends, and its socket with it.
  interrupt.signal.addEventListener("abort", readTransmitted);
  const signal = AbortSignal.any([interrupt.signal]);
  const progress = new Progress(!(isQuiet || isJson));
  const ticker = setInterval(() => {
    readTransmitted();
    progress.show(`${transmitted} sent, ${tally.received} received`);
  }, 1000);
  try {
    if (!isJson) console.log(formatPingHeader(destination, options.sizeBytes));
    for await (const answer of host.ping(destination, { ...options, signal })) {
      tally.add(answer);
      readTransmitted();
      const line = formatPingAnswer(answer);
      if (line !== null && !isQuiet && !isJson) console.log(line);
    }
  } catch (error) {
    if (!interrupt.raised) throw failureOf("ping", error);
  } finally {
    clearInterval(ticker);
    progress.clear();
    await cli.close();
  }
  const report = tally.report(destination, options.sizeBytes, transmitted, performance.now() - started);
  console.log(isJson ? JSON.stringify(report) : `\n${formatPingSummary(report)}`);
  return tally.received > 0 ? 0 : 1;
}
