/**
 * Standard output whose reader may go away, as in `culvert ping … | head -3`.
 *
 * `console.log` of the runtime takes no notice of that, and a command that prints for as long as it runs would never end.
 * Here lines go to the descriptor themselves. When nobody reads them any more they are dropped, nothing fails for it, and
 * {@linkcode readerGone} is aborted: commands that are there to be read take it for a request to come to an end, those
 * that serve go on.
 *
 * @module
 */

const gone = new AbortController();
const encoder = new TextEncoder();

/** Aborted when nobody reads the standard output any more; never before {@linkcode writeLinesDirectly} was called. */
export const readerGone: AbortSignal = gone.signal;

/** Has `console.log` write to the standard output by itself. Anything but a reader that is gone it throws, as before. */
export function writeLinesDirectly(): void {
  console.log = (text: string): void => {
    if (gone.signal.aborted) return;
    const bytes = encoder.encode(`${text}\n`);
    try {
      for (let at = 0; at < bytes.length;) at += Deno.stdout.writeSync(bytes.subarray(at));
    } catch (error) {
      if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
      gone.abort();
    }
  };
}
