/**
 * What nobody outside may guess of a host's TCP: keyed hashes of addresses and ports, one for each use.
 *
 * One key serves all; the use is part of what is hashed, so that a value of one use tells nothing about those of another.
 *
 * @module
 */

import { SipHash } from "../base/siphash.ts";
import type { IpHeader } from "../wire/ip_header.ts";

/** What a hash is for. */
export enum HashUse {
  /** Initial sequence numbers (RFC 6528). */
  Sequence = 1,
  /** Offsets of the timestamp clock (RFC 7323 section 7.1). */
  TimestampOffset,
  /** SYN cookies: the part that stays. */
  Cookie,
  /** SYN cookies: the part that changes with time. */
  TimedCookie,
  /** Where the search for a free port begins (RFC 6056 section 3.3.1). */
  Port,
}

/** Keyed hashes of one host. */
export class TcpSecrets {
  readonly #hash: SipHash;
  readonly #words: Int32Array = new Int32Array(12);

  /**
   * Takes the key.
   *
   * @param key four words that nobody can guess
   * @throws {RangeError} if there are not four
   */
  constructor(key: Int32Array) {
    this.#hash = new SipHash(key);
  }

  /** Hash of our address, the peer's (four words each), both ports, and two words of anything else; int32. */
  hash(
    use: HashUse,
    l0: number,
    l1: number,
    l2: number,
    l3: number,
    r0: number,
    r1: number,
    r2: number,
    r3: number,
    ports: number,
    extra: number,
    more = 0,
  ): number {
    const words = this.#words;
    words[0] = use;
    words[1] = ports;
    words[2] = extra;
    words[3] = more;
    words[4] = l3;
    words[5] = r3;
    // Two IPv4 addresses differ in their last words only; the number of words is part of the hash.
    if ((l0 | l1 | r0 | r1) === 0 && l2 === 0xffff && r2 === 0xffff) return this.#hash.hash(words, 6);
    words[6] = l0;
    words[7] = l1;
    words[8] = l2;
    words[9] = r0;
    words[10] = r1;
    words[11] = r2;
    return this.#hash.hash(words);
  }

  /** The same for the addresses of a packet that came in: ours is its destination. */
  hashOfInput(use: HashUse, ip: IpHeader, ports: number, extra: number, more = 0): number {
    const { dst0, dst1, dst2, dst3, src0, src1, src2, src3 } = ip;
    return this.hash(use, dst0, dst1, dst2, dst3, src0, src1, src2, src3, ports, extra, more);
  }
}
