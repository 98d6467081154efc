/**
 * The end of hosts whose ports do not close as they should: late, or not at all.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { MemoryNetwork, type MemoryPort } from "../../src/runtime/memory_port.ts";
import { openHostOver } from "../../src/runtime/open_host.ts";

Deno.test("host: what a port cannot be closed for does not hide why a host was not opened", async () => {
  const network = new MemoryNetwork();
  const broken = new RangeError("no routes");
  const ports: MemoryPort[] = [];
  const opening = openHostOver(
    {
      address: "10.7.0.1/24",
      listen: ["127.0.0.1:1", "[::1]:1"],
      peers: [{ endpoint: "127.0.0.1:9", allowed: "10.7.0.2" }],
    },
    (address, port, context) => {
      const opened = network.open(address, port, context);
      if (ports.push(opened) === 1) opened.close = () => Promise.reject(new TypeError("it cannot be closed"));
      return opened;
    },
    {
      routes: {
        route: () => {
          throw broken;
        },
      },
    },
  );
  assertEquals(await opening.catch((error) => error), broken);
  assertEquals(network.find(ports[1]!.address, 1), null);
});

Deno.test("host: closing it after a fault waits until it is closed", async () => {
  const network = new MemoryNetwork();
  const host = await openHostOver({ address: "10.7.0.1/24", listen: "127.0.0.1:1" }, (address, port, context) => {
    const opened = network.open(address, port, context);
    const close = opened.close.bind(opened);
    opened.close = () => new Promise((resolve) => setTimeout(() => resolve(close()), 20));
    return opened;
  });
  const fault = new RangeError("a fault of the program");
  let isClosed = false;
  host.closed.then(() => isClosed = true);
  host.fail(fault);
  const closing = host.close();
  assertEquals(host.close(), closing);
  await closing;
  assert(isClosed, "it is not closed yet");
  assertEquals(await host.closed, fault);
});

Deno.test("host: a port that cannot be closed leaves nothing else open", async () => {
  const network = new MemoryNetwork();
  const broken = new RangeError("it cannot be closed");
  const ports: MemoryPort[] = [];
  const host = await openHostOver(
    { address: "10.7.0.1/24", listen: ["127.0.0.1:1", "[::1]:1"] },
    (address, port, context) => {
      const opened = network.open(address, port, context);
      if (ports.push(opened) === 1) opened.close = () => Promise.reject(broken);
      return opened;
    },
  );
  const reading = Array.fromAsync(host.peerEvents());
  assertEquals(await host.close().catch((error) => error), broken);
  assertEquals(await host.closed, broken);
  assertEquals(await reading, []);
  assertEquals(network.find(ports[1]!.address, 1), null);
});
