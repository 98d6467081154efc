/**
 * Datagrams on their way into a socket by `sendmmsg`, and consecutive ones to one place as one message.
 *
 * ```text
 *   memory   │ 1472 │ 1472 │ 1472 │ 610 │ 52 │ 1472 │ 1472 │
 *   messages └────── first, UDP_SEGMENT 1472 ──┘ └ 2 ┘ └── third ──┘
 * ```
 *
 * A packet's bytes are copied behind those of the packet before it. The copy costs 30 to 50 ns for 1,500 bytes, compared
 * with a list of slots that the kernel gathers; for that the slot is free at once and used again while it is in the
 * cache, and no structure holds the address of memory that is not the batch's own.
 * A train is at most 64 pieces and 65,507 bytes, all of one length but the last one, which may be shorter; its pieces
 * have one destination, one traffic class and, if asked for, one departure time.
 *
 * What the kernel refuses: a train on a device that cannot finish checksums (`EIO`) ends the use of trains; a train whose
 * pieces are larger than the path takes (`EINVAL`, `EMSGSIZE`) ends trains of that size, unless the first piece is refused
 * by itself, too: then it is the destination that is in the way. In all cases its datagrams go one by one. A single
 * datagram that is refused is dropped and counted; if it is too large (`EMSGSIZE`), its destination is told. A socket
 * without room (`EAGAIN`) keeps the rest here, and its order.
 *
 * @module
 */

import { copyBytes } from "../../base/ring_buffer.ts";
import type { Packet } from "../../base/packet.ts";
import type { Instant } from "../../base/time.ts";
import { IpAddr } from "../../wire/ip_addr.ts";
import {
  AddressFamily,
  Errno,
  errnoName,
  IOVEC_BYTES,
  MessageField,
  MessageFlag,
  MMSGHDR_BYTES,
  setU64,
  SOCKADDR_IN6_BYTES,
  SOCKADDR_IN_BYTES,
  SOCKADDR_SLOT_BYTES,
} from "./abi.ts";
import { emitSegment, emitTrafficClass, emitTxTime, SEND_CONTROL_BYTES } from "./control.ts";
import type { Libc, Memory } from "./libc.ts";

/** Datagrams that wait at most, and pieces of a train at most: what the kernel took from the beginning. */
export const SEND_LIMIT = 64;

/** The largest payload of a UDP datagram in an IPv4 packet. */
const TRAIN_BYTES = 65507;

const FLAGS: number = MessageFlag.DontWait | MessageFlag.NoSignal;

/** Told what became of datagrams. */
export interface SendObserver {
  /** The socket took `datagrams` with `bytes` together. */
  sent(datagrams: number, bytes: number): void;
  /** The system refused one datagram. */
  refused(): void;
  /** That was since it is larger than the way to `to` carries; told before `refused`. */
  tooBig(to: IpAddr): void;
}

/** How a batch is to send. */
export interface SendBatchOptions {
  /** The address family of the socket. */
  v4: boolean;
  /** The largest datagram in bytes. */
  datagramBytes: number;
  /** True to join datagrams to trains. */
  trains: boolean;
  /** What to add to an instant for a departure time of the socket's clock; `null` if it is not to be told. */
  txTimeOffset: Instant | null;
}

/** Datagrams that wait to be sent. */
export class SendBatch {
  /** Why there are no trains; empty while there are. */
  noTrains: string;
  readonly #libc: Libc;
  readonly #v4: boolean;
  readonly #observer: SendObserver;
  readonly #txTimeOffset: Instant | null;
  readonly #bytes: Memory;
  readonly #view: DataView<ArrayBuffer>;
  /** The address of `#bytes`, which also holds all structures. */
  readonly #address: number;
  readonly #payloadAt: number;
  readonly #payloadBytes: number;
  readonly #datagramBytes: number;
  /** Of each message on: the rest of the array of headers. */
  readonly #headersFrom: Memory[] = [];
  /** Of each message: offset of its bytes, how many, size of its pieces, number of its pieces, bytes of control. */
  readonly #at = new Int32Array(SEND_LIMIT);
  readonly #length = new Int32Array(SEND_LIMIT);
  readonly #segment = new Int32Array(SEND_LIMIT);
  readonly #pieces = new Int32Array(SEND_LIMIT);
  readonly #control = new Int32Array(SEND_LIMIT);
  #head = 0;
  #tail = 0;
  #used = 0;
  #datagrams = 0;
  /** Facts of the newest message. */
  #to: IpAddr = IpAddr.ANY_V4;
  #port = 0;
  #trafficClass = 0;
  #departAt: Instant = 0;
  #isOpen = false;
  /** True if the oldest message goes one by one. */
  #isSplit = false;
  #largestSegment = TRAIN_BYTES;
  /** Size of the pieces of the split train if that may be why it was refused; 0 if not, or if it is known. */
  #suspectSegment = 0;

  /** Makes an empty batch. */
  constructor(libc: Libc, observer: SendObserver, options: SendBatchOptions) {
    this.#libc = libc;
    this.#observer = observer;
    this.#v4 = options.v4;
    this.#txTimeOffset = options.txTimeOffset;
    this.noTrains = options.trains ? "" : "not asked for";
    const structures = SEND_LIMIT * (MMSGHDR_BYTES + IOVEC_BYTES + SOCKADDR_SLOT_BYTES + SEND_CONTROL_BYTES);
    this.#payloadAt = structures;
    this.#datagramBytes = options.datagramBytes;
    this.#payloadBytes = 2 * SEND_LIMIT * options.datagramBytes;
    this.#bytes = new Uint8Array(new ArrayBuffer(structures + this.#payloadBytes));
    this.#view = new DataView(this.#bytes.buffer);
    this.#address = libc.addressOf(this.#bytes);
    for (let i = 0; i < SEND_LIMIT; i++) {
      this.#headersFrom.push(this.#bytes.subarray(i * MMSGHDR_BYTES, SEND_LIMIT * MMSGHDR_BYTES));
      const header = i * MMSGHDR_BYTES;
      setU64(this.#view, header + MessageField.Name, this.#address + nameAt(i));
      this.#view.setUint32(header + MessageField.NameLength, options.v4 ? SOCKADDR_IN_BYTES : SOCKADDR_IN6_BYTES, true);
      setU64(this.#view, header + MessageField.Iovec, this.#address + iovecAt(i));
      setU64(this.#view, header + MessageField.IovecCount, 1);
      setU64(this.#view, header + MessageField.Control, this.#address + controlAt(i));
    }
  }

  /** Datagrams that wait. */
  get size(): number {
    return this.#datagrams;
  }

  /** True if it takes no more. */
  get isFull(): boolean {
    return this.#datagrams === SEND_LIMIT || this.#tail === SEND_LIMIT ||
      this.#payloadBytes - this.#used < this.#datagramBytes;
  }

  /** How many datagrams more it takes. */
  get room(): number {
    const fitting = Math.floor((this.#payloadBytes - this.#used) / this.#datagramBytes);
    return Math.min(SEND_LIMIT - this.#datagrams, SEND_LIMIT - this.#tail, fitting);
  }

  /** Copies the live range of `p` behind what waits, for an endpoint; there must be room. */
  append(p: Packet, to: IpAddr, port: number): void {
    const bytes = p.end - p.start;
    const departAt = this.#txTimeOffset === null ? 0 : p.departAt;
    const at = this.#payloadAt + this.#used;
    copyBytes(p.bytes, p.start, this.#bytes, at, bytes);
    this.#used += bytes;
    this.#datagrams++;
    if (
      this.#isOpen && bytes > 0 && bytes <= this.#segment[this.#tail - 1]! && port === this.#port &&
      p.outerTrafficClass === this.#trafficClass && departAt === this.#departAt &&
      (to === this.#to || to.equals(this.#to)) && this.#length[this.#tail - 1]! + bytes <= TRAIN_BYTES
    ) {
      this.#join(bytes);
    } else {
      this.#begin(at, bytes, to, port, p.outerTrafficClass, departAt);
    }
  }

  /** Sends what waits, as far as the socket takes it. */
  flush(fd: number): void {
    while (this.#head < this.#tail) {
      const result = this.#isSplit ? this.#sendPiece(fd) : this.#send(fd);
      if (result <= 0 && !this.#failed(result === 0 ? Errno.EAGAIN : -result)) return;
    }
    this.clear();
  }

  /** Forgets everything. */
  clear(): void {
    this.#head = 0;
    this.#tail = 0;
    this.#used = 0;
    this.#datagrams = 0;
    this.#isOpen = false;
    this.#isSplit = false;
    this.#suspectSegment = 0;
  }

  #begin(at: number, bytes: number, to: IpAddr, port: number, trafficClass: number, departAt: Instant): void {
    const i = this.#tail++;
    const view = this.#view;
    this.#to = to;
    this.#port = port;
    this.#trafficClass = trafficClass;
    this.#departAt = departAt;
    this.#at[i] = at;
    this.#length[i] = bytes;
    this.#segment[i] = bytes;
    this.#pieces[i] = 1;
    this.#isOpen = this.noTrains === "" && bytes > 0 && bytes <= this.#largestSegment;
    this.#writeName(nameAt(i), to, port);
    const control = controlAt(i);
    let end = control;
    if (trafficClass !== 0) end = emitTrafficClass(view, end, this.#v4, trafficClass);
    if (departAt > 0) end = emitTxTime(view, end, departAt + this.#txTimeOffset!);
    this.#control[i] = end - control;
    setU64(view, iovecAt(i), this.#address + at);
    view.setUint32(iovecAt(i) + 8, bytes, true);
    view.setUint32(i * MMSGHDR_BYTES + MessageField.ControlLength, end - control, true);
  }

  #join(bytes: number): void {
    const i = this.#tail - 1;
    const segment = this.#segment[i]!;
    const length = this.#length[i]! + bytes;
    const pieces = ++this.#pieces[i]!;
    this.#length[i] = length;
    this.#view.setUint32(iovecAt(i) + 8, length, true);
    if (pieces === 2) {
      // Last, so that it can be left off.
      const end = emitSegment(this.#view, controlAt(i) + this.#control[i]!, segment);
      this.#view.setUint32(i * MMSGHDR_BYTES + MessageField.ControlLength, end - controlAt(i), true);
    }
    if (bytes < segment || pieces === SEND_LIMIT || length + segment > TRAIN_BYTES) this.#isOpen = false;
  }

  #send(fd: number): number {
    const result = this.#libc.sendmmsg(fd, this.#headersFrom[this.#head]!, this.#tail - this.#head, FLAGS);
    for (let n = 0; n < result; n++) {
      const i = this.#head++;
      this.#datagrams -= this.#pieces[i]!;
      this.#observer.sent(this.#pieces[i]!, this.#length[i]!);
    }
    return result;
  }

  /** Sends the first piece of the oldest message as a datagram of its own. */
  #sendPiece(fd: number): number {
    const i = this.#head;
    const bytes = Math.min(this.#segment[i]!, this.#length[i]!);
    const result = this.#libc.sendmmsg(fd, this.#headersFrom[i]!, 1, FLAGS);
    if (result > 0) {
      if (this.#suspectSegment > 0) this.#largestSegment = Math.min(this.#largestSegment, this.#suspectSegment - 1);
      this.#suspectSegment = 0;
      this.#observer.sent(1, bytes);
      this.#skipPiece();
    }
    return result;
  }

  /** Has the oldest message go one by one from here on. */
  #split(): void {
    const i = this.#head;
    this.#isSplit = true;
    this.#isOpen &&= this.#tail - 1 !== i;
    this.#view.setUint32(i * MMSGHDR_BYTES + MessageField.ControlLength, this.#control[i]!, true);
    this.#view.setUint32(iovecAt(i) + 8, this.#segment[i]!, true);
  }

  /** Leaves the first piece of the oldest message behind. */
  #skipPiece(): void {
    const i = this.#head;
    const bytes = Math.min(this.#segment[i]!, this.#length[i]!);
    this.#datagrams--;
    this.#at[i]! += bytes;
    this.#length[i]! -= bytes;
    if (--this.#pieces[i]! === 0) {
      this.#head++;
      this.#isSplit = false;
      return;
    }
    setU64(this.#view, iovecAt(i), this.#address + this.#at[i]!);
    this.#view.setUint32(iovecAt(i) + 8, Math.min(this.#segment[i]!, this.#length[i]!), true);
  }

  /** Deals with an error in sending the oldest message; false if the socket has no room. */
  #failed(errno: number): boolean {
    const i = this.#head;
    if (errno === Errno.EAGAIN) return false;
    if (errno === Errno.EINTR) return true;
    if (this.#pieces[i]! > 1 && !this.#isSplit) {
      if (errno === Errno.EIO) this.noTrains = "the device cannot finish checksums (EIO)";
      else if (errno === Errno.EINVAL || errno === Errno.EMSGSIZE) this.#suspectSegment = this.#segment[i]!;
      else if (errno === Errno.ENOPROTOOPT || errno === Errno.ENOSYS) this.noTrains = errnoName(errno);
      this.#split();
      return true;
    }
    this.#suspectSegment = 0;
    if (errno === Errno.EMSGSIZE) this.#observer.tooBig(this.#readName(nameAt(i)));
    this.#observer.refused();
    this.#isSplit = true;
    this.#skipPiece();
    return true;
  }

  #readName(at: number): IpAddr {
    const word = (i: number): number => this.#view.getInt32(at + 4 + 4 * i);
    return this.#v4 ? IpAddr.v4(word(0)) : new IpAddr(word(1), word(2), word(3), word(4));
  }

  #writeName(at: number, to: IpAddr, port: number): void {
    const view = this.#view;
    view.setUint16(at, this.#v4 ? AddressFamily.Inet : AddressFamily.Inet6, true);
    view.setUint16(at + 2, port);
    if (this.#v4) {
      view.setInt32(at + 4, to.w3);
    } else {
      view.setInt32(at + 8, to.w0);
      view.setInt32(at + 12, to.w1);
      view.setInt32(at + 16, to.w2);
      view.setInt32(at + 20, to.w3);
    }
  }
}

const IOVECS_AT: number = SEND_LIMIT * MMSGHDR_BYTES;
const NAMES_AT: number = IOVECS_AT + SEND_LIMIT * IOVEC_BYTES;
const CONTROLS_AT: number = NAMES_AT + SEND_LIMIT * SOCKADDR_SLOT_BYTES;

function iovecAt(i: number): number {
  return IOVECS_AT + i * IOVEC_BYTES;
}

function nameAt(i: number): number {
  return NAMES_AT + i * SOCKADDR_SLOT_BYTES;
}

function controlAt(i: number): number {
  return CONTROLS_AT + i * SEND_CONTROL_BYTES;
}
