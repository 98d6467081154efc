/**
 * TCP options: MSS (RFC 9293 section 3.7.1), window scale and timestamps (RFC 7323), SACK-permitted and SACK (RFC 2018).
 *
 * Unknown options are skipped by their length. An option with an impossible length makes the segment invalid: it is
 * dropped and counted, since nothing behind such an option can be trusted. An option that appears twice counts as its
 * last appearance. Written options are padded with NOPs in front to 32 bits, in the order MSS, SACK-permitted,
 * timestamps, window scale, SACK.
 *
 * @module
 */

import { DropReason } from "../base/drop.ts";
import type { TcpHeader } from "./tcp.ts";

/** Kinds of options. */
export enum TcpOptionKind {
  /** End of the option list. */
  End = 0,
  /** Padding of one byte. */
  Nop = 1,
  /** Maximum segment size. */
  Mss = 2,
  /** Window scale. */
  WindowScale = 3,
  /** SACK-permitted. */
  SackPermitted = 4,
  /** SACK blocks. */
  Sack = 5,
  /** Timestamps. */
  Timestamps = 8,
}

/** The most options bytes that a header has room for. */
export const TCP_OPTIONS_BYTES_MAX = 40;

/** Reads the options in `[start, end)` into `out`. */
export function parseTcpOptions(view: DataView, start: number, end: number, out: TcpHeader): DropReason {
  out.clearOptions();
  // The layout that nearly every segment has: NOP, NOP, timestamps.
  if (end - start === 12 && view.getInt32(start) === 0x0101080a) {
    out.hasTimestamps = true;
    out.tsVal = view.getInt32(start + 4);
    out.tsEcr = view.getInt32(start + 8);
    return DropReason.None;
  }
  let at = start;
  while (at < end) {
    const kind = view.getUint8(at);
    if (kind === TcpOptionKind.End) break;
    if (kind === TcpOptionKind.Nop) {
      at++;
      continue;
    }
    if (at + 1 >= end) return DropReason.BadTcpOption;
    const length = view.getUint8(at + 1);
    if (length < 2 || at + length > end) return DropReason.BadTcpOption;
    if (!parseOption(view, at, kind, length, out)) return DropReason.BadTcpOption;
    at += length;
  }
  return DropReason.None;
}

function parseOption(view: DataView, at: number, kind: number, length: number, out: TcpHeader): boolean {
  switch (kind) {
    case TcpOptionKind.Mss:
      if (length !== 4) return false;
      out.mss = view.getUint16(at + 2);
      return true;
    case TcpOptionKind.WindowScale:
      if (length !== 3) return false;
      out.windowScale = view.getUint8(at + 2);
      return true;
    case TcpOptionKind.SackPermitted:
      if (length !== 2) return false;
      out.sackPermitted = true;
      return true;
    case TcpOptionKind.Sack: {
      const count = (length - 2) >> 3;
      if (count < 1 || count > 4 || length !== 2 + 8 * count) return false;
      out.sackCount = count;
      for (let i = 0; i < 2 * count; i++) out.sackEdges[i] = view.getInt32(at + 2 + 4 * i);
      return true;
    }
    case TcpOptionKind.Timestamps:
      if (length !== 10) return false;
      out.hasTimestamps = true;
      out.tsVal = view.getInt32(at + 2);
      out.tsEcr = view.getInt32(at + 6);
      return true;
    default:
      return true;
  }
}

/**
 * Length that the options of `h` take when written, a multiple of 4. Whoever fills `h` keeps it within
 * {@linkcode TCP_OPTIONS_BYTES_MAX}: with timestamps there is room for three SACK blocks, else for four.
 */
export function tcpOptionsLength(h: TcpHeader): number {
  return (h.mss >= 0 ? 4 : 0) + (h.sackPermitted && !h.hasTimestamps ? 4 : 0) + (h.hasTimestamps ? 12 : 0) +
    (h.windowScale >= 0 ? 4 : 0) + (h.sackCount > 0 ? 4 + 8 * h.sackCount : 0);
}

/** Writes the options of `h` at `at`; they take {@linkcode tcpOptionsLength} bytes. */
export function emitTcpOptions(view: DataView, start: number, h: TcpHeader): void {
  let at = start;
  if (h.mss >= 0) {
    view.setInt32(at, (TcpOptionKind.Mss << 24) | (4 << 16) | h.mss);
    at += 4;
  }
  if (h.hasTimestamps) {
    // SACK-permitted takes the place of the two NOPs.
    view.setInt32(
      at,
      ((h.sackPermitted ? (TcpOptionKind.SackPermitted << 8) | 2 : 0x0101) << 16) | (TcpOptionKind.Timestamps << 8) |
        10,
    );
    view.setInt32(at + 4, h.tsVal);
    view.setInt32(at + 8, h.tsEcr);
    at += 12;
  } else if (h.sackPermitted) {
    view.setInt32(at, (0x0101 << 16) | (TcpOptionKind.SackPermitted << 8) | 2);
    at += 4;
  }
  if (h.windowScale >= 0) {
    view.setInt32(at, (TcpOptionKind.Nop << 24) | (TcpOptionKind.WindowScale << 16) | (3 << 8) | h.windowScale);
    at += 4;
  }
  if (h.sackCount > 0) {
    view.setInt32(at, (0x0101 << 16) | (TcpOptionKind.Sack << 8) | (2 + 8 * h.sackCount));
    for (let i = 0; i < 2 * h.sackCount; i++) view.setInt32(at + 4 + 4 * i, h.sackEdges[i]!);
  }
}
