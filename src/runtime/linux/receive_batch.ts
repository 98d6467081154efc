/**
 * Datagrams taken from a socket by `recvmmsg`, those that the kernel glued together cut apart again.
 *
 * There are 64 buffers of 64 KiB, and how many of them a call offers follows from how long the trains were last time, so
 * that one call brings about 64 datagrams and touches little memory. A datagram is copied from its buffer into a packet
 * with headroom; that costs 50 ns for 1,500 bytes.
 *
 * What a message says about itself is not trusted: datagrams too large for a packet, lengths that make no sense and
 * control messages that are cut off or malformed are counted drops.
 *
 * @module
 */

import { DropReason } from "../../base/drop.ts";
import { copyBytes } from "../../base/ring_buffer.ts";
import { HEADROOM_BYTES } from "../../base/packet.ts";
import type { Instant } from "../../base/time.ts";
import type { DatagramSink, PortContext } from "../udp_port.ts";
import {
  AddressFamily,
  Errno,
  getU64,
  IOVEC_BYTES,
  MessageField,
  MessageFlag,
  MMSGHDR_BYTES,
  setU64,
  SOCKADDR_IN6_BYTES,
  SOCKADDR_IN_BYTES,
  SOCKADDR_SLOT_BYTES,
} from "./abi.ts";
import { RECEIVE_CONTROL_BYTES, ReceivedControl } from "./control.ts";
import type { Libc, Memory } from "./libc.ts";

/** Buffers, and datagrams that a call is to bring. */
const MESSAGES = 64;

/** Bytes of a buffer: no UDP datagram and no train is larger. */
const BUFFER_BYTES = 65536;

/** From one buffer to the next; no power of two, so that they do not share lines of the cache. */
const BUFFER_STRIDE: number = BUFFER_BYTES + 2048 + 64;

const IOVECS_AT: number = MESSAGES * MMSGHDR_BYTES;
const NAMES_AT: number = IOVECS_AT + MESSAGES * IOVEC_BYTES;
const CONTROLS_AT: number = NAMES_AT + MESSAGES * SOCKADDR_SLOT_BYTES;
const BUFFERS_AT: number = CONTROLS_AT + MESSAGES * RECEIVE_CONTROL_BYTES;

/** Told what came. */
export interface ReceiveObserver {
  /** A message came that brought `datagrams` with `bytes` together. */
  received(datagrams: number, bytes: number): void;
  /** The system reported an error. */
  failed(errno: number): void;
}

/** Datagrams that were received and wait. */
export class ReceiveBatch {
  readonly #libc: Libc;
  readonly #context: PortContext;
  readonly #observer: ReceiveObserver;
  readonly #control = new ReceivedControl();
  readonly #bytes: Memory = new Uint8Array(new ArrayBuffer(BUFFERS_AT + MESSAGES * BUFFER_STRIDE));
  readonly #view: DataView<ArrayBuffer> = new DataView(this.#bytes.buffer);
  readonly #headers: Memory = this.#bytes.subarray(0, MESSAGES * MMSGHDR_BYTES);
  /** Of each message: bytes, how many of them are done, size of its pieces, outer traffic class, source. */
  readonly #length = new Int32Array(MESSAGES);
  readonly #done = new Int32Array(MESSAGES);
  readonly #segment = new Int32Array(MESSAGES);
  readonly #trafficClass = new Uint8Array(MESSAGES);
  readonly #words = new Int32Array(MESSAGES * 4);
  readonly #ports = new Uint16Array(MESSAGES);
  /** Messages of the last call, and the one to be cut next. */
  #count = MESSAGES;
  #next = MESSAGES;
  #waiting = 0;
  #offered = MESSAGES;
  #isMore = false;

  /** Makes an empty batch. */
  constructor(libc: Libc, context: PortContext, observer: ReceiveObserver) {
    this.#libc = libc;
    this.#context = context;
    this.#observer = observer;
    const address = libc.addressOf(this.#bytes);
    for (let i = 0; i < MESSAGES; i++) {
      const header = i * MMSGHDR_BYTES;
      const iovec = IOVECS_AT + i * IOVEC_BYTES;
      setU64(this.#view, header + MessageField.Name, address + NAMES_AT + i * SOCKADDR_SLOT_BYTES);
      setU64(this.#view, header + MessageField.Iovec, address + iovec);
      setU64(this.#view, header + MessageField.IovecCount, 1);
      setU64(this.#view, header + MessageField.Control, address + CONTROLS_AT + i * RECEIVE_CONTROL_BYTES);
      setU64(this.#view, iovec, address + BUFFERS_AT + i * BUFFER_STRIDE);
      setU64(this.#view, iovec + 8, BUFFER_BYTES);
    }
  }

  /** Datagrams that were received and wait. */
  get waiting(): number {
    return this.#waiting;
  }

  /** True if the last call brought all that it could, so that the socket may hold more. */
  get isMore(): boolean {
    return this.#isMore;
  }

  /** Takes what is in the socket, if nothing waits here; returns a negative error number if that failed. */
  fill(fd: number): number {
    if (this.#waiting > 0) return 0;
    for (let i = 0; i < this.#count; i++) this.#resetHeader(i);
    this.#count = 0;
    this.#next = 0;
    const result = this.#libc.recvmmsg(fd, this.#headers, this.#offered, MessageFlag.DontWait);
    this.#isMore = result === this.#offered;
    if (result < 0) {
      if (result !== -Errno.EAGAIN && result !== -Errno.EINTR) this.#observer.failed(-result);
      return result;
    }
    this.#count = result;
    for (let i = 0; i < result; i++) this.#take(i);
    const perMessage = Math.max(1, this.#waiting / Math.max(1, result));
    this.#offered = Math.max(2, Math.ceil(MESSAGES / perMessage));
    return result;
  }

  /** Hands at most `limit` waiting datagrams to `sink`; returns how many. */
  drain(limit: number, sink: DatagramSink, now: Instant): number {
    const { pool, drops } = this.#context;
    const n = Math.min(limit, this.#waiting);
    for (let left = n; left > 0; left--) {
      while (this.#done[this.#next] === this.#length[this.#next]) this.#next++;
      const i = this.#next;
      const done = this.#done[i]!;
      const bytes = Math.min(this.#length[i]! - done, this.#segment[i]!);
      this.#done[i] = done + bytes;
      this.#waiting--;
      const p = pool.acquire(HEADROOM_BYTES);
      if (p === null) {
        drops.count(DropReason.PoolExhausted);
        continue;
      }
      copyBytes(this.#bytes, BUFFERS_AT + i * BUFFER_STRIDE + done, p.bytes, HEADROOM_BYTES, bytes);
      p.end = HEADROOM_BYTES + bytes;
      p.outerTrafficClass = this.#trafficClass[i]!;
      const w = i * 4;
      const words = this.#words;
      sink.inputDatagram(p, words[w]!, words[w + 1]!, words[w + 2]!, words[w + 3]!, this.#ports[i]!, now);
    }
    return n;
  }

  /** Drops what waits. */
  clear(): void {
    for (; this.#waiting > 0; this.#waiting--) this.#context.drops.count(DropReason.Closed);
    this.#next = this.#count;
  }

  #resetHeader(i: number): void {
    const header = i * MMSGHDR_BYTES;
    this.#view.setUint32(header + MessageField.NameLength, SOCKADDR_SLOT_BYTES, true);
    setU64(this.#view, header + MessageField.ControlLength, RECEIVE_CONTROL_BYTES);
    this.#view.setInt32(header + MessageField.Flags, 0, true);
  }

  /** Reads what came with message `i`; a message that is dropped has length 0 afterwards. */
  #take(i: number): void {
    const { pool, drops } = this.#context;
    const view = this.#view;
    const header = i * MMSGHDR_BYTES;
    const length = view.getUint32(header + MessageField.Moved, true);
    const flags = view.getInt32(header + MessageField.Flags, true);
    const controlBytes = getU64(view, header + MessageField.ControlLength);
    const control = this.#control;
    this.#length[i] = 0;
    this.#done[i] = 0;
    const isWhole = controlBytes <= RECEIVE_CONTROL_BYTES &&
      control.parse(view, CONTROLS_AT + i * RECEIVE_CONTROL_BYTES, controlBytes) &&
      (flags & MessageFlag.ControlTruncated) === 0 && length > 0 && length <= BUFFER_BYTES;
    if (!isWhole || !this.#takeSource(i, header)) return drops.count(DropReason.Truncated);
    const segment = control.segmentBytes === 0 ? length : Math.min(length, control.segmentBytes);
    let datagrams = Math.ceil(length / segment);
    let done = 0;
    if ((flags & MessageFlag.Truncated) !== 0 || segment > pool.slotBytes - HEADROOM_BYTES) {
      // The last piece may be small enough, if it is a piece.
      const last = length - (datagrams - 1) * segment;
      const isLastRight = (flags & MessageFlag.Truncated) === 0 && last <= pool.slotBytes - HEADROOM_BYTES;
      const right = isLastRight ? 1 : 0;
      for (; datagrams > right; datagrams--) drops.count(DropReason.TooBig);
      done = length - right * last;
    }
    this.#length[i] = length;
    this.#done[i] = done;
    this.#segment[i] = segment;
    this.#trafficClass[i] = control.trafficClass;
    this.#waiting += datagrams;
    if (datagrams > 0) this.#observer.received(datagrams, length - done);
  }

  #takeSource(i: number, header: number): boolean {
    const view = this.#view;
    const bytes = view.getUint32(header + MessageField.NameLength, true);
    const at = NAMES_AT + i * SOCKADDR_SLOT_BYTES;
    const family = view.getUint16(at, true);
    const w = i * 4;
    const words = this.#words;
    this.#ports[i] = view.getUint16(at + 2);
    if (family === AddressFamily.Inet && bytes === SOCKADDR_IN_BYTES) {
      words[w] = 0;
      words[w + 1] = 0;
      words[w + 2] = 0xffff;
      words[w + 3] = view.getInt32(at + 4);
      return true;
    }
    if (family === AddressFamily.Inet6 && bytes === SOCKADDR_IN6_BYTES) {
      for (let k = 0; k < 4; k++) words[w + k] = view.getInt32(at + 8 + 4 * k);
      return true;
    }
    return false;
  }
}
