/**
 * A small stand-in for `@std/log`, for machines that cannot reach JSR.
 *
 * Named loggers pass records to handlers; a record reaches a handler when its
 * level is at least that of the logger and that of the handler. {@linkcode setup}
 * replaces the whole configuration at once. Handlers write where their `log`
 * method writes: {@linkcode ConsoleHandler} to the console; derive from
 * {@linkcode BaseHandler} for anything else, such as standard error.
 *
 * Left out: the loggers of the real package that write at module level (`info`,
 * `warn`, ...), its file handlers, and its formatters.
 *
 * @module
 */

/** The levels in rising order. */
export const LogLevels = {
  NOTSET: 0,
  DEBUG: 10,
  INFO: 20,
  WARN: 30,
  ERROR: 40,
  CRITICAL: 50,
} as const;

/** A level by its name. */
export type LevelName = keyof typeof LogLevels;

/** A level as a number. */
export type LogLevel = typeof LogLevels[LevelName];

/** The number of a level. Throws `Error` where there is no such level. */
export function getLevelByName(name: LevelName): LogLevel {
  if (!Object.hasOwn(LogLevels, name)) throw new Error(`Cannot get log level: no level named ${name}`);
  return LogLevels[name];
}

/** The name of a level. Throws `Error` where there is no such level. */
export function getLevelName(level: LogLevel): LevelName {
  const found = Object.entries(LogLevels).find(([, number]) => number === level);
  if (found === undefined) throw new Error(`Cannot get log level: no name for level: ${level}`);
  return found[0] as LevelName;
}

/** One message on its way to the handlers. */
class LogRecord {
  /** The message as text. */
  readonly msg: string;
  /** Its level as a number. */
  readonly level: number;
  /** Its level by name. */
  readonly levelName: string;
  /** The logger that it was given to. */
  readonly loggerName: string;
  readonly #args: readonly unknown[];
  readonly #time: number;

  /** A record of this moment. */
  constructor(msg: string, level: LogLevel, loggerName: string, args: readonly unknown[]) {
    this.msg = msg;
    this.level = level;
    this.levelName = getLevelName(level);
    this.loggerName = loggerName;
    this.#args = [...args];
    this.#time = Date.now();
  }

  /** Further values that belong to the message; a copy. */
  get args(): unknown[] {
    return [...this.#args];
  }

  /** When the record was made; a copy. */
  get datetime(): Date {
    return new Date(this.#time);
  }
}

export type { LogRecord };

/** Turns a record into a line. */
export type FormatterFunction = (logRecord: LogRecord) => string;

/** Settings of every handler. */
export interface BaseHandlerOptions {
  /** How a record becomes a line. By default the level's name and the message. */
  formatter?: FormatterFunction;
}

/** Where records end: a level, a format, and a place to write. */
export abstract class BaseHandler {
  /** How a record becomes a line. */
  formatter: FormatterFunction;
  #level: LogLevel;

  /** A handler for records of this level and above. */
  constructor(levelName: LevelName, options?: BaseHandlerOptions) {
    this.#level = getLevelByName(levelName);
    this.formatter = options?.formatter ?? ((record) => `${record.levelName} ${record.msg}`);
  }

  /** The lowest level that is written. */
  get level(): LogLevel {
    return this.#level;
  }

  /** Sets the lowest level that is written. */
  set level(level: LogLevel) {
    this.#level = getLevelByName(getLevelName(level));
  }

  /** The name of the lowest level that is written. */
  get levelName(): LevelName {
    return getLevelName(this.#level);
  }

  /** Sets the lowest level that is written, by its name. */
  set levelName(levelName: LevelName) {
    this.#level = getLevelByName(levelName);
  }

  /** Formats and writes a record whose level is high enough. */
  handle(logRecord: LogRecord): void {
    if (logRecord.level >= this.#level) this.log(this.format(logRecord));
  }

  /** The line for a record. */
  format(logRecord: LogRecord): string {
    return this.formatter(logRecord);
  }

  /** Writes a line. */
  abstract log(msg: string): void;

  /** Called when a configuration with this handler comes into force. */
  setup(): void {}

  /** Called when that configuration is replaced. */
  destroy(): void {}

  /** The same as {@linkcode BaseHandler.destroy}. */
  [Symbol.dispose](): void {
    this.destroy();
  }
}

/** Settings of {@linkcode ConsoleHandler}. */
export interface ConsoleHandlerOptions extends BaseHandlerOptions {
  /** Colour the lines by level. Default `true`. */
  useColors?: boolean;
}

/** ANSI colours by level: blue, yellow, red, bold red. */
const COLOURS: Readonly<Record<number, string>> = {
  [LogLevels.INFO]: "34",
  [LogLevels.WARN]: "33",
  [LogLevels.ERROR]: "31",
  [LogLevels.CRITICAL]: "1;31",
};

/** Writes to the console. */
export class ConsoleHandler extends BaseHandler {
  readonly #useColors: boolean;

  /** A handler for records of this level and above. */
  constructor(levelName: LevelName, options: ConsoleHandlerOptions = {}) {
    super(levelName, options);
    this.#useColors = options.useColors ?? true;
  }

  /** The line for a record, coloured unless that is switched off. */
  override format(logRecord: LogRecord): string {
    const line = super.format(logRecord);
    const colour = COLOURS[logRecord.level];
    return this.#useColors && !Deno.noColor && colour !== undefined ? `\x1b[${colour}m${line}\x1b[0m` : line;
  }

  /** Writes a line to standard output. */
  override log(msg: string): void {
    console.log(msg);
  }
}

/** Settings of {@linkcode Logger}. */
export interface LoggerOptions {
  /** Where its records go. None by default. */
  handlers?: BaseHandler[];
}

/** A function in the place of a message: it is called only if the record is wanted. */
type Lazy<T> = () => T;

/** Any value but a function. */
// deno-lint-ignore no-explicit-any
type Plain<T> = T extends (...args: any[]) => any ? never : T;

/** Makes records and passes them to its handlers. */
export class Logger {
  /** Where the records go. */
  handlers: BaseHandler[];
  readonly #loggerName: string;
  #level: LogLevel;

  /** A logger for records of this level and above. */
  constructor(loggerName: string, levelName: LevelName, options: LoggerOptions = {}) {
    this.#loggerName = loggerName;
    this.#level = getLevelByName(levelName);
    this.handlers = options.handlers ?? [];
  }

  /** The lowest level that is passed on. */
  get level(): LogLevel {
    return this.#level;
  }

  /** Sets the lowest level that is passed on. */
  set level(level: LogLevel) {
    this.#level = getLevelByName(getLevelName(level));
  }

  /** The name of the lowest level that is passed on. */
  get levelName(): LevelName {
    return getLevelName(this.#level);
  }

  /** Sets the lowest level that is passed on, by its name. */
  set levelName(levelName: LevelName) {
    this.#level = getLevelByName(levelName);
  }

  /** Its name. */
  get loggerName(): string {
    return this.#loggerName;
  }

  #log<T>(level: LogLevel, msg: Plain<T> | Lazy<T>, args: unknown[]): T | undefined {
    const lazy = typeof msg === "function";
    if (level < this.#level) return lazy ? undefined : msg as T;
    const value = lazy ? (msg as Lazy<T>)() : msg as T;
    const record = new LogRecord(asText(value), level, this.#loggerName, args);
    for (const handler of this.handlers) handler.handle(record);
    return value;
  }

  /** Logs what a function returns, which is called only if the level is wanted. Returns the same. */
  debug<T>(msg: () => T, ...args: unknown[]): T | undefined;
  /** Logs a value. Returns it. */
  debug<T>(msg: Plain<T>, ...args: unknown[]): T;
  /** The two forms in one. */
  debug<T>(msg: Plain<T> | Lazy<T>, ...args: unknown[]): T | undefined {
    return this.#log(LogLevels.DEBUG, msg, args);
  }

  /** Logs what a function returns, which is called only if the level is wanted. Returns the same. */
  info<T>(msg: () => T, ...args: unknown[]): T | undefined;
  /** Logs a value. Returns it. */
  info<T>(msg: Plain<T>, ...args: unknown[]): T;
  /** The two forms in one. */
  info<T>(msg: Plain<T> | Lazy<T>, ...args: unknown[]): T | undefined {
    return this.#log(LogLevels.INFO, msg, args);
  }

  /** Logs what a function returns, which is called only if the level is wanted. Returns the same. */
  warn<T>(msg: () => T, ...args: unknown[]): T | undefined;
  /** Logs a value. Returns it. */
  warn<T>(msg: Plain<T>, ...args: unknown[]): T;
  /** The two forms in one. */
  warn<T>(msg: Plain<T> | Lazy<T>, ...args: unknown[]): T | undefined {
    return this.#log(LogLevels.WARN, msg, args);
  }

  /** Logs what a function returns, which is called only if the level is wanted. Returns the same. */
  error<T>(msg: () => T, ...args: unknown[]): T | undefined;
  /** Logs a value. Returns it. */
  error<T>(msg: Plain<T>, ...args: unknown[]): T;
  /** The two forms in one. */
  error<T>(msg: Plain<T> | Lazy<T>, ...args: unknown[]): T | undefined {
    return this.#log(LogLevels.ERROR, msg, args);
  }

  /** Logs what a function returns, which is called only if the level is wanted. Returns the same. */
  critical<T>(msg: () => T, ...args: unknown[]): T | undefined;
  /** Logs a value. Returns it. */
  critical<T>(msg: Plain<T>, ...args: unknown[]): T;
  /** The two forms in one. */
  critical<T>(msg: Plain<T> | Lazy<T>, ...args: unknown[]): T | undefined {
    return this.#log(LogLevels.CRITICAL, msg, args);
  }
}

/** A logged value as text: text as it is, errors with their stack, objects as `{"key":value}`. */
function asText(value: unknown, inObject = false): string {
  if (typeof value === "string") return inObject ? `"${value}"` : value;
  if (value instanceof Error) return value.stack ?? String(value);
  if (typeof value === "function") return "undefined";
  if (typeof value !== "object" || value === null) return String(value);
  return `{${Object.entries(value).map(([key, each]) => `"${key}":${asText(each, true)}`).join(",")}}`;
}

/** One logger in a {@linkcode LogConfig}. */
export interface LoggerConfig {
  /** The lowest level that is passed on. Default `INFO`. */
  level?: LevelName;
  /** Names of the handlers. Names without a handler are passed over. */
  handlers?: string[];
}

/** The whole of what {@linkcode setup} sets. */
export interface LogConfig {
  /** Handlers by name; `default` is a {@linkcode ConsoleHandler} unless replaced. */
  handlers?: Record<string, BaseHandler>;
  /** Loggers by name; `default` writes to the handler `default` unless replaced. */
  loggers?: Record<string, LoggerConfig>;
}

let handlersInForce: BaseHandler[] = [];
const loggers = new Map<string, Logger>();

/** Puts a configuration into force; the handlers and loggers of the former one are given up. */
export function setup(config: LogConfig): void {
  for (const handler of handlersInForce) handler.destroy();
  const handlers = new Map<string, BaseHandler>(
    Object.entries({ default: new ConsoleHandler("INFO"), ...config.handlers }),
  );
  handlersInForce = [...handlers.values()];
  for (const handler of handlersInForce) handler.setup();

  loggers.clear();
  const wanted: Record<string, LoggerConfig> = {
    default: { level: "INFO", handlers: ["default"] },
    ...config.loggers,
  };
  for (const [name, { level = "INFO", handlers: names = [] }] of Object.entries(wanted)) {
    const own = names.flatMap((each) => handlers.get(each) ?? []);
    loggers.set(name, new Logger(name, level, { handlers: own }));
  }
}

/** The logger of this name, or the default one. A name that was never set up gets a logger without handlers. */
export function getLogger(name?: string): Logger {
  const key = name || "default";
  const found = loggers.get(key);
  if (found !== undefined) return found;
  const made = new Logger(key, "NOTSET");
  loggers.set(key, made);
  return made;
}

setup({});
