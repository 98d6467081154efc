/**
 * Delay with uniform jitter: from `delay − jitter` to just below `delay + jitter`, in whole nanoseconds.
 *
 * The copy of a duplicated packet takes its own way: its delay comes from a stream of its own, so that duplication
 * leaves the delays of all other packets as they are.
 *
 * @module
 */

import type { Packet } from "../base/packet.ts";
import type { Rng } from "../base/rng.ts";
import type { Duration } from "../base/time.ts";
import { CorrelatedDraw } from "./draw.ts";
import type { Impairment, Verdict } from "./impairment.ts";

/** Delays packets. */
export class Delay implements Impairment {
  readonly #least: Duration;
  readonly #width: Duration;
  readonly #draw: CorrelatedDraw;
  readonly #copyDraw: CorrelatedDraw;

  /** Delays by `delay` ± `jitter`. */
  constructor(delay: Duration, jitter: Duration, correlation: number, rng: Rng) {
    this.#least = delay - jitter;
    this.#width = 2 * jitter;
    this.#draw = new CorrelatedDraw(rng, correlation);
    this.#copyDraw = new CorrelatedDraw(rng.fork("copy"), correlation);
  }

  /** Sets the delays of the packet and of its copy, if it has one. */
  apply(_p: Packet, verdict: Verdict): void {
    verdict.delay = this.#least + Math.floor(this.#draw.next() * this.#width);
    if (verdict.copies > 1) verdict.copyDelay = this.#least + Math.floor(this.#copyDraw.next() * this.#width);
  }
}
