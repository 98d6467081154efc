/**
 * `culvert rpc`: how long requests take at a given rate.
 *
 * @module
 */

import { MILLISECOND, SECOND, toMilliseconds } from "../base/time.ts";
import { type Command, Failure } from "./command.ts";
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
import { type RpcLoad, type RpcReport, runRpc } from "./rpc_client.ts";
import { MESSAGE_BYTES_MAX, RPC_PORT } from "./rpc_protocol.ts";
import { RpcServer } from "./rpc_server.ts";
import { bold, Progress, table } from "./terminal.ts";

const FLAGS: FlagSpecs = {
  server: { short: "s", help: "serve" },
  client: { short: "c", value: "ADDRESS", help: "ask the server at this address inside the tunnel" },
  port: { short: "p", value: "PORT", help: `the server's TCP port (default ${RPC_PORT})` },
  rate: { short: "r", value: "N", help: "requests a second, over all connections (default 100)" },
  size: { value: "BYTES", help: "bytes of a request (default 100)" },
  "reply-size": { value: "BYTES", help: "bytes of a reply (default 100)" },
  duration: { short: "t", value: "SECONDS", help: "how long requests are started (default 10)" },
  connections: { short: "P", value: "N", help: "connections that share the requests (default 1)" },
  timeout: { short: "W", value: "SECONDS", help: "how long to wait for replies in the end (default 5)" },
  "one-off": { short: "1", help: "serve one connection, then end" },
  json: { help: "print one JSON object; a server prints one a connection" },
};

const HELP = `Usage: culvert rpc -s [OPTIONS] HOST
       culvert rpc -c ADDRESS [OPTIONS] HOST

Starts requests at fixed times whether or not those before have been answered (an open loop), and counts the latency of
each from the time at which it was meant to start. So while something stands still, the requests that should have
started meanwhile count with their whole wait. Ends with code 0 if every request was answered, else with 1.

Options:
${formatFlags(FLAGS)}

${HOST_HELP}

Examples:
  culvert rpc -s --address 10.7.0.2/24 --listen 127.0.0.1:7002 --peer a=127.0.0.1:7001,10.7.0.1
  culvert rpc -c 10.7.0.2 --rate 1000 -t 5 --address 10.7.0.1/24 --listen 127.0.0.1:7001 --peer b=127.0.0.1:7002,10.7.0.2
  culvert rpc -c 10.7.0.2 --size 1K --reply-size 16K -P 8 --config a.yaml --impair "delay 10ms loss 1%"
  culvert rpc -c 10.7.0.2 --json --config a.yaml | jq '.latency.percentiles["p99.9"]'

${permissionHelp()}
  deno run --allow-net=127.0.0.1 jsr:@culvert/culvert/cli rpc -s ...
`;

/** The command `rpc`. */
export const rpc: Command = {
  name: "rpc",
  summary: "how long requests take at a given rate, in percentiles",
  help: HELP,
  async run(args) {
    const flags = new Flags({ command: "rpc", flags: { ...FLAGS, ...HOST_FLAGS } }, args);
    const isServer = flags.has("server");
    const address = flags.text("client");
    if (isServer === (address !== undefined)) {
      throw flags.fault(
        `found ${isServer ? "both" : "neither"}, expected --server or --client ADDRESS`,
      );
    }
    const port = flags.integer("port", 1, 65535, RPC_PORT);
    const isJson = flags.has("json");
    if (isServer) {
      for (const name of ["rate", "size", "reply-size", "duration", "connections", "timeout"]) {
        if (flags.has(name)) throw flags.fault(`--${name}: found with --server, expected with --client`);
      }
      const plan = await planHost(flags);
      return await serve(await plan.open(), port, flags.has("one-off"), isJson);
    }
    if (flags.has("one-off")) throw flags.fault("--one-off: found with --client, expected with --server");
    const load: RpcLoad = {
      hostname: innerAddress(flags, "--client", address!),
      port,
      perSecond: flags.number("rate", 0.001, 1e6, 100),
      duration: flags.seconds("duration", 10 * MILLISECOND, 10 * SECOND),
      requestBytes: flags.bytes("size", 1, MESSAGE_BYTES_MAX, 100),
      replyBytes: flags.bytes("reply-size", 1, MESSAGE_BYTES_MAX, 100),
      connections: flags.integer("connections", 1, 1024, 1),
      patience: flags.seconds("timeout", 0, 5 * SECOND),
    };
    const plan = await planHost(flags);
    requireFamily(flags, plan, "--client", load.hostname);
    return await ask(await plan.open(), load, isJson);
  },
};

async function serve(cli: CliHost, port: number, isOneOff: boolean, isJson: boolean): Promise<number> {
  using interrupt = new Interrupt();
  const over = Promise.withResolvers<number>();
  try {
    const server = new RpcServer(cli.host, port, {
      onEnd(client, answered, failure) {
        if (isJson) console.log(JSON.stringify({ client, answered, failure }));
        else if (failure === null) console.log(`${client}: ${answered} requests answered`);
        else console.error(`culvert: rpc: ${client}: ${answered} requests answered, then: ${failure}`);
        if (isOneOff) over.resolve(failure === null ? 0 : 1);
      },
    });
    (isJson ? console.error : console.log)(`Server listening on ${server.port}`);
    return await Promise.race([over.promise, interrupt.wait().then(() => 0), cli.host.closed.then(() => 1)]);
  } catch (error) {
    throw failureOf("rpc", error);
  } finally {
    await cli.close();
  }
}

async function ask(cli: CliHost, load: RpcLoad, isJson: boolean): Promise<number> {
  using interrupt = new Interrupt();
  const progress = new Progress(false);
  try {
    progress.show(`connecting to ${load.hostname} port ${load.port}`);
    const report = await runRpc(cli.host, load, interrupt, ({ at, due, answered, p50, p99 }) => {
      const rtt = p50 === null ? "" : `  p50 ${p50.toFixed(2)} ms  p99 ${p99!.toFixed(2)} ms`;
      progress.show(`${at.toFixed(1)} s  ${answered} of ${due} answered${rtt}`);
    });
    progress.clear();
    console.log(isJson ? JSON.stringify(reportJson(report)) : formatReport(report));
    return report.unanswered === 0 && report.answered > 0 ? 0 : 1;
  } catch (error) {
    progress.clear();
    if (interrupt.raised) throw new Failure("rpc: interrupted before there was a result");
    throw failureOf("rpc", error);
  } finally {
    await cli.close();
  }
}

/** The report with the times of the load in milliseconds, as all other times in it. */
function reportJson(report: RpcReport): Record<string, unknown> {
  const { duration, patience, ...load } = report.load;
  const times = { durationMs: toMilliseconds(duration), timeoutMs: toMilliseconds(patience) };
  return { ...report, load: { ...load, ...times } };
}

function formatReport(r: RpcReport): string {
  const { load } = r;
  const ms = (n: number): string => n.toFixed(3);
  const lines = [
    `${load.hostname} port ${load.port}: ${load.perSecond} requests/s of ${load.requestBytes} bytes, ` +
    `replies of ${load.replyBytes} bytes, ${load.connections} connection${load.connections === 1 ? "" : "s"}`,
    `${r.requests} requests, ${r.answered} answered, ${r.unanswered} unanswered, ` +
    `${r.repliesPerSec.toFixed(1)} replies/s in ${r.seconds.toFixed(3)} s${r.interrupted ? " (interrupted)" : ""}`,
  ];
  if (r.latency !== null) {
    const { min, mean, stddev, max, percentiles } = r.latency;
    const columns = Object.entries({ min, mean, stddev, ...percentiles, max });
    lines.push(
      "",
      table([
        [bold("latency in ms"), ...columns.map(([name]) => name)],
        ["from the intended start", ...columns.map(([, value]) => ms(value))],
      ]),
    );
  }
  return lines.join("\n");
}
