/**
 * The flows of {@linkcode Fq} and their packets, in columns.
 *
 * A flow is a small integer, and what is known of it stands in typed arrays by that number; likewise a packet that is
 * held has a cell, another small integer, while it is here. So ten thousand flows with their packets take about a
 * megabyte, and choosing who sends next touches no packet and no other object: with an object a flow it took twice as
 * long when there were ten thousand. No time is passed from function to function, for which the engine may have to
 * allocate: functions read times where they stand.
 *
 * The packets of a flow are a list of cells in the order of their departure times, equal ones in the order of arrival.
 * The place of a new one is looked for from the end. It is found at once, unless the sender's stamps run backwards: then
 * it takes a step for each packet that is due later, at most `flowLimit`.
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import { NEVER } from "../base/time.ts";

/** No flow, or no cell. */
export const NONE = -1;

/** Where a flow stands. */
export enum FlowState {
  /** Without packets, on the list of idle flows, remembered for its credit. */
  Idle,
  /** On the list of new flows of a band. */
  New,
  /** On the list of old flows of a band. */
  Old,
  /** On no list: its first packet is due later. */
  Throttled,
}

/** All flows of a queue. The arrays are replaced when they grow. */
export class FqFlows {
  /** Flow numbers in use so far: 0 to this, exclusive. */
  count = 0;
  /** The key in the flow table. */
  keys: Int32Array = new Int32Array(0);
  /** {@linkcode FlowState}. */
  states: Uint8Array = new Uint8Array(0);
  /** The band that a flow joins next: that of the packet that was pushed last. */
  bands: Uint8Array = new Uint8Array(0);
  /** Bytes that a flow may still send in this turn; may be negative by less than a packet. */
  credits: Int32Array = new Int32Array(0);
  /** Packets held. */
  packets: Int32Array = new Int32Array(0);
  /** Bytes held. */
  bytes: Float64Array = new Float64Array(0);
  /** When the packet of a flow that is due first is due by its stamp; `NEVER` if there is none. */
  headAt: Float64Array = new Float64Array(0);
  /** When a flow became idle. */
  idleSince: Float64Array = new Float64Array(0);
  /** Before this time no packet of a flow may leave, whatever its stamp says; 0 if no time has ever held the flow. */
  nextPacketAt: Float64Array = new Float64Array(0);
  /** The next flow of the list that a flow is on. */
  next: Int32Array = new Int32Array(0);
  /** The flow before it in that list. */
  previous: Int32Array = new Int32Array(0);
  #heads: Int32Array = new Int32Array(0);
  #tails: Int32Array = new Int32Array(0);

  #cellPackets: (Packet | null)[] = [];
  #cellTimes: Float64Array = new Float64Array(0);
  #cellBytes: Int32Array = new Int32Array(0);
  #cellBands: Uint8Array = new Uint8Array(0);
  #cellNext: Int32Array = new Int32Array(0);
  #cellPrevious: Int32Array = new Int32Array(0);
  #freeCell = NONE;

  /** The number of a flow that did not exist yet: without packets, on no list. */
  make(): number {
    if (this.count === this.keys.length) this.#grow();
    const flow = this.count++;
    this.#heads[flow] = NONE;
    this.#tails[flow] = NONE;
    this.headAt[flow] = NEVER;
    return flow;
  }

  /** The length in bytes of the packet of a flow that is due first; the flow must have one. */
  headBytes(flow: number): number {
    return this.#cellBytes[this.#heads[flow]!]!;
  }

  /** The band of that packet. */
  headBand(flow: number): number {
    return this.#cellBands[this.#heads[flow]!]!;
  }

  /** Takes in `p` of band `band`, which is due at `p.releaseAt`. */
  insert(flow: number, p: Packet, band: number): void {
    if (this.#freeCell === NONE) this.#growCells();
    const cell = this.#freeCell;
    this.#freeCell = this.#cellNext[cell]!;
    const at = p.releaseAt;
    this.#cellPackets[cell] = p;
    this.#cellTimes[cell] = at;
    this.#cellBytes[cell] = p.length;
    this.#cellBands[cell] = band;
    let before = this.#tails[flow]!;
    while (before !== NONE && this.#cellTimes[before]! > at) before = this.#cellPrevious[before]!;
    const after = before === NONE ? this.#heads[flow]! : this.#cellNext[before]!;
    this.#cellPrevious[cell] = before;
    this.#cellNext[cell] = after;
    if (before === NONE) {
      this.#heads[flow] = cell;
      this.headAt[flow] = at;
    } else {
      this.#cellNext[before] = cell;
    }
    if (after === NONE) this.#tails[flow] = cell;
    else this.#cellPrevious[after] = cell;
    this.packets[flow]!++;
    this.bytes[flow]! += p.length;
  }

  /** Takes the packet that is due first out of a flow that has one. */
  shift(flow: number): Packet {
    const cell = this.#heads[flow]!;
    const p = this.#cellPackets[cell]!;
    const after = this.#cellNext[cell]!;
    this.#heads[flow] = after;
    if (after === NONE) {
      this.#tails[flow] = NONE;
      this.headAt[flow] = NEVER;
    } else {
      this.#cellPrevious[after] = NONE;
      this.headAt[flow] = this.#cellTimes[after]!;
    }
    this.#cellPackets[cell] = null;
    this.#cellNext[cell] = this.#freeCell;
    this.#freeCell = cell;
    this.packets[flow]!--;
    this.bytes[flow]! -= this.#cellBytes[cell]!;
    return p;
  }

  /** Bytes held in a flow of packets whose own flow number agrees with `number` in `bits`; looks at each packet. */
  bytesFrom(flow: number, number: number, bits: number): number {
    let bytes = 0;
    for (let cell = this.#heads[flow]!; cell !== NONE; cell = this.#cellNext[cell]!) {
      if (((this.#cellPackets[cell]!.flow ^ number) & bits) === 0) bytes += this.#cellBytes[cell]!;
    }
    return bytes;
  }

  #grow(): void {
    const capacity = Math.max(16, 2 * this.keys.length);
    const longer = <T extends Int32Array | Uint8Array | Float64Array>(column: T, made: T): T => {
      made.set(column);
      return made;
    };
    this.keys = longer(this.keys, new Int32Array(capacity));
    this.states = longer(this.states, new Uint8Array(capacity));
    this.bands = longer(this.bands, new Uint8Array(capacity));
    this.credits = longer(this.credits, new Int32Array(capacity));
    this.packets = longer(this.packets, new Int32Array(capacity));
    this.bytes = longer(this.bytes, new Float64Array(capacity));
    this.headAt = longer(this.headAt, new Float64Array(capacity));
    this.idleSince = longer(this.idleSince, new Float64Array(capacity));
    this.nextPacketAt = longer(this.nextPacketAt, new Float64Array(capacity));
    this.next = longer(this.next, new Int32Array(capacity));
    this.previous = longer(this.previous, new Int32Array(capacity));
    this.#heads = longer(this.#heads, new Int32Array(capacity));
    this.#tails = longer(this.#tails, new Int32Array(capacity));
  }

  #growCells(): void {
    const size = this.#cellTimes.length;
    const capacity = Math.max(64, 2 * size);
    const times = new Float64Array(capacity);
    times.set(this.#cellTimes);
    const bytes = new Int32Array(capacity);
    bytes.set(this.#cellBytes);
    const bands = new Uint8Array(capacity);
    bands.set(this.#cellBands);
    const next = new Int32Array(capacity);
    next.set(this.#cellNext);
    const previous = new Int32Array(capacity);
    previous.set(this.#cellPrevious);
    for (let cell = size; cell < capacity; cell++) {
      this.#cellPackets.push(null);
      next[cell] = cell + 1 < capacity ? cell + 1 : NONE;
    }
    this.#cellTimes = times;
    this.#cellBytes = bytes;
    this.#cellBands = bands;
    this.#cellNext = next;
    this.#cellPrevious = previous;
    this.#freeCell = size;
  }
}

/** A first-in, first-out list of flows, from whose middle a flow can be taken. */
export class FlowList {
  /** The flow at the front, or {@linkcode NONE}. */
  head: number = NONE;
  #tail = NONE;
  readonly #flows: FqFlows;

  /** An empty list of flows of `flows`. */
  constructor(flows: FqFlows) {
    this.#flows = flows;
  }

  /** Appends `flow`, which may be on no list. */
  push(flow: number): void {
    const { next, previous } = this.#flows;
    const tail = this.#tail;
    previous[flow] = tail;
    next[flow] = NONE;
    if (tail === NONE) this.head = flow;
    else next[tail] = flow;
    this.#tail = flow;
  }

  /** Takes `flow`, which is on this list, out of it. */
  remove(flow: number): void {
    const { next, previous } = this.#flows;
    const before = previous[flow]!;
    const after = next[flow]!;
    if (before === NONE) this.head = after;
    else next[before] = after;
    if (after === NONE) this.#tail = before;
    else previous[after] = before;
  }
}
