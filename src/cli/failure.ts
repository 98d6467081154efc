/**
 * Errors of the network as failures of a command, in one line; errors of the program stay what they are.
 *
 * @module
 */

import { Failure, messageOf } from "./command.ts";

const NETWORK_ERRORS: readonly (new (message: string) => Error)[] = [
  Deno.errors.AddrInUse,
  Deno.errors.AddrNotAvailable,
  Deno.errors.BadResource,
  Deno.errors.BrokenPipe,
  Deno.errors.Busy,
  Deno.errors.ConnectionAborted,
  Deno.errors.ConnectionRefused,
  Deno.errors.ConnectionReset,
  Deno.errors.NetworkUnreachable,
  Deno.errors.NotConnected,
  Deno.errors.TimedOut,
  Deno.errors.UnexpectedEof,
  // What the other end said is no JSON, or a datagram is larger than the MTU.
  SyntaxError,
  RangeError,
];

/** The failure that `error` is, or `error` itself if it is a fault of the program. */
export function failureOf(command: string, error: unknown): unknown {
  return NETWORK_ERRORS.some((kind) => error instanceof kind) ? new Failure(`${command}: ${messageOf(error)}`) : error;
}
