/**
 * Nagle's algorithm in Minshall's form, and the sender's silly window rule, under windows, acknowledgments and writes of
 * any size: what holds of every segment that is sent.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { seqDiff } from "../../src/wire/seq.ts";
import { TcpTrace, TRACE_ISS } from "../testing/tcp_trace.ts";

const MSS = 1000;

type Step =
  | { kind: "write"; bytes: number }
  | { kind: "ack"; share: number; win: number }
  | { kind: "wait"; ms: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant("write" as const), bytes: fc.integer({ min: 1, max: 4000 }) }),
  fc.record({
    kind: fc.constant("ack" as const),
    share: fc.double({ min: 0, max: 1, noNaN: true }),
    win: fc.oneof(fc.integer({ min: 0, max: 3000 }), fc.integer({ min: 0, max: 65535 })),
  }),
  fc.record({ kind: fc.constant("wait" as const), ms: fc.integer({ min: 1, max: 60 }) }),
);

for (const noDelay of [false, true]) {
  for (const family of [4, 6] as const) {
    const what = noDelay ? "without Nagle the window rules alone" : "one partial segment unacknowledged at most";
    Deno.test(`nagle IPv${family}: property: ${what}, and never beyond the window`, () => {
      fc.assert(
        fc.property(fc.array(step, { minLength: 5, maxLength: 60 }), (steps) => {
          const h = new TcpTrace({ noDelay, sendBufferBytes: 100_000, congestion: "none", retries: 100 }, family);
          const t = h.established({ mss: MSS, win: 20_000 }, 100);
          let edge = 1 + 20_000;
          let largest = 20_000;
          let una = 1;
          let next = 1;
          let partials: number[] = [];
          const look = (timer: boolean): void => {
            for (const { seq, len } of h.all()) {
              if (len === 0 || seq! < next) continue; // probes and what is sent again
              assertEquals(seq, next);
              next += len!;
              assert(next <= edge, `sent up to ${next} with the window's end at ${edge}`);
              if (len === MSS) continue;
              const all = next === 1 + written;
              // Less than a full segment: all there is, or half of the largest window; the timer may send what fits.
              assert(all || timer || len! >= largest >> 1, `${len} bytes of ${written}, largest window ${largest}`);
              if (!noDelay && !timer) assertEquals(partials.filter((end) => end > una), [], "a second partial segment");
              partials.push(next);
            }
          };
          let written = 0;
          for (const s of steps) {
            if (s.kind === "write") {
              const n = Math.min(s.bytes, t.writableBytes);
              h.write(t, n);
              written += n;
              look(false);
            } else if (s.kind === "ack") {
              una += Math.floor((next - una) * s.share);
              // A peer does not take back what it has offered.
              edge = Math.max(edge, una + s.win);
              largest = Math.max(largest, edge - una);
              partials = partials.filter((end) => end > una);
              h.in({ flags: ".", seq: 1, ack: una, win: edge - una });
              look(false);
            } else {
              h.pass(s.ms);
              look(true);
            }
          }
          // Whatever it was, it all arrives once the peer takes it.
          for (let i = 0; i < 400 && una < 1 + written; i++) {
            h.pass(700);
            h.all();
            una = seqDiff(t.sndNxt, TRACE_ISS);
            h.in({ flags: ".", seq: 1, ack: una, win: 60_000 });
          }
          assertEquals([una, t.unsentBytes, t.sndNxt === t.sndUna], [1 + written, 0, true]);
        }),
        { numRuns: 150 },
      );
    });
  }
}

Deno.test("nagle: a partial segment that the window makes counts as one", () => {
  const h = new TcpTrace();
  const t = h.established({ mss: MSS, win: 1700 });
  h.write(t, 5000);
  h.out({ flags: ".", seq: 1, len: 1000 });
  h.quiet(); // 700 are less than half of 1,700
  h.in({ flags: ".", seq: 1, ack: 1001, win: 900 });
  h.out({ flags: ".", seq: 1001, len: 900 });
  h.in({ flags: ".", seq: 1, ack: 1001, win: 1700 });
  h.quiet(); // 800 would be a second one
  h.in({ flags: ".", seq: 1, ack: 1901, win: 1700 });
  h.out({ flags: ".", seq: 1901, len: 1000 });
});

Deno.test("nagle: small writes are collected while one is under way, and go together", () => {
  const h = new TcpTrace();
  const t = h.established({ mss: MSS });
  h.write(t, 10);
  h.out({ flags: "P.", seq: 1, len: 10 });
  for (let i = 0; i < 30; i++) h.write(t, 20);
  h.quiet();
  h.in({ flags: ".", seq: 1, ack: 11 });
  h.out({ flags: "P.", seq: 11, len: 600 });
  h.write(t, 300);
  h.write(t, 1200);
  h.out({ flags: ".", seq: 611, len: 1000 }); // a full one does not wait
  h.quiet();
  h.in({ flags: ".", seq: 1, ack: 611 });
  h.out({ flags: "P.", seq: 1611, len: 500 });
});
