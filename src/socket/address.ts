/**
 * Addresses as the sockets' users write and read them.
 *
 * @module
 */

import { IpAddr } from "../wire/ip_addr.ts";

/** An address of a socket, in Deno's shape. */
export interface NetAddr {
  /** Which protocol. */
  transport: "tcp" | "udp";
  /** The IP address as text. */
  hostname: string;
  /** The port. */
  port: number;
}

/**
 * The IP address that a user gave; IPv6 may stand in brackets. Names are not looked up: they belong to the network
 * outside, and the addresses here to the one inside.
 *
 * @throws {TypeError} if it is no IP address
 */
export function parseHostname(hostname: string): IpAddr {
  const bare = /^\[(.*)\]$/.exec(hostname)?.[1] ?? hostname;
  try {
    return IpAddr.parse(bare);
  } catch {
    throw new TypeError(
      `"${hostname}" is no IP address: names are not looked up here, give one like 10.7.0.2 or fd07::2`,
    );
  }
}
