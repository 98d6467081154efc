/**
 * Two hosts in one process: a server that answers each line, and a client.
 *
 * deno run --allow-net=127.0.0.1 --allow-env examples/two_hosts.ts
 *
 * @module
 */

import { openHost, type TcpListener } from "@culvert/culvert";

await using server = await openHost({
  address: ["10.7.0.1/24", "fd07::1/64"],
  listen: "127.0.0.1:7201",
  peers: [{ name: "client", endpoint: "127.0.0.1:7202", allowed: ["10.7.0.2", "fd07::2"] }],
});
await using client = await openHost({
  address: ["10.7.0.2/24", "fd07::2/64"],
  listen: "127.0.0.1:7202",
  peers: [{ name: "server", endpoint: "127.0.0.1:7201", allowed: ["10.7.0.1", "fd07::1"] }],
});

async function shout(listener: TcpListener): Promise<void> {
  for await (const conn of listener) {
    conn.readable
      .pipeThrough(new TextDecoderStream())
      .pipeThrough(new TransformStream({ transform: (text, out) => out.enqueue(text.toUpperCase()) }))
      .pipeThrough(new TextEncoderStream())
      .pipeTo(conn.writable);
  }
}

using listener = server.listen({ port: 1234 });
shout(listener);

for (const hostname of ["10.7.0.1", "fd07::1"]) {
  await using conn = await client.connect({ hostname, port: 1234 });
  await conn.write(new TextEncoder().encode(`hello over ${hostname}`));
  await conn.closeWrite();
  console.log(await new Response(conn.readable).text());
}

for await (const answer of client.ping("10.7.0.1", { count: 3, interval: 20_000_000 })) {
  if (answer.kind === "reply") console.log(`ping ${answer.seq}: ${(answer.rtt / 1e6).toFixed(2)} ms`);
}
