/**
 * The network under a transport in a test: two own addresses, one MTU, and a list of what was sent.
 *
 * @module
 */

import { DropReason } from "../../src/base/drop.ts";
import { EventQueue } from "../../src/base/event_queue.ts";
import type { Packet } from "../../src/base/packet.ts";
import { PacketList } from "../../src/base/packet_list.ts";
import type { Instant } from "../../src/base/time.ts";
import { IpAddr } from "../../src/wire/ip_addr.ts";
import { emitIp, IpHeader, ipHeaderBytes, parseIp } from "../../src/wire/ip_header.ts";
import { TestPool } from "./ip_packets.ts";

/** A network that keeps what is sent. */
export class TransportNetwork extends TestPool {
  /** Events raised. */
  readonly events: EventQueue = new EventQueue();
  /** Packets sent, each with its IP header. */
  readonly sent: PacketList = new PacketList();
  /** Own addresses. */
  readonly own: IpAddr[] = [IpAddr.parse("10.7.0.1"), IpAddr.parse("fd07::1")];
  /** The MTU to everywhere; 0 for no route. */
  mtu = 1500;
  /** The path MTU that was learnt. */
  pathMtu = Infinity;
  /** Size of the packet that was too large for it. */
  tooBigBytes = 0;
  /** What `output` answers. */
  answer: DropReason = DropReason.None;
  readonly #ip = new IpHeader();

  /** An empty packet. */
  acquire(): Packet | null {
    return this.pool.acquire();
  }

  /** Frees a packet. */
  release(p: Packet): void {
    this.pool.release(p);
  }

  /** True for an own address. */
  isLocal(address: IpAddr): boolean {
    return this.own.some((own) => own.equals(address));
  }

  /** The first own address of the family. */
  sourceFor(destination: IpAddr): IpAddr | null {
    return this.own.find((own) => own.version === destination.version) ?? null;
  }

  /** The MTU. */
  mtuTo(_destination: IpAddr): number {
    return this.mtu;
  }

  /** The path MTU, if one was learnt, else the MTU. */
  pathMtuTo(_destination: IpAddr, _now: Instant): number {
    return Math.min(this.mtu, this.pathMtu);
  }

  /** Keeps the path MTU, for all destinations, and what was said to have been too large for it. */
  learnPathMtu(_w0: number, _w1: number, _w2: number, _w3: number, mtu: number, bytes: number, _now: Instant): void {
    this.pathMtu = mtu;
    this.tooBigBytes = bytes;
  }

  /** An empty large packet. */
  acquireLarge(): Packet | null {
    return this.pool.acquireLarge();
  }

  /** Prepends the IP header and keeps the packet. */
  output(p: Packet, ip: IpHeader, _now: Instant): DropReason {
    if (this.answer !== DropReason.None) return this.answer;
    ip.payloadLength = p.length;
    p.l4 = p.start;
    p.start -= ipHeaderBytes(ip.version);
    emitIp(p.view, p.start, ip);
    this.sent.push(p);
    return DropReason.None;
  }

  /** Reads a packet's IP header as the IP layer does; the record is reused. */
  parse(p: Packet): IpHeader {
    const reason = parseIp(p.view, p.start, p.end, this.#ip);
    if (reason !== DropReason.None) throw new Error(`bad test packet: ${DropReason[reason]}`);
    p.l4 = p.start + this.#ip.headerLength;
    p.end = p.l4 + this.#ip.payloadLength;
    return this.#ip;
  }

  /** Frees what was sent. */
  freeSent(): void {
    for (let p = this.sent.shift(); p !== null; p = this.sent.shift()) this.pool.release(p);
  }
}
