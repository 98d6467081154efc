/**
 * The largest of the values of a sliding window of time, approximately and in constant space.
 *
 * It keeps the largest value, the largest after it and the largest after that one. When the first leaves the window the
 * second takes its place; a quarter and half of a window after the first, the second and third are taken anew, so that
 * what follows a passed maximum is never old. Time is any number that does not fall.
 *
 * What always holds: the result is one of the values given within the window, or the last one given.
 *
 * Reference: K. Nichols, windowed min/max (draft-ietf-ccwg-bbr section 5.5.5 names it), by behaviour.
 *
 * @module
 */

/** A windowed maximum. */
export class WindowedMax {
  #value0 = 0;
  #value1 = 0;
  #value2 = 0;
  #time0 = 0;
  #time1 = 0;
  #time2 = 0;

  /** The largest value of the window; 0 before the first. */
  get value(): number {
    return this.#value0;
  }

  /** A value at `time`; the window is `length` long from now on. */
  update(time: number, value: number, length: number): void {
    if (value >= this.#value0 || time - this.#time2 > length) {
      this.#value0 = this.#value1 = this.#value2 = value;
      this.#time0 = this.#time1 = this.#time2 = time;
      return;
    }
    if (value >= this.#value1) {
      this.#value1 = this.#value2 = value;
      this.#time1 = this.#time2 = time;
    } else if (value >= this.#value2) {
      this.#value2 = value;
      this.#time2 = time;
    }
    const age = time - this.#time0;
    if (age > length) {
      this.#shift(value, time);
      if (time - this.#time0 > length) this.#shift(value, time);
    } else if (this.#time1 === this.#time0 && age > length / 4) {
      this.#value1 = this.#value2 = value;
      this.#time1 = this.#time2 = time;
    } else if (this.#time2 === this.#time1 && age > length / 2) {
      this.#value2 = value;
      this.#time2 = time;
    }
  }

  #shift(value: number, time: number): void {
    this.#value0 = this.#value1;
    this.#time0 = this.#time1;
    this.#value1 = this.#value2;
    this.#time1 = this.#time2;
    this.#value2 = value;
    this.#time2 = time;
  }
}
