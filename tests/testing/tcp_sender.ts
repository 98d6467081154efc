/**
 * A TCP alone that has sent a flight of segments: where tests of loss recovery begin.
 *
 * The peer takes segments of 1,000 bytes. Sequence numbers are relative as in all traces, and the numbers on the wire pass
 * 2^32 in the first segment.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import { MILLISECOND } from "../../src/base/time.ts";
import type { TcpOptions } from "../../src/tcp/options.ts";
import type { Tcb } from "../../src/tcp/tcb.ts";
import { type Segment, TcpTrace } from "./tcp_trace.ts";

/** How a flight is made. */
export interface FlightOptions {
  /** Segments in flight. Default 10. */
  segments?: number;
  /** Further segments written; the congestion window holds them back. Default 0. */
  further?: number;
  /** Round-trip time of the handshake in ms, and so the estimate. Default 100. */
  rtt?: number;
  /** The peer offers timestamps. Default false. */
  timestamps?: boolean;
  /** The peer offers SACK. Default true. */
  sack?: boolean;
  /** The peer asks for ECN. Default false. */
  ecn?: boolean;
  /** IP version. Default 4. */
  family?: 4 | 6;
  /** Settings of the TCP. */
  tcp?: Partial<TcpOptions>;
}

/** A sender with a flight out. */
export class Sender {
  readonly h: TcpTrace;
  readonly t: Tcb;
  /** Bytes of a full segment. */
  readonly mss: number;

  constructor(options: FlightOptions = {}) {
    const { segments = 10, further = 0, rtt = 100, timestamps = false, sack = true, ecn = false, family = 4 } = options;
    const settings = { congestion: "reno", initialCwndSegments: segments, sendBufferBytes: 4 << 20 };
    this.h = new TcpTrace({ ...settings, ...options.tcp }, family);
    this.mss = timestamps ? 988 : 1000;
    const flags = ecn ? "SEW" : "S";
    const listener = this.h.listen();
    const syn = { mss: 1000, wscale: 7, sackOk: sack };
    if (timestamps) this.h.peerSendsTimestamps();
    this.h.in({ flags, seq: 0, ...syn });
    this.h.out({ flags: ecn ? "S.E" : "S.", seq: 0, ack: 1 });
    this.h.pass(rtt);
    this.h.in({ flags: ".", seq: 1, ack: 1 });
    this.t = listener.accept()!;
    assertEquals(this.t.mss, this.mss);
    this.h.write(this.t, (segments + further) * this.mss);
    assertEquals(this.h.all().length, segments);
  }

  /** Sequence number of the first byte of segment `n` (0 is the first). */
  nth(n: number): number {
    return 1 + n * this.mss;
  }

  /** An acknowledgment of the first `segments` with SACK blocks `[from, to)`, all in segments. */
  ack(segments: number, blocks: [number, number][] = [], more: Partial<Segment> = {}): void {
    const sack = blocks.map(([from, to]): [number, number] => [this.nth(from), this.nth(to)]);
    this.h.in({ flags: ".", seq: 1, ack: this.nth(segments), sack, ...more });
  }

  /** Which segments were sent since the last call, by their numbers. */
  sent(): number[] {
    return this.h.all().filter((s) => s.len! > 0).map((s) => (s.seq! - 1) / this.mss);
  }

  /** The same, each with the time in ms at which it departs. */
  sentAt(): [segment: number, ms: number][] {
    return this.h.allCaught().filter(({ segment }) => segment.len! > 0)
      .map(({ at, segment }) => [(segment.seq! - 1) / this.mss, at / MILLISECOND]);
  }

  /** Window and threshold of the congestion control, in segments. */
  get windows(): [cwnd: number, ssthresh: number] {
    return [this.t.congestion.cwnd / this.mss, this.t.congestion.ssthresh / this.mss];
  }
}
