/**
 * Binding one port in one or both address families.
 *
 * @module
 */

import { SocketErrorKind } from "../base/errors.ts";
import type { IpAddr } from "../wire/ip_addr.ts";

/** Tries of a free port that another family has taken. */
const BIND_TRIES = 16;

/**
 * Binds the same port of several addresses.
 *
 * @param port 0 for one that is free on all of them
 * @returns what was bound, or why not; then nothing is bound
 */
export function bindAll<T extends { readonly localPort: number }>(
  addresses: readonly IpAddr[],
  port: number,
  bind: (address: IpAddr, port: number) => T | SocketErrorKind,
  close: (bound: T) => void,
): T[] | SocketErrorKind {
  for (let left = BIND_TRIES;; left--) {
    const bound: T[] = [];
    let refusal = SocketErrorKind.None;
    for (const address of addresses) {
      const one = bind(address, bound[0]?.localPort ?? port);
      if (typeof one === "number") {
        refusal = one;
        break;
      }
      bound.push(one);
    }
    if (refusal === SocketErrorKind.None) return bound;
    for (const one of bound) close(one);
    const mayRetry = port === 0 && bound.length > 0 && refusal === SocketErrorKind.AddrInUse;
    if (!mayRetry || left === 0) return refusal;
  }
}

/** Why a port could not be bound, in words. */
export function explainBind(kind: SocketErrorKind): string {
  switch (kind) {
    case SocketErrorKind.AddrInUse:
      return "the port is taken";
    case SocketErrorKind.AddrNotAvailable:
      return "the address is not one of this host, or no port is free";
    default:
      return "this host has as many sockets as it may have";
  }
}
