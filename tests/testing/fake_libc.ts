/**
 * A C library without a kernel: it reads the structures that it is given as the kernel would, at the addresses in them,
 * and answers as the test says.
 *
 * @module
 */

import { MessageField, MMSGHDR_BYTES, setU64 } from "../../src/runtime/linux/abi.ts";
import type { Libc, Memory } from "../../src/runtime/linux/libc.ts";

/** A message that was handed to `sendmmsg`. */
export interface SentMessage {
  /** Its address, as bytes. */
  name: number[];
  /** Its payload. */
  bytes: number[];
  /** Its control messages, as `level/type` with their data. */
  control: { kind: string; data: number[] }[];
}

/** A message that `recvmmsg` brings. */
export interface ReceivedMessage {
  /** The address, as bytes. */
  name: number[];
  /** The payload; what does not fit is cut off. */
  bytes: Uint8Array;
  /** The control bytes, as they are; what does not fit is cut off. */
  control: Uint8Array;
  /** Flags to set beside those that follow. */
  flags?: number;
  /** What to say instead of the true lengths. */
  claim?: { moved?: number; control?: number; name?: number };
}

const BASE = 0x7f12_3450_0000;

/** The C library; every field may be replaced. */
export class FakeLibc implements Libc {
  readonly path = "fake";
  /** What was sent. */
  readonly sent: SentMessage[] = [];
  /** What the next calls of `recvmmsg` bring. */
  incoming: ReceivedMessage[] = [];
  /** Options that were set, as `level/option=value`. */
  readonly options: string[] = [];
  /** Calls of `sendmmsg`. */
  sends = 0;
  /** Calls of `release`. */
  releases = 0;
  /** Descriptors that were closed. */
  readonly closed: number[] = [];
  /**
   * Says whether a message is taken: 0, or an error number. As the kernel does, an error is only told if it is that of
   * the first message of a call; else the call ends before the message.
   */
  onSend: (message: SentMessage, isFirst: boolean) => number = () => 0;
  /** Says whether an option is taken: 0, or an error number. */
  onOption: (level: number, option: number) => number = () => 0;
  /** The result of `socket`. */
  socketResult = 3;
  /** The result of `recvmmsg` when there is nothing. */
  emptyResult = -11;
  readonly #memory: Memory[] = [];

  addressOf(memory: Memory): number {
    this.#memory.push(memory);
    return BASE + 0x1_0000_0000 * this.#memory.length - 0x8000;
  }

  socket(): number {
    return this.socketResult;
  }

  bind(): number {
    return 0;
  }

  connect(_fd: number, _address: Memory): number {
    return 0;
  }

  getsockname(_fd: number, address: Memory): number {
    address[2] = 4790 >> 8;
    address[3] = 4790 & 255;
    return 0;
  }

  setsockopt(_fd: number, level: number, option: number, value: Memory): number {
    const errno = this.onOption(level, option);
    this.options.push(`${level}/${option}=${new DataView(value.buffer, value.byteOffset).getInt32(0, true)}`);
    return -errno;
  }

  getsockopt(_fd: number, _level: number, _option: number, value: Memory): number {
    new DataView(value.buffer).setUint32(32, 7, true);
    return value.length;
  }

  sendmmsg(_fd: number, messages: Memory, count: number): number {
    this.sends++;
    for (let i = 0; i < count; i++) {
      const message = this.#read(messages, i * MMSGHDR_BYTES);
      const errno = this.onSend(message, i === 0);
      if (errno !== 0) return i > 0 ? i : -errno;
      this.sent.push(message);
    }
    return count;
  }

  recvmmsg(_fd: number, messages: Memory, count: number): number {
    const batch = this.incoming.splice(0, count);
    batch.forEach((message, i) => this.#write(messages, i * MMSGHDR_BYTES, message));
    return batch.length > 0 ? batch.length : this.emptyResult;
  }

  eventfd(): number {
    return 9;
  }

  open(_path: Memory, _flags: number): number {
    return this.socketResult;
  }

  ioctl(_fd: number, _request: number, _data: Memory): number {
    return 0;
  }

  read(_fd: number, _target: Memory): number {
    return 8;
  }

  write(_fd: number, _source: Memory, _length?: number): number {
    return 8;
  }

  close(fd: number): number {
    this.closed.push(fd);
    return 0;
  }

  monotonic(target: Memory): number {
    new DataView(target.buffer).setUint32(0, 1000, true);
    return 0;
  }

  ppoll(): Promise<number> {
    return new Promise(() => {});
  }

  release(): void {
    this.releases++;
  }

  #at(address: number): { memory: Memory; offset: number } {
    for (const [i, memory] of this.#memory.entries()) {
      const offset = address - (BASE + 0x1_0000_0000 * (i + 1) - 0x8000);
      if (offset >= 0 && offset < memory.length) return { memory, offset };
    }
    throw new Error(`an address outside of all memory: ${address.toString(16)}`);
  }

  #bytes(address: number, length: number): Uint8Array {
    if (length === 0) return new Uint8Array(0);
    const { memory, offset } = this.#at(address);
    if (offset + length > memory.length) throw new Error("a range that runs out of its memory");
    return memory.subarray(offset, offset + length);
  }

  #header(messages: Memory, at: number) {
    const view = new DataView(messages.buffer, messages.byteOffset + at, MMSGHDR_BYTES);
    const u64 = (offset: number): number => Number(view.getBigUint64(offset, true));
    const iovec = this.#bytes(u64(MessageField.Iovec), 16);
    const iovecView = new DataView(iovec.buffer, iovec.byteOffset, 16);
    return {
      view,
      name: this.#bytes(u64(MessageField.Name), view.getUint32(MessageField.NameLength, true)),
      iovecs: u64(MessageField.IovecCount),
      payload: this.#bytes(Number(iovecView.getBigUint64(0, true)), Number(iovecView.getBigUint64(8, true))),
      control: this.#bytes(u64(MessageField.Control), u64(MessageField.ControlLength)),
    };
  }

  #read(messages: Memory, at: number): SentMessage {
    const { name, iovecs, payload, control } = this.#header(messages, at);
    if (iovecs !== 1) throw new Error(`${iovecs} pieces of memory`);
    const found: SentMessage["control"] = [];
    const view = new DataView(control.buffer, control.byteOffset, control.length);
    for (let i = 0; i < control.length;) {
      const length = Number(view.getBigUint64(i, true));
      if (length < 16 || i + length > control.length) throw new Error(`a control message of ${length} bytes`);
      const kind = `${view.getInt32(i + 8, true)}/${view.getInt32(i + 12, true)}`;
      found.push({ kind, data: [...control.subarray(i + 16, i + length)] });
      i += Math.ceil(length / 8) * 8;
    }
    return { name: [...name], bytes: [...payload], control: found };
  }

  #write(messages: Memory, at: number, message: ReceivedMessage): void {
    const { view, name, payload, control } = this.#header(messages, at);
    const put = (target: Uint8Array, source: ArrayLike<number>): number => {
      const n = Math.min(target.length, source.length);
      for (let i = 0; i < n; i++) target[i] = source[i]!;
      return n;
    };
    let flags = message.flags ?? 0;
    if (message.bytes.length > payload.length) flags |= 0x20;
    if (message.control.length > control.length) flags |= 0x8;
    const claim = message.claim ?? {};
    view.setUint32(MessageField.NameLength, claim.name ?? put(name, message.name), true);
    put(name, message.name);
    view.setUint32(MessageField.Moved, claim.moved ?? put(payload, message.bytes), true);
    put(payload, message.bytes);
    setU64(view, MessageField.ControlLength, claim.control ?? put(control, message.control));
    put(control, message.control);
    view.setInt32(MessageField.Flags, flags, true);
  }
}

/** The bytes of a control message with `data`, padded. */
export function controlMessage(level: number, type: number, data: ArrayLike<number>): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(16 + Math.ceil(data.length / 8) * 8);
  const view = new DataView(bytes.buffer);
  setU64(view, 0, 16 + data.length);
  view.setInt32(8, level, true);
  view.setInt32(12, type, true);
  bytes.set(Array.from(data), 16);
  return bytes;
}

/** An int as bytes. */
export function int(value: number): number[] {
  return [value & 255, (value >>> 8) & 255, (value >>> 16) & 255, (value >>> 24) & 255];
}

/** A `sockaddr_in`. */
export function sockaddrIn(address: readonly [number, number, number, number], port: number): number[] {
  return [2, 0, port >> 8, port & 255, ...address, 0, 0, 0, 0, 0, 0, 0, 0];
}
