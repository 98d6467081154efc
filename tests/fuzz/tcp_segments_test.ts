/**
 * Random and mutated segments for a TCP in every state: whatever comes, nothing throws, leaks or stands still, what
 * always holds of a connection still holds (the trace checks it after each segment), answers are few, and a reset is
 * never answered by a reset.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { Rng } from "../../src/base/rng.ts";
import { NEVER } from "../../src/base/time.ts";
import { TcpState, tcpStateName } from "../../src/tcp/state.ts";
import type { Tcb } from "../../src/tcp/tcb.ts";
import { seqDiff } from "../../src/wire/seq.ts";
import { PEER_ISS, type Segment, TcpTrace, TRACE_ISS } from "../testing/tcp_trace.ts";
import { pick } from "../testing/random.ts";

/** Runs for each state and family; a run is some forty segments. */
const RUNS = 60;

/** Ways into each state; `null` where there is no connection. */
const WAYS: readonly [string, (h: TcpTrace, syn: Partial<Segment>) => Tcb | null][] = [
  ["no listener", () => null],
  ["LISTEN", (h) => (h.listen(), null)],
  ["SYN-SENT", (h) => h.connect()],
  ["SYN-RECEIVED", (h, syn) => {
    h.listen();
    h.in({ flags: "S", seq: 0, mss: 1460, ...syn });
    return [...h.tcp.connections()][0]!;
  }],
  ["SYN-RECEIVED, both opening", (h, syn) => {
    const t = h.connect();
    h.in({ flags: "S", seq: 0, mss: 1460, ...syn });
    return t;
  }],
  ["ESTABLISHED", (h, syn) => h.established(syn)],
  ["FIN-WAIT-1", (h, syn) => {
    const t = h.established(syn);
    t.shutdownWrite(h.now);
    return t;
  }],
  ["FIN-WAIT-2", (h, syn) => {
    const t = h.established(syn);
    t.close(h.now);
    h.in({ flags: ".", seq: 1, ack: 2 });
    return t;
  }],
  ["CLOSE-WAIT", (h, syn) => {
    const t = h.established(syn);
    h.in({ flags: "F.", seq: 1, ack: 1 });
    return t;
  }],
  ["CLOSING", (h, syn) => {
    const t = h.established(syn);
    t.shutdownWrite(h.now);
    h.flush();
    h.in({ flags: "F.", seq: 1, ack: 1 });
    return t;
  }],
  ["LAST-ACK", (h, syn) => {
    const t = h.established(syn);
    h.in({ flags: "F.", seq: 1, ack: 1 });
    t.shutdownWrite(h.now);
    return t;
  }],
  ["TIME-WAIT", (h, syn) => {
    const t = h.established(syn);
    t.shutdownWrite(h.now);
    h.flush();
    h.in({ flags: "F.", seq: 1, ack: 2 });
    return t;
  }],
];

/** A number near what counts, or anywhere. */
function near(rng: Rng, ...marks: number[]): number {
  if (rng.chance(0.1)) return rng.u32() | 0;
  return (pick(rng, marks) + pick(rng, [0, 0, 0, 1, -1, 2, 10, -10, 1460, -1460, rng.below(100_000) - 50_000])) | 0;
}

function randomSegment(rng: Rng, h: TcpTrace, t: Tcb | null): Segment {
  const likely = rng.chance(0.6);
  const flags = likely
    ? pick(rng, [".", ".", ".", "P.", "F.", "S", "S.", "R", "R.", "FP."])
    : [..."FSRP.UEW"].filter(() => rng.chance(0.3)).join("");
  const sender = (x: number) => seqDiff(x, PEER_ISS);
  const own = (x: number) => seqDiff(x, TRACE_ISS);
  const segment: Segment = {
    flags,
    seq: t === null ? near(rng, 0) : near(rng, sender(t.rcvNxt), sender(t.rcvNxt), sender(t.rcvAdv), 0),
    ack: t === null ? near(rng, 0) : near(rng, own(t.sndUna), own(t.sndNxt), own(t.sndNxt), 0),
    len: rng.chance(0.5) ? 0 : rng.below(1400),
    win: pick(rng, [0, 1, 100, 1460, 10_000, 65535]),
    urgent: rng.chance(0.1) ? rng.below(65536) : 0,
  };
  if (rng.chance(flags.includes("S") ? 0.8 : 0.05)) segment.mss = pick(rng, [0, 1, 48, 536, 1460, 65535]);
  if (rng.chance(flags.includes("S") ? 0.5 : 0.05)) segment.wscale = rng.below(256);
  if (rng.chance(flags.includes("S") ? 0.5 : 0.05)) segment.sackOk = true;
  if (rng.chance(0.2)) segment.ts = [near(rng, h.peerTsVal), near(rng, h.lastTsVal)];
  if (rng.chance(0.2) && segment.mss === undefined && segment.wscale === undefined) {
    segment.sack = Array.from({ length: 1 + rng.below(3) }, () => [near(rng, 1), near(rng, 5000)]);
    segment.sackOk = false;
  }
  return segment;
}

const JUNK = new Uint8Array(20_000).fill(0x55);

function act(rng: Rng, h: TcpTrace, t: Tcb): void {
  switch (rng.below(8)) {
    case 0:
    case 1:
      t.write(JUNK, 0, rng.below(JUNK.length));
      return;
    case 2:
    case 3:
      t.read(new Uint8Array(rng.below(20_000)));
      return;
    case 4:
      return h.pass(rng.below(400));
    case 5:
      return h.pass(rng.below(4000));
    case 6:
      if (rng.chance(0.3)) t.shutdownWrite(h.now);
      return;
    default:
      if (rng.chance(0.1)) t.close(h.now);
  }
}

function run(rng: Rng, family: 4 | 6, way: (h: TcpTrace, syn: Partial<Segment>) => Tcb | null): void {
  const h = new TcpTrace({
    receiveBufferBytes: pick(rng, [1, 5000, 100_000]),
    sendBufferBytes: pick(rng, [1, 5000, 100_000]),
    timestamps: rng.chance(0.7),
    sack: rng.chance(0.7),
    windowScale: rng.chance(0.7),
    windowShift: pick(rng, [-1, -1, 0, 14]),
    maxSegmentBytes: pick(rng, [0, 0, 1]),
    quickAcks: pick(rng, [0, 16]),
    delayedAck: pick(rng, [40_000_000, "adaptive"]),
    keepAlive: rng.chance(0.3),
    keepAliveIdle: 20_000_000_000,
    userTimeout: pick(rng, [0, 0, 3_000_000_000]),
    synCookies: rng.chance(0.5),
  }, family);
  const syn: Partial<Segment> = { ts: rng.chance(0.5), sackOk: rng.chance(0.5), win: pick(rng, [0, 1, 3000, 65535]) };
  if (rng.chance(0.5)) syn.wscale = rng.below(15);
  const t = way(h, syn);
  h.all();
  for (let i = 0; i < 40; i++) {
    // The connection that there is now may be a new one, which a SYN has opened.
    const current = t?.state === TcpState.Closed ? [...h.tcp.connections()][0] ?? t : t;
    const segment = randomSegment(rng, h, current);
    const isWhole = rng.chance(0.7);
    h.all();
    if (isWhole) {
      h.in(segment);
    } else {
      // Spoiled bytes; the checksum may be put right again, so that the parser has to look further.
      h.in(segment, true, (p) => {
        for (let n = 1 + rng.below(4); n > 0; n--) p.bytes[p.start + rng.below(p.length)] = rng.u32();
        if (rng.chance(0.2)) p.end = p.start + rng.below(p.length + 1);
        if (rng.chance(0.7)) h.fixChecksum(p);
      });
    }
    const answers = h.all();
    assert(answers.filter((s) => s.len === 0).length <= 2, "more answers than questions");
    if (isWhole && segment.flags.includes("R")) {
      assert(answers.every((s) => !s.flags.includes("R")), "a reset was answered by one");
    }
    if (current !== null && current !== undefined) act(rng, h, current);
    assertEquals(h.pool.inUse, 0, "packets leaked");
    assert(h.tcp.connectionCount <= 6);
  }
  // The peer is gone: everything comes to an end by itself once the applications are gone too.
  for (const c of h.tcp.connections()) if (c.listener === null) c.close(h.now);
  for (let turns = 0; h.tcp.nextAt() !== NEVER; turns++) {
    assert(turns < 500, "does not come to an end");
    h.now = Math.max(h.now, h.tcp.nextAt());
    h.flush();
  }
  for (const c of h.tcp.connections()) {
    assert(c.listener !== null, `${tcpStateName(c.state)} without a timer and without an application`);
  }
  assertEquals(h.pool.inUse, 0, "packets leaked");
}

for (const family of [4, 6] as const) {
  for (const [name, way] of WAYS) {
    Deno.test(`fuzz: segments in ${name} over IPv${family}`, () => {
      for (let i = 0; i < RUNS; i++) {
        const rng = new Rng(i).fork(`${family}/${name}`);
        try {
          run(rng, family, way);
        } catch (error) {
          throw new Error(`run ${i}: ${(error as Error).message}`, { cause: error });
        }
      }
    });
  }
}
