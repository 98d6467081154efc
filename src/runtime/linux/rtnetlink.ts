/**
 * The part of rtnetlink that a device of our own needs: its MTU, addresses and routes, in place of the `ip` command.
 *
 * ```text
 *   nlmsghdr   length u32 │ type u16 │ flags u16 │ sequence u32 │ port u32
 *   ifinfomsg  family u8 │ 0 │ type u16 │ index i32 │ flags u32 │ which flags u32
 *   ifaddrmsg  family u8 │ prefix length u8 │ flags u8 │ scope u8 │ index u32
 *   rtmsg      family u8 │ lengths of destination and source u8 │ tos u8 │ table u8 │ protocol u8 │ scope u8 │ type u8 │ flags u32
 *   attribute  length u16, with these 4 bytes │ type u16 │ data, padded to 4
 * ```
 *
 * One request at a time, each acknowledged: the kernel has done it, or says why not, by the time that writing it
 * returns. What has another sequence number than the request is no answer to it, and left out. Everything here needs
 * CAP_NET_ADMIN in the network namespace of the process, but for the counters.
 *
 * Reference: the kernel's include/uapi (netlink.h, rtnetlink.h, if_link.h, if_addr.h), RFC 3549.
 *
 * @module
 */

import type { IpAddr, IpInterface, IpPrefix } from "../../wire/ip_addr.ts";
import { AddressFamily, Errno, getU64, SOCKET_TYPE } from "./abi.ts";
import { callError, type Libc, type Memory } from "./libc.ts";

const AF_NETLINK = 16;

const MessageType = { Error: 2, NewLink: 16, GetLink: 18, NewAddress: 20, NewRoute: 24 } as const;

/** A request that is acknowledged. */
const REQUEST = 0x1 | 0x4;

/** Make it, and refuse if it is there. */
const CREATE = 0x400 | 0x200;

const HEADER_BYTES = 16;

const LINK_BYTES = 16;
const LINK_UP = 1;
const LINK_MTU = 4;
const LINK_QUEUE = 13;
const LINK_STATS = 23;

/** Where the packets that could not be sent stand in the counters of a link. */
const STATS_TX_DROPPED = 7 * 8;

const ADDRESS_ADDRESS = 1;
const ADDRESS_LOCAL = 2;

/** Usable at once: nobody else can have the address on a link that leads to us alone. */
const ADDRESS_NO_DAD = 0x02;

const ROUTE_DESTINATION = 1;
const ROUTE_DEVICE = 4;
const ROUTE_TABLE_MAIN = 254;
const ROUTE_PROTOCOL_STATIC = 4;
const ROUTE_SCOPE_LINK = 253;
const ROUTE_UNICAST = 1;

/** Messages that are read at most for one request: answers to earlier ones may be in front of its own. */
const ANSWERS = 64;

/** More than any answer about one link has. */
const ANSWER_BYTES = 32_768;

/** A socket to the kernel's network configuration. */
export class RtNetlink {
  /** The socket; good for what `ioctl` does with sockets, too. */
  readonly fd: number;
  readonly #libc: Libc;
  readonly #message: Memory = new Uint8Array(new ArrayBuffer(512));
  readonly #view: DataView = new DataView(this.#message.buffer);
  readonly #answer: Memory = new Uint8Array(new ArrayBuffer(ANSWER_BYTES));
  readonly #answerView: DataView = new DataView(this.#answer.buffer);
  #length = 0;
  #sequence = 0;

  /**
   * Opens a socket.
   *
   * @param libc the C library, which stays with the caller
   * @throws {Error} if the system refuses it
   */
  constructor(libc: Libc) {
    this.#libc = libc;
    this.fd = libc.socket(AF_NETLINK, SOCKET_TYPE);
    if (this.fd < 0) throw callError("socket(AF_NETLINK)", this.fd);
  }

  /**
   * Brings a link up.
   *
   * @param mtu its MTU in bytes
   * @param queuePackets packets that may wait to be sent
   * @throws {Error} with the kernel's `code`
   */
  setUp(ifindex: number, mtu: number, queuePackets: number): void {
    this.#begin(MessageType.NewLink, REQUEST, LINK_BYTES);
    this.#view.setInt32(HEADER_BYTES + 4, ifindex, true);
    this.#view.setUint32(HEADER_BYTES + 8, LINK_UP, true);
    this.#view.setUint32(HEADER_BYTES + 12, LINK_UP, true);
    this.#attributeU32(LINK_MTU, mtu);
    this.#attributeU32(LINK_QUEUE, queuePackets);
    this.#request(`setting the MTU to ${mtu} and the link up`);
  }

  /**
   * Gives a link an address; the network of its prefix is then on that link.
   *
   * @throws {Error} with the kernel's `code`
   */
  addAddress(ifindex: number, own: IpInterface): void {
    const { address, prefix } = own;
    this.#begin(MessageType.NewAddress, REQUEST | CREATE, 8);
    this.#message[HEADER_BYTES] = familyOf(address);
    this.#message[HEADER_BYTES + 1] = prefix.length;
    this.#message[HEADER_BYTES + 2] = address.isV4 ? 0 : ADDRESS_NO_DAD;
    this.#view.setUint32(HEADER_BYTES + 4, ifindex, true);
    this.#attributeAddress(ADDRESS_LOCAL, address);
    this.#attributeAddress(ADDRESS_ADDRESS, address);
    this.#request(`adding the address ${own}`);
  }

  /**
   * Adds a route that leads to a link, which has to be up.
   *
   * @throws {Error} with the kernel's `code`
   */
  addRoute(ifindex: number, to: IpPrefix): void {
    this.#begin(MessageType.NewRoute, REQUEST | CREATE, 12);
    this.#message.set([familyOf(to.address), to.length, 0, 0, ROUTE_TABLE_MAIN, ROUTE_PROTOCOL_STATIC], HEADER_BYTES);
    this.#message[HEADER_BYTES + 6] = to.address.isV4 ? ROUTE_SCOPE_LINK : 0;
    this.#message[HEADER_BYTES + 7] = ROUTE_UNICAST;
    this.#attributeAddress(ROUTE_DESTINATION, to.address);
    this.#attributeU32(ROUTE_DEVICE, ifindex);
    this.#request(`adding the route to ${to}`);
  }

  /** Packets that could not be sent by a link since they were too many, or `null` if that cannot be known. */
  sendDrops(ifindex: number): number | null {
    this.#begin(MessageType.GetLink, REQUEST, LINK_BYTES);
    this.#view.setInt32(HEADER_BYTES + 4, ifindex, true);
    if (this.#write() < 0) return null;
    let drops: number | null = null;
    // The answer, then the acknowledgment.
    for (let n = this.#readAnswer(); n > 0; n = this.#readAnswer()) {
      const view = this.#answerView;
      if (view.getUint16(4, true) !== MessageType.NewLink) break;
      const end = Math.min(n, view.getUint32(0, true));
      for (let at = HEADER_BYTES + LINK_BYTES; at + 4 <= end;) {
        const bytes = view.getUint16(at, true);
        if (bytes < 4 || at + bytes > end) break;
        if (view.getUint16(at + 2, true) === LINK_STATS && bytes >= 4 + STATS_TX_DROPPED + 8) {
          drops = getU64(view, at + 4 + STATS_TX_DROPPED);
        }
        at += (bytes + 3) & ~3;
      }
    }
    return drops;
  }

  /** Closes the socket. */
  close(): void {
    this.#libc.close(this.fd);
  }

  #begin(type: number, flags: number, fixedBytes: number): void {
    this.#message.fill(0);
    this.#view.setUint16(4, type, true);
    this.#view.setUint16(6, flags, true);
    this.#sequence = (this.#sequence + 1) >>> 0;
    this.#view.setUint32(8, this.#sequence, true);
    this.#length = HEADER_BYTES + fixedBytes;
  }

  #attribute(type: number, dataBytes: number): number {
    const at = this.#length;
    this.#view.setUint16(at, 4 + dataBytes, true);
    this.#view.setUint16(at + 2, type, true);
    this.#length = at + 4 + ((dataBytes + 3) & ~3);
    return at + 4;
  }

  #attributeU32(type: number, value: number): void {
    this.#view.setUint32(this.#attribute(type, 4), value, true);
  }

  #attributeAddress(type: number, address: IpAddr): void {
    if (address.isV4) return void this.#view.setInt32(this.#attribute(type, 4), address.w3);
    const at = this.#attribute(type, 16);
    [address.w0, address.w1, address.w2, address.w3].forEach((word, i) => this.#view.setInt32(at + 4 * i, word));
  }

  #request(doing: string): void {
    const written = this.#write();
    if (written < 0) throw callError(doing, written);
    const n = this.#readAnswer();
    const isAnswer = n >= HEADER_BYTES + 4 && this.#answerView.getUint16(4, true) === MessageType.Error;
    const result = n < 0 ? n : isAnswer ? this.#answerView.getInt32(HEADER_BYTES, true) : -Errno.EIO;
    if (result < 0) throw callError(doing, result);
  }

  #write(): number {
    this.#view.setUint32(0, this.#length, true);
    return this.#libc.write(this.fd, this.#message, this.#length);
  }

  /** Reads what answers the last request; how many bytes it has, or a negative error number. */
  #readAnswer(): number {
    for (let messages = 0; messages < ANSWERS; messages++) {
      const n = this.#libc.read(this.fd, this.#answer);
      if (n < 0) return n;
      if (n >= HEADER_BYTES && this.#answerView.getUint32(8, true) === this.#sequence) return n;
    }
    return -Errno.EIO;
  }
}

function familyOf(address: IpAddr): number {
  return address.isV4 ? AddressFamily.Inet : AddressFamily.Inet6;
}
