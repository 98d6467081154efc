/**
 * Datagrams put together again from their fragments (RFC 791 section 3.2, RFC 815, RFC 8200 section 4.5).
 *
 * A fragment is copied to its place in a large packet and freed; what has come is kept as a few sorted ranges. The first
 * fragment is kept whole, since the header of the datagram is its header, and the ICMP error about a datagram that was not
 * completed in time (30 s for IPv4, 60 s for IPv6 from its first fragment) quotes it; without it there is no error.
 *
 * Fragments that overlap, or contradict each other about where the datagram ends, are no accident: the datagram is given up,
 * with all that comes of it until its time is over (RFC 5722; for IPv4 too, as Linux). A fragment that repeats bytes that
 * are there already, the very same ones, is let pass as a duplicate.
 *
 * Memory is bounded: a number of datagrams, each with one large packet and one ordinary one, of which one interface can
 * keep half at most. When there is no room the oldest datagram of that interface, or of all, goes.
 *
 * CE on one fragment is CE on the datagram, unless another one says Not-ECT: then it is dropped (RFC 3168 section 5.3). Other
 * mixtures are not told apart: the first fragment decides.
 *
 * @module
 */

import { DeadlineHeap } from "../base/deadline_heap.ts";
import { DropReason, type DropSink } from "../base/drop.ts";
import { HashTable } from "../base/hash_table.ts";
import type { Packet, PacketPool } from "../base/packet.ts";
import { copyBytes } from "../base/ring_buffer.ts";
import { type Duration, type Instant, SECOND } from "../base/time.ts";
import { checksumFinish, checksumSum } from "../wire/checksum.ts";
import { Ecn, type IpHeader } from "../wire/ip_header.ts";
import { setIpv4Ecn } from "../wire/ipv4.ts";
import { IPV6_HEADER_BYTES, setIpv6Ecn } from "../wire/ipv6.ts";
import { hashPair } from "./flow.ts";

/** How long fragments of IPv4 wait for the others. */
export const IPV4_REASSEMBLY_TIME: Duration = 30 * SECOND;

/** How long fragments of IPv6 wait for the others (RFC 8200 section 4.5). */
export const IPV6_REASSEMBLY_TIME: Duration = 60 * SECOND;

/** Datagrams that may be incomplete at once. */
export const REASSEMBLIES_MAX = 48;

/** Separate ranges of one datagram: more holes than that no honest sender makes. */
export const FRAGMENT_RANGES_MAX = 32;

/** Where data begins in a large packet: headers are put in front of it in the end. */
const DATA_AT = 384;
/** The most bytes of headers. */
const HEADERS_MAX = 256;
/** The largest length that an IP header can state. */
const DATAGRAM_BYTES_MAX = 65_535;

/** Told of datagrams that were not completed in time. */
export interface ReassemblyUpper {
  /** `first` is the first fragment, as it came; it stays with the caller. */
  reassemblyTimedOut(first: Packet, now: Instant): void;
}

/** What a fragment says of itself. One record is filled again for each. */
export class FragmentFacts {
  /** Identification. */
  id = 0;
  /** Protocol, which in IPv4 belongs to the identity of a datagram; 0 in IPv6. */
  protocol = 0;
  /** Offset of its data in bytes. */
  offset = 0;
  /** True if others follow. */
  more = false;
  /** Where its data begins in the packet. */
  dataAt = 0;
  /** Where the headers that every fragment has end in the packet. */
  headersEnd = 0;
  /** IPv6: where in the packet the field stands that names the fragment header. */
  nextHeaderAt = 0;
  /** IPv6: what the fragment header names. */
  nextHeader = 0;
}

/** An incomplete datagram. */
class Datagram {
  readonly index: number;
  readonly froms: Int32Array = new Int32Array(FRAGMENT_RANGES_MAX);
  readonly tos: Int32Array = new Int32Array(FRAGMENT_RANGES_MAX);
  ranges = 0;
  version = 4;
  src0 = 0;
  src1 = 0;
  src2 = 0;
  src3 = 0;
  dst0 = 0;
  dst1 = 0;
  dst2 = 0;
  dst3 = 0;
  id = 0;
  protocol = 0;
  hash = 0;
  ifindex = 0;
  /** Order of arrival, to find the oldest. */
  order = 0;
  /** Length of the data once the last fragment has come, else −1. */
  total = -1;
  /** Bit n is set if a fragment had the ECN field n. */
  ecnSeen = 0;
  /** The data, or `null` once the datagram is given up. */
  data: Packet | null = null;
  first: Packet | null = null;
  headersBytes = 0;
  nextHeaderOffset = 0;
  nextHeader = 0;
  inUse = false;

  constructor(index: number) {
    this.index = index;
  }
}

/** The incomplete datagrams of a host. */
export class Reassembly {
  /** Datagrams completed. */
  completed = 0;
  /** Fragments that repeated what was there. */
  duplicates = 0;
  /** Datagrams not completed in time. */
  timedOut = 0;
  readonly #pool: PacketPool;
  readonly #sink: DropSink;
  readonly #upper: ReassemblyUpper;
  readonly #seed: number;
  readonly #limit: number;
  readonly #datagrams: Datagram[] = [];
  readonly #table: HashTable<Datagram>;
  readonly #deadlines = new DeadlineHeap();
  #order = 0;

  /**
   * Makes one without datagrams.
   *
   * @param limit datagrams that may be incomplete at once (default {@linkcode REASSEMBLIES_MAX}, and not more than a quarter of
   * the pool)
   */
  constructor(pool: PacketPool, sink: DropSink, upper: ReassemblyUpper, seed: number, limit?: number) {
    this.#pool = pool;
    this.#sink = sink;
    this.#upper = upper;
    this.#seed = seed;
    this.#limit = limit ?? Math.max(1, Math.min(REASSEMBLIES_MAX, pool.limit >> 2));
    this.#table = new HashTable<Datagram>(this.#limit);
  }

  /** Datagrams that are incomplete, or given up and not yet forgotten. */
  get size(): number {
    return this.#table.size;
  }

  /** When {@linkcode Reassembly.timeout} has something to do. */
  nextAt(): Instant {
    return this.#deadlines.nextAt();
  }

  /**
   * Takes a fragment, whose header is `ip`.
   *
   * @returns the whole packet, its header mended, from `start` at the IP header to `end`; or `null` if it is not complete
   * yet, or will not be. The fragment is no longer the caller's
   */
  input(p: Packet, ip: IpHeader, facts: FragmentFacts, now: Instant): Packet | null {
    const { offset, more, dataAt } = facts;
    const bytes = p.end - dataAt;
    const end = offset + bytes;
    const headersBytes = facts.headersEnd - p.start;
    if (
      bytes <= 0 || (more && (bytes & 7) !== 0) || headersBytes > HEADERS_MAX ||
      statedBytes(ip.version, headersBytes, end) > DATAGRAM_BYTES_MAX
    ) {
      this.#sink.drop(p, DropReason.Fragment, now);
      return null;
    }
    const d = this.#find(ip, facts) ?? this.#make(p, ip, facts, now);
    if (d === null) {
      this.#sink.drop(p, DropReason.FragmentLimit, now);
      return null;
    }
    const { data } = d;
    if (data === null) {
      this.#sink.drop(p, DropReason.FragmentOverlap, now);
      return null;
    }
    const known = d.ranges === 0 ? 0 : d.tos[d.ranges - 1]!;
    if (more ? d.total >= 0 && end > d.total : (d.total >= 0 && d.total !== end) || known > end) {
      return this.#giveUp(d, p, DropReason.FragmentOverlap, now);
    }
    if (!more) d.total = end;
    const reason = this.#insert(d, p, dataAt, offset, end);
    if (reason === DropReason.None) {
      copyBytes(p.bytes, dataAt, data.bytes, DATA_AT + offset, bytes);
      d.ecnSeen |= 1 << (ip.trafficClass & 3);
      if (offset === 0) {
        d.first = p;
        d.headersBytes = headersBytes;
        d.nextHeaderOffset = facts.nextHeaderAt - p.start;
        d.nextHeader = facts.nextHeader;
      } else this.#pool.release(p);
    } else if (reason === DropReason.Fragment) {
      this.duplicates++;
      this.#pool.release(p);
    } else return this.#giveUp(d, p, reason, now);
    return d.ranges === 1 && d.froms[0] === 0 && d.tos[0] === d.total ? this.#complete(d, now) : null;
  }

  /** Forgets the datagrams whose time is over. */
  timeout(now: Instant): void {
    for (let i = this.#deadlines.popDue(now); i >= 0; i = this.#deadlines.popDue(now)) {
      const d = this.#datagrams[i]!;
      if (d.data !== null) {
        this.timedOut++;
        if (d.first !== null) this.#upper.reassemblyTimedOut(d.first, now);
      }
      this.#dropHeld(d, DropReason.FragmentTimeout, now);
      this.#forget(d);
    }
  }

  /** Drops all that is held. */
  close(now: Instant): void {
    for (const d of this.#datagrams) {
      if (!d.inUse) continue;
      this.#dropHeld(d, DropReason.Closed, now);
      this.#forget(d);
    }
  }

  /** Notes the range; `Fragment` for a duplicate, another reason if the datagram has to be given up. */
  #insert(d: Datagram, p: Packet, dataAt: number, from: number, to: number): DropReason {
    const { froms, tos } = d;
    let i = 0;
    while (i < d.ranges && tos[i]! < from) i++;
    // Ranges before i end before `from`, with a gap.
    for (let k = i; k < d.ranges && froms[k]! < to; k++) {
      if (tos[k] === from) continue;
      if (froms[k]! > from || tos[k]! < to) return DropReason.FragmentOverlap;
      const { bytes } = d.data!;
      for (let n = 0; n < to - from; n++) {
        if (bytes[DATA_AT + from + n] !== p.bytes[dataAt + n]) return DropReason.FragmentOverlap;
      }
      return DropReason.Fragment;
    }
    const joinsBefore = i < d.ranges && tos[i] === from;
    const after = joinsBefore ? i + 1 : i;
    const joinsAfter = after < d.ranges && froms[after] === to;
    if (joinsBefore && joinsAfter) {
      tos[i] = tos[after]!;
      froms.copyWithin(after, after + 1, d.ranges);
      tos.copyWithin(after, after + 1, d.ranges);
      d.ranges--;
    } else if (joinsBefore) tos[i] = to;
    else if (joinsAfter) froms[after] = from;
    else {
      if (d.ranges === FRAGMENT_RANGES_MAX) return DropReason.FragmentLimit;
      froms.copyWithin(i + 1, i, d.ranges);
      tos.copyWithin(i + 1, i, d.ranges);
      froms[i] = from;
      tos[i] = to;
      d.ranges++;
    }
    return DropReason.None;
  }

  /** Drops what there is of a datagram, and what will come of it. */
  #giveUp(d: Datagram, p: Packet, reason: DropReason, now: Instant): null {
    this.#dropHeld(d, reason, now);
    this.#sink.drop(p, reason, now);
    return null;
  }

  #complete(d: Datagram, now: Instant): Packet | null {
    const p = d.data!;
    const first = d.first!;
    const { headersBytes, total } = d;
    const stated = statedBytes(d.version, headersBytes, total);
    // The first fragment may have longer headers than those had by whose end it was checked.
    if (stated > DATAGRAM_BYTES_MAX) {
      this.#dropHeld(d, DropReason.Fragment, now);
      this.#forget(d);
      return null;
    }
    const hasCe = (d.ecnSeen & (1 << Ecn.Ce)) !== 0;
    if (hasCe && (d.ecnSeen & (1 << Ecn.NotEct)) !== 0) {
      this.#dropHeld(d, DropReason.CeNotEct, now);
      this.#forget(d);
      return null;
    }
    p.start = DATA_AT - headersBytes;
    p.end = DATA_AT + total;
    copyBytes(first.bytes, first.start, p.bytes, p.start, headersBytes);
    const { view, start } = p;
    if (d.version === 4) {
      view.setUint16(start + 2, stated);
      view.setUint16(start + 6, 0);
      view.setUint16(start + 10, 0);
      view.setUint16(start + 10, checksumFinish(checksumSum(view, start, DATA_AT)));
      if (hasCe) setIpv4Ecn(view, start, Ecn.Ce);
    } else {
      view.setUint16(start + 4, stated);
      view.setUint8(start + d.nextHeaderOffset, d.nextHeader);
      if (hasCe) setIpv6Ecn(view, start, Ecn.Ce);
    }
    p.ifindex = first.ifindex;
    this.#pool.release(first);
    d.first = null;
    d.data = null;
    this.#forget(d);
    this.completed++;
    return p;
  }

  #find(ip: IpHeader, facts: FragmentFacts): Datagram | null {
    const table = this.#table;
    for (let i = table.first(this.#hash(ip, facts)); i >= 0; i = table.following(i)) {
      const d = table.at(i);
      if (
        d.id === facts.id && d.protocol === facts.protocol && d.version === ip.version &&
        d.src3 === ip.src3 && d.src2 === ip.src2 && d.src1 === ip.src1 && d.src0 === ip.src0 &&
        d.dst3 === ip.dst3 && d.dst2 === ip.dst2 && d.dst1 === ip.dst1 && d.dst0 === ip.dst0
      ) return d;
    }
    return null;
  }

  #make(p: Packet, ip: IpHeader, facts: FragmentFacts, now: Instant): Datagram | null {
    this.#makeRoom(p.ifindex, now);
    const data = this.#pool.acquireLarge(DATA_AT);
    if (data === null) return null;
    let d = this.#datagrams.find((other) => !other.inUse);
    if (d === undefined) {
      d = new Datagram(this.#datagrams.length);
      this.#datagrams.push(d);
    }
    d.inUse = true;
    d.version = ip.version;
    d.src0 = ip.src0;
    d.src1 = ip.src1;
    d.src2 = ip.src2;
    d.src3 = ip.src3;
    d.dst0 = ip.dst0;
    d.dst1 = ip.dst1;
    d.dst2 = ip.dst2;
    d.dst3 = ip.dst3;
    d.id = facts.id;
    d.protocol = facts.protocol;
    d.hash = this.#hash(ip, facts);
    d.ifindex = p.ifindex;
    d.order = this.#order++;
    d.total = -1;
    d.ecnSeen = 0;
    d.ranges = 0;
    d.data = data;
    d.first = null;
    this.#table.insert(d.hash, d);
    this.#deadlines.set(d.index, now + (ip.version === 4 ? IPV4_REASSEMBLY_TIME : IPV6_REASSEMBLY_TIME));
    return d;
  }

  /** Has the oldest datagram of an interface that holds half of them go, or, if there are too many, the oldest of all. */
  #makeRoom(ifindex: number, now: Instant): void {
    let held = 0;
    let oldest: Datagram | null = null;
    let oldestHere: Datagram | null = null;
    for (const d of this.#datagrams) {
      if (!d.inUse) continue;
      if (oldest === null || d.order < oldest.order) oldest = d;
      if (d.ifindex !== ifindex) continue;
      held++;
      if (oldestHere === null || d.order < oldestHere.order) oldestHere = d;
    }
    const isFull = this.#table.size >= this.#limit;
    const victim = held * 2 >= this.#limit && oldestHere !== null ? oldestHere : isFull ? oldest : null;
    if (victim === null) return;
    this.#dropHeld(victim, DropReason.FragmentLimit, now);
    this.#forget(victim);
  }

  /** Drops what a datagram holds, as one packet. */
  #dropHeld(d: Datagram, reason: DropReason, now: Instant): void {
    const { first, data } = d;
    d.first = null;
    d.data = null;
    if (data === null) return;
    if (first === null) return this.#sink.drop(data, reason, now);
    this.#pool.release(data);
    this.#sink.drop(first, reason, now);
  }

  #forget(d: Datagram): void {
    this.#table.remove(d.hash, d);
    this.#deadlines.clear(d.index);
    d.inUse = false;
  }

  #hash(ip: IpHeader, facts: FragmentFacts): number {
    return hashPair(this.#seed, ip, facts.id, facts.protocol);
  }
}

/** What the IP header of a datagram says of its length: all of it in IPv4, what is behind the fixed header in IPv6. */
function statedBytes(version: number, headersBytes: number, dataBytes: number): number {
  return headersBytes + dataBytes - (version === 4 ? 0 : IPV6_HEADER_BYTES);
}
