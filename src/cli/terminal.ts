/**
 * Output for people: a progress line, tables, colour. Colour and overwriting only on a terminal.
 *
 * Progress goes to standard error, so that standard output holds results only. On a terminal one line is overwritten;
 * elsewhere a line is printed at most once a second.
 *
 * @module
 */

const encoder = new TextEncoder();

/** Shows how far a long task has come. */
export class Progress {
  readonly #quiet: boolean;
  readonly #onTerminal: boolean = Deno.stderr.isTerminal();
  #lastPrinted = -Infinity;
  #lineOpen = false;

  /** Makes a progress line; a quiet one shows nothing. */
  constructor(quiet: boolean) {
    this.#quiet = quiet;
  }

  /** Shows `text` as the present state. */
  show(text: string): void {
    if (this.#quiet) return;
    if (this.#onTerminal) {
      const { columns } = consoleSize();
      write(`\r${text.slice(0, columns - 1)}\x1b[K`);
      this.#lineOpen = true;
      return;
    }
    const now = performance.now();
    if (now - this.#lastPrinted < 1000) return;
    this.#lastPrinted = now;
    write(`${text}\n`);
  }

  /** Takes the progress line away. */
  clear(): void {
    if (this.#lineOpen) write("\r\x1b[K");
    this.#lineOpen = false;
  }
}

function write(text: string): void {
  const bytes = encoder.encode(text);
  for (let at = 0; at < bytes.length;) at += Deno.stderr.writeSync(bytes.subarray(at));
}

function consoleSize(): { columns: number } {
  try {
    return Deno.consoleSize();
  } catch {
    return { columns: 80 };
  }
}

/** `text` in bold, on a terminal that shows colours. */
export function bold(text: string): string {
  return Deno.noColor || !Deno.stdout.isTerminal() ? text : `\x1b[1m${text}\x1b[22m`;
}

/** Rows of cells as lines; the first column is left-aligned, the others right-aligned. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths: number[] = [];
  for (const row of rows) row.forEach((cell, i) => widths[i] = Math.max(widths[i] ?? 0, cell.length));
  return rows.map((row) =>
    row.map((cell, i) => i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!)).join("  ").trimEnd()
  ).join("\n");
}
