/**
 * Opens a host: checks the configuration, looks up the names in it, binds the UDP sockets, makes the stack and sets it
 * going.
 *
 * @module
 */

import { lookup } from "node:dns/promises";
import { type HostOptions, parseHostConfig } from "../stack/config.ts";
import { type Endpoint, formatEndpoint, type HostConfig } from "../stack/options.ts";
import { Stack } from "../stack/stack.ts";
import { IpAddr } from "../wire/ip_addr.ts";
import { MonotonicClock } from "./clock.ts";
import { DenoPort } from "./deno_port.ts";
import { DgramPort } from "./dgram_port.ts";
import { Driver } from "./driver.ts";
import { requireNet } from "./errors.ts";
import { Host } from "./host.ts";
import type { PortContext, UdpPort } from "./udp_port.ts";

export { Host } from "./host.ts";

/** Binds a UDP port to an address; port 0 is any. */
export type OpenPort = (address: IpAddr, port: number, context: PortContext) => UdpPort | Promise<UdpPort>;

/**
 * Opens a host: one IP stack in this process, joined to its peers by UDP.
 *
 * Names of peers' endpoints are looked up once. Without `listen`, an ephemeral port is bound in each address family in
 * which there is a peer. `Deno.listenDatagram` is used where it exists (with `--unstable-net`), else `node:dgram`.
 * Needs the permission to use the network at every endpoint.
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
 * @throws {Deno.errors.NotCapable} without the permission for an endpoint
 */
export async function openHost(options: HostOptions): Promise<Host> {
  const config = parseHostConfig(await resolveEndpoints(options));
  for (const { endpoint } of config.peers) {
    if (endpoint !== null) await requireNet(formatEndpoint(endpoint.address, endpoint.port));
  }
  return await start(config, openUdpPort);
}

/** Opens a host over UDP ports of another kind than the operating system's; for tests. */
export async function openHostOver(options: HostOptions, openPort: OpenPort): Promise<Host> {
  return await start(parseHostConfig(options), openPort);
}

async function start(config: HostConfig, openPort: OpenPort): Promise<Host> {
  const clock = new MonotonicClock();
  const stack = new Stack({ ...config, seed: config.seed ?? drawSeed() });
  let host: Host | null = null;
  const fault = (error: unknown) => host?.fail(error instanceof Error ? error : new Error(String(error)));
  const context: PortContext = { pool: stack.pool, drops: stack.drops, fault };
  const ports: UdpPort[] = [];
  try {
    for (const { address, port } of endpointsOf(config)) ports.push(await openPort(address, port, context));
  } catch (error) {
    await Promise.all(ports.map((port) => port.close()));
    throw error;
  }
  const driver = new Driver({ stack, clock, ports, onFault: fault });
  host = new Host({ stack, driver, ports });
  return host;
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

async function openUdpPort(address: IpAddr, port: number, context: PortContext): Promise<UdpPort> {
  await requireNet(formatEndpoint(address, port));
  if (DenoPort.serves(address)) return DenoPort.open(address, port, context);
  return await DgramPort.open(address, port, context);
}

/** 53 bits that nobody can guess. */
function drawSeed(): number {
  const [low, high] = crypto.getRandomValues(new Uint32Array(2));
  return (high! >>> 11) * 2 ** 32 + low!;
}

/** The options with every host name in a peer's endpoint looked up; what is no name is left to be checked. */
async function resolveEndpoints(options: HostOptions): Promise<HostOptions> {
  if (!Array.isArray(options?.peers)) return options;
  const peers = await Promise.all(options.peers.map(async (peer) => {
    const name = typeof peer?.endpoint === "string"
      ? /^([a-z0-9_.-]*[a-z][a-z0-9_.-]*):(\d+)$/i.exec(peer.endpoint)
      : null;
    if (name === null) return peer;
    const { address } = await lookup(name[1]!).catch((error) => {
      throw new TypeError(`the endpoint "${peer.endpoint}" of peer "${peer.name}" cannot be looked up`, {
        cause: error,
      });
    });
    return { ...peer, endpoint: formatEndpoint(IpAddr.parse(address), Number(name[2])) };
  }));
  return { ...options, peers };
}
