/**
 * A capture of packets as a pcapng stream, gathered in memory of fixed size.
 *
 * ```text
 *   stack ─ StackCapture ─┐                    ┌─ gathering ─┐
 *   stack ─ StackCapture ─┼──▶ PacketCapture ──┤             ├── take() ──▶ file
 *   links ────────────────┘                    └─ being read ┘
 * ```
 *
 * There are two buffers: one gathers while the other is being written out, and {@linkcode PacketCapture.take} changes
 * their places. What does not fit in is not recorded but counted, so that a slow disk never holds up a packet; the
 * counts stand at the end of the file. Nothing is allocated for a packet.
 *
 * Interfaces are named `PEER:out`, `PEER:out:wire` behind the impairment, `PEER:in`, `PEER:in:wire` before it, and
 * `PEER:out:drop`, `PEER:in:drop` for packets dropped in that direction, each with its reason as a comment. `lo` is the
 * host itself. An interface is described when its first packet comes.
 *
 * @module
 */

import { DropReason, dropReasonName } from "../base/drop.ts";
import type { Packet } from "../base/packet.ts";
import type { Instant } from "../base/time.ts";
import {
  emitPacketBlock,
  interfaceBlock,
  interfaceStatisticsBlock,
  packetBlockBytes,
  PcapngClock,
  PcapngDirection,
  PcapngPacket,
  sectionHeaderBlock,
} from "../wire/pcapng.ts";
import { type PacketTap, TapPoint } from "./packet_tap.ts";

/** Size of each of the two buffers. */
const BUFFER_BYTES = 4 << 20;

const encoder = new TextEncoder();

/** The comment of each reason, in UTF-8. */
const COMMENTS: readonly Uint8Array[] = Array.from(
  { length: DropReason.Count },
  (_, reason) => encoder.encode(`dropped: ${dropReasonName(reason)}`),
);

/** An interface of a capture, with what it counted. */
interface CaptureInterface {
  readonly clock: PcapngClock;
  lastAt: Instant;
  received: number;
  dropped: number;
}

/** A pcapng stream that is gathered and taken away piece by piece. */
export class PacketCapture {
  /** Called when there is something to take, after there was nothing. */
  onData: () => void = () => {};
  readonly #interfaces: CaptureInterface[] = [];
  readonly #packet = new PcapngPacket();
  #gathering: Buffer;
  #taken: Buffer;
  #length = 0;
  #received = 0;
  #dropped = 0;

  /**
   * Begins a stream.
   *
   * @param bufferBytes size of each of the two buffers, at least 65,536 (default 4 MiB)
   */
  constructor(bufferBytes: number = BUFFER_BYTES) {
    if (!Number.isInteger(bufferBytes) || bufferBytes < 65536) {
      throw new RangeError(`the buffers of a capture must have at least 65536 bytes, got ${bufferBytes}`);
    }
    this.#gathering = new Buffer(bufferBytes);
    this.#taken = new Buffer(bufferBytes);
    this.#append(sectionHeaderBlock("Culvert"));
  }

  /** Packets recorded. */
  get recordedPackets(): number {
    return this.#received - this.#dropped;
  }

  /** Packets not recorded, since the buffer was full. */
  get droppedPackets(): number {
    return this.#dropped;
  }

  /**
   * Adds an interface.
   *
   * @param clock reads its times
   * @returns its id, or −1 if there is no room now
   */
  addInterface(name: string, clock: PcapngClock): number {
    if (!this.#append(interfaceBlock(name))) return -1;
    return this.#interfaces.push({ clock, lastAt: 0, received: 0, dropped: 0 }) - 1;
  }

  /** Records `p`; with a reason as its comment, if it was dropped. */
  record(id: number, p: Packet, direction: PcapngDirection, reason: DropReason, now: Instant): void {
    const link = this.#interfaces[id]!;
    const packet = this.#packet;
    this.#received++;
    link.received++;
    link.lastAt = now;
    packet.comment = reason === DropReason.None ? null : COMMENTS[reason]!;
    const { bytes, view } = this.#gathering;
    if (this.#length + packetBlockBytes(p.end - p.start, packet.comment) > bytes.length) {
      this.#dropped++;
      link.dropped++;
      return;
    }
    link.clock.read(now);
    packet.interfaceId = id;
    packet.timeHigh = link.clock.high;
    packet.timeLow = link.clock.low;
    packet.direction = direction;
    const wasEmpty = this.#length === 0;
    this.#length = emitPacketBlock(bytes, view, this.#length, packet, p.bytes, p.start, p.end);
    if (wasEmpty) this.onData();
  }

  /** Counts a packet for whose interface there is no room yet. */
  countDropped(): void {
    this.#received++;
    this.#dropped++;
  }

  /** What has been gathered since the last call, or `null`. It stays as it is until the next call. */
  take(): Uint8Array<ArrayBuffer> | null {
    if (this.#length === 0) return null;
    const full = this.#gathering;
    this.#gathering = this.#taken;
    this.#taken = full;
    const bytes = full.bytes.subarray(0, this.#length);
    this.#length = 0;
    return bytes;
  }

  /** The blocks that end the stream: how many packets passed each interface, and how many are missing here. */
  statistics(): Uint8Array<ArrayBuffer> {
    const blocks = this.#interfaces.map(({ clock, lastAt, received, dropped }, id) => {
      clock.read(lastAt);
      return interfaceStatisticsBlock(id, clock, received, dropped);
    });
    const all = new Uint8Array(blocks.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const block of blocks) {
      all.set(block, at);
      at += block.length;
    }
    return all;
  }

  #append(block: Uint8Array): boolean {
    const { bytes } = this.#gathering;
    if (this.#length + block.length > bytes.length) return false;
    const wasEmpty = this.#length === 0;
    bytes.set(block, this.#length);
    this.#length += block.length;
    if (wasEmpty) this.onData();
    return true;
  }
}

class Buffer {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly view: DataView<ArrayBuffer>;

  constructor(sizeBytes: number) {
    this.bytes = new Uint8Array(sizeBytes);
    this.view = new DataView(this.bytes.buffer);
  }
}

/** Kinds of interfaces that a stack's interface has in a capture: one a point, and one for drops each way. */
const KINDS = ["out", "out:wire", "in", "in:wire", "out:drop", "in:drop"] as const;
const OUT_DROP = 4;
const IN_DROP = 5;

/** The names of a stack's interfaces. */
export interface CapturedInterface {
  /** Index. */
  readonly ifindex: number;
  /** Name. */
  readonly name: string;
}

/** Records what passes a stack. */
export class StackCapture implements PacketTap {
  readonly #capture: PacketCapture;
  readonly #clock: PcapngClock;
  readonly #prefix: string;
  readonly #names = new Map<number, string>([[0, "lo"]]);
  /** Ids in the capture, {@linkcode KINDS} of them an ifindex; −1 before the first packet. */
  readonly #ids: number[] = [];

  /**
   * Makes a tap to be given to a stack.
   *
   * @param capture where to record
   * @param interfaces the stack's interfaces
   * @param originMilliseconds when the stack's instant 0 was, in milliseconds since 1970 (default 0, for simulations)
   * @param prefix goes before the names of interfaces, to tell hosts apart
   */
  constructor(
    capture: PacketCapture,
    interfaces: Iterable<CapturedInterface>,
    originMilliseconds = 0,
    prefix = "",
  ) {
    this.#capture = capture;
    this.#clock = new PcapngClock(originMilliseconds);
    this.#prefix = prefix;
    for (const { ifindex, name } of interfaces) this.#names.set(ifindex, name);
  }

  /** Records a packet that passes. */
  packet(point: TapPoint, p: Packet, now: Instant): void {
    this.#record(point, point <= TapPoint.OutWire, p, DropReason.None, now);
  }

  /** Records a packet that is dropped. */
  drop(point: TapPoint, p: Packet, reason: DropReason, now: Instant): void {
    const isOut = point === TapPoint.Out;
    this.#record(isOut ? OUT_DROP : IN_DROP, isOut, p, reason, now);
  }

  #record(kind: number, isOut: boolean, p: Packet, reason: DropReason, now: Instant): void {
    const at = p.ifindex * KINDS.length + kind;
    while (this.#ids.length <= at) this.#ids.push(-1);
    let id = this.#ids[at]!;
    if (id < 0) {
      const name = this.#names.get(p.ifindex) ?? `if${p.ifindex}`;
      id = this.#capture.addInterface(`${this.#prefix}${name}:${KINDS[kind]}`, this.#clock);
      if (id < 0) return this.#capture.countDropped();
      this.#ids[at] = id;
    }
    const direction = isOut ? PcapngDirection.Outbound : PcapngDirection.Inbound;
    this.#capture.record(id, p, direction, reason, now);
  }
}
