/**
 * JSON values, one a line, over a byte stream: how a command talks to the processes that it starts.
 *
 * @module
 */

/** The longest line that is read, in characters. */
const LINE_LIMIT = 1 << 20;

/** Reads values until the stream ends; a line that is no JSON, or too long, is an error. */
export async function* readJsonLines(stream: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<unknown> {
  let rest = "";
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    rest += text;
    for (let end = rest.indexOf("\n"); end >= 0; end = rest.indexOf("\n")) {
      const line = rest.slice(0, end);
      rest = rest.slice(end + 1);
      if (line !== "") yield JSON.parse(line);
    }
    if (rest.length > LINE_LIMIT) throw new RangeError(`a line of more than ${LINE_LIMIT} characters`);
  }
}

/** Writes values to a byte sink, one a line, in the order of the calls. */
export class JsonLineWriter {
  readonly #writer: WritableStreamDefaultWriter<Uint8Array<ArrayBuffer>>;
  readonly #encoder = new TextEncoder();

  /** Writes to `stream`. */
  constructor(stream: WritableStream<Uint8Array<ArrayBuffer>>) {
    this.#writer = stream.getWriter();
  }

  /** Writes one value; resolves when it was taken. */
  async write(value: unknown): Promise<void> {
    await this.#writer.write(this.#encoder.encode(JSON.stringify(value) + "\n"));
  }

  /** Gives the sink up, with whatever was not taken yet. */
  async abort(): Promise<void> {
    await this.#writer.abort();
  }

  /** Closes the sink. */
  async close(): Promise<void> {
    await this.#writer.close();
  }
}
