/**
 * The Web streams of a connection.
 *
 * @module
 */

import { assertEquals, assertLess, assertRejects, assertStrictEquals } from "@std/assert";
import type { TcpConn } from "../../src/socket/tcp_conn.ts";
import { assertSameBytes, type HostPair, pairTest, pattern } from "../testing/host_pair.ts";

async function connected(pair: HostPair): Promise<[TcpConn, TcpConn]> {
  using listener = pair.b.listen({ port: 80 });
  const accepting = listener.accept();
  const client = await pair.a.connect({ hostname: pair.addressB(6), port: 80 });
  return [client, await accepting];
}

async function bytesOf(stream: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<Uint8Array> {
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

pairTest("streams: made once, on first use", async (openPair) => {
  await using pair = await openPair();
  const [client] = await connected(pair);
  assertStrictEquals(client.readable, client.readable);
  assertStrictEquals(client.writable, client.writable);
});

pairTest("streams: an echo by pipeTo", async (openPair) => {
  await using pair = await openPair();
  const [client, server] = await connected(pair);
  const echoing = server.readable.pipeTo(server.writable);
  const bytes = pattern(400_000);
  const sending = new Blob([bytes]).stream().pipeTo(client.writable);
  assertSameBytes(await bytesOf(client.readable), bytes);
  await Promise.all([sending, echoing]);
  assertEquals([await client.closed, await server.closed], [null, null]);
});

pairTest("streams: a reader may bring its own buffer, and gets the end of the stream in it", async (openPair) => {
  await using pair = await openPair();
  const [client, server] = await connected(pair);
  const reader = server.readable.getReader({ mode: "byob" });
  const first = reader.read(new Uint8Array(16));
  await client.write(pattern(20));
  const got = await first;
  assertEquals(got.value?.buffer.byteLength, 16);
  assertEquals([...got.value!], [...pattern(16)]);
  assertEquals([...(await reader.read(new Uint8Array(16))).value!], [...pattern(4, 16)]);
  const last = reader.read(new Uint8Array(16));
  await client.closeWrite();
  assertEquals((await last).done, true);
  assertEquals((await reader.read(new Uint8Array(1))).done, true);
});

pairTest("streams: nothing is read ahead of the reader", async (openPair) => {
  await using pair = await openPair();
  const [client, server] = await connected(pair);
  const { readable } = server;
  await client.write(pattern(1000));
  await new Promise((resolve) => setTimeout(resolve, 20));
  // Had the stream taken them, they would be gone.
  const buffer = new Uint8Array(100);
  assertEquals(await server.read(buffer), 100);
  const reader = readable.getReader();
  assertEquals((await reader.read()).value?.length, 900);
});

pairTest("streams: a write waits for room, so the reader sets the pace", async (openPair) => {
  const bufferBytes = 65536;
  await using pair = await openPair({
    host: { tcp: { sendBufferBytes: bufferBytes, receiveBufferBytes: bufferBytes } },
  });
  const [client, server] = await connected(pair);
  const writer = client.writable.getWriter();
  let done = 0;
  const writing = (async () => {
    for (let i = 0; i < 20; i++) {
      await writer.ready;
      await writer.write(pattern(50_000, i * 50_000));
      done++;
    }
    await writer.close();
  })();
  await new Promise((resolve) => setTimeout(resolve, 100));
  assertLess(done, 4);
  assertSameBytes(await bytesOf(server.readable), pattern(1_000_000));
  await writing;
  assertEquals(done, 20);
});

pairTest("streams: aborting the writable resets the connection", async (openPair) => {
  await using pair = await openPair();
  const [client, server] = await connected(pair);
  await client.writable.abort(new RangeError("no more"));
  await assertRejects(() => server.readable.getReader().read(), Deno.errors.ConnectionReset);
  await assertRejects(() => client.read(new Uint8Array(1)), RangeError, "no more");
});

pairTest(
  "streams: a cancelled readable leaves the write side; both ends together close the connection",
  async (openPair) => {
    await using pair = await openPair();
    const [client, server] = await connected(pair);
    await client.readable.cancel();
    await assertRejects(() => client.read(new Uint8Array(1)), Deno.errors.BadResource);
    const writer = client.writable.getWriter();
    await writer.write(new Uint8Array([1, 2]));
    await writer.close();
    assertSameBytes(await bytesOf(server.readable), new Uint8Array([1, 2]));
    await assertRejects(() => client.write(new Uint8Array(1)), Deno.errors.BadResource);
    server.close();
    assertEquals(await client.closed, null);
  },
);

pairTest("streams: a reset is the error of both streams", async (openPair) => {
  await using pair = await openPair();
  const [client, server] = await connected(pair);
  const reading = server.readable.getReader().read();
  client.abort();
  await assertRejects(() => reading, Deno.errors.ConnectionReset);
  await assertRejects(() => server.writable.getWriter().write(new Uint8Array(1)), Deno.errors.ConnectionReset);
});

for (const mode of ["default", "byob"] as const) {
  pairTest(
    `streams: cancelling gives up a read that waits, so that nothing waits behind it (${mode})`,
    async (openPair) => {
      await using pair = await openPair();
      const [client, server] = await connected(pair);
      const reader = mode === "byob" ? server.readable.getReader({ mode }) : server.readable.getReader();
      const waiting = mode === "byob"
        ? (reader as ReadableStreamBYOBReader).read(new Uint8Array(16))
        : (reader as ReadableStreamDefaultReader).read();
      const behind = server.read(new Uint8Array(16));
      await reader.cancel();
      assertEquals((await waiting).done, true);
      await assertRejects(() => behind, Deno.errors.BadResource, "cancelled");
      await assertRejects(() => server.read(new Uint8Array(16)), Deno.errors.BadResource, "cancelled");
      // The other direction is as it was.
      assertEquals(await server.write(pattern(10)), 10);
      assertEquals(await client.read(new Uint8Array(16)), 10);
    },
  );
}

pairTest("streams: aborting the writable does not wait for a write that waits for room", async (openPair) => {
  await using pair = await openPair();
  const [client, server] = await connected(pair);
  const writer = client.writable.getWriter();
  const failed = writer.closed.catch((error) => error);
  const stuck = writer.write(pattern(8_000_000)).catch((error) => error);
  while (server.info().bytesReceived < 100_000) await new Promise((resolve) => setTimeout(resolve, 5));
  const why = new Error("no longer wanted");
  await writer.abort(why);
  assertStrictEquals(await stuck, why);
  assertStrictEquals(await failed, why);
  assertStrictEquals(await client.closed, why);
  assertEquals((await server.closed)?.name, "ConnectionReset");
});
