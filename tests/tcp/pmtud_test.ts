import { assert, assertEquals } from "@std/assert";
import { DropReason } from "../../src/base/drop.ts";
import { MILLISECOND } from "../../src/base/time.ts";
import { RecoveryState } from "../../src/tcp/state.ts";
import type { TcpOptions } from "../../src/tcp/options.ts";
import type { Tcb } from "../../src/tcp/tcb.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { ipHeaderBytes } from "../../src/wire/ip_header.ts";
import { pattern, TcpTrace, TRACE_ISS } from "../testing/tcp_trace.ts";

/** "Fragmentation needed" or "packet too big" about the segment that begins at `seq`. */
function tooBig(h: TcpTrace, mtu: number, seq: number): boolean {
  const { local, remote } = h;
  const [type, code] = local.isV4 ? [3, 4] : [2, 0];
  const words = { src0: local.w0, src1: local.w1, src2: local.w2, src3: local.w3 };
  const to = { dst0: remote.w0, dst1: remote.w1, dst2: remote.w2, dst3: remote.w3 };
  const ports = { srcPort: h.localPort, dstPort: h.remotePort };
  const error = { version: local.version, type, code, mtu, seq: (TRACE_ISS + seq) | 0, ...words, ...to, ...ports };
  return h.tcp.icmpError(error, h.now);
}

function headers(h: TcpTrace): number {
  return ipHeaderBytes(h.local.version) + 20;
}

for (const family of [4, 6] as const) {
  Deno.test(`pmtud IPv${family}: what was too large is cut and sent again at once; the window stays`, () => {
    const h = new TcpTrace({}, family);
    const t = h.established({ wscale: 7 }, 100);
    const before = t.mss;
    h.write(t, 10 * before);
    assertEquals(h.all().length, 10);
    assert(tooBig(h, 1300, 1));
    const mss = 1300 - headers(h);
    assertEquals([t.mss, t.congestion.cwnd, t.congestion.ssthresh], [mss, 10 * mss, Infinity]);
    const sent = h.all();
    assertEquals([sent[0]!.seq, sent[0]!.len, sent[1]!.seq, sent[1]!.len], [1, mss, 1 + mss, before - mss]);
    // As much as the window holds now; the rest follows with the acknowledgments.
    assertEquals(sent.every((s) => s.len! <= mss), true);
    let acked = 1;
    const seen: number[] = sent.map((s) => s.seq!);
    while (acked < 1 + 10 * before) {
      acked = Math.min(1 + 10 * before, acked + 2 * mss);
      h.pass(20);
      h.in({ flags: ".", seq: 1, ack: acked });
      seen.push(...h.all().map((s) => s.seq!));
    }
    assertEquals(new Set(seen).size, seen.length, "each piece once");
    assertEquals([t.recovery, t.counters.timeouts, t.inFlightBytes], [RecoveryState.Open, 0, 0]);
    assert(t.congestion.cwnd >= 10 * mss);
    h.noLeak();
  });

  Deno.test(`pmtud IPv${family}: not believed: another sequence number, a larger MTU, less than every link carries`, () => {
    const h = new TcpTrace({}, family);
    const t = h.established({}, 100);
    const { mss } = t;
    h.write(t, 3 * mss);
    h.all();
    assertEquals(tooBig(h, 1300, 0), false);
    assertEquals(tooBig(h, 1300, 1 + 3 * mss), false);
    assertEquals(tooBig(h, 1500, 1), false);
    assertEquals(tooBig(h, 9000, 1), false);
    if (family === 6) { for (const mtu of [0, 68, 1279]) assertEquals(tooBig(h, mtu, 1), false); }
    assertEquals(t.mss, mss);
    h.quiet();
    if (family === 4) {
      assert(tooBig(h, 0, 1)); // an old router: the next plateau
      assertEquals(t.mss, 1492 - 40);
      assert(tooBig(h, 20, 1));
      assertEquals(t.mss, 68 - 40);
    } else {
      assert(tooBig(h, 1280, 1));
      assertEquals(t.mss, 1280 - 60);
    }
  });
}

Deno.test("pmtud: timestamps and a FIN count; SACKed segments stay; a second, smaller MTU cuts again", () => {
  const h = new TcpTrace();
  const t = h.established({ ts: true, sackOk: true }, 100);
  h.write(t, 3 * t.mss);
  t.shutdownWrite(h.now);
  const { mss } = t;
  assertEquals(h.all().length, 3);
  h.in({ flags: ".", seq: 1, ack: 1, sack: [[1 + mss, 1 + 2 * mss]] });
  h.all();
  assert(tooBig(h, 1000, 1));
  assertEquals([t.mss, t.sackedBytes], [1000 - 52, mss]);
  const sent = h.all();
  assertEquals(sent.map((s) => s.seq), [1, 1 + 948, 1 + 2 * mss, 1 + 2 * mss + 948]);
  assertEquals(sent.at(-1)!.flags.includes("F"), true);
  assert(tooBig(h, 600, 1));
  assertEquals(h.all().every((s) => s.len! <= 548), true);
  h.in({ flags: ".", seq: 1, ack: 2 + 3 * mss });
  assertEquals([t.inFlightBytes, t.sackedBytes, t.lostBytes], [0, 0, 0]);
});

Deno.test("pmtud: the next connection to the address begins with what was learnt, and announces its own MSS all the same", () => {
  const h = new TcpTrace();
  const t = h.established({}, 100);
  h.write(t, 2000);
  h.all();
  tooBig(h, 900, 1);
  h.remotePort = 40001;
  const u = h.connect();
  assertEquals(h.all().find((s) => s.flags === "S")!.mss, 1460);
  h.in({ flags: "S.", seq: 0, ack: 1, mss: 1460 });
  assertEquals(u.mss, 860);
  // After ten minutes the link's MTU is tried again.
  h.pass(601_000);
  h.all();
  u.write(pattern(0, 3000), 0, 3000);
  assertEquals(h.all().map((s) => s.len), [1460, 1460, 80]);
  assertEquals(u.mss, 1460);
});

for (const family of [4, 6] as const) {
  Deno.test(`pmtud IPv${family}: what is learnt is shared, no lower than IP believes it; a connection goes lower by itself`, () => {
    const h = new TcpTrace({}, family);
    const t = h.established({}, 100);
    h.write(t, 2000);
    h.all();
    assert(tooBig(h, family === 4 ? 300 : 1280, 1));
    assertEquals(t.mss + headers(h), family === 4 ? 300 : 1280);
    assertEquals(h.pathMtuTo(h.remote, h.now), family === 4 ? 552 : 1280);
    const other = IpAddr.parse(family === 4 ? "10.7.0.3" : "fd07:a:b:c:d:e:f:3");
    assertEquals(h.pathMtuTo(other, h.now), 1500);
  });

  Deno.test(`pmtud IPv${family}: that there is no way when its ten minutes are over says nothing of its MTU`, () => {
    for (const mtuProbing of ["off", "always"] as const) {
      const h = new TcpTrace({ mtuProbing }, family);
      const t = h.established({ wscale: 7 }, 100);
      h.write(t, 2000);
      h.all();
      assert(tooBig(h, 1400, 1));
      h.all();
      h.in({ flags: ".", seq: 1, ack: 2001 });
      h.pass(601_000);
      const { mss } = t;
      [h.mtu, h.outputReason] = [0, DropReason.NoRoute];
      h.write(t, 1);
      h.flush();
      assertEquals(t.mss, mss);
      [h.mtu, h.outputReason] = [1500, DropReason.None];
      h.pass(10_000);
      h.in({ flags: ".", seq: 1, ack: 2002 });
      h.write(t, 1);
      h.all();
      assertEquals([t.path.mtu, t.mss >= mss], [1500, true]);
    }
  });

  Deno.test(`pmtud IPv${family}: a refused error teaches nobody anything`, () => {
    const h = new TcpTrace({}, family);
    const t = h.established({}, 100);
    h.write(t, 2000);
    h.all();
    assertEquals([tooBig(h, 1300, 0), tooBig(h, 1300, 2001), tooBig(h, 1500, 1)], [false, false, false]);
    assertEquals(h.pathMtuTo(h.remote, h.now), 1500);
  });

  Deno.test(`pmtud IPv${family}: when its ten minutes are over a connection takes what another has found meanwhile`, () => {
    const h = new TcpTrace({}, family);
    const t = h.established({ wscale: 7 }, 100);
    h.write(t, 2000);
    h.all();
    assert(tooBig(h, 1400, 1));
    h.all();
    h.in({ flags: ".", seq: 1, ack: 2001 });
    // Another learns of less, half the time later.
    h.pass(300_000);
    const { w0, w1, w2, w3 } = h.remote;
    h.learnPathMtu(w0, w1, w2, w3, 1300, 1400, h.now);
    h.write(t, 1);
    h.all();
    assertEquals(t.mss + headers(h), 1400, "not told");
    h.in({ flags: ".", seq: 1, ack: 2002 });
    h.pass(301_000);
    h.write(t, 1);
    h.all();
    assertEquals(t.mss + headers(h), 1300);
    h.in({ flags: ".", seq: 1, ack: 2003 });
    h.pass(601_000);
    h.write(t, 1);
    h.all();
    assertEquals(t.mss + headers(h), 1500);
  });
}

/** Lets packets up to `mtu` through to a peer that acknowledges selectively, and swallows the others in silence. */
function blackHole(h: TcpTrace, t: Tcb, bytes: number, mtu: () => number, win = 65535): void {
  const got = new Set<number>();
  const end = 1 + bytes;
  let next = 1;
  const ranges: [number, number][] = [];
  h.write(t, bytes);
  for (let turns = 0; next < end; turns++) {
    assert(turns < 20_000, `stuck at ${next} of ${end}`);
    const sent = h.all().filter((s) => s.len! > 0);
    if (sent.length === 0) {
      h.until(Math.max(h.tcp.nextAt(), h.now) / MILLISECOND);
      continue;
    }
    h.pass(20);
    for (const s of sent) {
      if (s.len! + headers(h) > mtu()) continue;
      const [left, right] = [s.seq!, s.seq! + s.len!];
      if (!got.has(left)) ranges.push([left, right]);
      got.add(left);
      ranges.sort((a, b) => a[0] - b[0]);
      while (ranges.length > 0 && ranges[0]![0] <= next) next = Math.max(next, ranges.shift()![1]);
      const block = ranges.find(([l, r]) => l <= left && left < r);
      h.in({ flags: ".", seq: 1, ack: next, win, ...(block === undefined ? {} : { sack: [block] }) });
    }
  }
}

for (const family of [4, 6] as const) {
  for (const path of family === 4 ? [1500, 1499, 1400, 1281, 700, 576] : [1500, 1400, 1290, 1280]) {
    Deno.test(`pmtud IPv${family}: a black hole of ${path} is found out by timeouts and probes; the data arrives`, () => {
      const options: Partial<TcpOptions> = { sendBufferBytes: 1 << 20, congestion: "reno" };
      const h = new TcpTrace(options, family);
      const t = h.established({ sackOk: true, wscale: 10 }, 20);
      blackHole(h, t, 800_000, () => path);
      const mtu = t.mss + headers(h);
      assert(mtu <= path && mtu > path - 16, `found ${mtu}`);
      assertEquals(t.inFlightBytes, 0);
      // What the search found is shared (RFC 8899 section 3, item 5); nothing is, where the link's own MTU goes through.
      assertEquals(h.pathMtuTo(h.remote, h.now), mtu);
      h.noLeak();
    });
  }
}

Deno.test("pmtud: mtuProbing off leaves a black hole to the user; always finds a larger MTU from the base", () => {
  const h = new TcpTrace({ mtuProbing: "off", retries: 5 });
  const t = h.established({ sackOk: true }, 20);
  h.write(t, 1460);
  h.until(100_000);
  assertEquals(h.all().every((s) => s.len === 1460), true);
  assertEquals(t.errorText, "no answer to 5 retransmissions of the data");

  const g = new TcpTrace({ mtuProbing: "always", sendBufferBytes: 1 << 20 });
  const u = g.established({ sackOk: true, wscale: 10 }, 20);
  assertEquals(u.mss, 1024);
  blackHole(g, u, 500_000, () => 1500);
  assert(u.mss > 1460 - 16, `found ${u.mss}`);
  assertEquals([u.counters.timeouts, u.counters.recoveries], [0, 0]);
});

Deno.test("pmtud: the loss of a probe alone is no congestion", () => {
  const h = new TcpTrace({ mtuProbing: "always", sendBufferBytes: 1 << 20, slowStartExit: "off" });
  const t = h.established({ sackOk: true, win: 12_000 }, 20);
  blackHole(h, t, 1_000_000, () => 1200, 12_000);
  assertEquals(t.congestion.ssthresh, Infinity);
  assertEquals([t.counters.timeouts, t.counters.recoveries], [0, 0]);
  assert(t.mss + 40 <= 1200 && t.mss + 40 > 1184, `found ${t.mss + 40}`);
});

// Only over IPv4: IPv6 never goes below 1,280 bytes, where one window holds a probe.
Deno.test("pmtud: the search goes up although loss keeps the window below the size of a probe", () => {
  const h = new TcpTrace();
  const t = h.established({ wscale: 7 }, 100);
  const full = t.mss;
  h.write(t, 200_000);
  for (let i = 0; i < 12 && t.mss > 48; i++) h.pass(120_000);
  assertEquals([t.mss, t.path.isSearching], [48, true]);
  h.all();
  // From now on everything arrives; but four segments are all that the control ever lets out, as BBR does after heavy loss.
  Object.defineProperty(t.congestion, "cwnd", { get: () => 4 * t.mss, set: () => {} });
  const large: number[] = [];
  for (let round = 0; t.mss < full && round < 2000; round++) {
    h.pass(10);
    const next = t.retransmitQueue.size > 0 ? t.retransmitQueue.end(0) : t.sndNxt;
    h.in({ flags: ".", seq: 1, ack: (next - TRACE_ISS) | 0 });
    for (const { len } of h.all()) if (len! > 48) large.push(len!);
  }
  assertEquals([t.mss, large[0]], [full, full]);
});
