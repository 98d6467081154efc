/**
 * Opens a host: checks the configuration, looks up the names in it, binds the UDP sockets, makes the stack and sets it
 * going.
 *
 * @module
 */

import { type HostOptions, parseEndpointNames, parseHostConfig } from "../stack/config.ts";
import { ConfigFaults } from "../stack/config_faults.ts";
import { type Endpoint, formatEndpoint, type HostConfig } from "../stack/options.ts";
import { Stack } from "../stack/stack.ts";
import { IpAddr } from "../wire/ip_addr.ts";
import { MonotonicClock } from "./clock.ts";
import { Driver } from "./driver.ts";
import { LOOKUPS_AT_ONCE, type NamedPeer } from "./endpoint_lookups.ts";
import { requireNetAt } from "./errors.ts";
import { Host } from "./host.ts";
import { readImpairFiles } from "./impair_files.ts";
import { closeTun, type OpenedTun, TunDevice } from "./linux/tun_device.ts";
import { limitResolver, resolveBySystem, type ResolveName } from "./lookup.ts";
import { loopTo, PeerKeeper } from "./peer_keeper.ts";
import { TimerSleeper } from "./sleeper.ts";
import type { PortContext, UdpPort } from "./udp_port.ts";
import { type ClosableRoutes, type OpenPort, SystemUnderlay, type Underlay } from "./underlay.ts";
import type { RouteSource } from "./underlay_mtu.ts";

export { Host } from "./host.ts";

/**
 * Opens a host: one IP stack in this process, joined to its peers by UDP.
 *
 * Names of peers' endpoints are looked up now and, while the host is open, again (`lookupInterval`); files that impairments
 * name are read once. Without `listen`, an ephemeral port is bound in each address family in which there is a peer. Needs
 * the permission to use the network at every endpoint, and at every name that is looked up; with `--allow-ffi` for the C
 * library, on Linux, datagrams go many at a time. A TUN device needs that permission, and root.
 *
 * @example
 * ```ts
 * import { openHost } from "@culvert/culvert";
 *
 * await using host = await openHost({ address: ["10.7.0.1/24", "fd07::1/64"] });
 * const listener = host.listen({ port: 80 });
 * const conn = await host.connect({ hostname: "fd07::1", port: 80 });
 * console.log(conn.remoteAddr, (await listener.accept()).remoteAddr);
 * ```
 *
 * @param options addresses, peers and settings
 * @throws {TypeError} if the options are not valid, with the path of the bad field and what was expected
 * @throws {Deno.errors.AddrInUse} or what else keeps an endpoint from being bound
 * @throws {Deno.errors.NotCapable} without the permission for an endpoint, or for FFI if a TUN device is wanted
 * @throws {Deno.errors.PermissionDenied} if a TUN device is wanted and the process is not root
 */
export async function openHost(options: HostOptions): Promise<Host> {
  return await openPrepared(await prepareHost(options));
}

/** A host that can be opened: its configuration is checked, and the names in it are looked up. */
export interface PreparedHost {
  /** The configuration. */
  readonly config: HostConfig;
  /** The peers that have names in their endpoints. */
  readonly names: readonly NamedPeer[];
  /** What these names were found to be. */
  readonly answers: ReadonlyMap<string, readonly IpAddr[]>;
}

/**
 * Checks options, looks up the names of peers in them and reads the files that impairments name.
 *
 * A name has to have an address of a family that is listened on, if `listen` says which; its first one is used.
 *
 * @param resolve looks up a name (default by the system)
 * @throws {ConfigError} if anything is wrong, a name cannot be looked up or a file cannot be read
 * @throws {Deno.errors.NotCapable} without the permission to look up a name
 */
export async function prepareHost(
  options: unknown,
  resolve: ResolveName = resolveBySystem,
): Promise<PreparedHost> {
  const faults = new ConfigFaults(options);
  const read = readImpairFiles(
    options,
    (path, why) => faults.add(path, `an impairment whose files can be read (${why})`),
  );
  faults.throwIfAny();
  const wanted = parseEndpointNames(read);
  const answers = new Map<string, readonly IpAddr[]>();
  if (wanted.every((name) => name === null)) return { config: parseHostConfig(read), names: [], answers };
  const { listen = [], peers } = read as { listen?: string | string[]; peers: Record<string, unknown>[] };
  const listened = new Set([listen].flat().map((text) => text.startsWith("[") ? 6 : 4));
  const ask = limitResolver(resolve, LOOKUPS_AT_ONCE);
  const found = await Promise.all(peers.map(async (peer, i) => {
    const name = wanted[i]!;
    if (name === null) return peer;
    const { hostname, port } = name;
    try {
      const answer = await ask(hostname);
      answers.set(hostname, answer);
      const address = answer.find(({ version }) => listened.size === 0 || listened.has(version));
      if (address === undefined) throw new Error(`it has no address of IPv${listened.has(4) ? 4 : 6}`);
      const number = peer["vni"] ?? peer["key"];
      const suffix = number === undefined ? "" : ` ${peer["vni"] === undefined ? "key" : "vni"} ${number}`;
      return { name: `${hostname}:${port}${suffix}`, ...peer, endpoint: formatEndpoint(address, port) };
    } catch (error) {
      if (error instanceof Deno.errors.NotCapable) throw error;
      const why = error instanceof Error ? error.message : String(error);
      faults.add(["peers", i, "endpoint"], `an address or a name that can be looked up (${why})`);
      return peer;
    }
  }));
  faults.throwIfAny();
  const config = parseHostConfig({ ...read as object, peers: found });
  const names = config.peers.flatMap(({ name }, i) =>
    wanted[i] === null ? [] : [{ ifindex: i + 1, name, ...wanted[i]! }]
  );
  const known = config.peers.map((peer, i) =>
    wanted[i] === null ? peer : { ...peer, hostname: wanted[i]!.hostname, learnedBy: "dns" as const }
  );
  return { config: { ...config, peers: known }, names, answers };
}

/** Opens a host that was prepared; see {@linkcode openHost}. */
export async function openPrepared(prepared: PreparedHost): Promise<Host> {
  const { config } = prepared;
  await requireNetAt(config.peers.flatMap(({ endpoint }) => endpoint === null ? [] : [endpoint]));
  return await start(prepared, new SystemUnderlay(config.port, config.sleeper), resolveBySystem);
}

/** What tests may put in the place of the system beside ports. */
export interface OverOptions {
  /** Looks up names. */
  resolve?: ResolveName;
  /** Tells the ways to peers. */
  routes?: RouteSource;
}

/** Opens a host over UDP ports of another kind than the operating system's; for tests. */
export async function openHostOver(options: HostOptions, openPort: OpenPort, over: OverOptions = {}): Promise<Host> {
  const { resolve = resolveBySystem, routes } = over;
  const prepared = await prepareHost(options, resolve);
  const { config } = prepared;
  const kind = config.sleeper ?? "hop";
  if (kind === "ppoll") throw new TypeError('the sleeper "ppoll" is for the ports of the system');
  return await start(prepared, {
    open: openPort,
    openRoutes: () => routes === undefined ? null : { route: (to) => routes.route(to), close: () => {} },
    openTun: () => {
      throw new TypeError("a TUN device is for the ports of the system");
    },
    makeSleeper: () => (clock, onDue) => new TimerSleeper(kind, clock, onDue),
    whyPort: () => "given",
    sleeper: () => ({ kind, why: config.sleeper === null ? "it needs no permission" : "asked for" }),
  }, resolve);
}

async function start(prepared: PreparedHost, underlay: Underlay, resolve: ResolveName): Promise<Host> {
  const { config, names, answers } = prepared;
  const clock = new MonotonicClock();
  // The seed is for what may be replayed; what nobody may guess never comes from it.
  const secret = crypto.getRandomValues(new Int32Array(4));
  const opened = config.tun ? underlay.openTun(config.tun) : null;
  const stack = makeStack(config, opened, secret);
  let host: Host | null = null;
  let earlyFault = null as Error | null;
  const fault = (error: unknown) => {
    const reason = error instanceof Error ? error : new Error(String(error));
    if (host === null) earlyFault ??= reason;
    else host.fail(reason);
  };
  const context: PortContext = { pool: stack.pool, drops: stack.drops, fault };
  const ports: UdpPort[] = [];
  const device = opened === null ? null : new TunDevice(opened, context, stack, stack.device!);
  let routes: ClosableRoutes | null = null;
  let driver: Driver | null = null;
  try {
    for (const { address, port } of endpointsOf(config)) ports.push(await underlay.open(address, port, context));
    routes = underlay.openRoutes(ports, device);
    refuseLoops(stack, routes);
    const sleeper = underlay.makeSleeper(ports, device);
    driver = new Driver({ stack, clock, ports, device, sleeper, onFault: fault });
    const interval = config.lookupInterval;
    const keeper = new PeerKeeper({ stack, driver, ports, names, answers, resolve, interval, routes, fault });
    host = new Host({ stack, driver, ports, device, underlay, keeper });
    host.closed.then(() => routes?.close());
    if (earlyFault !== null) {
      host.fail(earlyFault);
      await host.closed;
      throw earlyFault;
    }
    return host;
  } catch (error) {
    if (host === null) {
      await driver?.stop(error instanceof Error ? error : new Error(String(error))).catch(() => {});
      routes?.close();
    }
    device?.close();
    await Promise.allSettled(ports.map((port) => port.close()));
    throw error;
  }
}

/**
 * Refuses to open a host whose datagrams would go through its own tunnel.
 *
 * @throws {TypeError} if the system's way to a peer leads into the host's TUN device
 */
function refuseLoops(stack: Stack, routes: RouteSource | null): void {
  if (!stack.options.tun) return;
  for (const { name, address } of stack.tunnel?.peers ?? []) {
    const why = loopTo(stack, address, routes);
    if (why !== "") throw new TypeError(`peer ${name}: ${why}`);
  }
}

/** Makes the stack; its interface to the kernel has the name that the device got. */
function makeStack(config: HostConfig, opened: OpenedTun | null, secret: Int32Array): Stack {
  const seed = config.seed ?? drawSeed();
  if (opened === null) return new Stack({ ...config, seed }, undefined, secret);
  try {
    return new Stack({ ...config, tun: { ...config.tun!, name: opened.name }, seed }, undefined, secret);
  } catch (error) {
    closeTun(opened);
    throw error;
  }
}

/** The endpoints to bind: those that are configured, or any port of each family in which there is a peer. */
function endpointsOf(config: HostConfig): readonly Endpoint[] {
  if (config.listen.length > 0) return config.listen;
  const any: Endpoint[] = [];
  for (const address of [IpAddr.ANY_V4, IpAddr.ANY_V6]) {
    if (config.peers.some(({ endpoint }) => endpoint?.address.version === address.version)) {
      any.push({ address, port: 0 });
    }
  }
  return any;
}

/** 53 bits that nobody can guess. */
function drawSeed(): number {
  const [low, high] = crypto.getRandomValues(new Uint32Array(2));
  return (high! >>> 11) * 2 ** 32 + low!;
}
