/**
 * Faults in a configuration: collected, then told all at once, each with its path, what was found there and what was
 * expected.
 *
 * @module
 */

/** A step of a path: a key or an index. */
export type PathStep = PropertyKey;

/** One fault. */
export interface ConfigFault {
  /** Where in what the user wrote. */
  readonly path: readonly PathStep[];
  /** What was found and what was expected. */
  readonly text: string;
  /** True if the key itself is wrong, not its value. */
  readonly isKey: boolean;
}

/** A configuration that is not valid; the message has a line for each fault. */
export class ConfigError extends TypeError {
  /** The faults in the order in which they were found. */
  readonly faults: readonly ConfigFault[];

  /** Tells of at least one fault. */
  constructor(faults: readonly ConfigFault[]) {
    const n = faults.length;
    const head = n === 1 ? "the host configuration has a fault" : `the host configuration has ${n} faults`;
    super(`${head}:\n  ${faults.map(({ path, text }) => escape(`${formatPath(path)}: ${text}`)).join("\n  ")}`);
    this.faults = faults;
  }
}

/** Collects faults in `input`. */
export class ConfigFaults {
  readonly #input: unknown;
  readonly #faults: ConfigFault[] = [];

  /** Begins without faults. */
  constructor(input: unknown) {
    this.#input = input;
  }

  /** Number of faults so far. */
  get count(): number {
    return this.#faults.length;
  }

  /** The value at `path` is not what was expected: "an address like 10.7.0.1/24". */
  add(path: readonly PathStep[], expected: string): void {
    const { path: real, value } = locate(this.#input, path);
    this.#faults.push({ path: real, text: `found ${formatValue(value)}, expected ${expected}`, isKey: false });
  }

  /** There is no key `key` at `path`; `known` are those that there are. */
  addUnknownKey(path: readonly PathStep[], key: string, known: readonly string[]): void {
    const near = nearest(key, known);
    const hint = near === null ? `expected one of ${known.join(", ")}` : `did you mean "${near}"?`;
    this.#faults.push({
      path: [...locate(this.#input, path).path, key],
      text: `unknown key, ${hint}`,
      isKey: true,
    });
  }

  /** Throws a {@linkcode ConfigError} if there is any fault. */
  throwIfAny(): void {
    if (this.#faults.length > 0) throw new ConfigError(this.#faults);
  }
}

/**
 * The value at `path`. Where a schema sees a list or an object that the user wrote as a single value (`address: "…"`),
 * the path leaves out the index, or ends at that value.
 */
function locate(input: unknown, path: readonly PathStep[]): { path: readonly PathStep[]; value: unknown } {
  const real: PathStep[] = [];
  let value = input;
  for (const step of path) {
    if (typeof value !== "object" || value === null) break;
    if (typeof step === "number" && !Array.isArray(value)) continue;
    real.push(step);
    value = (value as Record<PropertyKey, unknown>)[step];
  }
  return { path: real, value };
}

/** Text of one line: characters that end a line, or mean something to a terminal, are written as JSON has them. */
function escape(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029]/gu, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** A path as text: `peers[0].endpoint`. */
export function formatPath(path: readonly PathStep[]): string {
  if (path.length === 0) return "(top)";
  let text = "";
  for (const step of path) {
    if (typeof step === "number") text += `[${step}]`;
    else text += text === "" ? String(step) : `.${String(step)}`;
  }
  return text;
}

/** A value as text of one line, at most 60 characters. */
export function formatValue(value: unknown): string {
  if (value === undefined) return "nothing";
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "function" || typeof value === "symbol") return `a ${typeof value}`;
  if (typeof value === "number") return String(value);
  let text: string;
  try {
    text = JSON.stringify(value) ?? String(value);
  } catch {
    text = "an object that JSON cannot show";
  }
  return text.length <= 60 ? text : `${text.slice(0, 57)}...`;
}

/**
 * The name nearest to `word`, if it is so near that a slip may be meant; else `null`. Of two at the same distance it is
 * the one that has more letters at its ends in common with `word`: `recvBufferBytes` is a short form of
 * `receiveBufferBytes`, though it takes no more changes to `sendBufferBytes`.
 */
export function nearest(word: string, names: readonly string[]): string | null {
  const from = word.toLowerCase();
  let best: string | null = null;
  let bestDistance = Math.min(3, Math.floor(word.length / 3) + 1);
  let bestShared = -1;
  for (const name of names) {
    const to = name.toLowerCase();
    const distance = editDistance(from, to);
    const shared = sharedEnds(from, to);
    if (distance < bestDistance || (distance === bestDistance && shared > bestShared)) {
      best = name;
      bestDistance = distance;
      bestShared = shared;
    }
  }
  return best;
}

/** How many letters are the same at the beginning and at the end. */
function sharedEnds(a: string, b: string): number {
  const most = Math.min(a.length, b.length);
  let head = 0;
  while (head < most && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < most - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
  return head + tail;
}

/** How many letters have to be inserted, removed, changed or swapped with their neighbour to turn `a` into `b`. */
function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = a[i - 1] === b[j - 1] ? 0 : 1;
      let least = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + change);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) least = Math.min(least, before[j - 2]! + 1);
      row.push(least);
    }
    before = last;
    last = row;
  }
  return last[b.length]!;
}
