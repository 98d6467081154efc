/**
 * Output for people: a progress line, tables, colour. Colour and overwriting only on a terminal.
 *
 * Progress goes to standard error, so that standard output holds results only, and nothing fails for want of it. On a
 * terminal one line is overwritten; elsewhere a line is printed once a second.
 *
 * @module
 */

const encoder = new TextEncoder();

/** The least time between two lines in milliseconds: what is shown every second may come a little early. */
const LINE_MILLISECONDS = 900;

/** Shows how far a long task has come. */
export class Progress {
  #quiet: boolean;
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
      this.#write(`\r${text.slice(0, columns - 1)}\x1b[K`);
      this.#lineOpen = true;
      return;
    }
    const now = performance.now();
    if (now - this.#lastPrinted < LINE_MILLISECONDS) return;
    this.#lastPrinted = now;
    this.#write(`${text}\n`);
  }

  /** Takes the progress line away. */
  clear(): void {
    if (this.#lineOpen) this.#write("\r\x1b[K");
    this.#lineOpen = false;
  }

  #write(text: string): void {
    const bytes = encoder.encode(text);
    try {
      for (let at = 0; at < bytes.length;) at += Deno.stderr.writeSync(bytes.subarray(at));
    } catch {
      // Nobody can read it, or there is no space: the task goes on without.
      this.#quiet = true;
    }
  }
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

/** Columns that a text takes on a terminal: what makes it bold takes none. */
function widthOf(text: string): number {
  // deno-lint-ignore no-control-regex
  return text.replaceAll(/\x1b\[\d+m/g, "").length;
}

/** Rows of cells as lines; the first column is left-aligned, the others right-aligned. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths: number[] = [];
  for (const row of rows) row.forEach((cell, i) => widths[i] = Math.max(widths[i] ?? 0, widthOf(cell)));
  return rows.map((row) =>
    row.map((cell, i) => {
      const space = " ".repeat(widths[i]! - widthOf(cell));
      return i === 0 ? cell + space : space + cell;
    }).join("  ").trimEnd()
  ).join("\n");
}
