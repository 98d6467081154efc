/**
 * A capture that is written into a file while it goes on.
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
  /** What packets are recorded into; see `Host.capture`. */
  readonly capture: PacketCapture;
  readonly #file: Deno.FsFile;
  #bytes = 0;
  #writing: Promise<void> | null = null;
  #error: Error | null = null;
  #closed: Promise<void> | null = null;

  private constructor(path: string, file: Deno.FsFile, capture: PacketCapture) {
    this.path = path;
    this.capture = capture;
    this.#file = file;
    capture.onData = () => this.#start();
    this.#start();
  }

  /**
   * Opens a file for a capture. What it held before is lost.
   *
   * @throws {Deno.errors.NotFound} or what else keeps the file from being opened
   */
  static async open(path: string, options: CaptureFileOptions = {}): Promise<CaptureFile> {
    const capture = new PacketCapture(options.bufferBytes);
    return new CaptureFile(path, await Deno.open(path, { write: true, create: true, truncate: true }), capture);
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
      await this.#drain();
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
    await this.#drain();
    this.#writing = null;
  }

  async #drain(): Promise<void> {
    while (this.#error === null) {
      const bytes = this.capture.take();
      if (bytes === null) return;
      await this.#write(bytes);
    }
  }

  async #write(bytes: Uint8Array): Promise<void> {
    if (this.#error !== null) return;
    try {
      for (let at = 0; at < bytes.length;) at += await this.#file.write(bytes.subarray(at));
      this.#bytes += bytes.length;
    } catch (error) {
      this.#error = error instanceof Error ? error : new Error(String(error));
    }
  }
}
