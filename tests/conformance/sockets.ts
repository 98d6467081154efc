/**
 * The system calls of a script, on the sockets of our TCP.
 *
 * A call is an attempt: it returns its result, or `null` if it would block; a blocking call is attempted again whenever
 * something has happened. Descriptors are those of the script: what `socket` and `accept` are to return is the name of
 * the new socket. A call that is not known, or an argument that is not, throws a {@linkcode ValueError}.
 *
 * @module
 */

import { SocketErrorKind } from "../../src/base/errors.ts";
import { type Instant, MILLISECOND, NEVER, SECOND } from "../../src/base/time.ts";
import { TcpState } from "../../src/tcp/state.ts";
import type { Tcb } from "../../src/tcp/tcb.ts";
import type { TcpConnectOptions } from "../../src/tcp/tcp.ts";
import { TcpListener } from "../../src/tcp/listener.ts";
import { dataByte, dataBytes, REMOTE_BASE } from "./flow.ts";
import type { Call, Value } from "./format.ts";
import type { Host } from "./host.ts";
import { applyTimers, getOption, setOption, type SocketOptions } from "./socket_options.ts";
import { ERRNO, isAny, symbol, toArray, toName, toNumber, ValueError, valueText } from "./values.ts";

/** The port that sockets are bound and connected to. */
export const SCRIPT_PORT = 8080;

/** A descriptor. */
export interface Sock {
  nonBlocking: boolean;
  boundPort: number;
  listener: TcpListener | null;
  tcb: Tcb | null;
  /** A connect has returned that it is in progress, and none has returned the outcome yet. */
  connecting: boolean;
  readShut: boolean;
  /** Bytes handed to TCP, and read from it. */
  written: number;
  read: number;
  /** The connection's error has been told. */
  errorTold: boolean;
  options: SocketOptions;
}

/** What a call returned. */
export interface Returned {
  result: number;
  errno: string | null;
  /** What was wrong with values that the call gave back through its arguments. */
  problem: string | null;
}

/** A call under way. */
export interface Attempt {
  /** Tries to complete the call; `null` if it blocks. */
  run(): Returned | null;
  /** True if a call that blocks says so at once. */
  nonBlocking: boolean;
  /** When it is to be tried again, if nothing happens before. */
  wakeAt: Instant;
}

function ok(result: number, problem: string | null = null): Returned {
  return { result, errno: null, problem };
}

function fail(errno: string): Returned {
  return { result: -1, errno, problem: null };
}

/** The descriptors of a script. */
export class Sockets {
  readonly #host: Host;
  readonly #ignoresBufferSizes: boolean;
  readonly #byDescriptor = new Map<number, Sock>();
  readonly #onFlow: (localPort: number, remotePort: number | null) => void;
  #latest: Sock | null = null;

  /**
   * Makes a table without sockets.
   *
   * @param ignoresBufferSizes what getsockopt says of buffer sizes is not compared
   * @param onFlow hears of each new connection under test; remote port `null` for one that will come to a listener
   */
  constructor(
    host: Host,
    ignoresBufferSizes: boolean,
    onFlow: (localPort: number, remotePort: number | null) => void,
  ) {
    this.#host = host;
    this.#ignoresBufferSizes = ignoresBufferSizes;
    this.#onFlow = onFlow;
  }

  /** The socket that the script is about: the one connected, accepted or listening last. */
  get latest(): Sock | null {
    return this.#latest;
  }

  /** Number of listening sockets. */
  get listeners(): number {
    return [...this.#byDescriptor.values()].filter(({ listener }) => listener !== null).length;
  }

  /** Begins a call. */
  begin(call: Call): Attempt {
    const start = this.#calls[call.name];
    if (start === undefined) throw new ValueError(`the system call ${call.name} is not known`);
    if (call.name === "socket" || call.name === "poll") return start(call, NO_SOCK);
    const sock = this.#byDescriptor.get(toNumber(call.args[0]));
    if (sock === undefined) return now(() => fail("EBADF"));
    const attempt = start(call, sock);
    attempt.nonBlocking ||= sock.nonBlocking;
    return attempt;
  }

  readonly #calls: Record<string, (call: Call, sock: Sock) => Attempt> = {
    socket: (call) => now(() => this.#socket(call)),
    bind: (call, sock) => now(() => this.#bind(call, sock)),
    listen: (call, sock) => now(() => this.#listen(call, sock)),
    accept: (call, sock) => blocking(() => this.#accept(call, sock)),
    accept4: (call, sock) => blocking(() => this.#accept(call, sock)),
    connect: (call, sock) => this.#connect(call, sock),
    read: (call, sock) => blocking(() => this.#receive(sock, toNumber(call.args[2]), 0)),
    recv: (call, sock) => this.#recv(call, sock),
    recvfrom: (call, sock) => this.#recv(call, sock),
    write: (call, sock) => this.#send(sock, toNumber(call.args[2]), 0),
    send: (call, sock) => this.#send(sock, toNumber(call.args[2]), toNumber(call.args[3])),
    sendto: (call, sock) => this.#send(sock, toNumber(call.args[2]), toNumber(call.args[3])),
    close: (call, sock) => this.#close(call, sock),
    shutdown: (call, sock) => now(() => this.#shutdown(call, sock)),
    fcntl: (call, sock) => now(() => fcntl(call, sock)),
    ioctl: (call, sock) => now(() => ioctl(call, sock)),
    getsockopt: (call, sock) => now(() => this.#getsockopt(call, sock)),
    setsockopt: (call, sock) => now(() => this.#setsockopt(call, sock)),
    poll: (call) => this.#poll(call),
  };

  #open(call: Call, sock: Sock): Returned {
    if (typeof call.result !== "number" || call.result < 0) return ok(this.#byDescriptor.size + 3);
    if (this.#byDescriptor.has(call.result)) throw new ValueError(`descriptor ${call.result} is in use`);
    this.#byDescriptor.set(call.result, sock);
    this.#latest = sock;
    return ok(call.result);
  }

  #socket(call: Call): Returned {
    const [domain, type, protocol] = call.args;
    if (!isAny(domain) && !["AF_INET", "AF_INET6"].includes(toName(domain))) return fail("EAFNOSUPPORT");
    const bits = toNumber(type);
    if ((bits & 15) !== symbol("SOCK_STREAM")) throw new ValueError(`a socket of type ${valueText(type)} is not known`);
    if (protocol !== 0 && toName(protocol) !== "IPPROTO_TCP") {
      throw new ValueError(`a socket of protocol ${valueText(protocol)} is not known`);
    }
    return this.#open(call, newSock((bits & symbol("SOCK_NONBLOCK")) !== 0));
  }

  #bind(call: Call, sock: Sock): Returned {
    anyAddress(call.args[1]);
    if (sock.boundPort !== 0) return fail("EINVAL");
    sock.boundPort = SCRIPT_PORT;
    return ok(0);
  }

  #listen(call: Call, sock: Sock): Returned {
    if (sock.tcb !== null) return fail("EINVAL");
    if (sock.listener !== null) return ok(0);
    const backlog = Math.max(1, toNumber(call.args[1]));
    const listener = this.#host.tcp.listen(this.#host.local, sock.boundPort, backlog);
    if (!(listener instanceof TcpListener)) return fail(ERRNO[listener]);
    sock.listener = listener;
    sock.boundPort = listener.localPort;
    this.#latest = sock;
    this.#onFlow(listener.localPort, null);
    return ok(0);
  }

  #accept(call: Call, sock: Sock): Returned | null {
    if (sock.listener === null) return fail("EINVAL");
    anyAddress(call.args[1]);
    const t = sock.listener.accept();
    if (t === null) return null;
    const flags = call.name === "accept4" ? toNumber(call.args[3]) : 0;
    const accepted = newSock((flags & symbol("SOCK_NONBLOCK")) !== 0);
    accepted.boundPort = t.localPort;
    accepted.tcb = t;
    accepted.options = { ...sock.options };
    if (accepted.options.noDelay !== undefined) t.noDelay = accepted.options.noDelay !== 0;
    applyTimers(accepted.options, t, this.#host.now);
    return this.#open(call, accepted);
  }

  #connect(call: Call, sock: Sock): Attempt {
    anyAddress(call.args[1]);
    let started: Returned | null = null;
    if (sock.listener !== null) started = fail("EISCONN");
    else if (sock.tcb === null) started = this.#startConnect(sock);
    else if (!sock.connecting) started = fail("EISCONN");
    else if (isOpening(sock.tcb)) started = sock.nonBlocking ? fail("EALREADY") : null;
    return blocking(() => started ?? this.#connected(sock));
  }

  #startConnect(sock: Sock): Returned | null {
    const options: TcpConnectOptions = {};
    if (sock.boundPort !== 0) options.localPort = sock.boundPort;
    if (sock.options.noDelay !== undefined) options.noDelay = sock.options.noDelay !== 0;
    if (sock.options.congestion !== undefined) options.congestion = sock.options.congestion;
    const t = this.#host.tcp.connect(this.#host.remote, SCRIPT_PORT, options, this.#host.now);
    if (typeof t === "number") return fail(ERRNO[t]);
    sock.tcb = t;
    applyTimers(sock.options, t, this.#host.now);
    sock.boundPort = t.localPort;
    sock.connecting = true;
    this.#latest = sock;
    this.#onFlow(t.localPort, SCRIPT_PORT);
    this.#host.settle();
    return sock.nonBlocking && isOpening(t) ? fail("EINPROGRESS") : null;
  }

  #connected(sock: Sock): Returned | null {
    const t = sock.tcb!;
    if (isOpening(t)) return null;
    sock.connecting = false;
    return t.wasEstablished ? ok(0) : fail(takeError(sock) ?? "ECONNABORTED");
  }

  #recv(call: Call, sock: Sock): Attempt {
    const flags = toNumber(call.args[3]);
    const attempt = blocking(() => this.#receive(sock, toNumber(call.args[2]), flags));
    attempt.nonBlocking = (flags & symbol("MSG_DONTWAIT")) !== 0;
    return attempt;
  }

  #receive(sock: Sock, length: number, flags: number): Returned | null {
    const known = symbol("MSG_PEEK") | symbol("MSG_DONTWAIT");
    if ((flags & ~known) !== 0) throw new ValueError(`flags ${flags & ~known} of recv are not known`);
    const t = sock.tcb;
    if (t === null) return fail("ENOTCONN");
    const n = Math.min(length, t.readableBytes);
    if (n > 0) {
      const target = new Uint8Array(n);
      const peek = (flags & symbol("MSG_PEEK")) !== 0;
      const got = peek ? t.receiveRing.peek(0, target) : t.read(target);
      const from = ((t.irs >>> 0) - REMOTE_BASE + 1 + sock.read) | 0;
      if (!peek) sock.read += got;
      const at = target.findIndex((byte, i) => byte !== dataByte(false, from + i));
      return ok(got, at < 0 ? null : `wrong data at ${(from + at) >>> 0}`);
    }
    if (length === 0 || sock.readShut) return ok(0);
    const error = takeError(sock);
    if (error !== null) return fail(error);
    if (t.readEnded || t.state === TcpState.Closed) return ok(0);
    return null;
  }

  #send(sock: Sock, length: number, flags: number): Attempt {
    const known = symbol("MSG_NOSIGNAL") | symbol("MSG_DONTWAIT");
    if ((flags & ~known) !== 0) throw new ValueError(`flags ${flags & ~known} of send are not known`);
    let sent = 0;
    const attempt = blocking(() => {
      const t = sock.tcb;
      if (t === null) return fail("ENOTCONN");
      if (isOpening(t)) return null;
      const n = t.write(dataBytes(true, 1 + sock.written, length - sent), 0, length - sent);
      if (n < 0) return sent > 0 ? ok(sent) : fail(takeError(sock) ?? "EPIPE");
      sock.written += n;
      sent += n;
      if (n > 0) this.#host.settle();
      return sent === length || (sent > 0 && attempt.nonBlocking) ? ok(sent) : null;
    });
    attempt.nonBlocking = (flags & symbol("MSG_DONTWAIT")) !== 0;
    return attempt;
  }

  #close(call: Call, sock: Sock): Attempt {
    const at = this.#host.now;
    this.#byDescriptor.delete(toNumber(call.args[0]));
    const { tcb: t, listener, options } = sock;
    if (listener !== null) listener.close(at);
    const linger = options.lingerSeconds ?? -1;
    if (t !== null) {
      if (linger === 0) t.abort(at);
      else t.close(at);
    }
    this.#host.settle();
    if (t === null || linger <= 0 || sock.nonBlocking) return now(() => ok(0));
    const until = at + linger * SECOND;
    const attempt = blocking(() => isGone(t) || this.#host.now >= until ? ok(0) : null);
    attempt.wakeAt = until;
    return attempt;
  }

  #shutdown(call: Call, sock: Sock): Returned {
    const how = toNumber(call.args[1]);
    const t = sock.tcb;
    if (t === null || t.state === TcpState.Closed) return fail("ENOTCONN");
    if (how !== symbol("SHUT_WR")) sock.readShut = true;
    if (how !== symbol("SHUT_RD")) t.shutdownWrite(this.#host.now);
    return ok(0);
  }

  #getsockopt(call: Call, sock: Sock): Returned {
    const [, , name, value, size] = call.args;
    const option = toName(name);
    if (this.#ignoresBufferSizes && (option === "SO_RCVBUF" || option === "SO_SNDBUF")) return ok(0);
    const got = option === "SO_ERROR" ? symbolOrZero(takeError(sock)) : getOption(sock, option, this.#host);
    if (got === null) return fail("ENOPROTOOPT");
    const wanted = toArray(value).map(toNumber);
    if (wanted.length !== got.length || wanted.some((n, i) => n !== got[i])) {
      return ok(0, `${option} is ${got.join()}`);
    }
    const length = isAny(size) ? 4 * got.length : toNumber(toArray(size)[0]);
    return ok(0, length === 4 * got.length ? null : `the size is ${4 * got.length}`);
  }

  #setsockopt(call: Call, sock: Sock): Returned {
    const errno = setOption(sock, toName(call.args[2]), call.args[3], this.#host);
    return errno === "" ? ok(0) : fail(errno);
  }

  #poll(call: Call): Attempt {
    const entries = toArray(call.args[0]).map((entry) => {
      if (entry === null || typeof entry !== "object" || !("fields" in entry)) {
        throw new ValueError(`${valueText(entry)} is no pollfd`);
      }
      const { fd, events, revents } = entry.fields;
      return { fd: toNumber(fd), events: toNumber(events), revents };
    });
    const timeout = toNumber(call.args[2]);
    const until = timeout < 0 ? NEVER : this.#host.now + timeout * MILLISECOND;
    const attempt = blocking(() => {
      const got = entries.map(({ fd, events }) => ready(this.#byDescriptor.get(fd)) & (events | 8 | 16 | 32));
      const count = got.filter((bits) => bits !== 0).length;
      if (count === 0 && this.#host.now < until) return null;
      const at = entries.findIndex(({ revents }, i) => revents !== undefined && toNumber(revents) !== got[i]);
      return ok(count, at < 0 ? null : `revents of ${entries[at]!.fd} is ${got[at]}`);
    });
    attempt.wakeAt = until;
    return attempt;
  }
}

function newSock(nonBlocking: boolean): Sock {
  return {
    nonBlocking,
    boundPort: 0,
    listener: null,
    tcb: null,
    connecting: false,
    readShut: false,
    written: 0,
    read: 0,
    errorTold: false,
    options: {},
  };
}

const NO_SOCK = newSock(false);

function now(run: () => Returned): Attempt {
  let returned: Returned | null = null;
  return { run: () => returned ??= run(), nonBlocking: false, wakeAt: NEVER };
}

function blocking(run: () => Returned | null): Attempt {
  return { run, nonBlocking: false, wakeAt: NEVER };
}

/** Addresses are those of the runner; a script that names one of its own is not understood. */
function anyAddress(value: Value | undefined): void {
  if (!isAny(value)) throw new ValueError(`an address of one's own, ${valueText(value)}, is not known`);
}

function isOpening(t: Tcb): boolean {
  return t.state === TcpState.SynSent || t.state === TcpState.SynReceived;
}

/** True if a close has nothing to wait for. */
function isGone(t: Tcb): boolean {
  return t.state === TcpState.Closed || t.state === TcpState.TimeWait || t.state === TcpState.FinWait2;
}

/** The connection's error, told once. */
function takeError(sock: Sock): string | null {
  const t = sock.tcb;
  if (t === null || sock.errorTold || t.error === SocketErrorKind.None) return null;
  sock.errorTold = true;
  sock.connecting = false;
  return ERRNO[t.error];
}

function symbolOrZero(errno: string | null): number[] {
  return [errno === null ? 0 : symbol(errno)];
}

function fcntl(call: Call, sock: Sock): Returned {
  switch (toName(call.args[1])) {
    case "F_GETFL":
      return ok(symbol("O_RDWR") | (sock.nonBlocking ? symbol("O_NONBLOCK") : 0));
    case "F_SETFL":
      sock.nonBlocking = (toNumber(call.args[2]) & symbol("O_NONBLOCK")) !== 0;
      return ok(0);
    default:
      return fail("EINVAL");
  }
}

function ioctl(call: Call, sock: Sock): Returned {
  const t = sock.tcb;
  if (t === null) return fail("EINVAL");
  const name = toName(call.args[1]);
  const values: Record<string, number> = {
    SIOCINQ: t.readableBytes,
    FIONREAD: t.readableBytes,
    SIOCOUTQ: t.unackedBytes,
    TIOCOUTQ: t.unackedBytes,
    SIOCOUTQNSD: t.unsentBytes,
  };
  const got = values[name];
  if (got === undefined) throw new ValueError(`the request ${name} of ioctl is not known`);
  return ok(0, toNumber(toArray(call.args[2])[0]) === got ? null : `${name} is ${got}`);
}

/** What poll says of a socket. */
function ready(sock: Sock | undefined): number {
  if (sock === undefined) return symbol("POLLNVAL");
  if (sock.listener !== null) return sock.listener.pending > 0 ? symbol("POLLIN") | symbol("POLLRDNORM") : 0;
  const t = sock.tcb;
  if (t === null) return symbol("POLLOUT") | symbol("POLLHUP");
  let bits = 0;
  if (!sock.errorTold && t.error !== SocketErrorKind.None) bits |= symbol("POLLERR");
  if (isOpening(t)) return bits;
  const ended = t.readEnded || sock.readShut || t.state === TcpState.Closed;
  if (ended) bits |= symbol("POLLRDHUP");
  if (ended || t.readableBytes > 0) bits |= symbol("POLLIN") | symbol("POLLRDNORM");
  const closedBoth = t.state === TcpState.Closed || (ended && t.finQueued);
  if (closedBoth) bits |= symbol("POLLHUP");
  if (closedBoth || t.finQueued || t.writableBytes * 3 >= t.sendRing.capacity) {
    bits |= symbol("POLLOUT") | symbol("POLLWRNORM");
  }
  return bits;
}
