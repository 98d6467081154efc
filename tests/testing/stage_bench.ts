/**
 * What the tests of stages share: a pool, packets with flow and stamp, and a sink that remembers.
 *
 * @module
 */

import type { DropReason, DropSink } from "../../src/base/drop.ts";
import { type Packet, PacketPool } from "../../src/base/packet.ts";

/** A pool and a drop sink. */
export class StageBench implements DropSink {
  /** Where the packets come from. */
  readonly pool = new PacketPool(1 << 16);
  /** Reasons of all drops so far. */
  readonly dropped: DropReason[] = [];

  /** A packet of `flow` with so many bytes, stamped with `departAt`; of its IPv4 header only the first two bytes are right. */
  packet(flow: number, lengthBytes: number, departAt = 0, trafficClass = 0): Packet {
    const p = this.pool.acquire()!;
    p.end = p.start + lengthBytes;
    p.flow = flow;
    p.departAt = departAt;
    p.view.setUint16(p.start, 0x4500 | trafficClass);
    return p;
  }

  /** A packet with these bytes. */
  packetOf(bytes: Uint8Array): Packet {
    const p = this.packet(0, bytes.length);
    p.bytes.set(bytes, p.start);
    return p;
  }

  /** Remembers the reason and frees the packet. */
  drop(p: Packet, reason: DropReason): void {
    this.dropped.push(reason);
    this.pool.release(p);
  }
}
