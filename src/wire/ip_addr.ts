/**
 * IP addresses and prefixes.
 *
 * An address is four 32-bit words (int32), an IPv4 address being held in its IPv4-mapped form (`::ffff:a.b.c.d`), so
 * that tables need one kind of key for both families. Objects are made when configuring; on the hot path only words are
 * compared. Text is read and written by the npm package `ipaddr.js` (RFC 5952 form).
 *
 * @module
 */

import ipaddr from "ipaddr.js";

/** Third word of an IPv4-mapped address. */
const MAPPED = 0xffff;

/** An IPv4 or IPv6 address. Immutable. */
export class IpAddr {
  /** Bits 0–31 (the most significant), as int32. */
  readonly w0: number;
  /** Bits 32–63, as int32. */
  readonly w1: number;
  /** Bits 64–95, as int32. */
  readonly w2: number;
  /** Bits 96–127, as int32; the whole address in IPv4. */
  readonly w3: number;

  /** Makes an address of four words; see {@linkcode IpAddr.v4} and {@linkcode IpAddr.parse}. */
  constructor(w0: number, w1: number, w2: number, w3: number) {
    this.w0 = w0 | 0;
    this.w1 = w1 | 0;
    this.w2 = w2 | 0;
    this.w3 = w3 | 0;
  }

  /** The unspecified IPv4 address, 0.0.0.0. */
  static readonly ANY_V4: IpAddr = new IpAddr(0, 0, MAPPED, 0);
  /** The unspecified IPv6 address, `::`. */
  static readonly ANY_V6: IpAddr = new IpAddr(0, 0, 0, 0);

  /** An IPv4 address of its 32 bits. */
  static v4(word: number): IpAddr {
    return new IpAddr(0, 0, MAPPED, word);
  }

  /**
   * Reads `"10.7.0.1"` or `"fd07::1"`; IPv4 needs all four decimal parts, zones are refused.
   *
   * @throws {TypeError} if the text is no IP address
   */
  static parse(text: string): IpAddr {
    if (!text.includes(":")) {
      const word = parseV4(text);
      if (word >= 0) return IpAddr.v4(word);
    } else if (!text.includes("%")) {
      const p = groupsOf(text);
      const word = (i: number): number => (p[i]! << 16) | p[i + 1]!;
      if (p.length === 8) return new IpAddr(word(0), word(2), word(4), word(6));
    }
    throw new TypeError(`"${text}" is no IP address: expected one like 10.7.0.1 or fd07::1`);
  }

  /** True for an IPv4 address. */
  get isV4(): boolean {
    return isV4Words(this.w0, this.w1, this.w2);
  }

  /** 4 or 6. */
  get version(): 4 | 6 {
    return this.isV4 ? 4 : 6;
  }

  /** True for 0.0.0.0 and `::`. */
  get isUnspecified(): boolean {
    return this.w0 === 0 && this.w1 === 0 && (this.w2 === 0 || this.w2 === MAPPED) && this.w3 === 0;
  }

  /** True if `other` is the same address. */
  equals(other: IpAddr): boolean {
    return this.equalsWords(other.w0, other.w1, other.w2, other.w3);
  }

  /** True if these four words are this address. */
  equalsWords(w0: number, w1: number, w2: number, w3: number): boolean {
    return this.w3 === w3 && this.w2 === w2 && this.w1 === w1 && this.w0 === w0;
  }

  /** A text that no other address has, for maps: made faster than that for people. */
  get key(): string {
    return `${this.w0},${this.w1},${this.w2},${this.w3}`;
  }

  /** The text form: dotted for IPv4, RFC 5952 for IPv6. */
  toString(): string {
    if (this.isV4) return `${this.w3 >>> 24}.${(this.w3 >>> 16) & 255}.${(this.w3 >>> 8) & 255}.${this.w3 & 255}`;
    const parts: number[] = [];
    for (const w of [this.w0, this.w1, this.w2, this.w3]) parts.push(w >>> 16, w & 0xffff);
    return new ipaddr.IPv6(parts).toRFC5952String();
  }
}

/**
 * The 32 bits of a dotted address of four decimal parts, as a number of at least 0; −1 if it is none. The library does this
 * in expressions, which is dear for ten thousand peers.
 */
function parseV4(text: string): number {
  let word = 0;
  let part = -1;
  let dots = 0;
  for (let i = 0; i < text.length; i++) {
    const digit = text.charCodeAt(i) - 48;
    if (digit >= 0 && digit <= 9) {
      // No leading zero, which some read as octal.
      if (part === 0) return -1;
      part = part < 0 ? digit : part * 10 + digit;
      if (part > 255) return -1;
    } else {
      if (digit !== DOT || part < 0 || ++dots > 3) return -1;
      word = word * 256 + part;
      part = -1;
    }
  }
  return dots === 3 && part >= 0 ? word * 256 + part : -1;
}

const DOT = ".".charCodeAt(0) - 48;

/** The eight groups of an IPv6 address; empty if it is none. */
function groupsOf(text: string): readonly number[] {
  try {
    return ipaddr.IPv6.parse(hexGroups(text)).parts;
  } catch {
    return [];
  }
}

/**
 * IPv6 text with a dotted end (`64:ff9b::192.0.2.33`) written in hexadecimal groups alone. The library takes octal and
 * hexadecimal there, and `::192.0.2.33` for a mapped address.
 */
function hexGroups(text: string): string {
  const end = text.lastIndexOf(":") + 1;
  const dotted = text.slice(end);
  if (!dotted.includes(".")) return text;
  const word = parseV4(dotted);
  if (word < 0) return "";
  return `${text.slice(0, end)}${(word >>> 16).toString(16)}:${(word & 0xffff).toString(16)}`;
}

/** True if a mapped address with these first three words is IPv4. */
export function isV4Words(w0: number, w1: number, w2: number): boolean {
  return w2 === MAPPED && w1 === 0 && w0 === 0;
}

/** A prefix: an address and how many of its leading bits count. Immutable. */
export class IpPrefix {
  /** The network address; bits beyond the length are zero. */
  readonly address: IpAddr;
  /** Length in bits of its own family: 0–32 or 0–128. */
  readonly length: number;
  readonly #isV4: boolean;
  readonly #m0: number;
  readonly #m1: number;
  readonly #m2: number;
  readonly #m3: number;

  /**
   * Makes a prefix; host bits of `address` are cleared.
   *
   * @throws {RangeError} if `length` is not an integer that fits the family
   */
  constructor(address: IpAddr, length: number) {
    const most = address.isV4 ? 32 : 128;
    if (!Number.isInteger(length) || length < 0 || length > most) {
      throw new RangeError(`prefix length of ${address} must be 0 to ${most}, got ${length}`);
    }
    this.#isV4 = address.isV4;
    const bits = address.isV4 ? 96 + length : length;
    this.#m0 = prefixMask(bits, 0);
    this.#m1 = prefixMask(bits, 1);
    this.#m2 = prefixMask(bits, 2);
    this.#m3 = prefixMask(bits, 3);
    this.length = length;
    this.address = new IpAddr(
      address.w0 & this.#m0,
      address.w1 & this.#m1,
      address.w2 & this.#m2,
      address.w3 & this.#m3,
    );
  }

  /**
   * Reads `"10.7.0.0/24"`, `"fd07::/64"`, or a bare address as a host prefix.
   *
   * @throws {TypeError} or {RangeError} saying what was expected
   */
  static parse(text: string): IpPrefix {
    return IpInterface.parse(text).prefix;
  }

  /**
   * True if the address of these four words lies in the prefix. An IPv6 prefix holds no IPv4 address: `::/0` covers the
   * bits of the mapped form, but it is not the default of IPv4.
   */
  containsWords(w0: number, w1: number, w2: number, w3: number): boolean {
    const a = this.address;
    return (w3 & this.#m3) === a.w3 && (w2 & this.#m2) === a.w2 && (w1 & this.#m1) === a.w1 &&
      (w0 & this.#m0) === a.w0 && isV4Words(w0, w1, w2) === this.#isV4;
  }

  /** True if `address` lies in the prefix. */
  contains(address: IpAddr): boolean {
    return this.containsWords(address.w0, address.w1, address.w2, address.w3);
  }

  /** A text that no other prefix has, for maps: made faster than that for people. */
  get key(): string {
    return `${this.address.key}/${this.length}`;
  }

  /** The text form, `address/length`. */
  toString(): string {
    return `${this.address}/${this.length}`;
  }
}

/** A host's address on a network, as in `ip addr add 10.7.0.1/24`. Immutable. */
export class IpInterface {
  /** The host's own address. */
  readonly address: IpAddr;
  /** The network that it is on. */
  readonly prefix: IpPrefix;

  /** Joins an address and its prefix length. */
  constructor(address: IpAddr, length: number) {
    this.address = address;
    this.prefix = new IpPrefix(address, length);
  }

  /**
   * Reads `"10.7.0.1/24"`; without a length it is a host address (/32, /128).
   *
   * @throws {TypeError} or {RangeError} saying what was expected
   */
  static parse(text: string): IpInterface {
    const slash = text.indexOf("/");
    const address = IpAddr.parse(slash < 0 ? text : text.slice(0, slash));
    if (slash < 0) return new IpInterface(address, address.isV4 ? 32 : 128);
    const digits = text.slice(slash + 1);
    if (!/^\d{1,3}$/.test(digits)) throw new TypeError(`"${text}" has no prefix length after "/": expected a number`);
    return new IpInterface(address, Number(digits));
  }

  /** The text form, `address/length`. */
  toString(): string {
    return `${this.address}/${this.prefix.length}`;
  }
}

/** The bits of word `i` (0 to 3) of an address that belong to its first `bits` bits, of 128. */
export function prefixMask(bits: number, i: number): number {
  const n = Math.min(32, Math.max(0, bits - 32 * i));
  return n === 0 ? 0 : -1 << (32 - n);
}
