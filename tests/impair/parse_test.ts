/**
 * The text form of an impairment: what is read, what is refused with which words, and that it can be written back.
 *
 * @module
 */

import { assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { MICROSECOND, MILLISECOND, SECOND } from "../../src/base/time.ts";
import { NETEM_DEFAULTS, type NetemConfig, netemConfig } from "../../src/impair/config.ts";
import { formatNetem, parseNetem } from "../../src/impair/parse.ts";
import { formatPercent, formatRate, formatTime, parsePercent, parseRate, parseTime } from "../../src/impair/units.ts";

function assertParses(text: string, expected: Partial<NetemConfig>): void {
  assertEquals(parseNetem(text), { ...NETEM_DEFAULTS, ...expected }, text);
}

Deno.test("netem text: all options", () => {
  assertParses("", {});
  assertParses("delay 20ms 2ms loss 0.5% rate 50mbit", {
    delay: 20 * MILLISECOND,
    jitter: 2 * MILLISECOND,
    loss: 0.005,
    rateBytesPerSec: 6_250_000,
  });
  assertParses(
    "delay 20ms 2ms 10% loss random 0.5% 25% rate 50mbit limit 200 duplicate 1% reorder 25% 50% gap 5 corrupt 0.1% ecn",
    {
      delay: 20 * MILLISECOND,
      jitter: 2 * MILLISECOND,
      delayCorrelation: 0.1,
      loss: 0.005,
      lossCorrelation: 0.25,
      rateBytesPerSec: 6_250_000,
      limit: 200,
      duplicate: 0.01,
      reorder: 0.25,
      reorderCorrelation: 0.5,
      gap: 5,
      corrupt: 0.001,
      ecn: true,
    },
  );
  assertParses("  ecn\n loss\t1  ", { ecn: true, loss: 0.01 });
  assertParses("gap 5 delay 10ms", { delay: 10 * MILLISECOND, reorder: 1, gap: 5 });
  assertParses("rate 5kbit 20 100 5", {
    rateBytesPerSec: 625,
    packetOverheadBytes: 20,
    cellBytes: 100,
    cellOverheadBytes: 5,
  });
  assertParses("rate 1mbit -14", { rateBytesPerSec: 125_000, packetOverheadBytes: -14 });
});

Deno.test("netem text: units of time", () => {
  const cases: [string, number][] = [
    ["1s", SECOND],
    ["1.5sec", 1.5 * SECOND],
    ["2secs", 2 * SECOND],
    ["20ms", 20 * MILLISECOND],
    [".25msec", 250 * MICROSECOND],
    ["3msecs", 3 * MILLISECOND],
    ["7us", 7000],
    ["7usec", 7000],
    ["7usecs", 7000],
    ["9ns", 9],
    ["9nsec", 9],
    ["9nsecs", 9],
    ["20MS", 20 * MILLISECOND],
    ["1e-3s", MILLISECOND],
    ["0.0000000014s", 1],
  ];
  for (const [text, expected] of cases) assertEquals(parseTime(text), expected, text);
  for (const text of ["20", "20m", "ms", "2 ms", "0x10ms", "1.2.3ms", ""]) assertEquals(parseTime(text), NaN, text);
});

Deno.test("netem text: units of rate, bits and bytes, thousands and 1,024s", () => {
  const cases: [string, number][] = [
    ["8bit", 1],
    ["8", 1],
    ["64kbit", 8000],
    ["50mbit", 6_250_000],
    ["1.5mbit", 187_500],
    ["10gbit", 1.25e9],
    ["1tbit", 1.25e11],
    ["8kibit", 1024],
    ["8Mibit", 1024 ** 2],
    ["8Gibit", 1024 ** 3],
    ["8Tibit", 1024 ** 4],
    ["3bps", 3],
    ["3kbps", 3000],
    ["3mbps", 3e6],
    ["3gbps", 3e9],
    ["3tbps", 3e12],
    ["3KiBps", 3072],
    ["1MiBps", 1024 ** 2],
    ["1GiBps", 1024 ** 3],
    ["1TiBps", 1024 ** 4],
  ];
  for (const [text, expected] of cases) assertEquals(parseRate(text), expected, text);
  for (const text of ["50mb", "50m", "mbit", "50mbits", "50mbit/s"]) assertEquals(parseRate(text), NaN, text);
});

Deno.test("netem text: each refusal names the word, its place and what was expected", () => {
  const cases: [string, string][] = [
    ["dealy 20ms", 'word 1 "dealy": expected limit, delay, loss'],
    ["delay", 'word 2 is missing after "delay": expected a time with its unit (s, ms, us or ns), like 20ms'],
    ["delay 20", 'word 2 "20": expected a time with its unit'],
    ["delay 20ms 2", 'word 3 "2": expected a time with its unit'],
    ["delay 20ms 2ms x", 'word 4 "x": expected limit, delay'],
    ["delay -1ms", 'word 2 "-1ms": delay must be an integer from 0'],
    ["delay 2days", 'word 2 "2days": expected a time'],
    ["loss 1% delay 10ms 11ms", 'word 5 "11ms": jitter must not exceed the delay'],
    ["loss 101%", 'word 2 "101%": loss must be a probability from 0 to 100%'],
    ["loss -1%", 'word 2 "-1%": loss must be a probability'],
    ["loss much", 'word 2 "much": expected a percentage, like 0.5%'],
    ["loss random", 'word 3 is missing after "random": expected a percentage'],
    ["loss state 1% 10%", 'word 2 "state": this loss model is not supported yet'],
    ["loss gemodel 1%", 'word 2 "gemodel": this loss model is not supported yet'],
    ["loss 1% 100%", 'word 3 "100%": lossCorrelation must be from 0 to below 100%'],
    ["loss 1% 25ms", 'word 3 "25ms": expected a correlation as a percentage'],
    ["delay 10ms 5ms distribution normal", 'word 4 "distribution": not supported yet'],
    ["slot 1ms", 'word 1 "slot": not supported yet'],
    ["seed 7", 'word 1 "seed": not supported yet'],
    ["loss 1% loss 2%", 'word 3 "loss": given twice'],
    ["limit 10 reorder 25%", 'word 4 "25%": reorder needs a delay'],
    ["gap 5", 'word 2 "5": reorder needs a delay'],
    ["delay 1ms gap 0", 'word 4 "0": gap must be an integer from 1'],
    ["ecn", 'word 1 "ecn": ecn needs a loss'],
    ["limit 0", 'word 2 "0": limit must be an integer from 1'],
    ["limit 1.5", 'word 2 "1.5": expected a whole number'],
    ["rate fast", 'word 2 "fast": expected a rate with its unit'],
    ["rate 1bit", 'word 2 "1bit": rateBytesPerSec must be from 8bit'],
    ["rate -5mbit", 'word 2 "-5mbit": rateBytesPerSec must be'],
    ["rate 1e999mbit", 'word 2 "1e999mbit": rateBytesPerSec must be'],
    ["rate 1mbit 4kbit", 'word 3 "4kbit": expected a whole number'],
  ];
  for (const [text, message] of cases) assertThrows(() => parseNetem(text), TypeError, `netem: ${message}`);
});

const fraction = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });
const time = fc.oneof(fc.nat(86_400), fc.nat(10_000).map((ms) => ms * MILLISECOND), fc.nat(1e9));

const configs: fc.Arbitrary<NetemConfig> = fc.record({
  limit: fc.oneof(fc.constant(1000), fc.integer({ min: 1, max: 100_000 })),
  delay: time.map((t) => t + 1),
  jitter: fraction,
  delayCorrelation: fraction,
  loss: fraction.map((p) => 1 - p),
  lossCorrelation: fraction,
  ecn: fc.boolean(),
  duplicate: fraction,
  duplicateCorrelation: fc.constantFrom(0, 0.25),
  reorder: fc.oneof(fc.constantFrom(0, 1), fraction),
  reorderCorrelation: fc.constantFrom(0, 0.5),
  gap: fc.integer({ min: 1, max: 10 }),
  corrupt: fraction,
  corruptCorrelation: fc.constantFrom(0, 0.001),
  rateBytesPerSec: fc.oneof(
    fc.constant(0),
    fc.integer({ min: 1, max: 1e9 }),
    fc.double({ min: 1, max: 1e12, noNaN: true }),
  ),
  packetOverheadBytes: fc.integer({ min: -100, max: 100 }),
  cellBytes: fc.nat(100),
  cellOverheadBytes: fc.integer({ min: -10, max: 10 }),
}).map((c) => ({ ...c, jitter: Math.floor(c.jitter * c.delay) }));

Deno.test("netem text: what is written is read as the same", () => {
  assertEquals(formatNetem({ ...NETEM_DEFAULTS }), "");
  const texts = [
    "delay 20ms 2ms loss 0.5% rate 50mbit",
    "delay 20ms 2ms 25% loss 0.07% ecn duplicate 1% reorder 25% gap 5 corrupt 0.1% rate 1.5bit 20".replace(
      "1.5",
      "12.5",
    ),
    "delay 150us 0ns 10% limit 20",
    "delay 10ms reorder 0% gap 3",
  ];
  for (const text of texts) assertEquals(formatNetem(parseNetem(text)), text);
  fc.assert(fc.property(configs, (config) => assertEquals(parseNetem(formatNetem(config)), config)));
});

Deno.test("netem text: single numbers survive writing and reading exactly", () => {
  fc.assert(fc.property(fraction, (p) => assertEquals(parsePercent(formatPercent(p)), p)));
  fc.assert(fc.property(fc.maxSafeNat(), (t) => assertEquals(parseTime(formatTime(t)), t)));
  fc.assert(fc.property(fc.double({ min: 1, max: 1e12, noNaN: true }), (rate) => {
    assertEquals(parseRate(formatRate(rate)), rate);
  }));
});

Deno.test("netem text: no text makes it do anything but return or throw a TypeError", () => {
  const word = fc.oneof(
    fc.constantFrom("delay", "loss", "rate", "reorder", "gap", "ecn", "limit", "random", "corrupt", "duplicate"),
    fc.constantFrom("1ms", "5%", "20", "0", "-3", "1e400ms", "50mbit", "NaN", "Infinity", "9".repeat(400) + "ms"),
    fc.string({ maxLength: 6 }),
  );
  fc.assert(
    fc.property(fc.array(word, { maxLength: 8 }), (words) => {
      try {
        netemConfig(parseNetem(words.join(" ")));
      } catch (error) {
        if (!(error instanceof TypeError) || !/^netem: word \d+ /.test(error.message)) throw error;
      }
    }),
    { numRuns: 1000 },
  );
});

Deno.test("netem config: fields given as values are completed and checked", () => {
  assertEquals(netemConfig({ delay: 5 }), { ...NETEM_DEFAULTS, delay: 5 });
  assertThrows(
    () => netemConfig({ loss: 1.01 }),
    RangeError,
    "netem loss must be a probability from 0 to 100%, got 1.01",
  );
  assertThrows(() => netemConfig({ delay: 0.5 }), RangeError, "netem delay must be an integer");
  assertThrows(() => netemConfig({ rateBytesPerSec: NaN }), RangeError, "netem rateBytesPerSec must be");
  assertThrows(() => netemConfig({ corruptCorrelation: 1 }), RangeError, "netem corruptCorrelation");
});
