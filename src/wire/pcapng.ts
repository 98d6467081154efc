/**
 * pcapng: the blocks of a capture file, as bytes.
 *
 * ```text
 *   section header │ interface description … │ enhanced packet … │ interface statistics …
 * ```
 *
 * A file is one section header and then blocks in any order, as long as an interface is described before its first
 * packet. All numbers are little-endian, which the section header says. Interfaces carry IP packets without a link
 * header (`LINKTYPE_RAW`) and their times are in nanoseconds since 1970, 64 bits in two halves; {@linkcode PcapngClock}
 * makes them of instants without leaving the numbers that a double holds. The block of a packet is written straight
 * into memory of the caller, without allocating.
 *
 * Left out: name resolution, secrets, custom blocks, and reading.
 *
 * References: draft-ietf-opsawg-pcapng sections 3.5, 4.1, 4.2, 4.3, 4.6; the list of link types.
 *
 * @module
 */

import { copyBytes } from "../base/ring_buffer.ts";
import { type Instant, MILLISECOND } from "../base/time.ts";

/** Packets begin with their IP header; its version says which. */
export const LINKTYPE_RAW = 101;

/** Which way a packet went, as `epb_flags` tells it. */
export enum PcapngDirection {
  /** Not known. */
  Unknown = 0,
  /** The host received it. */
  Inbound = 1,
  /** The host sent it. */
  Outbound = 2,
}

const BLOCK_SECTION = 0x0a0d0d0a;
const BLOCK_INTERFACE = 1;
const BLOCK_STATISTICS = 5;
const BLOCK_PACKET = 6;
const BYTE_ORDER_MAGIC = 0x1a2b3c4d;

const OPTION_END = 0;
const OPTION_COMMENT = 1;
const OPTION_USER_APPLICATION = 4;
const OPTION_INTERFACE_NAME = 2;
const OPTION_INTERFACE_DESCRIPTION = 3;
const OPTION_TIME_RESOLUTION = 9;
const OPTION_PACKET_FLAGS = 2;
const OPTION_RECEIVED = 4;
const OPTION_DROPPED = 5;

/** Times are in units of 10 to the power of minus this. */
const NANOSECONDS = 9;

/** Block type, both lengths, and the fixed fields of a packet's block. */
const PACKET_FIXED_BYTES = 32;
/** `epb_flags` and the end of the options. */
const PACKET_OPTION_BYTES = 12;

const WORD = 2 ** 32;

const encoder = new TextEncoder();

/** `length` rounded up to a multiple of four. */
function padded(length: number): number {
  return (length + 3) & ~3;
}

/** Instants as nanoseconds since 1970, in two halves. */
export class PcapngClock {
  /** Upper 32 bits of the time read last. */
  high = 0;
  /** Lower 32 bits of the time read last. */
  low = 0;
  readonly #originHigh: number;
  readonly #originLow: number;

  /**
   * Makes a clock.
   *
   * @param originMilliseconds when instant 0 was, in milliseconds since 1970; fractions count
   */
  constructor(originMilliseconds: number) {
    const whole = Math.floor(originMilliseconds);
    const rest = Math.round((originMilliseconds - whole) * MILLISECOND);
    const origin = BigInt(whole) * BigInt(MILLISECOND) + BigInt(rest);
    this.#originHigh = Number(origin / BigInt(WORD));
    this.#originLow = Number(origin % BigInt(WORD));
  }

  /** Puts the time of `now` into `high` and `low`. */
  read(now: Instant): void {
    const low = this.#originLow + now % WORD;
    const carry = low >= WORD ? 1 : 0;
    this.low = low - carry * WORD;
    this.high = this.#originHigh + Math.floor(now / WORD) + carry;
  }
}

/** What the block of a packet says beside its bytes; filled again for each packet. */
export class PcapngPacket {
  /** The interface, in the order of their descriptions from 0. */
  interfaceId = 0;
  /** Upper 32 bits of the time. */
  timeHigh = 0;
  /** Lower 32 bits of the time. */
  timeLow = 0;
  /** Which way it went. */
  direction: PcapngDirection = PcapngDirection.Unknown;
  /** A comment in UTF-8, at most 65,535 bytes, or `null`. */
  comment: Uint8Array | null = null;
}

/** The block that begins a file. */
export function sectionHeaderBlock(application: string): Uint8Array<ArrayBuffer> {
  const block = new BlockWriter(BLOCK_SECTION);
  block.u32(BYTE_ORDER_MAGIC);
  block.u16(1);
  block.u16(0);
  // The length of the section is not known: −1 in 64 bits.
  block.u32(0xffffffff);
  block.u32(0xffffffff);
  block.text(OPTION_USER_APPLICATION, application);
  return block.finish();
}

/** The block that describes an interface; the first one in a file has id 0. */
export function interfaceBlock(name: string, description = ""): Uint8Array<ArrayBuffer> {
  const block = new BlockWriter(BLOCK_INTERFACE);
  block.u16(LINKTYPE_RAW);
  block.u16(0);
  // No limit to the captured length.
  block.u32(0);
  block.text(OPTION_INTERFACE_NAME, name);
  if (description !== "") block.text(OPTION_INTERFACE_DESCRIPTION, description);
  block.option(OPTION_TIME_RESOLUTION, new Uint8Array([NANOSECONDS]));
  return block.finish();
}

/**
 * The block that sums an interface up.
 *
 * @param clock has read the time of the summary
 * @param received packets that passed the interface, recorded or not
 * @param dropped those of them that could not be recorded
 */
export function interfaceStatisticsBlock(
  interfaceId: number,
  clock: PcapngClock,
  received: number,
  dropped: number,
): Uint8Array<ArrayBuffer> {
  const block = new BlockWriter(BLOCK_STATISTICS);
  block.u32(interfaceId);
  block.u32(clock.high);
  block.u32(clock.low);
  block.count(OPTION_RECEIVED, received);
  block.count(OPTION_DROPPED, dropped);
  return block.finish();
}

/** How many bytes {@linkcode emitPacketBlock} will write. */
export function packetBlockBytes(dataBytes: number, comment: Uint8Array | null): number {
  const commentBytes = comment === null ? 0 : 4 + padded(comment.length);
  return PACKET_FIXED_BYTES + padded(dataBytes) + PACKET_OPTION_BYTES + commentBytes;
}

/**
 * Writes the block of a packet.
 *
 * @param target where to, at `at`; there must be room for {@linkcode packetBlockBytes}
 * @param view of the same memory
 * @param data the packet is its range from `from` to `to`
 * @returns where the block ends
 */
export function emitPacketBlock(
  target: Uint8Array,
  view: DataView,
  at: number,
  packet: PcapngPacket,
  data: Uint8Array,
  from: number,
  to: number,
): number {
  const { comment } = packet;
  const dataBytes = to - from;
  const blockBytes = packetBlockBytes(dataBytes, comment);
  view.setUint32(at, BLOCK_PACKET, true);
  view.setUint32(at + 4, blockBytes, true);
  view.setUint32(at + 8, packet.interfaceId, true);
  view.setUint32(at + 12, packet.timeHigh, true);
  view.setUint32(at + 16, packet.timeLow, true);
  view.setUint32(at + 20, dataBytes, true);
  view.setUint32(at + 24, dataBytes, true);
  let next = at + 28;
  copyBytes(data, from, target, next, dataBytes);
  next = pad(target, next + dataBytes, dataBytes);
  if (comment !== null) {
    view.setUint16(next, OPTION_COMMENT, true);
    view.setUint16(next + 2, comment.length, true);
    copyBytes(comment, 0, target, next + 4, comment.length);
    next = pad(target, next + 4 + comment.length, comment.length);
  }
  view.setUint16(next, OPTION_PACKET_FLAGS, true);
  view.setUint16(next + 2, 4, true);
  view.setUint32(next + 4, packet.direction, true);
  view.setUint32(next + 8, OPTION_END, true);
  view.setUint32(next + 12, blockBytes, true);
  return at + blockBytes;
}

/** Fills up behind a field of `length` bytes that ends at `at`. */
function pad(target: Uint8Array, at: number, length: number): number {
  const end = at + padded(length) - length;
  for (let i = at; i < end; i++) target[i] = 0;
  return end;
}

/** Puts a block together that is not written for every packet. */
class BlockWriter {
  readonly #bytes: number[] = [];

  constructor(type: number) {
    this.u32(type);
    this.u32(0);
  }

  u16(value: number): void {
    this.#bytes.push(value & 0xff, value >>> 8 & 0xff);
  }

  u32(value: number): void {
    this.u16(value);
    this.u16(value >>> 16);
  }

  option(code: number, value: Uint8Array): void {
    this.u16(code);
    this.u16(value.length);
    this.#bytes.push(...value);
    for (let i = value.length; i < padded(value.length); i++) this.#bytes.push(0);
  }

  text(code: number, text: string): void {
    this.option(code, encoder.encode(text).subarray(0, 0xffff));
  }

  /** An option that is a number of 64 bits. */
  count(code: number, value: number): void {
    this.u16(code);
    this.u16(8);
    this.u32(value % WORD);
    this.u32(Math.floor(value / WORD));
  }

  finish(): Uint8Array<ArrayBuffer> {
    this.u32(OPTION_END);
    this.u32(0);
    const bytes = new Uint8Array(this.#bytes);
    const view = new DataView(bytes.buffer);
    view.setUint32(4, bytes.length, true);
    view.setUint32(bytes.length - 4, bytes.length, true);
    return bytes;
  }
}
