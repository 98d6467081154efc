/**
 * The normal distribution: its distribution function, the inverse, and the correlation of two thresholds.
 *
 * Used where a stage is made, not for each packet; only {@linkcode rankOf} is, which looks a value up in a table. The
 * distribution function is summed as a series near the middle and as a continued fraction in the tails, the inverse is
 * found by Newton's method; both are good to about 1e-14.
 *
 * References: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.2.11 (series), 26.2.14 (continued fraction).
 *
 * @module
 */

const SQRT_2PI = Math.sqrt(2 * Math.PI);

/** Beyond this the tail is below the smallest difference that a draw can have. */
const EDGE = 9;

/** The density at `z`. */
function density(z: number): number {
  return Math.exp(-z * z / 2) / SQRT_2PI;
}

/** Probability of more than `z`, for `z` of at least 3. */
function upperTail(z: number): number {
  let fraction = z;
  for (let k = 60; k >= 1; k--) fraction = z + k / fraction;
  return density(z) / fraction;
}

/** Probability that a standard normal number is at most `z`. */
export function normalCdf(z: number): number {
  if (z >= 3) return 1 - upperTail(z);
  if (z <= -3) return upperTail(-z);
  let term = z;
  let sum = z;
  for (let k = 3; Math.abs(term) > 1e-17; k += 2) {
    term *= z * z / k;
    sum += term;
  }
  return 0.5 + density(z) * sum;
}

/** The number that a standard normal one is at most with `probability`; −∞ for 0, ∞ for 1. */
export function normalQuantile(probability: number): number {
  if (probability <= 0) return -Infinity;
  if (probability >= 1) return Infinity;
  if (probability > 0.5) return -normalQuantile(1 - probability);
  // The logarithm of the distribution function is concave: Newton's method converges from any point left of the solution,
  // and there the probability is at most exp(−z² / 2) / 2.
  const target = Math.log(probability);
  let z = -Math.sqrt(Math.max(0, -2 * Math.log(2 * probability)));
  for (let i = 0; i < 60; i++) {
    const cdf = normalCdf(z);
    const step = (Math.log(cdf) - target) * cdf / density(z);
    z -= step;
    if (Math.abs(step) < 1e-14 * (1 + Math.abs(z))) break;
  }
  return z;
}

/**
 * Probability that two standard normal numbers with `correlation` (0 to 1) are both below the quantile of `probability`:
 * Plackett's integral over the correlation, with `correlation = sin θ`.
 */
export function bothBelow(probability: number, correlation: number): number {
  if (correlation >= 1) return probability;
  const threshold = normalQuantile(probability);
  const c = threshold * threshold;
  const steps = 512;
  const width = Math.asin(correlation) / steps;
  const value = (theta: number) => Math.exp(-c / (1 + Math.sin(theta)));
  let sum = value(0) + value(width * steps);
  for (let i = 1; i < steps; i++) sum += (i % 2 === 1 ? 4 : 2) * value(i * width);
  return probability * probability + sum * width / 3 / (2 * Math.PI);
}

/**
 * The correlation that two standard normal numbers must have so that the decisions "below the quantile of `probability`"
 * have `correlation` (0 to below 1).
 */
export function normalCorrelationOfDecisions(probability: number, correlation: number): number {
  if (correlation === 0 || probability <= 0 || probability >= 1) return 0;
  const p = Math.min(probability, 1 - probability);
  const wanted = p * p + correlation * p * (1 - p);
  let [low, high] = [0, 1];
  for (let i = 0; i < 52; i++) {
    const middle = (low + high) / 2;
    if (bothBelow(p, middle) < wanted) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/** The correlation that two standard normal numbers must have so that their ranks have `correlation` (0 to below 1). */
export function normalCorrelationOfRanks(correlation: number): number {
  return 2 * Math.sin(Math.PI * correlation / 6);
}

const CELLS_PER_UNIT = 256;

/** The distribution function from −EDGE to EDGE; between two entries it is linear, which errs by less than 5e-7. */
const RANKS: Float64Array = Float64Array.from(
  { length: 2 * EDGE * CELLS_PER_UNIT + 2 },
  (_, i) => normalCdf(i / CELLS_PER_UNIT - EDGE),
);

/** The distribution function of `z` by table: from 0 to below 1. */
export function rankOf(z: number): number {
  const place = (z + EDGE) * CELLS_PER_UNIT;
  if (!(place > 0)) return 0;
  if (place >= 2 * EDGE * CELLS_PER_UNIT) return 1 - Number.EPSILON;
  const cell = Math.floor(place);
  const low = RANKS[cell]!;
  const rank = low + (place - cell) * (RANKS[cell + 1]! - low);
  return rank < 1 ? rank : 1 - Number.EPSILON;
}
