/**
 * A FIFO of packets, linked through the packets themselves, so that queueing allocates nothing.
 *
 * @module
 */

import type { Packet } from "./packet.ts";

/** A first-in, first-out list of packets with its length in packets and bytes. */
export class PacketList {
  /** The oldest packet. */
  head: Packet | null = null;
  /** The newest packet. */
  tail: Packet | null = null;
  /** How many packets are queued. */
  packets = 0;
  /** How many bytes their live ranges have together. */
  bytes = 0;

  /** Appends `p`, which may be in no other list. */
  push(p: Packet): void {
    p.next = null;
    if (this.tail === null) this.head = p;
    else this.tail.next = p;
    this.tail = p;
    this.packets++;
    this.bytes += p.length;
  }

  /** Takes the oldest packet, or `null`. */
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
