/**
 * Socket options of a script. An option without an equivalent in our TCP is an error to set or get, as it would be on a
 * system that lacks it.
 *
 * @module
 */

import { type Instant, MILLISECOND, SECOND } from "../../src/base/time.ts";
import { CONGESTION_CONTROLS } from "../../src/tcp/congestion/registry.ts";
import type { Tcb } from "../../src/tcp/tcb.ts";
import type { Value } from "./format.ts";
import type { Host } from "./host.ts";
import type { Sock } from "./sockets.ts";
import type { ProfileOptions } from "./profile.ts";
import { toArray, toNumber, ValueError, valueText } from "./values.ts";

/** Options set on a socket. */
export interface SocketOptions {
  noDelay?: number;
  reuseAddress?: number;
  sendBuffer?: number;
  receiveBuffer?: number;
  maxSegment?: number;
  lingerSeconds?: number;
  keepAlive?: number;
  keepIdleSeconds?: number;
  keepIntervalSeconds?: number;
  keepCount?: number;
  userTimeoutMilliseconds?: number;
  congestion?: string;
}

/** The numbers that getsockopt gives for an option, or `null` for an option that is not known. */
export function getOption(sock: Sock, name: string, host: Host): number[] | null {
  const { options, tcb: t } = sock;
  const defaults = host.tcp.options;
  switch (name) {
    case "SO_REUSEADDR":
      return [options.reuseAddress ?? 0];
    case "SO_SNDBUF":
      return [options.sendBuffer === undefined ? defaults.sendBufferBytes : 2 * options.sendBuffer];
    case "SO_RCVBUF":
      return [options.receiveBuffer === undefined ? defaults.receiveBufferBytes : 2 * options.receiveBuffer];
    case "SO_LINGER": {
      const seconds = options.lingerSeconds ?? -1;
      return seconds < 0 ? [0, 0] : [1, seconds];
    }
    case "SO_KEEPALIVE":
      return [options.keepAlive ?? 0];
    case "TCP_KEEPIDLE":
      return [options.keepIdleSeconds ?? defaults.keepAliveIdle / SECOND];
    case "TCP_KEEPINTVL":
      return [options.keepIntervalSeconds ?? defaults.keepAliveInterval / SECOND];
    case "TCP_KEEPCNT":
      return [options.keepCount ?? defaults.keepAliveProbes];
    case "TCP_USER_TIMEOUT":
      return [options.userTimeoutMilliseconds ?? 0];
    case "TCP_NODELAY":
      return [t === null ? options.noDelay ?? 0 : Number(t.noDelay)];
    case "TCP_MAXSEG":
      return [t === null ? options.maxSegment ?? 536 : t.mss];
    default:
      return null;
  }
}

/** Sets an option; the errno, or an empty text. */
export function setOption(sock: Sock, name: string, value: Value | undefined, host: Host): string {
  const { options, tcb: t } = sock;
  switch (name) {
    case "SO_REUSEADDR":
    case "SO_REUSEPORT":
      options.reuseAddress = number(value);
      return "";
    case "SO_SNDBUF":
      options.sendBuffer = number(value);
      if (t === null) host.tcp.options.sendBufferBytes = Math.max(4608, 2 * options.sendBuffer);
      return "";
    case "SO_RCVBUF":
      options.receiveBuffer = number(value);
      if (t === null) host.tcp.options.receiveBufferBytes = Math.max(2304, options.receiveBuffer);
      return "";
    case "SO_LINGER": {
      const [on, seconds] = linger(value);
      options.lingerSeconds = on === 0 ? -1 : seconds;
      return "";
    }
    case "TCP_NODELAY":
      options.noDelay = number(value);
      if (t !== null) t.noDelay = options.noDelay !== 0;
      return "";
    case "SO_KEEPALIVE":
      options.keepAlive = number(value);
      break;
    case "TCP_KEEPIDLE":
      options.keepIdleSeconds = number(value);
      break;
    case "TCP_KEEPINTVL":
      options.keepIntervalSeconds = number(value);
      break;
    case "TCP_KEEPCNT":
      options.keepCount = number(value);
      break;
    case "TCP_USER_TIMEOUT":
      options.userTimeoutMilliseconds = number(value);
      break;
    case "TCP_MAXSEG": {
      const bytes = number(value);
      if (t !== null || bytes < 88 || bytes > 32767) return "EINVAL";
      options.maxSegment = bytes;
      const defaultsToo: ProfileOptions = { maxSegmentBytes: bytes };
      Object.assign(host.tcp.options, defaultsToo);
      return "";
    }
    case "TCP_CONGESTION":
      if (typeof value !== "string") throw new ValueError(`${valueText(value)} is no name of a congestion control`);
      if (t !== null) return "ENOPROTOOPT";
      if (!CONGESTION_CONTROLS.includes(value)) return "ENOENT";
      options.congestion = value;
      return "";
    default:
      return "ENOPROTOOPT";
  }
  if (t !== null) applyTimers(options, t, host.now);
  return "";
}

/** Has a connection take over the settings of its socket that are about time. */
export function applyTimers(options: SocketOptions, t: Tcb, now: Instant): void {
  if (options.keepIdleSeconds !== undefined) t.keepAliveIdle = options.keepIdleSeconds * SECOND;
  if (options.keepIntervalSeconds !== undefined) t.keepAliveInterval = options.keepIntervalSeconds * SECOND;
  if (options.keepCount !== undefined) t.keepAliveProbes = options.keepCount;
  if (options.userTimeoutMilliseconds !== undefined) t.setUserTimeout(options.userTimeoutMilliseconds * MILLISECOND);
  if (options.keepAlive !== undefined) t.setKeepAlive(options.keepAlive !== 0, now);
}

function number(value: Value | undefined): number {
  return toNumber(toArray(value)[0]);
}

function linger(value: Value | undefined): [number, number] {
  if (typeof value === "object" && value !== null && "fields" in value) {
    return [
      toNumber(value.fields.l_onoff ?? value.fields.onoff),
      toNumber(value.fields.l_linger ?? value.fields.linger),
    ];
  }
  const [on, seconds] = toArray(value);
  return [toNumber(on), toNumber(seconds)];
}
