/**
 * Listening ports.
 *
 * @module
 */

import { assertEquals, assertNotEquals, assertRejects, assertThrows } from "@std/assert";
import type { TcpConn } from "../../src/socket/tcp_conn.ts";
import { FAMILIES, pairTest } from "../testing/host_pair.ts";

pairTest("listener: without an address it hears both families on one port", async (openPair) => {
  await using pair = await openPair();
  using listener = pair.b.listen();
  assertEquals(listener.addr.transport, "tcp");
  assertEquals(listener.addr.hostname, "::");
  assertNotEquals(listener.addr.port, 0);
  for (const family of FAMILIES) {
    using client = await pair.a.connect({ hostname: pair.addressB(family), port: listener.addr.port });
    using server = await listener.accept();
    assertEquals(server.remoteAddr, client.localAddr);
  }
});

pairTest("listener: with an address it hears that one only", async (openPair) => {
  await using pair = await openPair();
  using listener = pair.b.listen({ hostname: "[fd07::2]", port: 80 });
  assertEquals(listener.addr, { transport: "tcp", hostname: "fd07::2", port: 80 });
  await assertRejects(() => pair.a.connect({ hostname: "10.7.0.2", port: 80 }), Deno.errors.ConnectionRefused);
  using _client = await pair.a.connect({ hostname: "fd07::2", port: 80 });
  using four = pair.b.listen({ hostname: "0.0.0.0", port: 80 });
  assertEquals(four.addr.hostname, "0.0.0.0");
  using _other = await pair.a.connect({ hostname: "10.7.0.2", port: 80 });
});

pairTest("listener: a taken port, a foreign address and bad numbers are told at the call", async (openPair) => {
  await using pair = await openPair();
  using _listener = pair.b.listen({ port: 80 });
  assertThrows(() => pair.b.listen({ port: 80 }), Deno.errors.AddrInUse, "80");
  assertThrows(() => pair.b.listen({ hostname: "fd07::2", port: 80 }), Deno.errors.AddrInUse);
  assertThrows(() => pair.b.listen({ hostname: "10.7.0.1" }), Deno.errors.AddrNotAvailable);
  assertThrows(() => pair.b.listen({ hostname: "here" }), TypeError, "here");
  assertThrows(() => pair.b.listen({ port: -1 }), RangeError, "port");
  assertThrows(() => pair.b.listen({ tcpBacklog: 0 }), RangeError, "tcpBacklog");
});

pairTest("listener: a port is free again once it is closed, also if only one family had it", async (openPair) => {
  await using pair = await openPair();
  const six = pair.b.listen({ hostname: "::", port: 80 });
  assertThrows(() => pair.b.listen({ port: 80 }), Deno.errors.AddrInUse);
  // The failed attempt has not kept the port of the other family.
  const four = pair.b.listen({ hostname: "0.0.0.0", port: 80 });
  four.close();
  six.close();
  using both = pair.b.listen({ port: 80 });
  assertEquals(both.addr.port, 80);
});

pairTest("listener: accepts side by side are served in order", async (openPair) => {
  await using pair = await openPair();
  using listener = pair.b.listen({ port: 80 });
  const accepts = [listener.accept(), listener.accept(), listener.accept()];
  const clients: TcpConn[] = [];
  for (let i = 0; i < 3; i++) clients.push(await pair.a.connect({ hostname: "10.7.0.2", port: 80 }));
  const ports = (await Promise.all(accepts)).map(({ remoteAddr }) => remoteAddr.port);
  assertEquals(ports, clients.map(({ localAddr }) => localAddr.port));
});

pairTest("listener: an accept is given up by its signal and takes no connection", async (openPair) => {
  await using pair = await openPair();
  using listener = pair.b.listen({ port: 80 });
  const abort = new AbortController();
  const given = listener.accept({ signal: abort.signal });
  const kept = listener.accept();
  abort.abort(new TypeError("no more"));
  await assertRejects(() => given, TypeError, "no more");
  using client = await pair.a.connect({ hostname: "10.7.0.2", port: 80 });
  using server = await kept;
  assertEquals(server.remoteAddr.port, client.localAddr.port);
});

pairTest("listener: closing rejects what waits, ends the loop, and resets who was not accepted", async (openPair) => {
  await using pair = await openPair();
  const listener = pair.b.listen({ port: 80 });
  const looping = (async () => {
    const ports: number[] = [];
    for await (const conn of listener) {
      ports.push(conn.remoteAddr.port);
      conn.close();
    }
    return ports;
  })();
  const client = await pair.a.connect({ hostname: "10.7.0.2", port: 80 });
  assertEquals(await client.read(new Uint8Array(1)), null);
  listener.close();
  listener.close();
  assertEquals(await looping, [client.localAddr.port]);
  await assertRejects(() => listener.accept(), Deno.errors.BadResource, "closed");
  await assertRejects(() => pair.a.connect({ hostname: "10.7.0.2", port: 80 }), Deno.errors.ConnectionRefused);

  const other = pair.b.listen({ port: 81 });
  const waiting = await pair.a.connect({ hostname: "10.7.0.2", port: 81 });
  other.close();
  await assertRejects(() => waiting.read(new Uint8Array(1)), Deno.errors.ConnectionReset);
  await assertRejects(() => other.accept(), Deno.errors.BadResource);
});

pairTest("listener: leaving the loop closes it, and so does disposal", async (openPair) => {
  await using pair = await openPair();
  const listener = pair.b.listen({ port: 80 });
  const client = pair.a.connect({ hostname: "10.7.0.2", port: 80 });
  for await (const conn of listener) {
    conn.close();
    break;
  }
  (await client).close();
  {
    await using again = pair.b.listen({ port: 80 });
    assertEquals(again.addr.port, 80);
  }
  using last = pair.b.listen({ port: 80 });
  last.unref();
  last.ref();
});

pairTest("listener: what the backlog does not hold comes in later", async (openPair) => {
  await using pair = await openPair({ host: { tcp: { initialRto: 20_000_000 } } });
  using listener = pair.b.listen({ port: 80, tcpBacklog: 1 });
  const clients = [0, 1, 2].map(() => pair.a.connect({ hostname: "10.7.0.2", port: 80 }));
  const ports: number[] = [];
  for (const _ of clients) ports.push((await listener.accept()).remoteAddr.port);
  const expected = (await Promise.all(clients)).map(({ localAddr }) => localAddr.port);
  assertEquals(ports.toSorted(), expected.toSorted());
});
