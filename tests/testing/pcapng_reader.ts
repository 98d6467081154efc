/**
 * Reads a pcapng stream back, and refuses whatever is not as the draft wants it.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";

/** A packet of a capture. */
export interface CapturedPacket {
  /** Name of the interface. */
  name: string;
  /** Nanoseconds since 1970. */
  at: bigint;
  /** The IP packet. */
  bytes: Uint8Array;
  /** The comment, or `""`. */
  comment: string;
  /** `epb_flags`: 1 in, 2 out. */
  flags: number;
}

/** A capture. */
export interface Captured {
  /** Names of the interfaces by id. */
  interfaces: string[];
  /** The packets. */
  packets: CapturedPacket[];
  /** What the statistics say of each interface that has some. */
  statistics: Record<string, { received: number; dropped: number }>;
}

const decoder = new TextDecoder();

/** Reads a whole stream. */
export function readPcapng(bytes: Uint8Array): Captured {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const out: Captured = { interfaces: [], packets: [], statistics: {} };
  for (let at = 0; at < bytes.length;) {
    const type = view.getUint32(at, true);
    const length = view.getUint32(at + 4, true);
    assert(length >= 12 && length % 4 === 0 && at + length <= bytes.length, `bad block length ${length} at ${at}`);
    assertEquals(view.getUint32(at + length - 4, true), length, "the two lengths of a block differ");
    if (at === 0) assertEquals([type, view.getUint32(8, true)], [0x0a0d0d0a, 0x1a2b3c4d]);
    else if (type === 1) out.interfaces.push(readInterface(view, bytes, at, length));
    else if (type === 6) out.packets.push(readPacket(view, bytes, at, length, out.interfaces));
    else if (type === 5) {
      const options = readOptions(view, bytes, at + 20, at + length - 4);
      const count = (code: number) => {
        const value = options.get(code)!;
        return Number(new DataView(value.buffer, value.byteOffset, 8).getBigUint64(0, true));
      };
      out.statistics[nameOf(out.interfaces, view.getUint32(at + 8, true))] = { received: count(4), dropped: count(5) };
    } else throw new Error(`unknown block type ${type} at ${at}`);
    at += length;
  }
  return out;
}

function nameOf(interfaces: string[], id: number): string {
  assert(id < interfaces.length, `interface ${id} is used before it is described`);
  return interfaces[id]!;
}

function readInterface(view: DataView, bytes: Uint8Array, at: number, length: number): string {
  assertEquals([view.getUint16(at + 8, true), view.getUint32(at + 12, true)], [101, 0]);
  const options = readOptions(view, bytes, at + 16, at + length - 4);
  assertEquals(options.get(9), new Uint8Array([9]));
  return decoder.decode(options.get(2));
}

function readPacket(
  view: DataView,
  bytes: Uint8Array,
  at: number,
  length: number,
  interfaces: string[],
): CapturedPacket {
  const captured = view.getUint32(at + 20, true);
  assertEquals(view.getUint32(at + 24, true), captured);
  const options = readOptions(view, bytes, at + 28 + Math.ceil(captured / 4) * 4, at + length - 4);
  return {
    name: nameOf(interfaces, view.getUint32(at + 8, true)),
    at: (BigInt(view.getUint32(at + 12, true)) << 32n) + BigInt(view.getUint32(at + 16, true)),
    bytes: bytes.slice(at + 28, at + 28 + captured),
    comment: decoder.decode(options.get(1) ?? new Uint8Array()),
    flags: options.get(2)![0]!,
  };
}

function readOptions(view: DataView, bytes: Uint8Array, from: number, end: number): Map<number, Uint8Array> {
  const options = new Map<number, Uint8Array>();
  for (let at = from;;) {
    const code = view.getUint16(at, true);
    const length = view.getUint16(at + 2, true);
    if (code === 0) {
      assertEquals([length, at + 4], [0, end], "the options do not end where the block does");
      return options;
    }
    options.set(code, bytes.subarray(at + 4, at + 4 + length));
    at += 4 + Math.ceil(length / 4) * 4;
    assert(at < end, "the options run past the block");
  }
}
