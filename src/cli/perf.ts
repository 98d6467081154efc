/**
 * `culvert perf`: how much a path carries, by TCP or UDP.
 *
 * @module
 */

import { MILLISECOND, SECOND } from "../base/time.ts";
import { type Command, Failure } from "./command.ts";
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
import { type PerfReport, runPerf } from "./perf_client.ts";
import { LENGTH_BYTES, PERF_PORT, type PerfTest, SECONDS_MAX, STREAMS_MAX } from "./perf_protocol.ts";
import {
  formatConnected,
  formatInterval,
  formatResults,
  formatSummary,
  intervalHeader,
  reportJson,
  SEPARATOR,
  servedJson,
  summaryHeader,
} from "./perf_report.ts";
import { PerfServer, type ServedTest } from "./perf_server.ts";
import { formatBitRate } from "./quantities.ts";
import { failureOf } from "./failure.ts";
import { Progress } from "./terminal.ts";

const TCP_LENGTH_BYTES = 128 << 10;
const UDP_BITS_PER_SEC = 1_000_000;

const FLAGS: FlagSpecs = {
  server: { short: "s", help: "serve" },
  client: { short: "c", value: "ADDRESS", help: "run a test with the server at this address inside the tunnel" },
  port: { short: "p", value: "PORT", help: `the server's port, TCP and UDP (default ${PERF_PORT})` },
  time: { short: "t", value: "SECONDS", help: "how long to send (default 10)" },
  parallel: { short: "P", value: "N", help: "parallel streams (default 1)" },
  reverse: { short: "R", help: "the server sends" },
  udp: { short: "u", help: "UDP instead of TCP" },
  bitrate: {
    short: "b",
    value: "BITS[KMG]",
    help: "rate of each stream, 0 for no limit (default 1M for UDP, 0 for TCP)",
  },
  length: {
    short: "l",
    value: "BYTES[KM]",
    help: "bytes of a write or a datagram (default 128K, or what fits the MTU)",
  },
  interval: { short: "i", value: "SECONDS", help: "time between two reports (default 1)" },
  "one-off": { short: "1", help: "serve one test, then end" },
  json: { short: "J", help: "print one JSON object, with iperf3's names; a server prints one a test" },
};

const HELP = `Usage: culvert perf -s [OPTIONS] HOST
       culvert perf -c ADDRESS [OPTIONS] HOST

Measures what a path carries, in the line forms of iperf3 (whose protocol it does not speak). A sender's lines count
what was written, so the receiver's last line tells what went through. Ends with code 0 when the test was completed.

Options:
${formatFlags(FLAGS)}

${HOST_HELP}

Examples:
  culvert perf -s --address 10.7.0.2/24 --listen 127.0.0.1:7002 --peer a=127.0.0.1:7001,10.7.0.1
  culvert perf -c 10.7.0.2 -t 5 --address 10.7.0.1/24 --listen 127.0.0.1:7001 --peer b=127.0.0.1:7002,10.7.0.2
  culvert perf -c 10.7.0.2 -R -P 4 --config a.yaml --impair "delay 10ms rate 50mbit"
  culvert perf -c 10.7.0.2 -u -b 10M --json --config a.yaml | jq .end.sum_received.lost_percent

${permissionHelp()}
  deno run --allow-net=127.0.0.1 jsr:@culvert/culvert/cli perf -s ...
`;

/** The command `perf`. */
export const perf: Command = {
  name: "perf",
  summary: "what a path carries: bulk TCP and UDP, like iperf3",
  help: HELP,
  async run(args) {
    const flags = new Flags({ command: "perf", flags: { ...FLAGS, ...HOST_FLAGS } }, args);
    const isServer = flags.has("server");
    const address = flags.text("client");
    if (isServer === (address !== undefined)) {
      throw flags.fault(
        `found ${isServer ? "both" : "neither"}, expected --server or --client ADDRESS`,
      );
    }
    const port = flags.integer("port", 1, 65535, PERF_PORT);
    const isJson = flags.has("json");
    if (isServer) {
      for (const name of ["time", "parallel", "reverse", "udp", "bitrate", "length", "interval"]) {
        if (flags.has(name)) throw flags.fault(`--${name}: found with --server, expected with --client`);
      }
      const plan = await planHost(flags);
      return await serve(await plan.open(), port, flags.has("one-off"), isJson);
    }
    if (flags.has("one-off")) throw flags.fault("--one-off: found with --client, expected with --server");
    const hostname = innerAddress(flags, "--client", address!);
    const test = testOf(flags);
    const interval = flags.seconds("interval", 100 * MILLISECOND, SECOND);
    const plan = await planHost(flags);
    requireFamily(flags, plan, "--client", hostname);
    return await ask(await plan.open(), { hostname, port, test, interval, isJson });
  },
};

function testOf(flags: Flags): PerfTest {
  const protocol = flags.has("udp") ? "udp" : "tcp";
  const [least, most] = LENGTH_BYTES[protocol];
  const time = flags.seconds("time", 10 * MILLISECOND, 10 * SECOND);
  if (time > SECONDS_MAX * SECOND) flags.wrong("time", flags.text("time")!, `at most ${SECONDS_MAX} seconds`);
  return {
    protocol,
    streams: flags.integer("parallel", 1, STREAMS_MAX, 1),
    reverse: flags.has("reverse"),
    seconds: time / SECOND,
    bitsPerSec: flags.bitRate("bitrate", protocol === "udp" ? UDP_BITS_PER_SEC : 0),
    lengthBytes: flags.bytes("length", least, most, protocol === "udp" ? 0 : TCP_LENGTH_BYTES),
    udpPort: 0,
  };
}

async function serve(cli: CliHost, port: number, isOneOff: boolean, isJson: boolean): Promise<number> {
  using interrupt = new Interrupt();
  const over = Promise.withResolvers<number>();
  try {
    const server = new PerfServer(cli.host, port, {
      onTest(client, test) {
        if (!isJson) console.log(`Accepted connection from ${client}: ${describeTest(test)}`);
      },
      onResult(served) {
        console.log(
          isJson ? JSON.stringify(servedJson(served.client, served.test, served.streams)) : formatServed(served),
        );
        if (isOneOff) over.resolve(0);
      },
      onFailure(client, why) {
        console.error(`culvert: perf: the test of ${client} failed: ${why}`);
        if (isOneOff) over.resolve(1);
      },
    });
    if (isJson) console.error(`Server listening on ${server.port}`);
    else console.log(`${"-".repeat(59)}\nServer listening on ${server.port}\n${"-".repeat(59)}`);
    const code = await Promise.race([over.promise, interrupt.wait().then(() => 0), cli.host.closed.then(() => 1)]);
    return code;
  } catch (error) {
    throw failureOf("perf", error);
  } finally {
    await cli.close();
  }
}

function describeTest(test: PerfTest): string {
  const { protocol, streams, seconds, reverse, bitsPerSec } = test;
  const rate = bitsPerSec === 0 ? "" : ` at ${formatBitRate(bitsPerSec).trim()} each`;
  return `${protocol.toUpperCase()}, ${streams} stream${streams === 1 ? "" : "s"}${rate}, ${seconds} s` +
    (reverse ? ", reverse" : "");
}

function formatServed({ test, streams }: ServedTest): string {
  return [summaryHeader(test), formatResults(test, test.reverse ? "sender" : "receiver", streams)].join("\n");
}

interface Asked {
  hostname: string;
  port: number;
  test: PerfTest;
  interval: number;
  isJson: boolean;
}

async function ask(cli: CliHost, { hostname, port, test, interval, isJson }: Asked): Promise<number> {
  using interrupt = new Interrupt(readerGone);
  const progress = new Progress(!isJson);
  const print = (text: string): void => isJson ? undefined : console.log(text);
  try {
    print(`Connecting to host ${hostname}, port ${port}`);
    progress.show(`connecting to ${hostname} port ${port}`);
    const report: PerfReport = await runPerf(cli.host, {
      hostname,
      port,
      test,
      interval,
      interrupt,
      onConnected(ends) {
        print(`${formatConnected(ends)}\n${intervalHeader(test)}`);
      },
      onInterval(last) {
        if (last.from > 0 && last.streams.length > 1) print(SEPARATOR);
        print(formatInterval(test, last));
        const bits = last.streams.reduce((sum, { bytes }) => sum + bytes * 8, 0) / (last.to - last.from);
        progress.show(`${last.to.toFixed(1)} of ${test.seconds} s  ${formatBitRate(bits).trim()}`);
      },
    });
    progress.clear();
    print(formatSummary(report));
    print(`\n${report.interrupted ? "interrupted" : "culvert perf: done."}`);
    if (isJson) console.log(JSON.stringify(reportJson(report)));
    return 0;
  } catch (error) {
    progress.clear();
    if (interrupt.raised) throw new Failure("perf: interrupted before there was a result");
    throw failureOf("perf", error);
  } finally {
    await cli.close();
  }
}
