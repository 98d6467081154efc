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

/** Size of the test data. */
export const BYTES = 10_000_000;

/** What the host is to be. */
export interface HostSettings {
  listen: string;
  endpoint: string;
  vni: number;
  addresses: string[];
  allowed: string[];
  impairment: string;
  /** What sends and receives the datagrams. */
  port: "dgram" | "linux";
}

/** The answer to a question; what was not asked for is absent. */
export interface HostAnswer {
  ready?: string;
  error?: string;
  ping?: { received: number; p50: number };
  fetched?: { bytes: number; sha256: string };
  drops?: Record<string, number>;
}

/** The bytes that are served and fetched. */
export function testData(): Uint8Array<ArrayBuffer> {
  const rng = new Rng(20260101);
  const words = new Uint32Array(BYTES / 4);
  for (let i = 0; i < words.length; i++) words[i] = rng.u32();
  return new Uint8Array(words.buffer);
}

async function sha256(data: Uint8Array<ArrayBuffer>): Promise<string> {
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

async function fetchOver(host: Host, url: string, address: string): Promise<HostAnswer> {
  const { port, pathname } = new URL(url);
  const conn = await host.connect({ hostname: address, port: Number(port) });
  const chunks: Uint8Array[] = [];
  await new Promise<void>((resolve, reject) => {
    const request = http.request({
      createConnection: () => toDuplex(conn),
      path: pathname,
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
  });
  const bytes = new Uint8Array(chunks.reduce((n, c) => n + c.length, 0));
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return { fetched: { bytes: bytes.length, sha256: await sha256(bytes) } };
}

async function answer(host: Host, question: Record<string, unknown>): Promise<HostAnswer> {
  try {
    if (question.ready) return { ready: host.inspect().ports[0]!.kind };
    if (typeof question.ping === "string") return await ping(host, question.ping, Number(question.count));
    if (typeof question.fetch === "string") return await fetchOver(host, question.fetch, String(question.address));
    if (question.drops) return { drops: (host.inspect() as { drops: Record<string, number> }).drops };
    return { error: `no such question: ${JSON.stringify(question)}` };
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
  (async () => {
    for await (const conn of listener) server.emit("connection", toDuplex(conn));
  })();
  let rest = "";
  for await (const text of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop()!;
    for (const line of lines) console.log(JSON.stringify(await answer(host, JSON.parse(line))));
  }
}

if (import.meta.main) {
  await serve(JSON.parse(Deno.args[0]!));
  Deno.exit(0);
}
