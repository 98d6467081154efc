/**
 * Names of peers, looked up again: from time to time, and when a peer is dead.
 *
 * ```text
 *   every interval, by a tenth more or less ──┐
 *   a peer died: at once, then 1, 2, 4 … s ───┼─▶ look up ─▶ is the peer's address among the answers?
 *   it failed:   1, 2, 4 … s ─────────────────┘                 yes, and the peer is not dead: it stays
 *                                                               no: to the first that is not refused
 *                                                               dead: to the next one behind the present
 * ```
 *
 * An answer that is as the last one moves nobody but the dead, so a peer that roamed is left where it is until its name says
 * something new. A name is looked up once for all of its peers, at most once a second; at most {@linkcode LOOKUPS_AT_ONCE}
 * names at a time. Waits and doubling intervals are bounded by the interval.
 *
 * @module
 */

import { DeadlineHeap } from "../base/deadline_heap.ts";
import { type Duration, type Instant, NEVER, SECOND } from "../base/time.ts";
import type { IpAddr } from "../wire/ip_addr.ts";
import { formatEndpoint } from "../stack/options.ts";
import type { ResolveName } from "./lookup.ts";

/** Names that are looked up at a time. */
export const LOOKUPS_AT_ONCE = 16;

/** The least time between two look-ups of a name. */
const LEAST: Duration = SECOND;

/** A peer that is known by a name. */
export interface NamedPeer {
  /** Its interface. */
  readonly ifindex: number;
  /** Its name among the peers. */
  readonly name: string;
  /** The name of its host. */
  readonly hostname: string;
  /** Its port. */
  readonly port: number;
}

/** What became of the look-ups of a name. */
export interface LookupInspection {
  /** The name. */
  hostname: string;
  /** The peers that have it in their endpoints. */
  peers: string[];
  /** Look-ups since the host was opened. */
  lookups: number;
  /** Those that failed. */
  failures: number;
  /** Why the last one failed, or why no address of it is used; empty if neither is so. */
  problem: string;
}

/** What the look-ups work with. */
export interface LookupParts {
  /** Looks up a name. */
  readonly resolve: ResolveName;
  /** How often. */
  readonly interval: Duration;
  /** The time. */
  now(): Instant;
  /** Resolves at or after an instant; rejects when nothing is to be done any more. */
  sleepUntil(at: Instant): Promise<void>;
  /** True once nothing is to be done any more. */
  isOver(): boolean;
  /** A number from 0 to below 1. */
  random(): number;
  /** Where a peer is. */
  addressOf(ifindex: number): IpAddr;
  /** True if a peer is dead. */
  isDead(ifindex: number): boolean;
  /** Moves a peer, or says why not. */
  move(ifindex: number, address: IpAddr, port: number): string;
  /** Told of a fault of the program. */
  fault(error: unknown): void;
}

/** A name and when it is looked up. */
class Name {
  readonly hostname: string;
  readonly peers: NamedPeer[] = [];
  lookups = 0;
  failures = 0;
  problem = "";
  answer: readonly IpAddr[] = [];
  backoff: Duration = LEAST;
  askedAt: Instant = 0;
  isAsking = false;

  constructor(hostname: string) {
    this.hostname = hostname;
  }
}

/** Looks up the names of one host's peers. */
export class EndpointLookups {
  readonly #parts: LookupParts;
  readonly #names: Name[] = [];
  readonly #byPeer = new Map<number, Name>();
  readonly #deadlines = new DeadlineHeap();
  #asking = 0;
  #armedAt: Instant = NEVER;

  /**
   * Begins: the names were just looked up.
   *
   * @param peers the peers that have names
   * @param answers what the names were found to be
   */
  constructor(peers: readonly NamedPeer[], answers: ReadonlyMap<string, readonly IpAddr[]>, parts: LookupParts) {
    this.#parts = parts;
    const byHostname = new Map<string, Name>();
    for (const peer of peers) {
      let name = byHostname.get(peer.hostname);
      if (name === undefined) {
        name = new Name(peer.hostname);
        name.answer = answers.get(peer.hostname) ?? [];
        name.askedAt = parts.now();
        byHostname.set(peer.hostname, name);
        this.#names.push(name);
        this.#deadlines.set(this.#names.length - 1, this.#regular(name.askedAt));
      }
      name.peers.push(peer);
      this.#byPeer.set(peer.ifindex, name);
    }
    this.#arm();
  }

  /** A peer died: its name is looked up at once. */
  peerDied(ifindex: number): void {
    const name = this.#byPeer.get(ifindex);
    if (name === undefined) return;
    name.backoff = LEAST;
    const at = Math.max(this.#parts.now(), name.askedAt + LEAST);
    const id = this.#names.indexOf(name);
    if (name.isAsking || this.#deadlines.get(id) <= at) return;
    this.#deadlines.set(id, at);
    this.#arm();
  }

  /** What became of the look-ups. */
  inspect(): LookupInspection[] {
    return this.#names.map(({ hostname, peers, lookups, failures, problem }) => ({
      hostname,
      peers: peers.map(({ name }) => name),
      lookups,
      failures,
      problem,
    }));
  }

  #regular(now: Instant): Instant {
    return now + Math.round(this.#parts.interval * (0.9 + 0.2 * this.#parts.random()));
  }

  /** Has itself woken when the next look-up is due. An earlier sleep that is needless by then does no harm. */
  #arm(): void {
    const at = this.#asking >= LOOKUPS_AT_ONCE ? NEVER : this.#deadlines.nextAt();
    if (at >= this.#armedAt) return;
    this.#armedAt = at;
    this.#parts.sleepUntil(at).then(() => {
      if (this.#armedAt === at) this.#armedAt = NEVER;
      this.#work();
    }, () => {});
  }

  #work(): void {
    const now = this.#parts.now();
    while (this.#asking < LOOKUPS_AT_ONCE) {
      const id = this.#deadlines.popDue(now);
      if (id < 0) break;
      this.#ask(id).catch((error) => this.#parts.fault(error));
    }
    this.#arm();
  }

  async #ask(id: number): Promise<void> {
    const name = this.#names[id]!;
    const { hostname } = name;
    this.#asking++;
    name.isAsking = true;
    name.askedAt = this.#parts.now();
    name.lookups++;
    let answer: readonly IpAddr[] = [];
    try {
      answer = await this.#parts.resolve(hostname);
      name.problem = "";
    } catch (error) {
      name.failures++;
      name.problem = error instanceof Error ? error.message : String(error);
    }
    this.#asking--;
    name.isAsking = false;
    if (this.#parts.isOver()) return;
    if (name.problem === "") this.#take(name, answer);
    const now = this.#parts.now();
    if (name.problem !== "" || name.peers.some(({ ifindex }) => this.#parts.isDead(ifindex))) {
      this.#deadlines.set(id, now + Math.min(name.backoff, this.#parts.interval));
      name.backoff = Math.min(name.backoff * 2, this.#parts.interval);
    } else {
      name.backoff = LEAST;
      this.#deadlines.set(id, this.#regular(now));
    }
    this.#work();
  }

  #take(name: Name, answer: readonly IpAddr[]): void {
    const isNews = answer.length !== name.answer.length ||
      answer.some((address) => !name.answer.some((other) => other.equals(address)));
    for (const { ifindex, port } of name.peers) {
      const present = this.#parts.addressOf(ifindex);
      const at = answer.findIndex((address) => address.equals(present));
      const isDead = this.#parts.isDead(ifindex);
      if (!isDead && (at >= 0 || !isNews)) continue;
      let problem = "";
      for (let i = 1; i <= answer.length; i++) {
        const address = answer[(at + i) % answer.length]!;
        const why = this.#parts.move(ifindex, address, port);
        if (why === "") {
          problem = "";
          break;
        }
        problem ||= `${formatEndpoint(address, port)} is not used: ${why}`;
      }
      name.problem ||= problem;
    }
    // What could not be done yet stays news.
    if (name.problem === "") name.answer = answer;
  }
}
