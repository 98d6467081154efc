/**
 * UDP sockets in Deno's shape.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import type { NetAddr } from "../../src/socket/address.ts";
import { FAMILIES, pairTest, pattern } from "../testing/host_pair.ts";

function to(hostname: string, port: number): NetAddr {
  return { transport: "udp", hostname, port };
}

for (const family of FAMILIES) {
  pairTest(`udp IPv${family}: datagrams go there and back, with their source`, async (openPair) => {
    await using pair = await openPair();
    using server = pair.b.listenDatagram({ port: 53 });
    using client = pair.a.listenDatagram({ hostname: pair.addressA(family) });
    assertEquals(client.addr.hostname, pair.addressA(family));
    assertEquals(await client.send(pattern(300), to(pair.addressB(family), 53)), 300);
    const [request, from] = await server.receive();
    assertEquals([...request], [...pattern(300)]);
    assertEquals(from, client.addr);
    const receiving = client.receive();
    await server.send(new Uint8Array([5]), from);
    const [answer, source] = await receiving;
    assertEquals([...answer], [5]);
    assertEquals(source, to(pair.addressB(family), 53));
  });

  pairTest(`udp IPv${family}: a datagram may be empty, and as large as the MTU, but no larger`, async (openPair) => {
    await using pair = await openPair();
    const mtu = pair.a.inspect().interfaces[0]!.mtu;
    const most = mtu - (family === 4 ? 28 : 48);
    using server = pair.b.listenDatagram({ port: 53 });
    using client = pair.a.listenDatagram();
    const target = to(pair.addressB(family), 53);
    await client.send(new Uint8Array(0), target);
    assertEquals((await server.receive())[0].length, 0);
    await client.send(pattern(most), target);
    assertEquals([...(await server.receive())[0]], [...pattern(most)]);
    await assertRejects(() => client.send(pattern(most + 1), target), RangeError, "MTU");
  });
}

pairTest("udp: a buffer of one's own takes what fits", async (openPair) => {
  await using pair = await openPair();
  using server = pair.b.listenDatagram({ port: 53 });
  using client = pair.a.listenDatagram();
  await client.send(pattern(100), to("10.7.0.2", 53));
  await client.send(pattern(5, 3), to("fd07::2", 53));
  const buffer = new Uint8Array(40);
  const [cut] = await server.receive(buffer);
  assertEquals(cut.buffer === buffer.buffer, true);
  assertEquals([...cut], [...pattern(40)]);
  const [whole, from] = await server.receive(buffer);
  assertEquals([...whole], [...pattern(5, 3)]);
  assertEquals(from.hostname, "fd07::1");
});

pairTest("udp: what is no Uint8Array is told at the call, and nothing is sent", async (openPair) => {
  await using pair = await openPair();
  using server = pair.b.listenDatagram({ port: 53 });
  using client = pair.a.listenDatagram();
  for (const [value, word] of [["abc", "string"], [new Uint16Array(2), "Uint16Array"], [null, "null"]] as const) {
    const bytes = value as unknown as Uint8Array;
    for (const call of [() => client.send(bytes, to("10.7.0.2", 53)), () => client.receive(bytes)]) {
      const { message } = await assertRejects(call, TypeError);
      assert(message.includes("Uint8Array") && message.includes(word), message);
    }
  }
  await client.send(Buffer.from("fine"), to("10.7.0.2", 53));
  const [received] = await server.receive(Buffer.alloc(10));
  assertEquals(new TextDecoder().decode(received), "fine");
});

pairTest("udp: receives side by side are served in order, and given up by their signal", async (openPair) => {
  await using pair = await openPair();
  using server = pair.b.listenDatagram({ port: 53 });
  using client = pair.a.listenDatagram();
  const abort = new AbortController();
  const given = server.receive(undefined, { signal: abort.signal });
  const first = server.receive();
  const second = server.receive();
  abort.abort(new TypeError("no more"));
  await assertRejects(() => given, TypeError, "no more");
  await client.send(new Uint8Array([1]), to("10.7.0.2", 53));
  await client.send(new Uint8Array([2]), to("10.7.0.2", 53));
  assertEquals([(await first)[0][0], (await second)[0][0]], [1, 2]);
});

pairTest("udp: the loop gives every datagram and ends with the socket", async (openPair) => {
  await using pair = await openPair();
  const server = pair.b.listenDatagram({ port: 53 });
  using client = pair.a.listenDatagram();
  const looping = (async () => {
    const got: number[] = [];
    for await (const [bytes] of server) {
      got.push(bytes[0]!);
      if (got.length === 10) server.close();
    }
    return got;
  })();
  for (let i = 0; i < 10; i++) await client.send(new Uint8Array([i]), to(i % 2 ? "fd07::2" : "10.7.0.2", 53));
  assertEquals((await looping).toSorted(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  await assertRejects(() => server.receive(), Deno.errors.BadResource, "closed");
  await assertRejects(() => server.send(new Uint8Array(1), to("10.7.0.1", 1)), Deno.errors.BadResource);
  using again = pair.b.listenDatagram({ port: 53 });
  assertEquals(again.addr.port, 53);
});

pairTest("udp: a full buffer loses the newest, and counts it", async (openPair) => {
  await using pair = await openPair({ host: { udp: { receiveBufferBytes: 2000 } } });
  using server = pair.b.listenDatagram({ hostname: "10.7.0.2", port: 53 });
  using client = pair.a.listenDatagram();
  for (let i = 0; i < 20; i++) await client.send(new Uint8Array(480).fill(i), to("10.7.0.2", 53));
  const counted = () => pair.b.inspect().udp[0]!;
  for (let i = 0; counted().received + counted().dropped < 20 && i < 5000; i++) {
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  const { queued, dropped } = counted();
  assertEquals(queued + dropped, 20);
  assert(queued > 0 && queued <= 4);
  assertEquals(pair.b.inspect().drops["receive-buffer-full"], dropped);
  for (let i = 0; i < queued; i++) assertEquals((await server.receive())[0][0], i);
});

pairTest("udp: what cannot be is told in words", async (openPair) => {
  await using pair = await openPair();
  using taken = pair.a.listenDatagram({ port: 53 });
  assertThrows(() => pair.a.listenDatagram({ port: 53 }), Deno.errors.AddrInUse, "53");
  assertThrows(() => pair.a.listenDatagram({ hostname: "10.7.0.2" }), Deno.errors.AddrNotAvailable);
  assertThrows(() => pair.a.listenDatagram({ port: 70000 }), RangeError, "port");
  const send = (hostname: string, port: number) => taken.send(new Uint8Array(1), to(hostname, port));
  await assertRejects(() => send("192.0.2.1", 5), Deno.errors.NetworkUnreachable, "no route");
  await assertRejects(() => send("somebody", 5), TypeError, "somebody");
  await assertRejects(() => send("10.7.0.2", 0), RangeError, "port");
  using four = pair.a.listenDatagram({ hostname: "0.0.0.0" });
  await assertRejects(() => four.send(new Uint8Array(1), to("fd07::2", 5)), TypeError, "version");
  four.unref();
  four.ref();
});
