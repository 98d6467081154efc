/**
 * Checks of a program that prints `ok NAME`, `not ok NAME` or `skip NAME reason`, a line each.
 *
 * @module
 */

/** Counts what failed. */
export class Checks {
  /** Checks that failed. */
  failures = 0;

  /**
   * Runs one check; it fails by throwing.
   *
   * @param body gives details for the line, or nothing
   */
  async run(name: string, body: () => string | Promise<string>): Promise<void> {
    const from = performance.now();
    try {
      const detail = await body();
      console.log(`ok ${name}  # ${detail}, ${((performance.now() - from) / 1000).toFixed(1)} s`);
    } catch (error) {
      this.fail(name, String(error instanceof Error ? error.message : error));
    }
  }

  /** Tells of a failure. */
  fail(name: string, why: string): void {
    this.failures++;
    console.log(`not ok ${name}  # ${why.replaceAll("\n", " ")}`);
  }
}

/** Throws if what is expected does not hold. */
export function expect(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(message);
}
