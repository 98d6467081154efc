/**
 * A capture that is written into a file while it goes on; see `Host.capture`.
 *
 * Packets are gathered in memory; one write is under way at any time, and what comes meanwhile goes with the next one.
 * So the file is up to date within moments, blocks stand in order, and a disk that is too slow loses packets of the
 * capture, which are counted, and never holds up a host. After a failed write nothing more is recorded.
 *
 * @module
 */

import { PacketCapture } from "../stack/capture.ts";

/** How to capture. */
export interface CaptureFileOptions {
  /** Size of each of the two buffers in bytes, at least 65,536 (default 4 MiB). */
  bufferBytes?: number;
}

/** The part of an open file that a capture uses. */
export interface CaptureWriter {
  /** Writes some of `bytes`; resolves with how many. */
  write(bytes: Uint8Array): Promise<number>;
  /** Closes the file. */
  close(): void;
}

/** What a capture did. */
export interface CaptureFileStats {
  /** Packets recorded. */
  packets: number;
  /** Packets not recorded, since the file could not keep up. */
  dropped: number;
  /** Bytes written. */
  bytes: number;
}

/** A capture and the file that it goes into. */
export class CaptureFile implements AsyncDisposable {
  /** The file. */
  readonly path: string;
  /**
   * What packets are recorded into.
   *
   * @internal
   */
  readonly capture: PacketCapture;
  readonly #file: CaptureWriter;
  #bytes = 0;
  #writing: Promise<void> | null = null;
  #error: Error | null = null;
  #closed: Promise<void> | null = null;

  /**
   * Made by {@linkcode CaptureFile.open}; over another file, by tests.
   *
   * @internal
   */
  constructor(path: string, file: CaptureWriter, options: CaptureFileOptions = {}) {
    this.path = path;
    this.capture = new PacketCapture(options.bufferBytes);
    this.#file = file;
    this.capture.onData = () => this.#start();
    this.#start();
  }

  /**
   * Opens a file for a capture. What it held before is lost.
   *
   * @throws {Deno.errors.NotFound} or what else keeps the file from being opened
   */
  static open(path: string, options: CaptureFileOptions = {}): CaptureFile {
    return new CaptureFile(path, Deno.openSync(path, { write: true, create: true, truncate: true }), options);
  }

  /** The counters. */
  stats(): CaptureFileStats {
    return { packets: this.capture.recordedPackets, dropped: this.capture.droppedPackets, bytes: this.#bytes };
  }

  /**
   * Writes what is left, then how many packets each interface saw, and closes the file. Close the hosts before.
   *
   * @throws the error of the first write that failed
   */
  close(): Promise<void> {
    return this.#closed ??= this.#close();
  }

  /** Closes the file as {@linkcode CaptureFile.close} does. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    this.capture.onData = () => {};
    await this.#writing;
    try {
      await this.#run();
      await this.#write(this.capture.statistics());
    } finally {
      this.#file.close();
    }
    if (this.#error !== null) throw this.#error;
  }

  #start(): void {
    this.#writing ??= this.#run();
  }

  async #run(): Promise<void> {
    // What the host records in this turn goes with it.
    await Promise.resolve();
    while (this.#error === null) {
      const bytes = this.capture.take();
      if (bytes === null) break;
      await this.#write(bytes);
    }
    this.#writing = null;
  }

  async #write(bytes: Uint8Array): Promise<void> {
    if (this.#error !== null) return;
    try {
      for (let at = 0; at < bytes.length;) {
        const n = await this.#file.write(bytes.subarray(at));
        if (n === 0) throw new Error(`the file took none of ${bytes.length - at} bytes`);
        at += n;
      }
      this.#bytes += bytes.length;
    } catch (error) {
      this.#error = error instanceof Error ? error : new Error(String(error));
    }
  }
}
