/**
 * How long a host with 10,000 peers takes to be opened, from its options to sockets that are bound, and how much memory it
 * has then.
 *
 * Each peer has an endpoint, a prefix of each family and keepalives, as a hub of a large network would. One opening a
 * process: that is what a program pays, with code that was never run before.
 *
 * @module
 */

import { openHost } from "../mod.ts";
import type { Bench } from "./bench.ts";

const PEERS = 10_000;

const options = {
  address: ["10.0.0.1/8", "fd07::1/64"],
  listen: "127.0.0.1:0",
  port: "dgram" as const,
  keepalive: "600s",
  peers: Array.from({ length: PEERS }, (_, i) => ({
    name: `peer${i}`,
    endpoint: `127.0.0.1:${10_000 + i}`,
    allowed: [`10.${1 + (i >> 8)}.${i & 255}.0/24`, `fd07:${(i + 1).toString(16)}::/32`],
    roaming: i % 2 === 0,
  })),
};

/** From options to an open host. */
export const open: Bench = {
  name: "open 10000 peers",
  what: `a host with ${PEERS.toLocaleString("en")} peers, from its options until it is open`,
  unit: "ms",
  async run() {
    const from = performance.now();
    await using host = await openHost(options);
    const time = performance.now() - from;
    const { interfaces } = host.inspect();
    if (interfaces.length !== PEERS) throw new Error(`${interfaces.length} interfaces`);
    return time;
  },
};

/** What each peer costs while nothing happens. */
export const memory: Bench = {
  name: "peer heap",
  what: "bytes on the heap for each peer of an open host",
  unit: "B",
  async run() {
    await using warm = await openHost({ ...options, peers: options.peers.slice(0, 100) });
    await warm.close();
    const before = Deno.memoryUsage().heapUsed;
    await using _host = await openHost(options);
    return Math.round((Deno.memoryUsage().heapUsed - before) / PEERS);
  },
};
