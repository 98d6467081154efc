/**
 * The host of a command: the same flags, the same file and the same messages for all of them.
 *
 * What a flag says replaces what the file says. Everything is checked before anything is done: a plan that was made can
 * be opened, unless the operating system refuses.
 *
 * @module
 */

import { type Host, openPrepared, type PreparedHost, prepareHost } from "../runtime/open_host.ts";
import { CaptureFile } from "../runtime/capture_file.ts";
import { parseHostname } from "../socket/address.ts";
import {
  ConfigError,
  type ConfigFault,
  formatPath,
  formatValue,
  nearest,
  type PathStep,
} from "../stack/config_faults.ts";
import type { HostConfig } from "../stack/options.ts";
import { Failure, messageOf, type UsageError } from "./command.ts";
import { type Flags, type FlagSpecs, formatFlags } from "./flags.ts";
import { type HostFile, missingPermission, readHostFile, YAML_ENV } from "./host_file.ts";
import { SERVICE_NAMES, type Services } from "./services.ts";

const PEER_FORM = "[NAME=]ENDPOINT,PREFIX[,PREFIX...][,roaming]";
const PEER_EXAMPLE = "b=127.0.0.1:7002,10.7.0.2";

const ROUTE_FORM = "PREFIX,PEER[,metric N][,weight N]";
const ROUTE_TYPES: readonly string[] = ["blackhole", "unreachable", "prohibit"];

const TUN_FORM = "NAME,ADDRESS/LENGTH[,...][,route PREFIX][,allow PREFIX][,mtu N]";

/** The flags that describe the host of a command. */
export const HOST_FLAGS: FlagSpecs = {
  config: { value: "FILE", help: "the host, from a YAML file; flags replace what it says" },
  address: { value: "ADDRESS/LENGTH", isList: true, help: "own address inside the tunnel; may be repeated" },
  listen: { value: "ADDRESS:PORT", isList: true, help: "UDP endpoint to bind, one of each family (default any port)" },
  peer: { value: PEER_FORM, isList: true, help: "a neighbour, and the addresses behind it; may be repeated" },
  route: {
    value: ROUTE_FORM,
    isList: true,
    help: "a route to a peer (or to blackhole, unreachable, prohibit); may be repeated",
  },
  tun: {
    value: TUN_FORM,
    help: "a TUN device with addresses of the kernel's, what it routes there, what is behind it (Linux, root)",
  },
  forward: { help: "forward packets that are for others" },
  impair: { value: "TEXT", help: "impairment of what goes out, in tc-netem's words" },
  "impair-in": { value: "TEXT", help: "impairment of what comes in" },
  mtu: { value: "BYTES", help: "largest inner packet (default what an underlay of 1500 leaves)" },
  encapsulation: { value: "KIND", help: "raw, vxlan-gpe, gue or gre (default raw)" },
  vni: { value: "N", help: "network identifier of vxlan-gpe (default 0)" },
  key: { value: "N", help: "key of gre (default none)" },
  "rp-filter": { value: "MODE", help: "strict or loose: drop what the routes know no way back to (default none)" },
  keepalive: { value: "TIME", help: "send silent peers a keepalive after so long, like 10s (default never)" },
  "dead-after": { value: "TIME", help: "pass over a peer that was not heard of for so long (default never)" },
  "clamp-mss": { help: "lower the MSS of forwarded SYNs to what the links carry" },
  qdisc: { value: "KIND", help: "fq or pfifo (default fq)" },
  congestion: {
    short: "C",
    value: "NAME",
    help: "congestion control of TCP: cubic, reno, bbr or none (default cubic)",
  },
  seed: { value: "N", help: "seed of all randomness (default drawn)" },
  pcap: { value: "FILE", help: "capture the inner packets into a pcapng file, before and after the impairment" },
};

/** The part of a command's help that is about its host. */
export const HOST_HELP = `Host (give --config or --address):
${formatFlags(HOST_FLAGS)}

A capture has an interface for each point: PEER:out and PEER:in, with an impairment also PEER:out:wire behind it and
PEER:in:wire before it, and PEER:out:drop and PEER:in:drop, whose packets tell the reason in their comments. To look at
one of them: tshark -r FILE -Y 'frame.interface_name == "b:out:wire"'`;

/** The line of a command's help about permissions. */
export function permissionHelp(): string {
  return `Permissions: --allow-net=ENDPOINTS, those of --listen and of the peers, and their names; with a file also --allow-read=FILE
  --allow-env=${YAML_ENV}; with --pcap also --allow-write=FILE; --allow-read=FILE for files that impairments name;
  with --tun, and for the fastest UDP port (Linux), also --allow-ffi`;
}

/** An IP address inside the tunnel, as text; `place` says where it was given. */
export function innerAddress(flags: Flags, place: string, text: string): string {
  try {
    return parseHostname(text).toString();
  } catch {
    throw flags.fault(
      `${place}: found ${JSON.stringify(text)}, expected an IP address inside the tunnel, like 10.7.0.2 or fd07::2`,
    );
  }
}

/** Which flag a top-level option comes from. */
const FLAG_OF_OPTION: Readonly<Record<string, string>> = {
  address: "address",
  listen: "listen",
  peers: "peer",
  routes: "route",
  tun: "tun",
  forward: "forward",
  impair: "impair",
  mtu: "mtu",
  encapsulation: "encapsulation",
  qdisc: "qdisc",
  congestion: "congestion",
  seed: "seed",
  rpFilter: "rp-filter",
  keepalive: "keepalive",
  deadAfter: "dead-after",
  clampMss: "clamp-mss",
};

/** A host that can be opened. */
export interface HostPlan {
  /** Its checked configuration. */
  readonly config: HostConfig;
  /** Ports on which it answers by itself. */
  readonly services: Services;
  /** Opens it, and its capture. */
  open(): Promise<CliHost>;
}

/**
 * Reads and checks the host of a command.
 *
 * @param file the file, if it was given as a word
 * @throws {UsageError} in one line, if anything is wrong
 */
export async function planHost(flags: Flags, file?: string): Promise<HostPlan> {
  const path = flags.text("config") ?? file;
  if (path === "") throw flags.fault("found a file without a name, expected FILE");
  if (path !== undefined && file !== undefined && path !== file) {
    throw flags.fault(`found the files "${file}" and "${path}", expected one`);
  }
  const source = path === undefined ? null : await readHostFile(flags.command, path);
  const fromFlags = optionsOf(flags);
  if (source === null && fromFlags["address"] === undefined) {
    throw flags.fault("found no host, expected --config FILE or --address ADDRESS/LENGTH");
  }
  const { services: wanted, ...fromFile } = source?.value ?? {};
  const services = source === null ? {} : checkServices(flags, source, wanted);
  const merged = merge(fromFile, fromFlags);
  const prepared = await check(flags, source, merged, fromFlags);
  const pcap = flags.text("pcap");
  return { config: prepared.config, services, open: () => open(flags, prepared, pcap) };
}

/** The options that flags give, in the shape of the file. */
function optionsOf(flags: Flags): Record<string, unknown> {
  const options: Record<string, unknown> = {};
  for (const name of ["address", "listen"]) if (flags.has(name)) options[name] = flags.list(name);
  if (flags.has("peer")) options["peers"] = flags.list("peer").map((text) => parsePeer(flags, text));
  if (flags.has("route")) options["routes"] = flags.list("route").map((text) => parseRoute(flags, text));
  const tun = flags.text("tun");
  if (tun !== undefined) options["tun"] = parseTun(flags, tun);
  if (flags.has("forward")) options["forward"] = true;
  const impair = {
    ...(flags.has("impair") ? { out: flags.text("impair") } : {}),
    ...(flags.has("impair-in") ? { in: flags.text("impair-in") } : {}),
  };
  if (Object.keys(impair).length > 0) options["impair"] = impair;
  const mtu = flags.integer("mtu", 576, 1900, undefined);
  if (mtu !== undefined) options["mtu"] = mtu;
  const vni = flags.integer("vni", 0, 0xffffff, undefined);
  const key = flags.integer("key", 0, 0xffffffff, undefined);
  const encapsulation = flags.text("encapsulation");
  const requireKind = (name: string, kind: string): void => {
    if (encapsulation !== undefined && encapsulation !== kind) {
      throw flags.fault(`--${name}: found with ${encapsulation}, expected with ${kind}`);
    }
  };
  if (vni !== undefined && key !== undefined) {
    throw flags.fault("found both --vni and --key, expected --vni with vxlan-gpe or --key with gre");
  }
  if (vni !== undefined) {
    requireKind("vni", "vxlan-gpe");
    options["encapsulation"] = { kind: "vxlan-gpe", vni };
  } else if (key !== undefined) {
    requireKind("key", "gre");
    options["encapsulation"] = { kind: "gre", key };
  } else if (encapsulation !== undefined) options["encapsulation"] = encapsulation;
  for (const name of ["qdisc", "congestion"]) if (flags.has(name)) options[name] = flags.text(name);
  if (flags.has("keepalive")) options["keepalive"] = flags.text("keepalive");
  if (flags.has("dead-after")) options["deadAfter"] = flags.text("dead-after");
  if (flags.has("rp-filter")) options["rpFilter"] = flags.text("rp-filter");
  if (flags.has("clamp-mss")) options["clampMss"] = true;
  const seed = flags.integer("seed", 0, Number.MAX_SAFE_INTEGER, undefined);
  if (seed !== undefined) options["seed"] = seed;
  return options;
}

function parsePeer(flags: Flags, text: string): Record<string, unknown> {
  const [first = "", ...rest] = text.split(",");
  const roams = rest.at(-1) === "roaming";
  const allowed = roams ? rest.slice(0, -1) : rest;
  const [, name, endpoint] = /^(?:([^=]*)=)?(.*)$/.exec(first)!;
  if (allowed.length === 0 || endpoint === "" || name === "" || allowed.includes("")) {
    flags.wrong("peer", text, `${PEER_FORM}, like ${PEER_EXAMPLE}`);
  }
  return { ...(name === undefined ? {} : { name }), endpoint, allowed, ...(roams ? { roaming: true } : {}) };
}

/** Reads `10.9.0.0/16,b,metric 10` and `10.9.0.0/16,blackhole`: behind the prefix a type of route, else the name of a peer. */
function parseRoute(flags: Flags, text: string): Record<string, unknown> {
  const expected = `${ROUTE_FORM} like 10.9.0.0/16,b, or PREFIX,TYPE with one of ${ROUTE_TYPES.join(", ")}`;
  const [to = "", via = "", ...rest] = text.split(",");
  if (to === "" || via === "") flags.wrong("route", text, expected);
  const route: Record<string, unknown> = ROUTE_TYPES.includes(via) ? { to, type: via } : { to, via };
  for (const part of rest) {
    const match = /^ ?(metric|weight) (\d{1,10})$/.exec(part);
    if (match === null || match[1]! in route) flags.wrong("route", text, expected);
    else route[match[1]!] = Number(match[2]);
  }
  return route;
}

/** Reads `culv0,10.9.0.2/24,fd09::2/64,route 10.7.0.0/24,mtu 1280`; without a name the system numbers the device. */
function parseTun(flags: Flags, text: string): Record<string, unknown> {
  const parts = text.split(",").map((part) => part.trim());
  const refuse = () => flags.wrong("tun", text, `${TUN_FORM} like culv0,10.9.0.2/24,route 10.7.0.0/24`);
  const tun: Record<string, unknown> = {};
  if (!parts[0]!.includes("/")) tun["name"] = parts.shift();
  const lists: Record<string, string[]> = { addresses: [], routes: [], allowed: [] };
  for (const part of parts) {
    const match = /^(?:(route|allow|mtu) +)?(\S+)$/.exec(part);
    const [, word, value = ""] = match ?? [];
    if (match === null || (word === "mtu" && (!/^\d{1,5}$/.test(value) || "mtu" in tun))) refuse();
    if (word === "mtu") tun["mtu"] = Number(value);
    else lists[word === "route" ? "routes" : word === "allow" ? "allowed" : "addresses"]!.push(value);
  }
  if (lists["addresses"]!.length === 0) refuse();
  return { ...tun, ...lists };
}

/** What the file says, with what flags say put in its place; an impairment also in that of each peer's own. */
function merge(fromFile: Record<string, unknown>, fromFlags: Record<string, unknown>): Record<string, unknown> {
  const merged = { ...fromFile, ...fromFlags };
  const { impair } = fromFlags;
  if (impair === undefined) return merged;
  const combine = (own: unknown): unknown => {
    if (typeof own === "string") return { out: own, ...impair as object };
    // What is none stays, and is refused where it stands.
    return typeof own === "object" && own !== null && !Array.isArray(own) ? { ...own, ...impair as object } : own;
  };
  merged["impair"] = "impair" in fromFile ? combine(fromFile["impair"]) : impair;
  if (Array.isArray(merged["peers"])) {
    merged["peers"] = merged["peers"].map((peer) =>
      peer?.impair === undefined ? peer : { ...peer, impair: combine(peer.impair) }
    );
  }
  return merged;
}

async function check(
  flags: Flags,
  source: HostFile | null,
  merged: Record<string, unknown>,
  fromFlags: Record<string, unknown>,
): Promise<PreparedHost> {
  try {
    return await prepareHost(merged);
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) throw flags.fault(messageOf(error));
    if (!(error instanceof ConfigError)) throw error;
    throw faultOf(flags, source, error.faults, fromFlags);
  }
}

/** The first fault, where it stands; the others are counted. */
function faultOf(
  flags: Flags,
  source: HostFile | null,
  faults: readonly ConfigFault[],
  fromFlags: Record<string, unknown>,
): UsageError {
  const [{ path, text, isKey }] = faults as [ConfigFault];
  const more = faults.length === 1 ? "" : ` (and ${faults.length - 1} more)`;
  const given = givenPath(path, fromFlags);
  if (source === null || given !== null) return flags.fault(`${flagPlace(flags, given ?? path)}: ${text}${more}`);
  const hint = isKey && path.length === 1 && nearest(String(path[0]), ["services"]) !== null
    ? 'unknown key, did you mean "services"?'
    : text;
  return flags.fault(`${source.place(path, isKey)}: ${formatPath(path)}: ${hint}${more}`);
}

/** The path in the options of the flags from which a value comes, a peer's impairment included; `null` if it is the file's. */
function givenPath(path: readonly PathStep[], fromFlags: Record<string, unknown>): readonly PathStep[] | null {
  const inPeer = path[0] === "peers" && path[2] === "impair";
  const [head, way] = inPeer ? path.slice(2) : path;
  if (head === undefined || !Object.hasOwn(fromFlags, head)) return inPeer && "peers" in fromFlags ? path : null;
  if (head === "impair" && (way === undefined || !Object.hasOwn(fromFlags["impair"] as object, way))) return null;
  return inPeer ? path.slice(2) : path;
}

/** A path in the options as the flag that it comes from: `--peer 2: endpoint`. */
function flagPlace(flags: Flags, path: readonly PathStep[]): string {
  const [head, index, ...rest] = path;
  const option = String(head);
  const name = option === "impair" && index === "in"
    ? "impair-in"
    : Object.hasOwn(FLAG_OF_OPTION, option)
    ? FLAG_OF_OPTION[option]!
    : option;
  let place = `--${name}`;
  if (flags.list(name).length > 1 && typeof index === "number") place += ` number ${index + 1}`;
  const [field] = rest;
  return typeof field === "string" ? `${place}: ${field}` : place;
}

function checkServices(flags: Flags, source: HostFile, wanted: unknown): Services {
  if (wanted === undefined) return {};
  const refuse = (path: PathStep[], text: string, isKey: boolean): UsageError =>
    flags.fault(`${source.place(path, isKey)}: ${formatPath(path)}: ${text}`);
  if (typeof wanted !== "object" || wanted === null || Array.isArray(wanted)) {
    throw refuse(["services"], `found ${formatValue(wanted)}, expected ports by service, like { echo: 7 }`, false);
  }
  const seen = new Map<unknown, string>();
  for (const [name, port] of Object.entries(wanted)) {
    const path = ["services", name];
    if (!(SERVICE_NAMES as readonly string[]).includes(name)) {
      const near = nearest(name, SERVICE_NAMES);
      const hint = near === null ? `expected one of ${SERVICE_NAMES.join(", ")}` : `did you mean "${near}"?`;
      throw refuse(path, `unknown key, ${hint}`, true);
    }
    const found = `found ${formatValue(port)}, expected`;
    if (!Number.isInteger(port) || port < 1 || port > 65535) {
      throw refuse(path, `${found} a port from 1 to 65535`, false);
    }
    if (seen.has(port)) throw refuse(path, `${found} a port of its own: ${seen.get(port)} has that one`, false);
    seen.set(port, name);
  }
  return wanted as Services;
}

async function open(flags: Flags, prepared: PreparedHost, pcap: string | undefined): Promise<CliHost> {
  let host: Host;
  try {
    host = await openPrepared(prepared);
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) throw flags.fault(messageOf(error));
    throw new Failure(`${flags.command}: ${messageOf(error)}`);
  }
  if (pcap === undefined) return new CliHost(flags.command, host, null);
  try {
    const capture = CaptureFile.open(pcap);
    host.capture(capture);
    return new CliHost(flags.command, host, capture);
  } catch (error) {
    await host.close();
    const why = error instanceof Deno.errors.NotCapable ? missingPermission(error, "write", pcap) : messageOf(error);
    throw flags.fault(`--pcap: found ${JSON.stringify(pcap)}, expected a file that can be written (${why})`);
  }
}

/**
 * Checks that the host of a plan has an address of the family of `address`; `place` says where that was given.
 *
 * @throws {UsageError} in one line, if it has none
 */
export function requireFamily(flags: Flags, { config }: HostPlan, place: string, address: string): void {
  const isV6 = (text: string): boolean => text.includes(":");
  if (config.addresses.some((own) => isV6(String(own)) === isV6(address))) return;
  throw flags.fault(
    `${place}: found ${JSON.stringify(address)}, expected an IPv${
      isV6(address) ? 4 : 6
    } address: this host has none of IPv${isV6(address) ? 6 : 4}`,
  );
}

/** An open host and its capture. */
export class CliHost {
  /** The host. */
  readonly host: Host;
  readonly #command: string;
  readonly #capture: CaptureFile | null;

  /** Made by {@linkcode HostPlan.open}. */
  constructor(command: string, host: Host, capture: CaptureFile | null) {
    this.host = host;
    this.#command = command;
    this.#capture = capture;
  }

  /**
   * Closes the host, then the capture, of which a word is said on standard error if packets are missing in it.
   *
   * @throws {Failure} if the capture could not be written, or a fault of the program had closed the host before
   */
  async close(): Promise<void> {
    await this.host.close();
    const fault = await this.host.closed;
    const capture = this.#capture;
    if (capture !== null) {
      try {
        await capture.close();
      } catch (error) {
        throw new Failure(`${this.#command}: the capture ${capture.path} is incomplete: ${messageOf(error)}`);
      }
      const { dropped } = capture.stats();
      if (dropped > 0) {
        console.error(
          `culvert: ${this.#command}: ${dropped} packets are missing in ${capture.path}, which could not keep up`,
        );
      }
    }
    if (fault !== null) throw fault;
  }
}
