/**
 * The sleeper that polls: never early, woken by datagrams, adapting its spin, and idle when nothing happens.
 *
 * @module
 */

import { assert, assertEquals, assertGreater, assertGreaterOrEqual, assertLess } from "@std/assert";
import { type Instant, MICROSECOND, MILLISECOND, NEVER, SECOND } from "../../../src/base/time.ts";
import { MonotonicClock } from "../../../src/runtime/clock.ts";
import { POLLS_AT_ONCE } from "../../../src/runtime/linux/poller.ts";
import { PollSleeper } from "../../../src/runtime/linux/poll_sleeper.ts";
import { type Host, openHost } from "../../../src/runtime/open_host.ts";
import type { SleeperKind } from "../../../src/runtime/sleeper.ts";
import type { PolledPort } from "../../../src/runtime/udp_port.ts";
import { FakeLibc } from "../../testing/fake_libc.ts";
import { freePort, NO_LINUX_PORT } from "../../testing/host_pair.ts";
import { libcForTest } from "../../testing/port_poll.ts";

const ignore = NO_LINUX_PORT !== "";
const KINDS: readonly SleeperKind[] = ["ppoll", "hop", "timeout", "spin"];

/** A sleeper without sockets, with a promise for its next waking. */
function sleeperOf(kind: SleeperKind, keepAlive = true) {
  const clock = new MonotonicClock();
  let onDue: (now: Instant) => void = () => {};
  const sleeper = new PollSleeper(kind, libcForTest(), [], clock, () => onDue(clock.now()));
  sleeper.keepAlive(keepAlive);
  const due = () => new Promise<Instant>((resolve) => onDue = resolve);
  const interval = setInterval(() => {}, 1000);
  return {
    clock,
    sleeper,
    due,
    async [Symbol.asyncDispose]() {
      clearInterval(interval);
      await sleeper.close();
    },
  };
}

for (const kind of KINDS) {
  for (const keepAlive of [true, false]) {
    const name = `poll sleeper ${kind}${keepAlive ? "" : ", unref'd"}`;

    Deno.test({
      name: `${name}: wakes at or after the deadline, whatever its distance`,
      ignore,
      async fn() {
        await using s = sleeperOf(kind, keepAlive);
        for (
          const distance of [0, 1, 1000, 0.15 * MILLISECOND, 0.4 * MILLISECOND, 1.7 * MILLISECOND, 7 * MILLISECOND]
        ) {
          const now = s.clock.now();
          const deadline = now + distance;
          const due = s.due();
          s.sleeper.traffic(now);
          s.sleeper.sleepUntil(deadline, now);
          assertGreaterOrEqual(await due, deadline);
          assertEquals(s.sleeper.deadline, NEVER);
        }
      },
    });

    Deno.test({
      name: `${name}: deadlines that move near are met, those that move away or are given up are not`,
      ignore,
      async fn() {
        await using s = sleeperOf(kind, keepAlive);
        let now = s.clock.now();
        s.sleeper.sleepUntil(NEVER, now);
        s.sleeper.sleepUntil(now + 10 * SECOND, now);
        let due = s.due();
        await new Promise((resolve) => setTimeout(resolve, 2));
        now = s.clock.now();
        s.sleeper.sleepUntil(now + 5 * MILLISECOND, now);
        let woken = await due;
        assertGreaterOrEqual(woken, now + 5 * MILLISECOND);
        assertLess(woken, now + 9 * SECOND);

        now = s.clock.now();
        due = s.due();
        s.sleeper.sleepUntil(now + 2 * MILLISECOND, now);
        s.sleeper.sleepUntil(now + 9 * MILLISECOND, now);
        woken = await due;
        assertGreaterOrEqual(woken, now + 9 * MILLISECOND);

        let isWoken = false;
        s.due().then(() => isWoken = true);
        now = s.clock.now();
        s.sleeper.sleepUntil(now + 2 * MILLISECOND, now);
        s.sleeper.cancel();
        await new Promise((resolve) => setTimeout(resolve, 6));
        assertEquals(isWoken, false);
      },
    });
  }
}

Deno.test({
  name: "poll sleeper ppoll: is closer than the timer",
  ignore,
  async fn() {
    await using s = sleeperOf("ppoll");
    const late: number[] = [];
    for (let i = 0; i < 21; i++) {
      const now = s.clock.now();
      const deadline = now + 5.5 * MILLISECOND;
      const due = s.due();
      s.sleeper.sleepUntil(deadline, now);
      late.push(await due - deadline);
    }
    assertLess(late.toSorted((a, b) => a - b)[2]!, MILLISECOND);
  },
});

const turns = async (n: number): Promise<void> => {
  for (let i = 0; i < n; i++) await new Promise<void>((resolve) => setImmediate(resolve));
};

const pause = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** A sleeper under a clock and a kernel that the test holds in its hand. */
function heldSleeper(kind: SleeperKind = "ppoll") {
  let time = 1000;
  const state = {
    looks: 0,
    isReadable: false,
    isBlocked: false,
    polls: [] as (number | null)[],
    kicks: 0,
    dues: 0,
    onLook: () => {},
  };
  let ret: ((found: number) => void) | null = null;
  const libc = Object.assign(new FakeLibc(), {
    ppoll: (_fds: Uint8Array, _count: number, timeout: Uint8Array | null) => {
      const view = timeout === null ? null : new DataView(timeout.buffer, timeout.byteOffset);
      state.polls.push(
        view === null ? null : Number(view.getBigInt64(0, true)) * SECOND + Number(view.getBigInt64(8, true)),
      );
      return new Promise<number>((resolve) => ret = resolve);
    },
    write: () => {
      state.kicks++;
      ret?.(1);
      return 8;
    },
  });
  const port = {
    fd: 5,
    get isBlocked() {
      return state.isBlocked;
    },
    look: () => {
      state.looks++;
      state.onLook();
      return state.isReadable;
    },
  } as unknown as PolledPort;
  const sleeper = new PollSleeper(kind, libc, [port], { now: () => time }, () => state.dues++);
  sleeper.keepAlive(true);
  return {
    state,
    sleeper,
    libc,
    now: () => time,
    advance: (duration: number) => time += duration,
    /** Has the poll under way return. */
    async return(found = 1) {
      ret!(found);
      ret = null;
      await turns(2);
    },
    async [Symbol.asyncDispose]() {
      await sleeper.close();
      assertEquals([libc.releases, libc.closed], [1, [9]]);
    },
  };
}

Deno.test("poll sleeper: after traffic it looks in every turn, then polls; without, it polls at once", async () => {
  await using h = heldSleeper();
  h.sleeper.sleepUntil(NEVER, h.now());
  assertEquals([h.state.looks, h.state.polls], [0, [null]]);
  await h.return();
  assertEquals(h.state.polls.length, 2);

  h.sleeper.traffic(h.now());
  h.sleeper.sleepUntil(NEVER, h.now());
  h.state.looks = 0;
  // Whatever the traffic made ready has its turn before the first look.
  await turns(1);
  assertEquals(h.state.looks, 0);
  await turns(20);
  assertGreater(h.state.looks, 15);
  h.advance(510 * MICROSECOND);
  await turns(2);
  const { looks } = h.state;
  await turns(10);
  assertEquals(h.state.looks, looks);
});

Deno.test("poll sleeper: the spin is long while answers come soon, whatever comes in between, and else short or none", async () => {
  await using h = heldSleeper();
  /** How long it spins after traffic, in µs, if a datagram comes `answerIn` µs after that. */
  const round = async (answerIn: number): Promise<number> => {
    h.state.isReadable = false;
    const from = h.now();
    h.sleeper.traffic(from);
    h.sleeper.sleepUntil(NEVER, from);
    for (let spun = 0;; spun += 25) {
      h.state.isReadable = spun >= answerIn;
      const { looks } = h.state;
      await turns(3);
      if (h.state.isReadable) return spun;
      if (h.state.looks === looks) {
        h.advance(answerIn * MICROSECOND - (h.now() - from));
        h.state.isReadable = true;
        await h.return();
        // One more turn was made to see that the spin was over.
        return spun - 25;
      }
      h.advance(25 * MICROSECOND);
    }
  };
  const rounds = async (n: number, answerIn: number): Promise<number[]> => {
    const spins = [];
    for (let i = 0; i < n; i++) spins.push(await round(answerIn));
    return spins;
  };
  // A host that knows nothing yet waits for an answer, once.
  assertEquals(await rounds(3, 5000), [500, 50, 50]);
  const late = await rounds(20, 5000);
  for (const [i, spun] of late.entries()) assert(i === 0 || spun <= late[i - 1]!, `${late}`);
  assertEquals([late[0], late.at(-1)], [50, -25]);
  // Answers after 200 µs: at first they come by the poll, in the end by the spin.
  const soon = await rounds(12, 200);
  assertEquals([soon[0], soon[1], soon.at(-1)], [-25, 50, 200]);
  for (const [i, spun] of soon.entries()) assert(i === 0 || spun >= soon[i - 1]!, `${soon}`);
  await rounds(12, 100);
  for (const pause of [1000, 50_000, 1000]) {
    assertEquals(await rounds(1, pause), [500]);
    assertEquals(await rounds(4, 100), [100, 100, 100, 100]);
  }
});

Deno.test("poll sleeper: the poll ends before the deadline, and the rest is turns", async () => {
  await using h = heldSleeper();
  h.sleeper.sleepUntil(h.now() + 3 * MILLISECOND, h.now());
  assertEquals(h.state.polls, [2.7 * MILLISECOND]);
  h.advance(2.7 * MILLISECOND);
  await h.return(0);
  await turns(5);
  assertEquals([h.state.polls.length, h.state.dues], [1, 0]);
  h.advance(0.3 * MILLISECOND);
  await turns(2);
  assertEquals(h.state.dues, 1);
});

Deno.test("poll sleeper: a nearer deadline ends the poll, a later one does not; room is watched for", async () => {
  await using h = heldSleeper();
  h.sleeper.sleepUntil(h.now() + SECOND, h.now());
  h.sleeper.sleepUntil(h.now() + 2 * SECOND, h.now());
  assertEquals([h.state.polls.length, h.state.kicks], [1, 0]);
  h.sleeper.sleepUntil(h.now() + 0.5 * SECOND, h.now());
  await turns(2);
  assertEquals([h.state.polls, h.state.kicks], [[SECOND - 0.3 * MILLISECOND, 0.5 * SECOND - 0.3 * MILLISECOND], 1]);
  h.state.isBlocked = true;
  h.sleeper.sleepUntil(h.now() + 0.5 * SECOND, h.now());
  await turns(2);
  assertEquals([h.state.polls.length, h.state.kicks], [3, 2]);
  h.sleeper.sleepUntil(h.now() + 0.5 * SECOND, h.now());
  await turns(2);
  assertEquals(h.state.kicks, 2);
});

Deno.test("poll sleeper: a poll that fails is not repeated at full speed", async () => {
  await using h = heldSleeper();
  h.sleeper.sleepUntil(NEVER, h.now());
  await h.return(-1);
  await turns(20);
  assertEquals(h.state.polls.length, 1);
  await new Promise((resolve) => setTimeout(resolve, 20));
  assertEquals(h.state.polls.length, 2);
});

Deno.test("poll sleeper: told not to keep the process alive, it ends the poll and looks now and then", async () => {
  await using h = heldSleeper("hop");
  h.sleeper.sleepUntil(NEVER, h.now());
  assertEquals(h.state.polls.length, 1);
  h.sleeper.keepAlive(false);
  await turns(2);
  assertEquals([h.state.polls.length, h.state.kicks], [1, 1]);
  const { looks } = h.state;
  await new Promise((resolve) => setTimeout(resolve, 30));
  assertGreater(h.state.looks, looks + 1);
  assertLess(h.state.looks, looks + 30);
  h.sleeper.keepAlive(true);
  assertEquals(h.state.polls.length, 2);
});

for (const where of ["poll", "turn"]) {
  Deno.test(`poll sleeper: what is looked at may close it, after a ${where}`, async () => {
    const h = heldSleeper();
    if (where === "turn") h.sleeper.traffic(h.now());
    h.sleeper.sleepUntil(h.now() + SECOND, h.now());
    let closing: Promise<void> | null = null;
    h.state.onLook = () => closing ??= h.sleeper.close();
    if (where === "poll") await h.return();
    else await turns(3);
    assert(closing !== null);
    const { polls, looks } = h.state;
    assertEquals([polls.length, looks], [where === "poll" ? 1 : 0, 1]);
    await closing;
    h.advance(2 * SECOND);
    await pause(10);
    assertEquals([h.state.polls.length, h.state.looks, h.state.dues], [polls.length, 1, 0]);
    // A second close gives nothing back twice.
    await h[Symbol.asyncDispose]();
  });
}

Deno.test("poll sleeper: traffic does not multiply the looks of a host that may not keep the process alive", async () => {
  for (const kind of KINDS) {
    await using h = heldSleeper(kind);
    h.sleeper.keepAlive(false);
    await turns(2);
    const looksIn30ms = async (): Promise<number> => {
      const { looks } = h.state;
      await pause(30);
      return h.state.looks - looks;
    };
    h.sleeper.sleepUntil(NEVER, h.now());
    assertLess(await looksIn30ms(), 30);
    for (let i = 0; i < 40; i++) {
      h.sleeper.traffic(h.now());
      h.sleeper.sleepUntil(NEVER, h.now());
      await turns(3);
      h.advance(510 * MICROSECOND);
      await turns(2);
    }
    const looks = await looksIn30ms();
    assertGreater(looks, 1);
    assertLess(looks, 30);
  }
});

Deno.test("poll sleeper: with too many polls under way it looks, meets its deadlines, and polls when one has ended", async () => {
  await using others = new AsyncDisposableStack();
  const held = [];
  for (let i = 0; i < POLLS_AT_ONCE; i++) {
    const h = heldSleeper();
    others.use(h);
    h.sleeper.sleepUntil(NEVER, h.now());
    assertEquals(h.state.polls, [null]);
    held.push(h);
  }
  await using h = heldSleeper();
  for (const distance of [10 * SECOND, 7 * MILLISECOND, 1.5 * MILLISECOND, 0.1 * MILLISECOND]) {
    const before = { ...h.state };
    h.sleeper.sleepUntil(h.now() + distance, h.now());
    h.advance(distance - 1);
    await pause(8);
    assertEquals(h.state.dues, before.dues);
    assertGreater(h.state.looks, before.looks);
    h.advance(1);
    await pause(8);
    assertEquals(h.state.dues, before.dues + 1);
  }
  assertEquals(h.state.polls, []);
  h.sleeper.sleepUntil(NEVER, h.now());
  held[0]!.sleeper.keepAlive(false);
  await turns(2);
  await pause(8);
  assertEquals(h.state.polls, [null]);
});

/** So many hosts, each with its two neighbours for peers. */
async function openRing(count: number): Promise<{ hosts: Host[] } & AsyncDisposable> {
  for (let tries = 1;; tries++) {
    const stack = new AsyncDisposableStack();
    const hosts: Host[] = [];
    const base = Math.min(await freePort(), 65_536 - count);
    try {
      for (let i = 0; i < count; i++) {
        const neighbours = [(i + 1) % count, (i + count - 1) % count];
        const host = await openHost({
          port: "linux",
          address: `10.7.0.${i + 1}/24`,
          listen: `127.0.0.1:${base + i}`,
          peers: neighbours.map((j) => ({ endpoint: `127.0.0.1:${base + j}`, allowed: `10.7.0.${j + 1}` })),
        });
        hosts.push(stack.use(host));
      }
      return { hosts, [Symbol.asyncDispose]: () => stack.disposeAsync() };
    } catch (error) {
      await stack.disposeAsync();
      if (!(error instanceof Deno.errors.AddrInUse) || tries === 5) throw error;
    }
  }
}

Deno.test({
  name: "poll sleeper: many hosts in a process hear of datagrams, and leave threads for other work",
  ignore,
  async fn() {
    await using ring = await openRing(40);
    await pause(20);
    const read = Deno.readTextFile(new URL(import.meta.url)).then((text) => text.length);
    let timer;
    const never = new Promise<number>((resolve) => timer = setTimeout(() => resolve(0), 2000));
    assertGreater(await Promise.race([read, never]), 0, "no thread is left to read a file");
    clearTimeout(timer);
    const kinds = await Promise.all(ring.hosts.map(async (host, i) => {
      const to = `10.7.0.${(i + 1) % ring.hosts.length + 1}`;
      const [answer] = await Array.fromAsync(host.ping(to, { count: 1, timeout: 2 * SECOND }));
      return answer!.kind;
    }));
    assertEquals(new Set(kinds), new Set(["reply"]));
  },
});

Deno.test({
  name: "poll sleeper: an idle host takes next to no processor, also after traffic",
  ignore,
  async fn() {
    const module = new URL("../../../src/runtime/open_host.ts", import.meta.url).href;
    const program = `import { openHost } from ${JSON.stringify(module)};
      import process from "node:process";
      const host = await openHost({ port: "linux", sleeper: Deno.args[0], address: "10.7.0.1/24", listen: "127.0.0.1:0" });
      for await (const _ of host.ping("10.7.0.1", { count: 20, interval: 1e6 }));
      await new Promise((resolve) => setTimeout(resolve, 100));
      const before = process.cpuUsage();
      await new Promise((resolve) => setTimeout(resolve, 1000));
      const { user, system } = process.cpuUsage(before);
      console.log((user + system) / 1e6);
      await host.close();`;
    const shares = await Promise.all(KINDS.map(async (kind) => {
      const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
        args: ["eval", "--no-check", program, "--", kind],
        cwd: new URL("../../..", import.meta.url),
      }).output();
      const share = Number(new TextDecoder().decode(stdout));
      assert(share > 0, new TextDecoder().decode(stderr));
      return share;
    }));
    for (const share of shares) assertLess(share, 0.02);
  },
});
