/**
 * Symbols and values of system calls.
 *
 * @module
 */

import { SocketErrorKind } from "../../src/base/errors.ts";
import type { Value } from "./format.ts";

/** Numbers of the symbols that are used as numbers (those of Linux; only their names are compared elsewhere). */
const SYMBOLS: Record<string, number> = {
  SOCK_STREAM: 1,
  SOCK_NONBLOCK: 0o4000,
  SOCK_CLOEXEC: 0o2000000,
  O_RDONLY: 0,
  O_WRONLY: 1,
  O_RDWR: 2,
  O_NONBLOCK: 0o4000,
  SHUT_RD: 0,
  SHUT_WR: 1,
  SHUT_RDWR: 2,
  MSG_OOB: 1,
  MSG_PEEK: 2,
  MSG_TRUNC: 0x20,
  MSG_DONTWAIT: 0x40,
  MSG_WAITALL: 0x100,
  MSG_NOSIGNAL: 0x4000,
  MSG_MORE: 0x8000,
  POLLIN: 1,
  POLLPRI: 2,
  POLLOUT: 4,
  POLLERR: 8,
  POLLHUP: 16,
  POLLNVAL: 32,
  POLLRDNORM: 64,
  POLLWRNORM: 256,
  POLLRDHUP: 0x2000,
  EPIPE: 32,
  EAGAIN: 11,
  EBADF: 9,
  EINVAL: 22,
  ENOPROTOOPT: 92,
  EMSGSIZE: 90,
  EADDRINUSE: 98,
  EADDRNOTAVAIL: 99,
  ENETUNREACH: 101,
  ECONNABORTED: 103,
  ECONNRESET: 104,
  ENOBUFS: 105,
  EISCONN: 106,
  ENOTCONN: 107,
  ETIMEDOUT: 110,
  ECONNREFUSED: 111,
  EHOSTUNREACH: 113,
  EALREADY: 114,
  EINPROGRESS: 115,
};

/** An argument that this kernel of a runner makes nothing of. */
export class ValueError extends Error {
  override name = "ValueError";
}

/** The number of a symbol. */
export function symbol(name: string): number {
  const n = SYMBOLS[name];
  if (n === undefined) throw new ValueError(`${name} is not known`);
  return n;
}

/** A value as a number. */
export function toNumber(value: Value | undefined): number {
  if (typeof value === "number") return value;
  if (typeof value === "object" && value !== null) {
    if ("sym" in value) return symbol(value.sym);
    if ("or" in value) return value.or.reduce((bits: number, part) => bits | toNumber(part), 0);
  }
  throw new ValueError(`${valueText(value)} is not a number`);
}

/** A value as the name of a symbol. */
export function toName(value: Value | undefined): string {
  if (typeof value === "object" && value !== null && "sym" in value) return value.sym;
  throw new ValueError(`${valueText(value)} is not a name`);
}

/** The elements of an array. */
export function toArray(value: Value | undefined): Value[] {
  if (typeof value === "object" && value !== null && "array" in value) return value.array;
  throw new ValueError(`${valueText(value)} is not an array`);
}

/** True if the value says that anything will do. */
export function isAny(value: Value | undefined): boolean {
  return typeof value === "object" && value !== null && "any" in value;
}

/** A value in words. */
export function valueText(value: Value | undefined): string {
  if (value === undefined) return "nothing";
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if ("any" in value) return "...";
  if ("sym" in value) return value.sym;
  if ("or" in value) return value.or.map(valueText).join("|");
  if ("array" in value) return `[${value.array.map(valueText).join(", ")}]`;
  return `{${Object.entries(value.fields).map(([key, entry]) => `${key}=${valueText(entry)}`).join(", ")}}`;
}

/** The errno of an error of ours. */
export const ERRNO: Record<SocketErrorKind, string> = {
  [SocketErrorKind.None]: "",
  [SocketErrorKind.ConnectionRefused]: "ECONNREFUSED",
  [SocketErrorKind.ConnectionReset]: "ECONNRESET",
  [SocketErrorKind.ConnectionAborted]: "ECONNABORTED",
  [SocketErrorKind.TimedOut]: "ETIMEDOUT",
  [SocketErrorKind.AddrInUse]: "EADDRINUSE",
  [SocketErrorKind.AddrNotAvailable]: "EADDRNOTAVAIL",
  [SocketErrorKind.HostUnreachable]: "EHOSTUNREACH",
  [SocketErrorKind.BrokenPipe]: "EPIPE",
  [SocketErrorKind.NotConnected]: "ENOTCONN",
  [SocketErrorKind.BadResource]: "EBADF",
  [SocketErrorKind.MessageTooLong]: "EMSGSIZE",
  [SocketErrorKind.NoBufferSpace]: "ENOBUFS",
};
