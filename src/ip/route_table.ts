/**
 * Routes by longest prefix, for both address families.
 *
 * Two path-compressed binary tries, one a family. Each node stands for a prefix; its two children agree with it in all
 * its bits and differ in the next one. A node without a route has always two children, so a table of n prefixes has
 * fewer than 2n nodes. A look-up walks down while the nodes contain the address and remembers the last route it passed:
 * at most one step a bit, a few steps in practice, and nothing is allocated.
 *
 * Several routes may have the same prefix: the lowest metric wins, and among equal metrics the one added first.
 *
 * @module
 */

import { type IpAddr, IpPrefix, isV4Words } from "../wire/ip_addr.ts";

/** One route. Immutable. */
export interface Route {
  /** The destinations. */
  readonly prefix: IpPrefix;
  /** The interface that leads to them. */
  readonly ifindex: number;
  /** Preference among routes of one prefix, the lowest first. */
  readonly metric: number;
}

class Node {
  readonly prefix: IpPrefix;
  readonly bits: number;
  left: Node | null = null;
  right: Node | null = null;
  best: Route | null = null;
  readonly routes: Route[] = [];

  constructor(prefix: IpPrefix) {
    this.prefix = prefix;
    this.bits = prefixBits(prefix);
  }
}

/** A table of routes with longest-prefix match. */
export class RouteTable {
  /** The most routes. */
  readonly limit: number;
  #v4: Node | null = null;
  #v6: Node | null = null;
  #size = 0;

  /** Makes an empty table for at most `limit` routes (default 1,048,576). */
  constructor(limit = 1 << 20) {
    this.limit = limit;
  }

  /** Number of routes. */
  get size(): number {
    return this.#size;
  }

  /**
   * Adds a route.
   *
   * @param prefix the destinations
   * @param ifindex the interface that leads there
   * @param metric preference among routes of the same prefix, the lowest first (default 0)
   * @throws {RangeError} if the same route is there already, or the table is full
   */
  add(prefix: IpPrefix, ifindex: number, metric = 0): Route {
    if (this.#size >= this.limit) throw new RangeError(`the route table is full: at most ${this.limit} routes`);
    const node = this.#nodeFor(prefix);
    if (node.routes.some((r) => r.ifindex === ifindex && r.metric === metric)) {
      throw new RangeError(`the route to ${prefix} by interface ${ifindex} with metric ${metric} exists already`);
    }
    const route: Route = { prefix, ifindex, metric };
    const at = node.routes.findIndex((r) => r.metric > metric);
    node.routes.splice(at < 0 ? node.routes.length : at, 0, route);
    node.best = node.routes[0]!;
    this.#size++;
    return route;
  }

  /** Removes the routes to exactly `prefix` by `ifindex` (any interface if left out); returns how many they were. */
  remove(prefix: IpPrefix, ifindex?: number): number {
    const v4 = prefix.address.isV4;
    const bits = prefixBits(prefix);
    let grandparent: Node | null = null;
    let parent: Node | null = null;
    let node = v4 ? this.#v4 : this.#v6;
    while (node !== null && node.bits < bits) {
      grandparent = parent;
      parent = node;
      node = bitAt(prefix.address, node.bits) === 0 ? node.left : node.right;
    }
    if (node === null || node.bits !== bits || !node.prefix.address.equals(prefix.address)) return 0;
    const before = node.routes.length;
    for (let i = before - 1; i >= 0; i--) {
      if (ifindex === undefined || node.routes[i]!.ifindex === ifindex) node.routes.splice(i, 1);
    }
    const removed = before - node.routes.length;
    this.#size -= removed;
    node.best = node.routes[0] ?? null;
    if (node.best === null && this.#splice(node, parent, v4) && parent !== null && parent.best === null) {
      this.#splice(parent, grandparent, v4);
    }
    return removed;
  }

  /** The route to the address of these four words, or `null`. */
  lookup(w0: number, w1: number, w2: number, w3: number): Route | null {
    let node = isV4Words(w0, w1, w2) ? this.#v4 : this.#v6;
    let best: Route | null = null;
    while (node !== null && node.prefix.containsWords(w0, w1, w2, w3)) {
      if (node.best !== null) best = node.best;
      const bits = node.bits;
      if (bits === 128) break;
      const word = bits < 64 ? (bits < 32 ? w0 : w1) : (bits < 96 ? w2 : w3);
      node = ((word >>> (31 - (bits & 31))) & 1) === 0 ? node.left : node.right;
    }
    return best;
  }

  /** All routes, IPv4 before IPv6, each prefix before those inside it; for inspection. */
  *[Symbol.iterator](): IterableIterator<Route> {
    const stack: Node[] = [];
    if (this.#v6 !== null) stack.push(this.#v6);
    if (this.#v4 !== null) stack.push(this.#v4);
    for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
      yield* node.routes;
      if (node.right !== null) stack.push(node.right);
      if (node.left !== null) stack.push(node.left);
    }
  }

  #nodeFor(prefix: IpPrefix): Node {
    const bits = prefixBits(prefix);
    let parent: Node | null = null;
    let node = prefix.address.isV4 ? this.#v4 : this.#v6;
    while (node !== null) {
      const common = commonBits(node.prefix.address, prefix.address, Math.min(node.bits, bits));
      if (common < node.bits) {
        // The node does not contain the prefix: put the prefix above it, or a fork above both.
        const added = new Node(prefix);
        const top = common === bits ? added : new Node(prefixOfBits(prefix.address, common));
        if (top !== added) attach(top, added);
        attach(top, node);
        this.#replace(parent, node, top);
        return added;
      }
      if (node.bits === bits) return node;
      parent = node;
      node = bitAt(prefix.address, node.bits) === 0 ? node.left : node.right;
    }
    const added = new Node(prefix);
    if (parent === null) this.#setRoot(prefix.address.isV4, added);
    else attach(parent, added);
    return added;
  }

  /** Takes a node without routes out if it has at most one child; true if it was taken out. */
  #splice(node: Node, parent: Node | null, v4: boolean): boolean {
    if (node.left !== null && node.right !== null) return false;
    const child = node.left ?? node.right;
    if (parent === null) this.#setRoot(v4, child);
    else if (parent.left === node) parent.left = child;
    else parent.right = child;
    return true;
  }

  #replace(parent: Node | null, before: Node, after: Node): void {
    if (parent === null) this.#setRoot(before.prefix.address.isV4, after);
    else if (parent.left === before) parent.left = after;
    else parent.right = after;
  }

  #setRoot(v4: boolean, node: Node | null): void {
    if (v4) this.#v4 = node;
    else this.#v6 = node;
  }
}

function attach(parent: Node, child: Node): void {
  if (bitAt(child.prefix.address, parent.bits) === 0) parent.left = child;
  else parent.right = child;
}

/** Length of a prefix in bits of the four-word form. */
function prefixBits(prefix: IpPrefix): number {
  return prefix.address.isV4 ? 96 + prefix.length : prefix.length;
}

function prefixOfBits(address: IpAddr, bits: number): IpPrefix {
  return new IpPrefix(address, address.isV4 ? bits - 96 : bits);
}

function wordAt(a: IpAddr, i: number): number {
  return i < 2 ? (i === 0 ? a.w0 : a.w1) : (i === 2 ? a.w2 : a.w3);
}

function bitAt(a: IpAddr, bit: number): number {
  return (wordAt(a, bit >> 5) >>> (31 - (bit & 31))) & 1;
}

/** How many leading bits, at most `most`, two addresses have in common. */
function commonBits(a: IpAddr, b: IpAddr, most: number): number {
  for (let i = 0; i < 4; i++) {
    const different = wordAt(a, i) ^ wordAt(b, i);
    if (different !== 0) return Math.min(most, 32 * i + Math.clz32(different));
  }
  return most;
}
