/**
 * What a benchmark is: a name, a unit, and a function that measures for some seconds.
 *
 * @module
 */

/** One figure. */
export interface Figure {
  /** What was measured. */
  name: string;
  /** The figure. */
  value: number;
  /** Its unit. */
  unit: string;
}

/** One benchmark; it runs in a process of its own. */
export interface Bench {
  /** Name of its figure. */
  name: string;
  /** What it measures, in one line. */
  what: string;
  /** Unit of its figure. */
  unit: string;
  /** Measures for about `seconds` after warming up. */
  run(seconds: number): number | Promise<number>;
}

/**
 * Calls `work` until `seconds` have passed, after a warm-up of a third of that, and returns how much it did a second.
 *
 * @param work does a small piece and returns how much that was
 */
export function ratePerSecond(seconds: number, work: () => number): number {
  let done = 0;
  const spin = (limit: number): number => {
    done = 0;
    const from = performance.now();
    let now = from;
    while (now - from < limit * 1000) {
      for (let i = 0; i < 8; i++) done += work();
      now = performance.now();
    }
    return done / ((now - from) / 1000);
  };
  spin(seconds / 3);
  return spin(seconds);
}
