/**
 * Errors of the system and the network as failures of a command, in one line; errors of the program stay what they are.
 *
 * @module
 */

import { Failure, messageOf, UsageError } from "./command.ts";

type ErrorClass = new (message: string) => Error;

/** What the system may refuse at any time. */
const SYSTEM_ERRORS: readonly ErrorClass[] = [
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
  Deno.errors.PermissionDenied,
  Deno.errors.TimedOut,
  Deno.errors.UnexpectedEof,
];

/** And what can go wrong with another host: what it said is no JSON, or a datagram is larger than the MTU. */
const NETWORK_ERRORS: readonly ErrorClass[] = [...SYSTEM_ERRORS, SyntaxError, RangeError];

/** What the runtime has no class for, like a full disk: errors with the system's code, `ENOSPC`. */
function hasSystemCode(error: unknown): boolean {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined;
  return typeof code === "string" && /^E[A-Z0-9]+$/.test(code);
}

/** The failure that `error` is, or `error` itself if it is a fault of the program. */
export function failureOf(command: string, error: unknown): unknown {
  return isOneOf(NETWORK_ERRORS, error) || hasSystemCode(error)
    ? new Failure(`${command}: ${messageOf(error)}`)
    : error;
}

/** The same wherever in a command it comes from: a missing permission is a wrong call, what the system refuses a failure. */
export function refusalOf(command: string, error: unknown): unknown {
  const text = `${command}: ${messageOf(error)}`;
  if (error instanceof Deno.errors.NotCapable) return new UsageError(text);
  return isOneOf(SYSTEM_ERRORS, error) || hasSystemCode(error) ? new Failure(text) : error;
}

function isOneOf(classes: readonly ErrorClass[], error: unknown): boolean {
  return classes.some((kind) => error instanceof kind);
}
