/**
 * Two processes over loopback UDP, with the sockets that a program would use: bulk, requests and connections, over
 * `node:dgram` and over Linux's own calls by FFI.
 *
 * The measuring process starts the other one, which echoes, discards or accepts.
 *
 * @module
 */

import { type Host, openHost } from "../src/runtime/open_host.ts";
import type { TcpConn } from "../src/socket/tcp_conn.ts";
import type { Bench } from "./bench.ts";

const ECHO = 7;
const DISCARD = 9;

/** The ports that are measured: what is behind the name of a figure, and by what datagrams go. */
const PORTS = {
  dgram: { suffix: "", by: "node:dgram" },
  linux: { suffix: " (FFI)", by: "Linux's own calls" },
} as const;

type PortKind = keyof typeof PORTS;

function open(port: PortKind, own: 1 | 2, listen: string, endpoint: string): Promise<Host> {
  return openHost({
    port,
    address: `10.0.0.${own}/24`,
    listen,
    peers: [{ name: "other", endpoint, allowed: `10.0.0.${3 - own}` }],
    tcp: { timeWait: "1ms", noDelay: true },
  });
}

/** The other process: the kind of its port, the number that it listens on, and that of the measuring one. */
export async function serve(port: string, ownPort: string, otherPort: string): Promise<void> {
  const host = await open(port as PortKind, 2, `127.0.0.1:${ownPort}`, `127.0.0.1:${otherPort}`);
  const accept = async (port: number, handle: (conn: TcpConn) => Promise<void>): Promise<void> => {
    for await (const conn of host.listen({ port })) handle(conn).catch(() => {}).finally(() => conn.close());
  };
  accept(ECHO, async (conn) => {
    const buffer = new Uint8Array(65536);
    for (let n = await conn.read(buffer); n !== null; n = await conn.read(buffer)) {
      await conn.write(buffer.subarray(0, n));
    }
  });
  accept(DISCARD, async (conn) => {
    const buffer = new Uint8Array(65536);
    while (await conn.read(buffer) !== null);
  });
  console.log("ready");
  for await (const _ of Deno.stdin.readable);
  Deno.exit(0);
}

async function withServer<T>(port: PortKind, measure: (host: Host) => Promise<T>): Promise<T> {
  const base = 20000 + Deno.pid % 20000;
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--quiet",
      "--allow-all",
      new URL("./main.ts", import.meta.url).href,
      "--serve",
      `${port},${base},${base + 1}`,
    ],
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  try {
    const reader = child.stdout.getReader();
    await reader.read();
    const host = await open(port, 1, `127.0.0.1:${base + 1}`, `127.0.0.1:${base}`);
    try {
      return await measure(host);
    } finally {
      await host.close();
      await reader.cancel();
    }
  } finally {
    await child.stdin.close();
    await child.status;
  }
}

/** Amount a second of `work`, after a warm-up of a third of `seconds`. */
async function asyncRate(seconds: number, work: () => Promise<number>): Promise<number> {
  let rate = 0;
  for (const limit of [seconds / 3, seconds]) {
    const from = performance.now();
    let done = 0;
    while (performance.now() - from < limit * 1000) done += await work();
    rate = done / ((performance.now() - from) / 1000);
  }
  return rate;
}

/** One flow of bulk data. */
function bulk(port: PortKind): Bench {
  return {
    name: `UDP bulk${PORTS[port].suffix}`,
    what: `one flow between two processes over loopback UDP by ${PORTS[port].by}`,
    unit: "Gbit/s",
    run: (seconds) =>
      withServer(port, async (host) => {
        using conn = await host.connect({ hostname: "10.0.0.2", port: DISCARD });
        const out = new Uint8Array(65536).fill(0x55);
        let acked = 0;
        const bytesPerSec = await asyncRate(seconds, async () => {
          await conn.write(out);
          const { bytesAcked } = conn.info();
          const more = bytesAcked - acked;
          acked = bytesAcked;
          return more;
        });
        conn.abort();
        return bytesPerSec * 8 / 1e9;
      }),
  };
}

/** One-byte requests, one at a time on each of `connections` connections. */
function requests(port: PortKind, connections: number): Bench {
  const of = connections === 1 ? "" : ` x${connections}`;
  const on = connections === 1 ? "" : `, on ${connections} connections at once`;
  return {
    name: `UDP requests${of}${PORTS[port].suffix}`,
    what: `one byte there and back between two processes over loopback UDP by ${PORTS[port].by}${on}`,
    unit: "1/s",
    run: (seconds) =>
      withServer(port, async (host) => {
        const rates: number[] = await Promise.all(
          Array.from({ length: connections }, async () => {
            using conn = await host.connect({ hostname: "10.0.0.2", port: ECHO });
            const byte = new Uint8Array(1);
            return await asyncRate(seconds, async () => {
              await conn.write(byte);
              return await conn.read(byte) ?? 0;
            });
          }),
        );
        return rates.reduce((sum, rate) => sum + rate, 0);
      }),
  };
}

/** One request under way. */
function oneRequest(port: PortKind): Bench {
  return requests(port, 1);
}

/** Several under way. */
function manyRequests(port: PortKind): Bench {
  return requests(port, 8);
}

/** Connections opened and closed by both sides, TIME-WAIT 1 ms. */
function connections(port: PortKind): Bench {
  return {
    name: `UDP connections${PORTS[port].suffix}`,
    what: `handshake, close by both sides, between two processes over loopback UDP by ${PORTS[port].by}`,
    unit: "1/s",
    run: (seconds) =>
      withServer(port, (host) =>
        asyncRate(seconds, async () => {
          using conn = await host.connect({ hostname: "10.0.0.2", port: DISCARD });
          await conn.closeWrite();
          await conn.read(new Uint8Array(1));
          return 1;
        })),
  };
}

/** All of them, over each port that the system has. */
export const benches: readonly Bench[] = [bulk, oneRequest, manyRequests, connections].flatMap((bench) =>
  Deno.build.os === "linux" ? [bench("dgram"), bench("linux")] : [bench("dgram")]
);
