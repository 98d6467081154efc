/**
 * What the tests of the fair queue share.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import { DropReason } from "../../src/base/drop.ts";
import type { Packet } from "../../src/base/packet.ts";
import { Fq, type FqOptions } from "../../src/qdisc/fq.ts";
import { StageBench } from "../testing/stage_bench.ts";

/** A flow that no test uses. */
const FILLER = 0x7ffe;

/** A fair queue with its pool. */
export class FqBench extends StageBench {
  /** The queue. */
  readonly fq: Fq;

  /** Makes an empty queue. */
  constructor(options: FqOptions = {}) {
    super();
    this.fq = new Fq(options, this);
  }

  /** Pushes a packet, which must be taken. */
  push(now: number, flow: number, lengthBytes: number, departAt = 0, trafficClass = 0): Packet {
    const p = this.packet(flow, lengthBytes, departAt, trafficClass);
    assertEquals(this.fq.push(p, now), DropReason.None);
    return p;
  }

  /** Calls `push` while the fast path is full, so that everything has to stand in line; the queue must be empty before. */
  inLine(now: number, push: () => void): void {
    assertEquals(this.fq.backlogPackets, 0);
    for (let i = 0; i < 8; i++) this.push(now, FILLER, 1);
    push();
    for (let i = 0; i < 8; i++) {
      const p = this.fq.pull(now)!;
      assertEquals(p.flow, FILLER);
      this.pool.release(p);
    }
  }

  /** The flow of the next packet, which is freed; `null` if there is none. */
  pull(now: number): number | null {
    const p = this.fq.pull(now);
    if (p === null) return null;
    this.pool.release(p);
    return p.flow;
  }

  /** The flows of the next `n` packets. */
  flows(now: number, n: number): (number | null)[] {
    return Array.from({ length: n }, () => this.pull(now));
  }
}
