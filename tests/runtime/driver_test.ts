/**
 * The driver over a stack that only records what is asked of it, and ports in memory.
 *
 * @module
 */

import { assert, assertEquals, assertGreaterOrEqual, assertInstanceOf, assertLess, assertRejects } from "@std/assert";
import { DropCounters, DropReason } from "../../src/base/drop.ts";
import { EventQueue, type EventSource, SocketEvent } from "../../src/base/event_queue.ts";
import { type Packet, PacketPool } from "../../src/base/packet.ts";
import { type Instant, MILLISECOND, NEVER, SECOND } from "../../src/base/time.ts";
import { MonotonicClock } from "../../src/runtime/clock.ts";
import { type DrivenStack, Driver } from "../../src/runtime/driver.ts";
import { DgramPort } from "../../src/runtime/dgram_port.ts";
import { MemoryNetwork, type MemoryPort } from "../../src/runtime/memory_port.ts";
import { Peer } from "../../src/tunnel/peer_table.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";

/** A stack that keeps what comes in and sends what it is told, each packet not before its `departAt`. */
class RecordingStack implements DrivenStack {
  readonly pool = new PacketPool(4096);
  readonly drops = new DropCounters();
  readonly events = new EventQueue();
  readonly peer: Peer;
  readonly tunnel = { output: (): Peer => this.peer };
  /** Called in each `timeout`. */
  onTimeout: (now: Instant) => void = () => {};
  /** First bytes of the datagrams received, by turn. */
  readonly batches: number[][] = [];
  /** Packets pulled, by turn. */
  readonly pulls: number[] = [];
  /** When each packet left. */
  readonly leftAt: Instant[] = [];
  /** Said by `nextAt` if it is earlier than the packets'. */
  timerAt: Instant = NEVER;
  timeouts = 0;
  #queue: Packet[] = [];
  #batch: number[] = [];
  #pulled = 0;

  constructor(to: IpAddr, port: number) {
    this.peer = new Peer({ name: "peer", ifindex: 1, address: to, port, allowed: [] });
  }

  /** Queues a packet of one byte. */
  enqueue(byte: number, departAt: Instant = 0): void {
    const p = this.pool.acquire()!;
    p.bytes[p.start] = byte;
    p.end = p.start + 1;
    p.departAt = departAt;
    this.#queue.push(p);
  }

  inputDatagram(p: Packet): void {
    this.#batch.push(p.bytes[p.start]!);
    this.pool.release(p);
  }

  timeout(now: Instant): void {
    this.timeouts++;
    this.batches.push(this.#batch);
    this.#batch = [];
    this.pulls.push(this.#pulled);
    this.#pulled = 0;
    if (now >= this.timerAt) this.timerAt = NEVER;
    this.onTimeout(now);
  }

  pull(now: Instant): Packet | null {
    if (this.#queue.length === 0 || this.#queue[0]!.departAt > now) return null;
    this.#pulled++;
    this.leftAt.push(now);
    return this.#queue.shift()!;
  }

  setLateness(): void {}

  nextAt(): Instant {
    return Math.min(this.timerAt, this.#queue[0]?.departAt ?? NEVER);
  }

  pollEvent(): EventSource | null {
    return this.events.poll();
  }
}

/** A driver with a port of its own, and a port at the other end that nobody drives. */
function driverOf(options: { v6?: boolean; start?: boolean } = {}) {
  const address = IpAddr.parse(options.v6 ? "::1" : "127.0.0.1");
  const network = new MemoryNetwork();
  const faults: unknown[] = [];
  const other = {
    pool: new PacketPool(4096),
    drops: new DropCounters(),
    fault: (error: unknown) => faults.push(error),
  };
  const far = network.open(address, 7002, other);
  const stack = new RecordingStack(address, 7002);
  const near = network.open(address, 7001, { pool: stack.pool, drops: stack.drops, fault: other.fault });
  const clock = new MonotonicClock();
  const driver = new Driver({ stack, clock, ports: [near], onFault: (error) => faults.push(error) });
  driver.hold();
  const received = (): number[] => {
    const bytes: number[] = [];
    far.receive(Infinity, {
      inputDatagram: (p) => {
        bytes.push(p.bytes[p.start]!);
        other.pool.release(p);
      },
    }, 0);
    return bytes;
  };
  const sendIn = (...bytes: number[]): void => {
    for (const byte of bytes) {
      const p = other.pool.acquire()!;
      p.bytes[p.start] = byte;
      p.end = p.start + 1;
      far.send(p, near.address, near.port);
    }
  };
  return {
    stack,
    driver,
    clock,
    near,
    far,
    faults,
    received,
    sendIn,
    async [Symbol.asyncDispose]() {
      await driver.stop(new Error("the test is over"));
      await far.close();
      assertEquals(stack.pool.inUse, 0);
      assertEquals(other.pool.inUse, 0);
    },
  };
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Waits until `done`, for ten seconds at most. */
async function until(done: () => boolean): Promise<void> {
  for (let i = 0; i < 10_000 && !done(); i++) await new Promise((resolve) => setTimeout(resolve, 1));
  assert(done());
}

for (const v6 of [false, true]) {
  Deno.test(`driver: datagrams go in and packets go out, over IPv${v6 ? 6 : 4}`, async () => {
    await using d = driverOf({ v6 });
    await turn();
    d.sendIn(1, 2, 3);
    await until(() => d.stack.batches.some((batch) => batch.length > 0));
    assertEquals(d.stack.batches.flat(), [1, 2, 3]);
    d.stack.enqueue(10);
    d.stack.enqueue(11);
    d.driver.wake();
    await until(() => d.far.waiting === 2);
    assertEquals(d.received(), [10, 11]);
    assertEquals(d.driver.stats().datagramsIn, 3);
    assertEquals(d.driver.stats().packetsOut, 2);
  });
}

Deno.test("driver: many wakes in a row make one turn, and it is a later one", async () => {
  await using d = driverOf();
  await turn();
  await turn();
  const before = d.stack.timeouts;
  for (let i = 0; i < 1000; i++) {
    d.stack.enqueue(i & 255);
    d.driver.wake();
    if (i % 100 === 0) await Promise.resolve();
  }
  assertEquals(d.stack.timeouts, before);
  await turn();
  assertEquals(d.stack.timeouts, before + 1);
  await until(() => d.stack.leftAt.length === 1000);
});

/** Has `onEvents` called in each turn that brings a datagram. */
function tellOfDatagrams(stack: RecordingStack, onEvents: () => void): void {
  const source: EventSource = { events: 0, eventQueued: false, user: { onEvents } };
  stack.onTimeout = () => {
    if (stack.batches.at(-1)!.length > 0) stack.events.raise(source, SocketEvent.Readable);
  };
}

Deno.test("driver: an answer leaves before the event loop goes on, with all that the program writes at once", async () => {
  await using d = driverOf();
  await turn();
  await turn();
  const order: string[] = [];
  tellOfDatagrams(d.stack, async () => {
    await null;
    d.stack.enqueue(1);
    d.driver.wake();
    setImmediate(() => order.push(`turns ${d.stack.timeouts - before}, left ${d.stack.leftAt.length}`));
    // Writes that are awaited, and another one behind each.
    for (let n = 2; n <= 20; n++) {
      await (async () => {})();
      d.stack.enqueue(n);
      d.driver.wake();
    }
  });
  d.sendIn(7);
  const before = d.stack.timeouts;
  await until(() => order.length > 0);
  assertEquals(order, ["turns 2, left 20"]);
  assertEquals(d.stack.pulls.filter((n) => n > 0).length, 0);
  await turn();
  d.driver.wake();
  await turn();
  assertEquals(d.stack.pulls.filter((n) => n > 0), [20]);
});

Deno.test("driver: an answer to an answer waits for the event loop", async () => {
  await using d = driverOf();
  await turn();
  await turn();
  let isOver = false;
  const source: EventSource = {
    events: 0,
    eventQueued: false,
    user: {
      onEvents: async () => {
        await null;
        if (!isOver) d.driver.wake();
      },
    },
  };
  // Somebody who always has more to say, as a program with bulk to send.
  d.stack.onTimeout = () => d.stack.timeouts < 10_000 && d.stack.events.raise(source, SocketEvent.Writable);
  d.sendIn(7);
  const before = d.stack.timeouts;
  await turn();
  assertEquals(d.stack.timeouts - before, 2);
  await turn();
  assertEquals(d.stack.timeouts - before, 3);
  await turn();
  assertEquals(d.stack.timeouts - before, 4);
  isOver = true;
});

Deno.test("driver: a turn takes 64 datagrams and 64 packets at most", async () => {
  await using d = driverOf();
  await turn();
  d.sendIn(...Array.from({ length: 200 }, (_, i) => i));
  for (let i = 0; i < 200; i++) d.stack.enqueue(i);
  await until(() => d.far.waiting === 200 && d.stack.batches.flat().length === 200);
  assertEquals(d.stack.batches.filter((batch) => batch.length > 0).map((batch) => batch.length), [64, 64, 64, 8]);
  assertEquals(d.stack.pulls.filter((n) => n > 0).slice(0, 3), [64, 64, 64]);
  assertEquals(d.received(), Array.from({ length: 200 }, (_, i) => i));
});

Deno.test("driver: input comes in between batches of output, on real sockets", async () => {
  const address = IpAddr.parse("127.0.0.1");
  const other = { pool: new PacketPool(4096), drops: new DropCounters(), fault: () => {} };
  const far = await DgramPort.open(address, 0, other);
  const stack = new RecordingStack(address, far.port);
  const near = await DgramPort.open(address, 0, { pool: stack.pool, drops: stack.drops, fault: () => {} });
  const driver = new Driver({ stack, clock: new MonotonicClock(), ports: [near], onFault: () => {} });
  driver.hold();
  let left = -1;
  stack.onTimeout = () => {
    if (left < 0 && stack.batches.some((batch) => batch.length > 0)) left = stack.leftAt.length;
  };
  far.onReadable = () => {
    const p = other.pool.acquire()!;
    p.end = p.start + 1;
    far.send(p, near.address, near.port);
    far.onReadable = () => {};
  };
  for (let i = 0; i < 4000; i++) stack.enqueue(i & 255);
  driver.wake();
  await until(() => stack.leftAt.length === 4000 && left >= 0);
  // Without care for it the runtime would look at its sockets once in 61 batches of 64.
  assertLess(left, 2000);
  await driver.stop(new Error("the test is over"));
  await far.close();
  assertEquals(stack.pool.inUse, 0);
});

Deno.test("driver: an idle host does nothing", async () => {
  await using d = driverOf();
  await turn();
  await turn();
  const before = d.stack.timeouts;
  await new Promise((resolve) => setTimeout(resolve, 50));
  assertEquals(d.stack.timeouts, before);
});

Deno.test("driver: nothing leaves before its time, and lateness is measured", async () => {
  await using d = driverOf();
  const start = d.clock.now();
  const times = Array.from({ length: 40 }, (_, i) => start + (i + 1) * 0.7 * MILLISECOND);
  times.forEach((at, i) => d.stack.enqueue(i, Math.round(at)));
  d.driver.wake();
  await until(() => d.stack.leftAt.length === times.length);
  d.stack.leftAt.forEach((left, i) => assertGreaterOrEqual(left, Math.round(times[i]!)));
  const { lateness } = d.driver.stats();
  assertGreaterOrEqual(lateness.count, 1);
  assertLess(lateness.max, 5 * SECOND);
});

Deno.test("driver: timers run, with no packet in sight", async () => {
  await using d = driverOf();
  const at = d.clock.now() + 5 * MILLISECOND;
  d.stack.timerAt = at;
  let ranAt = 0;
  d.stack.onTimeout = (now) => {
    if (now >= at && ranAt === 0) ranAt = now;
  };
  d.driver.wake();
  await until(() => ranAt > 0);
  assertGreaterOrEqual(ranAt, at);
});

Deno.test("driver: pulls no more than the port has room for, and goes on when there is room again", async () => {
  await using d = driverOf();
  await turn();
  (d.near as MemoryPort).hold = true;
  for (let i = 0; i < 100; i++) d.stack.enqueue(i);
  const room = d.near.room();
  assertLess(room, 100);
  d.driver.wake();
  await until(() => d.near.room() === 0);
  await new Promise((resolve) => setTimeout(resolve, 20));
  assertEquals(d.stack.leftAt.length, room);
  // Timers still run while the port is full.
  d.stack.timerAt = d.clock.now() + MILLISECOND;
  await until(() => d.stack.timerAt === NEVER);
  (d.near as MemoryPort).releaseHeld();
  await until(() => d.far.waiting === 100);
  assertEquals(d.received(), Array.from({ length: 100 }, (_, i) => i));
  assertEquals(d.stack.drops.total(), 0);
});

Deno.test("driver: what became due while packets were being sent does not wait for the sleeper", async () => {
  const address = IpAddr.parse("127.0.0.1");
  const network = new MemoryNetwork();
  const stack = new RecordingStack(address, 7002);
  const context = { pool: stack.pool, drops: stack.drops, fault: () => {} };
  const near = network.open(address, 7001, context);
  let now = 0;
  const sleptUntil: Instant[] = [];
  const sleeper = {
    kind: "timeout" as const,
    deadline: NEVER,
    sleepUntil: (deadline: Instant) => void sleptUntil.push(deadline), // and never calls
    traffic() {},
    keepAlive() {},
    cancel() {},
    close: () => Promise.resolve(),
  };
  const times = Array.from({ length: 20 }, (_, i) => i * MILLISECOND);
  for (const at of [...times, SECOND]) stack.enqueue(1, at);
  near.hold = true;
  const driver = new Driver({
    stack,
    clock: { now: () => now },
    ports: [near],
    sleeper: () => sleeper,
    onFault: () => {},
  });
  for (let sent = 1; sent <= times.length; sent++) {
    while (stack.leftAt.length < sent) await turn();
    // This one takes a millisecond to send.
    now += MILLISECOND;
    near.releaseHeld();
    near.hold = true;
  }
  for (let i = 0; i < 100; i++) await turn();
  assertEquals(stack.leftAt, times);
  assertEquals(sleptUntil, [...times.slice(1), SECOND]);
  await driver.stop(new Error("the test is over"));
});

Deno.test("driver: a packet for a family without a port is a counted drop", async () => {
  await using d = driverOf();
  const elsewhere = new Peer({ name: "six", ifindex: 1, address: IpAddr.parse("fd07::9"), port: 1, allowed: [] });
  d.stack.tunnel.output = () => elsewhere;
  d.stack.enqueue(1);
  d.driver.wake();
  await until(() => d.stack.leftAt.length === 1);
  assertEquals(d.stack.drops.get(DropReason.PortSend), 1);
});

Deno.test("driver: a stack that says now for ever without work does not take the whole processor", async () => {
  await using d = driverOf();
  d.stack.timerAt = 0;
  d.stack.onTimeout = () => d.stack.timerAt = 0;
  d.driver.wake();
  await turn();
  const before = d.stack.timeouts;
  await new Promise((resolve) => setTimeout(resolve, 100));
  assertLess(d.stack.timeouts - before, 200);
  d.stack.onTimeout = () => {};
});

Deno.test("driver: events reach their user once, with all their bits", async () => {
  await using d = driverOf();
  const told: number[] = [];
  const source: EventSource = {
    events: 0,
    eventQueued: false,
    user: { onEvents: (events: number) => told.push(events) },
  };
  d.stack.events.raise(source, SocketEvent.Readable);
  d.stack.events.raise(source, SocketEvent.Writable);
  d.stack.events.raise({ events: 0, eventQueued: false, user: null }, SocketEvent.Closed);
  d.driver.wake();
  await until(() => told.length > 0);
  await turn();
  assertEquals(told, [SocketEvent.Readable | SocketEvent.Writable]);
  assertEquals(source.events, 0);
});

Deno.test("driver: sleepers wake in the order of their deadlines, none early", async () => {
  await using d = driverOf();
  const now = d.clock.now();
  const order: number[] = [];
  const sleep = async (distance: number) => {
    await d.driver.sleepUntil(now + distance * MILLISECOND);
    assertGreaterOrEqual(d.clock.now(), now + distance * MILLISECOND);
    order.push(distance);
  };
  await Promise.all([8, 2, 5, -1, 3].map(sleep));
  assertEquals(order, [-1, 2, 3, 5, 8]);
});

Deno.test("driver: a sleep is given up by its signal, and leaves nothing", async () => {
  await using d = driverOf();
  await assertRejects(
    () => d.driver.sleepUntil(SECOND, AbortSignal.abort(new TypeError("before"))),
    TypeError,
    "before",
  );
  const abort = new AbortController();
  const sleeping = d.driver.sleepUntil(d.clock.now() + 3600 * SECOND, abort.signal);
  abort.abort(new TypeError("enough"));
  await assertRejects(() => sleeping, TypeError, "enough");
  await d.driver.sleepUntil(d.clock.now() + MILLISECOND);
});

Deno.test("driver: a fault stops nothing silently", async () => {
  await using d = driverOf();
  await turn();
  d.stack.onTimeout = () => {
    throw new RangeError("a fault of the program");
  };
  d.driver.wake();
  await until(() => d.faults.length > 0);
  assertInstanceOf(d.faults[0], RangeError);
});

Deno.test("driver: stopping rejects whoever sleeps, and nothing runs afterwards", async () => {
  await using d = driverOf();
  await turn();
  const sleeping = d.driver.sleepUntil(d.clock.now() + 3600 * SECOND);
  const rejected = assertRejects(() => sleeping, Error, "stopped");
  await d.driver.stop(new Error("stopped"));
  await rejected;
  const before = d.stack.timeouts;
  d.driver.wake();
  await turn();
  await turn();
  assertEquals(d.stack.timeouts, before);
  await assertRejects(() => d.driver.sleepUntil(0), Error, "stopped");
});

Deno.test("driver: a port that cannot be closed does not keep the others open, and is told of", async () => {
  const network = new MemoryNetwork();
  const stack = new RecordingStack(IpAddr.parse("127.0.0.1"), 7002);
  const context = { pool: stack.pool, drops: stack.drops, fault: () => {} };
  const [four, six] = ["127.0.0.1", "::1"].map((text) => network.open(IpAddr.parse(text), 7001, context)) as [
    MemoryPort,
    MemoryPort,
  ];
  four.close = () => Promise.reject(new RangeError("it cannot be closed"));
  const close = six.close.bind(six);
  six.close = () => new Promise((resolve) => setTimeout(() => resolve(close()), 10));
  const onFault = () => {};
  const driver = new Driver({ stack, clock: new MonotonicClock(), ports: [four, six], onFault });
  for (let i = 0; i < 2; i++) {
    await assertRejects(() => driver.stop(new Error("stopped")), RangeError, "it cannot be closed");
    assertEquals(network.find(six.address, 7001), null);
  }
});

Deno.test("driver: letting go while it stops does not end the process before it has stopped", async () => {
  const module = (name: string) => JSON.stringify(new URL(`../../src/${name}`, import.meta.url).href);
  const program = `
    import { Driver } from ${module("runtime/driver.ts")};
    import { MonotonicClock } from ${module("runtime/clock.ts")};
    import { IpAddr } from ${module("wire/ip_addr.ts")};
    const stack = {
      pool: { inUse: 0 },
      tunnel: null,
      timeout() {},
      nextAt: () => Infinity,
      pollEvent: () => null,
    };
    const port = {
      kind: "memory",
      address: IpAddr.parse("127.0.0.1"),
      waiting: 0,
      receive: () => 0,
      close: () => new Promise((resolve) => Deno.unrefTimer(setTimeout(resolve, 100))),
    };
    const driver = new Driver({ stack, clock: new MonotonicClock(), ports: [port], onFault() {} });
    driver.hold();
    driver.stop(new Error("stopped")).then(() => console.log("stopped"));
    driver.letGo();`;
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", "--no-check", program],
    cwd: new URL("../..", import.meta.url),
  }).output();
  assertEquals([success, new TextDecoder().decode(stdout)], [true, "stopped\n"], new TextDecoder().decode(stderr));
});

Deno.test("driver: drain waits for packets on their way, but not beyond its deadline", async () => {
  await using d = driverOf();
  const now = d.clock.now();
  d.stack.enqueue(1, now + 5 * MILLISECOND);
  await d.driver.drain(now + 10 * SECOND);
  assertEquals(d.stack.pool.inUse, 0);
  assertEquals(d.received(), [1]);
  const held = d.stack.pool.acquire()!;
  await d.driver.drain(d.clock.now() + 5 * MILLISECOND);
  d.stack.pool.release(held);
});
