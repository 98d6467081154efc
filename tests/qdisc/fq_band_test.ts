/**
 * Bands of the fair queue, by traffic class, and its CE marks.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { DropReason } from "../../src/base/drop.ts";
import { MILLISECOND, SECOND } from "../../src/base/time.ts";
import { bandTable, FQ_PRIOMAP } from "../../src/qdisc/fq_band.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { emitIp, IpHeader, parseIp } from "../../src/wire/ip_header.ts";
import { FqBench } from "./fq_bench.ts";

/** Traffic classes of the three bands, by default. */
const CLASSES = [0x10, 0x00, 0x08];

Deno.test("fq: bands by traffic class are those that Linux derives from TOS", () => {
  const table = bandTable(FQ_PRIOMAP);
  // Of the sixteen values of the four TOS bits, by `ip_tos2prio` and the default priomap.
  const byTos = [1, 1, 1, 1, 2, 2, 2, 2, 0, 0, 0, 0, 1, 1, 1, 1];
  for (let tc = 0; tc < 256; tc++) assertEquals(table[tc], byTos[(tc & 0x1e) >> 1], `traffic class ${tc}`);
  const dscp = { default: 0, LE: 1, CS1: 8, AF11: 10, AF12: 12, AF13: 14, CS5: 40, VA: 44, EF: 46, CS6: 48 };
  assertEquals(Object.values(dscp).map((d) => table[d << 2]), [1, 1, 1, 2, 0, 1, 1, 0, 1, 1]);
  // EF to the first band.
  assertEquals(bandTable(FQ_PRIOMAP.map((band, i) => i === 4 ? 0 : band))[46 << 2], 0);
});

for (const version of [4, 6]) {
  const [source, destination] = version === 4 ? ["10.7.0.1", "10.7.0.2"] : ["fd07::1", "fd07::2"];
  const packet = (b: FqBench, flow: number, trafficClass: number, departAt = 0) => {
    const p = b.packet(flow, 1000, departAt);
    const ip = new IpHeader();
    ip.setAddresses(IpAddr.parse(source!), IpAddr.parse(destination!));
    ip.setDefaults(17, 1000 - (version === 4 ? 20 : 40));
    ip.trafficClass = trafficClass;
    if (version === 6) ip.flowLabel = 0xabcde;
    emitIp(p.view, p.start, ip);
    return p;
  };

  Deno.test(`fq: IPv${version}: a packet is counted in the band of its traffic class, and refused when that is full`, () => {
    fc.assert(fc.property(fc.array(fc.integer({ min: 0, max: 255 }), { maxLength: 60 }), (classes) => {
      const b = new FqBench({ limit: 5 });
      const expected = [0, 0, 0];
      const drops = [0, 0, 0];
      classes.forEach((trafficClass, i) => {
        const band = bandTable(FQ_PRIOMAP)[trafficClass]!;
        const isFull = expected[band] === 5;
        const reason = b.fq.push(packet(b, i, trafficClass, 1), 0);
        assertEquals(reason, isFull ? DropReason.QdiscLimit : DropReason.None);
        if (isFull) drops[band]!++;
        else expected[band]!++;
      });
      const stats = b.fq.stats();
      assertEquals([0, 1, 2].map((i) => stats[`band_pkt_count_${i}`]), expected);
      assertEquals([0, 1, 2].map((i) => stats[`band_drops_${i}`]), drops);
    }));
  });

  Deno.test(`fq: IPv${version}: what leaves too late is marked if it can be, and its header stays right`, () => {
    for (const ecn of [0, 1, 2, 3]) {
      for (const [late, marked] of [[MILLISECOND, false], [MILLISECOND + 1, true]] as const) {
        for (const departAt of [0, SECOND + 5]) {
          const b = new FqBench({ ceThreshold: MILLISECOND, rateBytesPerSec: 1e12 }); // no fast path
          b.fq.push(packet(b, 2, 0xb8 | ecn, departAt), SECOND);
          const p = b.fq.pull((departAt || SECOND) + late)!;
          const ip = new IpHeader();
          assertEquals(parseIp(p.view, p.start, p.end, ip), DropReason.None);
          assertEquals(ip.trafficClass, 0xb8 | (marked && ecn !== 0 ? 3 : ecn));
          assertEquals(ip.flowLabel, version === 6 ? 0xabcde : 0);
          assertEquals(b.fq.stats()["ce_mark"], marked && ecn !== 0 ? 1 : 0);
        }
      }
    }
  });
}

Deno.test("fq: what counts for a mark is the time beyond the departure, also if a rate set that", () => {
  const b = new FqBench({ ceThreshold: 5 * MILLISECOND, initialQuantum: 1000, quantum: 1000 });
  b.fq.setFlowRate(2, 100_000);
  for (let i = 0; i < 2; i++) b.push(SECOND, 2, 1000, 0, 1);
  assertEquals(b.flows(SECOND, 2), [2, null]);
  assertEquals(b.pull(SECOND + 15 * MILLISECOND), 2); // due at 10 ms
  assertEquals(b.fq.stats()["ce_mark"], 0);
  const late = new FqBench({ ceThreshold: 5 * MILLISECOND, initialQuantum: 1000, quantum: 1000 });
  late.fq.setFlowRate(2, 100_000);
  for (let i = 0; i < 2; i++) late.push(SECOND, 2, 1000, 0, 1);
  assertEquals(late.flows(SECOND, 2), [2, null]);
  assertEquals(late.pull(SECOND + 15 * MILLISECOND + 1), 2);
  assertEquals(late.fq.stats()["ce_mark"], 1);
});

Deno.test("fq: saturated bands share by weight, 9 to 3 to 1, and each is served in every round", () => {
  const weights = [9 * 16_384, 3 * 16_384, 16_384];
  for (const order of [[0, 1, 2], [2, 1, 0]]) {
    const b = new FqBench({ weights, flowLimit: 1000 });
    b.inLine(0, () => {
      for (const band of order) {
        for (let flow = 0; flow < 4; flow++) {
          for (let i = 0; i < 30; i++) b.push(0, 2 * (4 * band + flow) + 2, 1000 + band, 0, CLASSES[band]!);
        }
      }
    });
    const sent = [0, 0, 0];
    const round = weights.reduce((sum, weight) => sum + weight);
    let bytes = 0;
    for (let rounds = 1; rounds <= 20; rounds++) {
      while (bytes < rounds * round) {
        const p = b.fq.pull(0)!;
        sent[p.length - 1000]! += p.length;
        bytes += p.length;
        b.fq.push(p, 0);
      }
      sent.forEach((n, band) => {
        assert(Math.abs(n - rounds * weights[band]!) <= 2 * 1002, `band ${band} sent ${n} in ${rounds} rounds`);
      });
    }
  }
});

Deno.test("fq: a band alone has the whole line, and one that comes back is served within a round", () => {
  const b = new FqBench({ flowLimit: 1000, weights: [20_000, 16_384, 16_384] });
  b.inLine(0, () => {
    for (let i = 0; i < 900; i++) b.push(0, 2, 1000, 0, CLASSES[2]!);
  });
  assertEquals(b.flows(0, 500), Array(500).fill(2));
  b.push(0, 4, 1000, 0, CLASSES[0]!);
  const wait = b.flows(0, 20).indexOf(4);
  assert(wait >= 0 && wait <= 17, `waited for ${wait} packets`);
});

Deno.test("fq: the first band has the first turn; flows keep turns and credit within their bands", () => {
  const b = new FqBench({ initialQuantum: 1000, quantum: 1000 });
  b.inLine(0, () => {
    for (const band of [2, 1, 0]) {
      for (let i = 0; i < 2; i++) for (const flow of [2, 4]) b.push(0, 8 * band + flow, 1000, 0, CLASSES[band]!);
    }
  });
  assertEquals(b.flows(0, 13), [2, 4, 2, 4, 10, 12, 10, 12, 18, 20, 18, 20, null]);
});

Deno.test("fq: a new sparse flow goes before all old flows of its band", () => {
  const bulk = fc.array(fc.integer({ min: 100, max: 1500 }), { minLength: 1, maxLength: 12 });
  fc.assert(
    fc.property(bulk, fc.nat(200), fc.constantFrom(0, 1, 2), fc.boolean(), (lengths, pulls, band, isStamped) => {
      const b = new FqBench();
      const isOld = new Set<number>();
      const sent = lengths.map(() => 0);
      b.inLine(0, () => {
        lengths.forEach((length, i) => {
          for (let k = 0; k < 3; k++) b.push(0, 2 * i + 2, length, 0, CLASSES[band]!);
        });
      });
      for (let n = 0; n < pulls + 12 * 160; n++) {
        const p = b.fq.pull(0)!;
        sent[p.flow / 2 - 1]! += p.length;
        if (sent[p.flow / 2 - 1]! >= 15_140) isOld.add(p.flow);
        b.fq.push(p, 0);
      }
      assertEquals(isOld.size, lengths.length);
      b.push(1, 1001, 200, isStamped ? 1 : 0, CLASSES[band]!);
      assertEquals(b.pull(1), 1001);
    }),
  );
});

Deno.test("fq: a flow follows its latest packet into another band, and each packet is counted in its own", () => {
  const b = new FqBench({ weights: [20_000, 20_000, 20_000], initialQuantum: 1000, quantum: 1000 });
  const counts = () => [0, 1, 2].map((i) => b.fq.stats()[`band_pkt_count_${i}`]);
  b.push(0, 2, 1000, 10, CLASSES[1]);
  b.push(0, 2, 1000, 20, CLASSES[0]);
  assertEquals(counts(), [1, 1, 0]);
  b.pull(0);
  b.push(5, 4, 1000, 10, CLASSES[1]);
  b.pull(5);
  assertEquals(b.flows(10, 2), [4, 2]); // flow 2 joins band 0 now; in band 1, whose turn it is, it would be first
  assertEquals(counts(), [1, 0, 0]);
  assertEquals([b.flows(20, 2), counts()], [[2, null], [0, 0, 0]]);
});
