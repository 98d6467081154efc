/**
 * One flow of {@linkcode Fq}: its packets in departure order, its credit, and the list that it is on.
 *
 * The packets are linked through themselves. A packet that is due at or after the newest one is appended; an earlier
 * one is put behind the last packet that is due no later than it is, which takes a walk over at most `flowLimit`
 * packets and only happens to a sender whose stamps run backwards.
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import { type Instant, NEVER } from "../base/time.ts";

/** Where a flow stands. */
export enum FlowState {
  /** Without packets, on the list of idle flows, remembered for its credit. */
  Idle,
  /** On the list of new flows. */
  New,
  /** On the list of old flows. */
  Old,
  /** On no list: its first packet is due later. */
  Throttled,
}

/** A flow with its queue. Made once and reused under other keys. */
export class FqFlow {
  /** Index of the object, for the heap of throttled flows. */
  readonly id: number;
  /** The key in the flow table. */
  key = 0;
  /** The list that the flow is on. */
  state: FlowState = FlowState.Idle;
  /** Bytes that it may still send in this turn; may be negative by less than a packet. */
  credit = 0;
  /** When it became idle. */
  idleSince: Instant = NEVER;
  /** Its packet that is due first. */
  head: Packet | null = null;
  /** Its packet that is due last. */
  tail: Packet | null = null;
  /** Packets held. */
  packets = 0;
  /** Bytes held. */
  bytes = 0;
  /** The next flow of the list. */
  next: FqFlow | null = null;
  /** The flow before it in the list. */
  previous: FqFlow | null = null;

  /** Makes a flow object. */
  constructor(id: number) {
    this.id = id;
  }

  /** Puts `p` in its place by `p.releaseAt`, behind packets of the same time. */
  insert(p: Packet): void {
    this.packets++;
    this.bytes += p.length;
    const tail = this.tail;
    if (tail === null || p.releaseAt >= tail.releaseAt) {
      p.next = null;
      if (tail === null) this.head = p;
      else tail.next = p;
      this.tail = p;
      return;
    }
    let before: Packet | null = null;
    let after = this.head!;
    while (after.releaseAt <= p.releaseAt) {
      before = after;
      after = after.next!;
    }
    p.next = after;
    if (before === null) this.head = p;
    else before.next = p;
  }

  /** Takes the packet that is due first, or `null`. */
  shift(): Packet | null {
    const p = this.head;
    if (p === null) return null;
    this.head = p.next;
    if (this.head === null) this.tail = null;
    p.next = null;
    this.packets--;
    this.bytes -= p.length;
    return p;
  }
}

/** A first-in, first-out list of flows, from whose middle a flow can be taken. */
export class FlowList {
  /** The flow at the front. */
  head: FqFlow | null = null;
  #tail: FqFlow | null = null;

  /** Appends `flow`, which may be on no list. */
  push(flow: FqFlow): void {
    const tail = this.#tail;
    flow.previous = tail;
    flow.next = null;
    if (tail === null) this.head = flow;
    else tail.next = flow;
    this.#tail = flow;
  }

  /** Takes `flow`, which is on this list, out of it. */
  remove(flow: FqFlow): void {
    if (flow.previous === null) this.head = flow.next;
    else flow.previous.next = flow.next;
    if (flow.next === null) this.#tail = flow.previous;
    else flow.next.previous = flow.previous;
    flow.next = null;
    flow.previous = null;
  }
}
