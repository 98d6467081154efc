/**
 * Hosts over real UDP on the loopback: opening, closing, faults, what keeps the process alive.
 *
 * @module
 */

import { assert, assertEquals, assertInstanceOf, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { MILLISECOND, SECOND } from "../../src/base/time.ts";
import { MemoryNetwork, MemoryPort } from "../../src/runtime/memory_port.ts";
import { type Host, openHost, openHostOver } from "../../src/runtime/open_host.ts";
import { FAMILIES, freePort, pairTest, pattern, portTest, type SystemPort } from "../testing/host_pair.ts";

for (const underlay of FAMILIES) {
  for (const family of FAMILIES) {
    pairTest(`host: IPv${family} over UDP over IPv${underlay}`, async (openPair) => {
      await using pair = await openPair({ sockets: underlay });
      const { a, b } = pair;
      assertEquals(a.addresses, ["10.7.0.1/24", "fd07::1/64"]);
      assertEquals(a.endpoints.map(({ transport, hostname }) => [transport, hostname]), [
        ["udp", underlay === 4 ? "127.0.0.1" : "::1"],
      ]);
      const pings = await Array.fromAsync(a.ping(pair.addressB(family), { count: 3, interval: MILLISECOND }));
      assertEquals(pings.map(({ kind }) => kind), ["reply", "reply", "reply"]);

      using listener = b.listen({ port: 80 });
      const serving = (async () => {
        await using conn = await listener.accept();
        return new Uint8Array(await new Response(conn.readable).arrayBuffer());
      })();
      {
        await using conn = await a.connect({ hostname: pair.addressB(family), port: 80 });
        await new Blob([pattern(300_000)]).stream().pipeTo(conn.writable);
      }
      assertEquals(await serving, pattern(300_000));

      const { ports, runtime, interfaces, drops } = a.inspect();
      assertEquals(ports.length, 1);
      assertEquals(ports[0]!.why, "asked for");
      assertEquals(ports[0]!.datagramsOut, runtime.packetsOut);
      assertEquals(interfaces[0]!.packetsOut, runtime.packetsOut);
      assertEquals(drops, {});
      JSON.stringify(a.inspect());
    });
  }
}

Deno.test("host: a fault of a port while the next is being opened is what opening throws", async () => {
  const network = new MemoryNetwork();
  const fault = new RangeError("broken early");
  const ports: MemoryPort[] = [];
  const options = { address: "10.7.0.1/24", listen: ["127.0.0.1:7001", "[::1]:7001"] };
  const opening = openHostOver(options, (address, port, context) => {
    if (ports.length === 1) {
      context.fault(fault);
      context.fault(new Error("later"));
    }
    const opened = network.open(address, port, context);
    ports.push(opened);
    return opened;
  });
  assertEquals(await opening.catch((error) => error), fault);
  // The ports were closed: their addresses are free.
  await using host = await openHostOver(options, (address, port, context) => network.open(address, port, context));
  assertEquals(host.endpoints.length, 2);
});

Deno.test("host: what breaks the last step of opening leaves nothing running", async () => {
  const network = new MemoryNetwork();
  const broken = new RangeError("no routes");
  let opened: MemoryPort | null = null;
  let looks = 0;
  const peers = [{ name: "b", endpoint: "192.0.2.2:7000", allowed: "10.7.0.2" }];
  const opening = openHostOver(
    { address: "10.7.0.1/24", listen: "192.0.2.1:7000", peers, keepalive: "10ms" },
    (address, port, context) => {
      opened = network.open(address, port, context);
      const room = opened.room.bind(opened);
      opened.room = () => {
        looks++;
        return room();
      };
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
  const before = looks;
  await new Promise((done) => setTimeout(done, 60));
  assertEquals(looks, before, "the driver still runs");
  assertEquals(network.find(opened!.address, 7000), null);
});

for (const how of ["close", "fail"] as const) {
  Deno.test(`host: what still waits after ${how} is dropped, and counted`, async () => {
    const network = new MemoryNetwork();
    const host = await openHostOver({
      address: "10.7.0.1/24",
      listen: "192.0.2.1:7000",
      peers: [{ endpoint: "192.0.2.2:7000", allowed: "10.7.0.2", impair: "delay 60s" }],
    }, (address, port, context) => network.open(address, port, context));
    const socket = host.listenDatagram({ port: 9 });
    for (let i = 0; i < 3; i++) {
      await socket.send(new Uint8Array(9), { transport: "udp", hostname: "10.7.0.2", port: 9 });
    }
    while (host.inspect().interfaces[0]!.impairOut!.stats["qlen"] !== 3) {
      await new Promise((done) => setTimeout(done, 1));
    }
    if (how === "close") await host.close({ patience: MILLISECOND });
    else host.fail(new Error("broken"));
    await host.closed;
    const { pool, drops, interfaces } = host.inspect();
    assertEquals([pool.inUse, drops["closed"], interfaces[0]!.impairOut!.stats["qlen"]], [0, 3, 0]);
  });
}

Deno.test("host: a patience that is no time is refused at the call", async () => {
  await using host = await openHost({ address: "10.7.0.1/24" });
  for (const patience of [NaN, -1, "1s" as unknown as number]) {
    assertThrows(() => void host.close({ patience }), RangeError, "patience");
  }
  await host.close({ patience: Infinity });
});

Deno.test("host: an impairment that netem does not have is refused", async () => {
  const peers = [{ name: "b", endpoint: "127.0.0.1:9", allowed: "10.7.0.2" }];
  await using host = await openHost({ address: "10.7.0.1/24", peers });
  const set = (impairment: unknown) => () => host.setImpairment("b", "out", impairment as never);
  assertThrows(set({ dely: 5 }), RangeError, 'there is no "dely" in netem');
  assertThrows(set(5), TypeError, "must be an object of netem's fields, got 5");
  assertThrows(set(undefined), TypeError, "must be an object");
  assertEquals(host.inspect().interfaces[0]!.impairOut, null);
});

portTest("host: several peers of both families, with names looked up", async (port) => {
  const [portA, portB, portC] = [await freePort(), await freePort(), await freePort()];
  await using a = await openHost({
    port,
    address: ["10.7.0.1/24"],
    listen: [`127.0.0.1:${portA}`, `[::1]:${portA}`],
    peers: [
      { name: "b", endpoint: `localhost:${portB}`, allowed: "10.7.0.2" },
      { name: "c", endpoint: `[::1]:${portC}`, allowed: "10.7.0.3" },
    ],
  });
  const underlay = a.inspect().interfaces[0]!.endpoint!.startsWith("127.0.0.1") ? "127.0.0.1" : "[::1]";
  const spoke = (own: string, listen: string, endpoint: string) =>
    openHost({ port, address: `${own}/24`, listen, peers: [{ name: "a", endpoint, allowed: "10.7.0.0/24" }] });
  await using _b = await spoke("10.7.0.2", `${underlay}:${portB}`, `${underlay}:${portA}`);
  await using _c = await spoke("10.7.0.3", `[::1]:${portC}`, `[::1]:${portA}`);
  for (const to of ["10.7.0.2", "10.7.0.3"]) {
    const pings = await Array.fromAsync(a.ping(to, { count: 2, interval: MILLISECOND }));
    assertEquals(pings.map(({ kind }) => kind), ["reply", "reply"]);
  }
});

portTest("host: without listen it binds a port of each family in which there is a peer", async (port) => {
  const peer = { name: "b", endpoint: "127.0.0.1:9", allowed: "10.7.0.2" };
  await using four = await openHost({ port, address: "10.7.0.1/24", peers: [peer] });
  assertEquals(four.endpoints.map(({ hostname }) => hostname), ["0.0.0.0"]);
  await using both = await openHost({
    port,
    address: "10.7.0.1/24",
    peers: [peer, { name: "c", endpoint: "[::1]:9", allowed: "10.7.0.3" }],
  });
  assertEquals(both.endpoints.map(({ hostname }) => hostname), ["0.0.0.0", "::"]);
  assert(both.endpoints.every(({ port }) => port > 0));
  await using none = await openHost({ port, address: "10.7.0.1/24" });
  assertEquals(none.endpoints, []);
});

portTest("host: what is wrong with the options is told, and nothing stays bound", async (kind) => {
  await assertRejects(() => openHost({ address: "10.7.0.1" }), TypeError, "address");
  await assertRejects(() => openHost(undefined as never), TypeError);
  const lost = { name: "lost", endpoint: "no-such-host.invalid:1", allowed: "10.7.0.2" };
  const error = await assertRejects(() => openHost({ address: "10.7.0.1/24", peers: [lost] }), TypeError);
  assertStringIncludes(error.message, "no-such-host.invalid:1");
  const port = await freePort();
  await using taker = await openHost({ port: kind, address: "10.7.0.1/24", listen: `[::1]:${port}` });
  assertEquals(taker.endpoints[0]!.port, port);
  const listen = [`127.0.0.1:${port}`, `[::1]:${port}`];
  const taken = await assertRejects(
    () => openHost({ port: kind, address: "10.7.0.1/24", listen }),
    Deno.errors.AddrInUse,
  );
  assertStringIncludes(taken.message, `[::1]:${port}`);
  await using again = await openHost({ port: kind, address: "10.7.0.1/24", listen: listen[0]! });
  assertEquals(again.endpoints[0]!.port, port);
});

pairTest("host: datagrams of strangers and spoofed sources are counted drops", async (openPair) => {
  await using pair = await openPair({ sockets: 4 });
  const stranger = await openHost({
    address: "10.9.0.1/24",
    peers: [{ name: "b", endpoint: `127.0.0.1:${pair.b.endpoints[0]!.port}`, allowed: "10.7.0.2" }],
  });
  const pings = await Array.fromAsync(stranger.ping("10.7.0.2", { count: 1, timeout: 50 * MILLISECOND }));
  assertEquals(pings[0]!.kind, "timeout");
  assertEquals(pair.b.inspect().drops, { "unknown-peer": 1 });
  await stranger.close();
});

pairTest("host: an idle one does nothing", async (openPair) => {
  await using pair = await openPair({ sockets: 4 });
  await Array.fromAsync(pair.a.ping("10.7.0.2", { count: 1 }));
  await new Promise((resolve) => setTimeout(resolve, 20));
  const before = pair.a.inspect().runtime.turns;
  await new Promise((resolve) => setTimeout(resolve, 100));
  assertEquals(pair.a.inspect().runtime.turns, before);
});

pairTest("host: closing hands over what was written, even through a slow wire", async (openPair) => {
  await using pair = await openPair({ impair: "delay 10ms rate 20mbit" });
  using listener = pair.b.listen({ port: 80 });
  const serving = (async () => {
    const conn = await listener.accept();
    const bytes = await new Response(conn.readable).arrayBuffer();
    conn.close();
    return bytes.byteLength;
  })();
  const conn = await pair.a.connect({ hostname: "10.7.0.2", port: 80 });
  let written = 0;
  while (written < 500_000) written += await conn.write(pattern(Math.min(100_000, 500_000 - written)));
  await pair.a.close();
  assertEquals(await serving, 500_000);
});

pairTest("host: closing rejects what waits and what comes later, once and for all", async (openPair) => {
  await using pair = await openPair({ sockets: 4 });
  const { a } = pair;
  const listener = a.listen({ port: 80 });
  const datagrams = a.listenDatagram({ port: 80 });
  const waiting = [
    listener.accept(),
    datagrams.receive(),
    a.connect({ hostname: "10.7.0.77", port: 1 }),
    Array.fromAsync(a.ping("10.7.0.77")),
  ].map((call) => assertRejects(() => call as Promise<unknown>, Deno.errors.BadResource));
  const loop = Array.fromAsync(listener);
  const closing = a.close();
  assertEquals(a.close(), closing);
  await Promise.all([closing, ...waiting]);
  assertEquals(await loop, []);
  assertEquals(await a.closed, null);
  assertEquals(a.inspect().sockets, 0);
  assertEquals(a.inspect().pool.inUse, 0);
  await assertRejects(() => a.connect({ hostname: "10.7.0.2", port: 80 }), Deno.errors.BadResource, "closed");
  assertThrows(() => a.listen(), Deno.errors.BadResource);
  assertThrows(() => a.listenDatagram(), Deno.errors.BadResource);
  await assertRejects(() => Array.fromAsync(a.ping("10.7.0.2")), Deno.errors.BadResource);
});

pairTest("host: closing resets a connection whose peer is gone, and does not hang", async (openPair) => {
  await using pair = await openPair();
  using listener = pair.b.listen({ port: 80 });
  const conn = await pair.a.connect({ hostname: "10.7.0.2", port: 80 });
  const accepted = await listener.accept();
  pair.b.fail(new Error("gone"));
  await pair.b.closed;
  await conn.write(pattern(100_000));
  const reading = assertRejects(() => conn.read(new Uint8Array(1)), Deno.errors.BadResource);
  await pair.a.close({ patience: 30 * MILLISECOND });
  await reading;
  await assertRejects(() => accepted.read(new Uint8Array(1)), Error, "gone");
});

Deno.test("host: a fault of the program closes it and rejects everything with that error", async () => {
  const network = new MemoryNetwork();
  const fault = new RangeError("a fault of the program");
  let isBroken = false;
  class BreakingPort extends MemoryPort {
    override room(): number {
      if (isBroken) throw fault;
      return super.room();
    }
  }
  const host = await openHostOver(
    { address: "10.7.0.1/24", listen: "127.0.0.1:1" },
    (address, port, context) => new BreakingPort(network, address, port, context),
  );
  const listener = host.listen({ port: 80 });
  const calls = [
    listener.accept(),
    host.connect({ hostname: "10.7.0.1", port: 80 }).then((conn) => conn.read(new Uint8Array(1))),
  ];
  isBroken = true;
  for (const call of calls) assertEquals(await (call as Promise<unknown>).catch((error) => error), fault);
  assertEquals(await host.closed, fault);
  assertEquals(await host.connect({ hostname: "10.7.0.1", port: 80 }).catch((error) => error), fault);
  await assertRejects(() => Array.fromAsync(listener), RangeError);
  await host.close();
});

/** Runs a program that opens a host in a process of its own. */
function run(port: SystemPort, program: string): Deno.ChildProcess {
  const module = new URL("../../src/runtime/open_host.ts", import.meta.url).href;
  const code = `import { openHost } from ${JSON.stringify(module)};
    const host = await openHost({ port: "${port}", address: "10.7.0.1/24", listen: "127.0.0.1:0" });
    ${program}`;
  const cwd = new URL("../..", import.meta.url);
  const args = ["eval", "--no-check", code];
  return new Deno.Command(Deno.execPath(), { args, cwd, stdout: "piped", stderr: "piped" }).spawn();
}

/** What a program writes that ends by itself. */
async function said(port: SystemPort, program: string): Promise<string> {
  const { success, stdout, stderr } = await run(port, program).output();
  assert(success, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout).trim();
}

portTest("host: keeps the process alive while it is open", async (port) => {
  const process = run(port, `console.log("open");`);
  const reader = process.stdout.getReader();
  assertEquals(new TextDecoder().decode((await reader.read()).value).trim(), "open");
  const ended = await Promise.race([
    process.status.then(() => true),
    new Promise<boolean>((resolve) => setTimeout(() => resolve(false), 300)),
  ]);
  process.kill("SIGKILL");
  await Promise.all([process.status, reader.cancel(), process.stderr.cancel()]);
  assertEquals(ended, false);
});

portTest("host: lets the process go when it is closed or unref'd, but not while a call waits", async (port) => {
  const [closed, unref, pending] = await Promise.all([
    said(port, `await host.close(); console.log("closed");`),
    said(port, `host.unref(); host.ref(); host.unref(); console.log("unref");`),
    said(
      port,
      `host.unref(); const l = host.listen({ port: 80 }); l.accept().catch(() => {});
       Deno.unrefTimer(setTimeout(() => { console.log("still here"); l.close(); }, 300));`,
    ),
  ]);
  assertEquals([closed, unref, pending], ["closed", "unref", "still here"]);
});

Deno.test("host: without the permission for an endpoint it says so", async () => {
  const module = new URL("../../src/runtime/open_host.ts", import.meta.url).href;
  const output = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", "--allow-net=127.0.0.1:7001", "--allow-env", "--allow-read", "-"],
    cwd: new URL("../..", import.meta.url),
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const writer = output.stdin.getWriter();
  await writer.write(new TextEncoder().encode(`
    import { openHost } from ${JSON.stringify(module)};
    const peers = [{ name: "b", endpoint: "127.0.0.1:7002", allowed: "10.7.0.2" }];
    await openHost({ address: "10.7.0.1/24", listen: "127.0.0.1:7001", peers }).catch((error) => {
      console.log(error.name, error.message);
    });
  `));
  await writer.close();
  const { stdout, stderr } = await output.output();
  const message = new TextDecoder().decode(stdout);
  assertStringIncludes(message, "NotCapable", new TextDecoder().decode(stderr));
  assertStringIncludes(message, "127.0.0.1:7002");
});

pairTest("host: times that a user gives are kept", async (openPair) => {
  await using pair = await openPair();
  const late: Host = pair.a;
  const started = performance.now();
  await Array.fromAsync(late.ping("10.7.0.2", { count: 3, interval: SECOND / 50 }));
  assert(performance.now() - started >= 39);
  assertInstanceOf(await late.connect({ hostname: "10.7.0.2", port: 9 }).catch((error) => error), Error);
});

pairTest("host: a connection has its own pacing and rate", async (openPair) => {
  await using pair = await openPair();
  const { a, b } = pair;
  using listener = b.listen({ port: 80 });
  const sink = (async () => {
    for await (const conn of listener) new Response(conn.readable).arrayBuffer().catch(() => {});
  })();
  const target = { hostname: pair.addressB(4), port: 80 };
  for (const pacing of ["edt", "qdisc", "internal"] as const) {
    using conn = await a.connect({ ...target, pacing, maxPacingRateBytesPerSec: 500_000 });
    const from = performance.now();
    for (let sent = 0; sent < 150_000;) sent += await conn.write(pattern(150_000 - sent));
    while (conn.unackedBytes > 0) await new Promise((resolve) => setTimeout(resolve, 1));
    const { pacing: used, pacingRate } = conn.info();
    assertEquals([used, pacingRate], [pacing, 4_000_000]);
    // 300 ms at the rate; the first ten segments are not paced, and the queueing discipline lets a quantum more through.
    const seconds = (performance.now() - from) / 1000;
    assert(seconds > 0.2, `${seconds} s with ${pacing}`);
  }
  {
    using conn = await a.connect({ ...target, pacing: "off" });
    assertEquals(conn.info().pacing, "off");
  }
  const { sockets } = a.inspect();
  const refused = async (options: object, kind: new (text: string) => Error, text: string) => {
    await assertRejects(() => a.connect({ ...target, ...options }), kind, text);
    assert(a.inspect().sockets <= sockets);
  };
  await refused({ pacing: "fast" }, TypeError, 'pacing must be one of edt, qdisc, internal, off, got "fast"');
  for (const maxPacingRateBytesPerSec of [0, -1, NaN, "1M"]) {
    await refused({ maxPacingRateBytesPerSec }, RangeError, "maxPacingRateBytesPerSec must be a number of bytes");
  }
  listener.close();
  await sink;
});

pairTest("host: an answer that is written in pieces leaves in one segment, by conn and by stream", async (openPair) => {
  await using pair = await openPair({ host: { tcp: { noDelay: true } } });
  const { a, b } = pair;
  using listener = b.listen({ port: 80 });
  const byte = new Uint8Array(1);
  for (const by of ["conn", "stream"]) {
    const [conn, served] = await Promise.all([
      a.connect({ hostname: pair.addressB(6), port: 80 }),
      listener.accept(),
    ]);
    const answering = (async () => {
      const writer = by === "stream" ? served.writable.getWriter() : null;
      const write = (bytes: Uint8Array<ArrayBuffer>) => writer === null ? served.write(bytes) : writer.write(bytes);
      while (await served.read(byte.slice()) !== null) {
        for (let piece = 0; piece < 3; piece++) await write(byte);
      }
      await writer?.close();
    })();
    const buffer = new Uint8Array(8);
    for (let i = 0; i < 40; i++) {
      await conn.write(byte);
      for (let n = 0; n < 3;) n += await conn.read(buffer) ?? 3;
    }
    // One of the answer's each time, and the few that open the connection or acknowledge late.
    const { segsIn } = conn.info();
    assert(segsIn < 50, `${segsIn} segments by ${by}`);
    await conn.closeWrite();
    await answering;
    conn.close();
    served.close();
  }
});
