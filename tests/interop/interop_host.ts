/**
 * Our side of the kernel interop: a host over vxlan-gpe that serves HTTP and answers questions.
 *
 * Settings come as the first argument in JSON. Each line on standard input is a question in JSON, each line on standard
 * output its answer; a closed input ends the process.
 *
 * @module
 */

import http from "node:http";
import { Rng } from "../../src/base/rng.ts";
import { MILLISECOND, toMilliseconds } from "../../src/base/time.ts";
import { toDuplex } from "../../src/host/duplex.ts";
import { type Host, openHost } from "../../src/runtime/open_host.ts";
import type { TcpConn } from "../../src/socket/tcp_conn.ts";
import type { HostOptions } from "../../src/stack/config.ts";
import type { CongestionEvent } from "../../src/tcp/congestion_trace.ts";
import { formatTcpInfo, type TcpInfo } from "../../src/tcp/info.ts";

/** Size of the test data. */
export const BYTES = 10_000_000;

/** The longest that a fetch may take. */
const FETCH_SECONDS = 120;

/** What the host is to be. */
export interface HostSettings {
  /** Our endpoint. */
  listen: string;
  /** The kernel's endpoint. */
  endpoint: string;
  /** Network identifier. */
  vni: number;
  /** Our addresses with their prefix lengths. */
  addresses: string[];
  /** The kernel's addresses. */
  allowed: string[];
  /** What is done to packets in each direction; empty for nothing. */
  impairment: string;
  /** What sends and receives the datagrams. */
  port: "dgram" | "deno" | "linux";
  /** Settings of TCP beside the defaults. */
  tcp?: NonNullable<HostOptions["tcp"]>;
  /** Seed of all randomness; drawn if there is none. */
  seed?: number;
}

/** What can be asked. */
export type HostQuestion =
  | { ask: "ready" }
  | { ask: "ping"; address: string; count: number }
  /** Fetch by HTTP. */
  | { ask: "fetch"; address: string; port: number }
  /** The connection over which the kernel with this address was served last. */
  | { ask: "served"; address: string }
  | { ask: "drops" }
  /** Connect and write until the peer resets the connection. */
  | { ask: "send"; address: string; port: number }
  /** Connect and read for so long after the first byte, then reset the connection. */
  | { ask: "receive"; address: string; port: number; seconds: number };

/** A direction of the impaired tunnel. */
export interface WireCounters {
  /** Packets that went through. */
  packets: number;
  /** Packets lost at random. */
  lost: number;
  /** Packets marked. */
  marked: number;
  /** Packets that were too many. */
  limit_drops: number;
}

/** A bulk transfer as our end saw it. */
export interface BulkReport {
  /** Bytes that the program has written or read. */
  bytes: number;
  /** Time from the first byte to the last. */
  seconds: number;
  /** The connection, less than a second before the end, in the manner of `ss -ti`. */
  info: string;
  /** The same each second. */
  every: string[];
  /** The latest congestion events. */
  events: CongestionEvent[];
  /** What the tunnel did with packets from us, and with those for us. */
  out: WireCounters;
  in: WireCounters;
  /** What was dropped, by reason. */
  drops: Record<string, number>;
}

/** The answer to a question; what was not asked for is absent. */
export interface HostAnswer {
  error?: string;
  ready?: string;
  ping?: { received: number; p50: number };
  fetched?: { bytes: number; sha256: string; info: TcpInfo };
  served?: TcpInfo;
  drops?: Record<string, number>;
  bulk?: BulkReport;
}

/** The bytes that are served and fetched. */
export function testData(): Uint8Array<ArrayBuffer> {
  const rng = new Rng(20260101);
  const words = new Uint32Array(BYTES / 4);
  for (let i = 0; i < words.length; i++) words[i] = rng.u32();
  return new Uint8Array(words.buffer);
}

/** The SHA-256 of `data` in hexadecimal. */
export async function sha256(data: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  return [...digest].map((b) => b.toString(16).padStart(2, "0")).join("");
}

async function ping(host: Host, address: string, count: number): Promise<HostAnswer> {
  const rtts: number[] = [];
  for await (const answer of host.ping(address, { count, interval: 100 * MILLISECOND, timeout: 2000 * MILLISECOND })) {
    if (answer.kind === "reply") rtts.push(toMilliseconds(answer.rtt));
  }
  rtts.sort((a, b) => a - b);
  return { ping: { received: rtts.length, p50: rtts[rtts.length >> 1] ?? 0 } };
}

async function fetchOver(host: Host, address: string, port: number): Promise<HostAnswer> {
  const conn = await host.connect({ hostname: address, port });
  const chunks: Uint8Array[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  await new Promise<void>((resolve, reject) => {
    timer = setTimeout(() => {
      reject(new Error(`not over after ${FETCH_SECONDS} s: ${formatTcpInfo(conn.info())}`));
      conn.abort();
    }, 1000 * FETCH_SECONDS);
    const request = http.request({
      createConnection: () => toDuplex(conn),
      path: "/",
      headers: { Host: "kernel" },
    });
    request.on("error", reject);
    request.on("response", (response) => {
      if (response.statusCode !== 200) reject(new Error(`status ${response.statusCode}`));
      response.on("data", (chunk: Uint8Array) => chunks.push(chunk));
      response.on("end", resolve);
      response.on("error", reject);
      response.on("aborted", () => reject(new Error("the response was cut off")));
    });
    request.end();
  }).finally(() => clearTimeout(timer));
  const bytes = new Uint8Array(chunks.reduce((n, c) => n + c.length, 0));
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return { fetched: { bytes: bytes.length, sha256: await sha256(bytes), info: conn.info() } };
}

/** Moves bytes by `move` until it says that it is over, and reports the connection. */
async function bulk(host: Host, conn: TcpConn, move: () => Promise<number>): Promise<HostAnswer> {
  const every: string[] = [];
  const timer = setInterval(() => every.push(formatTcpInfo(conn.info())), 1000);
  let bytes = 0;
  let from = 0;
  let to = 0;
  try {
    for (let n = await move(); n > 0; n = await move()) {
      to = performance.now();
      if (bytes === 0) from = to;
      bytes += n;
    }
  } finally {
    clearInterval(timer);
  }
  const { interfaces, drops } = host.inspect();
  const none: WireCounters = { packets: 0, lost: 0, marked: 0, limit_drops: 0 };
  const counters = (stats: Record<string, number> | undefined): WireCounters => {
    const { packets, lost, marked, limit_drops } = { ...none, ...stats };
    return { packets, lost, marked, limit_drops };
  };
  return {
    bulk: {
      bytes,
      seconds: (to - from) / 1000,
      info: every.at(-1) ?? formatTcpInfo(conn.info()),
      every,
      events: conn.congestionEvents(),
      out: counters(interfaces[0]!.impairOut?.stats),
      in: counters(interfaces[0]!.impairIn?.stats),
      drops,
    },
  };
}

async function send(host: Host, address: string, port: number): Promise<HostAnswer> {
  using conn = await host.connect({ hostname: address, port });
  const chunk = new Uint8Array(1 << 17);
  return await bulk(host, conn, async () => {
    try {
      return await conn.write(chunk);
    } catch (error) {
      if (error instanceof Deno.errors.ConnectionReset) return 0;
      throw error;
    }
  });
}

async function receive(host: Host, address: string, port: number, seconds: number): Promise<HostAnswer> {
  const conn = await host.connect({ hostname: address, port });
  const buffer = new Uint8Array(1 << 18);
  let end = Infinity;
  try {
    return await bulk(host, conn, async () => {
      if (performance.now() >= end) return 0;
      const n = await conn.read(buffer);
      if (n === null) throw new Error("the kernel ended the stream");
      if (end === Infinity) end = performance.now() + 1000 * seconds;
      return n;
    });
  } finally {
    conn.abort();
  }
}

async function answer(host: Host, question: HostQuestion, served: Map<string, TcpConn>): Promise<HostAnswer> {
  try {
    switch (question.ask) {
      case "ready":
        return { ready: host.inspect().ports[0]!.kind };
      case "ping":
        return await ping(host, question.address, question.count);
      case "fetch":
        return await fetchOver(host, question.address, question.port);
      case "served": {
        const conn = served.get(question.address);
        return conn === undefined ? { error: `${question.address} was not served` } : { served: conn.info() };
      }
      case "drops":
        return { drops: host.inspect().drops };
      case "send":
        return await send(host, question.address, question.port);
      case "receive":
        return await receive(host, question.address, question.port, question.seconds);
    }
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}

async function serve(settings: HostSettings): Promise<void> {
  await using host = await openHost({
    address: settings.addresses,
    listen: settings.listen,
    port: settings.port,
    encapsulation: { kind: "vxlan-gpe", vni: settings.vni },
    mtu: 1444,
    tcp: settings.tcp ?? {},
    ...(settings.seed === undefined ? {} : { seed: settings.seed }),
    peers: [{
      name: "kernel",
      endpoint: settings.endpoint,
      allowed: settings.allowed,
      ...(settings.impairment === "" ? {} : { impair: { out: settings.impairment, in: settings.impairment } }),
    }],
  });
  const data = testData();
  const server = http.createServer((_request, response) => {
    response.writeHead(200, { "content-type": "application/octet-stream", "content-length": data.length });
    response.end(data);
  });
  const listener = host.listen({ port: 8080 });
  const served = new Map<string, TcpConn>();
  (async () => {
    for await (const conn of listener) {
      served.set(conn.remoteAddr.hostname, conn);
      server.emit("connection", toDuplex(conn));
    }
  })();
  let rest = "";
  for await (const text of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop()!;
    for (const line of lines) console.log(JSON.stringify(await answer(host, JSON.parse(line), served)));
  }
}

if (import.meta.main) {
  await serve(JSON.parse(Deno.args[0]!));
  Deno.exit(0);
}
