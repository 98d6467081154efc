/**
 * What the system knows of its way to an address: how large a packet gets there, and which address it sends from.
 *
 * A socket is connected there, which sends nothing, and asked. The answer is that of the routes and of what the kernel has
 * learned of the path since (RFC 1191, RFC 8201), and only of the part of the way that it knows.
 *
 * References: ip(7), `IP_MTU`; ipv6(7), `IPV6_MTU`; connect(2), `AF_UNSPEC`.
 *
 * @module
 */

import { IpAddr } from "../../wire/ip_addr.ts";
import {
  AddressFamily,
  IpOption,
  Ipv6Option,
  Level,
  SOCKADDR_IN6_BYTES,
  SOCKADDR_IN_BYTES,
  SOCKET_TYPE,
} from "./abi.ts";
import type { Libc, Memory } from "./libc.ts";
import { socketAddress } from "./linux_port.ts";

/** The system's way to an address. */
export interface SystemRoute {
  /** The largest packet that gets there in bytes, as far as is known. */
  readonly mtu: number;
  /** The address that is sent from. */
  readonly source: IpAddr;
}

/** Asks the system for its ways. */
export class RouteProbe {
  readonly #libc: Libc;
  readonly #fds = new Map<4 | 6, number>();

  /** Takes the C library, which it releases when it is closed. */
  constructor(libc: Libc) {
    this.#libc = libc;
  }

  /** The way to an address, or `null` if there is none, or none is known. */
  route(to: IpAddr): SystemRoute | null {
    const fd = this.#socket(to.version);
    if (fd < 0) return null;
    const libc = this.#libc;
    const name: Memory = new Uint8Array(new ArrayBuffer(to.isV4 ? SOCKADDR_IN_BYTES : SOCKADDR_IN6_BYTES));
    // A socket that was connected keeps its address otherwise.
    new DataView(name.buffer).setUint16(0, AddressFamily.Unspecified, true);
    libc.connect(fd, name);
    if (libc.connect(fd, socketAddress(to, DISCARD_PORT)) < 0) return null;
    const value: Memory = new Uint8Array(new ArrayBuffer(4));
    const [level, option] = to.isV4 ? [Level.Ip, IpOption.Mtu] : [Level.Ipv6, Ipv6Option.Mtu];
    if (libc.getsockopt(fd, level, option, value) < 0 || libc.getsockname(fd, name) < 0) return null;
    const view = new DataView(name.buffer);
    const word = (i: number): number => view.getInt32(4 + 4 * i);
    const source = to.isV4 ? IpAddr.v4(word(0)) : new IpAddr(word(1), word(2), word(3), word(4));
    return { mtu: new DataView(value.buffer).getInt32(0, true), source };
  }

  /** Closes its sockets. */
  close(): void {
    for (const fd of this.#fds.values()) this.#libc.close(fd);
    this.#fds.clear();
    this.#libc.release();
  }

  #socket(version: 4 | 6): number {
    let fd = this.#fds.get(version);
    if (fd === undefined) {
      fd = this.#libc.socket(version === 4 ? AddressFamily.Inet : AddressFamily.Inet6, SOCKET_TYPE);
      if (fd >= 0) this.#fds.set(version, fd);
    }
    return fd;
  }
}

const DISCARD_PORT = 9;
