import { assert, assertEquals } from "@std/assert";
import { DropReason } from "../../src/base/drop.ts";
import { SocketErrorKind } from "../../src/base/errors.ts";
import { Rng } from "../../src/base/rng.ts";
import { SECOND } from "../../src/base/time.ts";
import { Simulator } from "../../src/netsim/simulator.ts";
import { enterTimeWait } from "../../src/tcp/close.ts";
import { TcpState } from "../../src/tcp/state.ts";
import { Tcb } from "../../src/tcp/tcb.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { GOOD_LINK, TcpPair } from "../testing/tcp_pair.ts";
import { readAll, TcpTrace } from "../testing/tcp_trace.ts";

Deno.test("limits: an orphan is given up though the peer keeps its window closed and answers", () => {
  for (const bytes of [0, 10_000]) {
    const h = new TcpTrace({ retries: 5 });
    const t = h.established({ win: 20_000 });
    if (bytes > 0) h.write(t, bytes);
    t.close(h.now);
    h.all();
    for (let i = 0; i < 2000 && t.state !== TcpState.Closed; i++) {
      h.pass(1000);
      if (h.all().length > 0 && h.tcp.connectionCount > 0) h.in({ flags: ".", seq: 1, ack: 1, win: 0 });
    }
    assertEquals([t.state, h.tcp.connectionCount], [TcpState.Closed, 0], `${bytes} bytes`);
  }
});

Deno.test("limits: a finished connection keeps no receive memory through TIME-WAIT", () => {
  const h = new TcpTrace();
  const t = h.established();
  t.shutdownWrite(h.now);
  h.in({ flags: "P.", seq: 1, ack: 2, len: 1000 });
  assert(t.receiveRing.memoryBytes > 0);
  h.in({ flags: "F.", seq: 1001, ack: 2 });
  assertEquals(t.state, TcpState.TimeWait);
  assertEquals(readAll(t).length, 1000);
  assertEquals(t.receiveRing.memoryBytes, 0);
});

Deno.test("limits: TIME-WAIT makes room for new connections, the oldest first", () => {
  const h = new TcpTrace({ connectionLimit: 2 });
  const finish = (port: number): void => {
    h.remotePort = port;
    const listener = h.tcp.listen(h.local, h.localPort);
    if (typeof listener === "number") throw new Error(SocketErrorKind[listener]);
    h.in({ flags: "S", seq: 0, mss: 1460 });
    h.in({ flags: ".", seq: 1, ack: 1 });
    const t = listener.accept()!;
    listener.close(h.now);
    t.shutdownWrite(h.now);
    h.flush();
    h.in({ flags: "F.", seq: 1, ack: 2 });
    h.all();
    assertEquals(t.state, TcpState.TimeWait);
    h.pass(10);
  };
  finish(40001);
  finish(40002);
  assertEquals(h.tcp.connectionCount, 2);
  finish(40003);
  assertEquals([...h.tcp.connections()].map((t) => t.remotePort).sort(), [40002, 40003]);
  h.remotePort = 40004;
  h.connect({ localPort: 999 });
  h.remotePort = 40005;
  h.connect({ localPort: 998 });
  assertEquals(
    h.tcp.connect(h.remote, 40006, { localPort: 997 }, h.now),
    SocketErrorKind.NoBufferSpace,
    "open connections are not given up",
  );
});

Deno.test("limits: to find the oldest in TIME-WAIT the others are not looked through, and those that are gone are forgotten", () => {
  const limit = 300;
  const pair = new TcpPair(new Rng(1), 4, 1500, [GOOD_LINK, GOOD_LINK], [
    { connectionLimit: limit, timeWait: SECOND },
    {},
  ]);
  const { tcp, pool } = pair.a;
  pair.a.output = (p) => {
    pool.release(p);
    return DropReason.None;
  };
  let looked = 0;
  const connections = tcp.connections.bind(tcp);
  tcp.connections = function* () {
    looked++;
    yield* connections();
  };
  const waiting: Tcb[] = [];
  let now = 0;
  const add = (): void => {
    const t = tcp.connect(pair.b.address, 80, {}, ++now);
    assert(t instanceof Tcb);
    t.sndNxt = t.sndUna; // as if the SYN, all data and the FIN were acknowledged
    enterTimeWait(t, now);
    waiting.push(t);
  };
  for (let i = 0; i < 4 * limit; i++) {
    add();
    // Each that is new takes the place of the oldest.
    const over = waiting.length - limit;
    if (over > 0) assertEquals([waiting[over - 1]!.state, waiting[over]!.state], [TcpState.Closed, TcpState.TimeWait]);
    assertEquals(tcp.timeWaitCount, Math.min(waiting.length, limit));
    if (i !== 2 * limit) continue;
    waiting.splice(-3, 1)[0]!.abort(now); // one from the middle is gone by itself
    assertEquals([tcp.timeWaitCount, tcp.connectionCount], [limit - 1, limit - 1]);
  }
  assertEquals(looked, 0);
  // All of them end by time; then it begins again.
  now += 2 * SECOND;
  tcp.timeout(now);
  assertEquals([tcp.timeWaitCount, tcp.connectionCount], [0, 0]);
  for (let i = 0; i < limit + 1; i++) add();
  assertEquals([tcp.timeWaitCount, waiting.at(-limit - 1)!.state], [limit, TcpState.Closed]);
});

Deno.test("limits: when all in TIME-WAIT have gone by time, their memory has too", async () => {
  const module = (name: string): string => JSON.stringify(new URL(`../../${name}`, import.meta.url).href);
  const program = `
    import { Rng } from ${module("src/base/rng.ts")};
    import { enterTimeWait } from ${module("src/tcp/close.ts")};
    import { GOOD_LINK, TcpPair } from ${module("tests/testing/tcp_pair.ts")};
    const pair = new TcpPair(new Rng(1), 4, 1500, [GOOD_LINK, GOOD_LINK], [{ timeWait: 1e9 }, {}]);
    const { tcp, pool, events } = pair.a;
    pair.a.output = (p) => (pool.release(p), 0);
    const all = [];
    const add = () => {
      for (let now = 1; now <= 500; now++) {
        const t = tcp.connect(pair.b.address, 80, {}, now);
        t.sndNxt = t.sndUna;
        enterTimeWait(t, now);
        all.push(new WeakRef(t));
      }
      while (events.poll() !== null);
    };
    const held = async () => {
      await new Promise((resolve) => setTimeout(resolve, 5));
      gc();
      return all.filter((ref) => ref.deref() !== undefined).length;
    };
    add();
    const before = await held();
    tcp.timeout(2e9);
    console.log(JSON.stringify([before, tcp.timeWaitCount, await held()]));
  `;
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", "--quiet", "--no-check", "--v8-flags=--expose-gc", program],
    cwd: new URL("../..", import.meta.url),
  }).output();
  const text = new TextDecoder().decode(stdout);
  assert(text !== "", new TextDecoder().decode(stderr));
  const [before, waiting, after] = JSON.parse(text);
  assertEquals([before, waiting], [500, 0]);
  assert(after < 100, `${after} of 500 are still held`);
});

Deno.test("limits: a broadcast address is refused at once", () => {
  const sim = new Simulator({ seed: 1 });
  const a = sim.addStack("a", { address: "10.7.0.1/24", peers: [{ name: "b", allowed: "10.7.0.0/24" }] });
  assertEquals(a.tcp.connect(IpAddr.parse("10.7.0.255"), 80, {}, 0), SocketErrorKind.HostUnreachable);
  assertEquals(a.tcp.connect(IpAddr.parse("10.8.0.1"), 80, {}, 0), SocketErrorKind.HostUnreachable);
  assertEquals(a.tcp.connectionCount, 0);
});

Deno.test("limits: a port is used again at once after the server closed first", () => {
  // The server is in TIME-WAIT: the SYN must look newer to it, by its timestamps (RFC 6191).
  const sim = new Simulator({ seed: 3 });
  const a = sim.addStack("a", { address: "10.7.0.1/24", peers: [{ name: "b", allowed: "10.7.0.2" }] });
  const b = sim.addStack("b", { address: "10.7.0.2/24", peers: [{ name: "a", allowed: "10.7.0.1" }] });
  sim.link(["a", 1], ["b", 1], { delay: 1_000_000 });
  const listener = b.tcp.listen(IpAddr.parse("10.7.0.2"), 80);
  if (typeof listener === "number") throw new Error("listen");
  for (let i = 0; i < 10; i++) {
    const t = a.tcp.connect(IpAddr.parse("10.7.0.2"), 80, { localPort: 5000 }, sim.now);
    if (typeof t === "number") throw new Error(SocketErrorKind[t]);
    const from = sim.now;
    sim.run(from + SECOND / 10);
    assertEquals(t.state, TcpState.Established, `connection ${i}`);
    const served = listener.accept()!;
    served.shutdownWrite(sim.now);
    sim.run(sim.now + SECOND / 10);
    t.shutdownWrite(sim.now);
    sim.run(sim.now + SECOND / 10);
    assertEquals([served.state, t.state], [TcpState.TimeWait, TcpState.Closed]);
  }
});
