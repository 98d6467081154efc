/**
 * The stack under test, alone, in virtual time: IP packets go in as bytes, and what it sends is caught with the time at
 * which it left.
 *
 * It is the whole stack of the product (IP, ICMP, TCP and the fair queue), with one interface behind which everything
 * else is.
 *
 * @module
 */

import { HEADROOM_BYTES, Packet } from "../../src/base/packet.ts";
import { type Instant, NEVER } from "../../src/base/time.ts";
import { Stack } from "../../src/stack/stack.ts";
import type { Tcp } from "../../src/tcp/tcp.ts";
import { DEFAULT_UDP_OPTIONS } from "../../src/udp/udp.ts";
import { IpAddr, IpInterface, IpPrefix } from "../../src/wire/ip_addr.ts";
import type { ProfileOptions } from "./profile.ts";
import { parsePacket, type Segment } from "./segment.ts";

/** A packet that left the stack. */
export interface Caught {
  /** When it left. */
  at: Instant;
  /** What it is, or in words what is wrong with it. */
  segment: Segment | string;
}

/** Turns without progress in time after which the stack counts as not coming to rest. */
const TURNS_MAX = 100_000;

/** A stack and its clock. */
export class Host {
  /** The time. */
  now: Instant = 0;
  /** What it sent and nobody has looked at yet, in order. */
  readonly caught: Caught[] = [];
  /** Its own address. */
  readonly local: IpAddr;
  /** The address of the other side. */
  readonly remote: IpAddr;
  /** Both as bytes. */
  readonly localBytes: Uint8Array<ArrayBuffer>;
  /** The other side's. */
  readonly remoteBytes: Uint8Array<ArrayBuffer>;
  readonly #stack: Stack;
  readonly #mtu: number;

  /** Makes a stack at rest, at time 0. */
  constructor(version: 4 | 6, mtu: number, tcp: ProfileOptions) {
    const [local, prefix, remote, all] = version === 4
      ? ["192.168.0.1", 16, "192.0.2.1", "0.0.0.0/0"] as const
      : ["fd3d:a0b:17d6::1", 64, "fd3d:fa7b:d17d::1", "::/0"] as const;
    this.local = IpAddr.parse(local);
    this.remote = IpAddr.parse(remote);
    this.localBytes = addressBytes(this.local);
    this.remoteBytes = addressBytes(this.remote);
    this.#mtu = mtu;
    const allowed = [IpPrefix.parse(all)];
    this.#stack = new Stack({
      addresses: [IpInterface.parse(`${local}/${prefix}`)],
      peers: [{
        name: "wire",
        endpoint: null,
        allowed,
        mtu,
        vni: 0,
        ecn: "compatibility",
        impair: { in: null, out: null },
      }],
      routes: [],
      forward: false,
      encapsulation: { kind: "none" },
      qdisc: { kind: "fq", options: {} },
      tcp,
      udp: DEFAULT_UDP_OPTIONS,
      poolPackets: 8192,
      seed: 1,
    });
  }

  /** The TCP under test. */
  get tcp(): Tcp {
    return this.#stack.tcp;
  }

  /** When something happens next by itself. */
  get nextAt(): Instant {
    return this.#stack.nextAt();
  }

  /** Lets an IP packet come in now. */
  input(bytes: Uint8Array): void {
    // A packet of its own, not one of the pool: scripts send segments that are larger than any slot.
    const p = new Packet(new Uint8Array(Math.max(2048, HEADROOM_BYTES + bytes.length)));
    p.free = false;
    p.bytes.set(bytes, p.start);
    p.end = p.start + bytes.length;
    this.#stack.input(1, p, this.now);
    this.settle();
  }

  /** Does all that is to be done now. */
  settle(): void {
    const stack = this.#stack;
    for (let turns = 0; stack.nextAt() <= this.now; turns++) {
      if (turns > TURNS_MAX) throw new Error("the stack does not come to rest");
      stack.timeout(this.now);
      for (let p = stack.pull(this.now); p !== null; p = stack.pull(this.now)) {
        this.caught.push({ at: this.now, segment: this.#parse(p.toBytes().slice()) });
        stack.pool.release(p);
      }
      for (let source = stack.pollEvent(); source !== null; source = stack.pollEvent()) source.events = 0;
    }
  }

  #parse(bytes: Uint8Array<ArrayBuffer>): Segment | string {
    if (bytes.length > this.#mtu) return `a packet of ${bytes.length} bytes, more than the MTU`;
    const expected = [...this.localBytes, ...this.remoteBytes];
    const at = this.localBytes.length === 4 ? 12 : 8;
    if (expected.some((byte, i) => bytes[at + i] !== byte)) return "a packet with other addresses";
    return parsePacket(bytes);
  }

  /** Goes on to the next thing that happens by itself, if that is not after `limit`; else to `limit`: false. */
  step(limit: Instant): boolean {
    const at = this.nextAt;
    if (at > limit || at === NEVER) {
      if (limit > this.now && limit !== NEVER) this.now = limit;
      return false;
    }
    if (at > this.now) this.now = at;
    this.settle();
    return true;
  }
}

function addressBytes(address: IpAddr): Uint8Array<ArrayBuffer> {
  const words = new Uint8Array(16);
  const view = new DataView(words.buffer);
  [address.w0, address.w1, address.w2, address.w3].forEach((word, i) => view.setInt32(4 * i, word));
  return address.isV4 ? words.slice(12) : words;
}
