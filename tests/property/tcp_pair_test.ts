/**
 * Random applications over two TCPs and a hostile link.
 *
 * Whatever the link does and the applications call, the bytes that come out of one end are a prefix of those that went
 * into the other. Unless somebody broke the connection off, all of them come, both ends see the end of the stream and
 * no error, and both forget the connection. No packet leaks, nothing stands still, timers do not run wild.
 *
 * By default a few hundred runs; `CULVERT_PAIR_RUNS=10000` makes it ten thousand, `CULVERT_PAIR_SEED` says where to begin.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { SocketErrorKind } from "../../src/base/errors.ts";
import { Rng } from "../../src/base/rng.ts";
import { MILLISECOND, SECOND } from "../../src/base/time.ts";
import { CONGESTION_CONTROLS, SLOW_START_EXITS } from "../../src/tcp/congestion/registry.ts";
import { TcpListener } from "../../src/tcp/listener.ts";
import { ECN_OPTIONS, type TcpOptions } from "../../src/tcp/options.ts";
import { PACING_MODES } from "../../src/tcp/pacing.ts";
import { RTO_MODELS } from "../../src/tcp/rtt.ts";
import { TcpState, tcpStateName } from "../../src/tcp/state.ts";
import { Tcb } from "../../src/tcp/tcb.ts";
import { fromEnvironment } from "../testing/environment.ts";
import type { LinkOptions } from "../testing/tcp_pair.ts";
import { TcpPair } from "../testing/tcp_pair.ts";
import { patternByte } from "../testing/tcp_trace.ts";
import { pick } from "../testing/random.ts";

/** How many random runs; one takes some 20 ms. */
const RUNS = fromEnvironment("CULVERT_PAIR_RUNS", 250);
/** Run `n` has the seed `FIRST_SEED + n`. */
const FIRST_SEED = fromEnvironment("CULVERT_PAIR_SEED", 1);

/** One end of a connection, and what its application has done. */
class End {
  written = 0;
  read = 0;
  #brokeOff = false;
  closed = false;
  shut = false;

  /** @param label tells this end's stream from all others */
  constructor(readonly t: Tcb, readonly label: number, readonly toWrite: number) {}

  write(length: number): void {
    const want = Math.min(length, this.toWrite - this.written);
    if (want <= 0 || this.shut || this.closed) return;
    const data = new Uint8Array(want);
    for (let i = 0; i < want; i++) data[i] = patternByte(this.label + this.written + i);
    const n = this.t.write(data, 0, want);
    assert(n <= want);
    if (n > 0) this.written += n;
  }

  readFrom(peer: number, length: number): void {
    if (this.closed) return;
    const data = new Uint8Array(length);
    const n = this.t.read(data);
    for (let i = 0; i < n; i++) {
      if (data[i] !== patternByte(peer + this.read + i)) throw new Error(`wrong byte at ${this.read + i} of a stream`);
    }
    this.read += n;
  }

  shutdown(now: number): void {
    if (this.closed || this.shut) return;
    this.shut = true;
    this.t.shutdownWrite(now);
  }

  close(now: number): void {
    if (this.closed) return;
    if (!this.t.readEnded) this.#brokeOff = true;
    this.closed = true;
    this.t.close(now);
  }

  abort(now: number): void {
    if (this.closed) return;
    this.closed = true;
    this.#brokeOff = true;
    this.t.abort(now);
  }

  /**
   * This application has closed before the end of the stream, or aborted; or it has closed, and its TCP has given up a
   * peer that kept the window closed for ever so many probes.
   */
  get brokeOff(): boolean {
    return this.#brokeOff || (this.closed && this.t.error === SocketErrorKind.TimedOut && this.t.persistBackoff > 0);
  }

  get over(): boolean {
    return this.t.state === TcpState.Closed || this.t.state === TcpState.TimeWait;
  }
}

interface Connection {
  client: End;
  server: End | null;
}

function randomLink(rng: Rng): LinkOptions {
  const some = (most: number) => rng.chance(0.5) ? 0 : rng.unit() * most;
  return {
    delay: rng.below(pick(rng, [1e5, 20e6, 300e6])),
    jitter: rng.chance(0.5) ? 0 : rng.below(50e6),
    rateBytesPerSec: rng.chance(0.5) ? 0 : 20_000 + rng.below(2_000_000),
    loss: some(0.25),
    duplicate: some(0.2),
    corrupt: some(0.1),
    mark: some(0.2),
    noPacket: some(0.05),
    refuse: some(0.05),
  };
}

function randomOptions(rng: Rng): Partial<TcpOptions> {
  const sendBytes = 1 + rng.below(pick(rng, [10, 3000, 60_000]));
  const receiveBytes = 1 + rng.below(pick(rng, [10, 3000, 100_000, 3_000_000]));
  return {
    sendBufferBytes: rng.chance(0.7) ? sendBytes : 0,
    sendBufferMaxBytes: sendBytes,
    receiveBufferBytes: rng.chance(0.7) ? receiveBytes : 0,
    receiveBufferMaxBytes: receiveBytes,
    delayedAck: pick(rng, ["adaptive", "adaptive", 0, 200 * MILLISECOND]),
    keepAlive: rng.chance(0.3),
    keepAliveIdle: 200 * MILLISECOND,
    keepAliveInterval: 100 * MILLISECOND,
    keepAliveProbes: 100_000,
    windowScale: rng.chance(0.7),
    timestamps: rng.chance(0.7),
    sack: rng.chance(0.7),
    noDelay: rng.chance(0.3),
    congestion: pick(rng, CONGESTION_CONTROLS),
    slowStartExit: pick(rng, SLOW_START_EXITS),
    slowStartGrowth: pick(rng, ["bytes", "bytes", "acks"]),
    fastRetransmit: pick(rng, ["oldest", "oldest", "oldest", "whole-buffer"]),
    frto: rng.chance(0.7),
    tailLossProbe: rng.chance(0.7),
    ecn: pick(rng, ECN_OPTIONS),
    rtoModel: pick(rng, RTO_MODELS),
    fixedRto: pick(rng, [0, 0, 0, 100 * MILLISECOND]),
    initialCwndSegments: pick(rng, [0, 0, 1]),
    smallQueueBytes: pick(rng, [1, 5000, 128 << 10]),
    pacing: pick(rng, PACING_MODES),
    maxPacingRateBytesPerSec: pick(rng, [Infinity, Infinity, 50_000]),
    quickAcks: pick(rng, [0, 0, 16]),
    ackEverySecondSegment: rng.chance(0.2),
    delayFinAck: rng.chance(0.2),
    rfc1337: rng.chance(0.2),
    dsack: rng.chance(0.7),
    maxSegmentBytes: pick(rng, [0, 0, 500]),
    windowShift: pick(rng, [-1, -1, 0, 7, 14]),
    // The path is worse than the retries are made for.
    synRetries: 40,
    synAckRetries: 40,
    retries: 60,
    maxRto: 10 * SECOND,
    timeWait: 240 * SECOND,
  };
}

/** One run; returns how many bytes were read. */
function run(seed: number): number {
  const rng = new Rng(seed).fork("tcp-pair");
  const family = rng.chance(0.5) ? 4 : 6;
  const mtu = family === 4 ? 68 + rng.below(1433) : 1280 + rng.below(221);
  const options = [randomOptions(rng), randomOptions(rng)] as const;
  const pair = new TcpPair(rng, family, mtu, [randomLink(rng), randomLink(rng)], options);
  // A segment may take seconds on the worst of links, and a segment is no larger than the smallest of these.
  const segment = Math.min(mtu - 40, ...options.flatMap((o) => [o.sendBufferMaxBytes!, o.receiveBufferMaxBytes!]));
  const most = Math.min(200 * segment, pick(rng, [300, 5_000, 60_000]));
  const listener = pair.b.tcp.listen(pair.b.address, 80);
  assert(listener instanceof TcpListener);
  const connections: Connection[] = [];
  const count = 1 + rng.below(3);
  const mayBreak = rng.chance(0.3);
  const opsPerSec = pick(rng, [2, 20, 200]);
  let opsLeft = rng.below(150);
  let label = 0;
  const end = (t: Tcb) => new End(t, label += 1_000_003, rng.below(most));

  const accept = () => {
    for (let t = listener.accept(); t !== null; t = listener.accept()) {
      const { remotePort } = t;
      const c = connections.find(({ client }) => client.t.localPort === remotePort);
      assert(c !== undefined && c.server === null, "a connection that nobody made");
      c.server = end(t);
    }
  };

  const operate = () => {
    if (connections.length < count && rng.chance(0.5)) {
      const t = pair.a.tcp.connect(pair.b.address, 80, {}, pair.now);
      assert(t instanceof Tcb);
      connections.push({ client: end(t), server: null });
    }
    if (connections.length === 0) return;
    const c = pick(rng, connections);
    const [own, peer] = rng.chance(0.5) ? [c.client, c.server] : [c.server, c.client];
    if (own === null) return;
    const what = rng.unit();
    if (what < 0.45) own.write(1 + rng.below(pick(rng, [3, 2000, 30_000])));
    else if (what < 0.9) {
      if (peer !== null) own.readFrom(peer.label, rng.below(pick(rng, [3, 2000, 30_000])));
    } else if (what < 0.95) {
      if (own.written === own.toWrite || mayBreak) own.shutdown(pair.now);
    } else if (!mayBreak) return;
    else if (what < 0.98) own.close(pair.now);
    else own.abort(pair.now);
  };

  /** Each application goes on to the end of its streams. */
  const finish = (own: End, peer: End) => {
    own.write(1e9);
    if (own.written === own.toWrite || own.t.writableBytes === 0 && own.over) own.shutdown(pair.now);
    if (own.t.readableBytes > 0) own.readFrom(peer.label, own.t.readableBytes);
    if (own.t.readEnded && (own.shut || own.over)) own.close(pair.now);
  };

  /** A lost RST leaves the other end waiting for ever: its application gives up. True if there was such an end. */
  const giveUp = () =>
    connections.some(({ client, server }) => {
      for (const [own, peer] of [[client, server], [server, client]]) {
        if (!peer?.brokeOff || own === null || own === undefined || own.closed) continue;
        own.close(pair.now);
        return true;
      }
      return false;
    });

  const isOver = () =>
    opsLeft === 0 && connections.every(({ client, server }) => client.over && (server === null || server.over)) &&
    [...pair.b.tcp.connections()].every((t) => t.state === TcpState.TimeWait);

  let opAt = 0;
  let steps = 0;
  for (; !isOver(); steps++) {
    assert(steps < 200_000, "too many steps: a timer runs wild, or nothing comes forward");
    const at = Math.min(Math.max(pair.now, pair.nextAt()), opsLeft > 0 ? opAt : Infinity);
    if (at === Infinity && giveUp()) continue;
    assert(at < 7200 * SECOND, "stands still");
    pair.step(at);
    accept();
    if (opsLeft > 0) {
      if (opAt > pair.now) continue;
      operate();
      opsLeft--;
      opAt = pair.now + rng.below(2 * SECOND / opsPerSec) + MILLISECOND;
      if (opsLeft > 0) continue;
    }
    for (const { client, server } of connections) {
      if (server !== null) {
        finish(client, server);
        finish(server, client);
      } else if (client.over) client.close(pair.now);
    }
  }

  // Late packets and TIME-WAIT, then nothing is left.
  for (; pair.nextAt() < Infinity; steps++) {
    assert(steps < 250_000, "does not come to an end");
    pair.step(Math.max(pair.now, pair.nextAt()));
  }
  let bytes = 0;
  for (const { client, server } of connections) {
    bytes += client.read + (server?.read ?? 0);
    const whole = !client.brokeOff && !(server?.brokeOff ?? false);
    if (!whole) continue;
    assert(server !== null, "never accepted");
    for (const [own, peer] of [[client, server], [server, client]] as const) {
      assertEquals(own.t.error, SocketErrorKind.None, own.t.errorText);
      assertEquals(own.read, peer.written, `bytes lost; ${tcpStateName(own.t.state)}`);
      if (!mayBreak) assertEquals(own.written, own.toWrite);
    }
  }
  for (const host of [pair.a, pair.b]) assertEquals(host.tcp.connectionCount, 0);
  assertEquals(pair.leaked, 0, "packets leaked");
  assertEquals([pair.a.pool.inUse, pair.b.pool.inUse], [0, 0]);
  return bytes;
}

Deno.test(`tcp pair: ${RUNS} random runs over hostile links`, () => {
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
