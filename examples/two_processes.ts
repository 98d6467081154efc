/**
 * Two processes: this one starts itself again as a server on the other side of a 10 ms path.
 *
 * deno run --allow-net=127.0.0.1 --allow-run --allow-env examples/two_processes.ts
 *
 * On two machines the server's half runs on one and the client's on the other; only the endpoints change.
 *
 * @module
 */

import { type Host, openHost } from "@culvert/culvert";

const ENDPOINTS = { server: "127.0.0.1:7211", client: "127.0.0.1:7212" };

function open(role: "server" | "client"): Promise<Host> {
  const other = role === "server" ? "client" : "server";
  const address = { server: "10.7.0.1", client: "10.7.0.2" };
  return openHost({
    address: `${address[role]}/24`,
    listen: ENDPOINTS[role],
    peers: [{ name: other, endpoint: ENDPOINTS[other], allowed: address[other], impair: "delay 5ms" }],
  });
}

async function serve(): Promise<void> {
  const host = await open("server");
  using listener = host.listen({ port: 7 });
  console.log("ready");
  for await (const conn of listener) conn.readable.pipeTo(conn.writable);
}

async function ask(): Promise<void> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--allow-net=127.0.0.1", "--allow-env", import.meta.url, "serve"],
    stdout: "piped",
  }).spawn();
  const output = child.stdout.getReader();
  await output.read(); // "ready"
  {
    await using host = await open("client");
    await using conn = await host.connect({ hostname: "10.7.0.1", port: 7 });
    conn.setNoDelay(true);
    const byte = new Uint8Array(1);
    const from = performance.now();
    for (let i = 0; i < 10; i++) {
      await conn.write(byte);
      await conn.read(byte);
    }
    console.log(
      `10 requests, ${((performance.now() - from) / 10).toFixed(1)} ms each; RTT ${conn.info().rtt.toFixed(1)} ms`,
    );
  }
  await output.cancel();
  child.kill();
  await child.status;
}

await (Deno.args[0] === "serve" ? serve() : ask());
