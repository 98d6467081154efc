/**
 * The memory that packets live in.
 *
 * ```text
 *   one WebAssembly memory of the process, 64 MiB:  │ block │ block │ given back │ block │ not used yet … │
 *   an Arena: one block, handed out in pieces from the bottom up
 * ```
 *
 * WebAssembly sums such memory seven times as fast as JavaScript does ({@linkcode arenaSum}), so an arena's block lies in
 * it while there is room: for some 30,000 packets of all stacks of the process. Beyond that, and where WebAssembly has no
 * vectors or is not allowed, a block is a buffer of its own. Nothing else may assume which; all that differs is speed.
 * The memory is made with the first arena, and the system provides its pages when they are first written to. It never
 * grows, since that would detach every view.
 *
 * Pieces are never given back one by one (pools above reuse them). A block is given back once nobody refers to its
 * arena; so whoever keeps a piece keeps the arena.
 *
 * Left out: the rings of sockets, which come and go in many sizes.
 *
 * @module
 */

import { WASM_BASE64 } from "./wasm/memory_wasm.ts";

/** Pieces and blocks begin at multiples of this, so that none shares a line of the cache. */
const ALIGNMENT = 64;

interface SharedMemory {
  readonly buffer: ArrayBuffer;
  /** The folded sum of the words in a range of it (RFC 1071). */
  readonly sum: (at: number, end: number) => number;
}

/** What `arenaSum` compares with until there is a shared memory, and where there is none. */
const NO_BUFFER = new ArrayBuffer(0);

let sharedBuffer: ArrayBuffer = NO_BUFFER;
let sharedSum: SharedMemory["sum"] = () => 0;
let isTried = false;
/** The first byte that was never handed out. */
let top = 0;
/** Where blocks that were given back begin, by their size. */
const givenBack = new Map<number, number[]>();

const owners = new FinalizationRegistry<{ at: number; sizeBytes: number }>(({ at, sizeBytes }) => {
  const places = givenBack.get(sizeBytes);
  if (places === undefined) givenBack.set(sizeBytes, [at]);
  else places.push(at);
});

/**
 * The ones' complement sum of the 16-bit big-endian words in `[start, end)` of a view, folded to 16 bits; an odd last byte
 * counts as the high half of a word (RFC 1071).
 *
 * @param end at most 65,536 bytes from `start`
 * @returns the sum, or −1 if the view is not of the shared memory
 */
export function arenaSum(view: DataView, start: number, end: number): number {
  if (view.buffer !== sharedBuffer) return -1;
  // Other than those of the view, the function's accesses have no bound below that of the memory.
  if (start < 0 || end > view.byteLength) throw new RangeError(`sum of ${start} to ${end} in ${view.byteLength} bytes`);
  return sharedSum(view.byteOffset + start, view.byteOffset + end);
}

/** A fixed block of memory, handed out from the bottom up. */
export class Arena {
  /** The whole block. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  #used = 0;

  /** Makes an arena of `sizeBytes`, zeroed. */
  constructor(sizeBytes: number) {
    const at = takeBlock(sizeBytes);
    if (at < 0) {
      this.bytes = new Uint8Array(sizeBytes);
    } else {
      this.bytes = new Uint8Array(sharedBuffer, at, sizeBytes);
      owners.register(this, { at, sizeBytes: aligned(sizeBytes) });
    }
  }

  /** How many bytes have not been handed out. */
  get freeBytes(): number {
    return this.bytes.length - this.#used;
  }

  /**
   * Hands out `sizeBytes`, aligned to 64 bytes.
   *
   * @returns a view of the piece, or `null` if the arena has no room left
   */
  allocate(sizeBytes: number): Uint8Array<ArrayBuffer> | null {
    const rounded = aligned(sizeBytes);
    if (rounded > this.freeBytes) return null;
    const at = this.#used;
    this.#used += rounded;
    return this.bytes.subarray(at, at + sizeBytes);
  }
}

function aligned(sizeBytes: number): number {
  return Math.ceil(sizeBytes / ALIGNMENT) * ALIGNMENT;
}

/** Where a block of the shared memory begins, or −1 if there is no room, or no such memory. */
function takeBlock(sizeBytes: number): number {
  if (!isTried) {
    isTried = true;
    const shared = makeSharedMemory();
    if (shared !== null) {
      sharedBuffer = shared.buffer;
      sharedSum = shared.sum;
    }
  }
  const size = aligned(sizeBytes);
  const again = givenBack.get(size)?.pop();
  if (again !== undefined) {
    new Uint8Array(sharedBuffer, again, size).fill(0);
    return again;
  }
  if (size === 0 || top + size > sharedBuffer.byteLength) return -1;
  const at = top;
  top += size;
  return at;
}

function makeSharedMemory(): SharedMemory | null {
  try {
    const bytes = Uint8Array.from(atob(WASM_BASE64), (c) => c.charCodeAt(0));
    const { memory, sum } = new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports;
    return { buffer: (memory as WebAssembly.Memory).buffer as ArrayBuffer, sum: sum as SharedMemory["sum"] };
  } catch {
    return null;
  }
}
