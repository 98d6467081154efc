/**
 * The node:stream view of a connection, by itself and under node:http.
 *
 * @module
 */

import { assert, assertEquals, assertInstanceOf, assertLess, assertThrows } from "@std/assert";
import { Buffer } from "node:buffer";
import { Agent, createServer, type IncomingMessage, request, type RequestOptions } from "node:http";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { connector, serve, type TcpDuplex, toDuplex } from "../../src/host/duplex.ts";
import type { TcpConn } from "../../src/socket/tcp_conn.ts";
import { assertSameBytes, FAMILIES, type HostPair, pairTest, pattern } from "../testing/host_pair.ts";

async function connected(pair: HostPair, family: 4 | 6 = 4): Promise<[TcpConn, TcpConn]> {
  using listener = pair.b.listen({ port: 80 });
  const accepting = listener.accept();
  const client = await pair.a.connect({ hostname: pair.addressB(family), port: 80 });
  return [client, await accepting];
}

function once(stream: TcpDuplex, event: string): Promise<unknown> {
  return new Promise((resolve) => stream.once(event, resolve));
}

/** Reads to the end by events: iteration would destroy the stream. */
function readAll(stream: Readable): Promise<Buffer> {
  const chunks: Buffer[] = [];
  return new Promise((resolve, reject) => {
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("end", () => resolve(Buffer.concat(chunks)));
    stream.on("error", reject);
  });
}

for (const family of FAMILIES) {
  pairTest(`duplex IPv${family}: carries bytes both ways and says where it leads`, async (openPair) => {
    await using pair = await openPair();
    const [client, server] = (await connected(pair, family)).map((conn) => toDuplex(conn)) as [TcpDuplex, TcpDuplex];
    assertEquals(client.remoteAddress, pair.addressB(family));
    assertEquals([client.remotePort, client.remoteFamily], [80, `IPv${family}`]);
    assertEquals(client.address(), {
      address: pair.addressA(family),
      family: `IPv${family}`,
      port: client.localPort,
    });
    assertEquals([server.remoteAddress, server.remotePort], [client.localAddress, client.localPort]);
    assertEquals([client.connecting, client.pending, client.readyState], [false, false, "open"]);
    const bytes = pattern(400_000);
    const atServer = readAll(server);
    client.end(bytes);
    assertSameBytes(await atServer, bytes);
    assertEquals(client.readyState, "readOnly");
    const atClient = readAll(client);
    server.write(pattern(10));
    server.end(pattern(300_000, 10));
    assertSameBytes(await atClient, pattern(300_010));
    assertEquals([client.bytesWritten, client.bytesRead], [400_000, 300_010]);
    assertEquals(client.readyState, "closed");
  });

  pairTest(`duplex IPv${family}: node:http serves and fetches over it`, async (openPair) => {
    await using pair = await openPair();
    const server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk) => chunks.push(chunk));
      request.on("end", () => {
        response.setHeader("x-peer", `${request.socket.remoteAddress}`);
        response.end(Buffer.concat(chunks).reverse());
      });
    });
    using listener = pair.b.listen({ port: 8080 });
    const serving = serve(listener, server);
    for (const size of [0, 5, 300_000]) {
      const { status, peer, body } = await fetchOver(pair, pair.addressB(family), 8080, Buffer.from(pattern(size)));
      assertEquals([status, peer], [200, pair.addressA(family)]);
      assertSameBytes(body, pattern(size).toReversed());
    }
    listener.close();
    await serving;
    assertEquals(server.listening, false);
  });
}

async function fetchOver(pair: HostPair, host: string, port: number, body: Buffer, agent?: Agent) {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const options: RequestOptions = {
      host,
      port,
      method: "POST",
      path: "/reverse",
      ...(agent === undefined ? { createConnection: connector(pair.a), headers: { connection: "close" } } : { agent }),
    };
    const sent = request(options, resolve);
    sent.on("error", reject);
    sent.end(body);
  });
  return {
    status: response.statusCode,
    peer: response.headers["x-peer"],
    body: await readAll(response),
  };
}

pairTest("duplex: node:http keeps a connection for further requests", async (openPair) => {
  await using pair = await openPair();
  let connections = 0;
  const server = createServer((request, response) => {
    request.resume();
    request.on("end", () => response.end("ok"));
  });
  server.on("connection", () => connections++);
  using listener = pair.b.listen({ port: 8080 });
  const serving = serve(listener, server);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  (agent as unknown as { createConnection: unknown }).createConnection = connector(pair.a);
  for (let i = 0; i < 3; i++) {
    const { body } = await fetchOver(pair, "10.7.0.2", 8080, Buffer.from("x"), agent);
    assertEquals(body.toString(), "ok");
  }
  assertEquals(connections, 1);
  agent.destroy();
  listener.close();
  await serving;
});

pairTest("duplex: a response that nobody reads stops the server, not the memory", async (openPair) => {
  const bufferBytes = 65536;
  await using pair = await openPair({
    host: { tcp: { sendBufferBytes: bufferBytes, receiveBufferBytes: bufferBytes } },
  });
  const [client, server] = await connected(pair);
  const from = toDuplex(server);
  let written = 0;
  for (let before = -1; before !== written;) {
    before = written;
    while (!from.writableNeedDrain) from.write(pattern(10_000, 10_000 * written++));
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
  // Two socket buffers, the stream's own, and one write.
  assertLess(written * 10_000, 2 * bufferBytes + from.writableHighWaterMark + 20_000);
  const to = toDuplex(client);
  await new Promise((resolve) => setTimeout(resolve, 30));
  assertEquals(to.bytesRead, 0);
  const reading = readAll(to);
  while (written < 100) {
    if (from.writableNeedDrain) await once(from, "drain");
    from.write(pattern(10_000, 10_000 * written++));
  }
  from.end();
  assertSameBytes(await reading, pattern(1_000_000));
  to.end();
});

pairTest("duplex: pipelines through it end in good order", async (openPair) => {
  await using pair = await openPair();
  const [client, server] = (await connected(pair)).map((conn) => toDuplex(conn)) as [TcpDuplex, TcpDuplex];
  const echoing = pipeline(server, server);
  const closed = once(client, "close");
  client.end(pattern(100_000));
  assertSameBytes(await readAll(client), pattern(100_000));
  await Promise.all([echoing, closed]);
});

pairTest("duplex: half-open or not, as asked for", async (openPair) => {
  await using pair = await openPair();
  {
    const [client, server] = await connected(pair);
    const stream = toDuplex(server);
    await client.closeWrite();
    stream.resume();
    await once(stream, "end");
    stream.write(pattern(5));
    const buffer = new Uint8Array(10);
    assertEquals(await client.read(buffer), 5);
    stream.end();
    assertEquals(await client.read(buffer), null);
  }
  {
    const [client, server] = await connected(pair);
    const stream = toDuplex(server, { allowHalfOpen: false });
    const closed = once(stream, "close");
    stream.resume();
    await client.closeWrite();
    assertEquals(await client.read(new Uint8Array(1)), null);
    await closed;
  }
});

pairTest("duplex: destroying it closes the connection as closing a socket does", async (openPair) => {
  await using pair = await openPair();
  {
    const [client, server] = await connected(pair);
    const stream = toDuplex(client);
    const error = new Error("enough");
    const errored = once(stream, "error");
    stream.destroy(error);
    assertEquals(await errored, error);
    assertEquals(await server.read(new Uint8Array(1)), null);
    server.close();
    assertEquals(await server.closed, null);
  }
  {
    const [client, server] = await connected(pair);
    const stream = toDuplex(client);
    await new Promise((resolve) => stream.write(pattern(100_000), resolve));
    stream.destroy();
    assertSameBytes(new Uint8Array(await new Response(server.readable).arrayBuffer()), pattern(100_000));
    server.close();
  }
  {
    const [client, server] = await connected(pair);
    const stream = toDuplex(client);
    const closed = once(stream, "close");
    stream.write(pattern(100_000));
    stream.destroySoon();
    await closed;
    assertSameBytes(new Uint8Array(await new Response(server.readable).arrayBuffer()), pattern(100_000));
    server.close();
    assertEquals(await server.closed, null);
  }
});

pairTest("duplex: what was not read makes the end a reset, and resetAndDestroy always is one", async (openPair) => {
  await using pair = await openPair();
  {
    const [client, server] = await connected(pair);
    await server.write(pattern(10));
    while (client.info().bytesReceived < 10) await new Promise((resolve) => setTimeout(resolve, 1));
    toDuplex(client).destroy();
    assertInstanceOf(await server.closed, Deno.errors.ConnectionReset);
  }
  {
    const [client, server] = await connected(pair);
    toDuplex(client).resetAndDestroy();
    assertInstanceOf(await server.closed, Deno.errors.ConnectionReset);
  }
});

pairTest("duplex: an error of the connection is one of the stream, with Node's code", async (openPair) => {
  await using pair = await openPair();
  const [client, server] = await connected(pair);
  const stream = toDuplex(client);
  stream.resume();
  const errored = once(stream, "error");
  server.abort();
  const error = await errored as Error & { code: string };
  assertInstanceOf(error, Deno.errors.ConnectionReset);
  assertEquals(error.code, "ECONNRESET");
  assert(stream.destroyed);

  const refused = await new Promise<unknown>((resolve) => {
    connector(pair.a)({ host: "10.7.0.2", port: 9 }, resolve);
  });
  assertEquals((refused as { code: string }).code, "ECONNREFUSED");
});

pairTest("duplex: an idle one says so, a busy one does not", async (openPair) => {
  await using pair = await openPair();
  const [client, server] = await connected(pair);
  const stream = toDuplex(server);
  stream.resume();
  let timeouts = 0;
  stream.on("timeout", () => timeouts++);
  assertEquals(stream.setTimeout(60), stream);
  const started = performance.now();
  while (performance.now() - started < 150) {
    await client.write(new Uint8Array(1));
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  const busy = timeouts;
  const idle = once(stream, "timeout");
  const keepAlive = setInterval(() => {}, 1000);
  await idle;
  clearInterval(keepAlive);
  assertLess(busy, 2);
  // Beyond what a timer takes.
  timeouts = 0;
  const { now } = performance;
  let looks = 0;
  performance.now = () => (looks++, now.call(performance));
  for (const long of [2 ** 31, 2 ** 53]) {
    stream.setTimeout(long);
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
  performance.now = now;
  assertEquals([timeouts, stream.timeout], [0, 2 ** 53]);
  assertLess(looks, 15);
  for (const wrong of [NaN, -1, Infinity, "5" as unknown as number]) {
    assertThrows(() => stream.setTimeout(wrong), RangeError, `got ${wrong}`);
  }
  stream.setTimeout(0);
  assertEquals(stream.timeout, 0);
  stream.setNoDelay().setNoDelay(false).setKeepAlive(true, 1000).ref().unref();
  stream.destroy();
});
