/**
 * What can go wrong with a socket, as values.
 *
 * The core neither throws nor rejects for what the network does: it stores a kind and a sentence. The layer that has
 * promises turns them into the error classes of its runtime (`Deno.errors.ConnectionRefused` and so on) by a function
 * that it is given.
 *
 * @module
 */

/** Why a socket failed, or why a call was refused. */
export enum SocketErrorKind {
  /** No error. */
  None = 0,
  /** The peer answered the connection attempt with a reset, or ICMP said that nobody is there. */
  ConnectionRefused,
  /** The peer reset an established connection. */
  ConnectionReset,
  /** We aborted the connection ourselves. */
  ConnectionAborted,
  /** Retransmissions, probes or the connection attempt got no answer in time. */
  TimedOut,
  /** The local address and port are taken. */
  AddrInUse,
  /** The local address is not ours, or no port is free. */
  AddrNotAvailable,
  /** No route leads there. */
  HostUnreachable,
  /** The write side is closed already. */
  BrokenPipe,
  /** The socket is not connected. */
  NotConnected,
  /** The socket or its host was closed. */
  BadResource,
  /** Larger than a datagram may be. */
  MessageTooLong,
  /** A table or queue is at its bound. */
  NoBufferSpace,
}

/** Makes an error of the runtime's class for `kind`. */
export type ErrorFactory = (kind: SocketErrorKind, message: string) => Error;

/** The default factory: plain `Error`s whose `name` is the kind. */
export const plainError: ErrorFactory = (kind, message) => {
  const error = new Error(message);
  error.name = SocketErrorKind[kind] ?? "Error";
  return error;
};
