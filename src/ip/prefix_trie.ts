/**
 * A path-compressed binary trie of the prefixes of one family, in one typed array.
 *
 * Each node stands for a prefix; its two children agree with it in all its bits and differ in the next one. A node
 * without a value has always two children, so n prefixes make fewer than 2n nodes. A node is eight words, half a line of
 * the cache: four of the prefix, its length, two children, the value. A look-up walks down while the nodes contain the
 * address and remembers the last value it passed: at most one step a bit, and nothing is allocated.
 *
 * With many prefixes that is some twenty steps, each of which may miss the cache. So where the trie is dense, a node gets a
 * table over its next k bits, which says for each of their values what the steps in between would have found (the level
 * compression of Nilsson and Karlsson). The tables are a cache: a change throws them away, and they are made again, in
 * time linear in the trie, once as many look-ups have gone without them as make that worth while.
 *
 * Values are small integers from 0; who uses the trie keeps what they stand for.
 *
 * @module
 */

import type { IpAddr } from "../wire/ip_addr.ts";

const WORDS = 8;
const LENGTH = 4;
const LEFT = 5;
const VALUE = 7;

/** A table is over at most so many bits, and at least a quarter of its slots lead on. */
const TABLE_BITS_MAX = 16;
const TABLE_BITS_MIN = 3;
const TABLE_FILL = 0.25;

/** Fewer nodes than this have no tables. */
const TABLE_NODES_MIN = 64;

/** Tables are made after one look-up without them for so many nodes. */
const NODES_A_LOOKUP = 16;

/** Node 0 is no node: it stands for "none". */
const NONE = 0;

/** No value. */
export const NO_VALUE = -1;

/** The prefixes of one family. */
export class PrefixTrie {
  readonly #isV4: boolean;
  readonly #lengthMax: number;
  #nodes: Int32Array = new Int32Array(16 * WORDS);
  #root = NONE;
  #used = 1;
  #free = NONE;
  /** By node: the number of bits and the place of its table, as `place << 5 | bits`; 0 for none. Empty without tables. */
  #tables = new Int32Array(0);
  /** Two words a slot: the value found so far or `NO_VALUE`, and the next node. */
  #slots = new Int32Array(0);
  #lookupsWithout = 0;

  /** Makes an empty trie for the prefixes of IPv4 (of the last word alone) or IPv6. */
  constructor(isV4: boolean) {
    this.#isV4 = isV4;
    this.#lengthMax = isV4 ? 32 : 128;
  }

  /** The value of the longest prefix that contains the IPv4 address `w3`, or `NO_VALUE`. */
  lookupV4(w3: number): number {
    const nodes = this.#nodes;
    const tables = this.#tables;
    if (tables.length === 0) this.#missTables();
    let node = this.#root;
    let value = NO_VALUE;
    while (node !== NONE) {
      const at = node * WORDS;
      const length = nodes[at + LENGTH]!;
      if (length !== 0 && ((nodes[at]! ^ w3) >>> (32 - length)) !== 0) break;
      if (nodes[at + VALUE]! >= 0) value = nodes[at + VALUE]!;
      if (length === 32) break;
      const table = tables.length === 0 ? 0 : tables[node]!;
      if (table === 0) {
        node = nodes[at + LEFT + ((w3 >>> (31 - length)) & 1)]!;
      } else {
        const slot = (table >>> 5) + 2 * ((w3 << length) >>> (32 - (table & 31)));
        if (this.#slots[slot]! >= 0) value = this.#slots[slot]!;
        node = this.#slots[slot + 1]!;
      }
    }
    return value;
  }

  /** The value of the longest prefix that contains the IPv6 address of these words, or `NO_VALUE`. */
  lookupV6(w0: number, w1: number, w2: number, w3: number): number {
    const nodes = this.#nodes;
    const tables = this.#tables;
    if (tables.length === 0) this.#missTables();
    let node = this.#root;
    let value = NO_VALUE;
    while (node !== NONE) {
      const at = node * WORDS;
      const length = nodes[at + LENGTH]!;
      if (!contains(nodes, at, length, w0, w1, w2, w3)) break;
      if (nodes[at + VALUE]! >= 0) value = nodes[at + VALUE]!;
      if (length === 128) break;
      const word = length < 64 ? (length < 32 ? w0 : w1) : (length < 96 ? w2 : w3);
      const table = tables.length === 0 ? 0 : tables[node]!;
      if (table === 0) {
        node = nodes[at + LEFT + ((word >>> (31 - (length & 31))) & 1)]!;
      } else {
        const slot = (table >>> 5) + 2 * ((word << (length & 31)) >>> (32 - (table & 31)));
        if (this.#slots[slot]! >= 0) value = this.#slots[slot]!;
        node = this.#slots[slot + 1]!;
      }
    }
    return value;
  }

  /** The value of exactly this prefix, or `NO_VALUE`. */
  get(address: IpAddr, length: number): number {
    let node = this.#root;
    while (node !== NONE && this.#nodes[node * WORDS + LENGTH]! < length) node = this.#child(node, address);
    return node !== NONE && this.#is(node, address, length) ? this.#nodes[node * WORDS + VALUE]! : NO_VALUE;
  }

  /** Gives a prefix a value, in place of the one it had. */
  set(address: IpAddr, length: number, value: number): void {
    this.#dropTables();
    let parent = NONE;
    let node = this.#root;
    while (node !== NONE) {
      const at = node * WORDS;
      const common = this.#commonBits(at, address, Math.min(this.#nodes[at + LENGTH]!, length));
      if (common < this.#nodes[at + LENGTH]!) {
        // The node does not contain the prefix: put the prefix above it, or a fork above both.
        const added = this.#make(address, length, value);
        let top = added;
        if (common !== length) {
          top = this.#make(address, common, NO_VALUE);
          this.#attach(top, added);
        }
        this.#attach(top, node);
        this.#replace(parent, node, top);
        return;
      }
      if (this.#nodes[at + LENGTH]! === length) {
        this.#nodes[at + VALUE] = value;
        return;
      }
      parent = node;
      node = this.#child(node, address);
    }
    const added = this.#make(address, length, value);
    if (parent === NONE) this.#root = added;
    else this.#attach(parent, added);
  }

  /** Removes exactly this prefix; false if it is not there. */
  remove(address: IpAddr, length: number): boolean {
    let grandparent = NONE;
    let parent = NONE;
    let node = this.#root;
    while (node !== NONE && this.#nodes[node * WORDS + LENGTH]! < length) {
      grandparent = parent;
      parent = node;
      node = this.#child(node, address);
    }
    if (node === NONE || !this.#is(node, address, length) || this.#nodes[node * WORDS + VALUE]! < 0) return false;
    this.#dropTables();
    this.#nodes[node * WORDS + VALUE] = NO_VALUE;
    if (this.#splice(node, parent) && parent !== NONE && this.#nodes[parent * WORDS + VALUE]! < 0) {
      this.#splice(parent, grandparent);
    }
    return true;
  }

  /** All values, each prefix before those inside it. */
  *values(): IterableIterator<number> {
    const stack = [this.#root];
    for (let node = stack.pop()!; node !== undefined; node = stack.pop()!) {
      if (node === NONE) continue;
      const at = node * WORDS;
      if (this.#nodes[at + VALUE]! >= 0) yield this.#nodes[at + VALUE]!;
      stack.push(this.#nodes[at + LEFT + 1]!, this.#nodes[at + LEFT]!);
    }
  }

  #dropTables(): void {
    this.#lookupsWithout = 0;
    if (this.#tables.length > 0) this.#tables = new Int32Array(0);
  }

  #missTables(): void {
    if (this.#used < TABLE_NODES_MIN || ++this.#lookupsWithout * NODES_A_LOOKUP < this.#used) return;
    this.#lookupsWithout = 0;
    this.#tables = new Int32Array(this.#used);
    const places: number[] = [];
    let slots = 0;
    const pending = [this.#root];
    for (let node = pending.pop(); node !== undefined; node = pending.pop()) {
      const bits = this.#tableBits(node);
      if (bits > 0) {
        this.#tables[node] = (slots << 5) | bits;
        places.push(node);
        slots += 2 << bits;
      }
      this.#below(node, this.#nodes[node * WORDS + LENGTH]! + Math.max(1, bits), pending);
    }
    this.#slots = new Int32Array(slots);
    for (const node of places) this.#fill(node);
  }

  /** Over how many bits behind its prefix a node has a table; 0 for none. A table stays within one word. */
  #tableBits(node: number): number {
    const length = this.#nodes[node * WORDS + LENGTH]!;
    const most = Math.min(TABLE_BITS_MAX, 32 - (length & 31), this.#lengthMax - length);
    let bits = 0;
    for (let k = TABLE_BITS_MIN; k <= most && this.#count(node, length + k) >= TABLE_FILL * 2 ** k; k++) bits = k;
    return bits;
  }

  /** How many nodes below `node` are the first on their way with at least `length` bits. */
  #count(node: number, length: number): number {
    if (node === NONE) return 0;
    const at = node * WORDS;
    if (this.#nodes[at + LENGTH]! >= length) return 1;
    return this.#count(this.#nodes[at + LEFT]!, length) + this.#count(this.#nodes[at + LEFT + 1]!, length);
  }

  /** Adds these nodes to `out`. */
  #below(node: number, length: number, out: number[]): void {
    if (node === NONE) return;
    const at = node * WORDS;
    if (this.#nodes[at + LENGTH]! >= length) out.push(node);
    else {
      this.#below(this.#nodes[at + LEFT]!, length, out);
      this.#below(this.#nodes[at + LEFT + 1]!, length, out);
    }
  }

  #fill(node: number): void {
    const table = this.#tables[node]!;
    const place = table >>> 5;
    const bits = table & 31;
    const length = this.#nodes[node * WORDS + LENGTH]!;
    for (let i = place; i < place + (2 << bits); i += 2) {
      this.#slots[i] = NO_VALUE;
      this.#slots[i + 1] = NONE;
    }
    const at = node * WORDS + LEFT;
    for (const child of [this.#nodes[at]!, this.#nodes[at + 1]!]) this.#fillBelow(child, place, length, bits, NO_VALUE);
  }

  /** Fills the slots that the prefix of `node` covers. */
  #fillBelow(node: number, place: number, from: number, bits: number, value: number): void {
    if (node === NONE) return;
    const at = node * WORDS;
    const length = this.#nodes[at + LENGTH]!;
    const index = (this.#nodes[at + (from >> 5)]! << (from & 31)) >>> (32 - bits);
    if (length >= from + bits) {
      this.#slots[place + 2 * index] = value;
      this.#slots[place + 2 * index + 1] = node;
      return;
    }
    const own = this.#nodes[at + VALUE]! >= 0 ? this.#nodes[at + VALUE]! : value;
    const end = index + 2 ** (from + bits - length);
    for (let i = index; i < end; i++) this.#slots[place + 2 * i] = own;
    this.#fillBelow(this.#nodes[at + LEFT]!, place, from, bits, own);
    this.#fillBelow(this.#nodes[at + LEFT + 1]!, place, from, bits, own);
  }

  #make(address: IpAddr, length: number, value: number): number {
    let node = this.#free;
    if (node !== NONE) this.#free = this.#nodes[node * WORDS + LEFT]!;
    else node = this.#used++;
    if ((node + 1) * WORDS > this.#nodes.length) {
      const larger = new Int32Array(this.#nodes.length * 2);
      larger.set(this.#nodes);
      this.#nodes = larger;
    }
    const at = node * WORDS;
    for (let i = 0; i < 4; i++) {
      const bits = Math.min(32, Math.max(0, length - 32 * i));
      this.#nodes[at + i] = bits === 0 ? 0 : this.#word(address, i) & (-1 << (32 - bits));
    }
    this.#nodes[at + LENGTH] = length;
    this.#nodes[at + LEFT] = NONE;
    this.#nodes[at + LEFT + 1] = NONE;
    this.#nodes[at + VALUE] = value;
    return node;
  }

  /** Takes a node without a value out if it has at most one child; true if it was taken out. */
  #splice(node: number, parent: number): boolean {
    const left = this.#nodes[node * WORDS + LEFT]!;
    const right = this.#nodes[node * WORDS + LEFT + 1]!;
    if (left !== NONE && right !== NONE) return false;
    this.#replace(parent, node, left !== NONE ? left : right);
    this.#nodes[node * WORDS + LEFT] = this.#free;
    this.#free = node;
    return true;
  }

  #replace(parent: number, before: number, after: number): void {
    if (parent === NONE) this.#root = after;
    else {
      const left = parent * WORDS + LEFT;
      this.#nodes[this.#nodes[left] === before ? left : left + 1] = after;
    }
  }

  #attach(parent: number, child: number): void {
    const length = this.#nodes[parent * WORDS + LENGTH]!;
    const word = this.#nodes[child * WORDS + (length >> 5)]!;
    this.#nodes[parent * WORDS + LEFT + ((word >>> (31 - (length & 31))) & 1)] = child;
  }

  /** The child of a node that an address longer than it leads to. */
  #child(node: number, address: IpAddr): number {
    const length = this.#nodes[node * WORDS + LENGTH]!;
    if (length >= this.#lengthMax) return NONE;
    const bit = (this.#word(address, length >> 5) >>> (31 - (length & 31))) & 1;
    return this.#nodes[node * WORDS + LEFT + bit]!;
  }

  #is(node: number, address: IpAddr, length: number): boolean {
    const at = node * WORDS;
    return this.#nodes[at + LENGTH] === length && this.#commonBits(at, address, length) === length;
  }

  /** How many leading bits, at most `most`, a node and an address have in common. */
  #commonBits(at: number, address: IpAddr, most: number): number {
    for (let i = 0; 32 * i < most; i++) {
      const different = this.#nodes[at + i]! ^ this.#word(address, i);
      if (different !== 0) return Math.min(most, 32 * i + Math.clz32(different));
    }
    return most;
  }

  #word(address: IpAddr, i: number): number {
    if (this.#isV4) return i === 0 ? address.w3 : 0;
    return i < 2 ? (i === 0 ? address.w0 : address.w1) : (i === 2 ? address.w2 : address.w3);
  }
}

/** True if the node at `at` with a prefix of `length` bits contains an address. */
function contains(
  nodes: Int32Array,
  at: number,
  length: number,
  w0: number,
  w1: number,
  w2: number,
  w3: number,
): boolean {
  if (length === 0) return true;
  if (length <= 32) return ((nodes[at]! ^ w0) >>> (32 - length)) === 0;
  if (nodes[at] !== w0) return false;
  if (length <= 64) return ((nodes[at + 1]! ^ w1) >>> (64 - length)) === 0;
  if (nodes[at + 1] !== w1) return false;
  if (length <= 96) return ((nodes[at + 2]! ^ w2) >>> (96 - length)) === 0;
  return nodes[at + 2] === w2 && ((nodes[at + 3]! ^ w3) >>> (128 - length)) === 0;
}
