/**
 * Two stacks in one process, joined by memory: what leaves one is copied into a packet of the other.
 *
 * No socket, no impairment; MTU 1500, checksums built and checked on both sides. The link is pumped in batches of 64
 * packets, as the driver does, with one reading of the clock a turn.
 *
 * @module
 */

import { DropReason } from "../src/base/drop.ts";
import type { Instant } from "../src/base/time.ts";
import { type HostOptions, parseHostConfig } from "../src/stack/config.ts";
import { Stack } from "../src/stack/stack.ts";
import { TcpListener } from "../src/tcp/listener.ts";
import { Tcb } from "../src/tcp/tcb.ts";
import { IpAddr } from "../src/wire/ip_addr.ts";

const BATCH = 64;

/** A pair of joined stacks under the real clock. */
export class MemoryLink {
  readonly a: Stack;
  readonly b: Stack;
  /** Packets carried, both ways. */
  packets = 0;
  readonly #origin = performance.now();

  constructor(tcp: HostOptions["tcp"] = {}) {
    const host = (own: number, other: number): Stack =>
      new Stack(parseHostConfig({
        address: `10.0.0.${own}/24`,
        peers: [{ name: "other", allowed: `10.0.0.${other}`, mtu: 1500 }],
        encapsulation: "none",
        seed: own,
        tcp,
      }));
    this.a = host(1, 2);
    this.b = host(2, 1);
  }

  now(): Instant {
    return Math.round((performance.now() - this.#origin) * 1e6);
  }

  /** One turn of both stacks; returns how many packets moved. */
  turn(): number {
    const now = this.now();
    this.a.timeout(now);
    let n = this.#carry(this.a, this.b, now);
    this.b.timeout(now);
    n += this.#carry(this.b, this.a, now);
    this.packets += n;
    return n;
  }

  #carry(from: Stack, to: Stack, now: Instant): number {
    let n = 0;
    for (; n < BATCH; n++) {
      const p = from.pull(now);
      if (p === null) break;
      const q = to.pool.acquire();
      if (q === null) {
        to.drops.count(DropReason.PoolExhausted);
      } else {
        q.copyFrom(p);
        to.input(1, q, now);
      }
      from.pool.release(p);
    }
    return n;
  }

  /** A connection from a to b, established. */
  connect(listener: TcpListener): { client: Tcb; server: Tcb } {
    const client = this.a.tcp.connect(listener.localAddress, listener.localPort, {}, this.now());
    if (!(client instanceof Tcb)) throw new Error("connect refused");
    for (let i = 0; i < 1000; i++) {
      this.turn();
      const server = listener.accept();
      if (server !== null) return { client, server };
    }
    throw new Error("no connection after 1,000 turns");
  }

  listen(port: number): TcpListener {
    const listener = this.b.tcp.listen(IpAddr.parse("10.0.0.2"), port);
    if (!(listener instanceof TcpListener)) throw new Error("listen refused");
    return listener;
  }

  /** Takes all events off both stacks. */
  clearEvents(): void {
    for (const stack of [this.a, this.b]) {
      for (let s = stack.pollEvent(); s !== null; s = stack.pollEvent()) s.events = 0;
    }
  }
}
