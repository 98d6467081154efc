import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { type EventSource, SocketEvent } from "../../src/base/event_queue.ts";
import { type Instant, MILLISECOND, NEVER, SECOND } from "../../src/base/time.ts";
import { Simulator } from "../../src/netsim/simulator.ts";
import type { SimApp } from "../../src/netsim/topology.ts";
import type { Stack } from "../../src/stack/stack.ts";
import { TcpListener } from "../../src/tcp/listener.ts";
import { Tcb } from "../../src/tcp/tcb.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { patternByte } from "../testing/tcp_trace.ts";

const BYTES = 400_000;

/** Accepts, checks every byte, closes when the peer does. */
class Sink implements SimApp {
  received = 0;
  done = false;
  doneAt: Instant = NEVER;
  readonly #buffer = new Uint8Array(8192);

  onEvent(source: EventSource, _events: number, now: Instant): void {
    if (source instanceof TcpListener) {
      for (let t = source.accept(); t !== null; t = source.accept()) this.#read(t, now);
    } else if (source instanceof Tcb) {
      this.#read(source, now);
    }
  }

  #read(t: Tcb, now: Instant): void {
    for (let n = t.read(this.#buffer); n > 0; n = t.read(this.#buffer)) {
      for (let i = 0; i < n; i++) assertEquals(this.#buffer[i], patternByte(this.received + i));
      this.received += n;
    }
    if (t.readEnded && !this.done) {
      this.done = true;
      this.doneAt = now;
      t.close(now);
    }
  }
}

/** Sends the pattern, then closes its side. */
class Source implements SimApp {
  conn: Tcb | null = null;
  #sent = 0;
  readonly #data = Uint8Array.from({ length: BYTES }, (_, i) => patternByte(i));

  onEvent(source: EventSource, events: number, now: Instant): void {
    if (source !== this.conn || (events & SocketEvent.Writable) === 0) return;
    const n = this.conn!.write(this.#data, this.#sent, BYTES);
    if (n > 0) this.#sent += n;
    if (this.#sent === BYTES) this.conn!.shutdownWrite(now);
  }
}

interface Run {
  sim: Simulator;
  sink: Sink;
  source: Source;
  stacks: Stack[];
}

/** a - r - b: r forwards. */
function chain(seed: number, family: 4 | 6, more: (sim: Simulator) => void = () => {}): Run {
  const address = (n: number): string => family === 4 ? `10.0.0.${n}` : `fd00::${n}`;
  const sim = new Simulator({ seed });
  const sink = new Sink();
  const source = new Source();
  const host = family === 4 ? 32 : 128;
  more(sim);
  const a = sim.addStack("a", {
    address: `${address(1)}/${host}`,
    peers: [{ name: "r", allowed: address(2), mtu: 1500 }],
    routes: [{ to: address(3), via: "r" }],
  }, source);
  const r = sim.addStack("r", {
    address: `${address(2)}/${host}`,
    forward: true,
    peers: [{ name: "a", allowed: address(1), mtu: 1500 }, { name: "b", allowed: address(3), mtu: 1500 }],
  });
  const b = sim.addStack("b", {
    address: `${address(3)}/${host}`,
    peers: [{ name: "r", allowed: address(2), mtu: 1500 }],
    routes: [{ to: address(1), via: "r" }],
  }, sink);
  const impair = "delay 5ms 1ms loss 1% rate 20mbit";
  sim.link(["a", 1], ["r", 1], { delay: 2 * MILLISECOND, impair }, { delay: 2 * MILLISECOND, impair });
  sim.link(["r", 2], ["b", 1], { delay: 3 * MILLISECOND, impair }, { delay: 3 * MILLISECOND, impair });
  const remote = IpAddr.parse(address(3));
  assert(b.tcp.listen(remote, 80) instanceof TcpListener);
  const conn = a.tcp.connect(remote, 80, {}, 0);
  assert(conn instanceof Tcb);
  source.conn = conn;
  return { sim, sink, source, stacks: [a, r, b] };
}

function finish(run: Run): Run {
  run.sim.run(600 * SECOND, () => run.sink.done);
  return run;
}

for (const family of [4, 6] as const) {
  Deno.test(`netsim: TCP over IPv${family} through a router arrives intact and leaks nothing`, () => {
    const run = finish(chain(1, family));
    assertEquals([run.sink.received, run.sink.done], [BYTES, true]);
    assert(run.stacks[1]!.ip.forwarded > 2 * BYTES / 1460 / 2);
    const conn = run.source.conn!;
    assert(conn.counters.fastRetransmits + conn.counters.timeoutRetransmits > 0, "1 % loss must show");
    assert(conn.info().minRtt >= 26, `minimum RTT ${conn.info().minRtt} ms, expected at least 4 × (5 − 1) + 10 ms`);
    run.sim.run(run.sim.now + 200 * SECOND);
    assertEquals(run.stacks.map((s) => s.pool.inUse), [0, 0, 0]);
    assertEquals(run.stacks.map((s) => s.tcp.connectionCount), [0, 0, 0]);
  });
}

Deno.test("netsim: the same seed twice gives the same digest and time, another seed another", () => {
  const [first, second, other] = [finish(chain(7, 4)), finish(chain(7, 4)), finish(chain(8, 4))];
  assertEquals(first.sim.digest, second.sim.digest);
  assertEquals(first.sink.doneAt, second.sink.doneAt);
  assertNotEquals(first.sim.digest, other.sim.digest);
});

Deno.test("netsim: hosts that are added leave the traffic of the others as it was", () => {
  const alone = finish(chain(7, 4));
  const crowded = finish(chain(7, 4, (sim) => {
    const x = sim.addStack("x", { address: "10.9.0.1/24", peers: [{ name: "y", allowed: "10.9.0.2" }] });
    const y = sim.addStack("y", { address: "10.9.0.2/24", peers: [{ name: "x", allowed: "10.9.0.1" }] });
    sim.link(["x", 1], ["y", 1], { impair: "delay 1ms loss 5%" });
    y.tcp.listen(IpAddr.parse("10.9.0.2"), 9);
    const t = x.tcp.connect(IpAddr.parse("10.9.0.2"), 9, {}, 0);
    assert(t instanceof Tcb);
    t.write(new Uint8Array(50_000), 0, 50_000);
  }));
  assertEquals(crowded.sink.doneAt, alone.sink.doneAt);
  assertEquals(crowded.source.conn!.info(), alone.source.conn!.info());
});
