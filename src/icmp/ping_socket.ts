/**
 * A ping socket: echo requests to one host, and what comes back.
 *
 * Each request is remembered under its sequence number with the departure time that it was stamped with; the round-trip
 * time is counted from that stamp, as TCP does it. A request ends in one result: a reply, an ICMP error that quotes it,
 * or a timeout. Further replies to it are results too, marked as duplicates; a reply after the timeout is ignored.
 *
 * The last 256 requests are remembered; one that still waits when its place is needed counts as timed out. At most 256
 * results wait to be received; more are dropped and counted.
 *
 * @module
 */

import type { EventSource } from "../base/event_queue.ts";
import type { SocketErrorKind } from "../base/errors.ts";
import { type Duration, type Instant, NEVER } from "../base/time.ts";
import { ICMP_HEADER_BYTES } from "../wire/icmp.ts";
import type { IpAddr } from "../wire/ip_addr.ts";
import { ipHeaderBytes } from "../wire/ip_header.ts";

/** Requests that a socket remembers. */
export const PING_SLOTS = 256;

/** Results that may wait to be received. */
export const PING_RESULTS_MAX = 256;

/** How an echo request ended. */
export enum PingOutcome {
  /** The host answered. */
  Reply = 0,
  /** Somebody answered with an ICMP error. */
  Error,
  /** Nobody answered in time. */
  Timeout,
}

/** The end of one echo request. */
export interface PingResult {
  /** How it ended. */
  readonly outcome: PingOutcome;
  /** Sequence number of the request. */
  readonly seq: number;
  /** From the request's departure to this, in nanoseconds. */
  readonly rtt: Duration;
  /** Who answered; the remote host in a timeout. */
  readonly from: IpAddr;
  /** TTL or hop limit that the answer arrived with; 0 in a timeout. */
  readonly ttl: number;
  /** Bytes of data in a reply, else 0. */
  readonly dataBytes: number;
  /** Type of the ICMP (for IPv6: ICMPv6) message; 0 in a timeout. */
  readonly type: number;
  /** Code of the message; 0 in a timeout. */
  readonly code: number;
  /** The next hop's MTU, if the error tells it, else 0. */
  readonly mtu: number;
  /** True for a further reply to the same request. */
  readonly duplicate: boolean;
}

/** What a ping socket needs of the ICMP layer that made it. */
export interface PingHost {
  /** Sends one echo request of `socket`. */
  sendEcho(socket: PingSocket, seq: number, dataBytes: number, ttl: number, now: Instant): SocketErrorKind;
  /** Sets the deadline of a slot of `socket`; `NEVER` clears it. */
  setDeadline(socket: PingSocket, slot: number, deadline: Instant): void;
  /** Raises "readable" on `socket`. */
  raiseReadable(socket: PingSocket): void;
  /** Forgets `socket`. */
  closePing(socket: PingSocket): void;
}

enum SlotState {
  Free = 0,
  Waiting,
  Done,
}

/** Echo requests to one host. Made by {@linkcode Icmp.openPing}. */
export class PingSocket implements EventSource {
  /** Bits raised and not yet polled. */
  events = 0;
  /** True while the socket is in the event queue. */
  eventQueued = false;
  /** Whoever wants to know. */
  user: unknown = null;
  /** The host that is pinged. */
  readonly remoteAddress: IpAddr;
  /** The own address that requests come from. */
  readonly localAddress: IpAddr;
  /** The identifier of the requests. */
  readonly id: number;
  /** The socket's place in the ICMP layer's table. */
  readonly index: number;
  /** Requests sent. */
  sent = 0;
  /** Requests that were answered by the host. */
  received = 0;
  /** Further replies. */
  duplicates = 0;
  /** Requests that ended in an ICMP error. */
  errors = 0;
  /** Requests that nobody answered in time. */
  timeouts = 0;
  /** Results dropped because nobody received them. */
  overflowed = 0;
  /** True once closed. */
  closed = false;
  readonly #host: PingHost;
  readonly #seqs = new Int32Array(PING_SLOTS);
  readonly #sentAt = new Float64Array(PING_SLOTS);
  readonly #states = new Uint8Array(PING_SLOTS);
  /** Length of each request as an IP packet. */
  readonly #packetBytes = new Int32Array(PING_SLOTS);
  #results: PingResult[] = [];

  /** Made by the ICMP layer only. */
  constructor(host: PingHost, index: number, id: number, local: IpAddr, remote: IpAddr) {
    this.#host = host;
    this.index = index;
    this.id = id;
    this.localAddress = local;
    this.remoteAddress = remote;
  }

  /**
   * Sends an echo request.
   *
   * @param seq sequence number, 0 to 65,535; count up, since the request 256 before it is given up
   * @param dataBytes bytes of data behind the ICMP header
   * @param ttl TTL or hop limit, 1 to 255
   * @param now the time
   * @param replyBy when to give up waiting (default never)
   * @returns `None`, or why the request was not sent: `MessageTooLong`, `HostUnreachable`, `NoBufferSpace`,
   * `BadResource` (closed)
   * @throws {RangeError} if a number is out of its range
   */
  send(seq: number, dataBytes: number, ttl: number, now: Instant, replyBy: Instant = NEVER): SocketErrorKind {
    checkRange("sequence number", seq, 0, 0xffff);
    checkRange("number of data bytes", dataBytes, 0, 0xffff);
    checkRange("TTL", ttl, 1, 255);
    const reason = this.#host.sendEcho(this, seq, dataBytes, ttl, now);
    if (reason !== 0) return reason;
    const slot = seq % PING_SLOTS;
    if (this.#states[slot] === SlotState.Waiting) this.timeOut(slot, now);
    this.#seqs[slot] = seq;
    this.#sentAt[slot] = now;
    this.#packetBytes[slot] = ipHeaderBytes(this.remoteAddress.version) + ICMP_HEADER_BYTES + dataBytes;
    this.#states[slot] = SlotState.Waiting;
    this.sent++;
    this.#host.setDeadline(this, slot, replyBy);
    return reason;
  }

  /** The oldest result not yet received, or `null`. */
  receive(): PingResult | null {
    return this.#results.shift() ?? null;
  }

  /** Forgets all requests and results; replies that still come are ignored. */
  close(): void {
    if (this.closed) return;
    this.closed = true;
    for (let slot = 0; slot < PING_SLOTS; slot++) this.#host.setDeadline(this, slot, NEVER);
    this.#results = [];
    this.#host.closePing(this);
  }

  /** Told of a reply to request `seq`; false if there is no such request. */
  onReply(seq: number, from: IpAddr, ttl: number, type: number, dataBytes: number, now: Instant): boolean {
    const slot = seq % PING_SLOTS;
    const state = this.#states[slot]!;
    if (state === SlotState.Free || this.#seqs[slot] !== seq) return false;
    const duplicate = state === SlotState.Done;
    if (duplicate) this.duplicates++;
    else this.received++;
    this.#states[slot] = SlotState.Done;
    this.#host.setDeadline(this, slot, NEVER);
    const rtt = now - this.#sentAt[slot]!;
    this.#add({ outcome: PingOutcome.Reply, seq, rtt, from, ttl, dataBytes, type, code: 0, mtu: 0, duplicate });
    return true;
  }

  /** Length in bytes of the IP packet that request `seq` left in, if it waits for an answer; else 0. */
  waitingBytes(seq: number): number {
    const slot = seq % PING_SLOTS;
    return this.#states[slot] === SlotState.Waiting && this.#seqs[slot] === seq ? this.#packetBytes[slot]! : 0;
  }

  /** Told of an ICMP error that quotes request `seq`; false if no such request is waiting. */
  onError(
    seq: number,
    from: IpAddr,
    ttl: number,
    type: number,
    code: number,
    mtu: number,
    now: Instant,
  ): boolean {
    if (this.waitingBytes(seq) === 0) return false;
    const slot = seq % PING_SLOTS;
    this.#states[slot] = SlotState.Done;
    this.#host.setDeadline(this, slot, NEVER);
    this.errors++;
    const rtt = now - this.#sentAt[slot]!;
    this.#add({ outcome: PingOutcome.Error, seq, rtt, from, ttl, dataBytes: 0, type, code, mtu, duplicate: false });
    return true;
  }

  /** Told that the deadline of a slot has come. */
  timeOut(slot: number, now: Instant): void {
    if (this.#states[slot] !== SlotState.Waiting) return;
    this.#states[slot] = SlotState.Free;
    this.#host.setDeadline(this, slot, NEVER);
    this.timeouts++;
    this.#add({
      outcome: PingOutcome.Timeout,
      seq: this.#seqs[slot]!,
      rtt: now - this.#sentAt[slot]!,
      from: this.remoteAddress,
      ttl: 0,
      dataBytes: 0,
      type: 0,
      code: 0,
      mtu: 0,
      duplicate: false,
    });
  }

  #add(result: PingResult): void {
    if (this.#results.length >= PING_RESULTS_MAX) {
      this.overflowed++;
      return;
    }
    this.#results.push(result);
    this.#host.raiseReadable(this);
  }
}

function checkRange(what: string, n: number, least: number, most: number): void {
  if (!Number.isInteger(n) || n < least || n > most) {
    throw new RangeError(`the ${what} must be an integer from ${least} to ${most}, got ${n}`);
  }
}
