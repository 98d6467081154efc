/**
 * The text form of an impairment: what is read, what is refused with which words, and that it can be written back.
 *
 * @module
 */

import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import fc from "fast-check";
import { MICROSECOND, MILLISECOND, SECOND } from "../../src/base/time.ts";
import { NETEM_DEFAULTS, type NetemConfig, netemConfig, type NetemDistribution } from "../../src/impair/config.ts";
import { formatNetem } from "../../src/impair/format.ts";
import { netemFiles, parseNetem } from "../../src/impair/parse.ts";
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
    ["dealy 20ms", 'word 1 "dealy": expected limit, delay, distribution'],
    ["delay", 'word 2 is missing after "delay": expected a time with its unit (s, ms, us or ns), like 20ms'],
    ["delay 20", 'word 2 "20": expected a time with its unit'],
    ["delay 20ms 2", 'word 3 "2": expected a time with its unit'],
    ["delay 20ms 2ms x", 'word 4 "x": expected limit, delay'],
    ["delay -1ms", 'word 2 "-1ms": delay must be a time from 0'],
    ["delay 2days", 'word 2 "2days": expected a time'],
    ["loss 1% delay 10ms 11ms", 'word 5 "11ms": jitter must not exceed the delay'],
    ["loss 101%", 'word 2 "101%": loss must be a probability from 0 to 100%'],
    ["loss -1%", 'word 2 "-1%": loss must be a probability'],
    ["loss much", 'word 2 "much": expected a percentage, like 0.5%'],
    ["loss random", 'word 3 is missing after "random": expected a percentage'],
    ["loss 1% 100%", 'word 3 "100%": correlation must be from 0 to below 100%'],
    ["loss 1% 25ms", 'word 3 "25ms": expected a correlation as a percentage'],
    ["loss state", 'word 3 is missing after "state": expected a percentage'],
    ["loss state 60% 1% 0% 1% 50%", 'word 1 "loss": loss state must leave good with at most 100% (p13 + p14)'],
    ["loss state 1% 60% 50%", 'word 1 "loss": loss state must leave lost in a burst with at most 100% (p31 + p32)'],
    ["loss gemodel 1% 101%", 'word 1 "loss": loss gemodel must be four probabilities'],
    ["loss gemodel 1% 1% 1% 1% 1%", 'word 7 "1%": expected limit, delay'],
    ["delay 10ms 5ms distribution", 'word 5 is missing after "distribution": expected uniform, normal, pareto'],
    [
      "delay 10ms 5ms distribution my.dist",
      'word 5 "my.dist": expected uniform, normal, pareto, paretonormal or the name',
    ],
    ["slot 0ms", 'word 1 "slot": slot must have a time above 0'],
    ["slot 2ms 1ms", 'word 1 "slot": slot must not be longer at the least than at the most'],
    ["slot", 'word 2 is missing after "slot": expected a time with its unit'],
    ["slot 1ms packets", 'word 4 is missing after "packets": expected a whole number'],
    ["slot 1ms packets 1 packets 2", 'word 5 "packets": expected limit, delay'],
    ["slot distribution normal 1ms", 'word 5 is missing after "1ms": expected a time'],
    ["seed -1", 'word 2 "-1": seed must be an integer from 0'],
    ["seed x", 'word 2 "x": expected a whole number'],
    ["jitter", 'word 2 is missing after "jitter": expected keep-order or reorder'],
    ["jitter 2ms", 'word 2 "2ms": expected keep-order or reorder'],
    ["profile 4g", 'word 2 "4g": expected a profile: 3g, lte, 5g'],
    ["profile lte loss 1% delay 20ms 30ms", 'word 7 "30ms": jitter must not exceed the delay'],
    ["compat windows", 'word 2 "windows": expected linux'],
    [
      "compat linux delay 20ms jitter keep-order",
      'word 5 "jitter": keep-order must be left out: Linux does not have it',
    ],
    ["compat linux delay 20furlongs", 'word 4 "20furlongs": expected a time, in microseconds if it has no unit'],
    ["trace wire.txt", 'word 2 "wire.txt": expected the name of a file, and files cannot be read here'],
    ["delivery", 'word 2 is missing after "delivery": expected the name of a file'],
    ["loss 1% loss 2%", 'word 3 "loss": given twice'],
    ["limit 10 reorder 25%", 'word 4 "25%": reorder needs a delay'],
    ["gap 5", 'word 2 "5": reorder needs a delay'],
    ["delay 1ms gap 0", 'word 4 "0": gap must be an integer from 1'],
    ["ecn", 'word 1 "ecn": ecn needs a loss'],
    ["limit 0", 'word 2 "0": limit must be an integer from 1'],
    ["limit 1.5", 'word 2 "1.5": expected a whole number'],
    ["rate fast", 'word 2 "fast": expected a rate with its unit'],
    ["rate 1bit", 'word 2 "1bit": rate must be from 8bit'],
    ["rate -5mbit", 'word 2 "-5mbit": rate must be'],
    ["rate 1e999mbit", 'word 2 "1e999mbit": rate must be'],
    ["rate 1mbit 4kbit", 'word 3 "4kbit": expected a whole number'],
    ["rate 1mbit 65536", 'word 3 "65536": packet overhead must be an integer from -65535'],
    ["rate 1mbit 1 -1", 'word 4 "-1": cell size must be an integer from 0'],
    ["rate 1mbit 1 48 65536", 'word 5 "65536": cell overhead must be an integer from -65535'],
  ];
  for (const [text, message] of cases) assertThrows(() => parseNetem(text), TypeError, `netem: ${message}`);
});

const fraction = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });
const time = fc.oneof(fc.nat(86_400), fc.nat(10_000).map((ms) => ms * MILLISECOND), fc.nat(1e9));

const table = { name: "my.dist", values: [-8192, 0, 3, 8192] };
const files: Record<string, string> = {
  "my.dist": "-8192 0 3 8192",
  "wire.txt": "0s 20ms 1% 50mbit\n1s 30ms 0% unlimited",
  "cell.down": "1\n1\n5\n",
};
const readFile = (name: string): string => {
  const text = files[name];
  if (text === undefined) throw new Error("no such file");
  return text;
};

const distribution = fc.constantFrom<NetemDistribution>("uniform", "normal", "pareto", "paretonormal", table);
const slot = fc.oneof(
  fc.constant(null),
  fc.record({ min: fc.nat(1e6), more: fc.nat(1e9), packets: fc.nat(9), bytes: fc.nat(9999) }).map((
    { min, more, packets, bytes },
  ) => ({ min, max: min + more + 1, distribution: null, delay: 0, jitter: 0, packets, bytes })),
  fc.record({ distribution, delay: fc.integer({ min: 1, max: 1e9 }), jitter: fc.nat(1e9), packets: fc.nat(9) }).map((
    s,
  ) => ({ ...s, min: 0, max: 0, bytes: 0 })),
);

/** One of the ways to lose packets. */
const losses = fc.oneof(
  fc.record({ loss: fraction.map((p) => 1 - p), lossCorrelation: fraction }),
  fc.tuple(fraction, fraction, fraction, fraction, fraction).map(([a, b, c, d, e]) => ({
    lossState: { p13: a, p14: (1 - a) * b, p31: c, p32: (1 - c) * d, p23: e },
  })),
  fc.record({ p: fraction, r: fraction, badLoss: fraction, goodLoss: fraction }).map((lossGemodel) => ({
    lossGemodel,
  })),
);

const configs: fc.Arbitrary<NetemConfig> = fc.tuple(
  fc.record({
    limit: fc.oneof(fc.constant(1000), fc.integer({ min: 1, max: 100_000 })),
    delay: time.map((t) => t + 1),
    jitter: fraction,
    delayCorrelation: fraction,
    distribution,
    keepOrder: fc.boolean(),
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
    slot,
    seed: fc.oneof(fc.constant(null), fc.maxSafeNat()),
  }),
  losses,
).map(([c, loss]) => ({ ...NETEM_DEFAULTS, ...c, ...loss, jitter: Math.floor(c.jitter * c.delay) }));

Deno.test("netem text: what is written is read as the same", () => {
  assertEquals(formatNetem({ ...NETEM_DEFAULTS }), "");
  const texts = [
    "delay 20ms 2ms loss 0.5% rate 50mbit",
    "delay 20ms 2ms 25% loss 0.07% ecn duplicate 1% reorder 25% gap 5 corrupt 0.1% rate 12500kbit 20",
    "delay 150us 0ns 10% limit 20",
    "delay 10ms reorder 0% gap 3",
    "delay 20ms 10ms 25% distribution paretonormal jitter keep-order",
    "delay 20ms 10ms distribution my.dist",
    "loss state 1% 30% 20% 50% 0.5% ecn",
    "loss gemodel 1% 10% 50% 1%",
    "slot 800us 1ms packets 4 bytes 9000 seed 7",
    "slot distribution my.dist 2ms 1ms packets 4",
    "trace wire.txt loop limit 50",
    "trace wire.txt",
    "delay 10ms delivery cell.down",
    "compat linux delay 1ms 2ms loss 1% 25%",
  ];
  for (const text of texts) assertEquals(formatNetem(parseNetem(text, { readFile })), text);
  fc.assert(fc.property(configs, (config) => {
    const text = formatNetem(config);
    const again = parseNetem(text, { readFile });
    assertEquals(again, config);
    assertEquals(formatNetem(again), text);
  }));
});

Deno.test("netem text: whatever is read, is written so that reading and writing it again changes nothing", () => {
  const word = fc.constantFrom(
    ...["delay 20ms", "delay 20ms 5ms 10%", "latency 3", "loss random 1%", "drop 2% 5%", "loss state 1%", "ecn"],
    ...["loss gemodel 2% 20%", "loss gemodel 0.1%", "distribution normal", "distribution my.dist", "jitter reorder"],
    ...["jitter keep-order", "gap 4", "reorder 10%", "rate 1mbit 14 48 5", "rate 9600", "slot 1ms", "slot 1ms 2ms"],
    ...["slot distribution pareto 1ms 1ms bytes 3000", "limit 7", "profile lte", "profile 3g up", "seed 0"],
    ...["duplicate 1%", "corrupt 3% 4%", "trace wire.txt", "delivery cell.down", "compat linux"],
  );
  let read = 0;
  fc.assert(
    fc.property(fc.uniqueArray(word, { maxLength: 5 }), (words) => {
      let config: NetemConfig;
      try {
        config = parseNetem(words.join(" "), { readFile });
      } catch {
        return;
      }
      read++;
      const text = formatNetem(config);
      assertEquals(parseNetem(text, { readFile }), config, text);
      assertEquals(formatNetem(parseNetem(text, { readFile })), text);
    }),
    { numRuns: 1000 },
  );
  assert(read > 200, `${read}`);
});

Deno.test("netem text: files are asked for by their names, and what is wrong in one is told with its line", () => {
  assertEquals(
    netemFiles("delay 1ms 1ms distribution my.dist slot distribution other.dist 1ms 1ms trace a loop loss x"),
    [
      "my.dist",
      "other.dist",
      "a",
    ],
  );
  assertEquals(netemFiles("delay 1ms distribution normal"), []);
  assertEquals(netemFiles("profile nothing delivery x"), []);
  const cases: [string, string, string][] = [
    [
      "delay 1ms 1ms distribution f",
      "1\n2 x\n",
      'word 5 "f": expected uniform, normal, pareto, paretonormal or the name of a file that can be read (f: line 2 "x": expected whole numbers from -32768 to 32767)',
    ],
    ["delay 1ms 1ms distribution f", "# nothing\n", "f: expected 1 to 16384 numbers, found 0"],
    ["delay 1ms 1ms distribution f", "40000", 'f: line 1 "40000": expected whole numbers'],
    ["trace f", "0s 1ms 1%", 'f: line 1 "0s 1ms 1%": expected TIME DELAY LOSS RATE'],
    ["trace f", "0s 1 1% 1mbit", 'f: line 1 "0s 1 1% 1mbit": expected TIME'],
    ["trace f", "time delay loss rate\n1s 1ms 1% 1mbit", "f: a trace must have ascending times from 0s (row 1)"],
    ["trace f", "0s 1ms 1% 1mbit\n0s 1ms 1% 1mbit", "ascending times from 0s (row 2)"],
    ["trace f", "0s 1ms 1% 0bit", "f: a trace must not stand still for ever"],
    ["trace f loop", "0s 1ms 1% 1mbit", "f: a trace must have 2 to"],
    ["trace f", "0s 1ms 101% 1mbit", "losses from 0 to 100% (row 1)"],
    ["delivery f", "1\nx", 'f: line 2 "x": expected a time in ms'],
    ["delivery f", "2\n1", 'f: line 2 "1": expected a time in ms, not before'],
    ["delivery f", "0\n0", "f: a recording of deliveries must last for more than 0 ms"],
    ["delivery f", "", "must have 1 to"],
  ];
  for (const [text, file, message] of cases) {
    const error = assertThrows(() => parseNetem(text, { readFile: () => file }), TypeError);
    assertStringIncludes(error.message, message, text);
  }
  const error = assertThrows(() => parseNetem("trace gone", { readFile }), TypeError);
  assertEquals(error.message, 'netem: word 2 "gone": expected the name of a file that can be read (no such file)');
});

Deno.test("netem text: a trace says what others may not", () => {
  const cases: [string, string][] = [
    ["trace wire.txt delay 1ms", 'word 4 "1ms": delay must be left out: the trace says it'],
    ["trace wire.txt loss gemodel 1%", 'word 3 "loss": loss gemodel must be left out'],
    ["rate 1mbit trace wire.txt", 'word 2 "1mbit": rate must be left out: the trace says it'],
    ["rate 1mbit delivery cell.down", 'word 2 "1mbit": rate must be left out: the times of delivery say it'],
    ["trace wire.txt delivery cell.down", 'word 3 "delivery": delivery must be left out'],
  ];
  for (const [text, message] of cases) {
    assertThrows(() => parseNetem(text, { readFile }), TypeError, `netem: ${message}`);
  }
});

Deno.test("netem text: as tc reads it, with compat linux", () => {
  assertEquals(parseNetem("delay 100 10 compat linux").delay, 100 * MICROSECOND);
  assertEquals(parseNetem("compat linux slot 500 1.5ms"), {
    ...NETEM_DEFAULTS,
    compat: "linux",
    slot: { min: 500_000, max: 1_500_000, distribution: null, delay: 0, jitter: 0, packets: 0, bytes: 0 },
  });
  assertEquals(parseNetem("compat linux delay 1e3").delay, MILLISECOND);
});

Deno.test("netem text: what is left out of the loss models is as in tc", () => {
  assertParses("loss state 1%", { lossState: { p13: 0.01, p31: 0.99, p32: 0, p23: 1, p14: 0 } });
  assertParses("loss state 1% 30% 20%", { lossState: { p13: 0.01, p31: 0.3, p32: 0.2, p23: 1, p14: 0 } });
  assertParses("loss gemodel 25%", { lossGemodel: { p: 0.25, r: 0.75, badLoss: 1, goodLoss: 0 } });
  assertParses("drop gemodel 1% 10% 50%", { lossGemodel: { p: 0.01, r: 0.1, badLoss: 0.5, goodLoss: 0 } });
});

Deno.test("netem text: options replace those of a profile, wherever they stand", () => {
  const lte = parseNetem("profile lte");
  assertEquals(formatNetem(lte), "delay 35ms rate 12mbit limit 105");
  assertEquals(parseNetem("loss 1% profile lte delay 50ms"), { ...lte, loss: 0.01, delay: 50 * MILLISECOND });
  assertEquals(formatNetem(parseNetem("profile 3g up limit 9")), "delay 150ms rate 768kbit limit 9");
  assertEquals(parseNetem("profile 3g down"), parseNetem("profile 3g"));
});

Deno.test("netem text: what is rarely meant is warned of with its place", () => {
  const warnings = (text: string) => {
    const told: string[] = [];
    parseNetem(text, { readFile, warn: ({ word, position, text }) => told.push(`${position} ${word} ${text}`) });
    return told;
  };
  const overtake = 'jitter makes packets overtake each other: "jitter keep-order" or a rate prevents that';
  assertEquals(warnings("delay 20ms loss 1% 5% duplicate 1% rate 1mbit"), []);
  assertEquals(warnings("delay 20ms 5ms"), [`3 5ms ${overtake}`]);
  for (const quiet of ["jitter keep-order", "jitter reorder", "rate 1mbit", "delivery cell.down"]) {
    assertEquals(warnings(`delay 20ms 5ms ${quiet}`), []);
  }
  assertEquals(warnings("delay 20ms distribution normal"), [
    "3 distribution distribution does nothing without a jitter",
  ]);
  assertEquals(
    warnings("rate 1gbit delay 1s"),
    ["2 1gbit limit is full with packets in flight: the rate times the delay are 83334 packets of 1500 bytes"],
  );
  assertEquals(warnings("delay 1ms 2ms compat linux loss 1% 25%").map((told) => told.slice(0, 30)), [
    `3 2ms ${overtake}`.slice(0, 30),
    "3 2ms jitter exceeds the delay",
    "8 25% correlation changes the ",
  ]);
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
    fc.constantFrom(
      "state",
      "gemodel",
      "slot",
      "packets",
      "distribution",
      "normal",
      "jitter",
      "compat",
      "linux",
      "seed",
    ),
    fc.constantFrom("profile", "lte", "up", "trace", "loop", "delivery", "keep-order"),
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
  assertThrows(() => netemConfig({ delay: 0.5 }), RangeError, "netem delay must be a time");
  assertThrows(() => netemConfig({ rateBytesPerSec: NaN }), RangeError, "netem rateBytesPerSec must be");
  assertThrows(() => netemConfig({ corruptCorrelation: 1 }), RangeError, "netem corruptCorrelation");
});

Deno.test("netem config: what is no field, or not what a field holds, is refused in a sentence; undefined is absent", () => {
  const refused = (fields: unknown, ...expected: string[]) => {
    const error = assertThrows(() => netemConfig(fields as Partial<NetemConfig>));
    assert(error instanceof RangeError || error instanceof TypeError);
    for (const text of expected) assertStringIncludes(error.message, text);
    assert(!/Cannot|undefined|not a function|\n/.test(error.message), error.message);
  };
  refused({ dely: 5 }, 'there is no "dely" in netem', "expected limit, delay, ");
  for (const field of ["constructor", "toString", "__proto__", "hasOwnProperty"]) {
    refused(JSON.parse(`{"${field}": 5}`), `there is no "${field}" in netem`);
  }
  for (const fields of [5, "delay 5ms", null, [], true]) refused(fields, "must be an object of netem's fields");
  const fields = Object.keys(NETEM_DEFAULTS);
  assertEquals(netemConfig(Object.fromEntries(fields.map((field) => [field, undefined]))), NETEM_DEFAULTS);
  for (const field of fields) {
    for (const value of [Symbol("s"), 1n, () => 1, "x", NaN, {}, [], [null]]) {
      refused({ [field]: value }, `netem ${field}`);
    }
  }
  const rows = [{ time: 0, delay: 0, loss: 0, rateBytesPerSec: 1000 }];
  assertEquals(netemConfig({ trace: { name: "t", rows, loop: false } }).trace?.rows, rows);
  for (const bad of [null, 5, undefined, { ...rows[0], delay: 1n }, { ...rows[0], time: Symbol("t") }]) {
    refused({ trace: { name: "t", rows: [bad], loop: false } }, "netem trace must have");
  }
  // One row that begins anew would do so without end.
  refused({ trace: { name: "t", rows, loop: "yes" } }, "netem trace must");
  refused({ delivery: { name: "d", opportunities: [1n] } }, "netem delivery must have");
});

Deno.test("netem text: an option behind a profile replaces all of the profile's own", () => {
  const wifi = parseNetem("profile wifi");
  assert(wifi.jitter > 0 && wifi.distribution === "pareto");
  assertEquals(
    formatNetem(parseNetem("profile wifi delay 1ms")),
    "delay 1ms distribution pareto rate 260mbit limit 326",
  );
  assertEquals(parseNetem("profile wifi delay 9ms 2ms 10%").delayCorrelation, 0.1);
  assertEquals(parseNetem("delay 1ms profile leo-satellite"), { ...parseNetem("profile leo-satellite delay 1ms") });
});
