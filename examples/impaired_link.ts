/**
 * An impaired link: what loss does to a transfer, and where the packets went.
 *
 * deno run --allow-net=127.0.0.1 --allow-env examples/impaired_link.ts
 *
 * @module
 */

import { openHost } from "@culvert/culvert";

for (const out of ["delay 5ms", "delay 5ms loss 2%", "delay 5ms loss 2% rate 20mbit limit 50"]) {
  await using a = await openHost({
    address: "10.7.0.1/24",
    listen: "127.0.0.1:7231",
    peers: [{ name: "b", endpoint: "127.0.0.1:7232", allowed: "10.7.0.2", impair: { out } }],
    seed: 1,
  });
  await using b = await openHost({
    address: "10.7.0.2/24",
    listen: "127.0.0.1:7232",
    peers: [{ name: "a", endpoint: "127.0.0.1:7231", allowed: "10.7.0.1", impair: { out: "delay 5ms" } }],
  });
  using listener = b.listen({ port: 9 });
  const conn = await a.connect({ hostname: "10.7.0.2", port: 9 });
  const served = await listener.accept();
  const received = new Response(served.readable).bytes();

  const data = new Uint8Array(500_000);
  const from = performance.now();
  for (let at = 0; at < data.length;) at += await conn.write(data.subarray(at));
  await conn.closeWrite();
  const { length } = await received;
  const seconds = (performance.now() - from) / 1000;

  const { rtt, retransmits } = conn.info();
  console.log(out);
  console.log(`  ${(length * 8 / seconds / 1e6).toFixed(1)} Mbit/s, rtt ${rtt.toFixed(1)} ms`);
  console.log(`  retransmitted ${JSON.stringify(retransmits)}, dropped ${JSON.stringify(a.inspect().drops)}`);
  conn.close();
  served.close();
}
