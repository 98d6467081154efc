/**
 * The calls of the C library that the Linux port, the TUN device and the `ppoll` sleeper make, and how to get at them by
 * FFI.
 *
 * Whoever gives `--allow-ffi=PATH` names the library as a path, and Deno compares paths as text; so the known places of
 * the known libraries are tried, each only if it was granted already: nobody is ever asked. With `--allow-ffi` for
 * everything the bare names serve too, which the dynamic loader finds wherever they are.
 *
 * A pointer is a plain number here, since a scoped permission refuses Deno's pointer objects. Memory whose address is
 * taken has to be kept reachable, and has to be an `ArrayBuffer` made by its size: small typed arrays may lie where the
 * collector moves them. A failed call says why in `errno`, which is read by a second call right after it.
 *
 * @module
 */

import { errnoName, EVENT_FLAGS } from "./abi.ts";

/** Bytes that a call may be given: of memory that does not move while they are reachable. */
export type Memory = Uint8Array<ArrayBuffer>;

/** The calls. A negative result is a negative error number. */
export interface Libc {
  /** Where the library was found. */
  readonly path: string;
  /** `socket(2)`. */
  socket(family: number, type: number): number;
  /** `bind(2)`. */
  bind(fd: number, address: Memory): number;
  /** `connect(2)`. */
  connect(fd: number, address: Memory): number;
  /** `getsockname(2)`; the address is written into `address`. */
  getsockname(fd: number, address: Memory): number;
  /** `setsockopt(2)`. */
  setsockopt(fd: number, level: number, option: number, value: Memory): number;
  /** `getsockopt(2)`; returns how many bytes of `value` were written. */
  getsockopt(fd: number, level: number, option: number, value: Memory): number;
  /** `sendmmsg(2)`. */
  sendmmsg(fd: number, messages: Memory, count: number, flags: number): number;
  /** `recvmmsg(2)` without a timeout. */
  recvmmsg(fd: number, messages: Memory, count: number, flags: number): number;
  /** `eventfd(2)`. */
  eventfd(): number;
  /** `open(2)` of what is there; `path` ends with a zero. */
  open(path: Memory, flags: number): number;
  /** `ioctl(2)` with a structure. */
  ioctl(fd: number, request: number, data: Memory): number;
  /** `read(2)`. */
  read(fd: number, target: Memory): number;
  /** `write(2)` of the first `length` bytes (default all). */
  write(fd: number, source: Memory, length?: number): number;
  /** `close(2)`. */
  close(fd: number): number;
  /** `clock_gettime(2)` of `CLOCK_MONOTONIC`, a `timespec` written into `target`. */
  monotonic(target: Memory): number;
  /**
   * `ppoll(2)` on a thread of its own; a negative result does not say why.
   *
   * @param timeout a `timespec`, or `null` to wait for ever
   */
  ppoll(fds: Memory, count: number, timeout: Memory | null): Promise<number>;
  /** The address of the first byte. */
  addressOf(memory: Memory): number;
  /** Gives the library back; it is closed when everyone has. */
  release(): void;
}

const SYMBOLS = {
  socket: { parameters: ["i32", "i32", "i32"], result: "i32" },
  bind: { parameters: ["i32", "buffer", "u32"], result: "i32" },
  connect: { parameters: ["i32", "buffer", "u32"], result: "i32" },
  getsockname: { parameters: ["i32", "buffer", "buffer"], result: "i32" },
  setsockopt: { parameters: ["i32", "i32", "i32", "buffer", "u32"], result: "i32" },
  getsockopt: { parameters: ["i32", "i32", "i32", "buffer", "buffer"], result: "i32" },
  sendmmsg: { parameters: ["i32", "buffer", "u32", "i32"], result: "i32" },
  recvmmsg: { parameters: ["i32", "buffer", "u32", "i32", "pointer"], result: "i32" },
  eventfd: { parameters: ["u32", "i32"], result: "i32" },
  open: { parameters: ["buffer", "i32"], result: "i32" },
  ioctl: { parameters: ["i32", "u64", "buffer"], result: "i32" },
  read: { parameters: ["i32", "buffer", "u64"], result: "i32" },
  write: { parameters: ["i32", "buffer", "u64"], result: "i32" },
  close: { parameters: ["i32"], result: "i32" },
  clock_gettime: { parameters: ["i32", "buffer"], result: "i32" },
  ppoll: { parameters: ["buffer", "u64", "buffer", "pointer"], result: "i32", nonblocking: true },
  // With its target for its source and no bytes to copy, memcpy tells an address.
  address: { name: "memcpy", parameters: ["buffer", "buffer", "u64"], result: "usize" },
  load: { name: "memcpy", parameters: ["buffer", "u64", "u64"], result: "void" },
  errno: { name: "__errno_location", parameters: [], result: "usize" },
} as const;

const CLOCK_MONOTONIC = 1;

/** Lengths as the calls want them, each made when it is first needed: a call for every packet makes no new one. */
const WIDE: (bigint | null)[] = new Array<bigint | null>(4096).fill(null);

function wide(length: number): bigint {
  if (length >= WIDE.length) return BigInt(length);
  return WIDE[length] ??= BigInt(length);
}

type Library = Deno.DynamicLibrary<typeof SYMBOLS>;

/** The calls by FFI. */
class FfiLibc implements Libc {
  readonly path: string;
  readonly #library: Library;
  readonly #symbols: Library["symbols"];
  readonly #errnoAt: bigint;
  readonly #errno = new Uint8Array(new ArrayBuffer(256), 0, 4);
  readonly #errnoView = new DataView(this.#errno.buffer);
  readonly #length = new Uint8Array(new ArrayBuffer(256), 0, 4);
  readonly #lengthView = new DataView(this.#length.buffer);

  constructor(path: string, library: Library) {
    this.path = path;
    this.#library = library;
    this.#symbols = library.symbols;
    // One place for each thread, and a module runs on one thread.
    this.#errnoAt = library.symbols.errno();
  }

  socket(family: number, type: number): number {
    return this.#result(this.#symbols.socket(family, type, 0));
  }

  bind(fd: number, address: Memory): number {
    return this.#result(this.#symbols.bind(fd, address, address.length));
  }

  connect(fd: number, address: Memory): number {
    return this.#result(this.#symbols.connect(fd, address, address.length));
  }

  getsockname(fd: number, address: Memory): number {
    this.#lengthView.setUint32(0, address.length, true);
    return this.#result(this.#symbols.getsockname(fd, address, this.#length));
  }

  setsockopt(fd: number, level: number, option: number, value: Memory): number {
    return this.#result(this.#symbols.setsockopt(fd, level, option, value, value.length));
  }

  getsockopt(fd: number, level: number, option: number, value: Memory): number {
    this.#lengthView.setUint32(0, value.length, true);
    const result = this.#result(this.#symbols.getsockopt(fd, level, option, value, this.#length));
    return result < 0 ? result : this.#lengthView.getUint32(0, true);
  }

  sendmmsg(fd: number, messages: Memory, count: number, flags: number): number {
    return this.#result(this.#symbols.sendmmsg(fd, messages, count, flags));
  }

  recvmmsg(fd: number, messages: Memory, count: number, flags: number): number {
    return this.#result(this.#symbols.recvmmsg(fd, messages, count, flags, null));
  }

  eventfd(): number {
    return this.#result(this.#symbols.eventfd(0, EVENT_FLAGS));
  }

  open(path: Memory, flags: number): number {
    return this.#result(this.#symbols.open(path, flags));
  }

  ioctl(fd: number, request: number, data: Memory): number {
    return this.#result(this.#symbols.ioctl(fd, BigInt(request), data));
  }

  read(fd: number, target: Memory): number {
    return this.#result(this.#symbols.read(fd, target, wide(target.length)));
  }

  write(fd: number, source: Memory, length: number = source.length): number {
    return this.#result(this.#symbols.write(fd, source, wide(length)));
  }

  close(fd: number): number {
    return this.#result(this.#symbols.close(fd));
  }

  monotonic(target: Memory): number {
    return this.#result(this.#symbols.clock_gettime(CLOCK_MONOTONIC, target));
  }

  ppoll(fds: Memory, count: number, timeout: Memory | null): Promise<number> {
    return this.#symbols.ppoll(fds, BigInt(count), timeout, null);
  }

  addressOf(memory: Memory): number {
    return Number(this.#symbols.address(memory, memory, 0n));
  }

  release(): void {
    if (--users > 0) return;
    shared = null;
    this.#library.close();
  }

  #result(result: number): number {
    if (result >= 0) return result;
    this.#symbols.load(this.#errno, this.#errnoAt, 4n);
    return -this.#errnoView.getInt32(0, true);
  }
}

let shared: FfiLibc | null = null;
let users = 0;

/**
 * Where C libraries of an architecture are, as Deno names architectures; the first is the likeliest. Empty for an
 * architecture whose layouts are not known.
 */
export function libcPaths(arch: string): readonly string[] {
  if (arch !== "x86_64" && arch !== "aarch64") return [];
  const gnu = `${arch}-linux-gnu`;
  const folders = [`/lib/${gnu}`, `/usr/lib/${gnu}`, "/lib64", "/usr/lib64", "/lib", "/usr/lib"];
  const musl = ["/lib", "/usr/lib"].flatMap((folder) =>
    [`ld-musl-${arch}.so.1`, `libc.musl-${arch}.so.1`].map((name) => `${folder}/${name}`)
  );
  return [...folders.map((folder) => `${folder}/libc.so.6`), ...musl];
}

/** What a platform has to tell to be looked at; the real one if left out. */
export interface Platform {
  /** As `Deno.build.os`. */
  os: string;
  /** As `Deno.build.arch`. */
  arch: string;
  /** True if FFI is granted for a path, or for everything without one; never asks. */
  isGranted(path?: string): boolean;
  /** Opens a library. Throws if that fails. */
  open(path: string): Libc;
}

const PLATFORM: Platform = {
  os: Deno.build.os,
  arch: Deno.build.arch,
  isGranted: (path) =>
    typeof Deno.dlopen === "function" &&
    Deno.permissions.querySync(path === undefined ? { name: "ffi" } : { name: "ffi", path }).state === "granted",
  open: (path) => new FfiLibc(path, Deno.dlopen(path, SYMBOLS)),
};

/**
 * Opens the C library, if the platform is known and FFI is granted already.
 *
 * @returns the library, to be released when it is no longer used, or a sentence that says why there is none
 */
export function acquireLibc(platform: Platform = PLATFORM): Libc | string {
  if (shared !== null && platform === PLATFORM) {
    users++;
    return shared;
  }
  const { os, arch } = platform;
  if (os !== "linux") return `the operating system is ${os}, not Linux`;
  const paths = libcPaths(arch);
  if (paths.length === 0) return `the layouts of ${arch} are not known`;
  const isAllGranted = platform.isGranted();
  const granted = isAllGranted
    ? [...paths, "libc.so.6", `libc.musl-${arch}.so.1`]
    : paths.filter((path) => platform.isGranted(path));
  if (granted.length === 0) return `FFI is not granted: run with --allow-ffi=${paths[0]}, or where the C library is`;
  let problem = "";
  for (const path of granted) {
    try {
      const libc = platform.open(path);
      if (libc instanceof FfiLibc) {
        shared = libc;
        users = 1;
      }
      return libc;
    } catch (error) {
      problem ||= error instanceof Error ? error.message : String(error);
    }
  }
  return `no C library can be opened: ${problem}`;
}

/** An error for the failed call `doing`, with `code` as Node has it. */
export function callError(doing: string, result: number): Error {
  const code = errnoName(-result);
  return Object.assign(new Error(`${doing} failed with ${code}`), { code });
}
