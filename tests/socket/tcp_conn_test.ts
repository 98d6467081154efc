/**
 * TCP connections in Deno's shape, between two hosts in one process.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import {
  assert,
  assertEquals,
  assertInstanceOf,
  assertLess,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { MILLISECOND, SECOND } from "../../src/base/time.ts";
import type { TcpConn } from "../../src/socket/tcp_conn.ts";
import { assertSameBytes, FAMILIES, type HostPair, pairTest, pattern } from "../testing/host_pair.ts";

/** A connection from `a` to `b`, both ends. */
async function connected(pair: HostPair, family: 4 | 6 = 4, port = 80): Promise<[TcpConn, TcpConn]> {
  using listener = pair.b.listen({ port });
  const accepting = listener.accept();
  const client = await pair.a.connect({ hostname: pair.addressB(family), port });
  return [client, await accepting];
}

async function writeAll(conn: TcpConn, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
}

/** Reads to the end of the stream. */
async function readAll(conn: TcpConn, bufferBytes = 16384): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  const buffer = new Uint8Array(bufferBytes);
  for (let n = await conn.read(buffer); n !== null; n = await conn.read(buffer)) chunks.push(buffer.slice(0, n));
  return new Uint8Array(await new Blob(chunks as Uint8Array<ArrayBuffer>[]).arrayBuffer());
}

for (const family of FAMILIES) {
  pairTest(`tcp IPv${family}: connects, says both addresses, carries bytes both ways`, async (openPair) => {
    await using pair = await openPair();
    const [client, server] = await connected(pair, family);
    assertEquals(client.remoteAddr, { transport: "tcp", hostname: pair.addressB(family), port: 80 });
    assertEquals(client.localAddr.hostname, pair.addressA(family));
    assertEquals(server.localAddr, client.remoteAddr);
    assertEquals(server.remoteAddr, client.localAddr);
    assertEquals(await client.write(new Uint8Array([1, 2, 3])), 3);
    const buffer = new Uint8Array(10);
    assertEquals(await server.read(buffer), 3);
    assertEquals([...buffer.subarray(0, 3)], [1, 2, 3]);
    const reading = client.read(buffer);
    await server.write(new Uint8Array([9, 8]));
    assertEquals(await reading, 2);
    assertEquals([...buffer.subarray(0, 2)], [9, 8]);
    assertEquals(await client.read(new Uint8Array(0)), 0);
    assertEquals(await client.write(new Uint8Array(0)), 0);
  });

  pairTest(`tcp IPv${family}: 3 MB each way at once arrive byte by byte`, async (openPair) => {
    await using pair = await openPair();
    const [client, server] = await connected(pair, family);
    const up = pattern(3_000_000);
    const down = pattern(3_000_001, 77);
    const send = async (conn: TcpConn, bytes: Uint8Array) => {
      await writeAll(conn, bytes);
      await conn.closeWrite();
    };
    const [, , atServer, atClient] = await Promise.all([
      send(client, up),
      send(server, down),
      readAll(server),
      readAll(client, 1000),
    ]);
    assertSameBytes(atServer, up);
    assertSameBytes(atClient, down);
    assertEquals([await client.closed, await server.closed], [null, null]);
  });

  pairTest(`tcp IPv${family}: a port where nobody listens refuses`, async (openPair) => {
    await using pair = await openPair();
    const error = await assertRejects(
      () => pair.a.connect({ hostname: pair.addressB(family), port: 81 }),
      Deno.errors.ConnectionRefused,
    );
    assertStringIncludes(error.message, "81");
    assertEquals(pair.a.inspect().tcp, []);
    assertEquals(pair.a.inspect().sockets, 0);
  });
}

pairTest("tcp: an impaired way changes nothing but the speed", async (openPair) => {
  await using pair = await openPair({ impair: "delay 2ms 1ms loss 3% duplicate 2% reorder 5%" });
  const [client, server] = await connected(pair);
  const bytes = pattern(300_000);
  const [, received] = await Promise.all([
    writeAll(client, bytes).then(() => client.closeWrite()),
    readAll(server),
  ]);
  assertSameBytes(received, bytes);
});

pairTest("tcp: a host connects to itself", async (openPair) => {
  await using pair = await openPair();
  for (const family of FAMILIES) {
    using listener = pair.a.listen({ port: 80 });
    const client = await pair.a.connect({ hostname: pair.addressA(family), port: 80 });
    const server = await listener.accept();
    await client.write(pattern(100));
    await client.closeWrite();
    assertSameBytes(await readAll(server), pattern(100));
    client.close();
    server.close();
  }
});

pairTest("tcp: half-close lets the other direction go on", async (openPair) => {
  await using pair = await openPair();
  const [client, server] = await connected(pair);
  await client.closeWrite();
  await client.closeWrite();
  assertEquals(await server.read(new Uint8Array(1)), null);
  assertEquals(await server.read(new Uint8Array(1)), null);
  await assertRejects(() => client.write(new Uint8Array(1)), Deno.errors.BrokenPipe);
  await writeAll(server, pattern(200_000));
  const received = readAll(client);
  await server.closeWrite();
  assertSameBytes(await received, pattern(200_000));
  assertEquals(await client.closed, null);
});

pairTest("tcp: calls side by side are served in order", async (openPair) => {
  await using pair = await openPair();
  const [client, server] = await connected(pair);
  const buffers = [new Uint8Array(2), new Uint8Array(3), new Uint8Array(4)];
  const reads = buffers.map((buffer) => server.read(buffer));
  await client.write(pattern(9));
  assertEquals(await Promise.all(reads), [2, 3, 4]);
  assertEquals(buffers.flatMap((buffer) => [...buffer]), [...pattern(9)]);
  // Writes that do not fit wait behind each other, and the write side closes after them.
  const chunk = 700_000;
  const writes = [0, 1, 2, 3, 4].map((i) => client.write(pattern(chunk, i * chunk)));
  const closing = client.closeWrite();
  const received = await readAll(server);
  const taken = await Promise.all(writes);
  await closing;
  const expected = taken.map((n, i) => pattern(n, i * chunk));
  assertSameBytes(received, new Uint8Array(await new Blob(expected).arrayBuffer()));
});

pairTest("tcp: writes stop when nobody reads, and go on when somebody does", async (openPair) => {
  const bufferBytes = 65536;
  await using pair = await openPair({
    host: { tcp: { sendBufferBytes: bufferBytes, receiveBufferBytes: bufferBytes } },
  });
  const [client, server] = await connected(pair);
  const total = 1_000_000;
  let written = 0;
  const writing = (async () => {
    while (written < total) written += await client.write(pattern(Math.min(10_000, total - written), written));
    await client.closeWrite();
  })();
  for (let before = -1; before !== written;) {
    before = written;
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
  assertLess(written, 2 * bufferBytes + 1);
  assertSameBytes(await readAll(server), pattern(total));
  await writing;
});

pairTest("tcp: close rejects what waits, later calls too; a second close does nothing", async (openPair) => {
  await using pair = await openPair();
  const [client, server] = await connected(pair);
  const reading = client.read(new Uint8Array(1));
  client.close();
  client.close();
  const error = await assertRejects(() => reading, Deno.errors.BadResource);
  assertStringIncludes(error.message, "closed");
  await assertRejects(() => client.read(new Uint8Array(1)), Deno.errors.BadResource);
  await assertRejects(() => client.write(new Uint8Array(1)), Deno.errors.BadResource);
  await assertRejects(() => client.closeWrite(), Deno.errors.BadResource);
  assertEquals(await server.read(new Uint8Array(1)), null);
  server.close();
  assertEquals(await client.closed, null);
  assertEquals(await server.closed, null);
});

pairTest("tcp: what was written before close arrives", async (openPair) => {
  await using pair = await openPair({ host: { tcp: { receiveBufferBytes: 1 << 20 } } });
  const [client, server] = await connected(pair);
  const bytes = pattern(500_000);
  await writeAll(client, bytes);
  client.close();
  assertSameBytes(await readAll(server), bytes);
  server.close();
});

pairTest("tcp: closing with data unread is a reset", async (openPair) => {
  await using pair = await openPair();
  const [client, server] = await connected(pair);
  await client.write(new Uint8Array(10));
  const buffer = new Uint8Array(1);
  await server.read(buffer);
  server.close();
  await assertRejects(() => client.read(buffer), Deno.errors.ConnectionReset);
  await assertRejects(() => client.write(buffer), Deno.errors.ConnectionReset);
  assertInstanceOf(await client.closed, Deno.errors.ConnectionReset);
});

pairTest("tcp: a write side that closes late, with reading cancelled, closes the connection", async (openPair) => {
  const bufferBytes = 65536;
  await using pair = await openPair({
    host: { tcp: { sendBufferBytes: bufferBytes, receiveBufferBytes: bufferBytes } },
  });
  const [client, server] = await connected(pair);
  const writes = [0, 1, 2, 3, 4, 5].map((i) => client.write(pattern(bufferBytes, i * bufferBytes)));
  const closing = client.closeWrite();
  await client.readable.cancel();
  const received = await readAll(server);
  const taken = await Promise.all(writes);
  await closing;
  const expected = taken.map((n, i) => pattern(n, i * bufferBytes));
  assertSameBytes(received, new Uint8Array(await new Blob(expected).arrayBuffer()));
  await assertRejects(() => client.write(new Uint8Array(1)), Deno.errors.BadResource);
  server.close();
  assertEquals([await client.closed, await server.closed], [null, null]);
});

pairTest("tcp: the stream of a host that closes ends in order, also if a reset follows", async (openPair) => {
  await using pair = await openPair({ impair: "delay 5ms" });
  const [client, server] = await connected(pair);
  await server.write(pattern(100));
  await pair.b.close({ patience: SECOND / 10 });
  assertInstanceOf(await client.closed, Deno.errors.ConnectionReset);
  assertSameBytes(await readAll(client), pattern(100));
  assertEquals(await client.read(new Uint8Array(1)), null);
  await assertRejects(() => client.write(new Uint8Array(1)), Deno.errors.ConnectionReset);
});

for (const before of ["open", "closed", "disposed of"]) {
  pairTest(`tcp: a host that closes waits for the peer of a connection that was ${before}`, async (openPair) => {
    await using pair = await openPair({ impair: "delay 5ms" });
    const [client, server] = await connected(pair);
    await server.write(pattern(100));
    if (before === "closed") server.close();
    if (before === "disposed of") await server[Symbol.asyncDispose]();
    const closing = pair.b.close({ patience: 30 * SECOND });
    await new Promise((resolve) => setTimeout(resolve, 60));
    assertSameBytes(await readAll(client), pattern(100));
    client.close();
    assertEquals([await client.closed, await server.closed], [null, null]);
    await closing;
  });
}

pairTest("tcp: what is no Uint8Array is told at the call, and nothing is sent", async (openPair) => {
  await using pair = await openPair();
  const [client, server] = await connected(pair);
  const wrong: [unknown, string][] = [
    ["hello", "string"],
    [new Uint16Array([258, 772]), "Uint16Array"],
    [new ArrayBuffer(5), "ArrayBuffer"],
    [new DataView(new ArrayBuffer(5)), "DataView"],
    [[1, 2], "Array"],
    [5, "number"],
    [null, "null"],
    [undefined, "undefined"],
  ];
  const waiting = client.read(new Uint8Array(1));
  for (const [value, word] of wrong) {
    const bytes = value as Uint8Array;
    // Reads are told at once, although one waits before them.
    for (const call of [() => client.write(bytes), () => client.read(bytes)]) {
      const { message } = await assertRejects(call, TypeError);
      assertStringIncludes(message, "Uint8Array");
      assertStringIncludes(message, word);
    }
  }
  await client.write(Buffer.from("fine"));
  const chunk = "text" as unknown as Uint8Array;
  await assertRejects(() => client.writable.getWriter().write(chunk), TypeError, "string");
  await client.closeWrite();
  assertEquals(new TextDecoder().decode(await readAll(server)), "fine");
  await server.write(new Uint8Array(1));
  assertEquals(await waiting, 1);
});

pairTest("tcp: abort resets at once, with a reason of one's own", async (openPair) => {
  await using pair = await openPair();
  const [client, server] = await connected(pair);
  const reading = client.read(new Uint8Array(1));
  const reason = new RangeError("had enough");
  client.abort(reason);
  assertEquals(await reading.catch((error) => error), reason);
  assertEquals(await client.closed, reason);
  await assertRejects(() => server.read(new Uint8Array(1)), Deno.errors.ConnectionReset);
  assertEquals(pair.a.inspect().tcp, []);
});

pairTest("tcp: data that came before a reset can still be read", async (openPair) => {
  await using pair = await openPair();
  const [client, server] = await connected(pair);
  await client.write(pattern(100));
  const buffer = new Uint8Array(10);
  assertEquals(await server.read(buffer), 10);
  client.abort();
  await server.closed;
  const rest = new Uint8Array(200);
  assertEquals(await server.read(rest), 90);
  await assertRejects(() => server.read(rest), Deno.errors.ConnectionReset);
});

pairTest("tcp: no route, no such local address, a bad name and a bad port are told in words", async (openPair) => {
  await using pair = await openPair();
  const { a } = pair;
  const noRoute = await assertRejects(
    () => a.connect({ hostname: "192.0.2.1", port: 80 }),
    Deno.errors.NetworkUnreachable,
  );
  assertStringIncludes(noRoute.message, "no route");
  await assertRejects(
    () => a.connect({ hostname: "10.7.0.2", port: 80, localAddress: "10.7.0.9" }),
    Deno.errors.AddrNotAvailable,
  );
  const name = await assertRejects(() => a.connect({ hostname: "example.com", port: 80 }), TypeError);
  assertStringIncludes(name.message, "example.com");
  for (const port of [0, 65536, 1.5, NaN]) {
    await assertRejects(() => a.connect({ hostname: "10.7.0.2", port }), RangeError, "port");
  }
});

pairTest("tcp: an attempt is given up by its signal, and leaves nothing behind", async (openPair) => {
  await using pair = await openPair();
  const { a } = pair;
  const reason = new TypeError("changed my mind");
  const aborted = { hostname: "10.7.0.2", port: 80, signal: AbortSignal.abort(reason) };
  assertEquals(await a.connect(aborted).catch((error) => error), reason);
  // Nobody has that address: no answer comes.
  const abort = new AbortController();
  const connecting = a.connect({ hostname: "10.7.0.77", port: 80, signal: abort.signal });
  await new Promise((resolve) => setTimeout(resolve, 5));
  assertEquals(a.inspect().tcp.length, 1);
  abort.abort(reason);
  assertEquals(await connecting.catch((error) => error), reason);
  assertEquals(a.inspect().tcp, []);
  assertEquals(a.inspect().sockets, 0);
  // A signal that fires later does nothing to the connection.
  using listener = pair.b.listen({ port: 80 });
  const later = new AbortController();
  const client = await a.connect({ hostname: "10.7.0.2", port: 80, signal: later.signal });
  later.abort();
  await client.write(new Uint8Array(1));
  const server = await listener.accept();
  assertEquals(await server.read(new Uint8Array(1)), 1);
});

pairTest("tcp: an attempt without answer times out", async (openPair) => {
  await using pair = await openPair({ host: { tcp: { synRetries: 1, initialRto: SECOND / 50 } } });
  const error = await assertRejects(
    () => pair.a.connect({ hostname: "fd07::77", port: 80 }),
    Deno.errors.TimedOut,
  );
  assertStringIncludes(error.message, "[fd07::77]:80");
});

pairTest("tcp: a local port can be chosen, and be taken", async (openPair) => {
  await using pair = await openPair();
  using listener = pair.b.listen({ port: 80 });
  const options = { hostname: "10.7.0.2", port: 80, localAddress: "10.7.0.1", localPort: 1234 };
  const client = await pair.a.connect(options);
  assertEquals((await listener.accept()).remoteAddr.port, 1234);
  await assertRejects(() => pair.a.connect(options), Deno.errors.AddrInUse);
  client.close();
});

pairTest("tcp: await using sends what was written before it leaves", async (openPair) => {
  await using pair = await openPair({ impair: "delay 5ms" });
  using listener = pair.b.listen({ port: 80 });
  const serving = (async () => {
    await using server = await listener.accept();
    return await readAll(server);
  })();
  const bytes = pattern(200_000);
  {
    await using client = await pair.a.connect({ hostname: pair.addressB(6), port: 80 });
    await writeAll(client, bytes);
  }
  // All of it is acknowledged by now.
  assertEquals(pair.b.inspect().tcp.map(({ info }) => info.bytesReceived), [bytes.length]);
  assertSameBytes(await serving, bytes);
});

pairTest("tcp: info, unackedBytes and settings", async (openPair) => {
  await using pair = await openPair();
  const [client, server] = await connected(pair);
  client.setNoDelay();
  server.setNoDelay(false);
  client.unref();
  client.ref();
  await client.write(new Uint8Array(1000));
  await server.read(new Uint8Array(1000));
  const info = client.info();
  assertEquals(info.state, "ESTABLISHED");
  assertEquals(info.bytesSent, 1000);
  await using done = client;
  await done.closeWrite();
  assertEquals(await server.read(new Uint8Array(1)), null);
  server.close();
  assertEquals(await client.closed, null);
  assertEquals(client.unackedBytes, 0);
});

pairTest("tcp: many connections at once", async (openPair) => {
  await using pair = await openPair();
  using listener = pair.b.listen({ port: 80 });
  const serving = (async () => {
    for await (const conn of listener) {
      (async () => {
        const request = await readAll(conn);
        await conn.write(request.toReversed());
        conn.close();
      })();
    }
  })();
  const answers = await Promise.all(Array.from({ length: 100 }, async (_, i) => {
    const conn = await pair.a.connect({ hostname: pair.addressB(i % 2 === 0 ? 4 : 6), port: 80 });
    await conn.write(new Uint8Array([i, 1, 2]));
    await conn.closeWrite();
    const answer = await readAll(conn);
    conn.close();
    return answer;
  }));
  assertEquals(answers.map((answer) => [...answer]), answers.map((_, i) => [2, 1, i]));
  listener.close();
  await serving;
  assert(pair.a.inspect().sockets === 0);
});

pairTest("tcp: keep-alive probes an idle peer, and stops when it is switched off", async (openPair) => {
  await using pair = await openPair();
  const [client, server] = await connected(pair);
  const before = server.info().segsIn;
  // Probes that follow one another faster than twice a second are not all answered.
  client.setKeepAlive(true, 550 * MILLISECOND);
  const until = performance.now() + 10_000;
  while (server.info().segsIn < before + 2 && performance.now() < until) await new Promise((go) => setTimeout(go, 20));
  assert(server.info().segsIn >= before + 2, `${server.info().segsIn - before} probes`);
  client.setKeepAlive(false);
  await new Promise((go) => setTimeout(go, 20));
  const then = server.info().segsIn;
  await new Promise((go) => setTimeout(go, 650));
  assertEquals(server.info().segsIn, then);
  assertThrows(() => client.setKeepAlive(true, 0), RangeError, "the idle time must be a time in ns above 0, got 0");
  client.abort();
  assertInstanceOf(await server.closed, Deno.errors.ConnectionReset);
});

pairTest("tcp: a user timeout ends a connection whose peer does not answer, and only with data", async (openPair) => {
  await using pair = await openPair();
  const [client, server] = await connected(pair);
  client.setUserTimeout(150 * MILLISECOND);
  await new Promise((go) => setTimeout(go, 250));
  await client.write(new Uint8Array(10));
  assertEquals(await server.read(new Uint8Array(10)), 10);
  pair.a.setImpairment("other", "out", "loss 100%");
  await client.write(new Uint8Array(10));
  const error = await client.closed;
  assertInstanceOf(error, Deno.errors.TimedOut);
  assertStringIncludes(error.message, "nothing was acknowledged for 0.15 s");
  for (const wrong of [-1, NaN]) assertThrows(() => client.setUserTimeout(wrong), RangeError, "of at least 0");
  await assertRejects(
    () => pair.a.connect({ hostname: "10.7.0.2", port: 80, userTimeout: -1 }),
    RangeError,
    "the user timeout",
  );
  server.abort();
});
