/**
 * The form of a conformance script, and how it is checked.
 *
 * A script is a JSON file: a profile, options, system settings to begin with, and events in order. The outer form has
 * to be right, or the file is no script ({@linkcode decodeScript} throws a {@linkcode FormatError} with the place and
 * what was expected there). An event that is not understood, by its kind or by anything in it, becomes a `malformed`
 * event: playing it is a failure of the script, never something to skip.
 *
 * @module
 */

import { FLAGS, type TcpOption } from "./segment.ts";

/** Something is not as it must be. */
export class FormatError extends Error {
  override name = "FormatError";
}

/** When an event happens; seconds. */
export interface EventTime {
  type: "abs" | "rel" | "any" | "absrange" | "relrange";
  start: number;
  end: number;
}

/** A TCP packet of a script; `null` is "not given". Numbers are relative to the initial sequence numbers. */
export interface TcpPacket {
  proto: "tcp";
  /** Bits of the flags. */
  flags: number;
  seq: [from: number, to: number];
  len: number;
  ack: number | null;
  win: number | null;
  urg: number | null;
  options: TcpOption[] | null;
  ecn: number | null;
}

/** An ICMP error about a segment of ours. */
export interface IcmpPacket {
  proto: "icmp";
  type: string;
  code: string;
  /** Next-hop MTU, if given. */
  mtu: number;
  quoted: { seq: number; len: number };
}

/** An argument or a result of a system call. */
export type Value = null | number | string | { any: true } | { sym: string } | { or: Value[] } | { array: Value[] } | {
  fields: Record<string, Value>;
};

/** A system call. */
export interface Call {
  name: string;
  args: Value[];
  result: Value;
  errno: string | null;
  /** When the call returns, in seconds counted like the event's start; `null` for at once. */
  blockingEnd: number | null;
}

/** One step of a sysctl event. */
export type Action =
  | { op: "sysctl"; name: string; value: string }
  | { op: "defaults"; sysctl: Record<string, string> }
  | { op: "restore" }
  | { op: "assert_state_count"; state: string; count: number };

/** An expression over the fields of tcp_info. */
export type Expression = number | { name: string } | { op: string; operands: Expression[] };

/** One event, with the line of the original script. */
export type Event =
  & { line: number }
  & ({
    kind: "inject" | "expect";
    t: EventTime;
    packet: TcpPacket | IcmpPacket;
  } | {
    kind: "syscall";
    t: EventTime;
    call: Call;
  } | {
    kind: "sysctl";
    t: EventTime;
    untimed: boolean;
    actions: Action[];
  } | {
    kind: "code";
    t: EventTime;
    asserts: Expression[];
  } | {
    kind: "malformed";
    problem: string;
  });

/** One script. */
export interface Script {
  profile: string;
  options: Record<string, string>;
  sysctl: Record<string, string>;
  /** What the makers of the script say the runner cannot do; none in a complete script. */
  unsupported: string[];
  events: Event[];
}

/** Reads a script from what `JSON.parse` gave. */
export function decodeScript(json: unknown): Script {
  const raw = record(json, "the script");
  const setup = raw.setup === undefined ? {} : record(raw.setup, "setup");
  return {
    profile: text(raw.profile, "profile"),
    options: texts(raw.options ?? {}, "options"),
    sysctl: texts(setup.sysctl ?? {}, "setup.sysctl"),
    unsupported: list(raw.unsupported ?? [], "unsupported").map((entry) => JSON.stringify(entry)),
    events: list(raw.events, "events").map((entry, i) => {
      const event = record(entry, `events[${i}]`);
      const line = integer(event.line, `events[${i}].line`);
      try {
        return { line, ...decodeEvent(event) };
      } catch (error) {
        if (!(error instanceof FormatError)) throw error;
        return { line, kind: "malformed", problem: error.message };
      }
    }),
  };
}

type WithoutLine<E> = E extends unknown ? Omit<E, "line"> : never;

function decodeEvent(event: Record<string, unknown>): WithoutLine<Event> {
  const kind = text(event.kind, "kind");
  const t = decodeTime(event.t);
  switch (kind) {
    case "inject":
    case "expect":
      return { kind, t, packet: decodePacket(record(event.packet, "packet")) };
    case "syscall":
      return { kind, t, call: decodeCall(record(event.syscall, "syscall")) };
    case "sysctl":
      return { kind, t, untimed: event.untimed === true, actions: list(event.actions, "actions").map(decodeAction) };
    case "code": {
      const code = record(event.code, "code");
      const asserts = list(code.asserts, "code.asserts").map((entry, i) => expression(entry, `code.asserts[${i}]`));
      if (asserts.length === 0) throw new FormatError("code.asserts: expected at least one assertion");
      return { kind, t, asserts };
    }
    default:
      throw new FormatError(`kind: expected inject, expect, syscall, sysctl or code, got ${shown(kind)}`);
  }
}

function decodeTime(json: unknown): EventTime {
  const raw = record(json, "t");
  const type = text(raw.type, "t.type");
  switch (type) {
    case "any":
      return { type, start: 0, end: Infinity };
    case "abs":
    case "rel": {
      const start = finite(raw.start, "t.start");
      return { type, start, end: start };
    }
    case "absrange":
    case "relrange":
      return { type, start: finite(raw.start, "t.start"), end: finite(raw.end, "t.end") };
    default:
      throw new FormatError(`t.type: expected abs, rel, any, absrange or relrange, got ${shown(type)}`);
  }
}

function decodePacket(raw: Record<string, unknown>): TcpPacket | IcmpPacket {
  const proto = text(raw.proto, "packet.proto");
  if (proto === "icmp") {
    const quoted = record(raw.quoted, "packet.quoted");
    return {
      proto,
      type: text(raw.type, "packet.type"),
      code: text(raw.code, "packet.code"),
      mtu: raw.mtu === undefined || raw.mtu === null ? 0 : integer(raw.mtu, "packet.mtu"),
      quoted: { seq: pair(quoted.seq, "packet.quoted.seq")[0], len: integer(quoted.len, "packet.quoted.len") },
    };
  }
  if (proto !== "tcp") throw new FormatError(`packet.proto: expected tcp or icmp, got ${shown(proto)}`);
  return {
    proto,
    flags: list(raw.flags, "packet.flags").reduce((bits: number, name) => bits | flagBit(name), 0),
    seq: pair(raw.seq, "packet.seq"),
    len: integer(raw.len, "packet.len"),
    ack: optional(raw.ack, "packet.ack", integer),
    win: optional(raw.win, "packet.win", integer),
    urg: optional(raw.urg, "packet.urg", integer),
    options: optional(raw.options, "packet.options", (value, path) => list(value, path).map(decodeOption)),
    ecn: optional(raw.ecn, "packet.ecn", ecnBits),
  };
}

function flagBit(name: unknown): number {
  const flag = FLAGS.find(([known]) => known === name);
  if (flag === undefined) {
    throw new FormatError(`packet.flags: expected some of ${FLAGS.map(([known]) => known)}, got ${shown(name)}`);
  }
  return flag[1];
}

const ECN_NAMES: Record<string, number> = { noecn: 0, ect1: 1, ect0: 2, ce: 3 };

function ecnBits(value: unknown, path: string): number {
  const bits = typeof value === "string" ? ECN_NAMES[value] : undefined;
  if (bits === undefined) throw new FormatError(`${path}: expected noecn, ect0, ect1 or ce, got ${shown(value)}`);
  return bits;
}

function decodeOption(json: unknown): TcpOption {
  const raw = record(json, "packet.options");
  const k = raw.k;
  switch (k) {
    case "nop":
    case "eol":
    case "sackOK":
      return { k };
    case "mss":
    case "wscale":
      return { k, v: integer(raw.v, `option ${k}`) };
    case "ts":
      return { k, val: integer(raw.val, "option ts: val"), ecr: integer(raw.ecr, "option ts: ecr") };
    case "sack":
      return { k, blocks: list(raw.blocks, "option sack: blocks").map((block) => pair(block, "option sack: block")) };
    default:
      throw new FormatError(`packet.options: expected mss, wscale, sackOK, ts, sack, nop or eol, got ${shown(k)}`);
  }
}

function decodeCall(raw: Record<string, unknown>): Call {
  return {
    name: text(raw.name, "syscall.name"),
    args: list(raw.args, "syscall.args").map((entry, i) => decodeValue(entry, `syscall.args[${i}]`)),
    result: decodeValue(raw.result, "syscall.result"),
    errno: optional(raw.errno, "syscall.errno", text),
    blockingEnd: optional(raw.blocking_end, "syscall.blocking_end", finite),
  };
}

function decodeValue(json: unknown, path: string): Value {
  if (json === null || typeof json === "number" || typeof json === "string") return json;
  const raw = record(json, path);
  if (raw.any === true) return { any: true };
  if (raw.sym !== undefined) return { sym: text(raw.sym, `${path}.sym`) };
  for (const key of ["or", "array"] as const) {
    if (raw[key] === undefined) continue;
    const values = list(raw[key], `${path}.${key}`).map((entry, i) => decodeValue(entry, `${path}.${key}[${i}]`));
    return key === "or" ? { or: values } : { array: values };
  }
  const inner = raw.struct === undefined ? raw : record(raw.struct, `${path}.struct`);
  const fields = Object.entries(inner).map(([key, value]) => [key, decodeValue(value, `${path}.${key}`)] as const);
  return { fields: Object.fromEntries(fields) };
}

function decodeAction(json: unknown): Action {
  const raw = record(json, "actions");
  const op = text(raw.op, "actions.op");
  switch (op) {
    case "sysctl":
      return { op, name: text(raw.name, "actions.name"), value: text(raw.value, "actions.value") };
    case "defaults":
      return { op, sysctl: texts(raw.sysctl, "actions.sysctl") };
    case "restore":
      return { op };
    case "assert_state_count":
      return { op, state: text(raw.state, "actions.state"), count: integer(raw.count, "actions.count") };
    default:
      throw new FormatError(
        `actions.op: expected sysctl, defaults, restore or assert_state_count, got ${shown(op)}`,
      );
  }
}

function expression(json: unknown, path: string): Expression {
  if (typeof json === "number") return json;
  const raw = record(json, path);
  if (raw.var !== undefined) return { name: text(raw.var, `${path}.var`) };
  if (raw.num !== undefined) return finite(raw.num, `${path}.num`);
  const op = text(raw.op, `${path}.op`);
  const given = Array.isArray(raw.args) ? raw.args : [raw.a, raw.b].filter((operand) => operand !== undefined);
  if (given.length === 0) throw new FormatError(`${path}: expected operands`);
  return { op, operands: given.map((operand, i) => expression(operand, `${path}.${"ab"[i] ?? i}`)) };
}

// What JSON can hold, each with the path for the message.

/** What a value looks like in a message. */
export function shown(value: unknown): string {
  const json = JSON.stringify(value) ?? String(value);
  return json.length > 60 ? `${json.slice(0, 57)}...` : json;
}

function wrong(path: string, expected: string, value: unknown): never {
  throw new FormatError(`${path}: expected ${expected}, got ${value === undefined ? "nothing" : shown(value)}`);
}

/** An object. */
export function record(value: unknown, path: string): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) wrong(path, "an object", value);
  return value as Record<string, unknown>;
}

/** An array. */
export function list(value: unknown, path: string): unknown[] {
  if (!Array.isArray(value)) wrong(path, "an array", value);
  return value;
}

/** A text. */
export function text(value: unknown, path: string): string {
  if (typeof value !== "string") wrong(path, "a text", value);
  return value;
}

function integer(value: unknown, path: string): number {
  if (!Number.isSafeInteger(value)) wrong(path, "an integer", value);
  return value as number;
}

function finite(value: unknown, path: string): number {
  if (typeof value !== "number" || !Number.isFinite(value)) wrong(path, "a number", value);
  return value;
}

function pair(value: unknown, path: string): [number, number] {
  const entries = list(value, path);
  if (entries.length !== 2) wrong(path, "two integers", value);
  return [integer(entries[0], path), integer(entries[1], path)];
}

function optional<T>(value: unknown, path: string, decode: (value: unknown, path: string) => T): T | null {
  return value === undefined || value === null ? null : decode(value, path);
}

function texts(value: unknown, path: string): Record<string, string> {
  return Object.fromEntries(
    Object.entries(record(value, path)).map(([key, entry]) => [key, text(entry, `${path}.${key}`)]),
  );
}
