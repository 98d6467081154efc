/**
 * `culvert up`: a host that stays until it is told to end.
 *
 * @module
 */

import type { Host, HostInspection } from "../runtime/host.ts";
import { formatNetem } from "../impair/format.ts";
import { formatEndpoint, type HostConfig, type PeerConfig } from "../stack/options.ts";
import { type Command, messageOf } from "./command.ts";
import { failureOf } from "./failure.ts";
import { Flags, type FlagSpecs, formatFlags } from "./flags.ts";
import { HOST_FLAGS, HOST_HELP, permissionHelp, planHost } from "./host_flags.ts";
import { Interrupt } from "./interrupt.ts";
import { SERVICE_NAMES, type Services, startServices } from "./services.ts";
import { bold, Progress, table } from "./terminal.ts";

const FLAGS: FlagSpecs = {
  check: { help: "only check the host, then end" },
  json: {
    help:
      "print a JSON object when the host is up, for each change of a peer, at SIGHUP, and with all counters at the end",
  },
};

const HELP = `Usage: culvert up [OPTIONS] FILE
       culvert up [OPTIONS] HOST

Opens a host from a YAML file and stays until SIGINT or SIGTERM; then closes everything in order and prints counters.
The host answers pings, forwards if it is told to, and offers the services that the file names.
A line is printed whenever a peer that gets keepalives is heard of or falls silent, and when one moves.
SIGHUP has it read the file again and take over the impairments in it, without losing a packet.

Options:
${formatFlags(FLAGS)}

${HOST_HELP}

A file (all keys but address may be left out; those of openHost, and services):
  address: [10.7.0.2/24, fd07::2/64]
  listen: 127.0.0.1:7002
  peers:
    - name: a
      endpoint: 127.0.0.1:7001    # or a name, like a.example:7001, which is looked up again
      roaming: false              # follow it when it sends from elsewhere; nothing of that is authenticated
      allowed: [10.7.0.1, fd07::1]
      impair: { out: delay 20ms 2ms loss 0.5% rate 50mbit, in: delay 5ms }
  routes:
    - { to: 10.9.0.0/16, via: a }
  tun: { name: culv0, addresses: [10.9.0.2/24], routes: [10.7.0.0/24] }   # the kernel's side; needs forward: true
  forward: true
  mtu: 1472
  keepalive: 10s
  deadAfter: 35s
  encapsulation: raw            # or vxlan-gpe, or { kind: vxlan-gpe, vni: 42 }
  qdisc: { kind: fq, flowLimit: 100 }
  congestion: cubic             # or reno, bbr, none
  seed: 1
  services: { echo: 7, discard: 9, perf: 5201, rpc: 5202 }

Examples:
  culvert up b.yaml
  culvert up --check b.yaml
  culvert up b.yaml --pcap b.pcapng --impair "delay 50ms loss 2%"
  kill -HUP PID                 # after a change of b.yaml: its impairments hold from now on
  culvert up b.yaml --forward --tun "culv0,10.9.0.2/24,route 10.7.0.0/24"
  culvert up --address 10.7.0.2/24 --listen 127.0.0.1:7002 --peer a=127.0.0.1:7001,10.7.0.1

${permissionHelp()}
  deno run --allow-net=127.0.0.1 --allow-read=b.yaml --allow-env=LOG_TOKENS,LOG_STREAM jsr:@culvert/culvert/cli up b.yaml
`;

/** The command `up`. */
export const up: Command = {
  name: "up",
  summary: "a host from a YAML file, until it is told to end",
  help: HELP,
  async run(args) {
    const flags = new Flags({ command: "up", flags: { ...FLAGS, ...HOST_FLAGS }, words: ["FILE"] }, args);
    const [file] = flags.words;
    const plan = await planHost(flags, file);
    const isJson = flags.has("json");
    if (flags.has("check")) {
      const { addresses, peers } = plan.config;
      const what = { valid: true, addresses: addresses.map(String), peers: peers.map(({ name }) => name) };
      const name = file ?? flags.text("config") ?? "the host";
      const count = `${peers.length} peer${peers.length === 1 ? "" : "s"}`;
      console.log(isJson ? JSON.stringify(what) : `${name} is valid: ${what.addresses.join(", ")}, ${count}`);
      return 0;
    }
    using interrupt = new Interrupt();
    const cli = await plan.open();
    const { host } = cli;
    const progress = new Progress(!Deno.stderr.isTerminal());
    const ticker = setInterval(() => progress.show(progressLine(host)), 1000);
    let last: HostInspection;
    try {
      startServices(host, plan.services);
      using _reload = new Reload(flags, file, host, progress, isJson);
      const telling = tellOfPeers(host, isJson, progress);
      console.log(isJson ? JSON.stringify(upJson(host, plan.services)) : describe(host, plan.config, plan.services));
      await Promise.race([interrupt.wait(), host.closed, telling]);
    } catch (error) {
      throw failureOf("up", error);
    } finally {
      clearInterval(ticker);
      progress.clear();
      await cli.close();
      last = host.inspect();
    }
    console.log(isJson ? JSON.stringify({ event: "closed", ...last }) : formatCounters(last));
    return 0;
  },
};

/** Prints a line whenever a peer is heard of, falls silent or moves; ends with the host. */
async function tellOfPeers(host: Host, isJson: boolean, progress: Progress): Promise<void> {
  for await (const event of host.peerEvents()) {
    progress.clear();
    const { peer, kind, endpoint, learnedBy } = event;
    const text = kind === "moved" ? `has moved to ${endpoint} (${learnedBy})` : `is ${kind} at ${endpoint}`;
    console.log(isJson ? JSON.stringify({ ...event, event: "peer" }) : `peer ${peer} ${text}`);
  }
}

/** Takes over the impairments of the host's file at each SIGHUP, until it is disposed of. */
class Reload implements Disposable {
  readonly #onSignal: () => void;

  constructor(flags: Flags, file: string | undefined, host: Host, progress: Progress, isJson: boolean) {
    const reload = async () => {
      const { config } = await planHost(flags, file);
      const names = new Set(host.inspect().interfaces.map(({ name }) => name));
      const known = config.peers.filter(({ name }) => names.has(name));
      for (const { name, impair } of known) {
        host.setImpairment(name, "out", impair.out);
        host.setImpairment(name, "in", impair.in);
      }
      progress.clear();
      const peers = known.map(({ name }) => name);
      console.log(
        isJson
          ? JSON.stringify({ event: "impairments", peers })
          : `impairments read again for ${peers.join(", ") || "no peer"}`,
      );
    };
    const refuse = (error: unknown) => {
      progress.clear();
      console.error(`culvert: ${messageOf(error)}; nothing was changed`);
    };
    this.#onSignal = () => void reload().catch(refuse);
    if (Deno.build.os !== "windows") Deno.addSignalListener("SIGHUP", this.#onSignal);
  }

  [Symbol.dispose](): void {
    if (Deno.build.os !== "windows") Deno.removeSignalListener("SIGHUP", this.#onSignal);
  }
}

function upJson(host: Host, services: Services): Record<string, unknown> {
  const { interfaces, tun } = host.inspect();
  const peers = interfaces.filter(({ endpoint, name }) => endpoint !== null || name !== tun?.name);
  return {
    event: "up",
    pid: Deno.pid,
    addresses: host.addresses,
    endpoints: host.endpoints.map(endpointText),
    peers: peers.map(({ name, endpoint, allowed, mtu }) => ({ name, endpoint, allowed, mtu })),
    ...(tun === null ? {} : { tun: { name: tun.name, addresses: tun.addresses, routes: tun.routes, mtu: tun.mtu } }),
    services,
  };
}

function endpointText({ hostname, port }: { hostname: string; port: number }): string {
  return hostname.includes(":") ? `[${hostname}]:${port}` : `${hostname}:${port}`;
}

function describe(host: Host, config: HostConfig, services: Services): string {
  const rows: string[][] = [["address", host.addresses.join(", ")]];
  for (const endpoint of host.endpoints) rows.push(["listening", `UDP ${endpointText(endpoint)}`]);
  for (const peer of config.peers) rows.push([`peer ${peer.name}`, describePeer(peer)]);
  for (const route of config.routes) rows.push(["route", describeRoute(route)]);
  const { tun } = host.inspect();
  if (tun !== null) {
    const routes = tun.routes.length === 0 ? "" : `  routes ${tun.routes.join(", ")}`;
    rows.push([`tun ${tun.name}`, `${tun.addresses.join(", ")}${routes}  mtu ${tun.mtu}`]);
  }
  if (config.forward) rows.push(["forwarding", "on"]);
  for (const name of SERVICE_NAMES) {
    if (services[name] !== undefined) rows.push([`service ${name}`, `port ${services[name]}`]);
  }
  const width = Math.max(...rows.map(([name]) => name!.length));
  return `${rows.map(([name, text]) => `${bold(name!.padEnd(width))}  ${text}`).join("\n")}\nup; SIGINT ends it`;
}

function describePeer({ endpoint, allowed, mtu, impair }: PeerConfig): string {
  const where = endpoint === null ? "nowhere" : formatEndpoint(endpoint.address, endpoint.port);
  const out = impair.out === null ? "" : `  out: ${formatNetem(impair.out)}`;
  const into = impair.in === null ? "" : `  in: ${formatNetem(impair.in)}`;
  return `${where}  ${allowed.join(", ")}  mtu ${mtu}${out}${into}`;
}

/** In the words of `ip route`. */
function describeRoute({ to, via, metric, kind, weight }: HostConfig["routes"][number]): string {
  const parts = kind === "unicast" ? [`${to} via ${via}`] : [`${kind} ${to}`];
  if (metric !== 0) parts.push(`metric ${metric}`);
  if (weight !== 1) parts.push(`weight ${weight}`);
  return parts.join(" ");
}

function sumOf(counts: Record<string, number>): number {
  return Object.values(counts).reduce((sum, n) => sum + n, 0);
}

function progressLine(host: Host): string {
  const { time, interfaces, drops, tcp } = host.inspect();
  const into = interfaces.reduce((sum, { packetsIn }) => sum + packetsIn, 0);
  const out = interfaces.reduce((sum, { packetsOut }) => sum + packetsOut, 0);
  return `up ${Math.floor(time / 1000)} s  ${into} packets in  ${out} out  ${
    sumOf(drops)
  } dropped  ${tcp.length} connections`;
}

function formatCounters(last: HostInspection): string {
  const rows = [[
    bold(last.tun === null ? "peer" : "interface"),
    "packets in",
    "bytes in",
    "packets out",
    "bytes out",
    "not let in",
  ]];
  for (const i of last.interfaces) {
    rows.push([i.name, `${i.packetsIn}`, `${i.bytesIn}`, `${i.packetsOut}`, `${i.bytesOut}`, `${sumOf(i.drops)}`]);
  }
  const drops = Object.entries(last.drops).map(([reason, n]) => `${reason} ${n}`).join(", ") || "none";
  const { sent, limited } = last.icmpErrors;
  return [
    "",
    table(rows),
    "",
    `${bold("drops")}  ${drops}`,
    `${bold("forwarded")}  ${last.forwarded}   ${bold("ICMP errors")}  ${sent} sent, ${limited} held back`,
  ].join("\n");
}
