/**
 * HTTP over Culvert: node:http serves and fetches over the Duplex view of a connection.
 *
 * deno run --allow-net=127.0.0.1 --allow-env examples/http.ts
 *
 * Give node:http no `agent` beside `createConnection`: it would use the agent and the system's network instead.
 *
 * @module
 */

import http from "node:http";
import { connector, openHost, serve } from "@culvert/culvert";

await using a = await openHost({
  address: "10.7.0.1/24",
  listen: "127.0.0.1:7221",
  peers: [{ endpoint: "127.0.0.1:7222", allowed: "10.7.0.2" }],
});
await using b = await openHost({
  address: "10.7.0.2/24",
  listen: "127.0.0.1:7222",
  peers: [{ endpoint: "127.0.0.1:7221", allowed: "10.7.0.1" }],
});

const server = http.createServer((request, response) => {
  response.setHeader("content-type", "text/plain");
  response.end(`you asked for ${request.url}\n`);
});
using listener = b.listen({ port: 80 });
serve(listener, server);

const text = await new Promise<string>((resolve, reject) => {
  const options = { host: "10.7.0.2", port: 80, path: "/weather", createConnection: connector(a) };
  const request = http.request(options, (response) => {
    const chunks: Uint8Array[] = [];
    response.on("data", (chunk: Uint8Array) => chunks.push(chunk));
    response.on("end", () => resolve(chunks.map((chunk) => new TextDecoder().decode(chunk)).join("")));
  });
  request.on("error", reject);
  request.end();
});
console.log(text.trim());
