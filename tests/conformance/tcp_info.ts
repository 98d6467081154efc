/**
 * The fields of tcp_info as scripts name them, and expressions over them.
 *
 * @module
 */

import type { TcpInfo } from "../../src/tcp/info.ts";
import { TcpState } from "../../src/tcp/state.ts";
import type { Tcb } from "../../src/tcp/tcb.ts";
import { MICROSECOND } from "../../src/base/time.ts";
import { ackDelay } from "../../src/tcp/delayed_ack.ts";
import type { Expression } from "./format.ts";

/** Something cannot be said of a connection: a field or an operator that is not known. */
export class UnknownError extends Error {
  override name = "UnknownError";
}

// State numbers of the two systems, by TcpState.
const LINUX_STATES: readonly number[] = [7, 10, 2, 3, 1, 4, 5, 8, 11, 9, 6];
const FREEBSD_STATES: readonly number[] = [0, 1, 2, 3, 4, 6, 9, 5, 7, 8, 10];

const STATE_NAMES: Record<string, TcpState> = {
  CLOSE: TcpState.Closed,
  CLOSED: TcpState.Closed,
  LISTEN: TcpState.Listen,
  SYN_SENT: TcpState.SynSent,
  SYN_RECV: TcpState.SynReceived,
  SYN_RCVD: TcpState.SynReceived,
  SYN_RECEIVED: TcpState.SynReceived,
  ESTABLISHED: TcpState.Established,
  FIN_WAIT1: TcpState.FinWait1,
  FIN_WAIT_1: TcpState.FinWait1,
  FIN_WAIT2: TcpState.FinWait2,
  FIN_WAIT_2: TcpState.FinWait2,
  CLOSE_WAIT: TcpState.CloseWait,
  CLOSING: TcpState.Closing,
  LAST_ACK: TcpState.LastAck,
  TIME_WAIT: TcpState.TimeWait,
};

const CA_STATES = ["open", "disorder", "cwr", "recovery", "loss"];
const CA_NAMES = ["TCP_CA_Open", "TCP_CA_Disorder", "TCP_CA_CWR", "TCP_CA_Recovery", "TCP_CA_Loss"];

/** The state that a system calls `name`, or `undefined`. */
export function stateByName(name: string): TcpState | undefined {
  return STATE_NAMES[name];
}

/** The fields of tcp_info of a connection, or of a listener (`null`), by name. */
export function infoFields(t: Tcb | null, profile: string): Map<string, number> {
  const states = profile === "freebsd" ? FREEBSD_STATES : LINUX_STATES;
  const fields = new Map<string, number>([["tcpi_state", states[t?.state ?? TcpState.Listen]!]]);
  if (t === null) return fields;
  const info: TcpInfo = t.info();
  const segments = (bytes: number): number => Math.ceil(bytes / t.mss);
  const r = info.retransmits;
  const all: Record<string, number> = {
    ca_state: CA_STATES.indexOf(info.caState),
    options: (info.ts ? 1 : 0) | (info.sack ? 2 : 0) | (t.windowScaleOn ? 4 : 0),
    snd_wscale: info.sndWscale,
    rcv_wscale: info.rcvWscale,
    rto: info.rto * 1000,
    rtt: info.rtt * 1000,
    rttvar: info.rttvar * 1000,
    min_rtt: info.minRtt * 1000,
    ato: ackDelay(t) / MICROSECOND,
    snd_mss: info.mss,
    rcv_mss: t.rcvMss,
    advmss: t.localMss,
    snd_cwnd: info.cwnd,
    snd_ssthresh: info.ssthresh < 0 ? 0x7fffffff : info.ssthresh,
    snd_wnd: info.sndWnd,
    rcv_wnd: info.rcvWnd,
    unacked: info.unacked,
    lost: segments(t.lostBytes),
    retrans: segments(t.retransmittedBytes),
    total_retrans: r.fast + r.probe + r.timeout + r.loss + r.syn,
    retransmits: t.retries,
    backoff: info.backoff,
    probes: t.persistBackoff,
    notsent_bytes: info.notsent,
    segs_in: info.segsIn,
    segs_out: info.segsOut,
    bytes_sent: info.bytesSent + info.bytesRetrans,
    bytes_acked: info.bytesAcked,
    bytes_received: info.bytesReceived,
    bytes_retrans: info.bytesRetrans,
  };
  for (const [name, value] of Object.entries(all)) fields.set(`tcpi_${name}`, value);
  // What later versions of TcpInfo say beyond that is theirs to say, under their own names.
  const extra = info as unknown as Record<string, unknown>;
  for (const name of ["sacked", "reordering", "delivered"]) {
    const value = extra[name];
    if (typeof value === "number") fields.set(`tcpi_${name}`, value);
  }
  return fields;
}

/** The value of an expression; comparisons and logic give 1 or 0. */
export function evaluate(e: Expression, fields: ReadonlyMap<string, number>, profile: string): number {
  if (typeof e === "number") return e;
  if ("name" in e) return fields.get(e.name) ?? constant(e.name, profile);
  const operator = OPERATORS[e.op];
  const values = e.operands.map((operand) => evaluate(operand, fields, profile));
  if (operator === undefined || operator.length !== values.length) {
    throw new UnknownError(`an operator ${e.op} with ${values.length} operands is not known`);
  }
  return Number(operator(...values as [number, number]));
}

const OPERATORS: Record<string, (a: number, b: number) => number | boolean> = {
  "==": (a, b) => a === b,
  "!=": (a, b) => a !== b,
  "<": (a, b) => a < b,
  "<=": (a, b) => a <= b,
  ">": (a, b) => a > b,
  ">=": (a, b) => a >= b,
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": (a, b) => a * b,
  "/": (a, b) => a / b,
  "//": (a, b) => Math.floor(a / b),
  "%": (a, b) => a % b,
  "&": (a, b) => a & b,
  "|": (a, b) => a | b,
  and: (a, b) => a !== 0 && b !== 0,
  or: (a, b) => a !== 0 || b !== 0,
  not: (a: number) => a === 0,
  neg: (a: number) => -a,
  abs: (a: number) => Math.abs(a),
  min: (a, b) => Math.min(a, b),
  max: (a, b) => Math.max(a, b),
};

function constant(name: string, profile: string): number {
  const ca = CA_NAMES.indexOf(name);
  if (ca >= 0) return ca;
  const state = stateByName(name.replace(/^(TCPI?|TCPS)_/, ""));
  if (state === undefined || !/^(TCPI?|TCPS)_/.test(name)) throw new UnknownError(`${name} is not known`);
  return (profile === "freebsd" ? FREEBSD_STATES : LINUX_STATES)[state]!;
}

/** An expression in words, with the values of the fields in it. */
export function expressionText(e: Expression, fields: ReadonlyMap<string, number>): string {
  if (typeof e === "number") return `${e}`;
  if ("name" in e) return fields.has(e.name) ? `${e.name} (${fields.get(e.name)})` : e.name;
  const parts = e.operands.map((operand) => expressionText(operand, fields));
  return parts.length === 2 ? `${parts[0]} ${e.op} ${parts[1]}` : `${e.op}(${parts.join(", ")})`;
}
