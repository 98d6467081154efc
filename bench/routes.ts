/**
 * What a look-up costs among 100,000 routes and forwarding a packet in all, and how long a router with 10,000 peers takes to
 * be set up.
 *
 * The routes lie as in the tables of the Internet: most are /24 (IPv6: /48), the others shorter, spread over all of the unicast
 * space. Addresses are drawn from the same space, so that about every second one hits.
 *
 * @module
 */

import { type Packet, PacketPool } from "../src/base/packet.ts";
import { Rng } from "../src/base/rng.ts";
import { IpLayer } from "../src/ip/ip_layer.ts";
import { RouteTable } from "../src/ip/route_table.ts";
import { parseHostConfig } from "../src/stack/config.ts";
import { Stack } from "../src/stack/stack.ts";
import { checksumUpdate } from "../src/wire/checksum.ts";
import { IpAddr, IpInterface, IpPrefix } from "../src/wire/ip_addr.ts";
import { emitIp, IpHeader, ipHeaderBytes, IpProtocol } from "../src/wire/ip_header.ts";
import { type Bench, ratePerSecond } from "./bench.ts";

const ROUTES = 100_000;
const PROBES = 1 << 16;
const PEERS = 10_000;
const BATCH = 64;
const V4_LENGTHS: readonly number[] = [24, 24, 24, 24, 24, 24, 23, 22, 22, 21, 20, 19, 18, 17, 16];
const V6_LENGTHS: readonly number[] = [48, 48, 48, 48, 48, 48, 46, 44, 44, 40, 36, 32, 32, 29, 64];

/** An address in unicast space: in IPv6 in one of 4,096 blocks of 2000::/3, as they were given out. */
function address(rng: Rng, isV4: boolean): IpAddr {
  if (isV4) return IpAddr.v4((1 + rng.below(222)) * 0x1000000 + rng.below(0x1000000));
  return new IpAddr(0x2001_0000 + rng.below(4096) * 0x100, rng.u32(), rng.u32(), rng.u32());
}

function lookup(name: string, isV4: boolean): Bench {
  return {
    name,
    what: `a look-up among ${ROUTES.toLocaleString("en")} routes`,
    unit: "ns",
    run(seconds) {
      const rng = new Rng(1);
      const table = new RouteTable();
      const lengths = isV4 ? V4_LENGTHS : V6_LENGTHS;
      const seen = new Set<string>();
      while (table.size < ROUTES) {
        const prefix = new IpPrefix(address(rng, isV4), lengths[rng.below(lengths.length)]!);
        if (seen.has(`${prefix}`)) continue;
        seen.add(`${prefix}`);
        table.add(prefix, 1 + rng.below(64));
      }
      const words = new Int32Array(PROBES * 4);
      for (let i = 0; i < PROBES; i++) {
        const { w0, w1, w2, w3 } = address(rng, isV4);
        words.set([w0, w1, w2, w3], 4 * i);
      }
      let hits = 0;
      const round = (): number => {
        const from = performance.now();
        for (let at = 0; at < words.length; at += 4) {
          if (table.lookup(words[at]!, words[at + 1]!, words[at + 2]!, words[at + 3]!) !== null) hits++;
        }
        return (performance.now() - from) * 1e6 / PROBES;
      };
      const until = performance.now() + seconds * 1000;
      for (let i = 0; i < 5; i++) round();
      // The median of rounds: whatever else the machine does, most of them are not interrupted.
      const costs: number[] = [];
      while (performance.now() < until || costs.length === 0) costs.push(round());
      if (hits === 0) throw new Error("no look-up found a route");
      return costs.sort((a, b) => a - b)[costs.length >> 1]!;
    },
  };
}

/** Look-ups in each family. */
export const lookups: readonly Bench[] = [
  lookup("route look-up IPv4", true),
  lookup("route look-up IPv6", false),
];

/** A router whose packets go round: what it forwards is put in again with its TTL set back. */
class Loop {
  /** Packets forwarded. */
  packets = 0;
  readonly #batch: Packet[] = [];
  readonly #out: Packet[] = [];
  #count = 0;
  readonly #ip: IpLayer;

  constructor() {
    const pool = new PacketPool(BATCH);
    const lower = { send: (p: Packet) => void (this.#out[this.#count++] = p) };
    const refuse = (): never => {
      throw new Error("a packet was not forwarded");
    };
    const sink = { drop: refuse };
    this.#ip = new IpLayer({ pool, sink, upper: { input: refuse }, lower, hashSeed: 7, forward: true });
    this.#ip.addAddress(IpInterface.parse("10.7.0.1/24"));
    for (const ifindex of [1, 2, 3]) {
      this.#ip.addInterface({ ifindex, name: `i${ifindex}`, mtu: 1500, reversePath: "strict" });
    }
    this.#ip.routes.add(IpPrefix.parse("10.7.0.0/24"), 1);
    this.#ip.routes.add(IpPrefix.parse("fd07::/64"), 1);
    for (const ifindex of [2, 3]) {
      this.#ip.routes.add(IpPrefix.parse("10.8.0.0/16"), ifindex);
      this.#ip.routes.add(IpPrefix.parse("fd08::/64"), ifindex);
    }
    const h = new IpHeader();
    for (let i = 0; i < BATCH; i++) {
      const p = pool.acquire()!;
      const v4 = i % 2 === 0;
      h.setAddresses(IpAddr.parse(v4 ? "10.7.0.2" : "fd07::2"), IpAddr.parse(v4 ? "10.8.0.2" : "fd08::2"));
      h.setDefaults(IpProtocol.Udp, 100);
      emitIp(p.view, p.start, h);
      p.end = p.start + ipHeaderBytes(h.version) + 100;
      p.view.setUint16(p.end - 100, 1000 + i);
      this.#batch.push(p);
    }
  }

  /** One batch in and out. */
  turn(): void {
    const out = this.#out;
    this.#count = 0;
    for (let i = 0; i < BATCH; i++) {
      const p = this.#batch[i]!;
      p.ifindex = 1;
      this.#ip.input(p, 0);
    }
    for (let i = 0; i < this.#count; i++) {
      const { view, start } = out[i]!;
      if (view.getUint8(start) === 0x45) {
        view.setUint8(start + 8, 64);
        view.setUint16(start + 10, checksumUpdate(view.getUint16(start + 10), 0x3f11, 0x4011));
      } else view.setUint8(start + 7, 64);
    }
    this.packets += this.#count;
  }
}

/** What forwarding costs, queues and tunnel apart. */
export const forward: Bench = {
  name: "forward",
  what: "IP input to output of a router: check of the way back, look-up, two equal paths, both versions",
  unit: "ns",
  run(seconds) {
    const loop = new Loop();
    return 1e9 / ratePerSecond(seconds, () => {
      const before = loop.packets;
      loop.turn();
      return loop.packets - before;
    });
  },
};

/** Bytes that forwarding a packet costs on the heap. */
export const forwardHeap: Bench = {
  name: "forward heap",
  what: "bytes allocated a packet that is forwarded",
  unit: "B",
  run(seconds) {
    const loop = new Loop();
    ratePerSecond(seconds / 2, () => (loop.turn(), 1));
    const sizes = Array.from({ length: 15 }, () => {
      const before = Deno.memoryUsage().heapUsed;
      for (let i = 0; i < 1000; i++) loop.turn();
      return (Deno.memoryUsage().heapUsed - before) / (1000 * BATCH);
    });
    return sizes.sort((a, b) => a - b)[sizes.length >> 1]!;
  },
};

/** From the text of a configuration to a stack. */
export const peers: Bench = {
  name: "configure 10000 peers",
  what: `a stack with ${PEERS.toLocaleString("en")} peers, from its configuration`,
  unit: "ms",
  run() {
    const options = {
      address: ["10.0.0.1/8", "fd07::1/64"],
      peers: Array.from({ length: PEERS }, (_, i) => ({
        endpoint: `192.0.2.${i % 250 + 1}:${10_000 + i}`,
        allowed: [`10.${1 + (i >> 8)}.${i & 255}.0/24`, `fd07:${(i + 1).toString(16)}::/32`],
      })),
      forward: true,
      seed: 1,
    };
    const from = performance.now();
    const stack = new Stack(parseHostConfig(options));
    const time = performance.now() - from;
    if (stack.ip.routes.size !== 2 * PEERS) throw new Error(`${stack.ip.routes.size} routes`);
    return time;
  },
};
