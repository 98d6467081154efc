/**
 * Opens a host: checks the configuration, looks up the names in it, binds the UDP sockets, makes the stack and sets it
 * going.
 *
 * @module
 */

import { lookup } from "node:dns/promises";
import { type HostOptions, parseEndpointNames, parseHostConfig } from "../stack/config.ts";
import { ConfigFaults } from "../stack/config_faults.ts";
import { type Endpoint, formatEndpoint, type HostConfig } from "../stack/options.ts";
import { Stack } from "../stack/stack.ts";
import { IpAddr } from "../wire/ip_addr.ts";
import { MonotonicClock } from "./clock.ts";
import { Driver } from "./driver.ts";
import { requireNet } from "./errors.ts";
import { Host } from "./host.ts";
import { readImpairFiles } from "./impair_files.ts";
import { closeTun, type OpenedTun, TunDevice } from "./linux/tun_device.ts";
import { TimerSleeper } from "./sleeper.ts";
import type { PortContext, UdpPort } from "./udp_port.ts";
import { type OpenPort, SystemUnderlay, type Underlay } from "./underlay.ts";

export { Host } from "./host.ts";

/**
 * Opens a host: one IP stack in this process, joined to its peers by UDP.
 *
 * Names of peers' endpoints are looked up once, and files that impairments name are read once. Without `listen`, an ephemeral port is bound in each address family in
 * which there is a peer. Needs the permission to use the network at every endpoint; with `--allow-ffi` for the C
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
  const config = parseHostConfig(await resolveNames(options));
  for (const { endpoint } of config.peers) {
    if (endpoint !== null) await requireNet(formatEndpoint(endpoint.address, endpoint.port));
  }
  return await start(config, new SystemUnderlay(config.port, config.sleeper));
}

/**
 * The options with what is outside of them put in: addresses for names of peers, and the files that impairments name.
 *
 * @throws {ConfigError} if anything has a wrong form, a name cannot be looked up or a file cannot be read
 */
export async function resolveNames<T>(options: T): Promise<T> {
  const faults = new ConfigFaults(options);
  const read = readImpairFiles(
    options,
    (path, why) => faults.add(path, `an impairment whose files can be read (${why})`),
  );
  faults.throwIfAny();
  return await resolveEndpoints(read);
}

/** Opens a host over UDP ports of another kind than the operating system's; for tests. */
export async function openHostOver(options: HostOptions, openPort: OpenPort): Promise<Host> {
  const config = parseHostConfig(options);
  const kind = config.sleeper ?? "hop";
  if (kind === "ppoll") throw new TypeError('the sleeper "ppoll" is for the ports of the system');
  return await start(config, {
    open: openPort,
    openTun: () => {
      throw new TypeError("a TUN device is for the ports of the system");
    },
    makeSleeper: () => (clock, onDue) => new TimerSleeper(kind, clock, onDue),
    whyPort: () => "given",
    sleeper: () => ({ kind, why: config.sleeper === null ? "it needs no permission" : "asked for" }),
  });
}

async function start(config: HostConfig, underlay: Underlay): Promise<Host> {
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
  try {
    for (const { address, port } of endpointsOf(config)) ports.push(await underlay.open(address, port, context));
    const sleeper = underlay.makeSleeper(ports, device);
    const driver = new Driver({ stack, clock, ports, device, sleeper, onFault: fault });
    host = new Host({ stack, driver, ports, device, underlay });
    if (earlyFault !== null) {
      host.fail(earlyFault);
      await host.closed;
      throw earlyFault;
    }
    return host;
  } catch (error) {
    device?.close();
    await Promise.all(ports.map((port) => port.close()));
    throw error;
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

/**
 * The options with every host name in a peer's endpoint looked up, once the form of everything was found right.
 *
 * @throws {ConfigError} if anything has a wrong form, or a name cannot be looked up
 */
export async function resolveEndpoints<T>(options: T): Promise<T> {
  const names = parseEndpointNames(options);
  if (names.every((name) => name === null)) return options;
  const faults = new ConfigFaults(options);
  const resolve = async (peer: object, i: number): Promise<object> => {
    const name = names[i]!;
    if (name === null) return peer;
    try {
      const { address } = await lookup(name.hostname);
      return { ...peer, endpoint: formatEndpoint(IpAddr.parse(address), name.port) };
    } catch (error) {
      if (error instanceof Deno.errors.NotCapable) throw error;
      faults.add(["peers", i, "endpoint"], "an address or a name that can be looked up");
      return peer;
    }
  };
  const peers = await Promise.all((options as { peers: object[] }).peers.map(resolve));
  faults.throwIfAny();
  return { ...options, peers };
}
