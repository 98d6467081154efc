/**
 * Names looked up again, under a clock that the tests turn: when, how often, and who is moved where.
 *
 * @module
 */

import { assert, assertEquals, assertRejects } from "@std/assert";
import { type Instant, NEVER, SECOND } from "../../src/base/time.ts";
import { EndpointLookups, type LookupParts, LOOKUPS_AT_ONCE } from "../../src/runtime/endpoint_lookups.ts";
import { limitResolver, resolveBySystem } from "../../src/runtime/lookup.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";

const A = IpAddr.parse("192.0.2.1");
const B = IpAddr.parse("192.0.2.2");
const C = IpAddr.parse("2001:db8::3");

/** Look-ups of peers 1, 2, … with the names given, and a world in which they are made. */
class World {
  now: Instant = 0;
  /** What names are; an absent one does not exist. */
  readonly zone = new Map<string, IpAddr[]>();
  /** Where peers are. */
  readonly places: IpAddr[] = [A];
  readonly dead = new Set<number>();
  /** Places that are refused. */
  readonly refused = new Set<IpAddr>();
  /** When each name was asked for, in seconds. */
  readonly asked: string[] = [];
  moves: string[] = [];
  isOver = false;
  readonly lookups: EndpointLookups;
  #sleepers: { at: Instant; wake: () => void }[] = [];

  constructor(hostnames: string[], answers: IpAddr[], interval = 100 * SECOND, resolve?: LookupParts["resolve"]) {
    const names = hostnames.map((hostname, i) => ({ ifindex: i + 1, name: `p${i + 1}`, hostname, port: 7000 + i }));
    for (const hostname of hostnames) {
      this.zone.set(hostname, answers);
      this.places.push(answers[0]!);
    }
    this.lookups = new EndpointLookups(names, this.zone, {
      resolve: resolve ?? ((hostname) => {
        this.asked.push(`${hostname} ${this.now / SECOND}`);
        const found = this.zone.get(hostname);
        return found === undefined ? Promise.reject(new Error("there is no such name")) : Promise.resolve(found);
      }),
      interval,
      now: () => this.now,
      sleepUntil: (at) => new Promise<void>((wake) => this.#sleepers.push({ at, wake })),
      isOver: () => this.isOver,
      random: () => 0.5,
      addressOf: (ifindex) => this.places[ifindex]!,
      isDead: (ifindex) => this.dead.has(ifindex),
      move: (ifindex, address, port) => {
        if (this.refused.has(address)) return "not there";
        if (!this.places[ifindex]!.equals(address)) this.moves.push(`${ifindex} ${address} ${port}`);
        this.places[ifindex] = address;
        return "";
      },
      fault: (error) => {
        throw error;
      },
    });
  }

  /** Lets time pass, and everything happen that waits for it. */
  async pass(seconds: number): Promise<void> {
    const until = this.now + seconds * SECOND;
    for (;;) {
      for (let i = 0; i < 30; i++) await Promise.resolve();
      const next = this.#sleepers.reduce((least, { at }) => Math.min(least, at), NEVER);
      if (next > until) break;
      this.now = Math.max(this.now, next);
      const due = this.#sleepers.filter(({ at }) => at <= this.now);
      this.#sleepers = this.#sleepers.filter(({ at }) => at > this.now);
      for (const { wake } of due) wake();
    }
    this.now = until;
  }
}

Deno.test("a name is looked up at every interval, once for all of its peers, and nobody moves while it stays", async () => {
  const world = new World(["r.example", "s.example", "r.example"], [A]);
  await world.pass(350);
  assertEquals(world.asked.filter((line) => line.startsWith("r")), ["r.example 100", "r.example 200", "r.example 300"]);
  assertEquals(world.asked.length, 6);
  assertEquals(world.moves, []);
  assertEquals(world.lookups.inspect()[0], {
    hostname: "r.example",
    peers: ["p1", "p3"],
    lookups: 3,
    failures: 0,
    problem: "",
  });
});

Deno.test("a new answer moves the peers of the name, each with its port; another order of answers moves nobody", async () => {
  const world = new World(["r.example", "r.example"], [A, B]);
  world.zone.set("r.example", [B, A]);
  await world.pass(150);
  assertEquals(world.moves, []);
  world.zone.set("r.example", [C, B]);
  await world.pass(100);
  assertEquals(world.moves, [`1 ${C} 7000`, `2 ${C} 7001`]);
});

Deno.test("a peer that roamed stays until its name says something new", async () => {
  const world = new World(["r.example"], [A]);
  world.places[1] = C;
  await world.pass(250);
  assertEquals(world.moves, []);
  world.zone.set("r.example", [B]);
  await world.pass(100);
  assertEquals(world.moves, [`1 ${B} 7000`]);
});

Deno.test("a dead peer is looked up at once and ever more seldom, and tried at each of its addresses", async () => {
  const world = new World(["r.example"], [A, B, C], 16 * SECOND);
  await world.pass(5);
  world.dead.add(1);
  world.lookups.peerDied(1);
  world.lookups.peerDied(1);
  await world.pass(40);
  assertEquals(world.asked.map((line) => Number(line.split(" ")[1])), [5, 6, 8, 12, 20, 36]);
  assertEquals(world.moves.map((line) => line.split(" ")[1]), [B, C, A, B, C, A].map(String));
  world.dead.clear();
  world.moves = [];
  world.asked.length = 0;
  await world.pass(60);
  assertEquals([world.moves, world.asked.length], [[], 4]);
  // No more than once a second, whatever happens.
  world.asked.length = 0;
  for (let i = 0; i < 40; i++) {
    world.dead.add(1);
    world.lookups.peerDied(1);
    await world.pass(0.05);
    world.dead.clear();
    await world.pass(0.05);
  }
  assert(world.asked.length <= 5, `${world.asked}`);
});

Deno.test("a failure is told, and tried again after 1, 2, 4 … s; the peer stays where it is", async () => {
  const world = new World(["r.example"], [A], 20 * SECOND);
  world.zone.delete("r.example");
  await world.pass(60);
  assertEquals(world.asked.map((line) => Number(line.split(" ")[1])), [20, 21, 23, 27, 35, 51]);
  const [told] = world.lookups.inspect();
  assertEquals([told!.lookups, told!.failures, told!.problem], [6, 6, "there is no such name"]);
  assertEquals(world.moves, []);
  world.zone.set("r.example", [A]);
  await world.pass(40);
  assertEquals(world.lookups.inspect()[0]!.problem, "");
});

Deno.test("an address that is refused is passed over, and told if there is no other", async () => {
  const world = new World(["r.example"], [A], 20 * SECOND);
  world.refused.add(B);
  world.zone.set("r.example", [B, C]);
  await world.pass(21);
  assertEquals([world.moves, world.lookups.inspect()[0]!.problem], [[`1 ${C} 7000`], ""]);
  world.zone.set("r.example", [B]);
  await world.pass(20);
  assertEquals(world.moves.length, 1);
  assertEquals(world.lookups.inspect()[0]!.problem, "192.0.2.2:7000 is not used: not there");
});

Deno.test("many names are looked up a few at a time", async () => {
  let running = 0;
  let most = 0;
  const open: (() => void)[] = [];
  const resolve = async () => {
    most = Math.max(most, ++running);
    await new Promise<void>((done) => open.push(done));
    running--;
    return [A];
  };
  const hostnames = Array.from({ length: 100 }, (_, i) => `h${i}.example`);
  const world = new World(hostnames, [A], 100 * SECOND, resolve);
  await world.pass(150);
  assertEquals([most, running], [LOOKUPS_AT_ONCE, LOOKUPS_AT_ONCE]);
  while (running > 0) {
    open.shift()!();
    await world.pass(0);
  }
  assertEquals([most, world.lookups.inspect().every(({ lookups }) => lookups === 1)], [LOOKUPS_AT_ONCE, true]);
});

Deno.test("when all is over no name is looked up any more, and the answers that still come move nobody", async () => {
  const asked: string[] = [];
  const open: ((answer: IpAddr[]) => void)[] = [];
  const hostnames = Array.from({ length: 3 * LOOKUPS_AT_ONCE }, (_, i) => `h${i}.example`);
  const world = new World(hostnames, [A], 100 * SECOND, (hostname) => {
    asked.push(hostname);
    return new Promise<IpAddr[]>((answer) => open.push(answer));
  });
  await world.pass(150);
  assertEquals(asked.length, LOOKUPS_AT_ONCE);
  world.isOver = true;
  for (const answer of open) answer([B]);
  await world.pass(500);
  assertEquals([asked.length, world.moves], [LOOKUPS_AT_ONCE, []]);
});

Deno.test("a limited resolver asks for each name once, goes on after failures, and keeps its limit", async () => {
  let running = 0;
  let most = 0;
  const asked: string[] = [];
  const resolve = limitResolver(async (hostname) => {
    asked.push(hostname);
    most = Math.max(most, ++running);
    await new Promise((done) => setTimeout(done, 1));
    running--;
    if (hostname.startsWith("bad")) throw new Error("bad");
    return [A];
  }, 3);
  const names = Array.from({ length: 20 }, (_, i) => i % 3 === 0 ? `bad${i}` : `good${i % 5}`);
  const results = await Promise.allSettled(names.map(resolve));
  assertEquals(results.map(({ status }) => status), names.map((n) => n.startsWith("bad") ? "rejected" : "fulfilled"));
  assertEquals([most, asked.length], [3, new Set(names).size]);
});

Deno.test("the system's resolver gives addresses, and says what is wrong", async () => {
  const answers = await resolveBySystem("localhost");
  assert(answers.every((address) => `${address}` === "127.0.0.1" || `${address}` === "::1"), `${answers}`);
  await assertRejects(() => resolveBySystem("no-such-name.invalid"), Error);
});

Deno.test("without its permission the resolver says which one is missing", async () => {
  const module = new URL("../../src/runtime/lookup.ts", import.meta.url).href;
  const code = `import { resolveBySystem } from ${JSON.stringify(module)};
    await resolveBySystem("localhost").catch((error) => console.log(error.name, error.message));`;
  const path = await Deno.makeTempFile({ suffix: ".ts" });
  try {
    await Deno.writeTextFile(path, code);
    const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "--no-prompt",
        "--no-check",
        "--config",
        new URL("../../deno.json", import.meta.url).pathname,
        path,
      ],
    }).output();
    const said = new TextDecoder().decode(stdout).trim();
    assertEquals(said, "NotCapable looking up localhost needs --allow-net=localhost", new TextDecoder().decode(stderr));
  } finally {
    await Deno.remove(path);
  }
});
