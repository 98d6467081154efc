/**
 * Stacks joined by their tunnels under virtual time: what one pulls is wrapped, carried for a fixed delay and given to
 * the stack that listens at that endpoint.
 *
 * It is deliberately small and knows nothing of simulators: the order of things at one instant is arrivals, then each
 * stack in turn. It checks on the way that nothing leaves before its time.
 *
 * @module
 */

import { assert } from "@std/assert";
import type { EventSource } from "../../src/base/event_queue.ts";
import { type Duration, type Instant, NEVER } from "../../src/base/time.ts";
import { type HostOptions, parseHostConfig } from "../../src/stack/config.ts";
import { formatEndpoint } from "../../src/stack/options.ts";
import { Stack } from "../../src/stack/stack.ts";
import type { IpAddr } from "../../src/wire/ip_addr.ts";

/** A stack in its place. */
export interface StackNode {
  /** The stack. */
  stack: Stack;
  /** Its endpoint on the underlay. */
  address: IpAddr;
  /** Its port on the underlay. */
  port: number;
  /** Told of its events. */
  onEvent: ((source: EventSource, events: number, now: Instant) => void) | null;
}

interface Arrival {
  at: Instant;
  to: StackNode | null;
  from: StackNode;
  bytes: Uint8Array<ArrayBuffer>;
}

/** A network of stacks. */
export class StackNet {
  /** The time. */
  now: Instant = 0;
  /** One-way delay of the underlay. */
  delay: Duration;
  /** Told of each datagram on the underlay. */
  onDatagram: ((bytes: Uint8Array, from: StackNode, at: Instant) => void) | null = null;
  readonly #nodes: StackNode[] = [];
  readonly #byEndpoint = new Map<string, StackNode>();
  #arrivals: Arrival[] = [];

  /** Makes a network whose underlay takes `delay`. */
  constructor(delay: Duration = 0) {
    this.delay = delay;
  }

  /** Adds a stack; `options.listen` has to be one endpoint. */
  add(options: HostOptions): StackNode {
    const config = parseHostConfig(options);
    const { address, port } = config.listen[0]!;
    const node: StackNode = { stack: new Stack(config), address, port, onEvent: null };
    this.#nodes.push(node);
    this.#byEndpoint.set(formatEndpoint(address, port), node);
    return node;
  }

  /** Has a stack be at another endpoint from now on; what is on its way to the old one is lost. */
  move(node: StackNode, address: IpAddr, port: number): void {
    this.#byEndpoint.delete(formatEndpoint(node.address, node.port));
    this.#byEndpoint.set(formatEndpoint(address, port), node);
    node.address = address;
    node.port = port;
  }

  /** Runs until nothing is left to be done by `until`, or until `done` says so; returns whether it did. */
  run(until: Instant = NEVER, done: () => boolean = () => false): boolean {
    let steps = 0;
    for (;;) {
      this.#work();
      if (done()) return true;
      const next = Math.min(
        this.#arrivals[0]?.at ?? NEVER,
        ...this.#nodes.map(({ stack }) => stack.nextAt()),
      );
      if (next === NEVER || next > until) break;
      steps = next > this.now ? 0 : steps + 1;
      assert(steps < 10_000, `no progress in time at ${this.now}`);
      this.now = Math.max(this.now, next);
    }
    if (until !== NEVER) this.now = Math.max(this.now, until);
    return false;
  }

  /** Checks that no packet is in use any more. */
  noLeak(): void {
    for (const { stack, port } of this.#nodes) {
      assert(stack.pool.inUse === 0, `the stack at port ${port} still uses ${stack.pool.inUse} packets`);
    }
  }

  #work(): void {
    const { now } = this;
    while (this.#arrivals.length > 0 && this.#arrivals[0]!.at <= now) {
      const { to, from, bytes } = this.#arrivals.shift()!;
      const p = to === null ? null : to.stack.pool.acquire();
      if (to === null || p === null) continue;
      p.bytes.set(bytes, p.start);
      p.end = p.start + bytes.length;
      const { w0, w1, w2, w3 } = from.address;
      to.stack.inputDatagram(p, w0, w1, w2, w3, from.port, now);
    }
    for (const node of this.#nodes) this.#drive(node);
  }

  #drive(node: StackNode): void {
    const { stack } = node;
    const { now } = this;
    stack.timeout(now);
    for (let p = stack.pull(now); p !== null; p = stack.pull(now)) {
      assert(p.departAt <= now, `a packet left ${p.departAt - now} ns before its departure time`);
      assert(p.ifindex > 0, "a looped packet left the host");
      const peer = stack.tunnel!.output(p);
      const bytes = p.toBytes().slice();
      stack.pool.release(p);
      this.onDatagram?.(bytes, node, now);
      const to = this.#byEndpoint.get(formatEndpoint(peer.address, peer.port)) ?? null;
      this.#arrivals.push({ at: now + this.delay, to, from: node, bytes });
    }
    for (let source = stack.pollEvent(); source !== null; source = stack.pollEvent()) {
      const { events } = source;
      source.events = 0;
      node.onEvent?.(source, events, now);
    }
  }
}
