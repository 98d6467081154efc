/**
 * Errors of the runtime: the classes of `Deno.errors` for what the core and the operating system report.
 *
 * @module
 */

import { type ErrorFactory, SocketErrorKind } from "../base/errors.ts";
import { type Endpoint, formatEndpoint } from "../stack/options.ts";

type ErrorClass = new (message: string) => Error;

const CLASSES: Readonly<Record<SocketErrorKind, ErrorClass>> = {
  [SocketErrorKind.None]: Error,
  [SocketErrorKind.ConnectionRefused]: Deno.errors.ConnectionRefused,
  [SocketErrorKind.ConnectionReset]: Deno.errors.ConnectionReset,
  [SocketErrorKind.ConnectionAborted]: Deno.errors.ConnectionAborted,
  [SocketErrorKind.TimedOut]: Deno.errors.TimedOut,
  [SocketErrorKind.AddrInUse]: Deno.errors.AddrInUse,
  [SocketErrorKind.AddrNotAvailable]: Deno.errors.AddrNotAvailable,
  [SocketErrorKind.HostUnreachable]: Deno.errors.NetworkUnreachable,
  [SocketErrorKind.BrokenPipe]: Deno.errors.BrokenPipe,
  [SocketErrorKind.NotConnected]: Deno.errors.NotConnected,
  [SocketErrorKind.BadResource]: Deno.errors.BadResource,
  [SocketErrorKind.MessageTooLong]: RangeError,
  [SocketErrorKind.NoBufferSpace]: Deno.errors.Busy,
};

/** Makes the error of Deno's class for `kind`; the message is to say the cause. */
export const denoError: ErrorFactory = (kind, message) => new CLASSES[kind](message);

const SYSTEM_CODES: Readonly<Record<string, ErrorClass>> = {
  EADDRINUSE: Deno.errors.AddrInUse,
  EADDRNOTAVAIL: Deno.errors.AddrNotAvailable,
  EACCES: Deno.errors.PermissionDenied,
  EPERM: Deno.errors.PermissionDenied,
};

/** The error of Deno's class for one that the operating system raised while doing what `doing` says. */
export function systemError(error: unknown, doing: string): Error {
  if (!(error instanceof Error)) return new Error(`${doing}: ${error}`);
  const code = (error as { code?: unknown }).code;
  const known = typeof code === "string" ? SYSTEM_CODES[code] : undefined;
  if (known === undefined) return error;
  return Object.assign(new known(`${doing}: ${error.message}`), { cause: error });
}

/** True if the permission to use `endpoint` is granted already; nobody is asked. */
export function isNetGranted(endpoint: string): boolean {
  return Deno.permissions.querySync({ name: "net", host: endpoint }).state === "granted";
}

/**
 * Makes sure that the permission to use `endpoint` is granted, asking if the user can be asked.
 *
 * The sockets of `node:dgram` report a missing permission where no caller can catch it, and later sends would fail one
 * by one.
 *
 * @throws {Deno.errors.NotCapable} if it is denied
 */
export async function requireNet(endpoint: string): Promise<void> {
  if (Deno.permissions.querySync({ name: "net" }).state === "granted") return;
  const wanted = { name: "net", host: endpoint } as const;
  let { state } = await Deno.permissions.query(wanted);
  if (state === "prompt") ({ state } = await Deno.permissions.request(wanted));
  if (state !== "granted") {
    throw new Deno.errors.NotCapable(`this host needs to use UDP at ${endpoint}: run with --allow-net=${endpoint}`);
  }
}

/**
 * Makes sure that the permission to use each of these endpoints is granted; see {@linkcode requireNet}.
 *
 * @throws {Deno.errors.NotCapable} if it is denied for one
 */
export async function requireNetAt(endpoints: readonly Endpoint[]): Promise<void> {
  if (Deno.permissions.querySync({ name: "net" }).state === "granted") return;
  for (const { address, port } of endpoints) await requireNet(formatEndpoint(address, port));
}
