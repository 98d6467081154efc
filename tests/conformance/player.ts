/**
 * Plays a script on the stack in virtual time, and judges.
 *
 * Events happen in order. One that acts (a packet that comes in, a call, a setting) happens at its time: until then the
 * stack runs by itself. One that expects a packet takes the next packet that was sent on the connection, whenever that
 * was, and waits for one if there is none; the time at which it left must be the event's within the tolerance. So a
 * packet that is missing, one too many, and one that comes early or late are all failures.
 *
 * `+t` counts from when the event before was really over: after an expected packet, from when that had come; between
 * two packets that come in, from the earlier one's time in the script. A blocking call is over at once in this sense;
 * its result is judged when it returns, and its time too.
 *
 * @module
 */

import type { Instant } from "../../src/base/time.ts";
import { isAny, toNumber, ValueError, valueText } from "./values.ts";
import { evaluate, expressionText, infoFields, stateByName, UnknownError } from "./tcp_info.ts";
import { Flow, packetText, type Rules, segmentText } from "./flow.ts";
import type { Action, Call, Event, EventTime, IcmpPacket, Script, TcpPacket } from "./format.ts";
import { Host } from "./host.ts";
import { icmpCode } from "./icmp_codes.ts";
import { PROFILES, sysctlName } from "./profile.ts";
import { buildIcmp, buildPacket, type Segment } from "./segment.ts";
import { type Attempt, type Returned, SCRIPT_PORT, Sockets } from "./sockets.ts";

/** Why a script failed. */
export interface Failure {
  /** Line of the original script. */
  line: number;
  /** What was to happen. */
  expected: string;
  /** What did. */
  got: string;
}

/** How a script ended. */
export interface Outcome {
  /** `null` if it passed. */
  failure: Failure | null;
  /** Packets that were sent and that no event was about. */
  leftovers: number;
  /** Every event and packet, for people. */
  trace: string[];
}

/** Events may be off by so much even on a virtual clock: the scripts were recorded on a clock of 250 ticks a second. */
const TOLERANCE_MICROSECONDS = 4000;

/** How long an event that is to happen at any time is waited for. */
const ANY_TIME_SECONDS = 600;

/** Options of a script that the runner knows. */
const OPTIONS = new Set(["ip_version", "mtu", "tcp_ts_tick_usecs", "tolerance_usecs"]);

/** First port of the other side. */
const REMOTE_PORT = 40000;

class Failed extends Error {
  constructor(readonly expected: string, readonly got: string) {
    super(got);
  }
}

/** A packet that the stack sent, with the numbers of the script, or what is wrong with it. */
interface Sent {
  at: Instant;
  segment: Segment | string;
}

/** A blocking call under way. */
interface Pending {
  line: number;
  call: Call;
  attempt: Attempt;
  /** When it is to return. */
  endAt: Instant;
}

/** Plays a script. */
export function play(script: Script): Outcome {
  const trace: string[] = [];
  let player: Player;
  try {
    player = new Player(script, trace);
  } catch (error) {
    return { failure: failureOf(error, script.events[0]?.line ?? 0, trace), leftovers: 0, trace };
  }
  return { failure: player.run(), leftovers: player.leftovers, trace };
}

/** What an exception says about a script. */
function failureOf(error: unknown, line: number, trace: string[]): Failure {
  if (error instanceof Failed) return { line, expected: error.expected, got: error.got };
  const message = error instanceof Error ? error.message : `${error}`;
  if (error instanceof ValueError || error instanceof UnknownError) {
    return { line, expected: "something that the runner knows", got: message };
  }
  trace.push(error instanceof Error ? error.stack ?? message : message);
  return { line, expected: "no exception", got: `the stack throws: ${message}` };
}

class Player {
  readonly #script: Script;
  readonly #trace: string[];
  readonly #host: Host;
  readonly #sockets: Sockets;
  readonly #rules: Rules;
  readonly #tolerance: number;
  readonly #sysctls = new Map<string, string>();
  #flow: Flow;
  /** Packets of the flow that no event has taken yet. */
  readonly #sent: Sent[] = [];
  #others = 0;
  #remotePort = REMOTE_PORT;
  #pending: Pending | null = null;
  #line = 0;
  /** When the event before was over, and, if it was a packet coming in, when it was to happen. */
  #base: Instant = 0;
  #injectBase: Instant | null = null;

  constructor(script: Script, trace: string[]) {
    this.#script = script;
    this.#trace = trace;
    const { options, profile } = script;
    if (script.unsupported.length > 0) throw new Failed("a script without omissions", script.unsupported.join());
    if (!PROFILES.has(profile)) throw new Failed(`a profile of ${[...PROFILES.keys()].join()}`, profile);
    const unknown = Object.keys(options).filter((name) => !OPTIONS.has(name));
    if (unknown.length > 0) throw new Failed(`options of ${[...OPTIONS].join()}`, unknown.join());
    const version = options.ip_version ?? "ipv4";
    if (version !== "ipv4" && version !== "ipv6") throw new Failed("ip_version ipv4 or ipv6", version);
    const tolerance = Math.max(TOLERANCE_MICROSECONDS, integerOption(options, "tolerance_usecs", 0));
    this.#tolerance = tolerance * 1000;
    this.#rules = {
      window: profile !== "freebsd",
      tsTickMicroseconds: integerOption(options, "tcp_ts_tick_usecs", 0),
      toleranceMicroseconds: tolerance,
    };
    for (const [name, value] of Object.entries(script.sysctl)) this.#sysctls.set(sysctlName(name), value);
    const mtu = integerOption(options, "mtu", 1500);
    this.#host = new Host(version === "ipv4" ? 4 : 6, mtu, PROFILES.get(profile)!(this.#sysctls));
    this.#flow = new Flow(SCRIPT_PORT, this.#remotePort, this.#rules);
    this.#sockets = new Sockets(this.#host, profile === "freebsd", (local, remote) => this.#begin(local, remote));
  }

  /** Packets that no event was about. */
  get leftovers(): number {
    return this.#sent.length + this.#others;
  }

  /** Plays all events; `null` if they happened as they should. */
  run(): Failure | null {
    try {
      for (const event of this.#script.events) {
        this.#line = event.line;
        this.#play(event);
      }
      this.#finishCall();
      return null;
    } catch (error) {
      return failureOf(error, this.#line, this.#trace);
    }
  }

  #play(event: Event): void {
    switch (event.kind) {
      case "malformed":
        throw new Failed("an event that the runner knows", event.problem);
      case "inject":
        return this.#inject(event.t, event.packet);
      case "expect":
        return this.#expect(event.t, event.packet);
      case "syscall":
        return this.#call(event.t, event.call);
      case "sysctl":
        if (!event.untimed) this.#until(event.t);
        for (const action of event.actions) this.#act(action);
        return event.untimed ? undefined : this.#over();
      case "code": {
        this.#until(event.t);
        const { profile } = this.#script;
        const latest = this.#sockets.latest;
        if (latest === null) throw new Failed("a socket", "none");
        const fields = infoFields(latest.tcb, profile);
        for (const assertion of event.asserts) {
          const text = expressionText(assertion, fields);
          this.#note(`assert ${text}`);
          if (evaluate(assertion, fields, profile) === 0) throw new Failed(expressionText(assertion, new Map()), text);
        }
        return this.#over();
      }
    }
  }

  // Time.

  /** The script's time for the event, first and last. */
  #window(t: EventTime, base: Instant): [first: Instant, last: Instant] {
    const seconds = 1e9;
    switch (t.type) {
      case "any":
        return [this.#host.now, this.#host.now + ANY_TIME_SECONDS * seconds];
      case "abs":
      case "absrange":
        return [Math.round(t.start * seconds), Math.round(t.end * seconds)];
      case "rel":
      case "relrange":
        return [base + Math.round(t.start * seconds), base + Math.round(t.end * seconds)];
    }
  }

  /** Lets the stack run until an event is to act; returns the script's time for it. */
  #until(t: EventTime, base: Instant = this.#base): Instant {
    const [first, last] = this.#window(t, base);
    if (this.#host.now > last + this.#tolerance) {
      throw new Failed(`this at ${clock(first)}`, `it is ${clock(this.#host.now)} already`);
    }
    while (this.#step(first));
    return first;
  }

  /** One step of the stack, not beyond `limit`; false when that is reached. */
  #step(limit: Instant): boolean {
    const wakeAt = this.#pending?.attempt.wakeAt ?? Infinity;
    const happened = this.#host.step(wakeAt > this.#host.now ? Math.min(limit, wakeAt) : limit);
    this.#collect();
    this.#retry();
    return happened || this.#host.now < limit;
  }

  /** The event is over now. */
  #over(): void {
    this.#base = this.#host.now;
    this.#injectBase = null;
  }

  // Packets.

  /** A new connection is under test; packets of one before are not about it. What was sent without one still is. */
  #begin(localPort: number, remotePort: number | null): void {
    if (this.#flow.begun) {
      this.#others += this.#sent.length;
      this.#sent.length = 0;
    } else if (remotePort === null && localPort === this.#flow.localPort) {
      return;
    }
    this.#flow = new Flow(localPort, remotePort ?? ++this.#remotePort, this.#rules);
  }

  /** Takes over what the stack has sent. */
  #collect(): void {
    for (const { segment, at } of this.#host.caught.splice(0)) {
      const own = typeof segment === "string" ? segment : this.#flow.outgoing(segment);
      if (own === null) {
        this.#note("> on another connection", at);
        this.#others++;
      } else {
        this.#note(`> ${sentText(own)}`, at);
        this.#sent.push({ segment: own, at });
      }
    }
  }

  #inject(t: EventTime, packet: TcpPacket | IcmpPacket): void {
    const at = this.#until(t, this.#injectBase ?? this.#base);
    const { localBytes, remoteBytes } = this.#host;
    if (packet.proto === "tcp") {
      this.#note(`< ${packetText(packet)}`);
      this.#host.input(buildPacket(remoteBytes, localBytes, this.#flow.incoming(packet)));
    } else {
      this.#note(`< icmp ${packet.type} ${packet.code}`);
      this.#host.input(this.#icmp(packet));
    }
    this.#collect();
    this.#retry();
    this.#base = this.#host.now;
    this.#injectBase = at;
  }

  #icmp(packet: IcmpPacket): Uint8Array {
    const { localBytes, remoteBytes } = this.#host;
    const code = icmpCode(localBytes.length === 4 ? 4 : 6, packet.type, packet.code);
    if (code === null) throw new Failed("an ICMP error that the runner knows", `${packet.type} ${packet.code}`);
    const quoted = buildPacket(localBytes, remoteBytes, {
      srcPort: this.#flow.localPort,
      dstPort: this.#flow.remotePort,
      seq: this.#flow.liveSeq(packet.quoted.seq),
      ack: 0,
      flags: 0,
      window: 0,
      urgent: 0,
      options: [],
      payload: new Uint8Array(packet.quoted.len),
      ecn: 0,
    });
    return buildIcmp(remoteBytes, localBytes, code[0], code[1], packet.mtu, quoted);
  }

  #expect(t: EventTime, packet: TcpPacket | IcmpPacket): void {
    if (packet.proto === "icmp") throw new Failed("a TCP segment", "an ICMP message that is to be sent");
    const [first, last] = this.#window(t, this.#base);
    const limit = last + this.#tolerance;
    const when = t.type === "any" ? "" : ` at ${clock(first)}`;
    const expected = `${packetText(packet)}${when}`;
    const head = this.#next(limit);
    if (head === null) throw new Failed(expected, `nothing until ${clock(Math.max(this.#host.now, limit))}`);
    if (typeof head.segment === "string") throw new Failed(expected, head.segment);
    const pieces: Segment[] = [head.segment];
    let end = head.at;
    // Pieces of what the script's system sends as one large segment.
    for (let next = this.#peek(packet, pieces, limit); next !== null; next = this.#peek(packet, pieces, limit)) {
      pieces.push(next.segment as Segment);
      end = next.at;
      this.#sent.shift();
    }
    const wrong = this.#flow.differences(packet, pieces);
    if (t.type !== "any" && (head.at < first - this.#tolerance || end > limit)) wrong.push(`at ${clock(head.at)}`);
    if (wrong.length > 0) {
      const all = pieces.map(segmentText);
      const shown = all.length > 3 ? [...all.slice(0, 2), `${all.length - 3} more`, all.at(-1)!] : all;
      throw new Failed(expected, `${shown.join(" + ")} at ${clock(head.at)} (${wrong.join(", ")})`);
    }
    this.#note(`as expected: ${expected}`);
    this.#over();
  }

  /** The next packet of the connection, if one is sent before `limit`. */
  #next(limit: Instant): Sent | null {
    while (this.#sent.length === 0 && this.#step(limit));
    return this.#sent.shift() ?? null;
  }

  /** The next packet if it goes on where `pieces` end, left in its place. */
  #peek(
    packet: TcpPacket,
    pieces: readonly Segment[],
    limit: Instant,
  ): { at: Instant; segment: Segment | string } | null {
    const total = pieces.reduce((sum, s) => sum + s.payload.length, 0);
    if (total === 0 || total >= packet.len) return null;
    while (this.#sent.length === 0 && this.#step(limit));
    const next = this.#sent[0];
    if (next === undefined || typeof next.segment === "string") return null;
    return this.#flow.continues(packet, pieces, next.segment) ? next : null;
  }

  // Calls.

  #call(t: EventTime, call: Call): void {
    this.#finishCall();
    const base = this.#base;
    this.#until(t);
    const attempt = this.#sockets.begin(call);
    const returned = attempt.run();
    this.#host.settle();
    this.#collect();
    const endAt = call.blockingEnd === null
      ? null
      : Math.round(call.blockingEnd * 1e9) + (t.type === "abs" || t.type === "absrange" ? 0 : base);
    if (returned === null && attempt.nonBlocking) {
      this.#returns(call, { result: -1, errno: "EAGAIN", problem: null });
    } else if (returned !== null) {
      this.#returns(call, returned);
      if (endAt !== null) this.#checkEnd(call, endAt);
    } else if (endAt === null) {
      throw new Failed(`${callText(call)} at once`, "it blocks");
    } else {
      this.#note(`${callText(call)} blocks`);
      this.#pending = { line: this.#line, call, attempt, endAt };
      this.#retry();
    }
    this.#over();
  }

  /** Tries the call that blocks again. */
  #retry(): void {
    const pending = this.#pending;
    if (pending === null) return;
    const returned = pending.attempt.run();
    if (returned === null) return;
    this.#pending = null;
    this.#host.settle();
    this.#collect();
    this.#atLine(pending.line, () => {
      this.#returns(pending.call, returned);
      this.#checkEnd(pending.call, pending.endAt);
    });
  }

  /** Waits for the call that blocks. */
  #finishCall(): void {
    const pending = this.#pending;
    if (pending === null) return;
    const limit = pending.endAt + this.#tolerance;
    while (this.#pending !== null && this.#step(limit));
    if (this.#pending === null) return;
    this.#atLine(pending.line, () => {
      throw new Failed(`${callText(pending.call)} until ${clock(pending.endAt)}`, "it blocks still");
    });
  }

  /** Failures in `judge` belong to an earlier line. */
  #atLine(line: number, judge: () => void): void {
    const current = this.#line;
    this.#line = line;
    judge();
    this.#line = current;
  }

  #returns(call: Call, { result, errno, problem }: Returned): void {
    const got = `${result}${errno === null ? "" : ` ${errno}`}`;
    this.#note(`${callText(call)}: ${got}`);
    const asWanted = isAny(call.result) || toNumber(call.result) === result;
    if (!asWanted || (call.errno !== null && call.errno !== errno)) throw new Failed(callText(call), got);
    if (problem !== null) throw new Failed(callText(call), problem);
  }

  #checkEnd(call: Call, endAt: Instant): void {
    if (Math.abs(this.#host.now - endAt) <= this.#tolerance) return;
    throw new Failed(`${callText(call)} at ${clock(endAt)}`, `it returns at ${clock(this.#host.now)}`);
  }

  // Settings.

  #act(action: Action): void {
    switch (action.op) {
      case "sysctl":
        this.#sysctls.set(sysctlName(action.name), action.value);
        break;
      case "defaults":
        for (const [name, value] of Object.entries(action.sysctl)) this.#sysctls.set(sysctlName(name), value);
        break;
      case "restore":
        this.#sysctls.clear();
        for (const [name, value] of Object.entries(this.#script.sysctl)) this.#sysctls.set(sysctlName(name), value);
        break;
      case "assert_state_count": {
        const count = this.#count(action.state);
        if (count !== action.count) {
          throw new Failed(`${action.count} sockets in ${action.state}`, `${count}`);
        }
        return;
      }
    }
    Object.assign(this.#host.tcp.options, PROFILES.get(this.#script.profile)!(this.#sysctls));
  }

  #count(name: string): number {
    const state = stateByName(name);
    if (state === undefined) throw new Failed("a state that the runner knows", name);
    let count = name === "LISTEN" ? this.#sockets.listeners : 0;
    for (const t of this.#host.tcp.connections()) if (t.state === state) count++;
    return count;
  }

  #note(text: string, at: Instant = this.#host.now): void {
    this.#trace.push(`${clock(at)} ${text}`);
  }
}

function sentText(segment: Segment | string): string {
  return typeof segment === "string" ? segment : segmentText(segment);
}

function clock(at: Instant): string {
  return `${(at / 1e9).toFixed(6)} s`;
}

function callText({ name, args, result, errno }: Call): string {
  return `${name}(${args.map(valueText).join(", ")}) = ${valueText(result)}${errno === null ? "" : ` ${errno}`}`;
}

function integerOption(options: Record<string, string>, name: string, otherwise: number): number {
  const given = options[name];
  if (given === undefined) return otherwise;
  if (!/^\d+$/.test(given)) throw new Failed(`a number as ${name}`, given);
  return Number(given);
}
