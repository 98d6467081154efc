/**
 * Services, and the serving ends of `perf` and `rpc`, in one process: what they answer, and what they do with nonsense.
 *
 * @module
 */

import { assert, assertEquals, assertRejects } from "@std/assert";
import { readFull, readToEnd, writeAll } from "../../src/cli/conn_io.ts";
import { Interrupt } from "../../src/cli/interrupt.ts";
import { runPerf } from "../../src/cli/perf_client.ts";
import { emitPreface, parsePreface, PerfConnKind, type PerfTest, refusalOf } from "../../src/cli/perf_protocol.ts";
import { PerfServer } from "../../src/cli/perf_server.ts";
import { runRpc } from "../../src/cli/rpc_client.ts";
import { emitRpcHead, parseRpcHead } from "../../src/cli/rpc_protocol.ts";
import { RpcServer } from "../../src/cli/rpc_server.ts";
import { startServices } from "../../src/cli/services.ts";
import { SECOND } from "../../src/base/time.ts";
import { FAMILIES, openPair } from "../testing/host_pair.ts";

const TEST: PerfTest = {
  protocol: "tcp",
  streams: 1,
  reverse: false,
  seconds: 0.1,
  bitsPerSec: 0,
  lengthBytes: 10_000,
  udpPort: 0,
};

for (const family of FAMILIES) {
  Deno.test(`services: echo and discard over IPv${family}, TCP and UDP`, async () => {
    await using pair = await openPair();
    startServices(pair.b, { echo: 7, discard: 9 });
    const hostname = pair.addressB(family);

    await using echo = await pair.a.connect({ hostname, port: 7 });
    const said = new TextEncoder().encode("what is said comes back");
    await writeAll(echo, said);
    const heard = new Uint8Array(said.length);
    assert(await readFull(echo, heard));
    assertEquals(heard, said);
    await echo.closeWrite();
    assertEquals(await echo.read(heard), null);

    await using discard = await pair.a.connect({ hostname, port: 9 });
    await writeAll(discard, new Uint8Array(100_000));
    await discard.closeWrite();
    assertEquals(await discard.read(heard), null);

    using udp = pair.a.listenDatagram();
    await udp.send(new Uint8Array(10), { transport: "udp", hostname, port: 9 });
    await udp.send(said, { transport: "udp", hostname, port: 7 });
    const [answer, from] = await udp.receive();
    assertEquals([answer, from.port], [said, 7]);
  });
}

Deno.test("perf server: nonsense ends its connection and nothing else", async () => {
  await using pair = await openPair();
  const failures: string[] = [];
  const server = new PerfServer(pair.b, 0, { onFailure: (_client, why) => failures.push(why) });
  const connect = () => pair.a.connect({ hostname: "10.7.0.2", port: server.port });
  // No preface.
  const http = await connect();
  await writeAll(http, new TextEncoder().encode("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
  assert(await http.closed !== undefined);
  // A stream of no test.
  const stray = await connect();
  await writeAll(stray, emitPreface({ kind: PerfConnKind.Stream, id: 5, index: 0 }));
  await assertRejects(() => readToEnd(stray), Deno.errors.ConnectionReset);
  // A control connection that speaks no JSON.
  const mute = await connect();
  await writeAll(mute, emitPreface({ kind: PerfConnKind.Control, id: 5, index: 0 }));
  await writeAll(mute, new TextEncoder().encode("hello\n"));
  await assertRejects(() => readToEnd(mute), Deno.errors.ConnectionReset);
  assertEquals(failures.length, 1);
  // One that asks for too much is told so.
  using interrupt = new Interrupt();
  const options = { hostname: "10.7.0.2", port: server.port, interval: SECOND, interrupt };
  const refused = runPerf(pair.a, { ...options, test: { ...TEST, streams: 1000 } });
  await assertRejects(() => refused, Error, "the server refuses: streams must be from 1 to 128");
  // And then it still works.
  const report = await runPerf(pair.a, { ...options, test: TEST });
  assertEquals(report.received[0]!.bytes, report.sent[0]!.bytes);
  assert(report.received[0]!.bytes > 0);
  server.close();
});

Deno.test("perf: what answers there is no perf server", async () => {
  await using pair = await openPair();
  startServices(pair.b, { echo: 7 });
  using interrupt = new Interrupt();
  const options = { hostname: "10.7.0.2", port: 7, interval: SECOND, interrupt, test: TEST };
  // The echo of the preface is no JSON.
  await assertRejects(() => runPerf(pair.a, options), SyntaxError);
});

Deno.test("perf: a client that is gone leaves nothing behind", async () => {
  await using pair = await openPair();
  const ended = Promise.withResolvers<string>();
  const server = new PerfServer(pair.b, 0, { onFailure: (_client, why) => ended.resolve(why) });
  const preface = (kind: PerfConnKind) => emitPreface({ kind, id: 128, index: 0 });
  const control = await pair.a.connect({ hostname: "10.7.0.2", port: server.port });
  await writeAll(control, preface(PerfConnKind.Control));
  const test = { type: "test", test: { ...TEST, seconds: 60 } };
  await writeAll(control, new TextEncoder().encode(`${JSON.stringify(test)}\n`));
  const stream = await pair.a.connect({ hostname: "10.7.0.2", port: server.port });
  await writeAll(stream, preface(PerfConnKind.Stream));
  control.abort();
  assert((await ended.promise).includes("reset"));
  // The stream of the test that failed is closed, too.
  await stream.closeWrite();
  await readToEnd(stream).catch(() => {});
  stream.close();
  server.close();
});

Deno.test("perf protocol: what a server refuses", () => {
  const ask = (more: Record<string, unknown>) => refusalOf({ type: "test", test: { ...TEST, ...more } });
  assertEquals(ask({}), null);
  assertEquals(ask({ protocol: "udp", udpPort: 9, lengthBytes: 1400 }), null);
  for (const message of [null, undefined, 7, "test", {}, { type: "test" }, { type: "stop", test: TEST }]) {
    assert(refusalOf(message) !== null);
  }
  const wrong: Record<string, unknown>[] = [
    { protocol: "sctp" },
    { reverse: 1 },
    { streams: 0 },
    { streams: 1.5 },
    { seconds: 0 },
    { seconds: NaN },
    { seconds: 1e9 },
    { bitsPerSec: -1 },
    { bitsPerSec: Infinity },
    { lengthBytes: 0 },
    { lengthBytes: "10" },
    { protocol: "udp", udpPort: 0 },
    { protocol: "udp", udpPort: 9, lengthBytes: 8 },
  ];
  for (const more of wrong) assert(ask(more) !== null, JSON.stringify(more));
});

Deno.test("perf and rpc protocols: the heads of connections", () => {
  const preface = emitPreface({ kind: PerfConnKind.Stream, id: 0xfffffff0, index: 3 });
  assertEquals(preface.toHex(), "43565046" + "00000002" + "fffffff0" + "00000003");
  assertEquals(parsePreface(preface), { kind: PerfConnKind.Stream, id: 0xfffffff0, index: 3 });
  const head = emitRpcHead({ requestBytes: 100, replyBytes: 65536 });
  assertEquals(head.toHex(), "43565251" + "00000064" + "00010000" + "00000000");
  assertEquals(parseRpcHead(head), { requestBytes: 100, replyBytes: 65536 });
  for (const bytes of [preface, head]) bytes[0] = 0;
  assertEquals([parsePreface(preface), parseRpcHead(head)], [null, null]);
  assertEquals(parseRpcHead(emitRpcHead({ requestBytes: 0, replyBytes: 1 })), null);
  assertEquals(parseRpcHead(emitRpcHead({ requestBytes: 1, replyBytes: (1 << 24) + 1 })), null);
});

Deno.test("rpc server: nonsense ends its connection and nothing else", async () => {
  await using pair = await openPair();
  const server = new RpcServer(pair.b, 0);
  const conn = await pair.a.connect({ hostname: "10.7.0.2", port: server.port });
  await writeAll(conn, new Uint8Array(16));
  await conn.closeWrite();
  assertEquals(await conn.read(new Uint8Array(1)), null);
  server.close();
});

Deno.test("rpc: requests in pieces are answered when they are complete", async () => {
  await using pair = await openPair();
  const server = new RpcServer(pair.b, 0);
  await using conn = await pair.a.connect({ hostname: "10.7.0.2", port: server.port, noDelay: true });
  await writeAll(conn, emitRpcHead({ requestBytes: 5, replyBytes: 3 }));
  await writeAll(conn, new Uint8Array(4));
  await writeAll(conn, new Uint8Array(7));
  await writeAll(conn, new Uint8Array(4));
  await conn.closeWrite();
  let received = 0;
  for (let n = await conn.read(new Uint8Array(64)); n !== null; n = await conn.read(new Uint8Array(64))) received += n;
  assertEquals(received, 9);
  server.close();
});

Deno.test("rpc: a server that ends early is told, not waited for", async () => {
  await using pair = await openPair();
  const listener = pair.b.listen();
  const serving = (async () => {
    const conn = await listener.accept();
    await readFull(conn, new Uint8Array(16 + 100));
    await writeAll(conn, new Uint8Array(100));
    await conn.closeWrite();
    await readToEnd(conn);
    conn.close();
  })();
  using interrupt = new Interrupt();
  const load = {
    hostname: "10.7.0.2",
    port: listener.addr.port,
    perSecond: 100,
    duration: SECOND / 10,
    requestBytes: 100,
    replyBytes: 100,
    connections: 1,
    patience: SECOND,
  };
  await assertRejects(
    () => runRpc(pair.a, load, interrupt, () => {}),
    Deno.errors.UnexpectedEof,
    "before it had answered every request",
  );
  await serving;
  listener.close();
});

Deno.test("rpc: replies that never come are counted", async () => {
  await using pair = await openPair();
  const listener = pair.b.listen();
  using interrupt = new Interrupt();
  const load = {
    hostname: "10.7.0.2",
    port: listener.addr.port,
    perSecond: 100,
    duration: SECOND / 20,
    requestBytes: 1,
    replyBytes: 1,
    connections: 2,
    patience: SECOND / 20,
  };
  const report = await runRpc(pair.a, load, interrupt, () => {});
  assertEquals([report.requests, report.answered, report.unanswered, report.latency], [5, 0, 5, null]);
  listener.close();
});
