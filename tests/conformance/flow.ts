/**
 * One connection between a script's numbers and those of the wire: ports, initial sequence numbers and timestamps; and
 * the comparison of a segment that was expected with what was sent.
 *
 * Sequence numbers of a script are relative. The other side's begin close below 2^32, so that every script crosses the
 * wrap. Ours are learned from the first SYN that the stack sends; before that, numbers are taken as they are. Data is
 * a pattern of its sequence number, in both directions, so that wrong bytes are noticed too.
 *
 * @module
 */

import type { TcpPacket } from "./format.ts";
import { ACK, FIN, flagText, optionText, PSH, type Segment, SYN, type TcpOption } from "./segment.ts";

/** Added to the other side's numbers of a script. */
export const REMOTE_BASE = 2 ** 32 - 200;

/** Our timestamp clock ticks once in so many microseconds. */
const TICK_MICROSECONDS = 1000;

const ECN_NAMES: readonly string[] = ["noecn", "ect1", "ect0", "ce"];

/** The byte at sequence number `seq` of the data that a side sends. */
export function dataByte(fromUs: boolean, seq: number): number {
  return Math.imul((seq | 0) + (fromUs ? 0x5bd1 : 0), 0x9e3779b1) >>> 24;
}

/** Data of a side from sequence number `seq` on. */
export function dataBytes(fromUs: boolean, seq: number, length: number): Uint8Array<ArrayBuffer> {
  const data = new Uint8Array(length);
  for (let i = 0; i < length; i++) data[i] = dataByte(fromUs, seq + i);
  return data;
}

/** How strictly segments are compared. */
export interface Rules {
  /** Compare the window field. */
  window: boolean;
  /** Microseconds for one tick of the script's timestamps; 0 if TSval is not to be checked. */
  tsTickMicroseconds: number;
  /** By how much a TSval may be off, in microseconds. */
  toleranceMicroseconds: number;
}

/** A connection of a script. */
export class Flow {
  /** Our port. */
  readonly localPort: number;
  /** The other side's port. */
  readonly remotePort: number;
  readonly #rules: Rules;
  #iss: number | null = null;
  readonly #tsVals = new Map<number, number>();
  #firstTs: { script: number; live: number } | null = null;

  /** A connection of which nothing is known yet. */
  constructor(localPort: number, remotePort: number, rules: Rules) {
    this.localPort = localPort;
    this.remotePort = remotePort;
    this.#rules = rules;
  }

  /** A segment that we sent now, with the numbers of the script; `null` if it belongs to another connection. */
  outgoing(s: Segment): Segment | null {
    if (s.srcPort !== this.localPort || s.dstPort !== this.remotePort) return null;
    if ((s.flags & SYN) !== 0) this.#iss ??= s.seq;
    const remote = (seq: number): number => (seq - REMOTE_BASE) >>> 0;
    return {
      ...s,
      seq: (s.seq - (this.#iss ?? 0)) >>> 0,
      ack: remote(s.ack),
      options: s.options.map((option) =>
        option.k !== "sack"
          ? option
          : { k: "sack", blocks: option.blocks.map(([left, right]) => [remote(left), remote(right)]) }
      ),
    };
  }

  /** True once a SYN of ours was seen. */
  get begun(): boolean {
    return this.#iss !== null;
  }

  /** A sequence number of ours as on the wire. */
  liveSeq(seq: number): number {
    return ((this.#iss ?? 0) + seq) >>> 0;
  }

  /** The segment that `packet` says comes from the other side. */
  incoming(packet: TcpPacket): Segment {
    const syn = (packet.flags & SYN) !== 0 ? 1 : 0;
    return {
      srcPort: this.remotePort,
      dstPort: this.localPort,
      seq: (REMOTE_BASE + packet.seq[0]) >>> 0,
      ack: packet.ack === null ? 0 : this.liveSeq(packet.ack),
      flags: packet.flags,
      window: packet.win ?? 0,
      urgent: packet.urg ?? 0,
      options: (packet.options ?? []).map((option) => this.#incomingOption(option)),
      payload: dataBytes(false, packet.seq[0] + syn, packet.len),
      ecn: packet.ecn ?? 0,
    };
  }

  #incomingOption(option: TcpOption): TcpOption {
    if (option.k === "sack") {
      return { k: "sack", blocks: option.blocks.map(([left, right]) => [this.liveSeq(left), this.liveSeq(right)]) };
    }
    return option.k === "ts" ? { ...option, ecr: this.#liveTs(option.ecr) } : option;
  }

  /** The TSval of ours that a script calls `script`. */
  #liveTs(script: number): number {
    const seen = this.#tsVals.get(script);
    if (seen !== undefined) return seen;
    return this.#firstTs === null || script === 0 ? script : this.#firstTs.live + (script - this.#firstTs.script);
  }

  /** True if `next` may follow `pieces` as a further piece of the segment that `expected` describes. */
  continues(expected: TcpPacket, pieces: readonly Segment[], next: Segment): boolean {
    const last = pieces.at(-1)!;
    const total = pieces.reduce((sum, s) => sum + s.payload.length, 0);
    const size = pieces[0]!.payload.length;
    // Pieces are equal but for the last, which may be shorter and alone may carry the FIN.
    return last.payload.length === size && next.payload.length > 0 && next.payload.length <= size &&
      total + next.payload.length <= expected.len && next.seq === (last.seq + last.payload.length) >>> 0 &&
      (last.flags & ~PSH) === (next.flags & ~(PSH | FIN)) && last.ack === next.ack;
  }

  /** What is wrong with `pieces` where `expected` was to come; empty if nothing is. */
  differences(expected: TcpPacket, pieces: readonly Segment[]): string[] {
    const first = pieces[0]!;
    const last = pieces.at(-1)!;
    const len = pieces.reduce((sum, s) => sum + s.payload.length, 0);
    const wrong: string[] = [];
    const compare = (what: string, got: number | string, wanted: number | string): void => {
      if (got !== wanted) wrong.push(`${what} ${got} for ${wanted}`);
    };
    compare("flags", flagText(last.flags & ~PSH), flagText(expected.flags & ~PSH));
    compare("seq", first.seq, expected.seq[0] >>> 0);
    compare("len", len, expected.len);
    compare("end", (first.seq + len) >>> 0, expected.seq[1] >>> 0);
    if (expected.ack !== null) compare("ack", last.ack, expected.ack >>> 0);
    if (expected.urg !== null) compare("urg", last.urgent, expected.urg);
    for (const s of pieces) {
      if (expected.win !== null && this.#rules.window) compare("win", s.window, expected.win);
      if (expected.ecn !== null) compare("ecn", ECN_NAMES[s.ecn]!, ECN_NAMES[expected.ecn]!);
      if (expected.options !== null) wrong.push(...this.#optionDifferences(expected.options, s.options));
      const at = s.payload.findIndex((byte, i) => byte !== dataByte(true, s.seq + i));
      if (at >= 0) wrong.push(`wrong data at ${s.seq + at}`);
    }
    return [...new Set(wrong)];
  }

  #optionDifferences(expected: TcpOption[], sent: TcpOption[]): string[] {
    const wanted = optionSet(expected);
    const got = optionSet(sent);
    if (wanted.join() !== got.join()) return [`options <${got.join()}> for <${wanted.join()}>`];
    const ts = sent.find((option) => option.k === "ts");
    const wantedTs = expected.find((option) => option.k === "ts");
    if (ts === undefined || wantedTs === undefined) return [];
    return this.#tsDifference(wantedTs.val, ts.val);
  }

  /** Notes which TSval of ours a script calls `script`, and checks it if the script says how fast its clock is. */
  #tsDifference(script: number, live: number): string[] {
    this.#tsVals.set(script, live);
    const first = this.#firstTs ??= { script, live };
    const { tsTickMicroseconds, toleranceMicroseconds } = this.#rules;
    if (tsTickMicroseconds === 0) return [];
    const got = (live - first.live | 0) * TICK_MICROSECONDS;
    const wanted = (script - first.script | 0) * tsTickMicroseconds;
    if (Math.abs(got - wanted) <= toleranceMicroseconds) return [];
    return [`TSval ${first.script + got / tsTickMicroseconds} for ${script}`];
  }
}

/** Options in a fixed order without padding; TSval left out. */
function optionSet(options: TcpOption[]): string[] {
  return options.filter(({ k }) => k !== "nop" && k !== "eol")
    .map((option) => option.k === "ts" ? `TS ecr ${option.ecr}` : optionText(option)).sort();
}

/** A segment of ours with relative numbers, in one line. */
export function segmentText(s: Segment): string {
  const ack = (s.flags & ACK) !== 0 ? ` ack ${s.ack}` : "";
  const options = s.options.filter(({ k }) => k !== "nop" && k !== "eol").map(optionText).join();
  return `${flagText(s.flags)} ${s.seq}:${
    (s.seq + s.payload.length) >>> 0
  }(${s.payload.length})${ack} win ${s.window} ` +
    `<${options}>${s.ecn === 0 ? "" : ` ${ECN_NAMES[s.ecn]}`}`;
}

/** A packet of a script, in one line. */
export function packetText(packet: TcpPacket): string {
  const { flags, seq, len, ack, win, options, ecn } = packet;
  return `${flagText(flags)} ${seq[0]}:${seq[1]}(${len})${ack === null ? "" : ` ack ${ack}`}` +
    `${win === null ? "" : ` win ${win}`} ${
      options === null ? "<...>" : `<${options.filter(({ k }) => k !== "nop" && k !== "eol").map(optionText).join()}>`
    }${ecn === null ? "" : ` ${ECN_NAMES[ecn]}`}`;
}
