/**
 * Routes by longest prefix, for both address families.
 *
 * A trie a family (prefix_trie.ts) leads to all routes of one prefix. The lowest metric wins. Unicast routes of equal prefix
 * and metric share the traffic (ECMP): {@linkcode RouteTable.select} gives each flow one of them by its hash, in
 * proportion to their weights. Each owns a contiguous part of the hash space (hash-threshold, RFC 2992), so that a flow
 * moves only if the bounds of its part do.
 *
 * A route that is no unicast route says what becomes of the packets instead: `blackhole` drops them in silence,
 * `unreachable` and `prohibit` answer them, as in `ip route`.
 *
 * An interface can be marked down: then its routes are passed over, as if they were not there.
 *
 * @module
 */

import { type IpPrefix, isV4Words } from "../wire/ip_addr.ts";
import { NO_VALUE, PrefixTrie } from "./prefix_trie.ts";

/** What becomes of the packets of a route, by iproute2's names. */
export enum RouteKind {
  /** They leave by its interface. */
  Unicast = 0,
  /** They are dropped in silence. */
  Blackhole,
  /** They are answered with "host unreachable" (IPv6: "no route"). */
  Unreachable,
  /** They are answered with "administratively prohibited". */
  Prohibit,
}

/** What a route may have beside its prefix and interface. */
export interface RouteOptions {
  /** Preference among routes of the same prefix, the lowest first (default 0). */
  readonly metric?: number;
  /** What becomes of the packets (default unicast). */
  readonly kind?: RouteKind;
  /** Its share among unicast routes of the same prefix and metric, an integer from 1 to 256 (default 1). */
  readonly weight?: number;
}

/** The largest weight, as in `ip route`. */
export const ROUTE_WEIGHT_MAX = 256;

const HASH_SPACE = 2 ** 31;

/** One route. Made by {@linkcode RouteTable.add}. */
export class Route {
  /** The destinations. */
  readonly prefix: IpPrefix;
  /** The interface that leads to them; 0 if the route is no unicast route. */
  readonly ifindex: number;
  /** Preference among routes of one prefix, the lowest first. */
  readonly metric: number;
  /** What becomes of the packets. */
  readonly kind: RouteKind;
  /** Share among routes of one prefix and metric. */
  readonly weight: number;
  /** All routes that share the traffic with this one, itself included; `null` if there is no other. */
  group: readonly Route[] | null = null;
  /** One past the last hash (of 31 bits) that is this route's part of its group. */
  bound: number = HASH_SPACE;

  /** Made by the table only. */
  constructor(prefix: IpPrefix, ifindex: number, metric: number, kind: RouteKind, weight: number) {
    this.prefix = prefix;
    this.ifindex = ifindex;
    this.metric = metric;
    this.kind = kind;
    this.weight = weight;
  }
}

/** All routes of one prefix. */
class Entry {
  readonly prefix: IpPrefix;
  /** By metric, then in the order in which they were added. */
  readonly routes: Route[] = [];
  /** The first of those to use, or `null` if all interfaces are down. */
  best: Route | null = null;

  constructor(prefix: IpPrefix) {
    this.prefix = prefix;
  }
}

/** A table of routes with longest-prefix match. */
export class RouteTable {
  /** The most routes. */
  readonly limit: number;
  readonly #v4 = new PrefixTrie(true);
  readonly #v6 = new PrefixTrie(false);
  readonly #entries: (Entry | null)[] = [];
  /** The best route of each entry, again: a look-up then touches one object less. */
  readonly #best: (Route | null)[] = [];
  readonly #freeIds: number[] = [];
  readonly #byInterface = new Map<number, Set<Entry>>();
  readonly #down = new Set<number>();
  /** Prefixes all of whose interfaces are down: they are not in the trie, so that a shorter prefix is found. */
  readonly #hidden = new Map<string, Entry>();
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
   * @param ifindex the interface that leads there, at least 1; of no meaning if the route is no unicast route
   * @param options metric, or kind, metric and weight
   * @throws {RangeError} if the same route is there already, the table is full, or a number is out of range
   */
  add(prefix: IpPrefix, ifindex: number, options: RouteOptions | number = {}): Route {
    const { metric = 0, kind = RouteKind.Unicast, weight = 1 } = typeof options === "number"
      ? { metric: options }
      : options;
    if (this.#size >= this.limit) throw new RangeError(`the route table is full: at most ${this.limit} routes`);
    if (!Number.isInteger(weight) || weight < 1 || weight > ROUTE_WEIGHT_MAX) {
      throw new RangeError(`the weight of a route must be an integer from 1 to ${ROUTE_WEIGHT_MAX}, got ${weight}`);
    }
    const route = new Route(prefix, kind === RouteKind.Unicast ? ifindex : 0, metric, kind, weight);
    const entry = this.#find(prefix) ?? new Entry(prefix);
    if (entry.routes.some((r) => r.ifindex === route.ifindex && r.metric === metric)) {
      throw new RangeError(`the route to ${prefix} by interface ${route.ifindex} with metric ${metric} exists already`);
    }
    const at = entry.routes.findIndex((r) => r.metric > metric);
    entry.routes.splice(at < 0 ? entry.routes.length : at, 0, route);
    this.#size++;
    if (route.kind === RouteKind.Unicast) {
      const of = this.#byInterface.get(ifindex);
      if (of === undefined) this.#byInterface.set(ifindex, new Set([entry]));
      else of.add(entry);
    }
    this.#choose(entry);
    return route;
  }

  /** Removes the routes to exactly `prefix` by `ifindex` (all of them if left out); returns how many they were. */
  remove(prefix: IpPrefix, ifindex?: number): number {
    const entry = this.#find(prefix);
    if (entry === null) return 0;
    const { routes } = entry;
    const before = routes.length;
    for (let i = before - 1; i >= 0; i--) {
      const route = routes[i]!;
      if (ifindex !== undefined && route.ifindex !== ifindex) continue;
      routes.splice(i, 1);
      if (!routes.some((r) => r.ifindex === route.ifindex)) this.#byInterface.get(route.ifindex)?.delete(entry);
    }
    this.#size -= before - routes.length;
    this.#choose(entry);
    return before - routes.length;
  }

  /** Marks an interface down, so that its routes are passed over, or up again. */
  setDown(ifindex: number, isDown: boolean): void {
    if (this.#down.has(ifindex) === isDown) return;
    if (isDown) this.#down.add(ifindex);
    else this.#down.delete(ifindex);
    for (const entry of this.#byInterface.get(ifindex) ?? []) this.#choose(entry);
  }

  /** True if an interface is marked down. */
  isDown(ifindex: number): boolean {
    return this.#down.has(ifindex);
  }

  /** The best route to the address of these four words, or `null`; among routes that share, the first. */
  lookup(w0: number, w1: number, w2: number, w3: number): Route | null {
    const id = isV4Words(w0, w1, w2) ? this.#v4.lookupV4(w3) : this.#v6.lookupV6(w0, w1, w2, w3);
    return id < 0 ? null : this.#best[id]!;
  }

  /** Which of the routes that share with `route` carries a flow with this hash. */
  select(route: Route, hash: number): Route {
    const { group } = route;
    if (group === null) return route;
    const h = hash >>> 1;
    for (let i = 0; i < group.length; i++) {
      const r = group[i]!;
      if (h < r.bound) return r;
    }
    return route;
  }

  /** All routes, IPv4 before IPv6, each prefix before those inside it; for inspection. */
  *[Symbol.iterator](): IterableIterator<Route> {
    for (const id of this.#v4.values()) yield* this.#entries[id]!.routes;
    for (const { prefix, routes } of this.#hidden.values()) if (prefix.address.isV4) yield* routes;
    for (const id of this.#v6.values()) yield* this.#entries[id]!.routes;
    for (const { prefix, routes } of this.#hidden.values()) if (!prefix.address.isV4) yield* routes;
  }

  #trieOf(prefix: IpPrefix): PrefixTrie {
    return prefix.address.isV4 ? this.#v4 : this.#v6;
  }

  #find(prefix: IpPrefix): Entry | null {
    const id = this.#trieOf(prefix).get(prefix.address, prefix.length);
    if (id !== NO_VALUE) return this.#entries[id]!;
    return this.#hidden.size === 0 ? null : this.#hidden.get(prefix.key) ?? null;
  }

  /** Chooses the routes of an entry that are used, and takes it into the trie or out of it. */
  #choose(entry: Entry): void {
    const { prefix, routes } = entry;
    const usable = routes.filter((r) => r.kind !== RouteKind.Unicast || !this.#down.has(r.ifindex));
    for (const r of routes) {
      r.group = null;
      r.bound = HASH_SPACE;
    }
    const first = usable[0] ?? null;
    const wasThere = entry.best !== null;
    entry.best = first;
    if (first !== null && first.kind === RouteKind.Unicast) share(usable, first.metric);
    const trie = this.#trieOf(prefix);
    if (first !== null && wasThere) {
      this.#best[trie.get(prefix.address, prefix.length)] = first;
    } else if (first !== null) {
      if (this.#hidden.size > 0) this.#hidden.delete(prefix.key);
      const id = this.#freeIds.pop() ?? this.#entries.length;
      this.#entries[id] = entry;
      this.#best[id] = first;
      trie.set(prefix.address, prefix.length, id);
    } else {
      if (wasThere) {
        const id = trie.get(prefix.address, prefix.length);
        trie.remove(prefix.address, prefix.length);
        this.#entries[id] = null;
        this.#best[id] = null;
        this.#freeIds.push(id);
      }
      if (routes.length > 0) this.#hidden.set(prefix.key, entry);
      else this.#hidden.delete(prefix.key);
    }
  }
}

/** Has the unicast routes of `metric` among `routes` share the hash space, if there are several. */
function share(routes: readonly Route[], metric: number): void {
  const group = routes.filter((r) => r.metric === metric && r.kind === RouteKind.Unicast);
  if (group.length < 2) return;
  const total = group.reduce((sum, r) => sum + r.weight, 0);
  let sum = 0;
  for (const r of group) {
    sum += r.weight;
    r.group = group;
    r.bound = Math.round(HASH_SPACE * sum / total);
  }
}
