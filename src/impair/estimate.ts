/**
 * A ratio of two sums over a series, and how far it may be from the truth, whether or not neighbours are alike.
 *
 * The series is cut into 32 to 64 batches of equal length: when there are 64, neighbouring ones are joined and the
 * following ones are twice as long. Batches that are longer than the memory of the series are as good as independent, so
 * the spread between them gives the standard error of the whole (batch means; for a ratio, of the residuals).
 *
 * References: A. M. Law, Simulation Modeling and Analysis, chapter 9 (batch means, ratio estimators).
 *
 * @module
 */

const BATCHES = 64;

/** A mean, a share or a rate with its standard error. */
export class RatioEstimate {
  /** Members of the series so far. */
  count = 0;
  readonly #above = new Float64Array(BATCHES);
  readonly #below = new Float64Array(BATCHES);
  #batch = 0;
  #inBatch = 0;
  #batchSize = 1;

  /** Adds a member: `above` to the sum above, `below` to the sum below. */
  add(above: number, below: number): void {
    this.count++;
    this.#above[this.#batch]! += above;
    this.#below[this.#batch]! += below;
    if (++this.#inBatch < this.#batchSize) return;
    this.#inBatch = 0;
    if (++this.#batch === BATCHES) this.#join();
  }

  #join(): void {
    const above = this.#above;
    const below = this.#below;
    for (let i = 0; i < BATCHES / 2; i++) {
      above[i] = above[2 * i]! + above[2 * i + 1]!;
      below[i] = below[2 * i]! + below[2 * i + 1]!;
    }
    above.fill(0, BATCHES / 2);
    below.fill(0, BATCHES / 2);
    this.#batch = BATCHES / 2;
    this.#batchSize *= 2;
  }

  /** The ratio; NaN if nothing was added. */
  get value(): number {
    return this.#above.reduce((sum, x) => sum + x, 0) / this.#below.reduce((sum, x) => sum + x, 0);
  }

  /** Its standard error from the complete batches; NaN with less than two of them. */
  get standardError(): number {
    const n = this.#batch;
    if (n < 2) return NaN;
    const ratio = this.value;
    let squares = 0;
    let below = 0;
    for (let i = 0; i < n; i++) {
      squares += (this.#above[i]! - ratio * this.#below[i]!) ** 2;
      below += this.#below[i]!;
    }
    return Math.sqrt(squares * n / (n - 1)) / below;
  }
}
