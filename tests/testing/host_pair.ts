/**
 * Two hosts in one process, peers of each other, for tests of sockets and of what stands on them; over ports in memory,
 * over `node:dgram`, or over the Linux port.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import { acquireLibc } from "../../src/runtime/linux/libc.ts";
import { MemoryNetwork } from "../../src/runtime/memory_port.ts";
import { type Host, openHost, openHostOver } from "../../src/runtime/open_host.ts";

/** IP versions that tests are run in. */
export const FAMILIES: readonly (4 | 6)[] = [4, 6];

/** The ports of the system that a test can be run over. */
export type SystemPort = "dgram" | "linux";

/** Why the Linux port cannot be used here; empty if it can. */
export const NO_LINUX_PORT: string = (() => {
  const libc = acquireLibc();
  if (typeof libc === "string") return libc;
  libc.release();
  return "";
})();

/** How the hosts differ from the plainest. */
export interface PairOptions {
  /** Netem text for the way from `a` to `b` and back. */
  impair?: string;
  /** Real sockets on the loopback of this family instead of ports in memory. */
  sockets?: 4 | 6;
  /** What the real sockets are used by. Default `"dgram"`. */
  port?: SystemPort;
  /** Further options of both hosts. */
  host?: Record<string, unknown>;
}

/** Two hosts and their addresses, in both families. */
export interface HostPair extends AsyncDisposable {
  /** The first host: 10.7.0.1, fd07::1. */
  a: Host;
  /** The second host: 10.7.0.2, fd07::2. */
  b: Host;
  /** The address of `a` in a family. */
  addressA(family: 4 | 6): string;
  /** The address of `b` in a family. */
  addressB(family: 4 | 6): string;
}

/** Ports below those that the system gives away by itself (32,768 on, on Linux), so that nobody takes one meanwhile. */
const FIRST_PORT = 10_000;
const PORTS = 22_000;

/**
 * A UDP port that is very likely free. It is not tried: the runtime closes a socket some time after it says so, and a port
 * that was tried would be in use for that time.
 */
export function freePort(): Promise<number> {
  return Promise.resolve(FIRST_PORT + Math.floor(Math.random() * PORTS));
}

/** Calls `open` until it finds its ports free. */
async function withFreePorts<T>(open: (portA: number, portB: number) => Promise<T>): Promise<T> {
  for (let tries = 1;; tries++) {
    try {
      return await open(await freePort(), await freePort());
    } catch (error) {
      if (!(error instanceof Deno.errors.AddrInUse) || tries === 5) throw error;
    }
  }
}

/** Opens two hosts that reach each other in both families. */
export async function openPair(options: PairOptions = {}): Promise<HostPair> {
  const network = new MemoryNetwork();
  const loopback = options.sockets === 6 ? "[::1]" : "127.0.0.1";
  const open = (own: string, ownPort: number, otherPort: number): Promise<Host> => {
    const config = {
      address: [`10.7.0.${own}/24`, `fd07::${own}/64`],
      listen: `${loopback}:${ownPort}`,
      peers: [{
        name: "other",
        endpoint: `${loopback}:${otherPort}`,
        allowed: ["10.7.0.0/24", "fd07::/64"],
        ...(options.impair === undefined ? {} : { impair: { out: options.impair } }),
      }],
      seed: Number(own),
      port: options.port ?? "dgram" as const,
      ...options.host,
    };
    if (options.sockets !== undefined) return openHost(config);
    return openHostOver(config, (address, port, context) => network.open(address, port, context));
  };
  const openBoth = async (portA: number, portB: number): Promise<[Host, Host]> => {
    const a = await open("1", portA, portB);
    try {
      return [a, await open("2", portB, portA)];
    } catch (error) {
      await a.close();
      throw error;
    }
  };
  const [a, b] = options.sockets === undefined ? await openBoth(7001, 7002) : await withFreePorts(openBoth);
  return {
    a,
    b,
    addressA: (family) => family === 4 ? "10.7.0.1" : "fd07::1",
    addressB: (family) => family === 4 ? "10.7.0.2" : "fd07::2",
    async [Symbol.asyncDispose]() {
      await Promise.all([a.close(), b.close()]);
    },
  };
}

/** Opens a pair as {@linkcode openPair} does. */
export type OpenPair = (options?: PairOptions) => Promise<HostPair>;

/** A test of a pair, run over ports in memory (or `node:dgram` where it asks for sockets) and over the Linux port. */
export function pairTest(name: string, body: (openPair: OpenPair) => Promise<void>): void {
  Deno.test(name, () => body(openPair));
  Deno.test({
    name: `${name} [linux port]`,
    ignore: NO_LINUX_PORT !== "",
    fn: () => body((options) => openPair({ sockets: 4, ...options, port: "linux" })),
  });
}

/** A test of hosts, run over each port of the system. */
export function portTest(name: string, body: (port: SystemPort) => Promise<void>): void {
  Deno.test(name, () => body("dgram"));
  Deno.test({ name: `${name} [linux port]`, ignore: NO_LINUX_PORT !== "", fn: () => body("linux") });
}

/** A pattern that shows any byte that is lost, doubled or out of place. */
export function pattern(length: number, from = 0): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  for (let i = 0; i < length; i++) {
    const at = from + i;
    bytes[i] = (at ^ (at >>> 8) * 31 ^ (at >>> 16) * 17) & 255;
  }
  return bytes;
}

/** Fails with the place of the first byte that differs; faster and shorter to read than comparing whole arrays. */
export function assertSameBytes(actual: Uint8Array, expected: Uint8Array): void {
  assertEquals(actual.length, expected.length);
  const wrong = actual.findIndex((byte, i) => byte !== expected[i]);
  assertEquals(wrong, -1, `byte ${wrong} differs`);
}
