/**
 * Ping: echo requests at an interval, and how each of them ended.
 *
 * Round-trip times are taken by the stack, from the request's departure stamp to the arrival of the answer; the
 * program's own delays do not count. Answers come in the order in which the requests end, which need not be the order
 * in which they were sent. While nobody asks for the next answer nothing more is sent.
 *
 * @module
 */

import { SocketErrorKind } from "../base/errors.ts";
import { type Duration, MILLISECOND, SECOND } from "../base/time.ts";
import { PingOutcome, type PingResult } from "../icmp/ping_socket.ts";
import { icmpErrorText } from "../wire/icmp.ts";
import type { IpAddr } from "../wire/ip_addr.ts";
import type { Engine, OpenSocket } from "./engine.ts";
import { PendingQueue } from "./pending.ts";

/** How to ping. */
export interface PingOptions {
  /** How many requests to send. Default: without end. */
  count?: number;
  /** Time between two requests in ns, at least 1 ms (1,000,000). Default 1 s. */
  interval?: Duration;
  /** How long to wait for each answer in ns. Default 5 s. */
  timeout?: Duration;
  /** Bytes of data in each request. Default 56. */
  sizeBytes?: number;
  /** TTL or hop limit of the requests. Default 64. */
  ttl?: number;
  /** Ends the pinging; the iteration throws the signal's reason. */
  signal?: AbortSignal;
}

/** The host answered. */
export interface PingReply {
  /** Which end this is. */
  kind: "reply";
  /** Sequence number of the request, from 1 on; wraps at 65,536. */
  seq: number;
  /** Who answered. */
  from: string;
  /** Round-trip time in ns. */
  rtt: Duration;
  /** TTL or hop limit that the answer had left. */
  ttl: number;
  /** Bytes of data in the answer. */
  bytes: number;
  /** True for a further answer to the same request; it does not count as an end. */
  duplicate: boolean;
}

/** Nobody answered in time. */
export interface PingTimeout {
  /** Which end this is. */
  kind: "timeout";
  /** Sequence number of the request. */
  seq: number;
}

/** The request could not be sent, or somebody answered with an ICMP error. */
export interface PingError {
  /** Which end this is. */
  kind: "error";
  /** Sequence number of the request. */
  seq: number;
  /** Who reported the error: a router, the host, or our own address if the request was never sent. */
  from: string;
  /** What is wrong, in words. */
  message: string;
}

/** How one request ended. */
export type PingAnswer = PingReply | PingTimeout | PingError;

/**
 * Pings a host; see `Host.ping`.
 *
 * @throws {RangeError} if an option is out of its range
 */
export function ping(engine: Engine, remote: IpAddr, options: PingOptions = {}): AsyncGenerator<PingAnswer, void> {
  const { count = Infinity, interval = SECOND, timeout = 5 * SECOND, sizeBytes = 56, ttl = 64 } = options;
  if (count !== Infinity) requireInteger("count", count, 0, Number.MAX_SAFE_INTEGER);
  if (!(interval >= MILLISECOND)) {
    throw new RangeError(`the interval is in ns and must be at least ${MILLISECOND} (1 ms), got ${interval}`);
  }
  if (!(timeout > 0)) throw new RangeError(`the timeout must be more than 0 ns, got ${timeout}`);
  requireInteger("size", sizeBytes, 0, 65507);
  requireInteger("ttl", ttl, 1, 255);
  return run(engine, remote, { count, interval, timeout, sizeBytes, ttl }, options.signal);
}

async function* run(
  engine: Engine,
  remote: IpAddr,
  options: Required<Omit<PingOptions, "signal">>,
  signal: AbortSignal | undefined,
): AsyncGenerator<PingAnswer, void> {
  signal?.throwIfAborted();
  if (engine.closedBy !== null) throw engine.closedBy;
  const socket = engine.stack.icmp.openPing(remote);
  if (typeof socket === "number") throw engine.error(socket, `cannot ping ${remote}: ${REFUSALS[socket]}`);
  const { count, interval, timeout, sizeBytes, ttl } = options;
  const results = new PendingQueue(engine);
  const stopped = new AbortController();
  const open: OpenSocket = {
    finish: () => {
      open.fail(engine.error(SocketErrorKind.BadResource, `the ping of ${remote} was ended`));
      return Promise.resolve();
    },
    fail: (reason) => {
      stopped.abort(reason);
      engine.remove(open);
    },
  };
  engine.add(open);
  socket.user = { onEvents: () => results.poll() };
  const ends = signal === undefined ? stopped.signal : AbortSignal.any([signal, stopped.signal]);
  try {
    let nextAt = engine.now();
    for (let sent = 0, ended = 0; ended < count;) {
      const now = engine.now();
      if (sent < count && now >= nextAt) {
        const seq = ++sent & 0xffff;
        nextAt = Math.max(nextAt + interval, now);
        const refusal = socket.send(seq, sizeBytes, ttl, now, now + timeout);
        // Has the request sent, and the event loop run, also when the program is late for each of them.
        await engine.sleepUntil(now, ends);
        if (refusal !== SocketErrorKind.None) {
          ended++;
          yield { kind: "error", seq, from: socket.localAddress.toString(), message: REFUSALS[refusal] ?? "not sent" };
        }
        continue;
      }
      const timer = new AbortController();
      if (sent < count) engine.sleepUntil(nextAt, timer.signal).then(() => results.poll(), () => {});
      const mayPause = sent < count;
      const result = await results.run(
        () => socket.receive() ?? (mayPause && engine.now() >= nextAt ? null : undefined),
        ends,
      ).finally(() => timer.abort());
      if (result === null) continue;
      if (!result.duplicate) ended++;
      yield answerOf(result, remote.version);
    }
  } finally {
    socket.close();
    engine.remove(open);
  }
}

const REFUSALS: Readonly<Partial<Record<SocketErrorKind, string>>> = {
  [SocketErrorKind.AddrNotAvailable]: "this host has no address of that family",
  [SocketErrorKind.NoBufferSpace]: "too many packets or sockets are in use",
  [SocketErrorKind.HostUnreachable]: "no route leads there",
  [SocketErrorKind.MessageTooLong]: "the request is larger than the MTU",
  [SocketErrorKind.BadResource]: "the socket was closed",
};

function answerOf(result: PingResult, version: 4 | 6): PingAnswer {
  const { seq, rtt, ttl, duplicate } = result;
  const from = result.from.toString();
  switch (result.outcome) {
    case PingOutcome.Reply:
      return { kind: "reply", seq, from, rtt, ttl, bytes: result.dataBytes, duplicate };
    case PingOutcome.Timeout:
      return { kind: "timeout", seq };
    case PingOutcome.Error:
      return { kind: "error", seq, from, message: icmpErrorText(version, result.type, result.code) };
  }
}

function requireInteger(what: string, n: number, least: number, most: number): void {
  if (!Number.isInteger(n) || n < least || n > most) {
    throw new RangeError(`the ${what} must be an integer from ${least} to ${most}, got ${n}`);
  }
}
