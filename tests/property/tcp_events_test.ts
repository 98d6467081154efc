/**
 * Applications that act on nothing but events, over hostile links and on hosts that stand still at times.
 *
 * A write that was not taken whole goes on at `Writable`, a read that found nothing at `Readable`; nobody looks in between.
 * So an event that is missing stops the run, and one that comes twice is counted: `Connected` comes once, to those who
 * connect and after nothing else, `Closed` once and last. The streams come out whole, and nothing is left.
 *
 * By default 150 runs; `CULVERT_EVENTS_RUNS=5000` makes it five thousand, `CULVERT_EVENTS_SEED` says where to begin.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { SocketErrorKind } from "../../src/base/errors.ts";
import { SocketEvent } from "../../src/base/event_queue.ts";
import { Rng } from "../../src/base/rng.ts";
import { MILLISECOND, SECOND } from "../../src/base/time.ts";
import { CONGESTION_CONTROLS } from "../../src/tcp/congestion/registry.ts";
import { TcpListener } from "../../src/tcp/listener.ts";
import type { TcpOptions } from "../../src/tcp/options.ts";
import { PACING_MODES } from "../../src/tcp/pacing.ts";
import { tcpStateName } from "../../src/tcp/state.ts";
import { Tcb } from "../../src/tcp/tcb.ts";
import { fromEnvironment } from "../testing/environment.ts";
import { type LinkOptions, type PairHost, TcpPair } from "../testing/tcp_pair.ts";
import { patternByte } from "../testing/tcp_trace.ts";
import { pick } from "../testing/random.ts";

/** How many random runs; one takes some 20 ms. */
const RUNS = fromEnvironment("CULVERT_EVENTS_RUNS", 150);
/** Run `n` has the seed `FIRST_SEED + n`. */
const FIRST_SEED = fromEnvironment("CULVERT_EVENTS_SEED", 1);

/** One end: it writes its stream, reads the other's, says when it has no more, and closes at the end of both, or when all is over. */
class EventApp {
  written = 0;
  read = 0;
  closed = 0;
  connected = 0;
  /** Events that a late application has not looked at yet, and when it will. */
  waiting = 0;
  wakesAt = Infinity;
  #sawEnd = false;
  #hasShut = false;
  #isClosed = false;
  #canRead = true;
  #canWrite = true;

  constructor(
    readonly t: Tcb,
    readonly label: number,
    readonly peerLabel: number,
    readonly toWrite: number,
    readonly chunk: number,
    readonly isClient: boolean,
    readonly closesEarly: boolean,
  ) {}

  get done(): boolean {
    return this.#isClosed;
  }

  onEvents(now: number): void {
    const events = this.waiting;
    this.waiting = 0;
    this.wakesAt = Infinity;
    if ((events & SocketEvent.Connected) !== 0) this.connected++;
    if (this.isClient && this.connected === 0) {
      assertEquals(
        events,
        SocketEvent.Closed | SocketEvent.Readable | SocketEvent.Writable,
        "events before the connection",
      );
    }
    assertEquals(this.closed, 0, `an event after Closed in ${tcpStateName(this.t.state)}`);
    if ((events & SocketEvent.Closed) !== 0) this.closed++;
    if ((events & SocketEvent.Readable) !== 0) this.#canRead = true;
    if ((events & (SocketEvent.Writable | SocketEvent.Connected)) !== 0) this.#canWrite = true;
    this.act(now);
  }

  /** Goes on with whatever an event has allowed. */
  act(now: number): void {
    while (this.#canWrite && this.written < this.toWrite) {
      const data = new Uint8Array(Math.min(this.chunk, this.toWrite - this.written));
      for (let i = 0; i < data.length; i++) data[i] = patternByte(this.label + this.written + i);
      const n = this.t.write(data, 0, data.length);
      if (n < 0) throw new Error(`cannot write in ${tcpStateName(this.t.state)}: ${this.t.errorText}`);
      this.written += n;
      if (n < data.length) this.#canWrite = false;
    }
    if (this.written === this.toWrite && !this.#hasShut) {
      this.#hasShut = true;
      this.t.shutdownWrite(now);
    }
    const block = new Uint8Array(this.chunk);
    while (this.#canRead) {
      const n = this.t.read(block);
      for (let i = 0; i < n; i++) assertEquals(block[i], patternByte(this.peerLabel + this.read + i), "a wrong byte");
      this.read += n;
      if (n > 0) continue;
      this.#canRead = false;
      this.#sawEnd ||= this.t.finReached;
    }
    if (this.#sawEnd && this.#hasShut && !this.#isClosed && (this.closesEarly || this.closed > 0)) {
      this.#isClosed = true;
      this.t.close(now);
    }
  }
}

function randomLink(rng: Rng): LinkOptions {
  const some = (most: number) => rng.chance(0.5) ? 0 : rng.unit() * most;
  return {
    delay: rng.below(pick(rng, [1e5, 20e6, 200e6])),
    jitter: rng.chance(0.5) ? 0 : rng.below(50e6),
    rateBytesPerSec: rng.chance(0.5) ? 0 : 20_000 + rng.below(2_000_000),
    loss: some(0.3),
    duplicate: some(0.2),
    corrupt: 0,
    mark: 0,
    noPacket: some(0.05),
    refuse: some(0.05),
  };
}

function randomOptions(rng: Rng): Partial<TcpOptions> {
  return {
    sendBufferBytes: pick(rng, [0, 1, 700, 3000, 20_000]),
    receiveBufferBytes: pick(rng, [0, 1, 700, 3000, 20_000]),
    delayedAck: pick(rng, ["adaptive", "adaptive", 200 * MILLISECOND]),
    quickAcks: pick(rng, [0, 16]),
    windowScale: rng.chance(0.7),
    windowShift: pick(rng, [-1, 0, 14]),
    timestamps: rng.chance(0.7),
    sack: rng.chance(0.7),
    noDelay: rng.chance(0.3),
    congestion: pick(rng, CONGESTION_CONTROLS),
    pacing: pick(rng, PACING_MODES),
    maxPacingRateBytesPerSec: pick(rng, [Infinity, Infinity, 20_000]),
    smallQueueBytes: pick(rng, [1, 5000, 128 << 10]),
    // The path is worse than the retries are made for.
    synRetries: 60,
    synAckRetries: 60,
    retries: 80,
    maxRto: 10 * SECOND,
    timeWait: 240 * SECOND,
  };
}

function run(seed: number): number {
  const rng = new Rng(seed).fork("tcp-events");
  const family = rng.chance(0.5) ? 4 : 6;
  const mtu = family === 4 ? 100 + rng.below(1401) : 1280 + rng.below(221);
  const options = [randomOptions(rng), randomOptions(rng)] as const;
  const links = [randomLink(rng), randomLink(rng)] as const;
  const { loss, jitter, refuse } = links[0];
  // A cookie is brought back by the first acknowledgment or data; what comes instead is answered by a reset.
  options[1].synCookies = loss + jitter + refuse === 0;
  const pair = new TcpPair(rng, family, mtu, links, options);
  const isNarrow = options.some((o) => o.sendBufferBytes === 1 || o.receiveBufferBytes === 1);
  const most = isNarrow ? 30 : pick(rng, [0, 500, 20_000, 60_000]);
  const patience = pick(rng, [0, 0, 300 * MILLISECOND]);
  const stall = pick(rng, [0, 0, 0, 3 * SECOND]);
  // Of an application that is gone less is sent again and again; the other kind closes when all is over.
  const closesEarly = links.every((link) => link.loss + link.refuse < 0.1);
  const backlog = 1 + rng.below(3);
  const listener = pair.b.tcp.listen(pair.b.address, 80, backlog);
  assert(listener instanceof TcpListener);
  const apps = new Map<Tcb, EventApp>();
  const toWrite = new Map<number, number>();
  const count = 1 + rng.below(4);
  for (let i = 0; i < count; i++) {
    const t = pair.a.tcp.connect(pair.b.address, 80, {}, 0);
    assert(t instanceof Tcb);
    const label = (i + 1) * 1_000_003;
    toWrite.set(t.localPort, label);
    const app = new EventApp(t, label, -label, rng.below(most + 1), 1 + rng.below(5000), true, closesEarly);
    apps.set(t, app);
  }

  const drain = (host: PairHost) => {
    for (let source = host.events.poll(); source !== null; source = host.events.poll()) {
      const { events } = source;
      source.events = 0;
      if (source === listener) {
        for (let t = listener.accept(); t !== null; t = listener.accept()) {
          const label = toWrite.get(t.remotePort)!;
          const app = new EventApp(t, -label, label, rng.below(most + 1), 1 + rng.below(5000), false, closesEarly);
          apps.set(t, app);
          app.act(pair.now);
        }
        continue;
      }
      assert(source instanceof Tcb);
      const app = apps.get(source);
      if (app === undefined) continue; // not accepted yet: whoever accepts it looks for itself
      app.waiting |= events;
      if (app.wakesAt === Infinity) app.wakesAt = pair.now + (patience === 0 ? 0 : rng.below(patience));
    }
  };

  for (let steps = 0;; steps++) {
    assert(steps < 300_000, "too many steps: a timer runs wild, or nothing comes forward");
    let at = pair.nextAt();
    for (const app of apps.values()) at = Math.min(at, app.wakesAt);
    if (at === Infinity) break;
    assert(at < 7200 * SECOND, "stands still");
    // All stands still for a while: timers are late, and what has come meanwhile is there at once.
    if (stall > 0 && rng.chance(0.002)) at += rng.below(stall);
    pair.step(Math.max(at, pair.now));
    drain(pair.a);
    drain(pair.b);
    for (const app of apps.values()) if (app.wakesAt <= pair.now) app.onEvents(pair.now);
  }
  let bytes = 0;
  assertEquals(apps.size, 2 * count, "an end was never accepted");
  for (const app of apps.values()) {
    const peer = [...apps.values()].find((other) => other.label === app.peerLabel)!;
    assertEquals([app.t.error, app.t.errorText], [SocketErrorKind.None, ""]);
    assertEquals([app.done, app.written, app.read, app.closed], [true, app.toWrite, peer.toWrite, 1]);
    assertEquals(app.connected <= 1 && (!app.isClient || app.connected === 1), true, "Connected");
    bytes += app.read;
  }
  for (const host of [pair.a, pair.b]) assertEquals([host.tcp.connectionCount, host.pool.inUse], [0, 0]);
  return bytes;
}

Deno.test(`tcp events: ${RUNS} random runs of applications that act on events alone`, () => {
  let bytes = 0;
  for (let i = 0; i < RUNS; i++) {
    try {
      bytes += run(FIRST_SEED + i);
    } catch (error) {
      throw new Error(`seed ${FIRST_SEED + i}: ${(error as Error).message}`, { cause: error });
    }
  }
  assert(bytes > RUNS * 1000, "the runs moved next to nothing");
});
