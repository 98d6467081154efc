/**
 * The stand-in for `@std/log`: what reaches a handler, and how it is written.
 *
 * @module
 */

import {
  assertEquals,
  assertExists,
  assertLess,
  assertNotEquals,
  assertStrictEquals,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import {
  BaseHandler,
  ConsoleHandler,
  getLevelByName,
  getLevelName,
  getLogger,
  type LevelName,
  type LogLevel,
  type LogRecord,
  setup,
} from "@std/log";

class Lines extends BaseHandler {
  readonly lines: string[] = [];
  override log(msg: string): void {
    this.lines.push(msg);
  }
  override setup(): void {
    this.lines.push("setup");
  }
  override destroy(): void {
    this.lines.push("destroy");
  }
}

/** Runs `fn` with one logger `app` that writes to one handler, then goes back to the defaults. */
function withLogger(level: LevelName, handlerLevel: LevelName, fn: () => void): string[] {
  const handler = new Lines(handlerLevel);
  setup({ handlers: { lines: handler }, loggers: { app: { level, handlers: ["lines", "missing"] } } });
  try {
    fn();
  } finally {
    setup({});
  }
  return handler.lines;
}

Deno.test("log: levels of the logger and of the handler", () => {
  const all = () => {
    const log = getLogger("app");
    log.debug("a");
    log.info("b");
    log.warn("c");
    log.error("d");
    log.critical("e");
  };
  assertEquals(withLogger("DEBUG", "NOTSET", all), [
    ...["setup", "DEBUG a", "INFO b", "WARN c", "ERROR d", "CRITICAL e"],
    "destroy",
  ]);
  assertEquals(withLogger("ERROR", "DEBUG", all), ["setup", "ERROR d", "CRITICAL e", "destroy"]);
  assertEquals(withLogger("DEBUG", "CRITICAL", all), ["setup", "CRITICAL e", "destroy"]);
});

Deno.test("log: values are returned and become text", () => {
  const error = new Error("broken");
  const lines = withLogger("INFO", "INFO", () => {
    const log = getLogger("app");
    const text: string = log.info("a");
    assertEquals(text, "a");
    assertEquals(log.info({ a: 1, b: { c: "d" } }), { a: 1, b: { c: "d" } });
    assertEquals(log.info(() => 5), 5);
    assertEquals(log.info(null), null);
    assertStrictEquals(log.error(error), error);
    assertEquals(log.debug("unwanted"), "unwanted");
    assertEquals(log.debug((): number => assertNever()), undefined);
  });
  assertEquals(lines.slice(1, 5), ["INFO a", `INFO {"a":1,"b":{"c":"d"}}`, "INFO 5", "INFO null"]);
  assertStringIncludes(lines[5] ?? "", "ERROR Error: broken");
  assertEquals(lines.length, 7);
});

function assertNever(): never {
  throw new Error("called a function whose value nobody wants");
}

/** The record that `getLogger("app").warn(msg, ...args)` makes. */
function recordOf(msg: string, args: unknown[]): LogRecord {
  const records: LogRecord[] = [];
  class Records extends Lines {
    override handle(record: LogRecord): void {
      records.push(record);
    }
  }
  setup({ handlers: { all: new Records("NOTSET") }, loggers: { app: { level: "WARN", handlers: ["all"] } } });
  getLogger("app").warn(msg, ...args);
  setup({});
  const [record] = records;
  assertExists(record);
  return record;
}

Deno.test("log: records, formatters and colours", () => {
  const record = recordOf("a", [1, 2]);
  assertEquals([record.levelName, record.level, record.loggerName, record.args], ["WARN", 30, "app", [1, 2]]);
  record.args.push(3);
  assertEquals(record.args, [1, 2]);
  assertLess(Math.abs(Date.now() - record.datetime.getTime()), 60_000);

  const formatter = ({ msg, args, loggerName }: LogRecord) => `${loggerName}: ${msg} ${args.join()}`;
  assertEquals(new ConsoleHandler("INFO", { formatter, useColors: false }).format(record), "app: a 1,2");
  if (!Deno.noColor) assertNotEquals(new ConsoleHandler("INFO", { formatter }).format(record), "app: a 1,2");
});

Deno.test("log: the console handler writes to the console", () => {
  const written: unknown[] = [];
  const log = console.log;
  console.log = (...values: unknown[]) => void written.push(...values);
  try {
    new ConsoleHandler("INFO", { useColors: false }).handle(recordOf("a", []));
  } finally {
    console.log = log;
  }
  assertEquals(written, ["WARN a"]);
});

Deno.test("log: levels can be changed, and must exist", () => {
  const lines = withLogger("CRITICAL", "INFO", () => {
    const log = getLogger("app");
    log.info("a");
    log.levelName = "INFO";
    log.info("b");
    assertEquals([log.level, log.levelName, log.loggerName], [20, "INFO", "app"]);
  });
  assertEquals(lines, ["setup", "INFO b", "destroy"]);
  assertEquals([getLevelByName("WARN"), getLevelName(40)], [30, "ERROR"]);
  assertThrows(() => getLevelByName("LOUD" as LevelName), Error, "LOUD");
  assertThrows(() => getLevelName(35 as LogLevel), Error, "35");
});

Deno.test("log: loggers are found by name", () => {
  assertStrictEquals(getLogger(), getLogger("default"));
  const quiet = getLogger("never set up");
  assertStrictEquals(getLogger("never set up"), quiet);
  assertEquals([quiet.handlers.length, quiet.levelName], [0, "NOTSET"]);
  setup({});
  assertEquals(getLogger("never set up") === quiet, false);
});
