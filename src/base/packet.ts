/**
 * The packet: one pooled slot of memory, made once and reused for ever.
 *
 * ```text
 *   0         start                 l4                       end      capacity
 *   ├─headroom─┼──IP header──────────┼──TCP/UDP/ICMP + data────┼─tailroom─┤
 * ```
 *
 * `start` and `end` are the live range. A header is prepended by lowering `start`; on the way up `start` stays at the
 * IP header and `l4` says where the transport header begins. A packet is in at most one list at a time (`next`) and
 * has exactly one owner; whoever is given a packet either passes it on or frees it.
 *
 * The pool is a LIFO, so the slot used last (still in the cache) is used next. It grows in blocks up to a bound and
 * then says `null`: running out is a counted drop, never an error.
 *
 * @module
 */

import { Arena } from "./arena.ts";
import { type Instant, NEVER } from "./time.ts";

/** Bytes kept free in front of a packet that is built from its transport header down. */
export const HEADROOM_BYTES = 128;

/** Size of a slot: headroom, an inner MTU of up to 1,900 bytes, and a little room behind. */
export const SLOT_BYTES = 2048;

/** Size of a large slot: headroom, a little room for headers, and the largest IP packet. */
export const LARGE_SLOT_BYTES = 128 + 256 + 65_536;

/** One IP packet (or the datagram that carries it) in its slot. */
export class Packet {
  /** The whole slot. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The whole slot, for multi-byte fields. */
  readonly view: DataView<ArrayBuffer>;
  /** First byte of the live range. */
  start: number;
  /** One past the last byte of the live range. */
  end: number;
  /** Where the transport header begins. */
  l4: number;
  /** The interface that it came in by or will leave by. */
  ifindex: number;
  /** Flow id for the queueing discipline: even for a local connection, odd for a hash. */
  flow: number;
  /** Earliest departure time; 0 for "as soon as possible". */
  departAt: Instant = NEVER;
  /** When the stage that holds it may let it go. */
  releaseAt: Instant = NEVER;
  /** When it came to the impairment that holds it; of no meaning elsewhere. */
  heldAt: Instant = NEVER;
  /** When that would let it go if it were alone; of no meaning elsewhere. */
  readyAt: Instant = NEVER;
  /** Order of arrival in a stage, to break ties. */
  order: number;
  /** Traffic class (TOS) of the header outside the tunnel: as it was read, or as it is to be written; 0 if unknown. */
  outerTrafficClass: number;
  /** True for a copy that the impairment made. */
  duplicate: boolean;
  /** The next packet of the list it is in. */
  next: Packet | null;
  /** True while the packet is in the pool's free list. */
  free: boolean;

  /** Whose memory the slot is of; kept, so that it is not used for anything else. */
  readonly arena: object | null;

  /** Wraps a slot of memory, a piece of `arena` if that is given. */
  constructor(slot: Uint8Array<ArrayBuffer>, arena: object | null = null) {
    this.arena = arena;
    this.bytes = slot;
    this.view = new DataView(slot.buffer, slot.byteOffset, slot.byteLength);
    this.start = 0;
    this.end = 0;
    this.l4 = 0;
    this.ifindex = 0;
    this.flow = 0;
    this.departAt = NEVER;
    this.releaseAt = NEVER;
    this.heldAt = NEVER;
    this.readyAt = NEVER;
    this.order = 0;
    this.outerTrafficClass = 0;
    this.duplicate = false;
    this.next = null;
    this.free = true;
    this.reset(HEADROOM_BYTES);
  }

  /** Length of the live range in bytes. */
  get length(): number {
    return this.end - this.start;
  }

  /** Empties the packet, its live range starting at `headroomBytes`. */
  reset(headroomBytes: number): void {
    this.start = headroomBytes;
    this.end = headroomBytes;
    this.l4 = headroomBytes;
    this.ifindex = 0;
    this.flow = 0;
    this.departAt = 0;
    this.releaseAt = 0;
    this.order = 0;
    this.outerTrafficClass = 0;
    this.duplicate = false;
    this.next = null;
  }

  /** Makes this packet a copy of `other`: same range, same bytes, same facts; in no list. */
  copyFrom(other: Packet): void {
    this.bytes.set(other.bytes.subarray(other.start, other.end), other.start);
    this.start = other.start;
    this.end = other.end;
    this.l4 = other.l4;
    this.ifindex = other.ifindex;
    this.flow = other.flow;
    this.departAt = other.departAt;
    this.releaseAt = other.releaseAt;
    this.order = 0;
    this.outerTrafficClass = other.outerTrafficClass;
    this.duplicate = other.duplicate;
    this.next = null;
  }

  /** The live range as a view of the slot; allocates, so not for the hot path. */
  toBytes(): Uint8Array<ArrayBuffer> {
    return this.bytes.subarray(this.start, this.end);
  }
}

/** A bounded pool of packets. */
export class PacketPool {
  /** The most packets that may exist. */
  readonly limit: number;
  /** Size of each slot in bytes. */
  readonly slotBytes: number;
  /** The most large packets that may exist. */
  readonly largeLimit: number;
  readonly #free: Packet[] = [];
  readonly #freeLarge: Packet[] = [];
  readonly #blockPackets: number;
  #made = 0;
  #madeLarge = 0;

  /**
   * Makes an empty pool; slots come into being in blocks when they are first needed.
   *
   * @param limit the most packets that may exist at once (default 8,192)
   * @param slotBytes size of a slot, rounded up to a multiple of 64 (default {@linkcode SLOT_BYTES})
   * @param largeLimit the most packets with a large slot that may exist at once (default 64, which is 4 MiB)
   */
  constructor(limit = 8192, slotBytes: number = SLOT_BYTES, largeLimit = 64) {
    this.limit = limit;
    this.largeLimit = largeLimit;
    this.slotBytes = Math.ceil(slotBytes / 64) * 64;
    this.#blockPackets = Math.min(limit, 64);
  }

  /** Packets in use: given out and not yet freed. */
  get inUse(): number {
    return this.#made - this.#free.length + this.#madeLarge - this.#freeLarge.length;
  }

  /** Takes an empty packet with `headroomBytes` before it, or `null` when the bound is reached. */
  acquire(headroomBytes: number = HEADROOM_BYTES): Packet | null {
    let p = this.#free.pop();
    if (p === undefined) {
      if (!this.#grow()) return null;
      p = this.#free.pop()!;
    }
    p.free = false;
    p.reset(headroomBytes);
    return p;
  }

  /**
   * Takes an empty packet that has room for the largest IP packet: for what was put together of fragments, or is to be
   * cut into some. It never leaves by a link. `null` when the bound of these is reached.
   */
  acquireLarge(headroomBytes: number = HEADROOM_BYTES): Packet | null {
    let p = this.#freeLarge.pop();
    if (p === undefined) {
      if (this.#madeLarge >= this.largeLimit) return null;
      p = new Packet(new Uint8Array(LARGE_SLOT_BYTES));
      this.#madeLarge++;
    }
    p.free = false;
    p.reset(headroomBytes);
    return p;
  }

  /** Gives a packet back. Freeing one twice is a fault of the program and throws. */
  release(p: Packet): void {
    if (p.free) throw new Error("packet freed twice");
    p.free = true;
    p.next = null;
    if (p.bytes.length > this.slotBytes) this.#freeLarge.push(p);
    else this.#free.push(p);
  }

  #grow(): boolean {
    const n = Math.min(this.#blockPackets, this.limit - this.#made);
    if (n <= 0) return false;
    const arena = new Arena(n * this.slotBytes);
    for (let i = 0; i < n; i++) this.#free.push(new Packet(arena.allocate(this.slotBytes)!, arena));
    this.#made += n;
    return true;
  }
}
